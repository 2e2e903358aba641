"""Bounds of sums on a lattice are above the distributions of the sums, and close to them."""

import math

import numpy as np
import pytest

from ldp.privacy_loss.lattice import Term, bound, split

COINS = Term(np.array([0, 1]), np.array([0.75, 0.25]), 30)
STEPS = Term(np.array([-1, 2]), np.array([0.5, 0.5]), 2)
LOWEST = -2
"""Least sum of all COINS and STEPS."""


@pytest.mark.exact
@pytest.mark.parametrize("step", [None, 0.5, 3.0])
def test_a_split_keeps_the_masses_under_both_values(step: float | None) -> None:
    places, masses = np.array([-1.75, 0.0, 0.25, 2.5]), np.array([0.1, 0.2, 0.3, 0.4])
    parts = split(places, masses, step)
    assert sorted(parts.places) == [-2, -1, 0, 0, 1, 2, 3]
    weights = [side if step is None else np.exp(-step * side) for side in (parts.places, places)]
    assert parts.masses.sum() == pytest.approx(1)
    assert parts.masses @ weights[0] == pytest.approx(masses @ weights[1])


@pytest.mark.exact
@pytest.mark.parametrize("tilt", [0.0, 0.7])
@pytest.mark.parametrize(("low", "size"), [(-4, 64), (-30, 64), (3, 16), (3, 8)])
def test_a_bound_is_above_the_sum_and_close(tilt: float, low: int, size: int) -> None:
    law = np.ones(1)
    for single in [[0.75, 0.25]] * 30 + [[0.5, 0, 0, 0.5]] * 2:
        law = np.convolve(law, single)
    places = LOWEST + np.arange(law.size)
    above = bound([COINS, STEPS], tilt, low, size)
    masses = np.exp(above.logarithms())
    for place, mass in zip(above.places, masses, strict=True):
        exact = float(law[places == place].sum())
        folded = (places - place) % size == 0  # sums outside of the window, in it by the transform
        close = float(law[folded] @ np.exp(tilt * (places[folded] - place)))
        error = 1e-12 * math.exp(above.scale - tilt * place)
        assert exact <= mass <= close * (1 + 1e-9) + error
    beyond = places >= low + size
    if not beyond.any():
        assert above.beyond == -math.inf
        return
    most = math.exp(above.beyond)
    assert law[beyond].sum() <= most <= 16 * law[beyond].sum() + 1e-9
    assert law[beyond] @ places[beyond] <= most * (low + size)
