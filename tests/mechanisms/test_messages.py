"""Messages for a shuffler: the law of a record, and what is decoded from messages."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from ldp.arrays import Floats
from ldp.decoding.message_counts import PART_OF_A_BATCH, MessageBounds
from ldp.mechanisms.dummies import Dummies
from ldp.server import decode
from ldp.simulation.tables import draw_tables
from ldp.tables.table import Table
from tests.messages import OSLO
from tests.tiers import tiered


@pytest.mark.exact
def test_the_law_of_a_record_is_the_stated_one() -> None:
    """All bits that can be drawn are enumerated, with thresholds that are multiples of 1/2."""
    mechanism = Dummies(categories=("a", "b"), slots=1, probability=0.5, sending=0.5)
    seen: Counter[tuple[int, ...]] = Counter()

    class Bits:
        """Source of words from a list, whose first bits decide."""

        def __init__(self, choices: int) -> None:
            self.choices, self.used = choices, 0

        def draw(self, bits: int) -> int:
            word = self.choices >> self.used & 1
            self.used += 1
            return word << (bits - 1) if bits else 0

    for choices in range(16):
        record = mechanism.encoder(Bits(choices)).encode("a")
        seen[tuple(message[-1] for message in mechanism.split(record))] += 1
    assert sum(seen.values()) == 16
    orders = Counter({tuple(sorted(columns)): 0 for columns in seen})
    for columns, number in seen.items():
        orders[tuple(sorted(columns))] += number
        assert seen[columns[::-1]] == number
    assert orders == {(0, 0): 2, (0, 1): 2, (0, 2): 6, (1, 2): 2, (2, 2): 4}


SETTINGS = [
    Dummies(categories=tuple(map(str, range(40))), slots=2, probability=0.5),
    Dummies(categories=tuple(map(str, range(40))), slots=3, probability=0.4, sending=0.5),
    Dummies(categories=tuple(map(str, range(400))), slots=1, probability=0.25, sending=0.8),
    Dummies(categories=("off", "on"), slots=1, probability=0.5, sending=0.95),
    Dummies(categories=("off", "on"), slots=1, probability=0.9, sending=0.8),
]
"""Settings; in the last two, more messages name the first value than there are dummies in all."""


NAMES = ["always", "sometimes", "rare", "popular", "dense"]


def intervals_and_errors_hold(mechanism: Dummies, made: Dummies) -> bool:
    """Return whether intervals and errors of 300 tables hold.

    `made` draws the messages, and `mechanism` decodes them. Each value's count must be in its
    interval at 90 % as often, with the stated variance.
    """
    generator, tables = np.random.default_rng(5), 300
    values = mechanism.categories[:4]
    counts = np.array([900, 90, 9, 0])[: len(values)]
    hits, errors = np.zeros(counts.size), list[Any]()
    for _ in range(tables):
        table = draw_tables(made, values, counts, generator)
        estimates = decode(replace(table, mechanism=mechanism), values)  # type: ignore[arg-type]
        low, high = estimates.interval(0.9)
        hits += (low <= counts) & (counts <= high)
        errors.append(estimates.count - counts)
        assert estimates.reports == counts.sum()
    people = int(counts.sum())
    squares = np.array(errors) ** 2 / mechanism.variance(people, counts / people)
    reach = 5.5 * squares.std(axis=0) / math.sqrt(tables)
    is_covered = (hits >= binom.isf(1 - 1e-7, tables, 0.9)).all()
    return bool(is_covered and (abs(squares.mean(axis=0) - 1) < reach).all())


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", tiered(SETTINGS, 2), ids=NAMES)
def test_intervals_hold_as_often_as_they_say_and_errors_are_those_stated(
    mechanism: Dummies,
) -> None:
    """This fails falsely with probability below 1e-6."""
    assert intervals_and_errors_hold(mechanism, mechanism)


@pytest.mark.exact
@pytest.mark.parametrize("sending", [0.3, 0.8, 0.95])
@pytest.mark.parametrize(("people", "slots"), [(3, 1), (10, 1), (10, 2), (30, 1)])
def test_intervals_of_few_people_hold_for_every_count(
    sending: float, people: int, slots: int
) -> None:
    """The probability is summed over all numbers of messages, for every number of holders."""
    mechanism = Dummies(categories=("a", "b"), slots=slots, probability=0.5, sending=sending)
    dummies, messages = slots * people, mechanism.messages * people
    named = np.arange(people + dummies + 1)
    count: Floats = (named - np.float64(dummies * 0.25)) / np.float64(sending)
    low, high = MessageBounds(named, count, mechanism, messages)(0.05, population=False)
    law_of_dummies = binom.pmf(np.arange(dummies + 1), dummies, 0.25)
    for held in range(people + 1):
        law = np.convolve(binom.pmf(np.arange(held + 1), held, sending), law_of_dummies)
        is_held = ((low <= held) & (held <= high))[: law.size]
        assert law[is_held].sum() >= 0.95


@pytest.mark.statistical
def test_twin_fewer_dummies_than_are_stated_are_outside_of_the_intervals() -> None:
    """Three quarters of the dummies are there; the test passes wrongly with probability below
    1e-6."""
    fewer = replace(SETTINGS[0], probability=0.375)
    assert not intervals_and_errors_hold(SETTINGS[0], fewer)


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", tiered(SETTINGS, 2), ids=NAMES)
@pytest.mark.parametrize(
    ("aim", "is_sound"), [("named", True), ("another", True), ("named", False)]
)
def test_intervals_hold_whatever_made_up_messages_say(
    mechanism: Dummies, aim: str, is_sound: bool
) -> None:
    """Of 1,800 people's messages in 100 tables, 10 % all name the first value, or all the second.

    This fails falsely with probability below 1e-6. The twin allows for 1 %.
    """
    generator, tables, held = np.random.default_rng(7), 100, np.array([900, 900])
    honest = mechanism.messages * int(held.sum())
    made_up, hits = honest // 9, 0
    values = mechanism.categories[:2]
    for _ in range(tables):
        counts = draw_tables(mechanism, values, held, generator).counts.astype(np.int64)  # type: ignore[union-attr]
        counts[0, 0 if aim == "named" else 1] += made_up
        table = Table.from_counts(mechanism, counts, honest + made_up)
        low, high = decode(table, values).under_fakes(0.1 if is_sound else 0.01).interval(0.9)
        hits += bool(low[0] <= held[0] <= high[0])
    is_covered = hits >= binom.isf(1 - 1e-6, tables, 0.9)
    assert is_covered == is_sound


@pytest.mark.exact
def test_shares_of_any_real_type_are_floats() -> None:
    shares: Any = {"probability": Fraction(1, 2), "sending": Fraction(1, 4096)}
    least = replace(OSLO, probability=0.5, sending=2**-12)
    assert replace(OSLO, **shares).fingerprint == least.fingerprint


@pytest.mark.exact
@pytest.mark.parametrize("mechanism", SETTINGS, ids=NAMES)
def test_made_up_messages_move_a_count_by_what_is_said(mechanism: Dummies) -> None:
    """The rise was share / `sending`, 29 % too much for the last setting."""
    counts = np.full((1, len(mechanism.categories) + 1), 600)
    before, fakes = Table.from_counts(mechanism, counts, counts.sum()), 60 * mechanism.messages
    for column, moved in ((0, mechanism.fakes_move(1.0)), (1, -mechanism.fakes_lower(1.0))):
        more = counts + fakes * np.eye(1, counts.size, column, dtype=int)
        after = Table.from_counts(mechanism, more, more.sum())
        moves = [decode(table, mechanism.categories[:1]).count[0] for table in (before, after)]
        assert moves[1] - moves[0] == pytest.approx(fakes * moved)


@pytest.mark.exact
@pytest.mark.parametrize(("missing", "warned"), [(0, False), (1, True), (2, True)])
def test_a_part_of_a_batch_is_warned_of(missing: int, warned: bool) -> None:
    table = Table.from_counts(OSLO, np.array([[90, 60, 50, 100 - missing]]), 300 - missing)
    assert [*decode(table).warnings()] == [PART_OF_A_BATCH] * warned
