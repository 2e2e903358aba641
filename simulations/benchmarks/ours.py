"""List the benchmarks: what `ldp` does, in which unit, and the bar it has to meet.

A lower figure is better in every benchmark. `key` is also the name of the peer's figure for the
same work, in the same unit (`pure_ldp.py`, `multi_freq_ldpy.py`).
"""

import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulations.benchmarks import batch, decoding, device, large
from simulations.benchmarks.decoding import apple_preset, hadamard_preset
from simulations.benchmarks.measuring import (
    Benchmark,
    Run,
    fastest,
    import_seconds,
    installed_mib,
    run,
    size_mib,
    with_dependencies,
)

if TYPE_CHECKING:
    from ldp.mechanisms import Mechanism

LDP = (sys.executable, "-m", "ldp")
HELP = "import sys; sys.argv = ['ldp', '--help']; from ldp.__main__ import main; main()"
CANDIDATES = 2600  # number of popular emoji that Apple published
REPORTS = 1_000_000
CLIENTS = 10**9
PLAN = ("plan", "list", "--domain", str(CANDIDATES), "--users", str(REPORTS), "--epsilon", "4")


def words() -> list[str]:
    return [f"word-{rank}" for rank in range(1, CANDIDATES + 1)]


def wire_bytes(mechanism: "Mechanism", value: str) -> float:
    return len(mechanism.encoder().encode(value))


def batch_us(mechanism: "Mechanism", method: str = "auto") -> float:
    """Return microseconds a person, for 100,000 people, in the fastest of 5 runs.

    The kernels are compiled before.
    """
    batch.answer(mechanism, 100, method)
    return 1e6 * fastest(lambda: batch.answer(mechanism, batch.USERS, method), 5) / batch.USERS


def batch_memory(folder: Path) -> float:
    command = (sys.executable, "-m", "simulations.benchmarks.batch")
    hardly_any, all_of_them = (run([*command, str(users)]) for users in (100, batch.USERS))
    return all_of_them.peak_mib - hardly_any.peak_mib


