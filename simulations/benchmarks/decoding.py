"""Measure the decoders at the size of production, each in its own process, on drawn tables.

`python -m simulations.benchmarks.decoding CASE FOLDER` decodes FOLDER/CASE.table and writes the
times and the peak memory beside it. The benchmarks here draw that table and run the process.

The settings of RAPPOR are those of google/rappor's regression tests; with 128 bits they are those
of Chrome. The frequencies of the held values fall like 1 / rank**power; nobody holds the other
values of a list.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulations.benchmarks.measuring import Benchmark, fastest, run

if TYPE_CHECKING:
    from ldp.client import (
        CountMeanSketch,
        HadamardCountMeanSketch,
        ProjectiveGeometry,
        Rappor,
    )
    from ldp.mechanisms import Mechanism
    from ldp.tables.estimates import Estimates

QUICK = 5000
"""Most candidates for which the fastest of 5 decodings counts; beyond it, one decoding is timed."""


def apple_preset() -> "CountMeanSketch":
    from ldp.client import CountMeanSketch

    return CountMeanSketch(epsilon=4.0, rows=65536, width=1024, seed="00ff")


def small_sketch() -> "CountMeanSketch":
    from ldp.client import CountMeanSketch

    return CountMeanSketch(epsilon=4.0, rows=256, width=256, seed="00ff")


def hadamard_preset() -> "HadamardCountMeanSketch":
    from ldp.client import HadamardCountMeanSketch

    return HadamardCountMeanSketch(epsilon=4.0, rows=1024, width=32768, seed="00ff")


def chrome_preset(bits: int = 128) -> "Rappor":
    from ldp.client import Rappor

    return Rappor(bits=bits, hashes=2, cohorts=128, f=0.5, p=0.25, q=0.75, seed="00ff")


def known_list() -> "ProjectiveGeometry":
    from ldp.client import ProjectiveGeometry

    return ProjectiveGeometry(categories=_listed(250_000), epsilon=4.0)


@dataclass(frozen=True, kw_only=True)
class Case:
    """Table of `reports` reports of `held` values, to decode with `listed` candidates."""

    mechanism: Callable[[], "Mechanism"]
    reports: int
    held: int
    listed: int
    power: float = 1.0
    method: str = "auto"


CASES = {
    "cms": Case(mechanism=apple_preset, reports=10**6, held=2600, listed=250_000),
    "cms_small": Case(
        mechanism=small_sketch, reports=10**6, held=200, listed=1000, method="regression"
    ),
    "hcms": Case(mechanism=hadamard_preset, reports=10**7, held=2600, listed=2600),
    "pgr": Case(mechanism=lambda: known_list(), reports=10**6, held=2600, listed=250_000),
    "rappor_110": Case(mechanism=lambda: chrome_preset(8), reports=10**6, held=100, listed=110),
    "rappor_1100": Case(
        mechanism=lambda: chrome_preset(8), reports=10**7, held=1000, listed=1100, power=1.5
    ),
    "rappor_128_bits": Case(mechanism=chrome_preset, reports=10**5, held=1000, listed=1100),
    "rappor_128_bits_1009000": Case(
        mechanism=chrome_preset, reports=10**7, held=10_000, listed=1_009_000
    ),
    "rappor_11000": Case(
        mechanism=lambda: chrome_preset(8), reports=10**8, held=10_000, listed=11_000, power=1.5
    ),
    "rappor_109000": Case(
        mechanism=lambda: chrome_preset(8), reports=10**8, held=10_000, listed=109_000
    ),
    "rappor_1009000": Case(
        mechanism=lambda: chrome_preset(8), reports=10**8, held=10_000, listed=1_009_000
    ),
}


@dataclass(frozen=True)
class Decoded:
    """Seconds of hashing, decoding and writing the estimates, and the process's peak memory.

    Hashing means, for RAPPOR, making the map of the candidates.
    """

    hashing: float
    decoding: float
    writing: float
    peak_mib: float


@cache
def decoded(name: str, folder: Path) -> Decoded:
    import numpy as np

    from ldp.simulation import draw_table

    case = CASES[name]
    weights = np.arange(1.0, case.held + 1) ** -case.power
    draw_table(
        case.mechanism(),
        _listed(case.held),
        frequencies=weights / weights.sum(),
        users=case.reports,
        generator=np.random.default_rng(1),
    ).save(folder / f"{name}.table")
    peak = run([sys.executable, "-m", "simulations.benchmarks.decoding", name, folder]).peak_mib
    return Decoded(**json.loads((folder / f"{name}.json").read_text()), peak_mib=peak)


def _listed(size: int) -> tuple[str, ...]:
    return tuple(f"string-{i}" for i in range(size))


def main() -> None:
    from ldp.mechanisms import Rappor
    from ldp.server import Table, decode

    name, folder = sys.argv[1], Path(sys.argv[2])
    table, candidates = Table.load(folder / f"{name}.table"), _listed(CASES[name].listed)
    decode(table, candidates[:2])  # compiles the kernels
    hashing, known = 0.0, dict[str, Any]()
    if isinstance(table.mechanism, Rappor):
        from ldp.decoding.bloom_maps import candidate_bits

        started = time.perf_counter()
        known["places"] = candidate_bits(table, candidates)
        hashing = time.perf_counter() - started

    def decoded_table() -> "Estimates":
        return decode(table, candidates, method=CASES[name].method, **known)

    decoding = fastest(decoded_table, 5 if len(candidates) <= QUICK else 1)
    estimates = decoded_table()
    writing = fastest(lambda: estimates.to_csv(folder / f"{name}.csv"), 3)
    figures = {"hashing": hashing, "decoding": decoding, "writing": writing}
    (folder / f"{name}.json").write_text(json.dumps(figures))


def _seconds(name: str, doing: str, bar: float) -> Benchmark:
    return Benchmark(
        key=f"{name}_decode",
        name=doing,
        unit="s",
        measure=lambda folder: decoded(name, folder).decoding,
        bar=bar,
    )


def _memory(name: str, bar: float) -> Benchmark:
    return Benchmark(
        key=f"{name}_memory",
        name="its peak memory",
        unit="MiB",
        measure=lambda folder: decoded(name, folder).peak_mib,
        bar=bar,
    )


BENCHMARKS = (
    _seconds("cms", "decode 250,000 candidates of CMS", 7.5),
    Benchmark(
        key="cms_written",
        name="write these estimates as a file",
        unit="s",
        measure=lambda folder: decoded("cms", folder).writing,
        bar=4,
    ),
    _memory("cms", 2048),
    _seconds("cms_small", "regress 1,000 candidates of CMS, 256 x 256", 5),
    _memory("cms_small", 512),
    _seconds("hcms", "decode 2,600 candidates of HCMS, 1,024 x 32,768", 3),
    _memory("hcms", 1024),
    _seconds("pgr", "decode 250,000 categories of PGR, 8,042,221 points", 10),
    _memory("pgr", 2048),
    _seconds("rappor_110", "decode RAPPOR of 8 bits: 110 candidates", 0.1),
    _seconds("rappor_1100", "1,100 candidates", 1),
    _seconds("rappor_11000", "11,000 candidates", 1),
    _seconds("rappor_109000", "109,000 candidates", 4),
    _memory("rappor_109000", 700),
    _seconds("rappor_1009000", "1,009,000 candidates", 40),
    _memory("rappor_1009000", 4096),
    Benchmark(
        key="rappor_hashing",
        name="hash these before",
        unit="s",
        measure=lambda folder: decoded("rappor_1009000", folder).hashing,
        bar=20,
    ),
    _seconds("rappor_128_bits", "decode RAPPOR of 128 bits: 1,100 candidates", 5),
    _seconds("rappor_128_bits_1009000", "1,009,000 candidates", 120),
    _memory("rappor_128_bits_1009000", 2048),
)

if __name__ == "__main__":
    main()
