"""Counts of candidates by regression on the cells of all rows.

Written for RAPPOR, whose rows are cohorts and whose cells are the bits of their Bloom filters. A
sketch is the same with one hash a row. Regression helps there where rows are few.

In every cohort c a bit's unbiased share y = holders / reports is the share of people whose Bloom
filter sets it. With x_j the filter of candidate j, b_j its share and m = 1 - (1 - 1/k)**h the mean
of a filter of k bits and h hashes,

    y - m = sum over j of b_j (x_j - m) + noise:

subtracting m makes strings that are not on the list a flat background instead of a bias. Rows are
weighted by the exact variance of a bit. Method lasso-ols is the decoder of Erlingsson et al. 2014,
section 4. Regression is the non-negative lasso without its shrinkage
(`ldp/regression/debiased.py`), after a part of the noise is removed (`noise_from_squares`).
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ldp.arrays import Floats, Places, Points, binomial_above
from ldp.bulk.compiled import by_rows
from ldp.bulk.counting import add_to_cells, sum_cells
from ldp.decoding.binomials import FEW_LIES, HARDLY_ANY_LIES
from ldp.decoding.error_law import ErrorLaw, law_of_random_cells
from ldp.decoding.report_patterns import PatternEquations, is_unexplained
from ldp.errors import DecodeError
from ldp.protocol.kinds import Index
from ldp.regression import least_squares, nonnegative_lasso
from ldp.regression.debiased import Sparse, debias, nonnegative_path, refit
from ldp.regression.least_squares import ALL, inverse_diagonal
from ldp.tables.estimates import Estimates, Normal, Rule
from ldp.tables.patterns import Patterns
from ldp.tables.table import Table

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_CELLS = 1 << 20
"""Largest number of cells of a table: each fitted candidate is a column of so many numbers."""
ROUNDS = 24
"""Largest number of fits beside unlisted strings."""
DENSE_BITS, MOST_DENSE = 64, 1 << 22
"""Number of bits up to which columns are multiplied as they are, and the most numbers in them."""
MOST_WORK = 1 << 28
"""Number of products above which the errors of a fit are those around the population, which are a
little larger than those around the table."""
FEW = 16
"""Number of equations below which `regression` is least squares of all candidates: the shrinkage
of a lasso, and the skewness of its residuals, are averages over many."""
MOST_ALIKE = 1.0
"""Number of candidates, on average, with half of the bits of a string that is not listed, above
which they can take its place unnoticed."""
CHECKED = 4
"""Least number of equations, beyond fitted candidates, that shows whether the list is complete."""
MOST_LASSO = 200_000_000
"""Largest number of numbers in the lasso's design matrix: 1.6 GB."""


