"""Reports of whole populations in bulk: the same channel and bytes as the device encoder.

Noise comes from a numpy Generator, so this is for simulation only; a device uses
`mechanism.encoder()`. Both are held to the same cell-by-cell audit.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ldp import kernels
from ldp.errors import ParameterError
from ldp.mechanisms import Mechanism
from ldp.mechanisms.base import threshold
from ldp.simulation.populations import Population
from ldp.wire import Kind, Layout

BATCH = 65_536
_MOST_REPORTS = 10**9
Batch = tuple[NDArray[np.uint32], NDArray[np.uint8]]


def simulate(
    mechanism: Mechanism, population: Population, generator: np.random.Generator
) -> Iterator[Batch]:
    """One report a person, in uniformly random order: (rows, payloads) by batches of 65,536.

    Every batch is a random subset of those not reported yet (multivariate hypergeometric) in
    random order, so memory is one batch whatever the population.
    """
    points = kernels.points(mechanism.addressing, population.values)
    users = population.users
    if users >= _MOST_REPORTS:
        raise ParameterError("a billion reports or more: draw the table instead")
    assert population.counts is not None
    left = population.counts.copy()
    while users:
        size = min(BATCH, users)
        taken = generator.multivariate_hypergeometric(left, size, method="marginals")
        left -= taken
        users -= size
        held = generator.permutation(np.repeat(points, taken))
        yield encode_batch(mechanism, held, generator)


def encode_batch(
    mechanism: Mechanism, points: NDArray[np.uint64], generator: np.random.Generator
) -> Batch:
    """One report for each point (see `kernels.points`): rows, uint32, shape (n,), and payloads,
    uint8, shape (n, payload bytes)."""
    rows = generator.integers(0, mechanism.shape.rows, size=points.size, dtype=np.uint32)
    columns = kernels.columns(mechanism.addressing, mechanism.shape.rows, points, rows)
    if mechanism.kind is Kind.BITS:
        return rows, _bits(mechanism, columns, generator)
    if mechanism.kind is Kind.INDEX:
        return rows, _indexes(mechanism, columns, generator)
    return rows, _signs(mechanism, columns, generator)


def _bits(
    mechanism: Mechanism, columns: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.uint8]:
    layout, channel = mechanism.layout, mechanism.channel
    words = -(-layout.columns // 64)
    noise = kernels.packed_bernoulli(generator, threshold(channel.untouched), columns.size * words)
    payloads = noise.astype("<u8").view(np.uint8).reshape(columns.size, 8 * words)
    payloads = np.ascontiguousarray(payloads[:, : layout.payload_bytes])
    payloads[:, -1] &= 0xFF >> -layout.columns % 8
    holders = np.flatnonzero(columns != kernels.NO_COLUMN)
    cells = columns[holders]
    at = holders, cells >> 3
    bit = (1 << (cells & 7)).astype(np.uint8)
    shown = kernels.bernoulli_each(generator, threshold(channel.touched), holders.size)
    payloads[at] = np.where(shown, payloads[at] | bit, payloads[at] & ~bit)
    return payloads


def _indexes(
    mechanism: Mechanism, columns: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.uint8]:
    layout = mechanism.layout
    keep = kernels.bernoulli_each(generator, threshold(mechanism.channel.touched), columns.size)
    other = generator.integers(0, layout.columns - 1, size=columns.size)
    return _as_bytes(np.where(keep, columns, other + (other >= columns)), layout)


def _signs(
    mechanism: Mechanism, cells: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.uint8]:
    columns, negative = draw_signs(mechanism, cells, generator)
    return _as_bytes(columns << 1 | negative, mechanism.layout)


def draw_signs(
    mechanism: Mechanism, cells: NDArray[np.int64], generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For reports whose values touch `cells`: the columns they draw, and 1 where they tell a minus;
    int64 arrays, shape of `cells`."""
    columns = generator.integers(0, mechanism.shape.columns, size=cells.size)
    told = kernels.bernoulli_each(generator, threshold(mechanism.channel.touched), cells.size)
    return columns, kernels.negative_signs(columns, cells) ^ ~told.astype(np.int64) & 1


def _as_bytes(numbers: NDArray[np.int64], layout: Layout) -> NDArray[np.uint8]:
    shifts = 8 * np.arange(layout.payload_bytes)
    return (numbers[:, None] >> shifts & 0xFF).astype(np.uint8)
