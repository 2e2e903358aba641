"""Compute laws of shuffled batches that are small enough to enumerate."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce

from ldp.audit import exact_law
from ldp.mechanisms import CatalogueMechanism
from ldp.protocol.hashing import Value

Batch = tuple[int, ...]
"""Numbers of the reports in a shuffled batch, in order: all that the batch shows."""


def _joined(batch: Mapping[Batch, float], report: Mapping[int, float]) -> dict[Batch, float]:
    law: Counter[Batch] = Counter()
    for (others, one), (number, other) in (
        (first, second) for first in batch.items() for second in report.items()
    ):
        law[tuple(sorted((*others, number)))] += one * other  # type: ignore[assignment]
    return dict(law)


def batch_laws(
    mechanism: CatalogueMechanism, one: Value, other: Value, others: Sequence[Value]
) -> tuple[dict[Batch, float], dict[Batch, float]]:
    """Return the laws of the batch of all reports, the first under `one` and under `other`."""
    numbers = {report: i for i, report in enumerate(exact_law(mechanism, one))}

    def law(value: Value) -> dict[int, float]:
        return {numbers[z]: float(p) for z, p in exact_law(mechanism, value).items()}

    nobody: dict[Batch, float] = {(): 1.0}
    rest = reduce(_joined, map(law, others), nobody)
    return _joined(rest, law(one)), _joined(rest, law(other))
