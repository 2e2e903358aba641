"""Permanent responses: the first randomisation of a memoised report, as a function of a secret.

The noise is a keyed function of a secret, the metric and the true response, so nothing is stored:
no value, no filter, no response. In RAPPOR a bit of the Bloom filter is kept with probability
1 - f, else replaced by a fair coin (Erlingsson et al. 2014, section 3.1, step 2). `KeyedFilter` is
our own. The others equal google/rappor's clients (@a13fa96: client/python, client/cpp, client/java)
byte for byte; their noise does not depend on the mechanism, nor their cohorts on the metric, so
each metric needs its own secret. `memoised.py` has the response where a report is one column.
"""

import hashlib
import hmac
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from ldp.errors import ParameterError
from ldp.mechanisms.base import threshold
from ldp.mechanisms.secrets import message
from ldp.protocol.kinds import bytes_below
from ldp.protocol.randomness import PROBABILITY_ONE, BitSource, KeyedBits, bernoulli, uniform_below

STEPS = 128
"""Steps of f in google/rappor's clients: they compare 7 random bits with 128 f."""


class Memory(ABC):
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


class KeyedMemory(Memory):
    """Memory of our own clients: `KeyedBits` of the purpose, the metric, the mechanism and, for a
    response, the true response."""

    @property
    @abstractmethod
    def limit(self) -> int:
        """Bound of a payload as an integer: it is below this."""

    def cohort(self, secret: bytes, metric: str) -> int:
        about = message("cohort", metric) + self.identity
        return uniform_below(KeyedBits(secret, about), self.cohorts)

    def response(self, secret: bytes, metric: str, true_response: int) -> int:
        payload = true_response.to_bytes(bytes_below(self.limit), "little")
        about = message("permanent", metric) + self.identity + payload
        return self.draw(KeyedBits(secret, about), true_response)


@dataclass(frozen=True)
class PermanentFilter(Memory):
    """Permanent response of RAPPOR to a Bloom filter of `bits` bits, bit 0 lowest."""

    most_bits: ClassVar[int] = 1 << 16

    bits: int
    cohorts: int
    f: Fraction
    identity: bytes = b""

    def __post_init__(self) -> None:
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
        high = PROBABILITY_ONE - self._low
        return bernoulli(source, self._low, self.bits, true_response, high)


class KeyedFilter(KeyedMemory, PermanentFilter):
    """Permanent response of our own clients; f is rounded up to a multiple of 2**-63."""

    @property
    def limit(self) -> int:
        return 1 << self.bits

    @staticmethod
    def round_f(f: Fraction) -> Fraction:
        return Fraction(math.ceil(f * (1 << 63)), 1 << 63)


class _Google(PermanentFilter):
    """Permanent response of google/rappor's clients.

    Byte i of a stream determines bit i: its low bit is the coin, and the upper seven are compared
    with 128 f to see whether the coin replaces the bit.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cohorts & (self.cohorts - 1):
            raise ParameterError("cohorts must be a power of two for google/rappor's clients")

    def response(self, secret: bytes, metric: str, true_response: int) -> int:
        limit, response = STEPS * self.f, true_response
        for i, byte in enumerate(self.stream(secret, metric, true_response)):
            if byte >> 1 < limit:
                response = response & ~(1 << i) | (byte & 1) << i
        return response

    @abstractmethod
    def stream(self, secret: bytes, metric: str, bloom: int) -> bytes:
        """Return a byte for each bit of the filter `bloom`."""


class PythonClient(_Google):
    """Permanent response of client/python: HMAC-SHA256 of the filter.

    Two metrics of one secret would share their noise, so a metric is an error; give each its own
    secret. The cohort is that of `KeyedFilter`: client/python takes one as an argument.
    """

    most_bits: ClassVar[int] = 32
    uses_metric: ClassVar[bool] = False
    cohort = KeyedFilter.cohort

    @staticmethod
    def round_f(f: Fraction) -> Fraction:
        return Fraction(math.ceil(STEPS * f), STEPS)

    def stream(self, secret: bytes, metric: str, bloom: int) -> bytes:
        return hmac.digest(secret, bloom.to_bytes(4, "big"), "sha256")[: self.bits]


class CppClient(_Google):
    """Permanent response of client/cpp: HMAC-SHA256 up to 32 bits, HMAC-DRBG beyond."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bits > 32 and self.bits % 8:
            raise ParameterError('permanent = "rappor-cpp" has 32 bits at most, or a multiple of 8')

    @staticmethod
    def round_f(f: Fraction) -> Fraction:
        return Fraction(math.floor(STEPS * f), STEPS)

    def cohort(self, secret: bytes, metric: str) -> int:
        return int.from_bytes(self._digest(secret, b"", 4), "little") & (self.cohorts - 1)

    def stream(self, secret: bytes, metric: str, bloom: int) -> bytes:
        size = 4 if self.bits <= 32 else self.bits // 8
        return self._digest(
            secret, b"\1" + metric.encode() + bloom.to_bytes(size, "big"), self.bits
        )

    def _digest(self, secret: bytes, text: bytes, size: int) -> bytes:
        if self.bits <= 32:
            return hmac.digest(secret, text, "sha256")[:size]
        return hmac_drbg(secret + text, size)


class JavaClient(_Google):
    """Permanent response of client/java: HMAC-DRBG, personalised by a digest of metric and filter.

    The digest includes a 1 and 19 zero bytes, because client/java hashes its incomplete
    personalisation too.
    """

    most_bits: ClassVar[int] = 4096

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cohorts > STEPS:
            raise ParameterError(f'permanent = "rappor-java" has {STEPS} cohorts at most')

    @staticmethod
    def round_f(f: Fraction) -> Fraction:
        return Fraction(math.floor(STEPS * f + Fraction(1, 2)), STEPS)

    def cohort(self, secret: bytes, metric: str) -> int:
        word = int.from_bytes(hmac_drbg(secret + b"\0", 4), "big", signed=True)
        return abs(word) % STEPS & (self.cohorts - 1)

    def stream(self, secret: bytes, metric: str, bloom: int) -> bytes:
        bits = bloom.to_bytes((bloom.bit_length() + 7) // 8, "little")
        digest = hashlib.sha256(metric.encode() + b"\0" + bits + b"\1" + bytes(19)).digest()
        return hmac_drbg(secret + b"\1" + digest[:19], self.bits)


PERMANENT: dict[str, type[PermanentFilter]] = {
    "keyed": KeyedFilter,
    "rappor-python": PythonClient,
    "rappor-cpp": CppClient,
    "rappor-java": JavaClient,
}
"""Permanent responses of RAPPOR by the value of its parameter `permanent`."""


def hmac_drbg(seed: bytes, size: int) -> bytes:
    """Return the first `size` bytes of HMAC_DRBG with SHA-256 (NIST SP 800-90A, 10.1.2),
    instantiated with `seed`."""

    def digest(key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, "sha256")

    key, value = bytes(32), b"\1" * 32
    for step in (b"\0", b"\1"):
        key = digest(key, value + step + seed)
        value = digest(key, value)
    stream = b""
    while len(stream) < size:
        value = digest(key, value)
        stream += value
    return stream[:size]
