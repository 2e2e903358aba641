"""The law of a mean sketch's error for a value that nobody holds: noise, and collisions.

A candidate's cells, one in each row, are named by S of the n reports. S is a sum over reports of
independent coins, "untouched" except for the reports whose value shares the cell, which are
"touched". Whether a value shares a cell is one coin a row, of probability 1 / width, for all its
reports there: with few rows, or heavy values, that makes the error skewed, and a normal tail far
too light. So the law is computed: the characteristic function in closed form, inverted by FFT.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp.channel import Channel
from ldp.estimates import Floats

SMALLEST_P = 1e-15
"""FFT rounding hides anything smaller."""
_REACH = 40.0
_MOST_POINTS = 1 << 20
_THETA = np.geomspace(1e-9, 30.0, 400)
"""Where Chernoff's bound is tried."""


@dataclass(frozen=True, eq=False)
class ErrorLaw:
    """P(S >= s) on an even grid: tails[i] at `start + i * step`, falling from 1 to 0.

    `skewed` takes what no known value explains for one heavy value, `mild` for many small ones; the
    truth lies between, so each side of an interval uses the law that reaches further there.
    `mean` and `std` are those of S.
    """

    start: float
    step: float
    skewed: Floats
    mild: Floats
    mean: float
    std: float

    def p_value(self, named: NDArray[np.int64]) -> Floats:
        """P(S >= named) for a value that nobody holds: float64, shape of `named`."""
        grid = self.start + self.step * np.arange(self.skewed.size)
        p: Floats = np.interp(named - 0.5, grid, self.skewed)
        return np.clip(p, SMALLEST_P, 1.0)

    def upper(self, p: float) -> float:
        """How many standard errors above its mean S lies with probability p."""
        return self._at(self.skewed, max(p, SMALLEST_P))

    def lower(self, p: float) -> float:
        """How many standard errors below its mean S lies with probability p."""
        return -self._at(self.mild, 1 - max(p, SMALLEST_P))

    def _at(self, tail: Floats, p: float) -> float:
        place = np.interp(-p, -tail, np.arange(tail.size))
        return float((self.start + self.step * place - self.mean) / self.std)


def error_law(
    channel: Channel,
    reports: int,
    *,
    rows: int = 1,
    width: float = math.inf,
    heavy: Sequence[float] = (),
    small_squares: float = 0.0,
    unknown: float = 0.0,
) -> ErrorLaw:
    """The law of S for a value nobody holds, for the population that the table itself shows.

    `rows`, `width`: of the sketch; an infinite width has no collisions. `heavy`: counts of values
    known to be held by many; `small_squares`: sum of squared counts of the other known values,
    whose collisions are many and therefore normal; `unknown`: sum of squared counts that no known
    value explains.

    With z = e**(it), the ratio of coins R(t) = (1 - p + p z) / (1 - q + q z), k rows, m columns:

        phi(t) = (1 - q + q z)**n  (1 + (R - 1)/m)**(n - heavy)  exp(small part)
                 product over the heavy c of [1 + (e**((R - 1) c / k) - 1) / m]**k
    """
    p, q = float(channel.touched), float(channel.untouched)
    mean = reports * (q + channel.gain / width)
    noise = reports * (q * (1 - q) + (p * (1 - p) - q * (1 - q)) / width)
    squares = math.fsum(count**2 for count in heavy) + small_squares + unknown
    variance = noise + (reports + squares / rows) * channel.gain**2 / width
    single = min(unknown**0.5, max(0.0, reports - math.fsum(heavy)))
    highest = _hardly_above(channel, reports, rows, width, [*heavy, single], small_squares)
    reach = max(_REACH * variance**0.5, highest - mean)
    step = max(1.0, np.floor(noise**0.5 / 4), np.ceil(2 * reach / _MOST_POINTS))
    wanted = 2 * reach / step + 64
    points = min(1 << int(np.ceil(np.log2(wanted))), _MOST_POINTS)
    start = np.floor(mean - points * step / 2)
    t = 2 * np.pi * np.arange(points // 2 + 1) / (points * step)
    z = np.exp(1j * t)
    base = 1 - q + q * z
    excess = (1 - p + p * z) / base - 1

    def tail(lumps: Sequence[float], small: float) -> Floats:
        rest = max(0.0, reports - math.fsum(lumps))
        log_phi = reports * np.log(base) + rest * np.log1p(excess / width) - 1j * t * start
        log_phi -= small / (rows * width) * (channel.gain * t) ** 2 / 2
        for count in lumps:
            log_phi += rows * np.log1p(np.expm1(excess * count / rows) / width)
        mass = np.fft.irfft(np.exp(log_phi).conj(), points)
        falling = np.append(mass[::-1].cumsum()[::-1], 0.0)
        return np.minimum.accumulate(np.clip(falling, 0.0, 1.0))

    return ErrorLaw(
        start=float(start) - step / 2,
        step=step,
        skewed=tail([*heavy, single], small_squares),
        mild=tail(heavy, small_squares + unknown),
        mean=mean,
        std=variance**0.5,
    )


def _hardly_above(
    channel: Channel,
    reports: int,
    rows: int,
    width: float,
    lumps: Sequence[float],
    small: float,
) -> float:
    """Above it S lies with probability SMALLEST_P at most: where noise is little and collisions are
    rare, that can be many standard errors away. Chernoff's bound, P(S >= s) <= e**(K(x) - x s) for
    every x > 0, with K(x) the logarithm of phi(-ix), the formula of `error_law`."""
    p, q, x = float(channel.touched), float(channel.untouched), _THETA
    base = 1 - q + q * np.exp(x)
    excess = (1 - p + p * np.exp(x)) / base - 1
    rest = max(0.0, reports - math.fsum(lumps))
    cumulant = reports * np.log(base) + rest * np.log1p(excess / width)
    cumulant += small / (rows * width) * (channel.gain * x) ** 2 / 2
    if math.isfinite(width):
        for count in lumps:
            collides = excess * count / rows - math.log(width)
            cumulant += rows * np.logaddexp(math.log1p(-1 / width), collides)
    return float(((cumulant - math.log(SMALLEST_P)) / x).min())
