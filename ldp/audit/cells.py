"""The cell-by-cell audit: an encoder's bytes against what its mechanism claims.

The audit uses nothing but the bytes. Every count that is checked is exactly binomial under the
claim. So every p-value is exact. The counts share `alpha` by Bonferroni, so that `alpha` bounds the
probability that an honest encoder fails. Counts of cells are binomial given the rows, because the
rows determine which cells the value touches. The noise is independent of the rows.

The checks find wrong probabilities (of rows, cells, whole reports, lies at each distance from the
truth, by every parity of row, column and call), cells of one report that depend on each other,
reports that depend on an earlier one, equal noise anywhere in a sample, values that are treated
differently, and single reports with too little noise. `docs/audit.md` lists every check, and what
no audit by bytes can see.
"""

from collections.abc import Generator, Iterator, Sequence
from functools import lru_cache
from itertools import combinations, compress
from math import comb

import numpy as np

from ldp.arrays import Bools, Floats, Ints, binomial_law
from ldp.audit.binomial_checks import (
    MOST_BITS,
    RESIDUES,
    Occurrence,
    checks_by_number,
    column_sums,
    count_checks,
    equality_checks,
    evenness_checks,
    lag_checks,
    low_limit,
    noise_checks,
    outcome_checks,
    pair_checks,
    payload_bits,
    remainders,
    row_sums,
    sum_checks,
    uniform_checks,
)
from ldp.audit.conditions import (
    BLOCK,
    LARGEST,
    MOST_OF_TWO,
    UNCHANGED,
    Seen,
    condition_checks,
    numbers_of_values,
)
from ldp.audit.judging import Checks, prefixed
from ldp.audit.law import MOST_OUTCOMES, ReportLaw, exact_law, number_of_outcomes
from ldp.audit.reports import ROW, VALUE, VALUE_BEFORE, Reports
from ldp.bulk import walsh_hadamard
from ldp.mechanisms.addressing import Answers, unpacked
from ldp.mechanisms.base import CatalogueMechanism, Mechanism
from ldp.mechanisms.joint_base import values_of_parts
from ldp.protocol.hashing import Value
from ldp.protocol.kinds import Index, Subset, as_bits

MOST_TERMS = 1 << 21
"""Largest number of terms of all laws that are enumerated for one check: the number of reports
times the number of choices of a value's step or of some of its answers."""


def check_reports(
    mechanism: CatalogueMechanism,
    value: Value,
    reports: Sequence[tuple[int, bytes]],
    start: int = 0,
) -> Iterator[Checks]:
    """Yield all checks of some reports (row, payload) of one value, in the order in which they were
    made, from call number `start` on. Raises ReportError for a payload out of range."""
    numbers = [(row, mechanism.layout.payload_number(payload)) for row, payload in reports]
    split = [mechanism.layout.split(row, payload) for row, payload in reports]
    parts = list(values_of_parts(mechanism, [value]))
    rounded = [
        i
        for i, (part, (part_value,)) in enumerate(parts)
        if is_rounded(part, part_value, {report[i][0] for report in split})
    ]
    chosen = [i for i in rounded if parts[i][0].answers == "sets"]
    if number_of_outcomes(mechanism) <= MOST_OUTCOMES or len(chosen) < len(rounded):
        yield from _whole(numbers, exact_law(mechanism, value), start)
    which = np.zeros(len(reports), dtype=np.int64)
    for i in chosen:
        part_reports = [report[i] for report in split]
        yield _check_choices("column about a set", *parts[i], which, part_reports)
    calls = start + np.arange(len(reports))
    certain = [
        Reports.of(part, part_values, which, [report[i] for report in split], calls, which)
        for i, (part, part_values) in enumerate(parts)
        if i not in rounded
    ]
    yield from _check_parts(certain)


