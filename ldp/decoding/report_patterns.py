"""Counts of candidates from whole RAPPOR reports, for filters of few bits.

A table counts ones, bit by bit. Of k bits there are 2**k different reports, and how many of each a
cohort received says more: which bits were set together. In cohort c, with N reports, let

    T[s, F]     probability of the report s of a person whose Bloom filter is F,
    pi[F]       share of the people with filter F, of J filters with 1 to h bits,
    P = T pi    probability of each report,  p = the share of the reports that were it.

The estimate of pi with the least variance at P (generalised least squares) is

    y = I**-1 T' diag(1/P) p,    I = T' diag(1/P) T,    covariance (I**-1 - pi pi') / N;

it is unbiased whatever P is taken, and its sum is 1. With x_j[F] = 1 for the filter of candidate j,
else 0, and m the distribution of the filter of a random string,

    y - m = sum over j of b_j (x_j - m) + noise,    J - 1 contrasts a cohort,

times the root of N I the equations of `ldp.regression`, as of bits in
`ldp.decoding.candidates`. P follows from a fit, never from the counts of single reports, of
which most may be 0.

A string that many hold and no list names is in one filter of each cohort, unknown but hard to miss.
If its share is b, and r is the residual of a cohort after the listed strings, its filter is F with
the probability

    w[F] ~ m[F] exp(b x_F'r - b**2 |x_F|**2 / 2),    b = sum w x'r / sum w |x|**2,

iterated over all cohorts (expectation maximisation). Where these probabilities are close to 0 or 1,
b w is subtracted as if it were listed. Else the string stays in the residuals' variance.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from ldp.arrays import Floats, Ints, Places, Points, add_at
from ldp.bulk.counting import sum_cells
from ldp.errors import DecodeError
from ldp.mechanisms import CatalogueMechanism, Rappor
from ldp.mechanisms.base import FAKES
from ldp.regression.debiased import Sparse
from ldp.regression.least_squares import ALL
from ldp.tables.estimates import Normal
from ldp.tables.patterns import Patterns
from ldp.tables.table import Table

MOST_BITS = 8
"""Largest number of bits of a filter: 256 different reports."""
MOST_PATTERNS = 1 << 18
"""Largest number of different reports in all cohorts: each fitted candidate is as many numbers."""
LEAST_SHARE = 0.01
"""Least share of the people whose filters are taken for random, when P is computed."""
UNEXPLAINED = 4.0
"""Number of standard errors by which the variance of residuals exceeds 1 if not all is noise."""
NO_INFORMATION = 1e-9
"""Ratio of an eigenvalue of I to the largest below which its contrast is left out."""
MOST_UNLISTED = 8
"""Largest number of unlisted strings that are subtracted."""
LEAST_GAIN = 10.0
"""Least gain in log-likelihood of an unlisted string."""
MOST_DOUBT = 0.1
"""Largest part of the noise's variance that not knowing the filters of an unlisted string adds."""
STEPS = 100
"""Largest number of steps of expectation maximisation."""
SETTLED = 0.01
"""Relative change of an unlisted string's share below which it has settled."""


