"""RAPPOR: google/rappor's own test values, memoisation, cohorts, the worst pair, Chrome's
epsilons."""

import hashlib
import hmac
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp import Rappor, bulk
from ldp.errors import ParameterError
from ldp.mechanisms.addressing import Addressing
from ldp.mechanisms.google_clients import (
    CppClient,
    JavaClient,
    PythonClient,
    hmac_drbg,
)
from ldp.mechanisms.permanent_response import KeyedFilter
from ldp.mechanisms.secrets import Secret
from ldp.protocol.bloom import PolynomialBloom
from ldp.protocol.cityhash import CityBloom, city_hash
from ldp.protocol.kinds import as_bits
from ldp.protocol.md5_bloom import MD5_SCHEMES, Md5Bloom
from ldp.protocol.randomness import SeededBits, SystemBits
from ldp.protocol.wire import split_report
from tests.statistics import ALPHA, law_p

SECRET = b"client-secret"
MOCK = [17 * i % 256 for i in range(1024)]
"""Bytes that stand for random ones in client/cpp's tests of the instantaneous response."""


def instantaneous(permanent: int, start: int = 0) -> int:
    """Return 32 bits as client/cpp draws them with p = .75, q = .5, from a byte of MOCK for
    each."""
    p, q = (
        sum((MOCK[start + first + i] < limit) << i for i in range(32))
        for first, limit in ((0, 192), (32, 128))
    )
    return p & ~permanent | q & permanent


def bloom(scheme: str, bits: int, value: str, cohort: int) -> int:
    places = Md5Bloom(scheme, bits, 2)
    return as_bits(places.cells(places.point(value), cohort))


@pytest.mark.exact
@pytest.mark.parametrize(
    ("scheme", "bits", "value", "cohort", "expected"),
    [
        ("rappor-md5-1byte", 16, "foo", 0, {6}),
        ("rappor-md5-1byte", 32, "foo", 3, {4, 12}),
        ("rappor-md5-1byte", 8, "v1", 0, {0, 2}),
        ("rappor-md5-1byte", 8, "v1", 127, {7, 3}),
        ("rappor-md5-1byte", 16, "abc", 0, {6, 13}),
        ("rappor-md5-be16", 12, "Whizbang", 0, {7, 2}),
        ("rappor-md5-be16", 12, "Xyzzy", 0, {9, 6}),
        ("rappor-md5-be16", 12, "Thud", 0, {5, 4}),
    ],
)
def test_google_rappors_filters(
    scheme: str, bits: int, value: str, cohort: int, expected: set[int]
) -> None:
    places = Md5Bloom(scheme, bits, 2)
    assert set(places.cells(places.point(value), cohort)) == expected


@pytest.mark.exact
@pytest.mark.parametrize(
    ("value", "seed", "expected"),
    [
        (b"", 0, 0x0),
        (b"a", 1, 0xDDD114EA76711B2A),
        (b"abcd", 7, 0x5F30E10A47AD7AC1),
        (b"google.com", 2, 0x8E72D2BF4747E7C4),
        (b"https://www.example.org/", 3, 0x3DBCFD56E418AB92),
        (b"x" * 40, 4, 0xD284E5635DFE3344),
        (b"y" * 65, 5, 0x9DC82270B75977D1),
        (bytes(range(200)), 255, 0xF64E3840ECF5A95F),
    ],
)
def test_chromiums_filters_take_city_hash_of_every_length(
    value: bytes, seed: int, expected: int
) -> None:
    """The values are CityHash64WithSeed 1.0.2, by the package clickhouse-cityhash; 1.0.3 has the
    same.

    Here the seed is the row, because there is one hash.
    """
    bloom = CityBloom(bits=1 << 16, hashes=1)
    assert bloom.cells(bloom.point(value), seed) == (expected & 0xFFFF,)


@pytest.mark.exact
def test_hashes_of_chromium_are_numbered_over_all_rows() -> None:
    one, three = CityBloom(bits=64, hashes=1), CityBloom(bits=64, hashes=3)
    point = one.point("google.com")
    rows = {one.cells(point, row)[0] for row in (6, 7, 8)}
    assert set(three.cells(point, 2)) == rows
    assert city_hash(b"") == 0x9AE16A3B2F90404F


