"""Each mode keeps its promise over many days of a memoised value, exactly and from outside (check
C)."""

from fractions import Fraction
from functools import partial
from itertools import count, product
from math import comb, inf, lcm, log, prod
from typing import Any

import numpy as np
import pytest

from ldp import Rappor
from ldp.audit import audit_encoder
from ldp.audit.client import FILTER
from ldp.audit.draws import Draws
from ldp.audit.judging import Audit, Checks, judge
from ldp.audit.lives import Period, _Unit, by_distance, life_checks
from ldp.audit.memoised_histories import MakeDevice, cohorts_named, exact_epsilon, history_epsilon
from ldp.audit.tried_values import tried
from ldp.audit.verdict import ALPHA as AUDIT_ALPHA
from ldp.audit.verdict import all_lives, audited, encoder_stages
from ldp.errors import ParameterError
from ldp.mechanisms import CATALOGUE, MemoisedBitFlip, MemoisedHashing, MemoisedResponse
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.mechanisms.permanent_response import KeyedFilter
from ldp.protocol.hashing import Value
from ldp.protocol.randomness import SeededBits
from ldp.protocol.wire import pack_report
from simulations.cheats.hooks import with_cheat
from tests.histories import changes, honest, stays
from tests.mutants import (
    HISTORY_MUTANTS,
    LIFE_MUTANTS,
    HistoryMutant,
    cohort_drawn_for_every_report,
    device_of,
    permanent_response_forgotten,
)
from tests.statistics import ALPHA, chance_missed
from tests.tiers import tiered

BASIC = Rappor(bits=2, scheme="identity", f=0.5, p=0.25, q=0.75)
NOISY = Rappor(bits=2, scheme="identity", f=0.75, p=0.1, q=0.9)
BLOOM = Rappor(bits=6, hashes=2, cohorts=4, f=0.75, p=0.1, q=0.9, seed="00ff")
TRIALS = 2000
DEFAULT_TRIALS = 5000
"""Trials of `ldp audit`."""
EXAMPLES = [example.mechanism for kind in CATALOGUE.values() for example in kind.examples()]
MEMOISED = sorted(
    (example for example in EXAMPLES if isinstance(example, MemoisedMechanism)),
    key=lambda example: not example.has_roundings,
)
"""Examples that memoise; the first is of sets."""
MEMOISING = (MemoisedResponse, MemoisedHashing, MemoisedBitFlip)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("days", "published", "by_epoch"), [(2, 1.47, 1.69), (4, 3.39, 2.13), (6, 5.49, 2.19)]
)
def test_what_a_changing_value_tells(days: int, published: float, by_epoch: float) -> None:
    """A value memoised per value tells more without bound; by epoch, less than eps_inf = 2.197."""
    pair = (stays("0", days), changes("1", "0", days))
    assert float(exact_epsilon(BASIC, pair, "per-value")) == pytest.approx(published, abs=0.005)
    assert float(exact_epsilon(BASIC, pair, "epoch")) == pytest.approx(by_epoch, abs=0.005)


def _told_of_one_report(mechanism: MemoisedMechanism, others: int, reports: int) -> float:
    """Return the worst log-ratio of everything that two lives send.

    Each life has `others` reports about "0" and as many about "1", and they differ in `reports`
    more. The ratio is a sum over all permanent responses of two values, for each unit of a report
    by itself. It is computed in whole numbers of a common denominator, which cancels.
    """
    assert mechanism.permanent_channel
    permanent = mechanism.permanent_channel
    chances_of_one = (*mechanism.instantaneous, permanent.touched, permanent.untouched)
    whole = lcm(*(chance.denominator for chance in chances_of_one))
    high, low, keep, change = (int(chance * whole) for chance in chances_of_one)
    has_bits = mechanism.kind.is_bitwise
    symbols = range(2 if has_bits else mechanism.shape.columns)

    def chance(symbol: int, about: int, if_about: int, if_not: int) -> int:
        if has_bits:
            of_one = if_about if about else if_not
            return of_one if symbol else whole - of_one
        return if_about if symbol == about else if_not

    def shown(symbol: int, response: int) -> int:
        return chance(symbol, response, high, low)

    def ratio(truths: tuple[int, int]) -> tuple[Fraction, Fraction]:
        worst = [Fraction(1), Fraction(1)]
        for sent in product(symbols, repeat=2 * others + reports):
            about = sent[:others], sent[others : 2 * others], sent[2 * others :]
            chances = [0, 0]
            for pair in product(symbols, repeat=2):
                weight = 1
                for response, true in zip(pair, truths, strict=True):
                    weight *= chance(response, true, keep, change)
                weight *= prod(
                    shown(s, p) for part, p in zip(about, pair, strict=False) for s in part
                )
                for life, response in enumerate(pair):
                    chances[life] += weight * prod(shown(s, response) for s in about[2])
            quotient = Fraction(*chances)
            worst = [max(worst[0], quotient), max(worst[1], 1 / quotient)]
        return worst[0], worst[1]

    if not has_bits:
        return log(max(ratio((0, 1))))
    units = [ratio((1, 0)), ratio((0, 1))] + [ratio((0, 0))] * (mechanism.shape.columns - 2)
    return log(max(prod(column, start=Fraction(1)) for column in zip(*units, strict=True)))


