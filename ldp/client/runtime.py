"""The client: five lines in an app, and never more than its caps allow.

What it does when, and why, is `docs/device-protocol.md`; each sentence there names its test.
"""

import json
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from sqlite3 import Connection
from types import TracebackType
from typing import Any, Literal, TypeVar
from weakref import WeakSet

from ldp.client import periods
from ldp.client.charges import TERMS, agree, left, life_left, unasked
from ldp.client.destinations import Destination
from ldp.client.device_file import DeviceFile, StorageError, remember, state
from ldp.client.memoisation_modes import modes_of
from ldp.client.pool import settle, withdraw_epochs
from ldp.client.responses import AccountSecret, Responses, SecretFile
from ldp.client.results import Consent, Declined, Recorded, Sent, Status, Uploaded
from ldp.client.sealing import Sealer, drop, stop_calendars
from ldp.client.sending import Sender, error_line
from ldp.client.witness import LOSSES, DefaultWitness, NoWitness, Witness
from ldp.errors import ParameterError
from ldp.protocol.batch import HEAD_BYTES, MOST_BYTES, Item
from ldp.protocol.channel import round_down
from ldp.protocol.hashing import Value
from ldp.protocol.randomness import BitSource, SeededBits, SystemBits
from ldp.protocol.wire import HEADER_BYTES
from ldp.registry import Metric, Registry

T = TypeVar("T")


def system_clock() -> datetime:
    return datetime.now(UTC)


