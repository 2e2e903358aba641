"""The audit passes every honest encoder and catches every mutant."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain, count
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom

from ldp.arrays import Ints
from ldp.audit import (
    audit_encoder,
    exact_findings,
    exact_law,
    worst_ratio,
)
from ldp.audit.binomial_checks import (
    RESIDUES,
    Occurrence,
    binomial_bins,
    checks_by_number,
    disjoint_pairs,
    odd_parities,
)
from ldp.audit.cells import check_reports
from ldp.audit.draws import Draws
from ldp.audit.encoder import Way, encoder_checks, repeat_checks
from ldp.audit.judging import (
    EXPONENT,
    MOST_AGAIN,
    MOST_SUSPECTS,
    SUSPECTED,
    Checks,
    binomial_p,
    judge,
    size_of,
)
from ldp.audit.law import MOST_OUTCOMES, _worst_by_cells, _worst_of, number_of_outcomes
from ldp.audit.reports import CALLS
from ldp.audit.tried_values import drawn_values, tried
from ldp.audit.verdict import ALPHA as AUDIT_ALPHA
from ldp.audit.verdict import Memoised, Verdict, audited, encoder_stages, way_stages
from ldp.errors import ParameterError
from ldp.mechanisms import (
    CatalogueMechanism,
    HadamardCountMeanSketch,
    Mechanism,
    RandomizedResponse,
    SequenceFragmentPuzzle,
    from_parameters,
)
from ldp.mechanisms.base import Example
from ldp.mechanisms.joint_base import claimed_ratio
from ldp.mechanisms.presets import COMPLETE, PRESETS
from ldp.protocol.hashing import Value
from ldp.protocol.kinds import Bits, Index, Kind, Sign, Subset
from ldp.protocol.randomness import SeededBits, SystemBits
from ldp.protocol.wire import pack_report
from ldp.simulation import encode_points, points_of
from tests.examples import (
    CATALOGUED,
    Tabled,
    for_everything,
    sampling_each_kind,
    sampling_everything,
)
from tests.mutants import (
    LAW_MUTANTS,
    MUTANTS,
    WHOLE_MUTANTS,
    LawMutant,
    Mutant,
    a_bit_too_many_told,
    applies,
    epsilon_doubled,
    half_words_of_noise,
    long_values_without_noise,
    noise_of_a_short_seed,
    one_word_of_noise_for_the_row,
    probabilities_that_miss_a_quarter,
    thresholds_rounded_the_wrong_way,
    true_flip_copied_three_to_the_right,
    truth_told_every_other_call,
    truth_told_three_calls_of_six,
    two_percent_without_noise,
)
from tests.statistics import ALPHA, chance_missed

SUBJECTS = tuple(dict.fromkeys(mechanism for _, mechanism in WHOLE_MUTANTS))
TRIALS = 5000
"""Trials of `ldp audit`."""
FULL_SIZE_TRIALS = 3000
ANY_VALUES = ("😂", "", "a text that is longer than a word", b"\xff\x00 is no text")
"""Values that any sketch takes: short, empty, long and no text."""
BY_TURNS = (truth_told_every_other_call, truth_told_three_calls_of_six)
NEED_MANY_COLUMNS = (
    true_flip_copied_three_to_the_right,
    one_word_of_noise_for_the_row,
    half_words_of_noise,
    two_percent_without_noise,
)
"""Mutants that no small example has room for; at full size they are caught."""


def _tried(example: Example | Tabled) -> tuple[Value, ...]:
    """Return the values that an example is audited on."""
    for value in ANY_VALUES:
        try:
            example.mechanism.check(value)
        except ParameterError:
            return example.values
    return example.values + ANY_VALUES


@pytest.mark.exact
@for_everything
def test_the_law_of_the_reports_adds_to_one(example: Example) -> None:
    for value in example.values:
        assert sum(exact_law(example.mechanism, value).values()) == Fraction(1)


@pytest.mark.exact
@for_everything
def test_the_stated_epsilon_is_the_worst_ratio_of_the_enumerated_law(example: Example) -> None:
    assert worst_ratio(example.mechanism, example.values) == claimed_ratio(example.mechanism)


@pytest.mark.statistical
@sampling_everything
def test_device_reports_have_the_law_they_claim(example: Example) -> None:
    """This fails falsely with probability ALPHA; the seed is fixed. The twins are the mutants
    below."""
    encoder = example.mechanism.encoder(SeededBits(b"device"))
    audit = audit_encoder(
        example.mechanism, _tried(example), encoder.encode, trials=TRIALS, alpha=ALPHA
    )
    assert audit.passed, audit.findings[0]


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [Index, Bits, Subset, Sign])
def test_reports_of_each_kind_with_system_randomness_have_their_law(kind: Kind) -> None:
    """This fails falsely with probability ALPHA at most, on the widest example of a kind.

    The twin sends its first report again in one call of ten.
    """
    widest = max(
        (example for example in CATALOGUED if example.mechanism.kind is kind),
        key=lambda example: example.mechanism.shape.columns,
    )
    mechanism, value = widest.mechanism, widest.values[:1]
    encode = mechanism.encoder(SystemBits()).encode
    assert audit_encoder(mechanism, value, encode, trials=TRIALS, alpha=ALPHA).passed
    calls = count()

    def honest_in_nine_of_ten(value: Value) -> bytes:
        report = encode(value)
        return first if next(calls) % 10 == 0 else report

    first = encode(value[0])
    assert not audit_encoder(
        mechanism, value, honest_in_nine_of_ten, trials=TRIALS, alpha=ALPHA
    ).passed


@pytest.mark.campaign
@pytest.mark.statistical
@for_everything
def test_device_reports_with_system_randomness_have_the_law_they_claim(example: Example) -> None:
    """This fails falsely with probability ALPHA an example. The twins are the mutants below."""
    encoder = example.mechanism.encoder(SystemBits())
    audit = audit_encoder(
        example.mechanism, _tried(example), encoder.encode, trials=4 * TRIALS, alpha=ALPHA
    )
    assert audit.passed, audit.findings[0]


def is_caught(
    mechanism: CatalogueMechanism,
    values: Sequence[Value],
    encode: Callable[[Value], bytes],
    trials: int,
) -> bool:
    """Return whether an audit fails, and would also fail with fresh noise except with probability
    ALPHA.

    A tenth or a fifth of the trials catches most mutants; a few need twice as many.
    """
    return any(
        chance_missed(encoder_checks(mechanism, values, encode, some), ALPHA) < ALPHA
        for some in (trials // 10, trials // 5, trials, 2 * trials)
    )


@pytest.mark.statistical
@pytest.mark.parametrize("examples", [pytest.param("all", marks=pytest.mark.campaign), "some"])
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_audit_catches_the_mutant(mutant: Mutant, examples: str) -> None:
    """Fresh noise would miss a mutant with probability ALPHA at most (`chance_missed`).

    The mutant is of the widest example of every mechanism, or of each kind of report.
    tests/audit/test_certificate.py tries the cheats of `ldp/audit/cheats.py` with every example.
    The twins are the honest encoders.
    """
    caught, widest = 0, sorted(CATALOGUED, key=lambda example: example.mechanism.shape.columns)
    every = {each.mechanism.name: each for each in widest if applies(mutant, each.mechanism)}
    some = {each.mechanism.kind: each for each in widest}
    for example in (every if examples == "all" else some).values():
        mechanism = example.mechanism
        if applies(mutant, mechanism):
            encode = mutant(mechanism, SeededBits(b"mutant"))
            first, *_, last = _tried(example)
            message = f"{mutant.__name__} of {mechanism} was not caught"
            assert is_caught(mechanism, (first, last), encode, TRIALS), message
            caught += 1
    assert caught or mutant in NEED_MANY_COLUMNS or examples == "some"


@pytest.mark.exact
def test_the_exact_law_passes_every_example() -> None:
    """The twins are the mutants below."""
    for example in CATALOGUED:
        assert exact_findings(example.mechanism, example.values) == [], example.mechanism


@pytest.mark.exact
def test_the_worst_ratio_over_cells_is_that_over_all_reports() -> None:
    """The law of a mechanism with too many reports to enumerate is held to the first."""
    for mechanism, values in CATALOGUED:
        laws = [exact_law(mechanism, value) for value in values]
        assert _worst_by_cells(mechanism, values) == _worst_of(laws), mechanism


@pytest.mark.exact
@pytest.mark.parametrize(
    ("change", "passed"),
    [
        ({}, True),
        ({"unchanging": 2.1}, False),
        ({"changing_by_epoch": 2.1}, False),
        ({"changing_per_value": 9.0}, True),
        ({"at_least": 2.1}, False),
        ({"cohorts": 2}, False),
    ],
)
def test_what_days_tell_is_held_to_the_lifetime(change: dict[str, Any], passed: bool) -> None:
    days = replace(Memoised(2.0, 2.0, 2.0, 2.0, 2.0, 1), **change)
    verdict = Verdict("m", 1.0, [], 9, [], 1.0, days)
    assert days.passed == verdict.passed == passed
    for wrong in ({"exact": ["is not"]}, {"findings": ["differs"]}, {"at_least": 1.1}):
        assert not replace(verdict, **wrong).passed


@pytest.mark.exact
@pytest.mark.parametrize("mutant", LAW_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_exact_law_catches_the_mutant(mutant: LawMutant) -> None:
    caught = 0
    for example in CATALOGUED:
        asked = "epsilon" in example.mechanism.parameters()
        differing = example.mechanism.channel.differing[1] > 0
        if mutant is thresholds_rounded_the_wrong_way and not asked:
            continue  # nobody asked for an epsilon: the probabilities are the parameters
        if mutant is a_bit_too_many_told and not differing:
            continue
        few = number_of_outcomes(example.mechanism) <= MOST_OUTCOMES
        is_small = example.mechanism.kind is Index and few
        if mutant is probabilities_that_miss_a_quarter and not is_small:
            continue
        assert exact_findings(mutant(example.mechanism), example.values), example.mechanism
        caught += 1
    assert caught > 5


@pytest.mark.statistical
def test_thresholds_rounded_the_wrong_way_are_beyond_the_reach_of_reports() -> None:
    """Only check A sees them; the reports of such an encoder pass every other check.

    This fails falsely with probability ALPHA; the seed is fixed. The twin doubles epsilon, which
    the reports show.
    """
    example = next(e for e in CATALOGUED if e.mechanism.name == "cms")
    wrong = thresholds_rounded_the_wrong_way(example.mechanism)
    encode = wrong.encoder(SeededBits(b"wrong way")).encode
    twin = epsilon_doubled(example.mechanism, SeededBits(b"wrong way"))
    for some, is_passed in ((encode, True), (twin, False)):
        audit = audit_encoder(example.mechanism, example.values, some, trials=TRIALS, alpha=ALPHA)
        assert audit.passed is is_passed
    assert exact_findings(wrong, example.values)


@pytest.mark.exact
@pytest.mark.parametrize("preset", COMPLETE)
def test_the_law_of_every_preset_is_exact(preset: str) -> None:
    mechanism = from_parameters({**COMPLETE[preset].parameters, "seed": "00ff"})
    assert exact_findings(mechanism, ANY_VALUES) == []


@pytest.mark.slow
@pytest.mark.statistical
def test_two_parts_that_share_their_noise_are_caught() -> None:
    """The honest report fails falsely with probability ALPHA; seeds are fixed.

    In the twins, the second part of a joint report repeats the first one's stream, or names its
    true cell by the first one's row.
    """
    puzzle = SequenceFragmentPuzzle(
        epsilon=4.0,
        fragment_epsilon=2.0,
        rows=16,
        width=32,
        fragment_rows=8,
        fragment_width=32,
        seed="00ff",
        length=4,
    )
    honest = puzzle.encoder(SeededBits(b"honest"))
    audit = audit_encoder(puzzle, ("abc",), honest.encode, trials=5000, alpha=ALPHA)
    assert audit.passed, audit.findings[0]
    seeds = count()

    def shared(value: Value) -> bytes:
        seed = next(seeds).to_bytes(8, "little")
        drawn = [
            part.encoder(SeededBits(seed)).draw(part.addressing.point(value))
            for _, part in puzzle.parts
        ]
        return pack_report(puzzle.header, puzzle.layout, *puzzle.layout.join(drawn))

    assert not audit_encoder(puzzle, ("abc",), shared, trials=5000, alpha=ALPHA).passed

    bits = SeededBits(b"knowing")

    def knowing(value: Value) -> bytes:
        """Return a report whose word names its true cell where the fragment's row is even."""
        drawn = [part.encoder(bits).draw(part.addressing.point(value)) for _, part in puzzle.parts]
        (row, _), (word_row, word) = drawn
        if row % 2 == 0:
            (cell,) = puzzle.words.cells(value, word_row)
            drawn[1] = word_row, word | 1 << cell
        return pack_report(puzzle.header, puzzle.layout, *puzzle.layout.join(drawn))

    assert not audit_encoder(puzzle, ("abc",), knowing, trials=5000, alpha=ALPHA).passed


