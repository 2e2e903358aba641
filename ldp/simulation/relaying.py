"""A relay in a simulation: for which days it passes on the messages, and which sizes it states.

All messages of a day of sealing are one batch, as if they had all arrived before `ldp relay` makes
the batch. The relay has its default options.
"""

from pathlib import Path

import numpy as np

from ldp.collection.buffer import RelayedReports
from ldp.collection.holding import Holding
from ldp.collection.ingest import add_size
from ldp.privacy_loss import least_reports
from ldp.protocol.batch import ID_BYTES
from ldp.registry import Metric


def least_people(metric: Metric) -> int:
    """Return the least number of people whose messages make a batch of a metric. Raise
    ParameterError where no batch is certified."""
    epsilon = metric.shuffled_epsilon
    assert epsilon
    return max(
        Holding.smallest, least_reports(metric.mechanism, epsilon=epsilon, delta=Holding.delta)
    )


def note_batch(store: Path, metric: Metric, people: int, generator: np.random.Generator) -> None:
    """Note in a store how many messages the batch of `people` people has, as a collector does."""
    messages, name = metric.mechanism.messages * people, generator.bytes(ID_BYTES)
    add_size(store, RelayedReports(metric.name, metric.version, name, messages, messages))
