"""metrics.toml: which metrics exist, what they may cost, and the lock that pins their meaning.

metrics.lock, beside it, pins each metric's version, mechanism fingerprint and dictionary, so that a
change without a new version is caught.
"""

import json
import math
from collections.abc import Iterable
from datetime import date, timedelta
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from ldp.accounting.cost_composition import exact_sum
from ldp.accounting.policy import periods_touched
from ldp.errors import RegistryError
from ldp.files import alone_in, is_missing, write_whole
from ldp.protocol.batch import Item
from ldp.protocol.channel import round_up
from ldp.protocol.keys import nearest
from ldp.protocol.sealed_report import sealed_bytes
from ldp.protocol.strict_json import Kinds, read_json, read_toml, require_fields, shortened
from ldp.protocol.wire import HEADER_BYTES
from ldp.registry.definitions import NOBODY, Metric, Queue
from ldp.registry.toml_file import DEVELOPMENT, Contents, read_registry

PINS = {
    "fingerprint": "mechanism",
    "dictionary_sha256": "dictionary",
    "manner": "memoisation or presence",
    "members": "members",
    "sealing_key": "sealing key",
    "values": "words or other",
    "shuffled_epsilon": "shuffled_epsilon",
}
"""Names of the pins in messages about a change."""
SPANS = {"day": timedelta(days=1), "year": timedelta(days=366)}


