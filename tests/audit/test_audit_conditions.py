"""The audit refutes cheats that show only on some of people's values, or after some of them.

The twins are the same encoders without a cheat. Bits are seeded, so results repeat.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain, count, islice, product
from math import prod
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from ldp.audit import judging
from ldp.audit.binomial_checks import sum_checks
from ldp.audit.black_box import reports_of
from ldp.audit.cells import check_values
from ldp.audit.conditions import Seen, _moduli, _turns, condition_checks, evened
from ldp.audit.draws import Draws
from ldp.audit.encoder import Way
from ldp.audit.judging import (
    Checks,
    Finding,
    counted_again,
    judge,
    judge_again,
    size_of,
    suspects,
)
from ldp.audit.reports import Reports
from ldp.audit.tried_values import drawn_values
from ldp.audit.verdict import ALPHA as AUDIT_ALPHA
from ldp.audit.verdict import CALLS_EACH, encoder_stages, way_stages
from ldp.bulk.counting import count_by_two
from ldp.mechanisms import (
    CATALOGUE,
    HadamardCountMeanSketch,
    HierarchicalHistogram,
    JointReport,
    LocalHashing,
    Piecewise,
    PrivSet,
    RandomizedResponse,
    UnaryEncoding,
)
from ldp.protocol.randomness import SeededBits
from ldp.protocol.wire import pack_report, split_report
from simulations.cheats.hooks import with_cheat
from simulations.cheats.paths import first_finding
from tests.statistics import ALPHA, chance_missed
from tests.tiers import tiered

ASKED = RandomizedResponse(categories=("no", "yes"), epsilon=1.0)
JOINT = JointReport(of=(ASKED, ASKED))
LATENCY = HierarchicalHistogram(epsilon=1.0, bounds=(0.0, 1000.0), buckets=32, branching=2)
AMOUNT = Piecewise(epsilon=1.0, bounds=(0.0, 1000.0))
SYMPTOMS = PrivSet(categories=tuple("abcdefgh"), at_most=3, epsilon=1.0, size=2)
MANY = PrivSet(categories=tuple(f"c{i}" for i in range(86)), at_most=3, epsilon=1.0, size=2)
CITIES = RandomizedResponse(categories=tuple("abcdef"), epsilon=1.0)
ANSWERS = RandomizedResponse(categories=("a", "b", "c"), epsilon=1.0)
BITS = UnaryEncoding(categories=("a", "b", "c"), epsilon=1.0)
LISTS = JointReport(of=(replace(CITIES, epsilon=0.1), replace(CITIES, epsilon=0.1)))
COIN = CATALOGUE["coin"].examples()[0].mechanism
HASHED = LocalHashing(epsilon=1.0, buckets=24, rows=64, seed="00ff")
SIGNS = HadamardCountMeanSketch(epsilon=1.0, rows=3, width=8, seed="00ff")
TRIALS = 2000
Encode = Callable[[Any], bytes]
Cheat = Callable[[Encode, Any], Encode]


def clear_where(condition: Callable[[Any], bool]) -> Cheat:
    """Return the cheat that reports these values nearly without noise."""

    def cheat(honest: Encode, mechanism: Any) -> Encode:
        strong: Any = (
            JointReport(of=tuple(replace(one, epsilon=12.0) for one in mechanism.of))
            if isinstance(mechanism, JointReport)
            else replace(mechanism, epsilon=12.0)
        )
        clear, size = strong.encoder(SeededBits(b"clear")), len(mechanism.header)

        def encode(value: Any) -> bytes:
            is_clear = condition(value)
            return mechanism.header + clear.encode(value)[size:] if is_clear else honest(value)

        return encode

    return cheat


def lie_names_the_value_before(honest: Encode, mechanism: Any) -> Encode:
    """Let lies name the value before; a report is one column, which is its last byte."""
    before, point = mechanism.categories[0], mechanism.addressing.point

    def encode(value: Any) -> bytes:
        nonlocal before
        report, last, before = honest(value), before, value
        is_lie = report[-1] != point(value) and last != value
        return report[:-1] + bytes([point(last)]) if is_lie else report

    return encode


def true_where(condition: Callable[[Any], bool]) -> Cheat:
    """Return the cheat that never lies about these values, but still draws among their cells."""

    def cheat(honest: Encode, mechanism: Any) -> Encode:
        def encode(value: Any) -> bytes:
            report = honest(value)
            while condition(value):
                row, payload = split_report(report, mechanism.header, mechanism.layout)
                number = mechanism.layout.payload_number(payload)
                steps = mechanism.roundings(value, row)
                if any(mechanism.layout.names(number, c) for _, cells in steps for c in cells):
                    break
                report = honest(value)
            return report

        return encode

    return cheat


def repeats_some_calls(honest: Encode, mechanism: Any) -> Encode:
    """In one call of 40, send the last report about the value again, unless it is the report
    before."""
    last, calls, before = dict[Any, bytes](), count(), None

    def encode(value: Any) -> bytes:
        nonlocal before
        is_again = next(calls) % 40 == 8 and value != before
        report, before = honest(value), value
        last[value] = last.get(value, report) if is_again else report
        return last[value]

    return encode


def repeats_within_rows(honest: Encode, mechanism: Any) -> Encode:
    """In one call of 8, send the last payload of the row, whatever its value is."""
    last, calls = dict[int, bytes](), count()

    def encode(value: Any) -> bytes:
        report, is_again = honest(value), next(calls) % 8 == 3
        row, _ = split_report(report, mechanism.header, mechanism.layout)
        last[row] = last.get(row, report) if is_again else report
        return last[row]

    return encode


def as_true_as_before(honest: Encode, mechanism: Any) -> Encode:
    """Make one sign in 4 true if the sign before is true, else a lie."""
    calls, was_true = count(), True

    def encode(value: Any) -> bytes:
        nonlocal was_true
        is_shared = next(calls) % 4 == 3
        while True:
            report = honest(value)
            row, payload = split_report(report, mechanism.header, mechanism.layout)
            (cell,) = mechanism.cells(value, row)
            names = mechanism.layout.names(mechanism.layout.payload_number(payload), cell)
            if names == was_true or not is_shared:
                was_true = names
                return report

    return encode


CHEATS: dict[str, tuple[Any, Cheat]] = {
    "unequal answers": (JOINT, clear_where(lambda pair: pair[0] != pair[1])),
    "five answers or more": (SYMPTOMS, clear_where(lambda answers: len(answers) > 4)),
    "the value before": (CITIES, lie_names_the_value_before),
    "a payload again": (SIGNS, repeats_within_rows),
    "amounts far out of bounds": (AMOUNT, true_where(lambda number: abs(number) > 2000)),
    "no edge of a bin": (LATENCY, clear_where(lambda number: number % 31.25 != 0)),
    "negative numbers": (LATENCY, clear_where(lambda number: number < 0)),
    "a report again": (HASHED, repeats_some_calls),
    "as true as before": (SIGNS, as_true_as_before),
}


def stages_of(mechanism: Any, encode: Encode) -> Iterator[list[Checks]]:
    return way_stages(mechanism, Way(lambda: encode), TRIALS, Draws(0))


def chance_to_pass(name: str) -> float:
    """Return `chance_missed` of a cheat by its first stage, at a tenth of the level.

    Later stages have less than a tenth of the counts.
    """
    mechanism, cheat = (CHEATS | OF_TWO)[name]
    encode = cheat(mechanism.encoder(SeededBits(b"device")).encode, mechanism)
    return chance_missed(next(stages_of(mechanism, encode)), AUDIT_ALPHA / 10)


@pytest.mark.statistical
@pytest.mark.parametrize("name", tiered(CHEATS, 4))
def test_a_cheat_on_values_that_people_have_is_refuted(name: str) -> None:
    """Fresh noise, with the same values tried again, would miss one with probability ALPHA at
    most."""
    assert chance_to_pass(name) < ALPHA


MORE = tuple(f"c{i}" for i in range(40))
ONE_OF_MORE = RandomizedResponse(categories=MORE, epsilon=1.0)
BITS_OF_MORE = UnaryEncoding(categories=MORE, epsilon=1.0)
HONEST = [JOINT, SYMPTOMS, CITIES, COIN, ONE_OF_MORE, BITS_OF_MORE]
SLOW = [LATENCY, AMOUNT, HASHED, MANY, LISTS]


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", tiered([*HONEST, *SLOW], len(HONEST)))
def test_the_honest_encoder_of_each_cheat_passes(mechanism: Any) -> None:
    """Each encoder fails falsely with probability AUDIT_ALPHA; the twins are the cheats above.

    Sets of MANY answers have too many choices for their whole law. The parts of LISTS name a column
    each, so lies of one part are not independent.
    """
    stages = stages_of(mechanism, mechanism.encoder(SeededBits(b"device")).encode)
    assert judge([*chain.from_iterable(stages)], AUDIT_ALPHA).passed


@pytest.mark.exact
def test_values_beyond_those_that_a_mechanism_is_made_for_are_drawn() -> None:
    generator = np.random.default_rng(1)
    numbers: Any = drawn_values(LATENCY, generator)
    assert min(numbers) < 0
    assert max(numbers) > 1e6
    assert any(0 < number < 1 for number in numbers)
    assert sum(type(number) is int for number in numbers) >= 8
    sizes = [len(answers) for answers in drawn_values(MANY, generator)]
    assert max(sizes) > 80
    assert sum(size <= 3 for size in sizes) > 60
    assert len(drawn_values(JOINT, generator)) == 4


def plain_sometimes(honest: Encode, mechanism: Any) -> Encode:
    """Send one report in 28 without noise.

    It is a report of every fourth call, if the value's place is 3 modulo 7.
    """
    calls, (header, layout) = count(), (mechanism.header, mechanism.layout)

    def encode(value: Any) -> bytes:
        report, point = honest(value), mechanism.addressing.point(value)
        if next(calls) % 4 != 1 or point % 7 != 3:
            return report
        row, _ = split_report(report, header, layout)
        return pack_report(
            header, layout, row, layout.payload_of(mechanism.addressing.cells(point, row))
        )

    return encode


def parity_sometimes(honest: Encode, mechanism: Any) -> Encode:
    """After a value whose place is 0 modulo 3, make lies as odd as the value's place.

    The last byte is the column.
    """
    before, point = mechanism.categories[0], mechanism.addressing.point

    def encode(value: Any) -> bytes:
        nonlocal before
        report, last, before = honest(value), before, value
        while point(last) % 3 == 0 and (report[-1] - point(value)) % 2:
            report = honest(value)
        return report

    return encode


def third_sometimes(honest: Encode, mechanism: Any) -> Encode:
    """In every fourth call, make a lie the true column modulo 3.

    The true column is that of the value's hash; the last byte is the column.
    """
    calls, (header, layout) = count(), (mechanism.header, mechanism.layout)

    def encode(value: Any) -> bytes:
        report, is_kept = honest(value), next(calls) % 4 == 1
        row, _ = split_report(report, header, layout)
        (true,) = mechanism.cells(value, row)
        while is_kept and (report[-1] - true) % 3:
            report = honest(value)
            row, _ = split_report(report, header, layout)
            (true,) = mechanism.cells(value, row)
        return report

    return encode


def repeated_sometimes(honest: Encode, mechanism: Any) -> Encode:
    """In every tenth call, repeat the lie of the call five before."""
    calls, lie = count(), honest(mechanism.categories[0])

    def encode(value: Any) -> bytes:
        nonlocal lie
        report, call = honest(value), next(calls) % 10
        lie = report if call == 2 else lie
        return lie if call == 7 and report[-1] != mechanism.addressing.point(value) else report

    return encode


OF_TWO: dict[str, tuple[Any, Cheat]] = {
    "plain, rr": (ONE_OF_MORE, plain_sometimes),
    "plain, oue": (BITS_OF_MORE, plain_sometimes),
    "parity": (ONE_OF_MORE, parity_sometimes),
    "repeated": (ONE_OF_MORE, repeated_sometimes),
    "rest by 3": (HASHED, third_sometimes),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", tiered(OF_TWO, 4))
def test_a_cheat_on_two_things_at_once_is_refuted(name: str) -> None:
    """Fresh noise would miss one with probability ALPHA at most; the honest twins pass above."""
    assert chance_to_pass(name) < ALPHA


@pytest.mark.statistical
def test_a_device_that_is_plain_on_some_calls_is_refuted() -> None:
    """Every third device is plain on its odd calls, which one device alone need not show.

    New devices that make one report each need not show it either. The twin fails falsely with
    probability AUDIT_ALPHA.
    """
    mechanism = ONE_OF_MORE
    devices = count()

    def device(is_honest: bool) -> Encode:
        encoder, number, calls = mechanism.encoder(), next(devices), count()
        clear = replace(mechanism, epsilon=12.0).encoder()

        def encode(value: Any) -> bytes:
            is_plain = next(calls) % 2 and number % 3 == 0 and not is_honest
            report = encoder.encode(value)
            return mechanism.header + clear.encode(value)[-1:] if is_plain else report

        return encode

    def passes(is_honest: bool) -> bool:
        make = partial(device, is_honest)
        stages = way_stages(mechanism, Way(make, CALLS_EACH), TRIALS, Draws(0))
        return judge(next(stages), AUDIT_ALPHA).passed

    assert not passes(is_honest=False)
    assert passes(is_honest=True)


class PlainInOneWeek:
    """Cheat that reports without noise in the seventh week of a year."""

    def alter(self, event: Any, memory: Any) -> Any:
        if not (event.epoch or "").endswith("W07"):
            return event.report
        return event.report[:-1] + bytes([event.mechanism.addressing.point(event.value)])


@pytest.mark.slow
@pytest.mark.statistical
def test_a_device_that_is_plain_in_one_week_is_refuted() -> None:
    """It tells every value in one week of 52; the twin is the honest device, which passes."""
    honest, cheat = CATALOGUE["memoised-rr"].examples()[0].mechanism, PlainInOneWeek()
    cheating = with_cheat(honest, cheat)  # type: ignore[arg-type]
    for mechanism, is_refuted in ((cheating, True), (honest, False)):
        play = partial(encoder_stages, mechanism, TRIALS, ())
        assert (not judge_again(play, 0, AUDIT_ALPHA).passed) is is_refuted


@pytest.mark.slow
@pytest.mark.statistical
def test_devices_that_cheat_for_a_few_hundred_calls_are_refuted() -> None:
    """Each device names its true category in its calls from 150 to 400.

    One device of thousands of calls would show few of these, and new ones of CALLS_EACH none.
    """

    numbers = count()

    class Device:
        def __init__(self) -> None:
            seed = SeededBits(b"device %d" % next(numbers))
            self.honest, self.calls = CITIES.encoder(seed), count()

        def encode(self, value: str) -> bytes:
            report = self.honest.encode(value)
            is_plain = 150 <= next(self.calls) < 400
            return report[:-1] + bytes([CITIES.addressing.point(value)]) if is_plain else report

    kind: Any = type("RandomizedResponse", (RandomizedResponse,), {"encoder": lambda _: Device()})
    cheating = kind(categories=CITIES.categories, epsilon=1.0)
    stages = encoder_stages(cheating, TRIALS, (), Draws(0))
    checks = [*chain.from_iterable(islice(stages, 1, 2))]
    assert chance_missed(checks, AUDIT_ALPHA) < ALPHA


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("mechanism", [ANSWERS, BITS], ids=["columns", "bits"])
def test_what_is_compared_is_binomial_given_how_often_it_could_be_seen(
    mechanism: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All reports of six values are enumerated with their exact probabilities, and counted by few
    numbers.

    Given the number of trials, the number that is seen is binomial. It would not be if each report
    were compared with the one before: a report that repeats a lie is a lie, which the next one can
    repeat.
    """
    for limit in ("CALLS", "DEVICES"):
        monkeypatch.setattr(f"ldp.audit.reports.{limit}", 4)
    monkeypatch.setattr("ldp.audit.conditions.TURNS", {"call": (2,)})
    which = np.array([0, 1, 0, 0, 1, 0] if mechanism is ANSWERS else [0, 1, 0, 0])
    values, layout, calls = mechanism.categories, mechanism.layout, np.arange(which.size) % 4
    cells = [mechanism.cells(values[at], 0) for at in which]
    channel = mechanism.channel
    joint: dict[tuple[str, int], dict[tuple[int, int], float]] = {}
    chances = dict[str, float]()
    for payloads in product(range(layout.payload_limit), repeat=which.size):
        pairs = zip(payloads, cells, strict=True)
        chance = float(
            prod(layout.probability(p, c, channel.touched, channel.untouched) for p, c in pairs)
        )
        sent = [(0, payload.to_bytes(layout.payload_bytes, "little")) for payload in payloads]
        reports = Reports.of(mechanism, values, which, sent, calls, np.zeros_like(calls))
        numbers = [("call", calls, 4), ("value", which, 2)]
        coins = np.random.default_rng(6)
        seen_of_part = Seen.of(reports, numbers, which, coins)
        for what, counts, trials, claimed in condition_checks(seen_of_part, which, coins):
            if what.startswith(("repeated lies", "lie before", "last lie", "truths after")):
                chances[what] = claimed[0]
                for at in range(counts.size):
                    law = joint.setdefault((what, at), {})
                    key = int(trials[at]), int(counts[at])
                    law[key] = law.get(key, 0.0) + chance
    assert any(possible > 1 for law in joint.values() for possible, _ in law)
    assert any(what.endswith("of call by 2") for what, _ in joint)
    for (what, _), law in joint.items():
        for possible in {possible for possible, _ in law}:
            some = [law.get((possible, seen), 0.0) for seen in range(possible + 1)]
            expected = binom.pmf(range(possible + 1), possible, chances[what])
            assert np.array(some) / sum(some) == pytest.approx(expected)


