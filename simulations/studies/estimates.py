"""Draw one estimate of every mechanism thousands of times.

The distribution is compared with the normal law of the stated standard error. A mechanism that is
counted in one table has a setting of the campaigns (`simulations.intervals.every`), the first
there; the rest is listed below. Hash functions are redrawn, so both the distribution and the
standard error include collisions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm

from ldp import (
    HierarchicalHistogram,
    JointReport,
    OneBitMean,
    Piecewise,
    PrefixExtension,
    Rappor,
    RapporNgrams,
    RegressionMoments,
    SequenceFragmentPuzzle,
    UnaryEncoding,
)
from ldp.mechanisms import Mechanism
from ldp.mechanisms.numeric import Numeric
from ldp.server import (
    JointTable,
    Table,
    associate,
    decode,
    decode_distribution,
    decode_mean,
    discover_prefixes,
    whole_table,
)
from ldp.simulation import Population, draw_reports, draw_table, draw_tables
from simulations import intervals, variance
from simulations.campaign import Bar
from simulations.study import Row, Study, figure
from simulations.study import Setting as Names

Drawn = Iterator[tuple[float, float]]
"""Estimates, each with the standard error stated for it."""
EDGES = np.linspace(-4.0, 4.0, 21)
"""Edges of the histogram, in stated standard errors from the truth."""
BINS = [f"bin {left:.1f}" for left in EDGES[:-1]]
DRAWS = 2_500
MOST_OFF, MOST_BIAS = 0.05, 4.5
"""Largest relative error of a standard deviation, and largest bias in standard errors.

A standard deviation of 2,500 normal draws is known to 1.4 %.
"""


@dataclass(frozen=True)
class Subject:
    """Estimate of `truth`, drawn from a generator; `words` describe it."""

    draw: Callable[[np.random.Generator], Drawn]
    truth: float
    words: str


def _counts(setting: variance.Setting, generator: np.random.Generator) -> Drawn:
    """Yield estimates of the setting's first value.

    Where values share the bits of filters, the decoder states an error for each table. Elsewhere
    the mechanism's formula states it.
    """
    n, f, others = setting.reports, setting.frequency, setting.others_squared
    for mechanism in setting.mechanisms(generator):
        table = draw_table(mechanism, setting.values, counts=setting.counts, generator=generator)
        if _shares_bits(setting):
            found = decode(table, setting.candidates)
            yield float(found.count[0]), float(found.std_error[0])
        else:
            found = decode(table, setting.candidates[:1])
            yield float(found.count[0]), mechanism.std_error(n, f, others)


def _shares_bits(setting: variance.Setting) -> bool:
    return isinstance(setting.mechanism, Rappor) and not setting.mechanism.categories


def _drawn_anew(mechanism: Mechanism, generator: np.random.Generator) -> Table:
    """Return a table of the numbers of people who are drawn anew."""
    return draw_table(
        mechanism,
        intervals.NUMBERS,
        frequencies=intervals.SHARES,
        users=intervals.PEOPLE,
        generator=generator,
    )


def _mean(mechanism: Numeric, generator: np.random.Generator) -> Drawn:
    """Yield the mean, with people drawn anew for every table."""
    while True:
        mean = decode_mean(_drawn_anew(mechanism, generator))
        yield mean.mean, mean.std_error


def _share(generator: np.random.Generator) -> Drawn:
    """Yield the share of people, drawn anew for every table, who hold a number below 5."""
    mechanism = HierarchicalHistogram(bounds=(0.0, 10.0), buckets=64, epsilon=2.0)
    while True:
        share = decode_distribution(_drawn_anew(mechanism, generator)).between(0.0, 5.0)
        yield share.estimate, share.std_error


PRODUCT = 0.4
"""Mean product of the pairs below, mapped to [-1, 1]: a quarter have 1, the others 0.2."""


def _product(generator: np.random.Generator) -> Drawn:
    """Yield the mean product of feature and target.

    Its estimator and its variance are in docs/mechanisms.
    """
    mechanism = RegressionMoments(features=1, bounds=((0, 10), (0, 10)), epsilon=2.0)
    row = mechanism.addressing.factors.index((1, 2))
    scale = 1 / float(mechanism.channel.gain)
    while True:
        table = draw_table(
            mechanism, ("10,10", "7,7.5"), counts=np.array([1_250, 3_750]), generator=generator
        )
        low, high = table.counts[row].tolist()
        yield scale * (high - low) / (low + high), ((scale**2 - PRODUCT**2) / (low + high)) ** 0.5


WORDS, HELD = ("added", "beach", "cabbed"), np.array([2_000, 2_000, 1_000])
LENGTH, LETTERS = 6, "abcdefgh"


def _words(generator: np.random.Generator) -> Drawn:
    """Yield estimates of a word in the words' own table of a puzzle."""
    while True:
        puzzle = SequenceFragmentPuzzle(
            epsilon=6.0,
            fragment_epsilon=3.0,
            rows=128,
            width=32,
            fragment_rows=1,
            fragment_width=2,
            seed=generator.bytes(16).hex(),
            length=LENGTH,
            alphabet=LETTERS,
        )
        tables = draw_tables(puzzle, WORDS, HELD, generator)
        assert isinstance(tables, JointTable)
        found = decode(tables["words"], WORDS[:1])
        yield float(found.count[0]), float(found.std_error[0])


