"""What memoised mechanisms share: a permanent response that a secret decides, then fresh noise.

A report is drawn in two steps. The *permanent* response to what a value touches is the same for the
same value (or for a whole epoch); every report is the *instantaneous* noise about it. Source:
Erlingsson, Pihur and Korolova 2014, section 3.1. How a secret decides: `permanent_response.py`.
"""

import hmac
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from ldp.accounting.cost import Cost
from ldp.errors import ParameterError, ReportError
from ldp.mechanisms.base import Encoder, Mechanism, as_bits, threshold
from ldp.mechanisms.permanent_response import LEAST_SECRET, Memory, Secret, message
from ldp.protocol.channel import Channel
from ldp.protocol.hashing import Value, value_bytes
from ldp.protocol.randomness import BitSource, SystemBits, bernoulli
from ldp.protocol.wire import pack_report, split_report


@dataclass(frozen=True, kw_only=True)
class Memoising(Mechanism, ABC):
    """A mechanism whose reports about one value may share a permanent response.

    `channel` is that of a whole report, `permanent_channel` that of the permanent response, which
    bounds what any number of reports about one value cost: `cost.lifetime`.
    """

    memoisable: ClassVar[bool] = True

    @cached_property
    @abstractmethod
    def permanent_channel(self) -> Channel | None:
        """The channel of the permanent response; None where that hides nothing."""

    @cached_property
    @abstractmethod
    def instantaneous(self) -> tuple[Fraction, Fraction]:
        """P(a report names a cell | the permanent response does), and P(.. | it does not)."""

    @cached_property
    def thresholds(self) -> tuple[int, int]:
        """The floors of 2**64 times `instantaneous`."""
        named, unnamed = self.instantaneous
        return threshold(named), threshold(unnamed)

    @cached_property
    @abstractmethod
    def memory(self) -> Memory:
        """How a secret decides the cohort and the permanent response."""

    @abstractmethod
    def true_response(self, cells: Sequence[int]) -> int:
        """The payload, as an integer, that names these cells and no other."""

    @abstractmethod
    def instantaneous_response(self, source: BitSource, response: int) -> int:
        """The payload of a report about a permanent response, both as integers."""

    @cached_property
    def cost(self) -> Cost:
        return Cost(
            epsilon=self.channel.epsilon,
            lifetime=self.permanent_channel.epsilon if self.permanent_channel else math.inf,
        )

    def pooled_variance(self, reports: int, frequency: Any = 0.0) -> Any:
        """What the variance of a count grows by with each further report that every client sends
        under the same permanent response, whose own noise no averaging takes away.

        With K reports a client their covariance given the value is (h - l)**2 Var(B), where B says
        whether the permanent response names the cell and h, l are `instantaneous`; n reports have
        n (K - 1) such terms, and the estimator divides by (h - l)**2 `permanent_channel.gain`**2:
        so (K - 1) n permanent_channel.variance(f), of which this is one part in K - 1. Numbers or
        arrays.
        """
        return (
            reports * self.permanent_channel.variance(frequency)
            if self.permanent_channel
            else 0.0 * frequency
        )

    def encoder(
        self,
        bits: BitSource | None = None,
        *,
        secret: bytes | None = None,
        epoch: str | None = None,
        metric: str = "",
        frozen: bytes | None = None,
    ) -> "MemoisingEncoder":
        """Encodes values, with instantaneous noise from `bits` (default: the operating system's).

        Without `secret` every report draws its cohort and permanent response anew and costs
        `cost.epsilon`; nothing is memoised. With `secret` (16 bytes or more, kept by the device or
        the account, never sent) cohort and permanent responses are functions of it, of this
        mechanism and of `metric`, its name and version:

        - alone, memoised *per value*: reports about one value cost `cost.lifetime` in total, as
          published. Between histories whose responses change at different times there is no
          bound, and two values that touch the same share one, so a change may not show.
        - with `epoch` (its name, such as "2026-W47"), memoised *by epoch*: the first value encoded
          is the only one of the epoch, whatever comes later, so any number of reports of an epoch
          costs `cost.lifetime`, for all histories; epochs add. That takes one encoder an epoch on
          all that share the secret: after a restart, or on a second device, hand `frozen`, the
          first encoder's (a cohort and a response, no value), to the next.

        With `epoch` and no secret cohort and permanent response are drawn from `bits`, once: two
        encoders share nothing, so each costs `cost.lifetime`, whatever they were given.

        Raises ParameterError for a short secret, for a metric without one, for `frozen` without an
        epoch, and for a metric that `memory` has no room for.
        """
        source = SystemBits() if bits is None else bits
        texts = [text for text in (epoch, metric) if text is not None]
        if not all(isinstance(text, str) for text in texts):
            raise ParameterError("epoch and metric must be texts")
        for text in texts:
            value_bytes(text)
        if frozen is not None and epoch is None:
            raise ParameterError("only an epoch freezes a response")
        freezes = epoch is not None
        if secret is None and not metric:
            encoder = MemoisingEncoder(self, source, freezes=freezes)
        else:
            if not isinstance(secret, bytes) or len(secret) < LEAST_SECRET:
                raise ParameterError(f"a secret must be bytes, {LEAST_SECRET} or more")
            if epoch is not None:
                secret = hmac.digest(secret, message("epoch", epoch), "sha256")
            self.memory.check(metric)
            encoder = MemoisingEncoder(self, source, Secret(secret), metric, freezes)
        if frozen is not None:
            encoder.frozen = frozen
        return encoder


