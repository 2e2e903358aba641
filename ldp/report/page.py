"""Estimates as a page that opens from disk and loads nothing; labels are HTML text.

Each discovery is a row: name, estimate, selection-adjusted interval, bar. Geometry is computed here
as percentages of the row; `page.html` only places it. `page.js`, which becomes part of the page,
sorts and searches, and everything can be read without it.
"""

import base64
import csv
import hashlib
import json
import math
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from pathlib import Path
from statistics import NormalDist
from typing import Any, overload

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ldp.accounting.explain import PRIORS, guessing, posterior, upwards
from ldp.accounting.label import Label
from ldp.errors import DecodeError, ParameterError
from ldp.protocol.spelling import Spelling
from ldp.report import days, privacy
from ldp.tables.estimates import COLUMNS, CONTROLS, summary_path

_NUMBERS = [name for name in COLUMNS if name != "value"]
_NEVER_EMPTY = {"count", "std_error", "low", "high", "detected"}
_SELECTED = {"selected_low", "selected_high"}
MOST_ROWS = 1000
"""Discovered values on a page, and others; more are counted, and left to the CSV."""
MOST_FOLDED = 100
JOINERS = {"\N{ZERO WIDTH JOINER}", *map(chr, range(0xE0020, 0xE0080))}
"""What the parts of one symbol are joined with."""
"""The same where a page has several days, on each but the last."""
MOST_TRENDS = 100
MOST_LETTERS = 120
"""Of a value; the CSV has it whole."""
SPARK_WIDTH, SPARK_HEIGHT = 120, 30
"""Of the drawing of a trend, in its own units."""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and abs(value) < 1e300


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_spelling(value: object) -> bool:
    try:
        return isinstance(value, dict) and bool(Spelling(**value))
    except (ParameterError, TypeError):
        return False


def _are_labels(value: object) -> bool:
    try:
        return isinstance(value, list) and all(Label.of(told) for told in value)
    except (ParameterError, TypeError):
        return False


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
"""What each method does, for the page."""

UNLISTED = ("puzzle", "prefixes", "ngrams")
"""Methods whose candidates were told by nobody, and may all be held by nobody."""
UNKNOWN = {
    "direct": "not worked out for a part of a subset mechanism's categories",
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
"""Why the error of the unexplained is not known where it is not, by method."""

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
    "windows": lambda value: isinstance(value, list) and all(map(_is_text, value)),
}
_SINCE: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("unexplained", "tail"), _is_number),
    **dict.fromkeys(
        ("unexplained_std_error", "lifetime_epsilon"),
        lambda value: value is None or (_is_number(value) and value >= 0),
    ),
    "memoised": lambda value: isinstance(value, bool),
    "labels": _are_labels,
    "spelling": _is_spelling,
    **dict.fromkeys(
        ("warning", "consistency_bias"), lambda value: value is None or _is_text(value)
    ),
}
"""Keys that some files lack: those of earlier versions, or where there is nothing to say."""


class Rows(Sequence[Mapping[str, Any]]):
    """Lines of an estimates file, kept by column, 8 bytes a number; a row is made when it is asked
    for. Raises ValueError for a line that `ldp decode` does not write."""

    def __init__(self, lines: Iterable[Sequence[str]]) -> None:
        self._values: list[str] = []
        self._numbers = tuple(array("d") for _ in _NUMBERS)
        for cells in lines:
            row = _row(dict(zip(COLUMNS, cells, strict=True)))
            self._values.append(row["value"])
            for column, name in zip(self._numbers, _NUMBERS, strict=True):
                column.append(math.nan if row[name] is None else row[name])

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, place: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        numbers = (column[place] for column in self._numbers)
        row = {name: None if x != x else x for name, x in zip(_NUMBERS, numbers, strict=True)}
        return {"value": self._values[place], **row}


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
                reader = csv.reader(file)
                rows = Rows(filter(None, reader)) if tuple(next(reader, ())) == COLUMNS else None
        except OSError as error:
            raise DecodeError(f"cannot read {path}: {error.strerror}") from None
        except (ValueError, csv.Error):
            raise DecodeError(f"{path}: not as `ldp decode` wrote it") from None
        if rows is None:
            raise DecodeError(f"{path}: not an estimates file")
        summary = _summary(beside, _SUMMARY, _SINCE)
        return cls(name=path.stem, rows=rows, summary=summary, path=str(path))

    @property
    def days(self) -> str:
        """When the reports were collected, in words; "" where that is not known."""
        first, *later = self.summary["windows"] or [""]
        return f"{first} to {later[-1]}" if later else first

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
        values = [row["value"] for row in self.rows]
        typed = [row for row in self.rows if truth.get(row["value"], 0) > 0]
        floor = self.summary["noise_floor"]
        unlisted = {*truth}.difference(values)
        whole = sum(truth.values()) == self.summary["reports"]
        return {
            "level": level,
            "held_by_somebody": len(typed),
            "unnamed": sum(value not in truth for value in values),
            "unlisted": sum(truth[value] > 0 for value in unlisted) if whole else None,
            "unexplained": sum(truth[value] for value in unlisted) if whole else None,
            "below_floor": sum(truth[row["value"]] < floor for row in typed),
            "false": sum(truth.get(row["value"], 0) == 0 for row in found),
            "missed": sum(not row["detected"] for row in typed),
            "intervals_hold": sum(held) / len(held) if held else None,
            "selected_hold": sum(selected) / len(selected) if selected else None,
        }


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """The summary that `ldp decode` writes of a mean or of a regression, read back."""

    name: str
    summary: Mapping[str, Any]

    @property
    def days(self) -> str:
        first, *later = self.summary["windows"] or [""]
        return f"{first} to {later[-1]}" if later else first

    @property
    def coefficients(self) -> list[tuple[str, float]]:
        """The terms of a regression and their coefficients, the intercept last; none of a mean."""
        terms = self.summary.get("coef", [])
        named = [(f"x{number}", each) for number, each in enumerate(terms, 1)]
        return [*named, ("intercept", self.summary["intercept"])] if terms else []


