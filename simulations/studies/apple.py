"""Study Apple's published settings: the two sketches against the optimum, and 90 days of budget.

Settings come from `ldp.mechanisms.presets` (Apple 2017), donations a day from the same papers. The
critique is by Tang et al. 2017, and in Boenisch 2019, section 5.2.5.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import numpy as np
from matplotlib.figure import Figure

from ldp import CountMeanSketch, HadamardCountMeanSketch, Rappor
from ldp.accounting import Caps, Cost, Ledger, sequential
from ldp.errors import BudgetExceeded
from ldp.mechanisms import Mechanism
from ldp.mechanisms.presets import COMPLETE, PRESETS
from ldp.planning import Shares, lower_bound, report_bytes, tune
from ldp.privacy_loss import compose
from ldp.simulation import draw_estimates
from simulations.campaign import Bar
from simulations.study import Row, Setting, Study, column, figure

# --- CMS, HCMS, the optimum ------------------------------------------------------------------

VALUES: Mapping[str, int] = {
    name: preset.dictionary_size or 1_000
    for name, preset in COMPLETE.items()
    if name.startswith("apple-")
}
"""Number of values in each dictionary.

The number of health types is not published; we take 1,000.
"""
USERS = (10**6, 10**8)
DRAWS = 20_000


def _mechanism(name: str, preset: str, users: int) -> Mechanism:
    """Return a mechanism for a preset.

    CMS and HCMS have the preset's epsilon, rows and width; HCMS needs a power of two, which all
    widths are. Local hashing and projective geometry are tuned as a plan does it.
    """
    parameters = dict(COMPLETE[preset].parameters)
    sizes = {key: parameters[key] for key in ("epsilon", "rows", "width")}
    if name == "cms":
        return CountMeanSketch(**sizes, seed="00")
    if name == "hcms":
        return HadamardCountMeanSketch(**sizes, seed="00")
    ask = Shares(domain=VALUES[preset], users=users, epsilon=sizes["epsilon"], frequency=0.0)
    return tune(ask, name)


def _settings(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    """Return standard errors of the rarest value of Zipf frequencies, stated and drawn.

    The optimum beside them is the bound's mean over all values, most of which are rare.
    """
    preset, users = setting["preset"], int(setting["users"])
    mechanism = _mechanism(setting["mechanism"], preset, users)
    weights = 1 / np.arange(1, VALUES[preset] + 1)
    sums = np.rint(users * np.cumsum(weights) / weights.sum()).astype(np.int64)
    counts = np.diff(sums, prepend=0)
    held, others = int(counts[-1]), counts[:-1]
    drawn = draw_estimates(mechanism, held=held, others=others, draws=DRAWS, generator=generator)
    squares = float(((others / users) ** 2).sum())
    stated = mechanism.std_error(users, held / users, squares)
    best = math.sqrt(users * lower_bound(VALUES[preset], mechanism.cost.epsilon))
    return {
        "epsilon": mechanism.cost.epsilon,
        "report_bytes": report_bytes(mechanism),
        "stated": stated,
        "drawn": float(np.sqrt(((drawn - held) ** 2).mean())),
        "optimum": best,
        "over_optimum": stated / best,
    }


NAMES = ("cms", "hcms", "local-hashing", "pgr")


def _draw_settings(rows: list[Row]) -> Figure:
    made = figure(wide=9.0, high=4.0)
    for axes, users in zip(made.subplots(1, 2, sharey=True), USERS, strict=True):
        for offset, name in enumerate(NAMES):
            found = column(rows, "over_optimum", users=users, mechanism=name)
            axes.bar(np.arange(found.size) + 0.2 * (offset - 1.5), found, 0.19, label=name)
        axes.axhline(1.0, color="black", linewidth=0.7)
        presets = [name.removeprefix("apple-").replace("-", "\n") for name in VALUES]
        axes.set_xticks(range(len(presets)), presets)
        axes.set(yscale="log", title=f"{users:,} users")
    made.axes[0].set_ylabel("standard error over the optimum")
    made.axes[0].legend()
    return made


def _bars_settings(rows: list[Row]) -> list[Bar]:
    off = max(abs(float(row["drawn"]) / float(row["stated"]) - 1) for row in rows)
    ours = {"mechanism": "local-hashing"}
    few, many = (float(column(rows, "over_optimum", users=n, **ours).max()) for n in USERS)
    line = float(column(rows, "over_optimum", mechanism="pgr").max())
    where = {"preset": "apple-emoji", "users": 10**6}
    cms, hcms = (
        float(column(rows, "over_optimum", mechanism=name, **where)[0]) for name in NAMES[:2]
    )
    smaller = min(
        float(cms_bytes / ours)
        for cms_bytes, ours in zip(
            column(rows, "report_bytes", mechanism="cms"),
            column(rows, "report_bytes", mechanism="local-hashing"),
            strict=True,
        )
    )
    return [
        Bar("drawn beside stated standard error, at worst", off, "<= .03", off <= 0.03),
        Bar("local hashing over the optimum, a million, at worst", few, "<= 1.05", few <= 1.05),
        Bar("the same of 100 million, in 2**28 cells, at worst", many, "<= 2", many <= 2),
        Bar("projective geometry over the optimum, at worst", line, "<= 1.05", line <= 1.05),
        Bar("CMS over the optimum, emoji, a million", cms, "1.4 to 1.7", 1.4 <= cms <= 1.7),
        Bar("HCMS over the optimum, emoji, a million", hcms, "3.5 to 4.1", 3.5 <= hcms <= 4.1),
        Bar("bytes of CMS over local hashing's, at least", smaller, ">= 2", smaller >= 2),
    ]


# --- 90 days of budget -----------------------------------------------------------------------

DAYS = 90
DONATIONS = tuple(
    Cost(epsilon=preset.parameters["epsilon"])
    for name, preset in PRESETS.items()
    for _ in range(preset.donations or 0)
    if name != "apple-safari-crash"
)
"""Costs of one person's donations of a day, each day anew.

