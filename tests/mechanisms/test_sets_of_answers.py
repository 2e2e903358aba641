"""A person may have several answers: sets through `unary`, basic RAPPOR and `privset`."""

import math
import re
from fractions import Fraction
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import chi2

from ldp.audit import exact_law
from ldp.client import Client
from ldp.client.results import Declined, Recorded
from ldp.data_files import Reading
from ldp.decoding.association import variable
from ldp.decoding.consistency import consistent
from ldp.errors import DecodeError, ParameterError
from ldp.mechanisms import (
    Mechanism,
    PrivSet,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
    from_parameters,
)
from ldp.mechanisms.privset import channel_of, tuned_set_size
from ldp.planning import plan
from ldp.privacy_loss import compose
from ldp.protocol.kinds import Subset
from ldp.protocol.randomness import SeededBits
from ldp.server import decode
from ldp.simulation import Population, draw_reports, draw_table
from ldp.tables.estimates import Rule
from ldp.tables.table import Table, TableBuilder
from tests.folders import ROOT
from tests.statistics import ALPHA

ABCD = tuple("abcd")
MECHANISMS: tuple[Mechanism, ...] = (
    *(
        UnaryEncoding(categories=ABCD, epsilon=2.5, variant=variant, at_most=at_most)
        for variant in ("symmetric", "optimized")
        for at_most in (1, 2, 3, 4)
    ),
    *(
        Rappor(scheme="identity", bits=4, f=f, p=p, q=q, at_most=at_most)
        for f, p, q, at_most in ((0.5, 0.25, 0.75, 2), (0.4, 0.0, 1.0, 3))
    ),
    *(
        PrivSet(categories=ABCD, epsilon=epsilon, at_most=at_most, size=size)
        for epsilon, at_most, size in ((1.0, 1, 2), (2.0, 2, 0), (1.0, 3, 3), (3.0, 4, 4))
    ),
)
EVERY_SET = [frozenset(some) for size in range(5) for some in combinations(ABCD, size)]
REGISTRY = """
[product]
name = "phone"

[group.apps]
window = "1d"
window_epsilon = 4.0
lifetime_epsilon = 400.0

[metric.apps]
version = 1
group = "apps"
description = "Which of these apps were used"
owners = ["apps@example.org"]
expires = 2099-12-31
mechanism = "privset"
categories = ["maps", "mail", "music", "news", "other"]
other = "other"
at_most = 2
epsilon = 4.0
reports_per_window = 1
"""


def in_categories(mechanism: Mechanism) -> list[frozenset[str]]:
    """Return every set of the mechanism's own categories, also larger ones than it reports."""
    names = dict(zip(ABCD, mechanism.parameters()["categories"], strict=True))
    return [frozenset(names[answer] for answer in value) for value in EVERY_SET]


for_each = pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=[f"{m.name}-{i}" for i, m in enumerate(MECHANISMS)]
)


@pytest.mark.exact
@for_each
def test_epsilon_is_the_worst_ratio_over_all_pairs_of_sets(mechanism: Mechanism) -> None:
    """All 240 ordered pairs of the 16 sets are compared, with the empty and the too large ones.

    The law of one column may have a looser bound, as for "optimized" bits with fewer than 2 m
    categories.
    """
    laws = [exact_law(mechanism, value) for value in in_categories(mechanism)]
    assert all(sum(law.values()) == 1 for law in laws)
    ratio = max(a[key] / b[key] for a, b in permutations(laws, 2) for key in a)
    assert ratio == mechanism.channel.worst_ratio
    asked = mechanism.parameters().get("epsilon")
    assert asked is None or mechanism.cost.epsilon <= asked


@pytest.mark.exact
@for_each
def test_a_report_says_as_much_of_any_size_of_set(mechanism: Mechanism) -> None:
    """Holders name each category with `touched`, others with `untouched`, for any number of
    answers.

    Sets of j > m answers name it with the mean of both, weighted by m / j.
    """
    addressing, channel = mechanism.candidate_addressing, mechanism.channel
    most = mechanism.at_most_answers
    for value in in_categories(mechanism):
        law = exact_law(mechanism, value)
        for answer in mechanism.parameters()["categories"]:
            (cell,) = addressing.cells(addressing.point(answer), 0)
            named = sum(
                (p for (_, number), p in law.items() if mechanism.layout.names(number, cell)),
                Fraction(0),
            )
            held = min(Fraction(1), Fraction(most, len(value))) if answer in value else 0
            assert named == held * channel.touched + (1 - held) * channel.untouched


