"""Sealing: the reports of a period are charged in the transaction that puts them into batches.

The rules, each with its test, are in `docs/device-protocol.md`.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, timedelta
from typing import TYPE_CHECKING, TypeVar

from ldp.accounting.policy import length
from ldp.client.charges import (
    charge,
    is_agreed,
    is_new,
    is_window_sealed,
    mark_sealed,
    remaining_budget,
)
from ldp.client.device_file import Database, StorageError, forget_states, remember, state
from ldp.client.memoisation_modes import Mode
from ldp.client.periods import beginning, day_of
from ldp.client.pool import due_periods, forget_records, meaning
from ldp.client.results import Sent
from ldp.protocol.batch import ID_BYTES, Batch, Item, pack_batches
from ldp.protocol.randomness import BitSource, uniform_below
from ldp.protocol.sealed_report import Content, shuffled_group
from ldp.registry import Registry

if TYPE_CHECKING:
    from ldp.protocol.sealing_keys import PublicKey

MOST_WAITING = 4 << 20
"""Most bytes of sealed batches that wait. Beyond it the oldest are dropped, and counted."""
HELD_DAYS = 30
"""Number of later days with acknowledged batches after which a held batch is dropped."""
UNSENT = "state IN ('waiting', 'held')"
"""SQL condition of sealed batches that wait, or are held because the clock shows another time."""
MOST_PERIODS = 30
"""Most periods of a hidden group that are sealed at once. Where more are over, only the latest is.
"""
_FORGOTTEN = {"frozen": " AND NOT charged", "pool": "", "seen": ""}
"""Tables from which the rows of other versions of metrics are deleted, and the condition of the
rows to delete: what was charged stays."""
T = TypeVar("T")


class Sealer:
    """Sealer of the pooled reports of periods. A period: (its end in seconds since 1970, a group).
    `key`: a collector's key, to which every report is encrypted once. With None no report is
    encrypted."""

    def __init__(
        self,
        registry: Registry,
        modes: Mapping[str, Mode],
        bits: BitSource,
        jitter: timedelta,
        key: "PublicKey | None" = None,
    ) -> None:
        self._registry = registry
        self._modes = modes
        self._bits = bits
        self._jitter = jitter
        self._key, self._queues = key, registry.queues() if key else {}

    def public_periods(self, database: Database, now: int) -> list[tuple[int, str]]:
        """Return the periods that are over and have records, of groups with public presence. Group
        "" stands for metrics that the registry no longer has."""
        periods = ((end, self._group(name)) for end, name in due_periods(database, now))
        is_hidden = self._registry.is_hidden
        return [(end, group) for end, group in dict.fromkeys(periods) if not is_hidden(group)]

    def hidden_periods(self, database: Database, now: int) -> list[tuple[int, str]]:
        """Return the periods that are over of groups with hidden presence, by their calendars, with
        or without records. A group's calendar begins now if there is none, or if it lies in the
        future because the clock went back. A calendar that is behind by more than MOST_PERIODS goes
        on with the latest period only, so that a leap of the clock charges no more."""
        periods: list[tuple[int, str]] = []
        for name, group in self._registry.groups.items():
            if not self._registry.is_hidden(name) or not is_agreed(database, name):
                continue
            span, last = length(group.caps.window), state(database, _calendar(name))
            current = beginning(now, group.caps.window)
            if last is None or last > current:
                remember(database, _calendar(name), current)
                continue
            first = last - last % span + span
            if current - first >= MOST_PERIODS * span:
                first = current
            periods += [(end, name) for end in range(first, current + 1, span)]
        return sorted(periods)

    def seal(self, database: Database, periods: list[tuple[int, str]], now: int) -> None:
        """Charge what these periods may send, write it as sealed batches, and delete all else that
        they pooled. Call it in a synced transaction: nothing leaves before it ends."""
        items, latest = list[Item](), {group: end for end, group in sorted(periods)}
        day = day_of(now)
        for end, group in periods:
            if self._may_seal(database, group, end, is_latest=end == latest[group], day=day):
                items += self._charged_items(database, group, end)
            self._forget(database, group, end)
        self._forget_what_is_over(database, day_of(max(end for end, _ in periods) - 1))
        for batch_items, packed in self._packed(random_order(items, self._bits), day):
            groups = {self._group(item.metric) for item in batch_items}
            lateness = min(self._registry.groups[group].lateness for group in groups)
            identity = self._bits.draw(8 * ID_BYTES).to_bytes(ID_BYTES, "little")
            database.execute(
                "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, 'waiting', ?)",
                (
                    identity,
                    day.isoformat(),
                    (day + lateness).isoformat(),
                    now + uniform_below(self._bits, 1 + round(self._jitter.total_seconds())),
                    json.dumps(Counter(item.metric for item in batch_items)),
                    Batch(identity, day, batch_items).to_bytes(),
                    Batch(identity, day, packed).to_bytes() if self._key else None,
                ),
            )

    def _may_seal(
        self, database: Database, group: str, end: int, *, is_latest: bool, day: date
    ) -> bool:
        """Return whether a group's period may be sealed. Each is sealed once at most. Where a
        shuffler is trusted, a key is needed, only the latest period that is over is sealed, and the
        group has one on a `day` at most, so that no two of its records are sealed on one day."""
        registry = self._registry
        if group not in registry.groups or is_window_sealed(database, group, end):
            return False
        if not registry.groups[group].needs_shuffler:
            return True
        sealed = database.execute("SELECT contents FROM batches WHERE day = ?", (str(day),))
        metrics = {name for (contents,) in sealed for name in json.loads(contents)}
        is_first = group not in map(self._group, metrics)
        return is_latest and is_first and self._key is not None

    def _packed(
        self, items: list[Item], day: date
    ) -> Iterator[tuple[tuple[Item, ...], tuple[Item, ...]]]:
        """Yield the items of each batch, readable and as they leave. The messages of one record for
        a shuffler are sealed one by one, in a batch of their own, always of the same number."""
        metrics, reports = self._registry.metrics, list[Item]()
        for item in items:
            if not metrics[item.metric].needs_shuffler:
                reports.append(item)
                continue
            split = metrics[item.metric].mechanism.split(item.report)
            messages = tuple(item._replace(report=message) for message in split)
            yield messages, tuple(self._encrypted(message, day) for message in messages)
        for packed in pack_batches([self._encrypted(item, day) for item in reports]):
            yield tuple(reports[: len(packed)]), packed
            reports = reports[len(packed) :]

    def _encrypted(self, item: Item, day: date) -> Item:
        """Return the item that leaves the device for a report: encrypted if there is a key."""
        if self._key is None:
            return item
        queue = self._registry.metrics[item.metric].queue
        return self._key.seal(queue, self._queues[queue].size, Content(day, item))

    def _charged_items(self, database: Database, group: str, end: int) -> list[Item]:
        """Return the reports that a group may send of one period, and charge them. The order of the
        metrics is drawn before any pool is read. The unused part of a grant lapses."""
        metrics, day = self._registry.metrics_of(group), day_of(end - 1)
        modes = [
            self._modes[metric.name]
            for metric in metrics
            if metric.expires >= day and not is_new(database, metric.name)
        ]
        items, remaining = list[Item](), remaining_budget(database, self._registry, group, end)
        for mode in random_order(modes, self._bits):
            grant = mode.grant(database, end, remaining)
            remaining = grant.taken_from(remaining)
            reports, times = mode.take(database, end, grant)
            if times:
                charge(database, group, mode.metric, end, times, mode.span(database, end))
            items += [Item(mode.metric.name, mode.metric.version, report) for report in reports]
        if items:
            mark_sealed(database, group, end)
        return items

    def _forget(self, database: Database, group: str, end: int) -> None:
        """Delete what the period pooled, and the epochs that ended before it without a charge."""
        for other_end, name in due_periods(database, end):
            if self._group(name) == group:
                forget_records(database, "WHERE ends = ? AND metric = ?", other_end, name)
        # what is paid for outlives a leap
        over = "FROM frozen WHERE NOT charged AND ends < ?"
        for (name,) in database.execute(f"SELECT DISTINCT metric {over}", (end,)).fetchall():
            if self._group(name) in (group, ""):
                database.execute(f"DELETE {over} AND metric = ?", (end, name))
        if self._registry.is_hidden(group):
            remember(database, _calendar(group), end)

    def _forget_what_is_over(self, database: Database, day: date) -> None:
        """Delete responses that were not charged, of other versions of the registry and of metrics
        that expired before `day`: nothing is set aside for them in the windows of those records."""
        metrics = self._registry.metrics.values()
        current = {meaning(metric) for metric in metrics if metric.expires >= day}
        for key in database.execute(
            "SELECT metric, version, meaning FROM frozen WHERE NOT charged"
        ).fetchall():
            for table, rest in _FORGOTTEN.items() if key not in current else ():
                database.execute(
                    f"DELETE FROM {table} WHERE (metric, version, meaning) = (?, ?, ?){rest}", key
                )

    def _group(self, metric: str) -> str:
        metrics = self._registry.metrics
        return metrics[metric].group if metric in metrics else ""


def stop_calendars(database: Database) -> None:
    """Delete the calendars of hidden groups, which begin again with the next consent."""
    forget_states(database, _calendar(""))


def first_kept_day(now: int, keep_sent: timedelta) -> str:
    """Return the first day of sealing whose sent batches are kept, as YYYY-MM-DD. It is the day
    after today where nothing is kept."""
    today = day_of(now)
    if not keep_sent:
        return (today + timedelta(days=1)).isoformat()
    return (today - min(keep_sent, today - date.min)).isoformat()


def drop(database: Database, now: int, keep_sent: timedelta) -> None:
    """Hold batches that no collector takes on the clock's day until the clock shows another. Drop
    held batches once batches of HELD_DAYS later days were taken. Beyond MOST_WAITING bytes drop
    held batches first, then the oldest. Delete the bytes of sent batches after `keep_sent`."""
    today = day_of(now).isoformat()
    database.execute(
        "UPDATE batches SET body = NULL WHERE state = 'acknowledged' AND NOT day BETWEEN ? AND ?",
        (first_kept_day(now, keep_sent), today),
    )
    for before, after, are in (("waiting", "held", "NOT"), ("held", "waiting", "")):
        database.execute(
            f"UPDATE batches SET state = ? WHERE state = ? AND {are} ? BETWEEN day AND last_day",
            (after, before, today),
        )
    taken = database.execute(
        "SELECT DISTINCT day FROM batches WHERE state = 'acknowledged' "
        "ORDER BY day DESC LIMIT 1 OFFSET ?",
        (HELD_DAYS - 1,),
    ).fetchone()
    total = 0
    for identity, size, is_over in database.execute(
        "SELECT id, length(coalesce(sealed, body)), state = 'held' AND last_day < ? "
        f"FROM batches WHERE {UNSENT} ORDER BY state DESC, day DESC, id",
        taken or ("",),
    ).fetchall():
        total += size
        if is_over or total > MOST_WAITING:
            _give_up(database, identity, "dropped")


def _give_up(database: Database, identity: bytes, outcome: str) -> None:
    """Delete the contents of a batch that will never be sent, and note the `outcome`."""
    emptied = "body = NULL, sealed = NULL, not_before = 0"
    database.execute(f"UPDATE batches SET state = ?, {emptied} WHERE id = ?", (outcome, identity))


def last_day(database: Database, registry: Registry) -> date:
    """Return the latest day on which something was sealed, or recorded in a period that is not over
    (its beginning at the latest). It is later than the clock's day where the clock leaped and went
    back."""
    longest = max(length(group.caps.window) for group in registry.groups.values())
    begun = "SELECT date(max(ends) - ?, 'unixepoch') AS day FROM seen"
    query = f"SELECT max(day) FROM ({begun} UNION ALL SELECT day FROM batches)"
    (day,) = database.execute(query, (longest,)).fetchone()
    with _damages():
        return date.fromisoformat(day) if day else date.min


def read_sent(database: Database, registry: Registry, first_day: str) -> list[Sent]:
    """Return every batch, by day. It states what its reports say while it waits to be sent, and
    after that if its day is `first_day` (as YYYY-MM-DD) or later and its bytes were kept."""
    rows = database.execute(
        f"SELECT day, contents, state, CASE WHEN {UNSENT} OR day >= ? THEN body END "
        "FROM batches ORDER BY day, id",
        (first_day,),
    ).fetchall()
    from ldp.registry.answers import StatementReader  # late: most apps never ask

    reader = StatementReader(registry)
    with _damages():
        return [
            Sent(
                date.fromisoformat(day),
                json.loads(contents),
                state,
                tuple(map(reader.read, Batch.from_bytes(body).items)) if body else (),
            )
            for day, contents, state, body in rows
        ]


@contextmanager
def _damages() -> Iterator[None]:
    """Raise what cannot be read in the block as StorageError."""
    try:
        yield
    except ValueError as error:
        raise StorageError(f"a sealed batch is damaged: {error}") from None


def withdraw_shuffled(database: Database, registry: Registry, groups: Collection[str]) -> None:
    """Delete what waits, pooled or sealed, of metrics that need a shuffler and are not in
    `groups`."""
    for metric in registry.metrics.values():
        if metric.needs_shuffler and metric.group not in groups:
            forget_records(database, "WHERE metric = ?", metric.name)
    waiting = f"SELECT id, sealed FROM batches WHERE {UNSENT} AND sealed NOT NULL"
    for identity, sealed in database.execute(waiting).fetchall():
        if (group := shuffled_group(sealed)) and group not in groups:
            _give_up(database, identity, "withdrawn")


def random_order(items: list[T], bits: BitSource) -> list[T]:
    """Return the items in a uniformly random order (Durstenfeld 1964)."""
    order = list(items)
    for i in range(len(order) - 1, 0, -1):
        j = uniform_below(bits, i + 1)
        order[i], order[j] = order[j], order[i]
    return order


def _calendar(group: str) -> str:
    return f"sealed {group}"
