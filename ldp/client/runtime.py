"""The client that an app embeds: consent, records, uploads, and answers about them.

Its rules are in `docs/device-protocol.md`; each sentence there names its test.
"""

import math
import os
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload
from weakref import WeakSet

from ldp.client import periods
from ldp.client.charges import (
    agree,
    complete_terms,
    exact,
    groups_to_ask,
    is_new,
    is_window_sealed,
    life_left,
    names_to_ask,
    remaining_budget,
    set_aside,
)
from ldp.client.destinations import path_of
from ldp.client.device_file import (
    DECLINED,
    Database,
    DeviceFile,
    StorageError,
    count,
    declined_counts,
    forget_states,
    remember,
    state,
)
from ldp.client.memoisation_modes import modes_of
from ldp.client.pool import LAYOUT, forget_records, settle, withdraw_epochs
from ldp.client.responses import AccountSecret, Responses, SecretFile
from ldp.client.results import Consent, Declined, Recorded, Sent, Status, Uploaded
from ldp.client.sealing import (
    UNSENT,
    Sealer,
    drop,
    first_kept_day,
    last_day,
    read_sent,
    stop_calendars,
    withdraw_shuffled,
)
from ldp.client.sending import Sender, error_line
from ldp.client.witness import LOSSES, DefaultWitness, NoWitness, Witness
from ldp.errors import ParameterError
from ldp.files import finite, is_missing
from ldp.protocol.batch import Destination
from ldp.protocol.channel import round_down
from ldp.protocol.hashing import Value
from ldp.protocol.randomness import BitSource, SeededBits, SystemBits
from ldp.registry import Metric, Registry
from ldp.registry.definitions import BEHIND_RELAY

if TYPE_CHECKING:
    from ldp.registry.answers import Statement

T = TypeVar("T")


NOBODY_AGREED = "nobody has agreed yet"
DEVELOPMENT_WAIT = timedelta(seconds=2)
"""Longest time between two uploads of a client's thread in development."""


def system_clock() -> datetime:
    """Return the time by the system's clock, UTC."""
    return datetime.now(UTC)


