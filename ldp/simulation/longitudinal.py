"""A collection over many days: people whose values change, who come and go, with several devices
each; what their devices send, and what it costs them.

Devices follow `docs/device-protocol.md`. The functions of the client
(`ldp.client.memoisation_modes`, `ldp.accounting.ledger`) decide which of a period's records may be
sent, once for all devices whose books are equal. A person who records on a day records the value of
that day at noon, on every device. A period that has not ended when the device's owner leaves is
never sent. Noise comes from a numpy Generator.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from operator import mul

import numpy as np

from ldp.arrays import Bools, Bytes, Floats, Generator, Ints, RowNumbers
from ldp.client.memoisation_modes import mode_class
from ldp.client.periods import beginning, day_of, ending
from ldp.protocol.channel import round_up
from ldp.registry import Group, Metric
from ldp.simulation.fleet import Fleet
from ldp.simulation.people import People, Scenario, ScenarioMetric

_CHUNK = 1 << 22
"""Number of records that are processed together."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SentReports:
    """All reports of one metric on one `day`, in random order: for each report the device, the row
    and the payload, and the indices in `ScenarioMetric.values` of the value that it is about and of
    the value that its device held that day (both of the placeholder for a report in place of no
    record). `charged`: how often the price is charged, for each device. Reports of one `epoch` from
    one device are about one response."""

    scenario_metric: ScenarioMetric
    day: int
    epoch: int
    devices: Ints
    value_indices: Ints
    held_indices: Ints
    rows: RowNumbers
    payloads: Bytes
    charged: Ints


