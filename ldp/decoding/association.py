"""Which values go together: the joint distribution of a joint metric's parts, from its reports.

Source: Fanti, Pihur and Erlingsson 2016, "Building a RAPPOR with the Unknown", section 3. Given the
values, the parts of a report are independent, so a report is likely to degree L_a(i) L_b(j) if the
values are i and j. What maximises the likelihood of all reports is found by `ldp.decoding.mixtures`
from the two factors. A value that no list names is one of the category OTHER: any filter at all.
The paper takes for it what the listed values leave of each cohort's bits; estimated from the same
reports, that is fitted to their noise, and draws reports to itself (docs/mechanisms/joint.md).
"""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, reduce
from pathlib import Path
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import Floats, Ints
from ldp.decoding import decode
from ldp.decoding.mixtures import MOST_CELLS, Mixture, fit_shares
from ldp.errors import DecodeError
from ldp.files import write_together
from ldp.mechanisms import Mechanism
from ldp.mechanisms.addressing import Identity
from ldp.tables.estimates import Rule, summary_path
from ldp.tables.patterns import Patterns, group_reports
from ldp.tables.table import Table

OTHER = "(other)"
"""What the values that are not listed, or not detected, are called together."""
POSITIVE = 1e-6
"""A share below it is taken for none by the test of independence."""
ENOUGH = 500
"""Reports for each cell below which the test's chi-square law is not relied on."""


class Independence(NamedTuple):
    """A test that the parts are independent: Rao's score test of the product of the margins. Under
    independence `statistic` is chi-square with so many degrees of `freedom`; NaN where there are
    none."""

    statistic: float
    freedom: int
    p_value: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Association:
    """The joint distribution of the parts of some reports.

    `values`: for each part the values of its axis, `OTHER` the last where values are hashed;
    `shares`: float64, one axis a part, adding to 1; `covariance`: of the shares, flat, as estimates
    of the population's; `reports`: how many there are. `details`: how it was found.
    """

    values: tuple[tuple[str, ...], ...]
    shares: Floats
    covariance: Floats
    reports: int
    independence: Independence
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def count(self) -> Floats:
        """Reports of every cell."""
        return self.reports * self.shares

    @cached_property
    def std_error(self) -> Floats:
        """Of every cell's `count`, around the number of these reports that held it: the maximum's
        variance less what only a sample of people has, f (1 - f) n."""
        sampled = np.diag(self.covariance).reshape(self.shares.shape)
        held = self.shares * (1 - self.shares) / self.reports
        return self.reports * np.sqrt(np.maximum(sampled - held, 0))

    def margin(self, part: int) -> Floats:
        """The shares of one part's values."""
        others = tuple(axis for axis in range(self.shares.ndim) if axis != part)
        return np.asarray(self.shares.sum(axis=others))

    def rows(self) -> list[dict[str, Any]]:
        """A dictionary for each cell: the value of every part, count and standard error; largest
        count first."""
        count, error = self.count.ravel(), self.std_error.ravel()
        cells = np.array(np.unravel_index(np.arange(count.size), self.shares.shape)).T.tolist()
        return [
            {
                **{
                    name: listed[place]
                    for name, listed, place in zip(
                        ascii_lowercase, self.values, cells[i], strict=False
                    )
                },
                "count": float(count[i]),
                "std_error": float(error[i]),
            }
            for i in np.argsort(-count, kind="stable").tolist()
        ]

    def summary(self) -> dict[str, Any]:
        """What goes beside the CSV."""
        tested = self.independence
        p_value = None if math.isnan(tested.p_value) else tested.p_value
        independence = {**tested._asdict(), "p_value": p_value}
        return {**self.details, "reports": self.reports, "independence": independence}

    def to_csv(self, path: str | Path | None = None) -> str:
        """`a,b,count,std_error` as text; with `path` also written there, `summary` beside it."""
        text, rows = io.StringIO(), self.rows()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            numbers = {name: f"{row[name]:.2f}" for name in ("count", "std_error")}
            writer.writerow({**row, **numbers})
        if path is not None:
            beside = summary_path(Path(path))
            summary = json.dumps(self.summary(), indent=2, allow_nan=False) + "\n"
            write_together({Path(path): text.getvalue(), beside: summary})
        return text.getvalue()


