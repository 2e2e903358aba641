"""A cross table on the page: which values of two or more questions go together."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from string import ascii_lowercase
from typing import Any

import numpy as np

from ldp.report.formats import counted, p_text, percent, quantity, whole_number
from ldp.tables.saved import SavedResult

LAST = "(other)"
"""Name of all values that are not listed: the last row and column."""
MOST_LINES, MOST_COLUMNS, MOST_LAYERS = 40, 16, 8
"""Most rows, columns and heat maps that are drawn; the list has more."""
WIDE = 8
"""Number of columns from which a cell holds its share alone, without the interval."""


def facts(file: SavedResult) -> Iterator[tuple[str, str]]:
    """Yield what must be trusted of a `file`: a question and its answer, one after the other."""
    summary = file.facts
    alpha, level = percent(summary["alpha"]), percent(summary["level"])
    yield (
        "Error rate",
        {
            "fdr": f"On average at most {alpha} of the marked combinations are held by nobody.",
            "bonferroni": f"With probability {percent(1 - summary['alpha'])} or more, somebody "
            "holds each of the marked combinations.",
        }.get(summary["control"], f"Each combination was tested at {alpha} by itself."),
    )
    yield (
        "Intervals",
        f"{level}, for a combination that was chosen beforehand, not for the largest picked here.",
    )
    test = summary["independence"]
    if test["p_value"] is not None:
        does = "does not show" if test["p_value"] > summary["alpha"] else "shows"
        yield (
            "Do the answers go together?",
            f"A test {does} that they do: chi-square {quantity(test['statistic'])}, "
            f"{counted(test['freedom'], 'degree')} of freedom, p-value {p_text(test['p_value'])}.",
        )
    if summary.get("fakes_move") is not None:
        yield (
            "Made-up reports",
            f"1 % of them could move a count by {whole_number(summary['fakes_move'])}.",
        )


def face(file: SavedResult, most: int) -> dict[str, Any]:
    """Return the data of the page of a `file`: heat maps, one for each value of a third member, and
    a list of at most `most` combinations."""
    summary = file.facts
    n = max(1, summary["reports"])
    by_count = np.argsort(-np.asarray(file.saved["estimate"]), kind="stable").tolist()
    rows = [
        {
            **row,
            "share": row["estimate"] / n,
            "span": f"{100 * row['low'] / n:.3g} to {percent(row['high'] / n)}",
        }
        for row in file.rows(by_count)
    ]
    members = list(summary.get("members", ascii_lowercase[: len(rows[0]["values"])]))
    top = max(1e-12, *(row["share"] for row in rows))
    maps = []
    if len(members) <= 3:
        layers = _ordered(rows, 2) if len(members) == 3 else [None]
        layers = layers if len(layers) <= MOST_LAYERS else []
        for value in layers:
            inside = [row for row in rows if value is None or row["values"][2] == value]
            maps.append({"value": value, **_map(inside, members, top)})
    return {
        "members": members,
        "maps": maps,
        "rows": rows[:most],
        "more": len(rows) - len(rows[:most]),
        "detected": sum(bool(row["discovered"]) for row in rows),
        "top": top,
    }


def _map(rows: Sequence[Mapping[str, Any]], members: list[str], top: float) -> dict[str, Any]:
    """Return one heat map, the member with more values down its side."""
    axes = [_ordered(rows, 0), _ordered(rows, 1)]
    side, across = (0, 1) if len(axes[0]) >= len(axes[1]) else (1, 0)
    columns = axes[across][:MOST_COLUMNS]
    cells = {(row["values"][side], row["values"][across]): row for row in rows}
    lines = [
        {
            "value": value,
            "cells": [_cell(cells.get((value, column)), top) for column in columns],
        }
        for value in axes[side][:MOST_LINES]
    ]
    return {
        "side": members[side],
        "across": members[across],
        "columns": columns,
        "lines": lines,
        "is_wide": len(columns) > WIDE,
        "is_cut": len(axes[side]) > MOST_LINES or len(axes[across]) > MOST_COLUMNS,
    }


def _cell(row: Mapping[str, Any] | None, top: float) -> dict[str, Any] | None:
    return (
        None
        if row is None
        else {**row, "shade": round(100 * min(max(row["share"] / top, 0.0), 1.0), 1)}
    )


def _ordered(rows: Sequence[Mapping[str, Any]], member: int) -> list[Any]:
    """Return the values of a member, the most frequent first;
    other values last."""

    def value(row: Mapping[str, Any]) -> str:
        return str(row["values"][member])

    groups = groupby(sorted(rows, key=value), key=value)
    counts = {name: sum(row["estimate"] for row in group) for name, group in groups}
    return sorted(counts, key=lambda name: (name == LAST, -counts[name], name))
