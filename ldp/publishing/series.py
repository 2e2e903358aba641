"""One series of a metric over its versions: version 0 of the data set is all of them together.

After a category is added or a mechanism is tuned, there are reports of two versions for months.
Their estimates are unbiased and of different reports. So counts add, and so do the variances of
their errors. The distance of an interval's end from the sum is the root of the sum of its squared
distances in the versions (Zou and Donner 2008). Under made-up reports, which may all be of one
version, it is the sum of the distances. p-values are combined by Stouffer's method, weighted by the
noise. A value that some versions lack is counted among the reports of the versions that have it.
"""

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ldp.arrays import Floats
from ldp.files import open_replacement
from ldp.mechanisms.base import FAKES
from ldp.publishing.data_set_rows import DIGEST, SCHEMA, SUMMARY, read_rows
from ldp.publishing.outputs import OutputPart, parts, summary_of
from ldp.publishing.period import Problem, passing_by
from ldp.publishing.state import ALL_VERSIONS, kept_versions, results_path
from ldp.report.value_face import UNLISTED
from ldp.tables.estimates import Normal, Rule
from ldp.tables.result import COUNT
from ldp.tables.saved import Facts

LEAST = 1e-300
"""Least p-value that is distinguished from 0."""


def update_series(out: Path, problems: list[Problem]) -> None:
    """Bring the series up to date of every metric in the folder of a publication that has counts of
    values in two versions or more. Errors of a metric are added to the `problems`."""
    for metric, versions in groupby(kept_versions(out), lambda pair: pair[0]):
        with passing_by(problems, metric):
            _update(out, metric, [version for _, version in versions])


def _update(out: Path, metric: str, versions: Sequence[int]) -> None:
    listed = {version: parts(out, metric, version) for version in versions}
    latest = {version: summary_of(out, some[-1]) for version, some in listed.items() if some}
    # counts of listed values, not of discovered words
    added = [
        version
        for version, summary in latest.items()
        if summary["kind"] == "values" and summary["method"] not in UNLISTED
    ]
    by_period = defaultdict[date, list[OutputPart]](list)
    if len(added) > 1:
        for part in (part for version in added for part in listed[version]):
            by_period[part.period].append(part)
    before = {part.period: part for part in parts(out, metric, ALL_VERSIONS)}
    for period in before.keys() - by_period.keys():
        before[period].path.unlink()
    for period, several in sorted(by_period.items()):
        text = "".join(f"{part.version} {part.digest} " for part in several)
        digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        if period not in before or before[period].digest != digest:
            _write(out, several, digest)