def _batch_findings(
    mechanism: CatalogueMechanism, values: Sequence[Value], trials: int, *about: Value
) -> list[str]:
    """Return the findings of the same checks on reports that are made in bulk.

    The reports are `about` another value if one is given.
    """
    generator = np.random.default_rng(7)
    checks: list[Checks] = []
    for value in values:
        own = points_of(mechanism, about or [value])
        points = [np.repeat(part, trials, axis=0) for part in own]
        rows, payloads = encode_points(mechanism, points, generator)
        reports = [
            (int(row), payload.tobytes()) for row, payload in zip(rows, payloads, strict=True)
        ]
        checks += check_reports(mechanism, value, reports)
    return [str(finding) for finding in judge(checks, ALPHA).findings]


@pytest.mark.slow
@pytest.mark.statistical
@sampling_each_kind
def test_bulk_reports_have_the_law_of_device_reports(example: Example) -> None:
    """This fails falsely with probability ALPHA; the seed is fixed. The twin's reports are about
    another value."""
    assert _batch_findings(example.mechanism, _tried(example), TRIALS) == []
    first, *_, last = example.values
    assert _batch_findings(example.mechanism, [first], TRIALS, last) != []


def _full_size(preset: str) -> Mechanism:
    mechanism = from_parameters({**PRESETS[preset].parameters, "seed": "00ff"})
    assert isinstance(mechanism, Mechanism)
    return mechanism


