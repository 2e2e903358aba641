"""Checks that any numbers or bits are uniform, independent or binomial."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

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
above. One report beyond 1e-16 is a finding. Beyond 1e-4 it takes about one report in a hundred."""


MOST_BITS = 16
"""Number of low bits of a number over which parities are taken."""


RESIDUES = range(3, 65)
"""Moduli by whose remainders numbers are counted, too, and numbers of blocks."""
MORE_RESIDUES = range(3, 129)
"""Moduli of numbers that are too many to be counted one by one."""
EQUAL_LAGS = sorted({2, *LAGS, *RESIDUES})
"""Distances between reports that are compared as a whole."""
LENGTHS = (2, 4, 8, 16, 32)
"""Lengths of the turns (runs of successive numbers) by which numbers are counted, too."""
FEW_GROUPS = 8
"""Largest number of groups of a condition that is judged among few."""


IN_A_ROW = (16, 64, 256)
"""Numbers of successive reports whose sums are checked."""


class Occurrence(NamedTuple):
    """Event that each report shows `seen` times out of `possible`, each time with probability
    `chance`. `seen`, `possible`: shape (reports,)."""

    what: str
    seen: Ints | Bools
    possible: Ints | Bools
    chance: float


def checks_by_number(
    name: str, numbers: Ints, limit: int, *statistics: Occurrence
) -> Iterator[Checks]:
    """Check that what reports show does not depend on a number that each report has, of this
    `name`.

    The checks group reports by every parity of the number's low bits, by its remainders, by turns
    and blocks of numbers, and by itself modulo `limit`, where that is not too large. In the order
    of the number, reports must vary as independent events do."""
    different, place = np.unique(numbers, return_inverse=True)
    size, (periods, parts) = low_limit(limit), _periods(limit)
    counted = [of for statistic in statistics for of in statistic[1:3]]
    by_number = [np.bincount(place, of, different.size) for of in counted]
    low = np.array([np.bincount(different & (size - 1), of, size) for of in by_number], dtype=int)
    odd, sums = odd_parities(low), _by_groups(different, by_number, periods)
    for i, (what, *_, chance) in enumerate(statistics):
        pair, claimed = slice(2 * i, 2 * i + 2), np.full(size, chance)
        yield f"{what} by {name}, odd parity", *odd[pair], claimed
        even = low[pair].sum(axis=1, keepdims=True) - odd[pair]
        yield f"{what} by {name}, even parity", *even, claimed
        for end, part in parts:
            some = sums[pair, part]
            yield f"{what} by {name}{end}", *some, np.full(some.shape[1], chance)
    # numpy sorts 16 bits much faster than more
    order = np.argsort(place.astype(np.min_scalar_type(different.size)), kind="stable")
    for what, seen, possible, chance in statistics:
        yield from _in_a_row(f"{what} in a row by {name}", seen[order], possible[order], chance)


def _in_a_row(
    what: str, seen: Ints | Bools, possible: Ints | Bools, chance: float
) -> Iterator[Checks]:
    """Check that sums over successive reports are binomial, among those reports in which as much is
    possible as in most."""
    often = np.bincount(possible, minlength=2)
    usual = int(often[1:].argmax()) + 1
    sums = seen[possible == usual].cumsum()
    for size in IN_A_ROW:
        some = np.diff(sums[size - 1 :: size], prepend=0)
        yield bin_checks(what, some, size * usual, chance)


Period = tuple[int, int, int]
"""Condition on a number n: a period, a length, the place of the first group. The group of n is
n % period // length."""


