"""Encoders that break their promise, each in one way; the audit must catch every one.

A mutant alters `encode` only: its mechanism, and so the channel that it is held to, stays honest.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import count

from ldp.hashing import PolynomialRows, value_bytes
from ldp.mechanisms.base import Mechanism, Value, as_bits, threshold
from ldp.randomness import BitSource, SeededBits, bernoulli, uniform_below
from ldp.wire import Kind, pack_report, split_report

Encode = Callable[[Value], bytes]
Mutant = Callable[[Mechanism, BitSource], Encode]


def _altered(
    mechanism: Mechanism, bits: BitSource, change: Callable[[int, int, tuple[int, ...]], int]
) -> Encode:
    """An honest encoder whose payload is changed: change(row, number, true cells) -> number."""
    honest = mechanism.encoder(bits)

    def encode(value: Value) -> bytes:
        row, payload = split_report(honest.encode(value), mechanism.header, mechanism.layout)
        number = mechanism.layout.payload_number(payload)
        changed = change(row, number, mechanism.cells(value, row))
        return pack_report(mechanism.header.to_bytes(), mechanism.layout, row, changed)

    return encode


def _truth(mechanism: Mechanism, number: int, true_cells: tuple[int, ...]) -> int:
    """The payload without noise; of a sign the column stays."""
    if mechanism.kind is Kind.BITS:
        return sum(1 << cell for cell in true_cells)
    (cell,) = true_cells
    if mechanism.kind is Kind.INDEX:
        return cell
    return number & ~1 | ((number >> 1) & cell).bit_count() & 1


def true_cell_never_flipped(mechanism: Mechanism, bits: BitSource) -> Encode:
    """The bug of pure-LDP's RAPPOR: what the value touches is always reported."""

    def change(row: int, number: int, true_cells: tuple[int, ...]) -> int:
        for cell in true_cells:
            number = cell if mechanism.kind is Kind.INDEX else number | 1 << cell
        return number

    return _altered(mechanism, bits, change)


def last_bit_unnoised(mechanism: Mechanism, bits: BitSource) -> Encode:
    """The bug of OpenDP's bit vector: a loop that ends one bit early."""
    last = mechanism.shape.columns - 1

    def change(row: int, number: int, true_cells: tuple[int, ...]) -> int:
        return number & ~(1 << last) | (last in true_cells) << last

    return _altered(mechanism, bits, change)


def last_category_never_a_lie(mechanism: Mechanism, bits: BitSource) -> Encode:
    """The same off-by-one where the report is an index: the last column is only ever the truth."""
    last = mechanism.shape.columns - 1

    def change(row: int, number: int, true_cells: tuple[int, ...]) -> int:
        return 0 if number == last and last not in true_cells else number

    return _altered(mechanism, bits, change)


