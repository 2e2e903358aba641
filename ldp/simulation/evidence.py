"""Evidence of linked reports: the view of an attacker who knows which reports are of one device.

The attacker knows the mechanism and how frequent values are, and guesses by likelihood from the
exact channel. No attacker does better. `Evidence` is ln P(reports | value), for every stream of
reports and every value: for fresh reports a sum over the reports; where they share a permanent
response, a sum over all responses that this may be. Sources: Erlingsson et al. 2014, sections 3.2
and 6 (averaging, and the fingerprint that memoisation gives away).
"""

import math
from collections.abc import Callable, Sequence
from copy import copy

import numpy as np
from scipy.special import logsumexp, xlog1py, xlogy

from ldp import bulk
from ldp.arrays import Bools, Bytes, Floats, Ints, Points, RowNumbers, add_at
from ldp.mechanisms import CatalogueMechanism, Mechanism
from ldp.mechanisms.joint_base import parts_of
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.mechanisms.outcomes import cell_factors
from ldp.protocol.channel import exact_log
from ldp.protocol.hashing import Value
from ldp.protocol.kinds import Index, Subset
from ldp.protocol.md5_bloom import Md5Bloom
from ldp.registry.definitions import Memoise
from ldp.simulation.bulk_reports import columns_at, points_of
from ldp.tables.batches import payload_numbers, split_batch

_CHUNK = 1 << 21
"""Number of cells that are processed together."""
_FEW_ROWS = 1024
_IMPOSSIBLE = -1e6
"""Number in place of ln 0, so that differences stay numbers."""


def evidence(
    mechanism: CatalogueMechanism, values: Sequence[Value], memoise: Memoise, streams: int
) -> "Evidence":
    """Return the evidence of a number of `streams`, none of which has a report yet."""
    if not memoise:
        return FreshEvidence(mechanism, values, streams)
    assert isinstance(mechanism, MemoisedMechanism)
    return MemoisedEvidence(mechanism, values, streams, lasts=memoise == "per-value")


