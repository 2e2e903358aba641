"""Estimates as a page that opens from disk and loads nothing; labels are HTML text.

Each discovery is a row: name, estimate, selection-adjusted interval, bar. Geometry is computed here
as percentages of the row; `page.html` only places it. `page.js`, which becomes part of the page,
sorts and searches, and everything can be read without it.
"""

import base64
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from itertools import islice
from statistics import NormalDist
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ldp.accounting.explain import PRIORS, guess_sentence, posterior, upwards
from ldp.errors import DecodeError
from ldp.protocol.spelling import Spelling
from ldp.report import privacy
from ldp.report.formats import percent, visible_label, whole_number
from ldp.report.results import Numbers, Results
from ldp.report.trends import in_order, trend

MOST_ROWS = 1000
"""Discovered values on a page, and others; more are counted, and left to the CSV."""
MOST_FOLDED = 100
"""Rows on each day but the last, where a page has several."""


TESTED = {
    "direct": "The count of each candidate was tested against the law that it has if nobody holds "
    "it: binomial, exactly, or normal where reports share a permanent response.",
    "geometry": "The reports that name a point of each candidate's hyperplane were tested against "
    "the law that their number has if nobody holds it: binomial, exactly.",
    "histogram": "The count of each bucket was tested against the law that it has if nobody is in "
    "it: binomial, exactly.",
    "mean-sketch": "The average of each candidate's cells was tested against the law of noise and "
    "collisions that it has if nobody holds it.",
    "regression": "The candidates were fitted together, by a lasso whose shrinkage was given back "
    "or by least squares where bits are few, and each was tested against a count of 0.",
    "lasso-ols": "A non-negative lasso chose candidates, least squares estimated those that it "
    "chose, and each was tested against a count of 0.",
    "ngrams": "Strings were put together from fragments of which every two stand out together, and "
    "each was then tested on a table of its own, whose noise had no part in choosing it.",
    "prefixes": "Words were put together from the beginnings that stand out, and each was then "
    "tested on the reports about whole words, whose noise had no part in choosing it.",
    "puzzle": "Words were put together from the fragments that stand out, and each word was then "
    "tested on a table of its own, whose noise had no part in choosing it.",
}
"""Sentences that explain each method on the page."""

UNLISTED = ("puzzle", "prefixes", "ngrams")
"""Methods whose candidates nobody listed, and may all be held by nobody."""
UNKNOWN = {
    "geometry": "every report names a point of many candidates at once, so their errors hang "
    "together",
    "histogram": "every report is about some of the buckets only",
    "mean-sketch": "with fewer than 64 rows it is not known how collisions add up",
    "puzzle": "with fewer than 64 rows it is not known how collisions add up",
    **dict.fromkeys(
        ("regression", "lasso-ols", "ngrams"),
        "candidates are fitted together, and how their errors hang together is not worked out",
    ),
    "prefixes": "only some of the reports are about whole words",
}
"""Reasons, by method, why the error of the unexplained reports is not known."""


Truths = Mapping[str, int] | Sequence[Mapping[str, int]]