@pytest.mark.exact
def test_reports_of_large_sets_alone_are_checked() -> None:
    """An audit may choose only sets of too many answers to try again; it ended in a ValueError."""
    values, encode = [frozenset("abcde"), frozenset("abcdefg")], SYMPTOMS.encoder().encode
    which, coins = np.arange(40) % 2, np.random.default_rng(1)
    reports = reports_of(SYMPTOMS, [values[at] for at in which], encode)
    plays = which, reports, coins, np.arange(40), np.zeros(40, dtype=int)
    assert [*check_values(SYMPTOMS, values, *plays)]


@pytest.mark.exact
def test_sums_by_two_are_those_of_a_slow_way() -> None:
    generator = np.random.default_rng(4)
    left, right, lies, rows, columns = generator.integers(0, (9, 9, 6, 3, 5), (300, 5)).T
    lies, counted = lies - 1, generator.integers(0, 3, (300, 2)).astype(np.int32)
    touched = generator.random((300, 5)) < 0.3
    rests = [(n[:, None] % np.arange(1, 65)).astype(np.uint8) for n in (left, right)]
    moduli, size = _moduli(6, 9, 40)
    assert any((2 * m, o) in set(zip(*moduli.T[:2], strict=True)) for m, o, _ in moduli)
    marks, packed = np.stack([lies, rows, columns]), np.packbits(touched, 1, bitorder="little")
    cells = packed[:, :0], packed
    sums = count_by_two((rests[0], rests[1]), moduli, size, counted, marks, cells)
    expected, last = np.zeros((size, 6), dtype=int), dict[int, int]()
    for modulus, other, start in moduli.tolist():
        for i in range(300):
            key = start + left[i] % modulus * other + right[i] % other
            expected[key, :2] += counted[i]
            before = last.pop(key, None)
            if before is None:
                last[key] = i
                continue
            if lies[before] >= 0 and not touched[i, lies[before]]:
                expected[key, 2:4] += (columns[i] == lies[before], 1)
            expected[key, 4:] += (rows[i] == rows[before], 1)
    assert (sums == expected).all()
    for axis, length in ((0, 2), (1, 2), (1, 4)):
        slow = Counter[tuple[int, ...]]()
        for both in moduli[:, :2].tolist():
            if both[axis] % length == 0 and both[axis] > length:
                of_both = left % both[0], right % both[1]
                of_both[axis][:] //= length
                for i, key in enumerate(zip(*of_both, strict=True)):
                    slow[*both, *map(int, key)] += int(counted[i, 0])
        turns = sums[_turns(6, 9, 40, axis, length)].sum(axis=1)[:, 0]
        assert sorted(turns) == sorted([*slow.values(), *[0] * (turns.size - len(slow))])


