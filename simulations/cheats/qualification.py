"""Decide whether a test that knows a cheat's condition could see the cheat.

The test has as many reports as the audit. A cheat qualifies if it acts on 1 % of the inputs of the
stated lives, and the test has power. The test is a one-sided binomial test of what the cheat's
statistic sees, at a false alarm of `ALPHA`. It must refute the cheat with a probability of `POWER`.
The probability that the test sees something is taken at its lower confidence limit, and the share
of the inputs is reduced by `MARGIN`.

The honest chances differ from event to event. A sum of independent trials has a lighter upper tail
than the binomial law with their mean (Hoeffding 1956, theorem 4). So their mean is the null
hypothesis.
"""

from itertools import islice
from typing import NamedTuple

import numpy as np
from scipy.stats import beta, binom

from simulations.cheats import Cheat, Memory, Subject
from simulations.cheats.population import lives

ALPHA = 1e-6
POWER = 0.999
LEAST_SHARE = 0.01
CONFIDENCE = 0.999
"""Confidence of the limits of the two estimates."""
ENOUGH = 2_000
LEAST_INPUTS = 0.25
"""Reports that the test judges, and the least part of the inputs from which they come.

So they are reports of many devices. Of later inputs only the condition is checked.
"""
MARGIN = 0.8
"""Part of the share of inputs that counts, because the share may be smaller in other lives."""


class Sighting(NamedTuple):
    """Result of simulated inputs.

    All but the last are numbers of inputs. `drawable`: the condition could hold before the row is
    drawn. `tried`: the first of these, for which a report was drawn. `met`: the condition held.
    `judged`: the test could judge the report. `saw`: it saw something in the report. `chance`: the
    mean probability that it sees something in an honest report.
    """

    inputs: int
    drawable: int
    tried: int
    met: int
    judged: int
    saw: int
    chance: float

    @property
    def share(self) -> float:
        """Share of the inputs that meet the condition."""
        return self.drawable / self.inputs * self.met / max(1, self.tried)

    def power(self, reports: int) -> float:
        """Return the power of the knowing test from `reports` reports, at the lower limits."""
        if not self.judged:
            return 0.0
        trials = int(reports * MARGIN * self.share * self.judged / self.met)
        return binomial_power(trials, self.chance, lower_limit(self.saw, self.judged))

    def why_not(self, reports: int) -> str | None:
        """Return why the cheat does not qualify; None if it does."""
        if self.share < LEAST_SHARE:
            return "acts on less than 1 % of the inputs"
        if self.power(reports) < POWER:
            return "could not be seen from as many reports"
        return None


def lower_limit(successes: int, trials: int) -> float:
    """Return the lower confidence limit of a probability (Clopper and Pearson 1934)."""
    if successes == 0:
        return 0.0
    return float(beta.ppf(1 - CONFIDENCE, successes, trials - successes + 1))


def binomial_power(trials: int, chance: float, truth: float) -> float:
    """Return the power of a one-sided binomial test.

    The critical number is exceeded by trials of probability `chance` with probability `ALPHA` at
    most. The power is the probability that trials of probability `truth` exceed it.
    """
    if trials < 1:
        return 0.0
    critical = binom.isf(ALPHA, trials, min(1.0, chance))
    return float(binom.sf(critical, trials, truth))


def sighted(cheat: Cheat, subject: Subject, seed: int) -> Sighting:
    """Simulate a cheat, and the test that knows it, on as many inputs as the audit has."""
    generator = np.random.default_rng([seed, 2])
    cheating, testing = Memory(generator.bytes(16)), Memory(generator.bytes(16))
    drawable = tried = met = judged = saw = 0
    chances = 0.0
    least = LEAST_INPUTS * subject.reports
    for number, (event, stream) in enumerate(islice(lives(subject, generator), subject.reports)):
        if not cheat.holds(event):
            continue
        drawable += 1
        if judged >= ENOUGH and number >= least:
            continue
        tried += 1
        whole = stream.report(event)
        if not cheat.holds(whole):
            continue
        met += 1
        sight = cheat.statistic(whole, cheat.alter(whole, cheating), testing)
        if sight is not None:
            judged, saw, chances = judged + 1, saw + sight[0], chances + sight[1]
    chance = min(1.0, chances / max(1, judged))
    return Sighting(subject.reports, drawable, tried, met, judged, saw, chance)
