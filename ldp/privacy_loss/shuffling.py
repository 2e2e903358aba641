"""Cost of a report that an independent party shuffled with those of other people.

The certified bound uses the distribution of the mechanism's reports, by the privacy blanket: every
report is, with some probability, independent of its value, and such reports hide the others (Balle,
Bell, Gascon and Nissim 2019, lemma 5.3). A closed form that uses only epsilon: Feldman, McMillan
and Talwar 2023, theorem 3.2. Both hold under three conditions that cannot be checked here: the
shuffler colludes with nobody, `reports` of the batch are honest, and a person sent one of them.
Fresh reports of a person in several batches compose (`compose_shuffled`). In one batch r reports
are a group of r (`ldp.accounting.group`). Of a mechanism that is not in the catalogue only its
epsilon may be known (`AnyMechanism`): its reports are mixtures of clones (Feldman, McMillan and
Talwar 2021, section 4.1), whose blanket is summed as any other.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from typing import ClassVar

import numpy as np

from ldp.accounting.bisection import bisect, least_number
from ldp.accounting.cost import Cost
from ldp.accounting.cost_composition import sequential
from ldp.arrays import Floats
from ldp.errors import ParameterError, require_positive, require_share
from ldp.mechanisms.base import CatalogueMechanism
from ldp.mechanisms.dummies import Dummies
from ldp.mechanisms.outcomes import Outcome, Outcomes, outcomes
from ldp.privacy_loss.composition import ROUNDED, WIDTH, Composed, Losses, losses_of, require_fresh
from ldp.privacy_loss.lattice import ROUNDING, bound, split
from ldp.privacy_loss.shuffled_dummies import DummyMessages
from ldp.protocol.channel import MAX_EPSILON, require_whole, round_up

SIZE = 1 << 20
"""Number of points of the lattice. The error is within 0.1 % in epsilon up to ten million
reports."""
ROUGH = 1 << 17
"""Number of points for the first search, whose results are upper bounds too."""
MOST_LOCAL = 16.0
"""Largest epsilon of a report that is tried in a shuffled batch."""
CLOSE = 1e-4
"""Relative tolerance of the result above the smallest certified epsilon."""
WORK = 1 << 24
"""Largest product of classes and points: RAPPOR with many hashes has a coarser lattice."""
COARSE = 1 << 14
"""Number of points for each epsilon of a profile, for up to 100,000 reports."""
FINER = 48
"""Number of points, for more reports, over the root of their number: as the error asks for."""
MOST_REPORTS = 10**12
"""Largest number of reports of a batch."""
MOST_SIZES = 8
"""Number of sizes of batches that are composed as they are. Where there are more, most are rounded
down."""
SIZES, MOST_ROUNDED = 1.05, 24
"""Least ratio of two sizes to which batches are then rounded down, and largest number of ratios."""


@dataclass(frozen=True)
class AnyMechanism:
    """Mechanism of which nothing is known but its pure `epsilon` of one report, > 0."""

    epsilon: float
    name: ClassVar[str] = "any"
    is_memoisable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_positive(self.epsilon, "epsilon")

    @property
    def cost(self) -> Cost:
        """Cost of one report."""
        return Cost(epsilon=self.epsilon)


Shuffled = CatalogueMechanism | AnyMechanism | DummyMessages
"""Mechanism of a shuffled report, or of the messages of a person."""


@dataclass(frozen=True)
class ShuffledComposition(Composed):
    """Composition of the batches with fresh reports of one person: `batches`, pairs of a mechanism
    and the honest reports in a batch, with the number of such batches. `per_person`: reports of the
    person in each. `compose_shuffled` returns it."""

    batches: tuple[tuple[tuple[Shuffled, int], int], ...]
    per_person: int = 1

    @cached_property
    def pure(self) -> Cost:
        """Cost to whoever sees the reports before they are shuffled, delta 0."""
        if any(math.isinf(kind.cost.epsilon) for (kind, _), _ in self.batches):
            return Cost(epsilon=math.inf)
        exact = (number * Fraction(kind.cost.epsilon) for (kind, _), number in self.batches)
        return Cost(epsilon=round_up(self.per_person * sum(exact, Fraction(0))))

    @cached_property
    def losses(self) -> Mapping[Losses, int]:
        """Losses of each kind of batch, and the number of these."""
        counts: Counter[Losses] = Counter()
        for (mechanism, reports), number in self.batches:
            counts[_losses(mechanism, reports, self.per_person)] += number
        return counts

    def added(self, delta: float) -> Cost:
        """Return the sum of the batches' costs, each at this `delta` in (0, 1): what composition
        improves."""
        return sequential(
            cost
            for kind, number in self.batches
            for cost in [ShuffledComposition(((kind, 1),), self.per_person).at(delta)] * number
        )


def compose_shuffled(
    batches: Iterable[tuple[Shuffled, int, int]], *, per_person: int = 1, is_fresh: bool = False
) -> ShuffledComposition:
    """Return the composition of `batches` with reports of one person, each shuffled by itself:
    (mechanism, honest reports in a batch, number of such batches).

    Its `at(delta)` is an upper bound, never above the sum of the local epsilons: delta of a batch
    is certified at 33 epsilons (`shuffled_delta`), and the losses that lie above the chords between
    these add. Conditions: see the module. The numbers must not depend on what the reports say, and
    each report must be drawn anew. The sizes of more than 8 kinds of batches are rounded down: by
    up to 5 %, or to 25 sizes where the largest is more than three times the smallest. Raises
    ParameterError for numbers that are not whole or below 1, and for several reports of a memoised
    mechanism unless `is_fresh`. Time: a second for each size, up to 15 from 10**8 reports on.

    >>> from ldp import HadamardCountMeanSketch
    >>> energy = HadamardCountMeanSketch(epsilon=4.0, rows=1024, width=32768, seed="00ff")
    >>> year = compose_shuffled([(energy, 100_000, 365)])
    >>> year.pure.epsilon, round(year.at(delta=1e-6).epsilon, 2)
    (1460.0, 1.94)
    """
    counts: Counter[tuple[Shuffled, int]] = Counter()
    for mechanism, reports, number in batches:
        require_whole(reports, "reports", 1, MOST_REPORTS)
        for count in (number, per_person):
            require_whole(count, "a number of batches or reports", 1, MOST_REPORTS)
        counts[mechanism, reports] += number
    totals: Counter[Shuffled] = Counter()
    for (mechanism, _), number in counts.items():
        totals[mechanism] += number * per_person
    for mechanism, total in totals.items():
        require_fresh(mechanism, total, is_fresh)
    if len(counts) > MOST_SIZES:
        counts = _rounded_down(counts)
    return ShuffledComposition(tuple(counts.items()), per_person)


def _rounded_down(counts: Counter[tuple[Shuffled, int]]) -> Counter[tuple[Shuffled, int]]:
    """Return the batches with their sizes rounded down to one of a few: a report among more people
    is protected no less, since anybody can add reports to a batch."""
    least, most = (edge(reports for _, reports in counts) for edge in (min, max))
    ratio = max(SIZES, (most / least) ** (1 / MOST_ROUNDED))
    steps = math.ceil(math.log(most / least, ratio))
    sizes = sorted({math.ceil(least * ratio**step) for step in range(steps + 1)})
    rounded: Counter[tuple[Shuffled, int]] = Counter()
    for (mechanism, reports), number in counts.items():
        rounded[mechanism, sizes[bisect_right(sizes, reports) - 1]] += number
    return rounded


def _coarse(reports: int) -> int:
    """Return the number of points of a lattice for a profile: splitting between points adds to the
    variance of a report's share what the square of a step is."""
    return min(SIZE, max(COARSE, 1 << math.ceil(math.log2(FINER * math.sqrt(reports)))))


