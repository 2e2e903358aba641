"""`make campaign-scale` measures every command, and sees cost that grows too fast."""

from pathlib import Path

import click
import pytest

from ldp.cli import commands
from simulations.scale import ELSEWHERE, GROWTHS, START, Growth, bars, slope


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
    grown, *memory = bars(growth, figures, start=0.5)
    assert grown.met is is_met
    assert all(bar.met for bar in memory)
    heavy = [(seconds, START + 1.0) for seconds, _ in figures]
    assert not any(bar.met for bar in [*bars(growth, heavy, start=0.5)][1:])


@pytest.mark.slow
@pytest.mark.exact
def test_a_command_is_measured(tmp_path: Path) -> None:
    (growth,) = (one for one in GROWTHS if one.words.startswith("report"))
    seconds, mib = growth.measured(100)
    assert seconds > 0.01
    assert mib > 10
