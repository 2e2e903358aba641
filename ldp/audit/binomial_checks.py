"""Checks that any numbers or bits are uniform, independent or binomial."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import Bools, Floats, Ints, binomial_above, binomial_ends, binomial_up_to
from ldp.audit.judging import Checks
from ldp.audit.law import MOST_OUTCOMES
from ldp.bulk import walsh_hadamard

LAGS = (*range(1, 33), 40, 48, 64, 96, 128, 192, 256, 384, 512)
"""Distances, in calls, between reports that are checked for independence."""


TAILS = (1e-16, 1e-9, 1e-6, 1e-4, 0.003, 0.03, 0.1, 0.25)
"""Tail probabilities at which the law of a binomial count is cut into bins, from below and from
above. One report beyond 1e-16 is a finding; beyond 1e-4 it takes about one report in a hundred."""


MOST_BITS = 16
"""Number of low bits of a number over which parities are taken."""


RESIDUES = range(3, 65)
"""Moduli by whose remainders numbers are counted, too, and numbers of blocks."""
LENGTHS = (2, 4, 8, 16, 32)
"""Lengths of the turns (runs of successive numbers) by which numbers are counted, too."""


def checks_by_number(
    what: str, seen: Bools, numbers: Ints, limit: int, probability: float
) -> Iterator[Checks]:
    """Check that what is `seen` does not depend on a number that each report has: by every parity
    of its low bits, by its remainders, and by itself, modulo `limit`, where that is not too
    large."""
    size = low_limit(limit)
    low = numbers & (size - 1)
    odd, odd_seen = (odd_parities(np.bincount(n, minlength=size)) for n in (low, low[seen]))
    for which, trials, counts in (
        ("odd", odd, odd_seen),
        ("even", numbers.size - odd, int(seen.sum()) - odd_seen),
    ):
        yield f"{what} by {which} parity", counts, trials, np.full(trials.size, probability)
    trials, counts = np.ones(numbers.size, dtype=np.int64), seen.astype(np.int64)
    if numbers.size and numbers.max() < numbers.size:  # sums of few sums, not of all reports
        counts = np.bincount(numbers[seen], minlength=int(numbers.max()) + 1)
        trials = np.bincount(numbers)
        numbers = np.arange(trials.size)
    for modulus in RESIDUES:
        if modulus < limit:
            rest = f"{what} by rest of {modulus}"
            yield group_checks(rest, counts, trials, numbers % modulus, modulus, probability)
            block, name = numbers % limit * modulus // limit, f"{what} by block of {modulus}"
            yield group_checks(name, counts, trials, block, modulus, probability)
    for size in LENGTHS:
        for modulus in range(2, min(64, limit) // size + 1):
            name = f"{what} by turns of {size}, rest of {modulus}"
            turns = numbers // size % modulus
            yield group_checks(name, counts, trials, turns, modulus, probability)
    if limit <= MOST_OUTCOMES:
        yield group_checks(what, counts, trials, numbers % limit, limit, probability)


def group_checks(
    what: str,
    counts: NDArray[Any],
    trials: NDArray[Any],
    numbers: Ints,
    limit: int,
    probability: float,
) -> Checks:
    """Return the check that `counts` of `trials`, added up for each of the `numbers` from 0 to
    `limit` - 1, agree with `probability`."""
    seen, possible = (np.bincount(numbers, of, limit).astype(np.int64) for of in (counts, trials))
    return what, seen, possible, np.full(limit, probability)


def low_limit(limit: int) -> int:
    """Return the least power of two that is not below `limit`, at most 2**MOST_BITS: the low bits
    of numbers below `limit` lie below it."""
    return 1 << min(MOST_BITS, (limit - 1).bit_length())


def odd_parities(counts: Ints) -> Ints:
    """Return, from counts of the numbers 0 .. 2**k - 1, for every mask below 2**k how many have an
    odd number of ones among the mask's bits: one Walsh-Hadamard transform."""
    turned = hadamard(counts)
    odd: Ints = (turned[0] - turned) // 2
    return odd


def hadamard(counts: Ints) -> Ints:
    """Return the Walsh-Hadamard transform of 2**k integers, not scaled."""
    transform: Ints = walsh_hadamard(counts[None])[0]
    return transform


