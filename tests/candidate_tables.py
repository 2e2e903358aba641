"""Make tables and designs of RAPPOR's candidates."""

import csv
import gzip
import json
from pathlib import Path

import numpy as np

from ldp import Rappor
from ldp.server import Table
from ldp.simulation import draw_table
from ldp.tables.google_rappor import (
    read_google_table,
)

CASES = Path(__file__).parent / "data" / "rappor"


NAMES = sorted(path.name for path in CASES.iterdir())


def shipped(name: str) -> tuple[Table, tuple[str, ...], dict[str, int], dict[str, float]]:
    folder = CASES / name
    table = read_google_table(folder / "params.csv", folder / "counts.csv")
    listed = gzip.decompress((folder / "candidates.txt.gz").read_bytes()).decode().split("\n")
    with open(folder / "truth.csv", newline="") as text:
        truth = {row["string"]: int(row["count"]) for row in csv.DictReader(text)}
    reference = json.loads((folder / "reference_metrics.json").read_text())
    return table, tuple(filter(None, listed)), truth, reference


TYPICAL = {"bits": 8, "hashes": 2, "cohorts": 128, "f": 0.5, "p": 0.25, "q": 0.75}


def small_case() -> tuple[Table, tuple[str, ...]]:
    values = tuple(f"v{i}" for i in range(30))
    mechanism = Rappor(**{**TYPICAL, "cohorts": 16}, seed="00ff")  # type: ignore[arg-type]
    counts = np.full(30, 1000)
    return draw_table(mechanism, values, counts=counts, generator=np.random.default_rng(1)), values
