"""The report page: what it says fits the numbers beside it, and labels stay text."""

import base64
import hashlib
import html
import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp import CountMeanSketch, RandomizedResponse, SubsetSelection, UnaryEncoding
from ldp.accounting.label import Label
from ldp.decoding import METHODS, decode
from ldp.errors import DecodeError
from ldp.report import Results, render
from ldp.report.formats import MOST_LETTERS
from ldp.report.page import MOST_ROWS, TESTED, UNKNOWN, UNLISTED
from ldp.report.trends import compared_days, in_order
from ldp.server import decode_with_decoys
from ldp.simulation import draw_table
from ldp.tables.estimates import Rule
from tests.pages import NAMES, results, words


class Page(HTMLParser):
    """What a page holds: `tables` of sortable rows, each a list of cells as (text, sort
    key); `ids`, `attributes` of all tags, and the `script`."""

    VOID = ("meta", "link", "input", "line", "polyline", "circle", "br")

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[tuple[str, str | None]]]] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.script = ""
        self.inside = False

    @classmethod
    def read(cls, page: str) -> "Page":
        parsed = cls()
        parsed.feed(page)
        parsed.close()
        assert not parsed.open
        return parsed

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.attributes.append((tag, told))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "table":
            self.inside = "sortable" in (told.get("class") or "")
            if self.inside:
                self.tables.append([])
        elif tag == "tr" and self.inside and "tbody" in self.open:
            self.tables[-1].append([])
        elif tag in ("td", "th") and self.inside and "tbody" in self.open:
            self.tables[-1][-1].append(("", told.get("data-sort")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.script += data
        if self.inside and "tbody" in self.open and {"td", "th"} & {*self.open}:
            text, sort = self.tables[-1][-1][-1]
            self.tables[-1][-1][-1] = (text + data, sort)


@pytest.mark.exact
def test_labels_are_text_whatever_they_hold(tmp_path: Path) -> None:
    values = ("<script>alert(1)</script>", 'a "b" & c', "two  spaces\nand a line", "")
    page = render([results(tmp_path, (600, 300, 200, 100), values)], title="<b>title</b>")
    assert page.count("<script") == 1
    assert "<b>title" not in page
    assert html.escape(values[0]) in page
    assert "two  spaces\nand a line</bdi>" in page
    assert "(empty)" in page
    assert len(Page.read(page).tables[0]) == 4


RISKY = (
    '<img src="https://example.org/x.png" onerror="alert(1)">',
    "</script><script>alert(2)</script>",
    "</bdi></td></tr></table><h1>owned</h1>",
    "\N{ARABIC LETTER SEEN}\N{ARABIC LETTER LAM}\N{RIGHT-TO-LEFT OVERRIDE}abc",
    "bell\x07",
    "w" * 5000,
)


@pytest.mark.exact
def test_nothing_is_asked_of_anybody_and_no_value_becomes_markup(tmp_path: Path) -> None:
    counts = [600.0, 300, 200, 150, 120, 100]
    day = results(tmp_path, counts, RISKY, name="a.csv", windows=["2026-01-01"])
    later = results(tmp_path, counts, RISKY, name="b.csv", windows=["2026-01-02"])
    page = render([day, later], {RISKY[0]: 600}, title=RISKY[1])
    parsed = Page.read(page)
    asking = {"src", "href", "action", "data", "poster", "srcset", "formaction", "xlink:href"}
    for tag, told in parsed.attributes:
        for name, value in told.items():
            assert not name.startswith("on")
            assert name not in asking or (value or "").startswith("#") or value == "data:,", tag
    assert "url(" not in page
    assert "@import" not in page
    tags = [tag for tag, _ in parsed.attributes]
    assert tags.count("script") == tags.count("h1") == 1
    assert not {"img", "iframe", "object", "embed", "form", "base"} & {*tags}
    (policy,) = (told for tag, told in parsed.attributes if told.get("http-equiv"))
    digest = base64.b64encode(hashlib.sha256(parsed.script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in str(
        policy["content"]
    )
    shown = [row[1][0] for row in parsed.tables[1]]
    assert shown[:4] == [value.replace("\u202e", "\\u202e") for value in RISKY[:4]]
    assert shown[4] == "bell\N{SYMBOL FOR BELL}"
    assert shown[5] == "w" * MOST_LETTERS + "\N{HORIZONTAL ELLIPSIS}"


@pytest.mark.exact
def test_every_number_is_that_of_the_file_in_its_order(tmp_path: Path) -> None:
    count = [900.4, 512.6, 300.2, 41, 12, 3, -8, -20.6]
    given = results(tmp_path, count, [*"abcdefgh"], rule=Rule(control="bonferroni"), reports=2000)
    truth = dict(zip("abcdefgh", range(900, 100, -100), strict=True))
    found, rest = Page.read(render([given], truth)).tables
    for rank, (row, cells) in enumerate(zip(given.rows, [*found, *rest], strict=True), 1):
        low, high = ("selected_low", "selected_high") if row["detected"] else ("low", "high")
        texts = [text.replace("\N{MINUS SIGN}", "-") for text, _ in cells[:5]]
        shown = [rank, row["value"], row["count"], f"{row[low]:,.0f} to {row[high]:,.0f}"]
        shown[2] = f"{row['count']:,.0f}"
        assert texts == [*map(str, shown), str(truth[row["value"]])]
        sorts = [sort for _, sort in cells[2:5]]
        assert list(map(float, filter(None, sorts))) == [
            *(row["count"], row[low], truth[row["value"]])
        ]
    assert len(found) == 4


@pytest.mark.exact
def test_a_large_file_is_shown_in_part_and_says_how_much_is_not(tmp_path: Path) -> None:
    count = [9000.0 - i for i in range(1600)] + [0.0] * 1400
    page = render([results(tmp_path, count, [f"v{i}" for i in range(3000)], reports=10**8)])
    for shown in ("<bdi>v0<", "<bdi>v999<", "<bdi>v1600<", "<bdi>v2599<"):
        assert shown in page
    assert page.count("<bdi>") == 2 * MOST_ROWS
    read = words(page)
    assert "The 1,000 largest of 1,600 are shown; 600 more are in the CSV file." in read
    assert "400 more are in the CSV file." in read


@pytest.mark.exact
def test_of_several_days_all_but_the_last_are_shown_in_short(tmp_path: Path) -> None:
    files = days_of(tmp_path, [[0.5] * 150 + [0.0] * 120] * 2)
    page = render(files)
    tables = Page.read(page).tables
    assert [len(table) for table in tables] == [100, 100, 100, 150, 120]
    assert "The 100 largest are shown, 50 more are not; all were tested." in words(page)


@pytest.mark.exact
def test_the_page_can_be_read_by_a_screen_reader_and_without_its_script(tmp_path: Path) -> None:
    page = render([results(tmp_path)])
    parsed = Page.read(page)
    heads = [told for tag, told in parsed.attributes if tag == "th"]
    assert heads
    assert all(told.get("scope") in ("col", "row") for told in heads)
    assert [told["aria-sort"] for told in heads if "aria-sort" in told] == ["descending"] * 2
    labelled = {told.get("for") for tag, told in parsed.attributes if tag == "label"}
    assert {told.get("id") for tag, told in parsed.attributes if tag == "input"} == labelled
    assert ("html", {"lang": "en"}) in parsed.attributes
    tools = [told for _, told in parsed.attributes if told.get("class") == "tools"]
    assert tools
    assert all("hidden" in told for told in tools)
    assert "@media print" in page


def unexplained(page: str) -> str:
    return words("</style>" + page.split(">Unexplained<")[1]).split("Privacy label")[0]


@pytest.mark.exact
def test_what_no_candidate_explains_is_what_all_estimates_leave(tmp_path: Path) -> None:
    given = results(tmp_path, (600, 300, 10, -10))
    assert given.summary["unexplained"] == 100
    assert given.summary["unexplained_share"] == pytest.approx(0.1)
    said = unexplained(render([given], {"Oslo": 605, "Bergen": 290, "Paris": 105}))
    assert "leave 100 of the 1,000 reports that no candidate explains" in said
    assert "Its standard error is not known" in said
    assert "In truth 105 reports hold no candidate but one of 1 other value." in said
    said = unexplained(render([given], {"Oslo": 605}))
    assert "In truth" not in said, "the truth is not of all these reports"


@pytest.mark.exact
def test_old_summaries_still_make_a_page(tmp_path: Path) -> None:
    results(tmp_path)
    beside = tmp_path / "cities.json"
    told = json.loads(beside.read_text("utf-8"))
    for name in ("unexplained", "unexplained_std_error", "tail"):
        del told[name]
    beside.write_text(json.dumps(told), "utf-8")
    page = render([Results.load(tmp_path / "cities.csv")])
    assert "leave 100 of" in unexplained(page)
    assert "the summary beside the file does not tell it" in unexplained(page)
    assert "the table does not carry what its metric may spend" in words(page)


CATEGORIES = tuple("abcdef")


@pytest.mark.exact
@pytest.mark.parametrize("mechanism", [RandomizedResponse, SubsetSelection])
def test_all_categories_together_are_all_reports(mechanism: Any, tmp_path: Path) -> None:
    made = mechanism(categories=CATEGORIES, epsilon=1.0)
    held = np.array([500, 300, 100, 50, 50, 0])
    table = draw_table(made, CATEGORIES, counts=held, generator=np.random.default_rng(1))
    found = decode(table)
    assert found.sum_std_error == 0
    assert found.unexplained() == pytest.approx(0, abs=1e-6)
    found.to_csv(tmp_path / "all.csv")
    page = render([Results.load(tmp_path / "all.csv")])
    assert "nothing is unexplained" in unexplained(page)


@pytest.mark.exact
def test_the_error_of_the_unexplained_is_that_of_a_report_in_or_out_of_the_list() -> None:
    """Of randomised response over 6 values, 2 of them candidates: a report names one of them with
    probability p + q or 2 q, and its part of the sum is worth 1 / (p - q)."""
    made = RandomizedResponse(categories=CATEGORIES, epsilon=1.0)
    p, q = float(made.channel.touched), float(made.channel.untouched)
    held = np.array([500, 300, 100, 50, 50, 0])
    table = draw_table(made, CATEGORIES, counts=held, generator=np.random.default_rng(1))
    found = decode(table, ["a", "b"])
    share = float(found.count.sum()) / 1000
    inside, outside = p + q, 2 * q
    each = share * inside * (1 - inside) + (1 - share) * outside * (1 - outside)
    assert found.sum_std_error == pytest.approx(math.sqrt(1000 * each) / (p - q))
    added = math.sqrt(float((found.std_error**2).sum()))
    assert found.sum_std_error != pytest.approx(added, rel=0.05), "errors of one report are no two"
    bits = UnaryEncoding(categories=CATEGORIES, epsilon=1.0)
    table = draw_table(bits, CATEGORIES, counts=held, generator=np.random.default_rng(1))
    found = decode(table, ["a", "b"])
    assert found.sum_std_error == pytest.approx(math.sqrt(float((found.std_error**2).sum())))
    partly = SubsetSelection(categories=CATEGORIES, epsilon=1.0)
    table = draw_table(partly, CATEGORIES, counts=held, generator=np.random.default_rng(1))
    assert decode(table, ["a", "b"]).sum_std_error is None


@pytest.mark.exact
def test_decoys_have_no_part_in_what_is_said_of_the_unexplained(tmp_path: Path) -> None:
    made = CountMeanSketch(epsilon=4.0, rows=64, width=64, seed="aa")
    held = np.array([500, 300, 100, 50, 50, 0])
    table = draw_table(made, CATEGORIES, counts=held, generator=np.random.default_rng(1))
    found = decode_with_decoys(table, CATEGORIES, decoys=50)
    assert found.unexplained() == pytest.approx(1000 - float(found.count.sum()))
    assert found.sum_std_error is None
    assert decode(table, CATEGORIES).sum_std_error is not None
    found.to_csv(tmp_path / "some.csv")
    said = unexplained(render([Results.load(tmp_path / "some.csv")]))
    assert "only the sum of candidates and decoys has a known one" in said


LABEL = Label(
    metric="city",
    group="places",
    report_epsilon=3.0,
    window="1 day",
    window_epsilon=4.0,
    lifetime_epsilon=64.0,
)


@pytest.mark.exact
def test_the_privacy_label_says_what_a_report_costs_and_what_a_device_may_spend(
    tmp_path: Path,
) -> None:
    def label(**details: Any) -> str:
        page = render([results(tmp_path, **details)])
        return words("</style>" + page.split(">Privacy label<")[1])

    read = label(labels=[asdict(LABEL)])
    assert "guess right at most 95.3 times in 100" in read, "the whole report, not its part"
    assert "odds are multiplied by at most 20.09 (epsilon 3)" in read
    assert "What other groups of the product spend adds to it." in read
    assert "Every report has fresh noise. Several reports multiply." in read
    assert "may spend at most epsilon 4 in every UTC day, so at most 8 in any 24 hours" in read
    assert "Not known" not in read
    kept = {"lifetime_epsilon": 5.0, "memoised": True}
    read = label(labels=[{**asdict(LABEL), "memoise": "epoch", "epoch": "90 days"}], **kept)
    assert "All reports of 90 days are about one value" in read
    assert "saw all reports of 90 days" in read
    assert "(epsilon 5)" in read
    read = label(labels=[{**asdict(LABEL), "memoise": "per-value"}], **kept)
    assert "saw all reports about one value" in read
    assert "When a value changes is not covered" in read
    read = label(**kept)
    assert "for how long is not known" in read
    assert "Not known: the table does not carry" in read


@pytest.mark.exact
def test_no_epsilon_of_the_page_is_rounded_down(tmp_path: Path) -> None:
    page = words(render([results(tmp_path, epsilon=2.0433024)]))
    assert "2.044 epsilon of one report" in page
    assert page.count("2.044") == 3
    assert "2.043" not in page


def days_of(folder: Path, shares: Sequence[Sequence[float]], **details: Any) -> list[Results]:
    """A file of 1,000 reports a day, with a standard error of 10 reports."""
    return [
        results(
            folder,
            [1000 * share for share in day],
            [f"v{i}" for i in range(len(day))],
            name=f"day{number}.csv",
            windows=[f"2026-01-{number + 1:02d}"],
            **details,
        )
        for number, day in enumerate(shares)
    ]


def two_sided(first: float, second: float, tail: float = 1.0) -> float:
    """The p-value by another way: scipy's normal tail of the difference over its error."""
    from scipy.stats import norm

    noise = (tail * 10 / 1000) ** 2
    drawn = sum(min(max(f, 0), 1) * (1 - min(max(f, 0), 1)) / 1000 for f in (first, second))
    return float(2 * norm.sf(abs(second - first) / math.sqrt(2 * noise + drawn)))


@pytest.mark.exact
def test_differences_between_days_have_the_p_values_of_their_formula(tmp_path: Path) -> None:
    shares = [(0.5, 0.3, 0.05, 0.0), (0.4, 0.31, 0.05, -0.01)]
    changes = compared_days(days_of(tmp_path, shares))
    assert [change.value for change in changes] == ["v0", "v3", "v1", "v2"]
    expected = {f"v{i}": two_sided(*pair) for i, pair in enumerate(zip(*shares, strict=True))}
    assert {change.value: change.p_value for change in changes} == pytest.approx(expected)
    assert changes[0].difference == pytest.approx(-0.1)
    ranked = sorted(expected.values())
    holm = np.maximum.accumulate([min(1, (4 - i) * p) for i, p in enumerate(ranked)])
    assert [change.adjusted for change in changes] == pytest.approx(holm.tolist())
    for path in tmp_path.glob("*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "tail": 2.0}), "utf-8")
    wider = compared_days([Results.load(tmp_path / f"day{number}.csv") for number in range(2)])
    assert wider[0].p_value == pytest.approx(two_sided(0.5, 0.4, tail=2.0))


@pytest.mark.exact
def test_three_days_are_compared_in_turn_and_end_with_beginning(tmp_path: Path) -> None:
    files = days_of(tmp_path, [(0.3, 0.1), (0.3, 0.1), (0.5, 0.1)])
    changes = compared_days(files)
    assert {(change.earlier, change.later) for change in changes} == {(0, 1), (1, 2), (0, 2)}
    assert len(changes) == 6
    page = render([files[2], files[0], files[1]])
    read = words(page)
    assert "From 2026-01-01 to 2026-01-03" in read
    assert "1 value changed by more than noise , of 2 values" in read
    assert "6 tests" in read
    (row, other) = Page.read(page).tables[0]
    assert re.sub(r"\s+", " ", row[4][0]).strip() == "+20.0 ± 2.6 more"
    assert "within the noise" in other[4][0]
    assert page.count("<details><summary>2026-01-0") == 2, "all days but the last are folded"


@pytest.mark.exact
def test_days_that_differ_by_noise_alone_are_said_to(tmp_path: Path) -> None:
    page = render(days_of(tmp_path, [(0.3, 0.1), (0.301, 0.1)]))
    assert "No difference is more than noise , of 2 values" in words(page)
    assert 'fill="#b04a08"' not in page
    assert 'fill="#b04a08"' in render(days_of(tmp_path, [(0.3, 0.1), (0.5, 0.1)]))


@pytest.mark.exact
def test_only_different_days_of_one_mechanism_are_compared(tmp_path: Path) -> None:
    one, two = days_of(tmp_path, [(0.3, 0.1), (0.3, 0.1)])
    other = results(tmp_path, name="other.csv", fingerprint="ff")
    again = results(tmp_path, name="again.csv", windows=["2026-01-01"])
    undated = results(tmp_path, name="undated.csv", windows=[])
    assert in_order([two, other, one]) == [[one, two]]
    assert in_order([one, other]) == in_order([one, again]) == in_order([one, undated]) == []


@pytest.mark.exact
@pytest.mark.parametrize("details", [{"warning": "few rows"}, {"consistency_bias": "too high"}])
def test_what_cannot_be_tested_is_not(tmp_path: Path, details: dict[str, Any]) -> None:
    page = render(days_of(tmp_path, [(0.3, 0.1), (0.9, 0.1)], **details))
    assert "more than noise cannot be tested" in words(page)
    assert "changed by more" not in words(page)
    assert "<svg" in page


@pytest.mark.statistical
def test_days_of_the_same_people_show_no_change_at_the_stated_rate(tmp_path: Path) -> None:
    """100 pairs of days of 20 values, of a population that stays: at 5 % a page names a change in 5
    of 100 at most on average; binomial, more than 18 with probability 5e-7. Tests without the
    correction, the twin, name one in about 64."""
    made = RandomizedResponse(categories=tuple(f"v{i}" for i in range(20)), epsilon=1.0)
    generator, frequencies = np.random.default_rng(5), np.full(20, 0.05)
    wrong = naive = 0
    for _ in range(100):
        files = []
        for number in range(2):
            held = generator.multinomial(5000, frequencies)
            table = draw_table(made, made.categories, counts=held, generator=generator)
            found, path = decode(table), tmp_path / f"d{number}.csv"
            path.write_text(found.to_csv(), "utf-8")
            summary = {**found.summary(), "windows": [f"2026-01-0{number + 1}"]}
            path.with_suffix(".json").write_text(json.dumps(summary), "utf-8")
            files.append(Results.load(path))
        changes = compared_days(files)
        wrong += changes[0].adjusted <= 0.05
        naive += changes[0].p_value <= 0.05
    assert wrong <= 18
    assert naive > 18


@pytest.mark.exact
def test_each_file_may_have_a_truth_of_its_own(tmp_path: Path) -> None:
    one = results(tmp_path)
    two = results(tmp_path, values=NAMES, name="more.csv", windows=["2026-02-01"])
    page = render([one, two], [{"Oslo": 605}, {"Oslo": 1}])
    assert page.count('class="number miss"') == 2 + 1, "Bergen on both, Oslo on the second"
    with pytest.raises(DecodeError, match="3 truths for 2 files"):
        render([one, two], [{"Oslo": 1}] * 3)
    with pytest.raises(DecodeError, match="no candidate is named"):
        render([one, two], [{"Oslo": 1}, {"Paris": 1}])


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def browser(tmp_path: Path) -> Callable[[Path, str], str]:
    """The page as a browser has it after its script ran, by file and fragment."""
    if CHROMIUM is None:
        assert os.environ.get("CI") != "true", "Chromium is missing where it must not be"
        pytest.skip("chromium is not on the PATH: sorting and searching cannot be tried")

    def dumped(page: Path, fragment: str) -> str:
        words = [CHROMIUM or "", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        done = subprocess.run(
            [*words, profile, f"{page.as_uri()}#{fragment}"],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return done.stdout

    return dumped


@pytest.mark.slow
@pytest.mark.exact
def test_a_browser_shows_any_symbol_and_runs_no_value(
    tmp_path: Path, browser: Callable[[Path, str], str]
) -> None:
    page, names = tmp_path / "page.html", ("😂", "<script>alert(1)</script>", "naïve & co")
    page.write_text(render([results(tmp_path, (600, 300, 200), names)], {names[0]: 600}), "utf-8")
    seen = browser(page, "")
    assert [row[1][0] for row in Page.read(seen).tables[0]] == [*names]
    assert seen.count("<script") == 1


@pytest.mark.slow
@pytest.mark.exact
def test_a_browser_sorts_and_searches(tmp_path: Path, browser: Callable[[Path, str], str]) -> None:
    page = tmp_path / "page.html"
    names = ("Oslo", "Bergen", "Tromse\N{COMBINING ACUTE ACCENT}", "Bodø")
    page.write_text(render([results(tmp_path, (600, 300, 200, -10), names)]), "utf-8")

    def order(seen: str) -> list[str]:
        return [row[1][0] for row in Page.read(seen).tables[0]]

    still = browser(page, "")
    assert order(still) == [*names[:3]]
    assert "<button" in still
    assert 'class="tools"><label' in still.replace("\n", "").replace("  ", "")
    by_name = browser(page, "sort=value")
    assert order(by_name) == ["Bergen", "Oslo", names[2]]
    assert by_name.count('aria-sort="ascending"') == 1
    shown = browser(page, "find=TROMSE")
    assert shown.count('<tr hidden=""') == 3
    assert "1 of 4 rows" in shown
    rest = browser(page, "find=bod")
    assert '<details class="rest" open=""' in rest


@pytest.mark.exact
def test_the_page_says_what_was_tested_what_it_explains_and_what_was_made_of_the_counts(
    tmp_path: Path,
) -> None:
    page = words(render([results(tmp_path, method="puzzle", fragments_tested=12_345)]))
    assert "90 % of the reports explained" in page
    assert "put together from the fragments" in page
    assert "12,345 tagged fragments were tested" in page
    assert "made consistent" not in page
    page = words(render([results(tmp_path, consistency_bias="all is too high")]))
    assert "Estimates were made consistent: all is too high." in page
    assert "binomial" in page
    assert "of the reports explained" not in words(render([results(tmp_path, (1, 2, 3, 4))]))


@pytest.mark.exact
def test_every_method_that_decodes_is_told_on_the_page() -> None:
    assert set(TESTED) == {*METHODS, *UNLISTED} == set(UNKNOWN)


@pytest.mark.exact
def test_a_truth_that_names_no_candidate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match="no candidate is named in the truth"):
        render([results(tmp_path)], {"Paris": 5})
    with pytest.raises(DecodeError, match="no candidate is named in the truth"):
        render([results(tmp_path)], {})


@pytest.mark.exact
def test_a_truth_that_names_some_candidates_leaves_the_others_to_nobody(tmp_path: Path) -> None:
    read = words(render([results(tmp_path)], {"Oslo": 605, "Paris": 9}))
    assert "1 candidate was held by somebody, and 0 of them" in read
    assert "1 of the 2 discoveries was held by nobody" in read
    assert "3 candidates are not named in the truth" in read
    assert "50 % of the intervals hold" in read


@pytest.mark.exact
def test_a_truth_in_which_nobody_holds_anything_divides_by_nothing(tmp_path: Path) -> None:
    read = words(render([results(tmp_path)], {"Oslo": 0}))
    assert "0 candidates were held by somebody." in read
    assert "2 of the 2 discoveries were held by nobody" in read


@pytest.mark.exact
def test_a_section_without_truth_stands_beside_one_with(tmp_path: Path) -> None:
    about = results(tmp_path)
    other = results(tmp_path, values=("a", "b", "c", "d"), name="letters.csv", epsilon=1.0)
    page = render([about, other], {"Oslo": 605, "Bergen": 290})
    first, second = words(page.split('id="part-2"')[0]), words("</style>" + page.split("part-2")[2])
    assert "Against the truth" in first
    assert "Against the truth" not in second
    assert "The truth names none of these candidates" in second
    assert "(epsilon 2)" in first
    assert "(epsilon 1)" in second


@pytest.mark.exact
def test_several_sections_have_names_and_links(tmp_path: Path) -> None:
    monday = results(tmp_path, name="monday/estimates.csv")
    tuesday = results(tmp_path, name="tuesday/estimates.csv")
    page = render([monday, tuesday], title="Cities")
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]*)"', page)) <= set(ids)
    headings = re.findall("<h2>(.*)</h2>", page)
    assert [Path(name).parent.name for name in headings[:2]] == ["monday", "tuesday"]
    assert re.search("<h3>Discovered values</h3>", page)


@pytest.mark.exact
def test_few_rows_claim_no_error_rate_and_no_coverage(tmp_path: Path) -> None:
    warning = "fewer than 64 rows: no error rate is claimed"
    read = words(render([results(tmp_path, rule=Rule(threshold=100), warning=warning)]))
    assert "Fewer than 64 rows: no error rate is claimed." in read
    assert "Listed is every value whose estimate reaches 100 reports" in read
    assert "how often it holds the true count is not claimed" in read
    assert " 95 %" not in read
    assert "Benjamini" not in read
    assert "noise floor" not in read
    none = words(render([results(tmp_path, (1, 1, 1, 1), warning=warning)]))
    assert "without an error rate a value is listed only by a threshold" in none
    assert "noise floor" not in none
    assert " 95 %" not in none


@pytest.mark.exact
@pytest.mark.parametrize(
    ("rule", "said", "notes"),
    [
        (Rule(), "at most 5 % of a list like this is false", ["Hochberg", "Yekutieli"]),
        (Rule(control="bonferroni"), "With probability 95 % or more", ["Bonferroni", "Yekutieli"]),
        (Rule(control="none"), "tested at 5 % by itself", ["Yekutieli"]),
        (Rule(threshold=100), "no error rate is claimed", ["Yekutieli"]),
    ],
)
def test_the_rule_is_told_in_words_and_named_in_a_footnote(
    tmp_path: Path, rule: Rule, said: str, notes: list[str]
) -> None:
    page = render([results(tmp_path, rule=rule)])
    assert said in words(page)
    above, below = page.split('id="methods-1"')
    for number, name in enumerate(notes, 1):
        assert f'<a href="#methods-1">{number}</a>' in above
        assert name not in above
        assert name in below
    assert f"<sup>{len(notes) + 1}</sup>" not in below


@pytest.mark.exact
def test_no_discovery_is_said_and_explains_nothing_more(tmp_path: Path) -> None:
    read = words(render([results(tmp_path, (5, 1, 0, -10), reports=20)]))
    assert "None: no estimate stands out from the noise." in read
    assert "4 candidates are not discovered" in read
    assert "more than there are" in read
    assert "Before selection" not in read
    assert "Yekutieli" not in read


@pytest.mark.exact
def test_all_discovered_leaves_no_rest(tmp_path: Path) -> None:
    read = words(render([results(tmp_path, (400, 300, 200, 100))]))
    assert "The rest" not in read
    assert "not discovered" not in read
    assert "unbiased; those just above the noise floor tend to be too high" in read
    assert "start at 0" not in read
    assert "is shown as the nearer" not in read


@pytest.mark.exact
def test_an_interval_from_zero_is_explained(tmp_path: Path) -> None:
    read = words(render([results(tmp_path, (600, 18, 0, 0), rule=Rule(control="none"))]))
    assert "1 interval starts at 0 although the value is listed" in read


@pytest.mark.exact
def test_an_estimate_above_all_reports_is_shown_as_all(tmp_path: Path) -> None:
    given = results(tmp_path, (1001, 0, 0, 0))
    page = render([given])
    assert given.rows[0]["count"] == 1001
    assert '<td class="number" data-sort="1001.0">1,000</td>' in page
    assert "1,001" not in page
    assert "An estimate outside 0 to 1,000 is shown as the nearer" in words(page)


@pytest.mark.exact
def test_pooled_windows_name_what_a_person_spent(tmp_path: Path) -> None:
    days = ["2026-01-01", "2026-01-02", "2026-01-03"]
    read = words(render([results(tmp_path, windows=days)]))
    assert "of 3 days: whoever sent a report on each of them spent 3 times epsilon, 6." in read
    assert "times epsilon" not in words(render([results(tmp_path)]))


@pytest.mark.exact
@pytest.mark.parametrize("top", [40, 1_175, 99_999, 5e6, 1e9, 1e15])
def test_ticks_do_not_touch(tmp_path: Path, top: float) -> None:
    page = render([results(tmp_path, (top, 0, 0, 0), reports=int(top) + 1)])
    head = page.split('class="track ticks"')[1].split("</div>")[0]
    ticks = re.findall(r'<span( class="ends")? style="left:([\d.]+)%">([^<]*)<', head)
    edges = []
    for place, (ends, at, text) in enumerate(ticks):
        width = 2.3 * len(text)
        left = float(at) - (0 if place == 0 else width if ends else width / 2)
        edges += [left, left + width]
    assert edges == sorted(edges)
    assert edges[-1] < 103


def _set(**keys: object) -> Callable[[dict[str, Any]], str]:
    return lambda summary: json.dumps({**summary, **keys})


def _without(key: str) -> Callable[[dict[str, Any]], str]:
    return lambda summary: json.dumps({k: v for k, v in summary.items() if k != key})


@pytest.mark.exact
@pytest.mark.parametrize(
    "spoil",
    [
        _set(epsilon="4"),
        _set(epsilon=None),
        _set(epsilon=float("nan")),
        _set(noise_floor=[1]),
        _set(noise_floor=float("inf")),
        _set(reports=True),
        _set(reports=-1),
        _set(reports=10**400),
        _set(level="high"),
        _set(level=95),
        _set(windows=None),
        _set(windows=[1]),
        _set(warning=1),
        _set(control=[]),
        _set(threshold="1"),
        *(_without(key) for key in ("method", "threshold", "windows")),
        _set(labels=[{**asdict(LABEL), "window_epsilon": 10**400}]),
        lambda summary: json.dumps([summary]),
        lambda summary: "null",
        lambda summary: "{",
        lambda summary: "[" * 100_000,
    ],
)
def test_a_wrong_summary_is_one_line_naming_the_file(
    tmp_path: Path, spoil: Callable[[dict[str, Any]], str]
) -> None:
    results(tmp_path)
    beside = tmp_path / "cities.json"
    beside.write_text(spoil(json.loads(beside.read_text("utf-8"))), "utf-8")
    with pytest.raises(DecodeError, match=r"cities\.json: .* as `ldp decode`") as caught:
        Results.load(tmp_path / "cities.csv")
    assert "\n" not in str(caught.value)


@pytest.mark.exact
@pytest.mark.parametrize(
    "line",
    ["x,nan,1,0,1,,0,,", "x,1,1,0,1,,1,,", "x,1", "x,,1,0,1,,0,,", "x,one,1,0,1,,0,,"],
)
def test_a_wrong_row_is_one_line_naming_the_file(tmp_path: Path, line: str) -> None:
    results(tmp_path)
    path = tmp_path / "cities.csv"
    path.write_text(path.read_text("utf-8") + line + "\n", "utf-8")
    with pytest.raises(DecodeError, match=r"cities\.csv: not as `ldp decode` wrote it"):
        Results.load(path)


@pytest.mark.exact
def test_files_that_are_missing_or_foreign_are_named(tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match=r"cannot read .*none\.csv"):
        Results.load(tmp_path / "none.csv")
    results(tmp_path)
    (tmp_path / "cities.json").unlink()
    with pytest.raises(DecodeError, match=r"cannot read .*cities\.json"):
        Results.load(tmp_path / "cities.csv")
    (tmp_path / "other.csv").write_text("value,count\nOslo,1\n", "utf-8")
    with pytest.raises(DecodeError, match="not an estimates file"):
        Results.load(tmp_path / "other.csv")


@pytest.mark.exact
def test_the_summary_of_a_name_without_csv_stands_beside_it(tmp_path: Path) -> None:
    assert results(tmp_path, name="cities.v1").summary["reports"] == 1000
    assert (tmp_path / "cities.v1.json").exists()
