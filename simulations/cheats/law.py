"""Compute the honest law of one report, given its row: exact chances for a knowing test.

All chances follow from what a mechanism states: its channel, its layout, and the cells that a value
touches (`Mechanism.roundings`). The law of a memoised report is that of the instantaneous step,
given the permanent response. Whoever holds the secret knows that response, and the reports about it
are then independent.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import comb
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from ldp.mechanisms.base import Mechanism
from ldp.mechanisms.joint_base import values_of_parts
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.protocol.kinds import Bits, Index, Layout, Sign, Subset, as_bits
from ldp.protocol.randomness import ONE, BitSource
from ldp.protocol.wire import pack_report, split_report
from simulations.cheats import Event

RARE = 0.2
"""Largest probability with which a bitmap agrees with its target by chance, where possible."""


class Part(NamedTuple):
    """Part of a report: its mechanism, its value, its row and its payload."""

    mechanism: Mechanism
    value: Any
    row: int
    number: int
    permanent: int | None = None

    @property
    def layout(self) -> Layout:
        return self.mechanism.layout

    @property
    def cells(self) -> Sequence[int]:
        """Cells that the value touches; for a value that is rounded at random, the likeliest
        cells."""
        return max(self.mechanism.roundings(self.value, self.row), key=lambda pair: pair[0])[1]

    @property
    def law(self) -> "Law":
        """Law of the payload, given the row and, if there is one, the permanent response."""
        mechanism = self.mechanism
        if self.permanent is not None:
            assert isinstance(mechanism, MemoisedMechanism)
            high, low = mechanism.instantaneous
            cells = cells_of(self.layout, self.permanent)
            return Law(self.layout, ((1.0, cells),), float(high), float(low))
        roundings = mechanism.roundings(self.value, self.row)
        channel = mechanism.channel
        alternatives = tuple((float(share), cells) for share, cells in roundings)
        return Law(self.layout, alternatives, float(channel.touched), float(channel.untouched))

    @property
    def row_chance(self) -> float:
        """Probability of the row; 1 where a permanent response fixes it."""
        return 1.0 if self.permanent is not None else 1 / self.mechanism.shape.rows

    def rounded(self, bits: BitSource) -> Sequence[int]:
        """Draw the cells that the value touches."""
        mark, chosen = bits.draw(64) / ONE, None
        for share, cells in self.mechanism.roundings(self.value, self.row):
            if chosen is None or mark >= 0:
                chosen = cells
            mark -= float(share)
        assert chosen is not None
        return chosen

    def redrawn(self, bits: BitSource) -> int:
        """Draw an honest payload in this row, about the permanent response if there is one."""
        if self.permanent is not None:
            assert isinstance(self.mechanism, MemoisedMechanism)
            layout = self.mechanism.layout
            return layout.randomise(bits, self.permanent, *self.mechanism.thresholds)
        return self.layout.draw(bits, self.rounded(bits), *self.mechanism.report_thresholds)


def parts(event: Event, report: bytes) -> list[Part]:
    """Return the parts of a `report` about an event; only a joint report has several."""
    mechanism = event.mechanism
    layout = mechanism.layout
    row, payload = split_report(report, mechanism.header, layout)
    pairs = layout.split(row, payload)
    values = values_of_parts(mechanism, [event.value])
    return [
        Part(part, value, part_row, part.layout.payload_number(part_payload), event.permanent)
        for (part, (value,)), (part_row, part_payload) in zip(values, pairs, strict=True)
    ]


def replaced(event: Event, number: int, payload: int) -> bytes:
    """Return the event's report with another `payload` of the part `number`."""
    pairs = [(part.row, part.number) for part in parts(event, event.report)]
    pairs[number] = (pairs[number][0], payload)
    mechanism = event.mechanism
    return pack_report(mechanism.header, mechanism.layout, *mechanism.layout.join(pairs))


def row_of(event: Event, report: bytes) -> int:
    """Return the row of the first part of a report."""
    return parts(event, report)[0].row


def cells_of(layout: Layout, number: int) -> tuple[int, ...]:
    """Return the columns that a payload names, for an index or a bitmap."""
    if isinstance(layout, Index):
        return (number,)
    return tuple(cell for cell in range(layout.columns) if number >> cell & 1)


