"""What a collector counts, and how Prometheus reads it (text format 0.0.4)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class _Shown(NamedTuple):
    """A field of `Counts` as Prometheus knows it; `label` where it counts by something."""

    field: str
    name: str
    help: str
    label: str = ""


_SHOWN = (
    _Shown("answers", "ldp_requests_total", "Batches answered.", "status"),
    _Shown("accepted", "ldp_reports_accepted_total", "Reports acknowledged.", "metric"),
    _Shown("refused", "ldp_reports_refused_total", "Reports refused for good.", "code"),
    _Shown("stored", "ldp_reports_stored_total", "Reports moved to the store.", "metric"),
    _Shown("set_aside", "ldp_reports_set_aside_total", "Reports not plausible.", "metric"),
    _Shown("damaged", "ldp_reports_damaged_total", "Reports lost in the buffer.", "metric"),
    _Shown("commits", "ldp_commits_total", "Transactions of batches."),
    _Shown("commit_seconds", "ldp_commit_seconds_total", "Time spent in them."),
)


@dataclass
class Counts:
    """Since the process began; only ever added to."""

    answers: Counter[int] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    stored: Counter[str] = field(default_factory=Counter)
    set_aside: Counter[str] = field(default_factory=Counter)
    damaged: Counter[str] = field(default_factory=Counter)
    commits: int = 0
    commit_seconds: float = 0.0


def exposition(counts: Counts, now: Mapping[str, float]) -> str:
    """The counts, and what is so `now` (gauges, by name), as text."""
    lines = list[str]()
    for shown in _SHOWN:
        found = getattr(counts, shown.field)
        lines += [f"# HELP {shown.name} {shown.help}", f"# TYPE {shown.name} counter"]
        if shown.label:
            lines += [
                f'{shown.name}{{{shown.label}="{key}"}} {value}' for key, value in found.items()
            ]
        else:
            lines.append(f"{shown.name} {found:g}")
    for name, value in now.items():
        lines += [f"# TYPE {name} gauge", f"{name} {value}"]
    return "\n".join(lines) + "\n"