_NUMBERS_SUMMARY: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("epsilon", "reports"), lambda value: _is_number(value) and value >= 0),
    **dict.fromkeys(("mechanism", "fingerprint"), _is_text),
    "windows": _SUMMARY["windows"],
}
_MEAN: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("mean", "std_error", "low", "high", "fakes_move"), _is_number),
    "level": _SUMMARY["level"],
}
_REGRESSION: Mapping[str, Callable[[Any], bool]] = {
    "coef": lambda value: isinstance(value, list) and bool(value) and all(map(_is_number, value)),
    "intercept": _is_number,
}


def load(path: str | Path) -> Results | Numbers:
    """Read a file that `ldp decode` wrote, and the summary beside it: estimates of values, or of
    numbers. Raises DecodeError naming the file that is wrong."""
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError):
        header = ""
    keys = {"mean,std_error,low,high,reports": _MEAN, "term,coefficient": _REGRESSION}.get(header)
    if keys is None:
        return Results.load(path)
    summary = _summary(summary_path(path), {**_NUMBERS_SUMMARY, **keys}, {})
    return Numbers(name=path.stem, summary=summary)


def _summary(
    path: Path,
    needed: Mapping[str, Callable[[Any], bool]],
    optional: Mapping[str, Callable[[Any], bool]],
) -> dict[str, Any]:
    """A summary whose keys are as they must be."""
    try:
        summary = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise DecodeError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise DecodeError(f"{path}: not as `ldp decode` wrote it") from None
    if not isinstance(summary, dict):
        raise DecodeError(f"{path}: not as `ldp decode` wrote it")
    for name, fits in {**needed, **optional}.items():
        if not fits(summary[name]) if name in summary else name in needed:
            raise DecodeError(f"{path}: {name} is not as `ldp decode` writes it")
    return summary


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
    environment.filters["count"] = _written
    environment.filters["percent"] = _percent
    environment.filters["label"] = _label
    environment.filters["upwards"] = upwards
    results = [each for each in files_read if isinstance(each, Results)]
    numbers = [each for each in files_read if isinstance(each, Numbers)]
    names = _names(results)
    known = _truths(results, truth) if results else []
    series = [_over_days(several) for several in days.in_order(results)]
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
        title=title or ", ".join([*names, *(each.name for each in numbers)]),
        numbers=[(each, guessing(each.summary["epsilon"])) for each in numbers],
        sections=sections,
        series=series,
        priors=PRIORS,
        script=Markup(script),
        script_hash=digest,
    )


def _names(results: Sequence[Results]) -> list[str]:
    """What to call each: its metric, or its file, or that with its folder; the first that tells
    all of them apart."""
    metrics = [{label.metric for label in privacy.labels(result.summary)} for result in results]
    for names in (
        [metric.pop() if len(metric) == 1 else "" for metric in metrics],
        [result.name for result in results],
    ):
        if all(names) and len({*names}) == len(names):
            return names
    return [result.path or result.name for result in results]


