"""Study many days of one value: what averaging reveals, and what links reports to a person.

The settings are Chrome's (`chrome-uma`) and Apple's. Apple's is `apple-emoji` with one donation a
day and no limit over days, as criticised by Tang et al. 2017. Ours has epsilon 4 in any 30 days and
16 for life. There are 100 values with Zipf frequencies; people stay and keep their values.
Averaging and fingerprints follow Erlingsson et al. 2014, sections 3.2 and 6.
"""

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ldp.accounting import Caps
from ldp.mechanisms import CatalogueMechanism, from_parameters
from ldp.mechanisms.presets import COMPLETE
from ldp.registry import Group, Metric, Registry
from ldp.registry.definitions import Memoise
from ldp.simulation import Population
from ldp.simulation.averaging import averaging
from ldp.simulation.linking import linking
from ldp.simulation.people import Scenario, ScenarioMetric
from simulations.campaign import Bar
from simulations.study import Row, Setting, Study, column, figure

VALUES = tuple(f"v{i}" for i in range(1, 101))
ZIPF = Population(VALUES, frequencies=1 / np.arange(1, 101) / (1 / np.arange(1, 101)).sum())
PEOPLE = 2000
EPOCH = timedelta(days=30)
CAPS = Caps(window=EPOCH, window_epsilon=4.0, lifetime_epsilon=16.0)
NO_CAPS = Caps(window=timedelta(days=1), window_epsilon=1e3, lifetime_epsilon=1e6)


def _mechanism(preset: str) -> CatalogueMechanism:
    return from_parameters({**COMPLETE[preset].parameters, "seed": "5eed"})


def _scenario(preset: str, days: int, caps: Caps, **how: Any) -> Scenario:
    """Return a scenario of people who stay and send one report a day, or a window."""
    metric = Metric(
        name="asked",
        version=1,
        group="all",
        description="What is reported every day",
        owners=("studies",),
        expires=date(2099, 12, 31),
        mechanism=_mechanism(preset),
        dictionary=None,
        reports_per_window=1,
        **how,
    )
    group = Group(name="all", caps=caps, lateness=timedelta(days=7))
    registry = Registry(
        path=Path("metrics.toml"), product="study", groups={"all": group}, metrics={"asked": metric}
    )
    asked = ScenarioMetric(metric=metric, population=ZIPF)
    start = date(1970, 1, 1)  # where epochs and windows begin
    return Scenario(
        registry=registry, metrics=(asked,), users=1, days=days, start=start, attacked=PEOPLE
    )


# --- averaging -------------------------------------------------------------------------------

CURVES: Mapping[str, tuple[str, Caps, Mapping[str, Any], str]] = {
    "chrome-fresh": ("chrome-uma", NO_CAPS, {}, "never memoised"),
    "chrome-epoch": (
        *("chrome-uma", NO_CAPS),
        {"memoise": "epoch", "epoch": EPOCH},
        "memoised by epochs of 30 days",
    ),
    "chrome-per-value": (
        *("chrome-uma", NO_CAPS),
        {"memoise": "per-value"},
        "memoised per value, as published",
    ),
    "apple-daily": ("apple-emoji", NO_CAPS, {}, "a new allowance every day, as deployed"),
    "apple-capped": ("apple-emoji", CAPS, {}, "capped: 4 in 30 days, 16 for life"),
}
LENGTHS = (1, 2, 4, 7, 14, 30, 60, 90)


