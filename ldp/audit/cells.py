"""The cell-by-cell audit: an encoder's bytes against what its mechanism claims.

Nothing but the bytes is looked at. Every count that is checked is exactly binomial under the claim,
so every p-value is exact; they share `alpha` by Bonferroni, which makes `alpha` a bound on the
probability that an honest encoder fails. Counts of cells are binomial given the rows, because the
rows say which cells the value touches and the noise is independent of them.

What is looked for: wrong probabilities (of rows, cells, whole reports, lies at each distance from
the truth, by every parity of row, column and call), cells of one report that know of each other,
reports that know of an earlier one, equal noise anywhere in a sample, values that are treated
differently, and single reports with too little noise. `docs/audit.md` lists every check, and what
no audit by bytes can see.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import Bools, Floats, Ints, Places
from ldp.audit.law import MOST_OUTCOMES, Law, outcomes, payload_probability, report_law
from ldp.mechanisms.addressing import Rounding
from ldp.mechanisms.base import Catalogued, Mechanism
from ldp.mechanisms.joint_base import parts_of, values_of_parts
from ldp.protocol.hashing import Value
from ldp.protocol.wire import Kind, split_parts, split_report

CHUNK = 20_000
"""Reports looked at together."""

LAGS = (*range(1, 33), 40, 48, 64, 96, 128, 192, 256, 384, 512)
"""Reports so many calls apart are checked for independence."""

TAILS = (1e-16, 1e-9, 1e-6, 1e-4, 0.003, 0.03, 0.1, 0.25)
"""Where the law of a binomial count is cut into bins, from below and from above: one report beyond
1e-16 is a finding, at 1e-4 it takes about one in a hundred."""

MOST_BITS = 16
"""Parities are taken over so many low bits of a number."""
CALLS = 1 << 8
"""Calls are numbered modulo this."""
RESIDUES = range(3, 33)
"""Numbers are also counted by their remainders modulo these."""
REPEATS = {Kind.BITS: 6, Kind.SUBSET: 6, Kind.INDEX: 16, Kind.SIGN: 16}
"""So many times as many reports as trials are searched for repeated noise."""
LEAST_EACH = 64
"""Reports of each of many values."""
LEAST_DEVIATION = 4.0
"""Standard deviations below which the exact p-value of a count is above 1e-7."""

Checks = tuple[str, Ints, Ints, Floats]
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


def binomial_p(observed: Ints, trials: Ints, probability: Floats) -> Floats:
    """Two-sided p-value of a binomial count: twice the smaller exact tail, at most 1."""
    from scipy.stats import binom

    lower = binom.cdf(observed, trials, probability)
    upper = binom.sf(observed - 1, trials, probability)
    smaller: Floats = np.minimum(1.0, 2 * np.minimum(lower, upper))
    return smaller


def audit_encoder(
    mechanism: Catalogued,
    values: Sequence[Value],
    encode: Callable[[Value], bytes],
    *,
    trials: int,
    alpha: float = 1e-6,
) -> Audit:
    """Encode every value `trials` times and check the reports against `mechanism`.

    Raises ReportError when bytes are no report of the mechanism. Memory: about ten times
    min(trials, CHUNK) x columns bytes.
    """
    return judge(encoder_checks(mechanism, values, encode, trials), alpha)


def encoder_checks(
    mechanism: Catalogued, values: Sequence[Value], encode: Callable[[Value], bytes], trials: int
) -> list[Checks]:
    """Return the checks of `trials` reports of each value."""
    checks: list[Checks] = []
    for value in values:
        pool: dict[tuple[str, int], Checks] = {}
        for done in range(0, trials, CHUNK):
            some = [value] * min(CHUNK, trials - done)
            _add(pool, check_reports(mechanism, value, _split(mechanism, some, encode)))
        checks += pool.values()
    return checks


def value_checks(
    mechanism: Catalogued,
    values: Sequence[Value],
    encode: Callable[[Value], bytes],
    trials: int,
    generator: np.random.Generator,
) -> list[Checks]:
    """Return the checks of reports of many values, in an order drawn from `generator`: `trials` in
    total, but LEAST_EACH of each value at least; of values that are rounded at random, a quarter of
    `trials` of each."""
    is_rounded = any(isinstance(part.addressing, Rounding) for part in parts_of(mechanism))
    each = max(LEAST_EACH, trials // 4 if is_rounded else trials // len(values))
    order = generator.permutation(np.repeat(np.arange(len(values)), each))
    pool: dict[tuple[str, int], Checks] = {}
    for start in range(0, order.size, CHUNK):
        which = order[start : start + CHUNK]
        reports = _split(mechanism, [values[i] for i in which], encode)
        _add(pool, check_values(mechanism, values, which, reports))
    return list(pool.values())


def repeat_checks(
    mechanism: Catalogued, value: Value, encode: Callable[[Value], bytes], trials: int
) -> list[Checks]:
    """Return the checks that reports of one value do not repeat each other's noise: how many of the
    second half equal one of the first, given the first, is binomial. Pairs of any distance count,
    so noise from a short seed shows. Parts of few different reports repeat anyway and are left
    out; without others nothing is encoded."""
    many = {kind: factor * min(trials, CHUNK) for kind, factor in REPEATS.items()}
    parts = [
        (number, part, own)
        for number, (part, (own,)) in enumerate(values_of_parts(mechanism, [value]))
        if not _is_rounded(part, own, {0}) and _repeated(part) * many[part.kind] <= 1
    ]
    if not parts:
        return []
    size = max(many[part.kind] for _, part, _ in parts)
    split = [
        split_parts(mechanism.layout, *each) for each in _split(mechanism, [value] * size, encode)
    ]
    checks = []
    for number, part, own in parts:
        keys = [
            (row, int.from_bytes(payload, "little")) for row, payload in (s[number] for s in split)
        ]
        known = set(keys[: size // 2])
        point = part.addressing.point(own)
        share = (
            sum(_likelihood(part, part.addressing.cells(point, row), word) for row, word in known)
            / part.shape.rows
        )
        seen = np.array([key in known for key in keys[size // 2 :]])
        checks.append(
            _sum("reports that repeat an earlier one", seen, seen | True, min(1.0, share))
        )
    return checks


def _split(
    mechanism: Catalogued, values: Sequence[Value], encode: Callable[[Value], bytes]
) -> list[tuple[int, bytes]]:
    return [split_report(encode(value), mechanism.header, mechanism.layout) for value in values]


def _repeated(mechanism: Mechanism) -> float:
    """The probability, about, that two reports of one value are equal."""
    (rows, columns), touches = mechanism.shape, mechanism.touches
    told, lied = float(mechanism.channel.touched), float(mechanism.channel.untouched)
    if mechanism.kind is Kind.INDEX:
        return (touches * told**2 + (columns - touches) * lied**2) / rows
    if mechanism.kind is Kind.SIGN:
        return (told**2 + (1 - told) ** 2) / (rows * columns)
    if mechanism.kind is Kind.SUBSET:
        return 1 / mechanism.layout.outcomes
    return float((lied**2 + (1 - lied) ** 2) ** (columns - 1)) / rows


def _likelihood(mechanism: Mechanism, cells: Sequence[int], number: int) -> float:
    """P(payload | row) as a float, for a value that touches these cells of the row."""
    told, lied = float(mechanism.channel.touched), float(mechanism.channel.untouched)
    if mechanism.kind is not Kind.BITS:
        return float(payload_probability(mechanism, cells, mechanism.shape.columns, number))
    true = sum(number >> cell & 1 for cell in cells)
    lies = number.bit_count() - true
    quiet = mechanism.shape.columns - len(cells) - lies
    return float(told**true * (1 - told) ** (len(cells) - true) * lied**lies * (1 - lied) ** quiet)


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
        far = _far(observed, trials, probability, alpha / max(1, total))
        p_values = binomial_p(observed[far], trials[far], probability[far])
        findings += [
            Finding(
                what if observed.size == 1 else f"{what} {i}",
                int(observed[i]),
                float(trials[i] * probability[i]),
                float(p_value),
            )
            for i, p_value in zip(far, p_values, strict=True)
            if p_value < alpha / total
        ]
    return Audit(total, tuple(findings))


def _far(
    observed: Ints,
    trials: Ints,
    probability: Floats,
    level: float,
) -> Places:
    """The places of the counts whose p-value may be below `level`; it is not computed of others."""
    if level > 1e-7:
        return np.arange(observed.size)
    expected = trials * probability
    variance = expected * (1 - probability)
    return np.flatnonzero((observed - expected) ** 2 > LEAST_DEVIATION**2 * variance)


def check_reports(
    mechanism: Catalogued, value: Value, reports: Sequence[tuple[int, bytes]]
) -> Iterator[Checks]:
    """All that is checked of some reports (row, payload) of one value, in the order in which they
    were made. Raises ReportError for a payload out of range."""
    numbers = [(row, mechanism.layout.payload_number(payload)) for row, payload in reports]
    split = [split_parts(mechanism.layout, row, payload) for row, payload in reports]
    parts = [(i, part, own) for i, (part, (own,)) in enumerate(values_of_parts(mechanism, [value]))]
    rounded = [
        i for i, part, own in parts if _is_rounded(part, own, {each[i][0] for each in split})
    ]
    if rounded or outcomes(mechanism) <= MOST_OUTCOMES:
        yield from _whole("reports", numbers, report_law(mechanism, value))
    which = np.zeros(len(reports), dtype=np.int64)
    certain = [
        _Reports.of(part, [own], which, [each[i] for each in split])
        for i, part, own in parts
        if i not in rounded
    ]
    yield from _check_parts(certain)


def check_values(
    mechanism: Catalogued,
    values: Sequence[Value],
    which: Ints,
    reports: Sequence[tuple[int, bytes]],
) -> Iterator[Checks]:
    """Yield the checks of some reports (row, payload) of many values, in the order in which they
    were made; report i is of values[which[i]]. Raises ReportError for a payload out of range."""
    for _, payload in reports:
        mechanism.layout.payload_number(payload)
    split = [split_parts(mechanism.layout, row, payload) for row, payload in reports]
    certain = []
    for i, (part, owns) in enumerate(values_of_parts(mechanism, values)):
        own_reports = [each[i] for each in split]
        if not isinstance(part.addressing, Rounding):
            certain.append(_Reports.of(part, owns, which, own_reports))
        elif outcomes(part) <= MOST_OUTCOMES:
            numbers = [(row, int.from_bytes(payload, "little")) for row, payload in own_reports]
            for value, own in enumerate(owns):
                some = [numbers[at] for at in np.flatnonzero(which == value)]
                yield from _whole(
                    f"part {i + 1}: reports of value {value}", some, report_law(part, own), ()
                )
    yield from _check_parts(certain)


def _whole(
    what: str, numbers: Sequence[tuple[int, int]], law: Law, lags: Sequence[int] = LAGS
) -> Iterator[Checks]:
    """That whole reports have their law, and that reports some calls apart are independent."""
    claimed = np.array([float(probability) for probability in law.values()])
    place = {key: i for i, key in enumerate(law)}
    keys = np.array([place[key] for key in numbers], dtype=np.int64)
    counts = np.bincount(keys, minlength=claimed.size)
    yield f"{what} equal to number", counts, np.full(claimed.size, keys.size), claimed
    yield from _alike("report", keys, float((claimed**2).sum()), lags)


def _check_parts(certain: Sequence["_Reports"]) -> Iterator[Checks]:
    for number, part_reports in enumerate(certain, 1):
        prefix = f"part {number}: " if len(certain) > 1 else ""
        for what, *counted in _check_part(part_reports):
            yield (prefix + what, *counted)  # type: ignore[misc]
    for one, other in combinations(certain, 2):
        yield from _apart(one, other)


def _is_rounded(mechanism: Mechanism, value: Value, rows: set[int]) -> bool:
    """Whether a number lies between two steps, so that its true cells are random: then nothing is
    checked but its whole law."""
    return isinstance(mechanism.addressing, Rounding) and any(
        len(mechanism.roundings(value, row)) > 1 for row in rows
    )


@dataclass(frozen=True, eq=False)
class _Reports:
    """Reports through one mechanism, and the cells that each one's value touches.

    `which`: int, shape (reports,), the number of each report's value, below `values`. `reported`,
    `touched`: bool, shape (reports, columns), of all but SIGN reports.
    """

    mechanism: Mechanism
    values: int
    which: Ints
    rows: Ints
    numbers: Sequence[int]
    true_cells: Sequence[Sequence[int]]
    reported: Bools
    touched: Bools

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        values: Sequence[Value],
        which: Ints,
        reports: Sequence[tuple[int, bytes]],
    ) -> "_Reports":
        columns, addressing = mechanism.shape.columns, mechanism.addressing
        numbers = [int.from_bytes(payload, "little") for _, payload in reports]
        rows = np.array([row for row, _ in reports], dtype=np.int64)
        if isinstance(addressing, Rounding):
            (value,) = values
            known = {(0, row): mechanism.cells(value, row) for row in set(rows.tolist())}
        else:
            points = [addressing.point(value) for value in values]
            places = set(zip(which.tolist(), rows.tolist(), strict=True))
            known = {(at, row): addressing.cells(points[at], row) for at, row in places}
        true_cells = [known[key] for key in zip(which.tolist(), rows.tolist(), strict=True)]
        if mechanism.kind in (Kind.BITS, Kind.SUBSET):
            payloads = np.frombuffer(b"".join(p for _, p in reports), dtype=np.uint8)
            block = payloads.reshape(len(reports), -1)
            reported = np.unpackbits(block, axis=1, bitorder="little")[:, :columns] == 1
        elif mechanism.kind is Kind.INDEX:
            reported = np.arange(columns) == np.array(numbers)[:, None]
        else:
            reported = np.zeros((len(reports), 0), dtype=bool)
        touched = np.zeros(reported.shape, dtype=bool)
        if reported.size:
            for i, cells in enumerate(true_cells):
                touched[i, cells] = True
        return cls(mechanism, len(values), which, rows, numbers, true_cells, reported, touched)


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
        what = "true cell, by the other part's row"
        yield from _by_number(what, told_here, rows_there, limit, chance)
    width = min(one.reported.shape[1], other.reported.shape[1])
    free = ~one.touched[:, :width] & ~other.touched[:, :width]
    lies = one.reported[:, :width] & other.reported[:, :width] & free
    chance = lied[0] * lied[1]
    yield from _counts("lies of both parts", lies.sum(axis=1), free.sum(axis=1), chance)


def _first(reports: _Reports) -> Bools:
    """Whether each report names the first cell that its value touches."""
    first = reports.touched.argmax(axis=1)[:, None]
    named: Bools = np.take_along_axis(reports.reported, first, axis=1)[:, 0]
    return named


def _by_number(
    what: str,
    seen: Bools,
    numbers: Ints,
    limit: int,
    probability: float,
) -> Iterator[Checks]:
    """That what is `seen` does not depend on a number below `limit` that each report has: by every
    parity of its low bits, by its remainders, and by itself where there are not too many."""
    low = numbers & (_low(limit) - 1)
    where, there = (odd_parities(np.bincount(n, minlength=_low(limit))) for n in (low, low[seen]))
    for which, trials, counts in (
        ("odd", where, there),
        ("even", numbers.size - where, int(seen.sum()) - there),
    ):
        yield f"{what} by {which} parity", counts, trials, np.full(trials.size, probability)
    for modulus in RESIDUES:
        if modulus < limit:
            yield _grouped(
                f"{what} by rest of {modulus}", seen, numbers % modulus, modulus, probability
            )
    if limit <= MOST_OUTCOMES:
        yield _grouped(what, seen, numbers, limit, probability)


def _grouped(
    what: str,
    seen: Bools,
    numbers: Ints,
    limit: int,
    probability: float,
) -> Checks:
    trials = np.bincount(numbers, minlength=limit)
    return what, np.bincount(numbers[seen], minlength=limit), trials, np.full(limit, probability)


def _low(limit: int) -> int:
    """The power of two that the low bits of numbers below `limit` are below, 2**MOST_BITS at
    most."""
    return 1 << min(MOST_BITS, (limit - 1).bit_length())


def odd_parities(counts: Ints) -> Ints:
    """Of counts of the numbers 0 .. 2**k - 1, for every mask below 2**k how many have an odd number
    of ones among the mask's bits: one Walsh-Hadamard transform."""
    turned = hadamard(counts)
    odd: Ints = (turned[0] - turned) // 2
    return odd


