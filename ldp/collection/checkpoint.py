"""Checkpoint of an aggregation: a table of the files that are counted, and their names.

One file, replaced whole. It belongs to one question (metric, version, mechanism, days) and to files
of which none was removed since; else it is not used, and the aggregation starts over.
"""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ldp.errors import LdpError
from ldp.files import write_whole
from ldp.tables.joint_table import JointTable
from ldp.tables.table import Table

_DIGEST_BYTES = 16


@dataclass(frozen=True)
class Checkpoint:
    """Progress of an aggregation. `question`: what is counted; `files`: those in `table`."""

    question: str
    files: tuple[str, ...]
    table: Table | JointTable

    def save(self, path: Path) -> None:
        """Write the checkpoint atomically: a line of JSON, the table's bytes, a checksum."""
        head = {"question": self.question, "files": self.files}
        data = json.dumps(head).encode() + b"\n" + self.table.to_bytes()
        write_whole(path, data + _digest(data))

    @classmethod
    def load(cls, path: Path, question: str, files: Iterable[str]) -> "Checkpoint | None":
        """Return the checkpoint of a question if all its files are among `files`, else None."""
        with suppress(OSError, ValueError, KeyError, TypeError, LdpError):
            data = path.read_bytes()
            body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
            line, _, table_bytes = body.partition(b"\n")
            head = json.loads(line)
            if _digest(body) != digest or head["question"] != question:
                return None
            if not {*head["files"]} <= {*files}:
                return None
            with suppress(LdpError):
                return cls(question, tuple(head["files"]), Table.from_bytes(table_bytes))
            return cls(question, tuple(head["files"]), JointTable.from_bytes(table_bytes))
        return None


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
