"""Estimates: counts with standard errors, intervals, p-values and a discovery decision.

The estimand is the number of reports in the table that held the value. Discoveries control the
false-discovery rate (Benjamini and Hochberg 1995, adaptive as in Storey, Taylor and Siegmund 2004)
or the family-wise error (Bonferroni); intervals of discovered values can be adjusted for having
been selected (Benjamini and Yekutieli 2005).
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ldp.accounting.label import Label
from ldp.arrays import Bools, Floats
from ldp.errors import MissingPackage, ParameterError
from ldp.files import write_together
from ldp.mechanisms.base import Catalogued

CONTROLS = ("fdr", "bonferroni", "none")
COLUMNS = (
    *("value", "count", "std_error", "low", "high", "p_value"),
    *("detected", "selected_low", "selected_high"),
)


class Counted(Protocol):
    """A table, or several: what estimates say of where they come from."""

    @property
    def mechanism(self) -> Catalogued: ...
    @property
    def memoised(self) -> bool: ...
    @property
    def labels(self) -> Sequence[Label]: ...
    @property
    def windows(self) -> Sequence[str]: ...


def table_details(table: Counted, method: str) -> dict[str, Any]:
    """Return method, mechanism, what a report costs, days, and what the metric asks of people: the
    first keys of `Estimates.details`."""
    mechanism, cost = table.mechanism, table.mechanism.cost
    spelling = getattr(mechanism, "spelling", None)
    return {
        "method": method,
        "mechanism": mechanism.name,
        "fingerprint": mechanism.fingerprint.hex(),
        "epsilon": cost.epsilon,
        "lifetime_epsilon": None if math.isinf(cost.lifetime) else cost.lifetime,
        "memoised": table.memoised,
        "labels": [asdict(label) for label in table.labels],
        "windows": list(table.windows),
        **({"spelling": asdict(spelling)} if spelling else {}),
    }


class Law(Protocol):
    """The law of an estimate's error, in standard errors."""

    def upper(self, p: float) -> float:
        """How far above the truth an estimate lies with probability p."""
        ...

    def lower(self, p: float) -> float:
        """How far below the truth an estimate lies with probability p."""
        ...


class Bounds(Protocol):
    """The intervals of all candidates, which miss with probability `miss`, half on either side."""

    def __call__(self, miss: float, population: bool) -> tuple[Floats, Floats]:
        """(low, high), float64 arrays, shape (candidates,); `population`: see
        `Estimates.interval`."""
        ...


class Normal:
    """The normal law, for errors that are sums of many small ones."""

    def upper(self, p: float) -> float:
        from scipy.special import ndtri

        return float(-ndtri(p))

    lower = upper


