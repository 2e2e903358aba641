"""`try_column`, `simulate` and `compare` take what an analyst types."""

import builtins
import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

import ldp
from ldp.errors import MissingPackage, ParameterError
from ldp.mechanisms import (
    BitFlip,
    CatalogueMechanism,
    CountMeanSketch,
    HierarchicalHistogram,
    JointReport,
    LocalHashing,
    OneBitMean,
    PrivSet,
    RandomizedResponse,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
)
from ldp.planning import lower_bound
from ldp.planning.error_curves import COLOURS, Curve
from ldp.server import Table, TableBuilder, decode
from ldp.simulation import Population, draw_reports, draw_table
from tests.command_line import WITHOUT_SERVER, run

GENERATOR = np.random.default_rng(7)
CITIES = ("Oslo", "Bergen", "Hell")
PLACES = GENERATOR.choice(CITIES, 3000, p=(0.6, 0.3, 0.1))
MINUTES = np.round(GENERATOR.lognormal(3, 1, 3000), 1)


@pytest.fixture
def frames() -> list[Callable[[dict[str, Any]], Any]]:
    """Return the data frames of the packages that are installed; Arrow is."""
    makers: list[Callable[[dict[str, Any]], Any]] = [pa.table]
    for package in ("pandas", "polars"):
        try:
            makers.append(__import__(package).DataFrame)
        except ModuleNotFoundError:
            continue
    return makers


@pytest.mark.exact
def test_a_column_of_values_is_tried(frames: list[Any]) -> None:
    """The three lines of an analyst run; a frame of any package gives the same as a list."""
    expected = ldp.try_column(PLACES.tolist(), name="city", seed=1)
    for frame in frames:
        trials = ldp.try_column(frame({"city": PLACES})["city"], name="city", seed=1)
        assert trials.rows() == expected.rows()
    assert expected.headline.startswith("city: 3,000 people, 3 different values, read as categor")
    assert [row["epsilon"] for row in expected.rows()] == [1, 2, 4]
    errors = expected.to_arrow().column("std_error").to_pylist()
    assert errors == sorted(errors, reverse=True)
    curves = {curve.name: curve for curve in expected.curves}
    bound = [math.sqrt(3000 * lower_bound(3, epsilon)) for epsilon in (1, 2, 4)]
    assert curves["least error there is"].errors == pytest.approx(bound)
    assert all(a < b for a, b in zip(bound, np.array(curves["reports"].errors) * 1.01, strict=True))


@pytest.mark.exact
def test_numbers_are_tried_by_category_those_of_most_people_first(frames: list[Any]) -> None:
    for frame in frames:
        data = frame({"city": PLACES, "minutes": MINUTES})
        trials = ldp.try_column(data["minutes"], by=data["city"], epsilon=4, seed=1)
        assert [(row["value"], row["statistic"]) for row in trials.rows()] == [
            (city, statistic) for city in CITIES for statistic in ("p50", "p95")
        ]
        for row in trials.rows():
            held = np.sort(MINUTES[row["value"] == PLACES])
            q = float(row["statistic"][1:]) / 100
            assert row["true"] == held[math.ceil(q * len(held)) - 1]
            assert row["people"] == len(held)
        assert [curve.name for curve in trials.curves] == [f"{city} p95" for city in CITIES]


@pytest.mark.exact
def test_values_by_category_are_pairs_and_what_is_missing_is_left_out() -> None:
    trials = ldp.try_column(
        ["a", None, "b", "", "a", "b"] * 50,
        by=["x", "x", "y", "y", None, "x"] * 50,
        epsilon=8,
        seed=1,
    )
    assert trials.people.truth() == {"x / a": 50, "x / b": 50, "y / b": 50}
    assert "150 empty cells left out" in trials.headline
    with pytest.raises(ParameterError, match="by has 1 row and the values have 2"):
        ldp.try_column(["a", "b"], by=["x"])
    with pytest.raises(ParameterError, match="has no values in rows with a category"):
        ldp.try_column(["a", "b"], by=[None, None])
    with pytest.raises(ParameterError, match="are 'x / a / b': rename one"):
        ldp.try_column(["a / b", "b", "c"], by=["x", "x / a", "x"])


