"""Questions of a product have the registry's prices, and answers as exact as asked, not more."""

import json
import math
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime
from fractions import Fraction
from functools import reduce
from itertools import permutations
from itertools import product as product_of
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from ldp.client import Client
from ldp.data_files import Reading
from ldp.errors import ParameterError, RegistryError
from ldp.mechanisms import BitFlip, HierarchicalHistogram, RandomizedResponse
from ldp.planning.mechanism_choice import report_bytes
from ldp.planning.numbers import Percentile
from ldp.planning.percentiles import (
    expected,
    people_of_result,
    root_mean_squared_error,
    shares_near,
)
from ldp.planning.portfolio import EPSILONS, NEAR, PlannedMetric, Portfolio, Product, _left
from ldp.planning.values import Shares
from ldp.registry import Registry
from ldp.registry.certificates import Certificates
from ldp.registry.sign_off_page import page as page_of
from ldp.server import (
    associate,
    decode,
    decode_by_category,
    decode_distribution,
    decode_mean,
    discover_prefixes,
    whole_table,
)
from ldp.simulation import Population, draw_reports, draw_table
from simulations.portfolio import joint_report
from tests.command_line import run
from tests.tiers import tiered

TODAY = date(2026, 11, 23)
PRODUCT = """
[product]
name = "weather"
users = 50_000
start = 2026-12-01
day_epsilon = 9.0
lifetime_epsilon = 50.0
"""
THEME = """
[question.theme]
owners = ["Ada"]
ask = "How many use dark mode?"
values = ["light", "dark", "system"]
within = 0.02
every = "30d"
until = 2027-06-30
"""
BATTERY = """
[question.battery]
owners = ["Ada"]
ask = "How much battery is left?"
mean = [0, 100]
within = 2.0
every = "7d"
until = 2027-03-31
"""
CITY = """
[question.city]
owners = ["Ada"]
ask = "Where do people ask for the weather?"
values = "cities.txt"
within = 0.01
every = "7d"
keep = "90d"
until = 2027-12-31
"""
BY_PLAN = """
[question.theme_by_plan]
owners = ["Ada"]
ask = "Is dark mode used more by those who pay?"
cross = { theme = ["light", "dark", "system"], plan = ["free", "paid"] }
within = 0.02
every = "30d"
until = 2027-06-30
"""
START = """
[question.start]
owners = ["Ada"]
ask = "How long does the app take to start?"
percentile = 0.9
range = [0, 10]
within = 0.03
every = "30d"
until = 2027-02-28
"""
APPS = """
[question.apps]
owners = ["Ada"]
ask = "Which of these apps do people use?"
values = ["maps", "mail", "chat", "photos", "news"]
answers = 2
within = 0.02
every = "30d"
until = 2027-06-30
"""
TYPED = """
[question.typed]
owners = ["Ada"]
ask = "Which words do people type?"
words = 4
within = 0.02
every = "30d"
until = 2027-02-28
"""
ALPHA = 1e-6
"""Largest probability with which a statistical test fails for a right implementation."""


def product(folder: Path, *questions: str, head: str = PRODUCT) -> Product:
    (folder / "cities.txt").write_text("".join(f"city {number}\n" for number in range(40)))
    (folder / "questions.toml").write_text(head + "".join(questions))
    return Product.load(folder / "questions.toml", TODAY)


def written(portfolio: Portfolio, folder: Path) -> Registry:
    folder.mkdir()
    for name, text in portfolio.files().items():
        (folder / name).write_text(text)
    return Registry.load(folder / "metrics.toml")


def test_prices_are_those_of_the_registry_that_is_written(tmp_path: Path) -> None:
    portfolio = product(tmp_path, THEME, BATTERY, CITY).answer()
    registry = written(portfolio, tmp_path / "out")
    worst = registry.worst_case_of_all()
    assert (worst["day"], worst["life"]) == (portfolio.day, portfolio.life)
    for answer in portfolio.accepted:
        metric = registry.metric(answer.ask.name)
        group = registry.worst_case(answer.ask.name)
        assert metric.price == answer.price
        assert (group["day"], group["life"]) == (answer.day, answer.life)
        assert metric.expires == answer.ask.until


def test_each_question_is_reckoned_once_at_a_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = product(tmp_path, THEME, BATTERY, CITY, head=PRODUCT.replace("50_000", "900"))
    reckoned = list[tuple[int, float]]()
    for kind in {type(ask.question) for ask in asked.questions}:
        mechanisms = kind.mechanisms

        def counted(self: Any, ways: Any = mechanisms) -> Any:
            reckoned.append((getattr(self, "domain", 0), self.epsilon))
            return ways(self)

        monkeypatch.setattr(kind, "mechanisms", counted)
    assert asked.answer().refused  # so that everything is asked again, with another rule
    assert len(reckoned) == len(set(reckoned)) > len(asked.questions)


