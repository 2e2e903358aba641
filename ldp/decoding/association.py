"""Association: the joint distribution of a joint metric's parts, from its reports.

Source: Fanti, Pihur and Erlingsson 2016, "Building a RAPPOR with the Unknown", section 3. Given the
values, the parts of a report are independent. So the likelihood of a report is L_a(i) L_b(j) if the
values are i and j. `ldp.decoding.mixtures` maximises the likelihood of all reports from the two
factors. A value that is on no list belongs to the category OTHER, which may have any filter. The
paper estimates its filter from the bits of each cohort that the listed values do not explain. That
fits the noise of the same reports and overestimates OTHER (docs/mechanisms/joint.md). Intervals and
p-values are those of unbiased counts (`cell_counts`), because estimates of maximum likelihood are
not normal near 0.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from itertools import product
from string import ascii_lowercase
from typing import Any, NamedTuple, Self

import numpy as np

from ldp.arrays import AnyInts, Bools, Bytes, Floats, Ints, Places, RowNumbers, texts
from ldp.decoding import decode
from ldp.decoding.independence import Independence, independence
from ldp.decoding.mixtures import MOST_CELLS, Mixture, fit_shares
from ldp.errors import DecodeError
from ldp.files import counted, finite
from ldp.mechanisms import Mechanism
from ldp.mechanisms.base import FAKES
from ldp.mechanisms.outcomes import cell_factors
from ldp.protocol.kinds import Index
from ldp.tables.estimates import Normal, Rule, interval_columns, selected_miss, spread, widened
from ldp.tables.frame import Columns
from ldp.tables.joint_table import JointTable
from ldp.tables.patterns import Patterns, group_reports
from ldp.tables.result import OTHER, Result
from ldp.tables.table import Table, one_table

MOST_STEPS, LAST_STEP = 20, 1e-6
"""Largest number of steps of Newton's method, and the step, in shares, after which it ends."""
MOST_FALL = 0.9
"""Largest part of a report's probability that one step may take away."""


