"""Attacks on estimates: made-up reports, as batches that any collector would take.

Attackers know the mechanism, the candidates and how reports are decoded. Each attack chooses the
content of some fakes.

Sources: Cao, Jia and Gong 2021, "Data poisoning attacks to local differential
privacy protocols" (random perturbed value, random item, maximal gain, padded reports); Cheu, Smith
and Ullman 2021, "Manipulation attacks in local differential privacy" (half of the domain); Li,
Li, Li and others 2023, "Fine-grained poisoning attack to local differential privacy protocols for
mean and variance estimation" (input, output).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp import bulk
from ldp.arrays import Bytes, Floats, Generator, Ints, RowNumbers
from ldp.collection.plausibility import ones_limits
from ldp.decoding.distribution import decode_distribution
from ldp.mechanisms import Mechanism
from ldp.mechanisms.addressing import CellSets
from ldp.mechanisms.numeric import Numeric
from ldp.protocol.kinds import Bits, Index, Subset
from ldp.simulation.bulk_reports import as_bytes, encode_points, points_of
from ldp.tables.batches import ReportArrays
from ldp.tables.table import Table, TableBuilder

PAIRS = 1 << 20
"""Number of pairs of a fake and an aim that are hashed at once."""
TRIES = 32
"""Number of rows that a fake of the maximal-gain attack tries, to take the one in which a report
names most aims."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """Knowledge of an attacker: the mechanism, all candidate `values`, and among them the indices
    of the `targets` and of the values that most people hold (`heavy`). `reads_constant`: whether
    the decoder reads signs of column 0, which name all values alike. A regression does not."""

    mechanism: Mechanism
    values: Sequence[str]
    targets: Ints
    heavy: Ints
    reads_constant: bool = True


@dataclass(frozen=True)
class Attack:
    """Attack, described in `words`. `reports`: function from (scene, number of fakes, generator) to
    a batch of fakes. `aims`: function from (scene, generator) to the indices of the values that the
    attack moves, by default the targets. `way`: 1 to raise them, -1 to lower them."""

    words: str
    reports: Callable[[Scene, Ints, int, Generator], ReportArrays]
    aims: Callable[[Scene, Generator], Ints] = lambda scene, _: scene.targets
    way: int = 1


def counted_batch(mechanism: Mechanism, batch: ReportArrays, start: Table | None = None) -> Table:
    """Return the table of the reports of a batch, added to the table `start` if there is one."""
    builder = TableBuilder(mechanism, start=start)
    builder.add_batch(*batch)
    return builder.build()


def random_items(scene: Scene, aims: Ints, number: int, generator: Generator) -> ReportArrays:
    """Return reports of honest encoders about aims drawn at random: the random item attack, the
    only one that needs no changed client."""
    points = points_of(scene.mechanism, [scene.values[aim] for aim in aims])
    chosen = generator.integers(0, aims.size, number)
    return encode_points(scene.mechanism, [part[chosen] for part in points], generator)


def random_reports(scene: Scene, aims: Ints, number: int, generator: Generator) -> ReportArrays:
    """Return uniformly random reports: the random perturbed value attack."""
    mechanism = scene.mechanism
    rows = _rows(mechanism, number, generator)
    if mechanism.kind in (Bits, Subset):
        scores = generator.random((number, mechanism.shape.columns))
        return rows, _payloads(mechanism, scores)
    limit = mechanism.layout.payload_limit
    return rows, as_bytes(generator.integers(0, limit, number), mechanism.layout)


def naming_reports(
    scene: Scene, aims: Ints, number: int, generator: Generator, way: int = 1
) -> ReportArrays:
    """Return reports that name as many aims as a report can, or with `way` -1 as few: the maximal
    gain attack. With hashes each fake takes the best of TRIES rows. The column of a sign, and the
    columns of a set, are those with the largest effect."""
    mechanism = scene.mechanism
    rows = _rows(mechanism, number, generator)
    if way > 0 and mechanism.kind is Index:
        rows = _best_rows(scene, aims, rows, generator)
    scores = way * _names(scene, aims, rows).astype(np.float64)
    if mechanism.kind.is_signed:
        sums = bulk.walsh_hadamard(scores.astype(np.int64))
        sums[:, 0] *= scene.reads_constant
        column = np.abs(sums).argmax(axis=1)
        is_minus = np.take_along_axis(sums, column[:, None], axis=1)[:, 0] < 0
        return rows, as_bytes(column << 1 | is_minus, mechanism.layout)
    if mechanism.kind is not Bits:
        scores += generator.random(scores.shape) / 2
    return rows, _payloads(mechanism, scores)


def unseen_reports(scene: Scene, aims: Ints, number: int, generator: Generator) -> ReportArrays:
    """Return reports that name many aims and that this collector takes for honest ones. They have
    uniform rows and columns of signs, as many ones as an honest report has on average, and no more
    ones in the candidates' cells than a plausible report has."""
    mechanism = scene.mechanism
    rows = _rows(mechanism, number, generator)
    names = _names(scene, aims, rows)
    if mechanism.kind.is_signed:
        column = generator.integers(0, mechanism.shape.columns, number)
        one = np.zeros(names.shape, np.int64)
        one[np.arange(number), column] = 1
        agreeing = (bulk.walsh_hadamard(one) * names).sum(axis=1)
        return rows, as_bytes(column << 1 | (agreeing < 0), mechanism.layout)
    if mechanism.kind is not Bits:
        return rows, _payloads(mechanism, names + generator.random(names.shape) / 2)
    columns, channel = mechanism.shape.columns, mechanism.channel
    usual = round(columns * float(channel.untouched) + mechanism.touches * channel.gain)
    listed = _names(scene, np.arange(len(scene.values)), rows) > 0
    scores = 2.0 * (names > 0) + generator.random(names.shape)
    # then a collector looks at these cells
    if 2 * listed.sum(axis=1).max() <= columns:
        most = np.array([ones_limits(mechanism, int(cells))[1] for cells in listed.sum(axis=1)])
        place = np.where(listed, scores, -1.0).argsort(axis=1)[:, ::-1].argsort(axis=1)
        scores = np.where(listed & (place >= most[:, None]), -1.0, scores)
    return rows, _payloads(mechanism, scores, usual)


