"""A simulation of a mechanism on data of one's own: what its reports say, beside the truth."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from itertools import islice
from typing import Any

import numpy as np

from ldp.arrays import Floats, Seed, generator_of
from ldp.decoding.outcome import outcome
from ldp.errors import ParameterError
from ldp.mechanisms import CatalogueMechanism
from ldp.mechanisms.base import require_mechanism
from ldp.simulation import Population
from ldp.simulation.tables import draw_people_table
from ldp.tables.frame import Columns, Frame, number_text, table_html
from ldp.tables.joint_table import AnyTable, JointTable
from ldp.tables.result import COUNT, MOST_LINES, Line, Result
from ldp.tables.table import Table
from ldp.tables.truth import true_column


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedColumn(Frame):
    """Column of simulated reports of `people`: the `result`, and the `table` that it was decoded
    from. The columns are those of the result, and `true`: what the people hold."""

    result: Result
    table: AnyTable
    people: Population

    @property
    def headline(self) -> str:
        """Headline of the result, in one line, with the word that it is a simulation."""
        return f"{self.result.headline}; a simulation, with the truth"

    @cached_property
    def columns(self) -> Columns:
        """Columns of the result, and `true`. They are NaN where the truth is not known."""
        columns, label = self.result.columns, self.table.mechanism.label
        truth = self.people.mapped(label).answer_counts()
        return {**columns, "true": true_column(columns, truth)}

    def lines(self) -> Iterator[tuple[Line, float]]:
        """Yield each line of the result, with the truth."""
        true: Floats = np.asarray(self.columns["true"])
        if "bin_low" in self.columns:
            true = true[np.array(self.columns["statistic"]) != COUNT]
        yield from zip(self.result.lines(), true.tolist(), strict=True)

    def _repr_html_(self) -> str:
        """Return the table that Jupyter shows."""
        rows = [
            [line.name, *map(number_text, (known, line.estimate, line.low)), number_text(line.high)]
            for line, known in islice(self.lines(), MOST_LINES)
        ]
        heads = ["", "in truth", "estimate", "low", "high"]
        return f"<p>{escape(self.headline)}</p>{table_html(heads, rows)}"

    def plot(self, axes: Any = None) -> Any:
        """Draw the estimates as `Result.plot` does, with a mark at each true number."""
        axes = self.result.plot(axes)
        known = [number for line, number in self.lines() if np.isfinite(line.estimate)]
        axes.plot(known[:MOST_LINES], range(len(known[:MOST_LINES])), "x", color="#7d3f99")
        axes.set_title(f"{self.headline} (x)", fontsize="medium", parse_math=False, wrap=True)
        return axes


def simulate(mechanism: CatalogueMechanism, values: Any, seed: Seed = None) -> SimulatedColumn:
    """Return what reports of `mechanism` would say, one a person, beside the truth. `values`: a
    column of data with a row a person (a list, an array, an Arrow column, a Series; for pairs and
    numbers by category a frame of two columns), or a Population. Where the mechanism lists no
    values, those of the data are the candidates. Raises ParameterError for a missing value, and for
    a value outside the domain of the mechanism.

    >>> from ldp import RandomizedResponse, simulate
    >>> mechanism = RandomizedResponse(categories=("no", "yes"), epsilon=2.0)
    >>> simulate(mechanism, ["yes"] * 700 + ["no"] * 300, seed=1).rows()[0]["true"]
    700.0
    """
    require_mechanism(mechanism)
    people, generator = Population.of(values), generator_of(seed)
    try:
        table = draw_people_table(mechanism, people, generator)
    except ParameterError:
        people.require(mechanism.check)  # its error says which value
        raise
    return SimulatedColumn(outcome(with_candidates(table, people.values)), table, people)


def with_candidates(table: AnyTable, values: tuple[Any, ...]) -> AnyTable:
    """Return a table of reports of these values with the candidates that its decoder asks for."""
    if isinstance(table, JointTable):
        if table.mechanism.answers != "pairs":
            return table
        columns = [tuple(dict.fromkeys(column)) for column in zip(*values, strict=True)]
        pairs = zip(table.tables, columns, strict=True)
        tables = (part.of_metric(_listed(part, column)) for part, column in pairs)
        return replace(table, tables=tuple(tables))
    if table.mechanism.answers not in ("values", "sets"):
        return table
    answers = dict.fromkeys(
        a for v in values for a in (sorted(v) if isinstance(v, frozenset) else [v])
    )
    return table.of_metric(_listed(table, tuple(answers)))


def _listed(table: Table, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the candidates of a table: none where the mechanism lists them."""
    return None if table.mechanism.labels else values
