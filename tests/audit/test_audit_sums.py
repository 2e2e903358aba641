"""Cheats that only the sums over many reports, or over all cells of one, refute. Twins are honest
encoders, and the same audits without the sums."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, count
from typing import Any

import pytest
from numpy.random import default_rng

from ldp.audit import encoder
from ldp.audit.draws import Draws
from ldp.audit.encoder import (
    Way,
    encoder_checks,
    of_new_processes,
    sequence_checks,
    value_checks,
    with_sums,
)
from ldp.audit.judging import Checks, judge
from ldp.audit.lives import life_checks
from ldp.audit.verdict import ALPHA as AUDIT_ALPHA
from ldp.audit.verdict import CALLS_EACH, way_stages
from ldp.mechanisms import LocalHashing, MemoisedHashing, PrivSet, RandomizedResponse, UnaryEncoding
from ldp.protocol.randomness import SeededBits
from ldp.protocol.wire import pack_report, split_report
from tests.statistics import ALPHA, chance_missed
from tests.tiers import tiered

MORE = tuple(f"c{i}" for i in range(40))
ANSWERS = RandomizedResponse(categories=MORE, epsilon=1.0)
BITS = UnaryEncoding(categories=MORE, epsilon=1.0)
YES_OR_NO = RandomizedResponse(categories=("no", "yes"), epsilon=math.log(3))
TRIALS = 2000
Encode = Callable[[Any], bytes]


def devices(mechanism: Any, is_weaker: Callable[[int], bool], epsilon: float) -> Iterator[Encode]:
    """Yield devices whose noise is of another epsilon on some calls. Bits are seeded."""
    bits = SeededBits(b"sums")
    honest = mechanism.encoder(bits)
    weaker, size = replace(mechanism, epsilon=epsilon).encoder(bits), len(mechanism.header)
    while True:
        calls = count()

        def encode(value: Any, calls: Iterator[int] = calls) -> bytes:
            some = weaker if is_weaker(next(calls)) else honest
            report: bytes = mechanism.header + some.encode(value)[size:]
            return report

        yield encode


def stages(mechanism: Any, is_weaker: Callable[[int], bool], epsilon: float) -> list[list[Checks]]:
    make = partial(next, devices(mechanism, is_weaker, epsilon))
    draws = Draws(0)
    ways = (way_stages(mechanism, Way(make, most), TRIALS, draws) for most in (None, CALLS_EACH))
    return [*with_sums(chain.from_iterable(ways))]


def missed(checks: Iterable[Checks]) -> float:
    return chance_missed([*checks], AUDIT_ALPHA / 10)


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", tiered([ANSWERS, BITS]))
def test_the_honest_devices_pass(mechanism: Any) -> None:
    """False failure: AUDIT_ALPHA each. The twins are the cheats below."""
    assert judge([*chain(*stages(mechanism, lambda _: False, 1.0))], AUDIT_ALPHA).passed


@pytest.mark.slow
@pytest.mark.statistical
def test_sums_over_all_reports_refute_what_few_do_not_show() -> None:
    """A device has weaker noise in one call of 53. Fresh noise would miss it with probability ALPHA
    at most. The twin, single stages without the sums, misses it more often than not."""
    *alone, sums = stages(ANSWERS, lambda call: call % 53 == 7, 3.7)
    assert missed(sums) < ALPHA
    assert missed(chain(*alone)) > 0.5


@pytest.mark.statistical
def test_all_cells_of_a_report_refute_weaker_noise() -> None:
    """A device has weaker noise in 8 calls of 64. Fresh noise would miss it with probability ALPHA
    at most. The twin, all counts of first cells, misses it more often than not."""
    checks = [*chain(*stages(BITS, lambda call: call // 8 % 8 == 5, 1.6))]
    assert missed(check for check in checks if "right cells" in check[0]) < ALPHA
    assert missed(check for check in checks if "touched cell by" in check[0]) > 0.5


@pytest.mark.exact
def test_devices_have_one_number_in_all_playings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cheat that looks at a device's number acts in a further playing where it did in the first.
    The twin: without `repeat` the numbers begin anew."""
    made, encoded, checked = count(1), list[int](), list[int]()

    def device() -> Encode:
        number, honest = next(made), ANSWERS.encoder(SeededBits(b"device"))
        return lambda value: encoded.append(number) or honest.encode(value)  # type: ignore[func-returns-value]

    def checks_of(*arguments: Any, **_: Any) -> Iterator[Checks]:
        checked.extend(arguments[-1].tolist())
        yield from ()

    monkeypatch.setattr(encoder, "check_values", checks_of)
    first = Draws(0)
    for draws in (first, first.repeat(), first.repeat(1)):
        value_checks(ANSWERS, MORE, Way(device, 5), 100, draws)
    assert checked == encoded
    assert len(set(checked)) > 300
    value_checks(ANSWERS, MORE, Way(device, 5), 100, Draws(0))
    assert checked != encoded


