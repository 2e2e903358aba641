"""Tables of reports that have several parts: one table a part, counted and added together."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ldp.accounting.label import Label
from ldp.errors import DecodeError, LdpError, MergeError, ReportError
from ldp.files import write_whole
from ldp.mechanisms import CatalogueMechanism, JointMechanism, Mechanism, from_parameters
from ldp.protocol import wire
from ldp.protocol.joint_layout import JointLayout
from ldp.protocol.kinds import Layout
from ldp.tables.table import (
    Batch,
    CountsReports,
    Table,
    TableBuilder,
    decode_errors,
    payload_numbers,
    require_same,
)


@dataclass(frozen=True)
class JointTable:
    """Tables of the parts of a joint mechanism, in the order of its parts.

    Every report is counted once in each, so their totals are equal.
    """

    mechanism: JointMechanism
    tables: tuple[Table, ...]

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, part: str) -> Table:
        """Return the table of the part with this name; raises KeyError."""
        names = [name for name, _ in self.mechanism.parts]
        if part not in names:
            raise KeyError(part)
        return self.tables[names.index(part)]

    @property
    def total(self) -> int:
        """Number of reports."""
        return self.tables[0].total

    @property
    def windows(self) -> tuple[str, ...]:
        """Ids of the collection windows (days), sorted."""
        return self.tables[0].windows

    @property
    def memoised(self) -> bool:
        """Return whether the reports of one client may share a permanent response."""
        return self.tables[0].memoised

    @property
    def labels(self) -> tuple[Label, ...]:
        """Labels of its metrics."""
        return self.tables[0].labels

    def __add__(self, other: "JointTable") -> "JointTable":
        if not isinstance(other, JointTable):
            raise MergeError("tables of several parts cannot be added to anything but their like")
        require_same(self.mechanism, other.mechanism)
        added = (a + b for a, b in zip(self.tables, other.tables, strict=True))
        return JointTable(self.mechanism, tuple(added))

    def of_metric(self, dictionary: tuple[str, ...] | None, memoised: bool = False) -> "JointTable":
        """Return the tables with the metric's candidates and whether it is memoised."""
        tables = (table.of_metric(dictionary, memoised) for table in self.tables)
        return JointTable(self.mechanism, tuple(tables))

    def labelled(self, label: Label) -> "JointTable":
        """Return the tables with this label and no other."""
        return JointTable(self.mechanism, tuple(table.labelled(label) for table in self.tables))

    def to_bytes(self) -> bytes:
        """Return the tables as one self-identifying file: see `docs/wire.md`."""
        names = [name for name, _ in self.mechanism.parts]
        packed = [table.packed(name) for name, table in zip(names, self.tables, strict=True)]
        description = {
            "mechanism": self.mechanism.parameters(),
            "fingerprint": self.mechanism.fingerprint.hex(),
            "tables": [part for part, _ in packed],
            "compression": "zstd",
        }
        return wire.pack_table(description, [buffer for _, pair in packed for buffer in pair])

    @classmethod
    def from_bytes(cls, data: bytes) -> "JointTable":
        """Return the tables of a file's bytes; raises DecodeError for foreign or damaged bytes, and
        for impossible counts."""
        with decode_errors():
            description, buffers = wire.parse_table(data)
            mechanism = from_parameters(description["mechanism"])
            if not isinstance(mechanism, JointMechanism):
                raise DecodeError("table file's reports do not have several parts")
            if mechanism.fingerprint.hex() != description["fingerprint"]:
                raise DecodeError("table file's mechanism does not have the fingerprint it states")
            parts = description["tables"]
            if [part["name"] for part in parts] != [name for name, _ in mechanism.parts]:
                raise DecodeError("table file's tables are not named as its mechanism's parts")
            if len(buffers) != 2 * len(parts):
                raise DecodeError("table file does not have two buffers for each of its tables")
            tables = tuple(
                Table.unpacked(part, buffers[2 * i : 2 * i + 2]) for i, part in enumerate(parts)
            )
            if [table.mechanism for table in tables] != [part for _, part in mechanism.parts]:
                raise DecodeError("table file's tables are not those of its mechanism")
        if len({(table.total, table.windows, table.dictionary) for table in tables}) > 1:
            raise DecodeError("table file's tables count different reports")
        return cls(mechanism, tables)

    def save(self, path: str | Path) -> None:
        """Write `to_bytes()` to `path`, atomically."""
        write_whole(Path(path), self.to_bytes())


