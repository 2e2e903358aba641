"""Study what each model of trust costs a regression, on simulated data."""

import math

import numpy as np
from matplotlib.figure import Figure

from ldp.accounting import Neighbours
from ldp.accounting.bisection import bisect
from ldp.central import Simulated
from ldp.central.regression import METHODS, Budget, Moments, Rows, Scales
from ldp.central.regression.trust_models import gaussian_reports, sign_reports
from ldp.regression import ridge
from ldp.regression.signs import from_signs
from simulations.campaign import Bar
from simulations.study import Row, Setting, Study, column, figure

MODELS = ("central", "secure sum", "shuffled", "local gaussian", "local signs")
TESTED = 2000


def clones_2023(epsilon: float, reports: int, delta: float) -> float:
    """Return the epsilon of a shuffled report of any mechanism with local `epsilon`.

    The closed form is that of Feldman, McMillan and Talwar 2023; the result is infinite where it
    does not apply.
    """
    x, tail = math.exp(epsilon), math.log(4 / delta)
    if reports / (8 * tail) <= 2 or epsilon > math.log(reports / (8 * tail) - 1):
        return math.inf
    growth = 4 * math.sqrt(2 * tail / ((x + 1) * reports)) + 4 / reports
    return math.log1p((x - 1) * growth) * (1 + 2.0**-50)


def shuffled_epsilon(budget: Budget, reports: int) -> float:
    """Return the largest epsilon of a report that `reports` shuffled reports bring to the budget.

    Where the closed form does not apply, it is the budget's epsilon.
    """

    def is_within(epsilon: float) -> bool:
        return clones_2023(epsilon, reports, budget.delta) <= budget.epsilon

    return bisect(is_within, budget.epsilon, budget.epsilon + 20.0, steps=60)[0]


def _local(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    """Return the median errors of 16 fits on 2,000 others, over the spread of the predictable part.

    There are five columns and an intercept; neighbours replace one row, and delta is 1e-9.
    """
    n, epsilon = setting["rows"], setting["epsilon"]
    budget = Budget(epsilon=epsilon, delta=1e-9, neighbours=Neighbours.REPLACE_VALUE)
    truth = np.array([0.3, -0.2, 0.15, 0.1, -0.05, 0.1])
    errors: dict[str, list[float]] = {}
    for _ in range(16):
        X = generator.uniform(-1, 1, (n + TESTED, 5))
        y = np.clip(X @ truth[:5] + truth[5] + 0.1 * generator.normal(size=len(X)), -1, 1)
        rows = Rows.of(X[TESTED:], y[TESTED:], intercept=True, norm=None)
        others = np.column_stack([X[:TESTED], np.ones(TESTED)])
        exact = Moments(rows.xx, rows.xy, None, Scales(xx=1.0, xy=1.0))
        fitted = {"no noise": ridge.constant(exact, 1e-6)}
        for model in ("central", "secure sum"):
            noise = Simulated(generator)
            fit = METHODS["ridge"].fit(rows, budget, noise)
            fitted[model] = fit.coefficients
        fitted["local gaussian"] = ridge.floored(gaussian_reports(rows, budget, generator))
        for model, own in (("shuffled", shuffled_epsilon(budget, n)), ("local signs", epsilon)):
            reports, signs = sign_reports(rows, own, generator)
            made = from_signs(reports, signs, epsilon=own, features=5)
            fitted[model] = ridge.floored(made)
        wanted = others @ truth
        for model, coefficients in fitted.items():
            wrong = others @ coefficients - wanted
            errors.setdefault(model, []).append(math.sqrt(float((wrong**2).mean() / wanted.var())))
    return {model.replace(" ", "_"): float(np.median(values)) for model, values in errors.items()}


def _draw_local(rows: list[Row]) -> Figure:
    made = figure(9.0, 4.2)
    axes = made.subplots(1, 2, sharey=True)
    for axis, epsilon in zip(axes, (1.0, 4.0), strict=True):
        n = column(rows, "rows", epsilon=epsilon)
        for model in ("no noise", *MODELS):
            name = model.replace(" ", "_")
            axis.plot(n, column(rows, name, epsilon=epsilon), "o-", label=model)
        axis.axhline(1, color="black", linewidth=0.7)
        axis.set(title=f"epsilon {epsilon:g}", xscale="log", yscale="log", xlabel="people")
    axes[0].set_ylabel("error of predictions / their spread")
    axes[0].legend(fontsize=7)
    return made


def _bars_local(rows: list[Row]) -> list[Bar]:
    most = {"rows": 1_000_000, "epsilon": 1.0}

    def at(model: str, where: dict[str, float]) -> float:
        return float(column(rows, model, **where)[0])

    ladder = at("central", most) < at("shuffled", most) < at("local_signs", most)
    fewer = at("central", {"rows": 10_000, "epsilon": 1.0})
    return [
        Bar("a million people, epsilon 1: central < shuffled < local", ladder, "1", ladder),
        Bar(
            "ten thousand with a curator beat a million without: ratio",
            fewer / at("local_signs", most),
            "< 1",
            fewer < at("local_signs", most),
        ),
    ]


STUDIES = (
    Study(
        "local",
        "what each model of trust costs, against the number of people",
        tuple(
            {"epsilon": epsilon, "rows": n}
            for epsilon in (1.0, 4.0)
            for n in (1000, 10_000, 100_000, 1_000_000)
        ),
        _local,
        _draw_local,
        _bars_local,
    ),
)
