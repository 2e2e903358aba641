"""Audit every published production setting with a million reports of its real encoder.

`python -m simulations.audit` takes every preset whose parameters were all published. It uses system
randomness, prints a line for each preset, and writes what it checked as JSON. It exits 1 when a
preset fails.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from ldp.audit.tried_values import tried
from ldp.audit.verdict import ALPHA, Verdict, audited
from ldp.files import finite
from ldp.mechanisms import CatalogueMechanism, from_parameters
from ldp.mechanisms.presets import COMPLETE
from simulations import campaign

REPORTS = 1_000_000
PROCESSES = 2


def mechanism(preset: str) -> CatalogueMechanism:
    return from_parameters({**COMPLETE[preset].parameters, "seed": "00ff"})


def trials(preset: str, reports: int) -> int:
    """Return how often to try each value so that check B gets `reports` reports.

    Each value is tried on one device and on many.
    """
    return -(-reports // (2 * len(tried(mechanism(preset)))))


def one(preset: str, reports: int) -> tuple[Verdict, float]:
    started = time.perf_counter()
    verdict = audited(preset, mechanism(preset), trials(preset, reports))
    return verdict, time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulations.audit", description=__doc__)
    parser.add_argument("--reports", type=int, default=REPORTS, help="of each preset")
    parser.add_argument("--out", type=Path, help="write the result there, as JSON")
    asked, started = parser.parse_args(), campaign.provenance()
    verdicts = []
    context = get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        running = [pool.submit(one, preset, asked.reports) for preset in COMPLETE]
        for task in running:
            verdict, seconds = task.result()
            verdicts.append(verdict)
            print(
                f"{'ok  ' if verdict.passed else 'FAIL'} {verdict.name}: epsilon "
                f"{verdict.claimed:.4f} claimed, {verdict.at_least:.4f} seen; {verdict.checks:,} "
                f"counts, {seconds:.0f} s",
                flush=True,
            )
    result = {
        "randomness": "the operating system's: no seed",
        "reports": asked.reports,
        "alpha": ALPHA,
        "audits": [{**finite(asdict(verdict)), "passed": verdict.passed} for verdict in verdicts],
    }
    campaign.write(asked.out, started, result)
    return 0 if all(verdict.passed for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