@lru_cache(maxsize=64)
def _losses(mechanism: Shuffled, reports: int, per_person: int) -> Losses:
    """Return the losses of a batch with `per_person` reports of the person, replaced one after the
    other: delta of r epsilon is at most delta of epsilon times 1 + e**epsilon + ... +
    e**((r - 1) epsilon)."""

    def delta(epsilon: float) -> float:
        share = epsilon / per_person * (1 - 2**-50)
        single = shuffled_delta(mechanism, reports=reports, epsilon=share, size=_coarse(reports))
        return single * math.fsum(math.exp(rank * share) for rank in range(per_person)) * ROUNDED

    return losses_of(delta, per_person * mechanism.cost.epsilon)


def shuffled_delta(mechanism: Shuffled, *, reports: int, epsilon: float, size: int = SIZE) -> float:
    """Return an upper bound on delta at `epsilon` of one report, shuffled with `reports` - 1 more.

    With m(z) <= P(report z | x) for every value x, and Y = (P(z | a) - e**epsilon P(z | b)) / m(z)
    with probability m(z), else 0, delta <= E[(Y_1 + ... + Y_reports)_+] / reports, for any values
    of the other people. Each Y is put on a lattice with its mean preserved, the sum's distribution
    computed by a tilted transform. Rounding and truncation are added. Raises ParameterError for
    fewer than one report, a negative epsilon, and a number of points `size` that is no power of 2
    from 16 to 2**24. Time: under a second for 2**20 points.
    """
    require_whole(reports, "reports", 1, MOST_REPORTS)
    require_whole(size, "size", 16, 1 << 24)
    if size & (size - 1):
        raise ParameterError(f"size must be a power of 2, got {size}")
    if not epsilon >= 0:
        raise ParameterError(f"epsilon must be >= 0, got {epsilon!r}")
    if isinstance(mechanism, Dummies):
        mechanism = DummyMessages.of(mechanism)
    if isinstance(mechanism, DummyMessages):
        return mechanism.delta(epsilon, reports=reports)
    local = mechanism.cost.epsilon
    if epsilon >= local or local > MAX_EPSILON:
        return float(epsilon < local)
    sides = set[frozenset[Outcome]]()
    for classes in _classes(mechanism):
        swapped = (Outcome(second, first, blanket) for first, second, blanket in classes)
        sides |= {frozenset(classes), frozenset(swapped)}
    return min(1.0, max(_blanket(tuple(side), reports, epsilon, size) for side in sides))


