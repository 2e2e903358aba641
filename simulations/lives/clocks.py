"""Make lives whose clock leaps between any two calls, and is right in the end.

Sums over the charges of a transcript are checked, with no code of a client. No window and no life
may have more than its cap. After the clock is right, every group must report within two windows if
a device that began then does.
"""

import json
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

from simulations.lives.making import DAY, HOUR, START, YEAR, Life, loadable, new_plan

LEAPS = (HOUR, -HOUR, DAY, -3 * DAY, 40 * DAY, YEAR, -YEAR, 9 * YEAR, 300 * YEAR, -100 * YEAR)


def make_clock_lives(seed: int, folder: Path) -> tuple[Life, Life]:
    """Return the life of a device whose clock leaps, and that of a device that begins later.

    The second begins under the same registry when the first one's clock is right again: after
    `right`, in seconds since 1970.
    """
    chance = random.Random(f"clocks {seed}")  # noqa: S311, a life of nobody
    registry = None
    while registry is None:
        registry = loadable(_plan(chance), folder)
    document = json.loads(registry["json"])
    now, leap, metrics = START, 0, [*document["metrics"]]
    calls: list[Life] = [{"call": "grant", "at": now}]
    for _ in range(chance.randrange(20, 80)):
        now += int(chance.choice([0, 60, HOUR, DAY]) * chance.random())
        if chance.random() < 0.4:
            leap = chance.choice([0, *LEAPS, chance.randrange(-9 * YEAR, 9 * YEAR)])
        name, clock = chance.choice(metrics), max(now + leap, chance.randrange(DAY))
        calls.append(chance.choice([*[_record(name, clock)] * 3, _upload(clock), _again(clock)]))
    right, tail = now, list[Life]()
    for group, caps in document["groups"].items():
        of = [name for name in metrics if document["metrics"][name]["group"] == group]
        for half in range(7):
            clock = right + half * caps["window"] // 2
            tail += [*(_record(name, clock) for name in of * 4), _upload(clock)]
    tail.sort(key=lambda call: int(call["at"]))
    common = {"registries": [registry], "right": right}
    twin = [{"call": "grant", "at": right}, *tail]
    return (
        {"seed": seed, "calls": calls + tail, **common},
        {"seed": f"{seed}, new", "calls": twin, **common},
    )


def _plan(chance: random.Random) -> Life:
    """Return a plan; in most plans a life affords all leaps, so that silence has no other
    reason."""
    plan = new_plan(chance)
    if chance.random() < 0.7:
        plan["lifetime"] = None
        for group in plan["groups"].values():
            group["lifetime_epsilon"] = 1000 * group["window_epsilon"]
    return plan


def clock_fault(life: Life, transcript: list[Life], twin: list[Life]) -> str:
    """Return what is wrong with the transcript of a life, "" for nothing.

    `twin`: transcript of the device that began when the clock was right.
    """
    registry = json.loads(life["registries"][0]["json"])
    cap_of_all = registry["product"].get("lifetime_epsilon")
    windows, lives = Counter[tuple[str, int]](), Counter[str]()
    sent, paid = Counter[str](), Counter[str]()
    for step in transcript:
        for group, metric, price, times, at in step["charges"]:
            epsilon = Fraction(price) * times
            windows[group, at] += epsilon
            lives[group] += epsilon
            paid[metric] += times
        for _, reports in step["sealed"]:
            sent.update(reports)
        if step["status"]["dropped"]:
            return "a sealed batch was dropped"
    for (group, at), epsilon in windows.items():
        if epsilon > Fraction(registry["groups"][group]["window_epsilon"]):
            return f"{group} has {float(epsilon)} in the window that ends at {at}"
    for group, epsilon in lives.items():
        if epsilon > Fraction(registry["groups"][group]["lifetime_epsilon"]):
            return f"{group} has {float(epsilon)} in its life"
    if cap_of_all is not None and sum(lives.values()) > Fraction(cap_of_all):
        return "all groups together are above the cap of the device"
    for name, metric in registry["metrics"].items():
        if (
            metric["presence"] == "public"
            and not metric.get("memoise")
            and sent[name] != paid[name]
        ):
            return f"{name} sent {sent[name]} reports and paid {paid[name]}"
    return _silence(life, transcript, twin)


def _silence(life: Life, transcript: list[Life], twin: list[Life]) -> str:
    """Return which group reports too late after its clock is right, "" for none.

    It must report within two windows if a device that began then does. It need not if its life is
    spent, or if these windows were sealed before.
    """
    registry, right = json.loads(life["registries"][0]["json"]), life["right"]
    start = len(life["calls"]) - (len(twin) - 1)
    before = [charge for step in transcript[:start] for charge in step["charges"]]
    sealed = [period for step in transcript[:start] for period in step["periods"]]
    for group, caps in registry["groups"].items():
        window, names = caps["window"], _of(registry, group)
        last = right - right % window + 3 * window
        needed = sum(Fraction(m["price"]) * m["reports_per_window"] for m in names.values())
        spent = sum(Fraction(p) * times for g, _, p, times, _ in before if g == group)
        is_spent = "lifetime_epsilon" in registry["product"] or (
            spent + 3 * needed > Fraction(caps["lifetime_epsilon"])
        )
        was_there = any(g == group and right < end < last + window for g, end in sealed)
        tail = life["calls"][start:]
        here, there = (
            _reported(names, tail, steps, right + 2 * window + window // 2)
            for steps in (transcript[start:], twin[1:])
        )
        if there and not here and not is_spent and not was_there:
            return f"{group} reports nothing for two windows after its clock is right"
    batches = sum(len(step["sealed"]) for step in transcript[start:])
    answers = [step["answer"] for step in transcript[start:]]
    if sum(answer["acknowledged"] for answer in answers if isinstance(answer, dict)) < batches:
        return "something waits although the collector takes everything"
    return ""


def _reported(names: Life, calls: list[Life], steps: list[Life], until: int) -> bool:
    return any(
        names.keys() & reports.keys()
        for call, step in zip(calls, steps, strict=True)
        if call["at"] <= until
        for _, reports in step["sealed"]
    )


def _of(registry: Life, group: str) -> Life:
    return {name: m for name, m in registry["metrics"].items() if m["group"] == group}


def _record(name: str, at: int) -> Life:
    return {"call": "record", "at": at, "metric": name, "value": "some", "is_value": True}


def _upload(at: int) -> Life:
    return {"call": "upload", "at": at, "collector": "takes"}


def _again(at: int) -> dict[str, Any]:
    return {"call": "restart", "at": at}
