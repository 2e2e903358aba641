"""Take a batch of people from values through report bytes to estimates, in blocks.

`python -m simulations.benchmarks.batch USERS` does so in a process of its own. Its peak memory is
compared with the peak for a few users; the difference is what the batch takes.
"""

import sys
from importlib import import_module
from itertools import cycle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ldp.client import (
        CountMeanSketch,
        HadamardResponse,
        HierarchicalHistogram,
        LocalHashing,
        ProjectiveGeometry,
        RandomizedResponse,
        SubsetSelection,
        UnaryEncoding,
    )
    from ldp.mechanisms import Mechanism

VALUES = tuple(f"value-{rank}" for rank in range(1, 1001))
USERS = 100_000


def unary() -> "UnaryEncoding":
    from ldp.client import UnaryEncoding

    return UnaryEncoding(categories=VALUES, epsilon=2.0, variant="optimized")


def responses() -> "RandomizedResponse":
    from ldp.client import RandomizedResponse

    return RandomizedResponse(categories=VALUES, epsilon=2.0)


def hashes() -> "LocalHashing":
    from ldp.client import LocalHashing

    return LocalHashing(epsilon=2.0, rows=2048, seed="00ff")


def sets() -> "SubsetSelection":
    from ldp.client import SubsetSelection

    return SubsetSelection(categories=VALUES, epsilon=2.0)


def points() -> "ProjectiveGeometry":
    from ldp.client import ProjectiveGeometry

    return ProjectiveGeometry(categories=VALUES, epsilon=2.0)


def signs() -> "HadamardResponse":
    from ldp.client import HadamardResponse

    return HadamardResponse(categories=VALUES, epsilon=2.0)


def small_sketch() -> "CountMeanSketch":
    from ldp.client import CountMeanSketch

    return CountMeanSketch(epsilon=4.0, rows=2048, width=1024, seed="00ff")


def histogram(versions: int = 0) -> "HierarchicalHistogram":
    """Return a histogram of numbers whose range is unknown, split by `versions` versions."""
    from ldp.client import HierarchicalHistogram

    by = tuple(f"version {number}" for number in range(versions))
    return HierarchicalHistogram(epsilon=2.0, magnitudes=(1.0, 1e5), by=by or None)


def values_of(mechanism: "Mechanism") -> tuple[Any, ...]:
    """Return 1,000 values that the mechanism takes."""
    from ldp.client import HierarchicalHistogram

    if not isinstance(mechanism, HierarchicalHistogram):
        return VALUES
    numbers = tuple(map(str, range(1, len(VALUES) + 1)))
    return tuple(zip(cycle(mechanism.by), numbers, strict=False)) if mechanism.by else numbers


def answer(mechanism: "Mechanism", users: int, method: str = "auto") -> None:
    """Encode the users' values, count the reports and estimate by `method`.

    The 1,000 values have frequencies 1 / rank**1.1. For a numeric mechanism the estimates are those
    that `ldp decode` writes.
    """
    import numpy as np

    from ldp.decoding.outcome import numbers_outcome
    from ldp.server import TableBuilder, decode
    from ldp.simulation import Population, draw_reports

    weights, generator = np.arange(1.0, len(VALUES) + 1) ** -1.1, np.random.default_rng(1)
    shares = weights / weights.sum()
    population = Population(values_of(mechanism), frequencies=shares).sample(users, generator)
    builder = TableBuilder(mechanism)
    for rows, payloads in draw_reports(mechanism, population, generator):
        builder.add_batch(rows, payloads)
    if mechanism.is_numeric:
        numbers_outcome(builder.build())
    else:
        decode(builder.build(), VALUES, method=method)


if __name__ == "__main__":
    import_module("numba")  # leaves imports and compilation out of the batch
    answer(unary(), 100)
    answer(unary(), int(sys.argv[1]))
