"""Check transcripts against docs/device-protocol.md, with no code of a client.

The reader follows one device. The protocol draws the order in which metrics are granted; there the
reader takes what the transcript shows, if any order gives it. Everything else must be what the
protocol says.
"""

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from itertools import permutations
from typing import Any

DAY, MOST_PERIODS, MOST_BATCHES, LONGEST_WAIT = 86_400, 30, 20, 6 * 3600
HELD_DAYS = 30
FAILED, RANDOM = "waits after a failure", "waits for its random moment"
HELD = "is held: the clock shows another time than when it was sealed"
INFINITE = Fraction(10**9)
ROUNDING, TINY = 1e-5, 1e-12
"""Most by which a printed remainder may be below the exact one, and above it."""


class Difference(Exception):
    """Error: a client did what the protocol does not say."""


def day_of(seconds: int) -> date:
    return datetime.fromtimestamp(seconds, UTC).date()


def ending(now: int, length: int) -> int:
    return now - now % length + length


def _touched(end: int, window: int, agreed: int) -> tuple[int, int]:
    """Return the first and last second of the windows agreed to that a period may touch."""
    first, last = ending(end - window, agreed) - agreed, ending(end - 1, agreed)
    return min(first, end - agreed), max(last, end + agreed - window)


@dataclass(frozen=True)
class Caps:
    window: int
    window_epsilon: Fraction
    lifetime_epsilon: Fraction
    report_epsilon: Fraction

    def is_looser_than(self, shown: "Caps") -> bool:
        return (
            self.window < shown.window
            or self.window_epsilon > shown.window_epsilon
            or self.lifetime_epsilon > shown.lifetime_epsilon
            or self.report_epsilon > shown.report_epsilon
        )


@dataclass(frozen=True)
class Metric:
    name: str
    version: int
    group: str
    meaning: tuple[Any, ...]
    expires: date
    slots: int
    memoise: str
    epoch: int
    is_hidden: bool
    price: Fraction
    epsilon: Fraction


class Registry:
    """Registry of section 13 of the wire format."""

    def __init__(self, text: str) -> None:
        document = json.loads(text)
        self.lifetime = Fraction(document["product"].get("lifetime_epsilon", INFINITE))
        self.groups = {
            name: Caps(
                group["window"],
                Fraction(group["window_epsilon"]),
                Fraction(group["lifetime_epsilon"]),
                Fraction(group.get("report_epsilon", INFINITE)),
            )
            for name, group in document["groups"].items()
        }
        self.lateness = {name: group["lateness"] for name, group in document["groups"].items()}
        self.metrics = {
            name: Metric(
                name=name,
                version=one["version"],
                group=one["group"],
                meaning=(
                    *(name, one["version"], one["fingerprint"]),
                    *(one.get("memoise", ""), one.get("epoch", 0), one["presence"]),
                ),
                expires=date.fromisoformat(one["expires"]),
                slots=one["reports_per_window"],
                memoise=one.get("memoise", ""),
                epoch=one.get("epoch", 0),
                is_hidden=one["presence"] == "hidden",
                price=Fraction(one["price"]),
                epsilon=Fraction(one["epsilon"]),
            )
            for name, one in document["metrics"].items()
        }

    def group_of(self, metric: str) -> str:
        return self.metrics[metric].group if metric in self.metrics else ""

    def is_hidden(self, group: str) -> bool:
        return any(m.is_hidden for m in self.metrics.values() if m.group == group)

    def set_aside(self, group: str, day: date) -> Fraction:
        return sum(
            (
                m.price
                for m in self.metrics.values()
                if m.group == group and m.memoise == "epoch" and m.expires >= day
            ),
            Fraction(0),
        )


@dataclass(frozen=True)
class Charge:
    group: str
    metric: str
    price: Fraction
    times: int
    at: int
    begins: int = 0
    ends: int = 0

    @property
    def epsilon(self) -> Fraction:
        return self.times * self.price