@dataclass(frozen=True, eq=False)
class PartWeights:
    """Estimates of a part's value, from its different reports. `weights`: shape (reports, values),
    T_a in docs/mechanisms/joint.md. `density`: shape (reports,), f there. `unlisted_error`: shape
    (values,), standard deviation of the mean of `weights` over all reports about one unlisted
    value, due to the columns that it hashes to."""

    weights: Floats
    density: Floats
    unlisted_error: Floats

    @classmethod
    def of(cls, factor: Floats, counts: AnyInts, margin: Floats) -> Self:
        """Return the weights from the likelihoods `factor`, shape (reports, values), the number of
        equal reports `counts` and `margin`, the most likely shares of 0 or more, shape (values,).
        From these Newton's method goes to the maximum without that bound."""
        part = np.asarray(counts / counts.sum())
        for _ in range(MOST_STEPS):
            density = factor @ margin
            relative = factor / density[:, None]
            information = relative.T @ (relative * part[:, None])
            inverse = np.linalg.pinv(information, hermitian=True, rcond=1e-12)
            step = inverse @ (relative.T @ part - 1)
            fall = float((-(factor @ step) / density).max())
            margin = margin + min(1.0, MOST_FALL / max(fall, MOST_FALL)) * step
            if np.abs(step).max() < LAST_STEP:
                break
        return cls(relative @ inverse, density, np.zeros(factor.shape[1]))


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Unbiased `count` and `std_error` of every cell, an axis a part. `telling`: number k of
    reports that name the cell, as if all had an equal weight w (Kish). `false`: number of these
    that are expected where nobody holds the cell. The count is w (k - false)."""

    count: Floats
    std_error: Floats
    telling: Floats
    false: Floats

    @property
    def few_tail(self) -> Floats:
        """Probability that `telling` reports or more name a cell that nobody holds: a tail of the
        Poisson distribution, continued between whole numbers."""
        from scipy.special import gammainc

        return np.asarray(gammainc(np.maximum(self.telling, 1.0), np.maximum(self.false, 0.0)))


def cell_counts(
    parts: Sequence[PartWeights], counts: AnyInts, places: Sequence[Places] | None = None
) -> CellCounts:
    """Return the counts of all cells from the weights of each part and the number of equal reports
    `counts`, shape (reports,). `places`: which of a part's different reports each has, shape
    (reports,), None where all are different.

    People whose value of a part is unlisted may all hold the same value. Its columns are fixed. So
    what it adds to a cell does not average out over reports: an error of `unlisted_error` times the
    number of such people in the cell's line, added in quadrature.
    """
    values = [part.weights.shape[1] for part in parts]
    count, second, fourth = (
        Mixture.of([part.weights**power for part in parts], counts, places).sums().reshape(values)
        for power in (1, 2, 4)
    )
    variance = np.maximum(second - np.clip(count, 0, counts.sum()), 0)
    for axis, part in enumerate(parts):
        unlisted = np.maximum(np.take(count, [-1], axis=axis), 0)
        shape = [-1 if axis == other else 1 for other in range(count.ndim)]
        variance += (unlisted * part.unlisted_error.reshape(shape)) ** 2
    fourth = np.maximum(fourth, 1e-300)
    telling = second**2 / fourth
    return CellCounts(
        count=count,
        std_error=np.sqrt(variance),
        telling=telling,
        false=telling - count / np.sqrt(fourth / np.maximum(second, 1e-300)),
    )


def stated_variance(variables: Sequence["Variable"], shares: Floats, reports: int) -> Floats:
    """Return the variance of the unbiased count of every cell, as the parts' channels state it:
    shape of `shares`. `reports`: number of reports; `shares`: of the people in each cell. The mean
    of a weight is 1 for holders and 0 for others. Its variance is its part's."""
    second = shares
    for axis, part in enumerate(variables):
        held, other = (float(part.mechanism.support.variance(share)) for share in (1.0, 0.0))
        second = other * second.sum(axis=axis, keepdims=True) + (1 + held - other) * second
    return np.asarray(reports * np.maximum(second - shares, 0.0))


