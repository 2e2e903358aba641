"""`python -m simulations.regression [NAME ...]`: runs studies, writes results, checks bars."""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from simulations.campaign import provenance, shown, write
from simulations.regression.catalogue import STUDIES
from simulations.regression.study import RESULTS, Row


def one(name: str, place: int) -> Row:
    """A row, for a process of its own."""
    return STUDIES[name].row(place)


def main() -> int:
    """Runs the studies named, or all; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(STUDIES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    unknown = set(given.names) - set(STUDIES)
    if unknown:
        parser.error(f"unknown study {unknown.pop()}; known: {', '.join(STUDIES)}")
    made, missed = provenance(), 0
    with ProcessPoolExecutor(given.workers) as workers:
        for name in given.names or STUDIES:
            study = STUDIES[name]
            print(f"{name}: {study.words}", flush=True)
            places = range(len(study.settings))
            rows = list(workers.map(one, [name] * len(places), places))
            study.write(rows, given.out)
            bars = study.bars(rows)
            write(given.out / f"{name}.json", made, {"study": study.words, "bars": bars})
            missed |= shown(bars)
    return missed


if __name__ == "__main__":
    sys.exit(main())