@dataclass(frozen=True, eq=False)
class FilterDesign:
    """Design of columns root (x_j - mean), never all in memory: `map`, shape (candidates, cohorts,
    1), the number of each candidate's filter; `root`, shape (cohorts, contrasts, filters), with
    root' root = N I; `mean`, shape (filters,), the distribution of a random string's filter."""

    map: Points
    root: Floats
    mean: Floats

    @cached_property
    def parts(self) -> Floats:
        """Columns of every filter in each cohort: shape (cohorts, filters, contrasts)."""
        return np.swapaxes(self.root - (self.root @ self.mean)[:, :, None], 1, 2).copy()

    def columns(self, chosen: Places) -> Floats:
        """Return the chosen columns: shape (cohorts * contrasts, chosen)."""
        cohorts = np.arange(len(self.root))
        columns = self.parts[cohorts, self.map[chosen, :, 0]]
        return columns.reshape(chosen.size, self.root.shape[0] * self.root.shape[1]).T

    def gram(self, some: Places, others: Places) -> Floats:
        """Return the products of `some` columns with `others`: shape (some, others)."""
        return np.asarray(self.columns(some).T @ self.columns(others))

    def fitted(self, chosen: Places | slice, coefficients: Floats) -> Floats:
        """Return the chosen columns' sum, each times its coefficient: shape (cohorts * contrasts,).
        The columns are never in memory."""
        held = held_by_filter(self.map[chosen], coefficients, self.mean.size)
        return self.of_filters(held).ravel()

    def of_filters(self, held: Floats) -> Floats:
        """Return the sum of the columns of all filters, each times its `held`: shape (cohorts,
        contrasts). `held`: how many hold each filter, shape (cohorts, filters)."""
        return np.asarray(np.einsum("cfe,cf->ce", self.parts, held))

    def correlations(self, residual: Floats, chosen: Places | slice = ALL) -> Floats:
        """Return the products of the chosen columns with `residual`, shape (cohorts * contrasts,):
        shape (chosen,)."""
        cells = np.einsum("cfe,ce->cf", self.parts, residual.reshape(len(self.root), -1))
        return np.asarray(sum_cells(self.map[chosen], cells))

    @cached_property
    def norms(self) -> Floats:
        """Lengths of the columns: shape (candidates,)."""
        return np.asarray(np.sqrt(sum_cells(self.map, (self.parts**2).sum(axis=2))))

    def random_column(self, columns: Floats) -> Floats:
        """Return the mean of (z'x)(z'x) over the column x of a random string, for every two of
        `columns` z, shape (cohorts * contrasts, n): shape (n, n)."""
        stacked = columns.T.reshape(columns.shape[1], *self.root.shape[:2]).swapaxes(0, 1)
        cells = np.swapaxes(stacked @ np.swapaxes(self.parts, 1, 2), 0, 1)
        flat = (cells * np.sqrt(self.mean)).reshape(len(cells), self.root.shape[0] * self.mean.size)
        centre = cells @ self.mean
        return np.asarray(flat @ flat.T - centre @ centre.T)