@pytest.mark.exact
def test_what_is_drawn_is_what_is_stated() -> None:
    """The size of the named part of a set, and each answer of a larger set, have the stated shares.

    The shares are those of a stream's draws; each fails falsely with probability ALPHA. The twin
    has the law of the other set.
    """
    mechanism = PrivSet(categories=ABCD, epsilon=1.0, at_most=2, size=3)
    encoder, draws = mechanism.encoder(SeededBits(b"answers")), 4000
    for value, other in ((frozenset("abc"), frozenset("a")), (frozenset("b"), frozenset("c"))):
        reports = [encoder.encode(value) for _ in range(draws)]
        numbers = [int.from_bytes(report[-1:], "little") for report in reports]
        p_values = []
        for named in (value, other):
            law = {number: float(p) for (_, number), p in exact_law(mechanism, named).items()}
            misfit = sum(
                (numbers.count(number) - draws * p) ** 2 / (draws * p) for number, p in law.items()
            )
            p_values.append(float(chi2.sf(misfit, len(law) - 1)))
        assert p_values[0] > ALPHA > p_values[1]


@pytest.mark.exact
@pytest.mark.parametrize(("epsilon", "at_most"), [(0.5, 1), (1.0, 3), (2.0, 2), (4.0, 5)])
def test_the_size_has_the_least_variance_of_all_sizes(epsilon: float, at_most: int) -> None:
    categories = 12
    channels = [channel_of(epsilon, categories, at_most, w) for w in range(1, categories + 1)]
    noise = [channel.variance(0.0) for channel in channels]
    assert tuned_set_size(epsilon, categories, at_most) == 1 + int(np.argmin(noise))


@pytest.mark.exact
def test_privset_of_one_answer_is_subset_selection_with_a_pad() -> None:
    """The two mechanisms have the same probabilities, with one column more for nobody's answer."""
    from ldp.mechanisms import SubsetSelection

    privset = PrivSet(categories=ABCD, epsilon=1.0, at_most=1, size=2)
    subset = SubsetSelection(categories=(*ABCD, "none"), epsilon=1.0, size=2)
    assert privset.channel.touched == subset.channel.touched
    assert privset.channel.untouched == subset.channel.untouched
    at = [compose([(one, 3)]).at(delta=1e-6) for one in (privset, subset)]
    assert at[0] == at[1]


@pytest.mark.exact
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
@pytest.mark.parametrize("at_most", [2, 5])
def test_privset_has_less_variance_than_bits(epsilon: float, at_most: int) -> None:
    categories = tuple(map(str, range(40)))
    privset = PrivSet(categories=categories, epsilon=epsilon, at_most=at_most)
    for variant in ("symmetric", "optimized"):
        bits = UnaryEncoding(
            categories=categories, epsilon=epsilon, variant=variant, at_most=at_most
        )
        assert privset.variance(1000) < bits.variance(1000)


PAGE = ROOT / "docs/mechanisms/several-answers.md"
ROW = re.compile(r"^\| ([\d,]+) \| (\d+) \| (\d+) \|(.+)\|$", re.MULTILINE)


def wheel_variance(epsilon: float, at_most: int) -> float:
    """Return the wheel's variance at the best of many widths, as the page states it."""
    width = np.linspace(0, 1 / at_most, 100_001)[1:-1]
    among = at_most * width * math.exp(epsilon) + 1 - at_most * width
    scale = width * (math.expm1(epsilon) * (1 - at_most * width)) ** 2
    return float(((1 - width) * among**2 / scale).min())


