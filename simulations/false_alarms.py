"""How often the audit refutes honest encoders and clients: as often as its alpha says, or less.

`python -m simulations.false_alarms` audits ten mechanisms of different families and two clients
with fresh noise, many times at a tenth of the trials and a few times at the default, at an error
rate of 5 %; it writes how many audits failed and exits 1 when there are more than there should be.
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from math import sqrt
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ldp.audit.client import COMMON_PARTS, PARTS, audit_client
from ldp.audit.foreign import ForeignClients
from ldp.audit.verdict import audited
from ldp.mechanisms import CATALOGUE
from simulations import campaign

ALPHA = 0.05
TRIALS, TENTH = 5000, 500
MECHANISMS = (
    *("rr", "unary", "local-hashing", "hcms", "pgr", "one-bit-mean", "privset", "joint"),
    *("rappor", "memoised-rr"),
)
CLIENTS = ("Python client", "TypeScript client")
RUNS, WHOLE_RUNS = 200, 10
MOST_OF_ONE = 21
"""Largest number of false alarms of 200 for one subject: more have probability 1e-4 at 5 %."""
PROCESSES = 2
TYPESCRIPT = ("node", "clients/typescript/dist/client-lines.js")


class Run(NamedTuple):
    """One audit: of which subject, whether at the default size, by which seed."""

    subject: str
    is_whole: bool
    seed: int


def passes(run: Run) -> tuple[Run, bool, float]:
    """Whether an honest subject passes, and the seconds that it took."""
    started, generator = time.process_time(), np.random.default_rng(run.seed)
    scale = 1.0 if run.is_whole else TENTH / TRIALS
    if run.subject == CLIENTS[0]:
        passed = audit_client(generator, scale=scale, parts=PARTS, alpha=ALPHA).passed
    elif run.subject == CLIENTS[1]:
        with ForeignClients(TYPESCRIPT) as program:
            audit = audit_client(
                generator, starts=[program.make], scale=scale, parts=COMMON_PARTS, alpha=ALPHA
            )
        passed = audit.passed
    else:
        mechanism = CATALOGUE[run.subject].examples()[0].mechanism
        trials = TRIALS if run.is_whole else TENTH
        passed = audited(run.subject, mechanism, trials, seed=run.seed, alpha=ALPHA).passed
    return run, passed, time.process_time() - started


def runs(number: int, whole: int) -> Iterator[Run]:
    for subject in (*CLIENTS, *MECHANISMS):
        for seed in range(number + whole):
            yield Run(subject, seed >= number, seed)


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulations.false_alarms", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="at a tenth of the trials")
    parser.add_argument("--whole-runs", type=int, default=WHOLE_RUNS, help="at the default trials")
    parser.add_argument("--out", type=Path, help="write the result there, as JSON")
    asked, made = parser.parse_args(), campaign.provenance()
    alarms = {(s, w): list[int]() for s in (*CLIENTS, *MECHANISMS) for w in (False, True)}
    seconds, started = defaultdict[str, float](float), time.perf_counter()
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        for run, passed, took in pool.map(passes, runs(asked.runs, asked.whole_runs), chunksize=5):
            seconds[run.subject] += took
            if not passed:
                alarms[run.subject, run.is_whole].append(run.seed)
                print(f"{time.perf_counter() - started:6.0f} s: false alarm of {run}", flush=True)
    for what, failed in alarms.items():
        print(f"{what[0]}, {'default' if what[1] else 'a tenth'}: {len(failed)} false alarms")
    audits = (asked.runs + asked.whole_runs) * len(seconds)
    share = sum(map(len, alarms.values())) / audits
    most = ALPHA + 3 * sqrt(ALPHA * (1 - ALPHA) / audits)
    worst = max(len(failed) for (_, is_whole), failed in alarms.items() if not is_whole)
    wanted = MOST_OF_ONE * asked.runs // RUNS
    bars = [
        campaign.Bar(
            f"false alarms of {asked.runs}, worst subject", worst, f"<= {wanted}", worst <= wanted
        ),
        campaign.Bar(
            f"false alarms of {audits} audits, share", share, f"<= {most:.4f}", share <= most
        ),
    ]
    result = {
        "alpha": ALPHA,
        "runs": {"of a tenth of the trials": asked.runs, "of the default trials": asked.whole_runs},
        "seeds of false alarms": {
            f"{subject}, {'default' if is_whole else 'a tenth'}": seeds
            for (subject, is_whole), seeds in alarms.items()
        },
        "processor seconds": {subject: round(spent) for subject, spent in seconds.items()},
        "seconds": round(time.perf_counter() - started),
        "bars": bars,
    }
    campaign.write(asked.out, made, result)
    return campaign.shown(bars)


if __name__ == "__main__":
    sys.exit(main())