class Registry(Contents):
    """All metrics of one product, and what they may cost."""

    @classmethod
    def load(cls, path: str | Path) -> "Registry":
        """Read and check metrics.toml; raise RegistryError with the place and the remedy."""
        return cls(*read_registry(Path(path)))

    def metric(self, name: str) -> Metric:
        """Return the metric of a name. Raises RegistryError, with the nearest name, if unknown."""
        if name not in self.metrics:
            raise self._error(f"no metric {name!r}{nearest(name, self.metrics)}")
        return self.metrics[name]

    def _error(self, text: str) -> RegistryError:
        return RegistryError(f"{self.path}: {text}")

    def metrics_of(self, group: str) -> list[Metric]:
        """Return the metrics of a group."""
        return [*self._by_group.get(group, ())]

    @cached_property
    def _by_group(self) -> dict[str, list[Metric]]:
        groups = dict[str, list[Metric]]()
        for metric in self.metrics.values():
            groups.setdefault(metric.group, []).append(metric)
        return groups

    def queues(self) -> dict[str, Queue]:
        """Return the queues of sealed reports by name: one a group, and one for each metric with
        `shuffled_epsilon`, whose batches are of one day."""
        items = dict[str, list[Item]]()
        rest = dict[str, tuple[timedelta, int, bool]]()
        for metric in self.metrics.values():
            report = bytes(HEADER_BYTES + metric.mechanism.layout.body_bytes)
            items.setdefault(metric.queue, []).append(Item(metric.name, metric.version, report))
            lateness, messages = self.groups[metric.group].lateness, metric.mechanism.messages
            rest[metric.queue] = lateness, messages, metric.shuffled_epsilon is not None
        return {name: Queue(sealed_bytes(items[name]), *rest[name]) for name in items}

    @property
    def lock_path(self) -> Path:
        """Path of metrics.lock, or for development of development.lock, beside the registry."""
        return self.path.with_name("development.lock" if self.development else "metrics.lock")

    @property
    def files(self) -> list[Path]:
        """Paths of the registry, its lock, and the files of values in it."""
        sections = read_toml(self.path).get("metric", {}).values()
        names = [keys.get(key) for keys in sections for key in ("dictionary", "categories", "by")]
        values = [self.path.parent / name for name in names if isinstance(name, str)]
        return [self.path, self.lock_path, *values]

    def lock(self, today: date | None = None) -> None:
        """Write metrics.lock beside the registry, after `check`. Metrics that were removed stay in
        it, so that a name and version keep their meaning."""
        self.check(today)
        pins = {name: metric.pinned() for name, metric in self.metrics.items()}
        with alone_in(self.path.parent):
            pins = dict(sorted({**self._read_lock(), **pins}.items()))
            write_whole(self.lock_path, json.dumps({"metrics": pins}, indent=2) + "\n")

    def check(self, today: date | None = None) -> list[str]:
        """Return the names of metrics that are not in the lock yet. Raise RegistryError when nobody
        answers for a metric, when a dictionary cannot be read, when a metric changed since `lock`
        without a new version or differs from a locked one in case only, and when a metric that has
        not expired `today` does not fit beside what its windows set aside for epochs."""
        pins = self._read_lock()
        locked = {name.lower(): name for name in pins}
        self._require_budget(today)
        for name, metric in self.metrics.items():
            if NOBODY in metric.owners:
                raise self._error(
                    f"[metric.{name}]: {NOBODY!r} stands for who answers for the "
                    "metric: name somebody in owners"
                )
            if (other := locked.get(name.lower(), name)) != name and name not in pins:
                raise self._error(
                    f"[metric.{name}]: {self.lock_path} has {other}, which differs in "
                    "case only: give the metric another name"
                )
            metric.candidates()
            self._compare(name, pins.get(name), metric.pinned(), str(self.lock_path))
        return [name for name in self.metrics if name not in pins]

    def _require_budget(self, today: date | None) -> None:
        set_aside = {group: self.set_aside(group, today) for group in self.groups}
        for name, metric in self.metrics.items():
            if today is not None and metric.expires < today:
                continue
            reserved = set_aside[metric.group]
            cap = self.groups[metric.group].caps.window_epsilon
            if reserved + (0 if metric.epoch else Fraction(metric.price)) > Fraction(cap):
                raise self._error(
                    f"[metric.{name}]: every window of [group.{metric.group}] sets "
                    f"aside {float(reserved):g} for its metrics with epochs, and window_epsilon is "
                    f"{cap:g}: raise it, or give this metric a group of its own"
                )

    def _read_lock(self) -> dict[str, dict[str, Any]]:
        """Return the pins of metrics.lock by metric, none without it; raise RegistryError."""
        if is_missing(self.lock_path):
            return {}
        form = (
            "a whole lock (damaged; restore it from version control, or delete it and run "
            "`ldp registry lock FILE` again)"
        )
        return dict(read_json(self.lock_path, form, _require_lock)["metrics"])

    def expired(self, today: date) -> list[str]:
        """Return the names of metrics whose last day lies before `today`."""
        return [name for name, metric in self.metrics.items() if metric.expires < today]

    def check_against(self, older: "Registry", accepted_growth: float = 0.0) -> None:
        """Raise RegistryError when a metric differs from `older`'s without a new version or is in
        another group, when a group is gone or allows more in a window or a report, or when what a
        device or a group can lose in its life grew by more than `accepted_growth`."""
        for name, group in older.groups.items():
            if name not in self.groups:
                raise self._error(
                    f"group {name!r} was renamed or removed; its charges "
                    "still count on devices, so it must stay"
                )
            if difference := self.groups[name].caps.increase_over(group.caps):
                raise self._error(f"[group.{name}]: {difference} than in {older.path}")
            if self.groups[name].trust != group.trust:
                raise self._error(
                    f"[group.{name}]: trust was {group.trust!r}, and people agreed to "
                    "that: give another trust a group of its own"
                )
        for name, metric in older.metrics.items():
            if (now := self.metrics.get(name)) is None:
                continue
            self._compare(name, metric.pinned(), now.pinned(), str(older.path))
            if now.group != metric.group:
                raise self._error(
                    f"metric {name!r} was in group {metric.group!r}, not {now.group!r}"
                )
        growth = {holder: epsilon for holder, epsilon in self.growth(older).items() if epsilon > 0}
        if growth and max(growth.values()) > accepted_growth:
            raise self._error(
                f"what can be lost in a life grew since {older.path}: "
                + ", ".join(
                    f"{holder} by epsilon {epsilon:g}" for holder, epsilon in growth.items()
                )
                + "; lower it, or accept it with --accept-growth"
            )

    def growth(self, older: "Registry") -> dict[str, float]:
        """Return the growth of the caps for life since `older`, in epsilon: of every group, and of
        one device. The cap of a group that trusts a shuffler holds behind an honest relay."""
        growth = {
            f"group {name!r}": group.caps.lifetime_epsilon
            - (older.groups[name].caps.lifetime_epsilon if name in older.groups else 0.0)
            for name, group in self.groups.items()
        }
        now, before = self._device_lifetime(), older._device_lifetime()
        return growth | {"one device": 0.0 if now == before else now - before}

    def _device_lifetime(self) -> float:
        """Return the epsilon that a device can spend in its life."""
        if any(group.needs_shuffler for group in self.groups.values()):
            return math.inf
        groups = exact_sum(group.caps.lifetime_epsilon for group in self.groups.values())
        return min(self.lifetime_epsilon, groups)

    def _compare(
        self, name: str, old: dict[str, Any] | None, new: dict[str, Any], where: str
    ) -> None:
        if old is None or old == new:
            return
        if new["version"] <= old["version"]:
            changes = (name for pin, name in PINS.items() if new.get(pin) != old.get(pin))
            change = next(changes, "pins")
            raise self._error(
                f"metric {name!r} changed its {change} since {where}: "
                f"give it version {old['version'] % DEVELOPMENT + 1}"
            )

    def set_aside(self, group: str, day: date | None = None) -> Fraction:
        """Return the epsilon that every window of a group reserves for its metrics memoised by
        epoch, whose response is about the records of some window and may be sent in any window of
        the epoch. Nothing is reserved for metrics that expired before `day`."""
        prices = (
            Fraction(metric.price)
            for metric in self.metrics_of(group)
            if metric.epoch and (day is None or metric.expires >= day)
        )
        return sum(prices, Fraction(0))

    def worst_case(self, group: str) -> dict[str, float]:
        """Return the most epsilon that the group can spend on any 24 hours ("day"), any 366 days
        ("year") and a life: the least of what its metrics can be charged, what the windows that the
        span touches allow, and its cap for life. For a group that trusts a shuffler these figures
        are infinite: they hold against whoever sees what leaves the device.

        For a group with metrics memoised per value, these figures compare lives whose responses
        change at the same times (two values may share one). The result has one more,
        "changing_per_value": the epsilon of one window for two lives that differ in it, where its
        values may be those of other windows, too. Each further window in which lives differ adds as
        much. This holds while the cap for life is not reached: the time when reports end reveals
        how many values there were.
        """
        if self.groups[group].needs_shuffler:
            return dict.fromkeys((*SPANS, "life"), math.inf if self.metrics_of(group) else 0.0)
        changing = self._changing_per_value(group)
        return self.capped(group) | ({"changing_per_value": changing} if changing else {})

    def _changing_per_value(self, group: str) -> float:
        """Return the epsilon of one window of a group where values change. It is 0 where nothing is
        memoised per value."""
        cap, changing, charged = self.groups[group].caps.window_epsilon, [0.0], [0.0]
        is_within = True
        for metric in self.metrics_of(group):
            if metric.memoise == "per-value":
                mechanism: Any = metric.mechanism
                changing += [mechanism.changing_per_value] * self.most_reports(metric)
                is_within &= mechanism.changing_per_value <= metric.price
            else:
                charged += [metric.price] * (1 if metric.epoch else self.most_reports(metric))
        if len(changing) == 1:
            return 0.0
        loss = exact_sum([*changing, min(cap, exact_sum(charged))])
        # where no report tells more than it is charged as the first about its value, the cap holds
        return min(cap, loss) if is_within else loss

    def most_reports(self, metric: Metric) -> int:
        """Return the largest number of reports of a metric in one window: what its cap pays for, or
        all slots where the response of an epoch is paid for once."""
        caps, price = self.groups[metric.group].caps, Fraction(metric.price)
        paid = Fraction(min(caps.window_epsilon, caps.lifetime_epsilon)) / price
        reports = metric.reports_per_window
        return reports if metric.epoch else min(reports, math.floor(paid))

    def life_of(self, group: str) -> float:
        """Return the epsilon that a group may spend for life: its cap, or the device's if less."""
        return min(self.groups[group].caps.lifetime_epsilon, self.lifetime_epsilon)

    def capped(self, group: str) -> dict[str, float]:
        """Return `worst_case` by the prices and caps of the group alone. For a group that trusts a
        shuffler these figures hold behind an honest relay."""
        caps, life = self.groups[group].caps, self.life_of(group)
        members = self.metrics_of(group)
        worst = {
            name: min(
                life,
                _total([(caps.window_epsilon, periods_touched(span, caps.window))]),
                _total([(metric.price, metric.charges(span, caps.window)) for metric in members]),
            )
            for name, span in SPANS.items()
        }
        return worst | {"life": life if members else 0.0}

    def worst_case_of_all(self) -> dict[str, float]:
        """Return `worst_case` of all groups together, the most epsilon of one device: groups add,
        up to the device's cap."""
        groups = [self.worst_case(group) for group in self.groups]
        return {
            span: min(self.lifetime_epsilon, exact_sum(worst[span] for worst in groups))
            for span in (*SPANS, "life")
        }

    def day_that_differs(self) -> float:
        """Return the most epsilon of one device about any 24 hours: that of `worst_case_of_all`,
        or, where it is more, of values memoised per value that change."""
        worst = {group: self.worst_case(group) for group in self.groups}
        if not any("changing_per_value" in figures for figures in worst.values()):
            return self.worst_case_of_all()["day"]
        return exact_sum(
            max(
                figures["day"],
                periods_touched(SPANS["day"], self.groups[group].caps.window)
                * figures.get("changing_per_value", 0.0),
            )
            for group, figures in worst.items()
        )

    def marks(self) -> int:
        """Return the largest number of groups of devices that the clear part of one period's
        batches separates. It is the product, over the metrics with public presence, of the possible
        numbers of reports, 0 to `most_reports`. Hidden metrics always send the same number."""
        metrics = self.metrics.values()
        return math.prod(1 + self.most_reports(m) for m in metrics if m.presence == "public")

    def is_hidden(self, group: str) -> bool:
        """Return whether the presence of the group's metrics is hidden (all of them, or none)."""
        return any(metric.presence == "hidden" for metric in self.metrics_of(group))


def _require_lock(lock: Any) -> None:
    """Raise ParameterError unless each pin that is always there has its type."""
    require_fields(lock, {dict: "metrics"})
    for name, pins in lock["metrics"].items():
        kinds: Kinds = {int: "version", str: "fingerprint", str | None: "dictionary_sha256"}
        require_fields(pins, kinds, f"{shortened(name)}: ")


def _total(charges: Iterable[tuple[float, int]]) -> float:
    """Return the exact sum of prices times numbers of charges, rounded up."""
    return round_up(sum((Fraction(price) * times for price, times in charges), Fraction(0)))
