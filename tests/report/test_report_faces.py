"""Kinds of report pages: numbers, cross tables and regressions, from files in their form."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp.errors import DecodeError
from ldp.files import csv_text
from ldp.registry.label import Label
from ldp.report import render
from ldp.tables.result import write_with_summary
from ldp.tables.saved import SavedResult
from tests.command_line import run
from tests.folders import DATA
from tests.pages import Page, results, sign, words

FILES = DATA / "report"
RISKY = '</th></table><script>alert("1")</script>'


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a folder with the committed files of a number and of a cross table."""
    shutil.copytree(FILES, tmp_path, dirs_exist_ok=True)
    return tmp_path


JOINT = """
[product]
name = "p"
[group.g]
window = "1d"
window_epsilon = 8.0
lifetime_epsilon = 64.0
[metric.both]
version = 1
group = "g"
description = "Who says what"
owners = ["team@example.org"]
expires = 2030-12-31
mechanism = "joint"
of = ["first", "second"]
""" + "".join(
    f"""
[metric.{name}]
version = 1
group = "g"
description = "A part"
owners = ["team@example.org"]
expires = 2030-12-31
mechanism = "unary"
categories = {categories}
epsilon = 4.0
"""
    for name, categories in (("first", ["x", "y"]), ("second", ["yes", "no"]))
)


def numbers(path: Path, rows: list[tuple[Any, ...]], **keys: Any) -> Path:
    """Write a file of numbers with these rows, of 1,000 reports."""
    summary = json.loads((FILES / "latency.json").read_text("utf-8"))
    write_with_summary(
        path, csv_text([NUMBER_COLUMNS, *rows]), {**summary, "reports": 1000, **keys}
    )
    return path


load = SavedResult.load
NUMBER_COLUMNS = ("statistic", "bin_low", "bin_high", "estimate", "std_error", "low", "high")
BINS = [
    ("count", "", 0, 0, 10, -20, 20),
    ("count", 0, 10, 600, 10, 580, 620),
    ("count", 10, 20, 300, 10, 280, 320),
    ("count", 20, "", 100, 10, 80, 120),
]


@pytest.mark.exact
def test_a_number_has_statistics_and_a_histogram_in_the_order_of_its_bins(tmp_path: Path) -> None:
    rows = [
        ("mean", "", "", 9.5, 0.2, 9.1, 9.9),
        ("p50", "", "", 8.3, 0.2, 8, 8.7),
        ("p99", "", "", "", "", 20, ""),
        *BINS,
    ]
    read = load(numbers(tmp_path / "wait.csv", rows))
    page = render([read], {"5": 590, "15": 310, "50": 100})
    text = words(page)
    assert "mean 9.5 9.1 to 9.9 0.2 12.6" in text
    assert "p50 the median 8.3 8 to 8.7 0.2 5" in text
    assert "p99 99 % are at or below beyond the bins at least 20 not known 50" in text
    (table,) = Page.read(page).tables
    assert [cells[0][0] for cells in table] == ["below 0", "0 to 10", "10 to 20", "from 20"]
    assert [cells[2][0] for cells in table] == ["0", "600", "300", "100"]
    assert [cells[4][0] for cells in table] == ["0", "590", "310", "100"]
    heights = [
        float(at) for at in re.findall(r'<i title="[^"]*" style="--w:1.0;--at:([\d.]+)', page)
    ]
    assert heights == pytest.approx([0, 600 / 620, 300 / 620, 100 / 620], abs=1e-4)
    assert "in the order of the bins; linear scales." in text
    marks = re.findall(r'class="mark[^"]*" style="--at:([\d.]+)', page)
    assert [float(at) for at in marks] == pytest.approx([1.95 / 4, 1.83 / 4, 1], abs=1e-4)


@pytest.mark.exact
def test_bins_of_different_widths_have_a_logarithmic_axis_that_says_so(files: Path) -> None:
    page = words(render([load(files / "latency.csv")]))
    assert page.startswith(" latency, 2026-11-02 ")
    assert "on a logarithmic scale" in page
    assert (
        "11 bins on the outside, in which nothing stands out from the noise, are not drawn" in page
    )
    assert "at least 11,389" in page
    assert "1 % of them could move the mean by 31.5." in page
    assert "Its group, speed, may spend at most epsilon 4" in page


