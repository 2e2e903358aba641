"""Read the committed data sets, and split them."""

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ldp.arrays import Floats
from ldp.central.regression import Rows

DATA = Path(__file__).parent.parent / "data"
TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "none": np.asarray,
    "log": np.log,
    "log1p": np.log1p,
}


def load(name: str) -> tuple[Floats, Floats, list[str]]:
    """Return the features of a data set, its target transformed as Wang 2018 did, and its names."""
    with np.load(DATA / f"{name}.npz") as file:
        names = [str(one) for one in file["features"]]
        X = np.column_stack([file[f"x{j}"].astype(np.float64) for j in range(len(names))])
        y = file["y"].astype(np.float64)
        transform = TRANSFORMS[str(file["transform"])]
    return X, np.asarray(transform(y), dtype=np.float64), names


def part(rows: Rows, start: int, stop: int) -> Rows:
    """Return the rows from `start` to before `stop`."""
    return replace(rows, features=rows.features[start:stop], target=rows.target[start:stop])


def published(name: str) -> list[dict[str, str | float]]:
    """Return the lines of a published table, with numbers as numbers."""
    with (DATA / "published" / f"{name}.csv").open(encoding="utf-8") as file:
        return [{key: _number(text) for key, text in line.items()} for line in csv.DictReader(file)]


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


GENES = 40


def expression(genes: int = GENES) -> Floats:
    """Return RMA-normalised expression of up to 64 genes in 985 cell lines.

    The genes that are mutated most often come first.
    """
    with np.load(DATA / "gdsc.npz") as file:
        return np.asarray(file["X"][:, :genes] / 100.0)


def halves(n: int, generator: np.random.Generator) -> tuple[Any, Any]:
    """Return random places of nine parts to fit and one part to test."""
    order = generator.permutation(n)
    return order[n // 10 :], order[: n // 10]