IN_CACHE = 1 << 11
"""Number of reports whose products stay in the second-level cache."""
ALIKE = 0.25
"""Part of the standard error that channels state below which reports are too alike to show it."""
FEW = 20
"""Number of reports that name a cell below which its unbiased count is not normal."""
DECOYS, AT_ONCE = 64, 8
"""Number of unlisted values whose columns stand for those of any, and number of them whose
likelihoods are in memory at once."""
MOST_POINTS = 1 << 20
"""Number of integers of hashed values that are in memory at once."""
INEXACT = (
    "of rare values in so many reports, the test of independence rejects more often than it says"
)
"""Warning about the test alone, which the counts do not need."""
LEAST_ERROR = 1e-9
"""Least standard error that a p-value is computed from, for each report."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Association(Result):
    """Joint distribution of the parts of some reports.

    `values`: for each part the values of its axis, `OTHER` the last where values are hashed.
    `shares`: float64, an axis for each part, the maximum of the likelihood, 0 or more and adding to
    1. `unbiased`, `std_error`: shape of `shares`, in reports: an estimate, sometimes negative, of
    the number of these reports that held the cell, and its standard error. Intervals, p-values and
    discoveries are those of `unbiased`. `are_few`: whether reports are too few for normal errors.
    An error of 0 is then no certainty. `few_tail`: least p-value of each cell, by the number of
    reports that name it. `reports`: number of reports. `independence_test`: from the number of
    reports by the sender of a report to the test. `details`: mechanism and fit.
    """

    kind = "association"
    digits = None
    offers = frozenset(("selected", "population"))

    values: tuple[tuple[str, ...], ...]
    shares: Floats
    unbiased: Floats
    std_error: Floats
    reports: int
    independence_test: Callable[[float], Independence]
    rule: Rule = field(default_factory=Rule)
    are_few: bool = False
    few_tail: Floats | float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def independence(self) -> Independence:
        """Test that the parts are independent among people, who send `reports_per_person`."""
        return self.independence_test(1 + self.more)

    @property
    def count(self) -> Floats:
        """Number of reports of every cell: shape of `shares`."""
        return self.reports * self.shares

    @cached_property
    def p_value(self) -> Floats:
        """One-sided p-value of every cell, against a count of 0: shape of `shares`."""
        from scipy.special import ndtr

        # of reports without noise
        least = LEAST_ERROR * self.reports
        tails = ndtr(-self.unbiased / np.maximum(self.std_error, least))
        return np.where(self.are_few & (self.std_error <= least), 1.0, tails).clip(self.few_tail)

    def detected(self, rule: Rule | None = None) -> Bools:
        """Return the mask of the cells that `rule` (default: `self.rule`) discovers among all:
        shape of `shares`."""
        return (rule or self.rule).discovers(self.count, self.p_value)

    def _interval(
        self, level: float, *, selected: bool = False, population: bool = False, **_: bool
    ) -> tuple[Floats, Floats]:
        """Return (low, high), shape of `shares`, for the number of these reports that held the
        cell. They are not clipped. At a large epsilon few reports lie, and each moves the count by
        one. So an interval reaches one report to both sides at least."""
        miss = 1 - level
        if selected:
            miss = selected_miss(miss, self.detected())
        wide = spread(self.unbiased, self.std_error, self.reports if population else 0)
        reach = np.hypot(Normal().upper(miss / 2) * wide, 1.0)
        low, high = self.unbiased - reach, self.unbiased + reach
        if population and self.more:
            ends = (low, high, self.unbiased, self.unbiased)
            return widened(ends, self.reports, self.reports, self.more, miss)
        return low, high

    @property
    def headline(self) -> str:
        """One line: numbers of cells, of discoveries and of reports."""
        cells = " x ".join(map(str, self.shares.shape))
        detected = int(self.detected().sum())
        reports = counted(self.reports, "report")
        return f"Association of {cells} cells, {detected:,} discovered, from {reports}"

    def _columns(self) -> Columns:
        """Return a row for each cell, the largest count first, with the interval within [0,
        reports]."""
        discovered = self.detected()
        columns = {
            "estimate": self.count,
            "unbiased": self.unbiased,
            "std_error": self.std_error,
            **interval_columns(self, discovered),
        }
        order = np.argsort(-self.count, axis=None, kind="stable")
        texts = zip(*product(*self.values), strict=True)
        values = {
            f"value_{number}": [names[i] for i in order.tolist()]
            for number, names in enumerate(texts, 1)
        }
        return {**values, **{name: column.ravel()[order] for name, column in columns.items()}}

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Summary for the file beside the CSV: mechanism, fit, level and controls."""
        return {
            "kind": self.kind,
            **self.details,
            "reports": self.reports,
            "detected": int(self.detected().sum()),
            **self.controls,
            "alpha": self.rule.alpha,
            "control": self.rule.control,
            "independence": finite(self.independence._asdict()),
        }


def whole_of(table: Table | JointTable) -> Patterns:
    """Return the whole reports of a table. Raises DecodeError where it has none."""
    if table.whole is None:
        raise DecodeError(
            "the table holds no whole reports, which alone say what came together: count the "
            "reports with ldp aggregate, of a memoised metric those of one day"
        )
    return table.whole


