"""`ldp try` tries a column of data before any device is asked."""

import json
import os
import re
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp.errors import ParameterError
from ldp.planning.column_trial import are_numbers, try_column, try_numbers, try_values
from ldp.simulation import Population
from ldp.tables.estimates import Estimates
from tests.command_line import run
from tests.tiers import tiered

ROWS = 20_000


@pytest.fixture
def trips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return places with shares by 1/rank, and lognormal minutes, a few of them empty."""
    draw, weights = np.random.default_rng(1), 1 / np.arange(1, 41)
    places = draw.choice(40, ROWS, p=weights / weights.sum())
    minutes = [f"{number:.1f}" for number in draw.lognormal(3, 1, ROWS)]
    for row in draw.choice(ROWS, ROWS // 100, replace=False):
        minutes[row] = ""
    pairs = zip(places.tolist(), minutes, strict=True)
    lines = ["place,minutes,constant", *(f"town {place},{number},x" for place, number in pairs)]
    (tmp_path / "trips.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "trips.csv"


def answer(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    assert run(f"try trips.csv {words} --seed 1 --json", monkeypatch) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.mark.slow
@pytest.mark.exact
def test_a_column_is_categories_or_numbers(
    trips: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Larger epsilons find more, and the curator's error is that of the discrete Laplace noise."""
    result = answer("--column place", monkeypatch, capsys)
    assert (result["read_as"], result["people"], result["values"]) == ("categories", ROWS, 40)
    found = [row["detected"] for row in result["trials"]]
    assert [row["epsilon"] for row in result["trials"]] == [1, 2, 4]
    assert 0 < found[0] < found[1] < found[2] <= 40
    noise = [row["std_error"] for row in result["trials"]]
    assert noise[0] > noise[1] > noise[2] > 10 * result["trials"][2]["curator_std_error"]
    assert result["trials"][0]["curator_std_error"] == pytest.approx(2 * 2**0.5, rel=0.05)
    result = answer("--column minutes --epsilon 2", monkeypatch, capsys)
    assert (result["read_as"], result["people"] + result["empty"]) == ("numbers", ROWS)
    assert [row["statistic"] for row in result["trials"]] == ["p50", "p95"]
    for row in result["trials"]:
        low, high = row["low"] or -np.inf, row["high"] or np.inf
        assert low <= row["true"] <= high
        assert row["curator"] == pytest.approx(row["true"], rel=0.1)
    assert (
        answer("--column minutes --as categories", monkeypatch, capsys)["read_as"] == "categories"
    )


@pytest.mark.exact
def test_the_result_for_a_program_says_how_the_column_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = [*map(str, range(100)), *["NA"] * 9]
    Path("trips.csv").write_text("\n".join(["age", *cells, ""]))
    about = answer("--epsilon 4", monkeypatch, capsys)["about"]
    assert "read as categories, because of 1 value without a number, as 'NA' in row 101" in about
    assert about.endswith("; 'NA' in 9 rows may stand for a missing value")


@pytest.mark.exact
def test_few_different_numbers_are_categories() -> None:
    few = Population(tuple(map(str, range(20))), counts=np.ones(20, dtype=np.int64))
    many = Population(tuple(map(str, range(21))), counts=np.ones(21, dtype=np.int64))
    words = (*map(str, range(21)), "none")
    other = Population(words, counts=np.array([*[99] * 21, 22]))
    garbage = Population(words, counts=np.array([*[99] * 21, 20]))
    assert [are_numbers(people) for people in (few, many, other, garbage)] == [
        *(False, True, False, True)
    ]


@pytest.mark.exact
def test_large_numbers_are_printed_without_an_exponent() -> None:
    """An income of 296,940 stood beside an interval from 1.1469e+05."""
    trials = try_column([40_000 + 61 * person for person in range(8000)], epsilon=4, seed=1)
    texts = " ".join(cell for cells in trials.cells for cell in cells)
    assert " 283,940 " in texts
    sales = try_column([3e9 + 7e6 * person for person in range(8000)], epsilon=8, seed=1)
    texts += " ".join(cell for cells in sales.cells for cell in cells)
    assert "e+" not in texts
    assert "56,193,000,000" in texts


