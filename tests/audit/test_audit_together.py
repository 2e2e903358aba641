"""All metrics of a client are checked together, for what no metric shows by itself."""

from collections.abc import Callable
from itertools import product
from math import prod

import numpy as np
import pytest
from scipy.stats import binom

from ldp import LocalHashing, RandomizedResponse, UnaryEncoding
from ldp.audit.cells import check_values
from ldp.audit.conditions import Payloads, Seen, largest_chance, last_of
from ldp.audit.judging import Checks, judge
from ldp.audit.law import exact_law, number_of_outcomes
from ldp.audit.reports import Reports
from ldp.audit.together import shared_checks, together_checks
from ldp.mechanisms import CATALOGUE
from ldp.mechanisms.addressing import RandomizedAddressing
from ldp.mechanisms.base import CatalogueMechanism
from ldp.mechanisms.joint_base import values_of_parts
from ldp.protocol.randomness import SeededBits
from ldp.protocol.wire import split_report
from tests.tiers import tiered

ALPHA = 1e-6
"""Largest probability that a test which expects no finding fails."""
VALUES = ("a", "b", "c", "d")
METRICS, DEVICES, DAYS = 21, 8, 64
Report = tuple[int, bytes]
Cheat = Callable[[int, int, str, Report, Report | None], Report]
"""Function that returns the report that leaves.

Its arguments are the metric, the call, the value, the report and the last report of the value.
"""


def mechanism(number: int) -> CatalogueMechanism:
    kinds = (
        RandomizedResponse(categories=VALUES, epsilon=1.0),
        UnaryEncoding(categories=VALUES, epsilon=1.0),
        LocalHashing(epsilon=1.0, rows=16, seed="0a"),
    )
    return kinds[number % 3]


def checks(cheat: Cheat | None, seed: int) -> tuple[list[Checks], list[Checks]]:
    """Return the checks of each metric, and the checks of all metrics together."""
    generator, pool, apart = np.random.default_rng(seed), list[Seen](), list[Checks]()
    for metric in range(METRICS):
        of_metric = mechanism(metric)
        encoder = of_metric.encoder(SeededBits(bytes([seed, metric])))
        which = generator.integers(len(VALUES), size=DEVICES * DAYS)
        calls, devices = np.tile(np.arange(DAYS), DEVICES), np.repeat(np.arange(DEVICES), DAYS)
        last, reports = dict[str, Report](), list[Report]()
        for at, call in zip(which.tolist(), calls.tolist(), strict=True):
            value = VALUES[at]
            report = split_report(encoder.encode(value), of_metric.header, of_metric.layout)
            if cheat is not None:
                report = cheat(metric, call, value, report, last.get(value))
            last[value] = report
            reports.append(report)
        apart += check_values(
            of_metric, VALUES, which, reports, generator, calls, devices, 25, pool=pool
        )
    return apart, [*together_checks(pool)]


def repeats_rarely(_: int, call: int, value: str, report: Report, last: Report | None) -> Report:
    """Send the last report of one value again in one call of 32, in blocks of eight."""
    is_again = call // 8 % 4 == 1 and call % 8 == 1 and value == "a"
    return last if last and is_again else report


def tells_in_some(metric: int, call: int, value: str, report: Report, _: Report | None) -> Report:
    """Send the true category where the call is 3 modulo 8, in one metric of three."""
    is_here = metric % 3 == 0 and call % 8 == 3
    return (0, bytes([VALUES.index(value)])) if is_here else report


@pytest.mark.statistical
@pytest.mark.parametrize("seed", tiered(range(3), fast=0))
def test_honest_metrics_pass_together(seed: int) -> None:
    """One seed fails falsely with probability ALPHA at most, all seeds together with 3 ALPHA."""
    audit = judge(checks(None, seed)[1], ALPHA)
    assert audit.passed, audit.findings


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("cheat", [repeats_rarely, tells_in_some])
def test_what_few_reports_of_each_metric_do_not_show_all_metrics_do(cheat: Cheat) -> None:
    apart, together = checks(cheat, 2)
    assert not judge(together, ALPHA).passed
    if cheat is repeats_rarely:
        assert judge(apart, ALPHA).passed, "no metric shows it by itself"


