"""Make a life from a seed: registries, and the calls of an app with the clock of each."""

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ldp.errors import RegistryError
from ldp.registry import Registry
from ldp.registry.resolved import resolved_bytes

HOUR, DAY, WEEK, YEAR = 3600, 86_400, 604_800, 31_556_952
LEAPS = 0.06
"""Probability that the clock goes wrong, or right, before a call."""
SPANS = {HOUR: "1h", 6 * HOUR: "6h", DAY: "1d", WEEK: "7d", 2 * WEEK: "14d", 28 * DAY: "28d"}
START = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp())
VALUES = ("none", "some", "more", "most")
BAD_VALUES = ("other", 7, None, ["some"], True, {"float": "nan"}, {"units": [0xD800]})
MANNERS = {
    "fresh": 'mechanism = "rr"\nepsilon = {epsilon}',
    "hidden": 'mechanism = "rr"\nepsilon = {epsilon}\npresence = "hidden"',
    "per-value": 'mechanism = "memoised-rr"\nepsilon = {epsilon}\nlifetime_epsilon = {lifetime}\n'
    'memoise = "per-value"',
    "epoch": 'mechanism = "memoised-rr"\nepsilon = {epsilon}\nlifetime_epsilon = {lifetime}\n'
    'memoise = "epoch"\nepoch = "{epoch}"',
    "hidden epoch": 'mechanism = "memoised-rr"\nepsilon = {epsilon}\n'
    'lifetime_epsilon = {lifetime}\nmemoise = "epoch"\nepoch = "{epoch}"\npresence = "hidden"',
}
MOST_TRIES = 50
"""Most registries that are drawn until one can be loaded."""

Life = dict[str, Any]


def make_life(seed: int, folder: Path) -> Life:
    """Return a life with its `registries` and its `calls`.

    A registry is given as TOML and as the JSON of section 13 of the wire format. A call has its
    name in `call`, the time `at` in seconds since 1970, and its arguments. `folder`: place of
    metrics.toml while it is loaded.
    """
    chance = random.Random(seed)  # noqa: S311, a life of nobody
    plans = [new_plan(chance)]
    while chance.random() < 0.5:
        plans.append(_changed(plans[-1], chance))
    registries = [made for plan in plans if (made := loadable(plan, folder))]
    while not registries:
        registries = [made for made in [loadable(new_plan(chance), folder)] if made]
    return {"seed": seed, "registries": registries, "calls": _calls(registries, chance)}


def new_plan(chance: random.Random) -> Life:
    plan: Life = {"groups": {}, "metrics": {}, "lifetime": None}
    for name in chance.sample(["north", "south", "east"], chance.choice([1, 1, 2, 3])):
        plan["groups"][name] = _new_group(chance)
        for number in range(chance.choice([1, 1, 2, 3])):
            plan["metrics"][f"{name}-{'bad'[number]}"] = _new_metric(plan, name, chance)
    if chance.random() < 0.3:
        plan["lifetime"] = round(chance.uniform(3, 40), 1)
    return plan


def _new_group(chance: random.Random) -> Life:
    window = round(chance.uniform(2, 12), 2)
    return {
        "is_hidden": chance.random() < 0.3,
        "window": chance.choice([HOUR, DAY, DAY, WEEK]),
        "window_epsilon": window,
        "lifetime_epsilon": round(window * chance.choice([1, 1.5, 3, 10, 100]), 2),
        "report_epsilon": round(chance.uniform(0.5, 4), 2) if chance.random() < 0.15 else None,
        "lateness": chance.choice([None, None, HOUR, DAY, 2 * WEEK]),
    }


def _new_metric(plan: Life, group: str, chance: random.Random) -> Life:
    kind = plan["groups"][group]
    epsilon = round(chance.uniform(0.3, 3), 2)
    lengths = [length for length in SPANS if length % kind["window"] == 0]
    manners = ["hidden", "hidden epoch"] if kind["is_hidden"] else ["fresh", "per-value", "epoch"]
    far = START + chance.choice([2, 9, 40, 4000]) * DAY
    return {
        "group": group,
        "version": 1,
        "manner": chance.choice(manners),
        "epsilon": epsilon,
        "lifetime": round(epsilon * chance.uniform(1.2, 3), 2),
        "epoch": chance.choice(lengths),
        "reports": chance.choice([1, 1, 2, 4]),
        "expires": (datetime.fromtimestamp(far, UTC).date()),
    }