@pytest.mark.exact
@pytest.mark.parametrize("chance", [0.2, 0.5, 0.9])
def test_chances_are_made_equal(chance: float) -> None:
    """Nothing that was seen is dropped where events are added, and nothing is added where some are
    dropped.

    Each of 3 x 3 counts fails falsely with probability ALPHA; the twin is another chance.
    """
    generator, trials = np.random.default_rng(5), 40_000
    for before in (0.1, 0.5, 0.95):
        seen = generator.random(trials) < before
        after = evened(seen, np.full(trials, before), chance, generator)
        assert (seen <= after).all() or (after <= seen).all()
        low, high = binom.ppf([ALPHA / 2, 1 - ALPHA / 2], trials, chance)
        assert low <= after.sum() <= high < binom.ppf(ALPHA / 2, trials, chance + 0.05)


@pytest.mark.statistical
def test_all_checks_together_fail_as_often_as_alpha_says() -> None:
    """2,000 audits of an honest coin, at alpha .2, fail falsely with probability ALPHA.

    The twin is judged at three times that alpha.
    """
    generator, alpha, audits = np.random.default_rng(3), 0.2, 2000

    def failures(at: float) -> int:
        return sum(not judge(_coins(generator), at).passed for _ in range(audits))

    most = binom.isf(ALPHA, audits, alpha)
    assert failures(alpha) <= most < failures(3 * alpha)