def associate(
    table: Table | JointTable,
    candidates: Sequence[Sequence[str] | None] | None = None,
    *,
    rule: Rule | None = None,
) -> Association:
    """Return the joint distribution of the parts of the reports in a `table`.

    `candidates`: a list for each part, or None for a part with categories. Where values are hashed,
    candidates that `rule` detects in the part alone (default: 5 % false discoveries) have a cell.
    The rest is OTHER. Raises DecodeError for a table without whole reports, for no reports, for a
    part without candidates and for more than MOST_CELLS cells. Time: in proportion to patterns x
    cells**2.
    """
    if not isinstance(table, JointTable):
        one_table(table)
    mechanism = table.mechanism
    if not (isinstance(table, JointTable) and mechanism.needs_whole):
        raise DecodeError(f"reports of {mechanism.name} hold no pairs")
    patterns, count = whole_of(table), len(table.tables)
    lists = [None] * count if candidates is None else candidates
    listed = [None if some is None else texts(some, "candidates") for some in lists]
    if len(listed) != count:
        what = counted(len(listed), "list")
        raise DecodeError(f"{what} of candidates for the {count} parts of a report")
    if not patterns.total:
        raise DecodeError("there are no reports")
    rule = Rule.of(rule)
    variables = [
        variable(part_table, names, rule, f"part {letter!r}")
        for letter, part_table, names in zip(ascii_lowercase, table.tables, listed, strict=False)
    ]
    shape = tuple(len(axis.values) for axis in variables)
    if math.prod(shape) > MOST_CELLS:
        raise DecodeError(
            f"{' x '.join(map(str, shape))} cells are more than {MOST_CELLS:,}: give fewer "
            "candidates, or a stricter rule"
        )
    parts = [PartReports.of(*part, patterns.counts) for part in patterns.parts()]
    factors = [
        likelihoods(axis, part.rows, part.payloads)
        for axis, part in zip(variables, parts, strict=True)
    ]
    warnings = [axis.warning for axis in variables if axis.warning]
    factors = [factor / factor.max(axis=1, keepdims=True) for factor in factors]
    places = [part.places for part in parts]
    fit = fit_shares(Mixture.of(factors, patterns.counts, places))
    margins = [margin(factor, part.counts) for factor, part in zip(factors, parts, strict=True)]
    weights = [part_weights(*part) for part in zip(variables, parts, factors, margins, strict=True)]
    cells = cell_counts(weights, patterns.counts, places)
    stated = stated_variance(variables, fit.shares.reshape(shape), patterns.total) ** 0.5
    std_error = np.where(cells.std_error < ALIKE * stated, stated, cells.std_error)
    counts = patterns.counts
    test = cache(lambda each: independence(factors, counts, margins, places, each))
    are_few = bool((cells.telling < FEW).any())
    if are_few:
        warnings.append(
            "too few reports tell of the rarest cells for errors that are normal: their intervals "
            "and p-values are not promised"
        )
    return Association(
        values=tuple(axis.values for axis in variables),
        shares=fit.shares.reshape(shape),
        unbiased=cells.count,
        std_error=std_error,
        reports=patterns.total,
        independence_test=test,
        rule=rule,
        are_few=are_few,
        few_tail=cells.few_tail,
        details={
            "mechanism": mechanism.name,
            "fingerprint": mechanism.fingerprint.hex(),
            "epsilon": mechanism.cost.epsilon,
            "fakes_move": FAKES * patterns.total * math.prod(map(leverage, variables, weights)),
            "patterns": len(patterns.counts),
            "steps": fit.steps,
            "last_change": fit.change,
            "rule": asdict(rule),
            "warning": "; ".join(warnings),
            "warnings": [] if test(1.0).is_exact else [INEXACT],
        },
    )


class PartReports(NamedTuple):
    """Different reports of a part: `rows`, shape (different,), `payloads`, shape (different,
    payload bytes), and `counts`, the number of each. `places`: which of them each pattern has,
    shape (patterns,)."""

    rows: RowNumbers
    payloads: Bytes
    counts: Ints
    places: Places

    @classmethod
    def of(cls, rows: RowNumbers, payloads: Bytes, counts: Ints) -> "PartReports":
        """Return the different reports of a part, from its row and payload in each pattern, and the
        patterns' counts, shape (patterns,)."""
        first, places = group_reports(rows, payloads)
        own = np.zeros(first.size, np.int64)
        np.add.at(own, places, counts)
        return cls(rows[first], payloads[first], own, places.astype(np.int32))


