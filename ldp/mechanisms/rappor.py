"""RAPPOR: Bloom filter, cohorts, a permanent and an instantaneous randomised response.

Source: Erlingsson, Pihur and Korolova 2014, "RAPPOR", section 3.1 (the algorithm), 3.2 (epsilons).
The permanent response itself is drawn in `permanent.py`.
"""

import hmac
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

from ldp.accounting.cost import Cost
from ldp.channel import Channel, exact_log, round_up
from ldp.errors import ParameterError, ReportError
from ldp.hashing import MD5_SCHEMES, Md5Bloom, PolynomialBloom, value_bytes
from ldp.mechanisms.base import (
    Addressing,
    Encoder,
    Example,
    Identity,
    Mechanism,
    Shape,
    Value,
    as_bits,
    threshold,
)
from ldp.mechanisms.categorical import require_categories
from ldp.mechanisms.permanent import LEAST_SECRET, PERMANENT, Keyed, Permanent, Secret, message
from ldp.randomness import PROBABILITY_ONE, BitSource, SystemBits, bernoulli
from ldp.wire import Kind, pack_report, split_report

MOST_HASHES = 16
MOST_COHORTS = 1 << 16
SCHEMES = {
    "polynomial": "keyed",
    "identity": "keyed",
    "rappor-md5-1byte": "rappor-cpp",
    "rappor-md5-le": "rappor-cpp",
    "rappor-md5-be16": "rappor-java",
}
"""Hash schemes, and the permanent response that each goes with unless told."""


class Pair(NamedTuple):
    """Two values of a dictionary that one report tells apart best, its epsilon, and the largest
    epsilon of any number of reports about any two of the values."""

    first: str
    second: str
    epsilon: float
    lifetime: float