def _coins(generator: np.random.Generator) -> list[Checks]:
    """Return the checks of sums and counts of fair coins, thrown 10,000 times each."""
    counts = generator.binomial(10_000, 0.5, 100)
    trials, half = np.full(counts.size, 10_000), np.full(counts.size, 0.5)
    sums = [sum_checks("sum", counts[i : i + 1], trials[i : i + 1], 0.5) for i in range(2)]
    return [*sums, ("counts", counts[2:], trials[2:], half[2:])]


@pytest.mark.slow
@pytest.mark.statistical
def test_an_audit_can_stop_at_its_first_finding() -> None:
    """With the size of the honest audit, the first stage refutes a cheat and the audit stops.

    The honest encoder passes all stages, except with probability AUDIT_ALPHA.
    """
    mechanism, cheat = CHEATS["the value before"]
    size = size_of([*chain.from_iterable(encoder_stages(mechanism, TRIALS, (), Draws(0)))])
    honest = partial(encoder_stages, mechanism, TRIALS, ())
    assert first_finding(honest, 0, AUDIT_ALPHA, size) is None
    encode, stages = cheat(mechanism.encoder(SeededBits(b"device")).encode, mechanism), []

    def play(draws: Draws) -> Iterator[list[Checks]]:
        for stage in way_stages(mechanism, Way(lambda: encode), TRIALS, draws):
            stages.append(stage)
            yield stage

    assert first_finding(play, 0, AUDIT_ALPHA, size) is not None
    assert len(stages) == 1