@dataclass(frozen=True, eq=False)
class Variable:
    """Axis of a distribution: the values, OTHER the last where they are hashed; and `touched`, 1
    where a listed value touches a column of a row (cohort): shape (rows, values, columns)."""

    mechanism: Mechanism
    values: tuple[str, ...]
    touched: Floats
    warning: str = ""


def variable(table: Table, listed: Sequence[str] | None, rule: Rule, what: str) -> Variable:
    """Return the axis of a part, from its table and `listed` candidates. Raises DecodeError, which
    names the part as `what`, for candidates that do not fit."""
    mechanism, categories = table.mechanism, table.mechanism.listed
    if mechanism.answers == "sets":
        raise DecodeError(f"{what} has sets of answers: association is between single values")
    if categories:
        if listed is not None and {*listed} != {*categories}:
            raise DecodeError(f"{what} has categories of its own, and no other candidates")
        return Variable(mechanism, categories, touch_matrix(mechanism, categories))
    if listed is None:
        raise DecodeError(f"{what} ({mechanism.name}) needs a list of candidates")
    estimates = decode(table, listed, rule=rule)
    values = tuple(estimates.values[i] for i in np.flatnonzero(estimates.detected()))
    warning = str(estimates.details.get("warning", ""))
    return Variable(
        mechanism,
        (*values, OTHER),
        touch_matrix(mechanism, values),
        warning and f"{what}: {warning}",
    )


