"""The durable buffer of a relay: sealed reports that wait for a batch, and batches on their way.

A file of batches (`ldp.collection.acknowledged`). Sealed reports stand in the order of their bytes,
which are random, so that the file has no order of arrival, and nothing links the reports of a
device. A batch is made in one transaction that also deletes what waited. Its ids and its order are
fixed from then on, so that a run which ends anywhere can be repeated and sends the same bytes.
Tallies are never deleted.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import Any

from ldp.collection.acknowledged import BatchFile, FileForm
from ldp.collection.intake import SYSTEM_ORDER, SortedBatch
from ldp.protocol.batch import HEAD_BYTES, ID_BYTES, MOST_BYTES, MOST_ITEMS, Batch, Item
from ldp.protocol.sealed_report import QUEUE, SEALED_VERSION, Attestation, digest_of_all

MOST_REPORTS = 1 << 20
"""Most reports of a batch; further reports wait for the next batch."""
_TABLES = """
CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE waiting (queue TEXT, sealed BLOB, day TEXT NOT NULL, PRIMARY KEY (queue, sealed))
    WITHOUT ROWID;
CREATE TABLE outgoing (id BLOB PRIMARY KEY, queue TEXT NOT NULL, reports INTEGER NOT NULL,
    body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE tallies (queue TEXT, name TEXT, number INTEGER NOT NULL, PRIMARY KEY (queue, name))
    WITHOUT ROWID;
"""


class RelayBuffer(BatchFile):
    """Connection to the buffer of a relay."""

    form = FileForm("relay", int.from_bytes(b"ldpr", "big"), 2, _TABLES)

    def _keep(self, batches: Iterable[SortedBatch]) -> None:
        for batch in batches:
            for queue, _, reports, sealed in batch.lots:
                size, day = len(sealed) // reports, batch.day.isoformat()
                rows = ((queue, sealed[at : at + size], day) for at in range(0, len(sealed), size))
                statement = "INSERT OR IGNORE INTO waiting VALUES (?, ?, ?)"
                self._tally(queue, waiting=self._sqlite.executemany(statement, rows).rowcount)

    def _tally(self, queue: str, **numbers: int) -> None:
        """Add to the tallies of a queue."""
        self._sqlite.executemany(
            "INSERT INTO tallies VALUES (?, ?, ?) ON CONFLICT DO UPDATE "
            "SET number = number + excluded.number",
            [(queue, name, number) for name, number in numbers.items()],
        )

    def tallies(self) -> dict[str, dict[str, int]]:
        """Return the numbers of every queue, by its name: reports `waiting`, `outgoing`,
        `forwarded`, `refused` by the collector and `dropped`, and `batches`."""
        tallies = dict[str, dict[str, int]]()
        for queue, name, number in self._rows("SELECT queue, name, number FROM tallies"):
            tallies.setdefault(queue, {})[name] = number
        return tallies

    def drop(self, queue: str, oldest: date) -> int:
        """Delete reports of a queue that were sealed before `oldest`. Returns their number."""
        with self._transaction():
            number = self._sqlite.execute(
                "DELETE FROM waiting WHERE queue = ? AND day < ?", (queue, oldest.isoformat())
            ).rowcount
            self._tally(queue, waiting=-number, dropped=number)
        return number

    def shuffle(
        self,
        queue: str,
        smallest: int,
        day: date,
        attest: Callable[[Attestation], Item] | None = None,
        order: Callable[[list[Any]], None] = SYSTEM_ORDER,
        by_day: bool = False,
        most: int = MOST_REPORTS,
    ) -> int:
        """Make a batch of all reports of a queue that wait, and return how many it has: at least
        `smallest`, or 0. The batch leaves as sealed batches of `day` with random ids, each with the
        item that `attest` returns for it. `order` permutes a list in place, uniformly. `by_day`:
        whether the reports are of one day of sealing, the first with enough reports that wait.
        `most`: largest number of reports, -1 for all where a limit would part the messages of a
        person."""
        with self._transaction():
            rows = self._waiting(queue, smallest, most, by_day)
            if len(rows) < smallest:
                return 0
            self._sqlite.executemany(
                "DELETE FROM waiting WHERE queue = ? AND sealed = ?",
                ((queue, sealed) for (sealed,) in rows),
            )
            order(rows)
            items = [Item(QUEUE + queue, SEALED_VERSION, sealed) for (sealed,) in rows]
            name = secrets.token_bytes(ID_BYTES)
            for part in _parts(items, Attestation(queue, name, 0, b"").size if attest else 0):
                digest = digest_of_all(item.report for item in part)
                statement = Attestation(queue, name, len(items), digest)
                signed = (attest(statement),) if attest else ()
                identity = secrets.token_bytes(ID_BYTES)
                self._sqlite.execute(
                    "INSERT INTO outgoing VALUES (?, ?, ?, ?)",
                    (identity, queue, len(part), Batch(identity, day, (*part, *signed)).to_bytes()),
                )
            self._tally(queue, waiting=-len(rows), outgoing=len(rows), batches=1)
        return len(rows)

    def _waiting(self, queue: str, smallest: int, most: int, by_day: bool) -> list[tuple[bytes]]:
        """Return the reports of a queue that wait, at most `most` of them, with -1 all. `by_day`:
        only those that were sealed on the first day of which `smallest` wait."""
        day = None
        if by_day:
            row = self._sqlite.execute(
                "SELECT day FROM waiting WHERE queue = ? GROUP BY day HAVING count(*) >= ? "
                "ORDER BY day LIMIT 1",
                (queue, smallest),
            ).fetchone()
            (day,) = row or ("",)
        return self._sqlite.execute(
            "SELECT sealed FROM waiting WHERE queue = ? AND day = ifnull(?, day) LIMIT ?",
            (queue, day, most),
        ).fetchall()

    def outgoing(self) -> list[bytes]:
        """Return the ids of the sealed batches that are on their way, in a new order each time, so
        that one that keeps failing does not delay the others."""
        rows = self._rows("SELECT id FROM outgoing ORDER BY random()")
        return [identity for (identity,) in rows]

    def body(self, identity: bytes) -> bytes:
        """Return the bytes of a sealed batch that is on its way."""
        with self._as_unusable():
            ((body,),) = self._rows("SELECT body FROM outgoing WHERE id = ?", identity)
        return bytes(body)

    def finish(self, identity: bytes, refused: int | None) -> None:
        """Delete a sealed batch that the collector answered for good. `refused`: how many of its
        reports the collector refused. None stands for all, because they are too old."""
        with self._transaction():
            ((queue, reports),) = self._rows(
                "SELECT queue, reports FROM outgoing WHERE id = ?", identity
            )
            self._sqlite.execute("DELETE FROM outgoing WHERE id = ?", (identity,))
            lost = reports if refused is None else refused
            self._tally(queue, outgoing=-reports, forwarded=reports - lost, refused=lost)


def _parts(items: list[Item], more: int) -> Iterator[tuple[Item, ...]]:
    """Yield items of one size in their order, in tuples as long as fit into a sealed batch beside
    one further item of `more` bytes, or beside none where `more` is 0."""
    left = MOST_BYTES - HEAD_BYTES - more
    number = min(MOST_ITEMS - bool(more), left // items[0].size)
    for at in range(0, len(items), number):
        yield tuple(items[at : at + number])