class Collection:
    """Run of a scenario; without `limited` no cap applies. `charged` counts, for every metric and
    device and up to the current day, how often the price was charged."""

    def __init__(
        self,
        scenario: Scenario,
        people: People,
        generator: Generator,
        *,
        limited: bool = True,
    ) -> None:
        self._scenario, self._people, self._generator = scenario, people, generator
        self._limited = limited
        self._metrics = {metric.name: metric for metric in scenario.metrics}
        devices = people.owner.size
        self._fleets = {
            name: Fleet(
                metric.metric.mechanism,
                metric.values,
                metric.metric.memoise,
                devices,
                generator,
            )
            for name, metric in self._metrics.items()
        }
        self.charged = {name: np.zeros(devices, dtype=np.int64) for name in self._metrics}
        self._paid = {name: np.zeros(devices, dtype=bool) for name in self._metrics}
        self._known = {name: np.empty(0, dtype=np.int64) for name in self._metrics}
        self._epochs = dict.fromkeys(self._metrics, -1)

    def days(self) -> Iterator[list[SentReports]]:
        """Yield everything that is sent, one list a day. A period of several days is sent on its
        last day. The reports of a day are those that devices make of the day's records, although a
        collector gets them a little later."""
        names = dict.fromkeys(metric.metric.group for metric in self._metrics.values())
        groups = [self._scenario.registry.groups[name] for name in names]
        noons = self._scenario.noons
        for day in range(self._scenario.days):
            yield [
                sent
                for group in groups
                if ending(noons[day], group.caps.window) <= noons[day + 1]
                for sent in self._seal(group, day)
            ]

    def _seal(self, group: Group, day: int) -> Iterator[SentReports]:
        """Yield what all devices send of the period that ends after `day`. A group is charged at
        the ends of its windows. So the window that ends now has only the charges made now."""
        people, noons = self._people, self._scenario.noons
        last = day_of(ending(noons[day], group.caps.window) - 1)
        first = next(
            d for d in range(day + 1) if noons[d] >= beginning(noons[day], group.caps.window)
        )
        is_there = (people.joined <= day) & (day < people.left)
        devices = np.flatnonzero(is_there[people.owner])
        since = np.maximum(first, people.joined[people.owner[devices]])
        members = [
            self._metrics[metric.name].metric if metric.name in self._metrics else metric
            for metric in self._scenario.registry.metrics.values()
            if metric.group == group.name and (self._limited or metric.name in self._metrics)
        ]
        order = np.tile(np.arange(len(members)), (devices.size, 1))
        order = self._generator.permuted(order, axis=1)
        slots = np.array([member.reports_per_window for member in members], dtype=np.int64)
        granted, asks = np.tile(slots, (devices.size, 1)), np.ones(order.shape, dtype=np.bool_)
        charged = np.zeros(order.shape, dtype=np.int64)
        for place, member in enumerate(members):
            asks[:, place] = member.expires >= last
            if member.name in self._metrics:
                self._enter_epoch(member, day)
                charged[:, place] = self.charged[member.name][devices]
                asks[:, place] &= ~(bool(member.epoch) & self._paid[member.name][devices])
        if self._limited:
            aside = self._scenario.registry.set_aside(group.name, last)
            _grant(group, members, aside, charged, order, asks, granted)
        for place, member in enumerate(members):
            if member.name in self._metrics and member.expires >= last:
                yield self._send(member, day, devices, since, granted[:, place])

    def _enter_epoch(self, metric: Metric, day: int) -> None:
        """Begin an epoch if the metric has epochs and `day` is the first day of one."""
        if not metric.epoch:
            return
        epoch = ending(self._scenario.noons[day], metric.epoch)
        if epoch != self._epochs[metric.name]:
            self._epochs[metric.name] = epoch
            self._paid[metric.name][:] = False
            self._fleets[metric.name].begin_epoch()

    def _send(
        self, metric: Metric, day: int, devices: Ints, since: Ints, granted: Ints
    ) -> SentReports:
        scenario_metric, name = self._metrics[metric.name], metric.name
        owners, first = self._people.owner[devices], int(since.min(initial=day))
        held = self._people.values[name][owners, first : day + 1]
        is_recorded = self._is_recorded(name, owners, since, first, day)
        records = is_recorded.sum(axis=1) * scenario_metric.records
        place, chosen = self._draw_records(records, np.minimum(records, granted))
        recorded_first = np.argsort(~is_recorded, axis=1, kind="stable")
        value_indices = held[place, recorded_first[place, chosen // scenario_metric.records]]
        held_indices = held[place, -1]
        if metric.epoch:
            value_indices = self._first_of_epoch(metric, day, owners)[place]
        if metric.presence == "hidden":
            empty = metric.reports_per_window - np.bincount(place, minlength=devices.size)
            place = np.concatenate([place, np.repeat(np.arange(devices.size), empty)])
            mixed = self._generator.permutation(place.size)
            none = np.full(int(empty.sum()), scenario_metric.values.index(scenario_metric.none))
            place = place[mixed]
            value_indices = np.concatenate([value_indices, none])[mixed]
            held_indices = np.concatenate([held_indices, none])[mixed]
        rows, payloads, about = self._fleets[name].encode(devices[place], value_indices)
        charged = self._charge(metric, devices, place, granted, about)
        return SentReports(
            scenario_metric=scenario_metric,
            day=day,
            epoch=self._epochs[name],
            devices=devices[place],
            value_indices=value_indices,
            held_indices=held_indices,
            rows=rows,
            payloads=payloads,
            charged=charged,
        )

    def _is_recorded(self, name: str, owners: Ints, since: Ints, first: int, day: int) -> Bools:
        """Return whether each of the `owners` records a metric on each day from `first` to `day`:
        shape (owners, days). Nobody records before the day in `since`."""
        is_recorded = np.arange(first, day + 1) >= since[:, None]
        if name in self._people.recorded:
            is_recorded &= self._people.recorded[name][owners, first : day + 1]
        return is_recorded

    def _first_of_epoch(self, metric: Metric, day: int, owners: Ints) -> Ints:
        """Return the index of the value that each of the people recorded first in the epoch of a
        day: shape of `owners`. It is any index for people without a record."""
        assert metric.epoch
        begun = beginning(self._scenario.noons[day], metric.epoch)
        first = int(np.searchsorted(self._scenario.noons, begun))
        joined = self._people.joined[owners]
        days = first + self._is_recorded(metric.name, owners, joined, first, day).argmax(axis=1)
        return np.asarray(self._people.values[metric.name][owners, days])

    def _draw_records(self, records: Ints, sent: Ints) -> tuple[Ints, Ints]:
        """Draw `sent` of the `records` of each device. All subsets have the same probability.
        Return the places of the devices and the numbers of the records, in random order."""
        most = max(1, int(records.max(initial=0)))
        places, chosen = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for start in range(0, records.size, step := max(1, _CHUNK // most)):
            some = records[start : start + step, None]
            keys = self._generator.random((some.size, most))
            keys[np.arange(most) >= some] = 2.0
            ranked = np.argsort(keys, axis=1)
            place, rank = np.nonzero(np.arange(most) < sent[start : start + step, None])
            places.append(start + place)
            chosen.append(ranked[place, rank])
        mixed = self._generator.permutation(int(sent.sum()))
        return np.concatenate(places)[mixed], np.concatenate(chosen)[mixed]

    def _charge(
        self, metric: Metric, devices: Ints, place: Ints, granted: Ints, about: Ints | None
    ) -> Ints:
        """Charge what devices sent, and all that was granted where presence is hidden. Return how
        often the price was charged, for each of all devices."""
        name, times = metric.name, np.zeros(self._people.owner.size, dtype=np.int64)
        sent = np.bincount(place, minlength=devices.size)
        if metric.memoise == "epoch":
            times[devices] = (sent > 0) & ~self._paid[name][devices]
            self._paid[name][devices[sent > 0]] = True
        elif metric.memoise == "per-value":
            assert about is not None
            pairs = np.unique(about * times.size + devices[place])
            new = pairs[~np.isin(pairs, self._known[name])]
            self._known[name] = np.concatenate([self._known[name], new])
            np.add.at(times, new % times.size, 1)
        else:
            times[devices] = granted if metric.presence == "hidden" else sent
        self.charged[name] += times
        return times

    def epsilons(self, names: Sequence[str]) -> Floats:
        """Return the epsilon that each device was charged for some metrics together: the exact sum,
        rounded up once."""
        return self._total_prices({name: self.charged[name] for name in names})

    def persons(self, names: Sequence[str]) -> Floats:
        """Return the epsilon that all devices of each person spent together: the sum of their
        charges."""
        owner = self._people.owner
        return self._total_prices(
            {name: np.bincount(owner, self.charged[name]).astype(np.int64) for name in names}
        )

    def _total_prices(self, counts: Mapping[str, Ints]) -> Floats:
        """Return the sums of prices times `counts`, by metric, each rounded up once."""
        prices = [Fraction(self._metrics[name].metric.price) for name in counts]
        different, which = _distinct(np.stack([*counts.values()], axis=1))
        sums = [_total(row, prices) for row in different.tolist()]
        return np.array([*map(round_up, sums)])[which]


def _total(counts: Sequence[int], prices: Sequence[Fraction]) -> Fraction:
    return sum(map(mul, counts, prices), Fraction(0))


def _grant(
    group: Group,
    members: Sequence[Metric],
    aside: Fraction,
    charged: Ints,
    order: Ints,
    asks: Bools,
    granted: Ints,
) -> None:
    """Write into `granted` how many reports each device may send of each metric that `asks`: it has
    not expired, and its epoch is not paid. `order`: in which order a device grants its metrics.
    `charged`: number of prices charged before. All shapes are (devices, members). What was spent,
    for life and in the window, is a state. Devices in one state, and metrics that are granted
    alike, share the work."""
    prices = [Fraction(member.price) for member in members]
    grants = [
        (mode_class(m), m.price, m.reports_per_window, m.mechanism.cost.epsilon) for m in members
    ]
    alike = np.array([*map(grants.index, grants)])
    different, at = _distinct(charged)
    known = [(_total(row, prices), aside) for row in different.tolist()]
    numbers = {state: number for number, state in enumerate(known)}
    everybody = np.arange(len(at))

    @cache
    def step(state: int, place: int) -> tuple[int, int]:
        (spent, in_window), metric = known[state], members[place]
        left = group.caps.allowance(spent, in_window)
        grant = mode_class(metric).afforded(metric, left)
        after = spent + grant.epsilon, in_window + (0 if metric.epoch else grant.epsilon)
        if after not in numbers:
            numbers[after] = len(known)
            known.append(after)
        return grant.reports, numbers[after]

    for turn in order.T:
        keys, which = np.unique(at * len(members) + alike[turn], return_inverse=True)
        steps = [step(*divmod(key, len(members))) for key in keys.tolist()]
        reports, after = np.array(steps, dtype=np.int64).reshape(-1, 2)[which].T
        does = asks[everybody, turn]
        granted[everybody[does], turn[does]] = reports[does]
        at[does] = after[does]


def _distinct(rows: Ints) -> tuple[Ints, Ints]:
    """Return the different rows of an array of counts, and the index among them of each row. If it
    fits, a row becomes one number in mixed radix, because numbers sort faster than rows."""
    radix = [int(most) + 1 for most in rows.max(axis=0, initial=0)]
    if math.prod(radix) >= 1 << 62:
        different, which = np.unique(rows, axis=0, return_inverse=True)
        return different, which.ravel()
    keys = rows @ np.cumprod([1, *radix[:0:-1]])[::-1]
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return rows[first], which.ravel()
