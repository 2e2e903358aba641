"""What a study is, and how its rows become a CSV file, a figure and bars."""

import csv
import io
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ldp.files import write_whole
from simulations.campaign import Bar

Floats = NDArray[np.float64]
Setting = Mapping[str, Any]
Row = dict[str, Any]
DATA = Path(__file__).parent.parent / "data"
RESULTS = Path(__file__).parent.parent / "results" / "regression"
TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "none": np.asarray,
    "log": np.log,
    "log1p": np.log1p,
}


@dataclass(frozen=True)
class Study:
    """`settings` become rows: each with what `run` measures, from a generator of its own. `close`:
    relative, what another machine's linear algebra may change of a figure."""

    name: str
    words: str
    settings: Sequence[Setting]
    run: Callable[[Setting, np.random.Generator], Mapping[str, float]]
    draw: Callable[[list[Row]], Figure]
    bars: Callable[[list[Row]], list[Bar]]
    close: float = 1e-3

    def row(self, place: int) -> Row:
        """One row, the same whenever it is drawn."""
        seed = np.random.SeedSequence([zlib.crc32(self.name.encode()), place])
        setting = self.settings[place]
        return {**setting, **self.run(setting, np.random.default_rng(seed))}

    def write(self, rows: list[Row], folder: Path) -> None:
        """NAME.csv and NAME.svg."""
        text = io.StringIO()
        table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows({key: shown(value) for key, value in row.items()} for row in rows)
        write_whole(folder / f"{self.name}.csv", text.getvalue())
        picture = io.StringIO()
        figure = self.draw(rows)
        figure.tight_layout()
        with rc_context({"svg.hashsalt": self.name}):  # the same bytes every time
            figure.savefig(picture, format="svg", metadata={"Date": None})
        write_whole(folder / f"{self.name}.svg", picture.getvalue())

    def read(self, folder: Path = RESULTS) -> list[Row]:
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


def load(name: str) -> tuple[Floats, Floats, list[str]]:
    """Features, target transformed as Wang 2018 did, and names of a data set."""
    with np.load(DATA / f"{name}.npz") as file:
        names = [str(one) for one in file["features"]]
        X = np.column_stack([file[f"x{j}"].astype(np.float64) for j in range(len(names))])
        y = file["y"].astype(np.float64)
        transform = TRANSFORMS[str(file["transform"])]
    return X, np.asarray(transform(y), dtype=np.float64), names


def halves(n: int, generator: np.random.Generator) -> tuple[Any, Any]:
    """Places of nine parts to fit and one to test, at random."""
    order = generator.permutation(n)
    return order[n // 10 :], order[: n // 10]


def figure(wide: float = 7.0, high: float = 4.2) -> Figure:
    """An empty figure."""
    return Figure(figsize=(wide, high))


def column(rows: list[Row], name: str, /, **where: Any) -> Floats:
    """A column of the rows that agree with `where`."""
    chosen = [row for row in rows if all(row[key] == value for key, value in where.items())]
    return np.array([float(row[name]) for row in chosen])
