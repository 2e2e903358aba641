"""Estimates: counts with standard errors, intervals, p-values and a discovery decision.

The estimand is the number of reports in the table that held the value. Discoveries control the
false-discovery rate (Benjamini and Hochberg 1995, adaptive as in Storey, Taylor and Siegmund 2004)
or the family-wise error (Bonferroni). Intervals of discovered values can be adjusted for having
been selected (Benjamini and Yekutieli 2005).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ldp.arrays import Bools, Floats
from ldp.errors import require_kind, require_one_of, require_positive, require_share
from ldp.files import counted, finite
from ldp.protocol.channel import convert, real_number
from ldp.tables.fakes import NO_FAKES, Fakes, NoBound
from ldp.tables.frame import Columns
from ldp.tables.result import Result

if TYPE_CHECKING:
    from ldp.tables.joint_table import JointTable
    from ldp.tables.table import Table

CONTROLS = ("fdr", "bonferroni", "none")


def table_details(table: "Table | JointTable", method: str) -> dict[str, Any]:
    """Return the first keys of `Estimates.details`: method, mechanism, cost of a report, labels and
    windows of the table."""
    mechanism, cost = table.mechanism, table.mechanism.cost
    return {
        "method": method,
        "mechanism": mechanism.name,
        "fingerprint": mechanism.fingerprint.hex(),
        "epsilon": finite(cost.epsilon),
        "lifetime_epsilon": finite(cost.lifetime),
        "memoised": table.memoised,
        "labels": [label.fields for label in table.labels],
        "windows": list(table.windows),
        **({"spelling": asdict(mechanism.spelling)} if mechanism.spelling else {}),
    }


class ErrorDistribution(Protocol):
    """Distribution of an estimate's error, in standard errors."""

    def upper(self, p: float) -> float:
        """Return the d for which an estimate is more than d standard errors above the true count
        with probability p."""

    def lower(self, p: float) -> float:
        """Return the d for which an estimate is more than d standard errors below the true count
        with probability p."""


class CountBounds(Protocol):
    """Intervals of all candidates, by the distribution of what was counted."""

    def __call__(self, miss: float, population: bool) -> tuple[Floats, Floats]:
        """Return the ends (low, high), float64, shape (candidates,): they miss with probability
        `miss`, half on either side. `population`: see `Result.interval`."""

    def under(self, fakes: Fakes) -> Mapping[str, Any]:
        """Return by name the fields of `Estimates`, and the keys of its `details`, that change when
        `fakes` are among the reports: at least `bounds` and `p_value`."""


class Normal:
    """Normal distribution, for errors that are sums of many small ones."""

    def upper(self, p: float) -> float:
        """Return the distance that a standard normal exceeds with probability p."""
        from scipy.special import ndtri

        return float(-ndtri(p))

    lower = upper

    def tail(self, errors: Floats) -> Floats:
        """Return the probability that a standard normal exceeds `errors`."""
        from scipy.special import ndtr

        return np.asarray(ndtr(-errors))


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Decision rule: a value is discovered if count >= `threshold` where there is a threshold, else
    if its p-value passes `control` ("fdr", "bonferroni" or "none") at `alpha`. Raises
    ParameterError for another control, `alpha` outside (0, 1), or `threshold` outside (0, inf)."""

    alpha: float = 0.05
    control: str = "fdr"
    threshold: float | None = None

    def __post_init__(self) -> None:
        convert(self, alpha=require_share)
        require_one_of(self.control, CONTROLS, "control")
        if self.threshold is not None:
            require_positive(self.threshold, "threshold")
            convert(self, threshold=real_number)

    @classmethod
    def of(cls, rule: "Rule | None", usual: "Rule | None" = None) -> "Rule":
        """Return the rule, or the `usual` one for None. Raises ParameterError for another kind."""
        return require_kind(rule or usual or cls(), cls, "rule")

    def discovers(self, count: Floats, p_value: Floats) -> Bools:
        """Return the mask of discovered values, from `count` and `p_value`, float64 of one shape. A
        value whose p-value is NaN is discovered by threshold only."""
        if self.threshold is not None:
            return count >= self.threshold
        return p_value <= self.largest(p_value)

    def largest(self, p_value: Floats) -> float:
        """Return the largest p-value that is discovered among these. Where none is, returns the
        largest that would be, if it were below all others.

        "fdr": R alpha / m0 for the R smallest p-values, as many as pass, and never above alpha. m0
        is the number of values that nobody seems to hold: half of these have a p-value above 1/2.
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


