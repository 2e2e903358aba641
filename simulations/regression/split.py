"""Study how to split epsilon between X'X, X'y and y'y (Nieminen 2017, figure 4.1), and why."""

import math
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from ldp.central.regression import Rows
from ldp.central.regression.laplace import SPLIT
from simulations.campaign import Bar
from simulations.regression.data import published
from simulations.regression.sums import generator_of
from simulations.regression.thresholds import (
    COLUMNS,
    TESTED,
    Clipped,
    Shares,
    made,
    sensitivities,
    thresholds,
)
from simulations.study import Row, Setting, Study, column, figure

ROWS = 500
SETS = 100
"""Data sets of a split; every split has the same ones, with the same noise."""
YY = 0.05
"""Least share of y'y, which the default ridge does not read."""


@lru_cache(maxsize=4)
def _whole(correlation: float) -> tuple[Rows, ...]:
    generator = generator_of("split", correlation)
    return tuple(made(ROWS + TESTED, generator, correlation=correlation) for _ in range(SETS))


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Result of a split.

    It has the thresholds searched for the split, and Spearman's rank correlation at them with its
    standard error. `balanced`: the share of X'y that balances the two errors of the coefficients
    there.
    """

    box: float
    target: float
    spearman: float
    error: float
    balanced: float


def measured(fit: str, split: Shares, epsilon: float, correlation: float = 0.0) -> Measured:
    """Return what a split gives over SETS data sets."""
    box, target = thresholds(ROWS, epsilon, COLUMNS, split, correlation, fit)
    boxes, targets = np.array([box]), np.array([target])
    found, lengths = [], []
    for place, rows in enumerate(_whole(correlation)):
        clipped = Clipped.of(rows, boxes, targets)
        noise = generator_of("noise of a split", place)
        b = clipped.coefficients(fit, epsilon, split, noise)[0, :, 0]
        found.append(float(spearmanr(clipped.tested @ b, clipped.wanted)[0]))
        exact = np.linalg.solve(clipped.xx[0], clipped.xy[0, :, 0])
        lengths.append(float(np.linalg.norm(exact)))
    most_xx, most_xy = (float(most[0]) for most in sensitivities(boxes, COLUMNS, fit))
    return Measured(
        box=box,
        target=target,
        spearman=float(np.mean(found)),
        error=float(np.std(found) / math.sqrt(SETS)),
        balanced=balanced_share(float(np.mean(lengths)) * most_xx, target * most_xy, split[2]),
    )


def balanced_share(xx: float, xy: float, yy_share: float) -> float:
    """Return the share of X'y that minimises the variance of coefficients b of a large data set.

    Noise moves b by (X'X)**-1 (noise of X'y - noise of X'X times b). With shares p and q of
    epsilon, the variance is proportional to (xy / p)**2 + (xx / q)**2. Here `xy` is the sensitivity
    of X'y, and `xx` that of X'X times the length of b. The variance is least at p / q = (xy /
    xx)**(2/3).
    """
    ratio = math.exp(math.log(xy / xx) * 2 / 3)
    return (1 - yy_share) * ratio / (1 + ratio)


PUBLISHED = {
    (float(line["xx_or_rows"]), float(line["setting"])): float(line["spearman"])
    for line in published("nieminen")
    if line["figure"] == "split"
}
"""Published rank correlation by the shares of X'X and X'y."""


def _budget(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    """Return the result of one split of epsilon 2, beside the published one.

    The fits are the default ridge, and the posterior mean with the published sensitivities.
    """
    split = (setting["xx"], setting["xy"], setting["yy"])
    ours, fixed = measured("ridge", split, 2.0), measured("fixed", split, 2.0)
    return {
        "published": PUBLISHED[split[:2]],
        "ridge": ours.spearman,
        "ridge_error": ours.error,
        "fixed": fixed.spearman,
        "fixed_error": fixed.error,
        "box": fixed.box,
        "target": fixed.target,
    }


def _draw_budget(rows: list[Row]) -> Figure:
    picture = figure(11.0, 4.2)
    axes = picture.subplots(1, 3, sharey=True)
    for axis, name in zip(axes, ("published", "fixed", "ridge"), strict=True):
        for share in (0.05, 0.15, 0.25, 0.35, 0.5):
            axis.plot(column(rows, "xy", yy=share), column(rows, name, yy=share), "o-",
                      markersize=3, label=f"y'y: {share:g}")  # fmt: skip
        best = _best(rows, name)
        axis.plot(best["xy"], best[name], "kx", markersize=10)
        axis.set(xlabel="share of X'y", title=name)
    axes[0].set_ylabel("Spearman's rank correlation")
    axes[0].legend()
    return picture


def _best(rows: list[Row], name: str) -> Row:
    return max(rows, key=lambda row: float(row[name]))


def _bars_budget(rows: list[Row]) -> list[Bar]:
    ours = next(row for row in rows if (row["xx"], row["xy"], row["yy"]) == SPLIT)
    lost = float(_best(rows, "ridge")["ridge"]) - float(ours["ridge"])
    inside = float(_best(rows, "fixed")["xy"])
    names = ("published", "ridge", "fixed")
    least = max(float(_best(rows, name)["yy"]) for name in names)
    alike = float(spearmanr(column(rows, "ridge"), column(rows, "published"))[0])
    return [
        Bar("default ridge: the published split below the best one", lost, "<= .02", lost <= 0.02),
        Bar("posterior mean: share of X'y of its best split", inside, "inside its line, .05 to .9",
            0.05 < inside < 0.9),
        Bar("y'y's share of the best split, published and here, at most", least, f"{YY}, the least",
            least == YY),
        Bar("default ridge: rank correlation with the published surface", alike, "> .7",
            alike > 0.7),
    ]  # fmt: skip


SPLITS = tuple(
    {"xx": xx / 20, "xy": xy / 20, "yy": round(1 - (xx + xy) / 20, 2)}
    for xx in range(1, 19)
    for xy in range(1, 20 - xx)
)
LINES = tuple((correlation, epsilon) for correlation in (0.0, 0.9) for epsilon in (0.5, 2.0, 8.0))


NEARLY_ALL = (0.93, 0.945, 0.949)
"""Shares of X'y that leave almost nothing to X'X: the ends of the lines."""


def _why(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    """Return the result of one split at one epsilon by the default ridge.

    The setting says whether features are correlated.
    """
    xy = setting["xy"]
    split = (round(1 - YY - xy, 3), xy, YY)
    return asdict(measured("ridge", split, setting["epsilon"], setting["correlation"]))


def _draw_why(rows: list[Row]) -> Figure:
    picture = figure(11.0, 6.0)
    for axis, (correlation, epsilon) in zip(picture.subplots(2, 3).flat, LINES, strict=True):
        where = {"correlation": correlation, "epsilon": epsilon}
        shares, found = column(rows, "xy", **where), column(rows, "spearman", **where)
        axis.plot(shares, found, "o-", markersize=3)
        axis.axvline(balanced(rows, correlation, epsilon), color="red", linewidth=0.7)
        axis.set(xlabel="share of X'y", title=f"correlation {correlation:g}, epsilon {epsilon:g}")
    picture.axes[0].set_ylabel("Spearman's rank correlation")
    return picture


def balanced(rows: list[Row], correlation: float, epsilon: float) -> float:
    """Return the share of X'y that is nearest to the balanced share computed at it."""
    where = {"correlation": correlation, "epsilon": epsilon}
    shares, rule = column(rows, "xy", **where), column(rows, "balanced", **where)
    return float(rule[np.argmin(np.abs(shares - rule))])


def _bars_why(rows: list[Row]) -> list[Bar]:
    lost, best = {}, {}
    for correlation, epsilon in LINES:
        where = {"correlation": correlation, "epsilon": epsilon}
        shares, found = column(rows, "xy", **where), column(rows, "spearman", **where)
        near = int(np.argmin(np.abs(shares - balanced(rows, correlation, epsilon))))
        lost[correlation, epsilon] = float(found.max() - found[near])
        best[correlation, epsilon] = float(shares[found.argmax()])
    worst = max(lost[0.9, epsilon] for epsilon in (2.0, 8.0))
    inside = max(best[0.9, epsilon] for epsilon in (2.0, 8.0))
    falling = best[0.0, 0.5] - best[0.0, 8.0]
    return [
        Bar("correlated features, epsilon 2 and 8: the balanced split below the best, at worst",
            worst, "<= .01", worst <= 0.01),
        Bar("there: best share of X'y, at most", inside, "< .8, inside its line", inside < 0.8),
        Bar("independent features: best share of X'y at epsilon .5", best[0.0, 0.5],
            ">= .9: X'X says nothing there", best[0.0, 0.5] >= 0.9),
        Bar("the same, less that at epsilon 8", falling, "> 0", falling > 0),
    ]  # fmt: skip


STUDIES = (
    Study(
        "budget",
        "how epsilon is split between X'X, X'y and y'y (Nieminen 4.1)",
        SPLITS,
        _budget,
        _draw_budget,
        _bars_budget,
    ),
    Study(
        "budget-why",
        "why a split is best: the balance of two errors (Nieminen 5.3)",
        tuple(
            {"correlation": correlation, "epsilon": epsilon, "xy": xy}
            for correlation, epsilon in LINES
            for xy in (*(share / 20 for share in range(1, 19)), *NEARLY_ALL)
        ),
        _why,
        _draw_why,
        _bars_why,
    ),
)
