"""Estimates: counts with standard errors, intervals, p-values and a discovery decision.

The estimand is the number of reports in the table that held the value. Discoveries control the
false-discovery rate (Benjamini and Hochberg 1995, adaptive as in Storey, Taylor and Siegmund 2004)
or the family-wise error (Bonferroni); intervals of discovered values can be adjusted for having
been selected (Benjamini and Yekutieli 2005).
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ldp.arrays import Bools, Floats
from ldp.errors import ParameterError
from ldp.files import csv_cells, finite, write_together
from ldp.tables.display import Displayed, Line

if TYPE_CHECKING:
    from ldp.tables.joint_table import JointTable
    from ldp.tables.table import Table

CONTROLS = ("fdr", "bonferroni", "none")
COLUMNS = (
    *("value", "count", "std_error", "low", "high", "p_value"),
    *("detected", "selected_low", "selected_high"),
)
"""Columns of a file of estimates."""
CELL_COLUMNS = ("count", "std_error", "low", "high", "p_value", "detected")
"""Columns of a file of an association, after those of the values."""
CSV_DIGEST = "csv_sha256"
"""Key of a summary: the SHA-256 of the CSV file beside which it was written."""
CATEGORY = "category"
"""Column before NUMBER_COLUMNS in a file of numbers by category."""
NUMBERS_BY_CATEGORY = "numbers-by-category"
"""Kind of such a file, in its summary."""
NUMBER_COLUMNS = ("statistic", "bin_low", "bin_high", "estimate", "std_error", "low", "high")
"""Columns of a file of numbers."""


def table_details(table: "Table | JointTable", method: str) -> dict[str, Any]:
    """Return the first keys of `Estimates.details`: method, mechanism, cost of a report, labels and
    windows of the table."""
    mechanism, cost = table.mechanism, table.mechanism.cost
    spelling = getattr(mechanism, "spelling", None)
    return {
        "method": method,
        "mechanism": mechanism.name,
        "fingerprint": mechanism.fingerprint.hex(),
        "epsilon": None if math.isinf(cost.epsilon) else cost.epsilon,
        "lifetime_epsilon": None if math.isinf(cost.lifetime) else cost.lifetime,
        "memoised": table.memoised,
        "labels": [label.fields for label in table.labels],
        "windows": list(table.windows),
        **({"spelling": asdict(spelling)} if spelling else {}),
    }


class Law(Protocol):
    """Distribution of an estimate's error, in standard errors."""

    def upper(self, p: float) -> float:
        """Return the distance above the true count that an estimate exceeds with probability p."""
        ...

    def lower(self, p: float) -> float:
        """Return the distance below the true count that an estimate exceeds with probability p."""
        ...


Bounds = Callable[[float, bool], tuple[Floats, Floats]]
"""Function from (miss, population) to the intervals (low, high) of all candidates, float64, shape
(candidates,): they miss with probability `miss`, half on either side; `population`: see
`Estimates.interval`."""


class Normal:
    """Normal distribution, for errors that are sums of many small ones."""

    def upper(self, p: float) -> float:
        """Return the distance that a standard normal exceeds with probability p."""
        from scipy.special import ndtri

        return float(-ndtri(p))

    lower = upper


