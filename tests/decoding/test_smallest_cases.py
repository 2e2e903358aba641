"""Every number of every mechanism at its smallest is decoded against the exact law of reports.

The smallest values come from the catalogue. Each field that is a whole number or a list is lowered
until the mechanism refuses it, alone and together with all others; a refusal says why. A table of
the enumerated mean reports must decode into what people hold. A standard error must be the root of
the enumerated variance. For sketches that is the closed form with their collisions, for a
regression what its equations determine.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ldp.arrays import Floats
from ldp.audit.law import exact_law, number_of_outcomes
from ldp.decoding.by_category import Distributions
from ldp.decoding.distribution import Distribution
from ldp.decoding.means import MeanEstimate, RegressionEstimate, decode_numbers
from ldp.decoding.outcome import associate_members, discover_words
from ldp.errors import DecodeError, ParameterError
from ldp.mechanisms import CatalogueMechanism, Mechanism
from ldp.mechanisms.catalogue import METRIC_MECHANISMS
from ldp.mechanisms.dummies import Dummies
from ldp.protocol.hashing import PolynomialRows
from ldp.protocol.randomness import SeededBits
from ldp.server import Estimates, Table, decode
from ldp.tables.joint_table import empty_builder

N = 10**12
"""Number of reports of a table, so large that rounding its counts moves no share by 1e-10."""
MOST = 4096
"""Most different reports of a mechanism whose law is enumerated here."""
LINEAR = ("direct", "geometry")
"""Methods whose estimate is a sum over reports."""


def sizes(mechanism: CatalogueMechanism) -> dict[str, Any]:
    """Return the parameters that are whole numbers or lists of texts."""
    values = {field.name: getattr(mechanism, field.name) for field in dataclasses.fields(mechanism)}
    return {
        name: value
        for name, value in values.items()
        if type(value) is int or (isinstance(value, tuple) and value and type(value[0]) is str)
    }


def smaller(value: Any) -> list[Any]:
    """Yield all that is below a number or a list, from the smallest on."""
    return [value[:n] for n in range(len(value))] if isinstance(value, tuple) else [*range(value)]


def lowered(mechanism: CatalogueMechanism, name: str) -> tuple[CatalogueMechanism, list[str]]:
    """Return the mechanism with the least number `name` that it takes, and its refusals.

    Other numbers are as they are, or by default.
    """
    changing: Any = mechanism
    said = []
    defaults = [
        {field.name: field.default}
        for field in dataclasses.fields(mechanism)
        if field.name != name and field.default in (0, ())
    ]
    for value in smaller(sizes(mechanism)[name]):
        for default in [dict[str, Any](), *defaults]:
            try:
                small = dataclasses.replace(changing, **{name: value}, **default)
            except ParameterError as error:
                said.append(str(error))
                continue
            if getattr(small, name) == value:  # for some, 0 means "by default"
                return small, said
    return mechanism, said


def all_lowered(mechanism: CatalogueMechanism) -> CatalogueMechanism:
    while True:
        before = mechanism
        for name in sizes(mechanism):
            mechanism, _ = lowered(mechanism, name)
        if mechanism == before:
            return mechanism


def smallest_ones() -> Iterator[Any]:
    """Yield each example of the catalogue with each number at its smallest, and with all of
    them."""
    for kind in METRIC_MECHANISMS.values():
        for number, example in enumerate(kind.examples()):
            mechanisms = {name: lowered(example.mechanism, name)[0] for name in sizes(example[0])}
            mechanisms["all"] = all_lowered(example.mechanism)
            seen = list[CatalogueMechanism]()
            for name, mechanism in mechanisms.items():
                if mechanism not in seen:
                    seen.append(mechanism)
                    values = [value for value in example.values if takes(mechanism, value)]
                    yield pytest.param(mechanism, values, id=f"{kind.name}-{number}-{name}")


def takes(mechanism: CatalogueMechanism, value: Any) -> bool:
    try:
        mechanism.check(value)
    except ParameterError:
        return False
    return not isinstance(value, frozenset) or len(value) <= mechanism.at_most_answers


SMALLEST = [*smallest_ones()]
WHOLE = [case for case in SMALLEST if case.values[0].is_whole and case.values[1]]
OF_PARTS = [
    case
    for case in WHOLE
    if not isinstance(case.values[0], Mechanism) or case.values[0].answers == "words"
]
IN_ONE_TABLE = [
    case for case in WHOLE if case not in OF_PARTS and number_of_outcomes(case.values[0]) <= MOST
]


def shares_of(mechanism: Mechanism, values: list[Any]) -> dict[Any, Fraction]:
    """Return shares of people who hold each value, all different: of the examples, or of
    categories."""
    labels = [name for name in mechanism.labels if mechanism.answers == "values"]
    held = list(dict.fromkeys([*values, *filter(lambda name: takes(mechanism, name), labels)]))
    weights = range(len(held), 0, -1)
    return {v: Fraction(w, sum(weights)) for v, w in zip(held, weights, strict=True)}


def adds(mechanism: Mechanism, number: int, column: int) -> int:
    """Return what a payload adds to a cell: 1 or 0, or for SIGN its sign in its column."""
    if not mechanism.kind.is_signed:
        return int(mechanism.layout.names(number, column))
    return (1 - 2 * (number & 1)) * (number >> 1 == column)


def expected_table(mechanism: Mechanism, shares: Mapping[Any, Fraction]) -> Table:
    """Return the table of N reports of people with these shares, each cell at its mean."""
    rows, columns = mechanism.shape
    cells, reports = ([Fraction(0)] * columns for _ in range(rows)), [Fraction(0)] * rows
    counts = [*cells]
    if isinstance(mechanism, Dummies):  # its law is that of a record of several messages
        dummies = mechanism.slots * Fraction(mechanism.probability) / (columns - 1)
        held = [shares.get(name, Fraction(0)) for name in mechanism.categories]
        named = [Fraction(mechanism.sending) * share + dummies for share in held]
        sent = Fraction(mechanism.messages)
        counts, reports = [[*named, sent - sum(named, Fraction(0))]], [sent]
    else:
        for value, share in shares.items():
            for (row, number), chance in exact_law(mechanism, value).items():
                reports[row] += share * chance
                for column in range(columns):
                    counts[row][column] += share * chance * adds(mechanism, number, column)
    whole = np.array([[round(N * cell) for cell in row] for row in counts], np.int64)
    return Table(mechanism, whole, np.array([round(N * row) for row in reports], np.int64))


def enumerated_variance(mechanism: Mechanism, shares: Mapping[Any, Fraction], e: Estimates) -> Any:
    """Return the variance of each estimate for a report, from the estimates of single reports."""
    columns, variance = range(mechanism.shape.columns), np.zeros(len(e.values))
    weights = dict[tuple[int, int], Floats]()
    for value, share in shares.items():
        law = exact_law(mechanism, value)
        for row, number in law.keys() - weights.keys():
            cells = np.zeros(mechanism.shape, np.int64)
            cells[row] = [adds(mechanism, number, column) for column in columns]
            reports = np.arange(mechanism.shape.rows) == row
            single = Table(mechanism, cells, reports.astype(np.int64))
            weights[row, number] = decode(single, e.values).count
        mean = sum(float(chance) * weights[key] for key, chance in law.items())
        square = sum(float(chance) * weights[key] ** 2 for key, chance in law.items())
        variance += float(share) * (square - mean**2)
    return variance


def sketch_counts(mechanism: Mechanism, shares: Mapping[Any, Fraction], names: list[str]) -> Any:
    """Return the expected shares of a mean sketch.

    They are m / (m - 1) times those of a cell, minus 1 / m, for m columns, in the mean over rows.
    """
    rows, columns = mechanism.shape
    cells = {v: [tuple(mechanism.cells(v, row)) for row in range(rows)] for v in names}
    alike = [
        sum(
            float(share) * sum(a == b for a, b in zip(cells[v], cells[u], strict=True)) / rows
            for u, share in shares.items()
        )
        for v in names
    ]
    return columns / (columns - 1) * (np.array(alike) - 1 / columns)


@pytest.mark.exact
@pytest.mark.parametrize(("mechanism", "values"), IN_ONE_TABLE)
def test_what_people_hold_is_decoded_at_the_smallest_of_every_number(
    mechanism: Mechanism, values: list[Any]
) -> None:
    shares = shares_of(mechanism, values)
    require_decoded(expected_table(mechanism, shares), shares)


@pytest.mark.exact
def test_a_table_of_another_channel_is_not_decoded_into_what_people_hold() -> None:
    """The twin has the same counts, and is decoded with an epsilon larger by a thousandth."""
    case = next(case for case in IN_ONE_TABLE if case.values[0].name == "rr")
    shares = shares_of(*case.values)
    table = expected_table(case.values[0], shares)
    require_decoded(table, shares)
    wrong: Any = dataclasses.replace(case.values[0], epsilon=1.001 * case.values[0].epsilon)
    with pytest.raises(AssertionError):
        require_decoded(dataclasses.replace(table, mechanism=wrong), shares)


def require_decoded(table: Table, shares: Mapping[Any, Fraction]) -> None:
    """Assert that the estimates of an expected table are what people hold."""
    mechanism = table.mechanism
    if mechanism.is_numeric:
        require_numbers(table, shares)
        return
    is_of_sets = mechanism.answers == "sets"
    names = [*(mechanism.labels or map(str, shares))]
    truth = [
        float(
            sum(
                s
                for v, s in shares.items()
                if (name in v if is_of_sets else mechanism.label(v) == name)
            )
        )
        for name in names
    ]
    estimates = decode(table, names)
    if not np.isfinite(estimates.std_error).all():
        assert "cannot tell apart" in estimates.details["warning"]
        return
    if isinstance(mechanism.candidate_addressing, PolynomialRows):
        assert "fewer than 64 rows" in estimates.details["warning"]
        truth = sketch_counts(mechanism, shares, names)
    np.testing.assert_allclose(estimates.count / N, truth, atol=1e-7)
    if estimates.details["method"] in LINEAR:
        variance = enumerated_variance(mechanism, shares, estimates)
        np.testing.assert_allclose(estimates.std_error**2 / N, variance, rtol=1e-6)


def require_numbers(table: Table, shares: Mapping[Any, Fraction]) -> None:
    """Assert that the mean, the line or the shares of bins are those of the values that people
    hold."""
    numbers = decode_numbers(table)
    weights = np.array([float(share) for share in shares.values()])
    if isinstance(numbers, MeanEstimate):
        low, high = table.mechanism.bounds  # type: ignore[attr-defined]
        held = np.clip([float(value) for value in shares], low, high)
        assert numbers.mean == pytest.approx(held @ weights, abs=1e-7)
    elif isinstance(numbers, RegressionEstimate):
        held = np.array([*shares])
        columns = np.column_stack([held[:, :-1], np.ones(len(held))]) * np.sqrt(weights)[:, None]
        line = np.linalg.lstsq(columns, held[:, -1] * np.sqrt(weights), rcond=None)[0]
        np.testing.assert_allclose([*numbers.coef, numbers.intercept], line, atol=1e-5)
    else:
        parts = numbers.of if isinstance(numbers, Distributions) else {"": numbers}
        for category, part in parts.items():
            assert isinstance(part, Distribution)
            of = {v: s for v, s in shares.items() if not category or v[0] == category}
            is_by = isinstance(numbers, Distributions)
            held_values = {v[1] if is_by else v for v in of}
            for edge in {*part.bins.edges[1:-1]} - held_values:  # ends of bins of both signs
                below = sum(s for v, s in of.items() if (v[1] if is_by else v) < edge)
                share = float(below / sum(of.values()))
                assert part.between(-math.inf, edge).estimate == pytest.approx(share, abs=1e-6)


@pytest.mark.exact
@pytest.mark.parametrize(("mechanism", "values"), IN_ONE_TABLE)
def test_a_single_report_is_decoded_or_refused_in_words(
    mechanism: Mechanism, values: list[Any]
) -> None:
    """The smallest table gives numbers, none of them NaN, or one line of reason."""
    names = [*(mechanism.labels or map(str, values))]
    builder = empty_builder(mechanism)
    encoder = mechanism.encoder(SeededBits(b"single"))
    builder.add_all(mechanism.split(encoder.encode(values[0])))
    table: Any = builder.build()
    try:
        result: Any = decode_numbers(table) if mechanism.is_numeric else decode(table, names)
        text = result.to_csv()
    except DecodeError as error:
        text = str(error)
    assert text
    assert "nan" not in text.lower()


@pytest.mark.exact
@pytest.mark.parametrize(("mechanism", "values"), OF_PARTS)
def test_words_and_pairs_decode_at_the_smallest_or_say_why_not(
    mechanism: CatalogueMechanism, values: list[Any]
) -> None:
    """300 reports give an estimate for each word and cell, or one line of reason."""
    builder = empty_builder(mechanism)
    encoder = mechanism.encoder(SeededBits(b"smallest"))
    builder.add_all([encoder.encode(values[i % len(values)]) for i in range(300)])
    table: Any = builder.build()
    reason = "decoded"
    try:
        if mechanism.answers == "words":
            assert np.isfinite(discover_words(table).count).all()
        else:
            listed = [sorted({str(value[i]) for value in values}) for i in range(len(values[0]))]
            associate_members(table, listed)
    except DecodeError as error:
        reason = str(error)
    assert reason


@pytest.mark.exact
def test_a_refused_number_says_its_least_value_or_what_it_must_fit() -> None:
    """A refusal names the parameter, or the one that it must fit, and a bound or a relation."""
    messages = set[str]()
    for kind in METRIC_MECHANISMS.values():
        for example in kind.examples():
            for name in sizes(example.mechanism):
                messages |= set(lowered(example.mechanism, name)[1])
    names = {name for kind in METRIC_MECHANISMS.values() for name in kind.__dataclass_fields__}
    assert len(messages) > 10
    for message in messages:
        assert names & set(message.replace(",", " ").replace("'", " ").split()), message
        assert any(
            word in message
            for word in (
                "from",
                "or more",
                "at least",
                "at most",
                "multiple",
                "must",
                "need",
                "have",
                "one",
            )
        ), message
