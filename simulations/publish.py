"""Is a data set that was published through kills and late reports the one of an undisturbed run?

`python -m simulations.publish` simulates 90 days of six metrics, one of which gets a second version
on the way, and publishes every night: in one folder undisturbed, in another by processes that are
killed at random moments, with reports that come late. It compares the two data sets row by row and
exits 1 when they differ. `--days` takes a sample.
"""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from ldp.collection import ReportWriter
from ldp.registry import Registry
from ldp.simulation import Population, simulate

START = date(2026, 1, 1)
DAYS, KILLS, LATE, PEOPLE = 90, 50, 40, 2_000
METRIC = """
[metric.{name}]
version = {version}
group = "app"
description = "{about}"
owners = ["map-team@example.org"]
expires = 2999-12-31
{keys}
"""
HEAD = """\
[product]
name = "maps"
[group.app]
window = "1d"
window_epsilon = 100.0
lifetime_epsilon = 100000.0
"""
WORDS = ("map", "bus", "train", "café", "home", "work", "park", "shop", "bank", "pier")
UNARY = 'mechanism = "unary"\nepsilon = 3.0\ncategories = '
METRICS: Mapping[str, tuple[str, str]] = {
    "theme": (
        "Colours that people draw the map in",
        'mechanism = "rr"\nepsilon = 2.0\ncategories = ["light", "dark", "system", "sepia"]',
    ),
    "search": (
        "Words that people look for",
        'mechanism = "cms"\nepsilon = 4.0\nrows = 64\nwidth = 128\ndictionary = "words.txt"',
    ),
    "latency": (
        "Milliseconds until the map is drawn",
        'mechanism = "hierarchical-histogram"\nepsilon = 4.0\nbounds = [0.0, 1024.0]',
    ),
    "battery": (
        "Charge of the battery in percent",
        'mechanism = "one-bit-mean"\nepsilon = 2.0\nbounds = [0.0, 100.0]',
    ),
    "shortcut": (
        "Shortcuts that people use",
        'mechanism = "rappor"\ncohorts = 4\nbits = 32\nhashes = 2\nf = 0.5\np = 0.5\nq = 0.75\n'
        'memoise = "per-value"\ndictionary = "words.txt"',
    ),
    "release": ("Version of the app", UNARY + '["9.4", "9.3", "8.0"]'),
    "connection": ("How the device is connected", UNARY + '["wifi", "mobile", "none"]'),
    "network": (
        "Connections by version of the app",
        'mechanism = "joint"\nof = ["release", "connection"]',
    ),
}
"""What each metric is about, and its keys of the registry."""
REPORTED = ("theme", "search", "latency", "battery", "shortcut", "network")


def registry_text(version: int = 1) -> str:
    """Return the registry; `version` is that of the theme, which has a fifth colour from 2 on."""
    texts = []
    for name, (about, keys) in METRICS.items():
        number = version if name == "theme" else 1
        if name == "theme" and version > 1:
            keys = keys.replace('"sepia"', '"sepia", "night"')
        texts.append(METRIC.format(name=name, version=number, about=about, keys=keys))
    return HEAD + "".join(texts)


def write_registry(folder: Path, version: int = 1) -> Registry:
    """Write metrics.toml and its dictionary there, and load it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "words.txt").write_text("\n".join(WORDS) + "\n", "utf-8")
    (folder / "metrics.toml").write_text(registry_text(version), "utf-8")
    return Registry.load(folder / "metrics.toml")


def values_of(metric: str, people: int, random: np.random.Generator) -> Population:
    """Return what `people` hold of a metric: the first of a list most often."""

    def drawn(values: tuple[Any, ...]) -> Population:
        weights = 1 / np.arange(1.0, len(values) + 1)
        return Population(values, counts=random.multinomial(people, weights / weights.sum()))

    if metric == "theme":
        return drawn(("light", "dark", "system", "sepia"))
    if metric == "latency":
        return drawn((12.0, 80.0, 200.0, 31.0, 700.0))
    if metric == "battery":
        return drawn((80.0, 55.0, 20.0))
    if metric == "network":
        return drawn((("9.4", "wifi"), ("9.3", "mobile"), ("9.4", "mobile"), ("8.0", "none")))
    return drawn(WORDS)


def write_reports(
    store: Path,
    registry: Registry,
    metric: str,
    day: date,
    random: np.random.Generator,
    part: str,
    people: int = PEOPLE,
) -> None:
    """Write a file of the reports of `people` on one day, as a collector does."""
    definition = registry.metric(metric)
    with ReportWriter(store, metric, definition.version, definition.mechanism, day, part) as file:
        for rows, payloads in simulate(
            definition.mechanism, values_of(metric, people, random), random
        ):
            file.write(rows, payloads)
