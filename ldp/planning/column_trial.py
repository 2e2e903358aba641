"""A trial: what reports of one column of data would say, beside the data and a curator.

A simulation of one report a person. Nothing in it is private: it is made from the data, and so is
the list of values.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldp.arrays import Generator, Seed, column_codes, generator_of, merged, require_one_index
from ldp.data_files import number_forms, plain_numbers
from ldp.decoding import decode
from ldp.decoding.by_category import decode_by_category
from ldp.decoding.distribution import decode_distribution
from ldp.errors import ParameterError, require_one_of
from ldp.files import counted
from ldp.mechanisms.hierarchical_histogram import MAGNITUDES
from ldp.mechanisms.numeric import is_number, number_of
from ldp.planning.error_curves import BOUND, CURATOR, Curve, ErrorCurves, epsilons_of
from ldp.planning.mechanism_choice import report_bytes
from ldp.planning.numbers import Percentile
from ldp.planning.percentiles import expected
from ldp.planning.plan import lower_bound
from ldp.planning.values import Shares
from ldp.registry.lookalikes import odd_values
from ldp.simulation import Population, draw_table
from ldp.tables.result import Result
from ldp.tables.statistics import known_ends, tells

FEW_NUMBERS = 20
"""Largest number of different numbers that are taken for categories."""
MOST_OTHERS = 0.01
"""Largest share of people without a number in a column that is read as numbers."""
MOST_DIFFERENT = 100_000
"""Most different categories. More different numbers than this are rounded, which takes seconds."""
MOST_GROUPS = 8
"""Most categories whose errors are drawn: those of most people."""
MANY_NUMBERS = 2000
"""Number of different numbers above which a plan is made from 3 digits of each."""
USELESS = 4.0
"""Largest error, in percentiles, that is drawn."""
QUANTILES = (0.5, 0.95)
LONGEST = 40
_MEASURE = re.compile(
    r"[+-]?([('’<>≤≥~≈–\xad\u200b-\u200f]?(?:[A-Z]{0,2}[$€£¥₹]|(?:[A-Z]{3}|[Kk]r\.?) )?)"
    r" ?[+-]?\d[\d.,' ]*?"
    r"(?: ?([^\d\s.,']{1,4}\.?)|(:)\d\d(?::\d\d)?)?"
)
"""Number after a currency or mark, or before a unit; minutes or hours with what follows a colon."""
BETWEEN = " / "
"""Separator of a category and the value that is counted in it."""
VALUE_CELLS = {
    "epsilon": "{epsilon:g}",
    "mechanism": "{mechanism}",
    "values found": "{detected:,}",
    "people in them": "{people_in_detected:.1%}",
    "a value needs about": "{noise_floor:,.0f}",
    "std. error": "{std_error:,.0f}",
    "curator's std. error": "{curator_std_error:.3g}",
}
"""Heading of a column -> its cells, of the figures of a row."""
VALUE_NOTES = (
    "Found: discovered; on average at most 5 % of these are held by nobody. A value needs "
    "about so many of the {:,} people to be found half of the time. Std. error: of the "
    "count of a value that few hold. Curator's: of a histogram by somebody trusted with values, "
    "at the same epsilon. For values that nobody can list see sfp, prefix and rappor-ngrams."
)
NUMBER_CELLS = {
    "epsilon": "{epsilon:g}",
    "mechanism": "{mechanism}",
    "": "{label}",
    "in the data": "{true}",
    "estimate": "{text}",
    "95 % interval": "{interval}",
    "curator": "{curator}",
}
NUMBER_NOTES = (
    "No device knows the range of the numbers. At least, at most: the reports set no other end. "
    "Curator: what somebody trusted with the numbers would release, at the same epsilon a "
    "percentile. With a known range see ldp plan number --range."
)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Answers of reports at one epsilon: their `result`, and `rows` of figures beside those of the
    data and of a trusted curator."""

    epsilon: float
    result: Result
    rows: tuple[dict[str, Any], ...]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Trials(ErrorCurves):
    """Trials of a column at several epsilons. `people`: holders of the values; `facts`: how the
    column was read, JSON-ready."""

    trials: tuple[Trial, ...]
    people: Population
    facts: Mapping[str, Any]

    @property
    def figures(self) -> list[dict[str, Any]]:
        """Rows of figures of all trials."""
        return [row for trial in self.trials for row in trial.rows]


