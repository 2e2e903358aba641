"""Sending: one sealed batch at a time, with longer waits after every failure."""

import math
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from ldp.client.destinations import TIMEOUT_SECONDS
from ldp.client.device_file import Database, DeviceFile, StorageError, count, remember, state
from ldp.client.periods import seconds_of
from ldp.client.results import Uploaded
from ldp.errors import Unreachable
from ldp.protocol.batch import Destination
from ldp.protocol.randomness import BitSource, uniform_below
from ldp.protocol.sealed_report import shuffled_group

FIRST_WAIT, LONGEST_WAIT = 60, 6 * 3600
"""Bounds of the waits after failed uploads, in seconds. A wait is uniform up to its bound. The
bound doubles with every failure."""
MOST_BATCHES = 20
"""Most batches of one upload."""
FAILED, RANDOM_MOMENT = "waits after a failure", "waits for its random moment"
HELD = "is held: the clock shows another time than when it was sealed"
NO_DESTINATION = "there is no destination"
NO_RELAY = "waits for a destination with a relay, without which it never leaves"
REFUSED = "reports were refused: is the collector's registry this one?"
SOON = timedelta(minutes=1)
"""Longest time until the first upload of a thread."""


class Sender:
    """Sender of a device's sealed batches to a destination, if there is one. `keeps`: whether the
    bytes of what was sent stay in the file."""

    def __init__(
        self,
        destination: Destination | None,
        clock: Callable[[], datetime],
        bits: BitSource,
        *,
        keeps: bool = False,
    ) -> None:
        self.destination = destination
        self._keeps = keeps
        self._clock = clock
        self._bits = bits
        self._next_try, self._failure = 0, ""
        self._stopped = threading.Event()
        self.forget_threads()

    def forget_threads(self) -> None:
        """Make new locks in a child process: a thread of the parent may hold the old ones."""
        self._sending = threading.RLock()
        is_stopped, self._stopped = self._stopped.is_set(), threading.Event()
        if is_stopped:
            self._stopped.set()
        self._thread: threading.Thread | None = None

    def start(self, upload: Callable[[], object], every: timedelta) -> None:
        """Call `upload` from a daemon thread until `stop`, the first time within SOON. A
        StorageError, which a strict client raises, does not end the thread."""
        if self._thread is not None or self._stopped.is_set():
            return

        def run() -> None:
            wait = min(every, SOON)
            while not self._stopped.wait(wait.total_seconds()):
                with suppress(StorageError):
                    upload()
                wait = every

        thread = threading.Thread(target=run, name="ldp upload", daemon=True)
        thread.start()
        self._thread = thread

    def stop(self) -> None:
        """Stop the thread and `send`, after the batch that is on its way."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(2 * TIMEOUT_SECONDS)

    def wait(self) -> None:
        """Return when no batch is on its way any more."""
        try:
            self._sending.acquire(timeout=2 * TIMEOUT_SECONDS)
        finally:
            try:  # noqa: SIM105
                self._sending.release()
            except RuntimeError:  # not held
                pass

    def send(
        self, device: Callable[[], DeviceFile], may_send: Callable[[Database], bool]
    ) -> Uploaded:
        """Send at most MOST_BATCHES batches. `device` returns the open file or raises StorageError.
        `may_send` decides in the transaction that reads a batch."""
        acknowledged, refused, result = 0, 0, Uploaded()
        for _ in range(MOST_BATCHES):
            if self._stopped.is_set():
                return Uploaded(acknowledged, refused, result.waiting, "closed")
            with self._sending:
                result = self._send_batch(device, may_send)
            acknowledged, refused = acknowledged + result.acknowledged, refused + result.refused
            if not result.acknowledged or not result.waiting:
                why = result.why or (REFUSED if refused else "")
                return Uploaded(acknowledged, refused, result.waiting, why)
        return Uploaded(acknowledged, refused, result.waiting, "enough for one call")

    def outlook(self, database: Database) -> tuple[str, datetime | None]:
        """Return why nothing more is sent now, and the earliest time of the next batch, UTC, or
        None where no clock decides it."""
        sealed, end, held = database.execute(
            "SELECT (SELECT min(not_before) FROM batches WHERE state = 'waiting'), "
            "(SELECT min(ends) FROM seen), (SELECT count(*) FROM batches WHERE state = 'held')"
        ).fetchone()
        if sealed is None:
            if end is None:
                return HELD if held else "nothing is recorded that was not sent", None
            return self._until(end, "what was recorded is sealed after its period")
        if self.destination is None:
            return NO_DESTINATION, None
        next_try, clock = state(database, "next_try", 0), math.floor(self._clock().timestamp())
        if clock < next_try <= clock + LONGEST_WAIT:
            why = ": ".join(filter(None, (FAILED, self._failure)))
            return why, datetime.fromtimestamp(next_try, UTC)
        return self._until(sealed, RANDOM_MOMENT)

    def _until(self, moment: int, why: str) -> tuple[str, datetime | None]:
        if moment <= seconds_of(self._clock()):
            return "waits for upload(), which start() calls", None
        return why, datetime.fromtimestamp(moment, UTC)

    def _send_batch(
        self, device: Callable[[], DeviceFile], may_send: Callable[[Database], bool]
    ) -> Uploaded:
        """Send one batch, if there is one that may leave now."""
        clock = math.floor(self._clock().timestamp())
        with device().transaction() as database:
            if not may_send(database):
                return Uploaded(why="consent")
            waiting = database.execute(
                "SELECT count(*) FROM batches WHERE state = 'waiting'"
            ).fetchone()[0]
            next_try = max(self._next_try, state(database, "next_try", 0))
            if waiting and clock < next_try <= clock + LONGEST_WAIT:
                return Uploaded(waiting=waiting, why=FAILED)
            due = database.execute(
                "SELECT id, substr(coalesce(sealed, body), 1, 512) FROM batches "
                "WHERE state = 'waiting' AND not_before <= ? ORDER BY random()",
                (seconds_of(self._clock()),),
            ).fetchall()
            has_relay = getattr(self.destination, "has_relay", False)
            identity = next((x for x, head in due if has_relay or not shuffled_group(head)), None)
            batch = database.execute(
                "SELECT id, coalesce(sealed, body) FROM batches WHERE id = ?", (identity,)
            ).fetchone()
        if batch is None:
            why = NO_RELAY if due else RANDOM_MOMENT if waiting else ""
            return Uploaded(waiting=waiting, why=why)
        if self.destination is None:
            return Uploaded(waiting=waiting, why=NO_DESTINATION)
        try:
            refused = self.destination.send(*batch)
            if type(refused) is not int or refused < 0:
                raise Unreachable("a destination must return how many reports it refused")
        except Exception as error:
            # any error: the batch is sent again later, the app goes on
            self._failure = error_line(error)
            later = error.retry_after if isinstance(error, Unreachable) else 0.0
            self._note_failure(device, clock, later)
            return Uploaded(waiting=waiting, why=self._failure)
        self._failure = ""
        _acknowledge(device(), batch[0], refused, self._keeps)
        return Uploaded(1, refused, waiting - 1)

    def _note_failure(
        self, device: Callable[[], DeviceFile], clock: int, retry_after: float
    ) -> None:
        """Set the next try: exponential back-off with full jitter, which survives a restart."""
        # in case it cannot be written down
        self._next_try = clock + FIRST_WAIT
        with device().transaction() as database:
            failures = state(database, "failures", 0) + 1
            longest = min(LONGEST_WAIT, FIRST_WAIT << min(failures, 16))
            wait = max(uniform_below(self._bits, longest + 1), min(retry_after, LONGEST_WAIT))
            remember(database, "failures", failures)
            remember(database, "next_try", clock + round(wait))
            self._next_try = 0


def _acknowledge(device: DeviceFile, identity: bytes, refused: int, keeps: bool) -> None:
    """Note that a batch was taken, with its number of refused reports."""
    with device.transaction(synced=True) as database:
        is_new = database.execute(
            "UPDATE batches SET state = 'acknowledged', body = CASE WHEN ? THEN body END, "
            "sealed = NULL, not_before = 0 WHERE id = ? "
            "AND state IN ('waiting', 'held', 'withdrawn')",
            (keeps, identity),
        ).rowcount
        # a clock that goes back begins no old wait again
        for name in ("failures", "next_try"):
            remember(database, name, 0)
        if is_new:  # not by another process already
            count(database, "refused", refused)


def error_line(error: Exception) -> str:
    """Return the line that states an error: the text of a StorageError or an Unreachable, else only
    the error's type."""
    return str(error) if isinstance(error, StorageError | Unreachable) else type(error).__name__
