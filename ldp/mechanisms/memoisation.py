"""Base of memoised mechanisms: a permanent response, and an instantaneous response to it.

A report is drawn in two steps. The *permanent* response to the cells that a value touches is the
same for the same value (or for a whole epoch). Every report is an *instantaneous* randomisation of
it. Source: Erlingsson, Pihur and Korolova 2014, section 3.1. `permanent_response.py` derives the
permanent response from a secret.
"""

import hmac
import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import cached_property

from ldp.accounting.cost import Cost
from ldp.errors import ParameterError, errors_in
from ldp.mechanisms.base import Encoder, Mechanism, threshold
from ldp.mechanisms.permanent_response import PermanentMemory
from ldp.mechanisms.secrets import LEAST_SECRET, Secret, message
from ldp.protocol.channel import EXACT, exact_log, round_up
from ldp.protocol.hashing import Value, value_bytes
from ldp.protocol.kinds import Bits, Index
from ldp.protocol.randomness import BitSource, KeyedBits, SystemBits, uniform_below
from ldp.protocol.wire import pack_report, split_report


class MemoisedMechanism(Mechanism, ABC):
    """Mechanism whose reports about one value may share a permanent response.

    `channel` is that of a whole report. `permanent_channel` is that of the permanent response,
    which bounds the cost of any number of reports about one value: `cost.lifetime`.
    """

    is_memoisable = True

    @cached_property
    @abstractmethod
    def instantaneous(self) -> tuple[Fraction, Fraction]:
        """Probabilities P(report names a cell | permanent response does), and P(.. | does not)."""

    @cached_property
    def thresholds(self) -> tuple[int, int]:
        """Floors of 2**64 times `instantaneous`."""
        high, low = self.instantaneous
        return threshold(high), threshold(low)

    @cached_property
    @abstractmethod
    def memory(self) -> PermanentMemory:
        """Functions from a secret to the cohort and the permanent response."""

    @cached_property
    def layout(self) -> Index | Bits:
        layout = self.kind(*self.shape)
        assert isinstance(layout, Index | Bits)
        return layout

    @cached_property
    def cost(self) -> Cost:
        return Cost(
            epsilon=self.channel.epsilon,
            lifetime=self.permanent_channel.epsilon if self.permanent_channel else math.inf,
        )

    @cached_property
    def changing_per_value(self) -> float:
        """Epsilon of one report, memoised per value, between histories in which its value differs.

        All other reports are alike in both histories, and any number of them is about either value.
        In both histories the reports have the probability sum w P over the permanent responses of
        all values, with the same weights w. So the ratio is at most the largest ratio of two P, to
        the power of the number of reports that differ. The largest ratio of two P is that of the
        instantaneous step between two permanent responses. The more other reports there are, the
        nearer the worst histories come to this bound. Permanent responses can differ in all bits,
        whatever their values. Infinite without instantaneous noise.
        """
        high, low = self.instantaneous
        has_bits = self.kind.is_bitwise
        if not low or (has_bits and high == 1):
            return math.inf
        ratio = max(high / low, (1 - low) / (1 - high))
        units = self.shape.columns if has_bits else 1
        return round_up(EXACT.multiply(exact_log(ratio), units))

    def encoder(
        self,
        bits: BitSource | None = None,
        *,
        secret: bytes | None = None,
        epoch: str | None = None,
        metric: str = "",
        frozen: bytes | None = None,
    ) -> "MemoisedEncoder":
        """Return an encoder whose instantaneous noise comes from `bits` (default: the operating
        system's source).

        Without `secret` every report draws its own cohort and permanent response and costs
        `cost.epsilon`. Nothing is memoised. With `secret` (16 bytes or more, kept by the device or
        the account, never sent) cohort and permanent responses are functions of it, of this
        mechanism and of `metric`, the metric's name and version:

        - without `epoch`, memoised *per value*: reports about one value cost `cost.lifetime` in
          total, as published. Histories whose responses change at different times are told apart by
          up to `changing_per_value` for each report that differs.
          Two values that touch the same cells share one response, so a change may not show.
        - with `epoch` (its name, such as "2026-W47"), memoised *by epoch*: all reports of the epoch
          are about the first value encoded, whatever values follow, so any number of them costs
          `cost.lifetime`, for all histories; epochs add. This needs one encoder an epoch on all
          devices that share the secret: after a restart, or on a second device, pass `frozen` of
          the first encoder (a cohort and a response, no value) to the next.

        With `epoch` and without `secret`, cohort and permanent response are drawn from `bits`,
        once: two encoders share nothing. So each costs `cost.lifetime`, whatever values they
        encode.

        Raises ParameterError for a short secret, for a metric without a secret, for `frozen`
        without an epoch, and for a metric where `memory` takes none.
        """
        source = SystemBits() if bits is None else bits
        for text in ("" if epoch is None else epoch, metric):
            if not isinstance(text, str):
                raise ParameterError("epoch and metric must be texts")
            value_bytes(text)
        if frozen is not None and epoch is None:
            raise ParameterError("frozen needs an epoch")
        freezes = epoch is not None
        if secret is None and not metric:
            encoder = MemoisedEncoder(self, source, freezes=freezes)
        else:
            if not isinstance(secret, bytes) or len(secret) < LEAST_SECRET:
                raise ParameterError(f"a secret must be bytes, {LEAST_SECRET} or more")
            if epoch is not None:
                secret = hmac.digest(secret, message("epoch", epoch), "sha256")
            self.memory.check(metric)
            encoder = MemoisedEncoder(self, source, Secret(secret), metric, freezes)
        if frozen is not None:
            encoder.frozen = frozen
        return encoder


