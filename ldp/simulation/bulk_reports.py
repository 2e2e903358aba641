"""Reports of whole populations in bulk: the same channel and bytes as the device encoder.

Noise comes from a numpy Generator, so this is for simulation only. A device uses
`mechanism.encoder()`. The same cell-by-cell audit tests both.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ldp import bulk
from ldp.arrays import (
    AnyInts,
    Bytes,
    Generator,
    Ints,
    Points,
    RowNumbers,
    Seed,
    column_codes,
    generator_of,
    texts,
)
from ldp.errors import ParameterError
from ldp.mechanisms import CatalogueMechanism, Mechanism
from ldp.mechanisms.addressing import Rounding
from ldp.mechanisms.base import require_mechanism, threshold
from ldp.mechanisms.dummies import Dummies
from ldp.mechanisms.joint_base import parts_of, values_of_parts
from ldp.privacy_loss import DummyMessages
from ldp.protocol.channel import Channel
from ldp.protocol.hashing import Value
from ldp.protocol.joint_layout import JointLayout
from ldp.protocol.kinds import Bits, Index, Layout, Subset
from ldp.simulation.populations import Population
from ldp.tables.batches import ReportArrays, join_batch

BATCH = 65_536
_MOST_REPORTS = 10**9


def draw_reports(
    mechanism: CatalogueMechanism, population: Any, generator: Seed = None
) -> Iterator[ReportArrays]:
    """Yield one report a person, or all messages for a shuffler, in uniformly random order: (rows,
    payloads) in batches of 65,536. `population`: a Population, or a column of values.

    Every batch is a random subset of the people who have not reported yet (multivariate
    hypergeometric) in random order. So memory is one batch whatever the population.
    """
    generator = generator_of(generator)
    population = limited(mechanism, Population.of(population), generator)
    if population.users * mechanism.messages >= _MOST_REPORTS:
        raise ParameterError("a billion reports or more: draw the table instead")
    if isinstance(mechanism, Dummies):
        counts = message_counts(mechanism, population.values, population.numbers, generator)
        for columns in _shuffled(counts, generator):
            yield np.zeros(columns.size, np.uint32), as_bytes(columns, mechanism.layout)
        return
    points = points_of(mechanism, population.values)
    for holders in _shuffled(population.numbers, generator):
        yield encode_points(mechanism, [part[holders] for part in points], generator)


def _shuffled(counts: Ints, generator: Generator) -> Iterator[Ints]:
    """Yield the places of `counts`, each as often as it says, in random order, in batches."""
    left = counts.copy()
    while total := int(left.sum()):
        taken = generator.multivariate_hypergeometric(left, min(BATCH, total), method="marginals")
        left -= taken
        yield generator.permutation(np.repeat(np.arange(taken.size), taken))


def message_counts(
    mechanism: Dummies, values: Sequence[Value], counts: Ints, generator: Generator
) -> Ints:
    """Return how many messages name each category, and last how many are empty, where `counts`
    people hold each value: shape (categories + 1,)."""
    held = np.zeros(len(mechanism.categories), dtype=np.int64)
    np.add.at(held, [mechanism.addressing.point(value) for value in values], counts)
    messages = DummyMessages.of(mechanism).draw_messages(held, generator)
    total = mechanism.messages * int(held.sum())
    return np.append(messages, total - int(messages.sum()))


def limited(
    mechanism: CatalogueMechanism, population: Population, generator: Generator
) -> Population:
    """Return the population after devices limited their sets of answers. It is unchanged if no set
    is too large. Raises ParameterError for a set that is too large in a member of a joint
    metric."""
    if require_mechanism(mechanism).answers != "sets":
        return population
    most: Any = mechanism.at_most_answers
    if all(len(value) <= most for value in population.values):
        return population
    return population.limited(most, generator)


def points_of(mechanism: CatalogueMechanism, values: Sequence[Value]) -> list[Points]:
    """Return the points of values, for each part of the mechanism's report (see `bulk.points`)."""
    values = texts(values)
    return [
        bulk.points(part.addressing, part.shape.rows, part_values)
        for part, part_values in values_of_parts(mechanism, values)
    ]


def columns_at(mechanism: Mechanism, points: Points, rows: RowNumbers) -> Ints:
    """Return the columns that each of the `points` touches in its row (see `bulk.columns`)."""
    return bulk.columns(mechanism.addressing, mechanism.shape.rows, points, rows)


def encode_batch(
    mechanism: CatalogueMechanism, values: Any, generator: Seed = None
) -> ReportArrays:
    """Return one report for each value of a column (`ldp.arrays.column_codes`): rows, uint32,
    shape (n,), and payloads, uint8, shape (n, payload bytes)."""
    different, places = column_codes(values)
    points = [part[places] for part in points_of(mechanism, different)]
    return encode_points(mechanism, points, generator_of(generator))