def _write(out: Path, several: Sequence[OutputPart], digest: str) -> None:
    """Write the sum of `several` versions in one period, and its summary."""
    summaries = [summary_of(out, part) for part in several]
    tables = [read_rows(part.path) for part in several]
    rows, summary = combined(tables, summaries)
    revision = sum(part.revision for part in several)
    place = {
        "metric": several[0].metric,
        "version": ALL_VERSIONS,
        "period": several[0].period,
        "days": max((table["days"][0].as_py() for table in tables if len(table)), default=1),
        "revision": revision,
    }
    facts = {name: summary[name] for name in ("epsilon", "noise_floor", "fakes_move", "fakes")}
    metadata = {DIGEST: digest, SUMMARY: json.dumps({**summary, "revision": revision})}
    table = pa.Table.from_pylist(
        [{**place, **facts, "statistic": COUNT, **row} for row in rows],
        SCHEMA.with_metadata(metadata),
    )
    path = results_path(out, several[0].metric, ALL_VERSIONS, several[0].period)
    with open_replacement(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def combined(
    tables: Sequence[pa.Table], summaries: Sequence[Facts]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the rows of the sum of several versions, the largest count first, and its summary,
    from the rows and the summaries of the versions in one period."""
    by_value = defaultdict[str, list[tuple[int, Facts]]](list)
    for place, table in enumerate(tables):
        for row in table.to_pylist():
            by_value[row["value"]].append((place, row))
    noises = np.array([summary["noise_std_error"] for summary in summaries])
    fakes = _fakes(summaries)
    rows = [
        {"value": value, **_sum(cells, summaries, noises, fakes is not None)}
        for value, cells in by_value.items()
    ]
    rows.sort(key=lambda row: -row["estimate"])
    last = summaries[-1]
    rule = Rule(alpha=last["alpha"], control=last["control"], threshold=last["threshold"])
    p_value, count, error = (
        np.array([math.nan if row[name] is None else row[name] for row in rows], np.float64)
        for name in ("p_value", "estimate", "std_error")
    )
    for row, is_found in zip(
        rows, rule.discovers(count, p_value) & np.isfinite(error), strict=True
    ):
        row["discovered"] = bool(is_found)
    tail = max(summary["tail"] for summary in summaries)
    floor = tail * Normal().upper(rule.largest(p_value)) * math.hypot(*noises)
    floor += sum(s.get("fakes_raise") or 0.0 for s in summaries)
    moves = [summary.get("fakes_move") for summary in summaries]
    reports = sum(summary["reports"] for summary in summaries)
    warnings = filter(None, (summary.get("warning") for summary in summaries))
    summary = {
        "kind": last["kind"],
        "method": last["method"],
        "reports": reports,
        "epsilon": max(s["epsilon"] or 0.0 for s in summaries) or None,
        "reports_per_person": max(s.get("reports_per_person", 1.0) for s in summaries),
        "memoised": any(s.get("memoised") for s in summaries),
        "shared_variance": max(s.get("shared_variance", 0.0) for s in summaries),
        "tail": tail,
        "noise_floor": floor if rule.threshold is None else rule.threshold,
        "fakes": fakes,
        "fakes_move": None
        if None in moves
        else max(m / max(1, s["reports"]) for m, s in zip(moves, summaries, strict=True)) * reports,
        "warning": "; ".join(dict.fromkeys(warnings)),
        "versions": len(summaries),
    }
    return rows, summary


def _fakes(summaries: Sequence[Facts]) -> float | None:
    """Return the share of all reports that may be made up, even all in one version, if the interval
    of each version allows for a share of its own reports. Returns None if one version allows for
    none."""
    shares = [summary.get("fakes") for summary in summaries]
    if None in shares:
        return None
    reports = [summary["reports"] for summary in summaries]
    fewest = min(share * n for share, n in zip(shares, reports, strict=True) if share is not None)
    return float(fewest / max(1, sum(reports)))


def _sum(
    cells: Sequence[tuple[int, Facts]],
    summaries: Sequence[Facts],
    noises: Floats,
    is_under_fakes: bool,
) -> dict[str, Any]:
    """Return the row of a value from all versions that have it, given as pairs of a version's place
    among the `summaries` and its row."""
    places, rows = [place for place, _ in cells], [row for _, row in cells]
    reports = sum(summaries[place]["reports"] for place in places)
    estimate = math.fsum(row["estimate"] for row in rows)
    distances = [_distances(row, summaries[place]) for place, row in cells]
    down, up = (
        math.fsum(ends) if is_under_fakes else math.hypot(*ends)
        for ends in zip(*distances, strict=True)
    )
    low, high = estimate - down, estimate + up
    return {
        "estimate": estimate,
        "std_error": math.hypot(*(row["std_error"] for row in rows)),
        "low": min(max(low, 0.0), reports),
        "high": min(max(high, 0.0), reports),
        "p_value": _p_value([row["p_value"] for row in rows], noises[places]),
        "reports": reports,
    }


def _p_value(p_values: Sequence[float | None], noises: Floats) -> float | None:
    from scipy.special import ndtr, ndtri

    if len(p_values) == 1:
        return p_values[0]
    if None in p_values or not 0 < math.hypot(*noises) < math.inf:
        return None
    z = -ndtri(np.clip(np.array(p_values, np.float64), LEAST, 1 - 2.0**-53))
    return float(ndtr(-(noises @ z) / math.hypot(*noises)))


def _distances(row: Facts, summary: Facts) -> tuple[float, float]:
    """Return the distances of the ends of a row's interval from its estimate. For an end at 0 or at
    all reports it is at least as far as the error and made-up reports reach."""
    reach = Normal().upper((1 - summary["level"]) / 2) * summary["tail"] * row["std_error"]
    reach += (summary.get("fakes") or 0.0) / FAKES * (summary.get("fakes_move") or 0.0)
    down, up = row["estimate"] - row["low"], row["high"] - row["estimate"]
    return (
        down if row["low"] > 0 else max(down, reach),
        up if row["high"] < summary["reports"] else max(up, reach),
    )