@pytest.mark.exact
def test_what_is_checked_does_not_depend_on_the_devices_drawn() -> None:
    """A turn may happen to be longer than all reports, so that one device makes them. The twin:
    without turns nothing is checked by device."""

    def device() -> Encode:
        return ANSWERS.encoder().encode

    def by_device(most: int | None) -> set[str]:
        draws = Draws(0, ([0, 2], [1, 0]))
        checks = value_checks(ANSWERS, MORE[:3], Way(device, most), 100, draws)
        return {what for what, *_ in checks if " device " in what}

    some, one, none = map(by_device, (5, 1 << 40, None))
    assert some
    assert some == one
    assert not none


def again(honest: Encode, is_again: Callable[[int], bool], times: int) -> Encode:
    """Return what sends a report of some calls up to `times` times in those calls."""
    calls, sent = count(), list[bytes]()

    def encode(value: Any) -> bytes:
        report = honest(value)
        if not is_again(next(calls)):
            return report
        sent[:] = sent if 0 < len(sent) < times else []
        sent.append(sent[0] if sent else report)
        return sent[-1]

    return encode


@pytest.mark.statistical
def test_a_set_repeated_by_the_number_of_a_call_is_refuted() -> None:
    """Every 61st report is sent three times. Fresh noise would miss it with probability ALPHA at
    most. The twin, all other counts of whole reports, misses it more often than not."""
    sets = PrivSet(categories=MORE[:8], at_most=3, epsilon=1.0, size=2)
    encode = again(sets.encoder(SeededBits(b"again")).encode, lambda call: call % 61 == 7, 3)
    checks = encoder_checks(sets, [frozenset(MORE[:5])], encode, 8 * TRIALS)
    assert missed(check for check in checks if check[0].endswith("apart, call")) < ALPHA
    assert missed(check for check in checks if not check[0].endswith("apart, call")) > 0.5


@pytest.mark.statistical
def test_a_number_of_truths_that_is_the_same_in_all_blocks_is_refuted() -> None:
    """Of 20 reports 15 are true, in an order of chance. Fresh noise would miss it with probability
    ALPHA at most. The twin, all counts of single reports and of pairs, misses it more often than
    not."""
    honest, order, dealt = YES_OR_NO.encoder(SeededBits(b"blocks")), default_rng(5), list[int]()

    def encode(value: Any) -> bytes:
        dealt[:] = dealt or order.permutation(20).tolist()
        is_lie, report = dealt.pop() >= 15, honest.encode(value)
        while (report[-1] == YES_OR_NO.categories.index(value)) == is_lie:
            report = honest.encode(value)
        return report

    checks = encoder_checks(YES_OR_NO, ["yes"], encode, 16 * TRIALS)
    assert missed(check for check in checks if "in a row" in check[0]) < ALPHA
    assert missed(check for check in checks if "in a row" not in check[0]) > 0.5


@pytest.mark.slow
@pytest.mark.statistical
def test_a_row_in_97_without_noise_is_refuted() -> None:
    """Fresh noise would miss it with probability ALPHA at most. The twin, all counts but those by
    the row, misses it more often than not."""
    hashing = LocalHashing(epsilon=1.0, rows=65_536, seed="0f")
    honest = hashing.encoder(SeededBits(b"rows"))

    def encode(value: Any) -> bytes:
        report = honest.encode(value)
        row, _ = split_report(report, hashing.header, hashing.layout)
        (cell,) = hashing.cells(value, row)
        plain = pack_report(hashing.header, hashing.layout, row, cell)
        return plain if row % 97 == 5 else report

    checks = encoder_checks(hashing, ["a"], encode, 20 * TRIALS)
    assert missed(check for check in checks if "by row" in check[0]) < ALPHA
    assert missed(check for check in checks if "by row" not in check[0]) > 0.5