@pytest.mark.exact
def test_a_percentile_that_reports_do_not_tell_has_no_error() -> None:
    """A curve of the picture said 7 to 16 %, beside an interval without an upper end."""
    generator = np.random.default_rng(0)
    groups = np.where(generator.random(10_000) < 0.9, "many", "few")
    times = np.round(np.exp(generator.normal(3, 0.3, 10_000)), 1)
    (trial,) = try_column(times, by=groups, epsilon=1, seed=0).trials
    errors = {row["value"]: row["error"] for row in trial.rows if row["statistic"] == "p95"}
    assert all(map(np.isnan, errors.values()))
    (trial,) = try_column(times, by=groups, epsilon=8, seed=0).trials
    assert 0 < trial.rows[1]["error"] < 0.2


@pytest.mark.exact
def test_a_median_of_zero_is_told_as_finely_as_the_bins_allow() -> None:
    times = np.concatenate([np.zeros(12_000), np.random.default_rng(0).lognormal(3, 1, 8_000)])
    for by, at in ((None, 0), (np.where(np.arange(20_000) % 2, "b", "a"), 2)):
        trials = try_column(times, by=by, epsilon=8, seed=0)
        cells = dict(zip(trials.heads, trials.cells[at], strict=True))
        assert cells["estimate"] == "9.5367e-07"
        assert cells["95 % interval"] == "at most 9.5367e-07"
        assert all("reports_needed" not in row for row in trials.trials[0].rows)
        assert "not enough" not in trials.trials[0].result._repr_html_()
        assert by is not None or np.isnan(trials.trials[0].rows[0]["error"])  # no share of 0


@pytest.mark.exact
def test_an_estimate_that_reports_do_not_tell_is_not_printed() -> None:
    ages = [str(18 + person % 63) for person in range(300)]
    trials = try_column(ages, epsilon=(0.5, 8), read_as="numbers", seed=1)
    place = trials.heads.index("estimate")
    shown = [cells[place] != "not enough" for cells in trials.cells]
    intervals = [cells[trials.heads.index("95 % interval")] for cells in trials.cells]
    assert shown == [not interval.startswith(("at least", "not known")) for interval in intervals]
    assert {*shown} == {True, False}


UNITS = (
    "€{}",
    "$ {}",
    "USD {}",
    "-€{}",
    "{}%",
    "{} ms",
    "{},5 °C",
    "{}.25 kWh",
    "{}:05",
    "{}:00:59",
    "({})",
    "'{}",
    "US${}",
    "kr {}",
    "{} kr.",
    "<{}",
    "–{}",
    "\u200e{}",
    "\u200b{}",
    "\xad{}",
    "($ {})",
    "{}-",
    "{}\u00bd",
    "1\u202f0{}\u00a0\u20ac",
    "1\u20190{} kg",
)
CODES = ("R{}", "#{}", "v1.{}", "10.0.0.{}", "{}-{}", "2026-01-{}", "item {}", "{} green bottles")


@pytest.mark.exact
@pytest.mark.parametrize("form", UNITS)
def test_numbers_with_a_unit_are_not_taken_for_categories(form: str) -> None:
    values = [form.format(number) for number in range(10, 31)]
    shown = re.escape(f"price: {values[0]!r} may be a number with a unit: leave the unit out")
    with pytest.raises(ParameterError, match=shown):
        try_column(values, name="price")
    with pytest.raises(ParameterError, match=shown):  # as negative ones in brackets
        try_column([*map(str, range(30)), *values], name="price")
    categories = try_column(values, read_as="categories", epsilon=1, seed=1)
    assert categories.facts["values"] == 21
    assert try_column(values[:20], epsilon=1, seed=1).facts["read_as"] == "categories"


@pytest.mark.exact
@pytest.mark.parametrize("form", UNITS)
def test_numbers_with_a_unit_are_not_left_out_of_the_others(form: str) -> None:
    """As negative ones in brackets: what is left would look like the numbers of all."""
    values = [*map(str, range(10, 31)), form.format(5)]
    with pytest.raises(ParameterError, match="may be a number with a unit: leave the unit out"):
        try_column(values, read_as="numbers")
    values = [*values[:-1], "NA", "-"]
    about = "2 values without a number, as 'NA' in row 22 (--as numbers or read_as leaves out such"
    assert about in try_column(values, epsilon=1, seed=1).about
    grouped = [value if value in ("NA", "-") else f"1’0{value}" for value in values]
    assert about in try_column(grouped, epsilon=1, seed=1).about
    missing = try_column(values, read_as="numbers", epsilon=1, seed=1)
    assert missing.facts["left_out"] == 2


