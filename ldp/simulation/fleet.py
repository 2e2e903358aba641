"""The encoders of many devices at once, with what they memoise: `MemoisedEncoder` and its memory in
`ldp.client`, in bulk.

Permanent responses are drawn with a numpy Generator and remembered, where a device would compute
them from its secret or keep them in its file. `tests/simulation/test_longitudinal.py` tests that
both have one distribution.
"""

from collections.abc import Sequence

import numpy as np

from ldp import bulk
from ldp.arrays import Bytes, Generator, Ints, Points, RowNumbers
from ldp.mechanisms import CatalogueMechanism
from ldp.mechanisms.base import threshold
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.protocol.hashing import Value
from ldp.registry.definitions import Memoise
from ldp.simulation.bulk_reports import (
    as_bytes,
    columns_at,
    encode_points,
    noisy_bits,
    points_of,
)
from ldp.tables.batches import payload_numbers


class Fleet:
    """Encoders of a number of `devices`. `values`: all values that devices may hold."""

    def __init__(
        self,
        mechanism: CatalogueMechanism,
        values: Sequence[Value],
        memoise: Memoise,
        devices: int,
        generator: Generator,
    ) -> None:
        self._mechanism = mechanism
        self._points = points_of(mechanism, values)
        self._values, self._memoise = len(values), memoise
        self._devices = devices
        self._generator = generator
        if memoise:
            assert isinstance(mechanism, MemoisedMechanism)
            self._memory = mechanism
            self._rows = np.empty(0, np.uint32)
            self._responses = np.empty((0, mechanism.layout.payload_bytes), np.uint8)
        if memoise == "per-value":
            self._cohorts = generator.integers(0, self._memory.shape.rows, devices, np.uint32)
            self._of_value: dict[int, int] = {}
            self._of_cells: dict[tuple[int, bytes], int] = {}
        if memoise == "epoch":
            self.begin_epoch()

    def begin_epoch(self) -> None:
        """Begin an epoch: every device deletes its permanent response of the epoch before."""
        self._frozen = np.full(self._devices, -1)

    def encode(self, devices: Ints, places: Ints) -> tuple[RowNumbers, Bytes, Ints | None]:
        """Return a report of each of `devices` about the value at `places` of `values`. Both are
        int64, shape (reports,). By epoch all reports of a device are about its first value of the
        epoch. They are rows, payloads, and the numbers of the permanent responses that they are
        about, None without memoisation. Two with one number differ in the instantaneous noise only.
        """
        if not self._memoise:
            points = [part[places] for part in self._points]
            return *encode_points(self._mechanism, points, self._generator), None
        of_epoch = self._memoise == "epoch"
        about = self._of_epoch(devices, places) if of_epoch else self._of_pairs(devices, places)
        payloads = instantaneous(self._memory, self._responses[about], self._generator)
        return self._rows[about], payloads, about

    def _of_epoch(self, devices: Ints, places: Ints) -> Ints:
        new, first = np.unique(devices, return_index=True)
        is_new = self._frozen[new] < 0
        new, first = new[is_new], first[is_new]
        rows = self._generator.integers(0, self._memory.shape.rows, new.size, np.uint32)
        self._frozen[new] = self._draw_responses(places[first], rows)
        return self._frozen[devices]

    def _of_pairs(self, devices: Ints, places: Ints) -> Ints:
        """Return a response for each pair of a device and the cells that the value touches in its
        cohort."""
        keys, group = np.unique(devices * self._values + places, return_inverse=True)
        about = np.array([self._of_value.get(key, -1) for key in keys.tolist()], dtype=np.int64)
        new = np.flatnonzero(about < 0)
        devices, values = np.divmod(keys[new], self._values)
        rows = self._cohorts[devices]
        cells = np.sort(columns_at(self._memory, self._points[0][values], rows), axis=1)
        firsts = list[int]()
        for place, (device, columns) in enumerate(zip(devices.tolist(), cells, strict=True)):
            tag = device, columns.tobytes()
            if tag not in self._of_cells:
                self._of_cells[tag] = len(self._rows) + len(firsts)
                firsts.append(place)
            about[new[place]] = self._of_cells[tag]
        self._of_value.update(zip(keys[new].tolist(), about[new].tolist(), strict=True))
        self._draw_responses(values[firsts], rows[firsts])
        return np.asarray(about[group.ravel()])

    def _draw_responses(self, values: Ints, rows: RowNumbers) -> Ints:
        """Draw new permanent responses to these values in these rows. Returns their numbers."""
        before = len(self._rows)
        responses = permanent(self._memory, self._points[0][values], rows, self._generator)
        self._rows = np.concatenate([self._rows, rows])
        self._responses = np.concatenate([self._responses, responses])
        return np.arange(before, len(self._rows))


def permanent(
    mechanism: MemoisedMechanism,
    points: Points,
    rows: RowNumbers,
    generator: Generator,
) -> Bytes:
    """Return a permanent response, as a payload, for each point in its row."""
    layout, permanent = mechanism.layout, mechanism.permanent_channel
    columns = columns_at(mechanism, points, rows)
    if not mechanism.kind.is_bitmap:
        assert permanent is not None
        chance = threshold(permanent.touched)
        return as_bytes(_randomised(columns[:, 0], chance, layout.columns, generator), layout)
    if permanent is not None:
        return noisy_bits(layout, permanent, columns, generator)
    truths = np.zeros((len(columns), 8 * layout.payload_bytes), dtype=np.uint8)
    holders, which = np.nonzero(columns != bulk.NO_COLUMN)
    truths[holders, columns[holders, which]] = 1
    return np.packbits(truths, axis=1, bitorder="little")


def instantaneous(mechanism: MemoisedMechanism, responses: Bytes, generator: Generator) -> Bytes:
    """Return a report's payload about each permanent response."""
    layout, (high, low) = mechanism.layout, mechanism.thresholds
    if not mechanism.kind.is_bitmap:
        numbers = payload_numbers(layout, np.zeros(len(responses), np.int64), responses)
        return as_bytes(_randomised(numbers, high, layout.columns, generator), layout)
    if_one, if_zero = (_coins(chance, responses.shape, generator) for chance in (high, low))
    payloads = (responses & if_one) | (~responses & if_zero)
    payloads[:, -1] &= 0xFF >> -layout.columns % 8
    return payloads


def _randomised(columns: Ints, chance: int, many: int, generator: Generator) -> Ints:
    """Return each column with probability chance / 2**64, else another one of `many`, as
    `Index.draw` does."""
    is_true = bulk.bernoulli_each(generator, chance, columns.size)
    others = generator.integers(0, many - 1, columns.size)
    return np.where(is_true, columns, others + (others >= columns))


def _coins(chance: int, shape: tuple[int, ...], generator: Generator) -> Bytes:
    """Return bytes whose bits are 1 with probability chance / 2**64. This probability may be 1."""
    size = int(np.prod(shape))
    if chance >> 64:
        return np.full(shape, 0xFF, np.uint8)
    words = bulk.packed_bernoulli(generator, chance, -(-size // 8))
    return words.astype("<u8").view(np.uint8)[:size].reshape(shape)
