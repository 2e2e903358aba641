"""Answers that a metric knows, and the words in which a device's owner reads a report."""

import math
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from math import comb, prod
from typing import Any, Literal, NamedTuple

from ldp.errors import ParameterError, RegistryError, ReportError
from ldp.mechanisms import CatalogueMechanism, Mechanism
from ldp.mechanisms.addressing import Identity
from ldp.mechanisms.bit_flip import Buckets
from ldp.mechanisms.hierarchical_histogram import Levels
from ldp.mechanisms.joint_base import parts_of, values_of_parts
from ldp.mechanisms.moments import Products
from ldp.mechanisms.numeric import Numbers
from ldp.protocol.batch import Item
from ldp.protocol.hashing import Value
from ldp.protocol.kinds import Index
from ldp.registry.definitions import Metric
from ldp.registry.registry import Registry

MOST_SHOWN = 5
"""Number of answers that a text lists before it counts the others."""
MOST_LISTED = 10_000
"""Largest number of answers that a report is compared with. They are the first ones of a longer
list."""
LONGEST = 40
"""Largest number of letters of an answer that are shown."""


class Listing(NamedTuple):
    """Answers of a metric. `kind`: a "list", "sets" of a list, "text", "numbers" or, for a joint
    metric and for numbers with categories, "tuples". `total`: their number, 0 where no list has
    them. `text`: the same in words. `pair`: two of them as an example."""

    kind: Literal["list", "sets", "text", "numbers", "tuples"]
    total: int
    text: str
    pair: tuple[str, str]


class Statement(NamedTuple):
    """Content of one report: the `answers` that it names, the `total` that it could name (0 without
    a list of them), and the same as `text`. A named answer may be untrue: reports are
    randomised."""

    metric: str
    version: int
    answers: tuple[str, ...]
    total: int
    text: str


class _Part(NamedTuple):
    """Part of a report: its mechanism, row and payload."""

    mechanism: Mechanism
    row: int
    number: int

    def names(self, point: int) -> bool:
        """Return whether the part names the answer of this `point`: it names all cells of the
        answer, or one of them where a report is one column. An answer that touches no cell is named
        if no cell is, but a bucket that the row is not about never."""
        layout = self.mechanism.layout
        cells = self.mechanism.candidate_addressing.cells(point, self.row)
        if isinstance(layout, Index):
            return self.number in cells
        if not cells:
            return not (self.number or isinstance(self.mechanism.addressing, Buckets))
        return all(layout.names(self.number, cell) for cell in cells)