def noise_checks(reported: Bools, touched: Bools, lied: float) -> Iterator[Checks]:
    """Check that the bits of untouched cells are independent, and 1 with probability `lied`. Then
    the number of cells that a report names is binomial; so is the number that two reports both
    name, and the number of pairs of cells named together where no cell is in two pairs."""
    columns = reported.shape[1]
    free = ~touched
    noise = reported & free
    yield from count_checks("untouched cells reported", noise.sum(axis=1), free.sum(axis=1), lied)
    yield from lag_checks("untouched cells", noise, free, lied)
    yield from pair_checks(noise, free, lied**2)
    for apart, both, trials in _pairs_of_cells(noise, free):
        for left, _ in disjoint_pairs(columns, apart):
            what = f"cells {apart} apart both reported"
            yield sum_checks(what, both[left], trials[left], lied**2)


def pair_checks(noise: Bools, free: Bools, probability: float) -> Iterator[Checks]:
    """Check for each distance that two untouched (`free`) cells at that distance are both reported
    with this `probability`."""
    for apart, both, trials in _pairs_of_cells(noise, free):
        claimed = np.full(both.size, probability)
        yield f"cells {apart} apart both reported, from column", both, trials, claimed


def _pairs_of_cells(noise: Bools, free: Bools) -> Iterator[tuple[int, Ints, Ints]]:
    """Yield every distance that is a power of two, and for each two cells at that distance how
    often both are reported and how often both could be."""
    for apart in (1 << power for power in range((noise.shape[1] - 1).bit_length())):
        both, trials = (
            column_sums(cells[:, apart:] & cells[:, :-apart]) for cells in (noise, free)
        )
        yield apart, both, trials


def uniform_checks(what: str, numbers: Ints, limit: int) -> Iterator[Checks]:
    """Check that independent `numbers` are uniform below `limit`."""
    yield block_checks(f"reports in {what} block", numbers, limit)
    yield from remainder_checks(f"reports by {what}", numbers, limit)
    low = low_limit(limit)
    yield evenness_checks(what, numbers % low, remainders(limit, low))
    yield from equality_checks(what, numbers, 1 / limit)


def payload_bits(payloads: Sequence[bytes], columns: int) -> Bools:
    """Return the bits of payloads: shape (payloads, columns)."""
    block = np.frombuffer(b"".join(payloads), dtype=np.uint8).reshape(len(payloads), -1)
    return np.unpackbits(block, axis=1, bitorder="little", count=columns).astype(bool)


def outcome_checks(what: str, numbers: Sequence[int] | Ints, distribution: Floats) -> Checks:
    """Return the check that independent `numbers` have this `distribution` over 0, 1, ..."""
    counts = np.bincount(numbers, minlength=distribution.size)
    return what, counts, np.full(distribution.size, len(numbers)), distribution


def tail_checks(what: str, numbers: Ints, distribution: Floats) -> Checks:
    """Return the check that independent `numbers` are 1, 2, ... or more as often as with this
    `distribution` over 0, 1, ..."""
    counts = np.bincount(numbers, minlength=distribution.size)
    above, law = (of[:0:-1].cumsum()[::-1] for of in (counts, distribution))
    return f"{what} or more", above, np.full(law.size, len(numbers)), np.minimum(law, 1.0)


def never_checks(what: str, times: int, trials: int) -> Checks:
    """Return the check of a count that must be 0."""
    return what, np.array([min(times, trials)]), np.array([trials]), np.zeros(1)