@pytest.mark.exact
def test_the_pages_table_is_what_the_formulas_give() -> None:
    """All variances are equal to three digits, all bytes too, and so are the rows that privset wins
    by bytes."""
    rows = ROW.findall(PAGE.read_text())
    assert len(rows) == 6
    wins = []
    for domain, answers, epsilon_text, rest in rows:
        d, m, epsilon = int(domain.replace(",", "")), int(answers), float(epsilon_text)
        names = tuple(map(str, range(d)))
        privset = PrivSet(categories=names, epsilon=epsilon, at_most=m)
        one = SubsetSelection(categories=tuple(map(str, range(d + m))), epsilon=epsilon)
        bits = UnaryEncoding(categories=names, epsilon=epsilon, at_most=m)
        expected = [
            privset.variance(1),
            privset.layout.body_bytes,
            wheel_variance(epsilon, m),
            3,
            m**2 * one.variance(1),
            bits.variance(1),
        ]
        stated = [float(cell) for cell in rest.split("|")]
        assert stated == pytest.approx(expected, rel=0.006, abs=0.005)
        wins.append(expected[0] * (10 + expected[1]) < expected[2] * (10 + expected[3]))
    assert wins == [True, True, True, False, True, False]


@pytest.mark.exact
def test_parameters_of_one_answer_stay_as_they_were() -> None:
    """Fingerprints do not change, so neither do tables and reports."""
    unary = UnaryEncoding(categories=ABCD, epsilon=1.0)
    assert "at_most" not in unary.parameters()
    assert UnaryEncoding(categories=ABCD, epsilon=1.0, at_most=1).fingerprint != unary.fingerprint
    assert from_parameters(MECHANISMS[0].parameters()) == MECHANISMS[0]


@pytest.mark.exact
@pytest.mark.parametrize(
    "parameters",
    [
        {"mechanism": "unary", "at_most": 0},
        {"mechanism": "unary", "at_most": 5},
        {"mechanism": "unary", "at_most": True},
        {"mechanism": "privset", "at_most": 2, "size": 5},
        {"mechanism": "privset", "at_most": None},
    ],
)
def test_parameters_out_of_range_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=r"at_most|size"):
        from_parameters({"categories": list(ABCD), "epsilon": 1.0, **parameters})


@pytest.mark.exact
def test_bloom_filters_take_one_answer() -> None:
    with pytest.raises(ParameterError, match="identity"):
        Rappor(bits=8, f=0.5, p=0.25, q=0.75, seed="00", at_most=2)


@pytest.mark.exact
@pytest.mark.parametrize("value", ["a", ("a", "b"), ["a"], None, {"a", "z"}, {1}])
def test_only_a_set_of_answers_is_a_value(value: Any) -> None:
    with pytest.raises(ParameterError, match="value"):
        MECHANISMS[0].encoder().encode(value)


@pytest.mark.exact
def test_a_set_of_which_some_answers_are_drawn_touches_no_cells_for_certain() -> None:
    mechanism = UnaryEncoding(categories=ABCD, epsilon=1.0, at_most=2)
    assert mechanism.cells(frozenset("ad"), 0) == (0, 3)
    with pytest.raises(ParameterError, match="replaced at random"):
        mechanism.cells(frozenset("abd"), 0)


@pytest.mark.exact
def test_a_larger_set_keeps_its_choice_under_one_secret() -> None:
    """A choice drawn anew would be another permanent response of the same value."""
    mechanism = Rappor(scheme="identity", bits=4, f=0.5, p=0.25, q=0.75, at_most=2)
    value, cells = frozenset("0123"), set()
    for number in range(40):
        encoder = mechanism.encoder(secret=bytes([number]) * 16, metric="apps/1")
        cell = {encoder.cell(value) for _ in range(5)}
        assert [sum(each).bit_count() for each in cell] == [2]  # one byte, two bits
        cells |= cell
    assert len(cells) > 3  # another secret has another choice
    chosen = [  # by twelve secrets: after an update of the client too
        b"".join(
            mechanism.encoder(secret=bytes([number]) * 16, metric=metric).cell(value)
            for number in range(12)
        ).hex()
        for metric in ("apps/1", "apps/2")
    ]
    assert chosen == ["0309060c0606090c03030506", "05050c050c0c0a0c0a050309"]
    assert mechanism.placeholder == frozenset()


