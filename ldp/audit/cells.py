"""The cell-by-cell audit: an encoder's bytes against what its mechanism claims.

Nothing but the bytes is looked at. Every count that is checked is exactly binomial under the claim,
so every p-value is exact; they share `alpha` by Bonferroni, which makes `alpha` a bound on the
probability that an honest encoder fails. Counts of cells are binomial given the rows, because the
rows say which cells the value touches and the noise is independent of them.

What is looked for: wrong probabilities (of rows, cells, whole reports), cells of one report that
know of each other, reports that know of an earlier one, and single reports with too little noise.
What no audit by bytes can see is a cheat too rare for the number of trials, one that waits for a
value that is not tried, cells or calls that depend on each other at places nobody looks at (chosen
by a hash, say), and noise that comes from a secret key and looks random.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.audit.law import MOST_OUTCOMES, outcomes, report_law
from ldp.mechanisms.base import Catalogued, Mechanism, Value
from ldp.mechanisms.joint import told
from ldp.wire import Kind, split_parts, split_report

CHUNK = 20_000
"""Reports looked at together."""

LAGS = (*range(1, 33), 40, 48, 64, 96, 128, 192, 256, 384, 512)
"""Reports so many calls apart are checked for independence."""

TAILS = (1e-16, 1e-9, 1e-6, 1e-4, 0.003, 0.03, 0.1, 0.25)
"""Where the law of a binomial count is cut into bins, from below and from above: one report beyond
1e-16 is a finding, at 1e-4 it takes about one in a hundred."""

Checks = tuple[str, NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
"""What is counted; observed counts; trials; claimed probabilities: arrays of one shape."""


@dataclass(frozen=True)
class Finding:
    """A count that an honest encoder would show with probability below alpha / checks."""

    what: str
    observed: int
    expected: float
    p_value: float

    def __str__(self) -> str:
        return f"{self.what}: {self.observed}, expected {self.expected:.1f} (p {self.p_value:.1e})"


@dataclass(frozen=True)
class Audit:
    """How many counts were checked, and those that refute the claim."""

    checks: int
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        return not self.findings


def binomial_p(
    observed: NDArray[np.int64], trials: NDArray[np.int64], probability: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Two-sided p-value of a binomial count: twice the smaller exact tail, at most 1."""
    from scipy.stats import binom

    lower = binom.cdf(observed, trials, probability)
    upper = binom.sf(observed - 1, trials, probability)
    smaller: NDArray[np.float64] = np.minimum(1.0, 2 * np.minimum(lower, upper))
    return smaller


def audit_encoder(
    mechanism: Catalogued,
    values: Sequence[Value],
    encode: Callable[[Value], bytes],
    *,
    trials: int,
    alpha: float = 1e-6,
) -> Audit:
    """Encodes every value `trials` times and checks the reports against `mechanism`.

    Raises ReportError when bytes are no report of the mechanism. Memory: about ten times
    min(trials, CHUNK) x columns bytes.
    """
    checks: list[Checks] = []
    for value in values:
        pool: dict[tuple[str, int], Checks] = {}
        for done in range(0, trials, CHUNK):
            split = [
                split_report(encode(value), mechanism.header, mechanism.layout)
                for _ in range(min(CHUNK, trials - done))
            ]
            _add(pool, check_reports(mechanism, value, split))
        checks += pool.values()
    return judge(checks, alpha)


def _add(pool: dict[tuple[str, int], Checks], checks: Iterator[Checks]) -> None:
    """Adds the counts of a chunk of reports to those of earlier chunks, check by check: binomial
    counts of independent reports and one probability add to a binomial count."""
    times: Counter[str] = Counter()
    for what, observed, trials, probability in checks:
        key = what, times[what]
        times[what] += 1
        if key in pool:
            _, before, tried, _ = pool[key]
            observed, trials = observed + before, trials + tried
        pool[key] = what, observed, trials, probability


