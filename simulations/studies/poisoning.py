"""What 1 % fake clients do to an estimate: predicted by the channel's leverage, and measured.

The attack: every fake names one value that nobody holds (Cao, Jia and Gong 2021, maximal gain
attack on one target). A fake report of BITS has all bits off but the value's; one of SIGN has
column 0, whose sign is + for every value; one of geometry is any point of the value's; a set
holds the value and others in turn.
"""

import math
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ldp.mechanisms import Mechanism, RandomizedResponse, SubsetSelection
from ldp.mechanisms.sketch import MeanSketch
from ldp.planning import Question, tuned
from ldp.server import Table, decode
from ldp.simulation import draw_table
from simulations.campaign import Bar
from simulations.study import Row, Setting, Study, column, figure

HONEST, SHARE, TABLES, VALUES = 99_000, 0.01, 60, 20
NAMES = tuple(map(str, range(VALUES)))
TARGET = NAMES[-1]
MECHANISMS = ("rr", "unary", "rappor", "cms", "hcms", "local-hashing", "subset", "pgr")
EPSILONS = (0.5, 1.0, 2.0, 4.0)
PLANNED = 10_000
"""Users that sketches are sized for: more rows take longer and change nothing here."""


def _mechanism(setting: Setting) -> Mechanism:
    """As a plan tunes it to rare values; randomised response where a plan would refuse it too."""
    epsilon = float(setting["epsilon"])
    if setting["mechanism"] == "rr":
        return RandomizedResponse(categories=NAMES, epsilon=epsilon)
    ask = Question(domain=VALUES, users=PLANNED, epsilon=epsilon, frequency=0.0)
    return tuned(ask, setting["mechanism"])


def _fakes(mechanism: Mechanism, number: int, generator: np.random.Generator) -> Table:
    """The table of so many reports that name the target."""
    rows, columns = mechanism.shape
    reports = generator.multinomial(number, np.full(rows, 1 / rows))
    counts = np.zeros((rows, columns), dtype=np.int32)
    for row in np.flatnonzero(reports).tolist():
        cells = [0] if mechanism.kind.is_signed else list(mechanism.cells(TARGET, row))
        counts[row, cells] = _spread(int(reports[row]), len(cells))
    if isinstance(mechanism, SubsetSelection):  # the rest of each set
        others = np.array([cell != cells[0] for cell in range(columns)])
        counts[0, others] += _spread((mechanism.size - 1) * number, columns - 1)
    return Table(mechanism, counts, reports)


def _spread(number: int, cells: int) -> NDArray[np.int32]:
    """As evenly as can be."""
    return np.diff(number * np.arange(cells + 1) // cells).astype(np.int32)


def _poisoned(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    mechanism = _mechanism(setting)
    weights = 1 / np.arange(1, VALUES)
    shares = np.append(weights / weights.sum(), 0.0)
    fakes = round(HONEST * SHARE / (1 - SHARE))
    moved = []
    for _ in range(TABLES):
        if isinstance(mechanism, MeanSketch):
            mechanism = replace(mechanism, seed=generator.bytes(8).hex())
        counts = generator.multinomial(HONEST, shares)
        honest = draw_table(mechanism, NAMES, counts=counts, generator=generator)
        table = honest + _fakes(mechanism, fakes, generator)
        names = NAMES if "categories" in mechanism.parameters() else (TARGET,)
        moved.append(float(decode(table, names).count[-1]) / table.total)
    return {
        "predicted": mechanism.fakes_move(SHARE),
        "measured": float(np.mean(moved)),
        "standard_error": float(np.std(moved)) / math.sqrt(TABLES),
    }


def _draw(rows: list[Row]) -> Figure:
    made = figure()
    axes = made.subplots()
    for name in MECHANISMS:
        epsilon = column(rows, "epsilon", mechanism=name)
        (line,) = axes.plot(epsilon, 100 * column(rows, "predicted", mechanism=name), label=name)
        axes.errorbar(
            epsilon,
            100 * column(rows, "measured", mechanism=name),
            200 * column(rows, "standard_error", mechanism=name),
            fmt="o",
            color=line.get_color(),
        )
    axes.set(xscale="log", yscale="log", xlabel="epsilon")
    axes.set_ylabel("frequency of a value nobody holds, in %")
    axes.legend(title="1 % fakes; lines predicted")
    return made


def _bars(rows: list[Row]) -> list[Bar]:
    off = max(
        abs(float(row["measured"]) - float(row["predicted"])) / float(row["standard_error"])
        for row in rows
    )
    least = float(column(rows, "predicted").min())
    return [
        Bar("measured off predicted, in standard errors, at worst", off, "< 4.5", off < 4.5),
        Bar("the least that 1 % of fakes adds to a frequency", least, ">= .01", least >= 0.01),
    ]


STUDIES = (
    Study(
        "poisoning",
        "1 % fake clients that name a value nobody holds",
        tuple({"mechanism": name, "epsilon": each} for name in MECHANISMS for each in EPSILONS),
        _poisoned,
        _draw,
        _bars,
    ),
)