@dataclass(frozen=True, kw_only=True)
class Rappor(Mechanism):
    """Hash the value to bits of a Bloom filter; randomise every bit for good, then every report.

    Report: (cohort, `bits` bits). A bit of the *permanent* response is 1 with probability 1 - f/2
    where the filter's is, else with f/2; a reported bit is 1 with probability q where the permanent
    one is, else with p. Together: touched = q (1 - f/2) + p f/2, untouched = p (1 - f/2) + q f/2.

    One report costs epsilon = h ln(touched (1 - untouched) / (untouched (1 - touched))). Reports
    about one value share its permanent response, so any number of them costs
    2 h ln((1 - f/2) / (f/2)) at most: `cost.lifetime`. It holds for a value that never changes
    (`memoise = "per-value"`, as published) or that is frozen for an epoch (`"epoch"`): see
    `encoder`. The sum of the two epsilons, which has been published as a total, over-counts.

    >>> chrome = Rappor(bits=128, hashes=2, cohorts=128, f=0.5, p=0.25, q=0.75, seed="00ff")
    >>> round(chrome.cost.epsilon, 2), round(chrome.cost.lifetime, 2)
    (2.04, 4.39)

    `bits`: 2 to 65,536, at least 2 `hashes` (1 to 16); `cohorts`: 1 to 65,536 rows; 0 <= f < 1,
    0 <= p < q <= 1, in steps of 2**-64 or what `permanent` rounds f to: the numbers kept here run.
    `p` = 0, `q` = 1 is one-time RAPPOR. `scheme`: "polynomial" (ours; needs `seed`, hex), one of
    google/rappor's ("rappor-md5-1byte", "-le", "-be16"), or "identity", basic RAPPOR: one bit for
    each of `categories` (or of "0", "1", ... `bits` - 1), one hash, one cohort. `permanent`:
    "keyed" (ours), "rappor-cpp", "rappor-java", "rappor-python"; default: the scheme's own.
    Raises ParameterError.
    """

    name: ClassVar[str] = "rappor"
    wire_id: ClassVar[int] = 5
    kind: ClassVar[Kind] = Kind.BITS
    memoisable: ClassVar[bool] = True

    f: float
    p: float
    q: float
    bits: int = 0
    hashes: int = 1
    cohorts: int = 1
    scheme: str = "polynomial"
    seed: str = ""
    categories: tuple[str, ...] = ()
    permanent: str = ""

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "categories", self._listed())
        keep(self, "bits", self.bits or len(self.categories))
        for name, most in (
            ("bits", Permanent.most_bits),
            ("hashes", MOST_HASHES),
            ("cohorts", MOST_COHORTS),
        ):
            number = getattr(self, name)
            if type(number) is not int or not 1 <= number <= most:
                raise ParameterError(f"{name} must be a whole number from 1 to {most}")
        if self.bits < 2 * self.hashes:
            raise ParameterError("bits must be at least twice the hashes, and 2 or more")
        if not isinstance(self.scheme, str) or self.scheme not in SCHEMES:
            raise ParameterError(f"scheme must be one of {', '.join(SCHEMES)}")
        if self.permanent == "":
            keep(self, "permanent", SCHEMES[self.scheme])
        if not isinstance(self.permanent, str) or self.permanent not in PERMANENT:
            raise ParameterError(f"permanent must be one of {', '.join(PERMANENT)}")
        runs = PERMANENT[self.permanent].runs(_probability("f", self.f))
        if self.f and not runs:
            raise ParameterError(f"f is so small that {self.permanent} would run without it")
        keep(self, "f", float(runs))
        keep(self, "p", _rounded(_probability("p", self.p), math.ceil))
        keep(self, "q", _rounded(_probability("q", self.q), math.floor))
        if not self.p < self.q or not self.f < 1:
            raise ParameterError("p must be below q, and f below 1")
        self._require_scheme()
        _ = self.channel, self.addressing, self.memory

    def _listed(self) -> tuple[str, ...]:
        """The categories of basic RAPPOR, else none."""
        if self.scheme != "identity":
            if self.categories:
                raise ParameterError('only scheme "identity" has categories')
            return ()
        if self.categories or type(self.bits) is not int:
            return require_categories(self.categories)
        return require_categories(
            [str(number) for number in range(min(self.bits, Permanent.most_bits))]
        )

    def _require_scheme(self) -> None:
        """Raises ParameterError for parameters that the scheme has no use or no room for."""
        if self.scheme == "identity":
            if self.hashes > 1 or self.cohorts > 1:
                raise ParameterError('scheme "identity" has one hash and one cohort')
            if len(self.categories) != self.bits:
                raise ParameterError(f"{len(self.categories)} categories need as many bits")
        if self.seed and self.scheme != "polynomial":
            raise ParameterError(f'scheme "{self.scheme}" has no seed')
        if self.scheme in MD5_SCHEMES:
            if self.bits > MD5_SCHEMES[self.scheme].most_bits:
                most = MD5_SCHEMES[self.scheme].most_bits
                raise ParameterError(f'scheme "{self.scheme}" has {most} bits at most')
            most = 16 // Md5Bloom(self.scheme, self.bits, self.hashes).size
            if self.hashes > most:
                raise ParameterError(
                    f"an MD5 digest has room for {most} hashes of {self.bits} bits"
                )

    @classmethod
    def seeded(cls, parameters: Mapping[str, Any]) -> bool:
        return bool(parameters.get("scheme", "polynomial") == "polynomial")

    @cached_property
    def lasting(self) -> Channel | None:
        """The channel of the permanent response; None where f is 0 and it hides nothing."""
        if not self.f:
            return None
        half = Fraction(self.f) / 2
        return Channel(touched=1 - half, untouched=half, differing=(self.hashes, self.hashes))

    @cached_property
    def channel(self) -> Channel:
        half, p, q = Fraction(self.f) / 2, Fraction(self.p), Fraction(self.q)
        return Channel(
            touched=q * (1 - half) + p * half,
            untouched=p * (1 - half) + q * half,
            differing=(self.hashes, self.hashes),
        )

    def pooled_variance(self, reports_per_client: float) -> float:
        """What a bit's variance in a report grows by when each client sends so many under one
        permanent response, whose own noise no averaging takes away:
        (K - 1) (q - p)**2 (f/2) (1 - f/2)."""
        half = self.f / 2
        return (reports_per_client - 1) * (self.q - self.p) ** 2 * half * (1 - half)

    @cached_property
    def cost(self) -> Cost:
        return Cost(
            epsilon=self.channel.epsilon,
            lifetime=self.lasting.epsilon if self.lasting else math.inf,
        )

    @cached_property
    def addressing(self) -> Addressing:
        if self.scheme == "identity":
            return Identity(self.categories)
        if self.scheme == "polynomial":
            bloom = PolynomialBloom(self.seed, self.bits, self.hashes)
            _ = bloom.rows  # refuses a seed that is none
            return bloom
        return Md5Bloom(self.scheme, self.bits, self.hashes)

    @cached_property
    def shape(self) -> Shape:
        return Shape(self.cohorts, self.bits)

    @cached_property
    def memory(self) -> Permanent:
        """How a secret decides the cohort and the permanent response."""
        kind = PERMANENT[self.permanent]
        return kind(self.bits, self.cohorts, Fraction(self.f), self.fingerprint)

    def encoder(
        self,
        bits: BitSource | None = None,
        *,
        secret: bytes | None = None,
        epoch: str | None = None,
        metric: str = "",
        frozen: bytes | None = None,
    ) -> "RapporEncoder":
        """Encodes values, with instantaneous noise from `bits` (default: the operating system's).

        Without `secret` every report draws its cohort and permanent response anew and costs
        `cost.epsilon`; nothing is memoised. With `secret` (16 bytes or more, kept by the device or
        the account, never sent) cohort and permanent responses are functions of it, of this
        mechanism and of `metric`, its name and version:

        - alone, memoised *per value*: reports about one value cost `cost.lifetime` in total, as
          published. Between histories that change at different times there is no bound.
        - with `epoch` (its name, such as "2026-W47"), memoised *by epoch*: the first value encoded
          is the only one of the epoch, whatever comes later, so any number of reports of an epoch
          costs `cost.lifetime`, for all histories; epochs add. That takes one encoder an epoch on
          all that share the secret: after a restart, or on a second device, hand `frozen`, the
          first encoder's (a cohort and a response, no value), to the next.

        With `epoch` and no secret cohort and permanent response are drawn from `bits`, once: two
        encoders share nothing, so each costs `cost.lifetime`, whatever they were given.

        Raises ParameterError for a short secret, for a metric without one, for `frozen` without an
        epoch, and for a metric that `permanent` has no room for.
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
            encoder = RapporEncoder(self, source, freezes=freezes)
        else:
            if not isinstance(secret, bytes) or len(secret) < LEAST_SECRET:
                raise ParameterError(f"a secret must be bytes, {LEAST_SECRET} or more")
            if epoch is not None:
                secret = hmac.digest(secret, message("epoch", epoch), "sha256")
            self.memory.check(metric)
            encoder = RapporEncoder(self, source, Secret(secret), metric, freezes)
        if frozen is not None:
            encoder.frozen = frozen
        return encoder

    def worst_pair(self, values: Iterable[str]) -> Pair:
        """What reports tell of a known dictionary, in the worst cohort; exact, at most `cost`.

        a bits touched by the first value only and b by the second only give
        epsilon = a ln(touched/untouched) + b ln((1 - untouched)/(1 - touched)), the larger of the
        two orders, and (a + b) ln((1 - f/2)/(f/2)) for life. Stops at a pair as bad as `cost`
        allows for. Raises ParameterError for fewer than two values. Time: at worst cohorts x pairs
        of different filters.
        """
        listed = list(dict.fromkeys(values))
        if len(listed) < 2:
            raise ParameterError("a pair needs two different values")
        points = [self.addressing.point(value) for value in listed]
        pair, ratio, differing = (listed[0], listed[1]), Fraction(1), 0
        for row in range(self.cohorts):
            filters: dict[tuple[int, ...], str] = {}
            for value, point in zip(listed, points, strict=True):
                filters.setdefault(tuple(self.addressing.cells(point, row)), value)
            for (cells, first), (other, second) in combinations(filters.items(), 2):
                alone, missed = len({*cells} - {*other}), len({*other} - {*cells})
                differing = max(differing, alone + missed)
                if (found := self.channel.ratio(alone, missed)) > ratio:
                    pair, ratio = (first, second), found
                if ratio == self.channel.worst_ratio:
                    return Pair(*pair, self.cost.epsilon, self.cost.lifetime)
        lasting = self.lasting.ratio(differing, 0) if self.lasting and differing else Fraction(1)
        bound = round_up(exact_log(lasting)) if self.lasting else math.inf
        return Pair(*pair, round_up(exact_log(ratio)), bound)

    @staticmethod
    def examples() -> tuple[Example, ...]:
        return (
            Example(
                Rappor(bits=4, hashes=2, cohorts=2, f=0.5, p=0.25, q=0.75, seed="08"),
                ("lol", "afk", "brb"),
            ),
            Example(
                Rappor(bits=3, f=0.3, p=0.1, q=0.8, scheme="identity", categories=tuple("abc")),
                tuple("abc"),
            ),
            Example(
                Rappor(bits=4, cohorts=2, f=0.25, p=0.0, q=1.0, scheme="rappor-md5-1byte"),
                ("lol", "afk", "brb"),
            ),
        )


class RapporEncoder(Encoder):
    """Draws reports through a permanent and an instantaneous response: see `Rappor.encoder`."""

    def __init__(
        self,
        mechanism: Rappor,
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
        self._p, self._q = threshold(Fraction(mechanism.p)), threshold(Fraction(mechanism.q))

    def cell(self, value: Value) -> bytes:
        """What all reports about the value have in common, up to its permanent response: its filter
        in the holder's cohort. Without a secret there is none, and ParameterError is raised."""
        if self._cohort is None:
            raise ParameterError("only the holder of a secret has a cohort")
        cells = self._addressing.cells(self._addressing.point(value), self._cohort)
        return as_bits(cells).to_bytes(self._size, "little")

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

    @property
    def _size(self) -> int:
        return self._layout.payload_bytes

    def _row(self) -> int:
        return super()._row() if self._cohort is None else self._cohort

    def draw(self, point: int) -> tuple[int, int]:
        first = self._first.get("frozen")
        if first is None:
            row = self._row()
            first = row, self._permanent(as_bits(self._addressing.cells(point, row)))
            if self._freezes:  # the first of several threads wins, for all of them
                first = self._first.setdefault("frozen", first)
        row, response = first
        return row, bernoulli(self._bits, self._p, self._layout.columns, response, self._q)

    def _permanent(self, bloom: int) -> int:
        if self._secret is None:
            fresh = Keyed(self._memory.bits, self._memory.cohorts, self._memory.f)
            return fresh.drawn(self._bits, bloom)
        return self._memory.response(self._secret, self._metric, bloom)


def _probability(name: str, value: float) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ParameterError(f"{name} must be a number from 0 to 1")
    return Fraction(value)


def _rounded(probability: Fraction, towards: Any) -> float:
    """In steps of 2**-64, towards more privacy."""
    return float(Fraction(towards(probability * PROBABILITY_ONE), PROBABILITY_ONE))
