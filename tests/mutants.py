"""Encoders that break their promise, each in one way; the audit must catch every one.

Most change only `encode`: their mechanism, and so the channel that they are held to, stays honest.
The lists at the end say which check of the audit catches each mutant.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from fractions import Fraction
from itertools import count

from ldp.accounting import Cost
from ldp.mechanisms import (
    CountMeanSketch,
    HadamardCountMeanSketch,
    LocalHashing,
    MemoisedHashing,
    MemoisedResponse,
    OneBitMean,
    PrefixExtension,
    PrivSet,
    RandomizedResponse,
    Rappor,
    UnaryEncoding,
)
from ldp.mechanisms.addressing import Answers, Rounding
from ldp.mechanisms.base import Encoder, Mechanism, threshold
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.mechanisms.ngrams import DOUBLE, PairedFilters
from ldp.protocol.hashing import PolynomialRows, Value, value_bytes
from ldp.protocol.kinds import Bits, Index, Sign, Subset, as_bits
from ldp.protocol.randomness import ONE, BitSource, SeededBits, bernoulli, uniform_below
from ldp.protocol.wire import pack_report, split_report

Encode = Callable[[Value], bytes]
Mutant = Callable[[Mechanism, BitSource], Encode]


def _altered(
    mechanism: Mechanism, bits: BitSource, change: Callable[[int, int, Sequence[int]], int]
) -> Encode:
    """Return an honest encoder whose payload is changed: change(row, number, true cells) ->
    number."""
    honest = mechanism.encoder(bits)

    def encode(value: Value) -> bytes:
        row, payload = split_report(honest.encode(value), mechanism.header, mechanism.layout)
        number = mechanism.layout.payload_number(payload)
        changed = change(row, number, mechanism.cells(value, row))
        return pack_report(mechanism.header, mechanism.layout, row, changed)

    return encode


def _truth(mechanism: Mechanism, number: int, true_cells: Sequence[int]) -> int:
    """Return the payload without noise; a sign keeps its column."""
    if mechanism.kind is Bits:
        return sum(1 << cell for cell in true_cells)
    cell = true_cells[0]
    if mechanism.kind is Index:
        return cell
    return number & ~1 | ((number >> 1) & cell).bit_count() & 1


def true_cell_never_flipped(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Report what the value touches always, as the bug of pure-LDP's RAPPOR did."""

    def change(row: int, number: int, true_cells: Sequence[int]) -> int:
        for cell in true_cells:
            number = cell if mechanism.kind is Index else number | 1 << cell
        return number

    return _altered(mechanism, bits, change)


def last_bit_unnoised(mechanism: Mechanism, bits: BitSource) -> Encode:
    """End the loop over the bits one early, as the bug of OpenDP's bit vector did."""
    last = mechanism.shape.columns - 1

    def change(row: int, number: int, true_cells: Sequence[int]) -> int:
        return number & ~(1 << last) | (last in true_cells) << last

    return _altered(mechanism, bits, change)