def judge(checks: Sequence[Checks], alpha: float) -> Audit:
    """The findings among `checks`, at `alpha` for all of them together."""
    total = sum(observed.size for _, observed, _, _ in checks)
    findings = []
    for what, observed, trials, probability in checks:
        p_values = binomial_p(observed, trials, probability)
        findings += [
            Finding(
                what if observed.size == 1 else f"{what} {i}",
                int(observed[i]),
                float(trials[i] * probability[i]),
                float(p_values[i]),
            )
            for i in np.flatnonzero(p_values < alpha / total)
        ]
    return Audit(total, tuple(findings))


def check_reports(
    mechanism: Catalogued, value: Value, reports: Sequence[tuple[int, bytes]]
) -> Iterator[Checks]:
    """All that is checked of some reports (row, payload) of one value, in the order in which they
    were made. Raises ReportError for a payload out of range."""
    numbers = [(row, mechanism.layout.payload_number(payload)) for row, payload in reports]
    split = [split_parts(mechanism.layout, row, payload) for row, payload in reports]
    parts = [(i, part, own) for i, (part, (own,)) in enumerate(told(mechanism, [value]))]
    rounded = [
        i for i, part, own in parts if _is_rounded(part, own, {each[i][0] for each in split})
    ]
    if rounded or outcomes(mechanism) <= MOST_OUTCOMES:
        law = report_law(mechanism, value)
        claimed = np.array([float(probability) for probability in law.values()])
        place = {key: i for i, key in enumerate(law)}
        keys = np.array([place[key] for key in numbers])
        counts = np.bincount(keys, minlength=claimed.size)
        yield "reports equal to number", counts, np.full(claimed.size, keys.size), claimed
        yield from _alike("report", keys, float((claimed**2).sum()))
    certain = [
        _Reports.of(part, own, [each[i] for each in split])
        for i, part, own in parts
        if i not in rounded
    ]
    for number, part_reports in enumerate(certain, 1):
        prefix = f"part {number}: " if len(certain) > 1 else ""
        for what, *counted in _check_part(part_reports):
            yield (prefix + what, *counted)  # type: ignore[misc]
    for one, other in combinations(certain, 2):
        yield from _apart(one, other)


def _is_rounded(mechanism: Mechanism, value: Value, rows: set[int]) -> bool:
    """Whether a number lies between two steps, so that its true cells are random: then nothing is
    checked but its whole law."""
    return any(len(mechanism.roundings(value, row)) > 1 for row in rows)


@dataclass(frozen=True, eq=False)
class _Reports:
    """Reports of one value through one mechanism, and the cells that the value touches in each.

    `reported`, `touched`: bool, shape (reports, columns), of all but SIGN reports.
    """

    mechanism: Mechanism
    rows: NDArray[np.int64]
    numbers: Sequence[int]
    true_cells: Sequence[Sequence[int]]
    reported: NDArray[np.bool_]
    touched: NDArray[np.bool_]

    @classmethod
    def of(
        cls, mechanism: Mechanism, value: Value, reports: Sequence[tuple[int, bytes]]
    ) -> "_Reports":
        columns = mechanism.shape.columns
        numbers = [int.from_bytes(payload, "little") for _, payload in reports]
        known = {row: mechanism.cells(value, row) for row in {row for row, _ in reports}}
        true_cells = [known[row] for row, _ in reports]
        if mechanism.kind in (Kind.BITS, Kind.SUBSET):
            block = np.frombuffer(b"".join(p for _, p in reports), dtype=np.uint8)
            block = block.reshape(len(reports), -1)
            reported = np.unpackbits(block, axis=1, bitorder="little")[:, :columns] == 1
        elif mechanism.kind is Kind.INDEX:
            reported = np.arange(columns) == np.array(numbers)[:, None]
        else:
            reported = np.zeros((len(reports), 0), dtype=bool)
        touched = np.zeros(reported.shape, dtype=bool)
        if reported.size:
            for i, cells in enumerate(true_cells):
                touched[i, cells] = True
        rows = np.array([row for row, _ in reports])
        return cls(mechanism, rows, numbers, true_cells, reported, touched)