@pytest.mark.exact
@pytest.mark.parametrize("form", CODES)
def test_codes_with_a_number_are_categories(form: str) -> None:
    values = [form.format(number, number) for number in range(10, 31)]
    assert try_column(values, epsilon=1, seed=1).facts["read_as"] == "categories"
    values = [f"{number}{unit}" for number, unit in zip(range(22), "ab" * 11, strict=True)]
    assert try_column(values, epsilon=1, seed=1).facts["read_as"] == "categories"


@pytest.mark.exact
@pytest.mark.parametrize(
    ("others", "said"),
    [
        (["08.01"], "numbers; '08.01' may be a code or a date (--as categories)"),
        (["0151123"], "'0151123' may be a code"),
        (["+49151123"], "'+49151123' may be a code"),
        (["-99", "-99"], "; -99 in 2 rows may stand for a missing number"),
        (["999", "999"], "; 999 in 2 rows may stand for a missing number"),
        (["999"], ""),
        (["99", "99"], ""),
        (["0.5", "0", "+5", "-9"], ""),
    ],
)
def test_numbers_that_may_be_codes_are_named(others: list[str], said: str) -> None:
    values = [*map(str, range(18, 90)), *others]
    about = try_column(values, epsilon=1, seed=1).about
    assert said in about if said else about.endswith("read as numbers")


@pytest.mark.exact
def test_a_negative_number_of_nines_is_named_where_no_other_is_below_zero() -> None:
    values = [*map(str, range(500)), "-99", "-99"]
    about = try_column(values, epsilon=1, seed=1).about
    assert about.endswith("; -99 in 2 rows may stand for a missing number")
    assert "missing" not in try_column([*values, "-5"], epsilon=1, seed=1).about


@pytest.mark.exact
def test_a_category_is_shown_on_one_line_and_cut() -> None:
    names = ["Os\nlo", "x" * 500, "\x1b[31mred"]
    by = [names[place % 3] for place in range(300)]
    trials = try_column(range(300), by=by, epsilon=4, seed=1)
    shown = [cells[2] for cells in trials.cells]
    assert shown[::2] == ["Os\\nlo p50", "x" * 40 + " p50", "\\x1b[31mred p50"]
    assert {row["value"] for row in trials.rows()} == {*names}
    assert max(map(len, trials.notes.split())) <= 40
    assert "\x1b" not in trials.notes


@pytest.mark.exact
def test_a_name_that_is_no_text_is_not_shown() -> None:
    """Expressions of polars have a namespace there."""

    class Expression:
        name = object()

    with pytest.raises(ParameterError, match="values must be a list, an array or a column, not"):
        try_column(Expression())


@pytest.mark.exact
@pytest.mark.parametrize(("size", "is_told"), [(1e-9, True), (1e3, False), (3e9, True)])
def test_numbers_without_bins_of_their_own_are_told(size: float, is_told: bool) -> None:
    values = [size * (1 + place / 1000) for place in range(1000)]
    notes = try_column(values, epsilon=4, seed=1).notes
    assert ("Numbers below 1e-06 share a bin here, and so do those above 1e+09" in notes) == is_told


@pytest.mark.exact
@pytest.mark.parametrize(
    ("others", "said"),
    [
        (["Oslo "], "; 'Oslo' and 'Oslo ' look alike and count apart"),
        (["Oslo\u200b"], r"; 'Oslo' and 'Oslo\u200b' look alike and count apart"),
        (
            ["Malmo\u0308", "Malm\u00f6"],
            r"; 'Malmo\u0308' and 'Malm\xf6' look alike and count apart",
        ),
        (["NULL"] * 3, "; 'NULL' in 3 rows may stand for a missing value"),
        (["\\N"], r"; '\\N' in 1 row may stand for a missing value"),
        (["#NULL!"], "; '#NULL!' in 1 row may stand for a missing value"),
        ([".a", ".a"], "; '.a' in 2 rows may stand for a missing value"),
        ([" "], "; ' ' in 1 row may stand for a missing value"),
        (["1", "2", "99", "99"], "; 99 in 2 rows may stand for a missing number"),
        (["-99", "-99", *map(str, range(19))], "; -99 in 2 rows may stand for a missing number"),
        (["1", "2", "99"], ""),
        (["OSLO", "Osl\u00f8", "None at all", "9", "\U0001f468\u200d\U0001f467"], ""),
    ],
)
def test_categories_that_may_be_one_or_none_are_named(others: list[str], said: str) -> None:
    about = try_column(["Oslo", "Bergen", *others], epsilon=1, seed=1).about
    assert said in about if said else about.endswith("read as categories")