@dataclass(frozen=True, kw_only=True)
class Rule:
    """When a value counts as discovered: count >= `threshold` if that is given, else a p-value
    that passes `control` ("fdr", "bonferroni" or "none") at `alpha`."""

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
        """Which of these counts, float64, with p-values of the same shape, count as discovered;
        one whose p-value is NaN only by threshold."""
        if self.threshold is not None:
            return count >= self.threshold
        return p_value <= self.largest(p_value)

    def largest(self, p_value: Floats) -> float:
        """The largest p-value that is discovered among these; where none is, the largest that one
        more extreme than all would need.

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
"""Standard errors by which the sum of all counts may pass the number of reports, unremarked."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """One estimate a candidate, in the order of the candidates.

    `count`, `std_error`: float64 arrays, shape (candidates,), in reports, unbiased and therefore
    sometimes negative. `p_value`: one-sided against a count of 0; NaN where no error rate is
    claimed, and then nothing is discovered but by threshold. `reports`: reports in the table.
    `noise`: standard error, in reports, of a value that nobody holds. `law`: of its error.
    `bounds`: gives the intervals, where they are not `law` times the standard errors.
    `details`: method and table. `sum_std_error`: of the sum of all counts, None where it is not
    known. `projected`: what is printed as count where the counts were made
    consistent (`ldp.decoding.consistency`); all else is of the unbiased ones.
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

    def detected(self, rule: Rule | None = None) -> Bools:
        """Which values are discovered under `rule` (default: the one decided at decoding)."""
        told = np.isfinite(self.std_error)  # no threshold discovers what cannot be told apart
        return told & (rule or self.rule).discovers(self.count, self.p_value)

    def noise_floor(self) -> float:
        """The smallest count, in reports, that the rule would discover."""
        if self.rule.threshold is not None:
            return self.rule.threshold
        return self.law.upper(self.rule.largest(self.p_value)) * self.noise

    def interval(
        self, level: float = 0.95, *, selected: bool = False, population: bool = False
    ) -> tuple[Floats, Floats]:
        """(low, high) with nominal coverage `level` for the count in the table; not clipped, except
        where every category has a cell: there within [0, reports], or at the estimate.

        `selected`: adjusted for discovery: of the discovered values' intervals at least `level`
        hold on average (level 1 - (1 - level) R / m for R discoveries among m candidates).
        `population`: for the count expected in a new sample of as many reports; adds f(1 - f) n.
        """
        if not 0 < level < 1:
            raise ParameterError("level must lie strictly between 0 and 1")
        miss = 1 - level
        if selected:
            miss *= self._share_detected()
        if self.bounds is not None:
            return self.bounds(miss, population)
        wide = spread(self.count, self.std_error, self.reports if population else 0)
        return (
            self.count - self.law.upper(miss / 2) * wide,
            self.count + self.law.lower(miss / 2) * wide,
        )

    def unexplained_share(self) -> float:
        """The share of the reports that the discovered values do not account for; unclipped."""
        return 1 - float(self.count[self.detected()].sum()) / max(1, self.reports)

    def unexplained(self) -> float:
        """How many reports hold a value that is no candidate: those that all estimates together do
        not account for. Unbiased and unclipped; its standard error is `sum_std_error`."""
        return self.reports - float(self.count.sum())

    def tail(self) -> float:
        """How many times further than a normal law's the errors reach, at the error rate of one
        candidate among all; 1 at least."""
        p = self.rule.alpha / (2 * max(1, len(self.values)))
        return max(1.0, *(side(p) / Normal().upper(p) for side in (self.law.upper, self.law.lower)))

    def _share_detected(self) -> float:
        """Discoveries among the candidates, either reckoned as 1 where there is none."""
        return max(1, int(self.detected().sum())) / max(1, len(self.values))

    def rows(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Return the columns of the CSV as dictionaries, largest count first; intervals clipped to
        [0, reports]; None where a cell is empty."""
        return [
            dict(zip(COLUMNS, row, strict=True)) for row in zip(*self._columns(level), strict=True)
        ]

    def _columns(self, level: float) -> list[list[Any]]:
        """The cells of the CSV, a list for each of its columns."""
        bounds = [*self.interval(level), *self.interval(level, selected=True)]
        low, high, selected_low, selected_high = (np.clip(each, 0, self.reports) for each in bounds)
        detected = self.detected()
        printed = self.count if self.projected is None else self.projected
        order = np.array(self._order(printed), dtype=np.intp)

        def cells(column: Floats, is_there: Bools | None = None) -> list[Any]:
            listed: list[Any] = column[order].tolist()
            if is_there is None:
                return listed
            return [x if there else None for x, there in zip(listed, is_there[order], strict=True)]

        return [
            [self.values[i] for i in order],
            *(cells(each) for each in (printed, self.std_error, low, high)),
            cells(self.p_value, ~np.isnan(self.p_value)),
            detected[order].astype(int).tolist(),
            cells(selected_low, detected),
            cells(selected_high, detected),
        ]

    def _order(self, printed: Floats) -> Iterable[int]:
        """The rows of the CSV: buckets as they follow each other, all else by its count."""
        if self.details.get("method") == "histogram":
            return range(len(self.values))
        return np.lexsort((-self.count, -printed))

    def warnings(self) -> list[str]:
        """Return what a reader must know before the numbers, a sentence each."""
        sentences = [self.details["warning"]] if self.details.get("warning") else []
        above, error = -self.unexplained(), self.sum_std_error
        if error and above > OVERFULL * error:
            sentences.append(
                f"the counts add up to {above:,.0f} more than there are reports, "
                f"{above / error:,.0f} standard errors: some reports name many candidates at once, "
                "as made-up ones can"
            )
        return sentences

    def summary(self, level: float = 0.95) -> dict[str, Any]:
        """Return what goes beside the CSV: method, table, level and controls."""
        warnings = {"warning": "; ".join(self.warnings())} if self.warnings() else {}
        return {
            **self.details,
            **warnings,
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
        """The estimates as CSV text; with `path` also written there, and `summary` beside it."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        columns = zip(COLUMNS, self._columns(level), strict=True)
        writer.writerows(zip(*(_cells(name, column) for name, column in columns), strict=True))
        if path is not None:
            summary = json.dumps(self.summary(level), indent=2, allow_nan=False)
            beside = summary_path(Path(path))
            write_together({Path(path): text.getvalue(), beside: summary + "\n"})
        return text.getvalue()

    def to_arrow(self, level: float = 0.95) -> Any:
        """The columns of the CSV as a pyarrow Table."""
        import pyarrow

        return pyarrow.Table.from_pylist(self.rows(level))

    def to_pandas(self, level: float = 0.95) -> Any:
        """The columns of the CSV as a pandas DataFrame; raises MissingPackage without pandas."""
        try:
            import pandas
        except ModuleNotFoundError:
            raise MissingPackage("to_pandas needs pandas: pip install pandas") from None
        return pandas.DataFrame(self.rows(level))


def spread(count: Floats, std_error: Floats, drawn: int) -> Floats:
    """Standard errors of counts, wider by the variance f(1 - f) n of having `drawn` so many reports
    from a larger population; as they are for 0."""
    if not drawn:
        return std_error
    share = np.clip(count / drawn, 0, 1)
    wider: Floats = np.sqrt(std_error**2 + share * (1 - share) * drawn)
    return wider


def summary_path(path: Path) -> Path:
    """Where the summary of the estimates in `path` stands: E.json for E.csv, else path + .json."""
    if path.suffix == ".json":
        raise ParameterError(f"{path}: that name is for the summary; name the estimates .csv")
    return path.with_suffix(".json") if path.suffix == ".csv" else Path(f"{path}.json")


def _cells(name: str, column: Sequence[Any]) -> Sequence[Any]:
    """A column as it is written."""
    if name in ("value", "detected"):
        return column
    form = ".4g" if name == "p_value" else ".2f"
    return [None if each is None else format(each, form) for each in column]