@pytest.mark.exact
def test_an_app_records_sets(tmp_path: Path) -> None:
    (tmp_path / "metrics.toml").write_text(REGISTRY)
    with Client(tmp_path / "device", registry=tmp_path / "metrics.toml", witness=False) as client:
        client.grant()
        for value in ({"maps"}, frozenset[str](), {"maps", "chess"}, {"maps", "mail", "music"}):
            assert client.record("apps", value) == Recorded()
        declined = client.record("apps", "maps")
        assert isinstance(declined, Declined)
        assert declined.details == "a value must be a set of answers"


PEOPLE = "answers,count\n,300\nmaps|mail,400\nmail,200\nmaps|mail|music,600\nchess|news,100\n"


def people(tmp_path: Path) -> Population:
    (tmp_path / "people.csv").write_text(PEOPLE)
    return Population.from_csv(tmp_path / "people.csv")


@pytest.mark.exact
def test_a_population_of_sets_is_read_and_counted_by_answer(tmp_path: Path) -> None:
    population = people(tmp_path)
    assert population.users == 1600
    assert population.answer_counts() == {
        "mail": 1200, "maps": 1000, "music": 600, "chess": 100, "news": 100,
    }  # fmt: skip
    assert population.to_csv().splitlines()[:2] == ["value,count", "mail,1200"]
    nothing: tuple[Any, ...] = (frozenset(),)
    assert Population(nothing, counts=np.array([3])).to_csv() == "value,count\n"
    many: tuple[Any, ...] = (frozenset("abcde"),)
    few = Population(many, counts=np.array([3])).limited(2, np.random.default_rng(1))
    assert (few.users, {len(value) for value in few.values}) == (3, {2})
    limited = population.limited(2, np.random.default_rng(1))
    assert limited.users == 1600
    assert max(map(len, limited.values)) == 2
    drawn = limited.answer_counts()
    assert sum(drawn.values()) == sum(population.answer_counts().values()) - 600
    assert abs(drawn["music"] - 400) < 6 * 12  # 600 draws with probability 2/3: 12 is their spread


@pytest.mark.exact
@pytest.mark.parametrize("large", [False, True])
def test_sets_may_be_lists_in_parquet(tmp_path: Path, large: bool) -> None:
    """A row is a person, or has a count. An answer with | would be two; of a private file it is
    none."""
    texts = pa.large_list(pa.string()) if large else pa.list_(pa.large_string())
    lists = [["maps", "mail"], [], None, ["maps", None]]
    path, private = tmp_path / "people.parquet", Reading(is_private=True)
    pq.write_table(pa.table({"apps": pa.array(lists, texts), "age": [30, 40, 50, 60]}), path)
    population = Population.from_csv(path, are_sets=True, column="apps")
    counts = {frozenset({"maps", "mail"}): 1, frozenset(): 2, frozenset({"maps"}): 1}
    assert population.truth() == counts
    (tmp_path / "people.csv").write_text("age,apps\n30,maps|mail\n40,\n50,\n60,maps\n")
    of_text = Population.from_csv(tmp_path / "people.csv", are_sets=True, column="apps")
    assert of_text.truth() == counts
    for some in (["a|b"], ["mail"]):
        pq.write_table(pa.table({"answers": pa.array([some], texts), "count": [3]}), path)
        assert len(*Population.from_csv(path, private, are_sets=True).values) == 1
    assert Population.from_csv(path, are_sets=True).truth() == {frozenset({"mail"}): 3}


@pytest.mark.exact
def test_sets_that_can_be_read_in_two_ways_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"answers": [["mail"], ["a|b"]], "count": [1, 1]}), path)
    with pytest.raises(ParameterError, match=r"row 2: an answer holds \|, which stands between"):
        Population.from_csv(path, are_sets=True)
    with pytest.raises(ParameterError, match="'answers' holds list<element: string>, no texts"):
        Population.from_csv(path)
    (tmp_path / "people.csv").write_text("apps\nmaps|mail\n\nmaps\n")
    with pytest.raises(ParameterError, match="a blank line may be a person without answers"):
        Population.from_csv(tmp_path / "people.csv", are_sets=True, column="apps")


