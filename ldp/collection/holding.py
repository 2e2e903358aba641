"""How many reports a relay's batch has at least, which a simulation of one goes by too."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction

from ldp.privacy_loss import least_reports
from ldp.registry import Metric, Registry
from ldp.registry.definitions import Queue


@dataclass(frozen=True, kw_only=True)
class Holding:
    """Rule when a queue's reports become a batch: when there are `smallest` or more, and as many as
    `targets` states for the queue, certified at `delta`, and the first has waited for `shortest`
    since it came, or since the relay began. Where a person's record becomes several messages,
    people are counted."""

    smallest: int = 1000
    shortest: timedelta = timedelta(hours=1)
    targets: Mapping[str, int] = field(default_factory=dict)
    delta: float = 1e-6

    def least(self, name: str, queue: Queue | None) -> int:
        """Return how many sealed reports a batch of the queue of a name has at least; `queue`: what
        the registry says of it, None where it is gone."""
        messages = queue.messages if queue else 1
        return max(self.smallest, self.targets.get(name, 0)) * messages


def target_sizes(registry: Registry, delta: float, fakes: Fraction) -> dict[str, int]:
    """Return `target_size` of each metric with a `shuffled_epsilon`, by queue."""
    return {
        metric.queue: target_size(metric, delta, fakes)
        for metric in registry.metrics.values()
        if metric.shuffled_epsilon
    }


def target_size(metric: Metric, delta: float, fakes: Fraction) -> int:
    """Return how many people's reports a batch needs for the metric's `shuffled_epsilon` to be
    certified at `delta`, where a share `fakes` of them may be fake. Raise ParameterError where no
    batch suffices. Time: some seconds."""
    epsilon = metric.shuffled_epsilon
    assert epsilon
    least = least_reports(metric.mechanism, epsilon=epsilon, delta=delta)
    return math.ceil(least / (1 - fakes))
