"""Tables that a publication keeps, and which files of the store each of them counts.

`PERIOD.json` is written last and names the table. Until then a period is as it was before. So a run
that is killed leaves nothing half done, and the next run does its work again. A table that could
not be decoded is kept, too. Its state has no digest.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from itertools import chain
from pathlib import Path
from stat import S_ISFIFO, S_ISREG
from typing import Any

from ldp.errors import DecodeError, ParameterError
from ldp.files import write_whole
from ldp.protocol.strict_json import Kinds, are_texts, read_json, require_fields

FIELDS = ("table", "revision", "digest", "files", "members", "reports_per_person", "by_day")
FORM = (
    "a state of ldp publish (damaged; restore it and its table from a backup, or delete it: its "
    "period is then counted again from the store)"
)
MOST_REVISIONS = 1 << 30
ALL_VERSIONS = 0
"""Version that stands for all versions of a metric together."""
Members = Mapping[str, tuple[str, ...] | None]
"""Candidates of each member of a joint metric, None for one with categories."""


@dataclass(frozen=True, kw_only=True)
class PeriodState:
    """State of a period that was published. `path`: its JSON file. `files`: names of the counted
    files of the store, as DAY/NAME. `table`: name of the table's file. `revision`: how often the
    period was re-opened. `digest`: digest of its rows in the data set, "" where the table could not
    be decoded. `members`, `reports_per_person`: those of its subject. `by_day`: number of reports
    of each day, where there are several days."""

    path: Path = field(compare=False)
    files: tuple[str, ...]
    table: str
    revision: int
    digest: str
    members: Members = field(default_factory=dict)
    reports_per_person: Sequence[int] = (1, 1)
    by_day: Mapping[str, int] = field(default_factory=dict)

    @property
    def table_path(self) -> Path:
        """Path of the table."""
        return self.path.with_name(self.table)

    @classmethod
    def load(cls, path: Path) -> "PeriodState":
        """Read the state of a period. Raises DecodeError for a file that `save` did not write."""
        fields = read_json(path, FORM, partial(_require_state, path.stem), DecodeError)
        members = {name: some and tuple(some) for name, some in fields["members"].items()}
        return cls(path=path, **{**fields, "files": tuple(fields["files"]), "members": members})

    def save(self) -> None:
        """Write the state to `path`, atomically."""
        fields = {name: getattr(self, name) for name in FIELDS}
        write_whole(self.path, json.dumps(fields, indent=1) + "\n")


def _require_state(first: str, state: Any) -> None:
    """Raise ValueError unless a file is the state of the period that begins on the day `first`."""
    kinds: Kinds = {str: "table", int: "revision", list: "files reports_per_person"}
    require_fields(state, {**kinds, dict: "members by_day"})
    lists = (words for words in state["members"].values() if words is not None)
    fits = (
        state.keys() == {*FIELDS}
        and state["table"] == f"{first}.{state['revision']}.table"
        and re.fullmatch("(?:[0-9a-f]{32})?", str(state["digest"]))
        and are_texts(state["files"])
        and all(map(are_texts, lists))
        and 0 <= state["revision"] < MOST_REVISIONS
        and [type(number) for number in state["reports_per_person"]] == [int, int]
        and min(state["reports_per_person"]) > 0
        and all(type(number) is int and number >= 0 for number in state["by_day"].values())
    )
    if not fits:
        raise ParameterError("a field is of another kind")


_DAY = r"\d{4}-\d\d-\d\d"
_FOLDERS = (
    *(".", "tables/*/v*", "estimates/*/v*", "results/*/v*", "changes/*"),
    *("site", "site/metrics", "site/arms", "arms"),
)
_PART = (
    r"(\.publish\.json|\.\.publish\.lock|"
    rf"(tables|estimates|results)/.*/\.{_DAY}\.(\d+\.table|json|csv|parquet)|"
    r"changes/.*/\.v\d+\.parquet|site/(.*/)?\..*\.html|arms/\..*\.csv)\.\d+\.part"
)


def publisher_folder(out: Path, metric: str, version: int) -> Path:
    """Return the folder of the tables of one version of a metric."""
    return out / "tables" / metric / f"v{version}"


def kept_versions(out: Path) -> list[tuple[str, int]]:
    """Return the pairs of metric and version with tables in `out`, sorted."""
    folders = [path for path in out.glob("tables/*/v*") if path.name[1:].isdecimal()]
    return sorted((path.parent.name, int(path.name[1:])) for path in folders)


def published_versions(out: Path) -> list[tuple[str, int]]:
    """Return the pairs of metric and version in the data set in `out`, sorted: `kept_versions`, and
    for a metric with a series also (metric, ALL_VERSIONS), before its other pairs."""
    versions = kept_versions(out)
    of_all = {metric for metric, _ in versions if series_periods(out, metric)}
    return sorted([*versions, *((metric, ALL_VERSIONS) for metric in of_all)])


def load_states(folder: Path) -> Mapping[date, PeriodState]:
    """Return the states of the periods in `folder`, by first day, in the order of time. Files that
    are not named by a day are left alone."""
    return {first: PeriodState.load(path) for first, path in _by_day(folder, "*.json")}


def _by_day(folder: Path, pattern: str) -> Iterator[tuple[date, Path]]:
    """Yield the files of a `pattern` that are named by a day, with that day, in the order of
    time."""
    for path in sorted(folder.glob(pattern)):
        with suppress(ValueError):
            yield date.fromisoformat(path.stem), path


def estimates_path(out: Path, metric: str, version: int, first: date) -> Path:
    """Return the file of the estimates of one period, as the command for them writes it."""
    return out / "estimates" / metric / f"v{version}" / f"{first}.csv"


def results_path(out: Path, metric: str, version: int, first: date) -> Path:
    """Return the file of the data set with the rows of one period."""
    return out / "results" / metric / f"v{version}" / f"{first}.parquet"


def series_periods(out: Path, metric: str) -> Mapping[date, Path]:
    """Return the files of a metric's series by the first day of their period, in order."""
    return dict(_by_day(out / "results" / metric / f"v{ALL_VERSIONS}", "*.parquet"))


def lost_files(out: Path, metric: str, version: int, first: date) -> list[Path]:
    """Return the files of the results of one period that are missing."""
    estimates = estimates_path(out, metric, version, first)
    results = results_path(out, metric, version, first)
    paths = (estimates, estimates.with_suffix(".json"), results)
    return [path for path in paths if not path.exists()]


def remove_orphans(folder: Path, states: Mapping[date, PeriodState]) -> None:
    """Delete the tables in `folder` that none of the `states` names: a killed run left them."""
    names = {state.table for state in states.values()}
    for path in folder.glob("*.table"):
        if path.name not in names and re.fullmatch(rf"{_DAY}\.\d+\.table", path.name):
            path.unlink()


def remove_parts(out: Path) -> None:
    """Delete the unfinished parts of files that a killed run left in the folder of a publication.
    Raise ParameterError for a named pipe there, because a run would wait for it."""
    for path in chain(*(out.glob(f"{folder}/*") for folder in _FOLDERS)):
        mode = path.lstat().st_mode
        if S_ISFIFO(mode):
            raise ParameterError(f"{path} is a named pipe: delete it")
        if S_ISREG(mode) and re.fullmatch(_PART, path.relative_to(out).as_posix()):
            path.unlink()
