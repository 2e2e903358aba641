"""What a study is, how its rows become a CSV file, a figure and bars, and what runs it."""

import argparse
import csv
import io
import json
import subprocess
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from ldp.arrays import Floats
from ldp.files import write_whole
from simulations.campaign import Bar, provenance, write
from simulations.campaign import shown as shown_bars

Setting = Mapping[str, Any]
Row = dict[str, Any]
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Study:
    """`settings` become rows: each with what `run` measures, from a generator of its own. `chains`:
    the figures from a Markov chain, which is another one after a step that another machine's
    rounding makes otherwise. `each`: what of a setting names a picture of its row alone; without it
    one picture shows all rows."""

    name: str
    words: str
    settings: Sequence[Setting]
    run: Callable[[Setting, np.random.Generator], Mapping[str, float]]
    draw: Callable[[list[Row]], Figure]
    bars: Callable[[list[Row]], list[Bar]]
    chains: tuple[str, ...] = ()
    each: str = ""

    def row(self, place: int) -> Row:
        """One row, the same whenever it is drawn."""
        seed = np.random.SeedSequence([zlib.crc32(self.name.encode()), place])
        setting = self.settings[place]
        return {**setting, **self.run(setting, np.random.default_rng(seed))}

    def pictures(self, rows: Sequence[Row]) -> dict[str, list[Row]]:
        """The rows that each picture shows, by its name."""
        if not self.each:
            return {self.name: list(rows)}
        return {f"{self.name}-{row[self.each]}": [row] for row in rows}

    def write(self, rows: list[Row], folder: Path) -> None:
        """NAME.csv and the pictures as SVG."""
        text = io.StringIO()
        table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows({key: shown(value) for key, value in row.items()} for row in rows)
        write_whole(folder / f"{self.name}.csv", text.getvalue())
        for name, shown_there in self.pictures(rows).items():
            picture = io.StringIO()
            figure = self.draw(shown_there)
            figure.tight_layout()
            with rc_context({"svg.hashsalt": name}):  # the same bytes every time
                figure.savefig(picture, format="svg", metadata={"Date": None})
            write_whole(folder / f"{name}.svg", picture.getvalue())

    def read(self, folder: Path) -> list[Row]:
        """The rows of its CSV file, settings as they were given, figures as numbers."""
        with (folder / f"{self.name}.csv").open(encoding="utf-8") as file:
            listed = list(csv.DictReader(file))
        return [
            {**{name: float(text) for name, text in row.items() if name not in setting}, **setting}
            for row, setting in zip(listed, self.settings, strict=True)
        ]


def shown(value: Any) -> str:
    """A number to six digits, so that a row drawn again compares."""
    return value if isinstance(value, str) else f"{value:.6g}"


def figure(wide: float = 7.0, high: float = 4.2) -> Figure:
    """An empty figure."""
    return Figure(figsize=(wide, high))


def column(rows: list[Row], name: str, /, **where: Any) -> Floats:
    """A column of the rows that agree with `where`."""
    chosen = [row for row in rows if all(row[key] == value for key, value in where.items())]
    return np.array([float(row[name]) for row in chosen])


CODE = ("ldp", "simulations/data", ":(glob)simulations/**/*.py")
"""What decides a result, as git names paths from the top of the checkout."""


def is_current(result: Path) -> bool:
    """Return whether the commit that drew a result has the code and data of this checkout."""
    if not result.exists():
        return False
    commit = json.loads(result.read_text())["commit"]
    changed = subprocess.run(
        ("git", "diff", "--quiet", commit, "--", *CODE),
        cwd=Path(__file__).parents[1],
        capture_output=True,
        check=False,
    )
    return changed.returncode == 0  # 128 where the commit was of a changed tree, or is not here


def main(studies: Mapping[str, Study], folder: Path, words: str) -> int:
    """Runs the studies named on the command line, or all, and writes their results and bars to the
    folder; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=words)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(studies))
    parser.add_argument("--out", type=Path, default=folder)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--resume", action="store_true", help="skip the studies that this code has drawn"
    )
    given = parser.parse_args()
    unknown = set(given.names) - set(studies)
    if unknown:
        parser.error(f"unknown study {unknown.pop()}; known: {', '.join(studies)}")
    made, missed = provenance(), 0
    with ProcessPoolExecutor(given.workers) as workers:
        for name in given.names or studies:
            study = studies[name]
            if given.resume and is_current(given.out / f"{name}.json"):
                print(f"{name}: drawn by this code")
                continue
            print(f"{name}: {study.words}", flush=True)
            begun = time.monotonic()
            rows = list(workers.map(study.row, range(len(study.settings))))
            study.write(rows, given.out)
            bars = study.bars(rows)
            seconds = round(time.monotonic() - begun, 1)
            result = {"study": study.words, "seconds": seconds, "bars": bars}
            write(given.out / f"{name}.json", made, result)
            missed |= shown_bars(bars)
    return missed
