"""Define a study: how its rows become a picture, bars and a CSV file, and how it is run.

The picture describes itself: its SVG states, as JSON, when and by which commit it was drawn, the
bars, and of a study of one setting the row. Of several settings the rows are in a CSV file.
"""

import argparse
import csv
import fnmatch
import io
import json
import subprocess
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from ldp.arrays import Floats
from ldp.files import write_whole
from simulations.campaign import Bar, provenance
from simulations.campaign import shown as shown_bars

Setting = Mapping[str, Any]
Row = dict[str, Any]
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Study:
    """Settings that become rows, with one picture of all rows.

    `run`: measures a setting, with a generator of its own. `chains`: figures from a Markov chain,
    which takes another path after a step that another machine rounds otherwise.
    """

    name: str
    words: str
    settings: Sequence[Setting]
    run: Callable[[Setting, np.random.Generator], Mapping[str, float]]
    draw: Callable[[list[Row]], Figure]
    bars: Callable[[list[Row]], list[Bar]]
    chains: tuple[str, ...] = ()

    def row(self, place: int) -> Row:
        """Return one row, the same whenever it is drawn."""
        seed = np.random.SeedSequence([zlib.crc32(self.name.encode()), place])
        setting = self.settings[place]
        return {**setting, **self.run(setting, np.random.default_rng(seed))}

    def timed_row(self, place: int) -> tuple[Row, float]:
        """Return the row, and the processor seconds that it took."""
        begun = time.process_time()
        return self.row(place), time.process_time() - begun

    def write(self, rows: list[Row], folder: Path, about: Mapping[str, Any]) -> None:
        """Write NAME.svg, which states `about` and the bars, and NAME.csv of several settings."""
        table = [{key: shown(value) for key, value in row.items()} for row in rows]
        stated = {**about, "study": self.words, "bars": [asdict(bar) for bar in self.bars(rows)]}
        if len(table) == 1:
            stated["row"] = table[0]
        else:
            text = io.StringIO()
            writer = csv.DictWriter(text, list(table[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(table)
            write_whole(folder / f"{self.name}.csv", text.getvalue())
        picture, figure = io.StringIO(), self.draw(rows)
        figure.tight_layout()
        metadata = {"Date": None, "Description": json.dumps(stated, indent=1, allow_nan=False)}
        with rc_context({"svg.hashsalt": self.name}):  # the same bytes every time
            figure.savefig(picture, format="svg", metadata=metadata)
        write_whole(folder / f"{self.name}.svg", picture.getvalue())

    def read(self, folder: Path) -> list[Row]:
        """Return the rows of a result, with settings as they were given and figures as numbers.

        Raises ValueError unless there is a row for each setting.
        """
        listed, path = list[dict[str, str]](), folder / f"{self.name}.csv"
        if path.exists():
            listed = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
        elif row := about_picture(folder / f"{self.name}.svg").get("row"):
            listed = [row]
        if len(listed) != len(self.settings):
            raise ValueError(
                f"{folder} has {len(listed)} rows for {len(self.settings)} settings; draw them "
                f"with `python -m simulations.{folder.name} {self.name}`"
            )
        return [
            {**{name: float(text) for name, text in row.items() if name not in setting}, **setting}
            for row, setting in zip(listed, self.settings, strict=True)
        ]


def about_picture(path: Path) -> dict[str, Any]:
    """Return what a study's picture states of itself; nothing where there is none."""
    if not path.exists():
        return {}
    root = ElementTree.parse(path).getroot()
    text = root.findtext(".//{http://purl.org/dc/elements/1.1/}description") or "{}"
    stated: dict[str, Any] = json.loads(text)
    return stated


def shown(value: Any) -> str:
    """Return a number with six digits, so that a row that is drawn again is equal."""
    return value if isinstance(value, str) else f"{value:.6g}"


def figure(wide: float = 7.0, high: float = 4.2) -> Figure:
    """Return an empty figure."""
    return Figure(figsize=(wide, high))


def column(rows: list[Row], name: str, /, **where: Any) -> Floats:
    """Return a column of the rows that agree with `where`."""
    chosen = [row for row in rows if all(row[key] == value for key, value in where.items())]
    return np.array([float(row[name]) for row in chosen])


CODE = ("ldp", "simulations/data", ":(glob)simulations/**/*.py")
"""Files that decide a result, as git names paths from the top of the checkout."""


def is_current(picture: Path) -> bool:
    """Return whether the commit that drew a picture has the code and data of this checkout."""
    commit = about_picture(picture).get("commit")
    changed = subprocess.run(
        ("git", "diff", "--quiet", str(commit), "--", *CODE),
        cwd=Path(__file__).parents[1],
        capture_output=True,
        check=False,
    )
    return changed.returncode == 0  # 128 where the commit was of a changed tree, or is not here


def main(studies: Mapping[str, Study], folder: Path, words: str) -> int:
    """Run studies, all or those named on the command line, and write results and bars to the
    folder.

    Returns 1 when a bar is missed.
    """
    parser = argparse.ArgumentParser(description=words)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(studies))
    parser.add_argument("--out", type=Path, default=folder)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--resume", action="store_true", help="skip the studies that this code has drawn"
    )
    given = parser.parse_args()
    named = {name: fnmatch.filter(studies, name) for name in given.names}
    for name, found in named.items():
        if not found:
            parser.error(f"unknown study {name}; known: {', '.join(studies)}")
    chosen = [name for found in named.values() for name in found] or list(studies)
    made, missed = provenance(), 0
    with ProcessPoolExecutor(given.workers) as workers:
        drawn: dict[str, list[Future[tuple[Row, float]]]] = {}
        for name in chosen:
            if given.resume and is_current(given.out / f"{name}.svg"):
                print(f"{name}: drawn by this code")
                continue
            places = range(len(studies[name].settings))
            drawn[name] = [workers.submit(studies[name].timed_row, place) for place in places]
        for name, futures in drawn.items():
            study = studies[name]
            print(f"{name}: {study.words}", flush=True)
            rows, seconds = map(list, zip(*(one.result() for one in futures), strict=True))
            study.write(rows, given.out, {**made, "seconds": round(sum(seconds), 1)})
            print(f"-> {given.out / name}.svg")
            missed |= shown_bars(study.bars(rows))
    return missed