@dataclass(frozen=True, kw_only=True)
class Fakes:
    """Made-up reports that intervals allow for: `number`, at most a `share` of all. They raise an
    estimate above what the honest reports say by `raised` at most, and lower it by `lowered` at
    most: in reports, of numbers in their units, of percentiles as a share of the reports."""

    share: float
    number: int
    raised: float
    lowered: float


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Decision rule: a value is discovered if count >= `threshold` where there is a threshold, else
    if its p-value passes `control` ("fdr", "bonferroni" or "none") at `alpha`. Raises
    ParameterError for others."""

    alpha: float = 0.05
    control: str = "fdr"
    threshold: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise ParameterError("alpha must lie strictly between 0 and 1")
        if self.control not in CONTROLS:
            raise ParameterError(f"control must be one of {', '.join(CONTROLS)}")
        if self.threshold is not None and not 0 < self.threshold < math.inf:
            raise ParameterError("threshold must be a number of reports above 0")

    def discovers(self, count: Floats, p_value: Floats) -> Bools:
        """Return the mask of discovered values, from `count` and `p_value`, float64 of one shape; a
        value whose p-value is NaN is discovered by threshold only."""
        if self.threshold is not None:
            return count >= self.threshold
        return p_value <= self.largest(p_value)

    def largest(self, p_value: Floats) -> float:
        """Return the largest p-value that is discovered among these; where none is, the largest
        that would be, if it were below all others.

        "fdr": R alpha / m0 for the R smallest p-values, as many as pass, and never above alpha. m0
        is how many values nobody seems to hold: of those, half have a p-value above a half.
        """
        tests = max(1, p_value.size)
        if self.control == "none":
            return self.alpha
        if self.control == "bonferroni":
            return self.alpha / tests
        p = np.where(np.isnan(p_value), 1.0, p_value)
        absent = min(tests, 2 * (1 + int((p > 0.5).sum())))
        levels = self.alpha * np.minimum(np.arange(1, tests + 1) / absent, 1)
        passing = np.flatnonzero(np.sort(p, axis=None) <= levels[: p.size])
        return float(levels[passing[-1] if passing.size else 0])


OVERFULL = 5.0
"""Number of standard errors by which the sum of all counts may exceed the reports without a
warning."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Estimates(Displayed):
    """Estimates of the candidates' counts, in the order of the candidates.

    `count`, `std_error`: float64, shape (candidates,), in reports, unbiased and therefore
    sometimes negative. `p_value`: one-sided against a count of 0; NaN where no error rate is
    claimed, and then a value is discovered by threshold only. `reports`: reports in the table.
    `noise`: standard error, in reports, of a value that nobody holds. `law`: distribution of its
    error. `bounds`: intervals, where they are not `law` times the standard errors. `details`:
    method and table. `sum_std_error`: of the sum of all counts, None where it is not known.
    `projected`: counts to print where they were made consistent (`ldp.decoding.consistency`); all
    other numbers are of the unbiased counts. `fakes`: made-up reports that
    intervals, p-values and the noise floor allow for; None where all reports are taken as honest.
    """

    values: tuple[str, ...]
    count: Floats
    std_error: Floats
    p_value: Floats
    reports: int
    noise: float
    law: Law = field(default_factory=Normal)
    bounds: Bounds | None = None
    rule: Rule = field(default_factory=Rule)
    details: Mapping[str, Any] = field(default_factory=dict)
    projected: Floats | None = None
    sum_std_error: float | None = None
    fakes: Fakes | None = None

    def detected(self, rule: Rule | None = None) -> Bools:
        """Return the mask of values discovered under `rule` (default: `self.rule`): shape
        (candidates,)."""
        is_known = np.isfinite(self.std_error)  # no threshold discovers indistinguishable values
        return is_known & (rule or self.rule).discovers(self.count, self.p_value)

    def noise_floor(self) -> float:
        """Return the smallest count, in reports, that the rule would discover."""
        if self.rule.threshold is not None:
            return self.rule.threshold
        floor = self.law.upper(self.rule.largest(self.p_value)) * self.noise
        return floor + (self.fakes.raised if self.fakes else 0.0)

    def interval(
        self, level: float = 0.95, *, selected: bool = False, population: bool = False
    ) -> tuple[Floats, Floats]:
        """Return (low, high), shape (candidates,), with nominal coverage `level` for the count in
        the table; not clipped, except where every category has a cell: there within [0, reports],
        or at the estimate. Raises ParameterError for a level outside (0, 1).

        `selected`: adjusted for discovery: of the discovered values' intervals at least `level`
        hold on average (level 1 - (1 - level) R / m for R discoveries among m candidates).
        `population`: for the count expected in a new sample of as many reports; adds f(1 - f) n.
        With `fakes`, the count is that of the honest reports, whatever the others say.
        """
        if not 0 < level < 1:
            raise ParameterError("level must lie strictly between 0 and 1")
        miss = 1 - level
        if selected:
            miss *= max(1, int(self.detected().sum())) / max(1, len(self.values))
        if self.bounds is not None:
            return self.bounds(miss, population)
        wide = spread(self.count, self.std_error, self.reports if population else 0)
        raised, lowered = (self.fakes.raised, self.fakes.lowered) if self.fakes else (0.0, 0.0)
        return (
            self.count - self.law.upper(miss / 2) * wide - raised,
            self.count + self.law.lower(miss / 2) * wide + lowered,
        )

    def unexplained_share(self) -> float:
        """Return the share of the reports, or of the answers that they could tell of, that hold
        none of the discovered values; unclipped."""
        return 1 - float(self.count[self.detected()].sum()) / max(1, self.answers)

    def unexplained(self) -> float:
        """Return the number of reports that hold no candidate: reports less all estimates. Unbiased
        and unclipped; its standard error is `sum_std_error`. Of sets of answers, the number of
        answers that are missing or no candidate, of `at_most` a report."""
        return self.answers - float(self.count.sum())

    @property
    def answers(self) -> int:
        """Number of answers that the reports could tell of: `at_most` each, or one."""
        return self.reports * int(self.details.get("at_most", 1))

    def tail(self) -> float:
        """Return the distance that errors reach over that of a normal distribution, at the error
        rate of one candidate among all; 1 at least."""
        p = self.rule.alpha / (2 * max(1, len(self.values)))
        return max(1.0, *(side(p) / Normal().upper(p) for side in (self.law.upper, self.law.lower)))

    @property
    def headline(self) -> str:
        """One line: numbers of values, of discoveries and of reports."""
        detected = int(self.detected().sum())
        return (
            f"Estimates of {len(self.values):,} values, {detected:,} discovered, from "
            f"{self.reports:,} reports"
        )

    def lines(self, level: float = 0.95) -> list[Line]:
        """Return the values, the largest estimate first."""
        return [
            Line(row["value"], row["count"], row["low"], row["high"], bool(row["detected"]))
            for row in self.rows(level)
        ]

    def rows(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Return the columns of the CSV as dictionaries, largest count first; intervals clipped to
        [0, reports]; None where a cell is empty."""
        return [
            dict(zip(COLUMNS, row, strict=True)) for row in zip(*self._columns(level), strict=True)
        ]

    def _columns(self, level: float) -> Iterator[list[Any]]:
        """Yield the columns of the CSV, a list of cells each."""
        bounds = [*self.interval(level), *self.interval(level, selected=True)]
        low, high, selected_low, selected_high = (np.clip(end, 0, self.reports) for end in bounds)
        detected = self.detected()
        count = self.count if self.projected is None else self.projected
        order = np.array(self._order(count), dtype=np.intp)

        def cells(column: Floats, is_filled: Bools) -> list[Any]:
            filled = np.full(order.size, None)
            places = np.flatnonzero(is_filled[order])
            filled[places] = column[order[places]]
            numbers: list[Any] = filled.tolist()
            return numbers

        yield np.fromiter(self.values, object, len(self.values))[order].tolist()
        for column in (count, self.std_error, low, high):
            yield column[order].tolist()
        yield cells(self.p_value, ~np.isnan(self.p_value))
        yield detected[order].astype(int).tolist()
        yield cells(selected_low, detected)
        yield cells(selected_high, detected)

    def _order(self, count: Floats) -> Iterable[int]:
        """Return the order of the CSV's rows: buckets as they are, other values by `count`."""
        if self.details.get("method") == "histogram":
            return range(len(self.values))
        return np.lexsort((-self.count, -count))

    def warnings(self) -> list[str]:
        """Return the warnings that a reader needs before the numbers, a sentence each."""
        sentences = [self.details["warning"]] if self.details.get("warning") else []
        above, error = -self.unexplained(), self.sum_std_error
        if error and above > OVERFULL * error:
            sentences.append(
                f"the counts add up to {above:,.0f} more than the reports can hold, "
                f"{above / error:,.0f} standard errors: some reports name many candidates at once, "
                "as made-up ones can"
            )
        return sentences

    def summary(self, level: float = 0.95) -> dict[str, Any]:
        """Return the summary for the file beside the CSV: method, table, level and controls."""
        warnings = {"warning": "; ".join(self.warnings())} if self.warnings() else {}
        return {
            **self.details,
            **warnings,
            **fakes_details(self.fakes),
            "reports": self.reports,
            "candidates": len(self.values),
            "detected": int(self.detected().sum()),
            "unexplained_share": self.unexplained_share(),
            "unexplained": self.unexplained(),
            "unexplained_std_error": self.sum_std_error,
            "tail": self.tail(),
            "noise_std_error": self.noise,
            "noise_floor": self.noise_floor(),
            "level": level,
            "alpha": self.rule.alpha,
            "control": self.rule.control,
            "threshold": self.rule.threshold,
        }

    def to_csv(self, path: str | Path | None = None, level: float = 0.95) -> str:
        """Return the estimates as CSV text; with `path`, write it there and `summary` beside it."""
        columns = zip(COLUMNS, self._columns(level), strict=True)
        rows = zip(*(_cells(name, column) for name, column in columns), strict=True)
        text = "".join(f"{','.join(row)}\n" for row in chain([COLUMNS], rows))
        if path is not None:
            write_with_summary(Path(path), text, self.summary(level))
        return text


def fakes_details(fakes: Fakes | None) -> dict[str, float]:
    """Return the keys of a summary that say what made-up reports the intervals allow for."""
    if fakes is None:
        return {}
    return {
        "fakes": fakes.share,
        "fakes_reports": fakes.number,
        "fakes_raise": fakes.raised,
        "fakes_lower": fakes.lowered,
    }


def spread(count: Floats, std_error: Floats, sample: int) -> Floats:
    """Return the standard errors of counts, increased by the variance f(1 - f) n of drawing
    `sample` reports from a larger population; unchanged for 0. All of shape (candidates,)."""
    if not sample:
        return std_error
    share = np.clip(count / sample, 0, 1)
    wider: Floats = np.sqrt(std_error**2 + share * (1 - share) * sample)
    return wider


def write_with_summary(path: Path, text: str, summary: Mapping[str, Any]) -> None:
    """Write the CSV `text` to `path` and its `summary` beside it, with the text's CSV_DIGEST, both
    or none; null stands for a number that is not finite."""
    whole = {**summary, CSV_DIGEST: sha256(text.encode()).hexdigest()}
    json_text = json.dumps(finite(whole), indent=2, allow_nan=False) + "\n"
    write_together({path: text, summary_path(path): json_text})


def summary_path(path: Path) -> Path:
    """Return the path of the summary of the estimates in `path`: E.json for E.csv, else path +
    .json. Raises ParameterError for a path that ends in .json."""
    if path.suffix == ".json":
        raise ParameterError(f"{path}: that name is for the summary; name the estimates .csv")
    return path.with_suffix(".json") if path.suffix == ".csv" else Path(f"{path}.json")


def _cells(name: str, column: Sequence[Any]) -> list[str]:
    """Return the cells of column `name` as they are written. Numbers need no quotes, for which
    csv's writer would look at each of their digits."""
    if name == "value":
        return csv_cells(column)
    form = {"p_value": ".4g", "detected": "d"}.get(name, ".2f")
    return ["" if number is None else format(number, form) for number in column]
