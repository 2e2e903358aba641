"""Results in notebooks: short names, tables, Arrow, pictures, and the example notebooks."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow
import pytest

import ldp
from ldp.decoding.independence import Independence
from ldp.errors import DecodeError, MissingPackage, ParameterError
from ldp.protocol.randomness import SeededBits
from ldp.server import (
    Association,
    TableBuilder,
    decode,
    decode_distribution,
    decode_mean,
    decode_regression,
)
from ldp.simulation import draw_table
from ldp.tables.frame import Columns
from ldp.tables.result import MOST_LINES, Result
from ldp.tables.saved import SavedResult
from tests import notebooks
from tests.pages import sign
from tests.tiers import tiered

CITIES = tuple(f"city {i}" for i in range(30))
GENERATOR = np.random.default_rng


def results() -> Iterator[tuple[str, Any]]:
    """Return a result of every kind, by its name."""
    rr = ldp.RandomizedResponse(categories=CITIES, epsilon=4.0)
    table = draw_table(rr, CITIES, counts=np.full(30, 100), generator=GENERATOR(1))
    yield "Estimates of 30 values", decode(table)
    numbers = ("1", "2", "3")
    held = np.array([600, 300, 100])
    histogram = ldp.HierarchicalHistogram(epsilon=2.0, bounds=(0.0, 10.0), buckets=32)
    table = draw_table(histogram, numbers, counts=held, generator=GENERATOR(2))
    yield "Distribution over 32 bins", decode_distribution(table)
    moments = ldp.RegressionMoments(features=1, bounds=((0.0, 1.0), (0.0, 1.0)), epsilon=4.0)
    encoder, builder = moments.encoder(), TableBuilder(moments)
    builder.add_all(encoder.encode((x / 1000, x / 1000)) for x in range(1000))
    yield "Regression on 1 feature", decode_regression(builder.build())
    shares = np.array([[0.4, 0.1], [0.1, 0.4]])
    yield (
        "Association of 2 x 2 cells",
        Association(
            values=(("a", "b"), ("c", "d")),
            shares=shares,
            unbiased=100 * shares,
            std_error=np.full((2, 2), 5.0),
            reports=100,
            independence_test=lambda _: Independence(1.0, 1, 0.3),
        ),
    )
    mean = ldp.OneBitMean(bounds=(0.0, 10.0), epsilon=2.0)
    yield "Mean ", decode_mean(draw_table(mean, numbers, counts=held, generator=GENERATOR(3)))


RESULTS = [*results()]


@pytest.mark.exact
@pytest.mark.parametrize(("name", "result"), RESULTS, ids=lambda x: str(x)[:20])
def test_a_result_is_short_a_table_and_a_stream(name: str, result: Result) -> None:
    assert repr(result).startswith(f"<{name}")
    assert len(repr(result)) < 100
    html = result._repr_html_()
    assert html.count("<tr") == 1 + min(MOST_LINES, len([*result.lines()]))
    assert result.headline in html
    frame = pyarrow.table(result)
    assert frame.column_names == [*result.rows()[0]]
    for streamed, row in zip(frame.to_pylist(), result.rows(), strict=True):
        assert [*map(str, streamed.values())] == [*map(str, row.values())]


@pytest.mark.exact
@pytest.mark.parametrize(("name", "result"), RESULTS, ids=lambda x: str(x)[:20])
def test_a_plot_shows_the_estimates(name: str, result: Result) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    axes = result.plot()
    assert axes.get_title() == result.headline
    assert axes.patches
    _, mine = pyplot.subplots()
    assert result.plot(mine) is mine
    pyplot.close("all")


@pytest.mark.exact
@pytest.mark.parametrize(("zeros", "is_said"), [(6000, True), (0, False)])
def test_a_plot_says_how_many_are_below_its_bins(zeros: int, is_said: bool) -> None:
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot

    mechanism = ldp.HierarchicalHistogram(epsilon=8.0, buckets=4)
    held = {"counts": np.array([zeros, 4000]), "generator": GENERATOR(1)}
    table = draw_table(mechanism, ("0", "20"), **held)  # type: ignore[arg-type]
    label = decode_distribution(table).plot().get_xlabel()
    assert (
        bool(re.fullmatch(r"not drawn: (59|60|61)\..% of the reports, below 9.537e-07", label))
        == is_said
    )
    pyplot.close("all")


@pytest.mark.exact
def test_a_value_cannot_become_markup_or_mathematics() -> None:
    categories = ("<b>$x$", "b")
    mechanism = ldp.RandomizedResponse(categories=categories, epsilon=4.0)
    table = draw_table(mechanism, categories, counts=np.array([60, 40]), generator=GENERATOR(1))
    estimates = decode(table)
    assert "<b>$" not in estimates._repr_html_()
    assert "&lt;b&gt;$x$" in estimates._repr_html_()
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot

    labels = estimates.plot().get_yticklabels()
    assert [label.get_text() for label in labels] == ["<b>$x$", "b"]
    assert not any(label.get_parse_math() for label in labels)
    pyplot.close("all")


@pytest.mark.exact
def test_a_plot_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (_, result), *_ = RESULTS
    with pytest.raises(MissingPackage, match="with the extra plot"):
        result.plot()


@pytest.mark.exact
@pytest.mark.parametrize("name", tiered(["estimates", "percentiles", "from-data-to-sign-off"], 2))
def test_the_example_notebooks_run_and_show_what_they_show(name: str) -> None:
    pytest.importorskip("matplotlib")
    notebook = json.loads((notebooks.FOLDER / f"{name}.ipynb").read_text("utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    sources = ["".join(cell["source"]) for cell in cells]
    assert sources == [x for x in notebooks.NOTEBOOKS[name] if not x.startswith("# ")]
    shown = notebooks.run(notebook)
    written = [_unpictured(cell["outputs"]) for cell in cells]
    assert written == list(map(_unpictured, shown)), "run `make notebooks`"


def _unpictured(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return outputs without pictures, which differ between versions of matplotlib."""
    data = [{k: v for k, v in one.get("data", {}).items() if k != "image/png"} for one in outputs]
    return [{**one, "data": some} for one, some in zip(outputs, data, strict=True)]


