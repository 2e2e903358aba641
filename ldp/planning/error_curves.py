"""Errors by epsilon, as a frame, a chart and a table: of mechanisms compared, or of a trial."""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from html import escape
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from ldp.arrays import Generator, Seed, generator_of
from ldp.errors import ParameterError
from ldp.files import counted
from ldp.mechanisms import METRIC_MECHANISMS, CatalogueMechanism
from ldp.mechanisms.base import require_mechanism
from ldp.mechanisms.hadamard_response import HadamardResponse
from ldp.mechanisms.hierarchical_histogram import HierarchicalHistogram
from ldp.mechanisms.numeric import number_of
from ldp.planning.mechanism_choice import CANDIDATES, OF_NUMBERS, report_bytes
from ldp.planning.numbers import Mean, Percentile
from ldp.planning.plan import lower_bound
from ldp.planning.question import Question
from ldp.planning.values import Shares
from ldp.protocol.channel import real_number
from ldp.simulation import Population
from ldp.tables.frame import Columns, Frame, new_axes, number_text, round_numbers, table_html

BOUND, CURATOR = "least error there is", "trusted curator"
"""Names of the curves that are of no mechanism on devices."""
COLOURS = (
    *("#3b73b9", "#c26a1b", "#2f7d4f", "#9a5cb6", "#c9485a", "#3a8fa3"),
    *("#8a7a1f", "#808080", "#d65fa8", "#6a6ae0", "#5f9a1f", "#b58900"),
)
"""Colours of curves, which are seen on white and on the black of dark pages."""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 700, 300, 60, 230, 24, 40
"""Sizes of the chart and its margins, in pixels."""
DIGITS = ((1,), (1, 3), (1, 2, 5))
"""First digits of the numbers at the axis of errors, as `round_numbers` takes them."""
MOST_NUMBERS = 500
"""Most different numbers that are drawn as they are. With more, each is rounded to 3 digits."""
Source = str | CatalogueMechanism | Callable[..., CatalogueMechanism]
"""Mechanism whose epsilon is replaced, its name or class, or a function from an epsilon to it."""


class Curve(NamedTuple):
    """Errors at several epsilons; NaN where no error is known."""

    name: str
    epsilons: tuple[float, ...]
    errors: tuple[float, ...]

    @property
    def is_dashed(self) -> bool:
        """Return whether the curve is a bound's or a curator's."""
        return self.name.startswith((BOUND, CURATOR))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ErrorCurves(Frame):
    """Errors by epsilon. `about`: the data. `frame`: columns. `curves`: lines to draw, of the
    quantity `of`. `heads` and `cells`: the table that is shown. `notes`: the text below it."""

    about: str
    frame: Columns
    curves: tuple[Curve, ...]
    of: str
    heads: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    notes: str

    @property
    def headline(self) -> str:
        """One line: the data, and that it is a simulation."""
        return f"{self.about}. A simulation, made from the data: nothing here is private."

    @property
    def columns(self) -> Columns:
        """Columns by name."""
        return self.frame

    def _repr_html_(self) -> str:
        """Return the chart and the table that Jupyter shows."""
        table = table_html(self.heads, self.cells)
        return f"<p>{escape(self.headline)}</p>{self.svg()}{table}<p>{escape(self.notes)}</p>"

    def plot(self, axes: Any = None) -> Any:
        """Draw the curves on logarithmic axes, and return the axes of matplotlib: `axes`, or new
        ones. Raises MissingPackage without matplotlib."""
        axes = new_axes(axes, self.about)
        curves = self._coloured()
        for curve, colour in curves:
            style = "--" if curve.is_dashed else "o-"
            axes.plot(curve.epsilons, curve.errors, style, color=colour, label=curve.name)
        axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel=self.of)
        epsilons = sorted({epsilon for curve in self.curves for epsilon in curve.epsilons})
        axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        axes.xaxis.minorticks_off()
        if curves:
            axes.legend()
        return axes

    def _coloured(self) -> list[tuple[Curve, str]]:
        """Return each curve that has a point to draw, with its colour."""
        curves = [curve for curve in self.curves if any(0 < e < math.inf for e in curve.errors)]
        return [(curve, COLOURS[i % len(COLOURS)]) for i, curve in enumerate(curves)]

    def svg(self) -> str:
        """Return the chart as a picture that loads nothing: logarithmic axes, a line a curve."""
        points = [pair for curve in self.curves for pair in zip(*curve[1:], strict=True)]
        known = [(x, y) for x, y in points if math.isfinite(y) and y > 0]
        if not known:
            return ""
        ends = [(min(column), max(column)) for column in zip(*known, strict=True)]
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

        def at(number: float, axis: int) -> float:
            low, high = ends[axis]
            part = math.log(number / low) / math.log(high / low) if high > low else 0.5
            first, last = ((LEFT, right), (bottom, TOP))[axis]
            return round(first + (last - first) * (0.04 + 0.92 * part), 1)

        ticks = [
            f'<text x="{at(x, 0)}" y="{bottom + 18}" text-anchor="middle">{x:g}</text>'
            for x in sorted({x for x, _ in known})
        ]
        numbers = round_numbers(*ends[1], DIGITS)
        for y in numbers if len(numbers) > 1 else ends[1]:
            height = at(y, 1)
            ticks.append(
                f'<path d="M{LEFT} {height}H{right}" stroke="#8884"/>'
                f'<text x="{LEFT - 6}" y="{height + 4}" text-anchor="end">{number_text(y)}</text>'
            )
        lines = []
        for place, (curve, colour) in enumerate(self._coloured()):
            pairs = [p for p in zip(*curve[1:], strict=True) if math.isfinite(p[1]) and p[1] > 0]
            corners = " ".join(f"{at(x, 0)},{at(y, 1)}" for x, y in pairs)
            dashes, height = ' stroke-dasharray="5 4"' * curve.is_dashed, TOP + 12 + 18 * place
            lines.append(
                f'<polyline points="{corners}" fill="none" stroke="{colour}" stroke-width="2"'
                f'{dashes}/><path d="M{right + 12} {height - 4}h22" stroke="{colour}" '
                f'stroke-width="2"{dashes}/><text x="{right + 40}" y="{height}">'
                f"{escape(curve.name)}</text>"
                + "".join(
                    f'<circle cx="{at(x, 0)}" cy="{at(y, 1)}" r="3" fill="{colour}"/>'
                    for x, y in pairs
                )
            )
        height = max(HEIGHT, TOP + 24 + 18 * len(lines))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" style="max-width:100%;min-width:480px;height:auto" role="img" '
            f'aria-label="{escape(self.of)} by epsilon" font-family="sans-serif" font-size="12" '
            f'fill="currentColor">{"".join(ticks + lines)}'
            f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 6}" text-anchor="middle">epsilon</text>'
            f'<text x="0" y="12">{escape(self.of)}</text></svg>'
        )


