"""How far an aggregation came: a table of the files that are counted, and their names.

One file, replaced whole. It belongs to one question (metric, version, mechanism, days) and to files
of which none was removed since; any other is refused, and the aggregation starts over.
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
    """`question`: what is counted; `files`: those that are in `table`."""

    question: str
    files: tuple[str, ...]
    table: Table | JointTable

    def save(self, path: Path) -> None:
        """Writes it atomically: a line of JSON, the table's bytes, a checksum."""
        head = {"question": self.question, "files": self.files}
        data = json.dumps(head).encode() + b"\n" + self.table.to_bytes()
        write_whole(path, data + _digest(data))

    @classmethod
    def load(cls, path: Path, question: str, files: Iterable[str]) -> "Checkpoint | None":
        """The checkpoint of that question, if there is one and all its files are among `files`."""
        with suppress(OSError, ValueError, KeyError, TypeError, LdpError):
            data = path.read_bytes()
            body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
            line, _, packed = body.partition(b"\n")
            head = json.loads(line)
            if _digest(body) != digest or head["question"] != question:
                return None
            if not {*head["files"]} <= {*files}:
                return None
            with suppress(LdpError):
                return cls(question, tuple(head["files"]), Table.from_bytes(packed))
            return cls(question, tuple(head["files"]), JointTable.from_bytes(packed))
        return None


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
