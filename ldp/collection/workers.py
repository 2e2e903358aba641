"""The two threads of a collector: one commits batches, one moves reports to the store.

The writer commits all that waits in one transaction and then has it answered, so that a sync serves
many senders; it is the only one that writes to the buffer. The ingestor reads, writes files, and
has the writer delete what it moved.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from ldp.collection.buffer import Answer, Arrived, Buffer, BufferUnusable, Waiting
from ldp.collection.counts import Counts
from ldp.collection.ingest import MOST_BLOCK_BYTES, Retention, retire, write_block

RETRY_SECONDS = 5.0
"""After which the ingestor tries again what failed."""
LOG = logging.getLogger("ldp.collector")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Shuffling:
    """When a metric's reports become a file: `least` of them, or the first waited for `longest`;
    but never fewer than `smallest`, among which each would not be hidden."""

    least: int = 65_536
    longest: timedelta = timedelta(hours=1)
    smallest: int = 100


class Writer(threading.Thread):
    """The only one that writes to the buffer: commits what waits, then has it answered."""

    def __init__(
        self, buffer: Buffer, today: Callable[[], date], lateness: timedelta, counts: Counts
    ) -> None:
        super().__init__(name="ldp writer", daemon=True)
        self._buffer, self._today, self._lateness = buffer, today, lateness
        self._counts = counts
        self._queue: SimpleQueue[tuple[Arrived, asyncio.Future[Answer]] | Callable[[], None] | None]
        self._queue = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.queued_bytes = 0
        self.failure = ""

    async def answer(self, arrived: Arrived) -> Answer:
        """Returns when the batch is on the disk; raises BufferUnusable when it cannot be."""
        self._loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer] = self._loop.create_future()
        self.queued_bytes += arrived.size
        try:
            self._queue.put((arrived, answered))
            return await answered
        finally:
            self.queued_bytes -= arrived.size

    def perform(self, job: Callable[[Buffer], T]) -> T:
        """Lets the writer do something else with its buffer, between two commits."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(job(self._buffer))
            except BaseException as error:
                done.set_exception(error)

        self._queue.put(run)
        return done.result()

    def believe(self, day: date) -> None:
        """Raises BufferUnusable when the buffer takes the day for that of a clock that leapt."""
        self.perform(lambda buffer: buffer.trust(day, self._lateness, is_sure=False))

    def stop(self) -> None:
        """Ends the thread after everything that waits."""
        self._queue.put(None)
        self.join()

    def run(self) -> None:
        """Until `stop`."""
        while True:
            taken = [self._queue.get()]
            while not self._queue.empty():
                taken.append(self._queue.get_nowait())
            batches = [one for one in taken if isinstance(one, tuple)]
            if batches:
                self._commit(batches)
            for one in taken:
                if callable(one):
                    one()
            if None in taken:
                return

    def _commit(self, batches: list[tuple[Arrived, "asyncio.Future[Answer]"]]) -> None:
        answers: list[Answer] | BufferUnusable
        started = time.monotonic()
        try:
            arrived = [one for one, _ in batches]
            answers = self._buffer.commit(arrived, self._today(), self._lateness)
            self.failure = ""
        except Exception as error:  # whatever it is, nothing was stored, and senders try again
            if not self.failure:
                LOG.error("batches cannot be stored: %s", _line(error))
            self.failure = _line(error)
            answers = BufferUnusable(self.failure)
        self._counts.commits += 1
        self._counts.commit_seconds += time.monotonic() - started
        assert self._loop is not None
        self._loop.call_soon_threadsafe(_resolve, [one for _, one in batches], answers)


def _resolve(waiting: list["asyncio.Future[Answer]"], answers: list[Answer] | Exception) -> None:
    for number, one in enumerate(waiting):
        if one.done():  # the sender went away
            continue
        if isinstance(answers, Exception):
            one.set_exception(answers)
        else:
            one.set_result(answers[number])


