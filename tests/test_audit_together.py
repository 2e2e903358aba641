"""Checks of all metrics of a client together: what no metric shows by itself."""

from collections.abc import Callable

import numpy as np
import pytest

from ldp import LocalHashing, RandomizedResponse, UnaryEncoding
from ldp.audit.cells import check_values
from ldp.audit.conditions import Seen
from ldp.audit.judging import Checks, judge
from ldp.audit.together import together_checks
from ldp.mechanisms.base import CatalogueMechanism
from ldp.protocol.randomness import SeededBits
from ldp.protocol.wire import split_report

ALPHA = 1e-6
"""Probability at most that a test which expects no finding fails."""
VALUES = ("a", "b", "c", "d")
METRICS, DEVICES, DAYS = 21, 8, 64
Report = tuple[int, bytes]
Cheat = Callable[[int, int, str, Report, Report | None], Report]
"""Report that leaves instead, given the metric, the call, the value, the report and the last one of
its value."""


def mechanism(number: int) -> CatalogueMechanism:
    kinds = (
        RandomizedResponse(categories=VALUES, epsilon=1.0),
        UnaryEncoding(categories=VALUES, epsilon=1.0),
        LocalHashing(epsilon=1.0, rows=16, seed="0a"),
    )
    return kinds[number % 3]


def checks(cheat: Cheat | None, seed: int) -> tuple[list[Checks], list[Checks]]:
    """Return the checks of each metric, and of all together."""
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
    return apart, [*together_checks(pool, generator)]


def repeats_rarely(_: int, call: int, __: str, report: Report, last: Report | None) -> Report:
    """Send the last report of the value again in one call of twelve, in blocks of eight."""
    return last if last and call // 8 % 4 == 1 and call % 3 == 0 else report


def tells_in_some(metric: int, call: int, value: str, report: Report, _: Report | None) -> Report:
    """Send the true category where the call is 3 modulo 8, in one metric of three."""
    is_here = metric % 3 == 0 and call % 8 == 3
    return (0, bytes([VALUES.index(value)])) if is_here else report


@pytest.mark.statistical
@pytest.mark.parametrize("seed", range(3))
def test_honest_metrics_pass_together(seed: int) -> None:
    """Fails with a probability of ALPHA at most, for all seeds together 3 ALPHA."""
    audit = judge(checks(None, seed)[1], ALPHA)
    assert audit.passed, audit.findings


@pytest.mark.statistical
@pytest.mark.parametrize("cheat", [repeats_rarely, tells_in_some])
def test_what_few_reports_of_each_metric_do_not_show_all_metrics_do(cheat: Cheat) -> None:
    apart, together = checks(cheat, 1)
    assert not judge(together, ALPHA).passed
    if cheat is repeats_rarely:
        assert judge(apart, ALPHA).passed, "no metric shows it by itself"