for_each_full_size = pytest.mark.parametrize(
    "preset", [pytest.param("apple-emoji", marks=pytest.mark.campaign), "apple-safari-energy"]
)


@pytest.mark.statistical
@for_each_full_size
def test_device_reports_of_a_full_size_sketch_pass(preset: str) -> None:
    """This fails falsely with probability ALPHA; the seed is fixed. The twins are the mutants at
    full size."""
    mechanism = _full_size(preset)
    encoder = mechanism.encoder(SeededBits(b"full size"))
    audit = audit_encoder(
        mechanism, ANY_VALUES, encoder.encode, trials=FULL_SIZE_TRIALS, alpha=ALPHA
    )
    assert audit.passed, audit.findings[0]
    assert audit.checks > 3000 * len(ANY_VALUES)


@pytest.mark.slow
@pytest.mark.statistical
@for_each_full_size
def test_bulk_reports_of_a_full_size_sketch_pass(preset: str) -> None:
    """This fails falsely with probability ALPHA; the seed is fixed. The twin's reports are about
    another value."""
    mechanism, (one, *_, other) = _full_size(preset), ANY_VALUES
    assert _batch_findings(mechanism, ANY_VALUES, FULL_SIZE_TRIALS) == []
    assert _batch_findings(mechanism, [one], FULL_SIZE_TRIALS, other) != []