def touch_matrix(mechanism: Mechanism, values: Sequence[str]) -> Floats:
    """Return the array that is 1 where a value touches a column of a row: float64, shape (rows,
    values, columns)."""
    from ldp import bulk

    rows, columns = mechanism.shape
    matrix = np.zeros((rows, len(values), columns))
    if not values:
        return matrix
    points = bulk.points(mechanism.addressing, rows, values)
    step = max(1, MOST_POINTS // points.size)
    # a point of some mechanisms is as long as there are rows
    for start in range(0, rows, step):
        block = np.arange(start, min(start + step, rows), dtype=np.uint32)
        repeated, at = np.concatenate([points] * len(block)), np.repeat(block, len(values))
        cells = bulk.columns(mechanism.addressing, rows, repeated, at)
        number, place = np.nonzero(cells != bulk.NO_COLUMN)
        matrix[at[number], number % len(values), cells[number, place]] = 1
    return matrix


def likelihoods(axis: Variable, rows: RowNumbers, payloads: Bytes) -> Floats:
    """Return the likelihood of every report for each value of `axis`, over that of a value which
    touches no cell: float64, shape (reports, values). `rows`: shape (reports,), `payloads`: shape
    (reports, payload bytes)."""
    # late: it loads all of ldp.bulk
    from ldp.bulk.compiled import by_rows

    ratio = cell_ratios(axis.mechanism, payloads)
    result = value_likelihoods(axis.touched, rows, ratio)
    if axis.touched.shape[1] == len(axis.values):
        return result
    hashes = axis.mechanism.most_cells
    unlisted = by_rows(lambda some: _any_filter_likelihood(ratio[some], hashes), len(ratio))
    return np.column_stack([result, np.concatenate(unlisted)])


def cell_ratios(mechanism: Mechanism, payloads: Bytes) -> Floats:
    """Return for every cell of the reports' rows the probability of the report if the value touches
    the cell, divided by that if it does not: float64, shape (reports, columns)."""
    columns, ratios = mechanism.shape.columns, map(float, cell_factors(mechanism))
    if mechanism.kind is Index:
        column = payloads @ (1 << 8 * np.arange(payloads.shape[1]))
        return np.where(column[:, None] == np.arange(columns), *ratios)
    bits = np.unpackbits(payloads, axis=1, bitorder="little")[:, :columns]
    return np.where(bits, *ratios)


def value_likelihoods(touched: Floats, rows: RowNumbers, ratio: Floats) -> Floats:
    """Return the product of `ratio`, shape (reports, columns), over the cells that are `touched`,
    shape (rows, values, columns): shape (reports, values)."""
    # late, as above
    from ldp.bulk.compiled import by_rows

    result = np.empty((len(rows), touched.shape[1]))
    order = np.argsort(rows, kind="stable")
    bounds = np.searchsorted(rows[order], np.arange(len(touched) + 1))

    def work(some: slice) -> None:
        for start, end, cells in zip(bounds[some], bounds[1:][some], touched[some], strict=True):
            reports = order[start:end]
            result[reports] = np.exp(np.log(ratio[reports]) @ cells.T)

    by_rows(work, len(touched), ratio.size * touched.shape[1])
    return result


def _any_filter_likelihood(ratio: Floats, hashes: int) -> Floats:
    """Return the mean over all filters of the product of `ratio`, shape (reports, columns), over
    the columns they set, where each of `hashes` hashes falls on any of k columns equally: hashes!
    times the coefficient of t**hashes in the product over columns of 1 + ratio (e**(t / k) - 1).
    That is the likelihood for a value nobody listed, whose filter is random. Its shape is
    (reports,)."""
    if len(ratio) > IN_CACHE:
        blocks = np.array_split(ratio, -(-len(ratio) // IN_CACHE))
        return np.concatenate([_any_filter_likelihood(block, hashes) for block in blocks])
    terms, chance = np.zeros((hashes + 1, len(ratio))), 1 / ratio.shape[1]
    terms[0] = 1
    for column in np.ascontiguousarray(ratio.T):
        for power in range(hashes, 0, -1):
            for times in range(1, power + 1):
                weight = chance**times / math.factorial(times)
                terms[power] += weight * column * terms[power - times]
    return np.asarray(math.factorial(hashes) * terms[hashes])


def margin(factor: Floats, counts: Ints) -> Floats:
    """Return the maximum-likelihood shares of a part's values, shape (values,), from the
    likelihoods of its different reports, shape (reports, values), and the number of each."""
    return fit_shares(Mixture.of([factor], counts)).shares[:, 0]


def part_weights(
    axis: Variable, reports: PartReports, factor: Floats, shares: Floats
) -> PartWeights:
    """Return the unbiased estimates of a part's value, from its reports, their likelihoods and its
    shares. `unlisted_error` is measured on DECOYS values that nobody holds, any of which the
    unlisted value might have been: on their mean weights, by importance sampling from the same
    reports.
    """
    part = PartWeights.of(factor, reports.counts, shares)
    if axis.touched.shape[1] == len(axis.values):
        return part
    ratio = cell_ratios(axis.mechanism, reports.payloads)
    any_filter = _any_filter_likelihood(ratio, axis.mechanism.most_cells)
    scale = factor[:, -1] / part.density / any_filter * reports.counts
    mean, other = np.zeros(len(axis.values)), np.eye(len(axis.values))[-1]
    for start in range(0, DECOYS, AT_ONCE):
        names = [f"\0decoy {start + number}" for number in range(AT_ONCE)]
        chance = value_likelihoods(touch_matrix(axis.mechanism, names), reports.rows, ratio)
        chance *= scale[:, None]
        mean += ((chance.T @ part.weights / chance.sum(axis=0)[:, None] - other) ** 2).sum(axis=0)
    return replace(part, unlisted_error=np.sqrt(mean / DECOYS))


def leverage(axis: Variable, part: PartWeights) -> float:
    """Return the most that one of the reports adds to the count of a listed value of a part; of
    OTHER where none is listed."""
    return float(np.abs(part.weights[:, : axis.touched.shape[1] or 1]).max())
