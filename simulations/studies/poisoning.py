"""Study what 1 % fake clients do to an estimate, and what defences leave of six attacks.

In the first study every fake names one value that nobody holds (`naming_reports`). Its effect is
predicted by the channel's leverage, and measured. The second study is `ldp attack` for every
mechanism, with two more defences, which are not part of the package.
"""

import math
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from ldp import bulk
from ldp.arrays import Floats
from ldp.bulk.counting import gather
from ldp.bulk.hash_kernels import coefficients
from ldp.decoding.consistency import simplex_shift
from ldp.mechanisms import Mechanism, RandomizedResponse
from ldp.mechanisms.sketch import MeanSketch
from ldp.planning import Shares, tune
from ldp.server import decode
from ldp.simulation import Population, draw_table
from ldp.simulation.poisoning import ATTACKS, Scene, counted_batch, naming_reports
from ldp.simulation.poisoning_gains import DEFENCES, Laboratory, Poisoned, undefended
from simulations.campaign import Bar
from simulations.study import Row, Setting, Study, column, figure

HONEST, SHARE, TABLES, VALUES = 99_000, 0.01, 60, 20
NAMES = tuple(map(str, range(VALUES)))
TARGET, AIM = NAMES[-1], np.array([VALUES - 1])
MECHANISMS = ("rr", "unary", "rappor", "cms", "hcms", "local-hashing", "subset", "pgr")
EPSILONS = (0.5, 1.0, 2.0, 4.0)
VOTERS = 8
"""Number of groups of rows whose median is taken."""
PLANNED = 10_000
"""Users that sketches are sized for; more rows take longer and change nothing here."""


def recovered(poisoned: Poisoned) -> Floats:
    """Return the shares after LDPRecover (Sun, Ye, Hu and others 2024).

    The method knows the true share of fakes. It assumes that fakes name all values with a positive
    estimate alike, and that their sum is that of reports that each encode one value. The rest is
    projected on the simplex.
    """
    mechanism, shares = poisoned.honest.mechanism, undefended(poisoned)
    channel, size = mechanism.support, len(shares)
    total = (1 - size * float(channel.untouched)) / channel.gain
    if isinstance(mechanism, MeanSketch):  # the other values of its hash share a value's cell
        total = 1.0
    is_positive = shares > 0
    malicious = np.where(is_positive, total / max(1, int(is_positive.sum())), 0.0)
    ratio = poisoned.share / (1 - poisoned.share)
    genuine = (1 + ratio) * shares - ratio * malicious
    return np.maximum(genuine - simplex_shift(genuine, 1.0), 0.0)


def voted(poisoned: Poisoned) -> Floats:
    """Return the medians of the shares in VOTERS groups of rows.

    Where the table is no sketch of as many rows, there is no defence.
    """
    table = poisoned.table(poisoned.fakes)
    mechanism = table.mechanism
    if not isinstance(mechanism, MeanSketch) or mechanism.rows < VOTERS:
        return undefended(poisoned)
    rows, width = mechanism.shape
    cells, points = table.named_counts(), bulk.points(mechanism.addressing, rows, poisoned.values)
    polynomials = coefficients(mechanism.addressing, rows)
    votes = []
    for group in np.array_split(np.arange(rows), VOTERS):
        block = slice(int(group[0]), int(group[-1]) + 1)
        reports = int(table.reports[block].sum())
        reporting = gather(mechanism.addressing, cells[block], points, polynomials[block])
        held = mechanism.channel.holders(reporting, reports) / reports
        votes.append(width / (width - 1) * (held - 1 / width))
    return np.asarray(np.median(votes, axis=0))


ALL_DEFENCES = {**DEFENCES, "ldprecover": recovered, "voting": voted}


def _mechanism(setting: Setting) -> Mechanism:
    """Return a mechanism as a plan tunes it to rare values.

    Randomised response is returned even where a plan would not offer it.
    """
    epsilon = float(setting["epsilon"])
    if setting["mechanism"] == "rr":
        return RandomizedResponse(categories=NAMES, epsilon=epsilon)
    ask = Shares(domain=VALUES, users=PLANNED, epsilon=epsilon, frequency=0.0)
    return tune(ask, setting["mechanism"])


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
        scene = Scene(mechanism=mechanism, values=NAMES, targets=AIM, heavy=AIM)
        batch = naming_reports(scene, AIM, fakes, generator)
        table = honest + counted_batch(mechanism, batch)
        names = NAMES if "categories" in mechanism.parameters() else (TARGET,)
        method = "mean-sketch" if isinstance(mechanism, MeanSketch) else "auto"  # the linear one
        moved.append(float(decode(table, names, method=method).count[-1]) / table.total)
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


