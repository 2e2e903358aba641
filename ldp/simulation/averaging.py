"""An attacker who averages: guesses values from all reports of a device."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ldp.arrays import Bools, Floats, Generator, Ints
from ldp.mechanisms.joint_base import parts_of
from ldp.registry.odds import posterior
from ldp.simulation.evidence import MemoisedEvidence, evidence, log_shares
from ldp.simulation.longitudinal import Collection, SentReports
from ldp.simulation.people import Scenario, ScenarioMetric, draw_people

_MOST_LOOKED_AT, _MOST_COUNTED, _FEWEST = 8 * 10**7, 10**8, 100
_DIGITS = 9
"""Digits of a logarithm that count. Among scores that are equal to these digits the first value is
taken, so that the rounding of a machine decides nothing."""


class TrialsShare(NamedTuple):
    """Share of hits in independent trials, and its standard error. The error is taken at the share
    with one hit and one miss more (Laplace), so that it is not 0 where all trials agree."""

    share: float
    error: float

    @classmethod
    def of(cls, hits: Bools) -> "TrialsShare":
        likely = (float(hits.sum()) + 1) / (hits.size + 2)
        return cls(float(hits.mean()), math.sqrt(likely * (1 - likely) / hits.size))


class Advantage(NamedTuple):
    """Power of a likelihood-ratio test between two hypotheses: how often it decides for the second
    if the second holds, how often if the first holds, and the difference with its standard error.
    For the exact test no test has a larger difference (the distance in total variation)."""

    hits: float
    false_alarms: float
    advantage: float
    error: float

    @classmethod
    def of(cls, if_so: Bools, if_not: Bools) -> "Advantage":
        hits, false = TrialsShare.of(if_so), TrialsShare.of(if_not)
        return cls(hits.share, false.share, hits.share - false.share, math.hypot(hits[1], false[1]))


class Averaged(NamedTuple):
    """Share of people's values guessed `right` after `days` days, and its standard error. No
    attacker is right more often than `at_most`, whatever the mechanism: this is the mean over
    people of the posterior that their epsilon allows for a prior as large as the most frequent
    value's share."""

    days: int
    right: float
    std_error: float
    at_most: float


def averaging(
    scenario: Scenario,
    days: Sequence[int],
    generator: Generator,
    *,
    limited: bool = True,
) -> dict[str, list[Averaged]]:
    """Return how often the value of each metric is guessed after each of the rising `days`, if the
    scenario's people stay and keep their values."""
    staying = scenario.staying(scenario.attacked)
    people = draw_people(staying, generator)
    collection = Collection(staying, people, generator, limited=limited)
    metrics = {metric.name: metric for metric in staying.metrics if metric.guessable}
    likelihoods = {name: _Likelihoods(metric, people.owner) for name, metric in metrics.items()}
    results: dict[str, list[Averaged]] = {name: [] for name in metrics}
    for day, every in enumerate(collection.days(), 1):
        for sent in every:
            if sent.scenario_metric.guessable:
                likelihoods[sent.scenario_metric.name].add(sent)
        for name, metric in metrics.items() if day in days else ():
            shares = metric.population.shares
            scores = log_shares(shares) + likelihoods[name].of_people(people.joined.size)
            most = float(shares.max())
            ceiling = [posterior(most, e) for e in collection.persons([name]).tolist()]
            guess = np.round(scores, _DIGITS).argmax(axis=1)
            right = TrialsShare.of(guess == people.values[name][:, 0])
            results[name].append(Averaged(day, *right, float(np.mean(ceiling))))
    return results


class _Likelihoods:
    """Likelihoods of the values of one metric, given all its reports, by device and by person."""

    def __init__(self, scenario_metric: ScenarioMetric, owner: Ints) -> None:
        self._owner, self._epoch = owner, -1
        metric, values = scenario_metric.metric, scenario_metric.population.values
        self._evidence = evidence(metric.mechanism, values, metric.memoise, owner.size)

    def add(self, sent: SentReports) -> None:
        if sent.epoch != self._epoch and isinstance(self._evidence, MemoisedEvidence):
            self._evidence.end_epoch()
        self._epoch = sent.epoch
        self._evidence.add(sent.devices, sent.rows, sent.payloads)

    def of_people(self, people: int) -> Floats:
        """Return ln P(all reports of a person | value), up to a term that does not depend on the
        value: shape (people, values)."""
        log_likelihoods = self._evidence.log_likelihoods()
        sums = np.zeros((people, log_likelihoods.shape[1]))
        np.add.at(sums, self._owner, log_likelihoods)
        return sums


def affordable(scenario: Scenario) -> int:
    """Return the number of people attacked: as many as the scenario says, or what time and memory
    allow."""
    people = scenario.attacked
    for metric in (metric for metric in scenario.metrics if metric.guessable):
        for part in parts_of(metric.metric.mechanism):
            records = metric.alike_every_day().records
            looked_at = scenario.days * len(metric.population.values) * records
            people = min(people, _MOST_LOOKED_AT // looked_at, _MOST_COUNTED // part.shape.columns)
    return max(people, min(scenario.attacked, _FEWEST))