@pytest.mark.slow
@pytest.mark.statistical
def test_the_first_reports_of_new_processes_are_audited() -> None:
    """A first report without noise, and a generator that a process shares with its parent, are
    refuted always: no honest noise takes part. The twins, the honest encoder, and the first report
    among others of one process, are refuted falsely with probability AUDIT_ALPHA each."""
    honest, drawn = YES_OR_NO.encoder().encode, count()

    def plain_first(value: Any) -> bytes:
        is_first, report = next(drawn) == 0, honest(value)
        return report[:-1] + b"\1" if is_first else report

    def passes(encode: Encode) -> bool:
        checks = encoder_checks(YES_OR_NO, ["yes"], of_new_processes(encode), 200)
        return judge(checks, AUDIT_ALPHA).passed

    assert passes(honest)
    assert not passes(plain_first)
    assert not passes(YES_OR_NO.encoder(SeededBits(b"parent")).encode)
    checks = encoder_checks(YES_OR_NO, ["yes"], plain_first, 200)
    assert judge(checks, AUDIT_ALPHA).passed


@pytest.mark.statistical
@pytest.mark.parametrize("size", [2, 16])
def test_the_reports_of_devices_with_a_seed_of_16_bits_are_refuted(size: int) -> None:
    """Of 2,000 devices 15 repeat an earlier one in the mean; with fewer than 3 it would be missed,
    but seeds are drawn by a fixed generator. The twin, seeds of 16 bytes, is refuted falsely with
    probability AUDIT_ALPHA."""
    generator = default_rng(7)

    def device() -> Encode:
        return YES_OR_NO.encoder(SeededBits(generator.bytes(size))).encode

    checks = sequence_checks(YES_OR_NO, "yes", device, 5000)
    assert judge(checks, AUDIT_ALPHA).passed == (size == 16)


@pytest.mark.exact
@pytest.mark.parametrize("epsilon", [12.0, 40.0, 64.0])
def test_no_sequence_of_reports_is_rare_where_nearly_all_tell_the_truth(epsilon: float) -> None:
    mechanism = replace(YES_OR_NO, epsilon=epsilon)
    assert sequence_checks(mechanism, "yes", lambda: mechanism.encoder().encode, 5000) == []


@pytest.mark.slow
@pytest.mark.statistical
def test_noise_that_devices_share_at_some_calls_is_refuted() -> None:
    """At every ninth call devices lie alike about every fifth value. Fresh noise would miss it with
    probability ALPHA at most. The twins are the honest devices."""
    numbers = count()

    def device() -> Encode:
        calls, fresh = count(), ANSWERS.encoder(SeededBits(b"device %d" % next(numbers)))

        def encode(value: str) -> bytes:
            report, call = fresh.encode(value), next(calls)
            if call % 9 != 6 or MORE.index(value) % 5 != 2:
                return report
            return ANSWERS.encoder(SeededBits(b"call %d" % call)).encode(value)

        return encode

    checks = value_checks(ANSWERS, MORE, Way(device, CALLS_EACH), 8 * TRIALS, Draws(0))
    assert missed(check for check in checks if "last lie of the call" in check[0]) < ALPHA


@pytest.mark.statistical
def test_few_values_after_each_other_are_tried_often() -> None:
    """A third of the reports of one of four values after another of them have no noise. The counts
    would miss it with probability ALPHA at most. The twin: a quarter of the trials misses it."""
    answers = RandomizedResponse(categories=(*"abcd",), epsilon=1.0)

    def refutes(trials: int) -> bool:
        honest, before = answers.encoder(SeededBits(b"four")), ["a"]
        plain = {value: answers.header + bytes([at]) for at, value in enumerate("abcd")}
        turns = count()

        def encode(value: Any) -> bytes:
            last, before[0] = before[0], value
            is_plain = (last, value) == ("b", "c") and next(turns) % 3 == 0
            return plain[value] if is_plain else honest.encode(value)

        draws = Draws(0, ([], []))
        checks = value_checks(answers, [*"abcd"], Way(lambda: encode), trials, draws)
        return not judge(checks, AUDIT_ALPHA).passed

    assert refutes(5000)
    assert not refutes(1250)


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0, 4])
def test_reports_repeated_in_some_epochs_are_refuted(share: int) -> None:
    """In every fourth epoch half of the reports are one again. It fails falsely with probability
    AUDIT_ALPHA, and in the twin, all of whose epochs are honest."""
    mechanism = MemoisedHashing(epsilon=1.0, lifetime_epsilon=2.0, buckets=4, rows=64, seed="0f")
    epochs = count()

    def device() -> Encode:
        secret = b"%032d" % next(epochs)
        encoder = mechanism.encoder(SeededBits(secret), secret=secret, epoch="e")
        is_wrong = bool(share) and secret[-1] % share == 0
        return again(encoder.encode, lambda call: call % 2 == 0 and is_wrong, 1000)

    lived = life_checks(
        mechanism,
        ("a", "b"),
        device,
        100,
        memoise="epoch",
        reports=(60, 20, 60),
    )
    assert judge(lived, AUDIT_ALPHA).passed == (not share)
