"""Measure a peer with unary encoding and subset selection, and print the figures as JSON by key.

multi-freq-ldpy 0.2.5 (Arcolezi et al. 2022) has optimised unary encoding as UE_Client, compiled,
and UE_Aggregator_MI, which takes all reports as a list. `peers.py` runs this file in the peers'
environment, without ldp.
"""

import resource
from collections.abc import Callable
from functools import cache
from importlib import import_module

import numpy as np

from simulations.benchmarks.measuring import each_us, fastest, print_figures

EPSILON, VALUES, USERS = 2.0, 1000, 100_000


def main() -> None:
    unary, subset, response, hashing = (
        import_module(f"multi_freq_ldpy.pure_frequency_oracles.{name}")
        for name in ("UE", "SS", "GRR", "LH")
    )
    weights = np.arange(1.0, VALUES + 1) ** -1.1
    shares, generator = weights / weights.sum(), np.random.default_rng(1)

    def answer(users: int) -> None:
        held = generator.choice(VALUES, size=users, p=shares)
        reports = [unary.UE_Client(value, VALUES, EPSILON, True) for value in held]
        unary.UE_Aggregator_MI(reports, EPSILON, True)

    def choose(users: int) -> None:
        held = generator.choice(VALUES, size=users, p=shares)
        reports = [subset.SS_Client(value, VALUES, EPSILON) for value in held]
        subset.SS_Aggregator_MI(reports, VALUES, EPSILON)

    @cache
    def answered() -> tuple[float, float]:
        """Return microseconds a user, and memory in MiB."""
        answer(100)  # compiles
        before = _peak_mib()
        seconds = fastest(lambda: answer(USERS), 3)
        return 1e6 * seconds / USERS, _peak_mib() - before

    def chosen() -> float:
        choose(100)
        return 1e6 * fastest(lambda: choose(USERS), 2) / USERS

    def one(client: Callable[..., object], *more: object) -> Callable[[], float]:
        return lambda: each_us(lambda value: client(value, VALUES, EPSILON, *more), range(VALUES))

    print_figures(
        {
            "encode_rr": one(response.GRR_Client),
            "encode_hashing": one(hashing.LH_Client, True),
            "encode_unary": one(unary.UE_Client, True),
            "encode_subset": one(subset.SS_Client),
            "subset_batch": chosen,
            "unary_batch": lambda: answered()[0],
            "unary_batch_memory": lambda: answered()[1],
            "unary_wire": lambda: unary.UE_Client(0, VALUES, EPSILON, True).nbytes,
        }
    )


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