def compare(
    mechanisms: Source | Sequence[Source],
    values: Any,
    epsilons: float | Sequence[float] = (0.5, 1.0, 2.0, 4.0),
    seed: Seed = None,
) -> ErrorCurves:
    """Return the errors of mechanisms on the same data by epsilon, and a trusted curator's. For
    values of a list, returns also the least error of any unbiased mechanism.

    `mechanisms`: names such as "pgr", which a plan tunes; classes, which take the values as
    `categories`; mechanisms, whose epsilon is replaced; or functions from an epsilon to one. All
    are about one kind of answers: values (the error is the root mean square over the counts of all
    values), a number (of the mean), or a number in bins (of the 95th percentile). `values`: a
    column of data with a row a person, or a Population. Raises ParameterError for mechanisms about
    different kinds, and for a number out of range.
    """
    people, generator = Population.of(values), generator_of(seed)
    if isinstance(mechanisms, str) or not isinstance(mechanisms, Iterable):
        mechanisms = [mechanisms]
    sources = [*mechanisms]
    if not sources:
        raise ParameterError("give one mechanism or more")
    rows, unit = list[dict[str, Any]](), ""
    epsilons = epsilons_of(epsilons)
    for epsilon in map(float, epsilons):
        built = [_mechanism(source, people, epsilon) for source in sources]
        question = _question(built, people, epsilon)
        unit = "reports" if isinstance(question, Shares) else "units of the numbers"
        pairs = [*zip(sources, built, strict=True)]
        names = [source if isinstance(source, str) else way.name for source, way in pairs]
        for place, (name, mechanism) in enumerate(zip(names, built, strict=True), 1):
            label = name if names.count(name) == 1 else f"{name} ({place})"
            rows.append({"mechanism": label, "epsilon": epsilon})
            if mechanism is not None:
                rows[-1] |= _errors(question, mechanism, generator)
        curator = question.curator(generator).std_error
        rows.append({"mechanism": CURATOR, "epsilon": epsilon, "std_error": curator})
        if isinstance(question, Shares):
            least = math.sqrt(people.users * lower_bound(question.domain, question.epsilon))
            rows.append({"mechanism": BOUND, "epsilon": epsilon, "std_error": least})
    names = [str(row["mechanism"]) for row in rows]
    keys = ("epsilon", "std_error", "measured", "report_bytes")
    columns = {key: np.array([row.get(key, math.nan) for row in rows]) for key in keys}
    curves = [
        Curve(name, *(tuple(columns[key][np.array(names) == name].tolist()) for key in keys[:2]))
        for name in dict.fromkeys(names)
    ]
    return ErrorCurves(
        about=f"{counted(people.users, 'person', 'people')}, "
        f"{counted(len(people.values), 'different value')}",
        frame={"mechanism": names, **columns},
        curves=tuple(curves),
        of=f"standard error, in {unit}",
        heads=("", *(f"epsilon {epsilon:g}" for epsilon in epsilons)),
        cells=tuple(
            (curve.name, *("-" if math.isnan(e) else number_text(e) for e in curve.errors))
            for curve in curves
        ),
        notes=f"Standard errors in {unit}, as the mechanisms state them; `measured` is of draws.",
    )