def test_questions_that_ask_the_same_share_their_draws() -> None:
    first, second = (
        Percentile(users=1000, epsilon=1.0, q=0.5, bounds=(0.0, 1.0)) for _ in range(2)
    )
    (way, *_) = first.mechanisms()
    error, draws = first.error(way), root_mean_squared_error.cache_info().misses
    assert second.error(replace(way)) == error
    assert root_mean_squared_error.cache_info().misses == draws


def test_an_answer_of_no_use_has_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error of a share that is 1 or more is no use; with more people it is smaller, and
    printed."""
    monkeypatch.chdir(tmp_path)
    for users, said in (("20", "no answer of use"), ("50_000", "a standard error of 0.")):
        head = PRODUCT.replace("50_000", users).replace("= 9.0", "= 0.1")
        (mean, *_) = product(tmp_path, BATTERY, THEME, head=head).questions
        assert mean.question.useless_error == 100
        assert run("plan product questions.toml", monkeypatch) == 0
        told = " ".join(capsys.readouterr().out.split()).split("theme does not fit")[1]
        assert f"What is left pays {said}" in told


@pytest.mark.slow
def test_people_of_a_percentile_are_numbers_that_may_have_categories(tmp_path: Path) -> None:
    """Earlier, a file of words, or of pairs, was planned for as if no epsilon were enough."""
    question = START.replace("every =", 'population = "people.csv"\nevery =')
    assert question != START
    rows = [f"{number / 20}" for number in range(200)]
    (tmp_path / "people.csv").write_text("\n".join(["value", *rows, ""]))
    (alone,) = product(tmp_path, question).answer().accepted
    pairs = [f"2.0,{row}" for row in rows]
    (tmp_path / "people.csv").write_text("\n".join(["category,value", *pairs, ""]))
    assert product(tmp_path, question).answer().accepted[0].epsilon == alone.epsilon
    (tmp_path / "people.csv").write_text("value\nabc\n3\n")
    with pytest.raises(ParameterError, match=r"people.csv, line 2: 'abc': value is not a number"):
        product(tmp_path, question)


@pytest.mark.exact
def test_files_that_questions_name_are_read_as_options_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files are a population of a spreadsheet with decimal commas, and a list in another
    encoding."""
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("value\n1\n")
    product(tmp_path, START.replace("every =", 'population = "people.csv"\nevery ='), CITY)
    Path("cities.txt").write_text("Tromsø\nBodø\n", "latin-1")
    Path("people.csv").write_text("value;count\n" + "".join(f"{n},125;9\n" for n in range(1, 9)))
    assert run("plan product questions.toml", monkeypatch) == 2
    assert "people.csv, line 2: '1,125' may be" in capsys.readouterr().err
    options = "--encoding latin-1 --decimal ,"
    assert run(f"plan product questions.toml --json {options}", monkeypatch) == 0
    people, cities = Product.load(
        Path("questions.toml"), TODAY, Reading(encoding="latin-1", decimal=",")
    ).questions
    assert isinstance(people.question, Percentile)
    assert people.question.people is not None
    assert people.question.people.values[0] == "1.125"
    assert isinstance(cities.question, Shares)
    assert cities.question.values == ("Tromsø", "Bodø")


def test_windows_are_counted_as_devices_count_them(tmp_path: Path) -> None:
    """From 1 December 2026, day 20,788 since 1970, to 31 March 2027, day 20,908, are weeks 2,969 to
    2,986."""
    (answer,) = product(tmp_path, BATTERY).answer().accepted
    assert answer.charges == 2986 - 2969 + 1


def test_no_smaller_price_is_exact_enough(tmp_path: Path) -> None:
    asked = product(tmp_path, THEME, BATTERY, CITY)
    for answer in asked.answer().accepted:
        place = EPSILONS.index(answer.epsilon)
        below = asked.answer_at(answer.ask, answer.keep_days, EPSILONS[place - 1])
        assert below is not None
        assert answer.error <= answer.ask.within < below.error


@pytest.mark.parametrize(
    "question",
    [THEME, BATTERY, CITY, BY_PLAN, pytest.param(START, marks=pytest.mark.slow), APPS, TYPED],
)
def test_fewer_people_are_never_as_exact(question: str, tmp_path: Path) -> None:
    """So no plan asks only a part of the people: each person would lose more."""
    (ask,) = product(tmp_path, question).questions
    for kind in ("mechanisms", "memoised"):
        for epsilon in (0.5, 3.0):
            errors = []
            for halvings in range(3):
                fewer = ask.question.with_(users=50_000 >> halvings, epsilon=epsilon)
                errors.append(min(map(fewer.error, getattr(fewer, kind)()), default=0.0))
            assert errors[0] < errors[1] < errors[2] or not any(errors)