@dataclass(frozen=True, eq=False, repr=False)
class Toy(Result):
    """New kind of result: one file, without a change elsewhere."""

    kind: ClassVar[str] = "toy"
    reports: int = 10

    @property
    def headline(self) -> str:
        return f"Toy from {self.reports} reports"

    @property
    def summary(self) -> dict[str, Any]:
        return {"kind": self.kind, "reports": self.reports, "level": self.level}

    def _columns(self) -> Columns:
        low, high = np.array([4.0, 5.0]) - self.level, np.array([4.0, 5.0]) + self.level
        return {"value": ["a", "b"], "estimate": np.array([4.0, 5.0]), "low": low, "high": high}


@pytest.mark.exact
def test_a_new_kind_of_result_is_one_class(tmp_path: Path) -> None:
    toy = Toy()
    assert toy.at(level=0.5).to_csv(tmp_path / "toy.csv") == (
        "value,estimate,low,high\na,4,3.5,4.5\nb,5,4.5,5.5\n"
    )
    assert json.loads((tmp_path / "toy.json").read_text())["level"] == 0.5
    assert toy.interval(0.5)[0].tolist() == [3.5, 4.5]
    assert toy.to_arrow().to_pylist()[1] == {"value": "b", "estimate": 5, "low": 4.05, "high": 5.95}
    assert [line.name for line in toy.lines()] == ["a", "b"]
    for wrong in (0.0, 1.0):
        with pytest.raises(ParameterError, match="strictly between"):
            toy.at(level=wrong)
    with pytest.raises(ParameterError, match="no such intervals"):
        toy.interval(selected=True)


@pytest.mark.exact
@pytest.mark.parametrize(("name", "result"), RESULTS, ids=lambda x: str(x)[:20])
def test_a_file_says_what_the_result_says(name: str, result: Result, tmp_path: Path) -> None:
    path = tmp_path / "result.csv"
    text = result.at(level=0.3).to_csv(path)
    if result.kind == "association":  # one that no decoder made has no mechanism
        sign(path, mechanism="joint", fingerprint="", epsilon=1.0)
    saved = SavedResult.load(path)
    assert saved.to_csv(tmp_path / "again.csv") == text
    assert SavedResult.load(tmp_path / "again.csv").to_csv() == text
    shown = [[line.name for line in some.lines()] for some in (result, saved)]
    assert shown[0] == shown[1]
    assert saved._repr_html_().count("<tr") == result._repr_html_().count("<tr")
    assert [*saved.columns] == [*result.columns]
    low, high = saved.interval()
    assert (low <= high).all()
    for changed in (lambda: saved.at(level=0.5), lambda: saved.interval(0.5)):
        with pytest.raises(DecodeError, match="decode the table again"):
            changed()


@pytest.mark.exact
def test_a_regression_without_ends_is_read_and_shown(tmp_path: Path) -> None:
    moments = ldp.RegressionMoments(features=2, bounds=((0.0, 1.0),) * 3, epsilon=1.0)
    encoder, builder = moments.encoder(SeededBits(b"1")), TableBuilder(moments)
    builder.add_all(encoder.encode((0.5, 0.5, 0.5)) for _ in range(180))
    decode_regression(builder.build()).to_csv(tmp_path / "fit.csv")
    saved = SavedResult.load(tmp_path / "fit.csv")
    assert np.isnan(saved.numbers("low")).sum() == 2
    assert saved._repr_html_().count("<td") == 12
    assert "open to " in saved._repr_html_()


@pytest.mark.exact
def test_intervals_that_a_kind_has_not_are_refused() -> None:
    kinds = {result.kind: result for _, result in RESULTS}
    for kind, asked in (
        *(("numbers", name) for name in ("selected", "population")),
        *(("regression", name) for name in ("selected", "population")),
    ):
        with pytest.raises(ParameterError, match="no such intervals"):
            kinds[kind].interval(**{asked: True})
    assert kinds["values"].interval(selected=True, population=True)[0].size == 30