@pytest.mark.exact
def test_google_rappors_cpp_client_up_to_32_bits() -> None:
    """Its unit test takes the encoder's id from a string that is freed before it is read.

    So the id that made its expected values is the next string of that length: the secret.
    """
    client = CppClient(32, 128, Fraction(1, 4))
    assert client.cohort(SECRET, "") == 3
    expected = {3: 2281639167, 4: 2281637247}
    for cohort, bits in expected.items():
        filled = bloom("rappor-md5-1byte", 32, "foo", cohort)
        assert instantaneous(client.response(SECRET, "client-secret", filled)) == bits
    assert instantaneous(client.response(SECRET, "client-secret", 0x123)) == 2784956095


@pytest.mark.exact
def test_google_rappors_cpp_client_beyond_32_bits() -> None:
    client = CppClient(64, 128, Fraction(1, 4))
    assert client.cohort(SECRET, "") == 93
    permanent = client.response(SECRET, "client-secret", bloom("rappor-md5-le", 64, "foo", 93))
    high, low = permanent >> 32, permanent & 0xFFFFFFFF
    reported = instantaneous(high) << 32 | instantaneous(low, 64)
    assert list(reported.to_bytes(8, "big")) == [134, 255, 11, 255, 252, 119, 240, 223]


@pytest.mark.exact
def test_google_rappors_java_client() -> None:
    secret = hashlib.md5(b"Bar").digest() * 3
    assert JavaClient(8, 1, Fraction(1, 4)).response(secret, "Foo", 0b11111101) == 0b01110101


@pytest.mark.exact
def test_google_rappors_python_client() -> None:
    """Its generator cycles 0.0, 0.6, 0.0: p = .5 first, then q = .75, 16 draws each."""
    client = PythonClient(16, 1, Fraction(1, 2))
    permanent = client.response(b"secret", "", bloom("rappor-md5-1byte", 16, "abc", 0))
    draws = [(0.0, 0.6, 0.0)[i % 3] for i in range(32)]
    p = sum((draws[i] < 0.5) << i for i in range(16))
    q = sum((draws[16 + i] < 0.75) << i for i in range(16))
    assert p & ~permanent | q & permanent == 64493


@pytest.mark.exact
def test_hmac_drbg_goes_on_past_one_digest() -> None:
    stream = hmac_drbg(b"seed", 80)
    assert len(set(stream)) > 40
    assert hmac_drbg(b"seed", 33) == stream[:33]


@pytest.mark.exact
@pytest.mark.parametrize(
    ("permanent", "runs"),
    [
        ("rappor-python", Fraction(58, 128)),
        ("rappor-cpp", Fraction(57, 128)),
        ("rappor-java", Fraction(58, 128)),
        ("keyed", Fraction(0.45)),
    ],
)
def test_the_f_that_is_kept_and_printed_is_the_f_that_runs(permanent: str, runs: Fraction) -> None:
    mechanism = Rappor(
        bits=8, hashes=2, cohorts=128, f=0.45, p=0.39, q=0.61, seed="00", permanent=permanent
    )
    assert Fraction(mechanism.f) == runs == Fraction(mechanism.parameters()["f"])
    lie = runs / 2
    p, q = Fraction(0.39), Fraction(0.61)
    assert mechanism.channel.touched == q * (1 - lie) + p * lie
    assert mechanism.channel.untouched == p * (1 - lie) + q * lie


@pytest.mark.exact
@pytest.mark.parametrize(("f", "one", "life"), [(0.5, 2.0433, 4.3944), (0.25, 3.1538, 7.7836)])
def test_the_epsilons_that_were_published_for_chrome(f: float, one: float, life: float) -> None:
    mechanism = Rappor(bits=32, hashes=2, cohorts=128, f=f, p=0.25, q=0.75, seed="00")
    assert mechanism.cost.epsilon == pytest.approx(one, abs=1e-4)
    assert mechanism.cost.lifetime == pytest.approx(life, abs=1e-4)


@pytest.mark.exact
def test_without_a_permanent_response_nothing_bounds_a_life() -> None:
    mechanism = Rappor(bits=8, hashes=2, cohorts=128, f=0, p=0.225, q=0.775, seed="00")
    assert mechanism.cost.lifetime == math.inf
    assert mechanism.cost.epsilon == pytest.approx(4.947, abs=1e-3)


