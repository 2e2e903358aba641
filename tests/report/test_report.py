"""The report page says what the numbers beside it mean, and labels stay text."""

import base64
import gzip
import hashlib
import html
import re
from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ldp.decoding import METHODS
from ldp.errors import DecodeError
from ldp.files import counted
from ldp.registry import Registry, explaining
from ldp.report import render
from ldp.report.drawings import Axis
from ldp.report.formats import MOST_LETTERS, percent, quantity, tenths, whole_number
from ldp.report.page import MOST_ROWS, template
from ldp.report.value_face import UNLISTED
from ldp.tables.estimates import Rule
from ldp.tables.frame import number_text
from tests.command_line import REGISTRY
from tests.pages import NAMES, Page, days_of, dumped, long_list, results, words


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
    rule = Rule(control="bonferroni")
    given = long_list(tmp_path, count, values=[*"abcdefgh"], rule=rule, reports=2000)
    truth = dict(zip("abcdefgh", range(900, 100, -100), strict=True))
    found, rest = Page.read(render([given], truth)).tables
    for rank, (row, cells) in enumerate(zip(given.rows(), [*found, *rest], strict=True), 1):
        low, high = ("selected_low", "selected_high") if row["discovered"] else ("low", "high")
        texts = [text.replace("\N{MINUS SIGN}", "-") for text, _ in cells[:6]]
        number, held = row["estimate"], truth.get(row["value"], 0)
        shown = [rank, row["value"], f"{number / 20:.3g}\N{NO-BREAK SPACE}%", f"{number:,.0f}"]
        assert texts == [*map(str, shown), f"{row[low]:,.0f} to {row[high]:,.0f}", str(held)]
        sorts = [sort for _, sort in cells[3:6]]
        assert list(map(float, filter(None, sorts))) == [number, row[low], held]
    assert len(found) == 4


@pytest.mark.exact
def test_few_categories_stand_together_with_an_interval_each(tmp_path: Path) -> None:
    given = results(tmp_path, (600, 300, 10, -10), reports=1000)
    page = render([given])
    (rows,) = Page.read(page).tables
    assert [cells[1][0] for cells in rows] == [
        "Oslo",
        "Bergen",
        "Tromsø not found",
        "Bodø not found",
    ]
    assert [cells[4][0] for cells in rows][:2] == ["580 to 620", "280 to 320"], (
        "nothing is selected"
    )
    assert [cells[2][0] for cells in rows] == [
        f"{share}\N{NO-BREAK SPACE}%" for share in ("60", "30", "1", "0")
    ]
    assert "2 of 4 candidates found in 1,000 reports" in words(page)
    assert "Each holds the true count with probability 95 %, by itself." in words(page)


@pytest.mark.exact
def test_bars_are_linear_until_the_reader_asks_for_another_scale(tmp_path: Path) -> None:
    page = render([results(tmp_path, (600, 300, 150, 0))])
    bars = [float(at) for at in re.findall(r'class="track" style="--at:([\d.]+)', page)]
    assert bars == pytest.approx([bars[0] / times for times in (1, 2, 4)] + [0], abs=1e-4)
    (axis,) = re.findall(r'<small data-other="([^"]*)">([^<]*)<', page)
    assert axis == ("% of the reports, square-root scale", "% of the reports, linear scale")
    assert 'type="checkbox" class="scale"> Square-root scale' in page


@pytest.mark.exact
def test_three_parts_of_all_reports_add_to_a_hundred(tmp_path: Path) -> None:
    def parts(**details: Any) -> list[float]:
        page = words(render([results(tmp_path, reports=1000, **details)]))
        shown = re.search(r"([\d.]+) % found ([\d.]+) % [^%]* ([\d.]+) % o", page)
        assert shown
        return [float(number) for number in shown.groups()]

    assert parts(count=(600, 300, 11, -5)) == [90, 0.6, 9.4]
    assert parts(count=(333.33, 333.33, 0, 0)) == [66.7, 0, 33.3]
    assert parts(count=(600, 300, -20, -30)) == [85.7, 0, 14.3], "less than nobody is nobody"
    assert parts(count=(800, 400, 0, 0)) == [100, 0, 0]
    for counts in ((1 / 3,) * 3, (0.0005, 0.9995, 0), (1, 1, 1e9), (0, 0, 0)):
        total = sum(
            round(10 * float(text.split("\N{NO-BREAK SPACE}")[0])) for text in tenths(counts)
        )
        assert total == (1000 if sum(counts) else 0)
    sets: dict[str, Any] = {"at_most": 2, "answers_each": 1.2, "answers_each_std_error": 0.1}
    assert 'class="stack"' not in render([results(tmp_path, **sets)])


