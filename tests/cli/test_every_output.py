"""Every file of estimates has an error and an interval a row, its level, and a bound on damage.

The page of a file says the last two. The commands run on the examples of every mechanism of the
catalogue. Where a command reads a store, its call makes the file instead.
"""

import csv
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from ldp import HierarchicalHistogram, JointReport, PrefixExtension, RapporNgrams, RegressionMoments
from ldp.cli import commands
from ldp.mechanisms import CATALOGUE, SequenceFragmentPuzzle
from ldp.mechanisms.addressing import Identity, Rounding
from ldp.mechanisms.base import Example, Mechanism
from ldp.mechanisms.bit_flip import Buckets
from ldp.mechanisms.joint_base import JointMechanism
from ldp.server import associate, discover_ngrams, whole_table
from ldp.simulation import Population, draw_reports
from ldp.simulation.tables import draw_tables
from ldp.tables.fakes import NO_BOUND
from ldp.tables.result import write_with_summary
from tests.examples import WHOLE, for_everything

EACH = 20_000
"""Number of reports about each value of an example."""
PERCENTILES = ("p50", "p90", "p95", "p99")
"""Statistics whose interval is open where they may lie in the last bin, which has no end."""


def lacking(path: Path, may_be_open: Collection[str] = ()) -> list[str]:
    """Return what a file of estimates lacks.

    The rows `may_be_open` have ends only where the reports allow some.
    """
    rows = list(csv.reader(path.read_text().splitlines()))
    summary = json.loads(path.with_suffix(".json").read_text())
    columns = [name for name in ("std_error", "low", "high") if name not in rows[0]]
    cells = [
        f"{name} of {row[0]}"
        for row in rows[1:]
        for name, cell in zip(rows[0], row, strict=True)
        if name in ("std_error", "low", "high") and not cell and row[0] not in may_be_open
    ]
    keys = [name for name in ("level", "fakes_move") if summary.get(name) in (None, [])]
    if is_unbounded(summary):
        has_one = summary.get("fakes_move", "no key") is not None
        keys = [*(name for name in keys if name == "level"), *["fakes_move"] * has_one]
    return columns + cells + keys


def is_unbounded(summary: Mapping[str, Any]) -> bool:
    """Return whether a result is a regression on the cells of a table.

    A linear decoder's bound on damage is too small there (`tests/simulation/test_attack.py`), so a
    file must have none.
    """
    of_cells = summary.get("kind") == "values" and not summary.get("whole_reports")
    return of_cells and summary.get("method") in ("regression", "lasso-ols", "ngrams")


def lacking_on_page(path: Path) -> list[str]:
    """Return what the report page of a file of estimates does not say."""
    ldp("report", path, "--out", path.with_suffix(".html"))
    page = path.with_suffix(".html").read_text()
    unbounded = is_unbounded(json.loads(path.with_suffix(".json").read_text()))
    sentences = {
        "level": r"(with probability|On average|Nominal,) 95\s%|95\s%, for a combination",
        "fakes_move": NO_BOUND if unbounded else r"1\s% of them could\s+move",
    }
    return [key for key, sentence in sentences.items() if not re.search(sentence, page)]


def ldp(*words: object) -> None:
    """Run a command in this process; it must succeed."""
    done = CliRunner().invoke(commands, [*map(str, words)])
    assert done.exit_code == 0, done.output


def text(value: Any) -> Any:
    """Return a number, or a tuple of numbers, as populations have it."""
    if isinstance(value, tuple) and not isinstance(value[0], str):
        return ",".join(map(str, value))
    return str(value) if isinstance(value, int | float) else value