COINS, TOSSES = 100_000, 10_000


@lru_cache
def _law(chance: float) -> "np.ndarray[Any, Any]":
    return np.asarray(binom.cdf(np.arange(TOSSES), TOSSES, chance))


def _play(draws: Draws, lie: float, coins: int = COINS) -> Iterator[list[Checks]]:
    """Toss coins TOSSES times, one of them biased by `lie` standard errors.

    Quantiles are drawn, because numpy's binomial numbers of one seed have changed.
    """
    counts = np.searchsorted(_law(0.5), draws.coins.random(coins))
    at, law = draws.plan.integers(coins), _law(0.5 + lie / 2 / math.sqrt(TOSSES))
    counts[at] = np.searchsorted(law, draws.coins.random())
    yield [("coin", counts, np.full(coins, TOSSES), np.full(coins, 0.5))]


@pytest.mark.statistical
def test_further_playings_see_smaller_lies_at_one_error_rate() -> None:
    """A coin with a bias of 6 standard errors is found more often by further playings than by one.

    They find it in .87 and .21 of the audits. Fewer than 43 of 60, or more than 24, have a
    probability of 1e-3 each; seeds are fixed. In the twins, audits judge once, or coins are honest.
    """
    found = [judge_again(partial(_play, lie=6.0), seed, 1e-6) for seed in range(60)]
    once = [judge(next(_play(Draws(seed), 6.0)), 1e-6) for seed in range(60)]
    assert sum(not audit.passed for audit in found) >= 43
    assert sum(not audit.passed for audit in once) <= 24
    assert all(judge_again(partial(_play, lie=0.0), seed, 1e-6).passed for seed in range(60))


