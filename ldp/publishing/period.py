"""One period of a publication: its new files become a kept table, estimates and rows."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ldp.collection.aggregate import count_files
from ldp.collection.object_store import StorePath
from ldp.collection.store import require_no_copy
from ldp.decoding.outcome import outcome
from ldp.errors import LdpError, ReportError
from ldp.files import counted, open_replacement
from ldp.publishing.data_set_rows import result_table
from ldp.publishing.state import PeriodState, estimates_path, publisher_folder, results_path
from ldp.publishing.subjects import Subject
from ldp.tables.fakes import NoBound
from ldp.tables.joint_table import AnyTable, JointTable, load_table
from ldp.tables.saved import SavedResult

Files = Sequence[tuple[str, StorePath]]
"""Pairs (day, file) as from `report_files`."""


@dataclass(frozen=True)
class CountedPeriod:
    """Period that a run counted, or counted again (`revision` above 0), with its number of reports
    and a `note`, or ""."""

    metric: str
    version: int
    period: date
    reports: int
    revision: int
    note: str = ""

    def __str__(self) -> str:
        again = "counted again, " if self.revision else ""
        words = f"{self.metric} v{self.version} {self.period}: {again}"
        words += counted(self.reports, "report")
        return f"{words}; {self.note}" if self.note else words


class Problem(NamedTuple):
    """Problem of a metric, in words."""

    metric: str
    text: str

    def __str__(self) -> str:
        return f"{self.metric}: {self.text}"


@contextmanager
def passing_by(problems: list[Problem], metric: str) -> Iterator[None]:
    """Add an error of the block to the `problems`, as one of `metric`. Other metrics go on."""
    try:
        yield
    except (LdpError, OSError) as error:
        if (problem := Problem(metric, str(error))) not in problems:
            problems.append(problem)


class PeriodResult(NamedTuple):
    """Result of a task. `counted`: None where nothing was new or counting failed."""

    counted: CountedPeriod | None
    problems: Sequence[Problem]


@dataclass(frozen=True, kw_only=True)
class PeriodTask:
    """One period of a subject, of `days` days from `first` on, with all its `files` in the store
    and its `state` if it was counted. `is_unfinished`: whether its results are not those of the
    kept table. `out`: folder of the publication. `skip_damaged`: whether to leave damaged files
    out. `fakes`: largest share of the reports that may be made up, where a bound is known."""

    subject: Subject
    out: Path
    first: date
    days: int
    files: Files
    state: PeriodState | None
    is_unfinished: bool
    skip_damaged: bool
    fakes: float | None = None

    @property
    def is_due(self) -> bool:
        """Return whether there is anything to do. This is so, too, if two files have one name: then
        `run` states that problem."""
        names = {_name(day, path) for day, path in self.files}
        before = self.state.files if self.state else ()
        return self.is_unfinished or len(names) < len(self.files) or not names <= {*before}

    def run(self) -> PeriodResult:
        """Count the files that are not counted yet, and write all that follows from them. An error
        becomes a sentence among the problems."""
        problems: list[Problem] = []
        period = None
        try:
            period = self._run(problems)
        except (LdpError, OSError) as error:
            problems.append(self.problem(str(error)))
        return PeriodResult(period, problems)

    def problem(self, text: str) -> Problem:
        """Return a problem of this period."""
        return Problem(self.subject.metric, f"{self.first}: {text}")

    def _run(self, problems: list[Problem]) -> CountedPeriod | None:
        by_name = _by_name(self.files)
        before = {*self.state.files} if self.state else set[str]()
        new = by_name.keys() - before
        state, is_whole = self.state, self.subject.mechanism.needs_whole
        if is_whole and not before <= by_name.keys():
            what = "it cannot be decoded again"
            what = f"{counted(len(new), 'late file')} cannot be added" if new else what
            raise ReportError(
                f"{what}: which values go together is only in the reports, and those counted "
                "before are no longer in the store"
            )
        chosen = [by_name[name] for name in sorted(by_name if is_whole else new)]
        table, names = self._count(chosen, problems)
        if names <= before and not self.is_unfinished:
            return None
        by_day = self._by_day([by_name[name] for name in sorted(names)], is_whole)
        if state and not is_whole:
            names |= before
            table = table + self._read_table(state)  # type: ignore[operator]
        return self._write(table, names, by_day)

    def _read_table(self, state: PeriodState) -> AnyTable:
        """Return the kept table. Raises ReportError, with a remedy, where it cannot be read."""
        try:
            return load_table(state.table_path)
        except (LdpError, OSError) as error:
            raise ReportError(
                f"{error}; restore it from a backup, or delete {state.path}: its period is then "
                "counted again from the store"
            ) from None

    def _by_day(self, files: Files, are_all: bool) -> Mapping[str, int]:
        """Return the number of reports of each day, if there are several: reports in `files` and,
        unless these `are_all` files, reports that were counted before. Empty where the numbers are
        not known."""
        before = {} if are_all or not self.state else self.state.by_day
        if self.days == 1 or (self.state and not self.state.by_day):
            return before
        by_day = Counter(before)
        for day, path in files:
            source = path if isinstance(path, Path) else pa.BufferReader(path.read_bytes())
            by_day[day] += pq.read_metadata(source).num_rows
        return dict(sorted(by_day.items()))

    def _count(self, files: Files, problems: list[Problem]) -> tuple[AnyTable, set[str]]:
        """Return the table of `files`, and the names of the files that were counted."""
        names = {path: _name(day, path) for day, path in files}
        names_done = set[str]()

        def skip(error: ReportError) -> None:
            problems.append(Problem(self.subject.metric, f"left out {error}"))

        self._path.parent.mkdir(parents=True, exist_ok=True)
        table = count_files(
            files,
            self.subject.mechanism,
            workers=2,
            on_damaged=skip if self.skip_damaged else None,
            on_file=lambda path: names_done.add(names[path]),
            whole=self.subject.mechanism.needs_whole,
        )
        return table, names_done

    def _write(
        self,
        table: AnyTable,
        names: set[str],
        by_day: Mapping[str, int],
    ) -> CountedPeriod:
        """Write the table, the estimates and the rows of a period, and last its state, which makes
        them valid. If the table cannot be decoded, write only the table and the state."""
        subject, first, before = self.subject, self.first, self.state
        revision = before.revision + ({*before.files} != names) if before else 0
        state = PeriodState(
            path=self._path,
            files=tuple(sorted(names)),
            table=f"{first}.{revision}.table",
            revision=revision,
            digest="",
            members=subject.members,
            reports_per_person=subject.reports_per_person,
            by_day=by_day,
        )
        table = table.of_metric(subject.dictionary, subject.memoised).labelled(subject.label)
        # it outlives the reports in the store
        replace(table, whole=None).save(state.table_path)
        try:
            digest, note = self._decode(table, state)
        except LdpError:
            self._keep(state)
            raise
        self._keep(replace(state, digest=digest))
        reports = table.total // subject.mechanism.messages
        return CountedPeriod(subject.metric, subject.version, first, reports, revision, note)

    def _keep(self, state: PeriodState) -> None:
        """Write the state, and delete the table of the state before."""
        state.save()
        if self.state and self.state.table != state.table:
            self.state.table_path.unlink(missing_ok=True)

    def _decode(self, table: AnyTable, state: PeriodState) -> tuple[str, str]:
        """Write estimates and rows of a table. Returns the digest of the rows and a note."""
        subject, first = self.subject, self.first
        metric, version = subject.metric, subject.version
        estimates, note = estimates_path(self.out, metric, version, first), ""
        if isinstance(table, JointTable) and subject.members:
            table = table.of_members(subject.members)
        people = most_on_average(*subject.reports_per_person, [*state.by_day.values()])
        result = outcome(table, people)
        try:
            result = result.under_fakes(self.fakes)
        except NoBound:
            note = "its intervals take all reports as honest: no bound under made-up ones is known"
        result.to_csv(estimates)
        place = {"metric": metric, "version": version, "period": first, "revision": state.revision}
        rows = result_table(SavedResult.load(estimates), {**place, "days": self.days})
        results = results_path(self.out, metric, version, first)
        with open_replacement(results) as part:
            pq.write_table(rows, part, compression="zstd")
        return hashlib.blake2b(results.read_bytes(), digest_size=16).hexdigest(), note

    @property
    def _path(self) -> Path:
        folder = publisher_folder(self.out, self.subject.metric, self.subject.version)
        return folder / f"{self.first}.json"


def most_on_average(most: int, a_day: int, reports: Sequence[int]) -> float:
    """Return a bound on the number of reports that the sender of a report sent, on average over all
    reports. `reports`: number of reports of each day. `most`: most reports of one person on all
    days. `a_day`: most on one day. If person i sends k_id reports on day d, the sum over i of k_id
    k_id' is at most a_day min(n_d, n_d') for any two days d and d'.

    >>> most_on_average(7, 1, [100] * 7), most_on_average(7, 1, [700, 0, 0, 0, 0, 0, 0])
    (7.0, 1.0)
    """
    ordered, days = sorted(reports), len(reports)
    pairs = sum((2 * (days - place) - 1) * number for place, number in enumerate(ordered))
    return min(float(most), a_day * pairs / sum(reports)) if sum(reports) else float(most)


def _name(day: str, path: StorePath) -> str:
    return f"{day}/{path.name}"


def _by_name(files: Files) -> dict[str, tuple[str, StorePath]]:
    """Return files by DAY/NAME. Raises ReportError where two stores have files of one name, and for
    copies."""
    names = dict[str, tuple[str, StorePath]]()
    for day, path in files:
        other = names.setdefault(_name(day, path), (day, path))[1]
        if other != path:
            raise ReportError(f"{path} has the name of {other}: publish one of the copies")
    require_no_copy(files)
    return names