@pytest.mark.exact
def test_areas_are_shares_whatever_the_widths_of_bins(tmp_path: Path) -> None:
    edges = ["", 0, 1, 2, 4, 16, ""]
    counts = (10, 0, 100, 200, 400, 290)
    rows = [
        ("count", low, high, count, 1, count, count)
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
    ]
    page = render([load(numbers(tmp_path / "a.csv", [*rows, ("p50", "", "", 8, 1, 2, 16)]))])
    drawn = re.findall(r'title="([^"]*)" style="--w:([\d.]+);--at:([\d.]+)', page)
    assert [name.split(":")[0] for name, _, _ in drawn][1:4] == ["0 to 1", "1 to 2", "2 to 4"]
    widths = [float(width) for _, width, _ in drawn]
    assert widths == pytest.approx([4 / 3, 4 / 3, 1, 1, 2, 4 / 3], abs=1e-4)
    areas = [width * float(at) for width, (_, _, at) in zip(widths, drawn, strict=True)]
    assert areas == pytest.approx([count * areas[4] / 400 for count in counts], abs=1e-4)
    (mark,) = re.findall(r'class="mark[^"]*" style="--at:([\d.]+)', page)
    assert float(mark) == pytest.approx((4 / 3 + 4 / 3 + 2 + 1) / sum(widths), abs=1e-4)


@pytest.mark.exact
def test_a_bin_of_zeros_does_not_hide_the_others(tmp_path: Path) -> None:
    """The others stand out together only. Noise is drawn neither before them nor after them."""
    edges = ["", *(2.0**power for power in range(-16, 17)), ""]
    held = {0: 600, **dict.fromkeys(range(20, 28), 50)}
    rows = [
        ("count", *pair, held.get(i, 0), 14, 560 if i == 0 else 0, 640 if i == 0 else 90)
        for i, pair in enumerate(pairwise(edges))
    ]
    median = ("p50", "", "", 2.0**-16, "", "", 2.0**-16)
    page = render([load(numbers(tmp_path / "a.csv", [*rows, median, ("p90", *[""] * 6)]))])
    drawn = re.findall(r'title="([^":]*): [^"]*" style="--w:', page)
    assert (drawn[0], drawn[-1]) == ("4 to 8", "2,048 to 4,096")
    assert "p50 at most 0.00001526 in 1,000 reports" in words(page)
    assert "not drawn. Not drawn: 60 % of the reports are below 0.00001526." in words(page)
    assert re.findall(r'class="mark[^"]*" style="--at:([\d.]+)', page) == ["1.0"]


