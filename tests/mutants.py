"""Encoders that break their promise, each in one way; the audit must catch every one.

A mutant alters `encode` only: its mechanism, and so the channel that it is held to, stays honest.
"""

from collections.abc import Callable
from fractions import Fraction

from ldp.mechanisms.base import Encoder, Mechanism, Value, threshold
from ldp.randomness import BitSource, SeededBits, uniform_below
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
    if mechanism.kind is Kind.INDEX:
        others = mechanism.shape.columns - 1
        squared = (channel.touched / channel.untouched) ** 2
        encoder._touched = threshold(squared / (squared + others))
    else:
        encoder._touched = threshold(_doubled(channel.touched))
        encoder._untouched = threshold(_doubled(channel.untouched))
    return encoder.encode


def _doubled(probability: Fraction) -> Fraction:
    return probability**2 / (probability**2 + (1 - probability) ** 2)


def noise_reused_for_neighbour(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Every odd column repeats the flip of the column before it; each column alone looks right."""

    def change(row: int, number: int, true_cells: tuple[int, ...]) -> int:
        truth = sum(1 << cell for cell in true_cells)
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
        number = encoder._draw(encoder, mechanism.cells(value, row))
        return pack_report(mechanism.header.to_bytes(), mechanism.layout, row, number)

    return encode


def same_noise_every_call(mechanism: Mechanism, bits: BitSource) -> Encode:
    """A generator seeded anew for every report."""
    seed = bits.draw(64).to_bytes(8, "little")
    return lambda value: Encoder(mechanism, SeededBits(seed)).encode(value)


def noise_kept_for_two_calls(mechanism: Mechanism, bits: BitSource) -> Encode:
    """Every second report repeats the noise of the one before: each report alone looks right."""
    calls = 0
    seed = b""

    def encode(value: Value) -> bytes:
        nonlocal calls, seed
        if calls % 2 == 0:
            seed = uniform_below(bits, 1 << 64).to_bytes(8, "little")
        calls += 1
        return Encoder(mechanism, SeededBits(seed)).encode(value)

    return encode


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
)
