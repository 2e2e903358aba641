"""Results as a page that opens from disk and loads nothing. Labels are HTML text.

Each kind of file has a face, a module of its own: what must be known to trust the file, and the
data of its tables and drawings. Places in drawings are shares of an axis; `page.html` only sets
them. `page.js`, which becomes part of the page, sorts, searches and folds long tables. Everything
can be read without it.
"""

import base64
import gzip
import hashlib
import io
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ldp.errors import DecodeError
from ldp.files import counted
from ldp.registry import Registry
from ldp.registry.lookalikes import look
from ldp.registry.odds import rounded_up
from ldp.report import category_face, crosstable, number_face, privacy, value_face
from ldp.report.formats import p_text, percent, quantity, visible_label, whole_number
from ldp.report.trends import in_order, trend
from ldp.tables.saved import Facts, SavedResult
from ldp.tables.truth import numbers_by_category, true_numbers

MOST_ROWS = 1000
"""Most discovered values on a page, and most others. More are counted, and left to the CSV."""
MOST_FOLDED = 100
"""Most rows on each day but the last, where a page has several days."""


Truths = Mapping[str, int] | Sequence[Mapping[str, int]]


@cache
def template(package: str, name: str) -> Any:
    """Return the template `name` of a `package`, compiled once, which has the filters of pages and
    may use the drawings."""
    templates = Environment(
        loader=ChoiceLoader([PackageLoader(name, ".") for name in (package, "ldp.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"count": whole_number, "percent": percent, "counted": counted}
    templates.filters |= {"label": visible_label, "rounded_up": rounded_up, "quantity": quantity}
    templates.filters["p_value"] = p_text
    return templates.get_template(name)


COUNTED = (
    "Counted under local differential privacy: every report was randomised on the device that sent "
    "it. The numbers are worked out from all reports together, and each has an error, which this "
    "page states."
)
SHUFFLED = (
    "Counted from messages that a relay mixed: each names a value as it is, and dummies of all "
    "people hide whose it is. Nothing protects against a relay that does not mix. The numbers are "
    "worked out from all messages together, and each has an error, which this page states."
)


def render(
    files_read: Sequence[SavedResult],
    truth: Truths | None = None,
    title: str | None = None,
    registry: Registry | None = None,
    above: Markup | None = None,
    intro: str | None = None,
) -> str:
    """Return the page as HTML text, with one section for each file.

    `truth` (value -> count), one for all or one for each of the results about values and numbers,
    is drawn beside the estimates. `title` (by default metrics and days) stands above. `registry`
    states what metrics are about and who owns them. `intro`: text on how the reports were counted.
    `above`: HTML below it, before the sections. Raises DecodeError if the only truth names no
    candidate of any file, or if one of several names none of its file. Where the only truth names
    candidates of some files, the others are shown without it.
    """
    names = _names(files_read)
    known = _truths(files_read, truth)
    series = [
        trend(several)
        for several in in_order([file for file in files_read if file.facts["kind"] == "values"])
    ]
    folded = {id(result) for several in series for result in several["results"][:-1]}
    sections = [
        _section(file, about, MOST_FOLDED if id(file) in folded else MOST_ROWS)
        | {
            "name": name,
            "is_untold": truth is not None and about is None and _may_have_truth(file),
            "is_folded": id(file) in folded,
            "about": _about(file, registry),
        }
        for file, about, name in zip(files_read, known, names, strict=True)
    ]
    script = (files("ldp.report") / "page.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page: str = template("ldp.report", "page.html").render(
        above=above or "",
        intro=intro or _intro(files_read),
        is_local=not any(map(_is_shuffled, files_read)),
        title=title or _title(files_read, names),
        sections=sections,
        privacy=privacy.privacy_label(files_read, names),
        series=series,
        script=Markup(script),
        script_hash=digest,
    )
    return page


def _is_shuffled(file: SavedResult) -> bool:
    """Return whether a file is of messages that nothing but a relay protects."""
    return math.isinf(privacy.report_epsilon(file))


def _intro(files_read: Sequence[SavedResult]) -> str:
    are_shuffled = {*map(_is_shuffled, files_read)}
    return " ".join(
        text for shuffled, text in ((False, COUNTED), (True, SHUFFLED)) if shuffled in are_shuffled
    )


def _metric(file: SavedResult) -> str:
    """Return the metric of a file. Returns "" if the file is of no metric or of several."""
    metrics = {label.metric for label in file.labels}
    return metrics.pop() if len(metrics) == 1 else ""


def _names(files_read: Sequence[SavedResult]) -> list[str]:
    """Return a name for each file: its metric, its metric and days, its file name, or its file name
    and folder, whichever is the first that tells all files apart."""
    metrics = [_metric(file) for file in files_read]
    dated = [f"{metric}, {file.days}" for metric, file in zip(metrics, files_read, strict=True)]
    for names in (
        metrics,
        dated if all(metrics) else [],
        [file.name for file in files_read],
    ):
        if names and all(names) and len({*names}) == len(names):
            return names
    return [file.path or file.name for file in files_read]


def _title(files_read: Sequence[SavedResult], names: Sequence[str]) -> str:
    """Return the metrics, or the names of files without a metric, and the days if all files state
    theirs."""
    subjects = [_metric(file) or name for file, name in zip(files_read, names, strict=True)]
    days = sorted({day for file in files_read for day in file.facts["windows"]})
    span = [" to ".join(dict.fromkeys((days[0], days[-1])))] if days else []
    has_days = all(file.facts["windows"] for file in files_read)
    return ", ".join([*dict.fromkeys(subjects), *(span if has_days else [])])


def _about(file: SavedResult, registry: Registry | None) -> list[tuple[str, str]]:
    """Return what a file's metrics are about and who owns them, as far as the registry knows."""
    known = registry.metrics if registry else {}
    metrics = [known[label.metric] for label in file.labels if label.metric in known]
    return [(metric.description, ", ".join(metric.owners)) for metric in metrics]


def _may_have_truth(file: SavedResult) -> bool:
    return file.facts["kind"] in ("values", "numbers", "numbers-by-category")


def _truths(files_read: Sequence[SavedResult], truth: Truths | None) -> list[Any]:
    """Return the truth of each of the files, None where it is not known."""
    places = [i for i, file in enumerate(files_read) if _may_have_truth(file)]
    matched: list[Any] = [None] * len(files_read)
    if truth is None or not places:
        return matched
    is_one = isinstance(truth, Mapping)
    truths = [truth] * len(places) if isinstance(truth, Mapping) else list(truth)
    if len(truths) != len(places):
        raise DecodeError(
            f"{counted(len(truths), 'truth')} for {counted(len(places), 'file')}: "
            "give one, or one for each"
        )
    for place, known in zip(places, truths, strict=True):
        matched[place] = _matched(files_read[place], known, is_its_own=not is_one)
    has_names = [matched[place] is not None for place in places]
    if not (any(has_names) if is_one else all(has_names)):
        pairs = zip(truths, has_names, strict=True)
        first = next((next(iter(known), "") for known, has in pairs if not has), "")
        raise DecodeError(f"no candidate is named in the truth, whose first value is {first!r}")
    return matched


def _matched(file: SavedResult, truth: Mapping[str, int], is_its_own: bool) -> Any:
    """Return the truth of a file as its face takes it, None where the truth is about other
    values."""
    if file.facts["kind"] == "numbers-by-category":
        return numbers_by_category(truth)
    if file.facts["kind"] != "values":
        return true_numbers(truth)
    words = file.cleaned(truth)
    values = {*map(str, file.saved["value"])}
    alike = {look(value): value for value in values.difference(words)}
    others = words.keys() - values if alike else ()
    if near := sorted(word for word in others if look(word) in alike):
        value = alike[look(near[0])]
        raise DecodeError(f"the truth names {near[0]!a}, which only looks like {value!a}")
    is_unlisted = is_its_own and file.facts["method"] in value_face.UNLISTED
    return words if is_unlisted or not words.keys().isdisjoint(values) else None


def _section(file: SavedResult, truth: Any, most: int) -> dict[str, Any]:
    """Return what the template needs of a file: the name of its `face`, the `data` of the face, and
    what every face has."""
    kind = file.facts["kind"]
    data = _FACES[kind](file, truth, most)
    return {
        "file": file,
        "summary": file.facts,
        "face": kind,
        "data": data,
        "facts": [
            *(value_face.facts(file, data) if kind == "values" else _FACTS[kind](file)),
            ("People", _people(file.facts.get("reports_per_person"))),
        ],
        "answer": _answer(file.facts, data),
        "trust": list(_trust(file.facts, data)),
        "warnings": list(_warnings(file.facts)),
        "epsilon": privacy.report_epsilon(file),
        "csv": _packed(file.path),
        "csv_name": Path(file.path).name,
    }


_FACES: Mapping[str, Callable[[SavedResult, Any, int], dict[str, Any]]] = {
    "values": value_face.face,
    "numbers": lambda file, truth, _: number_face.face(file, truth),
    "numbers-by-category": lambda file, truth, _: category_face.face(file, truth),
    "association": lambda file, _, most: crosstable.face(file, most),
    "regression": lambda file, _, __: number_face.coefficient_rows(file),
}
"""Data of a page for each kind of result."""
_FACTS: Mapping[str, Callable[[SavedResult], Iterable[tuple[str, str]]]] = {
    "numbers": number_face.facts,
    "numbers-by-category": category_face.facts,
    "association": crosstable.facts,
    "regression": number_face.facts_of_coefficients,
}
"""Functions that yield what must be known to trust a file, by kind of result."""


def _answer(summary: Facts, data: Mapping[str, Any]) -> str:
    """Return the answer of a file in a few words, with the number of its reports."""
    first = ""
    if "found" in data:
        candidates = counted(summary["candidates"], "candidate")
        first = f"{whole_number(data['found'])} of {candidates} found in "
    elif "maps" in data:
        combinations = counted(len(data["rows"]) + data["more"], "combination")
        first = f"{data['detected']} of {combinations} found in "
    elif "charts" in data:
        first = f"{counted(len(data['charts'][0]['lines']), 'category', 'categories')} in "
    elif data.get("statistics"):
        first = "{statistic} {text} in ".format_map(data["statistics"][0])
    return first + counted(summary["reports"], "report")


def _trust(summary: Facts, data: Mapping[str, Any]) -> Iterator[str]:
    """Yield, each in a few words, the threshold or noise floor of a file, the level of its
    intervals, and the share of made-up reports that they allow for."""
    if summary.get("threshold") is not None:
        yield f"threshold {whole_number(summary['threshold'])}"
    elif data.get("is_findable"):
        yield f"noise floor {whole_number(summary['noise_floor'])}"
    if "level" in summary:
        yield f"{'nominal ' * bool(summary.get('warning'))}{percent(summary['level'])} intervals"
    if summary.get("fakes") is not None:
        yield f"up to {percent(summary['fakes'])} made up"


def _packed(path: str) -> str:
    """Return the bytes of a file, compressed, as base64."""
    packed = io.BytesIO()
    with open(path, "rb") as file, gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as into:
        shutil.copyfileobj(file, into)
    return base64.b64encode(packed.getbuffer()).decode()


def _warnings(summary: Facts) -> list[str]:
    """Return warnings about a file, one sentence each."""
    texts = [summary.get("warning"), *summary.get("warnings", [])]
    sentences = [f"{text[0].upper()}{text[1:]}." for text in texts if text]
    if summary.get("consistency_bias"):
        sentences.append(
            f"Estimates were made consistent: {summary['consistency_bias']}. Intervals, "
            "discoveries and the unexplained reports are those of the unbiased estimates."
        )
    return sentences


def _people(reports: float | None) -> str:
    """Return words for the people over whom errors are taken, by the most `reports` of one
    person."""
    if reports is None:
        return "Errors of who reports take each report for another person's."
    return (
        f"Errors of who reports are those of people, of whom one sent {reports:.3g} at most: "
        f"{reports**0.5:.2g} times as large as if each had sent one."
    )