@pytest.mark.slow
@pytest.mark.statistical
@for_each_full_size
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_audit_catches_the_mutant_at_full_size(mutant: Mutant, preset: str) -> None:
    """Fresh noise would miss a mutant with probability ALPHA at most (`chance_missed`).

    Signs that are always true are never missed, signs at twice the epsilon with probability 1.1e-8
    (binomial). The twins are the honest sketches above.
    """
    mechanism = _full_size(preset)
    if not applies(mutant, mechanism):
        return
    encode = mutant(mechanism, SeededBits(b"full size mutant"))
    first, *_, last = ANY_VALUES
    if mechanism.kind is Sign and mutant in (long_values_without_noise, epsilon_doubled):
        checks = encoder_checks(mechanism, (first, last), encode, FULL_SIZE_TRIALS)
        assert not judge(checks, ALPHA).passed
    else:
        assert is_caught(mechanism, (first, last), encode, FULL_SIZE_TRIALS)


@pytest.mark.exact
@pytest.mark.parametrize("length", [0, 1, 2, 7, 64])
@pytest.mark.parametrize("apart", [1, 2, 3, 8, 64])
def test_pairs_some_places_apart_are_split_into_two_disjoint_parts(length: int, apart: int) -> None:
    parts = [np.stack(part) for part in disjoint_pairs(length, apart)]
    for part in parts:
        assert np.unique(part).size == part.size
    together = sorted(np.concatenate(parts, axis=1).T.tolist())
    assert together == [[i, i + apart] for i in range(length - apart)]