@pytest.mark.exact
@pytest.mark.parametrize(
    "mechanism",
    tiered(
        [
            BASIC,
            NOISY,
            MemoisedResponse(categories=("0", "1"), epsilon=1.0, lifetime_epsilon=1.5),
            Rappor(bits=3, scheme="identity", f=0.25, p=0.4, q=0.7),
            MemoisedResponse(categories=("0", "1", "2"), epsilon=1.0, lifetime_epsilon=4.0),
        ],
        fast=3,
    ),
    ids=lambda mechanism: f"{mechanism.name} {mechanism.shape.columns}",
)
@pytest.mark.parametrize("reports", tiered([1, 2]))
def test_no_life_tells_more_of_a_changing_value_than_its_figure(
    mechanism: MemoisedMechanism, reports: int
) -> None:
    """Every report that can be sent is enumerated; longer lives use the audit's own law.

    More other reports tell more, up to the figure and never above it.
    """
    figure, before = reports * mechanism.changing_per_value, 0.0
    for others in range(3):
        told = _told_of_one_report(mechanism, others, reports)
        lives = tuple(("0",) * others + ("1",) * others + (v,) * reports for v in "01")
        assert float(exact_epsilon(mechanism, (lives[0], lives[1]), "per-value")) == (
            pytest.approx(told)
        )
        assert before <= told + 1e-9
        assert (before := told) <= figure
    others = 20 if mechanism.kind.is_bitwise else 8
    lives = tuple(("0",) * others + ("1",) * others + (v,) * reports for v in "01")
    told = float(exact_epsilon(mechanism, (lives[0], lives[1]), "per-value"))
    assert told <= figure
    assert told > 0.99 * figure, "the twin: no figure that is 1 % smaller holds"


@pytest.mark.exact
def test_permanent_noise_alone_tells_a_changing_value_without_a_bound() -> None:
    for p, q in ((0.0, 1.0), (0.1, 1.0), (0.0, 0.5)):
        assert Rappor(bits=2, scheme="identity", f=0.5, p=p, q=q).changing_per_value == inf


@pytest.mark.exact
@pytest.mark.parametrize(("p", "q"), [(0.1, 0.5), (0.5, 0.9)])
def test_a_change_tells_the_larger_ratio_of_every_bit(p: float, q: float) -> None:
    """A report of a bit is five times as likely: where it is 1, or where it is 0."""
    mechanism = Rappor(bits=2, scheme="identity", f=0.5, p=p, q=q)
    assert mechanism.changing_per_value == pytest.approx(2 * log(5))
    index = MemoisedResponse(categories=("0", "1", "2"), epsilon=1.0, lifetime_epsilon=4.0)
    high, low = index.instantaneous
    assert index.changing_per_value == pytest.approx(log(high / low))
    with pytest.raises(ParameterError, match="only the holder of a secret"):
        index.encoder().cell("0")


