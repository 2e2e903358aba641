"""The client: five lines in an app, and never more than its caps allow.

What it does when, and why, is `docs/device-protocol.md`; each sentence there names its test.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

from ldp.accounting.explain import in_words
from ldp.channel import round_up
from ldp.client import periods
from ldp.client.destinations import Destination, Unreachable
from ldp.client.device_file import DeviceFile, StorageError, remember, state
from ldp.client.results import Consent, Declined, Recorded, Sent, Status, Uploaded
from ldp.errors import ParameterError
from ldp.mechanisms.base import Value
from ldp.randomness import BitSource, SystemBits, uniform_below
from ldp.registry import Metric, Registry

FIRST_WAIT, LONGEST_WAIT = 60, 6 * 3600
"""Seconds: bounds of the waits after failed uploads; each is uniform up to twice the last bound."""
MOST_BATCHES = 20
"""Batches of one upload."""


def system_clock() -> datetime:
    return datetime.now(UTC)


class Client:
    """Records what an app tells it, and sends what the registry's caps allow.

    `path`: the device's file, made when consent is given. `registry`: metrics.toml, or one that is
    loaded. `destination`: where sealed batches go. `clock`: the time, with a zone. `bits`: the
    source of private randomness. `jitter`: a sealed batch waits a uniform time up to this. With
    `strict` a mistake of the app (an unknown metric, a value the mechanism does not know) raises
    ParameterError and storage that fails StorageError; without it nothing raises.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        registry: str | Path | Registry,
        destination: Destination | None = None,
        clock: Callable[[], datetime] = system_clock,
        bits: BitSource | None = None,
        jitter: timedelta = timedelta(hours=1),
        strict: bool = False,
    ) -> None:
        self._path = Path(path)
        self._registry = registry if isinstance(registry, Registry) else Registry.load(registry)
        self._destination = destination
        self._clock = clock
        self._bits = SystemBits() if bits is None else bits
        self._jitter = jitter
        self._strict = strict
        self._file: DeviceFile | None = None
        self._sending = threading.Lock()
        self._stopped = threading.Event()
        self._encoders = {
            name: metric.mechanism.encoder(self._bits)
            for name, metric in self._registry.metrics.items()
        }

    @property
    def consent(self) -> Consent:
        """What the device's owner said last."""
        return self.status().consent

    def grant(self) -> bool:
        """The owner agrees; whether that could be written down."""
        return self._say("granted")

    def withdraw(self) -> bool:
        """The owner does not, or no longer: the pool and what is sealed are deleted, and nothing is
        sent once this returns. What was spent stays spent."""
        with self._sending:
            return self._say("withdrawn")

    def record(self, metric: str, value: Value) -> Recorded | Declined:
        """Takes one record, in well under a millisecond; whether it was drawn is not said."""
        try:
            return self._record(metric, value)
        except StorageError as error:
            if self._strict:
                raise
            return Declined("busy" if error.busy else "storage", str(error))

    def upload(self) -> Uploaded:
        """Seals what is due and sends at most MOST_BATCHES batches; one bounded call. Without
        consent, or before the wait after a failure is over, it does nothing."""
        try:
            return self._upload()
        except StorageError as error:
            if self._strict:
                raise
            return Uploaded(why=str(error))

    def start(self, every: timedelta = timedelta(hours=1)) -> None:
        """Uploads from a daemon thread from now on; off until this is called."""

        def run() -> None:
            while not self._stopped.wait(every.total_seconds()):
                self.upload()

        threading.Thread(target=run, name="ldp upload", daemon=True).start()

    def remaining(self) -> dict[str, float]:
        """For every group the epsilon that could still be spent now, rounded down; none where the
        file cannot be read."""
        groups = self._registry.groups
        try:
            with self._reading() as connection:
                now = self._now(connection)
                left = {
                    name: periods.allowance(group.caps, self._spent(connection, name), now)
                    for name, group in groups.items()
                }
        except StorageError:
            return dict.fromkeys(groups, 0.0)
        return {name: abs(round_up(-epsilon)) for name, epsilon in left.items()}

    def status(self) -> Status:
        """Consent, storage and how much waits."""
        try:
            with self._reading() as connection:
                if connection is None:
                    return Status("unknown", "", 0, 0, 0, 0, 0)
                states = dict(
                    connection.execute("SELECT state, count(*) FROM batches GROUP BY state")
                )
                pooled = connection.execute("SELECT count(*) FROM pool").fetchone()[0]
                return Status(
                    consent=state(connection, "consent", "unknown"),
                    storage="",
                    pooled=pooled,
                    waiting=states.get("waiting", 0),
                    acknowledged=states.get("acknowledged", 0),
                    refused=state(connection, "refused", 0),
                    dropped=states.get("dropped", 0),
                )
        except StorageError as error:
            return Status("unknown", str(error), 0, 0, 0, 0, 0)

    def sent(self) -> list[Sent]:
        """Every batch that was sealed, by day: what left, what waits, what was dropped."""
        query = "SELECT day, contents, state FROM batches ORDER BY day, id"
        try:
            with self._reading() as connection:
                found = connection.execute(query).fetchall() if connection else []
        except StorageError:
            return []
        return [
            Sent(date.fromisoformat(day), json.loads(contents), stands)
            for day, contents, stands in found
        ]

    def explain(self) -> str:
        """What this device may say, in plain words, for its owner."""
        remaining, lines = self.remaining(), list[str]()
        for name, group in self._registry.groups.items():
            caps = group.caps
            hours = caps.window / timedelta(hours=1)
            lines.append(
                f"{name}: at most epsilon {caps.window_epsilon:g} in any {hours:g} hours and "
                f"{caps.lifetime_epsilon:g} for life on this device; {remaining[name]:g} could "
                "still be spent now. A person with several devices has several such allowances."
            )
            for metric in self._registry.metrics.values():
                if metric.group == name:
                    lines.append(
                        f"  {metric.name}: {metric.description}. Up to "
                        f"{metric.reports_per_window} of a period's records are sent; how many is "
                        f"visible. {in_words(metric.mechanism.cost.epsilon)}"
                    )
        return "\n".join(lines)

    def close(self) -> None:
        """Stops the thread and closes the file."""
        self._stopped.set()
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self._registry.product}, consent {self.consent}>"

    def _record(self, name: str, value: Value) -> Recorded | Declined:
        metric = self._registry.metrics.get(name)
        if metric is None:
            return self._mistake(Declined("unknown metric", f"no metric {name!r} is registered"))
        if not self._exists():
            return Declined("consent", "nobody has agreed yet")
        try:
            metric.mechanism.check(value)
        except ParameterError as error:
            return self._mistake(Declined("value", str(error)))
        while True:
            with self._device().transaction() as connection:
                if state(connection, "consent") != "granted":
                    return Declined("consent", "the owner does not agree")
                now = self._now(connection)
                if not periods.due(connection, now):
                    return self._pooled(connection, metric, value, now)
            self._seal()

    def _pooled(
        self, connection: Any, metric: Metric, value: Value, now: int
    ) -> Recorded | Declined:
        if metric.expires < datetime.fromtimestamp(now, UTC).date():
            return Declined("expired", f"metric {metric.name!r} expired on {metric.expires}")
        caps = self._registry.groups[metric.group].caps
        spent = sum((epsilon for _, epsilon in self._spent(connection, metric.group)), Fraction(0))
        if Fraction(caps.lifetime_epsilon) - spent < Fraction(metric.mechanism.cost.epsilon):
            return Declined("cap", f"group {metric.group!r} has spent its lifetime")
        ends = periods.period_end(now, caps.window)
        encoder = self._encoders[metric.name]
        periods.enter(connection, metric, ends, self._bits, lambda: encoder.encode(value))
        return Recorded()

    def _seal(self) -> None:
        with self._device().transaction(synced=True) as connection:
            now = self._now(connection)
            if periods.due(connection, now):
                periods.seal(connection, self._registry, now, self._bits, self._jitter)

    def _upload(self) -> Uploaded:
        if not self._exists():
            return Uploaded(why="consent")
        self._seal()
        total = Uploaded()
        for _ in range(MOST_BATCHES):
            with self._sending:
                one = self._send_one()
            total = Uploaded(
                total.acknowledged + one.acknowledged,
                total.refused + one.refused,
                one.waiting,
                one.why,
            )
            if not one.acknowledged or not one.waiting:
                return total
        return replace(total, why="enough for one call")

    def _send_one(self) -> Uploaded:
        """Sends one batch, if there is one and it may leave now."""
        with self._device().transaction() as connection:
            if state(connection, "consent") != "granted":
                return Uploaded(why="consent")
            waiting = connection.execute(
                "SELECT count(*) FROM batches WHERE state = 'waiting'"
            ).fetchone()[0]
            now = self._now(connection)
            clock = round(self._clock().timestamp())
            if waiting and clock < state(connection, "next_try", 0) <= clock + LONGEST_WAIT:
                return Uploaded(waiting=waiting, why="waits after a failure")
            found = connection.execute(
                "SELECT id, body FROM batches WHERE state = 'waiting' AND not_before <= ? "
                "ORDER BY id LIMIT 1",
                (now,),
            ).fetchone()
        if found is None:
            return Uploaded(waiting=waiting, why="waits for its random moment" if waiting else "")
        if self._destination is None:
            return Uploaded(waiting=waiting, why="there is no destination")
        try:
            refused = self._destination.send(*found)
        except Unreachable as error:
            self._failed(clock, error.retry_after)
            return Uploaded(waiting=waiting, why=str(error))
        self._acknowledged(found[0], refused)
        return Uploaded(1, refused, waiting - 1)

    def _failed(self, now: int, retry_after: float) -> None:
        """The next try: exponential backoff with full jitter, which survives a restart."""
        with self._device().transaction() as connection:
            failures = state(connection, "failures", 0) + 1
            longest = min(LONGEST_WAIT, FIRST_WAIT << min(failures, 16))
            wait = max(uniform_below(self._bits, longest + 1), min(retry_after, LONGEST_WAIT))
            remember(connection, "failures", failures)
            remember(connection, "next_try", now + round(wait))

    def _acknowledged(self, identity: bytes, refused: int) -> None:
        with self._device().transaction() as connection:
            connection.execute(
                "UPDATE batches SET state = 'acknowledged', body = NULL "
                "WHERE id = ? AND state = 'waiting'",
                (identity,),
            )
            remember(connection, "failures", 0)
            remember(connection, "refused", state(connection, "refused", 0) + refused)

    def _say(self, consent: Consent) -> bool:
        try:
            with self._device().transaction(synced=True) as connection:
                remember(connection, "consent", consent)
                if consent != "granted":
                    connection.execute("DELETE FROM pool")
                    connection.execute("DELETE FROM seen")
                    connection.execute("DELETE FROM batches WHERE state = 'waiting'")
        except StorageError:
            if self._strict:
                raise
            return False
        return True

    def _mistake(self, declined: Declined) -> Declined:
        if self._strict:
            raise ParameterError(declined.details)
        return declined

    def _exists(self) -> bool:
        return self._file is not None or self._path.exists()

    def _device(self) -> DeviceFile:
        if self._file is None:
            self._file = DeviceFile(self._path)
        return self._file

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """The file's connection, or None where there is no file."""
        if not self._exists():
            yield None
            return
        with self._device().transaction() as connection:
            yield connection

    def _now(self, connection: Any) -> int:
        clock = self._clock()
        return periods.ledger_time(connection, clock) if connection else round(clock.timestamp())

    def _spent(self, connection: Any, group: str) -> list[tuple[int, Fraction]]:
        return periods.charged(connection, self._registry, group) if connection else []
