"""Run commands that read results, on committed tables and stores, and collect their numbers.

`python -m tests.printed` rewrites the expected numbers; `python -m tests.printed --inputs` draws
the tables and stores again. They are in `tests/data/printed/`; `metrics.toml` there describes each.
"""

import json
import re
import shlex
import shutil
import sys
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from contextlib import chdir
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from click.testing import CliRunner

from ldp.cli import commands
from ldp.collection import ReportWriter
from ldp.registry import Registry
from ldp.simulation import Population, draw_reports, draw_tables

FOLDER = Path(__file__).parent / "data" / "printed"
EXPECTED = FOLDER / "numbers.json"
NUMBER = re.compile(
    r"(?<![\w.#&/-])[-−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w)"
)
DIGITS = 9
"""Most significant digits of the expected numbers; further digits differ between machines."""
DECIMALS = 15
"""Most decimals of those: what is nearly 0 is a difference, rounded as the numbers it came from."""
ROUNDING = 1e-9
"""Largest number of more digits that may be the rounding error of a 0."""
LEAST_TAIL = 1e-15
"""Least p-value of a law by transform, which is its error: ARM prints 1.681e-14 for 1.724e-14."""
Numbers = dict[str, list[str]]
"""Numbers that a case printed: on the terminal, in its files, on its pages."""