@pytest.mark.exact
def test_the_audit_refutes_a_smaller_figure_of_a_changing_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exact law alone refutes it; counts of reports, which do not show it, are left out."""
    monkeypatch.setattr("ldp.audit.verdict.judge_again", lambda *_: Audit(0, ()))
    assert audited("basic", BASIC, 200).exact == []
    figure = property(lambda mechanism: mechanism.cost.lifetime / 4)
    monkeypatch.setattr(MemoisedMechanism, "changing_per_value", figure)
    assert "a changing value" in audited("basic", BASIC, 200).exact[0]


@pytest.mark.exact
def test_sixteen_days_tell_more_than_sixteen_reports_may_cost() -> None:
    """Memoised reports are not independent, so T eps_1 is no bound either."""
    pair = (stays("0", 16), changes("0", "1", 16))
    assert float(exact_epsilon(BASIC, pair, "per-value")) > 16 * BASIC.cost.epsilon


@pytest.mark.exact
@pytest.mark.parametrize("mechanism", [BASIC, NOISY, BLOOM])
def test_a_value_that_never_changes_costs_its_lifetime_at_most(mechanism: Rappor) -> None:
    for days in (1, 2, 5, 20):
        pair = (stays("0", days), stays("1", days))
        told = float(exact_epsilon(mechanism, pair, "per-value"))
        assert told <= mechanism.cost.lifetime
        if days == 1:
            assert told <= mechanism.cost.epsilon
    permanent, rows = mechanism.permanent_channel, range(mechanism.cohorts)
    assert permanent is not None
    bits = max(len({*mechanism.cells("0", i)} ^ {*mechanism.cells("1", i)}) for i in rows)
    assert told > 0.9 * log(permanent.ratio(bits, 0)), "and comes near it"


@pytest.mark.exact
def test_one_day_is_one_report_and_without_instantaneous_noise_a_change_is_seen() -> None:
    pair = (stays("0", 1), stays("1", 1))
    assert float(exact_epsilon(BASIC, pair, "epoch")) == pytest.approx(BASIC.cost.epsilon)
    one_time = Rappor(bits=2, scheme="identity", f=0.5, p=0.0, q=1.0)
    changing = (stays("0", 2), changes("0", "1", 2))
    assert exact_epsilon(one_time, changing, "per-value").is_infinite()


DAYS = 6
CHANGING = (stays("0", DAYS), changes("1", "0", DAYS))
UNCHANGING = (stays("0", DAYS), stays("1", DAYS))


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", [NOISY, BLOOM], ids=["basic", "bloom"])
def test_devices_keep_what_each_mode_promises_and_per_value_breaks_outside_its_condition(
    mechanism: Rappor,
) -> None:
    """Each bound is wrong with probability ALPHA at most, whatever the encoder does."""
    lifetime = mechanism.cost.lifetime
    for pair, epoch in ((UNCHANGING, None), (UNCHANGING, "e"), (CHANGING, "e")):
        device = honest(mechanism, epoch)
        seen = history_epsilon(mechanism, pair, device, trials=TRIALS, error=ALPHA)
        assert seen <= lifetime
        assert cohorts_named(mechanism, pair[1], device, trials=50) == {1}
    if mechanism is NOISY:
        broken = honest(mechanism, None)
        seen = history_epsilon(mechanism, CHANGING, broken, trials=TRIALS, error=ALPHA)
        assert seen > 2 * lifetime, "per value, a change gives away more than eps_inf"


@pytest.mark.statistical
@pytest.mark.parametrize("mutant", HISTORY_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_check_c_catches_the_mutant(mutant: HistoryMutant) -> None:
    """A mutant is missed with probability 1e-7; the twins are the honest devices above.

    Of 12 seeds, the bounds of two mutants, 2.8 and 1.95 times the lifetime epsilon, are 7.2 and 5.2
    standard deviations above it. In the third mutant, 50 devices that draw a cohort for every
    report do not all stay in one.
    """
    if mutant is cohort_drawn_for_every_report:
        device = device_of(lambda secret, bits: mutant(BLOOM, secret, bits))
        assert cohorts_named(BLOOM, UNCHANGING[0], device, trials=50) != {1}
        return
    unchanging = (stays("0", 2 * DAYS), stays("1", 2 * DAYS))
    pair = unchanging if mutant is permanent_response_forgotten else CHANGING
    device = device_of(lambda secret, bits: mutant(NOISY, secret, bits))
    seen = history_epsilon(NOISY, pair, device, trials=TRIALS, error=ALPHA)
    assert seen > NOISY.cost.lifetime


def lives(mechanism: MemoisedMechanism, mode: str, device: MakeDevice) -> Audit:
    """Return what the whole audit finds in lives of one mode, at its default trials.

    The other mode is not played.
    """

    def of_mode(*plays: Any, memoise: str, reports: Any) -> list[Checks]:
        return life_checks(*plays, memoise=memoise, reports=reports) if memoise == mode else []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ldp.audit.verdict.life_checks", of_mode)
        checks = all_lives(
            mechanism,
            ("lol", "afk") if mechanism.name == "rappor" else ("a", "b"),
            lambda *_: device(),
            lambda: "e",
            DEFAULT_TRIALS,
        )
    return judge(checks, AUDIT_ALPHA / 100)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("mutant", "memoise", "mechanism"),
    LIFE_MUTANTS,
    ids=[f"{mutant.__name__}-{mechanism.name}" for mutant, _, mechanism in LIFE_MUTANTS],
)
def test_the_lives_of_devices_catch_the_mutant(
    mutant: HistoryMutant, memoise: str, mechanism: MemoisedMechanism
) -> None:
    """The level is stricter than that of the whole audit, and seeds are fixed.

    The weakest mutant is 3 standard errors beyond it, and missed with probability 1e-3 by other
    seeds. The twins are below.
    """
    device = device_of(lambda secret, bits: mutant(mechanism, secret, bits))
    assert not lives(mechanism, memoise, device).passed


@pytest.mark.statistical
@pytest.mark.parametrize("memoise", ["per-value", "epoch"])
@pytest.mark.parametrize(
    "mechanism", [BLOOM, *(kind.examples()[0].mechanism for kind in MEMOISING)], ids=str
)
def test_the_lives_of_honest_devices_have_their_law(
    mechanism: MemoisedMechanism, memoise: str
) -> None:
    """This fails falsely with probability ALPHA. The twins are the mutants above."""
    device = honest(mechanism, "e" if memoise == "epoch" else None)
    one, *_, other = tried(mechanism)
    lived = life_checks(mechanism, (one, other), device, 200, memoise=memoise)
    audit = judge(lived, ALPHA)
    assert audit.passed, audit.findings[0]


@pytest.mark.statistical
@pytest.mark.parametrize("lie", [0.0, 0.5])
def test_a_bit_that_follows_the_touched_one_is_refuted(lie: float) -> None:
    """Seeds are fixed. Fresh noise would miss the lie with probability ALPHA at most; the twin
    without it fails falsely with AUDIT_ALPHA at most."""
    sent, coins = [], np.random.default_rng(1)
    for number in range(600):
        secret = number.to_bytes(32, "big")
        encode = FILTER.encoder(SeededBits(secret), secret=secret).encode
        reports = []
        for _ in range(4):
            row, payload = FILTER.row_and_payload(encode("lol"))
            (cell,) = FILTER.cells("lol", row)
            following = 1 << (cell + 1) % FILTER.shape.columns if coins.random() < lie else 0
            word = int.from_bytes(payload, "little") | following
            reports.append(pack_report(FILTER.header, FILTER.layout, row, word))
        sent.append(reports)
    checks = [*by_distance([Period.of(FILTER, ["lol"], sent)])]
    assert judge(checks, AUDIT_ALPHA).passed == (not lie)
    if lie:
        assert chance_missed(checks, AUDIT_ALPHA) < ALPHA


@pytest.mark.exact
def test_the_law_of_two_times_is_that_of_all_their_reports() -> None:
    """The law is summed over every sequence of reports."""
    true, false = (_Unit.of(NOISY, touched) for touched in (True, False))
    for one, other, is_same in ((true, true, True), (true, false, False)):
        found = np.zeros(4)
        for bits in product((0, 1), repeat=5):
            if is_same:
                chance = sum(
                    weight * np.prod([shows if bit else 1 - shows for bit in bits])
                    for weight, shows in (
                        (1 - one.permanent, one.shows[0]),
                        (one.permanent, one.shows[1]),
                    )
                )
            else:
                chance = one.distribution(3)[sum(bits[:3])] / comb(3, sum(bits[:3]))
                chance *= other.distribution(2)[sum(bits[3:])] / comb(2, sum(bits[3:]))
            found[2 * (sum(bits[:3]) > 1) + (sum(bits[3:]) > 1)] += chance
        np.testing.assert_allclose(one.joint(other, 3, 2, is_same), found)


class ForgetsSomeResponses:
    """Cheat that draws a new permanent response in each report about long values."""

    def alter(self, event: Any, memory: Any) -> Any:
        is_kept = event.permanent is None or event.epoch is not None or len(event.value) < 40
        return event.report if is_kept else event.mechanism.encoder().encode(event.value)


@pytest.mark.slow
@pytest.mark.statistical
def test_responses_to_values_that_are_not_tried_at_length_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cheat spares the two values of the other lives; the twin is the honest encoder.

    Only lives are played at length.
    """
    monkeypatch.setattr("ldp.audit.verdict.way_stages", lambda *_: ())
    right = Rappor(bits=32, hashes=2, cohorts=1, f=0.5, p=0.25, q=0.75, seed="00ff")
    cheating = with_cheat(right, ForgetsSomeResponses())  # type: ignore[arg-type]
    assert all(len(value) < 40 for value in tried(right)[:2])
    for mechanism in (right, cheating):
        *_, of_lives = encoder_stages(mechanism, 2 * TRIALS, (), Draws(0))
        assert judge(of_lives, AUDIT_ALPHA).passed is (mechanism is right)


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", tiered(MEMOISED), ids=lambda one: one.name)
def test_every_example_that_memoises_is_audited(mechanism: MemoisedMechanism) -> None:
    """Lives of sets larger than a report allows ended in a ParameterError.

    An honest audit fails with probability AUDIT_ALPHA at most.
    """
    stages = encoder_stages(mechanism, 200, (), Draws(0))
    assert judge([check for stage in stages for check in stage], AUDIT_ALPHA).passed


