"""Publication of a registry: from a store to kept tables, estimates, a data set and a site.

A period is a day, a week or a number of days in UTC. It is complete when it has ended. Complete
periods with files in the store that are not counted yet are counted. Files that come later re-open
their period, however old it is. Files are known by their day and name.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import groupby
from pathlib import Path

from ldp.collection.lock import hold_lock
from ldp.collection.object_store import StorePath
from ldp.collection.store import NoReports, report_files, require_store
from ldp.errors import DecodeError, ParameterError
from ldp.files import counted, write_whole
from ldp.protocol.strict_json import read_json
from ldp.publishing.period import (
    CountedPeriod,
    Files,
    PeriodResult,
    PeriodTask,
    Problem,
    passing_by,
)
from ldp.publishing.processes import run_all
from ldp.publishing.state import (
    kept_versions,
    load_states,
    lost_files,
    publisher_folder,
    remove_orphans,
    remove_parts,
)
from ldp.publishing.subjects import Subject, stored_versions
from ldp.registry import Registry

PERIODS = {"day": 1, "week": 7}
"""Lengths of periods that have names, in days. A week begins on a Monday. Other periods, such as
28d, begin at a multiple of their length since 1970, as windows do."""
NO_WEEKS = (
    "a memoised metric has no weeks or months, as reports of several days share their noise; "
    'nothing of it is counted: publish it with period = "day", in another folder for --out'
)
SETTINGS, LOCK = "publish.json", ".publish.lock"
FORMAT = 1
FORM = (
    "the settings of ldp publish (damaged; restore it from a backup, or delete it and run with the "
    "period of the runs before: it is written anew)"
)
"""Form of the file of settings, in words for an error."""
_EPOCH = date(1970, 1, 1)


@dataclass
class Publication:
    """Results of a run: the periods that were counted, and everything that could not be."""

    counted: list[CountedPeriod] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Job:
    """Options of a run. `today`: day in UTC. `since`: periods that begin before this day are left
    alone. `skip_damaged`: whether to leave damaged files out. `fakes`: largest share of a period's
    reports that may be made up. `processes`: how many metrics are counted at a time. `on_period` is
    called after each period."""

    registry: Registry
    stores: Sequence[StorePath]
    out: Path
    today: date
    since: date | None = None
    period: str = "day"
    skip_damaged: bool = False
    fakes: float | None = None
    processes: int = 1
    on_period: Callable[[CountedPeriod], None] = lambda _: None


@contextmanager
def opened(out: Path, period: str) -> Iterator[int]:
    """Hold the lock of the folder `out` of a publication for the block, and yield the descriptor of
    the lock. A missing folder is created. Raises InUse if another run holds the lock,
    ParameterError if the folder has periods of another length, and DecodeError if its file of
    settings is damaged."""
    out.mkdir(parents=True, exist_ok=True)
    with hold_lock(out, LOCK, "ldp publish") as lock:
        remove_parts(out)
        settings = {"format": FORMAT, "period": period}
        path = out / SETTINGS
        if not path.exists():
            write_whole(path, json.dumps(settings) + "\n")
        elif read_json(path, FORM, lambda _: None, DecodeError) != settings:
            raise ParameterError(
                f"{out} was made with another period or version: name another folder for --out"
            )
        yield lock


def publish(job: Job, lock: int) -> Publication:
    """Count and decode the periods of a `job` that are complete and have files that are not counted
    yet.

    An error of one period becomes a sentence among the `problems` and does not affect the others.
    The caller holds the `lock` (`opened`). Raises ReportError as `require_store`.
    """
    for store in job.stores:
        require_store(store)
    publication, versions = Publication(), kept_versions(job.out)
    tasks: list[PeriodTask] = []
    for metric in job.registry.metrics:
        stored = stored_versions(job.stores, metric)
        for version in sorted(stored.union(n for name, n in versions if name == metric)):
            with passing_by(publication.problems, metric):
                tasks += _due_tasks(job, metric, version, version in stored)
    by_metric = [[*listed] for _, listed in groupby(tasks, lambda task: task.subject.metric)]

    def on_result(result: PeriodResult) -> None:
        if result.counted:
            job.on_period(result.counted)

    for results in run_all(by_metric, job.processes, lock, on_result):
        for result in results:
            publication.counted += [result.counted] if result.counted else []
            publication.problems += result.problems
    return publication


def _due_tasks(job: Job, metric: str, version: int, is_stored: bool) -> list[PeriodTask]:
    """Return the tasks for a version of a metric, in the order of time. Deletes the tables that a
    killed run left."""
    folder, days = publisher_folder(job.out, metric, version), days_of(job.period)
    states = load_states(folder)
    waiting = {
        first
        for first, state in states.items()
        if (not state.digest or lost_files(job.out, metric, version, first))
        and (not job.since or first >= job.since)
    }
    if not is_stored and not waiting:
        return []
    if version == job.registry.metric(metric).version:
        subject = Subject.of_registry(job.registry, metric, days)
    else:
        subject = Subject.of_states(job.registry, metric, version, states)
    if subject.memoised and days > 1:
        raise ParameterError(NO_WEEKS)
    window = job.registry.groups[job.registry.metric(metric).group].caps.window
    if days > 1 and not are_whole(window, job.period):
        fitting = next(n for n in range(2, 10**6) if are_whole(window, f"{n}d"))
        raise ParameterError(
            f"its windows of {window / timedelta(days=1):g} days are cut by periods of {days} days"
            f"{' from Monday' if job.period == 'week' else ''}, so people would count twice or not "
            f'at all; nothing of it is counted: publish it with period = "{fitting}d" or a '
            "multiple, in another folder for --out"
        )
    remove_orphans(folder, states)
    complete = _complete(subject, job)
    tasks = (
        PeriodTask(
            subject=subject,
            out=job.out,
            first=first,
            days=days,
            files=complete.get(first, ()),
            state=states.get(first),
            is_unfinished=first in waiting,
            skip_damaged=job.skip_damaged,
            fakes=job.fakes,
        )
        for first in sorted({*complete, *waiting})
    )
    return [task for task in tasks if task.is_due]


def _complete(subject: Subject, job: Job) -> Mapping[date, Files]:
    """Return the files of each complete period, by its first day, in the order of time."""
    length = days_of(job.period)
    periods = defaultdict[date, list[tuple[str, StorePath]]](list)
    try:
        place = job.stores, subject.metric, subject.version, job.since
        files = report_files(*place, with_copies=True)
    except NoReports:
        return {}
    for day, path in files:
        periods[first_day(date.fromisoformat(day), job.period)].append((day, path))
    return {
        first: listed
        for first, listed in sorted(periods.items())
        if job.today - first >= timedelta(days=length) and (not job.since or first >= job.since)
    }


def days_of(period: str) -> int:
    """Return the length of a period in days: of "day", "week" or, as text, "28d"."""
    return PERIODS.get(period) or int(period.removesuffix("d"))


def counted_periods(number: int, period: str) -> str:
    """Return a `number` of periods in words, such as "3 weeks" or "1 period of 28 days"."""
    if period in PERIODS:
        return counted(number, period)
    length = f"of {counted(days_of(period), 'day')}"
    return counted(number, f"period {length}", f"periods {length}")


def first_day(day: date, period: str) -> date:
    """Return the first day of the period that holds `day`."""
    since = day.weekday() if period == "week" else (day - _EPOCH).days % days_of(period)
    return day - timedelta(days=since)


def are_whole(window: timedelta, period: str) -> bool:
    """Return whether periods hold whole windows, which begin at multiples of their length since
    1970. It is always True for windows of a day or less."""
    is_long = window > timedelta(days=1)
    return not is_long or (period != "week" and not timedelta(days=days_of(period)) % window)
