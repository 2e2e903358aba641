"""Measure how well the time of one call of `encode` tells a true report from a lie.

`python -m simulations.timing` encodes one value a hundred thousand times, with the system's
randomness. It does so for each mechanism's first example and every published setting. It chooses
the best threshold on the time of a call by half of the calls. On the other half it asks how often
the threshold tells whether the report names what the value touches. Where a secret decides a
permanent response of one column, it asks whether that response is the true one. True reports and
lies count alike, so 50 % is chance.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ldp.arrays import Bools, Ints
from ldp.mechanisms import CATALOGUE, from_parameters
from ldp.mechanisms.addressing import Rounding
from ldp.mechanisms.base import Mechanism
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.mechanisms.memoised import MemoisedHashing, MemoisedResponse
from ldp.mechanisms.presets import COMPLETE
from ldp.mechanisms.secrets import Secret
from ldp.protocol.hashing import Value
from ldp.protocol.kinds import Index
from ldp.protocol.wire import split_report
from simulations import campaign
from simulations.campaign import Bar

CALLS = 100_000
MOST = 0.55
"""Largest share of calls told apart; a mechanism that misses it is named on the privacy page."""
NUMBERS = 4096
"""Number of thresholds that are tried, at quantiles of the times."""


def is_true(mechanism: Mechanism, value: Value, report: bytes) -> bool | None:
    """Return whether a report names the cells that the value touches.

    Returns None in a row in which the value touches no cell; every reader sees the row.
    """
    row, payload = split_report(report, mechanism.header, mechanism.layout)
    number = mechanism.layout.payload_number(payload)
    point = mechanism.addressing.point(value)
    if isinstance(mechanism.addressing, Rounding):
        point, _ = mechanism.addressing.rounding(point, row)
    cells = mechanism.addressing.cells(point, row)
    if not cells:
        return None
    is_named = any if mechanism.kind is Index else all
    return is_named(mechanism.layout.names(number, cell) for cell in cells)


def told_apart(times: Ints, truths: Bools) -> float:
    """Return the share of the second half of calls that a threshold on their time tells apart.

    True reports and lies have equal weights. The threshold is the best one for the first half.
    """
    half = len(times) // 2
    places = np.unique(np.quantile(times[:half], np.linspace(0, 1, NUMBERS)))

    def rates(some: slice, at: Any) -> Any:
        true, lies = (np.sort(times[some][truths[some] == which]) for which in (True, False))
        below = [np.searchsorted(each, at, "right") / max(1, len(each)) for each in (true, lies)]
        return below[0] - below[1]

    gain = rates(slice(half), places)
    best = int(np.argmax(np.abs(gain)))
    found = float(rates(slice(half, None), places[best]) * np.sign(gain[best]))
    return 0.5 + found / 2


def measured(mechanism: Mechanism, value: Value, calls: int) -> float:
    """Return how well single calls are told apart."""
    encode, clock = mechanism.encoder().encode, time.perf_counter_ns
    times, reports = np.empty(calls, np.int64), list[bytes]()
    for number in range(calls):
        begun = clock()
        report = encode(value)
        times[number] = clock() - begun
        reports.append(report)
    truths = [is_true(mechanism, value, report) for report in reports]
    touching = np.array([truth is not None for truth in truths])
    return told_apart(times[touching], np.array(truths, np.bool_)[touching])


def permanent(mechanism: MemoisedMechanism, value: Value, calls: int) -> float:
    """Return how well single calls are told apart by whether their permanent response is true.

    Each call is of a device with a secret of its own.
    """
    clock, times = time.perf_counter_ns, np.empty(calls, np.int64)
    truths, memory = np.empty(calls, np.bool_), mechanism.memory
    for number in range(calls):
        secret = Secret(os.urandom(32))
        encoder = mechanism.encoder(secret=secret)
        true = int.from_bytes(encoder.cell(value), "little")
        begun = clock()
        encoder.encode(value)
        times[number] = clock() - begun
        truths[number] = memory.response(secret, "", true) == true
    return told_apart(times, truths)


def timed() -> Iterator[tuple[str, Mechanism, Value]]:
    """Yield every mechanism's first example, and the published settings, which are larger."""
    for name, kind in CATALOGUE.items():
        example = kind.examples()[0]
        if isinstance(example.mechanism, Mechanism):
            yield name, example.mechanism, example.values[0]
    for name, preset in COMPLETE.items():
        published = from_parameters({**preset.parameters, "seed": "00ff"})
        if isinstance(published, Mechanism):
            yield name, published, "value"


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulations.timing", description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--out", type=Path, help="write the result there, as JSON")
    asked, started = parser.parse_args(), campaign.provenance()
    bars = []
    for name, mechanism, value in timed():
        share = measured(mechanism, value, asked.calls)
        bars.append(Bar(name, share, f"<= {MOST}", share <= MOST))
    for memoised in (*MemoisedResponse.examples(), *MemoisedHashing.examples()):
        kept = memoised.mechanism
        assert isinstance(kept, MemoisedMechanism)
        name = f"{kept.name}, {kept.shape.columns} columns, per value"
        share = permanent(kept, memoised.values[0], asked.calls)
        bars.append(Bar(name, share, f"<= {MOST}", share <= MOST))
    campaign.write(asked.out, started, {"calls": asked.calls, "told_apart": bars})
    return campaign.shown(bars)


if __name__ == "__main__":
    sys.exit(main())