class Client:
    """Records what an app tells it, and sends what the registry's caps allow.

    `path`: the device's file, made when consent is given. `registry`: metrics.toml, or one that is
    loaded. `destination`: where sealed batches go. `clock`: the time, with a zone. `bits`: the
    source of private randomness. `jitter`: a sealed batch waits a uniform time up to this.
    `secret`: an account's, for devices that are to share permanent responses; without it the
    device makes its own, in `path` with `.secret` added, and a withdrawal deletes it. `witness`: a
    file outside backups, by which a restored copy of `path` is noticed and refused; by default one
    in the user's state folder (`ldp.client.witness.state_folder`), with False none. With
    `strict` a mistake of the app (an unknown metric, a value the mechanism does not know) raises
    ParameterError and storage that fails StorageError; without it no method raises. The constructor
    raises RegistryError and ParameterError.
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
        secret: bytes | None = None,
        witness: str | Path | Literal[False] | None = None,
        strict: bool = False,
    ) -> None:
        self._path = Path(path).absolute()
        self._registry = registry if isinstance(registry, Registry) else Registry.load(registry)
        self._clock = clock
        self._bits = SystemBits() if bits is None else bits
        if jitter < timedelta(0):
            raise ParameterError("jitter must not be negative")
        if destination is not None and not callable(getattr(destination, "send", None)):
            raise ParameterError(
                'destination must have a method send: Collector("https://...") or Folder("outbox")'
            )
        if type(self._bits) is SeededBits:
            warnings.warn(
                "these bits are known to whoever knows the seed: for tests and simulations only",
                stacklevel=2,
            )
        self._strict = strict
        for metric in self._registry.metrics.values():
            _require_sendable(metric)
        own = SecretFile(self._path.with_name(f"{self._path.name}.secret"))
        product = self._registry.product
        self._secret = own if secret is None else AccountSecret(secret, product)
        responses = Responses(self._registry.metrics.values(), self._bits, self._secret)
        self._modes = modes_of(self._registry, responses, self._bits)
        self._sealer = Sealer(self._registry, self._modes, self._bits, jitter)
        self._witness = _witness(witness, self._path)
        self._file: DeviceFile | None = None
        self._sender = Sender(destination, clock, self._bits)
        self._consent: Consent = "unknown"
        self._is_withdrawing = self._is_closed = False
        _CLIENTS.add(self)

    @property
    def consent(self) -> Consent:
        """What the device's owner said last; while the file is busy, what was known last."""
        return self.status().consent

    def grant(self) -> bool:
        """Note that the owner agrees to the caps of this registry; return whether that could be
        written down. Where a later registry allows more, these hold until `grant` is called
        again."""

        def agree() -> bool:
            if self._is_withdrawing:  # what waits was recorded before the withdrawal
                self._say("withdrawn")
            return self._say("granted")

        return self._safely(agree, lambda _: False)

    def withdraw(self) -> bool:
        """The owner does not, or no longer: the pool and what is sealed are deleted, and when this
        returns the client sends nothing more. What was spent stays spent. False: it could not be
        written down; this client records and sends nothing, and tries again with every call."""
        self._is_withdrawing = True
        written = self._safely(lambda: self._say("withdrawn"), lambda _: False)
        self._sender.wait()
        return written

    def record(self, metric: str, value: Value) -> Recorded | Declined:
        """Takes one record, in well under a millisecond; whether it was drawn is not said. The
        value of a joint metric is a tuple, one value for each of its members."""
        return self._safely(lambda: self._record(metric, value), _declined)

    def upload(self) -> Uploaded:
        """Seals what is due and sends at most MOST_BATCHES batches; one bounded call. Without
        consent, or before the wait after a failure is over, it does nothing."""
        return self._safely(self._upload, lambda error: Uploaded(why=error_line(error)))

    def start(self, every: timedelta = timedelta(hours=1)) -> None:
        """Uploads from a daemon thread, the first time within a minute; off until this is called.
        Raises ParameterError unless `every` is longer than nothing."""
        if every <= timedelta(0):
            raise ParameterError("every must be longer than nothing")
        self._safely(lambda: self._sender.start(self.upload, every), lambda _: None)

    def remaining(self) -> dict[str, float]:
        """Return for every group the epsilon that the window which runs could still spend, rounded
        down; 0 where the file cannot be read."""
        groups = self._registry.groups
        return self._safely(
            lambda: {name: round_down(epsilon) for name, epsilon in self._left().items()},
            lambda _: dict.fromkeys(groups, 0.0),
        )

    def status(self) -> Status:
        """Consent, storage and how much waits."""
        return self._safely(
            self._status, lambda error: Status(self._consent, storage=error_line(error))
        )

    def pending(self) -> dict[str, int]:
        """Reports that are sealed and wait to be sent, by metric."""
        waiting = Counter[str]()
        for batch in self.sent():
            if batch.state == "waiting":
                waiting.update(batch.reports)
        return dict(waiting)

    def sent(self) -> list[Sent]:
        """Every batch that was sealed, by day: what left, what waits, what was dropped."""
        return self._safely(self._sent, lambda _: [])

    def explain(self) -> str:
        """What this device may say, and what it still could, in plain words, for its owner."""
        return self._safely(self._explain, error_line)

    def close(self) -> None:
        """Stops the thread, after what it is sending, and closes the file for good."""
        self._is_closed = True
        self._sender.stop()
        if (file := self._file) is not None:
            file.close()

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
        return f"<Client of {self._registry.product}, consent {self._consent}>"

    def _safely(self, work: Callable[[], T], otherwise: Callable[[Exception], T]) -> T:
        """What `work` gives; if it fails, what an app is answered."""
        try:
            return work()
        except Exception as error:
            if self._strict:
                raise
            return otherwise(error)

    def _record(self, name: str, value: Any) -> Recorded | Declined:
        metric = self._registry.metrics.get(name) if isinstance(name, str) else None
        if metric is None:
            return self._mistake(Declined("unknown metric", "no such metric is registered"))
        if not self._may_write():
            return Declined("consent", "nobody has agreed yet")
        value = metric.cleaned(value)
        try:
            metric.mechanism.check(value)
        except ParameterError as error:
            return self._mistake(Declined("value", str(error)))
        may_seal = metric.presence == "public"  # a hidden record decides nothing about sending
        while True:
            with self._device().transaction() as connection:
                if self._consented(connection) != "granted":
                    return Declined("consent", "the owner does not agree")
                self._witness.check(connection)
                settle(connection, self._registry)
                now = periods.ledger_time(connection, self._clock())
                if not (may_seal and self._sealer.public_due(connection, now)):
                    return self._entered(connection, metric, value, now)
            self._seal(uploads=False)
            may_seal = False

    def _entered(
        self, connection: Connection, metric: Metric, value: Value, now: int
    ) -> Recorded | Declined:
        if metric.expires < periods.day_of(now):
            return Declined("expired", f"metric {metric.name!r} expired on {metric.expires}")
        mode, life = self._modes[metric.name], life_left(connection, self._registry, metric.group)
        if (frozen := mode.current_response(connection, now)) and not frozen.response:
            return Declined("cap", "what this epoch may tell was told before the withdrawal")
        if Fraction(metric.price) > life and not (frozen and frozen.charged):
            if metric.group in unasked(connection, self._registry):
                return Declined("consent", f"group {metric.group!r} allows more now: ask again")
            return Declined("cap", f"group {metric.group!r} has spent its lifetime")
        if metric.presence == "public":  # a hidden record does not even move the file's time
            periods.keep_time(connection, self._registry, now)
        mode.enter(connection, value, now)
        return Recorded()

    def _seal(self, uploads: bool) -> None:
        """Seals what is due; of groups that hide their presence only in an upload, so that no
        record ever decides when they are sealed."""
        with self._device().transaction(synced=True) as connection:
            if self._consented(connection) != "granted":
                return
            self._witness.check(connection)
            settle(connection, self._registry)
            if state(connection, TERMS) is None:
                agree(connection, self._registry)
            now = periods.ledger_time(connection, self._clock())
            ended = self._sealer.public_due(connection, now)
            if uploads:
                ended = sorted(ended + self._sealer.hidden_due(connection, now))
            if ended:
                periods.keep_time(connection, self._registry, now)
                self._sealer.seal(connection, ended, now)
            if ended or state(connection, "mark") is None:
                self._witness.announce(connection)
            drop(connection, now)

    def _upload(self) -> Uploaded:
        if not self._may_write():
            return Uploaded(why="consent")
        self._seal(uploads=True)
        return self._sender.send(self._device, self._may_send)

    def _may_send(self, connection: Connection) -> bool:
        """Return whether batches may leave; raise StorageError for a restored copy of the file."""
        if self._is_withdrawing or self._consented(connection) != "granted":
            return False
        self._witness.confirm(connection)
        return True

    def _say(self, consent: Consent) -> bool:
        device = self._device()
        with device.transaction(synced=True) as connection:
            is_known = self._is_known(connection)
            remember(connection, "consent", consent)
            if consent == "granted":
                agree(connection, self._registry)
                now = periods.ledger_time(connection, self._clock())
                self._sealer.hidden_due(connection, now)
            else:
                self._delete(connection)
            if is_known:  # an older copy must not bring the other answer back
                with suppress(StorageError, OSError):
                    self._witness.announce(connection)
        if is_known:
            with suppress(StorageError, OSError), device.transaction() as connection:
                self._witness.confirm(connection)
        self._consent, self._is_withdrawing = consent, False
        return True

    def _delete(self, connection: Connection) -> None:
        """What a withdrawal deletes."""
        for table in ("pool", "seen"):
            connection.execute(f"DELETE FROM {table}")
        withdraw_epochs(connection)
        stop_calendars(connection)
        self._secret.delete()
        connection.execute(
            "UPDATE batches SET state = 'withdrawn', body = NULL, not_before = 0 "
            "WHERE state = 'waiting'"
        )

    def _is_known(self, connection: Connection) -> bool:
        """Whether the witness, if there is one, knows the file."""
        try:
            self._witness.check(connection)
        except (StorageError, OSError):
            return False
        return True

    def _left(self) -> dict[str, Fraction]:
        groups = self._registry.groups
        if not self._exists():
            device = self._registry.lifetime_epsilon
            return {
                name: Fraction(min(g.caps.window_epsilon, g.caps.lifetime_epsilon, device))
                for name, g in groups.items()
            }
        with self._device().transaction(reads=True) as connection:
            now = periods.ledger_time(connection, self._clock())
            return {
                name: self._left_of(connection, name, periods.ending(now, group.caps.window))
                for name, group in groups.items()
            }

    def _left_of(self, connection: Connection, group: str, ends: int) -> Fraction:
        """What could still be charged for the period that ends then, epochs included."""
        remaining = left(connection, self._registry, group, ends)
        aside = self._registry.set_aside(group, periods.day_of(ends - 1))
        return max(Fraction(0), min(remaining.life, remaining.window + aside))

    def _explain(self) -> str:
        from ldp.registry.explaining import explained  # late: most apps never ask

        left = [f"{name}: {_downwards(left)}" for name, left in self.remaining().items()]
        return f"{explained(self._registry)}\nEpsilon that could still be spent: {', '.join(left)}"

    def _status(self) -> Status:
        if not self._exists():
            return Status("unknown")
        with self._device().transaction(reads=True) as connection:
            found = connection.execute("SELECT state, count(*) FROM batches GROUP BY state")
            states = dict(found.fetchall())
            return Status(
                storage=self._witness.problem(connection),
                consent="withdrawn" if self._is_withdrawing else self._consented(connection),
                pooled=connection.execute("SELECT count(*) FROM pool").fetchone()[0],
                waiting=states.get("waiting", 0),
                acknowledged=states.get("acknowledged", 0),
                refused=state(connection, "refused", 0),
                dropped=states.get("dropped", 0),
                unasked=unasked(connection, self._registry),
                witnesses_lost=state(connection, LOSSES, 0),
            )

    def _sent(self) -> list[Sent]:
        if not self._exists():
            return []
        with self._device().transaction(reads=True) as connection:
            found = connection.execute(
                "SELECT day, contents, state FROM batches ORDER BY day, id"
            ).fetchall()
        return [
            Sent(date.fromisoformat(day), json.loads(contents), stands)
            for day, contents, stands in found
        ]

    def _consented(self, connection: Connection) -> Consent:
        self._consent = state(connection, "consent", "unknown")
        return self._consent

    def _may_write(self) -> bool:
        """Whether the owner may have agreed; writes down first that he does not any more."""
        if self._is_withdrawing:
            self._say("withdrawn")
        return self._exists()

    def _mistake(self, declined: Declined) -> Declined:
        if self._strict:
            raise ParameterError(declined.details)
        return declined

    def _exists(self) -> bool:
        return self._file is not None or self._path.exists()

    def _device(self) -> DeviceFile:
        if self._is_closed:
            raise StorageError("the client is closed")
        file = self._file or DeviceFile(self._path)
        self._file = file
        return file


def _witness(named: str | Path | Literal[False] | None, device: Path) -> Witness | NoWitness:
    if named is None:
        return DefaultWitness(device)
    return Witness(Path(named).absolute(), DefaultWitness(device)) if named else NoWitness()


def _require_sendable(metric: Metric) -> None:
    """Raises ParameterError for a metric whose reports do not fit into a batch."""
    report = bytes(HEADER_BYTES + metric.mechanism.layout.body_bytes)
    if HEAD_BYTES + Item(metric.name, metric.version, report).size > MOST_BYTES:
        raise ParameterError(f"a report of metric {metric.name!r} is larger than any batch")


def _downwards(epsilon: float) -> str:
    return f"{math.floor(1000 * epsilon) / 1000:g}"


def _declined(error: Exception) -> Declined:
    if isinstance(error, StorageError):
        return Declined("busy" if error.busy else "storage", str(error))
    return Declined("error", type(error).__name__)


_CLIENTS: WeakSet[Client] = WeakSet()


def _in_child() -> None:
    """Another thread of the parent may have been sending: its lock would never be released."""
    for client in list(_CLIENTS):
        client._sender.forget_threads()


with suppress(AttributeError):  # Windows has no fork
    os.register_at_fork(after_in_child=_in_child)
