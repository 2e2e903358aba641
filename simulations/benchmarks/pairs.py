"""Measure whether a row of the benchmarks is slower here than in another checkout.

Run `python -m simulations.benchmarks.pairs OTHER` from the top of a checkout. It measures every
timed row in turn here and there, each in its own process, `--pairs` times. A row that the other
checkout lacks is measured there by the scripts of this one, on the other's package. Times are
processor times with children, so that other work on the machine counts little; every clock of wall
time is replaced.

It prints for each row the geometric mean of the ratios, here over there, with its standard error.
It exits 1 when a row is more than 5 % slower beyond 2 standard errors.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from simulations import campaign
from simulations.benchmarks.ours import BENCHMARKS

MOST, ERRORS = 1.05, 2.0
CLOCK = """\
import resource, time
def clock():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + used.ru_utime + used.ru_stime
time.perf_counter = clock
"""
"""Code that every process of a measurement runs first, as its `sitecustomize`."""
MEASURE = """\
import json, sys
from pathlib import Path
from simulations.benchmarks.ours import BENCHMARKS
row, = (one for one in BENCHMARKS if one.key == sys.argv[1])
print(json.dumps(row.measure(Path(sys.argv[2]))))
"""
KEYS = """\
import json
from simulations.benchmarks.ours import BENCHMARKS
print(json.dumps([one.key for one in BENCHMARKS]))
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulations.benchmarks.pairs", description=__doc__)
    parser.add_argument("other", type=Path, help="top of the checkout to compare with")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--only", nargs="+", metavar="KEY", help="measure these alone")
    parser.add_argument("--out", type=Path, help="also write the result there, as JSON")
    asked = parser.parse_args()
    made = campaign.provenance()
    common = set(json.loads(_run(asked.other, KEYS)))
    keys = [one.key for one in BENCHMARKS if one.is_timed]
    keys = [key for key in keys if asked.only is None or key in asked.only]
    figures: dict[str, list[tuple[float, float]]] = {key: [] for key in keys}
    bars: list[campaign.Bar] = []
    for number in range(asked.pairs):
        for key, pairs in list(figures.items()):
            sides = [Path.cwd(), asked.other]
            try:
                taken = {
                    side: _measured(side, key, key in common)
                    for side in sides[:: 1 if number % 2 else -1]
                }
            except subprocess.CalledProcessError:
                if key in common:
                    raise
                print(f"... {key} does not run on both packages", file=sys.stderr, flush=True)
                del figures[key]
                continue
            pairs.append((taken[sides[0]], taken[sides[1]]))
        bars = [_bar(key, pairs) for key, pairs in figures.items()]
        campaign.write(
            asked.out, made, {"other": _head(asked.other), "figures": figures, "bars": bars}
        )
        print(f"... {number + 1} of {asked.pairs} pairs", file=sys.stderr, flush=True)
    return campaign.shown(bars)


def _bar(key: str, pairs: list[tuple[float, float]]) -> campaign.Bar:
    here, there = np.log(np.array(pairs)).T
    ratios = here - there
    error = ratios.std(ddof=1) / len(ratios) ** 0.5 if len(ratios) > 1 else np.inf
    ratio = float(np.exp(ratios.mean()))
    medians = "here {:.4g}, there {:.4g}".format(*np.exp(np.median([here, there], axis=1)))
    return campaign.Bar(
        f"{key}, +- {100 * error:.1f} %: {medians}",
        ratio,
        f"<= {MOST} beyond {ERRORS:g} standard errors",
        bool(ratios.mean() - ERRORS * error <= np.log(MOST)),
    )


def _measured(checkout: Path, key: str, has_row: bool) -> float:
    with TemporaryDirectory() as clock, TemporaryDirectory() as folder:
        (Path(clock) / "sitecustomize.py").write_text(CLOCK)
        if not has_row:
            (Path(clock) / "simulations").symlink_to(Path.cwd() / "simulations")
        return float(json.loads(_run(checkout, MEASURE, key, folder, path=clock)))


def _run(checkout: Path, code: str, *arguments: str, path: str = "") -> str:
    """Return what `code` prints when it runs at the top of a checkout, with that checkout's
    modules."""
    paths = os.pathsep.join(filter(None, [path, str(checkout.resolve())]))
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def _head(checkout: Path) -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