@pytest.mark.exact
def test_the_csv_can_be_had_back_byte_by_byte(tmp_path: Path) -> None:
    page = render([results(tmp_path, (600, 300, 200, 100), ("a\r\nb", "\u202e", "c,d", '"'))])
    (button,) = (told for _, told in Page.read(page).attributes if "data-csv" in told)
    packed = base64.b64decode(str(button["data-csv"]))
    assert gzip.decompress(packed) == (tmp_path / "cities.csv").read_bytes()
    assert button["data-name"] == "cities.csv"
    assert "hidden" in button, "without the script there is nothing to press"


@pytest.mark.exact
def test_the_registry_says_what_a_metric_is_about_and_who_owns_it(tmp_path: Path) -> None:
    (tmp_path / "metrics.toml").write_text(REGISTRY)
    (tmp_path / "cities.txt").write_text("Oslo\nBergen\n")
    known = Registry.load(tmp_path / "metrics.toml")
    label = asdict(explaining.label(known, "city"))
    page = words(render([results(tmp_path, labels=[label])], registry=known))
    assert page.startswith(" city, 2026-01-01 ")
    assert "Where people ask for the weather." in page
    assert "Owners team@example.org" in page
    assert "Its group, places, may spend at most epsilon 8 in every UTC day" in page
    assert "Owners" not in words(render([results(tmp_path)], registry=known))


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
def test_the_page_can_be_read_by_a_screen_reader_and_without_its_script(tmp_path: Path) -> None:
    page = render([long_list(tmp_path)])
    parsed = Page.read(page)
    heads = [told for tag, told in parsed.attributes if tag == "th"]
    assert heads
    assert all(told.get("scope") in ("col", "row") for told in heads)
    assert [told["aria-sort"] for told in heads if "aria-sort" in told] == ["descending"] * 2
    tags = [tag for tag, _ in parsed.attributes]
    assert tags.count("main") == 1
    assert tags.count("caption") == tags.count("table")
    assert "prefers-color-scheme: dark" in page
    searches = [told for _, told in parsed.attributes if told.get("type") == "search"]
    assert searches
    assert all(told.get("aria-label") for told in searches)
    assert ("html", {"lang": "en"}) in parsed.attributes
    tools = [told for _, told in parsed.attributes if told.get("class") == "tools"]
    assert tools
    assert all("hidden" in told for told in tools)
    assert "@media print" in page


@pytest.mark.exact
@pytest.mark.parametrize("details", [{"warning": "few rows"}, {"consistency_bias": "too high"}])
def test_what_cannot_be_tested_is_not(tmp_path: Path, details: dict[str, Any]) -> None:
    page = render(days_of(tmp_path, [(0.3, 0.1), (0.9, 0.1)], **details))
    assert "more than noise cannot be tested" in words(page)
    assert "changed by more" not in words(page)
    assert "<svg" in page


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


@pytest.fixture
def browser(tmp_path: Path) -> Callable[[Path, str], str]:
    """Return the page as a browser has it after its script ran, by file and fragment."""
    return lambda page, fragment: dumped(page, tmp_path / "profile", fragment)


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
    page.write_text(render([long_list(tmp_path, (600, 300, 200, -10), values=names)]), "utf-8")

    def order(seen: str) -> list[str]:
        return [row[1][0] for row in Page.read(seen).tables[0]]

    still = browser(page, "")
    assert order(still) == [*names[:3]]
    assert "<button" in still
    assert 'class="tools" data-more="0"><input' in still.replace("\n", "").replace("  ", "")
    by_name = browser(page, "sort=value")
    assert order(by_name) == ["Bergen", "Oslo", names[2]]
    assert by_name.count('aria-sort="ascending"') == 1
    shown = browser(page, "find=TROMSE")
    assert shown.count('<tr hidden=""') == 28
    assert "1 of 29 rows" in shown
    rest = browser(page, "find=bod")
    assert '<details class="rest" open=""' in rest
    assert still.count('<tr hidden=""') == 1, "26 are not found"
    assert "The first 25 of 26 rows are shown." in words(still)