@dataclass(frozen=True, kw_only=True)
class MemoisedBits(Memoising, ABC):
    """A report is bits: those of the permanent response, each drawn again with `instantaneous`."""

    def true_response(self, cells: Sequence[int]) -> int:
        return as_bits(cells)

    def instantaneous_response(self, source: BitSource, response: int) -> int:
        high, low = self.thresholds
        return bernoulli(source, low, self.shape.columns, response, high)


class MemoisingEncoder(Encoder):
    """Draws reports through a permanent and an instantaneous response: see `Memoising.encoder`."""

    _mechanism: Memoising

    def __init__(
        self,
        mechanism: Memoising,
        bits: BitSource,
        secret: Secret | None = None,
        metric: str = "",
        freezes: bool = False,
    ) -> None:
        super().__init__(mechanism, bits)
        self._memory = mechanism.memory
        self._secret = secret
        self._metric = metric
        self._cohort = None if secret is None else self._memory.cohort(secret, metric)
        self._freezes = freezes
        self._first: dict[str, tuple[int, int]] = {}

    def cell(self, value: Value) -> bytes:
        """What all reports about the value have in common, up to its permanent response: what it
        touches in the holder's cohort. Without a secret there is none, and ParameterError is
        raised."""
        if self._cohort is None:
            raise ParameterError("only the holder of a secret has a cohort")
        truth = self._truth(self._addressing.point(value), self._cohort)
        return truth.to_bytes(self._layout.payload_bytes, "little")

    @property
    def frozen(self) -> bytes | None:
        """What the epoch's reports are about: cohort and permanent response, as a report's body.
        None before the first. It is randomised, but not for good: keep it on the device."""
        first = self._first.get("frozen")
        return None if first is None else pack_report(b"", self._layout, *first)

    @frozen.setter
    def frozen(self, body: bytes) -> None:
        size = self._layout.body_bytes
        if not isinstance(body, bytes) or len(body) != size:
            raise ParameterError(f"what is frozen has {size} bytes")
        try:
            row, payload = split_report(self._header + body, self._mechanism.header, self._layout)
            self._first["frozen"] = row, self._layout.payload_number(payload)
        except ReportError as error:
            raise ParameterError(f"what is frozen is none: {error}") from None

    def _row(self) -> int:
        return super()._row() if self._cohort is None else self._cohort

    def _truth(self, point: int, row: int) -> int:
        return self._mechanism.true_response(self._addressing.cells(point, row))

    def draw(self, point: int) -> tuple[int, int]:
        first = self._first.get("frozen")
        if first is None:
            row = self._row()
            first = row, self._permanent(self._truth(point, row))
            if self._freezes:  # the first of several threads wins, for all of them
                first = self._first.setdefault("frozen", first)
        row, response = first
        return row, self._mechanism.instantaneous_response(self._bits, response)

    def _permanent(self, truth: int) -> int:
        if self._secret is None:
            return self._memory.draw(self._bits, truth)
        return self._memory.response(self._secret, self._metric, truth)