def epsilon_doubled(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Thresholds of twice the epsilon under the honest header."""
    encoder = mechanism.encoder(bits)
    channel = mechanism.channel
    if mechanism.kind is Kind.BITS:
        more, less = (threshold(_doubled(p)) for p in (channel.touched, channel.untouched))

        def encode(value: Value) -> bytes:
            row = uniform_below(bits, mechanism.shape.rows)
            truth = as_bits(mechanism.cells(value, row))
            number = bernoulli(bits, less, mechanism.shape.columns, truth, more)
            return pack_report(mechanism.header.to_bytes(), mechanism.layout, row, number)

        return encode
    if mechanism.kind is Kind.INDEX:
        others = mechanism.shape.columns - 1
        squared = (channel.touched / channel.untouched) ** 2
        encoder._touched = threshold(squared / (squared + others))
    else:
        encoder._touched = threshold(_doubled(channel.touched))
    return encoder.encode


def _doubled(probability: Fraction) -> Fraction:
    return probability**2 / (probability**2 + (1 - probability) ** 2)


def noise_reused_for_neighbour(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Every odd column repeats the flip of the column before it; each column alone looks right."""

    def change(row: int, number: int, true_cells: tuple[int, ...]) -> int:
        truth = _truth(mechanism, number, true_cells)
        flips = number ^ truth
        for column in range(1, mechanism.shape.columns, 2):
            flips = flips & ~(1 << column) | (flips >> (column - 1) & 1) << column
        return flips ^ truth

    return _altered(mechanism, bits, change)


def row_from_value(mechanism: Mechanism, bits: BitSource) -> Encode:
    """The row is a function of the value, so it gives the value away."""
    encoder = mechanism.encoder(bits)

    def encode(value: Value) -> bytes:
        row = mechanism.addressing.point(value) % mechanism.shape.rows
        number = encoder._draw(mechanism.cells(value, row))
        return pack_report(mechanism.header.to_bytes(), mechanism.layout, row, number)

    return encode


def _replayed(mechanism: Mechanism, bits: BitSource, noise: Callable[[int], int]) -> Encode:
    """Call t draws from the stream number noise(t): calls of one number share all their noise."""
    seed = bits.draw(64)
    encoder = mechanism.encoder(bits)
    calls = count()

    def encode(value: Value) -> bytes:
        encoder._bits = SeededBits((seed + noise(next(calls))).to_bytes(16, "little"))
        return encoder.encode(value)

    return encode


def same_noise_every_call(mechanism: Mechanism, bits: BitSource) -> Encode:
    """A generator seeded anew for every report."""
    return _replayed(mechanism, bits, lambda call: 0)


def noise_kept_for_two_calls(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Calls (0, 1), (2, 3).. share their noise: each report alone looks right."""
    return _replayed(mechanism, bits, lambda call: call // 2)


def noise_kept_for_two_calls_after_the_first(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Calls (1, 2), (3, 4).. share their noise: out of step with an audit of every second pair."""
    return _replayed(mechanism, bits, lambda call: (call + 1) // 2)


def noise_of_a_double_buffer(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Call t + 2 repeats the noise of call t: neighbouring reports are independent."""
    return _replayed(mechanism, bits, lambda call: call // 4 * 2 + call % 2)


def payload_noise_kept_for_two_calls(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Every report has a fresh row, but every second one the flips of the one before."""
    calls, flips = count(), 0

    def change(row: int, number: int, true_cells: tuple[int, ...]) -> int:
        nonlocal flips
        truth = _truth(mechanism, number, true_cells)
        if next(calls) % 2 == 0:
            flips = number ^ truth
        return flips ^ truth

    return _altered(mechanism, bits, change)


def _flip_copied(mechanism: Mechanism, bits: BitSource, step: int) -> Encode:
    def change(row: int, number: int, true_cells: tuple[int, ...]) -> int:
        for cell in true_cells:
            other = cell + step
            if 0 <= other < mechanism.shape.columns:
                number = number & ~(1 << other) | (~number >> cell & 1) << other
        return number

    return _altered(mechanism, bits, change)


def true_flip_copied_to_the_right(mechanism: Mechanism, bits: BitSource) -> Encode:
    """The cell right of the true one is flipped when the true one is: together they name it."""
    return _flip_copied(mechanism, bits, 1)


def true_flip_copied_to_the_left(mechanism: Mechanism, bits: BitSource) -> Encode:
    """The same with the cell left of the true one."""
    return _flip_copied(mechanism, bits, -1)


def one_word_of_noise_for_the_row(mechanism: Mechanism, bits: BitSource) -> Encode:
    """64 columns' flips, repeated over the whole row."""
    columns = mechanism.shape.columns

    def change(row: int, number: int, true_cells: tuple[int, ...]) -> int:
        truth = _truth(mechanism, number, true_cells)
        word = (number ^ truth) & ((1 << 64) - 1)
        repeated = sum(word << start for start in range(0, columns, 64))
        return repeated & ((1 << columns) - 1) ^ truth

    return _altered(mechanism, bits, change)


def half_words_of_noise(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Columns 32 to 63 of every 64 repeat the flips of columns 0 to 31."""
    columns = mechanism.shape.columns
    lower = sum(((1 << 32) - 1) << start for start in range(0, columns, 64))

    def change(row: int, number: int, true_cells: tuple[int, ...]) -> int:
        truth = _truth(mechanism, number, true_cells)
        halves = (number ^ truth) & lower
        return (halves | halves << 32) & ((1 << columns) - 1) ^ truth

    return _altered(mechanism, bits, change)


def two_percent_without_noise(mechanism: Mechanism, bits: BitSource) -> Encode:
    """One report in fifty is the plain truth."""

    def change(row: int, number: int, true_cells: tuple[int, ...]) -> int:
        return number if uniform_below(bits, 50) else _truth(mechanism, number, true_cells)

    return _altered(mechanism, bits, change)


def long_values_without_noise(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Values of more than 4 bytes are sent as they are."""
    honest = mechanism.encoder(bits).encode
    plain = _altered(mechanism, bits, lambda _, number, cells: _truth(mechanism, number, cells))
    return lambda value: (plain if len(value_bytes(value)) > 4 else honest)(value)


def applies(mutant: Mutant, mechanism: Mechanism) -> bool:
    """Whether the mutant makes sense for the mechanism's kind of report and shape."""
    bits, index = mechanism.kind is Kind.BITS, mechanism.kind is Kind.INDEX
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
        one_word_of_noise_for_the_row: bits and columns > 64,
        half_words_of_noise: bits and columns > 32,
        # With few columns an honest report is often the plain truth, and 2 % more of them are lost
        # among 20,000; with 64 there is hardly ever one.
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
    one_word_of_noise_for_the_row,
    half_words_of_noise,
    two_percent_without_noise,
    long_values_without_noise,
)