@pytest.mark.campaign
def test_near_the_least_price_the_smallest_report_is_taken(tmp_path: Path) -> None:
    """Of 40 values, no exact answer within two steps of the least price has a smaller report.

    Some have a larger one.
    """
    asked = product(
        tmp_path, CITY.replace('keep = "90d"\n', ""), head=PRODUCT.replace("50.0", "1e3")
    )
    (answer,) = asked.answer().accepted
    at = [asked.answers_at(answer.ask, 0, epsilon) for epsilon in EPSILONS]
    exact = [[one for one in answers if one.error <= answer.ask.within] for answers in at]
    least = next(place for place, answers in enumerate(exact) if answers)
    assert least <= EPSILONS.index(answer.epsilon) <= least + NEAR
    near = exact[least : least + NEAR + 1]
    sizes = [report_bytes(one.mechanism) for answers in near for one in answers]
    assert report_bytes(answer.mechanism) == min(sizes) < max(sizes)


def test_small_reports_give_way_where_a_question_fits_without(tmp_path: Path) -> None:
    """The caps are exactly what the cheapest answer takes, so the smallest report does not fit."""
    alone = CITY.replace('keep = "90d"\n', "")
    head = PRODUCT.replace("50.0", "1e3").replace("9.0", "1e3")
    (small,) = product(tmp_path, alone, head=head).answer().accepted
    asked = product(
        tmp_path,
        alone,
        head=head.replace("lifetime_epsilon = 1e3", f"lifetime_epsilon = {small.life / 1.001}"),
    )
    (cheapest,) = asked.answer().accepted
    assert cheapest.life < small.life
    assert report_bytes(cheapest.mechanism) > report_bytes(small.mechanism)


def test_an_answer_that_stands_for_later_ones_is_paid_once(tmp_path: Path) -> None:
    """With `keep` an epoch is one charge, while fresh reports are charged in every window."""
    (memoised,) = product(tmp_path, CITY).answer().accepted
    (refusal,) = product(tmp_path, CITY.replace('keep = "90d"\n', "")).answer().refused
    fresh = refusal.best
    assert fresh is not None
    assert (memoised.keep_days, fresh.keep_days) == (84, 0)
    assert memoised.charges == 5 + 1
    assert memoised.life < fresh.life / 5


def test_a_question_that_is_too_dear_says_what_is_left(tmp_path: Path) -> None:
    dear = THEME.replace("0.02", "0.0005").replace("question.theme", "question.exact")
    portfolio = product(tmp_path, THEME, dear).answer()
    assert [answer.ask.name for answer in portfolio.accepted] == ["theme"]
    (refusal,) = portfolio.refused
    assert "in any 24 hours, where" in refusal.reason
    affordable = refusal.affordable
    assert affordable is not None
    assert affordable.error > 0.0005
    assert affordable.life <= refusal.life
    assert affordable.day <= refusal.day
    larger = EPSILONS[EPSILONS.index(affordable.epsilon) + 1]
    again = replace(affordable, question=affordable.question.with_(epsilon=larger))
    assert larger * again.charges > refusal.life or 2 * larger > refusal.day


def test_a_metric_that_nobody_answers_for_fails_the_check(tmp_path: Path) -> None:
    for text, fails in ((THEME.replace('owners = ["Ada"]\n', ""), True), (THEME, False)):
        files = product(tmp_path, text).answer().files()
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        registry = Registry.load(tmp_path / "metrics.toml")
        with (
            pytest.raises(RegistryError, match="'name an owner' stands") if fails else nullcontext()
        ):
            registry.check()


def test_what_no_epsilon_answers_is_said(tmp_path: Path) -> None:
    (refusal,) = product(tmp_path, THEME.replace("0.02", "1e-12")).answer().refused
    assert refusal.reason == "no epsilon up to 16.5 is enough"