def are_numbers(people: Population) -> bool:
    """Return whether the values are to be taken for numbers: more than FEW_NUMBERS different values
    are numbers, and at most a share MOST_OTHERS of the people holds another value."""
    places = [place for place, value in enumerate(people.values) if is_number(value)]
    held = people.shares[places].sum()
    return len(places) > FEW_NUMBERS and bool(held >= 1 - MOST_OTHERS)


def look_like_numbers(cells: Iterable[str]) -> bool:
    """Return whether the cells of a file or of a column of texts are to be taken for numbers."""
    likely = [next(iter(number_forms(cell).values()), cell) for cell in cells if cell]
    return bool(likely) and are_numbers(Population(likely))


def try_values(people: Population, epsilons: Sequence[float], generator: Generator) -> list[Trial]:
    """Return a trial at each epsilon, with the mechanism that a plan recommends. Raises
    ParameterError for fewer than two different values and an epsilon out of range."""
    counts = people.numbers
    trials = []
    for epsilon in epsilons:
        question = Shares.of(people, epsilon)
        mechanism, names = question.best(), question.categories
        table = draw_table(mechanism, names, counts=counts, generator=generator)
        estimates = replace(decode(table, names), values=people.values)
        detected = estimates.detected()
        row = {
            "epsilon": epsilon,
            "mechanism": mechanism.name,
            "report_bytes": report_bytes(mechanism),
            "detected": int(detected.sum()),
            "people_in_detected": float(counts[detected].sum() / people.users),
            "std_error": estimates.noise,
            "mean_std_error": question.std_error(mechanism),
            "noise_floor": estimates.noise_floor(),
            "curator_std_error": question.curator(generator, len(counts)).std_error,
        }
        trials.append(Trial(epsilon=epsilon, result=estimates, rows=(row,)))
    return trials


def try_numbers(
    people: Population,
    epsilons: Sequence[float],
    quantiles: tuple[float, ...],
    generator: Generator,
) -> list[Trial]:
    """Return a trial at each epsilon of numbers whose range no device knows. Pairs of a category
    and a number have a trial by category, the categories of most people first. Raises
    ParameterError for a value that is no number, too many categories, and quantiles or epsilons out
    of range."""
    groups = _by_category(people)
    names = tuple(groups) if len(groups) > 1 else ()
    everybody = _rounded(people.mapped(lambda value: _number(value[-1] if names else value)))
    trials = []
    for epsilon in epsilons:
        mechanism = Percentile.of(everybody, epsilon, q=max(quantiles), by=names).best()
        table = draw_table(mechanism, people.values, counts=people.counts, generator=generator)
        decoder: Any = decode_by_category if names else decode_distribution
        result = decoder(table).at(quantiles=quantiles)
        rows = []
        for name, held in groups.items():
            distribution = result[name] if names else result
            for q in quantiles:
                question = Percentile.of(held, epsilon, q=q, way=mechanism)
                statistic = distribution.quantile(q)
                rows.append(
                    {
                        "epsilon": epsilon,
                        "mechanism": mechanism.name,
                        **({"value": name, "people": held.users} if names else {}),
                        "statistic": statistic.name,
                        "true": question.truth,
                        "estimate": statistic.estimate,
                        "low": statistic.low,
                        "high": statistic.high,
                        "curator": question.truth + float(question.curator(generator, 1).errors[0]),
                    }
                )
                ends = statistic.low, statistic.high
                is_told = not names or tells(*ends, estimate=statistic.estimate)
                if not names or q == max(quantiles):
                    rounded = question.with_(people=_rounded(held))
                    error = _relative_error(rounded, everybody.users)
                    rows[-1]["error"] = error if is_told and question.truth else math.nan
                if not is_told:
                    rows[-1]["reports_needed"] = distribution.needed(q)
        trials.append(Trial(epsilon=epsilon, result=result, rows=tuple(rows)))
    return trials


def _relative_error(question: Percentile, users: int) -> float:
    """Return the error of a percentile that half of the tables are expected to exceed, as a share
    of the percentile. It is NaN for a useless error. The question's people are among `users`
    people."""
    way: Any = question.way
    law = expected(way, question.known(question.users / users)._replace(users=users))
    errors = law.quantile_draws(question.q) - question.truth
    error = float(np.median(np.abs(errors))) / question.whole
    return error if error <= USELESS else math.nan


def _rounded(people: Population) -> Population:
    """Return the people with numbers of 3 digits where they hold very many: enough for a plan."""
    if len(people.values) <= MANY_NUMBERS:
        return people
    return people.mapped(lambda value: f"{float(value):.3g}")


