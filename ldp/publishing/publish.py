"""Publication of a registry: from a store to kept tables, estimates, a data set and a site.

A period is a day or a week in UTC. It is complete when it has ended. Complete periods with files in
the store that are not counted yet are counted; files that come later re-open their period, however
old it is. Files are known by their day and name.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from ldp.collection.aggregate import count_files
from ldp.collection.lock import hold_lock
from ldp.collection.object_store import StorePath
from ldp.collection.patterns import patterns_of
from ldp.collection.store import NoReports, report_files
from ldp.decoding.outcome import needs_patterns, outcome
from ldp.errors import DecodeError, LdpError, ParameterError, ReportError
from ldp.files import open_replacement, write_whole
from ldp.mechanisms import JointMechanism
from ldp.publishing.rows import result_table
from ldp.publishing.state import (
    PeriodState,
    estimates_path,
    load_states,
    remove_orphans,
    results_path,
    state_folder,
    unfinished,
)
from ldp.publishing.subjects import Subject, subjects
from ldp.registry import Registry
from ldp.report import load
from ldp.tables.estimates import write_with_summary
from ldp.tables.joint_table import JointTable, load_table
from ldp.tables.patterns import Patterns
from ldp.tables.table import Table

PERIODS = {"day": 1, "week": 7}
"""Lengths of a period in days, by name; a week begins on a Monday."""
NO_WEEKS = (
    "a memoised metric has no weeks, as reports of several days share their noise; nothing of it "
    "is counted: publish it with --period day, in another folder for --out"
)
SETTINGS, LOCK = "publish.json", ".publish.lock"
FORMAT = 1
Files = Sequence[tuple[str, StorePath]]
"""Pairs (day, file) as from `report_files`."""


@dataclass(frozen=True)
class CountedPeriod:
    """A period that a run counted, or counted again (`revision` above 0), and its reports."""

    metric: str
    version: int
    period: date
    reports: int
    revision: int

    def __str__(self) -> str:
        again = "counted again, " if self.revision else ""
        return f"{self.metric} v{self.version} {self.period}: {again}{self.reports:,} reports"


class Problem(NamedTuple):
    """Problem of a metric, in words."""

    metric: str
    text: str

    def __str__(self) -> str:
        return f"{self.metric}: {self.text}"


@dataclass
class Publication:
    """Results of a run: the periods that were counted, and everything that could not be."""

    counted: list[CountedPeriod] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Job:
    """Options of a run. `today`: in UTC; `since`: periods that begin before it are left alone;
    `skip_damaged`: leave damaged files out; `workers`: threads; `on_period` is called after each
    period; `is_ending` is asked before each, and leaves the rest to the next run."""

    registry: Registry
    stores: Sequence[StorePath]
    out: Path
    today: date
    since: date | None = None
    period: str = "day"
    skip_damaged: bool = False
    workers: int = 2
    on_period: Callable[[CountedPeriod], None] = lambda _: None
    is_ending: Callable[[], bool] = lambda: False


@contextmanager
def opened(out: Path, period: str) -> Iterator[None]:
    """Hold the lock of the folder `out` of a publication, made if it is not there, for the block.
    Raises InUse if another run holds it, ParameterError if it has periods of another length,
    DecodeError if the file that says so is damaged."""
    out.mkdir(parents=True, exist_ok=True)
    with hold_lock(out, LOCK, "ldp publish"):
        for path in out.rglob(".*.part"):  # a killed run left it
            path.unlink()
        settings = {"format": FORMAT, "period": period}
        path = out / SETTINGS
        if not path.exists():
            write_whole(path, json.dumps(settings) + "\n")
        elif _settings(path) != settings:
            raise ParameterError(
                f"{out} was made with another --period or version: name another folder for --out"
            )
        yield


def _settings(path: Path) -> object:
    try:
        return json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError):
        raise DecodeError(
            f"{path}: damaged; restore it from a backup, or delete it and run with the --period of "
            "the runs before: it is written anew"
        ) from None


def publish(job: Job) -> Publication:
    """Count and decode the periods of a `job` that are complete and have files that are not counted
    yet.

    What goes wrong with one period is a sentence among the `problems` and leaves the others alone.
    The caller holds the lock (`opened`).
    """
    unknown: list[tuple[str, str]] = []
    result = Publication()
    for subject in subjects(job.registry, job.stores, job.out, unknown):
        folder = state_folder(job.out, subject.metric, subject.version)
        states = load_states(folder)
        remove_orphans(folder, states)
        if subject.memoised and job.period == "week":
            result.problems.append(Problem(subject.metric, NO_WEEKS))
            continue
        waiting = [
            first
            for first in unfinished(job.out, subject.metric, subject.version)
            if not job.since or first >= job.since
        ]
        complete = _complete(subject, job)
        for first in sorted({*complete, *waiting}):
            if job.is_ending():
                return result
            work = _Work(subject, job, first, states.get(first), result)
            try:
                counted = work.run(complete.get(first, ()), first in waiting)
            except (LdpError, OSError) as error:
                result.problems.append(Problem(subject.metric, f"{first}: {error}"))
                continue
            if counted:
                result.counted.append(counted)
                job.on_period(counted)
    result.problems += [Problem(*item) for item in unknown]
    return result


def repeat(
    run: Callable[[], object],
    seconds: float,
    wait: Callable[[float], bool],
    clock: Callable[[], float],
) -> None:
    """Call `run` now, and again whenever `seconds` by the `clock` have passed since it began, or at
    once if it took longer. `wait`: waits for so many seconds and returns whether to end."""
    is_ended = False
    while not is_ended:
        due = clock() + seconds
        run()
        is_ended = wait(max(0.0, due - clock()))


def _complete(subject: Subject, job: Job) -> Mapping[date, Files]:
    """Return the files of each complete period, by its first day, in the order of time."""
    length = PERIODS[job.period]
    periods = defaultdict[date, list[tuple[str, StorePath]]](list)
    try:
        files = report_files(job.stores, subject.metric, subject.version, job.since)
    except NoReports:
        return {}
    for day, path in files:
        periods[first_day(date.fromisoformat(day), length)].append((day, path))
    return {
        first: listed
        for first, listed in sorted(periods.items())
        if first + timedelta(days=length) <= job.today and (not job.since or first >= job.since)
    }


def first_day(day: date, length: int) -> date:
    """Return the first day of the period of `length` days, 1 or 7, that holds `day`."""
    return day - timedelta(days=day.weekday()) if length == PERIODS["week"] else day


@dataclass(frozen=True)
class _Work:
    """One period of a subject, which begins on `first`, and its `state` if it was counted."""

    subject: Subject
    job: Job
    first: date
    state: PeriodState | None
    result: Publication

    def run(self, files: Files, is_unfinished: bool) -> CountedPeriod | None:
        """Count those of the `files` that are not counted yet, and write all that follows; return
        None where there are none, and the results are those of the kept table."""
        by_name = _by_name(files)
        before = {*self.state.files} if self.state else set[str]()
        new = by_name.keys() - before
        if not new and not is_unfinished:
            return None
        mechanism, state = self.subject.mechanism, self.state
        is_whole = needs_patterns(mechanism)
        if is_whole and not before <= by_name.keys():
            what = f"{len(new)} late files cannot be added" if new else "it cannot be decoded again"
            raise ReportError(
                f"{what}: which values go together is only in the reports, and those counted "
                "before are no longer in the store"
            )
        table, names = self._count([by_name[name] for name in sorted(by_name if is_whole else new)])
        if names <= before and not is_unfinished:
            return None
        if state and not is_whole:
            names |= before
            table = table + load_table(state.table_path)  # type: ignore[operator]
        patterns = None
        if is_whole:
            assert isinstance(mechanism, JointMechanism)
            patterns = patterns_of([by_name[name] for name in sorted(names)], mechanism)
        return self._write(table, patterns, names)

    def _count(self, files: Files) -> tuple[Table | JointTable, set[str]]:
        """Return the table of `files`, and the names of those that are in it."""
        names = {path: _name(day, path) for day, path in files}
        counted = set[str]()
        fingerprint = self.subject.mechanism.fingerprint.hex()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        table = count_files(
            files,
            self.subject.mechanism,
            workers=self.job.workers,
            on_damaged=self._skip if self.job.skip_damaged else None,
            on_file=lambda path: counted.add(names[path]),
            checkpoint=self._path.with_suffix(".checkpoint"),
            question=f"publish {fingerprint} {sorted(names.values())}",
        )
        return table, counted

    def _skip(self, error: ReportError) -> None:
        self.result.problems.append(Problem(self.subject.metric, f"left out {error}"))

    def _write(
        self, table: Table | JointTable, patterns: Patterns | None, names: set[str]
    ) -> CountedPeriod:
        """Write table, estimates and rows of a period, and last its state, which makes them count;
        where the table cannot be decoded, the table and its state."""
        subject, first, before = self.subject, self.first, self.state
        revision = before.revision + ({*before.files} != names) if before else 0
        state = PeriodState(
            path=self._path,
            files=tuple(sorted(names)),
            table=f"{first}.{revision}.table",
            revision=revision,
            digest="",
            members=subject.members,
        )
        table = table.of_metric(subject.dictionary, subject.memoised).labelled(subject.label)
        table.save(state.table_path)
        try:
            digest = self._decode(table, patterns, revision)
        except LdpError:
            self._keep(state)
            raise
        self._keep(replace(state, digest=digest))
        return CountedPeriod(subject.metric, subject.version, first, table.total, revision)

    def _keep(self, state: PeriodState) -> None:
        """Write the state, and delete the table of the one before."""
        state.save()
        if self.state and self.state.table != state.table:
            self.state.table_path.unlink(missing_ok=True)

    def _decode(self, table: Table | JointTable, patterns: Patterns | None, revision: int) -> str:
        """Write estimates and rows of a table, and return the digest of the rows."""
        metric, version, first = self.subject.metric, self.subject.version, self.first
        estimates = estimates_path(self.job.out, metric, version, first)
        write_with_summary(estimates, *outcome(table, patterns, self.subject.members))
        place = {"metric": metric, "version": version, "period": first, "revision": revision}
        rows = result_table(load(estimates), {**place, "days": PERIODS[self.job.period]})
        results = results_path(self.job.out, metric, version, first)
        with open_replacement(results) as part:
            pq.write_table(rows, part, compression="zstd")
        return hashlib.blake2b(results.read_bytes(), digest_size=16).hexdigest()

    @property
    def _path(self) -> Path:
        folder = state_folder(self.job.out, self.subject.metric, self.subject.version)
        return folder / f"{self.first}.json"


def _name(day: str, path: StorePath) -> str:
    return f"{day}/{path.name}"


def _by_name(files: Files) -> dict[str, tuple[str, StorePath]]:
    """Return files by DAY/NAME; raises ReportError where two stores have files of one name."""
    names = dict[str, tuple[str, StorePath]]()
    for day, path in files:
        other = names.setdefault(_name(day, path), (day, path))[1]
        if other != path:
            raise ReportError(f"{path} has the name of {other}: publish one of the copies")
    return names