def block_checks(what: str, numbers: Ints, limit: int) -> Checks:
    blocks = min(limit, MOST_OUTCOMES)
    sizes = np.diff([-(-i * limit // blocks) for i in range(blocks + 1)])
    return outcome_checks(what, blocks_of(numbers, limit), sizes / limit)


def remainder_checks(what: str, numbers: Ints, limit: int) -> Iterator[Checks]:
    """Check that numbers uniform below `limit` have each remainder as often as they should."""
    for modulus in RESIDUES:
        if modulus < limit:
            claimed = remainders(limit, modulus) / limit
            yield outcome_checks(f"{what}, rest of {modulus}", numbers % modulus, claimed)


def evenness_checks(what: str, low: Ints, sizes: Ints) -> Checks:
    """Return the check that numbers, of which number i has a probability in proportion to sizes[i],
    have every parity as often as they should."""
    claimed = odd_parities(sizes) / sizes.sum()
    counts = odd_parities(np.bincount(low, minlength=sizes.size))
    return f"odd parities of {what}, mask", counts, np.full(sizes.size, low.size), claimed


def remainders(limit: int, modulus: int) -> Ints:
    """Return how many numbers below `limit` have each remainder."""
    return limit // modulus + (np.arange(modulus) < limit % modulus)


def blocks_of(numbers: Ints, limit: int) -> Ints:
    """Return the block of each number below `limit`. There are at most MOST_OUTCOMES blocks, of
    nearly equal size."""
    return numbers * min(limit, MOST_OUTCOMES) // limit


def disjoint_pairs(length: int, apart: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield all pairs (i, i + apart) below `length`, in two parts. Within a part no number is in
    two pairs, so that the pairs are independent of each other."""
    for start in (0, apart):
        first = np.arange(start, max(start, length - apart))
        first = first[(first - start) // apart % 2 == 0]
        yield first, first + apart


def equality_checks(
    what: str, keys: Ints, probability: float, lags: Sequence[int] = LAGS
) -> Iterator[Checks]:
    """Check that reports some calls apart have equal keys as often as independent reports."""
    for lag in lags:
        for first, second in disjoint_pairs(keys.size, lag):
            same = keys[first] == keys[second]
            yield sum_checks(
                f"same {what} {lag} calls apart", same, np.ones_like(same), probability
            )


def remainder_equality_checks(
    what: str, keys: Ints, probability: float, start: int
) -> Iterator[Checks]:
    """Check that reports whose calls have one remainder have equal keys as often as independent
    reports: successive ones, by the remainder. `start`: number of the first report's call."""
    for modulus in (2, *RESIDUES):
        for first, second in disjoint_pairs(keys.size, modulus):
            same, rest = keys[first] == keys[second], (start + first) % modulus
            name = f"same {what} {modulus} calls apart, call"
            yield group_checks(name, same, same | True, rest, modulus, probability)


def lag_checks(what: str, seen: Bools, possible: Bools, probability: float) -> Iterator[Checks]:
    """Check that what is `seen` in some of the `possible` places, shape (reports, places), is seen
    in the same place of two reports some calls apart as often as in independent ones."""
    words, possible_words = packed(seen), packed(possible)
    for lag in LAGS:
        for first, second in disjoint_pairs(len(seen), lag):
            counts, sizes = (
                np.bitwise_count(block[first] & block[second]).sum(axis=1, dtype=np.int64)
                for block in (words, possible_words)
            )
            yield from count_checks(
                f"{what} of both, {lag} calls apart", counts, sizes, probability**2
            )


def packed(cells: Bools) -> NDArray[np.uint64]:
    """Return cells, shape (reports, columns), as words of 64 bits, shape (reports, words)."""
    block = np.packbits(cells, axis=1)
    words: NDArray[np.uint64] = np.pad(block, [(0, 0), (0, -block.shape[1] % 8)]).view(np.uint64)
    return words


def column_sums(cells: Bools) -> Ints:
    """Return the number of set cells of each column; `cells`: shape (reports, columns). The sum of
    255 of them fits into a byte."""
    rows, columns = cells.shape
    full, block = rows - rows % 255, cells.view(np.uint8)
    bytes_of_blocks = block[:full].reshape(full // 255, 255, columns).sum(axis=1, dtype=np.uint8)
    sums: Ints = bytes_of_blocks.sum(axis=0, dtype=np.int64)
    sums += block[full:].sum(axis=0, dtype=np.int64)
    return sums


def count_checks(what: str, counts: Ints, sizes: Ints, probability: float) -> Iterator[Checks]:
    """Check that independent `counts` are binomial (`sizes`, `probability`): their sum is, and so
    is how many counts of one size fall into a bin of values. A single count in a far tail is
    detected, and the other bins detect counts that vary too much or too little."""
    yield sum_checks(what, counts, sizes, probability)
    for size in np.unique(sizes[sizes > 1]).tolist():
        edges, masses = binomial_bins(size, probability)
        bins = np.searchsorted(edges, counts[sizes == size])
        yield outcome_checks(f"{what}, of {size}, bin", bins, masses)


@lru_cache(maxsize=1024)
def binomial_bins(size: int, probability: float) -> tuple[Floats, Floats]:
    """Return the inclusive upper ends of all bins of a binomial count but the last, and the bins'
    probabilities."""
    edges = np.unique([binomial_ends(tail, size, probability) for tail in TAILS])
    below = binomial_up_to(edges, size, probability)
    above = binomial_above(edges, size, probability)
    inner = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))  # no cancellation in tails
    return edges, np.concatenate([below[:1], inner, above[-1:]])


def sum_checks(what: str, seen: NDArray[Any], possible: NDArray[Any], probability: float) -> Checks:
    """Return the check of one binomial count: everything that was seen, out of everything
    possible."""
    return what, np.array([seen.sum()]), np.array([possible.sum()]), np.array([probability])
