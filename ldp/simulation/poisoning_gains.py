"""Gains of attacks, undefended and under each defence, and whether intervals hold.

The gain on counts is that of Cao, Jia and Gong 2021: the sum, over the attacked values, of the
differences between their estimated shares and those from the honest reports alone. A defence is a
function from a poisoned collection to shares. Its cost is its error without an attack divided by
the error without a defence.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ldp.arrays import Floats, Generator, Ints
from ldp.collection.plausibility import is_plausible
from ldp.decoding import decode
from ldp.decoding.consistency import consistent
from ldp.decoding.counts import FITTING
from ldp.decoding.means import MeanEstimate, decode_numbers
from ldp.errors import ParameterError
from ldp.mechanisms import CatalogueMechanism, Mechanism
from ldp.mechanisms.addressing import Identity
from ldp.mechanisms.bit_flip import Buckets
from ldp.mechanisms.joint_base import parts_of
from ldp.simulation.bulk_reports import as_bytes
from ldp.simulation.poisoning import (
    ATTACKS,
    Scene,
    counted_batch,
    input_numbers,
    output_numbers,
)
from ldp.simulation.populations import Population
from ldp.simulation.tables import draw_table
from ldp.tables.batches import ReportArrays
from ldp.tables.estimates import Estimates
from ldp.tables.fakes import NoBound, fake_reports
from ldp.tables.result import Result
from ldp.tables.table import Table
from ldp.tables.truth import TrueNumbers, true_numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class Poisoned:
    """Collection of the `honest` table and of the reports `fakes`, None for none. `share`: share of
    fakes that the decoder allows for."""

    values: tuple[str, ...]
    honest: Table
    fakes: ReportArrays | None
    share: float

    def table(self, batch: ReportArrays | None) -> Table:
        """Return the table of the honest reports and those of `batch`."""
        return counted_batch(self.honest.mechanism, batch, self.honest) if batch else self.honest

    @cached_property
    def estimates(self) -> Estimates:
        """Estimates from all reports."""
        return decode(self.table(self.fakes), self.values)


def undefended(poisoned: Poisoned) -> Floats:
    """Return the shares that `ldp decode` estimates: shape (values,)."""
    return poisoned.estimates.count / poisoned.estimates.reports


def statistics(poisoned: Poisoned) -> Floats:
    """Return the shares without the fakes that a collector sets aside when all reports are one
    block (`is_plausible`). Only the uniform rows and columns of the honest ones matter there."""
    if poisoned.fakes is None:
        return undefended(poisoned)
    mechanism, (rows, payloads) = poisoned.honest.mechanism, poisoned.fakes
    generator = np.random.default_rng(0)
    among = generator.integers(0, mechanism.shape.rows, poisoned.honest.total)
    others = np.repeat(payloads[:1], among.size, axis=0)
    if mechanism.kind.is_signed:
        numbers = generator.integers(0, mechanism.layout.payload_limit, among.size)
        others = as_bytes(numbers, mechanism.layout)
    block = np.append(rows, among.astype(np.uint32)), np.concatenate([payloads, others])
    good = is_plausible(mechanism, *block, poisoned.values)[: rows.size]
    if not good.any():
        return undefended(replace(poisoned, fakes=None))
    batch = (rows[good], payloads[good])
    return undefended(poisoned if good.all() else replace(poisoned, fakes=batch))


def consistency(poisoned: Poisoned) -> Floats:
    """Return the shares that are 0 or more and add to 1 (`sum-to-n`)."""
    estimates = consistent(poisoned.estimates, "sum-to-n")
    assert estimates.projected is not None
    return estimates.projected / estimates.reports


Defence = Callable[[Poisoned], Floats]
DEFENCES: Mapping[str, Defence] = {
    "none": undefended,
    "statistics": statistics,
    "consistency": consistency,
}
"""All defences, by name; the first is no defence."""


@dataclass
class Gain:
    """Means over runs of one attack. `gain`: by defence, in shares of the reports (for a mean, in
    its units). `discovered`: number of the `aims` attacked values that are discovered. `held`:
    shares of the intervals of all values that hold the honest number, first for intervals that take
    all reports for honest, then for intervals under fakes, NaN where there are none."""

    attack: str
    words: str
    aims: int
    gain: dict[str, float] = field(default_factory=dict)
    discovered: float = 0.0
    plain_held: float = 0.0
    held: float = 0.0

    def add_intervals(
        self, plain: Result, share: float, held_of: Callable[[Any], float], runs: int
    ) -> None:
        """Add the results of one of `runs` runs. `held_of`: function from estimates to the share of
        their intervals that hold. `plain`: estimates that take all reports for honest."""
        self.plain_held += held_of(plain) / runs
        try:
            self.held += held_of(plain.under_fakes(share)) / runs
        except (NoBound, ParameterError):  # no bound, or for no share as large
            self.held = float("nan")


def require_attacks(mechanism: CatalogueMechanism) -> None:
    """Raise ParameterError for a mechanism to which no attack of this file applies."""
    if mechanism.answers == "number":
        return
    part, *others = parts_of(mechanism)
    addressing = part.candidate_addressing
    is_one = not others and part.at_most_answers == 1 < part.shape.columns
    is_known = is_one and type(addressing) is not Buckets and isinstance(addressing, tuple(FITTING))
    # no report names such a value
    if isinstance(addressing, Identity) and addressing.untouching:
        is_known = False
    if mechanism.needs_shuffler or not is_known:
        name = f"{mechanism.name} by category" if mechanism.by else mechanism.name
        raise ParameterError(f"no attack on {name} is known here")


TARGETS = 5
"""Number of values that are attacked: the rarest, or the most frequent to be hidden."""


@dataclass(frozen=True, kw_only=True)
class Laboratory:
    """Experiment: `reports` reports, of which the `share` is fake, of a `population` whose values
    are drawn `runs` times. `targets`: number of values that are attacked, by default TARGETS or
    half of the values. `defences`: by name, the first being no defence. Raises ParameterError for a
    mechanism or population for which no attack is known, and for all values as targets, because
    what one of them gains another loses."""

    mechanism: Mechanism
    population: Population
    reports: int
    share: float
    targets: int | None = None
    runs: int = 10
    defences: Mapping[str, Defence] = field(default_factory=lambda: DEFENCES)

    def __post_init__(self) -> None:
        require_attacks(self.mechanism)
        if not 1 <= fake_reports(self.reports, self.share) < self.reports:
            raise ParameterError("one report or more must be fake, and one or more must not be")
        if self.runs < 1 or (self.targets is not None and self.targets < 1):
            raise ParameterError("one target or more, and one run or more are needed")

    def honest(self, generator: Generator) -> tuple[Table, Ints]:
        """Draw the honest reports. Returns their table and how many hold each value."""
        people = self.reports - fake_reports(self.reports, self.share)
        counts = generator.multinomial(people, self.population.shares)
        values = self.population.values
        return draw_table(self.mechanism, values, counts=counts, generator=generator), counts

    def gains(self, generator: Generator) -> tuple[list[Gain], dict[str, float]]:
        """Return each attack's gain, and the cost of each defence without an attack: its root mean
        squared error over all values, divided by that of no defence. It is 1 where that has
        none."""
        values, order = self.population.values, np.argsort(self.population.shares, kind="stable")
        number = self.targets or max(1, min(TARGETS, len(values) // 2))
        if number >= len(values) > 1:
            raise ParameterError(
                f"{number} targets are all of the {len(values)} values, and what one gains another "
                f"loses: take {len(values) - 1} or fewer"
            )
        rare, heavy = order[:number], order[::-1][:number]
        fakes = fake_reports(self.reports, self.share)
        results = {name: Gain(name, attack.words, 0) for name, attack in ATTACKS.items()}
        errors = dict.fromkeys(self.defences, 0.0)
        for _ in range(self.runs):
            honest, counts = self.honest(generator)
            clean = Poisoned(values=values, honest=honest, fakes=None, share=self.share)
            scene = Scene(
                mechanism=self.mechanism,
                values=values,
                targets=rare,
                heavy=heavy,
                reads_constant=clean.estimates.details["method"] != "regression",
            )
            before = {name: defence(clean) for name, defence in self.defences.items()}
            for name, shares in before.items():
                errors[name] += float(((shares - counts / honest.total) ** 2).mean())
            for name, attack in ATTACKS.items():
                aims, row = attack.aims(scene, generator), results[name]
                batch = attack.reports(scene, aims, fakes, generator)
                poisoned = replace(clean, fakes=batch)
                for defence, shares_of in self.defences.items():
                    moved = attack.way * (shares_of(poisoned) - before[defence])[aims]
                    row.gain[defence] = row.gain.get(defence, 0) + float(moved.sum()) / self.runs
                row.aims, plain = aims.size, poisoned.estimates
                row.discovered += float(plain.detected()[aims].sum()) / self.runs
                row.add_intervals(plain, self.share, partial(_counts_held, counts), self.runs)
        base = errors["none"]
        costs = {name: error / base if base else 1.0 for name, error in errors.items()}
        return [*results.values()], {name: cost**0.5 for name, cost in costs.items()}

    def number_gains(self, generator: Generator) -> list[Gain]:
        """Return each attack's gain on the mean, or on the share above the median's edge."""
        fakes = fake_reports(self.reports, self.share)
        attacks: dict[str, tuple[str, Callable[[Table], ReportArrays]]] = {
            "input": (
                "honest encoders of the largest number",
                lambda honest: input_numbers(self.mechanism, fakes, generator),
            ),
            "output": ("the reports that do most", lambda honest: output_numbers(honest, fakes)),
        }
        results = {name: Gain(name, words, 1) for name, (words, _) in attacks.items()}
        for _ in range(self.runs):
            honest, counts = self.honest(generator)
            held = dict(zip(self.population.values, counts.tolist(), strict=True))
            truth = TrueNumbers(true_numbers(held) or {})
            clean = decode_numbers(honest)
            for name, (_, reports) in attacks.items():
                fake, row = counted_batch(self.mechanism, reports(honest)), results[name]
                poisoned = decode_numbers(honest + fake)
                moved = _number(poisoned, clean) - _number(clean, clean)
                row.gain["none"] = row.gain.get("none", 0.0) + moved / self.runs
                row.add_intervals(poisoned, self.share, partial(_numbers_held, truth), self.runs)
        return [*results.values()]


def _counts_held(counts: Ints, estimates: Any) -> float:
    """Return the share of intervals that hold the honest `counts` of the values."""
    low, high = estimates.interval()
    return float(((low <= counts) & (counts <= high)).mean())


def _number(estimate: Any, clean: Any) -> float:
    """Return the mean, or the estimated share above the edge nearest to the median of `clean`."""
    if isinstance(estimate, MeanEstimate):
        return estimate.mean
    return 1 - float(estimate.below[0][int(np.abs(clean.below[0] - 0.5).argmin())])


def _numbers_held(truth: TrueNumbers, estimate: Any) -> float:
    """Return the share of intervals that hold the honest number: the interval of the mean, or those
    of the usual percentiles."""
    rows = (
        [("mean", *estimate.interval())]
        if isinstance(estimate, MeanEstimate)
        else [(row.name, row.low, row.high) for row in map(estimate.quantile, (0.25, 0.5, 0.9))]
    )
    return float(np.mean([low <= truth.statistic(name) <= high for name, low, high in rows]))
