"""The page of several days of a metric calls the right differences changes."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from ldp import RandomizedResponse
from ldp.decoding import decode
from ldp.report import render
from ldp.report.trends import compared_days, in_order
from ldp.simulation import draw_table
from ldp.tables.saved import SavedResult
from tests.pages import Page, days_of, results, sign, words


@pytest.mark.exact
def test_of_several_days_all_but_the_last_are_shown_in_short(tmp_path: Path) -> None:
    files = days_of(tmp_path, [[0.5] * 150 + [0.0] * 120] * 2)
    page = render(files)
    tables = Page.read(page).tables
    assert [len(table) for table in tables] == [100, 100, 100, 150, 120]
    assert "The 100 largest are shown, 50 more are not; all were tested." in words(page)


def two_sided(first: float, second: float, tail: float = 1.0, reports_each: float = 1) -> float:
    """Return the p-value by another way: scipy's normal tail of the difference over its error.

    There are 1,000 reports a day, `reports_each` of one person. The error is that of both days'
    holders.
    """
    from scipy.stats import norm

    noise, people = (tail * 10 / 1000) ** 2, 1000 / reports_each
    held = (people * (max(first, 0) + max(second, 0)) + 2) / (2 * people + 4)
    drawn = 2 * held * (1 - held) / people
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
    for more, expected_p in (
        ({"tail": 2.0}, two_sided(0.5, 0.4, tail=2.0)),
        ({"tail": 1.0, "reports_per_person": 7.0}, two_sided(0.5, 0.4, reports_each=7)),
    ):
        for path in tmp_path.glob("*.json"):
            sign(path.with_suffix(".csv"), **more)
        files = [SavedResult.load(tmp_path / f"day{number}.csv") for number in range(2)]
        assert compared_days(files)[0].p_value == pytest.approx(expected_p)


@pytest.mark.exact
def test_three_days_are_compared_in_turn_and_end_with_beginning(tmp_path: Path) -> None:
    files = days_of(tmp_path, [(0.3, 0.1), (0.3, 0.1), (0.5, 0.1)])
    changes = compared_days(files)
    assert {(change.earlier, change.later) for change in changes} == {(0, 1), (1, 2), (0, 2)}
    assert len(changes) == 6
    page = render([files[2], files[0], files[1]])
    read = words(page)
    assert "1 value changed by more than noise , of 2 values; 2026-01-01 to 2026-01-03" in read
    assert "6 tests" in read
    (row, other) = Page.read(page).tables[0]
    assert re.sub(r"\s+", " ", row[4][0]).strip() == "+20.0 ± 2.6 more"
    assert "within the noise" in other[4][0]
    assert page.count("<details><summary>2026-01-0") == 2, "all days but the last are folded"


@pytest.mark.exact
def test_days_that_differ_by_noise_alone_are_said_to(tmp_path: Path) -> None:
    page = render(days_of(tmp_path, [(0.3, 0.1), (0.301, 0.1)]))
    assert "No difference is more than noise , of 2 values" in words(page)
    assert 'class="changed"' not in page
    assert 'class="changed"' in render(days_of(tmp_path, [(0.3, 0.1), (0.5, 0.1)]))


@pytest.mark.exact
def test_days_of_one_metric_are_named_by_metric_and_days(tmp_path: Path) -> None:
    epsilons = dict.fromkeys(("report_epsilon", "window_epsilon", "lifetime_epsilon"), 1.0)
    label = {"metric": "city", "group": "g", "window": "1 day", **epsilons}
    files = days_of(tmp_path, [(0.3, 0.1), (0.3, 0.1)], labels=[label])
    page = render(files)
    assert "<h1>city, 2026-01-01 to 2026-01-02</h1>" in page
    assert ">city, 2026-01-02</a>:" in page
    assert "<h1>city, 2026-01-01</h1>" in render(files[:1])
    assert "<h1>One city</h1>" in render(files, title="One city")


@pytest.mark.exact
def test_only_different_days_of_one_mechanism_are_compared(tmp_path: Path) -> None:
    one, two = days_of(tmp_path, [(0.3, 0.1), (0.3, 0.1)])
    other = results(tmp_path, name="other.csv", fingerprint="ff")
    again = results(tmp_path, name="again.csv", windows=["2026-01-01"])
    undated = results(tmp_path, name="undated.csv", windows=[])
    assert in_order([two, other, one]) == [[one, two]]
    assert in_order([one, other]) == in_order([one, again]) == in_order([one, undated]) == []


@pytest.mark.slow
@pytest.mark.statistical
def test_days_of_the_same_people_show_no_change_at_the_stated_rate(tmp_path: Path) -> None:
    """At 5 %, more than 18 of 100 pairs of days name a change with probability 5e-7.

    A pair has 20 values and a population that stays. The twin, tests without the correction, names
    one in about 64.
    """
    made = RandomizedResponse(categories=tuple(f"v{i}" for i in range(20)), epsilon=1.0)
    generator, frequencies = np.random.default_rng(5), np.full(20, 0.05)
    wrong = naive = 0
    for _ in range(100):
        files = []
        for number in range(2):
            held = generator.multinomial(5000, frequencies)
            table = draw_table(made, made.categories, counts=held, generator=generator)
            found, path = decode(table), tmp_path / f"d{number}.csv"
            found.to_csv(path)
            sign(path, windows=[f"2026-01-0{number + 1}"])
            files.append(SavedResult.load(path))
        changes = compared_days(files)
        wrong += changes[0].adjusted <= 0.05
        naive += changes[0].p_value <= 0.05
    assert wrong <= 18
    assert naive > 18