def _check_part(reports: _Reports) -> Iterator[Checks]:
    yield from _uniform("row", reports.rows, reports.mechanism.shape.rows)
    if reports.mechanism.kind is Kind.SIGN:
        yield from _signs(reports)
    else:
        yield from _cells(reports)


def _apart(one: _Reports, other: _Reports) -> Iterator[Checks]:
    """That two parts of a report, both BITS, know nothing of each other but the value."""
    rows = other.mechanism.shape.rows
    both_rows = one.rows * rows + other.rows
    yield from _uniform("rows of both parts", both_rows, one.mechanism.shape.rows * rows)
    told = (float(one.mechanism.channel.touched), float(other.mechanism.channel.touched))
    lied = (float(one.mechanism.channel.untouched), float(other.mechanism.channel.untouched))
    first, second = (_first(part) for part in (one, other))
    yield _sum("true cells of both parts", first & second, np.ones_like(first), told[0] * told[1])
    for part, true, chance in ((one, second, lied[0]), (other, first, lied[1])):
        lies, free = (part.reported & ~part.touched)[true], ~part.touched[true]
        yield _sum("lies where the other part's true cell is told", lies, free, chance)
    for told_here, rows_there, limit, chance in (
        (first, other.rows, rows, told[0]),
        (second, one.rows, one.mechanism.shape.rows, told[1]),
    ):
        yield from _by_row("true cell, by the other part", told_here, rows_there, limit, chance)
    width = min(one.reported.shape[1], other.reported.shape[1])
    free = ~one.touched[:, :width] & ~other.touched[:, :width]
    lies = one.reported[:, :width] & other.reported[:, :width] & free
    chance = lied[0] * lied[1]
    yield from _counts("lies of both parts", lies.sum(axis=1), free.sum(axis=1), chance)


def _first(reports: _Reports) -> NDArray[np.bool_]:
    """Whether each report names the first cell that its value touches."""
    first = reports.touched.argmax(axis=1)[:, None]
    named: NDArray[np.bool_] = np.take_along_axis(reports.reported, first, axis=1)[:, 0]
    return named


def _by_row(
    what: str, told: NDArray[np.bool_], rows: NDArray[np.int64], limit: int, probability: float
) -> Iterator[Checks]:
    """That what is `told` does not depend on the row, one number below `limit` for each report: by
    each of its bits, and row by row where there are not too many."""
    for bit in range((limit - 1).bit_length()):
        odd = rows >> bit & 1 == 1
        for where in (odd, ~odd):
            yield _sum(f"{what} by bit {bit} of the row", told[where], where[where], probability)
    if limit <= MOST_OUTCOMES:
        trials = np.bincount(rows, minlength=limit)
        seen = np.bincount(rows[told], minlength=limit)
        yield f"{what} in row", seen, trials, np.full(limit, probability)


def _signs(reports: _Reports) -> Iterator[Checks]:
    """Columns are uniform and independent; whatever they are, signs are told truly or not by
    independent tosses."""
    mechanism, numbers, true_cells = reports.mechanism, reports.numbers, reports.true_cells
    rows, limit = reports.rows, mechanism.shape.rows
    columns = np.array(numbers) >> 1
    yield from _uniform("column", columns, mechanism.shape.columns)
    told = np.array(
        [
            ((number >> 1 & truth).bit_count() ^ number ^ 1) & 1 == 1
            for number, (truth,) in zip(numbers, true_cells, strict=True)
        ]
    )
    blocks = _blocks(columns, mechanism.shape.columns)
    claimed = float(mechanism.channel.touched)
    trials = np.bincount(blocks, minlength=min(mechanism.shape.columns, MOST_OUTCOMES))
    yield (
        "true signs in block of columns",
        np.bincount(blocks[told], minlength=trials.size),
        trials,
        np.full(trials.size, claimed),
    )
    every = np.ones_like(told)
    yield _sum("true signs", told, every, claimed)
    yield from _by_row("true signs", told, rows, limit, claimed)
    yield from _lagged("true signs", told[:, None], every[:, None], claimed)


