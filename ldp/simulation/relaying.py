"""A relay in a simulation: which days' messages for a shuffler it passes on, and how many it says.

All messages of a day of sealing are one batch, as where they have arrived before `ldp relay` makes
one; the relay has its default options.
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
    """Return how many people's messages a batch of a metric has at least. Raise ParameterError
    where no batch is certified."""
    epsilon = metric.shuffled_epsilon
    assert epsilon
    return max(
        Holding.smallest, least_reports(metric.mechanism, epsilon=epsilon, delta=Holding.delta)
    )


def note_batch(store: Path, metric: Metric, people: int, generator: np.random.Generator) -> None:
    """Note in a store how many messages the batch of so many people has, as a collector does."""
    messages, name = metric.mechanism.messages * people, generator.bytes(ID_BYTES)
    add_size(store, RelayedReports(metric.name, metric.version, name, messages, messages))
