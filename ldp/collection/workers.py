"""The two threads of a collector: one commits batches, one moves reports to the store.

The writer commits all batches that wait in one transaction and then resolves their answers, so that
a sync serves many senders. It alone writes to the buffer. The ingestor reads the buffer and writes
files. The writer deletes the reports that were moved.
"""

import asyncio
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from math import inf
from queue import SimpleQueue
from typing import Any, ClassVar, Generic, TypeVar

from ldp.collection.acknowledged import Answer, BatchFile, BufferUnusable, PendingBatch
from ldp.collection.buffer import Buffer, BufferedMetric, RelayedReports
from ldp.collection.collector_counts import Counts
from ldp.collection.ingest import (
    MOST_BLOCK_BYTES,
    mark_of,
    retire,
    write_block,
    write_mark,
    write_sizes,
)
from ldp.collection.object_store import StorePath
from ldp.files import counted

RETRY_SECONDS, LONGEST_WAIT = 5.0, 3600.0
"""Seconds after which a worker tries again what failed: by itself, and at most where a collector
asks for a wait."""
MARK_SECONDS = 60.0
"""Longest time, while batches come, between two rises of the mark of buffer and store."""
HANGS_SECONDS, STOP_SECONDS = 60.0, 30.0
"""Seconds after which work on one file or batch is reported to hang, and seconds for which the
service waits for it to end when it stops."""
SETTLED_SECONDS = 3600.0
"""Seconds for which a clock must have shown later days before they are believed."""
LOG = logging.getLogger("ldp.collector")
T = TypeVar("T")
B = TypeVar("B", bound=BatchFile)


@dataclass(frozen=True, kw_only=True)
class Shuffling:
    """Rule when a metric's reports become a file: when there are `least`, or when the first has
    waited for `longest`. Fewer than `smallest`, too few to hide a report among them, never do."""

    least: int = 65_536
    longest: timedelta = timedelta(hours=1)
    smallest: int = 100


