"""Permanent responses: the first randomisation of a memoised report, as a function of a secret.

The noise is a keyed function of a secret, the metric and the true response. So nothing is stored:
no value, no filter, no response. In RAPPOR a bit of the Bloom filter is kept with probability 1 -
f, else replaced by a fair coin (Erlingsson et al. 2014, section 3.1, step 2). `KeyedFilter` is the
permanent response of our own clients. `google_clients.py` has those of google/rappor's clients, and
`memoised.py` has those of reports of one column.
"""

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from ldp.errors import ParameterError
from ldp.mechanisms.base import threshold
from ldp.mechanisms.secrets import message
from ldp.protocol.kinds import bytes_below
from ldp.protocol.randomness import ONE, BitSource, KeyedBits, bernoulli, uniform_below


class PermanentMemory(ABC):
    """Functions from a secret to a cohort and to permanent responses.

    True and permanent responses are payloads as integers.
    """

    uses_metric: ClassVar[bool] = True
    """True where the noise depends on the metric's name."""

    cohorts: int
    identity: bytes
    """Fingerprint of the mechanism, so that two mechanisms never share noise."""

    def check(self, metric: str) -> None:
        """Raise ParameterError for a `metric` (name and version) where the noise uses none."""
        if metric and not self.uses_metric:
            raise ParameterError(
                "this permanent response leaves the metric out of its noise: give each metric a "
                "secret of its own, and no name"
            )

    @abstractmethod
    def cohort(self, secret: bytes, metric: str) -> int:
        """Return the cohort, 0 .. cohorts - 1, of the holder of `secret`."""

    @abstractmethod
    def response(self, secret: bytes, metric: str, true_response: int) -> int:
        """Return the permanent response to `true_response`."""

    @abstractmethod
    def draw(self, source: BitSource, true_response: int) -> int:
        """Draw a permanent response to `true_response` with noise from `source`."""


class KeyedMemory(PermanentMemory):
    """Memory of our own clients: `KeyedBits` of the purpose, the metric, the mechanism and, for a
    response, the true response."""

    @property
    @abstractmethod
    def limit(self) -> int:
        """Number that every payload, as an integer, is below."""

    def cohort(self, secret: bytes, metric: str) -> int:
        about = message("cohort", metric) + self.identity
        return uniform_below(KeyedBits(secret, about), self.cohorts)

    def response(self, secret: bytes, metric: str, true_response: int) -> int:
        payload = true_response.to_bytes(bytes_below(self.limit), "little")
        about = message("permanent", metric) + self.identity + payload
        return self.draw(KeyedBits(secret, about), true_response)


class PermanentFilter(PermanentMemory):
    """Permanent response of RAPPOR to a Bloom filter of `bits` bits, bit 0 lowest. Raises
    ParameterError for numbers of bits or cohorts that this client does not take."""

    most_bits: ClassVar[int] = 1 << 16

    def __init__(self, bits: int, cohorts: int, f: Fraction, identity: bytes = b"") -> None:
        self.bits, self.cohorts, self.f, self.identity = bits, cohorts, f, identity
        self._check_size()

    def _check_size(self) -> None:
        if self.bits > self.most_bits:
            raise ParameterError(f"this permanent response has {self.most_bits} bits at most")

    @staticmethod
    @abstractmethod
    def round_f(f: Fraction) -> Fraction:
        """Return the multiple of this client's step that is used for `f`."""

    @cached_property
    def _low(self) -> int:
        return threshold(self.f / 2)

    def draw(self, source: BitSource, true_response: int) -> int:
        high = ONE - self._low
        return bernoulli(source, self._low, self.bits, true_response, high)


class KeyedFilter(KeyedMemory, PermanentFilter):
    """Permanent response of our own clients. The share f is rounded up to a multiple of 2**-63."""

    @property
    def limit(self) -> int:
        return 1 << self.bits

    @staticmethod
    def round_f(f: Fraction) -> Fraction:
        return Fraction(math.ceil(f * (1 << 63)), 1 << 63)
