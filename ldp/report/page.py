"""Estimates as a page that opens from disk: no network, no script; labels are HTML text.

Each discovery is a row: name, bar with the selection-adjusted interval, numbers. Geometry is
computed here as percentages of the row; `page.html` only places it.
"""

import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ldp.accounting.explain import PRIORS, in_words, posterior
from ldp.errors import DecodeError
from ldp.estimates import COLUMNS, CONTROLS, summary_path

_NUMBERS = [name for name in COLUMNS if name != "value"]
_NEVER_EMPTY = {"count", "std_error", "low", "high", "detected"}
_SELECTED = {"selected_low", "selected_high"}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and abs(value) < 1e300


def _is_text(value: object) -> bool:
    return isinstance(value, str)


TESTED = {
    "direct": "The count of each candidate was tested against the law that it has if nobody holds "
    "it: binomial, exactly, or normal where reports share a permanent response.",
    "geometry": "The reports that name a point of each candidate's hyperplane were tested against "
    "the law that their number has if nobody holds it: binomial, exactly.",
    "histogram": "The count of each bucket was tested against the law that it has if nobody is in "
    "it: binomial, exactly.",
    "mean-sketch": "The average of each candidate's cells was tested against the law of noise and "
    "collisions that it has if nobody holds it.",
    "regression": "The candidates were fitted together by weighted least squares, or those that "
    "forward selection chose where there are many, and each was tested against a count of 0.",
    "lasso-ols": "A non-negative lasso chose candidates, least squares estimated those that it "
    "chose, and each was tested against a count of 0.",
    "puzzle": "Words were put together from the fragments that stand out, and each word was then "
    "tested on a table of its own, whose noise had no part in choosing it.",
}
"""What each method does, for the page."""

_SUMMARY: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("noise_std_error", "noise_floor", "unexplained_share"), _is_number),
    **dict.fromkeys(
        ("epsilon", "reports", "candidates", "detected"),
        lambda value: _is_number(value) and value >= 0,
    ),
    **dict.fromkeys(("level", "alpha"), lambda value: _is_number(value) and 0 < value < 1),
    **dict.fromkeys(("method", "mechanism", "fingerprint"), _is_text),
    "control": lambda value: value in CONTROLS,
    "threshold": lambda value: value is None or _is_number(value),
    **dict.fromkeys(
        ("warning", "consistency_bias"), lambda value: value is None or _is_text(value)
    ),
    "windows": lambda value: isinstance(value, list) and all(map(_is_text, value)),
}


