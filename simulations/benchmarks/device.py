"""A device's client: what one record and one start of it take.

The file is new and nobody else uses it; the caps are those of a registry whose lifetime lasts.
"""

from datetime import timedelta
from pathlib import Path

from simulations.benchmarks.measuring import Benchmark, fastest

RECORDS = 500
REGISTRY = """\
[product]
name = "benchmark"

[group.words]
window = "1d"
window_epsilon = 8.0
lifetime_epsilon = 120.0

[metric.word]
version = 1
group = "words"
description = "Which word people type"
owners = ["benchmark@example.org"]
expires = 2099-12-31
preset = "{preset}"
"""


def record_us(folder: Path, preset: str) -> float:
    """`record` of so many values, its transaction included; the fastest of 7 rounds."""
    from ldp.client import Client

    path = registry(folder, preset)
    with Client(folder / f"{preset}.ldp", registry=path, jitter=timedelta(0)) as client:
        client.grant()

        def all_of_them() -> None:
            for number in range(RECORDS):
                client.record("word", f"word-{number}")

        return 1e6 * fastest(all_of_them, 7) / RECORDS


def open_ms(folder: Path) -> float:
    """Reading the registry, opening the file that is there and asking for the consent; modules are
    loaded before. The fastest of 7."""
    from ldp.client import Client

    path, file = registry(folder, "apple-emoji"), folder / "apple-emoji.ldp"

    def opened() -> None:
        with Client(file, registry=path) as client:
            assert client.consent

    return 1e3 * fastest(opened, 7)


def registry(folder: Path, preset: str) -> Path:
    path = folder / f"{preset}.toml"
    path.write_text(REGISTRY.format(preset=preset))
    return path


BENCHMARKS = (
    Benchmark(
        key="record_cms",
        name="record one value of a CMS metric on a device",
        unit="us",
        measure=lambda folder: record_us(folder, "apple-emoji"),
        bar=350,
    ),
    Benchmark(
        key="record_rappor",
        name="the same of a RAPPOR metric of 128 bits",
        unit="us",
        measure=lambda folder: record_us(folder, "chrome-etld-plus-one"),
        bar=250,
    ),
    Benchmark(
        key="open_client",
        name="open a device's client",
        unit="ms",
        measure=open_ms,
        bar=40,
    ),
)
