"""Intervals of a mean hold for any number of reports, by enumeration of all outcomes."""

import numpy as np
import pytest
from scipy.stats import norm

from ldp import OneBitMean, Piecewise
from ldp.arrays import Floats
from ldp.mechanisms.numeric import Numeric
from ldp.server import Table, decode_mean
from tests.tiers import tiered

POPULATIONS = (((0, 1.0),), ((1, 1.0),), ((0, 0.5), (1, 0.5)), ((0, 0.97), (1, 0.03)))
"""Populations: places in the range, and the shares of people there."""


def _sums(mechanism: Numeric, population: tuple[tuple[int, float], ...], reports: int) -> Floats:
    """Return the law of the sum of the reports' bins."""
    q, gain = float(mechanism.channel.untouched), mechanism.channel.gain
    bins, width = mechanism.bins, mechanism.width
    one = np.full(bins, q)
    for place, share in population:
        start = place * mechanism.addressing.steps
        one[start : start + width] += share * gain
    law: Floats = np.ones(1)
    for _ in range(reports):
        law = np.convolve(law, one)
    return law


def _with_sum(mechanism: Numeric, reports: int, total: int) -> Table:
    """Return a table whose bins add to `total`, as alike as they can be."""
    counts = np.zeros((1, mechanism.bins), dtype=np.uint32)
    low, more = divmod(total, reports)
    counts[0, low] += reports - more
    counts[0, min(low + 1, mechanism.bins - 1)] += more
    return Table(mechanism, counts, np.array([reports]))


@pytest.mark.exact
@pytest.mark.parametrize("reports", tiered([1, 2, 10, 40], 3))
@pytest.mark.parametrize("epsilon", [0.5, 4.0, 8.0])
@pytest.mark.parametrize("kind", ["one bit", "windows"])
def test_the_interval_of_few_reports_holds(kind: str, epsilon: float, reports: int) -> None:
    """Intervals hold in 95 % or more, also where people hold two different numbers.

    The twin, a normal interval of a single report, holds in a tenth where half of the people hold 0
    and half 10.
    """
    bounds = (0.0, 10.0)
    mechanism: Numeric = OneBitMean(bounds=bounds, epsilon=epsilon)
    if kind == "windows":
        mechanism = Piecewise(bounds=bounds, epsilon=epsilon, bins=64)
    totals = range(reports * (mechanism.bins - 1) + 1)
    estimates = [decode_mean(_with_sum(mechanism, reports, total)) for total in totals]
    low, high = np.array([estimate.interval(0.95) for estimate in estimates]).T
    for population in POPULATIONS:
        truth = 10 * sum(place * share for place, share in population)
        law = _sums(mechanism, population, reports)
        inside = (low <= truth + 1e-9) & (truth - 1e-9 <= high)
        assert float(law[inside].sum()) > 0.95 - 1e-9
    if (kind, epsilon, reports) == ("windows", 8.0, 1):
        reach = norm.isf(0.025) * np.array([estimate.std_error for estimate in estimates])
        mean = np.array([estimate.mean for estimate in estimates])
        law = _sums(mechanism, POPULATIONS[2], reports)
        assert law[(mean - reach <= 5) & (mean + reach >= 5)].sum() < 0.1


def _quiet_tables(rare: float, reports: int) -> list[Table]:
    """Return 600 tables of people at 0, but a share `rare` at 1, by hardly any noise."""
    mechanism = Piecewise(bounds=(0.0, 1.0), epsilon=12.0, bins=64)
    law = np.full(64, float(mechanism.channel.untouched))
    for start, share in ((0, 1 - rare), (mechanism.addressing.steps, rare)):
        law[start : start + mechanism.width] += share * mechanism.channel.gain
    drawn = np.random.default_rng(1).multinomial(reports, law / law.sum(), size=600)
    return [Table(mechanism, row[None].astype(np.uint32), np.array([reports])) for row in drawn]


@pytest.mark.parametrize(("rare", "reports"), [(0.005, 150), (0.02, 100), (0.01, 300), (0.02, 400)])
def test_the_interval_holds_where_noise_is_small_and_large_numbers_are_rare(
    rare: float, reports: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin, a normal interval about the mean itself, held in half to nine tenths."""
    tables = _quiet_tables(rare, reports)

    def coverage() -> float:
        ends = np.array([decode_mean(table).interval() for table in tables])
        return float(((ends[:, 0] <= rare) & (rare <= ends[:, 1])).mean())

    assert coverage() > 0.93
    honest = decode_mean(tables[0]).under_fakes(0.1).interval()
    low, high = decode_mean(tables[0]).interval()
    assert honest[0] <= low < high <= honest[1]
    monkeypatch.setattr("ldp.decoding.means.QUIET", 0.0)
    assert coverage() < 0.93


@pytest.mark.parametrize(("rare", "level"), [(0.0, 0.5), (0.002, 0.5), (0.0, 0.8), (0.0, 0.999)])
def test_intervals_of_all_levels_hold_where_noise_is_small(
    rare: float, level: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twins add two reports at either bound at every level, or as many as the level has
    squared errors: the interval of a low or a high level lies beside a mean at the bound."""
    tables = _quiet_tables(rare, 130)

    def coverage() -> float:
        ends = np.array([decode_mean(table).interval(level) for table in tables])
        return float(((ends[:, 0] <= rare) & (rare <= ends[:, 1])).mean())

    assert coverage() > level - 0.01
    added = norm.isf((1 - level) / 2) ** 2 / 2 if level > 0.9 else 2.0
    monkeypatch.setattr(
        "ldp.decoding.means._nearer_to_middle",
        lambda place, reports, _=2.0: (
            (reports * min(max(place, 0.0), 1.0) + added) / (reports + 2 * added)
        ),
    )
    assert coverage() < 0.5