def outputs(example: Example, folder: Path) -> Iterator[Path]:
    """Write what every command makes of reports about the example's values; yield the files."""
    mechanism: Any = example.mechanism
    if isinstance(mechanism, PrefixExtension):
        mechanism = replace(mechanism, rows=256)
    values = tuple(map(text, example.values))
    generator, counts = np.random.default_rng(1), np.full(len(values), EACH)
    table, made = folder / "a.table", folder / "made.csv"
    if not mechanism.is_whole:  # a part of a report, which is decoded with the whole
        return
    draw_tables(mechanism, values, counts, generator).save(table)
    if isinstance(mechanism, JointReport | RapporNgrams):
        people = Population(values, counts=counts)
        whole = whole_table(mechanism, draw_reports(mechanism, people, generator))
        if isinstance(mechanism, JointReport):
            names = [
                None if isinstance(part.addressing, Identity) else [value[i] for value in values]
                for i, part in enumerate(mechanism.of)
            ]
            associate(whole, names).to_csv(made)
        else:
            discover_ngrams(whole).to_csv(made)
        yield made
    if isinstance(mechanism, PrefixExtension | SequenceFragmentPuzzle):
        method = "puzzle, top = 3" if isinstance(mechanism, SequenceFragmentPuzzle) else "auto"
        ldp("decode", table, "--method", method, "--out", made)
        yield made
    for name, part, part_values in decoded_parts(mechanism, values):
        listed = folder / "candidates.txt"
        listed.write_text("".join(f"{value}\n" for value in part_values if value))
        has_list = part.is_numeric or isinstance(
            part.candidate_addressing, Identity | Buckets | Rounding
        )
        ldp(
            *("decode", table, "--out", made),
            *(("--part", name) if name else ()),
            *(() if has_list else ("--candidates", listed)),
        )
        yield made


def decoded_parts(
    mechanism: Any, values: tuple[Any, ...]
) -> Iterator[tuple[str, Mechanism, list[Any]]]:
    """Yield the name, mechanism and values of every part whose counts `ldp decode` prints."""
    if not isinstance(mechanism, JointMechanism):
        if not isinstance(mechanism, PrefixExtension):
            yield "", mechanism, list(values)
        return
    for number, (name, part) in enumerate(mechanism.parts):
        if part.is_whole:
            split = [mechanism.part_values(value)[number] for value in values]
            yield name, part, list(dict.fromkeys(split))


@pytest.mark.exact
@for_everything
def test_every_output_has_errors_intervals_level_and_damage_and_so_has_its_page(
    example: Example, tmp_path: Path
) -> None:
    files = 0
    for path in outputs(example, tmp_path):
        files += 1
        of_bins = isinstance(example.mechanism, HierarchicalHistogram)
        assert lacking(path, PERCENTILES if of_bins else ()) == []
        assert lacking_on_page(path) == []
        path.unlink()
    assert files >= 1 or not example.mechanism.is_whole


@pytest.mark.exact
def test_the_whole_catalogue_is_tried() -> None:
    assert {example.mechanism.name for example in WHOLE} == set(CATALOGUE)


@pytest.mark.exact
def test_a_file_without_one_of_them_is_told(tmp_path: Path) -> None:
    """The twins lack a column, a cell or a key."""
    whole = {"std_error": "1.5", "low": "0.1", "high": "9"}
    made, beside = tmp_path / "made.csv", {"level": 0.95, "fakes_move": 3.0}

    def write(row: dict[str, str], summary: dict[str, Any]) -> list[str]:
        made.write_text(f"value,{','.join(row)}\nOslo,{','.join(row.values())}\n")
        made.with_suffix(".json").write_text(json.dumps(summary))
        return lacking(made)

    assert write(whole, beside) == []
    for name in whole:
        assert write({k: v for k, v in whole.items() if k != name}, beside) == [name]
        assert write({**whole, name: ""}, beside) == [f"{name} of Oslo"]
    for key in beside:
        assert write(whole, {k: v for k, v in beside.items() if k != key}) == [key]
        assert write(whole, {**beside, key: None}) == [key]


@pytest.mark.exact
def test_a_page_without_one_of_them_is_told(tmp_path: Path) -> None:
    """The twin's summary lacks what made-up reports can do."""
    path = tmp_path / "made.csv"
    table = draw_tables(
        RegressionMoments(features=1, bounds=((0, 1), (0, 1)), epsilon=4.0),
        ("0,0", "1,1"),
        np.array([EACH, EACH]),
        np.random.default_rng(1),
    )
    table.save(tmp_path / "a.table")
    ldp("decode", tmp_path / "a.table", "--out", path)
    summary = json.loads(path.with_suffix(".json").read_text())
    assert lacking_on_page(path) == []
    del summary["fakes_move"]
    write_with_summary(path, path.read_text(), summary)
    assert lacking_on_page(path) == ["fakes_move"]
