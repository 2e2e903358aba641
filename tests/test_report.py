"""The report page: what it says fits the numbers beside it, and labels stay text."""

import html
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp.decoding import METHODS
from ldp.errors import DecodeError
from ldp.estimates import Estimates, Rule
from ldp.report import Results, render
from ldp.report.page import TESTED

DETAILS = {
    "method": "direct",
    "mechanism": "rr",
    "fingerprint": "00112233aabbccdd",
    "epsilon": 2.0,
    "windows": ["2026-01-01"],
}
NAMES = ("Oslo", "Bergen", "Tromsø", "Bodø")


def results(
    folder: Path,
    count: Sequence[float] = (600, 300, 10, -10),
    values: Sequence[str] = NAMES,
    name: str = "cities.csv",
    rule: Rule | None = None,
    reports: int = 1000,
    **details: Any,
) -> Results:
    """Estimates with a standard error of 10 reports, written and read back."""
    from scipy.stats import norm

    counts = np.array(count, dtype=np.float64)
    estimates = Estimates(
        values=tuple(values),
        count=counts,
        std_error=np.full(counts.size, 10.0),
        p_value=norm.sf(counts / 10),
        reports=reports,
        noise=10.0,
        rule=rule or Rule(),
        details={**DETAILS, **details},
    )
    (folder / name).parent.mkdir(exist_ok=True)
    estimates.to_csv(folder / name)
    return Results.load(folder / name)


def words(page: str) -> str:
    """The page as it is read: no style, no tags, single spaces."""
    body = page.split("</style>")[1]
    return re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]*>", " ", body)))


@pytest.mark.exact
def test_labels_are_text_whatever_they_hold(tmp_path: Path) -> None:
    values = ("<script>alert(1)</script>", 'a "b" & c', "two  spaces\nand a line", "")
    page = render([results(tmp_path, (600, 300, 200, 100), values)], title="<b>title</b>")
    assert "<script" not in page
    assert "<b>title" not in page
    assert html.escape(values[0]) in page
    assert "two  spaces\nand a line</span>" in page
    assert "(empty)" in page
    assert page.count('class="row"') == 4


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
    assert set(TESTED) == {*METHODS, "puzzle"}


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
    for epsilon in ("1", "2"):
        assert page.count(f'id="odds-{epsilon}"') == 1
        assert f'href="#odds-{epsilon}"' in page


@pytest.mark.exact
def test_several_sections_have_names_links_and_one_meaning_of_epsilon(tmp_path: Path) -> None:
    monday = results(tmp_path, name="monday/estimates.csv")
    tuesday = results(tmp_path, name="tuesday/estimates.csv")
    page = render([monday, tuesday], title="Cities")
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]*)"', page)) <= set(ids)
    assert page.count("What epsilon 2 means") == 1
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
    assert "<span>1,000</span>" in page
    assert "1,001" not in page
    assert "An estimate outside 0 to 1,000 is shown as the nearer" in words(page)


@pytest.mark.exact
def test_pooled_windows_name_what_a_person_spent(tmp_path: Path) -> None:
    days = ["2026-01-01", "2026-01-02", "2026-01-03"]
    read = words(render([results(tmp_path, windows=days)]))
    assert "in each of the 3 windows spent 3 times epsilon, 6." in read
    assert "times epsilon" not in words(render([results(tmp_path)]))


@pytest.mark.exact
@pytest.mark.parametrize("top", [40, 1_175, 99_999, 5e6, 1e9, 1e15])
def test_ticks_do_not_touch(tmp_path: Path, top: float) -> None:
    page = render([results(tmp_path, (top, 0, 0, 0), reports=int(top) + 1)])
    head = page.split('class="row head"')[1].split("</div>")[0]
    ticks = re.findall(r'<span( class="ends")? style="left:([\d.]+)%">([^<]*)<', head)
    edges = []
    for place, (ends, at, text) in enumerate(ticks):
        width = 1.9 * len(text)
        left = float(at) - (0 if place == 0 else width if ends else width / 2)
        edges += [left, left + width]
    assert edges == sorted(edges)
    assert edges[-1] < 103


def _set(**keys: object) -> Callable[[dict[str, Any]], str]:
    return lambda summary: json.dumps({**summary, **keys})


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
        lambda summary: json.dumps({k: v for k, v in summary.items() if k != "method"}),
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
