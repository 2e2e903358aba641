"""Simulated devices: every report through `mechanism.encoder(...).encode(value)`, into the store.

It is for tests of the real client code. `simulate` draws reports of the same distribution in bulk.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from functools import partial
from itertools import count
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread

import numpy as np

from ldp.collection.store import BLOCK, ReportWriter
from ldp.protocol.randomness import SeededBits, SystemBits
from ldp.registry import Metric


def encode_share(
    metric: Metric, day: date, store: Path, seed: int | None, number: int, values: Sequence[str]
) -> None:
    """Encode the `values` of the devices of one process, and store the reports in its part of the
    store, which has this `number`. With `seed` None noise comes from the operating system."""
    name, version, mechanism = metric.name, metric.version, metric.mechanism
    seeded = SystemBits() if seed is None else SeededBits(f"demo {seed} {number}".encode())
    encoder = mechanism.encoder(seeded)
    with ReportWriter(store, name, version, mechanism, day, f"part-{number}") as writer:
        for start in range(0, len(values), BLOCK):
            held = values[start : start + BLOCK]
            reports = [mechanism.row_and_payload(encoder.encode(value)) for value in held]
            rows, payloads = zip(*reports, strict=True)
            block = np.frombuffer(b"".join(payloads), dtype=np.uint8)
            writer.write(np.array(rows, dtype=np.uint32), block.reshape(len(rows), -1))


def _end_with_parent() -> None:
    """End this process when its parent ends, so that a killed parent leaves no waiting worker."""

    def watch() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=watch, daemon=True).start()


def encode_shares(
    metric: Metric,
    day: date,
    store: Path,
    seed: int | None,
    shares: Sequence[Sequence[str]],
    processes: int,
) -> None:
    """Store the reports of devices with these `shares` of the values, in `processes` processes."""
    context, encode = get_context("spawn"), partial(encode_share, metric, day, store, seed)
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_end_with_parent) as pool:
        list(pool.map(encode, count(), shares))