THEMES = ("light", "dark", "system", "sepia", "night")
WORDS = ("map", "bus", "train", "café", "home", "work", "park", "shop", "bank", "pier")
TABLES: Mapping[str, Mapping[Any, int]] = {
    **{
        name: dict(zip(THEMES, (2000, 1000, 600, 400, 0), strict=True))
        for name in ("theme", "layout", "hand", "station")
    },
    "theme-new": dict(zip(THEMES, (1500, 1500, 600, 300, 100), strict=True)),
    **{
        name: dict(zip(WORDS, (3000, 1500, 1000, 750, 600, 500, 430, 380, 330, 300), strict=True))
        for name in ("search", "emoji", "query", "shortcut")
    },
    "apps": {
        frozenset(("maps", "mail")): 1500,
        frozenset(("music",)): 1000,
        frozenset(("maps", "news", "music")): 500,
        frozenset[str](): 500,
    },
    "boxes": {frozenset(("maps", "mail")): 1500, frozenset(("music",)): 1000},
    "hour": {30.0: 1000, 600.0: 2000, 1200.0: 3000, 1300.0: 500},
    "battery": {80.0: 2000, 55.0: 1000, 20.0: 500},
    "height": {80.0: 2000, 55.0: 1000, 20.0: 500},
    "latency": {12.0: 4000, 80.0: 2000, 200.0: 1500, 31.0: 1000, 700.0: 300},
    "startup": {
        ("2.0", 12.0): 9000,
        ("2.0", 80.0): 3000,
        ("2.1", 60.0): 9000,
        ("2.1", 300.0): 3000,
        ("other", 20.0): 2000,
    },
    "flat": {(2.0, 0.1, 30.0): 3000, (4.0, 0.9, 50.0): 3000, (8.0, 0.5, 90.0): 3000},
    "typed": {"cab": 6000, "bad": 3000, "face": 1500, "edge": 1000},
    "puzzled": {"cab": 9000, "badc": 5000, "dada": 2500},
}
"""What people hold, by metric, for metrics with a table."""
STORES: Mapping[str, Mapping[Any, int]] = {
    "theme": dict(zip(THEMES, (700, 300, 200, 100, 0), strict=True)),
    "theme-new": dict(zip(THEMES, (500, 500, 200, 100, 50), strict=True)),
    "homepage": dict(zip(WORDS[:3], (1200, 600, 300), strict=True)),
    "battery": {80.0: 700, 55.0: 400, 20.0: 100},
    "battery-new": {80.0: 400, 55.0: 400, 20.0: 400},
    "latency": {12.0: 1200, 80.0: 600, 200.0: 300},
    "startup": {("2.0", 12.0): 900, ("2.1", 80.0): 900, ("other", 20.0): 300},
    "network": {
        ("9.4", "wifi"): 900,
        ("9.3", "mobile"): 500,
        ("9.4", "mobile"): 200,
        ("8.0", "none"): 200,
    },
    "joined": {"cab": 1200, "badc": 800},
}
"""What people hold on the first of two days, by metric, for metrics with reports."""
DAYS = ("2026-01-05", "2026-01-06")
R = "--registry metrics.toml"
CASES: Mapping[str, Sequence[str]] = {
    "rr": ["decode theme.table --out a.csv", "report a.csv --out a.html"],
    "rr at a level": ["decode theme.table --level 0.8 --rule fdr=0.2 --out a.csv"],
    "rr by count": ["decode theme.table --rule threshold=500 --out -"],
    "rr without control": ["decode theme.table --rule none --out -"],
    "rr as JSON": ["decode theme.table --json --out a.csv"],
    "rr with made-up reports": [
        "decode theme.table --fakes 2% --out a.csv",
        "report a.csv --out a.html",
    ],
    "unary": ["decode layout.table --out a.csv", f"report a.csv {R} --out a.html"],
    "unary made consistent": [
        "decode layout.table --consistency sum-to-n --out a.csv",
        "decode layout.table --consistency non-negative --out b.csv",
        "report a.csv --out a.html",
    ],
    "subset": ["decode hand.table --out a.csv --level 0.9"],
    "memoised": ["decode station.table --out a.csv", "report a.csv --out a.html"],
    "memoised, of several days": [
        "merge station.table station-2.table --out both.table",
        "decode both.table --weighted-reports-per-client 2 --out a.csv",
    ],
    "cms": [
        "decode search.table --candidates words.txt --out a.csv",
        "report a.csv --truth search.csv --out a.html",
    ],
    "cms by count": ["decode search.table --candidates words.txt --rule threshold=400 --out a.csv"],
    "hcms": ["decode emoji.table --candidates words.txt --out a.csv"],
    "local hashing": [
        "decode query.table --candidates words.txt --fakes 1% --out a.csv --json",
        "report a.csv --out a.html",
    ],
    "rappor": [
        "decode shortcut.table --candidates words.txt --out a.csv",
        "decode shortcut.table --candidates words.txt --method lasso-ols --out b.csv",
        "report a.csv --out a.html",
    ],
    "rappor by whole reports": [
        f"aggregate homepage store {R} --whole --until 2026-01-05 --out a.table",
        "decode a.table --candidates words.txt --out a.csv",
        "report a.csv --out a.html",
    ],
    "sets": ["decode apps.table --out a.csv", "report a.csv --out a.html"],
    "sets of unary": ["decode boxes.table --fakes 1% --out a.csv"],
    "bit-flip": [
        "decode hour.table --out a.csv",
        "report a.csv --out a.html",
        "decode hour.table --quantile 0.5 --quantile 0.9 --out b.csv",
        "report b.csv --truth hour.csv --out b.html",
    ],
    "mean": ["decode battery.table --out a.csv", "report a.csv --out a.html"],
    "mean, piecewise": [
        "decode height.table --fakes 1% --level 0.9 --out a.csv",
        "decode height.table --json --out -",
    ],
    "percentiles": [
        "decode latency.table --out a.csv",
        "report a.csv --truth latency.csv --out a.html",
    ],
    "percentiles asked for": ["decode latency.table --quantile 0.25 --level 0.8 --out -"],
    "percentiles with made-up reports": [
        "decode latency.table --fakes 1% --out a.csv",
        "report a.csv --out a.html",
    ],
    "percentiles as JSON": ["decode latency.table --json --out a.csv"],
    "by category": [
        "decode startup.table --quantile 0.5 --quantile 0.9 --out a.csv",
        f"report a.csv --truth startup.csv {R} --out a.html",
        "decode startup.table --quantile 0.5 --fakes 1% --json --out b.csv",
    ],
    "regression": [
        "decode flat.table --out a.csv",
        "report a.csv --out a.html",
        "decode flat.table --level 0.8 --json --out b.csv",
    ],
    "prefixes": ["decode typed.table --out a.csv", "report a.csv --out a.html"],
    "puzzle": [
        "decode puzzled.table --method 'puzzle, top = 4' --out a.csv",
        "decode puzzled.table --method 'puzzle, top = 4' --json --out b.csv --rule threshold=100",
        "decode puzzled.table --part words --candidates some.txt --out c.csv",
    ],
    "n-grams": [
        f"aggregate joined {R} strings --out a.table",
        "decode a.table --out a.csv",
        "report a.csv --out a.html",
    ],
    "association": [
        f"aggregate network {R} store --out a.table",
        "decode a.table --out a.csv",
        f"report a.csv {R} --out a.html",
        f"aggregate network {R} store --until 2026-01-05 --out b.table",
        "decode b.table --level 0.8 --json --out b.csv",
        f"aggregate homepage store {R} --whole --since 2026-01-06 --out c.table",
        "decode c.table --candidates words.txt --out c.csv",
    ],
    "several days": [
        f"aggregate theme store {R} --until 2026-01-05 --out one.table",
        f"aggregate theme store {R} --since 2026-01-06 --out two.table",
        "decode one.table --out one.csv",
        "decode two.table --out two.csv",
        "report one.csv two.csv --out a.html",
        "merge one.table two.table --out both.table",
        "decode both.table --out both.csv",
    ],
    "imported counts": [
        f"table import theme counts.csv {R} --day 2026-01-05 --out a.table --json",
        "decode a.table --out a.csv",
    ],
    "google's files": [
        "rappor export shortcut.table --candidates words.txt --out google",
        "rappor import --params google/params.csv --counts google/counts.csv --out a.table",
        "decode a.table --rappor-map google/map.csv --out a.csv",
    ],
    "central": [f"central theme {R} --data theme.csv --seed 1 --out a.csv"],
    "published": [
        f"publish {R} --store store --out out --until 2026-01-06 --csv a.csv --config arms.toml",
    ],
    "published with made-up reports": [
        f"publish {R} --store store --out out --until 2026-01-06 --csv a.csv --config fakes.toml",
    ],
}
"""Commands of each case, in a folder with a copy of the inputs."""