def hadamard(counts: Ints) -> Ints:
    """The Walsh-Hadamard transform of 2**k integers, not scaled."""
    turned, step = counts.astype(np.int64), 1
    while step < turned.size:
        pairs = turned.reshape(-1, 2, step)
        turned = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        step *= 2
    return turned


def _signs(reports: _Reports) -> Iterator[Checks]:
    """Columns are uniform and independent; whatever they are, signs are told truly or not by
    independent tosses."""
    mechanism, numbers, true_cells = reports.mechanism, reports.numbers, reports.true_cells
    rows, limit = reports.rows, mechanism.shape.rows
    columns: Ints = np.array(numbers, dtype=np.int64) >> 1
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
    low = min(_low(limit), 1 << MOST_BITS // 2)
    other = min(mechanism.shape.columns, 1 << MOST_BITS // 2)
    both: Ints = rows % low * other + columns % other
    sizes = np.outer(_sizes(limit, low), _sizes(mechanism.shape.columns, other)).ravel()
    yield _even("low bits of row and column", both, sizes)
    for what, by, below in (
        ("row", rows, limit),
        ("column", columns, mechanism.shape.columns),
        ("low bits of row and column", both, low * other),
        *_of_each(reports),
    ):
        yield from _by_number(f"true signs by {what}", told, by, below, claimed)
    yield from _lagged("true signs", told[:, None], every[:, None], claimed)


def _of_each(reports: _Reports) -> Iterator[tuple[str, Ints, int]]:
    """Numbers that every report has, whatever its kind: its call's and its value's."""
    yield "call", np.arange(reports.rows.size) % CALLS, CALLS
    if reports.values > 1:
        yield "value", reports.which, reports.values


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
        for by, numbers, limit in (
            ("row", reports.rows, mechanism.shape.rows),
            ("column", cell, columns),
            *_of_each(reports),
        ):
            yield from _by_number(
                f"{what} by {by}", this[held, 0], numbers[held], limit, float(channel.touched)
            )
        if mechanism.kind is not Kind.INDEX:
            at = (cell[this[:, 0], None] + np.arange(1, columns)) % columns
            free = ~np.take_along_axis(touched[this[:, 0]], at, axis=1)
            lies = np.take_along_axis(reported[this[:, 0]], at, axis=1) & free
            chance = np.full(columns - 1, _lied_beside_a_truth(mechanism))
            yield f"lies so far from a told {what}", lies.sum(axis=0), free.sum(axis=0), chance
    if mechanism.kind is Kind.INDEX and mechanism.touches == 1 and columns > 2:
        yield from _lies(reports)
    if mechanism.kind is Kind.BITS:
        for what, numbers, limit in _of_each(reports):
            noise, free_cells = (
                np.bincount(numbers, cells.sum(axis=1), limit).astype(np.int64)
                for cells in (reported & ~touched, ~touched)
            )
            claims = np.full(limit, float(channel.untouched))
            yield f"untouched cells by {what}", noise, free_cells, claims
        yield from _noise(reported, touched, float(channel.untouched))
    if mechanism.kind is Kind.SUBSET and columns > 2:
        yield from _pairs(reported & ~touched, ~touched, _both_lied(mechanism))


def _lies(reports: _Reports) -> Iterator[Checks]:
    """That a column which is not the true one is any of the others: by its distance from it, and
    by every parity of the two."""
    columns = reports.mechanism.shape.columns
    pairs = [
        (cells[0], number)
        for cells, number in zip(reports.true_cells, reports.numbers, strict=True)
        if cells and number != cells[0]
    ]
    true, lies = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    distance = (lies - true) % columns - 1
    yield _blocked("lies in block of distances from the truth", distance, columns - 1)
    yield from _remainders("lies by distance", distance, columns - 1)
    low = _low(columns)
    true, lies = true & (low - 1), lies & (low - 1)
    turned = [hadamard(np.bincount(n, minlength=low)) for n in (true, lies, true ^ lies)]
    of_all = hadamard(_sizes(columns, low))
    for sign, parity in ((1, "even"), (-1, "odd")):
        trials = (true.size + sign * turned[0]) // 2
        odd = (true.size + sign * turned[0] - turned[1] - sign * turned[2]) // 4
        others = (columns - of_all) // 2 - (sign < 0)
        yield (
            f"odd lies about a truth of {parity} parity, mask",
            odd[1:],
            trials[1:],
            others[1:] / (columns - 1),
        )


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


def _noise(reported: Bools, touched: Bools, lied: float) -> Iterator[Checks]:
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


def _pairs(noise: Bools, free: Bools, probability: float) -> Iterator[Checks]:
    """That two untouched (`free`) cells so far apart are both reported with this probability."""
    columns = noise.shape[1]
    for apart in (1 << power for power in range((columns - 1).bit_length())):
        both = (noise[:, apart:] & noise[:, :-apart]).sum(axis=0)
        trials = (free[:, apart:] & free[:, :-apart]).sum(axis=0)
        claimed = np.full(both.size, probability)
        yield f"cells {apart} apart both reported, from column", both, trials, claimed


def _uniform(what: str, numbers: Ints, limit: int) -> Iterator[Checks]:
    """That independent `numbers` are uniform below `limit`."""
    yield _blocked(f"reports in {what} block", numbers, limit)
    yield from _remainders(f"reports by {what}", numbers, limit)
    low = _low(limit)
    yield _even(what, numbers % low, _sizes(limit, low))
    yield from _alike(what, numbers, 1 / limit)


def _blocked(what: str, numbers: Ints, limit: int) -> Checks:
    blocks = min(limit, MOST_OUTCOMES)
    sizes = np.diff([-(-i * limit // blocks) for i in range(blocks + 1)])
    counts = np.bincount(_blocks(numbers, limit), minlength=sizes.size)
    return what, counts, np.full(sizes.size, numbers.size), sizes / limit


def _remainders(what: str, numbers: Ints, limit: int) -> Iterator[Checks]:
    """That numbers uniform below `limit` have each remainder as often as they should."""
    for modulus in RESIDUES:
        if modulus < limit:
            counts = np.bincount(numbers % modulus, minlength=modulus)
            claimed = _sizes(limit, modulus) / limit
            yield f"{what}, rest of {modulus}", counts, np.full(modulus, numbers.size), claimed


def _even(what: str, low: Ints, sizes: Ints) -> Checks:
    """That numbers, of which number i is as likely as sizes[i] of all, have every parity as often
    as they should."""
    claimed = odd_parities(sizes) / sizes.sum()
    counts = odd_parities(np.bincount(low, minlength=sizes.size))
    return f"odd parities of {what}, mask", counts, np.full(sizes.size, low.size), claimed


def _sizes(limit: int, modulus: int) -> Ints:
    """How many numbers below `limit` have each remainder."""
    return limit // modulus + (np.arange(modulus) < limit % modulus)


def _blocks(numbers: Ints, limit: int) -> Ints:
    """Numbers below `limit` by blocks of nearly equal size, MOST_OUTCOMES at most."""
    return numbers * min(limit, MOST_OUTCOMES) // limit


def disjoint_pairs(length: int, apart: int) -> Iterator[tuple[Ints, Ints]]:
    """All pairs (i, i + apart) below `length`, in two parts: in each, no number is in two pairs, so
    what happens to one pair is independent of all others."""
    for start in (0, apart):
        first = np.arange(start, max(start, length - apart))
        first = first[(first - start) // apart % 2 == 0]
        yield first, first + apart


def _alike(
    what: str, keys: Ints, probability: float, lags: Sequence[int] = LAGS
) -> Iterator[Checks]:
    """That reports some calls apart have the same key as often as independent ones."""
    for lag in lags:
        for one, other in disjoint_pairs(keys.size, lag):
            same = keys[one] == keys[other]
            yield _sum(f"same {what} {lag} calls apart", same, np.ones_like(same), probability)


def _lagged(what: str, seen: Bools, possible: Bools, probability: float) -> Iterator[Checks]:
    """That what is `seen` in some of the `possible` places, shape (reports, places), is seen in the
    same place of two reports some calls apart as often as in independent ones."""
    for lag in LAGS:
        for one, other in disjoint_pairs(len(seen), lag):
            both, where = seen[one] & seen[other], possible[one] & possible[other]
            counts, sizes = both.sum(axis=1), where.sum(axis=1)
            yield from _counts(f"{what} of both, {lag} calls apart", counts, sizes, probability**2)


def _counts(what: str, counts: Ints, sizes: Ints, probability: float) -> Iterator[Checks]:
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
def binomial_bins(size: int, probability: float) -> tuple[Floats, Floats]:
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
