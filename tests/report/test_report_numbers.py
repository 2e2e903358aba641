"""The report page of numbers, and its remarks before the numbers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ldp import CountMeanSketch
from ldp.mechanisms import BitFlip, Piecewise, RegressionMoments
from ldp.report import render
from ldp.report.formats import quantity
from ldp.server import Table, decode, decode_mean, decode_regression
from ldp.simulation import draw_table
from ldp.tables.estimates import OVERFULL
from ldp.tables.saved import SavedResult
from tests.command_line import run
from tests.pages import results, words

MINUTES = Piecewise(bounds=(0.0, 100.0), epsilon=2.0)
BUCKETS = BitFlip(bounds=(0.0, 100.0), buckets=10, bits=10, epsilon=4.0)
REGISTRY = """
[product]
name = "p"
[group.g]
window = "1d"
window_epsilon = 8.0
lifetime_epsilon = 64.0
[metric.wait]
version = 1
group = "g"
description = "How long people wait"
owners = ["team@example.org"]
expires = 2030-12-31
mechanism = "bit-flip"
bounds = [0, 100]
buckets = 10
bits = 10
epsilon = 4.0
"""


@pytest.fixture
def mean(tmp_path: Path) -> Path:
    """Return the files of a mean of 4,000 people, half of whom hold 20 and half 60."""
    counts = np.array([2000, 2000])
    table = draw_table(MINUTES, ["20", "60"], counts=counts, generator=np.random.default_rng(1))
    found = decode_mean(table)
    found.to_csv(tmp_path / "wait.csv")
    return tmp_path / "wait.csv"


@pytest.mark.exact
def test_a_mean_has_a_section_of_its_own(mean: Path, tmp_path: Path) -> None:
    read = SavedResult.load(mean)
    page = words(render([read]))
    for number in ("mean", "low", "high"):
        assert quantity(read.summary[number]) in page
    assert f"could move the mean by {quantity(read.summary['fakes_move'])}" in page
    assert "at most 88.1 times in 100" in page
    both = words(render([results(tmp_path), read]))
    assert f"wait : mean {quantity(read.summary['mean'])}" in both
    assert "2 of 4 candidates found" in both


@pytest.mark.exact
def test_a_regression_has_a_section_of_its_own(tmp_path: Path) -> None:
    mechanism = RegressionMoments(features=1, bounds=((0.0, 1.0), (0.0, 1.0)), epsilon=4.0)
    shape = mechanism.shape
    table = replace(
        Table.empty(mechanism),
        reports=np.full(shape.rows, 100, np.int64),
        counts=np.tile(np.array([40, 60], np.uint32), (shape.rows, 1)),
    )
    found = decode_regression(table)
    found.to_csv(tmp_path / "fit.csv")
    page = words(render([SavedResult.load(tmp_path / "fit.csv")]))
    assert "x1" in page
    assert quantity(found.intercept) in page


@pytest.mark.exact
def test_a_histogram_keeps_the_order_of_its_buckets_and_takes_the_truth_of_simulate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("metrics.toml").write_text(REGISTRY)
    Path("wait.csv").write_text("value,count\n5,4000\n15,1000\n15.5,1000\n95,9000\n200,100\n")
    simulate = "simulate wait --registry metrics.toml --population wait.csv --seed 1"
    assert run(f"{simulate} --table wait.table --truth truth.csv", monkeypatch) == 0
    assert Path("truth.csv").read_text().splitlines()[1:] == [
        '"[90, 100]",9100',
        '"[0, 10)",4000',
        '"[10, 20)",2000',
    ]
    assert run("decode wait.table --out estimates.csv", monkeypatch) == 0
    read = SavedResult.load("estimates.csv")
    assert [row["value"] for row in read.rows()] == list(BUCKETS.labels)
    assert run("report estimates.csv --truth truth.csv --out page.html", monkeypatch) == 0
    page = words(Path("page.html").read_text())
    assert "Buckets follow each other." in page
    assert page.index("[0, 10)") < page.index("[90, 100]")


@pytest.mark.statistical
def test_counts_that_add_up_to_more_than_all_reports_are_remarked_on() -> None:
    """1 % of 40,000 reports name 100 words that nobody holds.

    Without fakes the sum is normal, and 5 standard errors above the reports with probability 3e-7.
    """
    sketch = CountMeanSketch(epsilon=4.0, rows=256, width=1024, seed="00ff")
    invented = [f"invented {number}" for number in range(100)]
    honest = draw_table(
        sketch, ["held"], counts=np.array([39_600]), generator=np.random.default_rng(0)
    )
    counts, reports = honest.counts.copy(), honest.reports.copy()
    generator = np.random.default_rng(1)
    for row in generator.integers(0, 256, 400):
        cells = {cell for word in invented for cell in sketch.cells(word, int(row))}
        flips = generator.random(1024) < float(sketch.channel.untouched)
        flips[list(cells)] = True
        counts[row] += flips.astype(counts.dtype)
        reports[row] += 1
    faked = replace(honest, counts=counts, reports=reports)
    for table, is_remarked in ((honest, False), (faked, True)):
        estimates = decode(table, ["held", *invented])
        assert estimates.sum_std_error is not None
        assert (-estimates.unexplained() > OVERFULL * estimates.sum_std_error) == is_remarked
        warning = estimates.summary.get("warning", "")
        assert ("name many candidates at once" in warning) == is_remarked


@pytest.mark.exact
@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\u2066", "\ufeff", "\u2028"])
def test_characters_that_hide_or_turn_others_are_shown(tmp_path: Path, hidden: str) -> None:
    page = render([results(tmp_path, (600, 1, 1, 1), values=(f"a{hidden}b", "c", "d", "e"))])
    assert f"a\\u{ord(hidden):04x}b" in page
    assert f"a{hidden}b" not in page.split("<table")[1]


@pytest.mark.exact
def test_joined_emoji_stay_whole(tmp_path: Path) -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert family in render([results(tmp_path, (600, 1, 1, 1), values=(family, "c", "d", "e"))])
