"""Measure how often the audit refutes honest encoders and clients.

It may refute them as often as its alpha says, or less. `python -m simulations.false_alarms` audits
ten mechanisms of different families and two clients, with fresh noise and an error rate of 5 %. It
does so many times at a tenth of the trials, and a few times at the default. It writes how many
audits failed, and exits 1 when there are more than there should be.

The file of `--out` is written after each subject. A run that finds the file goes on with the
subjects that it lacks; the commit of each subject stands beside it.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from math import sqrt
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from ldp.audit.client import COMMON_PARTS, PARTS, audit_client
from ldp.audit.foreign import ForeignClients
from ldp.audit.verdict import audited
from ldp.mechanisms import CATALOGUE
from simulations import campaign
from simulations.campaign import Bar

ALPHA = 0.05
TRIALS, TENTH = 5000, 500
MECHANISMS = (
    *("rr", "unary", "local-hashing", "hcms", "pgr", "one-bit-mean", "privset", "joint"),
    *("rappor", "memoised-rr"),
)
CLIENTS = ("Python client", "TypeScript client")
SUBJECTS = (*MECHANISMS, *CLIENTS)
RUNS, WHOLE_RUNS = 200, 10
MOST_OF_ONE = 21
"""Most false alarms of 200 for one subject: more have probability 1e-4 at 5 %."""
TYPESCRIPT = ("node", "clients/typescript/dist/client-lines.js")


class Run(NamedTuple):
    """One audit: its subject, whether it has the default size, and its seed."""

    subject: str
    is_whole: bool
    seed: int


def passes(run: Run) -> tuple[Run, bool, float]:
    """Return whether an honest subject passes, and the seconds that the audit took."""
    started = time.process_time()
    scale = 1.0 if run.is_whole else TENTH / TRIALS
    if run.subject == CLIENTS[0]:
        passed = audit_client(run.seed, scale=scale, parts=PARTS, alpha=ALPHA).passed
    elif run.subject == CLIENTS[1]:
        with ForeignClients(TYPESCRIPT) as program:
            audit = audit_client(
                run.seed, starts=[program.make], scale=scale, parts=COMMON_PARTS, alpha=ALPHA
            )
        passed = audit.passed
    else:
        mechanism = CATALOGUE[run.subject].examples()[0].mechanism
        trials = TRIALS if run.is_whole else TENTH
        passed = audited(run.subject, mechanism, trials, seed=run.seed, alpha=ALPHA).passed
    return run, passed, time.process_time() - started


def audits(subject: str, number: int, whole: int, processes: int) -> dict[str, Any]:
    """Return the seeds of a subject's false alarms, and the processor seconds of its audits."""
    runs = [Run(subject, seed >= number, seed) for seed in range(number + whole)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        outcomes = list(pool.map(passes, runs, chunksize=5))
    return {
        "a tenth": [run.seed for run, passed, _ in outcomes if not (passed or run.is_whole)],
        "default": [run.seed for run, passed, _ in outcomes if not passed and run.is_whole],
        "processor seconds": round(sum(took for *_, took in outcomes)),
    }


def bars(by_subject: Mapping[str, Mapping[str, Any]], number: int, whole: int) -> list[Bar]:
    """Return the bars on the number of false alarms, in the worst subject and in all."""
    tenths = [len(alarms["a tenth"]) for alarms in by_subject.values()]
    count = sum(tenths) + sum(len(alarms["default"]) for alarms in by_subject.values())
    total = (number + whole) * len(by_subject)
    share, wanted = count / total, MOST_OF_ONE * number // RUNS
    most = ALPHA + 3 * sqrt(ALPHA * (1 - ALPHA) / total)
    worst = max(tenths)
    return [
        Bar("subjects", len(by_subject), f"{len(SUBJECTS)}", len(by_subject) == len(SUBJECTS)),
        Bar(f"false alarms of {number}, worst subject", worst, f"<= {wanted}", worst <= wanted),
        Bar(f"false alarms of {total} audits, share", share, f"<= {most:.4f}", share <= most),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulations.false_alarms", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="at a tenth of the trials")
    parser.add_argument("--whole-runs", type=int, default=WHOLE_RUNS, help="at the default trials")
    parser.add_argument("--processes", type=int, default=2, help="how many audit at a time")
    parser.add_argument("--out", type=Path, help="go on with this result, JSON, and write it there")
    asked, made = parser.parse_args(), campaign.provenance()
    number, whole = asked.runs, asked.whole_runs
    sizes = {"of a tenth of the trials": number, "of the default trials": whole}
    before = json.loads(asked.out.read_text()) if asked.out and asked.out.exists() else {}
    by_subject = before["subjects"] if before.get("runs") == sizes else {}
    for subject in SUBJECTS:
        if subject not in by_subject:
            by_subject[subject] = {
                "commit": made["commit"],
                **audits(subject, number, whole, asked.processes),
            }
            print(subject, by_subject[subject], flush=True)
            result = {"alpha": ALPHA, "runs": sizes, "subjects": by_subject}
            campaign.write(asked.out, made, {**result, "bars": bars(by_subject, number, whole)})
    return campaign.shown(bars(by_subject, number, whole))


if __name__ == "__main__":
    sys.exit(main())
