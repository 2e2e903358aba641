"""Study robust private linear regression on a semi-synthetic substitute for drug responses.

Nieminen 2017, sections 4.3 (figures 4.4-4.6), predicts the responses of 265 drugs from gene
expression; the responses are not public. Here the expression is real (GDSC), and every response is
simulated. A drug is y = X b + noise, where X is the expression of 40 genes, and b_j ~ N(0, 1 / j)
for the j-th most often mutated gene. X b explains the share EXPLAINED of y's variance. So without
noise the rank correlation is about the published one, .25. No figure says anything about a drug.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from ldp.arrays import Floats
from ldp.central import Simulated
from ldp.central.regression import Rows
from ldp.central.regression.calibration import Budget
from ldp.central.regression.laplace import LaplaceMoments, clip_rows
from ldp.regression import ridge
from simulations.campaign import Bar
from simulations.regression.bayes import in_units, naive, noise_aware
from simulations.regression.data import GENES, expression, part, published
from simulations.regression.functional import Functional
from simulations.regression.output import Output
from simulations.regression.robust import PUBLIC
from simulations.regression.sums import generator_of
from simulations.regression.thresholds import COLUMNS, LARGEST, REPLACE, TESTED, thresholds
from simulations.study import Row, Setting, Study, column, figure

EXPLAINED = 0.14
SPREAD = math.sqrt(COLUMNS + 1) / LARGEST
"""Standard deviation of a mapped response, as in the auxiliary data."""
DRUGS, SWEEPS = 100, 300
"""Drugs of a setting, each with people of its own, and sweeps of a chain."""
TRADED = 265
"""Drugs of a setting of the trade-offs, as many as were published; they need no chain."""
EVEN = (1 / 3, 1 / 3, 1 / 3)

SIZES = tuple(range(100, 900, 100))
PUBLISHED: dict[tuple[str, float], tuple[float, ...]] = {
    ("robust", 2.0): (0.089, 0.136, 0.166, 0.182, 0.195, 0.203, 0.211, 0.215),
    ("robust", 1.0): (0.051, 0.089, 0.119, 0.139, 0.156, 0.166, 0.178, 0.183),
    ("output", 2.0): (0.017, 0.031, 0.045, 0.053, 0.057, 0.066, 0.071, 0.073),
    ("output", 1.0): (0.011, 0.022, 0.033, 0.039, 0.041, 0.049, 0.052, 0.053),
    ("functional", 2.0): (-0.001, 0.002, 0.001, 0.004, 0.007, 0.007, 0.007, 0.009),
    ("functional", 1.0): (-0.003, 0.000, 0.000, 0.000, 0.002, 0.001, 0.002, 0.004),
}
"""Published rank correlations of the real drugs, for SIZES (repository
DPBayes/robust-private-lr)."""
PUBLISHED_PLAIN = (0.197, 0.219, 0.233, 0.240, 0.244, 0.247, 0.250, 0.251)
"""Published rank correlations without noise, for SIZES."""
WIDE = 64
PUBLISHED_PUBLIC = {COLUMNS: 0.084, WIDE: 0.123}
"""Published rank correlations of ten public rows alone, by columns, with precisions fixed."""


@dataclass(frozen=True, eq=False)
class Drug:
    """One simulated drug: rows to test on, public rows, private rows."""

    others: Rows
    public: Rows
    private: Rows

    @classmethod
    def made(
        cls, genes: Floats, columns: int, public: int, n: int, generator: np.random.Generator
    ) -> "Drug":
        """Return a drug on cell lines in random order.

        Means of genes and responses are public, and rows are divided by their length. The responses
        follow the first GENES genes; the rows hold the first `columns` genes.
        """
        centred = genes - genes.mean(axis=0)
        b = generator.normal(size=GENES) / np.sqrt(np.arange(1, GENES + 1))
        signal = centred[:, :GENES] @ b
        noise = generator.normal(size=len(genes)) * math.sqrt(1 - EXPLAINED)
        y = signal * (math.sqrt(EXPLAINED) / signal.std()) + noise
        X = centred[:, :columns]
        order = generator.permutation(len(genes))
        X = (X / np.linalg.norm(X, axis=1)[:, None])[order]
        whole = Rows.of(X, np.clip(y[order] * SPREAD, -1, 1), intercept=False, norm=1.0)
        first = TESTED + public
        return cls(
            part(whole, 0, TESTED), part(whole, TESTED, first), part(whole, first, first + n)
        )

    def narrowed(self, columns: int) -> "Drug":
        """Return the drug with the first `columns` only, and rows divided by their length again."""
        parts = []
        for rows in (self.others, self.public, self.private):
            X = rows.features[:, :columns]
            X = X / np.linalg.norm(X, axis=1)[:, None]
            parts.append(Rows.of(X, rows.target, intercept=False, norm=1.0))
        return Drug(*parts)

    def score(self, coefficients: Floats) -> float:
        """Return Spearman's rank correlation on the test rows; 0 where nothing is predicted."""
        predicted = self.others.features @ coefficients
        return float(spearmanr(predicted, self.others.target)[0]) if coefficients.any() else 0.0


