"""Simulated devices: every report through `mechanism.encoder(...).encode(value)`, into the store.

It is for tests of the real client code; `simulate` draws reports of the same distribution in bulk.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from ldp.collection.store import BLOCK, ReportWriter
from ldp.mechanisms import from_parameters
from ldp.protocol.randomness import SeededBits, SystemBits


@dataclass(frozen=True, kw_only=True)
class DevicesShare:
    """Devices of one process. `held`: the values of its devices, in random order; `seed`: seed of
    their noise, with None it comes from the operating system."""

    mechanism: Mapping[str, Any]
    metric: str
    version: int
    day: date
    store: Path
    part: str
    held: Sequence[str]
    seed: bytes | None


def encode_share(share: DevicesShare) -> None:
    """Encode every device's value and store the report."""
    mechanism = from_parameters(share.mechanism)
    encoder = mechanism.encoder(SystemBits() if share.seed is None else SeededBits(share.seed))
    with ReportWriter(
        share.store, share.metric, share.version, mechanism, share.day, share.part
    ) as writer:
        for start in range(0, len(share.held), BLOCK):
            held = share.held[start : start + BLOCK]
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


def encode_shares(shares: Sequence[DevicesShare], processes: int) -> None:
    """Run the shares in `processes` processes."""
    context = get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_end_with_parent) as pool:
        list(pool.map(encode_share, shares))
