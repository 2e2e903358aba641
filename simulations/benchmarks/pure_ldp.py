"""The peer's figures, measured in its own environment and printed as JSON by key.

pure-ldp 1.2.0 (Cormode, Maddock and Maple 2021) has Apple's count mean sketch as CMSClient and
CMSServer. It runs at the Apple preset in full; only the decoder is tried on fewer candidates, and
its figure is per candidate. Run by `peers.py`, where ldp is not installed.
"""

import json
import resource
import time
import warnings
from importlib import import_module
from typing import Any

from simulations.benchmarks.measuring import (
    fastest,
    import_seconds,
    installed_mib,
    with_dependencies,
)

ORACLES = "pure_ldp.frequency_oracles"
MODULE = f"{ORACLES}.apple_cms"
EPSILON, ROWS, WIDTH = 4, 65536, 1024
BATCH_ROWS, BATCH, BATCH_EPSILON, VALUES = 2048, 100_000, 2.0, 1000
REQUIREMENTS = ("pure-ldp", "scikit-learn", "statsmodels")
"""It declares only the first."""
REPORTS, BLOCK, CANDIDATES = 1_000_000, 10_000, 100


def zipf_values() -> list[int]:
    """One of 1,000 values, from 1, for each of the batch, with frequencies 1 / rank**1.1."""
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

    def encode() -> None:
        for word in words:
            client.privatise(word)

    encode_us = 1e6 * fastest(encode, 7) / len(words)
    seconds = 0.0
    for start in range(0, REPORTS, BLOCK):  # a million reports at once would be 8 GB
        block = [client.privatise(words[i % len(words)]) for i in range(start, start + BLOCK)]
        started = time.perf_counter()
        server.aggregate_all(block)
        seconds += time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def decode() -> None:
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

    direct = import_module(f"{ORACLES}.direct_encoding")
    hashing = import_module(f"{ORACLES}.local_hashing")
    values = zipf_values()

    def all_of(client: Any, server: Any) -> None:
        for value in values:
            server.aggregate(client.privatise(value))
        for value in range(1, VALUES + 1):
            server.estimate(value, suppress_warnings=True)

    def responses() -> None:
        all_of(direct.DEClient(BATCH_EPSILON, VALUES), direct.DEServer(BATCH_EPSILON, VALUES))

    def hashes() -> None:
        server = hashing.FastLHServer(BATCH_EPSILON, VALUES, BATCH_ROWS, use_olh=True)
        client = hashing.FastLHClient(BATCH_EPSILON, VALUES, BATCH_ROWS, use_olh=True)
        all_of(client, server)

    packages = with_dependencies(REQUIREMENTS)
    figures = {
        "encode": encode_us,
        "wire": client.privatise("lol")[0].nbytes,
        "import": 1e3 * import_seconds(f"import {MODULE}", 7),
        "dependencies": len(packages) - 1,
        "installed": installed_mib(packages),
        "aggregate": seconds,
        "aggregate_memory": peak,
        "rr_batch": 1e6 * fastest(responses, 1) / BATCH,
        "hashing_batch": 1e6 * fastest(hashes, 1) / BATCH,
        "cms_batch": 1e6 * fastest(batch, 1) / BATCH,
        "decode": 1e3 * fastest(decode, 2) / CANDIDATES,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
