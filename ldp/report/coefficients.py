"""A regression on the page: coefficients with intervals."""

from collections.abc import Mapping
from typing import Any

from ldp.report.formats import percent, quantity, span, ticks
from ldp.tables.saved import SavedResult


def facts(file: SavedResult) -> list[tuple[str, str]]:
    """Return what must be trusted of a `file`: pairs of a question and its answer."""
    answers = []
    if "level" in file.facts:
        answers.append(
            (
                "Intervals",
                f"Each holds the least-squares coefficient of the population that the reports come "
                f"from with probability {percent(file.facts['level'])}, by itself.",
            )
        )
    if "fakes_move" in file.facts:
        words = "1 % of them could move each coefficient as far as its last column says."
        answers.append(("Made-up reports", words))
    return answers


def face(file: SavedResult) -> dict[str, Any]:
    """Return the data of the page of a `file`: terms, with their places on an axis that all
    coefficients but the intercept share."""
    moves = file.facts.get("fakes_move") or [None] * file.size
    rows = [{**row, "fakes_move": far} for row, far in zip(file.rows(), moves, strict=True)]
    slopes = rows[:-1]
    ends = [0.0, *(row[name] or 0.0 for row in slopes for name in ("estimate", "low", "high"))]
    low, high = min(ends), max(ends)
    reach = (high - low) or 1.0

    def along(number: float) -> float:
        return round((number - low) / reach, 5)

    def places(row: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "at": along(row["estimate"]),
            "start": 0.0 if row["low"] is None else along(row["low"]),
            "end": 1.0 if row["high"] is None else along(row["high"]),
        }

    return {
        "rows": [
            {
                **row,
                "text": quantity(row["estimate"]),
                "span": span(row["low"], row["high"]),
                **(places(row) if row["value"] != "intercept" else {"at": None}),
            }
            for row in rows
        ],
        "zero": along(0.0),
        "ticks": ticks(low, high),
    }