def _check_choices(
    what: str,
    mechanism: Mechanism,
    values: Sequence[Value],
    which: Ints,
    reports: Sequence[tuple[int, bytes]],
) -> Checks:
    """Return the check of how often reports about sets of answers name each column: with the
    probability `touched` when its answer is chosen, else with `untouched`. Report i is about
    values[which[i]]."""
    channel, addressing, columns = mechanism.channel, mechanism.addressing, mechanism.shape.columns
    assert isinstance(addressing, Answers)
    bits = payload_bits([payload for _, payload in reports], columns)
    counts, touched = np.zeros((2, len(values), columns))
    for number, value in enumerate(values):
        chosen = addressing.at_most / max(_size(addressing, value), addressing.at_most)
        touched[number, list(addressing.cells(addressing.point(value), 0))] = chosen
        counts[number] = bits[which == number].sum(axis=0)
    trials = np.bincount(which, minlength=len(values)).repeat(columns)
    claimed = float(channel.untouched) + channel.gain * touched
    return what, counts.astype(np.int64).ravel(), trials, claimed.ravel()


def check_values(
    mechanism: CatalogueMechanism,
    values: Sequence[Value],
    which: Ints,
    reports: Sequence[tuple[int, bytes]],
    coins: np.random.Generator,
    calls: Ints,
    devices: Ints,
    most: int = MOST_OF_TWO,
    *,
    keeps_row: bool = False,
    pool: list[Seen] | None = None,
) -> Iterator[Checks]:
    """Yield the checks of some reports (row, payload) of many values, in the order in which they
    were made; report i is of values[which[i]]. `calls`, `devices`: int, shape (reports,), the
    numbers of each report's call and device. `coins`: generator that makes chances equal. `most`:
    every condition that is tried holds for one report in `most` or for more. `keeps_row`: whether a
    device has one row for all calls. Statistics of the parts are added to `pool`. Raises
    ReportError for a payload out of range."""
    for _, payload in reports:
        mechanism.layout.payload_number(payload)
    split = [mechanism.layout.split(row, payload) for row, payload in reports]
    parts = [*values_of_parts(mechanism, values)]
    known = [numbers_of_values(part, part_values) for part, part_values in parts]
    certain = []
    for i, (part, part_values) in enumerate(parts):
        part_reports, likelihoods = [report[i] for report in split], None
        reports_of_part = Reports.of(
            part, part_values, which, part_reports, calls, devices, keeps_row=keeps_row
        )
        if not part.has_roundings:
            certain.append(reports_of_part)
        elif _is_enumerable(part, part_values):
            of_part = f"part {i + 1}", part, part_values, which, part_reports
            likelihoods = yield from _check_laws(*of_part)
        elif part.answers == "sets":
            yield _check_choices(f"column by {VALUE}", part, part_values, which, part_reports)
        if isinstance(part.addressing, Answers):
            sizes = np.array([_size(part.addressing, value) for value in part_values])
            some = (sizes <= part.addressing.at_most)[which]
            few = which[some], [*compress(part_reports, some)], calls[some], devices[some]
            if some.any():
                certain.append(Reports.of(part, part_values, *few, keeps_row=keeps_row))
        number = known[i][0][which]
        two = _two_of(reports_of_part, known, i)
        seen = Seen.of(reports_of_part, two, number, coins, likelihoods)
        if pool is not None:
            pool.append(seen)
        checks = condition_checks(seen, number, coins, most // min(len(parts), 2))
        yield from prefixed(f"part {i + 1}: ", checks)
    yield from _check_parts(certain)


def _two_of(
    reports: Reports, known: Sequence[tuple[Ints, Ints]], part: int
) -> list[tuple[str, Ints, int]]:
    """Return the numbers of reports that are checked in pairs of numbers: (name, numbers, limit
    below which they lie)."""
    which, before, size = reports.which, reports.before, LARGEST
    number, rank = known[part]
    few = min(reports.values, size)
    blocks, limit = rank * few // reports.values, _limit(number)
    numbers = [
        (ROW, reports.rows, reports.mechanism.shape.rows),
        ("call", reports.calls, size if reports.calls.any() else 1),
        ("device", reports.devices, size if reports.devices.any() else 1),
        (VALUE, number[which], limit),
        ("rank", blocks[which], 1 if np.array_equal(number, rank) else few),
        (VALUE_BEFORE, number[before], limit),
    ]
    if few == reports.values:
        numbers[-1] = ("rank before", rank[before], few)
    numbers.append((UNCHANGED, (which == before) * 1, 2))
    for name, of, limit in numbers[1:3]:
        turns = f"{name} // {BLOCK}", of // BLOCK, -(-limit // BLOCK)
        numbers.append(turns)
    for other, (others, _) in enumerate(known):
        if other != part:
            numbers.append((f"value of part {other + 1}", others[which], _limit(others)))
    return [(name, of, limit) for name, of, limit in numbers if limit > 1]


def _limit(numbers: Ints) -> int:
    """Return the limit below which the numbers lie, at most LARGEST."""
    return min(int(numbers.max()) + 1, LARGEST)


def _size(addressing: Answers, value: Value) -> int:
    """Return how many answers a set has."""
    return len(unpacked(addressing.point(value)))


def _is_enumerable(mechanism: Mechanism, values: Sequence[Value]) -> bool:
    """Return whether the whole laws of these values, which are rounded at random, are enumerated in
    little time."""
    addressing, choices = mechanism.addressing, 2 * len(values)
    if isinstance(addressing, Answers):
        most = addressing.at_most
        choices = sum(comb(max(_size(addressing, value), most), most) for value in values)
    return (
        number_of_outcomes(mechanism) <= MOST_OUTCOMES
        and choices * number_of_outcomes(mechanism) <= MOST_TERMS
    )


@lru_cache(maxsize=512)
def _chances(mechanism: Mechanism, value: Value) -> Floats:
    """Return the probabilities of a value's reports, in the order of `exact_law`."""
    return np.array([float(chance) for chance in exact_law(mechanism, value).values()])


def _check_laws(
    what: str,
    mechanism: Mechanism,
    values: Sequence[Value],
    which: Ints,
    reports: Sequence[tuple[int, bytes]],
) -> Generator[Checks, None, Floats]:
    """Check that the reports of each value have their whole law, and for sets how many of the set's
    answers the reports name. Return the likelihood of each report, shape (reports,)."""
    place = {key: i for i, key in enumerate(exact_law(mechanism, values[0]))}
    keys = np.array([place[row, int.from_bytes(payload, "little")] for row, payload in reports])
    size, trials = len(place), np.bincount(which, minlength=len(values))
    claimed = np.array([_chances(mechanism, value) for value in values])
    counts = np.bincount(which * size + keys, minlength=claimed.size).reshape(claimed.shape)
    likelihoods: Floats = claimed[which, keys]
    yield f"{what}: reports by {VALUE}", counts.ravel(), np.repeat(trials, size), claimed.ravel()
    if mechanism.answers != "sets":
        return likelihoods
    most = mechanism.shape.columns + 1
    names = np.zeros((2, len(values), most))
    for number, value in enumerate(values):
        answers = as_bits({cell for _, some in mechanism.roundings(value, 0) for cell in some})
        at = [(report & answers).bit_count() for _, report in place]
        for of, weights in zip(names, (counts, claimed), strict=True):
            of[number] = np.bincount(at, weights[number], most)
    seen, chances = names[0].astype(np.int64).ravel(), np.minimum(names[1], 1.0).ravel()
    yield f"{what}: answers named by {VALUE}", seen, np.repeat(trials, most), chances
    return likelihoods


def _whole(numbers: Sequence[tuple[int, int]], law: ReportLaw, start: int) -> Iterator[Checks]:
    """Check that whole reports have their law, and that reports some calls apart are independent.
    `start`: number of the first report's call."""
    claimed = np.array([float(probability) for probability in law.values()])
    place = {key: i for i, key in enumerate(law)}
    keys = np.array([place[key] for key in numbers], dtype=np.int64)
    yield outcome_checks("reports equal to number", keys, claimed)
    chance = float((claimed**2).sum())
    yield from equality_checks("report", keys, chance, start=start)


def _check_parts(certain: Sequence["Reports"]) -> Iterator[Checks]:
    for number, part_reports in enumerate(certain, 1):
        prefix = f"part {number}: " if len(certain) > 1 else ""
        yield from prefixed(prefix, _check_part(part_reports))
    for left, right in combinations(certain, 2):
        yield from _apart(left, right)


def is_rounded(mechanism: Mechanism, value: Value, rows: set[int]) -> bool:
    """Return whether a value is replaced at random: a number by a step, or too many answers by some
    of them. Then the true cells are random. Only the law of the reports can be checked."""
    return mechanism.has_roundings and any(len(mechanism.roundings(value, row)) > 1 for row in rows)


def _check_part(reports: Reports) -> Iterator[Checks]:
    rows = reports.rows[reports.calls == 0] if reports.keeps_row else reports.rows
    yield from uniform_checks("row", rows, reports.mechanism.shape.rows)
    if reports.mechanism.kind.is_signed:
        yield from _signs(reports)
    else:
        yield from _cells(reports)


def _apart(left: Reports, right: Reports) -> Iterator[Checks]:
    """Check that two parts of a report, neither signed, are independent given the value."""
    rows = right.mechanism.shape.rows
    both_rows = left.rows * rows + right.rows
    yield from uniform_checks("rows of both parts", both_rows, left.mechanism.shape.rows * rows)
    chances = (part.mechanism.channel.chances for part in (left, right))
    touched, untouched = zip(*chances, strict=True)
    first, second = (part.names(part.firsts) for part in (left, right))
    yield sum_checks(
        "true cells of both parts", first & second, np.ones_like(first), touched[0] * touched[1]
    )
    for part, true, chance in ((left, second, untouched[0]), (right, first, untouched[1])):
        lies, free = (part.reported & ~part.touched)[true], ~part.touched[true]
        what = "lies where the other part's true cell is told"
        if part.mechanism.kind.is_bitwise:
            yield sum_checks(what, lies, free, chance)
        else:
            yield what, column_sums(lies), column_sums(free), np.full(free.shape[1], chance)
    for true, there, chance in ((first, right, touched[0]), (second, left, touched[1])):
        event = Occurrence("true cell", true, true | True, chance)
        limit = there.mechanism.shape.rows
        yield from checks_by_number("the other part's row", there.rows, limit, event)
    width = min(left.reported.shape[1], right.reported.shape[1])
    free = ~left.touched[:, :width] & ~right.touched[:, :width]
    lies = left.reported[:, :width] & right.reported[:, :width] & free
    chance = untouched[0] * untouched[1]
    if all(part.mechanism.kind.is_bitwise for part in (left, right)):
        yield from count_checks("lies of both parts", row_sums(lies), row_sums(free), chance)
    else:
        yield "lies of both parts", column_sums(lies), column_sums(free), np.full(width, chance)


def _signs(reports: Reports) -> Iterator[Checks]:
    """Check that columns are uniform and independent, and that signs are true with one probability,
    independently of columns and of each other."""
    mechanism, columns = reports.mechanism, reports.columns
    rows, limit = reports.rows, mechanism.shape.rows
    yield from uniform_checks("column", columns, mechanism.shape.columns)
    is_true = reports.names(reports.firsts)
    claimed, every = float(mechanism.channel.touched), is_true | True
    low = min(low_limit(limit), 1 << MOST_BITS // 2)
    other = min(mechanism.shape.columns, 1 << MOST_BITS // 2)
    both: Ints = rows % low * other + columns % other
    sizes = np.outer(remainders(limit, low), remainders(mechanism.shape.columns, other)).ravel()
    yield evenness_checks("low bits of row and column", both, sizes)
    event = Occurrence("true signs", is_true, every, claimed)
    for what, by, below in (
        ("column", columns, mechanism.shape.columns),
        ("low bits of row and column", both, low * other),
        *reports.numbers_by(),
    ):
        yield from checks_by_number(what, by, below, event)
    yield from lag_checks("true signs", is_true[:, None], every[:, None], claimed)


def _cells(reports: Reports) -> Iterator[Checks]:
    """Check every column over all rows, separately where the value touches it and where not, and
    the first touched cell of reports some calls apart. Check for bits also that cells are
    independent.
    """
    mechanism, reported, touched = reports.mechanism, reports.reported, reports.touched
    columns, channel = mechanism.shape.columns, mechanism.channel
    true, lied = channel.chances
    for what, where, claimed in (
        ("touched cell reported, column", touched, true),
        ("untouched cell reported, column", ~touched, lied),
    ):
        counts, trials = column_sums(reported & where), column_sums(where)
        yield what, counts, trials, np.full(columns, claimed)
    truths = reported & touched
    if not mechanism.kind.is_bitwise:
        probability = float(mechanism.layout.any_probability(channel.touched, mechanism.touches))
        any_true, any_touched = truths.max(axis=1), touched.max(axis=1)
        yield sum_checks("touched cells reported", any_true, any_touched, probability)
    else:
        yield sum_checks("touched cells reported", truths, touched, true)
    has_several, events = row_sums(touched).max(initial=0) > 1, list[Occurrence]()
    for which in ("first", "last")[: 1 + has_several]:
        from_end = touched if which == "first" else touched[:, ::-1]
        cell = from_end.argmax(axis=1)
        cell = cell if which == "first" else columns - 1 - cell
        holds = np.take_along_axis(touched, cell[:, None], axis=1)
        names_cell = np.take_along_axis(reported, cell[:, None], axis=1) & holds
        what = f"{which} touched cell"
        yield from lag_checks(what, names_cell, holds, true)
        events.append(Occurrence(what, names_cell[:, 0], holds[:, 0], true))
        yield from checks_by_number("column", cell, columns, events[-1])
        if mechanism.kind is not Index:
            truths = names_cell[:, 0]
            free = ~following(touched[truths], cell[truths])
            lies = following(reported[truths], cell[truths]) & free
            chance = np.full(columns - 1, lied)
            if mechanism.kind is Subset:
                chance[:] = (mechanism.layout.ones - 1) / (columns - 1)
            counts, trials = column_sums(lies), column_sums(free)
            yield f"lies so far from a told {what}", counts, trials, chance
    if mechanism.kind is Index and mechanism.touches == 1 and columns > 2:
        yield from _lies(reports)
    if mechanism.kind.is_bitwise:
        noise = row_sums(reported & ~touched), row_sums(~touched)
        events.append(Occurrence("untouched cells", *noise, lied))
        events.append(_right_cells(reports))
        yield from noise_checks(reported, touched, lied)
    for by in reports.numbers_by():
        yield from checks_by_number(*by, *events)
    layout = mechanism.layout
    if isinstance(layout, Subset) and columns > mechanism.touches + 1:
        _, both = layout.pair_probabilities(channel.touched, mechanism.touches)
        yield from pair_checks(reported & ~touched, ~touched, float(both))


def _right_cells(reports: Reports) -> Occurrence:
    """Return which reports have most cells right, about half of them: all cells together show
    weaker noise better than one. Reports count whose values touch the usual number of cells."""
    (true, lie), columns = reports.mechanism.channel.chances, reports.mechanism.shape.columns
    held = row_sums(reports.touched)
    usual = int(np.bincount(held).argmax())
    right = binomial_law(columns - usual, 1 - lie)
    law = np.convolve(binomial_law(usual, true), right)
    most = int(np.searchsorted(np.cumsum(law), 0.5)) + (law[-1] < 0.5)
    where, chance = held == usual, float(law[most:].sum())
    seen = (row_sums(reports.reported == reports.touched) >= most) & where
    return Occurrence("right cells", seen, where, chance)


def following(cells: Bools, places: Ints) -> Bools:
    """Return for each report the cells after its place, cyclically up to the cell before the place:
    shape (reports, columns - 1)."""
    twice = np.concatenate([cells, cells], axis=1)
    windows = np.lib.stride_tricks.sliding_window_view(twice, cells.shape[1] - 1, axis=1)
    return windows[np.arange(len(cells)), places + 1]


def _lies(reports: Reports) -> Iterator[Checks]:
    """Check that a column which is not the true one is uniform among the others: by its distance
    from the true one, and by every parity of the two."""
    columns = reports.mechanism.shape.columns
    pairs = [
        (cells[0], number)
        for cells, number in zip(reports.true_cells, reports.numbers, strict=True)
        if cells and number != cells[0]
    ]
    true, lies = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    distance = (lies - true) % columns - 1
    yield from uniform_checks("distance of a lie", distance, columns - 1)
    for modulus in (2, *RESIDUES):
        if modulus < columns:
            every = np.arange(columns)
            for name, groups in (("rest", every % modulus), ("block", every * modulus // columns)):
                sizes, trials = (np.bincount(g, minlength=modulus) for g in (groups, groups[true]))
                same = groups[true] == groups[lies]
                counts = np.bincount(groups[true][same], minlength=modulus)
                what = f"lies in the truth's {name} of {modulus}"
                yield what, counts, trials, (sizes - 1) / (columns - 1)
    low = low_limit(columns)
    true, lies = true & (low - 1), lies & (low - 1)
    seen = [np.bincount(n, minlength=low) for n in (true, lies, true ^ lies)]
    *turned, of_all = walsh_hadamard(np.array([*seen, remainders(columns, low)]))
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