Crash and energy have one budget. The number for new words is not published.
"""
CAPS = Caps(window=timedelta(days=30), window_epsilon=4.0, lifetime_epsilon=16.0)
"""Our caps: one group for all metrics, with epsilon 4 in any 30 days and 16 for life."""
START = datetime(2026, 1, 1, tzinfo=UTC)
DELTA = 1e-9
EMOJI = CountMeanSketch(epsilon=4.0, rows=65_536, width=1_024, seed="00")
EPOCH = Rappor(bits=32, hashes=2, cohorts=128, f=0.5, p=0.25, q=0.75, seed="00")
"""Chrome's setting, memoised by epochs of 90 days.

Any number of reports then describes one frozen value.
"""


def _budget(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    """Return what one person has spent after `days` days, if the first day's report was sent
    too."""
    days = int(setting["days"])
    ledger = Ledger({"all": CAPS})
    for day in range(days):
        for each in (4.0, 2.0, 1.0):
            try:
                ledger.charge("all", Cost(epsilon=each), now=START + timedelta(days=day))
            except BudgetExceeded:
                continue
    return {
        "all_metrics": sequential(DONATIONS * days).epsilon,
        "emoji": sequential([EMOJI.cost] * days).epsilon,
        "emoji_exact": compose([(EMOJI, days)]).at(delta=DELTA).epsilon,
        "ours": ledger.spent("all"),
        "ours_memoised": EPOCH.cost.lifetime,
    }


LINES = {
    "all_metrics": "as deployed, all metrics",
    "emoji": "as deployed, popular emoji alone",
    "emoji_exact": f"the same composed exactly, delta {DELTA:g}",
    "ours": "our caps on all metrics: 4 in 30 days, 16 for life",
    "ours_memoised": "memoised RAPPOR, one epoch, any number of reports",
}


def _draw_budget(rows: list[Row]) -> Figure:
    made = figure()
    axes = made.subplots()
    for name, words in LINES.items():
        axes.step(column(rows, "days"), column(rows, name), where="post", label=words)
    axes.set(yscale="log", xlabel="days", ylabel="epsilon spent by one person", ylim=(1, 2e4))
    axes.legend(fontsize=8)
    return made


def _bars_budget(rows: list[Row]) -> list[Bar]:
    last = rows[-1]
    spent = {name: float(last[name]) for name in LINES}
    window = max(
        float(row["ours"]) - float(earlier["ours"])
        for row, earlier in zip(rows[30:], rows, strict=False)
    )
    return [
        Bar(
            "as deployed after 90 days",
            spent["all_metrics"],
            "= 5,220",
            spent["all_metrics"] <= 5220,
        ),
        Bar("emoji alone", spent["emoji"], "360", 359.9 < spent["emoji"] <= 360),
        Bar("emoji, exactly", spent["emoji_exact"], "< 360", spent["emoji_exact"] < 360),
        Bar("ours", spent["ours"], "<= 16", spent["ours"] <= 16),
        Bar("ours in any 30 days", window, "<= 4", window <= 4),
    ]


STUDIES = (
    Study(
        "apple-settings",
        "CMS and HCMS against the optimum at every complete setting of Apple's",
        tuple(
            {"preset": preset, "users": users, "mechanism": name}
            for preset in VALUES
            for users in USERS
            for name in NAMES
        ),
        _settings,
        _draw_settings,
        _bars_settings,
    ),
    Study(
        "apple-budget",
        "Apple's budget as deployed against ours over 90 days",
        tuple({"days": days} for days in range(1, DAYS + 1)),
        _budget,
        _draw_budget,
        _bars_budget,
    ),
)