def _rows(mechanism: Mechanism, number: int, generator: Generator) -> RowNumbers:
    rows = generator.integers(0, mechanism.shape.rows, number)
    return rows.astype(np.uint32)


def _names(scene: Scene, aims: Ints, rows: RowNumbers) -> Ints:
    """Return how many of the aims touch each column of each of the `rows`: shape (fakes, columns).
    `rows`: shape (fakes,)."""
    mechanism, addressing = scene.mechanism, scene.mechanism.candidate_addressing
    names = [scene.values[aim] for aim in aims]
    scores: Ints = np.zeros((rows.size, mechanism.shape.columns), np.int64)
    if isinstance(addressing, CellSets):
        for name in names:
            scores[:, [*mechanism.cells(name, 0)]] += 1
        return scores
    (points,) = points_of(mechanism, names)
    fakes, many = np.arange(rows.size)[:, None], max(1, PAIRS // rows.size)
    for some in (points[first : first + many] for first in range(0, len(names), many)):
        at, among = np.repeat(some, rows.size, axis=0), np.tile(rows, len(some))
        cells = bulk.columns(addressing, mechanism.shape.rows, at, among)
        places = np.tile(fakes, (len(some), 1)) * scores.shape[1] + cells
        touched = places[cells != bulk.NO_COLUMN]
        scores += np.bincount(touched, minlength=scores.size).reshape(scores.shape)
    return scores


def _best_rows(scene: Scene, aims: Ints, rows: RowNumbers, generator: Generator) -> RowNumbers:
    """Return for each fake the row, of TRIES, in which one report names most aims."""
    if scene.mechanism.shape.rows == 1:
        return rows
    best, most = rows, np.full(rows.size, -1)
    for _ in range(TRIES):
        tried = _rows(scene.mechanism, rows.size, generator)
        reach = _names(scene, aims, tried).max(axis=1)
        best, most = np.where(reach > most, tried, best), np.maximum(reach, most)
    return best.astype(np.uint32)


def _payloads(mechanism: Mechanism, scores: Floats, ones: int | None = None) -> Bytes:
    """Return payloads that name the column with the largest score; of bits, those with a score
    above a half or with the `ones` largest scores; of a set, always its fixed number of columns."""
    if mechanism.kind is Index:
        return as_bytes(scores.argmax(axis=1), mechanism.layout)
    size = mechanism.layout.ones or ones
    bits = scores > 0.5
    if size is not None:
        bits = np.zeros(scores.shape, np.bool_)
        largest = scores.argsort(axis=1)[:, scores.shape[1] - size :]
        np.put_along_axis(bits, largest, True, axis=1)
    return np.packbits(bits, axis=1, bitorder="little")


def _half(scene: Scene, generator: Generator) -> Ints:
    size = len(scene.values)
    return np.sort(generator.permutation(size)[: max(1, size // 2)])


ATTACKS = {
    "random-report": Attack("uniformly random reports", random_reports),
    "random-item": Attack("honest encoders of the targets", random_items),
    "maximal-gain": Attack("reports that name most targets", naming_reports),
    "unseen": Attack("the same, plausible to the collector", unseen_reports),
    "half": Attack("reports that name a random half of all", naming_reports, _half),
    "hide": Attack(
        "reports that name no frequent value",
        partial(naming_reports, way=-1),
        lambda scene, _: scene.heavy,
        -1,
    ),
}
"""Attacks on counts, by name. The attack on heavy hitters has no name of its own: where all
candidates are listed its reports are those of maximal-gain."""


def input_numbers(mechanism: Mechanism, number: int, generator: Generator) -> ReportArrays:
    """Return reports about the largest number, by honest encoders."""
    numeric: Any = mechanism
    top = numeric.bounds[1] if numeric.bounds else max(filter(np.isfinite, numeric.bins.edges))
    points = points_of(mechanism, [float(top)] * number)
    return encode_points(mechanism, points, generator)


def output_numbers(honest: Table, number: int) -> ReportArrays:
    """Return the reports with the largest effect. They raise a mean by naming the last bin, or a
    distribution by the row and bits that most lower the share below an edge near the median."""
    mechanism = honest.mechanism
    if isinstance(mechanism, Numeric):
        last = np.full(number, mechanism.bins - 1)
        return np.zeros(number, np.uint32), as_bytes(last, mechanism.layout)
    row, bits = worst_bits(honest)
    payload = np.packbits(bits, bitorder="little")
    return np.full(number, row, np.uint32), np.repeat(payload[None, :], number, axis=0)


def worst_bits(honest: Table) -> tuple[int, NDArray[np.bool_]]:
    """Return the row, and the bits of its columns, with which a report most lowers the estimated
    share below the median's edge, given the decoder's weights."""
    estimate = decode_distribution(honest)
    edge = int(np.abs(estimate.below[0] - 0.5).argmin())
    nodes, weights = estimate.nodes, np.cumsum(estimate.matrix, axis=0)[edge]
    unset = weights * (nodes.channel.holders(0, 1) - nodes.share)
    moved = unset + np.minimum(weights / nodes.channel.gain, 0)
    row = int((moved / nodes.reports @ nodes.tells.T).argmin())
    bits = np.zeros(honest.mechanism.shape.columns, np.bool_)
    columns = np.flatnonzero(nodes.tells[row])
    bits[: columns.size] = weights[columns] < 0
    return row, bits