class Ingestor(threading.Thread):
    """Moves blocks of reports to the store when they are large or old enough."""

    def __init__(
        self,
        store: Path,
        reading: Buffer,
        writer: Writer,
        today: Callable[[], date],
        counts: Counts,
        shuffling: Shuffling,
        retain: timedelta | None,
        candidates: Mapping[tuple[str, int], tuple[str, ...]],
    ) -> None:
        super().__init__(name="ldp ingestor", daemon=True)
        self._store, self._reading, self._writer = store, reading, writer
        self._today, self._counts, self._shuffling = today, counts, shuffling
        self._retention = retain and Retention(retain, today(), time.monotonic())
        self._retired = date.min
        self._stopped, self._working = threading.Event(), threading.Lock()
        self._candidates = candidates
        self._since: dict[int, float] = {}
        self.waiting, self.buffer_bytes = 0, reading.bytes_used()
        self.failures: dict[str, str] = {}
        """What cannot be done now, and why."""
        self._next_try: dict[str, float] = {}
        self._small = set[int]()
        """Metrics of which it was said that too few reports wait."""

    def run(self) -> None:
        """Until `stop`; what fails is tried again, and holds up nothing else."""
        while not self._stopped.wait(0.5):
            self._attempt("the buffer cannot be read", self.work)

    def _attempt(self, what: str, job: Callable[[], object]) -> None:
        """Does a job, or notes why not: it is tried again after `RETRY_SECONDS`."""
        if time.monotonic() < self._next_try.get(what, 0.0):
            return
        try:
            job()
        except Exception as error:  # a full disk: the buffer keeps what there is
            if what not in self.failures:
                LOG.error("%s: %s", what, _line(error))
            self.failures[what] = _line(error)
            self._next_try[what] = time.monotonic() + RETRY_SECONDS
        else:
            self.failures.pop(what, None)

    def stop(self) -> None:
        """Ends the thread after the block that it is writing."""
        self._stopped.set()
        self.join()

    def work(self, everything: bool = False) -> None:
        """Writes every block that is due, or all there is; deletes files that are too old."""
        with self._working:
            counted, now = self._reading.waiting(), time.monotonic()
            self.waiting, self.buffer_bytes = sum(counted.values()), self._reading.bytes_used()
            self._since = {number: self._since.get(number, now) for number in counted}
            self._small &= {*counted}
            for number, reports in counted.items():
                if self._is_due(number, reports, now, everything):
                    reports_of = "reports of {} version {}".format(*self._reading.name_of(number))
                    what = f"{reports_of} cannot be moved to the store"
                    self._attempt(what, partial(self._move, number, everything))
            self._attempt("old files cannot be deleted", self._retire)

    def _is_due(self, number: int, reports: int, now: float, everything: bool) -> bool:
        if self._reading.plan(number) is not None:  # decided before this process began
            return True
        is_old = now - self._since[number] >= self._shuffling.longest.total_seconds()
        if not (everything or is_old or reports >= self._shuffling.least):
            return False
        if reports >= self._shuffling.smallest:
            return True
        if is_old and number not in self._small:
            LOG.warning(
                "%d reports of %s version %d wait: a file has %d at least "
                "(--write-small writes them)",
                *(reports, *self._reading.name_of(number), self._shuffling.smallest),
            )
            self._small.add(number)
        return False

    def _move(self, number: int, everything: bool) -> None:
        metric = self._reading.metric(number)
        while self._write(metric) and everything:
            pass
        del self._since[number]

    def _retire(self) -> None:
        """Deletes files that are too old, by a day that the buffer believes too."""
        today = self._today()
        oldest = self._retention and self._retention.oldest(today, time.monotonic())
        if oldest and oldest != self._retired:
            self._writer.believe(today)
            retire(self._store, oldest)
            self._retired = oldest

    def _write(self, one: Waiting) -> bool:
        plan = self._reading.plan(one.number) or self._writer.perform(
            lambda buffer: buffer.decide(
                one.number, self._today(), MOST_BLOCK_BYTES, self._shuffling.smallest
            )
        )
        if plan is None:
            return False
        if not plan.is_written:
            lots, damaged = self._reading.bodies(one.number, plan)
            candidates = self._candidates.get((one.metric, one.version), ())
            written = write_block(self._store, one, plan, lots, candidates=candidates)
            self._writer.perform(lambda buffer: buffer.written(one.number))
            self._counts.stored[one.metric] += written.stored
            self._counts.set_aside[one.metric] += written.set_aside
            self._counts.damaged[one.metric] += damaged
            if damaged:
                LOG.error("%d reports of %s are damaged in the buffer", damaged, one.metric)
            if written.set_aside:
                LOG.warning("%d reports of %s are not plausible", written.set_aside, one.metric)
        while self._writer.perform(lambda buffer: buffer.forget(one.number, plan)):
            pass
        self._writer.perform(lambda buffer: buffer.erase())
        return True


def _line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