@pytest.mark.exact
def test_columns_of_pandas_are_paired_by_one_index() -> None:
    """A sorted column was paired by position, with the categories of other people."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"number": [3, 1, 2], "place": ["x", "y", "y"]}, index=[7, 8, 9])
    with pytest.raises(ParameterError, match=r"^by has another index than the values: align"):
        ldp.try_column(frame["number"].sort_values(), by=frame["place"])
    for by in (frame["place"], frame["place"].tolist()):
        trials = ldp.try_column(frame["number"], by=by, epsilon=1)
        assert trials.people.truth() == {"x / 3": 1, "y / 1": 1, "y / 2": 1}


@pytest.mark.exact
def test_categories_of_a_trial_are_texts_and_not_empty() -> None:
    for by in ([["x"], ["y"]], [b"\xff", b"x"], [("x", "y"), ("y", "x")]):
        with pytest.raises(ParameterError, match=r"^by must hold a text or a number in each row"):
            ldp.try_column(["a", "b"], by=by)
    trials = ldp.try_column(["a", "b", "c", "d"], by=["x", "y", "", "x"], epsilon=1)
    assert trials.people.truth() == {"x / a": 1, "y / b": 1, "x / d": 1}
    assert "by 2 categories; 1 empty cell left out" in trials.about


@pytest.mark.exact
def test_a_class_is_no_mechanism_and_a_legacy_generator_no_seed() -> None:
    some: list[Any] = [RandomizedResponse, "rr", None]
    for wrong in some:
        for take in (ldp.simulate, Table.from_reports):
            with pytest.raises(ParameterError, match="is not a mechanism, such as"):
                take(wrong, ["a"])
        with pytest.raises(ParameterError, match="is not a mechanism, such as"):
            TableBuilder(wrong)
        with pytest.raises(ParameterError, match="is not a mechanism, such as"):
            Table.from_counts(wrong, [[1]], 1)
    legacy: Any = np.random.RandomState(1)
    with pytest.raises(ParameterError, match="seed must be a whole number from 0"):
        ldp.try_column(["a", "b"], seed=legacy)


@pytest.mark.exact
def test_csv_holds_no_bytes() -> None:
    sketch = ldp.CountMeanSketch(epsilon=4.0, rows=64, width=128)
    result = ldp.simulate(sketch, [b"\xff", b"a"], seed=1).result
    with pytest.raises(ParameterError, match="a value is bytes, and CSV holds texts: decode it"):
        result.to_csv()
    with pytest.raises(ParameterError, match="a value must be str or bytes"):
        decode(draw_table(sketch, ["a"]), cast("Any", [["a"], ["b"]]))


@pytest.mark.exact
def test_a_trial_and_a_comparison_show_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = ldp.try_column(PLACES, epsilon=(1, 4), name="<city>", seed=1)
    compared = ldp.compare(["rr", "pgr"], PLACES, epsilons=(1, 4), seed=1)
    for errors in (trials, compared):
        page = errors._repr_html_()
        assert "<city>" not in page
        picture = ElementTree.fromstring(errors.svg())
        lines = [
            line.get("points") for line in picture.iter("{http://www.w3.org/2000/svg}polyline")
        ]
        assert len(lines) == len(errors.curves)
        for line in lines:
            (x, y), (x2, y2) = (map(float, pair.split(",")) for pair in str(line).split())
            assert x < x2
            assert y < y2  # the error falls
        pytest.importorskip("matplotlib").use("agg")
        labels = [text.get_text() for text in errors.plot().get_legend().get_texts()]
        assert labels == [curve.name for curve in errors.curves]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackage, match="with the extra plot"):
        trials.plot()


@pytest.mark.exact
def test_a_chart_without_a_known_error_is_left_out() -> None:
    trials = ldp.try_column(np.tile(MINUTES, 10), epsilon=(1, 4), seed=1)
    assert "<svg" in trials._repr_html_()
    for curve in trials.curves:
        assert curve.errors[0] > curve.errors[1] > 0
    curve = Curve("<unknown>", (1.0, 4.0), (math.nan, math.nan))
    unknown = replace(trials, curves=(curve,))
    assert "<svg" not in unknown._repr_html_()
    pytest.importorskip("matplotlib").use("agg")
    assert unknown.plot().get_legend() is None
    some = replace(trials, curves=(curve, *trials.curves))
    assert some.svg() == trials.svg()
    labels = [text.get_text() for text in some.plot().get_legend().get_texts()]
    assert labels == [curve.name for curve in trials.curves]


@pytest.mark.exact
@pytest.mark.parametrize(
    ("mechanism", "values", "truth"),
    [
        (RandomizedResponse(categories=CITIES, epsilon=2.0), ["Oslo", "Hell"] * 50, {"Bergen": 0}),
        (CountMeanSketch(epsilon=2.0, rows=8, width=16), ["Oslo", "Hell"] * 50, {"Hell": 50}),
        (LocalHashing(epsilon=2.0, rows=8), ["Oslo", "Hell"] * 50, {"Hell": 50}),
        (
            Rappor(f=0.0, p=0.25, q=0.75, bits=8, hashes=2, cohorts=2, seed="00"),
            ["a", "b"] * 50,
            {"b": 50},
        ),
        (PrivSet(categories=CITIES, epsilon=2.0, at_most=2), [{"Oslo", "Hell"}] * 9, {"Hell": 9}),
        (OneBitMean(bounds=(0.0, 8.0), epsilon=2.0), [2, 4] * 50, {"mean": 3}),
        (HierarchicalHistogram(epsilon=2.0), [2.0, 4.0] * 500, {"p50": 2, "p95": 4}),
        (
            HierarchicalHistogram(epsilon=4.0, by=("a", "b")),
            [("a", 2.0), ("b", 4.0), ("b", 4.0)] * 500,
            {"a, reports": 500, "b, p50": 4},
        ),
        (BitFlip(bounds=(0.0, 8.0), buckets=4, bits=4, epsilon=2.0), [2, 4] * 50, {}),
        (
            JointReport(of=(UnaryEncoding(categories=("a", "b"), epsilon=4.0),) * 2),
            [("a", "b"), ("b", "b")] * 100,
            {"a + b": 100, "a + a": 0},
        ),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_every_kind_of_mechanism_is_simulated_beside_its_truth(
    mechanism: CatalogueMechanism, values: list[Any], truth: dict[str, float]
) -> None:
    simulated = ldp.simulate(mechanism, values, seed=1)
    shown = {line.name: known for line, known in simulated.lines()}
    for name, number in truth.items():
        assert shown[name] == number
    again = ldp.simulate(mechanism, Population.of(values), seed=1)
    assert again.rows() == simulated.rows()
    assert simulated.table.total == len(values)
    assert ("true" in simulated.rows()[0], "in truth" in simulated._repr_html_()) == (True, True)
    pytest.importorskip("matplotlib").use("agg")
    assert simulated.plot().get_title().endswith("(x)")


@pytest.mark.exact
def test_numbers_that_are_written_in_two_ways_count_together_in_the_truth() -> None:
    """Their mean is 3; 1 and 1.0 overwrote each other, which made 3.4 of it."""
    people = Population(("1", "1.0", "7"), counts=np.array([1000, 3000, 2000]))
    mechanism = HierarchicalHistogram(epsilon=8.0, bounds=(0.0, 8.0))
    rows = ldp.simulate(mechanism, people, seed=1).rows()
    assert [row["true"] for row in rows if row["statistic"] == "mean"] == [3]


@pytest.mark.exact
def test_a_histogram_has_the_true_counts_of_its_bins() -> None:
    mechanism = HierarchicalHistogram(epsilon=2.0, bounds=(0.0, 4.0), buckets=4)
    simulated = ldp.simulate(mechanism, [0.5, 1.5, 1.7, 3.9], seed=1)
    counts = [row["true"] for row in simulated.rows() if row["statistic"] == "count"]
    assert sum(counts) == 4
    assert [count for count in counts if count] == [1, 2, 1]


@pytest.mark.exact
def test_eight_oracles_are_compared_in_one_line() -> None:
    """One of them is the reader's, as a function from an epsilon.

    What is measured equals what the mechanisms state, to 10 %.
    """
    names = ("unary", "subset", "pgr", "cms", "hcms", "local-hashing", "hadamard")
    known = [name for name in names if name != "hadamard"]

    def mine(epsilon: float) -> SubsetSelection:
        return SubsetSelection(categories=CITIES, epsilon=epsilon)

    compared = ldp.compare([*known, mine], PLACES, (1.0, 2.0), seed=1)
    rows = compared.rows()
    assert len(rows) == 2 * (len(known) + 3)
    bound = [row["std_error"] for row in rows if row["mechanism"] == "least error there is"]
    for row in rows:
        if row["measured"] is not None:
            assert row["measured"] == pytest.approx(row["std_error"], rel=0.1)
            assert row["std_error"] >= 0.999 * bound[int(row["epsilon"]) - 1]
    assert compared.curves[1].name == "subset (2)"
    assert compared.curves[1].errors == compared.curves[6].errors


@pytest.mark.exact
def test_a_mechanism_is_changed_to_each_epsilon() -> None:
    """It chooses again what it chooses by itself, and leaves what somebody chose."""
    values = [str(i) for i in range(40)] * 5
    names = tuple(map(str, range(40)))
    free = SubsetSelection(categories=names, epsilon=4.0)
    fixed = SubsetSelection(categories=names, epsilon=4.0, size=7)
    curves = ldp.compare([free, fixed], values, (1.0, 4.0), seed=1).curves
    for curve, size in zip(curves, (0, 7), strict=False):
        for epsilon, error in zip(curve.epsilons, curve.errors, strict=True):
            there = SubsetSelection(categories=names, epsilon=epsilon, size=size)
            assert error == pytest.approx(math.sqrt(there.variance(200, 1 / 40)))


@pytest.mark.exact
def test_a_comparison_takes_classes_and_names_that_no_plan_weighs() -> None:
    """One of them is rr, which a plan does not weigh among many values at a small epsilon."""
    values = [f"value {i}" for i in range(60)] * 50
    sources: list[Any] = ["rr", "hadamard", SubsetSelection, RandomizedResponse]
    compared = ldp.compare(sources, values, epsilons=1.0, seed=1)
    errors = {curve.name: curve.errors[0] for curve in compared.curves}
    assert errors["rr (1)"] == errors["rr (4)"] > errors["hadamard"] > errors["subset"] > 0
    several: Any = (iter(sources), np.array(["rr", "hadamard"]))  # both ended in a ValueError
    heads = [[row[0] for row in ldp.compare(some, values, 1.0).cells][:2] for some in several]
    assert heads == [["rr (1)", "hadamard"], ["rr", "hadamard"]]
    with pytest.raises(ParameterError, match="takes other parameters than categories and epsilon"):
        ldp.compare([CountMeanSketch], values)
    with pytest.raises(ParameterError, match="OneBitMean takes other parameters"):
        ldp.compare(["one-bit-mean"], values)


@pytest.mark.exact
def test_numbers_are_compared_with_numbers_only() -> None:
    mean = OneBitMean(bounds=(0.0, 100.0), epsilon=1.0)
    compared = ldp.compare([mean], MINUTES[:20], (1.0, 2.0), seed=1)
    assert [curve.name for curve in compared.curves] == ["one-bit-mean", "trusted curator"]
    with pytest.raises(ParameterError, match="one kind of answers"):
        ldp.compare([mean, "rr"], MINUTES, (1.0,))
    with pytest.raises(ParameterError, match=r"no mechanism 'rrr'; known: .*, hadamard "):
        ldp.compare(["rrr"], PLACES)
    with pytest.raises(ParameterError, match="is not a mechanism, such as"):
        ldp.compare([cast("Any", SimpleNamespace)], PLACES)
    with pytest.raises(ParameterError, match="'Hell': value is not one of the 2 categories"):
        ldp.simulate(RandomizedResponse(categories=("Oslo", "Bergen"), epsilon=1.0), ["Hell"])
    with pytest.raises(ParameterError, match="rappor has no epsilon: give a function"):
        ldp.compare([Rappor(f=0.0, p=0.25, q=0.75, scheme="identity", categories=CITIES)], PLACES)
    with pytest.raises(ParameterError, match="one mechanism or more"):
        ldp.compare([], PLACES)
    bins = HierarchicalHistogram(epsilon=4.0, magnitudes=(1, 1000))
    (measured, *_) = ldp.compare(bins, MINUTES[:50], (2.0,), seed=1).rows()
    of_function = ldp.compare(
        lambda epsilon: replace(bins, epsilon=epsilon), MINUTES[:50], 2.0, seed=1
    )
    assert measured["std_error"] == of_function.rows()[0]["std_error"]
    with pytest.raises(ParameterError, match="of values or numbers, not sets"):
        ldp.compare(PrivSet(categories=CITIES, at_most=2, epsilon=1.0), [[*CITIES], ["Oslo"]], 1.0)


@pytest.mark.exact
@pytest.mark.parametrize(
    "frequencies",
    [
        *(["x", 1], ["0.5", "0.5"], [True, False], {"a": 1, "b": 1}, [1j, 2], [1], [[1, 2]]),
        *(np.array(["2026-01-01", "2026-01-02"], "M8[D]"), [None, 1], iter([1, 2]), object()),
    ],
)
def test_frequencies_are_numbers(frequencies: Any) -> None:
    with pytest.raises(ParameterError, match=r"frequencies must be numbers|counts must be >= 0"):
        Population(("a", "b"), frequencies=frequencies)


@pytest.mark.exact
def test_fractions_and_decimals_are_frequencies() -> None:
    some: Any = [Fraction(1, 4), Decimal("0.75")]
    numbers: Any
    for numbers in (some, np.array([1, 3], np.float16), pa.array([1, 3])):
        assert Population(("a", "b"), frequencies=numbers).shares.tolist() == [0.25, 0.75]


@pytest.mark.exact
def test_values_and_their_counts_have_one_index() -> None:
    """Of two Series pandas would align the rows."""
    pandas = pytest.importorskip("pandas")
    of_list = RandomizedResponse(categories=("a", "b"), epsilon=1.0)
    values, counts = pandas.Series(["a", "b"]), pandas.Series([5, 3], index=[1, 0])
    for name, other in (("counts", counts), ("frequencies", counts)):
        numbers: Any = {name: other}
        with pytest.raises(ParameterError, match=f"{name} has another index than values"):
            Population(values, **numbers)
    with pytest.raises(ParameterError, match="counts has another index than values"):
        draw_table(of_list, values, counts=counts)
    assert Population(values, counts=counts.sort_index()).truth() == {"a": 3, "b": 5}
    assert Population(["a", "b"], counts=counts).truth() == {"a": 5, "b": 3}


@pytest.mark.exact
@pytest.mark.parametrize("page", ["#ffffff", "#14181e"])
def test_every_curve_is_seen_on_light_and_on_dark_pages(page: str) -> None:
    """WCAG 2.1 asks of drawings a contrast of 3 to 1. One curve had 1.4."""

    def light(colour: str) -> float:
        parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.05 + sum(np.multiply(linear, [0.2126, 0.7152, 0.0722]))

    for colour in COLOURS:
        dark, bright = sorted((light(colour), light(page)))
        assert bright / dark >= 3, colour
    assert len({*COLOURS}) == 12


@pytest.mark.exact
@pytest.mark.parametrize(
    "counts", [[1.5, 2.5], [True, False], ["1", "2"], [None, 1], [1j, 2], [-1, 2], [1], [[1, 2]]]
)
def test_counts_of_people_are_whole_numbers(counts: Any) -> None:
    of_list = RandomizedResponse(categories=("a", "b"), epsilon=1.0)
    for function in (Population, partial(draw_table, of_list)):
        with pytest.raises(ParameterError, match="counts must be whole numbers from 0, one for"):
            function(("a", "b"), counts=counts)
    nullable: Any = np.array([2, 3], dtype=object)  # as of pandas
    whole: Any
    for whole in (nullable, np.array([2, 3], np.float16), np.array([2, 3], ">f2")):
        assert Population(("a", "b"), counts=whole).users == 5

    class Unreadable:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise NotImplementedError("as Arrow for a union")

    other: Any = Unreadable()
    with pytest.raises(ParameterError, match="counts must be whole numbers"):
        Population(("a", "b"), counts=other)
    with pytest.raises(ParameterError, match="give arrays of integers"):
        Table.from_counts(of_list, other, 9)
    for some in ([2, 3], ["2", "x"]):
        hidden: Any = np.ma.array(some, mask=[False, True])
        with pytest.raises(ParameterError, match="counts must be whole numbers"):
            Population(("a", "b"), counts=hidden)
    people = Population(("a", "b"), counts=cast(Any, [2.0, 3.0]))
    assert ldp.simulate(of_list, people).rows()[0]["true"] in (2, 3)


@pytest.mark.exact
def test_the_command_tries_by_a_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{city},{number}" for city, number in zip(PLACES, MINUTES, strict=True)]
    Path("trips.csv").write_text("\n".join(["city,minutes", *lines]) + "\n")
    words = "try trips.csv --column minutes --by city --epsilon 4 --seed 1"
    assert run(f"{words} --out try.html", monkeypatch) == 0
    out = capsys.readouterr().out
    assert "read as numbers, by 3 categories" in out
    assert "Bergen p95" in out
    assert "Bergen p95" in Path("try.html").read_text("utf-8")


@pytest.mark.exact
def test_a_base_installation_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def without_numpy(name: str, *rest: Any) -> Any:
        if name.split(".")[0] == "numpy":
            raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
        return load(name, *rest)

    for name in [name for name in sys.modules if name.startswith("ldp.planning")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without_numpy)
    for name in ("try_column", "simulate", "compare"):
        with pytest.raises(MissingPackage, match=f"ldp.{name} needs the package numpy: .* server"):
            getattr(ldp, name)


@pytest.mark.exact
@pytest.mark.parametrize(
    "name",
    [
        *("server", "simulation", "planning", "collection", "audit", "privacy_loss"),
        *("regression", "central", "central.regression"),
    ],
)
def test_a_module_that_needs_numpy_names_the_extra(name: str) -> None:
    """The process can import no package of the server."""
    code = f"{WITHOUT_SERVER}import ldp.{name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    module = f"ldp.{name.partition('.')[0]}"
    last = done.stderr.splitlines()[-1]
    assert re.fullmatch(
        rf"ldp\.errors\.MissingPackage: {module} needs the package \w+: .*'\.\[server\]'", last
    )


@pytest.mark.exact
def test_naming_a_mechanism_loads_no_numpy() -> None:
    code = "import sys, ldp; ldp.RandomizedResponse, dir(ldp); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "numpy" not in done.stdout.split()


COIN = RandomizedResponse(categories=("a", "b"), epsilon=1.0)


@pytest.mark.exact
@pytest.mark.parametrize(
    "call",
    [
        lambda: ldp.try_column([["a"], ["a", "b"]] * 50),
        lambda: ldp.try_column(["a", "b"] * 50, epsilon=()),
        lambda: ldp.try_column(["a", "b"] * 50, epsilon=cast(Any, None)),
        lambda: ldp.try_column(["a", "b"] * 50, epsilon=cast(Any, [[1.0]])),
        lambda: ldp.compare([], ["a", "b"]),
        lambda: ldp.compare(["rr"], ["a", "b"], ()),
        lambda: ldp.compare(["rr"], ["a", "b"], cast(Any, b"1")),
        lambda: ldp.compare(cast(Any, [lambda epsilon: epsilon]), ["a", "b"]),
        lambda: ldp.simulate("rr", ["a", "b"]),  # type: ignore[arg-type]
        *(lambda seed=seed: ldp.compare(["rr"], ["a", "b"], seed=seed) for seed in ("1", -1, 1.5)),
        lambda: draw_table(COIN, ["a"], generator=-1),
        lambda: next(draw_reports(COIN, ["a"], cast(Any, "1"))),
    ],
)
def test_what_is_no_question_is_refused_in_one_line(call: Callable[[], object]) -> None:
    with pytest.raises(ParameterError):
        call()


@pytest.mark.exact
def test_bytes_are_the_texts_that_they_write_and_fractions_numbers() -> None:
    """Earlier, nobody held bytes in the truth, though reports did, and a fraction's text was no
    number."""
    answers = np.array(["no"] * 70 + ["yes"] * 30)
    mechanism = RandomizedResponse(categories=("no", "yes"), epsilon=2.0)
    for values in (answers.astype("S"), pa.array(answers.astype("S").tolist())):
        assert sorted(row["true"] for row in ldp.simulate(mechanism, values).rows()) == [30, 70]
        assert ldp.try_column(values, epsilon=2.0).rows()
    thirds = [Fraction(i, 3) for i in range(90)]
    assert ldp.simulate(OneBitMean(bounds=(0, 30), epsilon=2.0), thirds).rows()[0]["true"] == (
        pytest.approx(89 / 6)
    )
    assert ldp.try_column(thirds, epsilon=2.0).rows()[0]["statistic"] == "p50"


@pytest.mark.exact
def test_a_comparison_at_the_largest_epsilon_measures_no_error() -> None:
    measured = ldp.compare("rr", ["a", "b"] * 10, 64.0, seed=1).columns["measured"]
    assert measured[0] == 0.0


@pytest.mark.exact
def test_one_mechanism_and_one_epsilon_need_no_list() -> None:
    people = ["a", "b", "c"] * 100
    alone, listed = (
        ldp.compare(names, people, epsilons, seed=1).columns
        for names, epsilons in (
            (cast(Any, "rr"), cast(Any, 1.0)),
            (["rr"], cast(Any, np.array([1.0]))),
        )
    )
    assert [*map(str, alone["mechanism"])] == [*map(str, listed["mechanism"])]
    assert ldp.try_column(people, epsilon=cast(Any, np.int64(1)), seed=1).rows()
