"""Make a registry, a store and what is published of them, for tests."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
from click.testing import CliRunner

from ldp.cli import commands
from ldp.publishing import Job, Publication, opened, publish
from ldp.publishing.changes import update_changes
from ldp.publishing.data_set_rows import KEY, SCHEMA
from ldp.publishing.series import update_series
from ldp.publishing.site import write_site
from simulations.publish import START, write_registry, write_reports

TODAY = START + timedelta(days=30)
Rows = list[dict[str, Any]]


class World:
    """Registry, store and publication in one folder."""

    def __init__(self, top: Path, version: int = 1) -> None:
        self.top, self.store, self.out = top, top / "store", top / "out"
        self.registry = write_registry(top, version)
        self.random = np.random.default_rng(7)

    def write(
        self, metric: str, day: int = 0, part: str = "a", people: int = 400, first: str = ""
    ) -> None:
        at = START + timedelta(days=day)
        write_reports(self.store, self.registry, metric, at, self.random, part, people, first)

    def publish(self, out: Path | None = None, **options: Any) -> Publication:
        settings: dict[str, Any] = {"today": TODAY, "registry": self.registry, **options}
        out = out or self.out
        job = Job(stores=[self.store], out=out, **settings)
        with opened(out, job.period) as lock:
            result = publish(job, lock)
            update_series(out, result.problems)
            update_changes(out, result.problems)
            write_site(job, result)
            return result

    def folder(self, metric: str, version: int = 1, out: Path | None = None) -> Path:
        return (out or self.out) / "tables" / metric / f"v{version}"


def rows(out: Path) -> Rows:
    """Return the whole data set, in the order of its key."""
    found = ds.dataset(out / "results", schema=SCHEMA).to_table().to_pylist()
    return sorted(found, key=lambda row: [str(row[name]) for name in KEY])


def files(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def run(*words: object) -> Any:
    return CliRunner().invoke(commands, [*map(str, words)], catch_exceptions=True)