@dataclass(frozen=True, eq=False)
class PatternEquations:
    """Equations of the whole reports of a `table`: `share`, shape (cohorts, 2**bits), of each in
    its cohort; `map` as of `FilterDesign`; `channel`, T, shape (2**bits, filters), and `mean`;
    `unlisted`, shape (strings, cohorts, filters), the share of each unlisted string by filter."""

    table: Table
    share: Floats
    map: Points
    channel: Floats
    mean: Floats
    unlisted: Floats

    @classmethod
    def of(cls, table: Table, patterns: Patterns, places: Points) -> "PatternEquations":
        """Return the equations of the reports that `table` counts. `places`: the bits of each
        candidate, shape (candidates, cohorts, hashes). Raises DecodeError for patterns of other
        reports, and for a mechanism whose whole reports are not decoded."""
        mechanism = require_decodable(table.mechanism)
        counts = pattern_counts(patterns)
        bits = np.arange(counts.shape[1])[:, None] >> np.arange(mechanism.bits) & 1
        if mechanism.fingerprint != patterns.mechanism.fingerprint or not (
            np.array_equal(counts.sum(axis=1), table.reports)
            and np.array_equal(counts @ bits, table.counts)
        ):
            raise DecodeError("the patterns are not those of the reports that the table counts")
        filters, mean = random_filter(mechanism.bits, mechanism.hashes)
        number = np.zeros(counts.shape[1], np.uint8)
        number[filters] = np.arange(filters.size)
        codes = np.zeros(places.shape[:2], np.uint8)
        for bit in np.moveaxis(places, 2, 0):
            codes |= np.left_shift(1, bit, dtype=np.uint8, casting="unsafe")
        share = counts / np.maximum(table.reports, 1)[:, None]
        law, unlisted = report_law(mechanism, filters), np.zeros((0, len(share), mean.size))
        return cls(table, share, number[codes][:, :, None], law, mean, unlisted)

    @property
    def contrasts(self) -> int:
        """Number of equations that constrain: the shares of a cohort's filters add to 1."""
        return int((self.table.reports > 0).sum()) * (self.mean.size - 1)

    @property
    def leverage(self) -> float:
        """Largest number of reports by which one made-up report raises a candidate's count, as the
        report of its filter does: at the weights of random strings, the mean over filters."""
        relative = self.channel / (self.channel @ self.mean)[:, None]
        moved = relative.max(axis=0) - 1
        information = (relative * self.channel).sum(axis=0) - 1
        return float(self.mean @ moved / (self.mean @ information))

    @property
    def details(self) -> dict[str, Any]:
        """Keys of `Estimates.details` that these equations alone have."""
        shares = self.unlisted.sum(axis=2).mean(axis=1)
        return {
            "whole_reports": True,
            "unlisted": [round(float(share) * self.table.total) for share in shares],
            "fakes_move": FAKES * self.table.total * self.leverage,
        }

    def at(self, fit: Sparse | None) -> tuple[FilterDesign, Floats]:
        """Return the design and the target, shape (equations,), weighted by the variances at `fit`;
        None: where all strings are random."""
        held = self.unlisted.sum(axis=0)
        if fit is not None:
            held = held + held_by_filter(self.map[fit.chosen], fit.coefficients, self.mean.size)
        others = np.maximum(1 - held.sum(axis=1, keepdims=True), LEAST_SHARE)
        filters = held + others * self.mean
        filters /= filters.sum(axis=1, keepdims=True)
        weighted = self.channel / (filters @ self.channel.T)[:, :, None]
        values, vectors = np.linalg.eigh(np.swapaxes(weighted, 1, 2) @ self.channel)
        is_known = values > NO_INFORMATION * values[:, -1:]
        root = np.sqrt(np.where(is_known, values, 0.0))
        back = np.divide(1.0, root, where=is_known, out=np.zeros_like(root))
        turned, reports = np.swapaxes(vectors, 1, 2), np.sqrt(self.table.reports)[:, None]
        score = np.einsum("csf,cs->cf", weighted, self.share)
        design = FilterDesign(self.map, (root * reports)[:, :, None] * turned, self.mean)
        target = back * reports * np.einsum("cef,cf->ce", turned, score)
        target -= design.of_filters(self.unlisted.sum(axis=0))
        return design, (target - design.root @ self.mean).ravel()

    def learn(self, design: FilterDesign, fit: Sparse) -> "tuple[PatternEquations, bool]":
        """Return the equations with each unlisted string estimated again from the residual of
        `fit`, and whether nothing was left to change. Once the strings settle, one more is added
        where the rest varies by more than noise."""
        residual, strings = fit.residual.reshape(len(self.share), -1), list[Floats]()
        for before in self.unlisted:
            residual = residual + design.of_filters(before)
            residual = _without_string(design, residual, strings)
        shares = np.array([string.sum() for string in strings])
        is_settled = len(shares) == len(self.unlisted) and np.allclose(
            shares, self.unlisted.sum(axis=(1, 2)), rtol=SETTLED, atol=0
        )
        if is_settled and len(shares) < MOST_UNLISTED:
            variance = self.remaining(design, replace(fit, residual=residual.ravel()))[1]
            if is_unexplained(variance, self.contrasts):
                _without_string(design, residual, strings)
        unlisted = np.array(strings).reshape(len(strings), *self.unlisted.shape[1:])
        return replace(self, unlisted=unlisted), is_settled and len(strings) == len(shares)

    def remaining(self, design: FilterDesign, fit: Sparse) -> tuple[float, float]:
        """Return the part of a random string's column that the chosen ones leave, and the variance
        of the residual along such columns divided by that of noise.

        Equations have unequal weights. A column lies mostly where its weights are large. With S the
        mean of x x' over the columns x of random strings and H the projection on those chosen, the
        part is 1 - tr(H S) / tr(S), which is 1 - df / n where S is the identity, and the variance
        r'S r / tr((1 - H) S).
        """
        columns = design.columns(fit.chosen)
        inverse = np.linalg.pinv(columns.T @ columns, hermitian=True)
        whole = float((design.parts**2).sum(axis=2).sum(axis=0) @ self.mean)
        taken = float((inverse * design.random_column(columns)).sum())
        left = max(whole - taken, whole / self.contrasts)
        along = float(design.random_column(fit.residual[:, None])[0, 0])
        return left / whole, along / left

    def doubt(self, design: FilterDesign) -> float:
        """Return the variance that unknown filters of unlisted strings add to an estimate, divided
        by the variance of noise."""
        return sum(_doubt(design, string) for string in self.unlisted)

    def law(self, design: FilterDesign, fit: Sparse) -> Normal:
        """Return the normal distribution: an estimate is a sum over many reports."""
        return Normal()

    def variances(self, design: FilterDesign, fit: Sparse, correction: Floats) -> Floats:
        """Return the variance of every chosen candidate's estimate around its share of this table,
        and that of the sum of all candidates' estimates around theirs: shape (chosen + 1,).

        The equations' covariance is the identity (but in the direction in which the shares of a
        cohort add to 1, which no column has), of people drawn from a population; b (1 - b) / n of
        it is what drawing the table adds. The weights of the sum are those of `BitEquations`.
        """
        columns = design.columns(fit.chosen)
        inverse = np.linalg.pinv(columns.T @ columns, hermitian=True)
        back = design.fitted(slice(None), correction)
        apart = back - columns @ (inverse @ (columns.T @ back))
        variance = np.append(np.diag(inverse), inverse.sum() + apart @ apart)
        held = np.maximum(fit.coefficients, 0.0)
        held = np.append(held, min(1.0, held.sum()))
        return np.asarray(np.maximum(variance - held * (1 - held) / self.table.total, 0.0))