class FreshEvidence:
    """Reports with fresh noise each: their likelihoods multiply."""

    def __init__(
        self, mechanism: CatalogueMechanism, values: Sequence[Value], streams: int
    ) -> None:
        self._mechanism = mechanism
        self._cells = [
            _Cells(part, points)
            for part, points in zip(parts_of(mechanism), points_of(mechanism, values), strict=True)
        ]
        self._log_likelihoods = np.zeros((streams, len(values)))

    def add(self, streams: Ints, rows: RowNumbers, payloads: Bytes) -> None:
        """Take a report of each of `streams`."""
        batches = split_batch(self._mechanism.layout, rows, payloads)
        for cells, (part_rows, part_payloads) in zip(self._cells, batches, strict=True):
            step = max(1, _CHUNK // (self._log_likelihoods.shape[1] * cells.most))
            for start in range(0, streams.size, step):
                some = slice(start, start + step)
                log_likelihoods = cells.log_likelihoods(part_rows[some], part_payloads[some])
                np.add.at(self._log_likelihoods, streams[some], log_likelihoods)

    def log_likelihoods(self) -> Floats:
        """Return ln P(reports | value) up to a term that does not depend on the value: shape
        (streams, values)."""
        return self._log_likelihoods


class MemoisedEvidence:
    """Reports that share a permanent response: all that they tell is how often each column was
    named. If `lasts`, a stream has one response for ever, else one an epoch. Its value does not
    change."""

    def __init__(
        self, mechanism: MemoisedMechanism, values: Sequence[Value], streams: int, *, lasts: bool
    ) -> None:
        self._mechanism, self.lasts = mechanism, lasts
        self.cohorts = mechanism.shape.rows
        (points,) = points_of(mechanism, values)
        self._cells = _Cells(mechanism, points)
        self._ended = np.zeros((streams, len(values)))
        self._forget()

    def _forget(self) -> None:
        streams, columns = len(self._ended), self._mechanism.shape.columns
        self.rows = np.full(streams, -1)
        self._named_counts = np.zeros((streams, columns), dtype=np.int32)
        self._reports = np.zeros(streams, dtype=np.int64)

    def add(self, streams: Ints, rows: RowNumbers, payloads: Bytes) -> None:
        """Take a report of each of `streams`."""
        self.rows[streams] = rows
        np.add.at(self._reports, streams, 1)
        if self._mechanism.kind.is_bitmap:
            columns = self._mechanism.shape.columns
            bits = np.unpackbits(payloads, axis=1, bitorder="little", count=columns)
            np.add.at(self._named_counts, streams, bits)
        else:
            numbers = payload_numbers(self._mechanism.layout, rows, payloads)
            add_at(self._named_counts, streams, numbers, 1)

    def end_epoch(self) -> None:
        """Begin the next epoch: later reports are about another permanent response."""
        self._ended = self.log_likelihoods()
        self._forget()

    def one_with(self, later: "MemoisedEvidence", of: Ints) -> "MemoisedEvidence":
        """Return the evidence if stream i and stream of[i] of `later` are one stream, with one row
        and one response."""
        union = copy(self)
        union._ended = self._ended + later._ended[of]
        union._named_counts = self._named_counts + later._named_counts[of]
        union._reports = self._reports + later._reports[of]
        return union

    def cells(self) -> Ints:
        """Return the cells that each value touches in the stream's row: shape (streams, values,
        hashes)."""
        return self._cells.columns(self.rows.astype(np.uint32))

    def log_likelihoods(self) -> Floats:
        """Return ln P(reports | value) up to a term that does not depend on the value: shape
        (streams, values).

        For BITS reports it is a sum over bits, which are independent: a bit is 1 in k of n reports
        with P(k | touched) = sum over the permanent bit b of
        P(b | touched) P(1 | b)**k P(0 | b)**(n - k). For INDEX reports it is the logarithm of the
        sum over the permanent column c of P(c | true column) times the product over reports of
        P(named column | c)."""
        sums = self._ended.copy()
        for start in range(0, len(sums), step := max(1, _CHUNK // sums[0].size)):
            some = np.arange(start, min(len(sums), start + step))
            some = some[self._reports[some] > 0]
            if some.size:
                sums[some] += self._of(some)
        return sums

    def _of(self, some: Ints) -> Floats:
        permanent, (high, low) = (
            self._mechanism.permanent_channel,
            map(float, self._mechanism.instantaneous),
        )
        first = permanent.chances if permanent else (1.0, 0.0)
        counts, reports = self._named_counts[some], self._reports[some, None]
        if_one = xlogy(counts, high) + xlog1py(reports - counts, -high)
        every = np.moveaxis(self._cells.columns(self.rows[some].astype(np.uint32)), 2, 0)
        if self._mechanism.kind is Index:
            # a report names the permanent column with `high`, any other with `low`
            by_column = counts * math.log(high) + (reports - counts) * math.log(low)
            at_true = np.take_along_axis(by_column, every[0], axis=1) + math.log(
                first[0] - first[1]
            )
            return np.asarray(
                np.logaddexp(at_true, logsumexp(by_column, axis=1)[:, None] + math.log(first[1]))
            )
        if_none = xlogy(counts, low) + xlog1py(reports - counts, -low)
        touched, untouched = (
            np.maximum(np.logaddexp(_log(p) + if_one, _log(1 - p) + if_none), _IMPOSSIBLE)
            for p in first
        )
        gain, sums = touched - untouched, np.zeros(every.shape[1:])
        sums += untouched.sum(axis=1)[:, None]
        for cells in every:
            gained = np.take_along_axis(gain, np.maximum(cells, 0), axis=1)
            sums += gained * (cells != bulk.NO_COLUMN)
        return sums


Evidence = FreshEvidence | MemoisedEvidence
"""Likelihoods of values, from streams of reports."""


class _Cells:
    """Columns that values touch in any row, and likelihoods of values given single reports."""

    def __init__(self, mechanism: Mechanism, points: Points) -> None:
        self._mechanism, self._points = mechanism, points
        rows = mechanism.shape.rows
        self._by_row = rows <= _FEW_ROWS or isinstance(mechanism.addressing, Md5Bloom)
        self._weights = [float(exact_log(ratio)) for ratio in cell_factors(mechanism)]
        first = self._in_row(0)
        self._touching: Bools | None = None
        # the cells may be too many to compare
        if rows == 1 and mechanism.kind is Index:
            self._touching = np.zeros((mechanism.shape.columns + 1, len(points)), dtype=bool)
            # NO_COLUMN is the last row
            self._touching[first.T, np.arange(len(points))] = True
        self.most = 1 if self._touching is not None else first.shape[1]

    def _in_row(self, row: int) -> Ints:
        rows = np.full(len(self._points), row, dtype=np.uint32)
        return columns_at(self._mechanism, self._points, rows)

    def columns(self, rows: RowNumbers) -> Ints:
        """Return the columns that each value touches in each of `rows`: shape (rows, values,
        hashes), NO_COLUMN where there are fewer."""
        if self._by_row:
            different, which = np.unique(rows, return_inverse=True)
            return np.stack([self._in_row(row) for row in different.tolist()])[which.ravel()]
        values = len(self._points)
        points = self._points[np.tile(np.arange(values), rows.size)]
        columns = columns_at(self._mechanism, points, np.repeat(rows, values))
        return columns.reshape(rows.size, values, -1)

    def log_likelihoods(self, rows: RowNumbers, payloads: Bytes) -> Floats:
        """Return ln P(report | value), up to a term that does not depend on the value: shape
        (reports, values)."""
        if self._touching is not None:
            numbers = payload_numbers(self._mechanism.layout, rows, payloads)
            return np.where(self._touching[numbers], *self._weights)
        names = _names(self._mechanism, rows, payloads)
        if self._mechanism.kind is Subset:
            is_named = [names(cells) for cells in np.moveaxis(self.columns(rows), 2, 0)]
            return np.where(np.any(is_named, axis=0), *self._weights)
        sums = np.zeros((rows.size, len(self._points)))
        # summing over a short axis is slow
        for cells in np.moveaxis(self.columns(rows), 2, 0):
            sums += np.where(names(cells), *self._weights) * (cells != bulk.NO_COLUMN)
        return sums


def _names(mechanism: Mechanism, rows: RowNumbers, payloads: Bytes) -> Callable[[Ints], Bools]:
    """Return whether each report names each of its cells, shape (reports, cells)."""
    if mechanism.kind.is_bitmap:
        bits, report = np.unpackbits(payloads, axis=1, bitorder="little"), np.arange(len(payloads))
        return lambda cells: bits[report[:, None], cells].astype(bool)
    numbers = payload_numbers(mechanism.layout, rows, payloads)[:, None]
    if mechanism.kind is Index:
        return lambda cells: cells == numbers

    def agrees(cells: Ints) -> Bools:
        return np.asarray(bulk.negative_signs(numbers >> 1, cells) == (numbers & 1))

    return agrees


def _log(probability: float) -> float:
    return math.log(probability) if probability else _IMPOSSIBLE


def log_shares(shares: Floats) -> Floats:
    return np.log(np.maximum(shares, np.finfo(float).tiny))
