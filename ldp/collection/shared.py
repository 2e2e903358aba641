"""Ownership of batches, shared in PostgreSQL by collectors that senders reach at one address.

A *lot*, the reports of one metric in one batch, has a row in `ldp_lots` until it is moved: first
claimed (`owner`: the collector that may move it), then promised (`file`: the name of the one file
that it goes to, after which no other collector can take it), and deleted when that file is on the
disk. `ldp_batches` keeps digest and answer of a batch until the watermark passes its day. A
collector (1) stores the lots in its own buffer, with a sync; (2) in one transaction writes the
batch and claims its lots, or, of a batch that is known, takes those over that are not promised,
and reads the first answer; (3) answers. So an owner always holds what it owns, and what is
acknowledged has an owner. To move, it plans a file in its buffer; in one transaction it locks the
plan's lots, and promises those that it still owns to the file; it drops its copy of the others; it
writes the file, notes that in its buffer, deletes the rows, and last its copies.

Killed after (1): nobody was answered, the copy is owned by none or another and is dropped. After
(2): it owns and holds the lots; the sender repeats it anywhere, and has the same answer. After
(3): likewise; a repeat elsewhere stores a second copy before it takes the first one's ownership.
After the plan, or the promise: the promise is repeated, and gives the same lots or, where too few
are left for a file and none was promised, the plan is dropped. After the file is written: it is
replaced by one of the same reports, or only forgotten. A row that is missing is of a batch that was
moved or never acknowledged, for rows of lots are not deleted by age. A disk that is lost loses what
it alone held: lots that nobody repeated elsewhere, and those promised to a file not yet written.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from ldp.collection.acknowledged import (
    CONFLICT,
    TOO_LATE,
    Answer,
    BufferUnusable,
    PendingBatch,
    pack_refusals,
    refusals_json,
)
from ldp.collection.buffer import Buffer, Plan, row_of
from ldp.errors import MissingPackage, ParameterError

WAIT_SECONDS = 10
"""Longest time that a statement may take, and that a server may be silent."""
_SCHEMA_LOCK = int.from_bytes(b"ldpb", "big")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS ldp_shared (identity TEXT NOT NULL, watermark DATE NOT NULL);
INSERT INTO ldp_shared SELECT gen_random_uuid()::text, DATE '0001-01-01'
    WHERE NOT EXISTS (SELECT FROM ldp_shared);
CREATE TABLE IF NOT EXISTS ldp_batches (
    day DATE, id BYTEA, digest BYTEA NOT NULL, refused BYTEA NOT NULL, PRIMARY KEY (day, id));
CREATE TABLE IF NOT EXISTS ldp_lots (
    day DATE, id BYTEA, metric TEXT, version INTEGER, digest BYTEA NOT NULL, owner TEXT NOT NULL,
    file TEXT, PRIMARY KEY (day, id, metric, version));
CREATE INDEX IF NOT EXISTS ldp_lots_file ON ldp_lots (file) WHERE file IS NOT NULL;
"""
_INSERT_BATCHES = """
INSERT INTO ldp_batches SELECT * FROM unnest(%s::date[], %s::bytea[], %s::bytea[], %s::bytea[])
ORDER BY 1, 2 ON CONFLICT DO NOTHING RETURNING day, id
"""
_KNOWN_BATCHES = """
SELECT day, id, digest, refused FROM ldp_batches
JOIN unnest(%s::date[], %s::bytea[]) AS asked (day, id) USING (day, id)
"""
_CLAIM = """
INSERT INTO ldp_lots SELECT *, %s, NULL
FROM unnest(%s::date[], %s::bytea[], %s::text[], %s::integer[], %s::bytea[])
"""
_TAKE_OVER = """
WITH taken AS (
    SELECT day, id, metric, version FROM ldp_lots
    JOIN unnest(%s::date[], %s::bytea[]) AS asked (day, id) USING (day, id)
    WHERE file IS NULL AND owner <> %s ORDER BY day, id, metric, version FOR UPDATE OF ldp_lots)
UPDATE ldp_lots SET owner = %s FROM taken
WHERE (ldp_lots.day, ldp_lots.id, ldp_lots.metric, ldp_lots.version)
    = (taken.day, taken.id, taken.metric, taken.version)
"""
_OWNED = """
SELECT day, id, digest, file FROM ldp_lots
JOIN unnest(%s::date[], %s::bytea[], %s::bytea[]) AS asked (day, id, digest)
USING (day, id, digest)
WHERE metric = %s AND version = %s AND owner = %s AND (file IS NULL OR file = %s)
ORDER BY day, id FOR UPDATE OF ldp_lots
"""
_PROMISE = """
UPDATE ldp_lots SET file = %s FROM unnest(%s::date[], %s::bytea[]) AS asked (day, id)
WHERE (ldp_lots.day, ldp_lots.id) = (asked.day, asked.id) AND metric = %s AND version = %s
"""