class JointTableBuilder(CountsReports):
    """Builder of a `JointTable` from reports of several parts; like `TableBuilder`."""

    def __init__(self, mechanism: JointMechanism, workers: int = 1) -> None:
        self._mechanism: JointMechanism = mechanism
        self._builders = [TableBuilder(part, workers) for _, part in mechanism.parts]

    def add_batch(
        self, rows: NDArray[np.uint32], payloads: NDArray[np.uint8], window: str | None = None
    ) -> None:
        split = split_batch(self._mechanism.layout, rows, payloads)
        for builder, (part_rows, part_payloads) in zip(self._builders, split, strict=True):
            builder.add_batch(part_rows, part_payloads, window)

    def build(self) -> JointTable:
        """Return the tables; the builder takes no more reports afterwards."""
        return JointTable(self._mechanism, tuple(builder.build() for builder in self._builders))


def split_batch(
    layout: Layout | JointLayout, rows: NDArray[np.uint32], payloads: NDArray[np.uint8]
) -> list[Batch]:
    """Check `rows`, shape (n,), and `payloads`, shape (n, payload bytes), of whole reports and
    return those of every part: the bulk twin of `JointLayout.split`. Raises ReportError when a row,
    a column or a padding bit is out of range."""
    if isinstance(layout, Layout):
        payload_numbers(layout, rows, payloads)
        return [(rows, payloads)]
    if payloads.shape != (rows.size, layout.payload_bytes):
        raise ReportError(
            f"payloads of shape {payloads.shape}, expected {(rows.size, layout.payload_bytes)}"
        )
    if rows.size and int(rows.max()) >= layout.rows:
        raise ReportError(f"a report names a row outside 0..{layout.rows - 1}")
    batches, start, first = [], 0, rows.astype(np.int64) * layout.parts[0].rows
    for part in layout.parts:
        middle, end = start + part.row_bytes, start + part.body_bytes
        part_rows = payloads[:, start:middle] @ (1 << 8 * np.arange(part.row_bytes))
        payload_numbers(part, part_rows, payloads[:, middle:end])
        batches.append(((first + part_rows).astype(np.uint32), payloads[:, middle:end]))
        start, first = end, np.zeros_like(part_rows)
    return batches


def join_batch(layout: JointLayout, batches: Sequence[Batch]) -> Batch:
    """Join rows and payloads of parts to those of whole reports: the inverse of `split_batch`."""
    blocks = []
    for part, (rows, payloads) in zip(layout.parts, batches, strict=True):
        part_rows = (rows % part.rows).astype("<u8")[:, None].view(np.uint8)
        blocks += [part_rows[:, : part.row_bytes], payloads]
    return batches[0][0] // np.uint32(layout.parts[0].rows), np.concatenate(blocks, axis=1)


def empty_builder(
    mechanism: CatalogueMechanism, workers: int = 1
) -> TableBuilder | JointTableBuilder:
    """Return a builder for reports of any mechanism of the catalogue; `workers`: threads."""
    if isinstance(mechanism, JointMechanism):
        return JointTableBuilder(mechanism, workers)
    assert isinstance(mechanism, Mechanism)
    return TableBuilder(mechanism, workers)


def load_table(path: str | Path) -> Table | JointTable:
    """Read a table file of either kind; raises DecodeError, which names the file, when it is
    foreign or damaged."""
    try:
        data = Path(path).read_bytes()
        with decode_errors():
            joint = "mechanism" in wire.parse_table(data)[0]
        return JointTable.from_bytes(data) if joint else Table.from_bytes(data)
    except LdpError as error:
        raise DecodeError(f"{path}: {error}") from None