def _by_category(people: Population) -> dict[str, Population]:
    """Return the numbers of the people of each category, largest first. All are by "" where values
    are no pairs."""
    groups = defaultdict[str, Counter[str]](Counter)
    for value, count in people.truth().items():
        category, number = value if isinstance(value, tuple) else ("", value)
        groups[category][_number(number)] += count
    largest = sorted(groups.items(), key=lambda pair: -pair[1].total())
    return {name: Population.of_counts(held) for name, held in largest}


def _number(value: Any) -> str:
    return repr(float(number_of(value)))


def try_column(
    values: Any,
    *,
    by: Any = None,
    epsilon: float | Sequence[float] = (1, 2, 4),
    read_as: str = "auto",
    name: str = "",
    seed: Seed = None,
) -> Trials:
    """Return what reports of a column of data, one report a person, would say at each epsilon,
    beside the data and a trusted curator: a frame, and a picture of the error by epsilon.

    `values`: a list, an array, an Arrow column or a Series, with a row a person. Rows without a
    value are left out. `by`: a column of categories, in each of which numbers have their
    percentiles, and values their counts. `read_as`: "categories", "numbers", or "auto": more than
    FEW_NUMBERS different numbers are numbers. `name`: name of the column. Raises ParameterError for
    a column without two different values, or with too many, and an epsilon out of range.

    >>> import ldp
    >>> cities = ["Oslo"] * 600 + ["Bergen"] * 300 + ["Hell"] * 100
    >>> trials = ldp.try_column(cities, epsilon=(1, 4), name="city", seed=1)
    >>> [(row["mechanism"], row["detected"]) for row in trials.rows()]
    [('rr', 3), ('rr', 3)]
    """
    epsilons = epsilons_of(epsilon)
    require_one_of(read_as, ("auto", "categories", "numbers"), "read_as")
    with suppress(AttributeError):
        # that of an expression of polars is no text
        if hasattr(values, "__array__"):
            name = name or str(values.name or "")
    people, about, notes, facts = _column(values, by, read_as, name or "values")
    generator, of_numbers = generator_of(seed), facts["read_as"] == "numbers"
    if of_numbers:
        trials, columns = try_numbers(people, epsilons, QUANTILES, generator), NUMBER_CELLS
        unit = "median error of a percentile, as a share of it"
    else:
        trials, columns = try_values(people, epsilons, generator), VALUE_CELLS
        unit = "standard error of a count, in people"
    rows = [row for trial in trials for row in trial.rows]
    texts = [
        {**row, "interval": _interval(row), "label": _short(row), "text": _estimate_text(row)}
        | {key: _figure(row[key]) for key in ("true", "curator") if key in row}
        for row in rows
    ]
    keys = dict.fromkeys(key for row in rows for key in row)
    frame: dict[str, Any] = {key: [row.get(key, math.nan) for row in rows] for key in keys}
    return Trials(
        about=about,
        frame={
            key: cells if isinstance(cells[0], str) else np.array(cells)
            for key, cells in frame.items()
        },
        curves=tuple(_number_curves(rows) if of_numbers else _value_curves(rows, people)),
        of=unit,
        heads=tuple(columns),
        cells=tuple(
            tuple(form.format(**row).replace("%", " %") for form in columns.values())
            for row in texts
        ),
        notes=notes + _needs(rows),
        trials=tuple(trials),
        people=people,
        facts=facts,
    )


