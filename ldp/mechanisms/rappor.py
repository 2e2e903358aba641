"""RAPPOR: Bloom filter, cohorts, a permanent and an instantaneous randomised response.

Source: Erlingsson, Pihur and Korolova 2014, "RAPPOR", section 3.1 (the algorithm), 3.2 (epsilons).
The permanent response itself is drawn in `permanent_response.py` and `google_clients.py`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from ldp.errors import ParameterError, require_one_of, require_probability
from ldp.mechanisms.addressing import (
    Addressing,
    Answers,
    Identity,
    require_at_most,
    require_categories,
)
from ldp.mechanisms.base import Case, Setting, Shape
from ldp.mechanisms.catalogue import Catalogue
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.mechanisms.permanent_response import PermanentFilter
from ldp.protocol.bloom import PolynomialBloom
from ldp.protocol.channel import Channel, most_differing, require_whole
from ldp.protocol.kinds import Bits
from ldp.protocol.randomness import ONE

MOST_HASHES = 16
MOST_COHORTS = 1 << 16
SCHEMES = {
    "polynomial": "keyed",
    "identity": "keyed",
    "rappor-md5-1byte": "rappor-cpp",
    "rappor-md5-le": "rappor-cpp",
    "rappor-md5-be16": "rappor-java",
    "chromium-city64": "keyed",
}
"""Default permanent responses by hash scheme."""
PERMANENT: Catalogue[PermanentFilter] = Catalogue(
    {
        "keyed": "permanent_response.KeyedFilter",
        "rappor-python": "google_clients.PythonClient",
        "rappor-cpp": "google_clients.CppClient",
        "rappor-java": "google_clients.JavaClient",
    }
)
"""Permanent responses by the value of the parameter `permanent`."""


TEXTS = ("lol", "afk", "brb")
"""Values of examples."""


@dataclass(frozen=True, kw_only=True)
class Rappor(MemoisedMechanism):
    """RAPPOR: a Bloom filter of the value, its permanent response, and an instantaneous response.

    Report: (cohort, `bits` bits). A bit of the *permanent* response is 1 with probability 1 - f/2
    where the filter's is 1, else with f/2. A reported bit is 1 with probability q where the
    permanent one is 1, else with p. Together: touched = q (1 - f/2) + p f/2, untouched = p (1 -
    f/2) + q f/2.

    One report costs epsilon = h ln(touched (1 - untouched) / (untouched (1 - touched))) with h
    `hashes`. Reports about one value share its permanent response. So any number of them costs at
    most 2 h ln((1 - f/2) / (f/2)): `cost.lifetime`. This holds for a value that never changes
    (`memoise = "per-value"`, as published) or that is frozen for an epoch (`"epoch"`): see
    `encoder`. The sum of the two epsilons, which has been published as a total, is too large.

    >>> chrome = Rappor(bits=128, hashes=2, cohorts=128, f=0.5, p=0.25, q=0.75, seed="00ff")
    >>> round(chrome.cost.epsilon, 2), round(chrome.cost.lifetime, 2)
    (2.04, 4.39)

    `bits`: 2 to 65,536, at least 2 `hashes` (1 to 16). `cohorts`: 1 to 65,536 rows; 0 <= f < 1; 0
    <= p < q <= 1. p and q are rounded to steps of 2**-64, f to the steps of `permanent`. The
    attributes hold the rounded numbers. `p` = 0, `q` = 1 is one-time RAPPOR. `scheme`: "polynomial"
    (ours; needs `seed`, hex), one of google/rappor's ("rappor-md5-1byte", "-le", "-be16"),
    Chromium's ("chromium-city64"), or "identity", basic RAPPOR: one bit for each of `categories`
    (or of "0", "1", ... `bits` - 1), one hash, one cohort. `permanent`: "keyed" (ours),
    "rappor-cpp", "rappor-java", "rappor-python"; default: the scheme's own. With `at_most` = m, for
    scheme "identity", a value is a set of answers, of which up to m are reported: two sets differ
    in up to 2 m bits (or all), and both epsilons count these. Raises ParameterError for anything
    else.
    """

    name = "rappor"
    wire_id = 5
    kind = Bits
    # basic RAPPOR of epsilon 1.02 and 3.89
    settings = (
        Setting({"scheme": "identity", "f": 0.5, "p": 0.25, "q": 0.75}),
        Setting({"scheme": "identity", "f": 0.25, "p": 0.0, "q": 1.0}),
    )
    cases = (
        Case(*TEXTS, bits=4, hashes=2, cohorts=2, f=0.5, p=0.25, q=0.75, seed="08"),
        Case(*"abc", bits=3, f=0.3, p=0.1, q=0.8, scheme="identity", categories=tuple("abc")),
        Case(*TEXTS, bits=4, cohorts=2, f=0.25, p=0.0, q=1.0, scheme="rappor-md5-1byte"),
        Case(
            *map(frozenset, ("03", "12", "")),
            bits=4,
            f=0.6,
            p=0.2,
            q=0.7,
            scheme="identity",
            at_most=2,
        ),
    )

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
    at_most: int | None = None

    def __post_init__(self) -> None:
        assign = object.__setattr__
        assign(self, "categories", self._category_list())
        assign(self, "bits", self.bits or len(self.categories))
        require_whole(self.bits, "bits", 1, PermanentFilter.most_bits)
        require_whole(self.hashes, "hashes", 1, MOST_HASHES)
        require_whole(self.cohorts, "cohorts", 1, MOST_COHORTS)
        if self.bits < 2 * self.hashes:
            raise ParameterError("bits must be at least twice the hashes, and 2 or more")
        require_one_of(self.scheme, SCHEMES, "scheme")
        if self.permanent == "":
            assign(self, "permanent", SCHEMES[self.scheme])
        require_one_of(self.permanent, PERMANENT, "permanent")
        require_at_most(self.at_most, self.bits)
        rounded_f = PERMANENT[self.permanent].round_f(Fraction(require_probability(self.f, "f")))
        if self.f and not rounded_f:
            raise ParameterError(f"f is so small that {self.permanent} would round it to 0")
        assign(self, "f", float(rounded_f))
        assign(self, "p", _rounded(self.p, "p", math.ceil))
        assign(self, "q", _rounded(self.q, "q", math.floor))
        if not self.p < self.q or not self.f < 1:
            raise ParameterError("p must be below q, and f below 1")
        self._require_scheme()
        _ = self.channel, self.addressing, self.memory

    def _category_list(self) -> tuple[str, ...]:
        """Return the categories of basic RAPPOR, or () for other schemes."""
        if self.scheme != "identity":
            if self.categories:
                raise ParameterError('only scheme "identity" has categories')
            return ()
        if self.categories or type(self.bits) is not int:
            return require_categories(self.categories)
        return require_categories(
            [str(number) for number in range(min(self.bits, PermanentFilter.most_bits))]
        )

    def _require_scheme(self) -> None:
        """Raise ParameterError for parameters that the scheme does not take."""
        if self.scheme == "identity":
            if self.hashes > 1 or self.cohorts > 1:
                raise ParameterError('scheme "identity" has one hash and one cohort')
            if len(self.categories) != self.bits:
                raise ParameterError(f"{len(self.categories)} categories need as many bits")
        elif self.at_most:
            raise ParameterError('at_most is for scheme "identity"')
        if self.seed and self.scheme != "polynomial":
            raise ParameterError(f'scheme "{self.scheme}" has no seed')

    @classmethod
    def has_seed(cls, parameters: Mapping[str, Any]) -> bool:
        return bool(parameters.get("scheme", "polynomial") == "polynomial")

    @cached_property
    def permanent_channel(self) -> Channel | None:
        if not self.f:
            return None
        half = Fraction(self.f) / 2
        return Channel(touched=1 - half, untouched=half, differing=self._differing)

    @cached_property
    def _differing(self) -> tuple[int, int]:
        return most_differing(self.most_cells, self.bits)

    @property
    def most_cells(self) -> int:
        return self.hashes * (self.at_most or 1)

    @cached_property
    def channel(self) -> Channel:
        half, p, q = Fraction(self.f) / 2, Fraction(self.p), Fraction(self.q)
        return Channel(
            touched=q * (1 - half) + p * half,
            untouched=p * (1 - half) + q * half,
            differing=self._differing,
        )

    @cached_property
    def addressing(self) -> Addressing:
        if self.scheme == "identity":
            single = Identity(self.categories)
            return Answers(single, self.at_most) if self.at_most else single
        if self.scheme == "polynomial":
            bloom = PolynomialBloom(self.seed, self.bits, self.hashes)
            # raises for an invalid seed
            _ = bloom.rows
            return bloom
        if self.scheme == "chromium-city64":
            from ldp.protocol.cityhash import CityBloom  # late: few apps need it

            return CityBloom(self.bits, self.hashes)
        from ldp.protocol.md5_bloom import Md5Bloom  # late: for google/rappor only

        return Md5Bloom(self.scheme, self.bits, self.hashes)

    @cached_property
    def shape(self) -> Shape:
        return Shape(self.cohorts, self.bits)

    @cached_property
    def memory(self) -> PermanentFilter:
        memory: type[PermanentFilter] = PERMANENT[self.permanent]
        return memory(self.bits, self.cohorts, Fraction(self.f), self.fingerprint)

    @cached_property
    def instantaneous(self) -> tuple[Fraction, Fraction]:
        return Fraction(self.q), Fraction(self.p)


def _rounded(probability: float, name: str, towards: Any) -> float:
    """Return `probability` as a multiple of 2**-64, rounded by `towards` (floor or ceil)."""
    exact = Fraction(require_probability(probability, name))
    return float(Fraction(towards(exact * ONE), ONE))