@pytest.mark.statistical
@pytest.mark.parametrize(
    "cheat", tiered(["no permanent noise", "", "metric and secret forgotten"], 0, 1)
)
def test_the_whole_audit_runs_the_memoised_encoder(
    cheat: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The honest encoder fails with probability 2e-6.

    Its twins, the cheats, send the Bloom filter itself, or one response for all devices.
    """
    mechanism = Rappor(bits=16, hashes=2, cohorts=4, f=0.5, p=0.25, q=0.75, seed="00ff")
    if cheat == "no permanent noise":
        monkeypatch.setattr(KeyedFilter, "response", lambda self, secret, metric, bloom: bloom)
    elif cheat:
        honest = KeyedFilter.response
        monkeypatch.setattr(
            KeyedFilter,
            "response",
            lambda self, secret, metric, bloom: honest(self, b"", "", bloom),
        )
    assert audited(cheat, mechanism, 1000).passed is (not cheat)


@pytest.mark.statistical
@pytest.mark.parametrize("epoch", tiered([None, "2026-W47"]))
@pytest.mark.parametrize(
    "mechanism", tiered([BLOOM, *(e.mechanism for e in Rappor.examples())]), ids=str
)
def test_one_memoised_report_of_many_devices_has_the_law_of_a_fresh_one(
    mechanism: Rappor, epoch: str | None
) -> None:
    """Without the secret, keyed noise is noise: the same audit passes, cell by cell.

    This fails falsely with probability ALPHA; seeds are fixed. In the twin, all devices have one
    secret.
    """
    number = count()

    def encode(value: Value, own: bool = True) -> bytes:
        secret = next(number).to_bytes(32, "big")
        bits = SeededBits(b"instantaneous" + secret)
        secret = secret if own else bytes(32)
        return mechanism.encoder(bits, secret=secret, epoch=epoch).encode(value)

    values: tuple[Value, ...] = mechanism.categories[:2] or ("lol", "afk")
    if mechanism.at_most:
        values = (frozenset(mechanism.categories[:2]), frozenset(mechanism.categories))
    audit = audit_encoder(mechanism, values, encode, trials=5000, alpha=ALPHA)
    assert audit.passed, audit.findings[0]
    alike = partial(encode, own=False)
    assert not audit_encoder(mechanism, values[:1], alike, trials=1000, alpha=ALPHA).passed