def number(mechanism: Rappor, report: bytes) -> tuple[int, int]:
    row, payload = split_report(report, mechanism.header, mechanism.layout)
    return row, mechanism.layout.payload_number(payload)


ONE_TIME = Rappor(bits=64, hashes=2, cohorts=16, f=0.5, p=0.0, q=1.0, seed="00ff")
"""RAPPOR without instantaneous noise, whose report shows its permanent response."""


@pytest.mark.exact
def test_a_value_has_one_permanent_response_and_one_cohort_whatever_comes_between() -> None:
    secret = bytes(range(32))
    encoder = ONE_TIME.encoder(secret=secret, metric="a/1")
    first = encoder.encode("lol")
    encoder.encode("afk")
    assert encoder.encode("lol") == first
    assert ONE_TIME.encoder(secret=secret, metric="a/1").encode("lol") == first, "after a restart"


@pytest.mark.exact
def test_two_metrics_versions_or_secrets_share_no_noise() -> None:
    secret = bytes(range(32))
    bits = {
        name: number(ONE_TIME, ONE_TIME.encoder(secret=key, metric=name).encode("lol"))
        for name, key in (("a/1", secret), ("a/2", secret), ("b/1", secret), ("c", b"0" * 32))
    }
    assert len(set(bits.values())) == len(bits)
    places = ONE_TIME.addressing
    flips = [word ^ as_bits(places.cells(places.point("lol"), row)) for row, word in bits.values()]
    agreeing = [64 - (a ^ b).bit_count() for i, a in enumerate(flips) for b in flips[:i]]
    assert all(20 < same < 60 for same in agreeing)  # 40 of 64 agree on average by chance


@pytest.mark.exact
def test_an_epoch_knows_its_first_value_only() -> None:
    encoder = ONE_TIME.encoder(secret=bytes(32), epoch="2026-W47")
    first = encoder.encode("lol")
    assert encoder.encode("afk") == first
    assert ONE_TIME.encoder(secret=bytes(32), epoch="2026-W47").encode("lol") == first
    assert ONE_TIME.encoder(secret=bytes(32), epoch="2026-W48").encode("lol") != first


@pytest.mark.exact
def test_two_mechanisms_under_one_secret_and_metric_share_no_noise() -> None:
    """With shared uniform numbers, bits on which f = 0.5 and f = 0.25 disagree would show the
    truth."""
    weak = Rappor(bits=64, hashes=2, cohorts=16, f=0.25, p=0.0, q=1.0, seed="00ff")
    truths = lies = 0
    for i in range(300):
        secret = i.to_bytes(32, "big")
        (row, one), (other_row, other) = (
            number(mechanism, mechanism.encoder(secret=secret, metric="m").encode("lol"))
            for mechanism in (ONE_TIME, weak)
        )
        if row == other_row:
            filled = as_bits(ONE_TIME.cells("lol", row))
            differing = one ^ other
            truths += (differing & ~(other ^ filled)).bit_count()
            lies += (differing & (other ^ filled)).bit_count()
    assert lies > 100
    assert truths > lies


@pytest.mark.exact
def test_an_epoch_goes_on_after_a_restart_with_the_response_of_its_first_value() -> None:
    before = ONE_TIME.encoder(secret=bytes(32), epoch="e", metric="m")
    assert before.frozen is None
    report = before.encode("lol")
    kept = before.frozen
    after = ONE_TIME.encoder(secret=bytes(32), epoch="e", metric="m", frozen=kept)
    assert after.encode("afk") == report
    for wrong in (b"", bytes(40)):
        with pytest.raises(ParameterError, match="frozen must be"):
            ONE_TIME.encoder(secret=bytes(32), epoch="e", frozen=wrong)
    with pytest.raises(ParameterError, match="frozen needs an epoch"):
        ONE_TIME.encoder(secret=bytes(32), frozen=kept)