WORDS_RULE = Rule(control="bonferroni")
"""Decision rule for words that nobody listed."""
OVERFULL = 5.0
"""Number of standard errors by which the sum of all counts may exceed the reports without a
warning."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Estimates(Result):
    """Estimates of the candidates' counts, in the order of the candidates.

    `count`, `std_error`: float64, shape (candidates,), in reports, unbiased and therefore sometimes
    negative. `p_value`: one-sided against a count of 0. It is NaN where no error rate is claimed,
    and then a value is discovered by threshold only. `reports`: reports in the table. `noise`:
    standard error, in reports, of a value that nobody holds. `law`: distribution of its error.
    `bounds`: intervals, where they are not `law` times the standard errors. `details`: method and
    table. `sum_std_error`: of the sum of all counts, None where it is not known. `projected`:
    counts to print where they were made consistent (`ldp.decoding.consistency`). All other numbers
    are of the unbiased counts. `fakes`: made-up reports that intervals, p-values and the noise
    floor allow for. It is NO_FAKES where all are taken as honest. `damage`: function from a share
    of made-up reports to such `Fakes`. It is None where no bound is known. `bounded`: function that
    decodes the same table by a method with a known bound.
    """

    kind = "values"
    digits = None
    offers = frozenset(("selected", "population"))

    values: tuple[str, ...]
    count: Floats
    std_error: Floats
    p_value: Floats
    reports: int
    noise: float
    law: ErrorDistribution = field(default_factory=Normal)
    bounds: CountBounds | None = None
    rule: Rule = field(default_factory=Rule)
    details: Mapping[str, Any] = field(default_factory=dict)
    projected: Floats | None = None
    sum_std_error: float | None = None
    fakes: Fakes = NO_FAKES
    damage: Callable[[float], Fakes] | None = None
    bounded: "Callable[[], Estimates] | None" = None

    def _under_fakes(self, share: float) -> "Estimates":
        if self.bounded is not None:
            settings = {**self.controls, "rule": self.rule}
            return self.bounded().at(**settings).under_fakes(share)
        if self.damage is None or self.bounds is None:
            raise NoBound(
                f"method {self.details['method']} has no interval that holds under made-up "
                "reports; leave --fakes out, or use --method mean-sketch"
            )
        fakes = self.damage(share)
        changed = dict(self.bounds.under(fakes))
        details = {**self.details, **changed.pop("details", {})}
        return replace(self, fakes=fakes, details=details, **changed)

    def detected(self, rule: Rule | None = None) -> Bools:
        """Return the mask of values discovered under `rule` (default: `self.rule`): shape
        (candidates,)."""
        # no threshold discovers indistinguishable values
        is_known = np.isfinite(self.std_error)
        return is_known & (rule or self.rule).discovers(self.count, self.p_value)

    def noise_floor(self) -> float:
        """Return the smallest count, in reports, that the rule would discover."""
        if self.rule.threshold is not None:
            return self.rule.threshold
        return self.law.upper(self.rule.largest(self.p_value)) * self.noise + self.fakes.raised

    def _interval(
        self, level: float, *, selected: bool = False, population: bool = False, **_: bool
    ) -> tuple[Floats, Floats]:
        """Return (low, high), shape (candidates,), for the count in the table. They are not
        clipped, except where every category has a cell: there they lie within [0, reports], or at
        the estimate.

        `selected`: of the discovered values' intervals at least `level` hold on average (they miss
        with (1 - level) R / m for R discoveries among m candidates). `population`: adds f(1 - f) n
        times `reports_per_person` to the variance.
        """
        miss = 1 - level
        if selected:
            miss = selected_miss(miss, self.detected())
        honest = self.reports - self.fakes.number
        scale = 1.0
        if population and honest:
            scale = self.reports / honest
        least = self.count - self.fakes.raised
        most = self.count + self.fakes.lowered
        if self.bounds is not None:
            low, high = self.bounds(miss, population)
        else:
            wide = spread(self.count, self.std_error, self.reports if population else 0)
            low = scale * (least - self.law.upper(miss / 2) * wide)
            high = scale * (most + self.law.lower(miss / 2) * wide)
        if population and self.more:
            ends = (low, high, scale * least, scale * most)
            return widened(ends, self.reports, honest, self.more, miss)
        return low, high

    def unexplained(self) -> float:
        """Return the number of reports that hold no candidate: reports less all estimates. Unbiased
        and unclipped; its standard error is `sum_std_error`. Where each report has `at_most`
        answers: the number of answers that are missing or no candidate."""
        return self.answers - float(self.count.sum())

    @property
    def answers(self) -> int:
        """Number of answers that the reports could name: `at_most` each, or one."""
        return self.reports * int(self.details.get("at_most", 1))

    def tail(self) -> float:
        """Return how much further errors reach than normal ones do, as a ratio of 1 or more, at the
        error rate of one candidate among all."""
        p = self.rule.alpha / (2 * max(1, len(self.values)))
        return max(1.0, *(side(p) / Normal().upper(p) for side in (self.law.upper, self.law.lower)))

    @property
    def headline(self) -> str:
        """One line: numbers of values, of discoveries and of reports."""
        detected = int(self.detected().sum())
        return (
            f"Estimates of {counted(len(self.values), 'value')}, {detected:,} discovered, "
            f"from {counted(self.reports, 'report')}"
        )

    def _columns(self) -> Columns:
        """Return the columns, largest count first but for buckets, which stay as they are.
        Intervals lie within [0, reports]."""
        discovered = self.detected()
        count = self.count if self.projected is None else self.projected
        order = np.lexsort((-self.count, -count))
        if self.details.get("method") == "histogram":
            order = np.arange(order.size)
        columns = {
            "estimate": count,
            "unbiased": np.full(order.size, np.nan) if self.projected is None else self.count,
            "std_error": self.std_error,
            **interval_columns(self, discovered),
        }
        values = np.fromiter(self.values, object, len(self.values))[order].tolist()
        return {"value": values, **{name: column[order] for name, column in columns.items()}}

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

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Summary for the file beside the CSV: method, table, level and controls."""
        warnings = {"warning": "; ".join(self.warnings())} if self.warnings() else {}
        detected = self.detected()
        return {
            "kind": self.kind,
            **self.details,
            **warnings,
            **self.fakes.details,
            "reports": self.reports,
            "candidates": len(self.values),
            "detected": int(detected.sum()),
            "unexplained_share": 1 - float(self.count[detected].sum()) / max(1, self.answers),
            "unexplained": self.unexplained(),
            "unexplained_std_error": self.sum_std_error,
            "tail": self.tail(),
            "noise_std_error": self.noise,
            "noise_floor": self.noise_floor(),
            **self.controls,
            "alpha": self.rule.alpha,
            "control": self.rule.control,
            "threshold": self.rule.threshold,
        }