def amplify_by_shuffling(mechanism: Shuffled, *, reports: int, delta: float) -> Cost:
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
    require_whole(reports, "reports", 1, MOST_REPORTS)
    require_share(delta, "delta")
    if isinstance(mechanism, Dummies):
        mechanism = DummyMessages.of(mechanism)
    if isinstance(mechanism, DummyMessages):
        return mechanism.shuffled_cost(reports=reports, delta=delta)
    local, target = mechanism.cost, math.log(delta)

    @cache
    def excess(epsilon: float, size: int) -> float:
        bound = shuffled_delta(mechanism, reports=reports, epsilon=epsilon, size=size)
        return max(-1e3, math.log(bound)) - target if bound else -1e3

    def fine_excess(epsilon: float) -> float:
        """Return `excess` on the fine lattice. Adds epsilon to `certified` if it is 0 or less."""
        logarithm = excess(epsilon, SIZE)
        if logarithm <= 0:
            certified.append(epsilon)
        return logarithm

    if local.epsilon > MAX_EPSILON:
        return local
    if excess(0.0, ROUGH) <= 0:
        return Cost(epsilon=0.0, delta=delta)
    from scipy.optimize import brentq

    certified = [local.epsilon]
    low = high = brentq(excess, 0.0, local.epsilon, (ROUGH,), xtol=1e-9, rtol=CLOSE)
    while fine_excess(high) > 0 and high < local.epsilon:
        low, high = high, 1.03 * high
    while low == high or (low > 1e-9 and fine_excess(low) <= 0):
        low *= 0.97 if low == high else 0.5
    if low < min(certified) * (1 - CLOSE):
        fine_excess(brentq(fine_excess, low, min(certified), rtol=CLOSE) * (1 + CLOSE))
    epsilon = min(certified)
    return Cost(epsilon=epsilon, delta=delta) if epsilon < local.epsilon else local


def honest_reports(*sizes: int, fakes: Fraction = Fraction(0)) -> int:
    """Return the least number of honest reports in a batch: the smallest of the `sizes` that are
    known of it (what a relay attests, what a collector opened) less a share `fakes` of the largest,
    because all fakes may be in it. It is at least 1, the person's own. Raises ParameterError for a
    negative size and a share outside [0, 1)."""
    if min(sizes) < 0 or not 0 <= fakes < 1:
        raise ParameterError("sizes of batches are 0 or more, and a share of fakes is below 1")
    return max(1, min(sizes) - math.ceil(max(sizes) * fakes))


