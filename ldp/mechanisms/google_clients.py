"""Permanent responses of google/rappor's clients, byte for byte.

Source: client/python, client/cpp and client/java @a13fa96. Their noise does not depend on the
mechanism, nor their cohorts on the metric. So each metric needs its own secret.
"""

import hashlib
import hmac
import math
from abc import abstractmethod
from fractions import Fraction

from ldp.errors import ParameterError
from ldp.mechanisms.permanent_response import KeyedFilter, PermanentFilter

STEPS = 128
"""Steps of f in google/rappor's clients: they compare 7 random bits with 128 f."""


class _Google(PermanentFilter):
    """Permanent response of google/rappor's clients.

    Byte i of a stream determines bit i: its low bit is the coin, and the upper seven are compared
    with 128 f to see whether the coin replaces the bit.
    """

    def _check_size(self) -> None:
        super()._check_size()
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

    Two metrics with one secret would share their noise, so a metric raises ParameterError. Give
    each its own secret. The cohort is that of `KeyedFilter`: client/python takes one as an
    argument.
    """

    most_bits = 32
    uses_metric = False
    cohort = KeyedFilter.cohort

    @staticmethod
    def round_f(f: Fraction) -> Fraction:
        return Fraction(math.ceil(STEPS * f), STEPS)

    def stream(self, secret: bytes, metric: str, bloom: int) -> bytes:
        return hmac.digest(secret, bloom.to_bytes(4, "big"), "sha256")[: self.bits]


class CppClient(_Google):
    """Permanent response of client/cpp: HMAC-SHA256 up to 32 bits, HMAC-DRBG beyond."""

    def _check_size(self) -> None:
        super()._check_size()
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

    most_bits = 4096

    def _check_size(self) -> None:
        super()._check_size()
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