@pytest.mark.exact
def test_an_epoch_without_a_secret_draws_cohort_and_response_once() -> None:
    """Of 100 epochs of one value, each repeats itself, also from what it froze, and hardly two are
    equal.

    A cohort that does not exist, and wrong padding, are refused.
    """
    mechanism = Rappor(bits=12, hashes=2, cohorts=3, f=0.75, p=0.0, q=1.0, seed="00")
    seen = set()
    for _ in range(100):
        encoder = mechanism.encoder(epoch="e")
        report = encoder.encode("lol")
        assert encoder.encode("afk") == report
        assert mechanism.encoder(epoch="e", frozen=encoder.frozen).encode("brb") == report
        seen.add(report)
    assert len(seen) > 50
    for wrong in (b"\3\0\0", b"\0\0\xf0"):
        with pytest.raises(ParameterError, match="frozen is damaged"):
            mechanism.encoder(epoch="e", frozen=wrong)


@pytest.mark.exact
def test_the_first_of_several_threads_freezes_the_epoch_for_all() -> None:
    mechanism = Rappor(bits=4096, f=0.5, p=0.0, q=1.0, seed="00")
    for run in range(20):
        encoder = mechanism.encoder(secret=bytes(32), epoch=str(run))
        with ThreadPoolExecutor(4) as pool:
            reports = set(pool.map(encoder.encode, ("a", "b", "c", "d") * 2))
        assert len(reports) == 1


@pytest.mark.exact
@pytest.mark.parametrize("text", [5, b"m", "secret\ud800"])
def test_what_names_a_metric_or_an_epoch_is_text(text: object) -> None:
    for name in ("metric", "epoch"):
        with pytest.raises(ParameterError) as caught:
            ONE_TIME.encoder(secret=bytes(32), **{name: text})  # type: ignore[arg-type]
        assert "secret\ud800" not in str(caught.value)


@pytest.mark.exact
def test_a_secret_is_not_shown() -> None:
    encoder = ONE_TIME.encoder(secret=b"hidden hidden hidden", epoch="e")
    assert "hidden" not in repr(vars(encoder)) + repr(encoder)
    digest = hmac.digest(b"hidden hidden hidden", b"x", "sha256")
    assert repr(digest)[2:10] not in repr(vars(encoder))
    kept = Secret(b"hidden")
    assert {str(kept), f"{kept}", f"{kept!r}"} == {"<secret>"}
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(encoder)


@pytest.mark.slow
@pytest.mark.statistical
def test_cohorts_of_secrets_are_uniform_and_independent_of_the_value() -> None:
    """6,400 secrets over 16 cohorts give binomial counts; this fails falsely with probability
    ALPHA.

    The cohort is decided before any value is seen, and stays. In the twin, 64 devices share a
    secret.
    """
    rows: list[int] = []
    for i in range(6400):
        encoder = ONE_TIME.encoder(secret=i.to_bytes(32, "big"))
        seen = {number(ONE_TIME, encoder.encode(value))[0] for value in ("lol", "afk")}
        assert len(seen) == 1
        rows += seen
    uniform = dict.fromkeys(range(16), 1 / 16)
    assert law_p(np.array(rows), uniform) > ALPHA
    assert law_p(np.repeat(rows[::64], 64), uniform) < ALPHA


@pytest.mark.exact
@pytest.mark.parametrize(
    "places",
    [
        PolynomialBloom("00ff", 16, 3),
        Md5Bloom("rappor-md5-1byte", 16, 3),
        Md5Bloom("rappor-md5-le", 300, 2),
        Md5Bloom("rappor-md5-be16", 300, 2),
        CityBloom(64, 3),
    ],
    ids=str,
)
def test_bulk_filters_equal_scalar_filters(places: Addressing) -> None:
    values = [f"value {i}" for i in range(40)]
    points = bulk.points(places, 5, values)
    for row in range(5):
        at = np.full(len(values), row, dtype=np.uint32)
        found = bulk.columns(places, 5, points, at)
        scalar = [places.cells(places.point(value), row) for value in values]
        kept = [tuple(sorted(set(cells.tolist()) - {bulk.NO_COLUMN})) for cells in found]
        assert kept == scalar
        assert [int((cells != bulk.NO_COLUMN).sum()) for cells in found] == [
            len(cells) for cells in scalar
        ]


BASE = {"bits": 8, "hashes": 2, "cohorts": 4, "f": 0.5, "p": 0.25, "q": 0.75, "seed": "00"}


