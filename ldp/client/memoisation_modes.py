"""The modes of memoisation: how a metric enters records, and which reports a period may send.

Every metric has one mode, chosen by `mode_class`: `Fresh` noise in every report, a response
memoised `PerValue`, or one `ByEpoch`. `HiddenFresh` and `HiddenByEpoch` also hide how many records
there were. The rules, each with its test, are in `docs/device-protocol.md`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import timedelta
from fractions import Fraction
from typing import NamedTuple

from ldp.accounting.policy import Allowance, length
from ldp.client import pool
from ldp.client.charges import Span
from ldp.client.device_file import Database
from ldp.client.periods import ending
from ldp.client.pool import FrozenResponse
from ldp.client.responses import Report, Responses
from ldp.protocol.hashing import Value
from ldp.protocol.randomness import BitSource
from ldp.registry import Metric, Registry

Taken = tuple[list[bytes], int]
"""Reports of a period, and how many times the price they cost together."""


class Grant(NamedTuple):
    """Number of reports that a metric may send of a period, and the epsilon that is reserved for
    them: for life, and in the window."""

    reports: int = 0
    epsilon: Fraction = Fraction(0)
    window_epsilon: Fraction = Fraction(0)

    def taken_from(self, remaining: Allowance) -> Allowance:
        """Return what remains for other metrics."""
        life, window, report = remaining
        return Allowance(life - self.epsilon, window - self.window_epsilon, report)


class Mode(ABC):
    """One metric on one device, under its mode of memoisation. `window`: the length of its group's
    windows."""

    def __init__(
        self, metric: Metric, window: timedelta, responses: Responses, bits: BitSource
    ) -> None:
        self.metric, self.window, self.responses, self.bits = metric, window, responses, bits

    @abstractmethod
    def enter(self, database: Database, value: Value, now: int) -> None:
        """Enter a record of a value that the mechanism knows into the draw of its period or epoch.
        `now`: seconds since 1970."""

    def current_response(self, database: Database, now: int) -> FrozenResponse | None:
        """Return the response that reports of a record made now would be about. Returns None where
        that is not decided."""
        return None

    @staticmethod
    @abstractmethod
    def afforded(metric: Metric, remaining: Allowance) -> Grant:
        """Return what a metric may send of a period when `remaining` may still be charged."""

    def grant(self, database: Database, end: int, remaining: Allowance) -> Grant:
        """Return what the metric may send of the period that ends at `end`."""
        return self.afforded(self.metric, remaining)

    @abstractmethod
    def take(self, database: Database, end: int, grant: Grant) -> Taken:
        """Return the reports of the period that ends at `end`, and how many prices they cost."""

    def span(self, database: Database, end: int) -> Span:
        """Return the span of time covered by the reports that are charged in the period until
        `end`."""
        return end - length(self.window), end

    def _enter(self, database: Database, now: int, draw: Callable[[], Report]) -> None:
        pool.enter(database, self.metric, ending(now, self.window), self.bits, draw)

    @property
    def _none_value(self) -> Value:
        value = self.metric.mechanism.placeholder
        # the registry requires one where presence is hidden
        assert value is not None
        return value


class Fresh(Mode):
    """Fresh noise in every report: each costs one price."""

    def enter(self, database: Database, value: Value, now: int) -> None:
        self._enter(database, now, lambda: self._report(value))

    def _report(self, value: Value) -> Report:
        return self.responses.fresh_report(self.metric, value)

    @staticmethod
    def afforded(metric: Metric, remaining: Allowance) -> Grant:
        if metric.mechanism.cost.epsilon > remaining.report:
            return Grant()
        price = Fraction(metric.price)
        reports = min(metric.reports_per_window, math.floor(remaining.least / price))
        return Grant(reports, reports * price, reports * price)

    def take(self, database: Database, end: int, grant: Grant) -> Taken:
        reports, _ = pool.pooled_reports(database, self.metric, end, grant.reports)
        return reports, len(reports)


class HiddenFresh(Fresh):
    """Fresh noise in as many reports as the metric has slots, whatever was recorded or remains. The
    first are about pooled records, as far as the grant goes. The others are about no record. The
    grant is charged whole."""

    def take(self, database: Database, end: int, grant: Grant) -> Taken:
        reports, _ = super().take(database, end, grant)
        empty = self.metric.reports_per_window - len(reports)
        reports += [self._report(self._none_value).report for _ in range(empty)]
        return reports, grant.reports


class PerValue(Fresh):
    """One permanent response for each value: its first report costs the price. A grant reckons
    every report as the first about its value, so that it does not depend on the values."""

    def _report(self, value: Value) -> Report:
        return self.responses.memoised_report(self.metric, value)

    def take(self, database: Database, end: int, grant: Grant) -> Taken:
        reports, tags = pool.pooled_reports(database, self.metric, end, grant.reports)
        return reports, sum(pool.is_new_tag(database, tag) for tag in tags)


class ByEpoch(Mode):
    """One response for all reports of an epoch, about its first value. The reports cost one price
    together, charged with the first. Every window sets that price aside (`Registry.set_aside`)."""

    def enter(self, database: Database, value: Value, now: int) -> None:
        frozen = self.current_response(database, now)
        if frozen is None:
            frozen = self._new_response(value, ending(now, self.window))
            pool.freeze(database, self.metric, self._epoch_end(now), frozen)
        response = frozen.response
        report = self.responses.epoch_report
        self._enter(database, now, lambda: report(self.metric, response, value))

    def _frozen(self, database: Database, now: int) -> FrozenResponse | None:
        return pool.frozen_response(database, self.metric, self._epoch_end(now))

    current_response = _frozen

    @staticmethod
    def afforded(metric: Metric, remaining: Allowance) -> Grant:
        price = Fraction(metric.price)
        fits = metric.mechanism.cost.epsilon <= remaining.report and price <= remaining.life
        return (
            Grant(metric.reports_per_window, price) if fits and remaining.window >= 0 else Grant()
        )

    def grant(self, database: Database, end: int, remaining: Allowance) -> Grant:
        frozen = self._frozen(database, end - 1)
        if frozen and frozen.charged:  # it costs nothing more
            return Grant(self.metric.reports_per_window if frozen.response else 0)
        return super().grant(database, end, remaining)

    def take(self, database: Database, end: int, grant: Grant) -> Taken:
        reports, _ = pool.pooled_reports(database, self.metric, end, grant.reports)
        if not reports or not grant.epsilon:
            return reports, 0
        pool.mark_charged(database, self.metric, self._epoch_end(end - 1))
        return reports, 1

    def _epoch_end(self, now: int) -> int:
        assert self.metric.epoch
        return ending(now, self.metric.epoch)

    def span(self, database: Database, end: int) -> Span:
        frozen = self._frozen(database, end - 1)
        assert frozen
        return super().span(database, frozen.source)

    def _new_response(self, value: Value, source: int = 0) -> FrozenResponse:
        return FrozenResponse(self.responses.permanent_response(self.metric, value), False, source)


class HiddenByEpoch(ByEpoch):
    """One response for all reports of an epoch, about a value drawn in the epoch before, or about
    none. A window has as many reports as the metric has slots. Every epoch that fits the budget is
    charged."""

    def enter(self, database: Database, value: Value, now: int) -> None:
        next_end = self._epoch_end(self._epoch_end(now))
        respond = self.responses.permanent_response
        pool.enter_epoch(
            database, self.metric, next_end, self.bits, lambda: respond(self.metric, value)
        )

    current_response = Mode.current_response

    def span(self, database: Database, end: int) -> Span:
        assert self.metric.epoch
        begins = self._epoch_end(end - 1) - length(self.metric.epoch)
        return begins - length(self.metric.epoch), begins

    def take(self, database: Database, end: int, grant: Grant) -> Taken:
        metric, none_value = self.metric, self._none_value
        slots = range(metric.reports_per_window)
        if not grant.reports:
            return [self.responses.fresh_report(metric, none_value).report for _ in slots], 0
        epoch_end = self._epoch_end(end - 1)
        frozen = self._frozen(database, end - 1) or self._new_response(none_value)
        if grant.epsilon:
            pool.freeze(database, metric, epoch_end, frozen._replace(charged=True))
        reports = [self.responses.epoch_report(metric, frozen.response, none_value) for _ in slots]
        return [report.report for report in reports], int(bool(grant.epsilon))


_CLASSES: Mapping[tuple[object, str], type[Mode]] = {
    (False, "public"): Fresh,
    (False, "hidden"): HiddenFresh,
    ("per-value", "public"): PerValue,
    ("epoch", "public"): ByEpoch,
    ("epoch", "hidden"): HiddenByEpoch,
}


def mode_class(metric: Metric) -> type[Mode]:
    """Return the mode of a metric."""
    return _CLASSES[metric.memoise, metric.presence]


def modes_of(registry: Registry, responses: Responses, bits: BitSource) -> dict[str, Mode]:
    """Return the modes of all metrics of a registry, by name."""
    return {
        name: mode_class(metric)(metric, registry.groups[metric.group].caps.window, responses, bits)
        for name, metric in registry.metrics.items()
    }