def _doubt(design: FilterDesign, string: Floats) -> float:
    """Return the mean variance of x'z / |x| over the columns x of random strings, z the column of
    an unlisted `string`, its share by filter, shape (cohorts, filters)."""
    share = string.sum(axis=1, keepdims=True)
    cells = design.parts @ np.swapaxes(design.parts, 1, 2)
    squares = np.einsum("cf,cfg->cg", string * share, cells**2)
    variance = squares - np.einsum("cf,cfg->cg", string, cells) ** 2
    whole = (design.parts**2).sum(axis=2)
    return float((variance @ design.mean).sum() / (whole @ design.mean).sum())


def _without_string(design: FilterDesign, residual: Floats, strings: list[Floats]) -> Floats:
    """Return `residual`, shape (cohorts, contrasts), without the unlisted string that explains it
    best, and add the string's share by filter, shape (cohorts, filters), to `strings`. Where no
    string explains enough, or its filters are in doubt, return `residual`."""
    parts, mean = design.parts, design.mean
    products, squares = np.einsum("cfe,ce->cf", parts, residual), (parts**2).sum(axis=2)
    excess = max(1.0, float((residual**2).sum()) - residual.size)
    share = math.sqrt(excess / float((squares @ mean).sum()))
    for _ in range(STEPS):
        gain = share * products - share**2 / 2 * squares
        most = gain.max(axis=1, keepdims=True)
        chance = mean * np.exp(gain - most)
        total = chance.sum(axis=1, keepdims=True)
        chance /= total
        before, share = share, float((chance * products).sum() / (chance * squares).sum())
        if share <= 0 or abs(share - before) < 1e-4 * before:
            break
    string = share * chance
    is_found = share > 0 and float((np.log(total) + most).sum()) > LEAST_GAIN
    if not is_found or _doubt(design, string) > MOST_DOUBT:
        return residual
    strings.append(string)
    return residual - design.of_filters(string)