def _column(
    values: Any, by: Any, read_as: str, name: str
) -> tuple[Population, str, str, dict[str, Any]]:
    """Return a column of data as it is read: how many people hold each value, sentences about the
    column and its answers, and the same facts for a program."""
    different, places = column_codes(values, name, has_missing=True)
    groups, group = _groups(by, values, places)
    _require_texts(different, name)
    if read_as != "categories":
        different, places = _as_numbers(different, places, read_as, name)
    # the last: missing
    is_blank = np.array([value == "" for value in different] + [True])
    is_empty = is_blank[places] | (group < 0)
    counts = np.bincount(places[~is_empty], minlength=len(different)).tolist()
    held = {value: count for value, count in zip(different, counts, strict=True) if count}
    if not held:
        where = "" if by is None else " in rows with a category"
        raise ParameterError(f"the column {name} has no values{where}")
    everybody = Population.of_counts(held)
    of_numbers = are_numbers(everybody) if read_as == "auto" else read_as == "numbers"
    has_number: Any = is_number if of_numbers else number_forms
    others = [value for value in held if not has_number(value)]
    if of_numbers and len(others) == len(held):
        raise ParameterError(f"no cell of {name} is a number; read it as categories")
    measured = [value for value in others if any(_unit_of(value))]
    units = {*map(_unit_of, held)} - {_unit_of("1")}
    are_measured = len(held) > FEW_NUMBERS and len(units) == 1 and () not in units
    if of_numbers:
        are_measured = sum(held[value] for value in measured) > MOST_OTHERS * everybody.users
    if are_measured and read_as != "categories":
        raise ParameterError(
            f"{name}: {measured[0][:LONGEST]!r} may be a number with a unit: leave the unit out, "
            "or say that these are categories (--as or read_as)"
        )
    if not of_numbers and len(held) > MOST_DIFFERENT:
        raise ParameterError(
            f"{name} has {len(held):,} different values, and ldp try takes "
            f"{MOST_DIFFERENT:,} at most: take a part of the rows, or see sfp, prefix and "
            "rappor-ngrams for values that nobody lists"
        )
    is_other = np.array([of_numbers and not is_number(value) for value in different] + [False])
    left_out = ~is_empty & is_other[places]
    is_rounded = of_numbers and len(held) > MOST_DIFFERENT
    texts = [f"{number_of(v):.4g}" if is_rounded and is_number(v) else v for v in different]
    is_in = ~is_empty & ~left_out
    people = _people(texts, places[is_in], groups, group[is_in], of_numbers)
    facts: dict[str, Any] = {
        "column": name,
        "read_as": "numbers" if of_numbers else "categories",
        "people": people.users,
        "values": len(held) - len(others) * of_numbers,
        "empty": int(is_empty.sum()),
        "left_out": int(left_out.sum()),
    }
    about = (
        f"{name}: {counted(people.users, 'person', 'people')}, "
        f"{counted(facts['values'], 'different value')}, "
        f"read as {facts['read_as']}{' of 4 digits' * is_rounded}"
    )
    for other in others[:1]:
        row = int(np.argmax(places == different.index(other))) + 1
        first = f"as {other[:LONGEST]!r} in row {row:,}"
    if not of_numbers and others and len(held) - len(others) > FEW_NUMBERS:
        about += f", because of {counted(len(others), 'value')} without a number, {first}"
        about += " (--as numbers or read_as leaves out such cells)"
    if len(groups) > 1:
        about += f", by {len(groups):,} categories"
    if is_empty.any():
        about += f"; {counted(facts['empty'], 'empty cell')} left out"
    if left_out.any():
        about += f"; {counted(facts['left_out'], 'cell')} without a number left out, {first}"
    about = "; ".join([about, *odd_values(held, of_numbers)])
    notes = NUMBER_NOTES if of_numbers else VALUE_NOTES.format(people.users)
    numbers = [number_of(value) for value in held if of_numbers and is_number(value)]
    if any(number < 0 for number in numbers):
        notes += " Numbers below 0 are taken for 0 here: `signed = true` gives them bins."
    low, high = MAGNITUDES
    if any(number > high or 0 < number < low for number in numbers):
        notes += f" Numbers below {low:g} share a bin here, and so do those above {high:g}:"
        notes += " `magnitudes` gives them bins."
    return people, about, notes, facts


def _require_texts(different: Sequence[Any], name: str) -> None:
    """Raise ParameterError, with `name`, where a value is no text."""
    if not all(isinstance(value, str) for value in different):
        raise ParameterError(f"{name} must hold a text or a number in each row: give one column")


def _as_numbers(different: Any, places: Any, read_as: str, name: str) -> tuple[Any, Any]:
    """Return values and places with numbers such as '1,234.50' as programs write them, where they
    are read as numbers. Raises ParameterError for a number that can be read in two ways."""
    if not any(number_forms(value) for value in different if not is_number(value)):
        return different, places
    rows = [different[place] for place in places.tolist() if place >= 0]
    if read_as == "auto" and not look_like_numbers(rows):
        return different, places
    advice = "give numbers in place of texts, or read_as='categories'"
    numbers = plain_numbers(different, lambda _: name, advice)
    return merged(map(numbers.__getitem__, different), places)


def _unit_of(value: str) -> tuple[str | None, ...]:
    """Return the signs before and after a number, as a currency, brackets, a unit or what makes it
    a time such as 1:30. Returns () for a text."""
    match = _MEASURE.fullmatch(re.sub(r"\s|(?<=\d)’", " ", value).strip())
    return match.groups() if match else ()