@dataclass
class Epoch:
    """Epoch of a metric with one meaning.

    `is_charged`: it was charged; `is_silent`: a withdrawal silenced it; `source`: end of the period
    of its record.
    """

    is_charged: bool = False
    is_silent: bool = False
    source: int = 0


@dataclass
class Batch:
    last_day: date
    sealed_at: int
    state: str = "waiting"


Records = dict[tuple[tuple[Any, ...], int], list[Any]]
"""Values recorded in a period, by the metric's meaning and the period's end."""


@dataclass
class Follower:
    """State of one device, as its transcript shows it."""

    registry: Registry
    consent: str = "unknown"
    shown: dict[str, Caps] = field(default_factory=dict)
    shown_metrics: set[str] = field(default_factory=set)
    shown_lifetime: Fraction = Fraction(0)
    records: Records = field(default_factory=dict)
    epochs: dict[tuple[tuple[Any, ...], int], Epoch] = field(default_factory=dict)
    told: set[tuple[Any, ...]] = field(default_factory=set)
    charges: list[Charge] = field(default_factory=list)
    sealed: set[tuple[str, int]] = field(default_factory=set)
    calendars: dict[str, int] = field(default_factory=dict)
    layout: dict[str, tuple[str, int]] = field(default_factory=dict)
    slots: dict[tuple[Any, ...], int] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    refused: int = 0
    failed_at: int | None = None

    def follow(self, call: dict[str, Any], seen: dict[str, Any]) -> None:
        """Take one call and what the client showed after it; raise Difference."""
        self._charged = [
            Charge(group, metric, Fraction(price), times, at)
            for group, metric, price, times, at in seen["charges"]
        ]
        self._marks = {(group, end) for group, end in seen["periods"]}
        self._sealed = [(day, Counter(reports)) for day, reports in seen["sealed"]]
        self._now = call["at"]
        answer = getattr(self, f"_{call['call']}")(call, seen)
        expect("charges that nothing was sent for", [], self._charged)
        expect("marks of periods of which nothing was sent", set(), self._marks)
        expect("batches that no period filled", [], self._sealed)
        if answer is not None:
            expect(f"answer to {call['call']}", answer, seen["answer"])
        expect("status", self._status(), seen["status"])
        if seen["why"] not in self._whys(call["at"]):
            raise Difference(f"why: {seen['why']}, possible {self._whys(call['at'])}")
        left = self._remaining()
        expect("groups of remaining()", set(left), set(seen["remaining"]))
        for group, epsilon in left.items():
            if not -TINY <= epsilon - Fraction(seen["remaining"][group]) <= ROUNDING:
                raise Difference(
                    f"remaining {group}: {float(epsilon)} is left, {seen['remaining']}"
                )

    def _restart(self, _: Any, __: Any) -> None:
        pass

    def _update(self, call: dict[str, Any], _: Any) -> None:
        self.registry = Registry(call["json"])

    def _grant(self, _: Any, __: Any) -> bool:
        self.consent = "granted"
        self.shown = {**self.registry.groups}
        self.shown_metrics = {*self.registry.metrics}
        self.shown_lifetime = self.registry.lifetime
        self._hidden_periods()
        return True

    def _withdraw(self, _: Any, __: Any) -> bool:
        self.consent = "withdrawn"
        self.records.clear()
        self.epochs = {key: Epoch(True, True) for key, one in self.epochs.items() if one.is_charged}
        self.told.clear()  # the secret is gone, so every later response is new
        self.calendars.clear()
        for batch in self.batches:
            if batch.state in ("waiting", "held"):
                batch.state = "withdrawn"
        return True

    def _record(self, call: dict[str, Any], _: Any) -> str:
        if self.consent != "granted":
            return "consent"
        metric = self.registry.metrics.get(call["metric"])
        if metric is None:
            return "unknown metric"
        if not call["is_value"]:
            return "value"
        self._settle()
        if not metric.is_hidden and (due := self._public_periods()):
            self._seal(due)
        return self._entered(metric, call["value"])

    def _entered(self, metric: Metric, value: Any) -> str:
        if metric.expires < day_of(self._now):
            return "expired"
        if metric.name not in self.shown_metrics:
            return "consent"
        epoch = None
        if metric.memoise == "epoch" and not metric.is_hidden:
            epoch = self.epochs.get((metric.meaning, ending(self._now, metric.epoch)))
        if epoch and epoch.is_silent:
            return "cap"
        is_paid = epoch is not None and epoch.is_charged
        if not is_paid and metric.price > self._life_left(metric.group):
            return "consent" if metric.group in self._groups_to_ask() else "cap"
        window = self.registry.groups[metric.group].window
        is_frozen = metric.memoise != "epoch" or epoch is not None
        end = ending(self._now, window)
        if (metric.group, end) in self.sealed:
            return "cap"
        if not is_frozen and self._budget(metric.group, end)[1] < 0:
            return "cap"
        if metric.memoise == "epoch" and metric.is_hidden:
            next_end = ending(self._now, metric.epoch) + metric.epoch
            self.epochs.setdefault((metric.meaning, next_end), Epoch())
            return "recorded"
        if metric.memoise == "epoch":
            key = metric.meaning, ending(self._now, metric.epoch)
            self.epochs.setdefault(key, Epoch(source=end))
        self.slots[metric.meaning] = metric.slots
        self.records.setdefault((metric.meaning, end), []).append(value)
        return "recorded"

    def _upload(self, call: dict[str, Any], seen: dict[str, Any]) -> dict[str, Any] | None:
        nothing = {"acknowledged": 0, "refused": 0, "waiting": 0, "why": "consent"}
        if self.consent != "granted":
            return nothing
        self._settle()
        hidden = self._hidden_periods()
        self._seal([*self._public_periods(), *hidden])
        waiting = [batch for batch in self.batches if batch.state == "waiting"]
        number, says = len(waiting), seen["answer"]
        ready = [batch for batch in waiting if batch.sealed_at <= self._now]
        may_wait = self.failed_at is not None and self._is_soon_after(call["at"])
        if number and may_wait and not seen["tries"]:
            expect("why", True, says["why"] in ((FAILED,) if ready else (FAILED, RANDOM)))
            return {**nothing, "waiting": number, "why": says["why"]}
        if number and not ready:
            return {**nothing, "waiting": number, "why": RANDOM}
        if number and call["collector"] == "fails":
            self.failed_at = call["at"]
            expect("tries", 1, seen["tries"])
            return {**nothing, "waiting": number, "why": says["why"]}
        sent = min(len(ready), MOST_BATCHES)
        expect("tries", sent, seen["tries"])
        refused = sent if call["collector"] == "refuses" else 0
        for batch in self._sent_of(ready, sent):
            batch.state = "acknowledged"
        self.refused += refused
        if sent:
            self.failed_at = None
        why = "enough for one call" if len(ready) > sent else ""
        why = RANDOM if number > len(ready) == sent else why
        if refused and not why:
            why = "reports were refused: is the collector's registry this one?"
        return {"acknowledged": sent, "refused": refused, "waiting": number - sent, "why": why}

    def _is_soon_after(self, clock: int) -> bool:
        """Return whether the wait after the last failure may still last at this time."""
        assert self.failed_at is not None
        return clock - self.failed_at <= LONGEST_WAIT

    def _whys(self, clock: int) -> set[str]:
        """Return the reasons that status() may give; the transcript hides the wait after a
        failure."""
        if self.consent != "granted":
            return {"nobody has agreed yet" if self.consent == "unknown" else self.consent}
        waiting = [batch.sealed_at for batch in self.batches if batch.state == "waiting"]
        ends = [end for _, end in self.records]
        if not waiting and not ends:
            is_held = any(batch.state == "held" for batch in self.batches)
            return {HELD if is_held else "nothing is recorded that was not sent"}
        is_over = min(waiting or ends) <= clock
        later = RANDOM if waiting else "what was recorded is sealed after its period"
        whys = {"waits for upload(), which start() calls" if is_over else later}
        if waiting and self.failed_at is not None and self._is_soon_after(clock):
            whys |= {FAILED, f"{FAILED}: the collector cannot be reached"}
        return whys

    @staticmethod
    def _sent_of(waiting: list[Batch], number: int) -> list[Batch]:
        if number < len(waiting) and len({batch.last_day for batch in waiting}) > 1:
            raise Difference("which batches were sent is not told: make the life shorter")
        return waiting[:number]

    def _settle(self) -> None:
        """Forget what was recorded in another group, or under windows of another length."""
        for name, metric in self.registry.metrics.items():
            place = metric.group, self.registry.groups[metric.group].window
            if self.layout.setdefault(name, place) != place:
                self.layout[name] = place
                self.records = {key: v for key, v in self.records.items() if key[0][0] != name}
                self.epochs = {
                    key: one
                    for key, one in self.epochs.items()
                    if key[0][0] != name or one.is_charged
                }

    def _public_periods(self) -> list[tuple[int, str]]:
        periods = {(end, self.registry.group_of(meaning[0])) for meaning, end in self.records}
        return [
            (end, group)
            for end, group in periods
            if end <= self._now and not self.registry.is_hidden(group)
        ]

    def _hidden_periods(self) -> list[tuple[int, str]]:
        periods = []
        for name, caps in self.registry.groups.items():
            if not self.registry.is_hidden(name) or name not in self.shown:
                continue
            current = self._now - self._now % caps.window
            last = self.calendars[name] = min(current, self.calendars.get(name, current))
            ends = range(ending(last, caps.window), current + 1, caps.window)
            periods += [(end, name) for end in (ends if len(ends) <= MOST_PERIODS else ends[-1:])]
        return periods

    def _seal(self, due: list[tuple[int, str]]) -> None:
        possible: set[tuple[tuple[str, int], ...]] = {()}
        for end, group in sorted(due):
            if group in self.registry.groups:
                outcomes = self._matching(end, group)
                possible = {_added(first, second) for first in possible for second in outcomes}
            self._forget(end, group)
        if due:
            self._forget_changed(day_of(max(end for end, _ in due) - 1))
            self._batch(possible)
        taken = [day_of(one.sealed_at) for one in self.batches if one.state == "acknowledged"]
        for batch in self.batches:
            if batch.state in ("waiting", "held"):
                is_taken = day_of(batch.sealed_at) <= day_of(self._now) <= batch.last_day
                batch.state = "waiting" if is_taken else "held"
            is_held = batch.state == "held"
            if is_held and len({day for day in taken if day > batch.last_day}) >= HELD_DAYS:
                batch.state = "dropped"

    def _batch(self, possible: set[tuple[tuple[str, int], ...]]) -> None:
        sealed: Counter[str] = Counter()
        for day, reports in self._sealed:
            expect("day of a batch", day_of(self._now).isoformat(), day)
            lateness = min(self.registry.lateness[self.registry.group_of(m)] for m in reports)
            last = day_of(self._now) + timedelta(days=lateness // DAY)
            self.batches.append(Batch(last, self._now))
            sealed += reports
        self._sealed = []
        if tuple(sorted(sealed.items())) not in possible:
            raise Difference(f"reports sealed {dict(sealed)}, possible {sorted(possible)[:4]}")

    def _matching(self, end: int, group: str) -> set[tuple[tuple[str, int], ...]]:
        """Return what may have been sent of a period, and note its charges.

        These are the results of all orders that give the charges that were seen. A period is sent
        only once.
        """
        if (group, end) in self.sealed:
            return {()}
        charged = [c for c in self._charged if (c.at, c.group) == (end, group)]
        day, wanted = day_of(end - 1), {(c.metric, c.times) for c in charged}
        for metric in charged:
            expect("price", self.registry.metrics[metric.metric].price, metric.price)
        metrics = [
            metric
            for metric in self.registry.metrics.values()
            if metric.group == group and metric.expires >= day and metric.name in self.shown_metrics
        ]
        possible = set()
        for order in permutations(metrics):
            sent, charges = self._outcome(order, group, end)
            if charges == wanted and bool(sent) == ((group, end) in self._marks):
                possible.add(sent)
        if not possible:
            raise Difference(f"charges of {group} at {end}: {wanted}; an order gives {charges}")
        for charge in charged:
            self._charged.remove(charge)
            charged_metric = self.registry.metrics[charge.metric]
            begins, ends = self._span(charged_metric, end)
            self.charges.append(replace(charge, begins=begins, ends=ends))
            self._note_told(charged_metric, end)
        if (group, end) in self._marks:
            self._marks.remove((group, end))
            self.sealed.add((group, end))
        return possible

    def _span(self, metric: Metric, end: int) -> tuple[int, int]:
        """Return the time span that the reports of the period that ends at `end` describe."""
        window, epoch = self.registry.groups[metric.group].window, metric.epoch
        if metric.memoise != "epoch":
            return end - window, end
        epoch_end = ending(end - 1, epoch)
        if metric.is_hidden:
            return epoch_end - 2 * epoch, epoch_end - epoch
        source = self.epochs[metric.meaning, epoch_end].source
        return source - window, source

    def _outcome(
        self, order: tuple[Metric, ...], group: str, end: int
    ) -> tuple[tuple[tuple[str, int], ...], set[tuple[str, int]]]:
        """Return the reports and the charges of a period when metrics are granted in this order."""
        life, window, most = self._budget(group, end)
        sent, charges = Counter[str](), set()
        for metric in order:
            values = self.records.get((metric.meaning, end), [])
            taken = min(metric.slots, len(values))
            may = metric.epsilon <= most
            if metric.memoise == "epoch":
                epoch = self.epochs.get((metric.meaning, ending(end - 1, metric.epoch)), Epoch())
                is_free = epoch.is_charged
                granted = is_free or (may and metric.price <= life and window >= 0)
                if granted and not is_free:
                    life -= metric.price
                reports = taken if granted and not epoch.is_silent else 0
                times = int(granted and not is_free and (metric.is_hidden or reports > 0))
            else:
                grant = max(0, min(metric.slots, min(life, window) // metric.price)) if may else 0
                life, window = life - grant * metric.price, window - grant * metric.price
                reports = times = min(taken, grant)
                if metric.is_hidden:
                    times = grant
                elif metric.memoise:
                    times = int(reports > 0 and (metric.meaning, values[0]) not in self.told)
            reports = metric.slots if metric.is_hidden else reports
            if reports:
                sent[metric.name] = reports
            if times:
                charges.add((metric.name, times))
        return tuple(sorted(sent.items())), charges

    def _note_told(self, metric: Metric, end: int) -> None:
        if metric.memoise == "per-value":
            self.told.add((metric.meaning, self.records[metric.meaning, end][0]))
        elif metric.memoise == "epoch":
            key = metric.meaning, ending(end - 1, metric.epoch)
            self.epochs.setdefault(key, Epoch()).is_charged = True

    def _forget(self, end: int, group: str) -> None:
        of = self.registry.group_of
        self.records = {
            key: v for key, v in self.records.items() if key[1] > end or of(key[0][0]) != group
        }
        self.epochs = {
            key: one
            for key, one in self.epochs.items()
            if one.is_charged or key[1] >= end or of(key[0][0]) not in (group, "")
        }
        if self.registry.is_hidden(group):
            self.calendars[group] = end

    def _forget_changed(self, day: date) -> None:
        current = {m.meaning for m in self.registry.metrics.values() if m.expires >= day}
        stale = {
            meaning
            for (meaning, _), one in self.epochs.items()
            if not one.is_charged and meaning not in current
        }
        self.epochs = {
            key: one for key, one in self.epochs.items() if one.is_charged or key[0] not in stale
        }
        self.records = {key: v for key, v in self.records.items() if key[0] not in stale}

    def _set_aside(self, group: str, end: int) -> Fraction:
        """Return what a period sets aside.

        A hidden epoch is left out if the response about it was charged before the clock went back.
        """
        day = day_of(end - 1)
        paid = (
            metric.price
            for metric in self.registry.metrics.values()
            if metric.group == group and metric.is_hidden and metric.epoch and metric.expires >= day
            for next_end in [ending(end - 1, metric.epoch) + metric.epoch]
            if self.epochs.get((metric.meaning, next_end), Epoch()).is_charged
        )
        return self.registry.set_aside(group, day) - sum(paid, Fraction(0))

    def _spent(self, group: str, after: int = -1, before: int = 10**15) -> Fraction:
        return sum(
            (
                charge.epsilon
                for charge in self.charges
                if charge.ends > after
                and charge.begins < before
                and (
                    charge.metric not in self.registry.metrics
                    or group in (charge.group, self.registry.metrics[charge.metric].group)
                )
            ),
            Fraction(0),
        )

    def _life_left(self, group: str) -> Fraction:
        if group not in self.shown:
            return Fraction(0)
        caps = self.registry.groups[group], self.shown[group]
        left = min(one.lifetime_epsilon for one in caps) - self._spent(group)
        lifetime = min(self.registry.lifetime, self.shown_lifetime)
        if lifetime < INFINITE:
            left = min(left, lifetime - sum((c.epsilon for c in self.charges), Fraction(0)))
        return left

    def _budget(self, group: str, end: int) -> tuple[Fraction, Fraction, Fraction]:
        if group not in self.shown:
            return Fraction(0), Fraction(0), Fraction(0)
        caps = self.registry.groups[group], self.shown[group]
        aside, window = self._set_aside(group, end), caps[0].window
        windows = [
            c.window_epsilon - self._spent(group, *_touched(end, window, c.window)) - aside
            for c in caps
        ]
        if (group, end) in self.sealed:
            windows = [min(left, -aside) for left in windows]
        life = self._life_left(group)
        return life, min(life, *windows), min(c.report_epsilon for c in caps)

    def _remaining(self) -> dict[str, Fraction]:
        left = {}
        for group, caps in self.registry.groups.items():
            if not self.shown:  # nobody agreed yet
                left[group] = min(
                    caps.window_epsilon, caps.lifetime_epsilon, self.registry.lifetime
                )
                continue
            end = ending(self._now, caps.window)
            life, window, _ = self._budget(group, end)
            in_window = window + self._set_aside(group, end)
            left[group] = max(Fraction(0), min(life, in_window))
        return left

    def _groups_to_ask(self) -> set[str]:
        return {
            name
            for name, caps in self.registry.groups.items()
            if name not in self.shown or caps.is_looser_than(self.shown[name])
        }

    def _unasked(self) -> set[str]:
        names = self._groups_to_ask() | ({*self.registry.metrics} - self.shown_metrics)
        return names | ({"[product]"} if self.registry.lifetime > self.shown_lifetime else set())

    def _status(self) -> dict[str, Any]:
        states = Counter(batch.state for batch in self.batches)
        unasked = sorted(self._unasked()) if self.consent == "granted" else []
        return {
            "consent": self.consent,
            "pooled": sum(
                min(self.slots[meaning], len(values))
                for (meaning, _), values in self.records.items()
            ),
            "waiting": states["waiting"],
            "acknowledged": states["acknowledged"],
            "held": states["held"],
            "dropped": states["dropped"],
            "refused": self.refused,
            "unasked": unasked,
        }


def _added(
    first: tuple[tuple[str, int], ...], second: tuple[tuple[str, int], ...]
) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((Counter(dict(first)) + Counter(dict(second))).items()))


def expect(what: str, expected: Any, found: Any) -> None:
    """Raise Difference unless both are equal."""
    if expected != found:
        raise Difference(f"{what}: expected {expected}, found {found}")
