"""Cost of a report that an independent party shuffled with those of other people.

The certified bound uses the distribution of the mechanism's reports, by the privacy blanket: every
report is, with some probability, independent of its value, and such reports hide the others (Balle,
Bell, Gascon and Nissim 2019, lemma 5.3). Closed forms that use only epsilon: Feldman, McMillan and
Talwar 2021, theorem 3.1, and 2023, theorem 3.2. All hold under three conditions that cannot be
checked here: the shuffler colludes with nobody, `reports` of the batch are honest, and a person
sent one of them. Reports of a person in several batches compose (`ldp.accounting.sequential`);
r reports in one batch are a group of r (`ldp.accounting.group`).
"""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
from scipy.optimize import brentq

from ldp.accounting.cost import Cost
from ldp.arrays import Floats
from ldp.errors import ParameterError
from ldp.mechanisms.base import Catalogued
from ldp.mechanisms.outcomes import Outcome, outcomes
from ldp.privacy_loss.composition import ROUNDED, WIDTH, compose
from ldp.privacy_loss.lattice import ROUNDING, bound, split
from ldp.protocol.channel import MAX_EPSILON

SIZE = 1 << 20
"""Number of points of the lattice; within 0.1 % in epsilon up to ten million reports."""
ROUGH = 1 << 17
"""Number of points for the first search, whose results are upper bounds too."""
CLOSE = 1e-4
"""Relative tolerance of the result above the smallest certified epsilon."""
WORK = 1 << 24
"""Largest product of classes and points: RAPPOR with many hashes has a coarser lattice."""


def shuffled_delta(
    mechanism: Catalogued, *, reports: int, epsilon: float, size: int = SIZE
) -> float:
    """Return an upper bound on delta at `epsilon` of one report, shuffled with `reports` - 1 more.

    With m(z) <= P(report z | x) for every value x, and Y = (P(z | a) - e**epsilon P(z | b)) / m(z)
    with probability m(z), else 0, delta <= E[(Y_1 + ... + Y_reports)_+] / reports, for any values
    of the other people. Each Y is put on a lattice with its mean preserved, the sum's distribution
    computed by a tilted transform; rounding and truncation are added. Raises ParameterError for
    fewer than one report or a negative epsilon. Time: under a second for 2**20 points (`size`, a
    power of 2).
    """
    _require_reports(reports)
    if not epsilon >= 0:
        raise ParameterError(f"epsilon must be >= 0, got {epsilon!r}")
    local = compose([(mechanism, 1)]).delta(epsilon)
    if not local or mechanism.cost.epsilon > MAX_EPSILON:
        return local
    classes = outcomes(mechanism)
    swapped = tuple(Outcome(second, first, blanket) for first, second, blanket in classes)
    sides = {frozenset(classes), frozenset(swapped)}
    return min(local, max(_blanket(tuple(side), reports, epsilon, size) for side in sides))


def amplify_by_shuffling(mechanism: Catalogued, *, reports: int, delta: float) -> Cost:
    """Return the smallest cost at `delta` that `shuffled_delta` certifies for one report shuffled
    with `reports` - 1 of other people, epsilon rounded up.

    It is the local cost where shuffling does not help. Conditions: see the module. Raises
    ParameterError for fewer than one report or a delta outside (0, 1). Time: about two seconds; six
    for RAPPOR with 16 hashes.

    >>> from ldp import HadamardCountMeanSketch
    >>> energy = HadamardCountMeanSketch(epsilon=4.0, rows=1024, width=32768, seed="00ff")
    >>> round(amplify_by_shuffling(energy, reports=100_000, delta=1e-6).epsilon, 3)
    0.082
    """
    _require_reports(reports)
    _require_delta(delta)
    local, target = mechanism.cost, math.log(delta)

    @cache
    def excess(epsilon: float, size: int) -> float:
        bound = shuffled_delta(mechanism, reports=reports, epsilon=epsilon, size=size)
        return max(-1e3, math.log(bound)) - target if bound else -1e3

    def fine_excess(epsilon: float) -> float:
        """Return `excess` on the fine lattice; add epsilon to `certified` if it is 0 or less."""
        logarithm = excess(epsilon, SIZE)
        if logarithm <= 0:
            certified.append(epsilon)
        return logarithm

    if local.epsilon > MAX_EPSILON:
        return local
    if excess(0.0, ROUGH) <= 0:
        return Cost(epsilon=0.0, delta=delta)
    certified = [local.epsilon]
    low = high = brentq(excess, 0.0, local.epsilon, (ROUGH,), xtol=1e-9, rtol=CLOSE)
    while fine_excess(high) > 0 and high < local.epsilon:
        low, high = high, 1.03 * high
    while low == high or (low > 1e-9 and fine_excess(low) <= 0):
        low *= 0.97 if low == high else 0.5
    if low < min(certified) < local.epsilon:
        fine_excess(brentq(fine_excess, low, min(certified), rtol=CLOSE) * (1 + CLOSE))
    epsilon = min(certified)
    return Cost(epsilon=epsilon, delta=delta) if epsilon < local.epsilon else local