def _grams(generator: np.random.Generator) -> Drawn:
    """Yield estimates of a string in the whole strings' own table of RAPPOR n-grams."""
    while True:
        strings = RapporNgrams(
            epsilon=6.0,
            fragment_epsilon=2.0,
            bits=32,
            hashes=2,
            cohorts=16,
            length=LENGTH,
            alphabet=LETTERS,
            seed=generator.bytes(16).hex(),
        )
        tables = draw_tables(strings, WORDS, HELD, generator)
        assert isinstance(tables, JointTable)
        found = decode(tables["words"], WORDS)
        yield float(found.count[0]), float(found.std_error[0])


def _extended(generator: np.random.Generator) -> Drawn:
    """Yield estimates of a word that is put together from its beginnings."""
    while True:
        mechanism = PrefixExtension(
            epsilon=4.0,
            rows=384,
            groups=3,
            length=LENGTH,
            alphabet=LETTERS,
            seed=generator.bytes(16).hex(),
        )
        found = discover_prefixes(draw_table(mechanism, WORDS, counts=HELD, generator=generator))
        place = found.values.index(WORDS[0])
        yield float(found.count[place]), float(found.std_error[place])


PAIRS: tuple[Any, ...] = tuple(product(("cookies", "update", "survey"), ("yes", "no")))
TOGETHER = np.array([2_000, 1_200, 1_600, 1_000, 1_200, 1_000])
"""How many people hold each pair; all pairs are held.

The share of an absent pair would be estimated at 0 or above. The errors of the other pairs assume
that estimates may be negative, so they would be too large.
"""


def _pair(generator: np.random.Generator) -> Drawn:
    """Yield estimates of the number of a joint metric's reports that held one pair."""
    shown = UnaryEncoding(categories=("cookies", "update", "survey"), epsilon=1.5)
    banner = JointReport(of=(shown, UnaryEncoding(categories=("no", "yes"), epsilon=1.0)))
    people = Population(PAIRS, counts=TOGETHER)
    while True:
        found = associate(whole_table(banner, draw_reports(banner, people, generator)))
        place = tuple(map(tuple.index, found.values, PAIRS[0]))
        yield float(found.count[place]), float(found.std_error[place])


def _counted(setting: variance.Setting) -> Subject:
    held, n = int(setting.counts[0]), setting.reports
    words = (
        f"epsilon {setting.mechanism.cost.epsilon:.3g}: {held:,} of {n:,} reports hold the value"
    )
    return Subject(partial(_counts, setting), held, words)