def _cells(reports: _Reports) -> Iterator[Checks]:
    """Every column over all rows, apart where the value touches it and where not, and the first
    touched cell of reports some calls apart; for bits, whether cells are independent too."""
    mechanism, reported, touched = reports.mechanism, reports.reported, reports.touched
    columns, channel = mechanism.shape.columns, mechanism.channel
    for what, where, claimed in (
        ("touched cell reported, column", touched, float(channel.touched)),
        ("untouched cell reported, column", ~touched, float(channel.untouched)),
    ):
        trials = where.sum(axis=0)
        yield what, (reported & where).sum(axis=0), trials, np.full(columns, claimed)
    told = reported & touched
    if mechanism.kind is Kind.INDEX:  # a report names one of the touched cells, or none
        one, every = (np.any(where, axis=1, keepdims=True) for where in (told, touched))
        yield _sum("touched cells reported", one, every, mechanism.touches * float(channel.touched))
    else:
        yield _sum("touched cells reported", told, touched, float(channel.touched))
    for which in ("first", "last"):
        there = touched if which == "first" else touched[:, ::-1]
        cell = there.argmax(axis=1)
        cell = cell if which == "first" else columns - 1 - cell
        holds = np.take_along_axis(touched, cell[:, None], axis=1)
        this = np.take_along_axis(reported, cell[:, None], axis=1) & holds
        what = f"{which} touched cell"
        yield from _lagged(what, this, holds, float(channel.touched))
        held = holds[:, 0]
        yield from _by_row(
            what, this[held, 0], reports.rows[held], mechanism.shape.rows, float(channel.touched)
        )
        if mechanism.kind is not Kind.INDEX:
            at = (cell[this[:, 0], None] + np.arange(1, columns)) % columns
            free = ~np.take_along_axis(touched[this[:, 0]], at, axis=1)
            lies = np.take_along_axis(reported[this[:, 0]], at, axis=1) & free
            chance = np.full(columns - 1, _lied_beside_a_truth(mechanism))
            yield f"lies so far from a told {what}", lies.sum(axis=0), free.sum(axis=0), chance
    if mechanism.kind is Kind.BITS:
        yield from _noise(reported, touched, float(channel.untouched))
    if mechanism.kind is Kind.SUBSET and columns > 2:
        yield from _pairs(reported & ~touched, ~touched, _both_lied(mechanism))


def _lied_beside_a_truth(mechanism: Mechanism) -> float:
    """The probability of an untouched cell in a report that tells a touched one."""
    if mechanism.kind is Kind.SUBSET:
        return (mechanism.layout.ones - 1) / (mechanism.shape.columns - 1)
    return float(mechanism.channel.untouched)


def _both_lied(mechanism: Mechanism) -> float:
    """The probability that a set names two untouched cells."""
    told, ones = float(mechanism.channel.touched), mechanism.layout.ones
    others = mechanism.shape.columns - 1
    pairs = told * (ones - 1) * (ones - 2) + (1 - told) * ones * (ones - 1)
    return pairs / (others * (others - 1))


def _noise(
    reported: NDArray[np.bool_], touched: NDArray[np.bool_], lied: float
) -> Iterator[Checks]:
    """That the bits of untouched cells are independent: 1 with probability `lied`. The number that
    a report names, and that two reports both name, is binomial; so is the number of pairs of cells
    named together, as long as no cell is in two of the pairs."""
    columns = reported.shape[1]
    free = ~touched
    noise = reported & free
    yield from _counts("untouched cells reported", noise.sum(axis=1), free.sum(axis=1), lied)
    yield from _lagged("untouched cells", noise, free, lied)
    yield from _pairs(noise, free, lied**2)
    for apart in (1 << power for power in range((columns - 1).bit_length())):
        both = (noise[:, apart:] & noise[:, :-apart]).sum(axis=0)
        trials = (free[:, apart:] & free[:, :-apart]).sum(axis=0)
        for left, _ in disjoint_pairs(columns, apart):
            yield _sum(f"cells {apart} apart both reported", both[left], trials[left], lied**2)