class StatementReader:
    """Reader of the reports of a registry's metrics, which looks up their answers once."""

    def __init__(self, registry: Registry) -> None:
        self._metrics = registry.metrics
        self._answers: dict[str, Sequence[str]] = {}

    def read(self, item: Item) -> Statement:
        """Return what a report says. A report of a metric, version or mechanism that the registry
        no longer has is only counted."""
        metric = self._metrics.get(item.metric)
        if metric is not None and metric.version == item.version:
            with suppress(ReportError):
                return self._statement(metric, item.report)
        text = f"{len(item.report)} bytes about a version of the question that is gone"
        return Statement(item.metric, item.version, (), 0, text)

    def outcome(self, metric: Metric, value: Value, report: bytes) -> str:
        """Return what a report of `value` says, and how often reports of this value say so. Raises
        ReportError for an invalid report."""
        mechanism, statement = metric.mechanism, self._statement(metric, report)
        says = f"sent as a report that {statement.text}"
        if (if_held := true_naming(mechanism, value)) is None:
            return f"{says}."
        is_named = report_names(mechanism, report, value)
        has_cells = type(parts_of(mechanism)[0].addressing) is Identity
        layout = mechanism.layout
        if has_cells and isinstance(layout, Index) and statement.total == layout.columns:
            often = if_held if is_named else naming(mechanism)[1]
            return f"sent as {quoted_answer(statement.answers[0])}: happens {in_100(often)}."
        verb, often = ("names", if_held) if is_named else ("does not name", 1 - if_held)
        return f"{says}. It {verb} the value: happens {in_100(often)}."

    def _statement(self, metric: Metric, report: bytes) -> Statement:
        parts = _parts_of_report(metric.mechanism, report)
        if not metric.members:
            answers, total, text = self._named_answers(metric, parts)
            return Statement(metric.name, metric.version, answers, total, text)
        members = [
            (member.name, *self._named_answers(member, [part]))
            for member, part in zip(metric.members, parts, strict=True)
        ]
        return Statement(
            metric=metric.name,
            version=metric.version,
            answers=tuple(
                f"{name}: {answer}" for name, answers, _, _ in members for answer in answers
            ),
            total=prod(total for _, _, total, _ in members),
            text="; ".join(f"{name}: {text}" for name, _, _, text in members),
        )

    def _named_answers(
        self, metric: Metric, parts: Sequence[_Part]
    ) -> tuple[tuple[str, ...], int, str]:
        """Return the answers that the parts name, the number of all answers, and both in words."""
        part = parts[0]
        addressing: Any = part.mechanism.addressing
        columns = range(part.mechanism.shape.columns)
        if isinstance(addressing, Numbers):
            return (span := (_interval(addressing, part.number),)), 0, f"names {span[0]}"
        if isinstance(addressing, Products):
            return (product := (_product(addressing, part),)), 0, f"says {product[0]}"
        if isinstance(addressing, Buckets | Levels):
            places = columns
            if isinstance(addressing, Levels):
                places = range(addressing.groups(part.row) * len(addressing.by or ("",)))
            layout, labels = part.mechanism.layout, part.mechanism.labels
            answers = tuple(
                _group(addressing, part.row, place)
                if isinstance(addressing, Levels)
                else labels[(part.row + place) % len(labels)]
                for place in places
                if layout.names(part.number, place)
            )
            if len(answers) > MOST_SHOWN:
                return answers, len(places), f"names {len(answers):,} of {len(places):,} ranges"
            return answers, len(places), _text(answers, len(places), what="ranges")
        if metric.name not in self._answers:
            self._answers[metric.name] = answers_of(metric)
        values = self._answers[metric.name][:MOST_LISTED]
        if not values and part.mechanism.kind.is_signed:
            return (), 0, f"names half of the {len(columns):,} cells of row {part.row:,}"
        if not values:
            cells = part.number.bit_count() if part.mechanism.kind.is_bitmap else 1
            return (), 0, f"names {cells:,} of the {len(columns):,} cells of row {part.row:,}"
        answers = tuple(value for value in values if _is_named(metric.mechanism, parts, value))
        is_cut = len(values) < len(self._answers[metric.name])
        return answers, len(values), _text(answers, len(values), "the first " if is_cut else "")


def answers_of(metric: Metric) -> tuple[str, ...]:
    """Return the categories of a metric, or the values of its dictionary, if that can be read."""
    addressing = parts_of(metric.mechanism)[0].candidate_addressing
    if isinstance(addressing, Identity):
        return addressing.categories + addressing.untouching
    # an app need not ship the dictionary
    with suppress(RegistryError):
        return metric.candidates() or ()
    return ()


def listing(metric: Metric) -> Listing:
    """Return the answers of a metric, for a text."""
    if metric.members:
        members = [(member.name, listing(member)) for member in metric.members]
        first, second = zip(*(answers.pair for _, answers in members), strict=True)
        return Listing(
            kind="tuples",
            total=prod(answers.total for _, answers in members),
            text="; ".join(f"{name}: {answers.text}" for name, answers in members),
            pair=(f"({', '.join(first)})", f"({', '.join(second)})"),
        )
    other = "" if metric.other is None else f"; any other counts as {quoted_answer(metric.other)}"
    mechanism: Any = metric.mechanism
    if mechanism.outside:
        numbers = _numbers(mechanism.bounds)
        numbers = numbers._replace(text=numbers.text + _ranges(mechanism))
        if not (by := mechanism.by):
            return numbers
        low, high = (f"({pair[0]}, {pair[1]})" for pair in zip(by, numbers.pair, strict=False))
        text = f"{numbers.text}, of one of {enumeration(by)}{other}"
        return Listing("tuples", 0, text, (low, high))
    values = answers_of(metric)
    if len(values) < 2:
        return Listing("text", 0, "any text", ("one text", "another"))
    text, total = enumeration(values) + other, len(values)
    if (most := _largest_set(parts_of(metric.mechanism)[0])) is None:
        return Listing("list", total, text, (values[0], values[1]))
    low, high = ("{" + ", ".join(some) + "}" for some in (values[:most], values[-most:]))
    text = f"up to {most} of {text}; of more, {most} drawn at random count"
    return Listing("sets", total, text, (low, high))


