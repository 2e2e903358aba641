"""Measure what one record and one start of a device's client take.

The file is new and nobody else uses it. The registry's caps are large enough for every report.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

from simulations.benchmarks import batch
from simulations.benchmarks.decoding import apple_preset, chrome_preset
from simulations.benchmarks.measuring import Benchmark, each_us, fastest, request_us

if TYPE_CHECKING:
    from ldp.mechanisms import Mechanism

RECORDS = 500
WORDS = [f"word-{rank}" for rank in range(1, 2601)]
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


def record_us(folder: Path, preset: str, manner: str = "") -> float:
    """Return microseconds of processor time of one `Client.record`, with its transaction.

    It is the fastest of 7 rounds. Every record wins a slot, and the client keeps a witness.
    """
    from ldp.client import Client

    path = registry(folder, preset, manner + f"reports_per_window = {8 * RECORDS}\n")
    file = folder / f"{path.stem}.ldp"
    witness = file.with_suffix(".witness")
    with Client(file, registry=path, jitter=timedelta(0), witness=witness) as client:
        client.grant()

        def all_of_them() -> None:
            for number in range(RECORDS):
                client.record("word", f"word-{number}")

        return 1e6 * fastest(all_of_them, 7, process_time) / RECORDS


def open_ms(folder: Path) -> float:
    """Return milliseconds of one start of a client, the fastest of 7.

    A start reads the registry, opens the existing file and asks for the consent. All modules are
    loaded before.
    """
    from ldp.client import Client

    path, file = registry(folder, "apple-emoji"), folder / "apple-emoji.ldp"

    def opened() -> None:
        with Client(file, registry=path) as client:
            assert client.consent

    return 1e3 * fastest(opened, 7)


def open_many_ms(folder: Path) -> float:
    """Return milliseconds of processor time of a start with 1,000 metrics of one preset.

    More than half of it is the time of tomllib.
    """
    from ldp.client import Client

    path = registry(folder, "apple-emoji")
    head, metric = path.read_text().split("[metric.word]")
    path = folder / "thousand.toml"
    path.write_text(head + "".join(f"[metric.word-{n}]{metric}" for n in range(1000)))

    def opened() -> None:
        with Client(folder / "thousand.ldp", registry=path) as client:
            assert client.consent

    return 1e3 * fastest(opened, 7, process_time)


def registry(folder: Path, preset: str, manner: str = "") -> Path:
    path = folder / f"{preset}{len(manner)}.toml"
    path.write_text(REGISTRY.format(preset=preset) + manner)
    return path


def _memoised_us(folder: Path, manner: str) -> float:
    return record_us(folder, "chrome-etld-plus-one", manner)


def encode_us(mechanism: "Mechanism", values: Sequence[str], secret: bytes | None = None) -> float:
    """Return microseconds of one report with system randomness.

    With a secret, the report is memoised per value.
    """
    encoder = mechanism.encoder() if secret is None else mechanism.encoder(secret=secret)  # type: ignore[call-arg]
    return each_us(encoder.encode, values)


def encoding(
    key: str, name: str, mechanism: "Callable[[], Mechanism]", bar: float, values: Sequence[str]
) -> Benchmark:
    """Return the benchmark of one report; its limit is the request for the report's random
    bytes."""
    return Benchmark(
        key=key,
        name=name,
        unit="us",
        measure=lambda folder: encode_us(mechanism(), values),
        bar=bar,
        limit=lambda folder: request_us(mechanism().layout.random_bytes[0]),
    )


BENCHMARKS = (
    encoding("encode", "encode one CMS report of 1,024 columns", apple_preset, 13, WORDS),
    encoding("encode_rr", "one of randomised response", batch.responses, 1, batch.VALUES),
    encoding("encode_hashing", "one of local hashing", batch.hashes, 2.4, batch.VALUES),
    encoding("encode_hadamard", "one of Hadamard response", batch.signs, 3.6, batch.VALUES),
    encoding("encode_points", "one of projective geometry", batch.points, 6, batch.VALUES),
    encoding("encode_unary", "one of unary encoding", batch.unary, 13, batch.VALUES),
    encoding("encode_subset", "one of subset selection", batch.sets, 15, batch.VALUES),
    Benchmark(
        key="encode_rappor",
        name="one of RAPPOR of 128 bits, memoised per value",
        unit="us",
        measure=lambda folder: encode_us(chrome_preset(), WORDS, bytes(32)),
        bar=25,
    ),
    Benchmark(
        key="record_cms",
        name="record one value of a CMS metric on a device",
        unit="us",
        measure=lambda folder: record_us(folder, "apple-emoji"),
        bar=120,
    ),
    Benchmark(
        key="record_rappor",
        name="the same of a RAPPOR metric of 128 bits",
        unit="us",
        measure=lambda folder: record_us(folder, "chrome-etld-plus-one"),
        bar=120,
    ),
    *(
        Benchmark(
            key=f"record_rappor_{key}",
            name=f"the same, memoised {said}",
            unit="us",
            measure=partial(_memoised_us, manner=manner),
            bar=250,
        )
        for key, said, manner in (
            ("per_value", "per value", 'memoise = "per-value"\n'),
            ("epoch", "by epoch", 'memoise = "epoch"\nepoch = "90d"\n'),
        )
    ),
    Benchmark(
        key="open_client",
        name="open a device's client",
        unit="ms",
        measure=open_ms,
        bar=40,
    ),
    Benchmark(
        key="open_many",
        name="the same with 1,000 metrics, processor time",
        unit="ms",
        measure=open_many_ms,
        bar=40,
    ),
)