class BatchKey(NamedTuple):
    """Batch by its day of sealing, its id, and the digest of its bytes."""

    day: date
    id: bytes
    digest: bytes

    @classmethod
    def of(cls, pending: PendingBatch) -> "BatchKey":
        """Return the key of a batch that waits."""
        return cls(pending.batch.day, pending.batch.id, pending.digest)

    @classmethod
    def from_bytes(cls, data: bytes) -> "BatchKey":
        """Return the key of which these are the bytes."""
        day = date.fromordinal(int.from_bytes(data[:4], "big"))
        return cls(day, data[4:20], data[20:])

    def to_bytes(self) -> bytes:
        """Return the key as it stands in a buffer."""
        return self.day.toordinal().to_bytes(4, "big") + self.id + self.digest


def require_no_password(conninfo: str) -> None:
    """Raise ParameterError, which does not repeat the text, for one that libpq cannot read or that
    has a password, and MissingPackage without psycopg."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ModuleNotFoundError as error:
        raise MissingPackage.of("--shared", error.name, "publish") from None
    try:
        has_password = "password" in conninfo_to_dict(conninfo)
    except ProgrammingError:
        raise ParameterError("--shared: write postgresql://HOST/DATABASE, or key=value") from None
    if has_password:
        raise ParameterError("--shared: put the password into PGPASSWORD or ~/.pgpass, not here")


class Ownership:
    """Connection to the database that collectors share, opened again when it was lost.

    `conninfo`: as libpq reads it, without a password; `owner`: this collector's name. Every method
    raises BufferUnusable when the database does not answer.
    """

    def __init__(self, conninfo: str, owner: str) -> None:
        require_no_password(conninfo)
        self._conninfo, self._owner = conninfo, owner
        self._connection: Any = None

    def identity(self) -> str:
        """Return the database's random name, after making the tables where there are none."""
        with self._transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            for statement in filter(str.strip, _SCHEMA.split(";")):
                connection.execute(statement)
            ((identity,),) = connection.execute("SELECT identity FROM ldp_shared")
        return str(identity)

    def reach(self) -> None:
        """Connect unless there is a connection."""
        with self._errors():
            self._connect()

    def claim(self, pending: Sequence[PendingBatch], watermark: date) -> list[Answer]:
        """Own the lots of batches, which are in this collector's buffer, unless another promised
        them to a file; return the answers, in order, those of known batches as they first were."""
        with self._transaction() as connection:
            oldest = _advance(connection, watermark)
            batches: dict[tuple[date, bytes], PendingBatch] = {}
            for item in pending:
                if item.batch.day >= oldest and item.batch.lots:
                    batches.setdefault((item.batch.day, item.batch.id), item)
            new = _insert(connection, batches)
            keys = {(item.batch.day, item.batch.id) for item in pending}
            known = {
                (day, identity): (digest, refused)
                for day, identity, digest, refused in connection.execute(
                    _KNOWN_BATCHES, _columns(keys, 2)
                )
            }
            self._claim_lots(connection, [batches[key] for key in sorted(new)])
            repeated = {
                key
                for key, item in batches.items()
                if key not in new and known[key] == (item.digest, pack_refusals(item.batch.refused))
            }
            if repeated:
                owner = self._owner
                connection.execute(_TAKE_OVER, (*_columns(repeated, 2), owner, owner))
        return [_answer(item, oldest, known, new) for item in pending]

    def _claim_lots(self, connection: Any, pending: Iterable[PendingBatch]) -> None:
        rows = {
            (item.batch.day, item.batch.id, lot.metric, lot.version, item.digest)
            for item in pending
            for lot in item.batch.lots
        }
        if rows:
            connection.execute(_CLAIM, (self._owner, *_columns(rows, 5)))

    def promise(
        self,
        metric: str,
        version: int,
        file: str,
        reports: Mapping[BatchKey, int],
        least: int,
    ) -> tuple[set[BatchKey], bool]:
        """Promise the lots of a metric that this collector owns to a file, unless none was promised
        to it before and they have fewer reports than `least`. `reports`: of each batch. Return
        whose lots this collector owns, and whether they are promised."""
        with self._transaction() as connection:
            rows = connection.execute(
                _OWNED, (*_columns(reports, 3), metric, version, self._owner, file)
            ).fetchall()
            owned = {BatchKey(*row[:3]) for row in rows}
            is_begun = any(row[3] for row in rows)
            if not is_begun and sum(reports[key] for key in owned) < least:
                return owned, False
            if owned:
                connection.execute(_PROMISE, (file, *_columns(owned, 3)[:2], metric, version))
        return owned, True

    def forget(self, file: str) -> None:
        """Delete the rows of lots that are in a file for good."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM ldp_lots WHERE file = %s", (file,))

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None

    def _connect(self) -> Any:
        import psycopg

        if self._connection is None:
            self._connection = psycopg.connect(
                self._conninfo,
                autocommit=True,
                connect_timeout=WAIT_SECONDS,
                tcp_user_timeout=1000 * WAIT_SECONDS,
            )
            self._connection.execute(f"SET statement_timeout = '{WAIT_SECONDS}s'")
            ((durable,),) = self._connection.execute("SHOW synchronous_commit")
            if durable == "off":  # a claim that the server forgets would be a lost batch
                self._connection.execute("SET synchronous_commit = on")
        return self._connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            self.close()
            line = (str(error) or type(error).__name__).splitlines()[0]
            raise BufferUnusable(f"--shared: {line}") from None

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with self._errors():
            connection = self._connect()
            with connection.transaction():
                yield connection


def _columns(rows: Iterable[tuple[Any, ...]], number: int) -> list[list[Any]]:
    """Return sorted rows as so many columns, so that all collectors lock in one order."""
    listed = sorted(rows)
    return [[row[column] for row in listed] for column in range(number)]


def _advance(connection: Any, watermark: date) -> date:
    """Return the oldest day that all collectors take, after raising it to `watermark`; answers of
    older days are deleted, and cannot be asked for before the transaction ends."""
    raised = connection.execute(
        "UPDATE ldp_shared SET watermark = %s WHERE watermark < %s", (watermark, watermark)
    ).rowcount
    if raised:
        connection.execute("DELETE FROM ldp_batches WHERE day < %s", (watermark,))
    ((oldest,),) = connection.execute("SELECT watermark FROM ldp_shared FOR SHARE")
    return date.fromordinal(oldest.toordinal())


def _insert(
    connection: Any, batches: Mapping[tuple[date, bytes], PendingBatch]
) -> set[tuple[date, bytes]]:
    """Write batches that are not known, and return their days and ids."""
    if not batches:
        return set()
    rows = {(*key, item.digest, pack_refusals(item.batch.refused)) for key, item in batches.items()}
    return {(day, id) for day, id in connection.execute(_INSERT_BATCHES, _columns(rows, 4))}


def _answer(
    item: PendingBatch,
    oldest: date,
    known: Mapping[tuple[date, bytes], tuple[bytes, bytes]],
    new: set[tuple[date, bytes]],
) -> Answer:
    """Return the answer to a batch; the first of those that are `new` takes it out of there."""
    key = item.batch.day, item.batch.id
    if item.batch.day < oldest:
        return TOO_LATE
    if key not in known:  # everything is refused: its id is not stored
        return Answer(202, refusals_json(pack_refusals(item.batch.refused)), is_new=True)
    digest, refused = known[key]
    if digest != item.digest:
        return CONFLICT
    is_new = key in new
    new.discard(key)
    return Answer(202, refusals_json(refused), is_new)


class SharedBuffer(Buffer):
    """Connection to the buffer of a collector that shares ownership of batches at `conninfo`.

    A row of lots is of one batch, whose key stands beside it. A buffer that was shared stays so,
    with the same database: reports are never moved without asking who owns them.
    """

    def __init__(self, folder: str | Path, synchronous: str, conninfo: str) -> None:
        super().__init__(folder, synchronous)
        self._ownership = Ownership(conninfo, self._state("owner", os.urandom(16).hex()))

    def check_database(self) -> None:
        """Raise BufferUnusable unless the database is the one that this buffer was shared in."""
        identity = self._ownership.identity()
        if self._state("database", identity) != identity:
            raise BufferUnusable(
                f"{self._path} was shared in another database: name that one with --shared"
            )

    def _state(self, name: str, new: str) -> str:
        """Return what the buffer keeps under a name, `new` from now on if there is nothing."""
        with self._transaction():
            self._connection.execute(
                "INSERT INTO state VALUES (?, ?) ON CONFLICT DO NOTHING", (name, new)
            )
        ((value,),) = self._rows("SELECT value FROM state WHERE name = ?", name)
        return str(value)

    def commit(
        self, pending: Sequence[PendingBatch], today: date, lateness: timedelta
    ) -> list[Answer]:
        """Write batches in one synced transaction, claim them in one of the database, and return
        their answers, in order. Raise BufferUnusable, with nothing acknowledged, when that
        fails."""
        self._ownership.reach()
        answers: dict[int, Answer] = {}
        with self._transaction():
            watermark = self._advance_watermark(today - lateness)
            for number, item in enumerate(pending):
                answer = self._untaken(item.batch.day, watermark, today) or self._known(item)
                if answer:
                    answers[number] = answer
                else:
                    self._hold(item)
        claimed = [number for number in range(len(pending)) if number not in answers]
        if claimed:
            shared = self._ownership.claim([pending[number] for number in claimed], watermark)
            answers |= dict(zip(claimed, shared, strict=True))
        return [answers[number] for number in range(len(pending))]

    def _hold(self, item: PendingBatch) -> None:
        """Store the lots of a batch that the buffer does not hold."""
        batch = BatchKey.of(item).to_bytes()
        held = {
            metric for (metric,) in self._rows("SELECT metric FROM lots WHERE batch = ?", batch)
        }
        lots_of_metrics = self._lots_of_metrics([item.batch])
        self._insert(
            [
                row_of(metric, lots, batch)
                for metric, lots in lots_of_metrics.items()
                if metric not in held
            ]
        )

    def promise(self, metric: int, plan: Plan, least: int) -> bool:
        """Promise the lots of a plan that this collector owns to the plan's file, and drop the
        others. Return False, without a plan, where too few are left."""
        held = self._rows(
            "SELECT sequence, batch, reports FROM lots WHERE metric = ? "
            "AND sequence BETWEEN ? AND ?",
            *(metric, plan.first, plan.last),
        )
        keys = {row: BatchKey.from_bytes(batch) for row, batch, _ in held if batch is not None}
        reports = {keys[row]: number for row, _, number in held if row in keys}
        unshared = sum(number for row, _, number in held if row not in keys)
        owned, is_promised = self._ownership.promise(
            *self.name_of(metric), plan.name, reports, max(1, least) - unshared
        )
        with self._transaction():
            self._connection.executemany(
                "DELETE FROM lots WHERE sequence = ?",
                [(row,) for row, key in keys.items() if key not in owned],
            )
            if not is_promised:
                self._connection.execute("DELETE FROM plans WHERE metric = ?", (metric,))
        return is_promised

    def forget(self, metric: int, plan: Plan, most_bytes: int = 4 << 20) -> bool:
        """Delete the rows of a plan that is written from the database, then its lots as `Buffer`
        does."""
        self._ownership.forget(plan.name)
        return super().forget(metric, plan, most_bytes)

    def close(self) -> None:
        """Close both connections."""
        if hasattr(self, "_ownership"):
            self._ownership.close()
        super().close()
