"""Counts of a collector, and their text for Prometheus (format 0.0.4)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class _Counter(NamedTuple):
    """Field of `Counts` as a counter of Prometheus. `label`: what its keys are, if it has any."""

    field: str
    name: str
    help: str
    label: str = ""


_COUNTERS = (
    _Counter("answers", "ldp_requests_total", "Batches answered.", "status"),
    _Counter("accepted", "ldp_reports_accepted_total", "Reports acknowledged.", "metric"),
    _Counter("refused", "ldp_reports_refused_total", "Reports refused for good.", "code"),
    _Counter("stored", "ldp_reports_stored_total", "Reports moved to the store.", "metric"),
    _Counter("set_aside", "ldp_reports_set_aside_total", "Reports not plausible.", "metric"),
    _Counter("damaged", "ldp_reports_damaged_total", "Reports lost in the buffer.", "metric"),
    _Counter("commits", "ldp_commits_total", "Transactions of batches."),
    _Counter("commit_seconds", "ldp_commit_seconds_total", "Time spent in them."),
)


@dataclass
class Counts:
    """Counts since the process began; they never fall."""

    answers: Counter[int] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    stored: Counter[str] = field(default_factory=Counter)
    set_aside: Counter[str] = field(default_factory=Counter)
    damaged: Counter[str] = field(default_factory=Counter)
    commits: int = 0
    commit_seconds: float = 0.0


def exposition(counts: Counts, gauges: Mapping[str, float]) -> str:
    """Return counts, and `gauges` (current values by name), as text."""
    lines = list[str]()
    for counter in _COUNTERS:
        count = getattr(counts, counter.field)
        lines += [f"# HELP {counter.name} {counter.help}", f"# TYPE {counter.name} counter"]
        if counter.label:
            lines += [
                f'{counter.name}{{{counter.label}="{key}"}} {value}' for key, value in count.items()
            ]
        else:
            lines.append(f"{counter.name} {count:g}")
    for name, value in gauges.items():
        lines += [f"# TYPE {name} gauge", f"{name} {value}"]
    return "\n".join(lines) + "\n"