class Client:
    """Client that draws reports from an app's records, and sends what the registry's caps allow.

    `path`: the device's file, written first when consent is given. `registry`: path of
    metrics.toml, or a loaded registry. With one for development the client sends to this machine
    only, without jitter, and keeps what it sent for a day. `destination`: where sealed batches go.
    `clock`: function that returns the time, with a zone. `bits`: the source of private randomness.
    `jitter`: longest wait of a sealed batch. Each batch waits a uniform time up to this. `secret`:
    secret of an account whose devices are to share permanent responses. Without it the device draws
    its own and keeps it in the file `path` with `.secret` added, which a withdrawal deletes.
    `witness`: a file outside backups, by which a restored copy of `path` is noticed and refused. By
    default it lies in the user's state folder (`ldp.client.witness.state_folder`). With False, and
    by default in development, there is none. `keep_sent`: how long `sent` can read the bytes of a
    batch that was sent. The default is not at all.

    With `strict` a mistake of the app (an unknown metric, a value the mechanism does not know)
    raises ParameterError. With it storage that fails raises StorageError, too. Without it no method
    raises, except `start` for a wrong `every`. The constructor raises RegistryError and
    ParameterError.
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
        keep_sent: timedelta = timedelta(0),
        strict: bool = False,
    ) -> None:
        self._path = Path(path).absolute()
        self._registry = registry if isinstance(registry, Registry) else Registry.load(registry)
        self._clock = clock
        self._bits = SystemBits() if bits is None else bits
        times = jitter, keep_sent
        if not all(isinstance(time, timedelta) and time >= timedelta(0) for time in times):
            raise ParameterError("jitter and keep_sent must not be negative, each a timedelta")
        if destination is not None and not callable(getattr(destination, "send", None)):
            raise ParameterError(
                'destination must have a method send: Collector("https://...") or Folder("outbox")'
            )
        if type(self._bits) is SeededBits:
            warnings.warn(
                "these bits are known to whoever knows the seed: for tests and simulations only",
                stacklevel=2,
            )
        if self._registry.development:
            jitter, keep_sent = timedelta(0), max(keep_sent, timedelta(days=1))
            witness = False if witness is None else witness
        self._strict = strict
        key, self._has_relay = path_of(destination, self._registry)
        device_secret = SecretFile(Path(f"{self._path}.secret"))
        product = self._registry.product
        self._secret = device_secret if secret is None else AccountSecret(secret, product)
        responses = Responses(self._bits, self._secret)
        self._modes = modes_of(self._registry, responses, self._bits)
        self._sealer = Sealer(self._registry, self._modes, self._bits, jitter, key)
        self._witness = _witness(witness, self._path)
        self._file: DeviceFile | None = None
        self._keep_sent = keep_sent
        self._sender = Sender(destination, clock, self._bits, keeps=bool(keep_sent))
        self._layout = ""
        self._consent: Consent = "unknown"
        # why a consent was not written
        self._unwritten = ""
        self._withdraws = self._is_closed = False
        _CLIENTS.add(self)

    @property
    def consent(self) -> Consent:
        """Last answer of the device's owner. While the file is busy, it is the last one that was
        read."""
        return self.status().consent

    def grant(self, shuffler_groups: Collection[str] = ()) -> bool:
        """Note that the owner agrees to the caps of this registry. Returns whether that was
        written. Where a later registry allows more, these caps hold until `grant` is called again.

        `shuffler_groups`: names of the groups with trust = "shuffler" whose text `consent` the
        owner agreed to. Such a group that is not listed sends nothing more. Its reports that wait
        are deleted. With `strict` any other name raises ParameterError."""

        def agree() -> bool:
            groups = self._registry.groups
            for name in shuffler_groups:
                if name not in groups or not groups[name].needs_shuffler:
                    raise ParameterError(f"there is no group {name!r} that trusts a shuffler")
            # what waits was recorded before the withdrawal
            if self._withdraws:
                self._set_consent("withdrawn")
            return self._set_consent("granted", shuffler_groups)

        def note(error: Exception) -> bool:
            is_mistake = isinstance(error, ParameterError)
            self._unwritten = str(error) if is_mistake else error_line(error)
            return False

        is_written = self._safely(agree, note)
        if any(group.needs_shuffler for group in self._registry.groups.values()):
            # what was on its way may be of a group that is not named any more
            self._sender.wait()
        return is_written

    def withdraw(self) -> bool:
        """Note that the owner does not agree. Delete the pool and the sealed batches. When this
        returns, the client sends nothing more. Charges stay. Return whether the withdrawal was
        written. If not, this client records and sends nothing. Every call tries to write it."""
        self._withdraws = True
        is_written = self._safely(lambda: self._set_consent("withdrawn"), lambda _: False)
        self._sender.wait()
        return is_written

    def record(self, metric: str, value: Value) -> Recorded | Declined:
        """Take one record, in well under a millisecond. The answer does not say whether the record
        was drawn into a slot. For a joint metric `value` is a tuple with one value for each member.
        For a number by category it is a pair such as ("2.1", 0.83)."""
        return self._safely(lambda: self._record(metric, value), _decline)

    def upload(self) -> Uploaded:
        """Seal the periods that are over and send at most MOST_BATCHES batches, in bounded time.
        Without consent do nothing. While the wait after a failure lasts, send nothing."""
        return self._safely(self._upload, lambda error: Uploaded(why=error_line(error)))

    def start(self, every: timedelta = timedelta(hours=1)) -> None:
        """Start uploads from a daemon thread, the first within a minute, then at intervals of
        `every`. In development the interval is DEVELOPMENT_WAIT. Raise ParameterError unless
        `every` is positive."""
        if not isinstance(every, timedelta) or every <= timedelta(0):
            raise ParameterError("every must be a timedelta above 0")
        wait = min(every, DEVELOPMENT_WAIT) if self._registry.development else every
        self._safely(lambda: self._sender.start(self.upload, wait), lambda _: None)

    def remaining(self) -> dict[str, float]:
        """Return the epsilon that every group could still spend in its current window, rounded
        down. It is 0 where the file cannot be read. For a group that trusts a shuffler it is
        infinite while anything is left. The key "GROUP, behind an honest relay" holds what is left
        if the relay is honest."""
        groups = self._registry.groups

        def left() -> dict[str, float]:
            return {name: round_down(window) for name, (window, _) in self._remaining().items()}

        return self._with_relay(self._safely(left, lambda _: dict.fromkeys(groups, 0.0)))

    def status(self) -> Status:
        """Return consent, the state of the storage, counts of batches, and why nothing more is sent
        now."""
        return self._safely(
            self._status, lambda error: Status(self._consent, storage=error_line(error))
        )

    def pending(self) -> "dict[str, tuple[Statement, ...]]":
        """Return the statements of the sealed reports that wait to be sent, by metric."""
        statements: dict[str, tuple[Statement, ...]] = {}
        for batch in self.sent():
            for statement in batch.statements if batch.state in ("waiting", "held") else ():
                name = statement.metric
                statements[name] = (*statements.get(name, ()), statement)
        return statements

    def sent(self) -> list[Sent]:
        """Return every batch that was sealed, by day, with its state. It states what its reports
        say while it waits to be sent, and after that until `keep_sent` after its sealing."""
        return self._safely(self._read_sent, lambda _: [])

    def forget(self) -> bool:
        """Delete the bytes of what was sent, which `keep_sent` kept. Returns whether that was
        written."""
        return self._safely(self._forget, lambda _: False)

    @overload
    def explain(
        self, *, as_data: Literal[False] = False, belief: float = 0.5, certainty: float = 0.99
    ) -> str: ...
    @overload
    def explain(
        self, *, as_data: Literal[True], belief: float = 0.5, certainty: float = 0.99
    ) -> dict[str, Any]: ...
    def explain(
        self, *, as_data: bool = False, belief: float = 0.5, certainty: float = 0.99
    ) -> str | dict[str, Any]:
        """Return a text for the device's owner, or its content as JSON-ready data. It says what the
        client may send, what somebody could conclude who believed the first of two answers with
        probability `belief`, how many linked reports make a guess right with probability
        `certainty`, and what could still be spent. An error becomes a text, or {"error": text}."""

        def explain() -> str | dict[str, Any]:
            from ldp.registry.explaining import in_text  # late: most apps never ask

            data = self._explanation(belief, certainty)
            return data if as_data else in_text(data)

        def fail(error: Exception) -> str | dict[str, Any]:
            text = str(error) if isinstance(error, ParameterError) else error_line(error)
            return {"error": text} if as_data else text

        return self._safely(explain, fail)

    def close(self) -> None:
        """Stop the thread after the batch that it is sending, and close the file for good."""
        self._is_closed = True
        self._sender.stop()
        if (file := self._file) is not None:
            file.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self._registry.product}, consent {self._consent}>"

    def _safely(self, work: Callable[[], T], otherwise: Callable[[Exception], T]) -> T:
        """Return what `work` returns. If it fails, raise if strict, else return `otherwise` of the
        error: the answer to the app."""
        try:
            return work()
        except BaseException as error:
            # whoever keeps the error of a signal handler keeps no transaction
            _clear_frames(error)
            if self._strict or not isinstance(error, Exception):
                raise
            return otherwise(error)

    def _record(self, name: str, value: Any) -> Recorded | Declined:
        if not self._may_write():
            return Declined("consent", self._unwritten or NOBODY_AGREED)
        mistake, metric, value = self._checked(name, value)
        # a hidden record decides nothing about sending
        may_seal = metric is not None and metric.presence == "public"
        while True:
            with self._open_file().transaction() as database:
                if self._read_consent(database) != "granted":
                    return Declined("consent", "the owner does not agree")
                self._witness.check(database)
                answer: Recorded | Declined | None = mistake
                if metric is not None and mistake is None:
                    if state(database, LAYOUT) != self._layout:
                        self._layout = settle(database, self._registry)
                    now = periods.seconds_of(self._clock())
                    if not (may_seal and self._sealer.public_periods(database, now)):
                        answer = self._enter(database, metric, value, now)
                if isinstance(answer, Declined):
                    count(database, DECLINED + answer.reason)
            if mistake is not None and self._strict:
                raise ParameterError(mistake.details)
            if answer is not None:
                return answer
            self._seal(uploads=False)
            may_seal = False

    def _checked(self, name: str, value: Any) -> tuple[Declined | None, Metric | None, Any]:
        """Return why a record is declined, None if it is not, its metric and the value to
        encode."""
        metric = self._registry.metrics.get(name) if isinstance(name, str) else None
        if metric is None:
            return Declined("unknown metric", "no such metric"), None, value
        if metric.needs_shuffler and not self._has_relay:
            return Declined("relay", f"metric {name!r} needs a relay to send to"), metric, value
        value = metric.cleaned(value)
        try:
            metric.mechanism.check(value)
        except ParameterError as error:
            return Declined("value", str(error)), metric, value
        return None, metric, value

    def _enter(
        self, database: Database, metric: Metric, value: Value, now: int
    ) -> Recorded | Declined:
        if metric.expires < periods.day_of(now):
            return Declined("expired", f"metric {metric.name!r} expired on {metric.expires}")
        if is_new(database, metric.name):
            return Declined("consent", f"metric {metric.name!r} is new: ask again")
        mode, life = self._modes[metric.name], life_left(database, self._registry, metric.group)
        if (frozen := mode.current_response(database, now)) and not frozen.response:
            return Declined("cap", "this epoch sends nothing more after the withdrawal")
        if exact(metric.price) > life and not (frozen and frozen.charged):
            if metric.group in groups_to_ask(database, self._registry):
                what = "needs its own consent" if metric.needs_shuffler else "allows more now"
                return Declined("consent", f"group {metric.group!r} {what}: ask again")
            return Declined("cap", f"group {metric.group!r} has spent its lifetime")
        end = periods.ending(now, mode.window)
        if is_window_sealed(database, metric.group, end):
            return Declined("cap", "this window was sealed before the clock went back")
        if metric.epoch and not frozen:
            left = remaining_budget(database, self._registry, metric.group, end)
            if left.window < 0:
                return Declined("cap", "this window has nothing left to set aside for an epoch")
        mode.enter(database, value, now)
        return Recorded()

    def _seal(self, uploads: bool) -> None:
        """Seal the periods that are over. Periods of groups with hidden presence are sealed in an
        upload only, so that no record decides when."""
        with self._open_file().transaction(synced=True) as database:
            if self._read_consent(database) != "granted":
                return
            self._witness.check(database)
            settle(database, self._registry)
            complete_terms(database, self._registry)
            now = periods.seconds_of(self._clock())
            due_periods = self._sealer.public_periods(database, now)
            if uploads:
                due_periods = sorted(due_periods + self._sealer.hidden_periods(database, now))
            if due_periods:
                self._sealer.seal(database, due_periods, now)
            if due_periods or state(database, "mark") is None:
                self._witness.announce(database)
            drop(database, now, self._keep_sent)

    def _upload(self) -> Uploaded:
        if not self._may_write():
            return Uploaded(why="consent")
        self._seal(uploads=True)
        return self._sender.send(self._open_file, self._may_send)

    def _may_send(self, database: Database) -> bool:
        """Return whether batches may leave. Raises StorageError for a restored copy of the file."""
        if self._withdraws or self._read_consent(database) != "granted":
            return False
        self._witness.confirm(database)
        return True

    def _set_consent(self, consent: Consent, shuffler_groups: Collection[str] = ()) -> bool:
        device = self._open_file()
        with device.transaction(synced=True) as database:
            is_confirmed = self._is_confirmed(database)
            remember(database, "consent", consent)
            if consent == "granted":
                agree(database, self._registry, shuffler_groups)
                withdraw_shuffled(database, self._registry, shuffler_groups)
                now = periods.seconds_of(self._clock())
                self._sealer.hidden_periods(database, now)
            else:
                self._delete(database)
            # an older copy must not bring the other answer back
            if is_confirmed:
                with suppress(StorageError, OSError):
                    self._witness.announce(database)
        if is_confirmed:
            with suppress(StorageError, OSError), device.transaction() as database:
                self._witness.confirm(database)
        self._consent, self._withdraws = consent, False
        return True

    def _delete(self, database: Database) -> None:
        """Delete records, responses, sealed batches and the device's secret after a withdrawal."""
        forget_records(database)
        forget_states(database, DECLINED)
        withdraw_epochs(database)
        stop_calendars(database)
        self._secret.delete()
        database.execute("UPDATE batches SET body = NULL, sealed = NULL")
        database.execute(f"UPDATE batches SET state = 'withdrawn', not_before = 0 WHERE {UNSENT}")

    def _is_confirmed(self, database: Database) -> bool:
        """Return whether the witness, if there is one, knows the file."""
        try:
            self._witness.check(database)
        except (StorageError, OSError):
            return False
        return True

    def _remaining(self) -> dict[str, tuple[Fraction, Fraction]]:
        """Return the epsilon that every group may still spend in its current window, with what is
        set aside for epochs, and for life."""
        groups, left = self._registry.groups, dict[str, tuple[Fraction, Fraction]]()
        if not self._has_file():
            for name, group in groups.items():
                life = Fraction(self._registry.life_of(name))
                left[name] = min(life, Fraction(group.caps.window_epsilon)), life
            return left
        with self._open_file().transaction(reads=True) as database:
            now = periods.seconds_of(self._clock())
            for name, group in groups.items():
                end = periods.ending(now, group.caps.window)
                budget = remaining_budget(database, self._registry, name, end)
                reserved = set_aside(database, self._registry, name, end)
                life = max(Fraction(0), budget.life)
                left[name] = max(Fraction(0), min(life, budget.window + reserved)), life
            return left

    def _with_relay(self, left: Mapping[str, float]) -> dict[str, float]:
        """Return what is left of each group, and for a group that trusts a shuffler both without
        and with an honest relay."""
        stated = dict[str, float]()
        for name, epsilon in left.items():
            stated[name] = epsilon
            if self._registry.groups[name].needs_shuffler:
                stated[name] = math.inf if epsilon else 0.0
                stated[name + BEHIND_RELAY] = epsilon
        return stated

    def _explanation(self, belief: float, certainty: float) -> dict[str, Any]:
        # late: most apps never ask
        from ldp.registry.explaining import explanation

        data = explanation(self._registry, belief=belief, certainty=certainty)
        remaining = self._remaining().items()
        in_window, for_life = (
            {name: math.floor(1000 * left[which]) / 1000 for name, left in remaining}
            for which in (0, 1)
        )
        return data | {
            "consent": self.consent,
            "remaining": finite(self._with_relay(in_window)),
            "remaining_for_life": finite(self._with_relay(for_life)),
        }

    def _status(self) -> Status:
        if not self._has_file():
            return Status("unknown", self._unwritten, why=self._unwritten or NOBODY_AGREED)
        with self._open_file().transaction(reads=True) as database:
            rows = database.execute("SELECT state, count(*) FROM batches GROUP BY state")
            states = dict(rows.fetchall())
            storage = self._witness.problem(database)
            consent = "withdrawn" if self._withdraws else self._read_consent(database)
            may_send = consent == "granted" and not storage
            why, next_upload = self._sender.outlook(database) if may_send else (consent, None)
            latest = last_day(database, self._registry)
            return Status(
                storage=storage,
                consent=consent,
                why=storage or why,
                next_upload=next_upload,
                leap=latest if latest > periods.day_of(periods.seconds_of(self._clock())) else None,
                pooled=database.execute("SELECT count(*) FROM pool").fetchone()[0],
                waiting=states.get("waiting", 0),
                held=states.get("held", 0),
                acknowledged=states.get("acknowledged", 0),
                refused=state(database, "refused", 0),
                dropped=states.get("dropped", 0),
                unasked=names_to_ask(database, self._registry) if consent == "granted" else (),
                witnesses_lost=state(database, LOSSES, 0),
                declined=declined_counts(database),
            )

    def _read_sent(self) -> list[Sent]:
        if not self._has_file():
            return []
        with self._open_file().transaction(reads=True) as database:
            first_day = first_kept_day(periods.seconds_of(self._clock()), self._keep_sent)
            return read_sent(database, self._registry, first_day)

    def _forget(self) -> bool:
        if self._has_file():
            with self._open_file().transaction(synced=True) as database:
                database.execute("UPDATE batches SET body = NULL WHERE state = 'acknowledged'")
        return True

    def _read_consent(self, database: Database) -> Consent:
        self._consent = state(database, "consent", "unknown")
        return self._consent

    def _may_write(self) -> bool:
        """Return whether the owner may have agreed. Writes down a pending withdrawal first."""
        if self._withdraws:
            self._set_consent("withdrawn")
        return self._has_file()

    def _has_file(self) -> bool:
        # where nobody may look for the file, opening it says why
        return self._file is not None or not is_missing(self._path)

    def _open_file(self) -> DeviceFile:
        if self._is_closed:
            raise StorageError("the client is closed")
        file = self._file or DeviceFile(self._path)
        self._file = file
        return file


def _witness(choice: str | Path | Literal[False] | None, device: Path) -> Witness | NoWitness:
    if choice is None:
        return DefaultWitness(device)
    return Witness(Path(choice).absolute(), DefaultWitness(device)) if choice else NoWitness()


def _decline(error: Exception) -> Declined:
    if isinstance(error, StorageError):
        return Declined("busy" if error.busy else "storage", str(error))
    return Declined("error", type(error).__name__)


def _clear_frames(error: BaseException) -> None:
    """Clear the local variables of the frames of an error. It imports nothing: where no file can be
    opened, that would raise."""
    trace = error.__traceback__
    while trace is not None:
        with suppress(RuntimeError):  # it is running
            trace.tb_frame.clear()
        trace = trace.tb_next


_CLIENTS: WeakSet[Client] = WeakSet()


def _in_child() -> None:
    """Release locks in a child process: a thread of the parent may have held one."""
    for client in list(_CLIENTS):
        client._sender.forget_threads()


with suppress(AttributeError):  # Windows has no fork
    os.register_at_fork(after_in_child=_in_child)