def dependencies(extra: str = "") -> set[str]:
    """Return the packages that the base install brings, with those of an `extra`."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    more = project["optional-dependencies"][extra] if extra else []
    return with_dependencies([*project["dependencies"], *more])


def installed(extra: str = "") -> float:
    import ldp

    return installed_mib(dependencies(extra)) + size_mib(Path(ldp.__path__[0]).rglob("*"))


@cache
def aggregated(folder: Path) -> Run:
    """Count a million reports of a store by the command; return the shortest time and largest peak.

    The command runs three times, and leaves words.table in the folder.
    """
    registry = device.registry(folder, "apple-emoji")
    population, store = folder / "words.csv", folder / "store"
    lines = [f"{word},{1 / rank}" for rank, word in enumerate(words(), 1)]
    population.write_text("\n".join(["value,frequency", *lines]) + "\n")
    asked: list[str | Path] = ["word", "--registry", registry]
    people = ["--population", str(population), "--users", str(REPORTS), "--seed", "1"]
    run([*LDP, "simulate", *asked, *people, "--reports", store])
    runs = [
        run([*LDP, "aggregate", *asked, store, "--out", folder / "words.table"]) for _ in range(3)
    ]
    return Run(min(one.seconds for one in runs), max(one.peak_mib for one in runs))


def demo(folder: Path) -> float:
    """Return the seconds of a demo without compiled kernels, as after installation."""
    fresh = {"NUMBA_CACHE_DIR": str(folder / "numba")}
    return run([*LDP, "demo", "--seed", "1", "--out", folder / "demo"], fresh).seconds


def draw(folder: Path) -> float:
    import numpy as np

    from ldp.simulation import draw_table

    mechanism, values, weights = apple_preset(), words(), 1 / np.arange(1.0, CANDIDATES + 1)
    shares, generator = weights / weights.sum(), np.random.default_rng(1)
    return fastest(
        lambda: draw_table(
            mechanism, values, frequencies=shares, users=CLIENTS, generator=generator
        ),
        2,
    )


def decode(folder: Path) -> float:
    from ldp.server import Table
    from ldp.server import decode as decoded

    aggregated(folder)
    table, candidates = Table.load(folder / "words.table"), words()
    decoded(table, candidates[:2])  # compiles the kernels
    return 1e3 * fastest(lambda: decoded(table, candidates), 5) / CANDIDATES


def percentiles(folder: Path) -> float:
    """Return the seconds of `ldp decode` alone, the fastest of three; leave the table in the
    folder."""
    import numpy as np

    from ldp.mechanisms.hierarchical_histogram import HierarchicalHistogram
    from ldp.simulation import draw_table

    by = ("1.0", "1.1", "1.2", "2.0", "other")
    mechanism = HierarchicalHistogram(epsilon=4.0, magnitudes=(1.0, 2.0**25), by=by)
    values: Any = tuple((version, f"{2 ** (number / 2)}") for version in by for number in range(40))
    table, out = folder / "numbers.table", folder / "numbers.csv"
    shares = np.full(len(values), 1 / len(values))
    generator = np.random.default_rng(1)
    drawn_table = draw_table(
        mechanism, values, frequencies=shares, users=REPORTS, generator=generator
    )
    drawn_table.save(table)
    return min(run([*LDP, "decode", table, "--out", out]).seconds for _ in range(3))


def compose() -> None:
    """Compose a report a day for 90 days of 1,000 metrics with different epsilons from 0.1 to 4."""
    from ldp.client import CountMeanSketch
    from ldp.privacy_loss import compose

    metrics = [
        CountMeanSketch(epsilon=0.1 + 0.0039 * number, rows=65536, width=1024, seed="00ff")
        for number in range(1000)
    ]
    compose((metric, 90) for metric in metrics).at(delta=1e-9)


def _collecting_us(load: str, seconds: float, folder: Path) -> float:
    """Return microseconds of a collector's processor time a report, without the sender's.

    A load of mixed batches takes a minute, in which the reports of every metric reach the store.
    """
    from simulations.benchmarks import collector

    (folder / load).mkdir()
    return collector.run(getattr(collector, load), seconds, folder / load, seed=1).processor_us


def _collecting_limit_us(load: str, folder: Path) -> float:
    from simulations.benchmarks import collector

    return collector.limit_us(getattr(collector, load), 10, folder)


BENCHMARKS = (
    *device.BENCHMARKS,
    Benchmark(
        key="wire",
        name="one CMS report on the wire",
        unit="bytes",
        measure=lambda folder: wire_bytes(apple_preset(), "lol"),
        bar=130 + 16,
    ),
    Benchmark(
        key="hcms_wire",
        name="one HCMS report on the wire",
        unit="bytes",
        measure=lambda folder: wire_bytes(hadamard_preset(), "lol"),
        bar=4 + 10,
    ),
    Benchmark(
        key="unary_wire",
        name="one unary report of 1,000 values on the wire",
        unit="bytes",
        measure=lambda folder: wire_bytes(batch.unary(), batch.VALUES[0]),
        bar=125 + 10,
    ),
    Benchmark(
        key="import",
        name="import of the client, over a bare interpreter",
        unit="ms",
        measure=lambda folder: 1e3 * import_seconds("from ldp.client import Client"),
        bar=45,
    ),
    Benchmark(
        key="import_rappor",
        name="import of RAPPOR's mechanism, over the same",
        unit="ms",
        measure=lambda folder: 1e3 * import_seconds("from ldp.client import Rappor"),
        bar=35,
    ),
    Benchmark(
        key="help",
        name="`ldp --help`, over the same",
        unit="ms",
        measure=lambda folder: 1e3 * import_seconds(HELP),
        bar=150,
    ),
    Benchmark(
        key="dependencies",
        name="dependencies of the base install",
        unit="packages",
        measure=lambda folder: len(dependencies()),
        bar=2,
    ),
    Benchmark(
        key="installed",
        name="base install on disk, dependencies included",
        unit="MiB",
        measure=lambda folder: installed(),
        bar=5,
    ),
    Benchmark(
        key="installed_server",
        name="install with the extra server, the same",
        unit="MiB",
        measure=lambda folder: installed("server"),
        bar=467,
    ),
    Benchmark(
        key="unary_batch",
        name="100,000 unary reports: encode, count, estimate, for each",
        unit="us",
        measure=lambda folder: batch_us(batch.unary()),
        bar=0.77,
    ),
    Benchmark(
        key="unary_batch_memory",
        name="their memory, above the baseline",
        unit="MiB",
        measure=batch_memory,
        bar=50,
    ),
    Benchmark(
        key="rr_batch",
        name="100,000 answers of randomised response: encode, count, estimate, for each",
        unit="us",
        measure=lambda folder: batch_us(batch.responses()),
        bar=0.1,
    ),
    Benchmark(
        key="hashing_batch",
        name="100,000 reports of local hashing, 2,048 rows, by mean sketch: the same, for each",
        unit="us",
        measure=lambda folder: batch_us(batch.hashes(), "mean-sketch"),
        bar=1,
    ),
    Benchmark(
        key="hashing_regression_batch",
        name="the same by regression, the default of so small a sketch",
        unit="us",
        measure=lambda folder: batch_us(batch.hashes(), "regression"),
        bar=1,
    ),
    Benchmark(
        key="subset_batch",
        name="100,000 sets of subset selection: the same, for each",
        unit="us",
        measure=lambda folder: batch_us(batch.sets()),
        bar=1.25,
    ),
    Benchmark(
        key="pgr_batch",
        name="100,000 points of projective geometry: the same, for each",
        unit="us",
        measure=lambda folder: batch_us(batch.points()),
        bar=1,
    ),
    Benchmark(
        key="cms_batch",
        name="100,000 CMS reports, 2,048 rows: the same, for each",
        unit="us",
        measure=lambda folder: batch_us(batch.small_sketch()),
        bar=0.91,
    ),
    Benchmark(
        key="percentiles_batch",
        name="100,000 numbers in levels of bins: encode, count, percentiles, for each",
        unit="us",
        measure=lambda folder: batch_us(batch.histogram()),
        bar=15,
    ),
    Benchmark(
        key="percentiles_by_batch",
        name="100,000 numbers by five versions: the same, for each",
        unit="us",
        measure=lambda folder: batch_us(batch.histogram(5)),
        bar=60,
    ),
    Benchmark(
        key="aggregate",
        name="aggregate 1,000,000 reports",
        unit="s",
        measure=lambda folder: aggregated(folder).seconds,
        bar=10,
    ),
    Benchmark(
        key="aggregate_memory",
        name="its peak memory",
        unit="MiB",
        measure=lambda folder: aggregated(folder).peak_mib,
        bar=1.5 * 1024,
    ),
    Benchmark(
        key="decode",
        name="decode 2,600 candidates, for each",
        unit="ms",
        measure=decode,
        bar=0.115,  # 0.3 s for all
    ),
    *decoding.BENCHMARKS,
    Benchmark(
        key="percentiles_decode",
        name="decode percentiles of 1,000,000 numbers, 402 bins, by five versions, and write them",
        unit="s",
        measure=percentiles,
        bar=10,
    ),
    Benchmark(
        key="plan",
        name="plan a metric of 2,600 values, a million users, epsilon 4",
        unit="s",
        measure=lambda folder: run([*LDP, *PLAN]).seconds,
        bar=10,
    ),
    Benchmark(
        key="collect_uniform",
        name="take one report over HTTP, batches of 100 of one metric",
        unit="us",
        measure=lambda folder: _collecting_us("UNIFORM", 20, folder),
        bar=1e6 / 480_000,
        limit=lambda folder: _collecting_limit_us("UNIFORM", folder),
    ),
    Benchmark(
        key="collect_mixed",
        name="one of each of 100 metrics a batch",
        unit="us",
        measure=lambda folder: _collecting_us("MIXED", 60, folder),
        bar=1e6 / 250_000,
        limit=lambda folder: _collecting_limit_us("MIXED", folder),
    ),
    Benchmark(
        key="draw",
        name="draw the table of 1,000,000,000 clients",
        unit="s",
        measure=draw,
        bar=20,
    ),
    Benchmark(
        key="demo",
        name="the whole demo",
        unit="s",
        measure=demo,
        bar=60,
    ),
    Benchmark(
        key="compose",
        name="compose 1,000 metrics x 90 days exactly",
        unit="s",
        measure=lambda folder: fastest(compose, 3),
        bar=1,
    ),
    *large.BENCHMARKS,
)