@pytest.mark.exact
def test_values_are_drawn_by_a_seed_from_all_categories_scripts_and_the_dictionary() -> None:
    sketch = next(each.mechanism for each in CATALOGUED if each.mechanism.name == "cms")

    def drawn(seed: int, mechanism: Mechanism = sketch) -> tuple[Value, ...]:
        return drawn_values(mechanism, np.random.default_rng(seed), ("😂", "🦄"))

    assert drawn(1) == drawn(1) != drawn(2)
    assert {"😂", "🦄"} < set(drawn(1))
    assert any(isinstance(each, str) and each.isascii() for each in drawn(1))
    many = RandomizedResponse(categories=tuple(map(str, range(5000))), epsilon=1.0)
    assert drawn(1, many)[0] == "0"
    assert drawn(1, many)[-1] == "4999"
    assert len(set(drawn(1, many))) == 256
    few = RandomizedResponse(categories=tuple("abcdefghij"), epsilon=1.0)
    assert drawn(1, few) == few.categories


@pytest.mark.exact
@pytest.mark.parametrize("limit", [1, 2, 5, 8, 37])
def test_a_transform_counts_the_odd_parities_of_every_mask(limit: int) -> None:
    numbers = np.random.default_rng(limit).integers(limit, size=300)
    size = 1 << (limit - 1).bit_length()
    (counted,) = odd_parities(np.bincount(numbers, minlength=size)[None])
    odd = [
        sum((number & mask).bit_count() & 1 for number in numbers.tolist()) for mask in range(size)
    ]
    assert counted.tolist() == odd


@pytest.mark.exact
@pytest.mark.parametrize(("size", "probability"), [(2, 0.5), (3, 0.27), (1023, 0.12), (40, 1e-6)])
def test_bins_of_a_binomial_count_have_their_probabilities(size: int, probability: float) -> None:
    edges, masses = binomial_bins(size, probability)
    placed = np.searchsorted(edges, np.arange(size + 1))
    law = binom.pmf(np.arange(size + 1), size, probability)
    expected = np.bincount(placed, weights=law, minlength=masses.size)
    np.testing.assert_allclose(masses, expected, rtol=1e-9, atol=0)