@pytest.mark.exact
def test_the_page_says_what_was_tested_what_it_explains_and_what_was_made_of_the_counts(
    tmp_path: Path,
) -> None:
    page = words(render([results(tmp_path, method="puzzle", fragments_tested=12_345)]))
    assert "90.0 % found" in page
    assert "put together from the fragments" in page
    assert "12,345 tagged fragments were tested" in page
    assert "made consistent" not in page
    page = words(render([results(tmp_path, consistency_bias="all is too high")]))
    assert "Estimates were made consistent: all is too high." in page
    assert "binomial" in page


@pytest.mark.exact
def test_every_method_that_decodes_is_told_on_the_page() -> None:
    always = {"direct", "geometry", "histogram", "messages"}  # these know the error of every sum
    methods = template("ldp.report", "methods.html").module
    assert {*methods.tested} == {*METHODS, *UNLISTED} == {*methods.unknown} | always


@pytest.mark.exact
def test_a_truth_that_names_no_candidate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match="in the truth, whose first value is 'Paris'"):
        render([results(tmp_path)], {"Paris": 5})
    with pytest.raises(DecodeError, match="no candidate is named in the truth"):
        render([results(tmp_path)], {})


@pytest.mark.exact
@pytest.mark.parametrize("alike", ["Oslo ", "Oslo\u00a0", "\u200bOslo"])
def test_a_truth_that_names_a_look_alike_is_refused(alike: str, tmp_path: Path) -> None:
    """The page would say that nobody holds the value which looks like it."""
    with pytest.raises(DecodeError, match=r"the truth names .*, which only looks like 'Oslo'"):
        render([results(tmp_path)], {alike: 600, "Bergen": 9})
    render([results(tmp_path)], {"Oslo": 600, alike: 9})


@pytest.mark.exact
def test_a_truth_that_names_some_candidates_leaves_the_others_to_nobody(tmp_path: Path) -> None:
    read = words(render([results(tmp_path)], {"Oslo": 605, "Paris": 9}))
    assert "1 candidate was held by somebody, and 0 of them" in read
    assert "Of the 2 found values, 1 was held by nobody." in read
    assert "3 candidates are not named in the truth" in read
    assert "75 % of the intervals hold" in read


@pytest.mark.exact
def test_a_truth_in_which_nobody_holds_anything_divides_by_nothing(tmp_path: Path) -> None:
    read = words(render([results(tmp_path)], {"Oslo": 0}))
    assert "0 candidates were held by somebody." in read
    assert "Of the 2 found values, 2 were held by nobody." in read


@pytest.mark.exact
def test_a_section_without_truth_stands_beside_one_with(tmp_path: Path) -> None:
    about = results(tmp_path)
    other = results(tmp_path, values=("a", "b", "c", "d"), name="letters.csv", epsilon=1.0)
    page = render([about, other], {"Oslo": 605, "Bergen": 290})
    first, second = words(page.split('id="part-2"')[0]), words("</style>" + page.split("part-2")[2])
    assert "Against the truth" in first
    assert "Against the truth" not in second
    assert "The truth names nothing of this file" in second
    assert "intervals ; epsilon 2" in first
    assert "intervals ; epsilon 1" in second
    assert page.count("Privacy label") == 1
    assert "cities : Somebody who saw one report" in second
    assert "letters : Somebody who saw one report" in second
    assert "after it, epsilon 1, at most" in second
    assert "after it, epsilon 2, at most" in second


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


@pytest.mark.exact
def test_few_rows_claim_no_error_rate_and_no_coverage(tmp_path: Path) -> None:
    warning = "fewer than 64 rows: no error rate is claimed"
    read = words(render([results(tmp_path, rule=Rule(threshold=100), warning=warning)]))
    assert "Fewer than 64 rows: no error rate is claimed." in read
    assert "found is every value whose estimate reaches 100 reports" in read
    assert "Nominal, 95 %; how often they hold the true count is not claimed." in read
    assert "probability 95 %" not in read
    assert "Benjamini" not in read
    assert "noise floor" not in read
    none = words(render([long_list(tmp_path, (1, 1, 1, 1), warning=warning)]))
    assert "without an error rate a value is found only by a threshold" in none
    assert "noise floor" not in none
    assert "probability 95 %" not in none


