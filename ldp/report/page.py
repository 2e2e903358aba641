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
from ldp.estimates import COLUMNS

_NUMBERS = [name for name in COLUMNS if name != "value"]


@dataclass(frozen=True, kw_only=True)
class Results:
    """An estimates file read back: `rows` of its columns as numbers (None where empty), and the
    `summary` beside it."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any]

    @classmethod
    def load(cls, path: str | Path) -> "Results":
        """Reads E.csv and E.json; raises DecodeError naming the file that is wrong."""
        path = Path(path)
        beside = path.with_suffix(".json")
        try:
            with path.open(encoding="utf-8", newline="") as file:
                reader = csv.DictReader(file)
                if tuple(reader.fieldnames or ()) != COLUMNS:
                    raise DecodeError(f"{path}: not an estimates file")
                rows = [
                    {"value": row["value"]}
                    | {name: float(row[name]) if row[name] else None for name in _NUMBERS}
                    for row in reader
                ]
            summary = json.loads(beside.read_text("utf-8"))
            _ = summary["epsilon"], summary["noise_floor"], summary["reports"], summary["level"]
        except OSError as error:
            raise DecodeError(f"cannot read {error.filename}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, DecodeError):
                raise
            raise DecodeError(f"{path} or {beside}: not as `ldp decode` wrote it") from None
        return cls(name=path.stem, rows=rows, summary=summary)

    @property
    def discovered(self) -> list[Mapping[str, Any]]:
        return [row for row in self.rows if row["detected"]]

    def compared(self, truth: Mapping[str, int]) -> dict[str, Any]:
        """How the estimates stand to the truth: counts of discoveries, false ones and intervals
        that hold, for simulations."""
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
            "below_floor": sum(truth[row["value"]] < floor for row in typed),
            "false": sum(truth.get(row["value"], 0) == 0 for row in found),
            "missed": sum(not row["detected"] for row in typed),
            "intervals_hold": sum(held) / len(held),
            "selected_hold": sum(selected) / len(selected) if selected else None,
        }


def render(
    results: Sequence[Results], truth: Mapping[str, int] | None = None, title: str | None = None
) -> str:
    """The page as HTML text; `truth` (value -> count) is drawn beside the estimates, `title` (by
    default the files' names) stands above."""
    environment = Environment(
        loader=PackageLoader("ldp.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["count"] = lambda number: f"{number:,.0f}".replace("-", "−")
    environment.filters["percent"] = lambda share: f"{100 * share:.3g} %"
    template = environment.get_template("page.html")
    sections = [_section(result, truth) for result in results]
    named = title or ", ".join(result.name for result in results)
    return template.render(title=named, sections=sections)


def _section(results: Results, truth: Mapping[str, int] | None) -> dict[str, Any]:
    found, summary = results.discovered, results.summary
    top = max(
        [1.0, summary["noise_floor"]]
        + [row["selected_high"] for row in found]
        + [truth.get(row["value"], 0) for row in found if truth]
    )

    def along(count: float) -> float:
        return round(100 * math.sqrt(min(max(count / top, 0.0), 1.0)), 3)

    return {
        "name": results.name,
        "summary": summary,
        "rest": len(results.rows) - len(found),
        "comparison": None if truth is None else results.compared(truth),
        "floor": along(summary["noise_floor"]),
        "bars": [
            {
                "row": row,
                "rank": rank,
                "bar": along(row["count"]),
                "low": along(row["selected_low"]),
                "reach": along(row["selected_high"]) - along(row["selected_low"]),
                "truth": None if truth is None else truth.get(row["value"], 0),
                "at": None if truth is None else along(truth.get(row["value"], 0)),
                "holds": truth is None
                or row["selected_low"] <= truth.get(row["value"], 0) <= row["selected_high"],
            }
            for rank, row in enumerate(found, 1)
        ],
        "ticks": _ticks(top, along),
        "odds": [(prior, posterior(prior, summary["epsilon"])) for prior in PRIORS],
        "words": in_words(summary["epsilon"]),
    }


def _ticks(top: float, along: Callable[[float], float]) -> list[tuple[float, float]]:
    """Round numbers up to `top`, and where they stand on the square-root scale."""
    places = [(0.0, 0.0)]
    for number in (first * 10.0**exponent for exponent in range(16) for first in (1, 2, 5)):
        if number <= top and along(number) - places[-1][1] >= 9:
            places.append((number, along(number)))
    return places