def _changed(plan: Life, chance: random.Random) -> Life:
    """Return the plan of a later registry; no metric gets back a meaning that it had before."""
    groups = {name: dict(group) for name, group in plan["groups"].items()}
    metrics = {name: dict(metric) for name, metric in plan["metrics"].items()}
    later = {**plan, "groups": groups, "metrics": metrics}
    name, group = chance.choice([*metrics]), chance.choice([*groups])
    change = chance.randrange(8)
    if change == 0:
        groups[group]["window_epsilon"] *= chance.choice([0.5, 2])
        groups[group]["lifetime_epsilon"] *= chance.choice([0.5, 2])
    elif change == 1:
        groups[group]["lateness"] = chance.choice([None, HOUR, DAY])
    elif change == 2 and len(metrics) > 1:
        del metrics[name]
    elif change == 3:
        metrics[f"{group}-new"] = _new_metric(later, group, chance)
    elif change == 4:
        fresh = _new_metric(later, metrics[name]["group"], chance)
        metrics[name] = {**fresh, "version": metrics[name]["version"] + 1}
    elif change == 5:
        groups["west"] = _new_group(chance)
        metrics["west-a"] = _new_metric(later, "west", chance)
    elif change == 6:
        if groups[group]["is_hidden"] == groups[metrics[name]["group"]]["is_hidden"]:
            metrics[name]["group"] = group
    else:
        groups[group]["window"] = chance.choice([HOUR, DAY, WEEK])
    return later


def loadable(plan: Life, folder: Path) -> Life | None:
    """Return the registry of a plan as text and as JSON; None where the registry is invalid."""
    text = _toml(plan)
    path = folder / "metrics.toml"
    path.write_text(text, encoding="utf-8")
    try:
        return {"toml": text, "json": resolved_bytes(Registry.load(path)).decode()}
    except RegistryError:
        return None


def _toml(plan: Life) -> str:
    lines = ['[product]\nname = "lives"']
    if plan["lifetime"]:
        lines.append(f"lifetime_epsilon = {plan['lifetime']}")
    for name, group in plan["groups"].items():
        lines.append(f'[group.{name}]\nwindow = "{SPANS[group["window"]]}"')
        lines += [
            f"{key} = {group[key]}"
            for key in ("window_epsilon", "lifetime_epsilon", "report_epsilon")
            if group[key]
        ]
        if group["lateness"]:
            lines.append(f'lateness = "{SPANS[group["lateness"]]}"')
    for name, metric in plan["metrics"].items():
        how = MANNERS[metric["manner"]].format(**{**metric, "epoch": SPANS[metric["epoch"]]})
        lines.append(
            f'[metric.{name}]\nversion = {metric["version"]}\ngroup = "{metric["group"]}"\n'
            f'description = "A question"\nowners = ["team@app.example"]\n'
            f"expires = {metric['expires']}\nreports_per_window = {metric['reports']}\n"
            f"categories = {[*VALUES]}\n{how}"
        )
    return "\n".join(lines) + "\n"


def _calls(registries: list[Life], chance: random.Random) -> list[Life]:
    """Return the calls of an app, most of them after a consent.

    A metric has one value a week, so a report's value is known without knowing which record was
    drawn.
    """
    calls, now, leap = list[Life](), START + chance.randrange(DAY), 0
    metrics = [[*json.loads(registry["json"])["metrics"]] for registry in registries]
    which = 0
    if chance.random() < 0.9:
        calls.append({"call": "grant", "at": now})
    length = chance.randrange(10, 60)
    updates = chance.sample(range(length), min(length, len(registries) - 1))
    for step in range(length):
        now += int(
            chance.choice([0, 0, 1, 60, HOUR, 8 * HOUR, DAY, 2 * DAY, 9 * DAY]) * chance.random()
        )
        if chance.random() < 0.02:
            now -= chance.choice([HOUR, DAY, 3 * DAY])
        if chance.random() < LEAPS:
            leap = chance.choice([0, 0, *SPANS, 9 * YEAR, -YEAR, -now])
        clock = now + leap if leap + now > DAY else chance.randrange(DAY)
        call: Life = {"call": "record", "at": clock}
        draw = chance.random()
        if step in updates:
            which += 1
            call |= {"call": "update", "registry": which}
        elif draw < 0.6:
            name = chance.choice(metrics[which])
            value: Any = VALUES[(len(name) + clock // WEEK) % len(VALUES)]
            if chance.random() < 0.03:
                name = "no-such-metric"
            if chance.random() < 0.05:
                value = chance.choice(BAD_VALUES)
            call |= {"metric": name, "value": value, "is_value": value in VALUES}
        elif draw < 0.82:
            call["call"] = "upload"
            call["collector"] = chance.choice(["takes"] * 6 + ["refuses", "fails"])
        elif draw < 0.85:
            call["call"] = "restart"
        elif draw < 0.91:
            call["call"] = "grant"
        elif draw < 0.95:
            call["call"] = "withdraw"
        else:
            call["call"] = "restart"
        calls.append(call)
    return calls
