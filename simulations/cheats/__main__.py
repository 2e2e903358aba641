"""Audit hundreds of drawn cheats, on the encoder and in the clients.

`python -m simulations.cheats` draws cheats by seed until `--per-path` of them qualify on each path
(`qualification.py`). It audits each cheat, prints a line for it, and writes the result as JSON. It
exits 1 when the audit misses more than 1 % of them. The result describes each missed cheat in
words.
"""

import argparse
import multiprocessing
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from simulations import campaign
from simulations.cheats import paths
from simulations.cheats.cases import Case, bars, run, table

PROCESSES = 2
GRAMMAR = "simulations.cheats.grammar"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="simulations.cheats", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of all cheats")
    parser.add_argument("--per-path", type=int, default=100, help="cheats that qualify")
    parser.add_argument("--paths", default=",".join(paths.PATHS), help="with commas between them")
    parser.add_argument("--grammar", default=GRAMMAR, help="module with a function draw")
    parser.add_argument("--out", type=Path, help="write the result there, as JSON")
    options, provenance = parser.parse_args(arguments), campaign.provenance()
    cases: list[Case] = []
    chosen = options.paths.split(",")
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
        for path in chosen:
            cases += run(pool, path, options.per_path, options.seed, options.grammar)
        pool.shutdown(cancel_futures=True)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    minutes = (usage.ru_utime + usage.ru_stime) / 60 / PROCESSES
    held = bars(cases, options.per_path * len(chosen), minutes)
    result: dict[str, Any] = {
        "seed": options.seed,
        "grammar": options.grammar,
        "bars": held,
        "by what goes wrong": table(cases),
        "missed": [entry for entry in cases if entry.outcome == "missed"],
        "cases": cases,
    }
    campaign.write(options.out, provenance, result)
    return campaign.shown(held)


if __name__ == "__main__":
    sys.exit(main())