def clear(layout: Layout, cells: Sequence[int], number: int) -> int:
    """Return the payload without noise that replaces the payload `number`.

    An index names the middle cell. A bitmap has a bit at each cell. A set has as many cells as it
    can hold, and then the first other columns. A sign is the true sign of the same column.
    """
    if isinstance(layout, Sign):
        column = number >> 1
        return column << 1 | (column & cells[0]).bit_count() & 1
    if isinstance(layout, Subset):
        columns = dict.fromkeys((*cells, *range(layout.columns)))
        return as_bits(list(columns)[: layout.ones])
    if isinstance(layout, Bits):
        return as_bits(cells)
    return cells[len(cells) // 2]


def is_true(layout: Layout, cells: Sequence[int], number: int) -> bool:
    """Return whether a payload names one of `cells`."""
    return any(layout.names(number, cell) for cell in cells)


class Law(NamedTuple):
    """Law of a payload.

    `alternatives`: probabilities, each with the cells that are then touched. `touched`,
    `untouched`: probability of naming a cell that is touched, or another cell.
    """

    layout: Layout
    alternatives: tuple[tuple[float, Sequence[int]], ...]
    touched: float
    untouched: float

    def of_payload(self, number: int) -> float:
        """Return the probability of a payload."""
        chance = self.layout.probability
        return float(
            sum(s * chance(number, c, self.touched, self.untouched) for s, c in self.alternatives)
        )

    def of_sign(self, number: int) -> float:
        """Return the probability of a payload, given its column if it has a sign."""
        return self.of_payload(number) * (self.layout.columns if self.layout.is_signed else 1)

    def of_truth(self, cells: Sequence[int]) -> float:
        """Return the probability that an index, a set or a sign names one of `cells`."""
        return sum(share * self._hits(cells, touched) for share, touched in self.alternatives)

    def _hits(self, cells: Sequence[int], touched: Sequence[int]) -> float:
        layout = self.layout
        if isinstance(layout, Sign):
            assert tuple(cells) == tuple(touched)
            return self.touched
        shared = len(cells) if cells == touched else len({*cells} & {*touched})
        if not isinstance(layout, Subset):
            return shared * self.touched + (len(cells) - shared) * self.untouched
        misses_both = comb(layout.columns - len(cells) - len(touched) + shared, layout.ones)
        misses_cells = comb(layout.columns - len(cells), layout.ones)
        places = range(len(touched))
        high, low = (
            float(layout.probability(number, places, self.touched, self.untouched))
            for number in (1, 0)
        )
        return 1 - (misses_cells - misses_both) * high - misses_both * low

    def of_column(self, column: int) -> float:
        """Return the probability that an index or a bitmap names a column."""
        return sum(
            share * (self.touched if column in cells else self.untouched)
            for share, cells in self.alternatives
        )

    def of_agreement(self, target: int, mask: int) -> tuple[int, float]:
        """Return a number of columns, and the probability that a bitmap differs in no more of them.

        Only the columns in `mask` are compared with `target`. The number is the largest at which
        the probability is at most RARE, else 0.
        """
        mask &= (1 << self.layout.columns) - 1
        spreads = [
            (share, self._differences(as_bits(cells), target, mask))
            for share, cells in self.alternatives
        ]
        _, likeliest = max(spreads, key=lambda pair: pair[0])
        most = max(0, int(np.searchsorted(likeliest, RARE, side="right")) - 1)
        return most, float(sum(share * spread[most] for share, spread in spreads))

    def _differences(self, touched: int, target: int, mask: int) -> np.ndarray:
        groups = (
            ((touched & target & mask).bit_count(), 1 - self.touched),
            ((touched & ~target & mask).bit_count(), self.touched),
            ((~touched & target & mask).bit_count(), 1 - self.untouched),
            ((~touched & ~target & mask).bit_count(), self.untouched),
        )
        return _cumulative(groups)


@lru_cache(maxsize=4096)
def _cumulative(groups: tuple[tuple[int, float], ...]) -> np.ndarray:
    """Return P(at most 0, 1, ... successes) for independent trials.

    `groups`: numbers of trials, each with its probability.
    """
    law = np.ones(1)
    for trials, chance in groups:
        if trials:
            law = np.convolve(law, binom.pmf(np.arange(trials + 1), trials, chance))
    return np.minimum(np.cumsum(law), 1.0)


def scaled(probability: float) -> int:
    """Return 2**64 times a probability, as an integer."""
    return min(ONE, int(probability * ONE))
