"""Counts of a collector, and their text for Prometheus (format 0.0.4)."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import TypeVar

from ldp.collection.intake import CODES

STATUSES = (202, 400, 401, 403, 405, 408, 409, 410, 413, 415, 421, 422, 429, 503)
"""Statuses of answers to batches."""
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, math.inf)
"""Upper ends of the classes of `ldp_commit_seconds`, in seconds."""
K = TypeVar("K")


_COUNTERS = (
    ("answers", "ldp_requests_total", "Batches answered.", "status"),
    ("accepted", "ldp_reports_accepted_total", "Reports acknowledged.", "metric"),
    ("unsealed", "ldp_reports_unsealed_total", "Reports in the clear.", "metric"),
    ("refused", "ldp_reports_refused_total", "Reports refused for good.", "code"),
    ("stored", "ldp_reports_stored_total", "Reports moved to the store.", "metric"),
    ("set_aside", "ldp_reports_set_aside_total", "Reports not plausible.", "metric"),
    ("damaged", "ldp_reports_damaged_total", "Reports lost in the buffer.", "metric"),
)
"""Counters of Prometheus: a field of `Counts`, name, help, and what its keys are."""


def _zeros(keys: Iterable[K]) -> "Counter[K]":
    return Counter(dict.fromkeys(keys, 0))


class Counts:
    """Counts since the process began; they never fall. Keys that are known are there from the
    beginning, because Prometheus sees no increase in the first value of a series. `metrics`: names
    of metrics. Where their reports `are_sealed` as a rule, reports in the clear are counted, too.
    """

    def __init__(self, metrics: Iterable[str] = (), are_sealed: bool = False) -> None:
        names = [*metrics]
        self.answers, self.refused = _zeros(STATUSES), _zeros(CODES)
        self.accepted, self.unsealed = _zeros(names), _zeros(names if are_sealed else ())
        self.stored, self.set_aside, self.damaged = (_zeros(names) for _ in range(3))
        self.commits, self.commit_seconds = [0] * len(BUCKETS), 0.0

    def add_commit(self, seconds: float) -> None:
        """Count a transaction of batches that took this many `seconds`."""
        self.commits[bisect_left(BUCKETS, seconds)] += 1
        self.commit_seconds += seconds


def exposition(counts: Counts, gauges: Mapping[str, float]) -> str:
    """Return counts, and `gauges` (current values by name), as text."""
    lines = list[str]()
    for name_of_field, name, text, label in _COUNTERS:
        lines += [f"# HELP {name} {text}", f"# TYPE {name} counter"]
        values = getattr(counts, name_of_field).items()
        lines += [f'{name}{{{label}="{key}"}} {value}' for key, value in values]
    name, sums = "ldp_commit_seconds", [*accumulate(counts.commits)]
    lines += [f"# HELP {name} Time of a transaction of batches.", f"# TYPE {name} histogram"]
    for end, count in zip([*(f"{end:g}" for end in BUCKETS[:-1]), "+Inf"], sums, strict=True):
        lines.append(f'{name}_bucket{{le="{end}"}} {count}')
    lines += [f"{name}_sum {counts.commit_seconds:g}", f"{name}_count {sums[-1]}"]
    for name, value in gauges.items():
        lines += [f"# TYPE {name} gauge", f"{name} {value}"]
    return "\n".join(lines) + "\n"
