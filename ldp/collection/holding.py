"""Least number of reports of a relay's batch, for the relay and for a simulation of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from ldp.registry.definitions import Queue


@dataclass(frozen=True, kw_only=True)
class Holding:
    """Rule when a queue's reports become a batch. There must be `smallest` or more, and at least as
    many as `targets` states for the queue, certified at `delta`, and the first must have waited for
    `shortest` since it came or since the relay began. Where a person's record becomes several
    messages, people are counted."""

    smallest: int = 1000
    shortest: timedelta = timedelta(hours=1)
    targets: Mapping[str, int] = field(default_factory=dict)
    delta: float = 1e-6

    def least(self, name: str, queue: Queue | None) -> int:
        """Return the least number of sealed reports in a batch of the queue `name`. `queue`: what
        the registry says of the queue, None if the registry no longer has it."""
        messages = queue.messages if queue else 1
        return max(self.smallest, self.targets.get(name, 0)) * messages