class MemoisedEncoder(Encoder):
    """Encoder with a permanent and an instantaneous response: see `MemoisedMechanism.encoder`."""

    _mechanism: MemoisedMechanism
    _layout: Index | Bits

    def __init__(
        self,
        mechanism: MemoisedMechanism,
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
        self._frozen: dict[str, tuple[int, int]] = {}

    def cell(self, value: Value) -> bytes:
        """Return the true response to `value` in the cohort of the secret, as the bytes of a
        payload: values with equal bytes share a permanent response. Raises ParameterError without a
        secret."""
        if self._cohort is None:
            raise ParameterError("only the holder of a secret has a cohort")
        true_response = self._true_response(self._addressing.point(value), self._cohort)
        return true_response.to_bytes(self._layout.payload_bytes, "little")

    @property
    def frozen(self) -> bytes | None:
        """Cohort and permanent response of the epoch, as a report's body. It is None before the
        first report. It is randomised only once, so it must stay on the device."""
        pair = self._frozen.get("pair")
        return None if pair is None else pack_report(b"", self._layout, *pair)

    @frozen.setter
    def frozen(self, body: bytes) -> None:
        size = self._layout.body_bytes
        if not isinstance(body, bytes) or len(body) != size:
            raise ParameterError(f"frozen must be {size} bytes")
        with errors_in("frozen is damaged"):
            row, payload = split_report(self._header + body, self._mechanism.header, self._layout)
            self._frozen["pair"] = row, self._layout.payload_number(payload)

    def _true_response(self, point: int, row: int) -> int:
        if self._randomized is not None:
            point = self._randomized.draw(self._source(point), point, row)
        return self._layout.payload_of(self._addressing.cells(point, row))

    def _source(self, point: int) -> BitSource:
        """Return the source of bits for the replacement of `point`: with a secret a function of the
        point."""
        if self._secret is None:
            return self._bits
        about = message("answers", self._metric) + self._mechanism.fingerprint
        answers = point.to_bytes(point.bit_length() // 8 + 1, "little")
        return KeyedBits(self._secret, about + answers)

    def draw(self, point: int) -> tuple[int, int]:
        pair = self._frozen.get("pair")
        if pair is None:
            cohort = self._cohort
            row = uniform_below(self._bits, self._layout.rows) if cohort is None else cohort
            pair = row, self._permanent_response(self._true_response(point, row))
            # of several threads all take the pair of the first
            if self._freezes:
                pair = self._frozen.setdefault("pair", pair)
        row, response = pair
        bits = self._report_bits()
        return row, self._layout.randomise(bits, response, *self._mechanism.thresholds)

    def _permanent_response(self, true_response: int) -> int:
        if self._secret is None:
            return self._memory.draw(self._bits, true_response)
        return self._memory.response(self._secret, self._metric, true_response)