def squared_errors(answer: PlannedMetric, users: int, draws: int) -> np.ndarray[Any, Any]:
    """Return squared errors of simulated windows, over the square of the error that the plan
    states.

    The population is that with the largest error.
    """
    generator = np.random.default_rng(8)
    mechanism: Any = answer.mechanism
    errors: list[tuple[float, ...]] = []
    for _ in range(draws):
        if isinstance(question := answer.ask.question, Shares):
            categories = question.categories
            names: Any = categories
            if question.answers:
                names = [frozenset({name}) for name in categories]
            held = ([users] + [0] * (len(names) - 1), [0] + [users] + [0] * (len(names) - 2))
            shares = []
            for counts in held:  # somebody's value is held by all, and by nobody
                table = draw_table(mechanism, names, counts=np.array(counts), generator=generator)
                estimates = decode(table, categories)
                shares.append(
                    dict(zip(estimates.values, estimates.count, strict=True))["0"] / users
                )
            errors.append((shares[0] - 1, shares[1]))
        else:
            places = ("0", "50", "100")
            means = [
                decode_mean(
                    draw_table(mechanism, [place], counts=np.array([users]), generator=generator)
                ).mean
                - float(place)
                for place in places
            ]
            errors.append(tuple(means))
    worst: np.ndarray[Any, Any] = np.array(errors) ** 2 / answer.error**2
    return worst


