"""A cross table on the page: which values of two or more questions go together."""

from collections.abc import Iterator
from string import ascii_lowercase
from typing import Any

import numpy as np

from ldp.files import counted
from ldp.report.drawings import Axis, grid, ordered
from ldp.report.formats import p_text, percent, quantity, whole_number
from ldp.tables.saved import SavedResult

MOST_LAYERS = 8
"""Most heat maps that are drawn; the list has more."""


def facts(file: SavedResult) -> Iterator[tuple[str, str]]:
    """Yield what must be known to trust a `file`: pairs of a question and its answer."""
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
        f"{level}, for a combination that was chosen beforehand. The file has wider ones for the "
        "marked combinations.",
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
        layers = ordered(rows, 2) if len(members) == 3 else [None]
        layers = layers if len(layers) <= MOST_LAYERS else []
        for value in layers:
            inside = [row for row in rows if value is None or row["values"][2] == value]
            maps.append({"value": value, **grid(inside, members, Axis(0.0, top))})
    return {
        "members": members,
        "maps": maps,
        "rows": rows[:most],
        "more": len(rows) - len(rows[:most]),
        "detected": sum(bool(row["discovered"]) for row in rows),
        "top": top,
    }