def _numbers(bounds: Any) -> Listing:
    """Return numbers as answers, in `bounds` or, if None, without a known range."""
    if bounds is None:
        return Listing("numbers", 0, "any number", ("the least number", "the largest"))
    pairs = bounds if isinstance(bounds[0], tuple) else (bounds,)
    low, high = (", ".join(f"{pair[end]:g}" for pair in pairs) for end in (0, 1))
    if len(pairs) > 1:
        low, high = f"({low})", f"({high})"
    return Listing("numbers", 0, f"numbers from {low} to {high}", (low, high))


def _ranges(mechanism: CatalogueMechanism) -> str:
    """Return a note that a report names ranges of numbers, "" where it does not."""
    addressing = parts_of(mechanism)[0].addressing
    if not isinstance(addressing, Buckets | Levels):
        return ""
    many = "; a report names ranges of them, several or none"
    return f"{many}, cut as finely as chance decides" if isinstance(addressing, Levels) else many


def naming(mechanism: CatalogueMechanism) -> tuple[float, float]:
    """Return two probabilities that a report names the first answer of a listing's `pair`: if the
    device holds the first, and if it holds the second. For sets, return those of an answer in the
    device's set, and outside it. Hashes are random."""
    if_held = if_not = Fraction(1)
    for part in parts_of(mechanism):
        p, q, shared = part.channel.touched, part.channel.untouched, Fraction(part.overlap)
        if part.outside is None and not part.listed:  # it is hashed
            shared = Fraction(1, part.shape.columns)
        # of two numbers: as large at both ends
        if isinstance(part.addressing, Products):
            shared = 1 - Fraction(len(part.addressing.bounds), part.shape.rows)
        if part.kind is Index:
            if_held *= part.touches * p
            if_not *= shared * p + (part.touches - shared) * q
        else:
            is_many = part.kind.is_bitwise and _largest_set(part) is None
            cells = max(part.channel.differing) if is_many else 1
            rows, columns = part.shape
            about = Fraction(columns, rows) if isinstance(part.addressing, Buckets) else 1
            held, other = _naming_of_cells(p, q, cells, shared)
            if_held, if_not = if_held * about * held, if_not * about * other
    return float(if_held), float(if_not)


def _naming_of_cells(
    p: Fraction, q: Fraction, hashes: int, shared: Fraction
) -> tuple[Fraction, Fraction]:
    """Return two probabilities that a report names all cells of an answer: if the device holds it,
    and if it holds another. Each has as many `hashes`, of which two touch one cell with probability
    `shared`; a touched cell is reported with probability `p`, any other with `q`."""
    law = [Fraction(1)]  # of how many cells the answer has
    for _ in range(hashes):
        moves = zip([Fraction(0), *law], [*law, Fraction(0)], strict=True)
        law = [
            (1 - (n - 1) * shared) * fewer + n * shared * as_many
            for n, (fewer, as_many) in enumerate(moves)
        ]
    if_held = sum((share * p**n for n, share in enumerate(law)), Fraction(0))
    # by inclusion and exclusion over the cells that the other answer misses
    missed = (
        share * comb(n, i) * p ** (n - i) * (q - p) ** i * (1 - i * shared) ** hashes
        for n, share in enumerate(law)
        for i in range(n + 1)
    )
    return if_held, sum(missed, Fraction(0))


def _largest_set(part: Mechanism) -> int | None:
    """Return the size of the largest set of answers that is reported. Returns None for single
    answers."""
    return part.at_most_answers if part.answers == "sets" else None


def typed_value(metric: Metric, text: str) -> Any:
    """Return the value that a `text` stands for, as devices encode it. In the text, "|" separates
    the answers of a set, and commas separate several values."""
    kind = listing(metric).kind
    if kind == "sets":
        return metric.cleaned(frozenset(filter(None, map(str.strip, text.split("|")))))
    return metric.cleaned(
        tuple(map(str.strip, text.split(","))) if kind == "tuples" else text.strip()
    )