@pytest.mark.exact
def test_a_suspect_is_not_sought_in_a_check_of_another_size() -> None:
    """A further playing may have a check less, so that the next one of that name is of other
    counts. The twin has the suspect's size."""

    def again(size: int) -> list[Finding]:
        check = "coin", np.full(size, TOSSES), np.full(size, TOSSES), np.full(size, 0.5)
        return [*counted_again(lambda _: [[check]], Draws(0), [("coin", 5, 0, 4)], 1e-6)]

    assert not again(3)
    assert not again(7)
    assert len(again(5)) == 1


@pytest.mark.exact
def test_a_sum_is_suspect_sooner_than_one_of_a_million_counts() -> None:
    """The twin is the same count in a check of many: one of a million honest ones lies so far."""
    tosses, heads = 10_000, 5_250  # p 6e-7
    half, many = np.array([0.5]), np.full(1_000_000, tosses // 2)
    of_sum = "sum", np.array([heads]), np.array([tosses]), half
    of_many = "many", many, np.full(many.size, tosses), np.full(many.size, 0.5)
    assert suspects([[of_sum, of_many]], size_of([of_sum, of_many])) == [("sum", 1, 0, 0)]
    many[0] = heads
    assert not suspects([[of_many]], size_of([of_many]))


@pytest.mark.exact
def test_a_finding_has_the_counts_of_all_further_playings() -> None:
    """Seeds are fixed; the twin is the count of one playing."""
    audits = [judge_again(partial(_play, lie=5.8), seed, 1e-6) for seed in range(30)]
    findings = [finding for audit in audits for finding in audit.findings]
    again = [finding for finding in findings if finding.what.endswith("counted again")]
    playings = {finding.expected / (TOSSES / 2) for finding in again}
    assert len(playings - {1.0}) > 0
    assert playings <= {1.0, 2.0, 3.0}
    for finding in again:
        size = round(2 * finding.expected)
        of_sum = 2 * binom.sf(finding.observed - 1, size, 0.5)
        assert of_sum <= finding.p_value < 5e-7  # the bound on the evidence, and no less


@pytest.mark.slow
@pytest.mark.statistical
def test_further_playings_keep_the_error_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every honest audit has suspects here. Of 300 at an error rate of 0.2 more than 84 fail with
    probability 5e-4 at most; seeds are fixed. The twin, whose further playings repeat the reports
    that made them suspects, fails more often."""
    monkeypatch.setattr(judging, "SUSPECTED", 20)
    monkeypatch.setattr(judging, "LEAST_P", 1.0)
    monkeypatch.setattr(judging, "LEAST_DEVIATION", 0.0)
    audits = [judge_again(partial(_play, lie=0.0, coins=500), seed, 0.2) for seed in range(300)]
    assert sum(not audit.passed for audit in audits) <= 84
    repeated = [
        judge_again(lambda _, seed=seed: _play(Draws(seed), 0.0, 500), seed, 0.2)  # type: ignore[misc]
        for seed in range(300)
    ]
    assert sum(not audit.passed for audit in repeated) > 84


MEMOISED = [CATALOGUE[name].examples()[0].mechanism for name in ("rappor", "memoised-hashing")]
ALIGNED = [CITIES, JOINT, HASHED, SYMPTOMS, AMOUNT, *MEMOISED]


@pytest.mark.exact
@pytest.mark.parametrize(
    "mechanism", tiered(ALIGNED, fast=0, slow=6), ids=lambda one: str(one.name)
)
def test_two_playings_count_one_thing_in_one_place(mechanism: Any) -> None:
    """Without this, a suspect would be sought in the wrong place.

    One count in 50 at most may be in one playing only (sizes, or pairs of days, of few reports); 30
    of 20,000 were measured. The twin is a playing that tries no strange values again.
    """

    def places(draws: Draws) -> set[tuple[str, int, int]]:
        stages = encoder_stages(mechanism, 100, (), draws)
        return {place for place, _ in judging._placed(stages)}

    draws = Draws(1)
    first, second = places(draws), places(draws.repeat())
    assert len(first & second) > 0.98 * max(len(first), len(second))
    other = places(Draws(1, ([], [], []) * 2))
    assert len(first & other) < 0.98 * len(first)


@pytest.mark.exact
def test_what_looks_strange_is_chosen_once() -> None:
    """A further playing tries the values again that looked strange in the first, in its order of
    values, and draws other coins."""
    first = Draws(3)
    assert [first.chosen(lambda: [1, 2]), first.chosen(list)] == [[1, 2], []]
    second = first.repeat()
    assert [second.chosen(lambda: [9]), second.chosen(lambda: [9])] == [[1, 2], []]
    orders = [draws.plan.permutation(100).tolist() for draws in (Draws(3), second)]
    assert orders[0] == orders[1]
    assert len({draws.coins.random() for draws in (Draws(3), second, first.repeat(1))}) == 3