def fixed(xx: Floats, xy: Floats) -> Floats:
    """Return the posterior mean for precisions of 1."""
    return np.asarray(np.linalg.solve(xx + np.eye(len(xy)), xy))


def _drugs(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    """Return means over DRUGS drugs, and the standard error of the default ridge's mean."""
    n, epsilon = setting["rows"], setting["epsilon"]
    box, target = thresholds(n, epsilon)
    budget = Budget(epsilon=epsilon, delta=0.0, neighbours=REPLACE)
    loose = Budget(epsilon=epsilon, delta=n**-1.1, neighbours=REPLACE)
    genes, scores = expression(WIDE), list[dict[str, float]]()
    for drug_generator in generator.spawn(DRUGS):
        (chain,) = drug_generator.spawn(1)
        wide = Drug.made(genes, WIDE, PUBLIC, n, drug_generator)
        drug = wide.narrowed(COLUMNS)
        rows, public, noise = drug.private, drug.public, Simulated(drug_generator)
        inside, low = clip_rows(rows, box, target)
        cut = Rows(inside, low, 1.0, False)
        noisy, loose_noisy = (
            LaplaceMoments.released(rows, epsilon, REPLACE, noise, **how)
            + LaplaceMoments.exact(public)
            for how in ({"box": box, "target": target}, {"split": EVEN})
        )
        units = in_units(noisy, 1 / SPREAD)
        fitted = {
            "plain": fixed(rows.xx + public.xx, rows.xy + public.xy),
            "plain_clipped": fixed(cut.xx + public.xx, cut.xy + public.xy),
            "public": fixed(public.xx, public.xy),
            "ridge": ridge.floored(noisy.as_normal),
            "noise_aware": noise_aware(units, chain, sweeps=SWEEPS).mean(axis=0),
            "naive": naive(units, chain, sweeps=SWEEPS).mean(axis=0),
            "only_xy": noisy.xy,
            "unclipped": fixed(loose_noisy.xx, loose_noisy.xy),
            "output": _fit(Output(), rows, loose, noise),
            "functional": _fit(Functional(), rows, budget, noise),
        }
        found = {name: drug.score(made) for name, made in fitted.items()}
        wide_public = fixed(wide.public.xx, wide.public.xy)
        scores.append({**found, "public_64": wide.score(wide_public)})
    place = SIZES.index(n)
    published = {
        f"published_{name}": values[place]
        for (name, at), values in PUBLISHED.items()
        if at == epsilon
    }
    means = {name: float(np.mean([one[name] for one in scores])) for name in scores[0]}
    error = float(np.std([one["ridge"] for one in scores]) / math.sqrt(DRUGS))
    return {"published_plain": PUBLISHED_PLAIN[place], **published, **means, "error": error}


def _fit(method: Output | Functional, rows: Rows, budget: Budget, noise: Simulated) -> Floats:
    return method.fit(rows, budget, noise).coefficients


PRIVATE = ("ridge", "noise_aware", "naive", "only_xy", "unclipped", "output", "functional")
MARKS = {"plain": "k+", "robust": "kx", "output": "k1", "functional": "k2"}
"""Marks of published figures in the picture."""


def _draw_drugs(rows: list[Row]) -> Figure:
    picture = figure(9.5, 4.6)
    for axis, epsilon in zip(picture.subplots(1, 2, sharey=True), (2.0, 1.0), strict=True):
        for name in ("plain", "plain_clipped", "public", "public_64"):
            axis.plot(SIZES, column(rows, name, epsilon=epsilon), "--", label=name)
        for name in PRIVATE:
            axis.plot(SIZES, column(rows, name, epsilon=epsilon), "o-", markersize=3, label=name)
        for name, mark in MARKS.items():
            published = column(rows, f"published_{name}", epsilon=epsilon)
            axis.plot(SIZES, published, mark, label=f"{name}, published")
        axis.axhline(0, color="black", linewidth=0.5)
        axis.set(xlabel="private rows", ylim=(-0.05, 0.4))
        axis.set_title(f"semi-synthetic, epsilon {epsilon:g}", fontsize=9)
    picture.axes[0].set_ylabel("Spearman's rank correlation")
    picture.axes[1].legend(fontsize=6, ncols=2)
    return picture


def _bars_drugs(rows: list[Row]) -> list[Bar]:
    most = [row for row in rows if row["rows"] == SIZES[-1]]
    plain = [float(row["plain"]) for row in most]
    lead = min(
        float(row[ours]) - float(row[theirs])
        for row in most
        for ours in ("ridge", "noise_aware")
        for theirs in ("unclipped", "output", "functional")
    )
    gained = min(
        _mean(rows, name, SIZES[4:], epsilon) - _mean(rows, name, SIZES[:4], epsilon)
        for name in ("ridge", "noise_aware")
        for epsilon in (1.0, 2.0)
    )
    beaten = sum(float(row["noise_aware"]) > float(row["naive"]) for row in rows)
    apart = max(abs(float(row["ridge"]) - float(row["published_robust"])) for row in rows)
    return [
        Bar(
            "rank correlation without noise at 800 rows, farthest from the published .25",
            max(plain, key=lambda one: abs(one - 0.25)),
            "+- .03",
            all(abs(one - 0.25) <= 0.03 for one in plain),
        ),
        Bar(
            "ridge and noise-aware posterior less unclipped, output, functional at 800 rows, least",
            lead,
            "> 0",
            lead > 0,
        ),
        Bar("the default ridge off what was published, at worst", apart, "<= .05", apart <= 0.05),
        Bar("gained from 100-400 to 500-800 private rows, least", gained, "> 0", gained > 0),
        Bar(
            "settings where the noise-aware posterior beats the naive one",
            beaten,
            f"all {len(rows)}",
            beaten == len(rows),
        ),
    ]


def _mean(rows: list[Row], name: str, sizes: tuple[int, ...], epsilon: float) -> float:
    chosen = [float(r[name]) for r in rows if r["epsilon"] == epsilon and r["rows"] in sizes]
    return float(np.mean(chosen))


USUAL = {"columns": COLUMNS, "public": PUBLIC, "epsilon": 2.0}
TRADES: dict[str, tuple[float, ...]] = {
    "columns": tuple(range(5, 41, 5)),
    "public": tuple(range(0, 31, 5)),
    "epsilon": (1.0, 1.5, 2.0, 2.5, 3.0),
}
TRADED_SIZES = (0, *SIZES)
MAPS = {
    (str(line["figure"]), float(line["xx_or_rows"]), float(line["setting"])): float(
        line["spearman"]
    )
    for line in published("nieminen")
}
"""Published rank correlations, by what is traded, the private rows and the traded value."""


@lru_cache(maxsize=8)
def _traded_drugs(columns: int) -> tuple[Drug, ...]:
    """Return TRADED drugs with private rows only; they do not depend on the number of columns."""
    genes = expression()
    return tuple(
        Drug.made(genes, columns, 0, len(genes) - TESTED, generator_of("drug", place))
        for place in range(TRADED)
    )


def _traded_scores(drug: Drug, setting: Setting, noise: np.random.Generator) -> tuple[float, float]:
    """Return the default ridge's rank correlation, and that with private moments weighed.

    The weights are by precision. Without private rows, both are that of public rows alone.
    """
    n, public = setting["rows"], int(setting["public"])
    known, hidden = part(drug.private, 0, public), part(drug.private, public, public + n)
    if not n:
        alone = drug.score(fixed(known.xx, known.xy))
        return alone, alone
    epsilon = setting["epsilon"]
    box, target = thresholds(n, epsilon, setting["columns"])
    noisy = LaplaceMoments.released(
        hidden, epsilon, REPLACE, Simulated(noise), box=box, target=target
    )
    both = (noisy, weighed(noisy, SPREAD**2 * (1 - EXPLAINED)))
    plain, by_precision = (
        drug.score(ridge.floored((one + LaplaceMoments.exact(known)).as_normal)) for one in both
    )
    return plain, by_precision


def weighed(noisy: LaplaceMoments, residual: float) -> LaplaceMoments:
    """Return noisy moments times the share of X'y's variance that is not noise.

    Features are independent, rows have length 1, and residuals have variance `residual`. Beside
    exact moments of public rows, the result counts as much as its precision says (Nieminen 2017,
    section 5.3).
    """
    exact = residual * noisy.rows / len(noisy.xy)
    weight = exact / (exact + 2 * noisy.scales[1] ** 2)
    xx, xy, yy = (weight * scale for scale in noisy.scales)
    return LaplaceMoments(
        weight * noisy.xx, weight * noisy.xy, weight * noisy.yy, (xx, xy, yy), noisy.rows
    )


def _traded(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    """Return the default ridge's mean over TRADED drugs, beside the value of the published map.

    The drugs are the same in every setting.
    """
    drugs = _traded_drugs(setting["columns"])
    found, by_precision = zip(
        *(_traded_scores(drug, setting, generator) for drug in drugs), strict=True
    )
    values = [
        MAPS[name, setting["rows"], setting[name]]
        for name in TRADES
        if all(setting[key] == value for key, value in USUAL.items() if key != name)
    ]
    return {
        "published": float(np.mean(values)),
        "spearman": float(np.mean(found)),
        "weighed": float(np.mean(by_precision)),
        "error": float(np.std(found) / math.sqrt(TRADED)),
    }


def _map(rows: list[Row], name: str, shown: str) -> Floats:
    """Return the rank correlations of a map, private rows by what is traded."""
    return np.array(
        [
            [float(column(rows, shown, **{**USUAL, name: value, "rows": n})[0])
             for value in TRADES[name]]
            for n in TRADED_SIZES
        ]
    )  # fmt: skip


def _draw_traded(rows: list[Row]) -> Figure:
    """Draw relative improvements over the best of ten public rows alone, as published."""
    picture = figure(10.0, 7.0)
    for axes, shown in zip(picture.subplots(2, 3), ("spearman", "published"), strict=True):
        base = _map(rows, "columns", shown)[0].max()
        most = max(_map(rows, name, shown).max() for name in TRADES) / base
        for axis, (name, values) in zip(axes, TRADES.items(), strict=True):
            image = axis.imshow(_map(rows, name, shown) / base, origin="lower", aspect="auto",
                                cmap="jet", vmin=0, vmax=most)  # fmt: skip
            axis.set_xticks(range(len(values)), [f"{value:g}" for value in values])
            axis.set_yticks(range(len(TRADED_SIZES)), TRADED_SIZES)
            title = "published" if shown == "published" else "semi-synthetic"
            axis.set_title(f"{title}, by {name}", fontsize=9)
        picture.colorbar(image, ax=axes[-1])
        axes[0].set_ylabel("private rows")
    return picture


def _bars_traded(rows: list[Row]) -> list[Bar]:
    maps = {name: _map(rows, name, "spearman") for name in TRADES}
    few, many = TRADED_SIZES.index(100), -1
    gained = {name: found[:, -1] - found[:, 0] for name, found in maps.items()}
    alike = {
        name: float(spearmanr(found.ravel(), _map(rows, name, "published").ravel())[0])
        for name, found in maps.items()
    }
    off = max(
        float(np.abs(maps[name] - _map(rows, name, "published"))[few:].max())
        for name in ("public", "epsilon")
    )
    usual = [row for row in rows if row["columns"] == COLUMNS]
    moved = max(abs(float(row["weighed"]) - float(row["spearman"])) for row in usual)
    lost = float(gained["public"][many] - gained["public"][few])
    found = (
        ("gained from epsilon 1 to 3, least", float(gained["epsilon"][few:].min()), 1),
        ("gained from 0 to 30 public rows beside 100 private ones", gained["public"][few], 1),
        ("the same beside 800, less that", lost, -1),
        ("gained from 5 to 40 columns, 100 private rows", gained["columns"][few], -1),
    )
    return [
        *(
            Bar(words, float(value), "> 0" if sign > 0 else "< 0", bool(value * sign > 0))
            for words, value, sign in found
        ),
        Bar("ten columns: gained or lost by weighing private moments, at most", moved, "<= .01",
            moved <= 0.01),
        Bar("by public rows and by epsilon: off the published maps, at worst", off, "<= .03",
            off <= 0.03),
        *(
            Bar(f"by {name}: rank correlation of the map with the published one", value, "> .7",
                value > 0.7)
            for name, value in alike.items()
        ),
    ]  # fmt: skip


def _trades() -> tuple[Setting, ...]:
    """Return the usual setting, and all settings that change one of its three values."""
    chosen = [{**USUAL, name: value} for name, values in TRADES.items() for value in values]
    unlike = [one for place, one in enumerate(chosen) if one not in chosen[:place]]
    return tuple({**one, "rows": n} for one in unlike for n in TRADED_SIZES)


STUDIES = (
    Study(
        "drugs",
        "robust regression beside others on made drug responses (Nieminen 4.5, 4.6)",
        tuple({"rows": n, "epsilon": epsilon} for epsilon in (2.0, 1.0) for n in SIZES),
        _drugs,
        _draw_drugs,
        _bars_drugs,
        chains=("noise_aware", "naive"),
    ),
    Study(
        "drugs-traded",
        "robust regression's columns, public rows and epsilon, made drug responses (Nieminen 4.4)",
        _trades(),
        _traded,
        _draw_traded,
        _bars_traded,
    ),
)