def is_unexplained(variance: float, freedom: int) -> bool:
    """Return whether residuals with `freedom` degrees of freedom, whose `variance` is 1 where all
    is noise, hold strings that are not listed."""
    return variance > 1 + UNEXPLAINED * math.sqrt(2 / freedom)


def require_decodable(mechanism: CatalogueMechanism) -> Rappor:
    """Return the mechanism. Raises DecodeError unless it is RAPPOR whose whole reports are
    decoded."""
    if not isinstance(mechanism, Rappor) or mechanism.scheme == "identity":
        name = "basic RAPPOR" if isinstance(mechanism, Rappor) else mechanism.name
        raise DecodeError(
            f"{name} is not decoded from whole reports, only RAPPOR with hashes: count the "
            "reports without --whole"
        )
    if mechanism.bits > MOST_BITS or mechanism.cohorts << mechanism.bits > MOST_PATTERNS:
        raise DecodeError(
            f"whole reports are decoded up to {MOST_BITS} bits and "
            f"{MOST_PATTERNS >> MOST_BITS:,} cohorts of these, not {mechanism.bits} bits in "
            f"{mechanism.cohorts:,} cohorts: count the reports without --whole"
        )
    return mechanism


def require_independent(table: Table, weighted: float | None) -> None:
    """Raise DecodeError where the whole reports of `table` may share a permanent response: their
    bits then depend on each other in ways that no standard error here accounts for. `weighted`: as
    for `decode`."""
    if (table.memoised and len(table.windows) > 1) or weighted not in (None, 1):
        raise DecodeError(
            "whole reports under one permanent response depend on each other: decode those of one "
            "day (--since, --until), or the table of all with --weighted-reports-per-client"
        )


def pattern_counts(patterns: Patterns) -> Ints:
    """Return the number of reports of each row that are each pattern, by its bits as a number:
    shape (rows, 2**bits)."""
    mechanism = require_decodable(patterns.mechanism)
    counts = np.zeros((mechanism.cohorts, 1 << mechanism.bits), np.int64)
    add_at(counts, patterns.rows, patterns.payloads[:, 0], patterns.counts)
    return counts


def random_filter(bits: int, hashes: int) -> tuple[Ints, Floats]:
    """Return the Bloom filters, bits as a number, and the probability of each for a random string:
    shape (filters,) both. The probability of a filter of i bits is the number of ways for the
    hashes to name all i, over bits**hashes."""
    filters, mean = list[int](), list[float]()
    for size in range(1, hashes + 1):
        onto = sum((-1) ** i * comb(size, i) * (size - i) ** hashes for i in range(size))
        some = [sum(1 << bit for bit in chosen) for chosen in combinations(range(bits), size)]
        filters += some
        mean += [onto / bits**hashes] * len(some)
    return np.array(filters), np.array(mean)


def report_law(mechanism: Rappor, filters: Ints) -> Floats:
    """Return the probability of every report for each filter: shape (2**bits, filters)."""
    p, q = mechanism.channel.chances
    reports = np.arange(1 << mechanism.bits)[:, None]
    ones, both = np.bitwise_count(reports).astype(int), np.bitwise_count(reports & filters)
    size, both = np.bitwise_count(filters).astype(int), both.astype(int)
    law = p**both * (1 - p) ** (size - both) * q ** (ones - both)
    return np.asarray(law * (1 - q) ** (mechanism.bits - size - ones + both))


def held_by_filter(numbers: Points, shares: Floats, filters: int) -> Floats:
    """Return the sum of `shares`, shape (candidates,), over the candidates of each filter: shape
    (cohorts, filters). `numbers`: shape (candidates, cohorts, 1)."""
    by_cohort = (np.bincount(row, shares, minlength=filters) for row in numbers[:, :, 0].T)
    return np.array(list(by_cohort))