def associate(
    patterns: Patterns,
    candidates: Sequence[Sequence[str] | None] | None = None,
    *,
    rule: Rule | None = None,
) -> Association:
    """The joint distribution of the parts of the reports in `patterns`.

    `candidates`: a list for each part, or None for one that has categories. Where values are hashed
    those that `rule` detects by themselves (default: 5 % false discoveries) have a cell and the
    rest is OTHER. Raises DecodeError for a table, which keeps no patterns, for no reports, for a
    part without candidates and for more than MOST_CELLS cells. Time: some 5 times patterns x
    cells**2 / 4.
    """
    if not isinstance(patterns, Patterns):
        raise DecodeError(
            "the report patterns were not kept: a table counts each part by itself and cannot say "
            "which values go together; read the reports again (ldp.collection.read_patterns)"
        )
    mechanism, count = patterns.mechanism, len(patterns.mechanism.parts)
    listed = [None] * count if candidates is None else list(candidates)
    if len(listed) != count:
        raise DecodeError(f"{len(listed)} lists of candidates for the {count} parts of a report")
    if not patterns.total:
        raise DecodeError("there are no reports")
    rule, margins = rule or Rule(), patterns.table().tables
    variables = [
        variable(table, some, rule, f"part {name!r}")
        for name, table, some in zip(ascii_lowercase, margins, listed, strict=False)
    ]
    factors = [
        likelihoods(each, *part) for each, part in zip(variables, patterns.parts(), strict=True)
    ]
    shape = tuple(factor.shape[1] for factor in factors)
    if math.prod(shape) > MOST_CELLS:
        raise DecodeError(
            f"{' x '.join(map(str, shape))} cells are more than {MOST_CELLS:,}: give fewer "
            "candidates, or a stricter rule"
        )
    warnings = [each.warning for each in variables if each.warning]
    if patterns.total < ENOUGH * math.prod(shape):
        warnings.append(
            f"fewer than {ENOUGH} reports for each of {math.prod(shape)} cells: the test of "
            "independence rejects more often than it says"
        )
    mixture = Mixture.of(factors, patterns.counts)
    fit = fit_shares(mixture)
    return Association(
        values=tuple(each.values for each in variables),
        shares=fit.shares.reshape(shape),
        covariance=covariance(mixture.information(fit.shares)),
        reports=patterns.total,
        independence=independence(factors, patterns.counts),
        details={
            "mechanism": mechanism.name,
            "fingerprint": mechanism.fingerprint.hex(),
            "epsilon": mechanism.cost.epsilon,
            "patterns": len(patterns.counts),
            "steps": fit.steps,
            "last_change": fit.change,
            "rule": asdict(rule),
            "warnings": warnings,
        },
    )


@dataclass(frozen=True, eq=False)
class Variable:
    """One axis: the values, OTHER the last where they are hashed; and which columns of every row
    (cohort) each of the others touches, shape (rows, values, columns)."""

    mechanism: Mechanism
    values: tuple[str, ...]
    touched: Floats
    warning: str = ""


def variable(table: Table, listed: Sequence[str] | None, rule: Rule, what: str) -> Variable:
    """The axis of one part, from its own table and candidates."""
    mechanism, addressing = table.mechanism, table.mechanism.addressing
    if isinstance(addressing, Identity):
        if listed is not None and {*listed} != {*addressing.categories}:
            raise DecodeError(f"{what} has categories of its own, and no other candidates")
        return Variable(
            mechanism, addressing.categories, touch_matrix(mechanism, addressing.categories)
        )
    if listed is None:
        raise DecodeError(f"{what} ({mechanism.name}) needs a list of candidates")
    found = decode(table, listed, rule=rule)
    values = tuple(found.values[i] for i in np.flatnonzero(found.detected()))
    warning = str(found.details.get("warning", ""))
    return Variable(
        mechanism,
        (*values, OTHER),
        touch_matrix(mechanism, values),
        warning and f"{what}: {warning}",
    )


def touch_matrix(mechanism: Mechanism, values: Sequence[str]) -> Floats:
    """1 where a value touches a column of a row: shape (rows, values, columns)."""
    from ldp import bulk

    rows, columns = mechanism.shape
    found = np.zeros((rows, len(values), columns))
    if not values:
        return found
    points = bulk.points(mechanism.addressing, rows, values)
    for row in range(rows):
        at = np.full(len(values), row, dtype=np.uint32)
        named = bulk.columns(mechanism.addressing, rows, points, at)
        value, which = np.nonzero(named != bulk.NO_COLUMN)
        found[row, value, named[value, which]] = 1
    return found


