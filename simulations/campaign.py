"""Print bars beside their figures, and write results that state their commit and machine.

All campaigns use this module.
"""

import argparse
import json
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Bar:
    """One line of a result: a figure, what it must be, and whether it is."""

    what: str
    figure: float
    wanted: str
    met: bool


RESULTS = "simulations/results"
"""Folder, from the top of the checkout, into which campaigns and studies write."""


def shown(bars: Iterable[Bar]) -> int:
    """Print the bars; return the exit status, which is 1 when a bar is missed."""
    missed = 0
    for bar in bars:
        print(f"{'ok  ' if bar.met else 'MISS'} {bar.figure:.4g}  {bar.what} (wanted {bar.wanted})")
        missed |= not bar.met
    return int(missed)


def provenance() -> dict[str, str]:
    """Return the time, commit and machine of a run.

    Call this at the start, so that the commit is that of the running code. Changed files of results
    do not make the commit dirty.
    """
    commit = _git("describe", "--always", "--abbrev=12")
    is_changed = _git(
        "status", "--porcelain", "--untracked-files=no", "--", f":(top,exclude){RESULTS}"
    )
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": f"{commit}-dirty" if is_changed else commit,
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
    }


def _git(*words: str) -> str:
    """Return what git prints, which is nothing outside of a checkout."""
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def run_settings(
    about: str | None,
    row_of: Callable[[int, int, int], Any],
    bars: Callable[[list[Any], int], list[Bar]],
    seed: int,
    whole: tuple[int, int],
    sample: tuple[int, int],
) -> int:
    """Run a campaign of settings that a seed draws; return the exit status.

    Two processes make the rows. The function prints the rows and the bars, and writes both.
    `row_of`: returns a row, given the seed, the number of a setting and a number of tables.
    `whole`, `sample`: numbers of settings and of tables, for a whole run and for `--sample`.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("--tables", type=int)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    settings, tables = sample if options.sample else whole
    tables, rows, source = options.tables or tables, list[Any](), provenance()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for row in pool.map(row_of, repeat(options.seed), range(settings), repeat(tables)):
            rows.append(row)
            print(row, flush=True)
    measured = bars(rows, tables)
    contents = {"seed": options.seed, "tables": tables, "rows": rows, "bars": measured}
    write(options.out, source, contents)
    return shown(measured)


def write(path: Path | None, made: Mapping[str, str], result: Mapping[str, Any]) -> None:
    """Write the result after its provenance as JSON, with dataclasses as their fields.

    Without a path, nothing is written.
    """
    if path is not None:
        text = json.dumps({**made, **result}, indent=1, allow_nan=False, default=asdict)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
