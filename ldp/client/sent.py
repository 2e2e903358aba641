"""Reading of the sealed batches in a device's file, for its owner."""

import json
from datetime import date

from ldp.client.device_file import Database
from ldp.client.results import Sent
from ldp.client.sealing import UNSENT
from ldp.protocol.batch import Batch
from ldp.registry import Registry
from ldp.registry.answers import StatementReader


def read_sent(database: Database, registry: Registry, first_day: str) -> list[Sent]:
    """Return every batch, by day. It states what its reports say while it waits to be sent, and
    after that if its day is `first_day` (as YYYY-MM-DD) or later and its bytes were kept."""
    rows = database.execute(
        f"SELECT day, contents, state, CASE WHEN {UNSENT} OR day >= ? THEN body END "
        "FROM batches ORDER BY day, id",
        (first_day,),
    ).fetchall()
    reader = StatementReader(registry)
    return [
        Sent(
            date.fromisoformat(day),
            json.loads(contents),
            state,
            tuple(map(reader.read, Batch.from_bytes(body).items)) if body else (),
        )
        for day, contents, state, body in rows
    ]