RUNS, TARGETS, DEFENCE_EPSILON = 10, 3, 2.0
LEAST = 1.0
"""Least gain, in percent of the reports, of an attack that counts.

As many honest liars gain as much.
"""


def _attacked(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    mechanism = _mechanism({**setting, "epsilon": DEFENCE_EPSILON})
    weights = np.append(1 / np.arange(1, VALUES), 0.0)
    laboratory = Laboratory(
        mechanism=mechanism,
        population=Population(NAMES, frequencies=weights / weights.sum()),
        reports=HONEST,
        share=SHARE,
        targets=TARGETS,
        runs=RUNS,
        defences=ALL_DEFENCES,
    )
    gains, costs = laboratory.gains(generator)
    row = {
        f"{gain.attack} {defence}": 100 * gain.gain[defence]
        for gain in gains
        for defence in ALL_DEFENCES
    }
    row |= {f"cost {defence}": cost for defence, cost in costs.items()}
    for gain in gains:
        row[f"{gain.attack} plain"] = gain.plain_held
        row[f"{gain.attack} held"] = 0.0 if math.isnan(gain.held) else gain.held
    return row


def _left(row: Row, attack: str, defence: str) -> float:
    """Return the share of a gain that a defence leaves; nan for an attack that hardly gains."""
    gain = float(row[f"{attack} none"])
    return float(row[f"{attack} {defence}"]) / gain if gain >= LEAST else math.nan


def _draw_left(rows: list[Row]) -> Figure:
    made = figure()
    panels = made.subplots(2, 2, sharex=True, sharey=True)
    for axes, defence in zip(panels.flat, [*ALL_DEFENCES][1:], strict=True):
        left = [[_left(row, attack, defence) for attack in ATTACKS] for row in rows]
        axes.imshow(np.clip(left, 0, 1), cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for y, cells in enumerate(left):
            for x, part in enumerate(cells):
                if math.isfinite(part):
                    colour = "white" if part > 0.5 else "black"
                    words = f"{100 * part:.0f}"
                    axes.text(x, y, words, ha="center", va="center", color=colour, fontsize=6)
        axes.set_title(defence, fontsize="medium")
        axes.set_xticks(range(len(ATTACKS)), [*ATTACKS], rotation=60, fontsize=6)
        axes.set_yticks(range(len(rows)), [str(row["mechanism"]) for row in rows], fontsize=6)
    return made


def _halved(row: Row, defence: str) -> set[str]:
    return {attack for attack in ATTACKS if _left(row, attack, defence) <= 0.5}


def _defence_bars(rows: list[Row]) -> list[Bar]:
    held = min(float(row[f"{attack} held"]) for row in rows for attack in ATTACKS)
    plain = min(float(row[f"{attack} plain"]) for row in rows for attack in ATTACKS)
    voting = max(len(_halved(row, "voting")) for row in rows)
    cost = max(float(row["cost voting"]) for row in rows)
    more = max(len(_halved(row, "ldprecover") - _halved(row, "consistency")) for row in rows)
    unseen = min(_left(row, "unseen", "statistics") for row in rows)
    return [
        Bar(
            "least share of intervals under fakes that hold, of any attack",
            held,
            ">= .93",
            held >= 0.93,
        ),
        Bar("least share of plain intervals that hold (the twin)", plain, "< .8", plain < 0.8),
        Bar("attacks that voting halves, at most", voting, "< 2: not shipped", voting < 2),
        Bar("what voting costs, at most", cost, "> 1.05: not shipped", cost > 1.05),
        Bar(
            "attacks that ldprecover halves and sum-to-n does not",
            more,
            "0: not shipped",
            more == 0,
        ),
        Bar("what statistics leave of reports tuned to them", unseen, ">= .99", unseen >= 0.99),
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
    Study(
        "poisoning-defences",
        "what defences leave of six attacks by 1 % of the reports",
        tuple({"mechanism": name} for name in MECHANISMS),
        _attacked,
        _draw_left,
        _defence_bars,
    ),
)
