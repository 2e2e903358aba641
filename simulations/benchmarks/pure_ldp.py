"""Measure pure-ldp in its own environment, and print the figures as JSON by key.

pure-ldp 1.2.0 (Cormode, Maddock and Maple 2021) has Apple's count mean sketch as CMSClient and
CMSServer. It runs at the Apple preset in full. Only the decoder is tried on fewer candidates, so
its figure is per candidate. `peers.py` runs this file where ldp is not installed.
"""

import resource
import time
import warnings
from functools import cache
from importlib import import_module
from typing import Any

from simulations.benchmarks.measuring import (
    each_us,
    fastest,
    import_seconds,
    installed_mib,
    print_figures,
    with_dependencies,
)

ORACLES = "pure_ldp.frequency_oracles"
MODULE = f"{ORACLES}.apple_cms"
EPSILON, ROWS, WIDTH = 4, 65536, 1024
BATCH_ROWS, BATCH, BATCH_EPSILON, VALUES = 2048, 100_000, 2.0, 1000
REQUIREMENTS = ("pure-ldp", "scikit-learn", "statsmodels")
"""Packages that the peer needs; it declares only the first."""
REPORTS, BLOCK, CANDIDATES = 1_000_000, 10_000, 100


def zipf_values() -> list[int]:
    """Draw the batch's values, from 1 to 1,000, with frequencies 1 / rank**1.1."""
    import numpy as np

    weights = np.arange(1.0, VALUES + 1) ** -1.1
    drawn = np.random.default_rng(1).choice(VALUES, size=BATCH, p=weights / weights.sum())
    return [int(value) + 1 for value in drawn]


def main() -> None:
    warnings.simplefilter("ignore")
    cms = import_module(MODULE)
    server = cms.CMSServer(EPSILON, ROWS, WIDTH)
    client = cms.CMSClient(EPSILON, server.get_hash_funcs(), WIDTH)
    words = [f"word-{rank}" for rank in range(1, 2601)]
    direct = import_module(f"{ORACLES}.direct_encoding")
    hashing = import_module(f"{ORACLES}.local_hashing")
    hadamard = import_module(f"{ORACLES}.hadamard_response")
    unary = import_module(f"{ORACLES}.unary_encoding").UEClient(BATCH_EPSILON, VALUES, use_oue=True)
    numbers, values = range(1, VALUES + 1), zipf_values()

    def direct_client() -> Any:
        return direct.DEClient(BATCH_EPSILON, VALUES)

    def hashing_client() -> Any:
        return hashing.FastLHClient(BATCH_EPSILON, VALUES, BATCH_ROWS, use_olh=True)

    def hadamard_client() -> Any:
        hashes = hadamard.HadamardResponseServer(BATCH_EPSILON, VALUES).get_hash_funcs()
        return hadamard.HadamardResponseClient(BATCH_EPSILON, VALUES, hashes)

    @cache
    def aggregate() -> tuple[float, float]:
        """Return the seconds of aggregation, and the peak memory in MiB."""
        seconds = 0.0
        for start in range(0, REPORTS, BLOCK):  # a million reports at once would be 8 GB
            block = [client.privatise(words[i % len(words)]) for i in range(start, start + BLOCK)]
            started = time.perf_counter()
            server.aggregate_all(block)
            seconds += time.perf_counter() - started
        return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def decode() -> None:
        aggregate()
        for word in words[:CANDIDATES]:
            server.estimate(word)

    def batch() -> None:
        small = cms.CMSServer(EPSILON, BATCH_ROWS, WIDTH)
        device = cms.CMSClient(EPSILON, small.get_hash_funcs(), WIDTH)
        for start in range(0, BATCH, BLOCK):
            block = range(start, start + BLOCK)
            small.aggregate_all([device.privatise(words[i % 1000]) for i in block])
        for word in words[:1000]:
            small.estimate(word)

    def all_of(client: Any, server: Any) -> None:
        for value in values:
            server.aggregate(client.privatise(value))
        for value in numbers:
            server.estimate(value, suppress_warnings=True)

    def responses() -> None:
        all_of(direct_client(), direct.DEServer(BATCH_EPSILON, VALUES))

    def hashes() -> None:
        server = hashing.FastLHServer(BATCH_EPSILON, VALUES, BATCH_ROWS, use_olh=True)
        all_of(hashing_client(), server)

    print_figures(
        {
            "encode": lambda: each_us(client.privatise, words),
            "encode_rr": lambda: each_us(direct_client().privatise, numbers),
            "encode_hashing": lambda: each_us(hashing_client().privatise, numbers),
            "encode_hadamard": lambda: each_us(hadamard_client().privatise, numbers),
            "encode_unary": lambda: each_us(unary.privatise, numbers),
            "wire": lambda: client.privatise("lol")[0].nbytes,
            "import": lambda: 1e3 * import_seconds(f"import {MODULE}", 7),
            "dependencies": lambda: len(with_dependencies(REQUIREMENTS)) - 1,
            "installed": lambda: installed_mib(with_dependencies(REQUIREMENTS)),
            "aggregate": lambda: aggregate()[0],
            "aggregate_memory": lambda: aggregate()[1],
            "rr_batch": lambda: 1e6 * fastest(responses, 1) / BATCH,
            "hashing_batch": lambda: 1e6 * fastest(hashes, 1) / BATCH,
            "hashing_regression_batch": lambda: 1e6 * fastest(hashes, 1) / BATCH,
            "cms_batch": lambda: 1e6 * fastest(batch, 1) / BATCH,
            "decode": lambda: 1e3 * fastest(decode, 2) / CANDIDATES,
        }
    )


if __name__ == "__main__":
    main()