@pytest.mark.exact
def test_true_statistics_are_those_of_the_numbers(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    held = generator.integers(0, 40, 999)
    truth = {str(number): int(count) for number, count in enumerate(np.bincount(held))}
    names = ("mean", "variance", "p50", "p90", "p99.5")
    rows = [(name, "", "", 0, 1, -1e9, 1e9) for name in names]
    page = render([load(numbers(tmp_path / "a.csv", [*rows, *BINS]))], truth)
    shown = re.findall(r'<td class="number">([\d.]+)</td></tr>', page)
    percentiles = np.percentile(held, [50, 90, 99.5], method="inverted_cdf")
    expected = [held.mean(), held.var(), *percentiles]
    assert list(map(float, shown)) == pytest.approx(expected, rel=1e-3)


@pytest.mark.exact
def test_a_truth_of_texts_is_none_of_a_number(files: Path) -> None:
    number, cities = load(files / "latency.csv"), results(files)
    with pytest.raises(DecodeError, match="no candidate is named"):
        render([number], {"Oslo": 1})
    page = words(render([number, cities], {"Oslo": 605}))
    assert "The truth names nothing of this file" in page
    assert "Against the truth" in page
    table = load(files / "network.csv")
    assert "Against the truth" in words(render([table, cities], [{"Oslo": 605}])), (
        "a table has none"
    )
    with pytest.raises(DecodeError, match="not finite"):
        render([number], {"inf": 1})
    with pytest.raises(DecodeError, match="of size 1e\\+140 or more"):
        render([number], {"1e300": 1, "-1e300": 1})  # no float is their variance
    assert render([number], {"9e139": 10**18})


def marked(page: str) -> set[tuple[str, str]]:
    """Return the framed cells of a page's heat map, by row and column."""
    head, body = page.split('class="heat"')[1].split("</table>")[0].split("<tbody>")
    columns = re.findall(r"<bdi>([^<]*)</bdi>", head)
    lines = [line.split("<td") for line in body.split("<tr>")[1:]]
    return {
        (re.findall(r"<bdi>([^<]*)</bdi>", line[0])[0], column)
        for line in lines
        for column, cell in zip(columns, line[1:], strict=True)
        if cell.startswith(' class="sure"')
    }


@pytest.mark.exact
def test_a_cross_table_marks_the_cells_that_are_more_than_noise(files: Path) -> None:
    read = load(files / "network.csv")
    page = render([read])
    expected = {row["values"] for row in read.rows() if row["discovered"]}
    assert 0 < len(expected) < read.size
    assert marked(page) == expected
    assert page.count(", more than noise</span>") == len(expected)
    text = words(page)
    assert "version by connection" in text
    assert f"{len(expected)} of 20 combinations found in 400,000 reports" in text
    assert "A test shows that they do: chi-square 9,312, 12 degrees of freedom" in text
    assert "at most 5 % of the marked combinations are held by nobody" in text
    assert "1 % of them could move a count by 5,210." in text
    (rows,) = Page.read(page).tables
    assert [cells[0][0].split()[0] for cells in rows] == [row["values"][0] for row in read.rows()]


@pytest.mark.exact
def test_what_associate_writes_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("metrics.toml").write_text(JOINT)
    Path("people.csv").write_text("a,b,count\nx,yes,900\nx,no,300\ny,no,800\n")
    simulate = "simulate both --registry metrics.toml --population people.csv --seed 1"
    assert run(f"{simulate} --day 2026-11-02 --reports store", monkeypatch) == 0
    counting = "aggregate both --registry metrics.toml store --out both.table"
    assert run(counting, monkeypatch) == 0
    assert run("decode both.table --out both.csv", monkeypatch) == 0
    assert run("report both.csv --registry metrics.toml --out page.html", monkeypatch) == 0
    page = words(Path("page.html").read_text("utf-8"))
    assert page.startswith(" both, 2026-11-02 ")
    assert "Who says what." in page
    assert "Owners team@example.org" in page
    assert "first by second" in page
    assert "Its group, g, may spend at most epsilon 8" in page


def cross(path: Path, cells: list[tuple[Any, ...]], members: list[str], **keys: Any) -> Path:
    """Write a file of a cross table of 1,000 reports with these cells: values and count."""
    summary = json.loads((FILES / "network.json").read_text("utf-8"))
    summary |= {"members": members, "reports": 1000, **keys}
    names = [f"value_{number}" for number in range(1, len(members) + 1)]
    names += ["estimate", "std_error", "low", "high", "p_value", "discovered"]
    rows = [(*cell, 10, cell[-1] - 20, cell[-1] + 20, 0.5, 0) for cell in cells]
    write_with_summary(path, csv_text([names, *rows]), summary)
    return path


@pytest.mark.exact
def test_three_members_have_a_heat_map_for_each_value_of_the_third(tmp_path: Path) -> None:
    cells = [(a, b, c, 10) for a in "xy" for b in "uvw" for c in ("on", "off", "(other)")]
    page = render([load(cross(tmp_path / "t.csv", cells, ["one", "two", "three"]))])
    headings = re.findall("<h2>(.*two by one.*)</h2>", page)
    assert [re.sub("<[^>]*>", "", text) for text in headings] == [
        f"two by one, three: {value}" for value in ("off", "on", "(other)")
    ]
    many = [("x", "y", str(c), 10) for c in range(9)]
    assert 'class="heat"' not in render([load(cross(tmp_path / "m.csv", many, [*"abc"]))])
    four = [("x", "y", "z", "w", 10)]
    assert 'class="heat"' not in render([load(cross(tmp_path / "f.csv", four, [*"abcd"]))])


@pytest.mark.exact
def test_a_large_cross_table_is_cut_and_says_so(tmp_path: Path) -> None:
    cells = [(f"a{a}", f"b{b}", 2000 - a - b) for a in range(50) for b in range(30)]
    page = render([load(cross(tmp_path / "t.csv", cells, ["one", "two"]))])
    assert page.count('<th scope="row"><bdi>') == 40
    assert "Rarer values are in the list and in the CSV file" in words(page)
    assert "500 more are in the CSV file" in words(page)
    assert 'tabindex="0" role="region" aria-label="Heat map 1"' in page


@pytest.mark.exact
@pytest.mark.parametrize("name", ["latency", "network"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace("1", "2", 1),
        lambda text: text[:-2],
        lambda text: text + "x,y,1\n",
        lambda text: text.splitlines()[0],
        lambda text: text + "\u0663",
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_a_file_that_has_changed_is_one_line(
    files: Path, name: str, spoil: Callable[[str], str], suffix: str
) -> None:
    path = (files / name).with_suffix(suffix)
    path.write_text(spoil(path.read_text("utf-8")), "utf-8")
    said = r"\.csv has changed since|\.json: not as `ldp decode` writes it"
    with pytest.raises(DecodeError, match=said) as caught:
        load(files / f"{name}.csv")
    assert "\n" not in str(caught.value)


@pytest.mark.exact
@pytest.mark.parametrize("first", [*(2**20 - 200 - shift for shift in range(40)), 5_000_000])
def test_values_come_back_as_they_were_written(files: Path, first: int) -> None:
    """The block that pyarrow reads by default, a megabyte, ends between CR and LF in some files.

    In the last file it ends within a value. The name is one that pyarrow would unpack.
    """
    summary = json.loads((files / "network.json").read_text("utf-8"))
    names = ("value", "estimate", "std_error", "low", "high", "p_value", "discovered")
    values = ["x" * first, *(f"v{i}\r\n" for i in range(10)), "NA", "", "nan", "1e5"]
    rows = [(value, 1.5, 0.5, 0.5, 2.5, 0.25, 0) for value in values]
    write_with_summary(files / "e.csv.gz", csv_text([names, *rows]), summary)
    assert load(files / "e.csv.gz").texts("value") == values


@pytest.mark.exact
@pytest.mark.parametrize(("key", "value"), [("alpha", 2), ("kind", "numbers")])
def test_a_key_that_has_changed_is_one_line(files: Path, key: str, value: Any) -> None:
    beside = files / "network.json"
    beside.write_text(json.dumps({**json.loads(beside.read_text("utf-8")), key: value}), "utf-8")
    with pytest.raises(DecodeError, match=r"network\.json: .*it has changed since"):
        load(files / "network.csv")


@pytest.mark.exact
def test_every_face_escapes_names_and_can_be_read_aloud(files: Path) -> None:
    label = Label(
        metric=RISKY,
        group=RISKY,
        report_epsilon=1.0,
        window="1 day",
        window_epsilon=1.0,
        lifetime_epsilon=2.0,
    )
    number = sign(files / "latency.csv", labels=[asdict(label)], mechanism=RISKY)
    table = cross(files / "t.csv", [(RISKY, RISKY, 10)], [RISKY, "b"], warnings=[RISKY])
    rows = [(RISKY, "", "", 1, 1, 0, 2), *BINS]
    files_read = [load(path) for path in (number, table, numbers(files / "n.csv", rows))]
    parsed = Page.read(render([*files_read, results(files)]))
    tags = [tag for tag, _ in parsed.attributes]
    assert (tags.count("script"), tags.count("main"), tags.count("h1")) == (1, 1, 1)
    assert tags.count("caption") == tags.count("table")
    assert all(told.get("scope") for tag, told in parsed.attributes if tag == "th")
    links = {told["href"] for tag, told in parsed.attributes if tag == "a"}
    ids = {told.get("id") for _, told in parsed.attributes}
    assert {str(link)[1:] for link in links} <= ids
    drawn = [told for _, told in parsed.attributes if told.get("role") == "img"]
    assert all(told.get("aria-label") for told in drawn)


@pytest.mark.exact
def test_the_command_puts_all_faces_on_one_page(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    results(files)
    assert run("report latency.csv network.csv cities.csv --out page.html", monkeypatch) == 0
    page = words(Path("page.html").read_text("utf-8"))
    assert page.startswith(" latency, network, cities, 2026-01-01 to 2026-11-02 ")
    for said in (
        "mean 1,205 in 200,000",
        "14 of 20 combinations found",
        "2 of 4 candidates found in",
    ):
        assert said in page