@pytest.mark.exact
@sampling_everything
def test_an_audit_in_chunks_checks_what_one_of_a_piece_does(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks keep their shapes whatever a chunk holds, so that counts can be added."""
    for chunk in (7, 1000):
        monkeypatch.setattr("ldp.audit.encoder.CHUNK", chunk)
        encoder = example.mechanism.encoder(SeededBits(b"chunks"))
        audit = audit_encoder(
            example.mechanism, example.values[:1], encoder.encode, trials=40, alpha=ALPHA
        )
        assert audit.passed, audit.findings[0]


@pytest.mark.exact
@pytest.mark.parametrize(
    ("number", "share"), [(0, 0.3), (1, 0.5), (7, 0.0), (7, 1.0), (41, 0.5), (10**6, 2.3e-5)]
)
def test_a_p_value_is_twice_the_smaller_tail(number: int, share: float) -> None:
    counts = np.arange(min(number, 60) + 1)
    seen = binomial_p(counts, np.full_like(counts, number), np.full(counts.size, share))
    tails = binom.cdf(counts, number, share), binom.sf(counts - 1, number, share)
    np.testing.assert_allclose(seen, np.minimum(1, 2 * np.minimum(*tails)), rtol=1e-11, atol=0)


@pytest.mark.exact
@pytest.mark.parametrize("seen", [700, 300])
def test_the_chance_that_an_audit_misses_is_that_of_the_count_that_refutes_best(seen: int) -> None:
    """The chance is summed over all counts that would pass. The twin is a count that passes, which
    is missed for sure."""
    of, half = np.full(2, 1000), np.full(2, 0.5)
    every = np.arange(1001)
    passes = binomial_p(every, np.full(1001, 1000), np.full(1001, 0.5)) >= ALPHA / 2
    least = beta.ppf(ALPHA / 2, 700, 301)
    expected = binom.pmf(every, 1000, least if seen == 700 else 1 - least)[passes].sum()
    assert chance_missed([("both", np.array([500, seen]), of, half)], ALPHA) == pytest.approx(
        expected, rel=1e-6
    )
    assert chance_missed([("both", np.array([500, 510]), of, half)], ALPHA) == 1


SKETCH = HadamardCountMeanSketch(epsilon=2.0, rows=64, width=64, seed="00")
MOST_COUNTS = 25_000_000
"""Largest number of counts of a whole audit of SKETCH."""


@pytest.mark.slow
@pytest.mark.exact
def test_an_audit_of_a_sketch_has_no_more_counts() -> None:
    counts, _ = size_of([*chain.from_iterable(encoder_stages(SKETCH, TRIALS, (), Draws(0)))])
    assert MOST_COUNTS / 2 < counts < MOST_COUNTS


@pytest.mark.exact
def test_truth_that_is_told_in_calls_of_a_period_of_up_to_33_is_never_missed() -> None:
    """Where all calls of one remainder tell the truth, none of them lies.

    Then their count is not a matter of chance: it is a suspect among MOST_COUNTS counts, is the
    same in each further playing, and so a finding beside as many suspects as there may be. In the
    twin, calls are numbered modulo 256, which mixes
    remainders, but a remainder of a power of two and turns of a few calls.
    """
    claimed = SKETCH.channel.touched
    calls = np.arange(TRIALS)
    least = (2 * MOST_SUSPECTS / AUDIT_ALPHA) ** (1 / MOST_AGAIN)  # evidence of one playing

    def is_found(period: int, numbers: Ints) -> bool:
        told = calls % period == 0
        of_all = Occurrence("sign", told, told | True, float(claimed))
        for name, seen, of, chances in checks_by_number("call", numbers, CALLS, of_all):
            if "in a row" in name:  # sums of calls that are noisy but for one remainder
                continue
            p_values = binomial_p(seen, of, chances)[(seen == of) & (of > 0)]
            is_suspect = p_values < SUSPECTED / MOST_COUNTS
            if (is_suspect & (EXPONENT * p_values ** (EXPONENT - 1) > least)).any():
                return True
        return False

    assert [period for period in RESIDUES if is_found(period, calls)] == [*range(3, 34)]
    assert [period for period in RESIDUES if is_found(period, calls % CALLS)] == [4, 8, 16, 32]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("mutant", "mechanism"),
    WHOLE_MUTANTS,
    ids=[f"{mutant.__name__}-{mechanism.name}" for mutant, mechanism in WHOLE_MUTANTS],
)
def test_the_whole_audit_catches_the_mutant(mutant: Mutant, mechanism: Mechanism) -> None:
    """Fresh noise would miss a mutant with probability ALPHA at most (`chance_missed`).

    Truth that is told by turns is never missed, noise of 24 bits with probability 2.2e-5
    (binomial). The twins are the honest encoders below.
    """
    is_by_turns, is_repeated = mutant in BY_TURNS, mutant is noise_of_a_short_seed
    trials = TRIALS if is_by_turns else TRIALS // 4
    encode = mutant(mechanism, SeededBits(b"whole mutant"))
    checks = [*chain.from_iterable(way_stages(mechanism, Way(lambda: encode), trials, Draws(0)))]
    if is_repeated:
        checks += repeat_checks(mechanism, tried(mechanism)[0], encode, TRIALS)
    if is_by_turns or is_repeated:
        assert not judge(checks, AUDIT_ALPHA / 4).passed
    else:
        assert chance_missed(checks, AUDIT_ALPHA / 4) < ALPHA


@pytest.mark.campaign
@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", SUBJECTS, ids=lambda each: each.describe())
def test_the_whole_audit_passes_where_mutants_are_caught(mechanism: Mechanism) -> None:
    """This fails falsely with probability ALPHA; seeds are fixed. The twins are the mutants
    above."""
    encode = mechanism.encoder(SeededBits(b"no mutant")).encode
    checks = [*chain.from_iterable(way_stages(mechanism, Way(lambda: encode), TRIALS, Draws(0)))]
    checks += repeat_checks(mechanism, tried(mechanism)[0], encode, TRIALS)
    audit = judge(checks, ALPHA)
    assert audit.passed, audit.findings[0]


@pytest.mark.slow
@pytest.mark.statistical
@sampling_everything
def test_the_whole_audit_runs_on_values_of_its_own(example: Example) -> None:
    """Each check is wrong with probability ALPHA at most, as in `ldp audit` of a metric.

    The twins are `test_the_whole_audit_runs_the_memoised_encoder` (tests/audit/test_history.py) and
    `test_an_audit_of_a_cheat_fails_with_status_1` (tests/cli/test_cli.py).
    """
    assert audited(example.mechanism.name, example.mechanism, 100).passed
