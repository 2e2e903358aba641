"""The figures of the peer of unary encoding and subset selection, measured in the peers'
environment and printed as JSON by key.

multi-freq-ldpy 0.2.5 (Arcolezi et al. 2022) has optimised unary encoding as UE_Client, compiled,
and UE_Aggregator_MI, which takes all reports as a list. Run by `peers.py`, without ldp.
"""

import json
import resource
from importlib import import_module

import numpy as np

from simulations.benchmarks.measuring import fastest

EPSILON, VALUES, USERS = 2.0, 1000, 100_000


def main() -> None:
    unary = import_module("multi_freq_ldpy.pure_frequency_oracles.UE")
    weights = np.arange(1.0, VALUES + 1) ** -1.1
    shares, generator = weights / weights.sum(), np.random.default_rng(1)

    def answer(users: int) -> None:
        held = generator.choice(VALUES, size=users, p=shares)
        reports = [unary.UE_Client(value, VALUES, EPSILON, True) for value in held]
        unary.UE_Aggregator_MI(reports, EPSILON, True)

    subset = import_module("multi_freq_ldpy.pure_frequency_oracles.SS")

    def choose(users: int) -> None:
        held = generator.choice(VALUES, size=users, p=shares)
        reports = [subset.SS_Client(value, VALUES, EPSILON) for value in held]
        subset.SS_Aggregator_MI(reports, VALUES, EPSILON)

    choose(100)
    subset_seconds = fastest(lambda: choose(USERS), 2)
    answer(100)  # compiles
    before = _peak_mib()
    seconds = fastest(lambda: answer(USERS), 3)
    figures = {
        "subset_batch": 1e6 * subset_seconds / USERS,
        "unary_batch": 1e6 * seconds / USERS,
        "unary_batch_memory": _peak_mib() - before,
        "unary_wire": unary.UE_Client(0, VALUES, EPSILON, True).nbytes,
    }
    print(json.dumps(figures))


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