@pytest.mark.slow
@pytest.mark.exact
def test_cells_that_are_no_numbers_are_left_out_and_shown(
    trips: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["minutes", *map(str, range(1, 1000)), "n/a", '""', "inf"]
    Path("garbage.csv").write_text("\n".join(rows) + "\n")
    assert run("try garbage.csv --column minutes --epsilon 1", monkeypatch) == 0
    head = capsys.readouterr().out.splitlines()[0]
    assert "999 people, 999 different values, read as numbers; 1 empty cell left out" in head
    assert head.endswith("2 cells without a number left out, as 'n/a' in row 1,000")


@pytest.mark.exact
def test_texts_of_numbers_are_read_as_in_files() -> None:
    """Leaving out the numbers with commas would leave out the large ones."""
    numbers = [f"{number:,.2f}" for number in range(900, 1100)] + ["", "1100.00", "1,100.00"]
    trials = try_column(numbers, epsilon=1, seed=1)
    assert (trials.facts["values"], trials.facts["people"]) == (201, 202)
    assert trials.rows()[0]["true"] == 1000
    assert try_column(numbers, read_as="categories", epsilon=1).facts["values"] == 202
    with pytest.raises(ParameterError, match=r"price: '1,234' may be 1234 or 1.234: give numbers"):
        try_column(["1,234", "567"], read_as="numbers", name="price")


@pytest.mark.exact
def test_a_decimal_without_end_is_a_cell_without_a_number() -> None:
    numbers = [Decimal("Infinity"), *map(Decimal, range(30))]
    assert try_column(numbers, read_as="numbers", epsilon=1, seed=1).facts["left_out"] == 1


@pytest.mark.exact
@pytest.mark.filterwarnings("error")
def test_the_largest_numbers_do_not_overflow() -> None:
    people = Population(tuple(f"{rank}e302" for rank in range(1, 6)), counts=np.full(5, 10))
    (made,) = try_numbers(people, (1.0,), (0.5,), np.random.default_rng(1))
    assert made.rows[0]["true"] == 3e302


@pytest.mark.statistical
def test_a_trial_says_what_a_collection_would() -> None:
    """Each of 40 values is within 6 of its standard errors; this fails falsely with probability 40
    x 2e-9.

    The twin, errors at epsilon 1 taken for those at 4, is not.
    """
    counts = np.array([10_000 // rank for rank in range(1, 41)])
    people = Population(tuple(f"v{rank}" for rank in range(1, 41)), counts=counts)
    low, high = try_values(people, (1.0, 4.0), np.random.default_rng(3))
    assert isinstance(low.result, Estimates)
    assert isinstance(high.result, Estimates)
    for made in (low.result, high.result):
        score = (made.count - counts) / made.std_error
        assert np.abs(score).max() < 6
        assert made.values == people.values
    assert np.abs((low.result.count - counts) / high.result.std_error).max() > 6


@pytest.mark.slow
@pytest.mark.exact
def test_the_data_have_their_own_quantiles() -> None:
    people = Population(("10", "20", "1e2", "1000.0"), counts=np.array([49, 1, 45, 5]))
    (made,) = try_numbers(people, (1.0,), (0.5, 0.51, 0.95, 0.96), np.random.default_rng(1))
    assert [row["true"] for row in made.rows] == [20.0, 100.0, 100.0, 1000.0]


@pytest.mark.exact
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("trips.csv", "give --column, one of place, minutes, constant"),
        (
            "trips.csv --column town",
            "has no column 'town', but place, minutes, constant",
        ),
        ("trips.csv --column constant", "one value only"),
        ("trips.csv --column minutes --by minutes", "categories are too many for percentiles"),
        (
            "trips.csv --column place --as numbers",
            "no cell of place is a number; read it as categories",
        ),
        ("trips.csv --column place --epsilon 1,x", "must be numbers up to 64 with commas between"),
        ("trips.csv --column place --epsilon 0,5", "as 0.5,1,4"),
        ("empty.csv --column a", "the column a has no values"),
        ("lines.csv", r"the column a\u2028 1\u2028 2 has no values"),
        ("numbers.csv", "line 1: '1.5' is a number where the name of the column stands"),
        ("none.csv --column a", "none.csv"),
        ("bad.parquet --column a", "not a Parquet file"),
        ("counts.csv --column town", "count may count people, and --column reads one a row"),
        ("trips.csv --column place --out trips.csv", "is also an input"),
    ],
)
def test_mistakes_are_one_line(
    trips: Path,
    words: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("empty.csv").write_text("a,b\n,1\n")
    Path("numbers.csv").write_text("1.5\n2\n3\n")
    Path("lines.csv").write_text("a\u2028 1\u2028 2\n")
    Path("bad.parquet").write_text("no")
    Path("counts.csv").write_text("town,count\nOslo,6\nBergen,3\n")
    assert run(f"try {words}", monkeypatch) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


@pytest.mark.exact
def test_a_parquet_column_is_read_as_a_csv_column(
    trips: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    parquet.write_table(csv.read_csv(trips), "trips.parquet")
    assert pyarrow
    expected = answer("--column place --epsilon 2", monkeypatch, capsys)
    words = "try trips.parquet --column place --epsilon 2 --seed 1 --json"
    assert run(words, monkeypatch) == 0
    assert json.loads(capsys.readouterr().out) == expected


class Headings(HTMLParser):
    """Parser of the texts of a page, and of the addresses that it would load."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.loaded = "", list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, address in attrs:
            if name in ("src", "href") and address and not address.startswith(("#", "data:")):
                self.loaded.append(address)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.exact
@pytest.mark.parametrize(("column", "shown"), tiered([("place", "town 0"), ("minutes", "p95")]))
def test_the_page_has_a_chart_of_the_errors_and_the_last_epsilon_beside_the_truth(
    trips: Path,
    column: str,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = f"try trips.csv --column {column} --epsilon 1,4 --seed 1 --out try.html"
    assert run(words, monkeypatch) == 0
    assert capsys.readouterr().out.endswith("-> try.html\n")
    page = Headings()
    page.feed(Path("try.html").read_text("utf-8"))
    assert f"{column}: a simulation, made from the data and not private" in page.text
    for words in ("what reports say at epsilon 4", shown, "truth", "curator"):
        assert words in page.text
    assert "at epsilon 1" not in page.text
    assert Path("try.html").read_text("utf-8").count("<polyline") == (3 if column == "place" else 2)
    assert "randomised on the device" not in page.text
    assert not page.loaded


@pytest.mark.exact
def test_a_columns_name_is_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name is not HTML either, and an epsilon given twice is tried once."""
    monkeypatch.chdir(tmp_path)
    name = "../../<b>x</b>" + "y" * 300
    rows = "\n".join(["a", "b"] * 500)
    Path("odd.csv").write_text(f"{name}\n{rows}\n")
    assert run("try odd.csv --epsilon 2,2 --seed 1 --out try.html", monkeypatch) == 0
    assert capsys.readouterr().out.count(" rr ") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["odd.csv", "try.html"]
    assert "<b>x</b>" not in Path("try.html").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.exact
def test_very_many_different_values_are_refused_and_numbers_rounded(
    trips: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A million of either once took minutes without a word."""
    exact = answer("--column minutes --epsilon 4", monkeypatch, capsys)
    monkeypatch.setattr("ldp.planning.column_trial.MOST_DIFFERENT", 39)
    assert run("try trips.csv --column place", monkeypatch) == 2
    error = capsys.readouterr().err
    assert "place has 40 different values, and ldp try takes 39 at most" in error
    assert error.count("\n") == 1
    assert run("try trips.csv --column minutes --epsilon 4 --seed 1", monkeypatch) == 0
    assert "read as numbers of 4 digits" in capsys.readouterr().out
    rounded = answer("--column minutes --epsilon 4", monkeypatch, capsys)
    for row, other in zip(exact["trials"], rounded["trials"], strict=True):
        assert row["true"] == pytest.approx(other["true"], rel=1e-3)


@pytest.mark.exact
@pytest.mark.parametrize(
    "words",
    [
        "try pipe.csv",
        "decode pipe.csv --out x.csv",
        "report pipe.csv --out x.html",
        "key pipe.csv",
        "registry check pipe.csv",
    ],
)
def test_a_named_pipe_is_refused_and_not_waited_for(
    words: str, trips: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(trips.with_name("pipe.csv"))
    for file in ("pipe.csv", "/dev/zero"):
        assert run(words.replace("pipe.csv", file), monkeypatch) == 2
        assert "is a named pipe or a device, which may never end" in capsys.readouterr().err
