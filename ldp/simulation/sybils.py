"""Attackers of a collection over many days, whose devices become more every day."""

import math
from typing import NamedTuple

import numpy as np

from ldp.simulation.longitudinal import Sent
from ldp.simulation.people import ScenarioMetric
from ldp.simulation.poisoning import ATTACKS, Scene, counted
from ldp.simulation.poisoning_gains import Gain, Poisoned, judge, undefended
from ldp.simulation.reports import Batch

TARGETS = 5
"""Number of values that are attacked: the rarest, or the most frequent to be hidden."""
STEPS = 10_000
"""Steps of a share that intervals are computed for, rounded up."""


class SybilDay(NamedTuple):
    """Reports of a day: `honest` and `fakes`; the `gain` of the attacked values, in shares of all,
    and the shares of intervals that hold, NaN where there are none."""

    day: int
    honest: int
    fakes: int
    gain: float
    plain_held: float
    held: float


class Sybils:
    """Attackers of `metric`: every day its `sybils` more devices send one fake each."""

    def __init__(self, metric: ScenarioMetric, generator: np.random.Generator) -> None:
        shares = metric.population.shares
        order = np.argsort(shares, kind="stable")
        number = min(TARGETS, len(order))
        self._metric, self._generator = metric, generator
        self._attack = ATTACKS[metric.attack]
        self._scene = Scene(
            mechanism=metric.metric.mechanism,  # type: ignore[arg-type]  # checked by the reader
            values=metric.values,
            targets=order[:number],
            heavy=order[::-1][:number],
        )

    def join(self, sent: Sent) -> tuple[Batch, SybilDay]:
        """Return the fakes that join the reports of a day, and what they do to its estimates."""
        aims = self._attack.aims(self._scene, self._generator)
        fakes = self._metric.sybils * (sent.day + 1)
        batch = self._attack.reports(self._scene, aims, fakes, self._generator)
        values, honest = self._scene.values, sent.rows.size
        share = math.ceil(STEPS * fakes / (fakes + honest)) / STEPS
        table = counted(self._scene.mechanism, (sent.rows, sent.payloads))
        counts = np.bincount(sent.value_indices, minlength=len(values))
        poisoned = Poisoned(values=tuple(values), honest=table, fakes=batch, share=share)
        clean = Poisoned(values=tuple(values), honest=table, fakes=None, share=share)
        moved = self._attack.way * (undefended(poisoned) - undefended(clean))[aims]
        row = Gain(self._metric.attack, self._attack.words, aims.size)
        judge(row, poisoned, aims, counts, 1)
        day = SybilDay(sent.day, honest, fakes, float(moved.sum()), row.plain_held, row.held)
        return batch, day