def least_reports(
    mechanism: Shuffled, *, epsilon: float, delta: float, fakes: Fraction = Fraction(0)
) -> int:
    """Return the least size of a batch, to 1 %, whose reports are certified to cost `epsilon` at
    most, at this `delta`, where a share `fakes` of them may be fake. Raises ParameterError for an
    `epsilon` that is not above 0, a delta outside (0, 1), a share outside [0, 1), and where a
    million million reports are too few. Time: some seconds."""
    require_share(delta, "delta")
    if not (epsilon > 0 and 0 <= fakes < 1):
        raise ParameterError(f"epsilon must be > 0 and 0 <= fakes < 1, got {epsilon!r} and {fakes}")

    def suffices(reports: int) -> bool:
        size = _coarse(reports)
        return shuffled_delta(mechanism, reports=reports, epsilon=epsilon, size=size) <= delta

    reports = least_number(suffices, MOST_REPORTS)
    if reports is None:
        raise ParameterError(f"no batch is certified to have epsilon {epsilon:g} at this delta")
    return math.ceil(reports / (1 - fakes))


def largest_shuffled(
    chosen: Callable[[float], Shuffled], users: int, epsilon: float, delta: float
) -> float:
    """Return the largest epsilon of a report, in steps of 1/100, up to which a batch of the
    mechanism `chosen` for it is certified to have `epsilon`. It is at least `epsilon` itself and at
    most `MOST_LOCAL`."""

    def exceeds(steps: int) -> bool:
        larger = round(epsilon + steps / 100, 9)
        if larger > MOST_LOCAL:
            return True
        return shuffled_delta(chosen(larger), reports=users, epsilon=epsilon, size=ROUGH) > delta

    steps = least_number(exceeds, math.ceil(MOST_LOCAL * 100) + 1)
    return round(epsilon + ((steps or 1) - 1) / 100, 9)


@lru_cache(maxsize=8)
def _classes(mechanism: CatalogueMechanism | AnyMechanism) -> tuple[Outcomes, ...]:
    """Return the classes of reports with their blanket. For `AnyMechanism` a pair of values is told
    apart as the two answers to one question at its epsilon, and each other value is reported as
    either of the two with probability e**-epsilon, half for each."""
    if not isinstance(mechanism, AnyMechanism):
        return outcomes(mechanism)
    ratio = Fraction(math.exp(min(mechanism.epsilon, MAX_EPSILON)) * (1 + 2**-50))
    p, q, blanket = ratio / (ratio + 1), 1 / (ratio + 1), 1 / (2 * ratio)
    return ((Outcome(p, q, blanket), Outcome(q, p, blanket)),)


def _blanket(classes: Outcomes, reports: int, epsilon: float, size: int) -> float:
    """Return E[(Y_1 + ... + Y_reports)_+] / reports, rounded up."""
    ratios = np.array([[float(p / m), float(q / m)] for p, q, m in classes])
    scaled = math.exp(epsilon) * ratios[:, 1]
    # upwards
    gaps = ratios[:, 0] - scaled + 8 * ROUNDING * (ratios[:, 0] + scaled)
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
    # upwards, where no lattice reaches
    places = np.maximum(values / step, -(2.0**50))
    report = replace(split(places, masses), count=reports)
    law = bound([report], tilt * step, math.floor(bottom / step) - 2, size)
    is_positive = law.places > 0
    sums = law.places[is_positive] * step
    with np.errstate(over="ignore"):
        mean = float(sums @ np.exp(law.logarithms()[is_positive]))
        mean += (law.low + size) * step * float(np.exp(law.beyond))
    return mean / reports * ROUNDED


def _centring(values: Floats, masses: Floats) -> float:
    """Return the tilt that makes the mean of the values, which is negative, 0. Their maximum is
    1."""

    def is_below(tilt: float) -> bool:
        return float((masses * values) @ np.exp(tilt * (values - 1))) < 0

    return sum(bisect(is_below, 0.0, 4 * MAX_EPSILON, steps=59)) / 2