def _averaging(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    preset, caps, how, _ = CURVES[setting["curve"]]
    days = int(setting["days"])
    (found,) = averaging(_scenario(preset, days, caps, **how), [days], generator)["asked"]
    return {
        "right": found.right,
        "error": found.std_error,
        "at_most": found.at_most,
        "without_reports": float(ZIPF.shares.max()),
    }


def _draw_averaging(rows: list[Row]) -> Figure:
    made = figure(wide=9.0)
    for axes, company in zip(made.subplots(1, 2, sharey=True), ("chrome", "apple"), strict=True):
        for name, (*_, words) in CURVES.items():
            if not name.startswith(company):
                continue
            right, error, most = (
                column(rows, what, curve=name) for what in ("right", "error", "at_most")
            )
            drawn = axes.errorbar(LENGTHS, right, 2 * error, fmt="o-", markersize=3, label=words)
            axes.plot(LENGTHS, most, ":", color=drawn[0].get_color())
        axes.axhline(float(ZIPF.shares.max()), color="grey", linewidth=0.8)
        axes.set(xscale="log", xlabel="days", title=f"{company.capitalize()}'s setting")
        axes.set_xticks(LENGTHS, [str(days) for days in LENGTHS])
        axes.minorticks_off()
        axes.legend(fontsize=7, loc="lower right")
        axes.set_ylim(0, 1.03)
    made.axes[0].set_ylabel("values guessed right\n(dotted: bound by epsilon; grey: no reports)")
    return made


def _bars_averaging(rows: list[Row]) -> list[Bar]:
    def right(curve: str, days: int) -> float:
        return float(column(rows, "right", curve=curve, days=days)[0])

    over = max(
        (float(r["right"]) - float(r["at_most"])) / max(float(r["error"]), 1e-3) for r in rows
    )
    fresh, kept = right("chrome-fresh", 90), right("chrome-per-value", 90)
    later = abs(kept - right("chrome-per-value", 30))
    daily, capped = right("apple-daily", 7), right("apple-capped", 90)
    first = max(
        abs(right("chrome-fresh", 1) - right(f"chrome-{how}", 1)) for how in ("epoch", "per-value")
    )
    return [
        Bar("above the bound, in standard errors, at worst", over, "<= 4.5", over <= 4.5),
        Bar("Chrome's, never memoised, right after 90 days", fresh, ">= .99", fresh >= 0.99),
        Bar("Chrome's, per value, right after 90 days", kept, "<= .6", kept <= 0.6),
        Bar("moved from 30 to 90 days", later, "<= .07", later <= 0.07),
        Bar("apart after one day, however memoised", first, "<= .06", first <= 0.06),
        Bar("Apple's, every day, right after 7 days", daily, ">= .99", daily >= 0.99),
        Bar("Apple's, capped, right after 90 days", capped, "below 7 days'", capped < daily),
    ]


# --- linking ---------------------------------------------------------------------------------

MANNERS: Mapping[Memoise, str] = {
    False: "never memoised",
    "epoch": "by epoch, sets of two epochs",
    "per-value": "per value (left: also within an epoch)",
}
REPORTS = (1, 2, 4, 7, 14, 30)


def _linking(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    tests = linking(
        _mechanism("chrome-uma"),
        ZIPF,
        next(manner for manner in MANNERS if str(manner) == setting["memoise"]),
        int(setting["reports"]),
        people=PEOPLE,
        generator=generator,
    )
    return {
        f"{what}_{name}": float(number)
        for what, test in zip(("person", "change"), tests, strict=True)
        for name, number in test._asdict().items()
    }


def _draw_linking(rows: list[Row]) -> Figure:
    made = figure(wide=9.0)
    tests = {"person": "two sets are one person's", "change": "the value changed in between"}
    for axes, (what, words) in zip(made.subplots(1, 2, sharey=True), tests.items(), strict=True):
        for manner, label in MANNERS.items():
            shares, errors = (
                column(rows, f"{what}_{name}", memoise=str(manner))
                for name in ("advantage", "error")
            )
            axes.errorbar(REPORTS, shares, 2 * errors, fmt="o-", markersize=3, label=label)
        axes.set(xscale="log", xlabel="reports in each set", title=words, ylim=(-0.05, 1.05))
        axes.set_xticks(REPORTS, [str(reports) for reports in REPORTS])
        axes.minorticks_off()
    made.axes[0].set_ylabel("advantage: hits less false alarms")
    made.axes[0].legend(fontsize=7, loc=(0.02, 0.66))
    return made


def _bars_linking(rows: list[Row]) -> list[Bar]:
    one = float(column(rows, "person_advantage", memoise="per-value", reports=1)[0])
    fresh = float(column(rows, "person_advantage", memoise="False").max())
    epoch = float(column(rows, "person_advantage", memoise="epoch").max())
    seen = float(column(rows, "change_advantage", memoise="per-value", reports=7)[0])
    bound = 1 - float((ZIPF.shares**2).sum())
    return [
        Bar("linked per value by one report and one", one, ">= .98", one >= 0.98),
        Bar(
            "linked never memoised, at most", fresh, "<= 1 - sum of squares", fresh <= bound + 0.05
        ),
        Bar("linked by epoch, at most", epoch, "below never memoised", epoch < fresh),
        Bar("changes seen per value by 7 and 7", seen, ">= .98", seen >= 0.98),
    ]


STUDIES = (
    Study(
        "averaging",
        "values guessed from all reports of a person, with and without memoisation, over 90 days",
        tuple({"curve": curve, "days": days} for curve in CURVES for days in LENGTHS),
        _averaging,
        _draw_averaging,
        _bars_averaging,
    ),
    Study(
        "linking",
        "two sets of reports told to be one person's, and a change of value seen",
        tuple(
            {"memoise": str(manner), "reports": reports}
            for manner in MANNERS
            for reports in REPORTS
        ),
        _linking,
        _draw_linking,
        _bars_linking,
    ),
)