def _by_groups(numbers: Ints, counts: Sequence[Ints], periods: Sequence[Period]) -> Ints:
    """Return the sums of each of the `counts` by all groups of numbers."""
    period, length, first = np.array(periods).T[:, :, None]
    groups = (numbers % period // length + first).ravel()
    most = int((first - -period // length).max())
    weights = (np.tile(of, len(periods)) for of in counts)
    return np.array([np.bincount(groups, of, most) for of in weights], dtype=np.int64)


@lru_cache(maxsize=256)
def _periods(limit: int) -> tuple[list[Period], list[tuple[str, slice]]]:
    """Return conditions on a number below `limit`, those with few groups first: remainders, turns
    and blocks; and the parts of all groups that are judged together."""
    moduli = RESIDUES if limit <= MOST_OUTCOMES else MORE_RESIDUES
    rests = {(modulus, 1) for modulus in moduli if modulus < limit}
    turns = {
        (size * modulus, size)
        for size in LENGTHS
        for modulus in range(2, min(RESIDUES.stop - 1, limit) // size + 1)
    }
    shortest = 1 if limit <= MOST_OUTCOMES else -(-limit // RESIDUES.stop)
    sizes = {*LENGTHS, *(-(-limit // many) for many in (*RESIDUES, limit))}
    blocks = {(limit, size) for size in sizes if shortest <= size < limit}
    pairs = rests | turns | blocks | {(1, 1)}
    every = sorted((-(-period // length), period, length) for period, length in pairs)
    first = [0, *accumulate(groups for groups, *_ in every)]
    few = first[sum(groups <= min(FEW_GROUPS, limit - 1) for groups, *_ in every)]
    last = first[-1] - limit if limit <= MOST_OUTCOMES else first[-1]
    ends = {", few groups": (0, few), ", group": (few, last), "": (last, first[-1])}
    parts = [(name, slice(*end)) for name, end in ends.items() if end[0] < end[1]]
    pairs_of = zip(every, first, strict=False)
    return [(period, length, at) for (_, period, length), at in pairs_of], parts


def group_checks(
    what: str,
    counts: NDArray[Any],
    trials: NDArray[Any],
    numbers: Ints,
    limit: int,
    chance: float,
) -> Checks:
    """Return the check that `counts` of `trials`, added up for each of the `numbers` from 0 to
    `limit` - 1, agree with `chance`."""
    seen, possible = (np.bincount(numbers, of, limit).astype(np.int64) for of in (counts, trials))
    return what, seen, possible, np.full(limit, chance)


def low_limit(limit: int) -> int:
    """Return the least power of two that is not below `limit`, at most 2**MOST_BITS: the low bits
    of numbers below `limit` lie below it."""
    return 1 << min(MOST_BITS, (limit - 1).bit_length())


def odd_parities(counts: Ints) -> Ints:
    """Return, from rows of counts of the numbers 0 .. 2**k - 1, for every mask below 2**k how many
    have an odd number of ones among the mask's bits: Walsh-Hadamard transforms."""
    turned = walsh_hadamard(counts)
    return (turned[:, :1] - turned) // 2


def noise_checks(reported: Bools, touched: Bools, lied: float) -> Iterator[Checks]:
    """Check that the bits of untouched cells are independent, and 1 with probability `lied`. Then
    the number of cells that a report names is binomial. So is the number that two reports both
    name, and the number of pairs of cells named together where no cell is in two pairs."""
    free = ~touched
    noise = reported & free
    yield from count_checks("untouched cells reported", row_sums(noise), row_sums(free), lied)
    yield from lag_checks("untouched cells", noise, free, lied)
    for what, both, trials, chances in pair_checks(noise, free, lied**2):
        yield what, both, trials, chances
        apart = reported.shape[1] - both.size
        for left, _ in disjoint_pairs(reported.shape[1], apart):
            yield sum_checks(what.partition(",")[0], both[left], trials[left], lied**2)


def pair_checks(noise: Bools, free: Bools, chance: float) -> Iterator[Checks]:
    """Check for each distance that is a power of two that two untouched (`free`) cells at that
    distance are both reported with this `chance`."""
    for apart in (1 << power for power in range((noise.shape[1] - 1).bit_length())):
        both, trials = (column_sums(of[:, apart:] & of[:, :-apart]) for of in (noise, free))
        claimed = np.full(both.size, chance)
        yield f"cells {apart} apart both reported, from column", both, trials, claimed


def uniform_checks(what: str, numbers: Ints, limit: int) -> Iterator[Checks]:
    """Check that independent `numbers` are uniform below `limit`: by groups and parities, and how
    often they are equal."""
    periods, parts = _periods(limit)
    (counts,) = _by_groups(numbers, [np.ones_like(numbers)], periods)
    sizes = []
    for period, length, _ in periods:
        ends = np.arange(0, period + length, length)
        ends = np.minimum(ends, period)
        below = np.minimum(ends, limit % period)
        sizes.append(np.diff(limit // period * ends + below))
    claimed = np.concatenate(sizes) / limit
    for end, part in parts:
        trials = np.full(counts[part].size, numbers.size)
        yield f"reports by {what}{end}", counts[part], trials, claimed[part]
    low = low_limit(limit)
    yield evenness_checks(what, numbers % low, remainders(limit, low))
    if limit > 1:
        yield from equality_checks(what, numbers, 1 / limit)


def payload_bits(payloads: Sequence[bytes], columns: int) -> Bools:
    """Return the bits of payloads: shape (payloads, columns)."""
    block = np.frombuffer(b"".join(payloads), dtype=np.uint8).reshape(len(payloads), -1)
    return np.unpackbits(block, axis=1, bitorder="little", count=columns).astype(bool)


def outcome_checks(what: str, numbers: Sequence[int] | Ints, law: Floats) -> Checks:
    """Return the check that independent `numbers` have this `law` over 0, 1, ..."""
    counts = np.bincount(numbers, minlength=law.size)
    return what, counts, np.full(law.size, len(numbers)), law


def tail_checks(what: str, numbers: Ints, law: Floats) -> Checks:
    """Return the check that independent `numbers` are 1, 2, ... or more as often as with this
    `law` over 0, 1, ..."""
    counts = np.bincount(numbers, minlength=law.size)
    above, law = (of[:0:-1].cumsum()[::-1] for of in (counts, law))
    return f"{what} or more", above, np.full(law.size, len(numbers)), np.minimum(law, 1.0)


def never_checks(what: str, times: int, trials: int) -> Checks:
    """Return the check of a count that must be 0."""
    return what, np.array([min(times, trials)]), np.array([trials]), np.zeros(1)


def evenness_checks(what: str, low: Ints, sizes: Ints) -> Checks:
    """Return the check that the numbers `low` have every parity as often as they should: number i
    has a probability in proportion to sizes[i]."""
    counts, possible = odd_parities(np.stack([np.bincount(low, minlength=sizes.size), sizes]))
    trials = np.full(sizes.size, low.size)
    return f"odd parities of {what}, mask", counts, trials, possible / sizes.sum()


def remainders(limit: int, modulus: int) -> Ints:
    """Return how many numbers below `limit` have each remainder."""
    return limit // modulus + (np.arange(modulus) < limit % modulus)


def disjoint_pairs(length: int, apart: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield all pairs (i, i + apart) below `length`, in two parts. Within a part no number is in
    two pairs, so that the pairs are independent of each other."""
    for start in (0, apart):
        first = np.arange(start, max(start, length - apart))
        first = first[(first - start) // apart % 2 == 0]
        yield first, first + apart


def equality_checks(what: str, keys: Ints, chance: float, start: int = 0) -> Iterator[Checks]:
    """Check that reports some calls apart have equal keys as often as independent reports: all, and
    by the remainder of their calls. `start`: number of the first report's call."""
    for lag in EQUAL_LAGS:
        for first, second in disjoint_pairs(keys.size, lag):
            same, name = keys[first] == keys[second], f"same {what} {lag} calls apart"
            yield sum_checks(name, same, same | True, chance)
            if 1 < lag < RESIDUES.stop:  # reports of one remainder
                rest = (start + first) % lag
                yield group_checks(f"{name}, call", same, same | True, rest, lag, chance)


def lag_checks(what: str, seen: Bools, possible: Bools, chance: float) -> Iterator[Checks]:
    """Check that what is `seen` in some of the `possible` places, shape (reports, places), is seen
    in the same place of two reports some calls apart as often as in independent ones."""
    words, possible_words = packed(seen), packed(possible)
    for lag in LAGS:
        for first, second in disjoint_pairs(len(seen), lag):
            counts, sizes = (
                _ones(block[first] & block[second]) for block in (words, possible_words)
            )
            yield from count_checks(f"{what} of both, {lag} calls apart", counts, sizes, chance**2)


def packed(cells: Bools) -> NDArray[np.uint64]:
    """Return cells, shape (reports, columns), as words of 64 bits, shape (reports, words)."""
    block = np.packbits(cells, axis=1)
    return np.pad(block, [(0, 0), (0, -block.shape[1] % 8)]).view(np.uint64)


def row_sums(cells: Bools) -> Ints:
    """Return the number of set cells of each report. `cells`: shape (reports, columns)."""
    return _ones(packed(cells))


def column_sums(cells: Bools) -> Ints:
    """Return the number of set cells of each column. `cells`: shape (reports, columns). The sum of
    255 cells fits into a byte."""
    rows, columns = cells.shape
    full, block = rows - rows % 255, cells.view(np.uint8)
    bytes_of_blocks = block[:full].reshape(full // 255, 255, columns).sum(axis=1, dtype=np.uint8)
    sums: Ints = bytes_of_blocks.sum(axis=0, dtype=np.int64)
    sums += block[full:].sum(axis=0, dtype=np.int64)
    return sums


def _ones(words: NDArray[np.uint64]) -> Ints:
    """Return the number of bits that are set in each row of words."""
    return np.asarray(np.bitwise_count(words).sum(axis=1, dtype=np.int64))


def count_checks(what: str, counts: Ints, sizes: Ints, chance: float) -> Iterator[Checks]:
    """Check that independent `counts` are binomial (`sizes`, `chance`): their sum is, and so is how
    many counts of one size fall into a bin of values. A single count in a far tail is detected. The
    other bins detect counts that vary too much or too little."""
    yield sum_checks(what, counts, sizes, chance)
    for size in np.unique(sizes[sizes > 1]).tolist():
        yield bin_checks(what, counts[sizes == size], size, chance)


def bin_checks(what: str, counts: Ints, size: int, chance: float) -> Checks:
    """Return the check of how many independent counts, binomial (`size`, `chance`), fall into each
    bin of values."""
    edges, masses = binomial_bins(size, chance)
    return outcome_checks(f"{what}, of {size}, bin", np.searchsorted(edges, counts), masses)


@lru_cache(maxsize=1024)
def binomial_bins(size: int, chance: float) -> tuple[Floats, Floats]:
    """Return the inclusive upper ends of all bins of a binomial count but the last, and the bins'
    probabilities."""
    edges = np.unique([binomial_ends(tail, size, chance) for tail in TAILS])
    below = binomial_up_to(edges, size, chance)
    above = binomial_above(edges, size, chance)
    # no cancellation in tails
    inner = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
    return edges, np.concatenate([below[:1], inner, above[-1:]])


def sum_checks(what: str, seen: NDArray[Any], possible: NDArray[Any], chance: float) -> Checks:
    """Return the check of one binomial count: everything that was seen, out of everything
    possible."""
    return what, np.array([seen.sum()]), np.array([possible.sum()]), np.array([chance])