def run_case(lines: Iterable[str]) -> Numbers:
    """Run the commands of a case in a folder of its own; return the numbers that they print."""
    with TemporaryDirectory() as top, chdir(top):
        shutil.copytree(FOLDER, top, dirs_exist_ok=True, ignore=lambda *_: [EXPECTED.name])
        inputs, terminal = set(Path().rglob("*")), ""
        for line in lines:
            done = CliRunner().invoke(commands, shlex.split(line))
            assert done.exit_code == 0, f"{line}: {done.output}{done.exception!r}"
            terminal += done.output
        outputs = sorted(set(Path().rglob("*")) - inputs)
        texts = {
            "terminal": [terminal],
            "files": [_read(path) for path in outputs if path.suffix in (".csv", ".json")],
            "pages": [_visible(_read(path)) for path in outputs if path.suffix == ".html"],
        }
    return {name: numbers_in("\n".join(text)) for name, text in texts.items() if text}


def _read(path: Path) -> str:
    return path.read_text("utf-8")


def _visible(page: str) -> str:
    """Return the text of a page, without its style and its scripts."""
    return re.sub(r"(?s)<(style|script)\b.*?</\1>|<[^>]*>", " ", page)


def numbers_in(text: str) -> list[str]:
    """Return the numbers of a text, each once, without dates, versions and fingerprints.

    A comma separates numbers in lines of a CSV file.
    """
    lines = (
        line.replace(",", " ") if re.search(r",\S*,\S*,", line) else line
        for line in text.splitlines()
    )
    text = re.sub(r"\b\d{4}-\d\d-\d\d(T[\d:.]+\S*)?|\b\d+(\.\d+){2,}", " ", "\n".join(lines))
    return list(dict.fromkeys(_shortened(number) for number in NUMBER.findall(text)))


def _shortened(number: str) -> str:
    """Return a number without commas, of at most `DIGITS` digits."""
    number = number.replace(",", "").replace("−", "-")
    digits = len(re.sub(r"[eE].*|\D", "", number).lstrip("0"))
    if digits <= DIGITS and not LEAST_TAIL < abs(float(number)) < 1e-11:
        return number
    rounded = f"{round(float(number), DECIMALS):.{DIGITS}g}"
    return rounded if digits <= DIGITS or abs(float(number)) > ROUNDING else "0"


def missing(expected: Iterable[str], printed: Iterable[str]) -> list[str]:
    """Return the expected numbers to which no printed one rounds, at their printed precision."""
    values = sorted(map(float, printed))
    return [number for number in expected if not _is_among(number, values)]


def _is_among(number: str, values: Sequence[float]) -> bool:
    mantissa, _, exponent = number.lower().partition("e")
    half = 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    value, slack = float(number), half * (1 + 1e-6)
    place = bisect_left(values, value - slack)
    return place < len(values) and values[place] <= value + slack


def write_inputs() -> None:
    """Draw the tables and the stores again, and write what people hold beside them."""
    registry = Registry.load(FOLDER / "metrics.toml")
    for name, holders in TABLES.items():
        metric = registry.metric(name)
        counts = np.array(list(holders.values()))
        people = Population(tuple(holders), counts=counts)
        for seed, suffix in ((1, ""), (2, "-2")):
            if suffix and name != "station":
                continue
            random = np.random.default_rng([seed, len(name)])
            table = draw_tables(metric.mechanism, people.values, counts, random)
            table.of_metric(metric.candidates()).save(FOLDER / f"{name}{suffix}.table")
        if not isinstance(people.values[0], frozenset):
            (FOLDER / f"{name}.csv").write_text(people.to_csv(), "utf-8")
    for folder in ("store", "strings"):
        shutil.rmtree(FOLDER / folder, ignore_errors=True)
    for name, holders in STORES.items():
        metric = registry.metric(name)
        counts = np.array(list(holders.values()))
        for number, day in enumerate(DAYS):
            random = np.random.default_rng([number, len(name)])
            people = Population(tuple(holders), counts=np.roll(counts, number))
            with ReportWriter(
                FOLDER / ("strings" if name == "joined" else "store"),
                name,
                1,
                metric.mechanism,
                date.fromisoformat(day),
                "a",
            ) as file:
                for rows, payloads in draw_reports(metric.mechanism, people, random):
                    file.write(rows, payloads)


def main() -> None:
    """Rewrite the expected numbers, or the inputs."""
    if "--inputs" in sys.argv:
        write_inputs()
        return
    expected = {name: run_case(lines) for name, lines in CASES.items()}
    rows = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in expected.items()
    )
    EXPECTED.write_text(f"{{\n{rows}\n}}\n", "utf-8")


if __name__ == "__main__":
    main()
