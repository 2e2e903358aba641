"""`make campaign-scale` measures every command, and notices cost that grows too fast."""

import json
from pathlib import Path

import click
import pytest

from ldp.cli import commands
from simulations.scale import ELSEWHERE, GROWTHS, START, Growth, bars, page, power_of, slope


@pytest.mark.exact
def test_every_command_is_measured_or_says_where() -> None:
    measured = {growth.words.split()[0] for growth in GROWTHS}
    assert not measured & ELSEWHERE.keys()
    assert measured | ELSEWHERE.keys() == set(commands.list_commands(click.Context(commands)))


@pytest.mark.exact
@pytest.mark.parametrize(("power", "is_met"), [(1.0, True), (1.1, True), (1.3, False)])
def test_time_that_grows_too_fast_is_seen(power: float, is_met: bool) -> None:
    growth = Growth("decode", "rows", (100, 1_000, 10_000), lambda folder, size: None, 1.0)
    figures = [(0.5 + 0.01 * size**power, 100.0) for size in growth.sizes]
    assert slope(growth.sizes, [1.0, 10.0, 100.0]) == pytest.approx(1)
    grown, *memory = bars(growth, figures, (0.5, 90.0))
    assert grown.met is is_met
    assert all(bar.met for bar in memory)
    heavy = [(seconds, START + 1.0) for seconds, _ in figures]
    assert not any(bar.met for bar in [*bars(growth, heavy, (0.5, 90.0))][1:])


@pytest.mark.exact
def test_time_in_proportion_to_a_size_near_the_start_has_power_1() -> None:
    growth = Growth("decode", "rows", (5, 20, 100), lambda folder, size: None, 1.0)
    figures = [(0.5 + 0.1 * size, 100.0) for size in growth.sizes]
    assert power_of(growth, figures, 0.5 + 0.1 * growth.first) == pytest.approx(1)


@pytest.mark.exact
def test_a_start_and_a_size_above_their_bars_are_seen() -> None:
    growth = Growth(
        *("decode", "rows", (10, 20, 30), lambda folder, size: None, 1.0),
        at_start=(0.6, 120),
        most=2.0,
    )
    figures = [(0.7, 100.0), (1.5, 100.0), (2.5, 100.0)]
    seconds, mib, size, *_ = bars(growth, figures, (0.7, 110.0))
    assert (seconds.met, mib.met, size.met) == (False, True, False)
    assert all(bar.met for bar in bars(growth, [(0.5, 100.0)] * 3, (0.5, 110.0)))


@pytest.mark.exact
def test_the_page_has_the_table_of_the_committed_result() -> None:
    results = json.loads(Path("simulations/results/scale.json").read_text("utf-8"))
    assert page(results) in Path("docs/benchmarks.md").read_text("utf-8")
    measured = {(growth.words, growth.of) for growth in GROWTHS}
    assert {(row["command"], row["of"]) for row in results["rows"]} == measured


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("growth", GROWTHS, ids=lambda growth: f"{growth.words}, {growth.of}")
def test_a_command_is_measured(growth: Growth) -> None:
    seconds, mib = growth.measured(growth.first)
    assert seconds > 0.01
    assert mib > 10
