"""Study robust private linear regression on Nieminen's synthetic set, and intervals."""

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from ldp.arrays import Floats
from ldp.central import Simulated
from ldp.central.regression import Rows, Scales
from ldp.central.regression.calibration import release_moments
from ldp.central.regression.laplace import LaplaceMoments, clip_rows
from ldp.regression import ridge
from simulations.campaign import Bar
from simulations.regression.bayes import in_units, naive, noise_aware
from simulations.regression.data import part
from simulations.regression.thresholds import COLUMNS, LARGEST, REPLACE, TESTED, made, thresholds
from simulations.study import Row, Setting, Study, column, figure

PUBLIC, FOLDS = 10, 16
PUBLISHED_EPSILON = {0.1: 0.108, 0.2: 0.251, 0.5: 0.620, 1.0: 0.815, 2.0: 0.869, 5.0: 0.883,
                     10.0: 0.882}  # fmt: skip
PUBLISHED_ROWS = {100: 0.560, 200: 0.730, 300: 0.820, 400: 0.852, 500: 0.869, 600: 0.876,
                  800: 0.877}  # fmt: skip


def _nieminen(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    """Return Spearman's rank correlation on 100 others, mean over FOLDS sets, with ten public
    rows."""
    n, epsilon = setting["rows"], setting["epsilon"]
    box, target = thresholds(n, epsilon)
    scores: dict[str, list[float]] = {}
    for fold in generator.spawn(FOLDS):
        (chain,) = fold.spawn(1)
        whole = made(n + TESTED + PUBLIC, fold)
        others, public = part(whole, 0, TESTED), part(whole, TESTED, TESTED + PUBLIC)
        rows = part(whole, TESTED + PUBLIC, n + TESTED + PUBLIC)
        noisy = LaplaceMoments.released(
            rows, epsilon, REPLACE, Simulated(fold), box=box, target=target
        )
        noisy += LaplaceMoments.exact(public)
        inside, low = clip_rows(rows, box, target)
        cut = Rows(inside, low, 1.0, False)
        fitted = {
            "plain": _solved(rows, public),
            "plain_clipped": _solved(cut, public),
            "ridge": ridge.floored(noisy.as_normal),
            "noise_aware": noise_aware(in_units(noisy, LARGEST), chain).mean(axis=0),
            "naive": naive(in_units(noisy, LARGEST), chain).mean(axis=0),
            "only_xy": noisy.xy,
        }
        for name, coefficients in fitted.items():
            found = spearmanr(others.features @ coefficients, others.target)[0]
            scores.setdefault(name, []).append(float(found))
    published = PUBLISHED_EPSILON[epsilon] if n == 500 else PUBLISHED_ROWS[n]
    means = {name: float(np.mean(values)) for name, values in scores.items()}
    return {"published": published, **means}


def _solved(rows: Rows, public: Rows) -> Floats:
    xx = rows.xx + public.xx + 0.1 * np.eye(COLUMNS)
    return np.asarray(np.linalg.solve(xx, rows.xy + public.xy))


METHODS = ("noise_aware", "ridge", "naive", "only_xy")


def _draw_nieminen(rows: list[Row]) -> Figure:
    picture = figure(9.5, 4.2)
    left, right = picture.subplots(1, 2, sharey=True)
    for axis, name, where, scale in (
        (left, "epsilon", {"rows": 500}, "log"),
        (right, "rows", {"epsilon": 2.0}, "linear"),
    ):
        x = column(rows, name, **where)
        order = np.argsort(x)
        for method in ("plain", *METHODS, "published"):
            style = "kx" if method == "published" else "o-"
            axis.plot(x[order], column(rows, method, **where)[order], style, label=method)
        axis.set(xlabel=name, xscale=scale, ylim=(0, 1))
    left.set_ylabel("Spearman's rank correlation")
    right.legend(fontsize=7)
    return picture


def _bars_nieminen(rows: list[Row]) -> list[Bar]:
    beaten = sum(float(row["noise_aware"]) > float(row["naive"]) for row in rows)
    below = [float(row["ridge"]) - float(row["published"]) for row in rows]
    return [
        Bar(
            "settings where the noise-aware posterior beats the naive one",
            beaten,
            f"all {len(rows)}",
            beaten == len(rows),
        ),
        Bar(
            "the default ridge beside what was published, at worst",
            min(below),
            "> -.02",
            min(below) > -0.02,
        ),
    ]


def _intervals(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    """Return the share of releases whose intervals all have ends, and of intervals that hold.

    The level is 95 %, and there are 5,000 releases.
    """
    d, least = setting["columns"], setting["least_eigenvalue"]
    turn = np.linalg.qr(generator.normal(size=(d, d)))[0]
    xx = (turn * np.geomspace(least, 5 * least, d)) @ turn.T
    truth = generator.normal(size=d)
    truth *= setting["length"] / np.linalg.norm(truth)
    rows = Rows(np.zeros((1, d)), np.zeros(1), 1.0, False)
    rows.__dict__.update(xx=xx, xy=xx @ truth)
    offered, held, noise = 0, 0, Simulated(generator)
    for _ in range(5000):
        released = release_moments(rows, Scales(xx=1.0, xy=0.7), noise)
        low, high = released.equations.interval(np.eye(d), 0.95).T
        offered += int(np.isfinite(high - low).all())
        held += int(((low <= truth) & (truth <= high)).sum())
    return {"offered": offered / 5000, "held": held / (d * 5000)}


def _draw_intervals(rows: list[Row]) -> Figure:
    picture = figure()
    axes = picture.subplots()
    for d in (2, 10, 40):
        axes.plot(column(rows, "least_eigenvalue", columns=d), column(rows, "held", columns=d),
                  "o", label=f"{d} columns")  # fmt: skip
    axes.axhline(0.95, color="black", linewidth=0.7)
    axes.set(xlabel="smallest eigenvalue / noise", ylabel="intervals that hold", xscale="log")
    axes.legend()
    return picture


def _bars_intervals(rows: list[Row]) -> list[Bar]:
    worst = max(abs(float(row["held"]) - 0.95) for row in rows)
    return [Bar("share that holds, off 95 %, at worst", worst, "<= .01", worst <= 0.01)]


def _grid() -> tuple[Setting, ...]:
    return tuple({"rows": 500, "epsilon": epsilon} for epsilon in PUBLISHED_EPSILON) + tuple(
        {"rows": n, "epsilon": 2.0} for n in PUBLISHED_ROWS if n != 500
    )


STUDIES = (
    Study(
        "nieminen",
        "robust private linear regression on a synthetic set (Nieminen 4.2-4.3)",
        _grid(),
        _nieminen,
        _draw_nieminen,
        _bars_nieminen,
        chains=("noise_aware", "naive"),
    ),
    Study(
        "intervals",
        "intervals of coefficients, where they are offered",
        tuple(
            {"columns": d, "least_eigenvalue": least, "length": length}
            for d in (2, 10, 40)
            for least in (24.0, 60.0, 200.0)
            for length in (0.3, 1.0, 3.0)
        ),
        _intervals,
        _draw_intervals,
        _bars_intervals,
    ),
)
