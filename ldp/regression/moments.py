"""Moments of a regression with noise, which a curator or the devices added."""

import math
from dataclasses import dataclass

from ldp.arrays import Floats


@dataclass(frozen=True, kw_only=True)
class Scales:
    """Standard deviations of the noise on every entry of the whole X'X, of X'y, and on the
    smallest eigenvalue (infinite: it is not released)."""

    xx: float
    xy: float
    eigenvalue: float = math.inf


@dataclass(frozen=True, eq=False)
class Moments:
    """Released moments: X'X (symmetric), X'y, the smallest eigenvalue of X'X (None where it was not
    released), and the scales of their noise. Everything computed from them is free."""

    xx: Floats
    xy: Floats
    eigenvalue: float | None
    scales: Scales
