"""metrics.toml: which metrics exist, what they may cost, and the lock that pins their meaning.

metrics.lock, beside it, pins each metric's version, mechanism fingerprint and dictionary, so that a
change without a new version is caught.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from ldp.accounting.composition import exact_sum
from ldp.errors import RegistryError
from ldp.files import write_whole
from ldp.registry.definitions import Group, Metric, read_bytes, read_values
from ldp.registry.toml_file import duration, nearest, read_registry

PINS = {
    "fingerprint": "mechanism",
    "dictionary_sha256": "dictionary",
    "manner": "memoisation or presence",
    "members": "members",
}
"""What a change of a pin is called."""
SPANS = {"day": timedelta(days=1), "year": timedelta(days=366)}
__all__ = ["Group", "Metric", "Registry", "duration", "read_values"]


@dataclass(frozen=True, kw_only=True)
class Registry:
    """All metrics of one product."""

    path: Path
    product: str
    groups: Mapping[str, Group]
    metrics: Mapping[str, Metric]

    @classmethod
    def load(cls, path: str | Path) -> "Registry":
        """Reads and checks metrics.toml; raises RegistryError with the place and the remedy."""
        path = Path(path)
        return cls(path=path, **read_registry(path)._asdict())

    def metric(self, name: str) -> Metric:
        """The metric of that name; raises RegistryError that names the nearest."""
        if name not in self.metrics:
            raise RegistryError(f"{self.path}: no metric {name!r}{nearest(name, self.metrics)}")
        return self.metrics[name]

    @property
    def lock_path(self) -> Path:
        return self.path.with_name("metrics.lock")

    def lock(self) -> None:
        """Writes metrics.lock beside the registry, after `check`; metrics that were removed stay in
        it, so that a name and version never come to mean something else."""
        self.check()
        pinned = self._locked() | {name: metric.pinned() for name, metric in self.metrics.items()}
        text = json.dumps({"metrics": dict(sorted(pinned.items()))}, indent=2)
        write_whole(self.lock_path, text + "\n")

    def check(self) -> list[str]:
        """Raises RegistryError when a dictionary cannot be read, or a metric changed since `lock`
        without a new version; returns the metrics that are not locked yet."""
        locked = self._locked()
        for name, metric in self.metrics.items():
            metric.candidates()
            self._compare(name, locked.get(name), metric.pinned(), str(self.lock_path))
        return [name for name in self.metrics if name not in locked]

    def _locked(self) -> dict[str, dict[str, Any]]:
        """What metrics.lock pins; nothing where there is none."""
        if not self.lock_path.exists():
            return {}
        try:
            pinned: dict[str, dict[str, Any]] = json.loads(read_bytes(self.lock_path))["metrics"]
            whole = all(
                type(pins["version"]) is int
                and isinstance(pins["fingerprint"], str)
                and isinstance(pins["dictionary_sha256"], str | None)
                for pins in pinned.values()
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            whole = False
        if not whole:
            raise RegistryError(
                f"{self.lock_path}: damaged; restore it from version control, or delete it and run "
                "`ldp registry lock` again"
            )
        return pinned

    def expired(self, today: date) -> list[str]:
        """The metrics whose last day lies before `today`."""
        return [name for name, metric in self.metrics.items() if metric.expires < today]

    def check_against(self, older: "Registry") -> None:
        """Raises RegistryError when a metric differs from `older`'s without a new version or is in
        another group, when a group is gone, or when one of its caps was raised."""
        for name, group in older.groups.items():
            if name not in self.groups:
                raise RegistryError(
                    f"{self.path}: group {name!r} was renamed or removed; what devices spent in it "
                    "stays spent, so it must stay"
                )
            if raised := self.groups[name].caps.looser_than(group.caps):
                raise RegistryError(f"{self.path}: [group.{name}]: {raised} than in {older.path}")
        for name, metric in older.metrics.items():
            if (now := self.metrics.get(name)) is None:
                continue
            self._compare(name, metric.pinned(), now.pinned(), str(older.path))
            if now.group != metric.group:
                raise RegistryError(
                    f"{self.path}: metric {name!r} was in group {metric.group!r}, not {now.group!r}"
                )

    def _compare(
        self, name: str, before: dict[str, Any] | None, now: dict[str, Any], where: str
    ) -> None:
        if before is None or before == now:
            return
        if now["version"] <= before["version"]:
            changed = next(what for pin, what in PINS.items() if now.get(pin) != before.get(pin))
            raise RegistryError(
                f"{self.path}: metric {name!r} changed its {changed} since {where}: "
                f"give it version {before['version'] + 1}"
            )

    def worst_case(self, group: str) -> dict[str, float]:
        """The most epsilon the group can spend in a day, a year (366 days) and a life: the least of
        what its metrics can charge, what its windows allow (a span of D touches at most
        floor(D / window) + 1), and its lifetime."""
        caps = self.groups[group].caps
        members = [metric for metric in self.metrics.values() if metric.group == group]
        worst = {
            name: min(
                caps.lifetime_epsilon,
                caps.window_epsilon * (span // caps.window + 1),
                exact_sum(metric.price * metric.charges(span, caps.window) for metric in members),
            )
            for name, span in SPANS.items()
        }
        return worst | {"life": caps.lifetime_epsilon if members else 0.0}

    def worst_case_of_all(self) -> dict[str, float]:
        """The same of all groups together: reporting on two metrics adds, so this is the most that
        one device tells of a person."""
        groups = [self.worst_case(group) for group in self.groups]
        return {span: exact_sum(worst[span] for worst in groups) for span in (*SPANS, "life")}

    def is_hidden(self, group: str) -> bool:
        """Whether the presence of the group's metrics is hidden: all of them, or none."""
        return any(
            metric.group == group and metric.presence == "hidden"
            for metric in self.metrics.values()
        )