def epsilons_of(epsilons: Any) -> tuple[float, ...]:
    """Return one epsilon or several as a tuple, each once. Raises ParameterError for none."""
    try:
        several = [epsilons] if isinstance(epsilons, Real | bytes) else [*dict.fromkeys(epsilons)]
    except TypeError:  # no list, or one of lists
        several = []
    if not several or not all(isinstance(epsilon, Real) for epsilon in several):
        raise ParameterError("give one epsilon or more, each a number")
    return tuple(e if isinstance(e, int | float) else real_number(e, "epsilon") for e in several)


def _mechanism(source: Any, people: Population, epsilon: float) -> Any:
    """Return the mechanism at an epsilon: for a name the plan's, or, where the plan has none, that
    of the values alone. Returns None where there is none."""
    if isinstance(source, str):
        if source not in METRIC_MECHANISMS:
            known = ", ".join([*CANDIDATES, HadamardResponse.name])
            raise ParameterError(
                f"no mechanism {source!r}; known: {known} (papers' names: docs/comparison.md)"
            )
        if source in CANDIDATES:
            with suppress(ParameterError):
                return Shares.of(people, epsilon).best(source)
            with suppress(ParameterError):
                return _of_class(METRIC_MECHANISMS[source], people, epsilon)
            return None
        source = METRIC_MECHANISMS[source]
    if isinstance(source, type):
        return _of_class(source, people, epsilon)
    built = require_mechanism(source(epsilon) if callable(source) else source)
    if callable(source):
        return built
    listed = [field for field in fields(source) if field.default is not False]
    names = {field.name: field.default for field in listed}
    if "epsilon" not in names:
        raise ParameterError(f"{source.name} has no epsilon: give a function from one to it")
    changes: dict[str, Any] = {name: 0 for name, default in names.items() if default == 0}
    if replace(source, **changes) != source:  # somebody chose them
        changes = {}
    return replace(source, epsilon=epsilon, **changes)


def _of_class(kind: type, people: Population, epsilon: float) -> Any:
    """Return the mechanism of a class for the values of people. Raises ParameterError where it
    cannot be made from them."""
    parameters: Any = {"categories": tuple(map(str, people.values)), "epsilon": epsilon}
    try:
        return require_mechanism(kind(**parameters))
    except TypeError:
        raise ParameterError(
            f"{kind.__name__} takes other parameters than categories and epsilon: give a function "
            "from an epsilon to a mechanism"
        ) from None


def _question(mechanisms: Sequence[Any], people: Population, epsilon: float) -> Question:
    """Return the question that all of the mechanisms answer. None stands for one of counts."""
    about = {("values", None) if way is None else (way.answers, way.by) for way in mechanisms}
    bounds = {way.bounds for way in mechanisms if way and way.name in OF_NUMBERS}
    has_bins = {bool(way) and way.name == HierarchicalHistogram.name for way in mechanisms}
    if len(about) > 1 or len(bounds) > 1 or len(has_bins) > 1:
        raise ParameterError("compare mechanisms about one kind of answers, and one range")
    if not bounds and True not in has_bins:
        if (answers := about.pop()[0]) != "values":
            raise ParameterError(f"compare takes mechanisms of values or numbers, not {answers}")
        return Shares.of(people, epsilon)
    if len(people.values) > MOST_NUMBERS:
        people = people.mapped(lambda value: f"{number_of(value):.3g}")
    if True in has_bins:
        return Percentile.of(people, epsilon, q=0.95, way=mechanisms[0])
    return Mean.of(people, epsilon, bounds=bounds.pop())


def _errors(question: Question, mechanism: Any, generator: Generator) -> dict[str, float]:
    """Return the standard error that a mechanism states, and that of draws where there are any."""
    errors = {"std_error": question.std_error(mechanism), "report_bytes": report_bytes(mechanism)}
    # a mechanism of cohorts has no estimate from one cell
    with suppress(ParameterError):
        errors["measured"] = question.simulate(mechanism, generator)[0]
    return errors
