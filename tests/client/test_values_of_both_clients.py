"""Both clients follow one table of what a client does with a value that an app may record."""

from pathlib import Path
from typing import Any

import pytest

from ldp.registry import Registry
from ldp.registry.resolved import resolved_bytes
from simulations.lives.making import Life
from simulations.lives.playing import play, play_in_node
from tests.web_client import require_web_client

HEAD = """
[product]
name = "values"
[group.g]
window = "1d"
window_epsilon = 900.0
lifetime_epsilon = 900.0
"""
METRIC = """
[metric.{name}]
version = 1
group = "g"
description = "A value"
owners = ["team@app.example"]
expires = 2999-12-31
epsilon = 1.0
{how}
"""
LISTED = 'categories = ["a", "b", "other"]\n'
BINS = 'mechanism = "hierarchical-histogram"\nbounds = [0.0, 8.0]\nbuckets = 8'
METRICS = {
    "listed": f'mechanism = "rr"\n{LISTED}',
    "open": f'mechanism = "rr"\n{LISTED}other = "other"',
    "text": 'mechanism = "local-hashing"\nrows = 16\nseed = "00ff"',
    "mean": 'mechanism = "one-bit-mean"\nbounds = [0.0, 10.0]',
    "strict": 'mechanism = "one-bit-mean"\nbounds = [0.0, 10.0]\noutside = "refuse"',
    "bins": BINS,
    "range": 'mechanism = "hierarchical-histogram"\nmagnitudes = [1.0, 1000.0]',
    "grouped": f'{BINS}\nby = ["a", "b"]',
    "products": 'mechanism = "moments"\nfeatures = 1\nbounds = [[0.0, 4.0], [-1.0, 1.0]]',
    "set": f'mechanism = "privset"\n{LISTED}at_most = 1',
}
NAN, INFINITE, LONE = {"float": "nan"}, {"float": "inf"}, {"units": [97, 0xD800]}
BYTES, WHOLE, OBJECT = {"bytes": "ff"}, {"whole": "5"}, {"object": "a"}
LEAST = {"whole": f"-1{'0' * 400}"}
RECORDED: dict[str, list[Any]] = {
    "listed": ["a"],
    "open": ["a", "z", "", LONE, BYTES],
    "text": ["a", "", LONE, OBJECT, BYTES, {"units": [0xDC00, 0xD800]}, "x" * 4096],
    "mean": [5, 0.5, WHOLE, LEAST, "2.5", NAN, INFINITE, {"float": "-inf"}, -1e300],
    "strict": [5, 0, 10],
    "bins": [5, NAN, INFINITE, 99],
    "range": [5, NAN, INFINITE, 0, -7, 1e12],
    "grouped": [["a", 1], ["b", NAN], [OBJECT, WHOLE]],
    "products": [[1, 0.5], [WHOLE, 0.5], [NAN, NAN], [9, -9]],
    "set": [{"set": ["a"]}, {"set": []}, {"set": ["a", "b", "other"]}],
}
"""Values that a metric takes; it declines all others of the table, and those below."""
ODD: list[Any] = [
    None,
    True,
    "z",
    NAN,
    INFINITE,
    LONE,
    7,
    [],
    ["a"],
    ["a", 1, 2],
    [1, None],
    {"bytes": "61"},
    BYTES,
    WHOLE,
    OBJECT,
    "nan",
    {"set": ["z"]},
]


def life(folder: Path) -> Life:
    text = HEAD + "".join(METRIC.format(name=name, how=how) for name, how in METRICS.items())
    (folder / "metrics.toml").write_text(text, encoding="utf-8")
    document = resolved_bytes(Registry.load(folder / "metrics.toml")).decode()
    values = [*ODD, *(value for values in RECORDED.values() for value in values)]
    calls = [{"call": "grant", "at": 1_800_000_000}]
    calls += [
        {"call": "record", "at": 1_800_000_000, "metric": name, "value": value}
        for name in METRICS
        for value in values
    ]
    return {"seed": 0, "registries": [{"toml": text, "json": document}], "calls": calls}


def answers(folder: Path, in_node: bool) -> dict[str, list[Any]]:
    """Return the values that a client recorded, by metric."""
    lived = life(folder)
    steps = next(play_in_node([lived])) if in_node else play(lived, folder / "device")
    taken: dict[str, list[Any]] = {name: [] for name in METRICS}
    for call, step in zip(lived["calls"][1:], steps[1:], strict=True):
        assert step["answer"] in ("recorded", "value"), (call, step["answer"])
        if step["answer"] == "recorded" and call["value"] not in taken[call["metric"]]:
            taken[call["metric"]].append(call["value"])
    return taken


@pytest.mark.exact
def test_both_clients_take_the_same_values(tmp_path: Path) -> None:
    require_web_client()
    (tmp_path / "node").mkdir()
    python, web = answers(tmp_path, False), answers(tmp_path / "node", True)
    web["set"] = [value for value in web["set"] if not isinstance(value, list)]  # a set, there
    for name in METRICS:
        assert python[name] == web[name], name


@pytest.mark.exact
@pytest.mark.parametrize("name", METRICS)
def test_no_number_or_text_silences_a_report_of_public_presence(name: str, tmp_path: Path) -> None:
    """Not a number counts as below all bounds, and text that is not Unicode is replaced.

    A missing report would reveal such a value.
    """
    taken = answers(tmp_path, False)[name]
    assert [value for value in RECORDED[name] if value not in taken] == []


NAMES: list[Any] = ["listed", "old", "", "Listed", "__proto__", "constructor", "toString"]
NAMES += [["listed"], [["listed"]], [], {}, {"listed": 1}, None, True, 5, 1.5]
"""Names that an app may record: a metric, one that expired, and faults."""


@pytest.mark.exact
def test_both_clients_decline_a_fault_for_the_same_reason(tmp_path: Path) -> None:
    """A list of one name counted as the name in the TypeScript client."""
    require_web_client()
    how = METRICS["listed"]
    text = HEAD + METRIC.format(name="listed", how=how)
    text += METRIC.format(name="old", how=how).replace("2999-12-31", "2027-01-01")
    (tmp_path / "metrics.toml").write_text(text)
    document = resolved_bytes(Registry.load(tmp_path / "metrics.toml")).decode()
    records = [
        {"call": "record", "at": 1_800_000_000, "metric": name, "value": value}
        for name in NAMES
        for value in ("a", *ODD)
    ]
    consent, withdrawal = ({"call": call, "at": 1_800_000_000} for call in ("grant", "withdraw"))
    calls = [*records, consent, *records, withdrawal, *records]
    both: Life = {"seed": 0, "registries": [{"toml": text, "json": document}], "calls": calls}
    steps = zip(play(both, tmp_path / "device"), next(play_in_node([both])), strict=True)
    reasons = set()
    for call, (python, web) in zip(calls, steps, strict=True):
        assert python["answer"] == web["answer"], call
        reasons.add(python["answer"])
    assert reasons >= {"recorded", "consent", "unknown metric", "value", "expired"}