@dataclass(frozen=True, eq=False)
class BloomDesign:
    """Design of columns weight (x_j - mean), never all in memory: `map`, shape (candidates,
    cohorts, hashes); `weight`, shape (cohorts, bits)."""

    map: Points
    weight: Floats
    mean: float

    def columns(self, chosen: Places) -> Floats:
        """Return the chosen columns: shape (cohorts * bits, chosen)."""
        columns = np.tile(-self.mean * self.weight.ravel(), (chosen.size, 1))
        cells = self.map[chosen] + self.weight.shape[1] * np.arange(len(self.weight))[:, None]
        starts = self.weight.size * np.arange(chosen.size)[:, None, None]
        np.put(columns, starts + cells, ((1 - self.mean) * self.weight.ravel())[cells])
        return columns.T

    def gram(self, some: Places, others: Places) -> Floats:
        """Return the products of `some` columns with `others`: shape (some, others). With w the
        weights and s_j those of the cells of j, column j is s_j - mean w. Where filters are long,
        only the cells that candidates share are multiplied."""
        if self._is_dense and max(some.size, others.size) * self.weight.size <= MOST_DENSE:
            left = self.columns(some)
            right = left if np.array_equal(some, others) else self.columns(others)
            return np.asarray(left.T @ right)
        left, right = map(self._cells, (some, others))
        flat, turned = self.weight.ravel(), right.T.tocsr()
        crossed = self.mean * np.add.outer(left @ flat, right @ flat)
        shared = by_rows(lambda part: (left[part] @ turned).toarray(), some.size)
        return np.asarray(np.concatenate(shared) - crossed + self.mean**2 * (flat @ flat))

    @property
    def _is_dense(self) -> bool:
        return bool(self.weight.shape[1] <= DENSE_BITS)

    def _cells(self, chosen: Places) -> "csr_array":
        """Return the weights of the cells of each chosen candidate: shape (chosen, cohorts *
        bits)."""
        starts = self.weight.shape[1] * np.arange(len(self.weight))[:, None]
        matrix = _marked(self.map[chosen] + starts, self.weight.size)
        matrix.data = self.weight.ravel()[matrix.indices]
        return matrix

    def cells(self, chosen: Places, cohort: int) -> "csr_array | Floats":
        """Return 1 for each bit of a cohort that a chosen candidate sets: shape (chosen, bits)."""
        places, bits = self.map[chosen, cohort], self.weight.shape[1]
        if not self._is_dense:
            return _marked(places, bits)
        marks = np.zeros((chosen.size, bits))
        marks[np.arange(chosen.size)[:, None], places] = 1.0
        return marks

    def correlations(self, residual: Floats, chosen: Places | slice = ALL) -> Floats:
        """Return the products of the chosen columns with `residual`, shape (cohorts * bits,): shape
        (chosen,)."""
        cells = self.weight * residual.reshape(self.weight.shape)
        return np.asarray(sum_cells(self.map[chosen], cells) - self.mean * cells.sum())

    def fitted(self, chosen: Places | slice, coefficients: Floats) -> Floats:
        """Return the sum of the chosen columns times their coefficients: shape (cohorts * bits,).
        None of the columns is in memory."""
        cells = add_to_cells(self.map[chosen], coefficients, self.weight.shape[1])
        return np.asarray(((cells - self.mean * coefficients.sum()) * self.weight).ravel())

    @cached_property
    def norms(self) -> Floats:
        """Lengths of the columns: shape (candidates,)."""
        squares = self.weight**2
        sums = sum_cells(self.map, squares * (1 - 2 * self.mean))
        return np.asarray(np.sqrt(np.maximum(sums + self.mean**2 * squares.sum(), 0)))


