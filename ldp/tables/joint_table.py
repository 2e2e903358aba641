"""Tables of reports that have several parts: one table a part, counted and added together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ldp.arrays import Bytes, RowNumbers
from ldp.errors import DecodeError, MergeError, ReportError, errors_in
from ldp.files import bytes_of, write_whole
from ldp.mechanisms import CatalogueMechanism, from_parameters
from ldp.mechanisms.base import require_mechanism
from ldp.mechanisms.joint_base import JointMechanism
from ldp.protocol import wire
from ldp.protocol.strict_json import are_texts
from ldp.registry.label import Label
from ldp.tables.batches import ReportArrays, require_same, split_batch
from ldp.tables.patterns import Patterns, PatternsBuilder
from ldp.tables.table import (
    CountsReports,
    Table,
    TableBuilder,
    decode_errors,
    pack_tables,
    read_whole,
    unlinked,
    whole_of_sum,
)


@dataclass(frozen=True)
class JointTable:
    """Tables of the parts of a joint mechanism, in the order of its parts.

    Every report is counted once in each, so their totals are equal.
    """

    mechanism: JointMechanism
    tables: tuple[Table, ...]
    whole: Patterns | None = None
    """The different reports, and how often each came, or None."""
    members: tuple[str, ...] = ()
    """Names of the members of its metric, where they are known."""

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, part: str) -> Table:
        """Return the table of the part with this name; raises KeyError."""
        return dict(zip(self.part_names, self.tables, strict=True))[part]

    @property
    def part_names(self) -> tuple[str, ...]:
        """Names of the parts, in order."""
        return tuple(name for name, _ in self.mechanism.parts)

    @property
    def member_names(self) -> tuple[str, ...]:
        """Names of the members of the metric. Names of the parts stand where they are not known."""
        return self.members or self.part_names

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
        members = self.members or other.members
        return JointTable(self.mechanism, tuple(added), whole_of_sum(self, other), members)

    def of_metric(self, dictionary: tuple[str, ...] | None, memoised: bool = False) -> "JointTable":
        """Return the tables with the metric's candidates and whether it is memoised."""
        tables = tuple(table.of_metric(dictionary, memoised) for table in self.tables)
        return replace(self, tables=tables, whole=unlinked(self, memoised))

    def of_members(self, members: Mapping[str, tuple[str, ...] | None]) -> "JointTable":
        """Return the tables with the candidates of each member of a joint metric, by name."""
        pairs = zip(self.tables, members.values(), strict=True)
        tables = tuple(replace(table, dictionary=some) for table, some in pairs)
        return replace(self, tables=tables, members=tuple(members))

    def labelled(self, label: Label) -> "JointTable":
        """Return the tables with this label and no other."""
        return replace(self, tables=tuple(table.labelled(label) for table in self.tables))

    def to_bytes(self) -> bytes:
        """Return the tables as one self-identifying file: see `docs/wire.md`."""
        parts = zip(self.part_names, self.tables, strict=True)
        packed = [table.packed(name) for name, table in parts]
        description: dict[str, Any] = {
            "mechanism": self.mechanism.parameters(),
            "fingerprint": self.mechanism.fingerprint.hex(),
            "tables": [part for part, _ in packed],
            "compression": "zstd",
        }
        if self.members:
            description["members"] = self.members
        buffers = [buffer for _, pair in packed for buffer in pair]
        return pack_tables(description, buffers, self.whole)

    @classmethod
    def from_bytes(cls, data: bytes) -> "JointTable":
        """Return the tables of a file's bytes. Raises DecodeError for foreign or damaged bytes, and
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
            if len(buffers) < 2 * len(parts):
                raise DecodeError("table file does not have two buffers for each of its tables")
            tables = tuple(
                Table.unpacked(part, buffers[2 * i : 2 * i + 2]) for i, part in enumerate(parts)
            )
            if [table.mechanism for table in tables] != [part for _, part in mechanism.parts]:
                raise DecodeError("table file's tables are not those of its mechanism")
            if len({(table.total, table.windows) for table in tables}) > 1:
                raise DecodeError("table file's tables count different reports")
            members = description.get("members", [])
            if not are_texts(members) or len(members) not in (0, len(parts)):
                raise DecodeError("table file does not name each member")
            more = buffers[2 * len(parts) :]
            whole = read_whole(mechanism, tables[0].total, description, more)
        return cls(mechanism, tables, whole, tuple(members))

    def save(self, path: str | Path) -> None:
        """Write `to_bytes()` to `path`, atomically."""
        write_whole(Path(path), self.to_bytes())


class JointTableBuilder(CountsReports):
    """Builder of a `JointTable` from reports of several parts; like `TableBuilder`."""

    def __init__(self, mechanism: JointMechanism, workers: int = 1) -> None:
        if not isinstance(require_mechanism(mechanism), JointMechanism):
            raise ReportError("reports of one part are counted by a TableBuilder")
        self._mechanism: JointMechanism = mechanism
        self._builders = [TableBuilder(part, workers) for _, part in mechanism.parts]

    def add_batch(self, rows: RowNumbers, payloads: Bytes, window: str | None = None) -> None:
        split = split_batch(self._mechanism.layout, rows, payloads)
        for builder, (part_rows, part_payloads) in zip(self._builders, split, strict=True):
            builder.add_batch(part_rows, part_payloads, window)

    def build(self) -> JointTable:
        """Return the tables; the builder takes no more reports afterwards."""
        return JointTable(self._mechanism, tuple(builder.build() for builder in self._builders))


class WholeBuilder(CountsReports):
    """Builder of a table that also holds the whole reports."""

    def __init__(self, mechanism: CatalogueMechanism, workers: int = 1) -> None:
        self._mechanism = mechanism
        self._table, self._whole = empty_builder(mechanism, workers), PatternsBuilder(mechanism)

    def add_batch(self, rows: RowNumbers, payloads: Bytes, window: str | None = None) -> None:
        self._table.add_batch(rows, payloads, window)
        self._whole.add_batch(rows, payloads)

    def build(self) -> Table | JointTable:
        """Return the table; the builder takes no more reports afterwards."""
        return replace(self._table.build(), whole=self._whole.build())


AnyTable = Table | JointTable
"""Table of the reports of any mechanism of the catalogue."""


def whole_table(
    mechanism: CatalogueMechanism, batches: Iterable[ReportArrays]
) -> Table | JointTable:
    """Return the table of all batches, which also holds the whole reports. Raises ReportError for
    an invalid report, and where too many are different."""
    builder = WholeBuilder(mechanism)
    for rows, payloads in batches:
        builder.add_batch(rows, payloads)
    return builder.build()


def empty_builder(
    mechanism: CatalogueMechanism, workers: int = 1, whole: bool = False
) -> TableBuilder | JointTableBuilder | WholeBuilder:
    """Return a builder for reports of any mechanism of the catalogue. `workers`: threads; `whole`:
    whether the table holds the whole reports too."""
    if whole:
        return WholeBuilder(mechanism, workers)
    if isinstance(mechanism, JointMechanism):
        return JointTableBuilder(mechanism, workers)
    return TableBuilder(require_mechanism(mechanism), workers)


def load_table(path: str | Path) -> Table | JointTable:
    """Read a table file of either kind. Raises DecodeError, which names the file, when it is
    foreign or damaged."""
    with errors_in(path, DecodeError):
        data = bytes_of(Path(path))
        with decode_errors():
            joint = "mechanism" in wire.parse_table(data)[0]
        return JointTable.from_bytes(data) if joint else Table.from_bytes(data)