@pytest.mark.statistical
@pytest.mark.parametrize("way", ["reports", "table"])
def test_counts_and_number_of_answers_are_estimated(tmp_path: Path, way: str) -> None:
    """Each of the six estimates is within 5.5 standard errors; this fails falsely with probability
    2.3e-7 in all.

    The twin, each count taken for the next answer's, is not.
    """
    population = people(tmp_path).mapped(
        lambda value: frozenset(answer.replace("chess", "other") for answer in value)
    )
    mechanism = PrivSet(
        categories=("maps", "mail", "music", "news", "other"), epsilon=4.0, at_most=2
    )
    generator = np.random.default_rng(3)
    if way == "table":
        table = draw_table(
            mechanism, population.values, counts=population.counts, generator=generator
        )
    else:
        builder = TableBuilder(mechanism)
        for rows, payloads in draw_reports(mechanism, population, generator):
            builder.add_batch(rows, payloads)
        table = builder.build()
    estimates = decode(table)
    truth = {"maps": 800.0, "mail": 1000.0, "music": 400.0, "news": 100.0, "other": 100.0}
    held = np.array([truth[value] for value in estimates.values])
    more = [12 if value in ("maps", "mail", "music") else 0 for value in estimates.values]
    spread = np.hypot(estimates.std_error, more)
    assert (abs(estimates.count - held) < 5.5 * spread).all()
    assert not (abs(np.roll(estimates.count, 1) - held) < 5.5 * spread).all()
    details = estimates.details
    assert abs(details["answers_each"] - 2400 / 1600) < 5.5 * details["answers_each_std_error"]
    assert estimates.unexplained() == pytest.approx(3200 - estimates.count.sum())
    with pytest.raises(DecodeError, match="no known number"):
        consistent(estimates, "sum-to-n")
    with pytest.raises(DecodeError, match="sets of answers"):
        variable(table, None, Rule(), "apps")


@pytest.mark.exact
def test_the_variance_of_a_sum_is_that_of_the_law() -> None:
    """Holders of 0, 1 and 2 of three categories name a number of them.

    Its variance by the enumerated law equals the formula that `sum_std_error` uses.
    """
    from ldp.decoding.direct import _subset_variance

    mechanism = PrivSet(categories=ABCD, epsilon=1.0, at_most=2, size=3)
    assert isinstance(mechanism.layout, Subset)
    for value, held in ((frozenset("d"), 0), (frozenset("ad"), 1), (frozenset("ab"), 2)):
        law = exact_law(mechanism, value)
        named = {number: (number & 0b111).bit_count() for _, number in law}
        mean = sum(named[number] * p for (_, number), p in law.items())
        square = sum(named[number] ** 2 * p for (_, number), p in law.items())
        variance = float(square - mean**2) / mechanism.channel.gain**2
        assert _subset_variance(mechanism, mechanism.layout, 3, held) == pytest.approx(variance)


@pytest.mark.exact
def test_a_plan_for_sets_recommends_privset_and_gives_its_lines() -> None:
    answer = plan(domain=30, users=100_000, epsilon=2.0, frequency=0.05, answers=3)
    assert answer.best.mechanism == "privset"
    assert {row.mechanism for row in answer.forecasts} == {"privset", "unary", "rappor"}
    assert "at_most = 3" in answer.registry_lines()
    with pytest.raises(ParameterError, match="answers must be"):
        plan(domain=3, users=1000, epsilon=2.0, frequency=0.05, answers=4)


@pytest.mark.exact
def test_counts_of_sets_add_to_no_known_number_even_of_one_answer() -> None:
    mechanism = PrivSet(categories=ABCD, epsilon=1.0, at_most=1)
    values: tuple[Any, ...] = (frozenset("a"), frozenset())
    generator = np.random.default_rng(1)
    table = draw_table(mechanism, values, counts=np.array([50, 50]), generator=generator)
    with pytest.raises(DecodeError, match="no known number"):
        consistent(decode(table), "sum-to-n")


@pytest.mark.exact
def test_an_empty_table_of_sets_is_an_error() -> None:
    with pytest.raises(DecodeError, match="no reports"):
        decode(Table.empty(MECHANISMS[-1]))