def encode_points(
    mechanism: CatalogueMechanism, points: Sequence[Points], generator: Generator
) -> ReportArrays:
    """Return the same as `encode_batch` for values with these points (`points_of`)."""
    batches = [
        _encode_part(part, part_points, generator)
        for part, part_points in zip(parts_of(mechanism), points, strict=True)
    ]
    if isinstance(mechanism.layout, JointLayout):
        return join_batch(mechanism.layout, batches)
    return batches[0]


def _encode_part(mechanism: Mechanism, points: Points, generator: Generator) -> ReportArrays:
    rows = generator.integers(0, mechanism.shape.rows, size=len(points), dtype=np.uint32)
    if isinstance(mechanism.addressing, Rounding):
        points = bulk.draw_steps(points, rows, generator)
    if mechanism.kind is Index:
        return rows, _indexes(mechanism, points, rows, generator)
    columns = columns_at(mechanism, points, rows)
    if mechanism.kind is Subset:
        return rows, _subsets(mechanism, columns, generator)
    if mechanism.kind is Bits:
        return rows, noisy_bits(mechanism.layout, mechanism.channel, columns, generator)
    named_columns, negative = draw_signs(mechanism, columns[:, 0], generator)
    return rows, as_bytes(named_columns << 1 | negative, mechanism.layout)


def noisy_bits(layout: Layout, channel: Channel, columns: Ints, generator: Generator) -> Bytes:
    """Return payloads whose bits are 1 with the probabilities of the channel, for values that touch
    `columns` (as from `bulk.columns`)."""
    words = -(-layout.columns // 64)
    noise = bulk.packed_bernoulli(generator, threshold(channel.untouched), len(columns) * words)
    payloads = as_bytes(noise.reshape(len(columns), words), layout)
    payloads[:, -1] &= 0xFF >> -layout.columns % 8
    for touched in columns.T:
        holders = np.flatnonzero(touched != bulk.NO_COLUMN)
        cells = touched[holders]
        at = holders, cells >> 3
        bit = (1 << (cells & 7)).astype(np.uint8)
        is_one = bulk.bernoulli_each(generator, threshold(channel.touched), holders.size)
        payloads[at] = np.where(is_one, payloads[at] | bit, payloads[at] & ~bit)
    return payloads


def _subsets(mechanism: Mechanism, touched: Ints, generator: Generator) -> Bytes:
    layout = mechanism.layout
    assert isinstance(layout, Subset)
    words = -(-layout.columns // 64)
    share = layout.ones / layout.columns
    spread = math.sqrt(share * (1 - share) / layout.columns)
    # any coin that is alike for all will do: filling up takes fewer tries than thinning out, and a
    # coin told no finer than its spread fewer words
    digits = 1 << math.ceil(-math.log2(spread))
    coin = Fraction(round(max(0.0, share - spread) * digits), digits)
    reports, cells = touched.shape
    sets = bulk.packed_bernoulli(generator, threshold(coin), reports * words)
    chance = layout.any_probability(mechanism.channel.touched, cells)
    sizes = bulk.bernoulli_each(generator, threshold(chance), reports).astype(np.int64)
    if cells > 1:
        laws = [float(share) for share in layout.size_shares(cells)]
        sizes *= generator.choice(np.arange(1, 1 + len(laws)), size=reports, p=laws)
        touched = generator.permuted(touched, axis=1)
    sets = sets.reshape(reports, words)
    bulk.fit_subsets(sets, touched, sizes, layout.columns, layout.ones, generator)
    return as_bytes(sets, layout)


def _indexes(
    mechanism: Mechanism,
    points: Points,
    rows: RowNumbers,
    generator: Generator,
) -> Bytes:
    layout, many = mechanism.layout, mechanism.touches
    chance = threshold(many * mechanism.channel.touched)
    is_true = bulk.bernoulli_each(generator, chance, rows.size)
    number = generator.integers(0, np.where(is_true, many, layout.columns - many))
    columns = bulk.pick(mechanism.addressing, layout.rows, points, rows, is_true, number)
    return as_bytes(columns, layout)


def draw_signs(mechanism: Mechanism, cells: Ints, generator: Generator) -> tuple[Ints, Ints]:
    """Draw, for reports whose values touch `cells`, the columns that they name, and 1 where their
    sign is minus. Both are int64 arrays with the shape of `cells`."""
    columns = generator.integers(0, mechanism.shape.columns, size=cells.size)
    is_true = bulk.bernoulli_each(generator, threshold(mechanism.channel.touched), cells.size)
    return columns, bulk.negative_signs(columns, cells) ^ ~is_true.astype(np.int64) & 1


def as_bytes(numbers: AnyInts, layout: Layout) -> Bytes:
    """Return these integers as payloads, uint8, shape (reports, bytes): one integer a report, or
    words of 64 bits, shape (reports, words)."""
    words = numbers if numbers.ndim > 1 else numbers[:, None]
    whole = words.astype("<u8").view(np.uint8)
    return np.ascontiguousarray(whole[:, : layout.payload_bytes])