def true_naming(mechanism: CatalogueMechanism, value: Value) -> float | None:
    """Return the probability that a report of `value` names it, with collisions among its own
    hashes. Returns None for numbers that are rounded at random. Raises ParameterError for a value
    that the mechanism does not know."""
    share = 1.0
    for part, (part_value,) in values_of_parts(mechanism, [value]):
        if part.has_roundings:
            return None
        p, q = part.channel.chances
        if not part.kind.is_bitwise:
            share *= p * (part.touches if part.kind is Index else 1)
            continue
        rows, columns = part.shape
        point = part.candidate_addressing.point(part_value)
        sizes = [len({*part.candidate_addressing.cells(point, row)}) for row in range(rows)]
        none = 0.0 if isinstance(part.addressing, Buckets) else (1 - q) ** columns
        share *= sum(p**size if size else none for size in sizes) / rows
    return share


def report_names(mechanism: CatalogueMechanism, report: bytes, value: Value) -> bool:
    """Return whether a report names a value that the mechanism knows. For a set, returns whether it
    names the first answer. Raise ReportError for an invalid report."""
    if isinstance(value, frozenset) and value:
        value = frozenset([min(value)])
    return _is_named(mechanism, _parts_of_report(mechanism, report), value)


def in_100(share: float) -> str:
    """Return how often something happens, in words."""
    if 0 < share < 1e-6:
        return f"once in {1 / share:,.0f}"
    if share > 0.9995:
        return "nearly always"
    return f"{100 * share:.3g} times in 100"


def _parts_of_report(mechanism: CatalogueMechanism, report: bytes) -> list[_Part]:
    layout = mechanism.layout
    row, payload = mechanism.row_and_payload(report)
    return [
        _Part(part, part_row, part.layout.payload_number(part_payload))
        for part, (part_row, part_payload) in zip(
            parts_of(mechanism), layout.split(row, payload), strict=True
        )
    ]


def _is_named(mechanism: CatalogueMechanism, parts: Sequence[_Part], value: Value) -> bool:
    # a word that the mechanism does not know
    with suppress(ParameterError):
        pairs = zip(parts, values_of_parts(mechanism, [value]), strict=True)
        return all(
            part.names(part.mechanism.candidate_addressing.point(v)) for part, (_, (v,)) in pairs
        )
    return False


def _interval(addressing: Numbers, column: int) -> str:
    """Return the numbers for which a column is likelier than for others."""
    low, high = addressing.bounds
    first, last = max(0, column - addressing.width + 1), min(column, addressing.steps)
    ends = (low + (high - low) * step / addressing.steps for step in (first, last))
    return " to ".join(dict.fromkeys(f"{end:.6g}" for end in ends))


def _group(addressing: Levels, row: int, group: int) -> str:
    """Return the numbers of a group of bins, after their category."""
    width, edges = addressing.width(row), addressing.bins.edges
    category, place = divmod(group, addressing.groups(row))
    low, high = edges[place * width], edges[min((place + 1) * width, len(edges) - 1)]
    text = f"{low:.6g} or more" if math.isinf(high) else f"{low:.6g} to {high:.6g}"
    if math.isinf(low):
        text = f"below {high:.6g}"
    return f"{addressing.by[category]}: {text}" if addressing.by else text


def _product(addressing: Products, part: _Part) -> str:
    factors = [f"number {factor}" for factor in addressing.factors[part.row] if factor]
    return f"{' times '.join(factors)} is at its {'largest' if part.number else 'least'}"


def quoted_answer(answer: str) -> str:
    """Return an answer in quotes, cut to LONGEST letters."""
    return f'"{answer if len(answer) <= LONGEST else answer[: LONGEST - 3] + "..."}"'


def enumeration(answers: Sequence[str]) -> str:
    """Return the first MOST_SHOWN answers as a text, and how many more there are."""
    texts = list(map(quoted_answer, answers[:MOST_SHOWN]))
    if len(answers) > MOST_SHOWN:
        texts.append(f"{len(answers) - MOST_SHOWN:,} more")
    return " and ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def _text(answers: Sequence[str], count: int, which: str = "", what: str = "answers") -> str:
    return f"names {enumeration(answers) if answers else 'none'} of {which}{count:,} {what}"