def render(
    files_read: Sequence[Results | Numbers],
    truth: Truths | None = None,
    title: str | None = None,
) -> str:
    """Return the page as HTML text, sections of numbers last.

    `truth` (value -> count), one for all or one for each of the results about values, is drawn
    beside the estimates; `title` (by default the files' names) stands above. Raises DecodeError
    when a truth names no candidate; a file that the only truth does not touch, beside others that
    it does, is shown without it.
    """
    environment = Environment(
        loader=PackageLoader("ldp.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": whole_number, "percent": percent}
    environment.filters |= {"label": visible_label, "upwards": upwards}
    results = [file for file in files_read if isinstance(file, Results)]
    numbers = [file for file in files_read if isinstance(file, Numbers)]
    names = _names(results)
    known = _truths(results, truth) if results else []
    series = [trend(several) for several in in_order(results)]
    folded = {id(result) for several in series for result in several["results"][:-1]}
    sections = [
        {
            **_section(result, about, MOST_FOLDED if id(result) in folded else MOST_ROWS),
            "name": name,
            "untold": truth is not None and about is None,
            "folded": id(result) in folded,
        }
        for result, about, name in zip(results, known, names, strict=True)
    ]
    script = (files("ldp.report") / "page.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("page.html").render(
        title=title or ", ".join([*names, *(file.name for file in numbers)]),
        numbers=[(file, guess_sentence(file.summary["epsilon"])) for file in numbers],
        sections=sections,
        series=series,
        priors=PRIORS,
        script=Markup(script),
        script_hash=digest,
    )


def _names(results: Sequence[Results]) -> list[str]:
    """Return a name for each: its metric, or its file, or that with its folder; the first that
    tells all of them apart."""
    metrics = [{label.metric for label in privacy.labels(result.summary)} for result in results]
    for names in (
        [metric.pop() if len(metric) == 1 else "" for metric in metrics],
        [result.name for result in results],
    ):
        if all(names) and len({*names}) == len(names):
            return names
    return [result.path or result.name for result in results]


def _truths(results: Sequence[Results], truth: Truths | None) -> Sequence[Mapping[str, int] | None]:
    """Return the truth of each of the results, None where it is not known."""
    if truth is None:
        return [None] * len(results)
    truths = [truth] * len(results) if isinstance(truth, Mapping) else list(truth)
    if len(truths) != len(results):
        raise DecodeError(
            f"{len(truths)} truths for {len(results)} files: give one, or one for each"
        )
    truths = [
        _cleaned(known, result.summary.get("spelling"))
        for result, known in zip(results, truths, strict=True)
    ]
    has_names = [
        any(row["value"] in known for row in result.rows)
        or (not isinstance(truth, Mapping) and result.summary["method"] in UNLISTED)
        for result, known in zip(results, truths, strict=True)
    ]
    if not (any(has_names) if isinstance(truth, Mapping) else all(has_names)):
        raise DecodeError("no candidate is named in the truth")
    return [known if is_named else None for known, is_named in zip(truths, has_names, strict=True)]


def _cleaned(truth: Mapping[str, int], spelling: Mapping[str, Any] | None) -> Mapping[str, int]:
    """Return the counts of words as devices clean them; other values stay."""
    if spelling is None:
        return truth
    counts = Counter[str]()
    for value, count in truth.items():
        counts[Spelling(**spelling).clean(value)] += count
    return counts


def _section(results: Results, truth: Mapping[str, int] | None, most: int) -> dict[str, Any]:
    discoveries, summary = results.discovered, results.summary
    listed = discoveries[:most]
    rest = ((rank, row) for rank, row in enumerate(results.rows, 1) if not row["detected"])
    reports, floor = summary["reports"], summary["noise_floor"]
    top = max(
        [1.0, floor]
        + [row["selected_high"] for row in listed]
        + [truth.get(row["value"], 0) for row in listed if truth]
    )

    def along(count: float) -> float:
        return round(100 * math.sqrt(min(max(count / top, 0.0), 1.0)), 3)

    bars = []
    for rank, row in enumerate(listed, 1):
        low, high = row["selected_low"], row["selected_high"]
        held = None if truth is None else truth.get(row["value"], 0)
        bars.append(
            {
                **row,
                "rank": rank,
                "shown": min(max(row["count"], 0), reports),
                "low": low,
                "high": high,
                "bar": along(row["count"]),
                "start": along(low),
                "reach": along(high) - along(low),
                "truth": held,
                "at": None if held is None else along(held),
                "holds": held is None or low <= held <= high,
            }
        )
    others = [
        {**row, "rank": rank, "truth": None if truth is None else truth.get(row["value"], 0)}
        for rank, row in islice(rest, most)
    ]
    epsilon = privacy.report_epsilon(summary)
    return {
        "results": results,
        "summary": summary,
        "warning": summary.get("warning"),
        "bias": summary.get("consistency_bias"),
        "tested": TESTED.get(summary["method"], ""),
        "fakes": summary.get("fakes_move"),
        "explained": min(max(1 - summary["unexplained_share"], 0.0), 1.0),
        "unexplained": _unexplained(results),
        "answers": _answers(summary),
        "privacy": list(privacy.questions(summary)),
        "epsilon": epsilon,
        "beliefs": [(prior, posterior(prior, epsilon)) for prior in PRIORS],
        "rest": len(results.rows) - len(discoveries),
        "others": others,
        "comparison": None if truth is None else results.compared(truth),
        "floor": along(floor),
        "findable": summary["threshold"] is not None or not summary.get("warning"),
        "found": len(discoveries),
        "bars": bars,
        "from_zero": sum(bar["low"] < 0.5 for bar in bars),
        "clipped": any(bar["count"] != bar["shown"] for bar in bars),
        "ticks": _ticks(top, along),
    }


def _unexplained(results: Results) -> dict[str, Any]:
    """Return how many reports no candidate explains, with standard error and interval, or why it
    has none; `zero`: whether it may be none."""
    summary = results.summary
    count = summary.get("unexplained")
    if count is None:
        count = summary["reports"] - math.fsum(row["count"] for row in results.rows)
    error = summary.get("unexplained_std_error")
    why = "" if error is not None else "the summary beside the file does not tell it"
    if "unexplained_std_error" in summary and error is None:
        why = UNKNOWN.get(summary["method"], "not worked out for this method")
        if "decoys" in summary:
            why = "only the sum of candidates and decoys has a known one"
    reach = -NormalDist().inv_cdf((1 - summary["level"]) / 2) * (error or 0.0)
    n = max(1, summary["reports"])
    share, low, high = (
        min(max(end / n, 0.0), 1.0) for end in (count, count - reach, count + reach)
    )
    unexplained = {"count": count, "std_error": error, "why": why, "exact": error == 0}
    return {**unexplained, "share": share, "low": low, "high": high, "zero": count - reach <= 0}


def _answers(summary: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return how many answers people have on average, with an interval; None where a value is not a
    set of answers."""
    keys = ("at_most", "answers_each", "answers_each_std_error")
    if not summary.keys() >= {*keys}:
        return None
    most, each, error = (summary[key] for key in keys)
    reach = -NormalDist().inv_cdf((1 - summary["level"]) / 2) * error
    low, high = (min(max(end, 0.0), most) for end in (each - reach, each + reach))
    return {"at_most": most, "each": each, "low": low, "high": high}


def _ticks(top: float, along: Callable[[float], float]) -> list[dict[str, Any]]:
    """Round numbers up to `top`, where they stand on the square-root scale, and whether the text
    ends there; as many as do not touch, a character being 2.4 % of the narrowest row at most."""
    ticks = [{"text": "0", "at": 0.0, "ends": False}]
    free = 5.0
    for number in (first * 10.0**exponent for exponent in range(16) for first in (1, 2, 5)):
        text = whole_number(number) if number < 1e6 else f"{whole_number(number / 1e6)} M"
        place, width = along(number), 2.4 * len(text)
        ends = place + width / 2 > 102
        left = place - (width if ends else width / 2)
        if number <= top and left >= free:
            ticks.append({"text": text, "at": place, "ends": ends})
            free = left + width + 2
    return ticks
