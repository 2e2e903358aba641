"""Intervals hold whatever a share of the reports say, by enumeration and under attack."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from ldp.arrays import Floats
from ldp.decoding.binomials import BinomialBounds
from ldp.decoding.means import decode_mean
from ldp.errors import ParameterError
from ldp.mechanisms import (
    CountMeanSketch,
    Dummies,
    JointReport,
    Mechanism,
    OneBitMean,
    RandomizedResponse,
    UnaryEncoding,
)
from ldp.server import decode
from ldp.simulation import Population
from ldp.simulation.tables import draw_people_table, draw_table, draw_tables
from ldp.tables.estimates import Estimates
from ldp.tables.fakes import damage_words, fake_reports
from ldp.tables.table import Table
from tests.small_mechanisms import rr, unary

LEVEL = 0.95
SHARES = (0.001, 0.01, 0.05)
VALUES = ("a", "b", "c")
CHANNELS = (rr(3, 0.5), rr(40, 2.0), rr(3, 6.0), unary(1.0))


def _bounds(mechanism: Mechanism, reports: int, fakes: int) -> BinomialBounds:
    seen = np.arange(reports + 1)
    count = mechanism.support.holders(seen, reports)
    return BinomialBounds(seen, reports, mechanism.support, count, fakes=fakes)


def _named(mechanism: Mechanism, honest: int, held: int) -> Floats:
    """Return the exact law of the number of honest reports that name a cell."""
    p, q = float(mechanism.support.touched), float(mechanism.support.untouched)
    own, others = np.arange(held + 1), np.arange(honest - held + 1)
    law: Floats = np.convolve(binom.pmf(own, held, p), binom.pmf(others, honest - held, q))
    return law


@pytest.mark.exact
@pytest.mark.parametrize("mechanism", CHANNELS, ids=lambda each: f"{each.name}-{each.epsilon:g}")
@pytest.mark.parametrize(("reports", "fakes"), [(40, 2), (300, 15), (2000, 20)])
def test_an_interval_holds_under_the_best_attack_there_is(
    mechanism: Mechanism, reports: int, fakes: int
) -> None:
    """The attacker sees all honest reports, and then adds from 0 to all fakes that name the value.

    If with some number the interval leaves the honest count out, the attacker chooses it; all are
    enumerated. The twin, an interval that takes all reports for honest, fails in 95 % of the tables
    or more at epsilon 6.
    """
    honest = reports - fakes
    ends = _bounds(mechanism, reports, fakes)(1 - LEVEL, False)
    plain = _bounds(mechanism, reports, 0)(1 - LEVEL, False)
    worst = []
    for held in sorted({0, 1, honest // 10, honest // 2, honest}):
        law, covered = _named(mechanism, honest, held), {}
        for name, (low, high) in (("wide", ends), ("plain", plain)):
            holds = (low <= held) & (held <= high)
            reached = np.array([holds[s : s + fakes + 1].all() for s in range(honest + 1)])
            covered[name] = float(law[reached].sum())
        assert covered["wide"] > LEVEL - 1e-3
        worst.append(covered["plain"])
    if reports == 2000 and mechanism is CHANNELS[2]:
        assert min(worst) < 0.05


@pytest.mark.exact
@pytest.mark.parametrize(("reports", "fakes"), [(40, 2), (2000, 20)])
def test_an_interval_of_a_population_holds_under_the_best_attack(reports: int, fakes: int) -> None:
    """The honest reporters are drawn from a population: means of one bit, and buckets.

    The twin, an interval that takes all reports for honest, fails likewise.
    """
    mechanism, honest = rr(2, 6.0), reports - fakes
    p, q = float(mechanism.support.touched), float(mechanism.support.untouched)
    for share in (0.0, 0.05, 0.5, 1.0):
        law = binom.pmf(np.arange(honest + 1), honest, q + share * (p - q))
        covered = []
        for number in (fakes, 0):
            low, high = _bounds(mechanism, reports, number)(1 - LEVEL, True)
            holds = (low <= share * reports) & (share * reports <= high)
            reached = [bool(holds[s : s + fakes + 1].all()) for s in range(honest + 1)]
            covered.append(float(law[reached].sum()))
        assert covered[0] > LEVEL - 1e-9
        if share == 0.05 and reports == 2000:
            assert covered[1] < 0.7


@pytest.mark.exact
@pytest.mark.parametrize("way", [0, 1])
def test_people_with_several_reports_hold_under_fakes(way: int) -> None:
    """Each of 300 people sends 20 reports that do not lie, and 10 % of all are made up: all for the
    value, or none. The twin squares distances that have the shift of made-up reports in them."""
    people, each, fakes, covered, twin = 300, 20, 666, 0.0, 0.0
    total, holders = people * each + fakes, np.arange(people + 1)
    bit = OneBitMean(bounds=(0.0, 1.0), epsilon=40.0)
    for held, chance in zip(holders.tolist(), binom.pmf(holders, people, 0.5), strict=True):
        upper = held * each + way * fakes
        counts = [[total - upper, upper]]
        found = decode(Table.from_counts(rr(2, 40.0), counts, total)).under_fakes(0.1)
        assert isinstance(found, Estimates)
        ends = np.array(found.at(reports_per_person=each).interval(LEVEL, population=True))[:, 1]
        mean = decode_mean(Table.from_counts(bit, counts, total)).under_fakes(0.1)
        low, high = mean.at(reports_per_person=each).interval(LEVEL)
        covered += chance * bool(max(ends[0] / total, low) <= 0.5 <= min(ends[1] / total, high))
        once = np.array(found.interval(LEVEL, population=True))[:, 1]
        away = np.sqrt((once - found.count[1]) ** 2 + 1.96**2 * (each - 1) * total / 4)
        twin += chance * bool(abs(total / 2 - found.count[1]) <= away[1 - way])
    assert covered > LEVEL - 1e-3
    assert twin < 0.9 or not way


@pytest.mark.exact
@pytest.mark.parametrize(
    ("mechanism", "people", "fakes"),
    [
        (CountMeanSketch(epsilon=3.0, rows=64, width=128), 20_000, 2_222),
        (Dummies(categories=VALUES, slots=4, probability=0.5), 2_000, 105),
    ],
)
def test_a_population_is_of_as_many_reports_also_under_fakes(
    mechanism: Mechanism, people: int, fakes: int
) -> None:
    """The made-up reports name another value; a count of the honest ones alone is too small."""
    generator, held = np.random.default_rng(1), []
    for _ in range(40):
        holders = int(generator.binomial(people, 0.5))
        counts = np.array([holders, people - holders, fakes])
        table: Any = draw_people_table(mechanism, Population(VALUES, counts=counts), generator)
        found = decode(table, VALUES).under_fakes(fakes / (people + fakes))
        assert isinstance(found, Estimates)
        _, high = found.interval(LEVEL, population=True)
        held.append(high[0] >= (people + fakes) / 2)
    # one-sided: at most 2.5 % miss; 6 of 40 do with probability 5e-4
    assert sum(held) > 40 - 6


@pytest.mark.exact
@pytest.mark.parametrize("mechanism", CHANNELS, ids=lambda each: f"{each.name}-{each.epsilon:g}")
def test_an_interval_is_the_union_over_all_that_fakes_can_be(mechanism: Mechanism) -> None:
    """Every number of fakes up to the largest is tried, and every number of those that name the
    value."""
    reports, fakes = 60, 6
    low, high = _bounds(mechanism, reports, fakes)(1 - LEVEL, False)
    for seen in (0, 3, 20, 41, 57, 60):
        ends = list[Any]()
        for number in range(fakes + 1):
            honest = reports - number
            plain = _bounds(mechanism, honest, 0)(1 - LEVEL, False)
            at = [s for s in range(seen - number, seen + 1) if 0 <= s <= honest]
            ends.append(np.clip([plain[0][at].min(), plain[1][at].max()], 0, honest) if at else [])
        least = min(end[0] for end in ends if len(end))
        most = max(end[1] for end in ends if len(end))
        assert np.clip(low[seen], 0, reports) == pytest.approx(least, abs=1e-4)
        # it may end between two numbers of honest reports that all hold the value
        assert most - 1e-4 <= np.clip(high[seen], 0, reports) <= most + 1


@pytest.mark.exact
@pytest.mark.parametrize("share", SHARES)
def test_an_interval_is_no_wider_than_sampling_and_the_worst_shift(share: float) -> None:
    """The width is at most 1.02 times that without fakes, plus what they move it to both sides."""
    n = 100_000
    for mechanism in CHANNELS:
        k = fake_reports(n, share)
        seen = np.array([round(n * float(mechanism.support.untouched)), n // 2])
        count = mechanism.support.holders(seen, n)
        widths = []
        for fakes in (0, k):
            low, high = BinomialBounds(seen, n, mechanism.support, count, fakes=fakes)(0.05, False)
            widths.append(high - low)
        assert (widths[1] <= 1.02 * widths[0] + k / mechanism.support.gain).all()


@pytest.mark.exact
def test_a_share_is_a_whole_number_of_reports_rounded_down() -> None:
    assert [fake_reports(100, share) for share in (0.29, 0.07, 0.001, 0)] == [29, 7, 0, 0]
    for share in (-0.1, 0.51, float("nan")):
        with pytest.raises(ParameterError, match="0 to 50 %"):
            fake_reports(100, share)


@pytest.mark.statistical
@pytest.mark.parametrize(("share", "holds"), [(0.05, True), (None, False)])
def test_intervals_of_a_member_of_a_joint_metric_hold(share: float | None, holds: bool) -> None:
    """Every report has a part of each member, so no more parts than reports are made up.

    500 of 10,400 reports name the first value of both members. It fails falsely with probability
    1e-6; the twin takes all as honest.
    """
    joint = JointReport(of=(rr(3, 2.0), unary(2.0)))
    values: Any = [*product("012", repeat=2)]
    held = np.full(9, 1100)
    tables: Any = draw_tables(joint, values, held, np.random.default_rng(1))
    for table in tables.tables:
        counts = table.counts.astype(np.int64)
        counts[0, 0] += 500
        made = Table.from_counts(table.mechanism, counts, 9_900 + 500)
        low, high = decode(made).under_fakes(share).interval(1 - 1e-6)
        assert bool(low[0] <= 3_300 <= high[0]) == holds


@pytest.mark.exact
@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        (RandomizedResponse(categories=("a", "b"), epsilon=1.0), "could move one count by 7"),
        (
            UnaryEncoding(categories=("a", "b"), epsilon=1.0),
            "could move every count that they name",
        ),
    ],
)
def test_a_report_that_names_one_answer_moves_one_count(mechanism: Any, words: str) -> None:
    table = draw_table(
        mechanism, ("a", "b"), counts=np.array([50, 50]), generator=np.random.default_rng(1)
    )
    assert damage_words(decode(table).summary, "7").startswith(words)