def likelihoods(of: Variable, rows: NDArray[np.uint32], payloads: NDArray[np.uint8]) -> Floats:
    """How likely every report is for each value, over that of its likeliest; float64, shape
    (reports, values). Equal reports are reckoned once."""
    channel, columns = of.mechanism.channel, of.mechanism.shape.columns
    shown = float(channel.touched / channel.untouched)
    hidden = float((1 - channel.touched) / (1 - channel.untouched))
    first, group = group_reports(rows, payloads)
    bits = np.unpackbits(payloads[first], axis=1, bitorder="little")[:, :columns]
    ratio = np.where(bits, shown, hidden)
    made = np.empty((first.size, len(of.values)))
    order = np.argsort(rows[first], kind="stable")
    bounds = np.searchsorted(rows[first][order], np.arange(of.mechanism.shape.rows + 1))
    for row in np.flatnonzero(np.diff(bounds)).tolist():
        some, cells = order[bounds[row] : bounds[row + 1]], of.touched[row]
        made[some, : len(cells)] = np.exp(np.log(ratio[some]) @ cells.T)
    if of.touched.shape[1] < len(of.values):
        made[:, -1] = _of_any_filter(ratio, getattr(of.mechanism.addressing, "hashes", 1))
    made /= made.max(axis=1, keepdims=True)
    return np.asarray(made[group])


def _of_any_filter(ratio: Floats, hashes: int) -> Floats:
    """The mean over all filters of the product of `ratio` over the columns they set, when each of
    so many hashes falls on any of k columns alike: hashes! times the coefficient of t**hashes in
    the product over columns of 1 + ratio (e**(t / k) - 1). That is the law of a value nobody
    listed, since which filter it has is the choice of a public random function."""
    found, chance = np.zeros((hashes + 1, len(ratio))), 1 / ratio.shape[1]
    found[0] = 1
    for own in ratio.T:
        for power in range(hashes, 0, -1):
            for times in range(1, power + 1):
                found[power] += chance**times / math.factorial(times) * own * found[power - times]
    return np.asarray(math.factorial(hashes) * found[hashes])


def covariance(information: Floats) -> Floats:
    """The inverse of the information about shares that add to 1: Z (Z' I Z)**-1 Z', Z a basis of
    the changes that keep the sum."""
    if len(information) < 2:
        return np.zeros_like(information)  # one share is all there is
    basis = _keeping_the_sum(len(information))
    inverse = np.linalg.pinv(basis.T @ information @ basis, hermitian=True, rcond=1e-12)
    return np.asarray(basis @ inverse @ basis.T)


def independence(factors: Sequence[Floats], counts: Ints) -> Independence:
    """Rao's score test that the parts are independent.

    If they are, each margin is a mixture by itself. With the slope S and the information I of the
    log likelihood at the product of the margins, S' Z (Z' I Z)**-1 Z' S is chi-square with
    (cells - 1) - sum of (values - 1) degrees of freedom, (r - 1)(c - 1) for two parts. Nothing is
    asked of the cells' own estimates, of which half lie at 0 where the truth is near it, and there
    Wald's test of the same has no known law. Values without a share are left out."""
    from scipy.stats import chi2

    margins = [fit_shares(Mixture.of([factor], counts)).shares[:, 0] for factor in factors]
    kept = [np.flatnonzero(margin > POSITIVE) for margin in margins]
    freedom = math.prod(map(len, kept)) - 1 - sum(len(places) - 1 for places in kept)
    if not freedom:
        return Independence(0.0, 0, math.nan)
    mixture = Mixture.of(
        [factor[:, places] for factor, places in zip(factors, kept, strict=True)], counts
    )
    some = [margin[places] for margin, places in zip(margins, kept, strict=True)]
    product = reduce(np.multiply.outer, [margin / margin.sum() for margin in some])
    product = product.reshape(len(some[0]), -1)
    slope = mixture.total * mixture.gradient(product).ravel()
    spread = covariance(mixture.information(product))
    statistic = float(slope @ spread @ slope)
    return Independence(statistic, freedom, float(chi2.sf(statistic, freedom)))


def _keeping_the_sum(cells: int) -> Floats:
    """Orthonormal columns, shape (cells, cells - 1), that each add to 0 (Helmert's)."""
    from scipy.linalg import helmert

    return np.asarray(helmert(cells).T)