SMALL = [
    (part, [value])
    for kind in CATALOGUE.values()
    for example in kind.examples()
    for value in example.values[:2]
    for part, (value,) in values_of_parts(example.mechanism, [value])
    if not isinstance(part.addressing, RandomizedAddressing) and number_of_outcomes(part) <= 4096
]


@pytest.mark.exact
def test_no_report_is_likelier_than_the_largest_chance() -> None:
    """The exact law is enumerated; for more than half of the parts a report attains the bound."""
    attained = 0
    for part, (value,) in SMALL:
        largest = max(map(float, exact_law(part, value).values()))
        bound = largest_chance(part) / part.shape.rows
        assert largest <= bound * (1 + 1e-12), part
        attained += largest > bound * (1 - 1e-12)
    assert attained > len(SMALL) / 2


@pytest.mark.slow
@pytest.mark.exact
def test_reports_are_repeated_with_one_probability_whatever_came_before() -> None:
    """All sequences of four reports, weighted by their law, give each sum its binomial law."""
    mechanism, which = mechanism_of_two(), np.array([0, 1, 0, 0])
    channel, layout, calls = mechanism.channel, mechanism.layout, np.arange(4)
    cells = [mechanism.cells(mechanism.categories[at], 0) for at in which]
    law, coins, draws = np.zeros(3), np.random.default_rng(1), 400
    for payloads in product(range(layout.payload_limit), repeat=4):
        pairs = zip(payloads, cells, strict=True)
        chance = prod(
            float(layout.probability(p, c, channel.touched, channel.untouched)) for p, c in pairs
        )
        sent = [(0, payload.to_bytes(layout.payload_bytes, "little")) for payload in payloads]
        reports = Reports.of(mechanism, mechanism.categories, which, sent, calls, 0 * calls)
        for _ in range(draws):
            known = Payloads.of(reports, coins, None)
            assert known
            statistic = known.repeated("reports", last_of(which))
            assert int(statistic.possible.sum()) == 2
            law[int(statistic.seen.sum())] += chance / draws
    expected = binom.pmf(range(3), 2, largest_chance(mechanism))
    # the variance of each sum is at most a quarter of its squared weights, which add to .032
    error = 5.5 * np.sqrt(0.032 / 4 / draws)  # one of three exceeds it with 1.2e-7 at most
    assert law.sum() == pytest.approx(1)
    assert np.abs(law - expected).max() < error
    assert np.abs(law - binom.pmf(range(3), 2, largest_chance(mechanism) - 0.05)).max() > error


def mechanism_of_two() -> RandomizedResponse:
    return RandomizedResponse(categories=("a", "b", "c"), epsilon=1.0)


@pytest.mark.statistical
@pytest.mark.parametrize("is_shared", [True, False])
def test_noise_that_metrics_share_is_refuted(is_shared: bool) -> None:
    """Each metric and the sum of all have their laws; only two metrics together show the noise.

    This fails falsely with probability ALPHA. Metrics of one kind tell the truth together.
    """
    generator, pool, days = np.random.default_rng(5), list[Seen](), np.arange(DEVICES * DAYS)
    for metric in range(METRICS):
        of_metric, reports = mechanism(metric), list[Report]()
        which = generator.integers(len(VALUES), size=days.size)
        for at, day in zip(which.tolist(), days.tolist(), strict=True):
            seed = f"{day} {0 if is_shared else metric}".encode()
            report = of_metric.encoder(SeededBits(seed)).encode(VALUES[at])
            reports.append(split_report(report, of_metric.header, of_metric.layout))
        numbers = days % DAYS, days // DAYS
        [*check_values(of_metric, VALUES, which, reports, generator, *numbers, 25, pool=pool)]
    checks = [*shared_checks(pool)]
    assert len(checks) == METRICS * (METRICS - 1) // 2
    assert judge(checks, ALPHA).passed is not is_shared