def _pairs(
    noise: NDArray[np.bool_], free: NDArray[np.bool_], probability: float
) -> Iterator[Checks]:
    """That two untouched (`free`) cells so far apart are both reported with this probability."""
    columns = noise.shape[1]
    for apart in (1 << power for power in range((columns - 1).bit_length())):
        both = (noise[:, apart:] & noise[:, :-apart]).sum(axis=0)
        trials = (free[:, apart:] & free[:, :-apart]).sum(axis=0)
        claimed = np.full(both.size, probability)
        yield f"cells {apart} apart both reported, from column", both, trials, claimed


def _uniform(what: str, numbers: NDArray[np.int64], limit: int) -> Iterator[Checks]:
    """That independent `numbers` are uniform below `limit`."""
    blocks = min(limit, MOST_OUTCOMES)
    sizes = np.diff([-(-i * limit // blocks) for i in range(blocks + 1)])
    counts = np.bincount(_blocks(numbers, limit), minlength=sizes.size)
    yield f"reports in {what} block", counts, np.full(sizes.size, numbers.size), sizes / limit
    yield from _alike(what, numbers, 1 / limit)


def _blocks(numbers: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Numbers below `limit` by blocks of nearly equal size, MOST_OUTCOMES at most."""
    return numbers * min(limit, MOST_OUTCOMES) // limit


def disjoint_pairs(
    length: int, apart: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """All pairs (i, i + apart) below `length`, in two parts: in each, no number is in two pairs, so
    what happens to one pair is independent of all others."""
    for start in (0, apart):
        first = np.arange(start, max(start, length - apart))
        first = first[(first - start) // apart % 2 == 0]
        yield first, first + apart


def _alike(what: str, keys: NDArray[np.int64], probability: float) -> Iterator[Checks]:
    """That reports some calls apart have the same key as often as independent ones."""
    for lag in LAGS:
        for one, other in disjoint_pairs(keys.size, lag):
            same = keys[one] == keys[other]
            yield _sum(f"same {what} {lag} calls apart", same, np.ones_like(same), probability)


def _lagged(
    what: str, seen: NDArray[np.bool_], possible: NDArray[np.bool_], probability: float
) -> Iterator[Checks]:
    """That what is `seen` in some of the `possible` places, shape (reports, places), is seen in the
    same place of two reports some calls apart as often as in independent ones."""
    for lag in LAGS:
        for one, other in disjoint_pairs(len(seen), lag):
            both, where = seen[one] & seen[other], possible[one] & possible[other]
            counts, sizes = both.sum(axis=1), where.sum(axis=1)
            yield from _counts(f"{what} of both, {lag} calls apart", counts, sizes, probability**2)


def _counts(
    what: str, counts: NDArray[np.int64], sizes: NDArray[np.int64], probability: float
) -> Iterator[Checks]:
    """That independent `counts` are binomial (`sizes`, `probability`): their sum is, and so is how
    many of one size fall into a bin of values; a count in a far tail needs no company to be
    found, and counts that vary too much or too little are found by the other bins."""
    yield _sum(what, counts, sizes, probability)
    for size in np.unique(sizes[sizes > 1]).tolist():
        edges, masses = binomial_bins(size, probability)
        found = np.searchsorted(edges, counts[sizes == size])
        observed = np.bincount(found, minlength=masses.size)
        yield f"{what}, of {size}, bin", observed, np.full(masses.size, found.size), masses


@lru_cache(maxsize=1024)
def binomial_bins(size: int, probability: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The inclusive upper ends of all bins of a binomial count but the last, and the bins'
    probabilities."""
    from scipy.stats import binom

    cuts = [binom.ppf(TAILS, size, probability), binom.isf(TAILS, size, probability)]
    edges = np.unique(np.concatenate(cuts))
    below = binom.cdf(edges, size, probability)
    above = binom.sf(edges, size, probability)
    inner = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))  # no cancellation in tails
    return edges, np.concatenate([below[:1], inner, above[-1:]])


def _sum(what: str, seen: NDArray[Any], possible: NDArray[Any], probability: float) -> Checks:
    """One binomial count: everything seen, of everything possible."""
    return what, np.array([seen.sum()]), np.array([possible.sum()]), np.array([probability])