def _averaged(kind: type[Numeric]) -> Subject:
    mechanism, people = kind(bounds=(0.0, 10.0), epsilon=2.0), intervals.PEOPLE
    truth = float(intervals.SHARES @ np.array([float(number) for number in intervals.NUMBERS]))
    return Subject(partial(_mean, mechanism), truth, f"epsilon 2: the mean of {people:,} people")


SUBJECTS: dict[str, Subject] = {
    **{s.mechanism.name: _counted(s) for s in reversed(intervals.every()) if not _shares_bits(s)},
    "rappor-strings": next(_counted(s) for s in intervals.every() if _shares_bits(s)),
    "one-bit-mean": _averaged(OneBitMean),
    "piecewise": _averaged(Piecewise),
    "moments": Subject(_product, PRODUCT, "epsilon 2: the mean of one product, 5,000 people"),
    "sfp": Subject(_words, HELD[0], "epsilon 3 for the word: 2,000 of 5,000 reports hold it"),
    "prefix": Subject(_extended, HELD[0], "epsilon 4: 2,000 of 5,000 reports hold the word"),
    "joint": Subject(_pair, TOGETHER[0], "epsilon 1.5 + 1: 2,000 of 8,000 reports hold the pair"),
    "rappor-ngrams": Subject(
        _grams, HELD[0], "epsilon 4 for the string: 2,000 of 5,000 reports hold it"
    ),
    "hierarchical-histogram": Subject(
        _share, float(intervals.SHARES[:2].sum()), "epsilon 2: the share of 1,000 people below 5"
    ),
}


def _run(names: Names, generator: np.random.Generator) -> dict[str, float]:
    """Return the root mean square of the stated errors, the drawn deviation, and a histogram."""
    subject = SUBJECTS[names["mechanism"]]
    estimates, errors = np.array(list(islice(subject.draw(generator), DRAWS))).T
    stated, drawn = float(np.sqrt((errors**2).mean())), float(estimates.std(ddof=1))
    shares, _ = np.histogram((estimates - subject.truth) / stated, EDGES)
    return {
        "truth": float(subject.truth),
        "stated": stated,
        "drawn": drawn,
        "drawn_over_stated": drawn / stated,
        "bias": float((estimates.mean() - subject.truth) / (drawn / DRAWS**0.5)),
        **dict(zip(BINS, (shares / DRAWS).tolist(), strict=True)),
    }


def _draw(rows: list[Row]) -> Figure:
    (row,) = rows
    stated, truth = float(row["stated"]), float(row["truth"])
    made = figure(wide=6.4, high=2.9)
    axes = made.subplots()
    density = np.array([float(row[name]) for name in BINS]) / (EDGES[1] - EDGES[0]) / stated
    fine = np.linspace(EDGES[0], EDGES[-1], 161)
    axes.stairs(density, truth + stated * EDGES, fill=True, color="#b9cde5", label="drawn")
    axes.plot(truth + stated * fine, norm.pdf(fine) / stated, color="#1f3b6f", label="as stated")
    axes.axvline(truth, color="black", linewidth=0.7, linestyle=":")
    axes.set(
        yticks=[],
        xlabel="estimate",
        title=f"{row['mechanism']}, {SUBJECTS[row['mechanism']].words}",
    )
    axes.title.set_fontsize(10)
    axes.legend(frameon=False, fontsize=9)
    return made


def _bars(rows: list[Row]) -> list[Bar]:
    (row,) = rows
    ratio, bias = float(row["drawn_over_stated"]), abs(float(row["bias"]))
    return [
        Bar(
            f"{row['mechanism']}: drawn over stated standard error",
            ratio,
            f"{1 - MOST_OFF:.2f} to {1 + MOST_OFF:.2f}",
            abs(ratio - 1) <= MOST_OFF,
        ),
        Bar("bias in standard errors of a mean", bias, f"<= {MOST_BIAS}", bias <= MOST_BIAS),
    ]


STUDIES = tuple(
    Study(
        f"estimates-{name}",
        f"an estimate of {name}, drawn, beside the normal law of its standard error",
        ({"mechanism": name},),
        _run,
        _draw,
        _bars,
    )
    for name in SUBJECTS
)