class Writer(threading.Thread, Generic[B]):
    """Thread that alone writes to the buffer: it commits batches, then resolves their answers.
    `today`: function that returns the clock's day. `monotonic`: function that returns the seconds
    since this machine started, by a clock that is never set. `lateness`: how long after its day a
    batch is taken. `failure`: why batches cannot be stored now, "" if they can."""

    def __init__(
        self,
        buffer: B,
        today: Callable[[], date],
        monotonic: Callable[[], float],
        lateness: timedelta,
        counts: Counts,
    ) -> None:
        super().__init__(name="ldp writer", daemon=True)
        self._buffer, self._clock, self._lateness = buffer, today, lateness
        self._monotonic, self._counts = monotonic, counts
        self._began = self._not_ahead = self._not_far = monotonic()
        buffer.begin(today(), lateness, self._began)
        self._since: dict[asyncio.Future[Answer], float] = {}
        self._queue: SimpleQueue[
            tuple[PendingBatch, asyncio.Future[Answer]] | Callable[[], None] | None
        ]
        self._queue = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.queued_bytes = 0
        self.failure = ""

    async def answer(self, pending: PendingBatch, size: int) -> Answer:
        """Return the answer to a batch of `size` bytes when it is on the disk. Raises
        BufferUnusable if that fails."""
        self._loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self.queued_bytes += size
        self._since[answer] = self._monotonic()
        try:
            self._queue.put((pending, answer))
            return await answer
        finally:
            self.queued_bytes -= size
            del self._since[answer]

    @property
    def oldest_wait(self) -> float:
        """Seconds for which the oldest batch without an answer has waited."""
        now = self._monotonic()
        return now - next(iter(self._since.values()), now)

    @property
    def day(self) -> date:
        """Day that follows the clock slowly."""
        return self._buffer.day

    @property
    def today(self) -> date:
        """Day of the clock, but not before `day`."""
        return max(self._clock(), self.day)

    @property
    def earlier_day(self) -> date:
        """Earlier of the clock's day and `day`, by which nothing is given up too soon."""
        return min(self._clock(), self.day)

    @property
    def days_ahead(self) -> int:
        """Number of days by which the clock is ahead of `day`."""
        return (self._clock() - self.day).days

    @property
    def is_behind(self) -> bool:
        """Return whether the clock shows a day that is taken no more."""
        return self._clock() < self._buffer.watermark

    @property
    def settled_day(self) -> date | None:
        """Day of the clock, as `today`. It is None where the clock leapt: it shows a day later than
        the next one, and has not been so far ahead for SETTLED_SECONDS."""
        today = self.today
        is_far = today - self.day > timedelta(days=1)
        return None if is_far and self._monotonic() - self._not_far < SETTLED_SECONDS else today

    def follow(self) -> None:
        """Raise the buffer's day where the clock was ahead of it for SETTLED_SECONDS. Lower the
        watermark where the clock is behind by less than the lateness, as after a wrong first
        reading of a new buffer. Empty the log if an earlier try failed."""
        if self._buffer.must_erase:
            self.perform(lambda buffer: buffer.erase())
        now, today = self._monotonic(), self._clock()
        ahead = (today - self.day).days
        if ahead <= 1:
            self._not_far = now
        if ahead <= 0:
            self._not_ahead = now
        elif now - self._not_ahead >= SETTLED_SECONDS:
            self.perform(lambda buffer: buffer.rise(self._lateness, now))
        if ahead < 0 and today >= self._buffer.watermark:
            self.perform(lambda buffer: buffer.lower(today, self._lateness))

    def oldest_kept(self, keep: timedelta) -> date | None:
        """Return the oldest day whose files are kept, where `keep` is for how long: by the clock or
        `day`, the earlier one. Returns None in the first SETTLED_SECONDS."""
        if self._monotonic() - self._began < SETTLED_SECONDS:
            return None
        day = self.earlier_day
        return day - min(keep, day - date.min)

    def perform(self, job: Callable[[B], T]) -> T:
        """Run a job on the writer's buffer between two commits, and return its result."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(job(self._buffer))
            except BaseException as error:
                future.set_exception(error)

        self._queue.put(run)
        return future.result()

    def stop(self) -> None:
        """End the thread after it has run all waiting jobs."""
        self._queue.put(None)
        self.join()

    def run(self) -> None:
        """Run jobs until `stop`."""
        while True:
            jobs = [self._queue.get()]
            while not self._queue.empty():
                jobs.append(self._queue.get_nowait())
            batches = [job for job in jobs if isinstance(job, tuple)]
            if batches:
                self._commit(batches)
            for job in jobs:
                if callable(job):
                    job()
            if None in jobs:
                return

    def _commit(self, batches: list[tuple[PendingBatch, "asyncio.Future[Answer]"]]) -> None:
        answers: list[Answer] | BufferUnusable
        start = time.monotonic()
        try:
            pending = [batch for batch, _ in batches]
            answers = self._buffer.commit(pending, self._clock())
            self.failure = ""
        except Exception as error:  # any error: nothing was stored, and senders try again
            if not self.failure:
                LOG.error("batches cannot be stored: %s", _line(error))
            self.failure = _line(error)
            answers = BufferUnusable(self.failure)
        self._counts.add_commit(time.monotonic() - start)
        assert self._loop is not None
        self._loop.call_soon_threadsafe(_resolve, [future for _, future in batches], answers)


def _resolve(futures: list["asyncio.Future[Answer]"], answers: list[Answer] | Exception) -> None:
    for number, future in enumerate(futures):
        if future.done():  # the sender went away
            continue
        if isinstance(answers, Exception):
            future.set_exception(answers)
        else:
            future.set_result(answers[number])


class Worker(threading.Thread, ABC):
    """Thread that passes on what a buffer holds. `role`: the thread's name in messages. `waiting`:
    number of reports in the buffer. `buffer_bytes`: size of the buffer. `failures`: why work cannot
    be done now, by problem. `since`: when the thread began its current file or batch, by a clock
    that is never set."""

    role: ClassVar[str]

    def __init__(self, reader: BatchFile, writer: Writer[Any]) -> None:
        super().__init__(name=f"ldp {self.role}", daemon=True)
        self._follow = writer.follow
        self._stopped = threading.Event()
        self.waiting, self.buffer_bytes = 0, reader.bytes_used()
        self.failures: dict[str, str] = {}
        self.since = time.monotonic()
        self._next_try: dict[str, float] = {}

    @abstractmethod
    def work(self) -> None:
        """Pass on what is due."""

    def run(self) -> None:
        """Work until `stop`. A job that fails is tried again, and delays no other."""
        while not self._stopped.wait(0.5):
            self._attempt("the watermark cannot follow the clock", self._follow)
            self._attempt("the buffer cannot be read", self.work)

    def _attempt(self, problem: str, job: Callable[[], object]) -> None:
        """Run a job, or note why it failed. It is tried again after `RETRY_SECONDS`, or as long as
        a collector asked for."""
        self.since = time.monotonic()
        if time.monotonic() < self._next_try.get(problem, 0.0):
            return
        try:
            job()
        except Exception as error:  # a full disk: the buffer keeps what there is
            if problem not in self.failures:
                LOG.error("%s: %s", problem, _line(error))
            self.failures[problem] = _line(error)
            wait = min(getattr(error, "retry_after", 0.0), LONGEST_WAIT)
            self._next_try[problem] = time.monotonic() + max(RETRY_SECONDS, wait)
        else:
            self.failures.pop(problem, None)

    def stop(self) -> None:
        """End the thread after its current job, or leave the thread if the job hangs. Work that is
        left is done after the next start."""
        self._stopped.set()
        self.join(STOP_SECONDS)

    @property
    def hangs(self) -> bool:
        """Return whether one file or batch takes longer than HANGS_SECONDS."""
        return time.monotonic() - self.since > HANGS_SECONDS


class Ingestor(Worker):
    """Thread that moves blocks of reports to the store when they are large or old enough."""

    role = "ingestor"

    def __init__(
        self,
        store: StorePath,
        reader: Buffer,
        writer: Writer[Buffer],
        counts: Counts,
        shuffling: Shuffling,
        retain: timedelta | None,
        candidates: Mapping[tuple[str, int], tuple[str, ...]],
    ) -> None:
        super().__init__(reader, writer)
        self._store, self._reader, self._writer = store, reader, writer
        self._counts, self._shuffling = counts, shuffling
        self._retain, self._retired_day = retain, date.min
        self._work_lock = threading.Lock()
        self._candidates = candidates
        self._since: dict[int, float] = {}
        self._marked, self._commits = -inf, -1
        self._relayed = list[RelayedReports]()
        self._is_flush_asked = False
        self._small = set[int]()
        """Metrics for which a warning was logged that too few reports wait."""

    def ask_flush(self) -> None:
        """Ask that the next `work` moves everything except what is too little for a file."""
        self._is_flush_asked = True

    def work(self, everything: bool = False) -> None:
        """Write every block that is due, or all reports if `everything`. Delete files that are too
        old."""
        with self._work_lock:
            everything, self._is_flush_asked = everything or self._is_flush_asked, False
            report_counts, now = self._reader.report_counts(), time.monotonic()
            self.waiting, self.buffer_bytes = sum(report_counts.values()), self._reader.bytes_used()
            self._since = {number: self._since.get(number, now) for number in report_counts}
            self._small &= {*report_counts}
            for number, reports in report_counts.items():
                if self._is_due(number, reports, now, everything):
                    reports_of = "reports of {} version {}".format(*self._reader.name_of(number))
                    problem = f"{reports_of} cannot be moved to the store"
                    self._attempt(problem, partial(self._move, number, everything))
            self._attempt("the mark of the store cannot be written", self._mark_in_time)
            self._attempt("old files cannot be deleted", self._retire)
            self._attempt("sizes of batches cannot be written", self._write_sizes)

    def _mark_in_time(self) -> None:
        """Raise the mark if batches came and it did not rise for MARK_SECONDS."""
        is_due = time.monotonic() - self._marked >= MARK_SECONDS
        if is_due and sum(self._counts.commits) > self._commits:
            self._mark()

    def _mark(self) -> None:
        """Raise the mark of buffer and store, by which an older copy of either is noticed."""
        commits = sum(self._counts.commits)
        stored = mark_of(self._store)
        mark = self._writer.perform(lambda buffer: buffer.step(stored))
        write_mark(self._store, mark)
        self._writer.perform(lambda buffer: buffer.confirm(mark))
        self._marked, self._commits = time.monotonic(), commits

    def _write_sizes(self) -> None:
        """Write the sizes of a relay's batches beside the reports, if they changed."""
        if (relayed := self._reader.relayed()) != self._relayed:
            write_sizes(self._store, relayed)
            self._relayed = relayed

    def _is_due(self, number: int, reports: int, now: float, everything: bool) -> bool:
        # decided before this process began
        if self._reader.plan(number) is not None:
            return True
        is_old = now - self._since[number] >= self._shuffling.longest.total_seconds()
        if not (everything or is_old or reports >= self._shuffling.least):
            return False
        if reports >= self._shuffling.smallest:
            return True
        if is_old and number not in self._small:
            LOG.warning(
                "waiting: %s of %s version %d; a file has %d at least (--write-small writes them)",
                counted(reports, "report"),
                *(*self._reader.name_of(number), self._shuffling.smallest),
            )
            self._small.add(number)
        return False

    def _move(self, number: int, everything: bool) -> None:
        metric = self._reader.metric(number)
        while self._write(metric, everything) and everything:
            self.since = time.monotonic()
        del self._since[number]

    def _retire(self) -> None:
        """Delete files that are too old."""
        oldest = self._retain and self._writer.oldest_kept(self._retain)
        if oldest and oldest != self._retired_day:
            retire(self._store, oldest)
            self._retired_day = oldest

    def _write(self, metric: BufferedMetric, everything: bool) -> bool:
        """Write a block. Where the clock leapt, does so only if `everything` is asked for."""
        plan = self._reader.plan(metric.number)
        day = self._writer.today if everything else self._writer.settled_day
        if plan is None and day is not None:
            settings = metric.number, day, MOST_BLOCK_BYTES, self._shuffling.smallest
            plan = self._writer.perform(lambda buffer: buffer.decide(*settings))
        if plan is None:
            return False
        if not plan.is_written:
            self._mark()
            lots, damaged = self._reader.bodies(metric.number, plan)
            candidates = self._candidates.get((metric.metric, metric.version), ())
            stored, aside = write_block(self._store, metric, plan, lots, candidates=candidates)
            self._writer.perform(lambda buffer: buffer.mark_written(metric.number))
            self._counts.stored[metric.metric] += stored
            self._counts.set_aside[metric.metric] += aside
            self._counts.damaged[metric.metric] += damaged
            if damaged:
                LOG.error("%d reports of %s are damaged in the buffer", damaged, metric.metric)
            if aside:
                LOG.warning("%d reports of %s are not plausible", aside, metric.metric)
        while self._writer.perform(lambda buffer: buffer.forget(metric.number, plan)):
            pass
        self._writer.perform(Buffer.erase)
        return True


def _line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