@pytest.mark.exact
@pytest.mark.parametrize(
    ("rule", "said", "notes"),
    [
        (Rule(), "at most 5 % of the found values are false", ["Hochberg", "Yekutieli"]),
        (Rule(control="bonferroni"), "With probability 95 % or more", ["Bonferroni", "Yekutieli"]),
        (Rule(control="none"), "tested at 5 % by itself", ["Yekutieli"]),
        (Rule(threshold=100), "None is claimed: found is every value", ["Yekutieli"]),
    ],
)
def test_the_rule_is_told_in_words_and_named_below(
    tmp_path: Path, rule: Rule, said: str, notes: list[str]
) -> None:
    page = render([long_list(tmp_path, rule=rule)])
    assert said in words(page)
    above, below = page.split('id="methods-1"')
    for name in ("Hochberg", "Yekutieli", "Bonferroni"):
        assert name not in above
        assert (name in below) == (name in notes)


@pytest.mark.exact
def test_no_discovery_is_said_and_explains_nothing_more(tmp_path: Path) -> None:
    read = words(render([long_list(tmp_path, (5, 1, 0, -10), reports=20)]))
    assert "None: no estimate stands out from the noise." in read
    assert "29 candidates are not found" in read
    assert "more than there are" in read
    assert "Before selection" not in read
    assert "Yekutieli" not in read


@pytest.mark.exact
def test_all_discovered_leaves_no_rest(tmp_path: Path) -> None:
    names = [f"v{i}" for i in range(30)]
    read = words(render([results(tmp_path, [400.0] * 30, names, reports=20_000)]))
    assert "The rest" not in read
    assert "not found" not in read
    assert "unbiased; those just above the noise floor tend to be too high" in read
    assert "start at 0" not in read
    assert "is shown as the nearer" not in read


@pytest.mark.exact
def test_an_interval_from_zero_is_explained(tmp_path: Path) -> None:
    read = words(render([long_list(tmp_path, (600, 18, 0, 0), rule=Rule(control="none"))]))
    assert "1 interval starts at 0 although the value is found" in read


@pytest.mark.exact
def test_an_estimate_above_all_reports_is_shown_as_all(tmp_path: Path) -> None:
    given = results(tmp_path, (1001, 0, 0, 0))
    page = render([given])
    assert given.rows([0])[0]["estimate"] == 1001
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
@pytest.mark.parametrize("ends", [(0, 0.004), (0, 9.5), (0, 100), (-3, 1.2), (0, 1e9), (2.2, 2.3)])
def test_ticks_are_round_equally_far_and_few(ends: tuple[float, float]) -> None:
    low, high = ends
    marks = Axis(low, high).ticks
    assert 2 <= len(marks) <= 6
    texts = [tick["text"].replace(",", "").replace("\N{MINUS SIGN}", "-") for tick in marks]
    places = [tick["at"] for tick in marks]
    assert [(float(text) - low) / (high - low) for text in texts] == pytest.approx(places, abs=1e-3)
    steps = [later - earlier for earlier, later in pairwise(places)]
    assert steps == pytest.approx([steps[0]] * len(steps), abs=1e-4)


@pytest.mark.exact
def test_whole_numbers_are_written_to_the_last_digit() -> None:
    assert counted(2**53 + 1, "report") == "9,007,199,254,740,993 reports"
    assert (counted(-1, "bin"), counted(0.6, "bin")) == ("\N{MINUS SIGN}1 bins", "1 bin")


@pytest.mark.exact
def test_no_number_is_minus_zero() -> None:
    """Estimates between -0.5 and 0 were printed as −0."""
    assert [whole_number(number) for number in (-0.4, -0.0, -0.6, 0.4)] == ["0", "0", "−1", "0"]
    assert [percent(-0.0), quantity(-0.0), number_text(-0.0)] == ["0\u00a0%", "0", "0"]
    assert [counted(number, "report") for number in (-0.4, -1.2)] == ["0 reports", "−1 reports"]
