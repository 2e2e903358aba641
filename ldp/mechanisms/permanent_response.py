"""Permanent responses: the first randomisation of a memoised report, the same whenever it is asked
for.

The noise is a keyed function of a secret, the metric and what the value touches, so nothing is
stored: no value, no filter, no response. In RAPPOR a bit of the Bloom filter is kept with
probability 1 - f, else replaced by a fair coin (Erlingsson et al. 2014, section 3.1, step 2);
where a report is one column (`KeyedColumn`) it is told, or else another one. `Keyed` is ours; the
others do what google/rappor's clients do (@a13fa96: client/python, client/cpp, client/java), byte
for byte. Their messages leave out the mechanism, and their cohorts the metric: give them a secret
for each metric.
"""

import hashlib
import hmac
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NoReturn

from ldp.errors import ParameterError
from ldp.mechanisms.base import draw_column, threshold
from ldp.protocol.randomness import PROBABILITY_ONE, BitSource, KeyedBits, bernoulli, uniform_below

LEAST_SECRET = 16
"""Bytes."""
STEPS = 128
"""google/rappor's clients compare 7 random bits with 128 f."""


class Secret(bytes):
    """A device's or an account's secret; never shown."""

    def __repr__(self) -> str:
        return "<secret>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")


class Memory(ABC):
    """How a secret decides the cohort of its holder, and the permanent response to what a value
    touches there: both a payload's integer."""

    knows_metrics: ClassVar[bool] = True

    cohorts: int
    identity: bytes
    """Fingerprint of the mechanism, so that two of them never share noise."""

    def check(self, metric: str) -> None:
        """Raises ParameterError for a metric that there is no room for."""
        if metric and not self.knows_metrics:
            raise ParameterError(
                "this permanent response leaves the metric out of its noise: give each metric a "
                "secret of its own, and no name"
            )

    @abstractmethod
    def cohort(self, secret: bytes, metric: str) -> int:
        """The cohort, 0 .. cohorts - 1, that the holder of the secret belongs to."""

    @abstractmethod
    def response(self, secret: bytes, metric: str, truth: int) -> int:
        """The permanent response to `truth`."""

    @abstractmethod
    def draw(self, source: BitSource, truth: int) -> int:
        """A response with noise from `source`."""


class ByKey(Memory):
    """Ours: `KeyedBits` of the purpose, the metric, the mechanism and, for a response, `truth`."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of a payload."""

    def cohort(self, secret: bytes, metric: str) -> int:
        about = message("cohort", metric) + self.identity
        return uniform_below(KeyedBits(secret, about), self.cohorts)

    def response(self, secret: bytes, metric: str, truth: int) -> int:
        about = message("permanent", metric) + self.identity
        return self.draw(KeyedBits(secret, about + truth.to_bytes(self.size, "little")), truth)


@dataclass(frozen=True)
class KeyedColumn(ByKey):
    """One of `columns`: the true one with probability `told`, else one of the others."""

    columns: int
    cohorts: int
    told: Fraction
    identity: bytes = b""

    @property
    def size(self) -> int:
        return ((self.columns - 1).bit_length() + 7) // 8

    def draw(self, source: BitSource, truth: int) -> int:
        return draw_column(source, threshold(self.told), (truth,), self.columns)


@dataclass(frozen=True)
class Permanent(Memory):
    """The permanent response of RAPPOR to a filter of so many bits, bit 0 lowest."""

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
    def runs(f: Fraction) -> Fraction:
        """The f that really runs where `f` was asked for."""

    def draw(self, source: BitSource, truth: int) -> int:
        lie = threshold(self.f / 2)
        return bernoulli(source, lie, self.bits, truth, PROBABILITY_ONE - lie)


class Keyed(ByKey, Permanent):
    """f in steps of 2**-63, up."""

    @property
    def size(self) -> int:
        return (self.bits + 7) // 8

    @staticmethod
    def runs(f: Fraction) -> Fraction:
        return Fraction(math.ceil(f * (1 << 63)), 1 << 63)


class _Google(Permanent):
    """Byte i of a stream drives bit i: its low bit is the coin, the upper seven decide whether the
    coin replaces the bit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cohorts & (self.cohorts - 1):
            raise ParameterError("cohorts must be a power of two for google/rappor's clients")

    def response(self, secret: bytes, metric: str, truth: int) -> int:
        replaced = STEPS * self.f
        for i, byte in enumerate(self.stream(secret, metric, truth)):
            if byte >> 1 < replaced:
                truth = truth & ~(1 << i) | (byte & 1) << i
        return truth

    @abstractmethod
    def stream(self, secret: bytes, metric: str, bloom: int) -> bytes:
        """A byte for each bit."""


class PythonClient(_Google):
    """HMAC-SHA256 of the filter alone: two metrics of one secret share their noise, so a metric is
    refused; give each its own secret. The cohort is ours, its client takes one as an argument."""

    most_bits: ClassVar[int] = 32
    knows_metrics: ClassVar[bool] = False
    cohort = Keyed.cohort

    @staticmethod
    def runs(f: Fraction) -> Fraction:
        return Fraction(math.ceil(STEPS * f), STEPS)

    def stream(self, secret: bytes, metric: str, bloom: int) -> bytes:
        return hmac.digest(secret, bloom.to_bytes(4, "big"), "sha256")[: self.bits]


class CppClient(_Google):
    """HMAC-SHA256 up to 32 bits, HMAC-DRBG beyond."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bits > 32 and self.bits % 8:
            raise ParameterError('permanent = "rappor-cpp" has 32 bits at most, or a multiple of 8')

    @staticmethod
    def runs(f: Fraction) -> Fraction:
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
    """HMAC-DRBG, personalised by a digest of metric and filter (and, because its client hashes the
    half-filled personalisation too, of a 1 and 19 zero bytes)."""

    most_bits: ClassVar[int] = 4096

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cohorts > STEPS:
            raise ParameterError(f'permanent = "rappor-java" has {STEPS} cohorts at most')

    @staticmethod
    def runs(f: Fraction) -> Fraction:
        return Fraction(math.floor(STEPS * f + Fraction(1, 2)), STEPS)

    def cohort(self, secret: bytes, metric: str) -> int:
        word = int.from_bytes(hmac_drbg(secret + b"\0", 4), "big", signed=True)
        return abs(word) % STEPS & (self.cohorts - 1)

    def stream(self, secret: bytes, metric: str, bloom: int) -> bytes:
        filled = bloom.to_bytes((bloom.bit_length() + 7) // 8, "little")
        digest = hashlib.sha256(metric.encode() + b"\0" + filled + b"\1" + bytes(19)).digest()
        return hmac_drbg(secret + b"\1" + digest[:19], self.bits)


PERMANENT: dict[str, type[Permanent]] = {
    "keyed": Keyed,
    "rappor-python": PythonClient,
    "rappor-cpp": CppClient,
    "rappor-java": JavaClient,
}


def message(purpose: str, *parts: str) -> bytes:
    """The purpose and the parts, each preceded by its length as 4 bytes little-endian."""
    texts = [part.encode() for part in (purpose, *parts)]
    return b"".join(len(text).to_bytes(4, "little") + text for text in texts)


def hmac_drbg(seed: bytes, size: int) -> bytes:
    """`size` bytes of HMAC_DRBG with SHA-256 (NIST SP 800-90A, 10.1.2), instantiated with `seed`
    and asked once."""

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