@pytest.mark.exact
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 3}, "twice the hashes"),
        ({"bits": 8.0}, "whole number"),
        ({"hashes": 0}, "hashes must be a whole number"),
        ({"cohorts": 0}, "cohorts must be a whole number"),
        ({"f": 1.0}, "f below 1"),
        ({"f": 0.001, "permanent": "rappor-cpp"}, "f is so small"),
        ({"scheme": ["identity"]}, "scheme must be one of"),
        ({"permanent": ["keyed"]}, "permanent must be one of"),
        ({"f": math.nan}, "f must be a number from 0 to 1"),
        ({"p": 0.75}, "p must be below q"),
        ({"q": math.inf}, "q must be a number from 0 to 1"),
        ({"f": 0, "p": 0, "q": 1}, "give a value away"),
        ({"f": 0, "p": 0}, "give a value away"),
        ({"seed": ""}, "seed must be"),
        ({"scheme": "sha1"}, "scheme must be one of"),
        ({"scheme": "rappor-md5-1byte"}, "has no seed"),
        ({"scheme": "rappor-md5-1byte", "seed": "", "bits": 512}, "256 bits at most"),
        ({"scheme": "rappor-md5-be16", "seed": "", "bits": 32, "hashes": 9}, "holds 8 hashes"),
        ({"scheme": "rappor-md5-1byte", "seed": "", "cohorts": 3}, "power of two"),
        ({"permanent": "rappor-java", "cohorts": 256}, "128 cohorts at most"),
        ({"permanent": "rappor-python", "bits": 64}, "32 bits at most"),
        ({"permanent": "rappor-cpp", "bits": 63}, "multiple of 8"),
        ({"permanent": "none"}, "permanent must be one of"),
        ({"categories": ("a", "b")}, 'only scheme "identity"'),
        ({"scheme": "identity", "seed": ""}, "one hash and one cohort"),
    ],
)
def test_impossible_parameters_are_one_clear_line(change: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Rappor(**{**BASE, **change})  # type: ignore[arg-type]


@pytest.mark.exact
def test_basic_rappor_has_a_bit_for_each_category_or_number() -> None:
    named = Rappor(scheme="identity", categories=("a", "b", "c"), f=0.5, p=0.25, q=0.75)
    assert (named.bits, named.cells("c", 0)) == (3, (2,))
    numbered = Rappor(scheme="identity", bits=12, f=0.5, p=0.25, q=0.75)
    assert numbered.cells("11", 0) == (11,)
    for few in (("a",), ("a", "a"), ()):
        with pytest.raises(ParameterError, match="2 or more"):
            Rappor(scheme="identity", categories=few, f=0.5, p=0.25, q=0.75)


@pytest.mark.exact
@pytest.mark.parametrize(
    "arguments",
    [
        {"secret": b"short"},
        {"epoch": "e", "metric": "m"},
        {"secret": "text" * 8},
        {"metric": "m"},
    ],
)
def test_a_secret_is_long_enough_or_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="a secret must be bytes, 16 or more"):
        ONE_TIME.encoder(**arguments)  # type: ignore[arg-type]


@pytest.mark.exact
def test_a_response_that_forgets_the_metric_refuses_one() -> None:
    mechanism = Rappor(bits=8, f=0.5, p=0.25, q=0.75, seed="00", permanent="rappor-python")
    with pytest.raises(ParameterError, match="secret of its own"):
        mechanism.encoder(secret=bytes(32), metric="a/1")
    mechanism.encoder(secret=bytes(32)).encode("lol")


@pytest.mark.exact
@given(st.floats(0, 1, exclude_max=True))
def test_every_f_is_kept_exactly_and_never_made_smaller(f: float) -> None:
    run = KeyedFilter.round_f(Fraction(f))
    assert f <= run < Fraction(f) + Fraction(1, 2**62)
    assert Fraction(float(run)) == run, "the number kept is the number that runs"
    assert (run / 2 * 2**64).denominator == 1, "and so are its thresholds"


@pytest.mark.exact
def test_every_scheme_is_known_to_the_mechanism() -> None:
    for scheme in (*MD5_SCHEMES, "chromium-city64"):
        mechanism = Rappor(bits=16, hashes=2, cohorts=4, f=0.5, p=0.25, q=0.75, scheme=scheme)
        assert len(mechanism.encoder(SystemBits()).encode("a")) == 13
        assert mechanism.encoder(SeededBits(b"")).encode(b"a") == mechanism.encoder(
            SeededBits(b"")
        ).encode("a")