def _marked(places: Points, width: int) -> "csr_array":
    """Return 1 at the places that each value has, shape (values, ...): shape (values, width)."""
    from scipy.sparse import csr_array

    ends = np.arange(len(places) + 1) * math.prod(places.shape[1:])
    shape = (len(places), width)
    matrix = csr_array((np.ones(places.size), places.ravel().astype(np.int64), ends), shape=shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


@dataclass(frozen=True, eq=False)
class BitEquations:
    """Equations of the bits of a `table`: `share`, the unbiased share of holders, and `reports`,
    shapes (cohorts, bits) and (cohorts, 1); `map`, shape (candidates, cohorts, hashes). `mean`: of
    a filter. `more`: number of reports beyond one that every client sent, in its cohort and under
    one permanent response. `noise`, shape (cohorts * bits,), is subtracted from the target."""

    table: Table
    map: Points
    share: Floats
    reports: Floats
    mean: float
    more: float
    noise: Floats | float = 0.0

    @classmethod
    def of(cls, table: Table, places: Points, more: float) -> "BitEquations":
        """Return the equations of a table. `places`: the bits of each candidate, shape (candidates,
        cohorts, hashes). Raises DecodeError for `more` reports whose bits are not independent."""
        if more and not table.mechanism.kind.is_bitwise:
            raise DecodeError(
                f"a regression does not know how {table.mechanism.name} reports of one client are "
                "correlated: use method mean-sketch"
            )
        if not table.mechanism.permanent_channel:
            more = 0.0
        reports, cells = table.reports[:, None].astype(np.float64), table.named_counts()
        with np.errstate(invalid="ignore", divide="ignore"):
            share = table.mechanism.channel.holders(cells, reports) / reports
        mean = 1 - (1 - 1 / table.mechanism.shape.columns) ** places.shape[2]
        return cls(table, places, np.where(reports > 0, share, mean), reports, mean, more)

    @property
    def contrasts(self) -> int:
        """Number of equations that constrain: strings hardly change the sum of a cohort's bits,
        whether they are listed or not."""
        cohorts = int((self.table.reports > 0).sum())
        return cohorts * (self.table.mechanism.shape.columns - 1)

    @property
    def details(self) -> dict[str, Any]:
        """Keys of `Estimates.details` that these equations alone have: none."""
        return {}

    def at(self, fit: Sparse | None) -> tuple[BloomDesign, Floats]:
        """Return the design and the target, shape (cohorts * bits,), weighted by the variances at
        `fit`; None: where every bit has the mean share."""
        share, mean = self.share, self.mean
        if fit is None:
            weights = np.broadcast_to(self.reports, share.shape)
            explained = np.full(share.shape, np.average(share, weights=weights))
        else:
            flat = BloomDesign(self.map, np.ones_like(share), mean)
            explained = mean + flat.fitted(fit.chosen, fit.coefficients).reshape(share.shape)
        weight = self.weight(explained)
        target = ((share - mean) * weight).ravel()
        return BloomDesign(self.map, weight, mean), target - self.noise

    def learn(self, design: BloomDesign, fit: Sparse) -> "tuple[BitEquations, bool]":
        """Return the equations without the part of the noise that the squares of the shares'
        residuals predict, and whether that was the last part. Where strings are not on the list,
        the first fit takes some of their share, so a second part comes from the fit after it."""
        used, noise = self.table.reports > 0, np.zeros_like(design.weight)
        weight = design.weight[used]
        residual = (fit.residual + self.noise).reshape(noise.shape)[used]
        variance = self.variance(self.share, np.maximum(self.reports - 1, 1))[used]
        noise[used] = weight * noise_from_squares(residual / weight, variance, weight**2)
        scale = self.remaining(design, fit)[1]
        is_last = bool(np.any(self.noise)) or not is_unexplained(scale, self.contrasts)
        return replace(self, noise=noise.ravel()), is_last

    def doubt(self, design: BloomDesign) -> float:
        """Return 0: what `learn` subtracts is the smallest part of the noise."""
        return 0.0

    def remaining(self, design: BloomDesign, fit: Sparse) -> tuple[float, float]:
        """Return 1 - df / n, the part of a random column that df chosen ones leave, and the
        variance of the residuals without what is common to a cohort."""
        residual = fit.residual.reshape(design.weight.shape)
        residual = residual - residual.mean(axis=1, keepdims=True)
        freedom = max(1, self.contrasts - fit.chosen.size)
        return 1 - fit.chosen.size / self.contrasts, float((residual**2).sum()) / freedom

    def law(self, design: BloomDesign, fit: Sparse) -> ErrorLaw | Normal:
        """Return the distribution of the products of residuals with random cells. A candidate's
        cells are random, whatever unlisted strings left in the residuals."""
        used, hashes = self.table.reports > 0, self.map.shape[2]
        cells = (design.weight * fit.residual.reshape(design.weight.shape))[used]
        cells -= cells.mean(axis=1, keepdims=True)
        return law_of_random_cells(cells.ravel(), hashes * len(cells))

    def weight(self, holders: Floats) -> Floats:
        """Return 1 / standard deviation of every share, where a share `holders`, shape (cohorts,
        bits), holds the bit. Returns 0 without reports."""
        return np.asarray(1 / np.sqrt(self.variance(np.clip(holders, 0, 1), self.reports)))

    def variance(self, holders: Floats, reports: Floats) -> Floats:
        """Return the variance of the shares, where a share `holders` of the people behind `reports`
        holds the bit: shape (cohorts, bits). Reports of one client share its filter and permanent
        response. It is infinite without reports."""
        mechanism = self.table.mechanism
        p, q = mechanism.channel.chances
        chance = q + holders * (p - q)
        # of permanent bits the same, whether holders' or not
        shared = self.more * (mechanism.pooled_variance(1) + holders * (1 - holders))
        with np.errstate(divide="ignore"):
            return np.asarray((chance * (1 - chance) / (p - q) ** 2 + shared) / reports)

    def variances(self, design: BloomDesign, fit: Sparse, correction: Floats) -> Floats:
        """Return the variance of every chosen candidate's estimate around its share of this table,
        and that of the sum of all candidates' estimates around theirs: shape (chosen + 1,).

        With A the weights of the bits in an estimate and Z_c = A_c (X_c - m), so that Z_c[j, i] is
        the part of a holder of i in cohort c in the estimate of j: noise of single bits, and the
        random cohort of every holder (two bits of one filter rise together),

            sum over c of (A_c**2 noise_c + Z_c (diag b - b b') Z_c') / reports_c - b (1 - b) / n.

        Where clients sent several reports each, all but the noise is as many times as large.

        A report that names one column (Index) has a multinomial's variance in place of both: with P
        the chances of the columns, p and q, (A_c**2 P - (A_c P)**2) / ((p - q)**2 reports_c r). The
        caller multiplies by the residuals' variance over that of independent bits. The columns of
        one report make it r = 1 + the mean of sqrt(P_j P_k / ((1 - P_j) (1 - P_k))), j != k.

        The last term is the variance of drawing the table from a population. The result is at least
        the noise of the bits. A is that of least squares, C**+ for the chosen columns C. What the
        penalty took comes back as `correction` of the residual, shape (candidates,), so the sum has
        the weights 1' C**+ + correction' X' (1 - C C**+). Above MOST_WORK products the result is
        the variance around the population, which is a little more.
        """
        from scipy.sparse.linalg import cg

        gram, back = design.gram(fit.chosen, fit.chosen), design.fitted(ALL, correction)
        back_products = design.correlations(back, fit.chosen)
        b, n, mean = np.maximum(fit.coefficients, 0.0), self.table.total, design.mean
        held_by = np.append(b, min(1.0, b.sum()))
        rows, columns = design.weight.shape
        if b.size * (rows * columns + rows * b.size) > MOST_WORK:
            summed, _ = cg(gram, 1 - back_products, rtol=1e-6)
            together = design.fitted(fit.chosen, summed) + back
            return np.append(inverse_diagonal(gram), together @ together)
        inverse = np.linalg.pinv(gram, hermitian=True)
        summed = inverse.sum(axis=0) - back_products @ inverse
        together = (design.fitted(fit.chosen, summed) + back).reshape(rows, columns)
        sums = inverse.sum(axis=1, keepdims=True)
        variance, noise = np.zeros((2, held_by.size))
        each = 1 + self.more
        channel, is_index = self.table.mechanism.channel, self.table.mechanism.kind is Index
        q, gain = float(channel.untouched), channel.gain
        for c in np.flatnonzero(self.reports[:, 0] > 0).tolist():
            weight, reports = design.weight[c], self.reports[c]
            x = design.cells(fit.chosen, c)
            a = np.vstack([((x.T @ inverse).T - mean * sums) * weight, together[c]]) * weight
            share = x.T @ b
            held = (1 - 2 * mean) * share + mean**2 * b.sum() - (share - mean * b.sum()) ** 2
            squares, single = a**2, 1 / weight**2 - each * held / reports
            noise += squares @ np.maximum(single, 0)
            if is_index:
                chance = np.clip(q + gain * (share + (1 - b.sum()) * mean), 1e-9, 1 - 1e-9)
                odds = np.sqrt(chance / (1 - chance))
                more = (odds.sum() ** 2 - odds @ odds) / (columns * (columns - 1))
                spread = (squares @ chance - (a @ chance) ** 2) / gain**2
                variance += spread / reports[0] / (1 + more)
                continue
            z = (x @ a.T).T - mean * a.sum(axis=1, keepdims=True)
            variance += squares @ single + each * (z**2 @ b - (z @ b) ** 2) / reports
        return np.asarray(np.maximum(variance - each * held_by * (1 - held_by) / n, noise))


Equations = BitEquations | PatternEquations
"""Linear equations of the candidates' shares, of bits or of whole reports."""


def from_map(
    table: Table,
    candidates: tuple[str, ...],
    bits: Points,
    rule: Rule,
    method: str,
    more: float = 0.0,
    *,
    patterns: Patterns | None = None,
) -> Estimates:
    """Return estimates of candidates whose hashes set `bits`, shape (candidates, cohorts, hashes).

    `method`: "lasso-ols", least squares of the candidates that a lasso chooses; or "regression",
    valid for candidates in the fit and for others, also for more candidates than equations. With
    fewer than FEW equations regression is least squares of all candidates, with infinite errors
    where candidates are too many. `more`: number of reports beyond one that every client sent under
    a permanent response (RAPPOR's). `patterns`: the whole reports, for estimates from those instead
    of their bits. Raises DecodeError for a table of more than MOST_CELLS cells.
    """
    if table.counts.size > MOST_CELLS:
        raise DecodeError(
            f"a table of more than {MOST_CELLS:,} cells is too large for a regression"
        )
    equations: Equations
    if patterns is None:
        equations = BitEquations.of(table, bits, more)
    else:
        equations = PatternEquations.of(table, patterns, bits)
    contrasts = equations.contrasts
    fits_all = method == "regression" and contrasts < FEW
    equations, design, fit = _fitted(equations, method, fits_all)
    left, scale = equations.remaining(design, fit)
    share, error = debias(design, fit, left, max(1.0, scale))
    correction = np.where(np.isfinite(error), error, 0.0) ** 2 / max(1.0, scale)
    if fits_all:
        target = fit.residual + design.columns(fit.chosen) @ fit.coefficients
        error = least_squares(design.columns(fit.chosen), target).std_errors
    is_known = np.isfinite(error[fit.chosen])
    fitted_scale = max(1.0, scale + 2 * equations.doubt(design))
    table_error = np.sqrt(fitted_scale * equations.variances(design, fit, correction))
    error[fit.chosen[is_known]] = table_error[:-1][is_known]
    n = table.total
    untouched = float(table.mechanism.channel.untouched)
    lies = bits.shape[2] * untouched * (1 - untouched)
    hardly_any = n * lies < HARDLY_ANY_LIES
    freedom = max(1, contrasts - fit.chosen.size)
    cells = bits.shape[2] * int((table.reports > 0).sum())
    mean = 1 - (1 - 1 / table.mechanism.shape.columns) ** bits.shape[2]
    alike = len(candidates) * float(binomial_above((cells - 1) // 2, cells, mean))
    details: dict[str, Any] = {
        "equations": contrasts,
        "fitted": int(fit.chosen.size),
        "residual_variance": scale,
        "shared_variance": 1 - 1 / max(0.5, scale),
        **equations.details,
    }
    if not np.isfinite(error).any():
        details["warning"] = (
            f"{len(candidates)} candidates that {contrasts} equations cannot tell apart: more "
            "cohorts or bits are needed, or fewer candidates"
        )
    elif n * lies < FEW_LIES:
        details["warning"] = (
            f"{n:,} reports are too few for errors that are normal: below {FEW_LIES / lies:,.0f} "
            "of this mechanism the error rate and the intervals are not promised"
            + (", and nothing is discovered but by threshold" if hardly_any else "")
        )
    elif contrasts - fit.chosen.size < CHECKED:
        details["warning"] = (
            f"{fit.chosen.size} candidates of {contrasts} equations are too many to tell whether "
            "strings that people hold are not on the list: if some are, the counts are theirs too"
        )
    elif is_unexplained(scale, freedom):
        details["warning"] = (
            f"the residuals vary {scale:.2f} times as much as noise would: strings that people "
            "hold are not on the list, or too many for it, so the error rate and the intervals "
            "are not promised"
        )
    elif alike > MOST_ALIKE:
        details["warning"] = (
            f"{alike:,.1f} of the candidates have half of the bits of a string that is not listed: "
            "if people hold one, the counts of these may be its own; more cohorts tell them apart"
        )
    is_small = fits_all or not fit.residual.any()
    law = Normal() if is_small else equations.law(design, fit)
    return Estimates(
        values=candidates,
        count=n * share,
        std_error=n * error,
        p_value=np.full(len(candidates), np.nan) if hardly_any else law.tail(share / error),
        reports=n,
        noise=float(n * np.median(np.minimum(error, 1.0))),
        law=law,
        rule=rule,
        details=details,
        sum_std_error=n * float(table_error[-1]) if np.isfinite(error).all() else None,
    )


def _fitted(equations: Equations, method: str, fits_all: bool) -> tuple[Equations, Any, Sparse]:
    """Return the equations, the design and the fit of `method`, or of least squares of all
    candidates."""
    is_sparse = method != "lasso-ols" and not fits_all
    design: Any
    fit: Sparse | None = None
    for _ in range(2):
        design, target = equations.at(fit)
        if method == "lasso-ols":
            fit = _lasso(design, target)
        elif fits_all:
            fit = _least_squares(design, target, np.arange(len(design.map)))
        elif fit is None:
            fit = nonnegative_path(design, target, equations.contrasts)
        else:
            fit = refit(design, target, fit, equations.contrasts)
    assert fit is not None
    for _ in range(ROUNDS if is_sparse else 0):
        design, target = equations.at(fit)
        residual = target - design.fitted(fit.chosen, fit.coefficients)
        equations, is_settled = equations.learn(design, replace(fit, residual=residual))
        design, target = equations.at(fit)
        fit = refit(design, target, fit, equations.contrasts)
        if is_settled:
            break
    return equations, design, fit


def noise_from_squares(residual: Floats, variance: Floats, precision: Floats) -> Floats:
    """Return the best linear prediction of each residual from the excess of its square over the
    `variance` that the mechanism gives it at the observed share: shape of `residual`, mean 0
    weighted by `precision`.

    A string that is missing from the list raises the few bits that it sets by much and lowers none
    by much. So residuals are skewed: they are correlated with their squares. To first order no
    candidate's share changes the mean of a square less its variance, so an estimate without this
    part of the noise has no more bias, and less variance. The mechanism's own noise makes no such
    correlation: the observed share, which gives the variance, has the error of the residual.
    """
    squares = residual**2 - variance
    squares -= np.average(squares, weights=precision)
    slope = np.sum(precision**2 * squares * residual)
    return np.asarray(slope / max(np.sum((precision * squares) ** 2), 1e-300) * squares)


def _lasso(design: Any, target: Floats) -> Sparse:
    candidates = len(design.map)
    if candidates * target.size > MOST_LASSO:
        most = MOST_LASSO // target.size
        raise DecodeError(
            f"the lasso's design matrix holds {most} candidates at most; use method regression"
        )
    chosen = nonnegative_lasso(design.columns(np.arange(candidates)), target)
    return _least_squares(design, target, chosen)


def _least_squares(design: Any, target: Floats, chosen: Places) -> Sparse:
    fit = least_squares(design.columns(chosen), target)
    return Sparse(chosen, fit.coefficients, fit.residual, 0.0)