def _groups(by: Any, values: Any, places: Any) -> tuple[tuple[str, ...], Any]:
    """Return the categories and that of each row, one "" without `by`. Raises ParameterError for
    another number of rows than `values` has, and for another index of pandas."""
    if by is None:
        return ("",), np.zeros_like(places)
    groups, group = column_codes(by, "by", has_missing=True)
    if len(group) != len(places):
        raise ParameterError(
            f"by has {counted(len(group), 'row')} and the values have {len(places):,}"
        )
    require_one_index({"the values": values, "by": by})
    _require_texts(groups, "by")
    filled = [*filter(None, groups)]
    numbers = {text: number for number, text in enumerate(filled)}
    return tuple(filled), np.array([*(numbers.get(text, -1) for text in groups), -1])[group]


def _people(
    texts: Sequence[str], places: Any, groups: Sequence[str], group: Any, of_numbers: bool
) -> Population:
    """Return how many people hold each value, pair of a category and a number, or pair of a
    category and a value, which is one text. `texts`: of each place; `groups`: the names of each
    `group`. Raises ParameterError where two pairs are the same text."""
    numbers, counts = np.unique(places * len(groups) + group, return_counts=True)
    people = Counter[Any]()
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        value, category = texts[number // len(groups)], groups[number % len(groups)]
        key: Any = value
        if len(groups) > 1:
            key = (category, value) if of_numbers else f"{category}{BETWEEN}{value}"
        if key in people and not of_numbers:
            raise ParameterError(f"two pairs of a category and a value are {key!r}: rename one")
        people[key] += count
    return Population.of_counts(people)


def _estimate_text(row: Mapping[str, Any]) -> str:
    """Return the estimate of a percentile as text, if reports tell it."""
    if "estimate" not in row or "reports_needed" in row:
        return "not enough"
    ends = known_ends(row["low"], row["high"])
    is_told = None not in ends or row["estimate"] in ends
    return _figure(row["estimate"]) if is_told else "not enough"


def _figure(number: float) -> str:
    """Return a number as text of five digits, without an exponent where it is large."""
    rounded = float(f"{number:.5g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 1e5 else f"{rounded:,.5g}"


def _needs(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the needs of the percentiles that lack reports. Returns "" where none lacks any."""
    needs: dict[str, list[str]] = {}
    for row in rows:
        if "reports_needed" in row:
            words = f"{_short(row)} {row['reports_needed']:,.0f}"
            needs.setdefault(f"{row['epsilon']:g}", []).append(words)
    if not needs:
        return ""
    epsilon, texts = [*needs.items()][-1]
    return (
        " Not enough: reports, to tell the number; the ends of its interval are more than four "
        f"times apart. About so many would do at epsilon {epsilon}: {', '.join(texts)}."
    )


def _label(row: Mapping[str, Any]) -> str:
    """Return the name of a percentile, and of its category."""
    return " ".join(str(row[key]) for key in ("value", "statistic") if key in row)


def _short(row: Mapping[str, Any]) -> str:
    """Return the name of a percentile on a line, with LONGEST letters of its category."""
    name = repr(row.get("value", "")[:LONGEST])[1:-1]
    return f"{name} {row.get('statistic', '')}".strip()


def _interval(row: Mapping[str, Any]) -> str:
    """Return the interval of a percentile as text. Returns "" for a row of counts, which has
    none."""
    if "low" not in row:
        return ""
    low, high = known_ends(row["low"], row["high"])
    if low is not None and high is not None:
        return f"{_figure(low)} to {_figure(high)}"
    if high is not None:
        return f"at most {_figure(high)}"
    return "not known" if low is None else f"at least {_figure(low)}"


def _value_curves(rows: Sequence[Mapping[str, Any]], people: Population) -> Iterator[Curve]:
    epsilons = tuple(float(row["epsilon"]) for row in rows)
    yield Curve("reports", epsilons, tuple(row["mean_std_error"] for row in rows))
    bound = (people.users * lower_bound(len(people.values), epsilon) for epsilon in epsilons)
    yield Curve(BOUND, epsilons, tuple(map(math.sqrt, bound)))
    yield Curve(CURATOR, epsilons, tuple(row["curator_std_error"] for row in rows))


def _number_curves(rows: Sequence[Mapping[str, Any]]) -> Iterator[Curve]:
    """Yield a curve for each percentile. By category, yields a curve of the largest percentile for
    each of the categories of most people."""
    last = rows[-1]["statistic"]
    labels = dict.fromkeys(
        _label(row) for row in rows if "value" not in row or row["statistic"] == last
    )
    for label in [*labels][:MOST_GROUPS]:
        some = [row for row in rows if _label(row) == label]
        errors = tuple(row["error"] for row in some)
        yield Curve(label, tuple(float(row["epsilon"]) for row in some), errors)