@dataclass(frozen=True, kw_only=True)
class Results:
    """An estimates file read back: `rows` of its columns as numbers (None where empty), and the
    `summary` beside it. `path` names the file where `name` does not tell two apart."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any]
    path: str = ""

    @classmethod
    def load(cls, path: str | Path) -> "Results":
        """Reads E.csv and the summary beside it; raises DecodeError naming the file that is
        wrong."""
        path = Path(path)
        beside = summary_path(path)
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                reader = csv.DictReader(file)
                columns, cells = tuple(reader.fieldnames or ()), list(reader)
            rows = [_row(row) for row in cells] if columns == COLUMNS else None
        except OSError as error:
            raise DecodeError(f"cannot read {path}: {error.strerror}") from None
        except (ValueError, csv.Error):
            raise DecodeError(f"{path}: not as `ldp decode` wrote it") from None
        if rows is None:
            raise DecodeError(f"{path}: not an estimates file")
        try:
            summary = json.loads(beside.read_text("utf-8"))
        except OSError as error:
            raise DecodeError(f"cannot read {beside}: {error.strerror}") from None
        except (ValueError, RecursionError):
            raise DecodeError(f"{beside}: not as `ldp decode` wrote it") from None
        if not isinstance(summary, dict):
            raise DecodeError(f"{beside}: not as `ldp decode` wrote it")
        for name, fits in _SUMMARY.items():
            if not fits(summary.get(name)):
                raise DecodeError(f"{beside}: {name} is not as `ldp decode` writes it")
        return cls(name=path.stem, rows=rows, summary=summary, path=str(path))

    @property
    def discovered(self) -> list[Mapping[str, Any]]:
        return [row for row in self.rows if row["detected"]]

    def compared(self, truth: Mapping[str, int]) -> dict[str, Any]:
        """How the estimates stand to the truth: counts of discoveries, false ones and intervals
        that hold, for simulations. A candidate that the truth does not name is held by nobody."""
        found, level = self.discovered, self.summary["level"]
        held = [row["low"] <= truth.get(row["value"], 0) <= row["high"] for row in self.rows]
        selected = [
            row["selected_low"] <= truth.get(row["value"], 0) <= row["selected_high"]
            for row in found
        ]
        typed = [row for row in self.rows if truth.get(row["value"], 0) > 0]
        floor = self.summary["noise_floor"]
        return {
            "level": level,
            "held_by_somebody": len(typed),
            "unnamed": sum(row["value"] not in truth for row in self.rows),
            "below_floor": sum(truth[row["value"]] < floor for row in typed),
            "false": sum(truth.get(row["value"], 0) == 0 for row in found),
            "missed": sum(not row["detected"] for row in typed),
            "intervals_hold": sum(held) / len(held) if held else None,
            "selected_hold": sum(selected) / len(selected) if selected else None,
        }


def render(
    results: Sequence[Results], truth: Mapping[str, int] | None = None, title: str | None = None
) -> str:
    """The page as HTML text; `truth` (value -> count) is drawn beside the estimates, `title` (by
    default the files' names) stands above. Raises DecodeError when `truth` names no candidate; a
    file that it does not touch, beside others that it does, is shown without it."""
    environment = Environment(
        loader=PackageLoader("ldp.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["count"] = _written
    environment.filters["percent"] = lambda share: f"{100 * share:.3g}\N{NO-BREAK SPACE}%"
    template = environment.get_template("page.html")
    known = [
        truth if any(row["value"] in (truth or {}) for row in result.rows) else None
        for result in results
    ]
    if truth is not None and not any(known):
        raise DecodeError("no candidate is named in the truth")
    stems = [result.name for result in results]
    names = [
        result.path if result.path and stems.count(result.name) > 1 else result.name
        for result in results
    ]
    sections = [
        {**_section(result, about), "name": name, "untold": truth is not None and about is None}
        for result, about, name in zip(results, known, names, strict=True)
    ]
    odds = [
        {
            "epsilon": epsilon,
            "words": in_words(epsilon),
            "beliefs": [(prior, posterior(prior, epsilon)) for prior in PRIORS],
        }
        for epsilon in dict.fromkeys(result.summary["epsilon"] for result in results)
    ]
    return template.render(title=title or ", ".join(names), sections=sections, odds=odds)


def _row(cells: Mapping[str, str]) -> dict[str, Any]:
    """One line of the file as numbers; raises ValueError unless all are there that must be."""
    numbers = {name: float(cells[name]) if cells[name] else None for name in _NUMBERS}
    needed = _NEVER_EMPTY | (_SELECTED if numbers["detected"] else set())
    if not all(
        name not in needed if number is None else _is_number(number)
        for name, number in numbers.items()
    ):
        raise ValueError
    return {"value": cells["value"], **numbers}


def _section(results: Results, truth: Mapping[str, int] | None) -> dict[str, Any]:
    found, summary = results.discovered, results.summary
    reports, floor = summary["reports"], summary["noise_floor"]
    top = max(
        [1.0, floor]
        + [row["selected_high"] for row in found]
        + [truth.get(row["value"], 0) for row in found if truth]
    )

    def along(count: float) -> float:
        return round(100 * math.sqrt(min(max(count / top, 0.0), 1.0)), 3)

    bars = []
    for rank, row in enumerate(found, 1):
        count = min(max(row["count"], 0), reports)
        low, high = row["selected_low"], row["selected_high"]
        held = None if truth is None else truth.get(row["value"], 0)
        bars.append(
            {
                "value": row["value"],
                "rank": rank,
                "count": count,
                "low": low,
                "high": high,
                "bar": along(count),
                "start": along(low),
                "reach": along(high) - along(low),
                "truth": held,
                "at": None if held is None else along(held),
                "holds": held is None or low <= held <= high,
            }
        )
    printed = [bar[name] for bar in bars for name in ("count", "high", "truth")]
    return {
        "summary": summary,
        "warning": summary.get("warning"),
        "bias": summary.get("consistency_bias"),
        "tested": TESTED.get(summary["method"], ""),
        "explained": min(max(1 - summary["unexplained_share"], 0.0), 1.0),
        "rest": len(results.rows) - len(found),
        "comparison": None if truth is None else results.compared(truth),
        "floor": along(floor),
        "findable": summary["threshold"] is not None or not summary.get("warning"),
        "bars": bars,
        "from_zero": sum(bar["low"] < 0.5 for bar in bars),
        "clipped": any(bar["count"] != row["count"] for bar, row in zip(bars, found, strict=True)),
        "digits": max([1, *(len(_written(number)) for number in printed if number is not None)]),
        "ticks": _ticks(top, along),
    }


def _written(number: float) -> str:
    return f"{number:,.0f}".replace("-", "−")


def _ticks(top: float, along: Callable[[float], float]) -> list[dict[str, Any]]:
    """Round numbers up to `top`, where they stand on the square-root scale, and whether the text
    ends there; as many as do not touch, a character being 2 % of the narrowest row at most."""
    ticks = [{"text": "0", "at": 0.0, "ends": False}]
    free = 5.0
    for number in (first * 10.0**exponent for exponent in range(16) for first in (1, 2, 5)):
        text = _written(number) if number < 1e6 else f"{_written(number / 1e6)} M"
        place, width = along(number), 2.0 * len(text)
        ends = place + width / 2 > 102
        left = place - (width if ends else width / 2)
        if number <= top and left >= free:
            ticks.append({"text": text, "at": place, "ends": ends})
            free = left + width + 2
    return ticks