def last_category_never_a_lie(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Make the same off-by-one where the report is an index: the last column is never a lie."""
    last = mechanism.shape.columns - 1

    def change(row: int, number: int, true_cells: Sequence[int]) -> int:
        return 0 if number == last and last not in true_cells else number

    return _altered(mechanism, bits, change)


def epsilon_doubled(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Use thresholds of twice the epsilon under the honest header."""
    encoder = Encoder(mechanism, bits)
    channel = mechanism.channel
    if mechanism.kind is Bits:
        more, less = (threshold(_doubled(p)) for p in (channel.touched, channel.untouched))

        def encode(value: Value) -> bytes:
            row = uniform_below(bits, mechanism.shape.rows)
            truth = as_bits(mechanism.cells(value, row))
            number = bernoulli(bits, less, mechanism.shape.columns, truth, more)
            return pack_report(mechanism.header, mechanism.layout, row, number)

        return encode
    if mechanism.kind is Index:
        others = mechanism.shape.columns - mechanism.touches
        squared = mechanism.touches * (channel.touched / channel.untouched) ** 2
        encoder._touched = threshold(squared / (squared + others))
    elif mechanism.kind is Subset:
        odds = channel.ratio(1, 0) / (Fraction(ONE, encoder._touched) - 1)
        encoder._touched = threshold(odds / (odds + 1))
    else:
        encoder._touched = threshold(_doubled(channel.touched))
    return encoder.encode


def _doubled(probability: Fraction) -> Fraction:
    return probability**2 / (probability**2 + (1 - probability) ** 2)


def noise_reused_for_neighbour(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Let every odd column repeat the flip of the column before; each column alone looks right."""

    def change(row: int, number: int, true_cells: Sequence[int]) -> int:
        truth = _truth(mechanism, number, true_cells)
        flips = number ^ truth
        for column in range(1, mechanism.shape.columns, 2):
            flips = flips & ~(1 << column) | (flips >> (column - 1) & 1) << column
        return flips ^ truth

    return _altered(mechanism, bits, change)


def _payload(mechanism: Mechanism, bits: BitSource, cells: Sequence[int]) -> int:
    """Return an honest payload about cells of a row."""
    channel = mechanism.channel
    touched = threshold(mechanism.layout.any_probability(channel.touched, mechanism.touches))
    return mechanism.layout.draw(bits, cells, touched, threshold(channel.untouched))


def row_from_value(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Make the row a function of the value, which reveals the value."""

    def encode(value: Value) -> bytes:
        row = mechanism.addressing.point(value) % mechanism.shape.rows
        number = _payload(mechanism, bits, mechanism.cells(value, row))
        return pack_report(mechanism.header, mechanism.layout, row, number)

    return encode


def _replayed(mechanism: Mechanism, bits: BitSource, noise: Callable[[int], int]) -> Encode:
    """Let call t draw from the stream number noise(t); calls of one number share all their
    noise."""
    seed = bits.draw(64)
    encoder = mechanism.encoder(bits)
    calls = count()

    def encode(value: Value) -> bytes:
        encoder._bits = SeededBits((seed + noise(next(calls))).to_bytes(16, "little"))
        return encoder.encode(value)

    return encode


def same_noise_every_call(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Seed the generator anew for every report."""
    return _replayed(mechanism, bits, lambda call: 0)


def noise_kept_for_two_calls(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Let calls (0, 1), (2, 3).. share their noise; each report alone looks right."""
    return _replayed(mechanism, bits, lambda call: call // 2)


def noise_kept_for_two_calls_after_the_first(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Let calls (1, 2), (3, 4).. share their noise, out of step with an audit of every second
    pair."""
    return _replayed(mechanism, bits, lambda call: (call + 1) // 2)


def noise_of_a_double_buffer(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Let call t + 2 repeat the noise of call t; neighbouring reports are independent."""
    return _replayed(mechanism, bits, lambda call: call // 4 * 2 + call % 2)


def payload_noise_kept_for_two_calls(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Draw every report's row anew, but let every second report repeat the flips of the one
    before."""
    calls, flips = count(), 0

    def change(row: int, number: int, true_cells: Sequence[int]) -> int:
        nonlocal flips
        truth = _truth(mechanism, number, true_cells)
        if next(calls) % 2 == 0:
            flips = number ^ truth
        return flips ^ truth

    return _altered(mechanism, bits, change)


def _flip_copied(mechanism: Mechanism, bits: BitSource, step: int) -> Encode:
    def change(row: int, number: int, true_cells: Sequence[int]) -> int:
        for cell in true_cells:
            other = cell + step
            if 0 <= other < mechanism.shape.columns:
                number = number & ~(1 << other) | (~number >> cell & 1) << other
        return number

    return _altered(mechanism, bits, change)


def true_flip_copied_to_the_right(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Flip the cell right of the true one when the true one is flipped: together they name it."""
    return _flip_copied(mechanism, bits, 1)


def true_flip_copied_to_the_left(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Flip the cell left of the true one when the true one is flipped."""
    return _flip_copied(mechanism, bits, -1)


def true_flip_copied_three_to_the_right(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Flip the cell three to the right when the true one is flipped; no power of two is there."""
    return _flip_copied(mechanism, bits, 3)


def truth_told_in_half_the_rows(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Report the true cell always in even rows, and lie twice as often in odd rows.

    Over all rows it looks right.
    """
    lie = min(Fraction(1), 2 * (1 - mechanism.channel.touched))

    def change(row: int, number: int, true_cells: Sequence[int]) -> int:
        for cell in true_cells:
            shown = 1 if row % 2 == 0 else 1 - bernoulli(bits, threshold(lie))
            number = number & ~(1 << cell) | shown << cell
        return number

    return _altered(mechanism, bits, change)


def noise_of_24_calls_ago(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Let calls 24 to 47 repeat the noise of calls 0 to 23, and so on."""
    return _replayed(mechanism, bits, lambda call: call // 48 * 24 + call % 24)


def one_word_of_noise_for_the_row(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Repeat 64 columns' flips over the whole row."""
    columns = mechanism.shape.columns

    def change(row: int, number: int, true_cells: Sequence[int]) -> int:
        truth = _truth(mechanism, number, true_cells)
        word = (number ^ truth) & ((1 << 64) - 1)
        repeated = sum(word << start for start in range(0, columns, 64))
        return repeated & ((1 << columns) - 1) ^ truth

    return _altered(mechanism, bits, change)


def half_words_of_noise(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Let columns 32 to 63 of every 64 repeat the flips of columns 0 to 31."""
    columns = mechanism.shape.columns
    lower = sum(((1 << 32) - 1) << start for start in range(0, columns, 64))

    def change(row: int, number: int, true_cells: Sequence[int]) -> int:
        truth = _truth(mechanism, number, true_cells)
        halves = (number ^ truth) & lower
        return (halves | halves << 32) & ((1 << columns) - 1) ^ truth

    return _altered(mechanism, bits, change)


def two_percent_without_noise(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Send one report in fifty as the plain truth."""

    def change(row: int, number: int, true_cells: Sequence[int]) -> int:
        return number if uniform_below(bits, 50) else _truth(mechanism, number, true_cells)

    return _altered(mechanism, bits, change)


def long_values_without_noise(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Send values of more than 4 bytes as they are."""
    honest = mechanism.encoder(bits).encode
    plain = _altered(mechanism, bits, lambda _, number, cells: _truth(mechanism, number, cells))
    return lambda value: (plain if len(value_bytes(value)) > 4 else honest)(value)


def seeded_generator_on_the_device(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Start every device's generator from the same seed.

    One device alone looks right, so only an audit of many devices' first reports sees it.
    """
    seed = bits.draw(64).to_bytes(8, "little")
    return lambda value: mechanism.encoder(SeededBits(seed)).encode(value)


def lie_is_the_next_column(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Make a lie always the column after the true one, which hashing spreads over all columns."""

    def change(row: int, number: int, true_cells: Sequence[int]) -> int:
        true = true_cells[0]
        return number if number == true else (true + 1) % mechanism.shape.columns

    return _altered(mechanism, bits, change)


def lies_keep_parity(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Make a lie odd where the truth is odd."""

    def change(row: int, number: int, true_cells: Sequence[int]) -> int:
        same = range(true_cells[0] % 2, mechanism.shape.columns, 2)
        while number % 2 != true_cells[0] % 2:
            number = same[uniform_below(bits, len(same))]
            number += number == true_cells[0]
        return number

    return _altered(mechanism, bits, change)


def _plain_where(
    mechanism: Mechanism, bits: BitSource, is_plain: Callable[[Value], bool]
) -> Encode:
    """Leave some values without noise; a number between two steps is rounded at random before."""
    honest = mechanism.encoder(bits)
    addressing = mechanism.addressing

    def encode(value: Value) -> bytes:
        row, payload = split_report(honest.encode(value), mechanism.header, mechanism.layout)
        number = mechanism.layout.payload_number(payload)
        if is_plain(value):
            point = addressing.point(value)
            if isinstance(addressing, Rounding):
                step, weight = addressing.rounding(point, row)
                point = step + bernoulli(bits, weight)
            number = _truth(mechanism, number, addressing.cells(point, row))
        return pack_report(mechanism.header, mechanism.layout, row, number)

    return encode


def only_four_categories_randomised(mechanism: Mechanism, bits: BitSource) -> Encode:
    """End the loop over the categories after four."""
    return _plain_where(mechanism, bits, lambda value: mechanism.addressing.point(value) >= 4)


def middle_category_told(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Report one category of many always."""
    middle = mechanism.shape.columns // 2
    return _plain_where(mechanism, bits, lambda value: mechanism.addressing.point(value) == middle)


def last_category_told(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Report the last category always truly for its holders; other bits keep their noise."""
    last = mechanism.shape.columns - 1
    return _altered(mechanism, bits, lambda _, number, cells: number | (last in cells) << last)


def plain_within_the_bounds(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Randomise only the bounds and the number half-way between them."""
    low, high = mechanism.parameters()["bounds"]
    return _plain_where(mechanism, bits, lambda value: value not in (low, high, (low + high) / 2))


def plain_unless_ascii(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Send values with other letters another way through the code, without noise."""
    return _plain_where(mechanism, bits, lambda value: not value_bytes(value).isascii())


def plain_digits(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Send values with a digit another way through the code, without noise."""
    return _plain_where(
        mechanism, bits, lambda value: any(48 <= byte < 58 for byte in value_bytes(value))
    )


def _truth_by(mechanism: Mechanism, bits: BitSource, is_told: Callable[[int, int], bool]) -> Encode:
    """Report the truth where is_told(row, number) is true, and lie twice as often elsewhere.

    Over all reports it looks right.
    """
    lie = threshold(min(Fraction(1), 2 * (1 - mechanism.channel.touched)))

    def change(row: int, number: int, true_cells: Sequence[int]) -> int:
        shown = 1 if is_told(row, number) else 1 - bernoulli(bits, lie)
        if mechanism.kind is Sign:
            return _truth(mechanism, number, true_cells) ^ 1 ^ shown
        for cell in true_cells:
            number = number & ~(1 << cell) | shown << cell
        return number

    return _altered(mechanism, bits, change)


def truth_told_in_even_columns(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Make the sign at an even column of the Hadamard matrix always true."""
    return _truth_by(mechanism, bits, lambda row, number: number & 2 == 0)


def truth_told_where_row_bits_agree(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Report the truth where two bits of the row agree; each bit alone says nothing about it."""
    return _truth_by(mechanism, bits, lambda row, number: (row & 0b1001).bit_count() % 2 == 0)


def truth_told_where_row_and_column_bits_agree(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Report the truth where a bit of the row and a bit of the column agree."""
    return _truth_by(mechanism, bits, lambda row, number: (row ^ number >> 1) & 4 == 0)


def truth_told_every_other_call(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Report the truth in every other call."""
    calls = count()
    return _truth_by(mechanism, bits, lambda row, number: next(calls) % 2 == 0)


def truth_told_three_calls_of_six(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Report the truth with a period that is no power of two."""
    calls = count()
    return _truth_by(mechanism, bits, lambda row, number: next(calls) % 6 < 3)


def _hash(value: Value) -> int:
    return hashlib.sha256(value_bytes(value)).digest()[0]


def row_low_bits_from_value(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Make the row modulo 16 a hash of the value."""

    def encode(value: Value) -> bytes:
        row = uniform_below(bits, mechanism.shape.rows) // 16 * 16 + _hash(value) % 16
        number = _payload(mechanism, bits, mechanism.cells(value, row))
        return pack_report(mechanism.header, mechanism.layout, row, number)

    return encode


def column_low_bits_from_value(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Make the column of a sign modulo 8 a hash of the value; the sign has its noise."""
    honest = mechanism.encoder(bits).encode

    def encode(value: Value) -> bytes:
        row, payload = split_report(honest(value), mechanism.header, mechanism.layout)
        number = mechanism.layout.payload_number(payload)
        (cell,) = mechanism.cells(value, row)
        lied = number ^ _truth(mechanism, number, (cell,))
        column = (number >> 1) // 8 * 8 + _hash(value) % 8
        number = _truth(mechanism, column << 1, (cell,)) ^ lied
        return pack_report(mechanism.header, mechanism.layout, row, number)

    return encode


def noise_of_a_short_seed(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Seed the generator with 24 bits for every report."""

    def encode(value: Value) -> bytes:
        seed = bits.draw(24).to_bytes(3, "little")
        return mechanism.encoder(SeededBits(seed)).encode(value)

    return encode


def _of_answers(
    mechanism: Mechanism, bits: BitSource, change: Callable[[Sequence[int]], Sequence[int]]
) -> Encode:
    """Return an honest report about changed cells: change(cells of the answers and pads) ->
    cells."""
    addressing = mechanism.addressing
    assert isinstance(addressing, Answers)

    def encode(value: Value) -> bytes:
        point = addressing.draw(bits, addressing.point(value), 0)
        number = _payload(mechanism, bits, change(addressing.cells(point, 0)))
        return pack_report(mechanism.header, mechanism.layout, 0, number)

    return encode


def set_size_told(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Give smaller sets no pads, so that their reports name fewer of them."""
    first_pad = mechanism.shape.columns - mechanism.touches
    return _of_answers(
        mechanism, bits, lambda cells: [cell for cell in cells if cell < first_pad] or [0]
    )


def wrong_pads(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Take pads from the last one on."""
    columns, first_pad = mechanism.shape.columns, mechanism.shape.columns - mechanism.touches
    return _of_answers(
        mechanism,
        bits,
        lambda cells: sorted(
            cell if cell < first_pad else columns - 1 - (cell - first_pad) for cell in cells
        ),
    )


def first_answers_kept(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Report the first answers in the list if there are too many, not random ones."""
    encoder = mechanism.encoder(bits)
    most = mechanism.at_most_answers
    return lambda value: encoder.encode(frozenset(sorted(value)[:most]))  # type: ignore[arg-type]


def larger_sets_told(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Report a set without noise that has more answers than a report may hold."""
    honest, most = mechanism.encoder(bits), mechanism.at_most_answers

    def encode(value: Value) -> bytes:
        assert isinstance(value, frozenset)
        if len(value) <= most:
            return honest.encode(value)
        cells = mechanism.cells(frozenset(sorted(value)[:most]), 0)
        return pack_report(mechanism.header, mechanism.layout, 0, as_bits(cells))

    return encode


def applies(mutant: Mutant, mechanism: Mechanism) -> bool:
    """Return whether the mutant makes sense for the mechanism's kind of report and shape."""
    bits, index = mechanism.kind is Bits, mechanism.kind is Index
    rows, columns = mechanism.shape
    special: dict[Mutant, bool] = {
        true_cell_never_flipped: bits or index,
        last_bit_unnoised: bits,
        last_category_never_a_lie: index and columns > 2,
        noise_reused_for_neighbour: bits and columns > 1,
        row_from_value: rows > 1,
        payload_noise_kept_for_two_calls: bits,
        true_flip_copied_to_the_right: bits and columns > 1,
        true_flip_copied_to_the_left: bits and columns > 1,
        true_flip_copied_three_to_the_right: bits and columns > 8,
        truth_told_in_half_the_rows: bits and rows > 1,
        one_word_of_noise_for_the_row: bits and columns > 64,
        half_words_of_noise: bits and columns > 32,
        # With few columns an honest report is often the plain truth, and 2 % more of them are lost
        # among 20,000; with 64 columns it hardly ever is.
        two_percent_without_noise: bits and columns >= 64,
        long_values_without_noise: isinstance(mechanism.addressing, PolynomialRows),
    }
    return special.get(mutant, True)


MUTANTS: tuple[Mutant, ...] = (
    true_cell_never_flipped,
    last_bit_unnoised,
    last_category_never_a_lie,
    epsilon_doubled,
    noise_reused_for_neighbour,
    row_from_value,
    same_noise_every_call,
    noise_kept_for_two_calls,
    noise_kept_for_two_calls_after_the_first,
    noise_of_a_double_buffer,
    payload_noise_kept_for_two_calls,
    true_flip_copied_to_the_right,
    true_flip_copied_to_the_left,
    true_flip_copied_three_to_the_right,
    truth_told_in_half_the_rows,
    noise_of_24_calls_ago,
    one_word_of_noise_for_the_row,
    half_words_of_noise,
    two_percent_without_noise,
    long_values_without_noise,
    seeded_generator_on_the_device,
)
"""Mutants that check B catches, by the bytes of reports: `audit_encoder`."""

_TEN = tuple("abcdefghij")
_MANY = tuple(map(str, range(5000)))
_SEED = "00ff"
WHOLE_MUTANTS: tuple[tuple[Mutant, Mechanism], ...] = (
    (lie_is_the_next_column, LocalHashing(epsilon=1.0, rows=4096, seed=_SEED)),
    (
        lie_is_the_next_column,
        PrefixExtension(epsilon=1.0, rows=4096, seed=_SEED, length=4, alphabet="abc", groups=2),
    ),
    (
        lie_is_the_next_column,
        MemoisedHashing(epsilon=1.0, lifetime_epsilon=2.0, rows=4096, seed=_SEED),
    ),
    (lies_keep_parity, RandomizedResponse(categories=_MANY, epsilon=4.0)),
    (lies_keep_parity, LocalHashing(epsilon=2.0, rows=4096, seed=_SEED)),
    (only_four_categories_randomised, RandomizedResponse(categories=_TEN, epsilon=2.0)),
    (middle_category_told, RandomizedResponse(categories=_MANY[:200], epsilon=1.0)),
    (last_category_told, UnaryEncoding(categories=_MANY[:64], epsilon=2.0)),
    (plain_within_the_bounds, OneBitMean(bounds=(0.0, 8.0), epsilon=1.0)),
    (plain_unless_ascii, CountMeanSketch(epsilon=4.0, rows=64, width=16, seed=_SEED)),
    (plain_digits, HadamardCountMeanSketch(epsilon=1.0, rows=64, width=64, seed=_SEED)),
    (
        truth_told_in_even_columns,
        HadamardCountMeanSketch(epsilon=1.0, rows=64, width=1024, seed=_SEED),
    ),
    (
        truth_told_where_row_bits_agree,
        CountMeanSketch(epsilon=2.0, rows=8192, width=8, seed=_SEED),
    ),
    (
        truth_told_where_row_and_column_bits_agree,
        HadamardCountMeanSketch(epsilon=1.0, rows=64, width=1024, seed=_SEED),
    ),
    (
        truth_told_every_other_call,
        HadamardCountMeanSketch(epsilon=4.0, rows=64, width=64, seed=_SEED),
    ),
    (
        truth_told_three_calls_of_six,
        HadamardCountMeanSketch(epsilon=2.0, rows=64, width=64, seed=_SEED),
    ),
    (row_low_bits_from_value, CountMeanSketch(epsilon=2.0, rows=65536, width=8, seed=_SEED)),
    (
        column_low_bits_from_value,
        HadamardCountMeanSketch(epsilon=1.0, rows=4, width=32768, seed=_SEED),
    ),
    (set_size_told, PrivSet(categories=_TEN, epsilon=2.0, at_most=3)),
    (wrong_pads, PrivSet(categories=_TEN, epsilon=2.0, at_most=3)),
    (larger_sets_told, UnaryEncoding(categories=_MANY[:24], epsilon=2.0, at_most=3)),
    (first_answers_kept, PrivSet(categories=_TEN[:6], epsilon=2.0, at_most=2)),
    (first_answers_kept, UnaryEncoding(categories=_TEN[:6], epsilon=4.0, at_most=2)),
    *(
        (mutant, Rappor(scheme="identity", bits=6, f=0.25, p=0.0, q=1.0, at_most=2))
        for mutant in (first_answers_kept, larger_sets_told)
    ),
    (noise_of_a_short_seed, CountMeanSketch(epsilon=2.0, rows=1024, width=64, seed=_SEED)),
    (
        noise_of_a_short_seed,
        HadamardCountMeanSketch(epsilon=2.0, rows=1024, width=32768, seed=_SEED),
    ),
)
"""Mutants that the whole audit of one encoder catches: `way_stages` and `repeat_checks`.

It runs at its default trials, each mutant on a small mechanism where it shows.
"""


def thresholds_rounded_the_wrong_way(mechanism: Mechanism) -> Mechanism:
    """Round one step of 2**-64 towards more truth and fewer lies.

    No number of reports would show it.
    """
    wrong, channel = copy(mechanism), mechanism.channel
    step = Fraction(1, DOUBLE if isinstance(mechanism, PairedFilters) else ONE)
    lies = channel.untouched
    if channel.touched + lies == 1:
        lies -= step
    elif mechanism.kind is Index:
        step /= mechanism.touches
        lies -= step * mechanism.touches / (mechanism.shape.columns - mechanism.touches)
    elif channel.touched == Fraction(1, 2):
        wrong.__dict__["channel"] = replace(channel, untouched=lies - step)
        return wrong
    elif mechanism.kind is Bits:
        lies -= step
    wrong.__dict__["channel"] = replace(channel, touched=channel.touched + step, untouched=lies)
    return wrong


def a_bit_too_many_told(mechanism: Mechanism) -> Mechanism:
    """Claim that two values differ in fewer cells than they do."""
    wrong = copy(mechanism)
    first, second = mechanism.channel.differing
    fewer = replace(mechanism.channel, differing=(first, max(0, second - 1)))
    wrong.__dict__["channel"] = fewer
    return wrong


def epsilon_printed_too_small(mechanism: Mechanism) -> Mechanism:
    """Round the printed epsilon down instead of up."""
    wrong = copy(mechanism)
    wrong.__dict__["cost"] = Cost(epsilon=math.nextafter(mechanism.cost.epsilon, 0))
    return wrong


def probabilities_that_miss_a_quarter(mechanism: Mechanism) -> Mechanism:
    """State a channel of the same ratio whose reports have a probability of 3/4 together."""
    wrong, channel = copy(mechanism), mechanism.channel
    less = {name: getattr(channel, name) * 3 / 4 for name in ("touched", "untouched")}
    wrong.__dict__["channel"] = replace(channel, **less)
    return wrong


LawMutant = Callable[[Mechanism], Mechanism]
LAW_MUTANTS: tuple[LawMutant, ...] = (
    probabilities_that_miss_a_quarter,
    thresholds_rounded_the_wrong_way,
    a_bit_too_many_told,
    epsilon_printed_too_small,
)
"""Mutants that check A, the exact law, catches: `exact_findings`.

No other check can catch the first.
"""

HistoryMutant = Callable[[MemoisedMechanism, bytes, BitSource], Encode]


def device_of(make: Callable[[bytes, BitSource], Encode]) -> Callable[[], Encode]:
    """Return what makes new devices, each with a secret and a stream of its own."""
    number = count()

    def device() -> Encode:
        secret = next(number).to_bytes(32, "big")
        return make(secret, SeededBits(b"device" + secret))

    return device


def value_followed_within_an_epoch(
    mechanism: MemoisedMechanism, secret: bytes, bits: BitSource
) -> Encode:
    """Make an epoch's encoder anew for each report, so that it freezes every value."""
    return lambda value: mechanism.encoder(bits, secret=secret, epoch="e").encode(value)


def permanent_response_forgotten(
    mechanism: MemoisedMechanism, secret: bytes, bits: BitSource
) -> Encode:
    """Draw a fresh permanent response every day, so that averaging removes the noise."""
    return mechanism.encoder(bits).encode


def cohort_drawn_for_every_report(
    mechanism: MemoisedMechanism, secret: bytes, bits: BitSource
) -> Encode:
    """Give every cohort a permanent response of its own; each costs eps_inf."""
    encoder = mechanism.encoder(bits, secret=secret)

    def encode(value: Value) -> bytes:
        encoder._cohort = uniform_below(bits, mechanism.shape.rows)
        return encoder.encode(value)

    return encode


def flips_shared_by_all_values(
    mechanism: MemoisedMechanism, secret: bytes, bits: BitSource
) -> Encode:
    """Flip the same bits of every value of a device for good: two values tell which."""
    encoder = mechanism.encoder(bits, secret=secret)
    flips = encoder._permanent_response(0)
    encoder._permanent_response = lambda true_response: true_response ^ flips  # type: ignore[method-assign]
    return encoder.encode


def secret_cut_to_two_bytes(mechanism: MemoisedMechanism, secret: bytes, bits: BitSource) -> Encode:
    """Keep only 16 random bits of the secret: whoever tries 65,536 knows every device's."""
    short = hashlib.sha256(secret).digest()[:2].ljust(32, b"\0")
    return mechanism.encoder(bits, secret=short).encode


def _forgets(
    mechanism: MemoisedMechanism, secret: bytes, bits: BitSource, after: int, epoch: str | None
) -> Encode:
    calls, parts = (
        count(),
        [
            mechanism.encoder(bits, secret=secret + bytes([part]), epoch=epoch).encode
            for part in range(20)
        ],
    )
    return lambda value: parts[next(calls) // after](value)


def epoch_forgotten_after_nine_reports(
    mechanism: MemoisedMechanism, secret: bytes, bits: BitSource
) -> Encode:
    """Lose what is frozen after nine reports, and freeze anew."""
    return _forgets(mechanism, secret, bits, 9, "e")


def epoch_forgotten_after_fifty_reports(
    mechanism: MemoisedMechanism, secret: bytes, bits: BitSource
) -> Encode:
    """Lose what is frozen after fifty reports, later than most lives."""
    return _forgets(mechanism, secret, bits, 50, "e")


def secret_lost_after_a_while(
    mechanism: MemoisedMechanism, secret: bytes, bits: BitSource
) -> Encode:
    """Change the secret, and so the permanent response to the same value, after a while."""
    return _forgets(mechanism, secret, bits, 20, None)


def second_report_repeats_the_first(
    mechanism: MemoisedMechanism, secret: bytes, bits: BitSource
) -> Encode:
    """Repeat the instantaneous noise of the report before in every second report."""
    encode, calls, last = mechanism.encoder(bits, secret=secret).encode, count(), b""

    def repeating(value: Value) -> bytes:
        nonlocal last
        if next(calls) % 2 == 0:
            last = encode(value)
        return last

    return repeating


_UMA = Rappor(bits=32, hashes=2, cohorts=128, f=0.5, p=0.25, q=0.75, seed="00ff")
_PLACES = MemoisedResponse(categories=("a", "b", "c"), epsilon=1.0, lifetime_epsilon=2.0)
LIFE_MUTANTS: tuple[tuple[HistoryMutant, str, MemoisedMechanism], ...] = (
    (flips_shared_by_all_values, "per-value", _UMA),
    (secret_cut_to_two_bytes, "per-value", _UMA),
    (secret_lost_after_a_while, "per-value", _UMA),
    (secret_lost_after_a_while, "per-value", _PLACES),
    (second_report_repeats_the_first, "per-value", _UMA),
    (epoch_forgotten_after_nine_reports, "epoch", _UMA),
    (epoch_forgotten_after_nine_reports, "epoch", _PLACES),
    (epoch_forgotten_after_fifty_reports, "epoch", _UMA),
    (value_followed_within_an_epoch, "epoch", _UMA),
    (permanent_response_forgotten, "per-value", _UMA),
    (cohort_drawn_for_every_report, "per-value", _UMA),
)
"""Mutants that check C catches by lives of devices: `ldp.audit.lives`, at the default trials."""

HISTORY_MUTANTS: tuple[HistoryMutant, ...] = (
    value_followed_within_an_epoch,
    permanent_response_forgotten,
    cohort_drawn_for_every_report,
)
"""Mutants that check C catches by many days: `ldp.audit.memoised_histories`."""