def selected_miss(miss: float, discovered: Bools) -> float:
    """Return the probability of a miss at which intervals of the `discovered` miss with `miss` on
    average (Benjamini and Yekutieli 2005): times R / m for R discoveries among m."""
    return miss * max(1, int(discovered.sum())) / max(1, discovered.size)


def interval_columns(result: Any, discovered: Bools) -> dict[str, Any]:
    """Return the columns of a `result` from `low` to `selected_high`, ends within [0, reports], NaN
    where an interval is selected and its row not `discovered`."""
    bounds = [*result.interval(), *result.interval(selected=True)]
    low, high, *selected = (np.clip(end, 0, result.reports) for end in bounds)
    selected_low, selected_high = (np.where(discovered, end, np.nan) for end in selected)
    return {
        "low": low,
        "high": high,
        "p_value": result.p_value,
        "discovered": discovered.astype(np.int64),
        "selected_low": selected_low,
        "selected_high": selected_high,
    }


def spread(count: Floats, std_error: Floats, sample: int) -> Floats:
    """Return the standard errors of counts, increased by the variance f(1 - f) n of drawing
    `sample` reports from a larger population. They are unchanged for 0. All of shape
    (candidates,)."""
    if not sample:
        return std_error
    share = np.clip(count / sample, 0, 1)
    return np.sqrt(std_error**2 + share * (1 - share) * sample)


def widened(
    ends: Floats | Sequence[Floats], whole: float, reports: float, more: float, miss: float
) -> tuple[Floats, Floats]:
    """Return the ends of intervals for a population, from `ends`: (low, high) that miss with
    probability `miss` if each person sent one of the honest `reports`, and the estimates from which
    these are computed, two under made-up reports. All lie between 0 and `whole`. Each person sent
    `more` beyond one: the square of a distance grows as that of Clopper and Pearson 1934 does from
    as many people as reports to fewer."""
    from scipy.special import betaincinv

    def squared(share: Floats, n: float) -> Floats:
        first = np.maximum(n * share, 1e-9)
        last = n * (1 - share) + 1
        end = betaincinv(first, last, miss / 2)
        return np.asarray((whole * (share - end)) ** 2)

    def added(share: Floats) -> Floats:
        share = np.clip(share, 0, 1)
        far = squared(share, reports / (1 + more))
        return np.maximum(far - squared(share, reports), 0)

    low, high, least, most = ends
    down = (least - low) ** 2 + added(least / whole)
    up = (high - most) ** 2 + added(1 - most / whole)
    return least - np.sqrt(down), most + np.sqrt(up)