def _truths(results: Sequence[Results], truth: Truths | None) -> Sequence[Mapping[str, int] | None]:
    """What is known of each of the results."""
    if truth is None:
        return [None] * len(results)
    each = [truth] * len(results) if isinstance(truth, Mapping) else list(truth)
    if len(each) != len(results):
        raise DecodeError(f"{len(each)} truths for {len(results)} files: give one, or one for each")
    each = [
        _cleaned(known, result.summary.get("spelling"))
        for result, known in zip(results, each, strict=True)
    ]
    named = [
        any(row["value"] in known for row in result.rows)
        or (not isinstance(truth, Mapping) and result.summary["method"] in UNLISTED)
        for result, known in zip(results, each, strict=True)
    ]
    if not (any(named) if isinstance(truth, Mapping) else all(named)):
        raise DecodeError("no candidate is named in the truth")
    return [known if is_named else None for known, is_named in zip(each, named, strict=True)]


def _cleaned(truth: Mapping[str, int], spelling: Mapping[str, Any] | None) -> Mapping[str, int]:
    """Return the counts of words as devices clean them; other values stay."""
    if spelling is None:
        return truth
    counts = Counter[str]()
    for value, count in truth.items():
        counts[Spelling(**spelling).cleaned(value)] += count
    return counts


def _row(cells: Mapping[str, str]) -> dict[str, Any]:
    """One line of the file as numbers; raises ValueError unless all are there that must be."""
    numbers = {name: float(cells[name]) if cells[name] else None for name in _NUMBERS}
    needed = _NEVER_EMPTY | (_SELECTED if numbers["detected"] else set())
    told_apart = {**numbers, "std_error": 0.0} if numbers["std_error"] == math.inf else numbers
    if not all(
        name not in needed if number is None else _is_number(number)
        for name, number in told_apart.items()
    ):
        raise ValueError
    return {"value": cells["value"], **numbers}


def _section(results: Results, truth: Mapping[str, int] | None, most: int) -> dict[str, Any]:
    found, summary = results.discovered, results.summary
    shown = found[:most]
    rest = ((rank, row) for rank, row in enumerate(results.rows, 1) if not row["detected"])
    reports, floor = summary["reports"], summary["noise_floor"]
    top = max(
        [1.0, floor]
        + [row["selected_high"] for row in shown]
        + [truth.get(row["value"], 0) for row in shown if truth]
    )

    def along(count: float) -> float:
        return round(100 * math.sqrt(min(max(count / top, 0.0), 1.0)), 3)

    bars = []
    for rank, row in enumerate(shown, 1):
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
        "privacy": list(privacy.told(summary)),
        "epsilon": epsilon,
        "beliefs": [(prior, posterior(prior, epsilon)) for prior in PRIORS],
        "rest": len(results.rows) - len(found),
        "others": others,
        "comparison": None if truth is None else results.compared(truth),
        "floor": along(floor),
        "findable": summary["threshold"] is not None or not summary.get("warning"),
        "found": len(found),
        "bars": bars,
        "from_zero": sum(bar["low"] < 0.5 for bar in bars),
        "clipped": any(bar["count"] != bar["shown"] for bar in bars),
        "ticks": _ticks(top, along),
    }


def _unexplained(results: Results) -> dict[str, Any]:
    """How many reports no candidate explains, with standard error and interval, or why it has none;
    `zero`: whether it may be none."""
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
    told = {"count": count, "std_error": error, "why": why, "exact": error == 0}
    return {**told, "share": share, "low": low, "high": high, "zero": count - reach <= 0}


def _over_days(several: Sequence[Results]) -> dict[str, Any]:
    """What is told of the same metric on several days: a row a value, the largest of the last day
    first; of those discovered on some day, and those that changed."""
    latest, why = several[-1], days.not_tested(several)
    alpha = latest.summary["alpha"]
    changes = [] if why else days.compared(several)
    by_place = {(each.value, each.earlier, each.later): each for each in changes}
    beyond = {key for key, each in by_place.items() if each.adjusted <= alpha}
    listed = [{row["value"]: row for row in result.rows} for result in several]
    wanted = {row["value"] for result in several for row in result.discovered}
    wanted |= {value for value, _, _ in beyond}

    def size(value: str) -> float:
        """Its share on the last day that tells of it."""
        told = [
            rows[value]["count"] / result.summary["reports"]
            for rows, result in zip(listed, several, strict=True)
            if value in rows and result.summary["reports"]
        ]
        return float(told[-1]) if told else 0.0

    last = len(several) - 1
    rows = []
    ranked = sorted(wanted, key=lambda value: (-size(value), value))
    for value in ranked[:MOST_TRENDS]:
        points = [
            _point(result, here.get(value)) for result, here in zip(several, listed, strict=True)
        ]
        steps = [(last - 1, last)] + [(0, last)] * (last > 1)
        rows.append(
            {
                "value": value,
                "points": points,
                "now": points[-1],
                "spark": _spark(points, [(value, i - 1, i) in beyond for i in range(last + 1)]),
                "steps": [_step(by_place.get((value, *step)), alpha) for step in steps],
            }
        )
    return {
        "results": list(several),
        "name": latest.summary["labels"][0]["metric"] if latest.summary.get("labels") else "",
        "rows": rows,
        "left_out": len(wanted) - len(rows),
        "why": why,
        "alpha": alpha,
        "level": latest.summary["level"],
        "tested": len(changes),
        "compared": len({each.value for each in changes}),
        "beyond": len(beyond),
        "changed": len({value for value, _, _ in beyond}),
        "days": [result.days for result in several],
        "size": (SPARK_WIDTH, SPARK_HEIGHT),
    }