@pytest.mark.statistical
@pytest.mark.parametrize(
    "question",
    tiered([THEME, BATTERY, CITY, APPS, BY_PLAN], 2),
    ids=["share", "mean", "memoised", "sets", "cross"],
)
def test_answers_are_as_exact_as_the_plan_says(
    question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the error is largest, 100 squared errors in units of the plan's sum to a chi-square at
    most.

    This fails falsely with probability ALPHA. The twin is a plan with errors 1.6 times smaller.
    """
    monkeypatch.setattr("ldp.decoding.candidates.MOST_WORK", 0)  # stated errors: none is read
    (answer,) = product(tmp_path, question).answer().accepted
    sums = squared_errors(answer, 50_000, 100).sum(axis=0)
    assert chi2.sf(sums.max(), 100) > ALPHA
    assert chi2.sf(sums.max() * 1.6**2, 100) < ALPHA  # the twin


@pytest.mark.campaign
@pytest.mark.statistical
def test_a_percentile_is_as_exact_as_the_plan_says(tmp_path: Path) -> None:
    """60 windows have the numbers with the largest error.

    This fails falsely with probability ALPHA, if errors are normal.
    """
    (answer,) = product(tmp_path, START.replace("0.03", "0.1")).answer().accepted
    assert isinstance(answer.question, Percentile)
    way: Any = answer.mechanism
    people = max(answer.question.cases, key=lambda case: case.error(way))
    errors = people.errors(way, 60, np.random.default_rng(9)) / people.whole / answer.error
    assert chi2.sf(float((errors**2).sum()), 60) > ALPHA
    assert chi2.sf(float((errors**2).sum()) * 2**2, 60) < ALPHA  # the twin


@pytest.mark.slow
def test_what_a_percentile_is_planned_for_stands_in_the_registry(tmp_path: Path) -> None:
    plan = product(tmp_path, START.replace("0.03", "0.1")).answer()
    (answer,) = plan.accepted
    assert answer.planned_for == (
        "numbers of which 1.3 % or more are spread over the 10 % below the percentile, and as many "
        "over the 10 % above it; the percentile is at least 0.0391 in size"
    )
    plan_lines = plan.files()["metrics.toml"]
    assert f'planned_for = "{answer.planned_for}"' in plan_lines
    assert plan.to_dict()["accepted"][0]["planned_for"] == answer.planned_for
    (tmp_path / "metrics.toml").write_text(plan_lines)
    page = page_of(Registry.load(tmp_path / "metrics.toml"), Certificates(), None, TODAY)
    assert f"(planned for {answer.planned_for})" in page


@pytest.mark.parametrize("q", [0.02, 0.5, 0.99])
@pytest.mark.parametrize(
    "bounds", [None, (0.0, 10.0), (-40.0, 60.0), (-60.0, 40.0), (-10.0, -2.0), (1.0, 9.0)]
)
def test_no_more_people_are_assumed_near_a_percentile_than_is_said(q: float, bounds: Any) -> None:
    """Where no bound is near, the shares are those that `shares_near` states; the twin is twice."""
    question = Percentile(users=1000, epsilon=1.0, q=q, bounds=bounds)
    for case, ratio in product_of(question.cases, (1.1, 1.5, 3.0)):
        numbers, up_to = case._sorted
        low, high = sorted((case.truth / ratio, case.truth * ratio))
        first, last = np.interp([low, high], numbers, up_to)
        least, most = bounds or (-math.inf, math.inf)
        assert least <= min(numbers)
        assert max(numbers) <= most
        below, above = shares_near(q, ratio)
        assert low <= least or q - first == pytest.approx(below, abs=0.003)
        assert high >= most or last - q == pytest.approx(above, abs=0.003)
        assert low <= least or q - first < max(2 * below, 0.003)


def test_a_percentile_without_people_has_the_largest_error_of_those_assumed() -> None:
    question = Percentile(users=50_000, epsilon=1.0, q=0.9, bounds=(0.0, 10.0))
    way = HierarchicalHistogram(epsilon=1.0, magnitudes=(0.01, 10.0), buckets=32)
    errors = [case.error(way) for case in question.cases]
    worst = question.cases[int(np.argmax(errors))]
    assert question.error(way) == max(errors) > min(errors)
    assert question.std_error(way) == worst.std_error(way)
    first, second = (asked.errors(way, 3, np.random.default_rng(1)) for asked in (question, worst))
    assert np.array_equal(first, second)
    assert question.curator(np.random.default_rng(1), 9).std_error > 0


def test_the_error_of_a_percentile_allows_for_one_number_that_fills_a_bin() -> None:
    """The twin is the error for numbers that are spread over the bin."""
    question = Percentile(users=10**9, epsilon=4.0, q=0.5)
    way = HierarchicalHistogram(epsilon=4.0, buckets=4)
    held = question.with_(people=Population(("2.0", "2.4"), counts=np.array([501, 499])))
    error = expected(way, held.known()).quantile(0.5).estimate / held.truth - 1
    assert max(case.error(way) for case in question.cases) < error < question.error(way)
    assert [question.is_exact(way, within) for within in (0.25, 0.24)] == [True, False]


@pytest.mark.slow
@pytest.mark.statistical
def test_a_percentile_far_from_the_end_of_its_range_is_as_exact_as_planned(tmp_path: Path) -> None:
    """60 tables are of numbers at a hundredth of the range.

    This fails falsely with probability ALPHA, if errors are normal. The twin is 16 equal bins,
    which a plan recommended while all that it assumed reached the end of the range.
    """
    question = START.replace("0.03", "0.25").replace("0.9", "0.95")
    (answer,) = product(tmp_path, question).answer().accepted
    numbers = np.linspace(0.06, 0.1, 200).tolist()
    people = answer.question.with_(
        people=Population(tuple(map(repr, numbers)), counts=np.full(200, 1))
    )
    assert isinstance(people, Percentile)
    ways: Any = (
        answer.mechanism,
        BitFlip(epsilon=answer.epsilon, bounds=(0.0, 10.0), buckets=16, bits=16),
    )
    for way, is_exact in zip(ways, (True, False), strict=True):
        errors = people.errors(way, 60, np.random.default_rng(9)) / people.whole / answer.error
        assert (chi2.sf(float((errors**2).sum()), 60) > ALPHA) == is_exact


def even_people(times: int) -> Population:
    """Return 1,000 even numbers from 0 to 10, `times` people of each."""
    numbers = np.linspace(0.0, 10.0, 1000).tolist()
    return Population(tuple(map(repr, numbers)), counts=np.full(1000, times))


@pytest.mark.slow
@pytest.mark.statistical
def test_a_percentile_is_planned_from_the_result_of_a_pilot(tmp_path: Path) -> None:
    """The pilot's even numbers take less than a fifth of the epsilon of a plan without people.

    One of ten shares is off by .03 with probability 5e-15 (normal). The twin, a pilot of numbers
    that are lognormal, is.
    """
    pilot = HierarchicalHistogram(epsilon=4.0, bounds=(0.0, 10.0), buckets=64)
    even = even_people(50)
    lognormal = even.mapped(lambda value: repr(min(10.0, 0.5 * math.exp(float(value) / 3))))
    for people in (lognormal, even):
        random = np.random.default_rng(3)
        table = draw_table(pilot, people.values, counts=people.counts, generator=random)
        decode_distribution(table).to_csv(tmp_path / "pilot.csv")
        read = people_of_result(tmp_path / "pilot.csv")
        shares, _ = np.histogram([*map(float, read.values)], 10, (0, 10), weights=read.shares)
        assert (np.abs(shares - 0.1).max() < 0.03) == (people is even)
    pilot_question = START.replace("range", 'from = "pilot.csv"\nrange')
    (answer,) = product(tmp_path, pilot_question).answer().accepted
    assert answer.planned_for == "numbers like those of pilot.csv"
    (worst,) = product(tmp_path, START.replace("0.03", "0.1")).answer().accepted
    (known,) = product(tmp_path, pilot_question.replace("0.03", "0.1")).answer().accepted
    assert known.life < worst.life / 5
    flat = RandomizedResponse(categories=("a", "b"), epsilon=1.0)
    table = draw_table(
        flat, ("a", "b"), counts=np.array([5, 5]), generator=np.random.default_rng(3)
    )
    decode(table, ["a", "b"]).to_csv(tmp_path / "pilot.csv")
    with pytest.raises(ParameterError, match="is not the result of one number"):
        people_of_result(tmp_path / "pilot.csv")


@pytest.mark.slow
@pytest.mark.statistical
def test_a_percentile_before_a_gap_takes_the_noise_of_rare_windows() -> None:
    """A plan takes epsilon 2.1, where few windows cross the gap above the largest number.

    Three of 2,000 windows did. More than 8 of 600 do with probability 4e-7. The twin, epsilon 1.5,
    had none so far off among the 399 draws of its error, of which a plan took the root mean square.
    """
    numbers = ("2.79", "4.49", "4.81", "6.26", "9.4", "10.88", "21.31")
    people, within = Population(numbers, counts=np.array([8, 7, 3, 8, 5, 1, 6])), 0.4
    for epsilon, is_taken in ((1.5, False), (2.1, True)):
        way = HierarchicalHistogram(epsilon=epsilon, buckets=4)
        asked = Percentile(q=0.9, people=people, users=5004, epsilon=epsilon)
        assert asked.is_exact(way, within) == is_taken
        errors = abs(asked.errors(way, 600, np.random.default_rng(7))) / asked.truth
        assert ((errors > 3 * within).sum() <= 8) == is_taken


@pytest.mark.campaign
@pytest.mark.statistical
def test_a_percentile_by_category_is_as_exact_as_the_plan_says(tmp_path: Path) -> None:
    """60 windows have two equal categories.

    This fails falsely with probability ALPHA, if errors are normal.
    """
    numbers = even_people(25)
    (tmp_path / "pilot.csv").write_text(
        "value,count\n" + "".join(f"{value},1\n" for value in numbers.values)
    )
    by = 'by = ["old", "new"]\npopulation = "pilot.csv"\npercentile'
    (answer,) = product(tmp_path, START.replace("percentile", by)).answer().accepted
    mechanism, generator = answer.mechanism, np.random.default_rng(9)
    assert isinstance(mechanism, HierarchicalHistogram)
    assert answer.planned_for == "numbers like those of pilot.csv"
    pairs: Any = [(name, value) for name in ("old", "new") for value in numbers.values]
    counts, true = np.full(len(pairs), 25), float(numbers.values[899])
    errors = np.array(
        [
            decode_by_category(draw_table(mechanism, pairs, counts=counts, generator=generator))[
                "new"
            ]
            .quantile(0.9)
            .estimate
            / true
            - 1
            for _ in range(60)
        ]
    )
    squares = float(((errors / answer.error) ** 2).sum())
    assert chi2.sf(squares, 60) > ALPHA
    assert chi2.sf(squares * 2**2, 60) < ALPHA  # the twin


@pytest.mark.campaign
@pytest.mark.statistical
def test_words_are_found_as_often_as_the_plan_says(tmp_path: Path) -> None:
    """At least 4 of 12 windows find the word of the smallest share.

    If it is found with probability 0.9, this fails falsely with probability 2e-7. The twin, a word
    of half the share, is found in fewer.
    """
    (answer,) = product(tmp_path, TYPED).answer().accepted
    assert answer.error <= 0.02
    generator, mechanism = np.random.default_rng(5), answer.mechanism
    words = ["yeti", *map("".join, permutations("abcdefg", 4))]
    rest, times = 1 / np.arange(1.0, len(words)), [0, 0]
    for number, share in enumerate((answer.error, answer.error / 2)):
        shares = np.array([share, *(1 - share) * rest / rest.sum()])
        for _ in range(12):
            counts = generator.multinomial(50_000, shares)
            table = draw_table(mechanism, words, counts=counts, generator=generator)
            estimates = discover_prefixes(table)
            times[number] += "yeti" in np.array(estimates.values)[estimates.detected()]
    assert times[0] >= 4 > times[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("within = 0.02", "within = -1"), "[question.theme]: within must be a number above 0"),
        (
            ("within = 0.02", "wihtin = 0.02"),
            "[question.theme]: unknown key 'wihtin'; did you mean 'within'?",
        ),
        (("within = 0.02", ""), "[question.theme]: needs within, a number above 0"),
        (('every = "30d"', 'every = "1h"'), '[question.theme]: every must be whole days, as "7d"'),
        (("until = 2027-06-30", 'until = "June"'), "until must be a date such as 2027-12-31"),
        (('"dark", ', '"light", '), "values must be two different texts or more"),
        (("within", "mean = [0, 1]\nwithin"), "give one of values, cross, mean, percentile, words"),
        (("within", "colour = 1\nwithin"), "[question.theme]: unknown key 'colour'"),
        (("users = 50_000", "users = 0"), "users must be"),
        (
            ("[question.theme]", "[questions.theme]"),
            "unknown key 'questions'; did you mean",
        ),
        (("[product]", "[product"), "not valid TOML"),
        (("[question.theme]", "[question]\ntheme = 1\n[x]"), "unknown key 'x'"),
        (("[question.theme]", "[question]\nx = 1\n[question.theme]"), "[question.x]: must be a"),
        (("until = 2027", "until = 2026"), "[question.theme]: until is before the start"),
        (("[question.theme]", '[question."../theme"]'), "name is up to 64 letters"),
        (('every = "30d"', 'every = "99999999999999d"'), "every must be whole days"),
        (('values = ["light", "dark", "system"]', "mean = [1, 0]"), "the smaller first"),
        (('values = ["light", "dark", "system"]', "percentile = 90"), "between 0 and 1, as 0.95"),
        (("within", "answers = 4\nwithin"), "answers must be a whole number from 1 to 3"),
        (('values = ["light", "dark", "system"]', "words = 65"), "words must be a whole number"),
        (('"dark"', '"da\\u0000rk"'), "of printable characters"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mistakes_are_named(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    text = (PRODUCT + THEME).replace(*change)
    with pytest.raises(ParameterError) as error:
        product(tmp_path, head=text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("cross", "message"),
    [
        (
            '{ theme = ["light", "dark"] }',
            "cross must be a section of two lists or more; for",
        ),
        ('["light", "dark"]', "[question.theme_by_plan]: cross must be a section"),
        ('{ theme = ["light", "dark"], plan = ["paid"] }', "cross: plan must be two different"),
        (
            '{ theme = ["light", "dark"], plan = 2 }',
            "cross: plan must be two different texts",
        ),
        ('{ a = ["1/2", "1"], b = ["x", "y"] }', "cross: a: a value has a /, which separates"),
        ('{ a = "cities.txt", b = "cities.txt", c = "cities.txt", d = "cities.txt" }', "2,560,000"),
        ('{ a = ["x", "y"], b = ["x", "y"] }\nanswers = 2', "unknown key 'answers'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mistakes_of_cross_tables_are_named(cross: str, message: str, tmp_path: Path) -> None:
    before, _, after = BY_PLAN.partition("cross = ")
    with pytest.raises(ParameterError) as error:
        product(tmp_path, before + "cross = " + cross + after[after.index("\n") :])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_device_records_a_cell_of_a_cross_table(tmp_path: Path) -> None:
    """There are two lists, the second a file: each value of the first goes with each of the
    second."""
    question = BY_PLAN.replace('["free", "paid"]', '"cities.txt"')
    portfolio = product(tmp_path, question).answer()
    registry = written(portfolio, tmp_path / "out")
    cells = (tmp_path / "out" / "theme_by_plan.txt").read_text().splitlines()
    assert cells[:2] == ["light/city 0", "light/city 1"]
    assert len(cells) == 3 * 40
    registry.check()
    day = datetime(2026, 12, 2, tzinfo=UTC)
    client = Client(
        tmp_path / "device.ldp",
        registry=tmp_path / "out" / "metrics.toml",
        clock=lambda: day,
    )
    client.grant()
    assert client.record("theme_by_plan", "dark/city 39")
    assert not client.record("theme_by_plan", "dark")


def test_an_answer_about_a_cross_table_may_stand_for_later_ones(tmp_path: Path) -> None:
    (answer,) = product(tmp_path, BY_PLAN + 'keep = "180d"\n').answer().accepted
    assert (answer.keep_days, answer.charges) == (180, 2)


def test_a_cross_table_that_is_too_dear_is_refused_as_other_questions_are(tmp_path: Path) -> None:
    asked = product(tmp_path, BY_PLAN.replace("0.02", "0.0005"))
    (refusal,) = asked.answer().refused
    assert "in any 24 hours, where 9 is left" in refusal.reason
    assert refusal.affordable is not None
    assert refusal.affordable.error > 0.0005


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3), (3, 3), (2, 10), (5, 5), (2, 50), (20, 20)])
def test_a_joint_report_of_two_lists_has_twice_the_error_of_one_list_of_cells(
    sizes: tuple[int, int], tmp_path: Path
) -> None:
    """Both state their errors, so a plan of a cross table does not try the joint report."""
    lists = [json.dumps([*map(str, range(size))]) for size in sizes]
    before, _, after = BY_PLAN.partition("cross = ")
    cross = f"cross = {{ a = {lists[0]}, b = {lists[1]} }}" + after[after.index("\n") :]
    (ask,) = product(tmp_path, before + cross).questions
    for epsilon in (0.1, 0.5, 1.0, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 16.0):
        cells = ask.question.with_(users=1, epsilon=epsilon)
        listed = min(map(cells.error, cells.mechanisms()))
        assert joint_report(cells)[1] > 2 * listed


@pytest.mark.slow
@pytest.mark.statistical
def test_a_joint_report_has_the_error_that_it_is_refused_for(tmp_path: Path) -> None:
    """The sum of 100 squared errors is chi-square at most where 90 % hold the cell.

    This fails falsely with probability ALPHA. It is not that of the list of all cells at the same
    epsilon.
    """
    (ask,) = product(tmp_path, BY_PLAN.replace('"dark", ', "")).questions
    cells = ask.question.with_(users=20_000, epsilon=4.0)
    way, error = joint_report(cells)
    listed = min(map(cells.error, cells.mechanisms()))
    pairs: Any = (("0", "0"), ("1", "1"))
    people = Population(pairs, counts=np.array([18_000, 2_000]))
    generator = np.random.default_rng(8)
    tables = (associate(whole_table(way, draw_reports(way, people, generator))) for _ in range(100))
    squares = sum((table.unbiased[0, 0] / 20_000 - 0.9) ** 2 for table in tables)
    assert chi2.sf(squares / error**2, 100) > ALPHA
    assert chi2.sf(squares / listed**2, 100) < ALPHA  # the twin


def test_texts_of_any_language_are_written_as_they_are(tmp_path: Path) -> None:
    text = THEME.replace("How many use dark mode?", 'Wie \\"dunkel\\" \U0001f600 ?')
    text = text.replace('"dark"', '"d\U0001f600rk"')
    registry = written(product(tmp_path, text).answer(), tmp_path / "out")
    metric = registry.metric("theme")
    assert metric.description == 'Wie "dunkel" \U0001f600 ?'
    assert "d\U0001f600rk" in metric.mechanism.parameters()["categories"]


def test_the_command_writes_a_registry_that_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    product(tmp_path, THEME, CITY)
    monkeypatch.chdir(tmp_path)
    assert run("plan product questions.toml --out out", monkeypatch) == 0
    assert "next: ldp registry check out/metrics.toml" in capsys.readouterr().out
    assert run("registry check out/metrics.toml", monkeypatch) == 0
    capsys.readouterr()
    assert run("plan product questions.toml --out out", monkeypatch) == 2
    assert "exists; name another folder" in capsys.readouterr().err
    cells = Path("out/city.txt").read_text()
    Path("city.txt").write_text("Oslo\nBergen\n")  # an input of the name of a list to write
    assert run("plan product questions.toml --out .", monkeypatch) == 2
    assert capsys.readouterr().err == "ldp: city.txt exists; name another folder for --out\n"
    Path("city.txt").write_text(cells)
    assert run("plan product questions.toml --out .", monkeypatch) == 0
    capsys.readouterr()
    assert run("plan product questions.toml --json", monkeypatch) == 0
    accepted = json.loads(capsys.readouterr().out)["accepted"]
    assert [row["question"] for row in accepted] == ["theme", "city"]


def test_the_command_says_why_no_question_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    product(tmp_path, THEME.replace("within = 0.02", "within = 0.00001"))
    monkeypatch.chdir(tmp_path)
    assert run("plan product questions.toml --out out", monkeypatch) == 2
    said = capsys.readouterr()
    assert "theme does not fit" in said.out
    assert said.err == "ldp: no question fits: nothing was written\n"
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("plan product missing.toml", "cannot read missing.toml"),
        ("plan product q.toml --users 5", "--users"),
        ("plan list --domain 5 --out x", "--out"),
    ],
)
def test_wrong_calls_are_one_line(
    words: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words, monkeypatch) == 2
    assert message in capsys.readouterr().err


def test_a_plan_never_passes_its_caps_in_exact_sums(tmp_path: Path) -> None:
    """As doubles, the three prices sum to the cap; exactly, they sum to more."""
    assert _left(0.6, [0.1, 0.2]) <= Fraction(0.6) - Fraction(0.1) - Fraction(0.2)
    one, two, three = 0.1, 0.2, 0.3
    cap = math.fsum([one, two]) + three
    exact = sum(map(Fraction, (one, two, three)))
    assert (three <= _left(cap, [one, two])) == (exact <= Fraction(cap))
    # not sum: from Python 3.12 on it rounds once
    assert _left(1.0, [0.1] * 10) == 0.0 < 1.0 - reduce(add, [0.1] * 10), "doubles leave a rest"


def test_the_registry_of_a_plan_lets_other_stand_for_what_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    theme = THEME.replace('"system"', '"Other"')
    by = START.replace("range = [0, 10]", 'by = ["2.0", "other"]').replace("0.03", "0.5")
    registry = written(product(tmp_path, theme, by).answer(), tmp_path / "out")
    assert [metric.other for metric in registry.metrics.values()] == ["Other", "other"]
    capsys.readouterr()
    assert run(f"registry check {tmp_path}/out/metrics.toml", monkeypatch) == 0
    assert "sends nothing for" not in capsys.readouterr().out
