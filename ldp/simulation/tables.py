"""The exact table draw: a table with the distribution of the one that n reports would make.

Given how many holders of its values a row received, every cell of a BITS table is the sum of two
binomials, and a row of an INDEX table is a binomial plus a multinomial. So the time depends on the
size of the table, even with a billion clients. Valid for one report a client, each with fresh
randomness.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from typing import Any

import numpy as np

from ldp import bulk
from ldp.arrays import (
    AnyInts,
    Floats,
    Generator,
    Ints,
    Points,
    Seed,
    add_at,
    column_codes,
    generator_of,
    require_one_index,
    texts,
    whole_counts,
)
from ldp.errors import ParameterError
from ldp.mechanisms import CatalogueMechanism, Mechanism
from ldp.mechanisms.addressing import Rounding
from ldp.mechanisms.dummies import Dummies
from ldp.mechanisms.joint_base import JointMechanism, parts_of, values_of_parts
from ldp.mechanisms.sketch import MeanSketch
from ldp.protocol.kinds import Subset
from ldp.simulation.bulk_reports import (
    columns_at,
    draw_reports,
    draw_signs,
    encode_points,
    limited,
    message_counts,
)
from ldp.simulation.populations import Population
from ldp.tables.joint_table import AnyTable, JointTable, whole_table
from ldp.tables.table import Table, TableBuilder, smallest_type

POOLED = 1e-3
"""Share of the variance: values whose collisions together add less than this share are drawn holder
by holder."""
_MOST_CELLS = 1 << 22


def draw_estimates(
    mechanism: Mechanism,
    *,
    held: int,
    others: Ints,
    draws: int,
    generator: Generator,
) -> Floats:
    """Return independent estimates of the count of a value that `held` clients hold: float64, shape
    (draws,). `others`: how many clients hold each other value, int64, shape (values,). Each
    estimate has hash functions of its own.

    These hash functions are fully independent, those of the mechanism are 3-wise independent. Mean
    and variance are the same. Raises ParameterError for a mechanism of cohorts.
    """
    _require_one_part(mechanism)
    reports = held + int(others.sum())
    channel = mechanism.support
    touching = np.full(draws, held)
    if isinstance(mechanism, MeanSketch):
        touching += _colliding(mechanism, held, others, draws, generator)
    elif mechanism.shape.rows > 1:
        raise ParameterError("a mechanism of cohorts has no estimate from one cell")
    true, lie = channel.chances
    naming = generator.binomial(touching, true) + generator.binomial(reports - touching, lie)
    holders: Floats = channel.holders(naming, reports)
    if not isinstance(mechanism, MeanSketch):
        return holders
    m = mechanism.columns
    return m / (m - 1) * (holders - reports / m)


def _require_one_part(mechanism: Any) -> None:
    if parts_of(mechanism) != (mechanism,):
        raise ParameterError("reports have several parts: use draw_tables")


def _colliding(
    mechanism: MeanSketch,
    held: int,
    others: Ints,
    draws: int,
    generator: Generator,
) -> Ints:
    """Return how many holders of other values are in a row in which their value shares the cell of
    this value."""
    rows, columns = mechanism.shape
    counts = np.sort(others[others > 0])[::-1]
    reports = held + int(counts.sum())
    shares = (counts / reports) ** 2
    variance = mechanism.variance(reports, held / reports, float(shares.sum()))
    left = np.append(np.cumsum(shares[::-1])[::-1], 0.0) * reports**2 / (rows * (columns - 1))
    single = int(np.argmax(left <= POOLED * variance))
    colliding = generator.binomial(int(counts[single:].sum()), 1 / columns, draws)
    chunk = max(1, _MOST_CELLS // max(1, single))
    for start in range(0, draws if single else 0, chunk):
        size = min(chunk, draws - start)
        shared = generator.binomial(rows, 1 / columns, (size, single))
        colliding[start : start + size] += generator.binomial(counts[:single], shared / rows).sum(
            axis=1
        )
    return colliding


_BLOCK = 2048
_SPARSE = 4
_VALUES, _CHUNK, _HOLDERS = 256, 4096, 1 << 18


def draw_table(
    mechanism: Mechanism,
    values: Any,
    *,
    generator: Seed = None,
    counts: Ints | None = None,
    frequencies: Floats | None = None,
    users: int | None = None,
) -> Table:
    """Return a table with the exact distribution of one report from each client.

    With `counts` (shape (values,)) the number of clients who hold each value is fixed. With
    `frequencies` and `users` the clients are drawn first. Without these `values` has one row a
    client (`ldp.arrays.column_codes`). Rows are drawn in blocks, each with a generator spawned from
    `generator`. So the result does not depend on the number of processors.
    """
    _require_one_part(mechanism)
    if mechanism.needs_shuffler:
        raise ParameterError("a person sends several messages: use draw_tables")
    generator = generator_of(generator)
    if frequencies is not None and users is not None and counts is None:
        people = Population(values, frequencies=frequencies)
        counts = people.sample(users, generator).numbers
    elif frequencies is not None or users is not None:
        raise ParameterError("give either counts, or frequencies and users")
    values, counts = _held(values, counts)
    if mechanism.answers == "sets":
        people = limited(mechanism, Population(tuple(values), counts=counts), generator)
        values, counts = people.values, people.numbers
    held = np.flatnonzero(counts)
    rows, present = mechanism.shape.rows, [values[i] for i in held.tolist()]
    points = bulk.points(mechanism.addressing, rows, present)
    starts = range(0, rows, _BLOCK)
    sizes = [min(_BLOCK, rows - start) for start in starts]
    shares = generator.multinomial(counts[held], np.array(sizes) / rows)

    def block(number: int, spawned: Generator) -> tuple[AnyInts, ...]:
        rows = _Rows(mechanism, starts[number], sizes[number], spawned)
        return rows.draw(points, shares[:, number])

    with ThreadPoolExecutor(cpu_count()) as pool:
        # to start a thread takes longer than to draw a small table
        run = map if len(sizes) == 1 else pool.map
        blocks = list(run(block, range(len(sizes)), generator.spawn(len(sizes))))
    reports = np.concatenate([reports for _, reports in blocks])
    kind = smallest_type(int(reports.max()), mechanism.kind.is_signed)
    cells = np.concatenate([counts for counts, _ in blocks], dtype=kind)
    return Table(mechanism, cells, reports)


def draw_tables(
    mechanism: CatalogueMechanism,
    values: Any,
    counts: Ints | None = None,
    generator: Seed = None,
) -> AnyTable:
    """Return the table of one report from each client for any mechanism of the catalogue, where
    `counts` clients hold each value. Given the counts, the tables of the parts of joint reports are
    independent. For a mechanism of messages the table has all messages of each client. Without
    `counts`, `values` has one row a client."""
    generator = generator_of(generator)
    values, counts = _held(values, counts)
    if isinstance(mechanism, Dummies):
        cells = message_counts(mechanism, values, counts, generator)
        return Table.from_counts(mechanism, cells[None, :], int(cells.sum()))
    tables = tuple(
        draw_table(part, part_values, counts=counts, generator=generator)
        for part, part_values in values_of_parts(mechanism, values)
    )
    return JointTable(mechanism, tables) if isinstance(mechanism, JointMechanism) else tables[0]


def draw_people_table(
    mechanism: CatalogueMechanism, people: Population, generator: Generator
) -> AnyTable:
    """Return the table of one report from each of the people, drawn at once, or report by report
    where the decoder needs whole reports."""
    if mechanism.needs_whole:
        return whole_table(mechanism, draw_reports(mechanism, people, generator))
    return draw_tables(mechanism, people.values, people.numbers, generator)


def _held(values: Any, counts: Any) -> tuple[Sequence[Any], Ints]:
    """Return values and how many clients hold each. In a column without counts each row is one
    client."""
    if counts is not None:
        require_one_index({"values": values, "counts": counts})
        return (listed := texts(values)), whole_counts(counts, len(listed))
    different, places = column_codes(values)
    return different, np.bincount(places, minlength=len(different))


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a table from `start` to start + size - 1, drawn with `generator`. In what follows
    `held` and `reports`, shapes (size, columns) and (size,), are how many holders of values each
    cell has, and how many reports each row."""

    mechanism: Mechanism
    start: int
    size: int
    generator: Generator

    def draw(self, points: Points, counts: Ints) -> tuple[AnyInts, Ints]:
        """Return counts and reports of the rows, given how many holders of each value (of `points`)
        fell into them."""
        mechanism, generator, size = self.mechanism, self.generator, self.size
        if mechanism.kind.is_signed:
            by_value = _spread(counts, size, generator)
            return self._sign_sums(points, by_value), by_value.sum(axis=0)
        if mechanism.kind is Subset:
            return self._subsets(points, counts)
        held = np.zeros((size, mechanism.shape.columns), dtype=np.int64)
        reports = np.zeros(size, dtype=np.int64)
        is_number = isinstance(mechanism.addressing, Rounding)
        is_few = (counts < size) & (mechanism.touches == 1 and not is_number)
        self._add_few(held, reports, points[is_few], counts[is_few])
        present = np.flatnonzero((counts > 0) & ~is_few)
        # memory: that many values, not all
        for first in range(0, present.size, _VALUES):
            some = present[first : first + _VALUES]
            by_value = _spread(counts[some], size, generator)
            reports += by_value.sum(axis=0)
            placed = points[some]
            if isinstance(mechanism.addressing, Rounding):
                placed, by_value = self._by_step(mechanism.addressing.steps, placed, by_value)
            if mechanism.touches == 1:
                rows = mechanism.shape.rows
                bulk.scatter(mechanism.addressing, rows, held, by_value, placed, self.start)
            else:
                self._add_named(held, by_value, placed)
        channel = mechanism.channel
        if mechanism.kind.is_bitwise:
            # of none numpy draws nothing
            cells, is_held = np.zeros_like(held), held > 0
            cells[is_held] = generator.binomial(held[is_held], float(channel.touched))
            bulk.add_binomials(cells, reports, held, float(channel.untouched), generator)
        else:
            # telling the truth with p, else one of the others, is: the truth with p - q, else any
            cells = generator.binomial(held, channel.gain) if mechanism.touches == 1 else held
            columns = held.shape[1]
            rest = reports - cells.sum(axis=1)
            cells += generator.multinomial(rest, np.full(columns, 1 / columns))
        return cells.astype(smallest_type(int(reports.max()))), reports

    def _add_few(self, held: Ints, reports: Ints, points: Points, counts: Ints) -> None:
        """Add to `held` and `reports` the holders of each value that has fewer holders than there
        are rows, one by one, because that is faster than a binomial for each row."""
        ends = np.cumsum(counts)
        for first in range(0, int(ends[-1]) if ends.size else 0, _HOLDERS):
            holders = np.arange(first, min(first + _HOLDERS, ends[-1]))
            at = self.generator.integers(0, self.size, size=holders.size, dtype=np.uint32)
            reports += np.bincount(at, minlength=self.size)
            of = points[np.searchsorted(ends, holders, side="right")]
            for cells in columns_at(self.mechanism, of, self.start + at).T:
                is_cell = cells != bulk.NO_COLUMN
                add_at(held, at[is_cell], cells[is_cell], 1)

    def _subsets(self, points: Points, counts: Ints) -> tuple[AnyInts, Ints]:
        """Draw the counts of a SUBSET table, report by report, because the cells of one report
        depend on each other."""
        builder = TableBuilder(self.mechanism)
        for part in _chunks(counts):
            of = [np.repeat(points, part, axis=0)]
            builder.add_batch(*encode_points(self.mechanism, of, self.generator))
        table = builder.build()
        return table.counts, table.reports

    def _by_step(self, steps: int, points: Points, by_value: Ints) -> tuple[Points, Ints]:
        """Return all steps, and how many of the holders of each value and row are rounded to each:
        numbers (`points`) become steps, shape (steps + 1, rows)."""
        block = slice(self.start, self.start + self.size)
        of_rows = points[:, block] if points.shape[1] > 1 else points
        chances = np.ldexp(of_rows[..., 1].astype(np.float64), -64)
        up = self.generator.binomial(by_value, chances)
        held = np.zeros((steps + 2, self.size), dtype=np.int64)
        lower = np.broadcast_to(of_rows[..., 0].astype(np.int64), by_value.shape)
        at = np.broadcast_to(np.arange(self.size), by_value.shape)
        add_at(held, lower, at, by_value - up)
        add_at(held, lower + 1, at, up)
        return np.arange(steps + 1, dtype=np.uint64), held[: steps + 1]

    def _add_named(self, held: Ints, by_value: Ints, points: Points) -> None:
        """Add to `held` the cells that reports name because their value touches them, where a value
        touches several: each such report names one of them. The share of these reports is the
        number of touched cells times the channel's gain."""
        mechanism, generator = self.mechanism, self.generator
        rows, many = mechanism.shape.rows, mechanism.touches
        naming = generator.binomial(by_value, many * mechanism.channel.gain)
        for r in range(self.size):
            few = np.where(naming[:, r] < _SPARSE * many, naming[:, r], 0)
            singles = np.repeat(points, few, axis=0)
            size = len(singles)
            at = np.full(max(1, size), self.start + r, dtype=np.uint32)
            number, true = generator.integers(0, many, size=size), np.ones(size, dtype=bool)
            picks = bulk.pick(mechanism.addressing, rows, singles, at[:size], true, number)
            np.add.at(held[r], picks, 1)
            for i in np.flatnonzero(naming[:, r] > few).tolist():
                (cells,) = columns_at(mechanism, points[i : i + 1], at[:1])
                held[r, cells] += generator.multinomial(naming[i, r], np.full(many, 1 / many))

    def _sign_sums(self, points: Points, by_value: Ints) -> Ints:
        """Draw the sum of signs of each cell, report by report but without bytes, because a sign
        depends on which values drew its column. Time: about 30 ns a report."""
        mechanism = self.mechanism
        sums = np.zeros((self.size, mechanism.shape.columns), dtype=np.int64)
        for r in range(self.size):
            at = np.full(points.size, self.start + r, dtype=np.uint32)
            cells = columns_at(mechanism, points, at)[:, 0]
            for first in range(0, points.size, _VALUES):
                some = slice(first, first + _VALUES)
                for part in _chunks(by_value[some, r]):
                    of = np.repeat(cells[some], part)
                    picks, negative = draw_signs(mechanism, of, self.generator)
                    np.add.at(sums[r], picks, 1 - 2 * negative)
        return sums


def _spread(counts: Ints, size: int, generator: Generator) -> Ints:
    """Spread the reports of each value over `size` rows uniformly. Returns the numbers, int64,
    shape (counts, size)."""
    rows = np.empty((counts.size, size), dtype=np.int64)
    for place, count in enumerate(counts):
        # cheaper one by one than a binomial for each row
        if count < _SPARSE * size:
            rows[place] = np.bincount(generator.integers(0, size, size=count), minlength=size)
        else:
            rows[place] = generator.multinomial(count, np.full(size, 1 / size))
    return rows


def _chunks(counts: Ints) -> Iterator[Ints]:
    """Yield `counts` in parts of bounded size, however large they are: int64, shape of `counts`."""
    left = counts.copy()
    while left.any():
        part = np.minimum(left, _CHUNK)
        left -= part
        yield part