def _point(result: Results, row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A value on one day, as shares of its reports."""
    n = result.summary["reports"]
    if row is None or not n:
        return None
    return {
        "day": result.days,
        "share": row["count"] / n,
        "low": row["low"] / n,
        "high": row["high"] / n,
        "detected": bool(row["detected"]),
        **{name: row[name] for name in ("count", "std_error")},
    }


def _step(change: days.Change | None, alpha: float) -> dict[str, Any] | None:
    if change is None:
        return None
    beyond = change.adjusted <= alpha
    verdict = "within the noise"
    if beyond:
        verdict = "more" if change.difference > 0 else "fewer"
    digits = max(0, 1 - math.floor(math.log10(100 * change.std_error))) if change.std_error else 0
    return {
        "change": change,
        "beyond": beyond,
        "verdict": verdict,
        "difference": f"{100 * change.difference:+.{digits}f}".replace("-", "\N{MINUS SIGN}"),
        "error": f"{100 * change.std_error:.{digits}f}",
    }


def _spark(points: Sequence[Mapping[str, Any] | None], beyond: Sequence[bool]) -> dict[str, Any]:
    """Where points, intervals and line of a trend stand; the top is that of the highest."""
    top = max([1e-12, *(max(point["high"], point["share"]) for point in points if point)])
    step = (SPARK_WIDTH - 10) / max(1, len(points) - 1)

    def up(share: float) -> float:
        drawn: float = round(
            SPARK_HEIGHT - 4 - (SPARK_HEIGHT - 8) * min(max(share / top, 0.0), 1.0), 2
        )
        return drawn

    marks = [
        {
            "x": round(5 + i * step, 2),
            "y": up(point["share"]),
            "low": up(point["low"]),
            "high": up(point["high"]),
            "beyond": marked,
        }
        for i, (point, marked) in enumerate(zip(points, beyond, strict=True))
        if point
    ]
    told = [
        f"{point['day']} {_percent(point['share'])}" if point else "not tested" for point in points
    ]
    return {
        "marks": marks,
        "line": " ".join(f"{mark['x']},{mark['y']}" for mark in marks),
        "told": "; ".join(told),
    }


def _percent(share: float) -> str:
    return f"{100 * share:.3g}\N{NO-BREAK SPACE}%".replace("-", "\N{MINUS SIGN}")


def _label(value: str) -> str:
    """Return a value as it is shown: not endless, and what would not show, or turn the direction of
    what does, made visible."""
    cut = value if len(value) <= MOST_LETTERS else f"{value[:MOST_LETTERS]}\N{HORIZONTAL ELLIPSIS}"
    return "".join(map(_visible, cut))


def _visible(letter: str) -> str:
    if letter < " " and letter not in "\n\t":
        return chr(0x2400 + ord(letter))
    is_hidden = unicodedata.category(letter) in ("Cf", "Zl", "Zp")
    return f"\\u{ord(letter):04x}" if is_hidden and letter not in JOINERS else letter


def _written(number: float) -> str:
    return f"{number:,.0f}".replace("-", "−")


def _ticks(top: float, along: Callable[[float], float]) -> list[dict[str, Any]]:
    """Round numbers up to `top`, where they stand on the square-root scale, and whether the text
    ends there; as many as do not touch, a character being 2.4 % of the narrowest row at most."""
    ticks = [{"text": "0", "at": 0.0, "ends": False}]
    free = 5.0
    for number in (first * 10.0**exponent for exponent in range(16) for first in (1, 2, 5)):
        text = _written(number) if number < 1e6 else f"{_written(number / 1e6)} M"
        place, width = along(number), 2.4 * len(text)
        ends = place + width / 2 > 102
        left = place - (width if ends else width / 2)
        if number <= top and left >= free:
            ticks.append({"text": text, "at": place, "ends": ends})
            free = left + width + 2
    return ticks
