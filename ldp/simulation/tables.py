"""The exact table draw: the law of the table that n reports would make, at the price of its cells.

Given how many holders of its values a row received, every cell of a BITS table is the sum of two
binomials and a row of an INDEX table is a binomial plus a multinomial; a billion clients cost what
the table costs. Valid for one report a client, each with fresh randomness.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count

import numpy as np
from numpy.typing import NDArray

from ldp import kernels
from ldp.errors import ParameterError
from ldp.joint_table import JointTable
from ldp.mechanisms import Catalogued, JointMechanism, Mechanism
from ldp.mechanisms.joint import parts_of
from ldp.simulation.reports import draw_signs
from ldp.table import Table, smallest
from ldp.wire import Kind

_BLOCK = 2048
_SPARSE = 4
_VALUES, _CHUNK = 256, 4096


def draw_table(
    mechanism: Mechanism,
    values: Sequence[str],
    *,
    generator: np.random.Generator,
    counts: NDArray[np.int64] | None = None,
    frequencies: NDArray[np.float64] | None = None,
    users: int | None = None,
) -> Table:
    """A table with the exact law of one report from each client. Two laws, named by arguments:

    `counts` (shape (values,)): how many clients hold each value is fixed; `frequencies` and
    `users`: the clients are drawn first. Rows are drawn in blocks, each with a generator spawned
    from `generator`, so the result does not depend on the number of processors.
    """
    if frequencies is not None and users is not None and counts is None:
        counts = generator.multinomial(users, frequencies)
    elif counts is None or frequencies is not None or users is not None:
        raise ParameterError("give either counts, or frequencies and users")
    held = np.flatnonzero(counts)
    points = kernels.points(
        mechanism.addressing, mechanism.shape.rows, [values[i] for i in held.tolist()]
    )
    rows, _ = mechanism.shape
    starts = range(0, rows, _BLOCK)
    sizes = [min(_BLOCK, rows - start) for start in starts]
    shares = generator.multinomial(counts[held], np.array(sizes) / rows)

    def block(number: int, spawned: np.random.Generator) -> tuple[NDArray[np.integer], ...]:
        return _draw_block(
            mechanism, points, shares[:, number], starts[number], sizes[number], spawned
        )

    spawned = generator.spawn(len(sizes))
    if len(sizes) == 1:
        drawn = [block(0, spawned[0])]
    else:
        with ThreadPoolExecutor(cpu_count()) as pool:
            drawn = list(pool.map(block, range(len(sizes)), spawned))
    reports = np.concatenate([reports for _, reports in drawn])
    kind = smallest(int(reports.max()), mechanism.kind is Kind.SIGN)
    cells = np.concatenate([counts.astype(kind) for counts, _ in drawn])
    return Table(mechanism, cells, reports)


def draw_tables(
    mechanism: Catalogued,
    values: Sequence[str],
    counts: NDArray[np.int64],
    generator: np.random.Generator,
) -> Table | JointTable:
    """The same for any mechanism of the catalogue, `counts` clients holding each value: given
    these, the tables of the parts of joint reports are independent."""
    tables = tuple(
        draw_table(part, values, counts=counts, generator=generator) for part in parts_of(mechanism)
    )
    return JointTable(mechanism, tables) if isinstance(mechanism, JointMechanism) else tables[0]


def _draw_block(
    mechanism: Mechanism,
    points: NDArray[np.unsignedinteger],
    counts: NDArray[np.int64],
    start: int,
    size: int,
    generator: np.random.Generator,
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Counts and reports of rows start..start+size-1, given how many holders of each value (of
    `points`) fell into them."""
    if mechanism.kind is Kind.SIGN:
        by_value = np.stack([_spread(count, size, generator) for count in counts])
        sums = _draw_sign_sums(mechanism, points, by_value, start, generator)
        return sums, by_value.sum(axis=0)
    held = np.zeros((size, mechanism.shape.columns), dtype=np.int64)
    reports = np.zeros(size, dtype=np.int64)
    present = np.flatnonzero(counts)
    for first in range(0, present.size, _VALUES):  # memory: that many values, not all
        some = present[first : first + _VALUES]
        by_value = np.stack([_spread(count, size, generator) for count in counts[some]])
        reports += by_value.sum(axis=0)
        kernels.scatter(
            mechanism.addressing, mechanism.shape.rows, held, by_value, points[some], start
        )
    channel = mechanism.channel
    if mechanism.kind is Kind.BITS:
        shown = generator.binomial(held, float(channel.touched))
        shown += generator.binomial(reports[:, None] - held, float(channel.untouched))
    else:
        # telling the truth with p, else one of the others, is: the truth with p - q, else any
        shown = generator.binomial(held, channel.gain)
        columns = held.shape[1]
        rest = reports - shown.sum(axis=1)
        shown += generator.multinomial(rest, np.full(columns, 1 / columns))
    return shown.astype(smallest(int(reports.max()))), reports


def _draw_sign_sums(
    mechanism: Mechanism,
    points: NDArray[np.unsignedinteger],
    by_value: NDArray[np.int64],
    start: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Sums of signs of each cell, one report at a time but without its bytes: a sign depends on
    which values drew its column, so there is no shorter law. Time: about 30 ns a report."""
    rows, columns = mechanism.shape
    sums = np.zeros((by_value.shape[1], columns), dtype=np.int64)
    for r in range(len(sums)):
        at = np.full(points.size, start + r, dtype=np.uint32)
        cells = kernels.columns(mechanism.addressing, rows, points, at)[:, 0]
        for first in range(0, points.size, _VALUES):
            some = slice(first, first + _VALUES)
            left = by_value[some, r].copy()
            while left.any():  # chunks of bounded size, however many reports a value has
                taken = np.minimum(left, _CHUNK)
                left -= taken
                drawn, negative = draw_signs(mechanism, np.repeat(cells[some], taken), generator)
                np.add.at(sums[r], drawn, 1 - 2 * negative)
    return sums


def _spread(count: int, size: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """`count` reports over `size` rows, uniformly: int64, shape (size,)."""
    if count < _SPARSE * size:  # cheaper one by one than a binomial for each row
        return np.bincount(generator.integers(0, size, size=count), minlength=size)
    return generator.multinomial(count, np.full(size, 1 / size))
