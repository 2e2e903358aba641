"""Estimates and summaries are as the page reads them; each mistake in them is one line."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp import RandomizedResponse, SubsetSelection, UnaryEncoding
from ldp.audit import exact_law
from ldp.decoding import decode
from ldp.errors import DecodeError
from ldp.registry.label import Label
from ldp.report import render
from ldp.simulation import draw_table
from ldp.tables.result import SUMMARY_DIGEST
from ldp.tables.saved import SavedResult
from tests.pages import results, words


def unexplained(page: str) -> str:
    return words("</style>" + page.split(">On no list<")[1]).split("Privacy label")[0]


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
    page = render([SavedResult.load(tmp_path / "all.csv")])
    assert "nothing is unexplained" in unexplained(page)


@pytest.mark.exact
def test_the_error_of_the_unexplained_is_that_of_a_report_in_or_out_of_the_list() -> None:
    """Randomised response has 6 values, of which 2 are candidates.

    A report names one of them with probability p + q or 2 q, and its part of the sum is worth 1 /
    (p - q).
    """
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
    found, variances = decode(table, ["a", "b"]), []
    for value in "ac":  # the variance of the number of the two that a report names, by its law
        law = exact_law(partly, value)
        named = {number: (number & 0b11).bit_count() for _, number in law}
        mean = sum(named[number] * p for (_, number), p in law.items())
        square = sum(named[number] ** 2 * p for (_, number), p in law.items())
        variances.append(float(square - mean**2) / partly.channel.gain**2)
    share = float(found.count.sum()) / 1000
    stated = math.sqrt(1000 * (share * variances[0] + (1 - share) * variances[1]))
    assert found.sum_std_error == pytest.approx(stated)


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
    assert "Every report has fresh noise. Each further report about the same answer" in read
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
    assert "fresh noise" not in read
    both = [{**asdict(LABEL), "memoise": memoise} for memoise in ("per-value", "")]
    read = label(labels=both, **kept)
    assert "saw all reports about one value" in read
    assert "Every report has fresh noise." in read
    assert read.count("(epsilon 5)") == 1, "of what is memoised only"
    read = label(**kept)
    assert "for how long is not known" in read
    assert "Not known here: the caps are in a registry" in read


@pytest.mark.exact
def test_no_epsilon_of_the_page_is_rounded_down(tmp_path: Path) -> None:
    page = words(render([results(tmp_path, epsilon=2.0433024)]))
    assert "95 % intervals ; epsilon 2.044" in page
    assert page.count("2.044") == 3
    assert "2.043" not in page


@pytest.mark.exact
@pytest.mark.parametrize(
    "spoil",
    [
        lambda summary: json.dumps({**summary, "reports": 1e200}),
        lambda summary: json.dumps({**summary, "epsilon": math.nan}),
        lambda summary: json.dumps({**summary, "kind": []}),
        lambda summary: json.dumps({k: v for k, v in summary.items() if k != SUMMARY_DIGEST}),
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
        SavedResult.load(tmp_path / "cities.csv")
    assert "\n" not in str(caught.value)


@pytest.mark.exact
def test_files_that_are_missing_or_foreign_are_named(tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match=r"cannot read .*none\.csv"):
        SavedResult.load(tmp_path / "none.csv")
    results(tmp_path)
    (tmp_path / "cities.json").unlink()
    with pytest.raises(DecodeError, match=r"cannot read .*cities\.json"):
        SavedResult.load(tmp_path / "cities.csv")
    (tmp_path / "other.csv").write_text("value,count\nOslo,1\n", "utf-8")
    with pytest.raises(DecodeError, match="not an estimates file"):
        SavedResult.load(tmp_path / "other.csv")


@pytest.mark.exact
def test_the_summary_of_a_name_without_csv_stands_beside_it(tmp_path: Path) -> None:
    assert results(tmp_path, name="cities.v1").summary["reports"] == 1000
    assert (tmp_path / "cities.v1.json").exists()