def clones_2021(epsilon: float, *, reports: int, delta: float) -> float:
    """Return epsilon of a shuffled report of any mechanism of local `epsilon`, by the closed form
    of 2021:

        ln(1 + (x - 1) / (x + 1) (8 sqrt(x ln(4 / delta) / n) + 8 x / n)),   x = e**epsilon

    with n `reports`, for epsilon <= ln(n / (16 ln(4 / delta))); raises ParameterError for a larger
    one. (The paper's range has 2/delta and is slightly wider.)
    """
    x, n, tail = _closed_form(epsilon, reports, delta)
    _require_range(epsilon, n / (16 * tail), "2021")
    growth = (x - 1) / (x + 1) * (8 * math.sqrt(x * tail / n) + 8 * x / n)
    return math.log1p(growth) * (1 + 8 * ROUNDING)


def clones_2023(epsilon: float, *, reports: int, delta: float) -> float:
    """Return epsilon of a shuffled report of any mechanism of local `epsilon`, by the closed form
    of 2023:

        ln(1 + (x - 1) (4 sqrt(2 ln(4 / delta) / ((x + 1) n)) + 4 / n)),   x = e**epsilon

    with n `reports`, for epsilon <= ln(n / (8 ln(4 / delta)) - 1); raises ParameterError for a
    larger one.
    """
    x, n, tail = _closed_form(epsilon, reports, delta)
    _require_range(epsilon, n / (8 * tail) - 1, "2023")
    growth = (x - 1) * (4 * math.sqrt(2 * tail / ((x + 1) * n)) + 4 / n)
    return math.log1p(growth) * (1 + 8 * ROUNDING)


def _blanket(classes: tuple[Outcome, ...], reports: int, epsilon: float, size: int) -> float:
    """Return E[(Y_1 + ... + Y_reports)_+] / reports, rounded up."""
    ratios = np.array([[float(p / m), float(q / m)] for p, q, m in classes])
    scaled = math.exp(epsilon) * ratios[:, 1]
    gaps = ratios[:, 0] - scaled + 8 * ROUNDING * (ratios[:, 0] + scaled)  # upwards
    values = np.append(gaps, 0.0)
    remainder = 1 - sum((outcome.blanket for outcome in classes), Fraction(0))
    masses = np.append([float(outcome.blanket) for outcome in classes], float(remainder))
    most = float(values.max())
    if most <= 0:
        return 0.0
    tilt = _centring(values / most, masses) / most
    weights = masses * np.exp(tilt * (values - most))
    weights /= weights.sum()
    mean = float(weights @ values)
    spread = math.sqrt(reports * float(weights @ (values - mean) ** 2))
    reach = WIDTH * spread + 2 * most
    bottom = reports * max(mean - reach / reports, float(values.min()))
    top = reports * min(mean + reach / reports, most)
    size = min(size, 1 << (WORK // len(values)).bit_length() - 1)
    step = (top - bottom) / (size - 8)
    places = np.maximum(values / step, -(2.0**50))  # upwards, where no lattice reaches
    report = replace(split(places, masses), count=reports)
    law = bound([report], tilt * step, math.floor(bottom / step) - 2, size)
    is_positive = law.places > 0
    sums = law.places[is_positive] * step
    with np.errstate(over="ignore"):
        mean = float(sums @ np.exp(law.logarithms()[is_positive]))
        mean += (law.low + size) * step * float(np.exp(law.beyond))
    return mean / reports * ROUNDED


def _centring(values: Floats, masses: Floats) -> float:
    """Return the tilt that makes the mean of the values, which is negative, 0; their maximum is
    1."""
    low, high = 0.0, 4 * MAX_EPSILON
    for _ in range(60):
        tilt = (low + high) / 2
        mean = float((masses * values) @ np.exp(tilt * (values - 1)))
        low, high = (tilt, high) if mean < 0 else (low, tilt)
    return tilt


def _closed_form(epsilon: float, reports: int, delta: float) -> tuple[float, int, float]:
    """Return e**epsilon, `reports` and ln(4 / delta); raise ParameterError if one is out of
    range."""
    _require_reports(reports)
    _require_delta(delta)
    if not 0 <= epsilon <= MAX_EPSILON:
        raise ParameterError(f"epsilon must be from 0 to {MAX_EPSILON:g}, got {epsilon!r}")
    return math.exp(epsilon), reports, math.log(4 / delta)


def _require_range(epsilon: float, most: float, year: str) -> None:
    if most < 1 or epsilon > math.log(most):
        limit = f"epsilon is at most {math.log(most):.3g}" if most > 1 else "there are more reports"
        raise ParameterError(
            f"the closed form of {year} holds only where {limit} for so many reports at this delta"
        )


def _require_reports(reports: int) -> None:
    if type(reports) is not int or not 1 <= reports <= 10**12:
        raise ParameterError(f"reports must be a whole number from 1 to 10**12, got {reports!r}")


def _require_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ParameterError(f"delta must lie strictly between 0 and 1, got {delta!r}")
