"""Measure whether alarms and intervals hold for people, who report several times and stay.

`python -m simulations.people` draws people by itself, each with a number. A part of them is
replaced in every period, and everybody reports K times. Reports of values are randomised on arrays,
without the package. It looks for changes in half years of constant shares, also of rare values at
large epsilon, and in half years with jumps. It compares equal arms in 20 looks, and counts how
often intervals of 95 % hold the population's number. In one setting it runs `ldp publish`.

It exits 1 in three cases. First, more than 21 of 200 runs of a setting have an alarm, or more than
5 % and 3 standard errors of all runs of a kind. Second, fewer than 90 % of the jumps by 2 noise
floors are found within 10 periods, where people's errors alone would not hide them. Third,
intervals hold less often than 93 %. `--sample` takes a tenth of the runs, and allows 3 standard
errors more.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from itertools import product
from math import exp, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.special import ndtri

from ldp.arrays import Floats, Ints
from ldp.cli import commands
from ldp.collection import ReportWriter
from ldp.decoding import decode
from ldp.decoding.distribution import Distribution, decode_distribution
from ldp.decoding.means import decode_mean
from ldp.mechanisms import HierarchicalHistogram, OneBitMean, Piecewise, RandomizedResponse
from ldp.publishing.changes import read_changes
from ldp.publishing.detection import ALPHA, Series, detect
from ldp.publishing.experiments import ArmPeriod, intervals, numbers_of_arm
from ldp.registry import Registry
from ldp.simulation import Population, draw_reports, draw_table
from simulations import campaign
from simulations.publish import HEAD, METRIC, START

PERIODS, LOOKS, RUNS, DRAWS, PEOPLE = 182, 20, 200, 2_000, 1_000
EPSILONS, EACH, REPLACED = (1.0, 2.0, 4.0, 10.0), (1, 2, 7, 30), (0.0, 0.01, 0.05, 0.2, 0.5, 1.0)
SHARES = ((0.5, 0.5), (0.7, 0.2, 0.09, 0.01))
RARE = (
    (6.0, (0.99, 0.005, 0.005), 300),
    (6.0, (0.9994, 0.0005, 0.0001), 10_000),
    (7.0, (0.9985, *3 * (0.0005,)), 3_000),
    (8.0, (0.997, *3 * (0.001,)), 300),
    (9.0, (0.9905, *19 * (0.0005,)), 1_000),
    (10.0, (0.9905, *19 * (0.0005,)), 1_000),
    (10.0, (0.9989, 0.001, 0.0001), 10_000),
    (12.0, (0.99, 0.009, 0.001), 1_000),
    (12.0, (0.995, 0.005), 100),
)
"""Epsilon, shares and number of people, in settings where few people hold most values."""
JUMPS = (
    (1.0, (0.7, 0.2, 0.1), PEOPLE),
    (1.0, (0.6, *4 * (0.1,)), PEOPLE),
    (2.0, (0.62, *19 * (0.02,)), PEOPLE),
    (4.0, (0.51, *98 * (0.005,)), 10 * PEOPLE),
    (1.0, (0.5, 0.5), PEOPLE),
    (2.0, (0.7, 0.2, 0.1), PEOPLE),
    (4.0, (0.5, 0.5), PEOPLE),
    (10.0, (0.5, 0.5), PEOPLE),
)
"""Epsilon, shares and number of people; the last share jumps at the cost of the first."""
AT, WITHIN, FLOORS, HIDDEN = 60, 10, 2.0, 8.0
"""Period of a jump, periods within which it must be found, and its size in noise floors.

HIDDEN: a jump may be hidden if it is smaller than this many standard errors of people.
"""
MOST_OF_ONE, LEAST_COVERED, LEAST_FOUND = 21, 0.93, 0.9
NUMBERS = np.arange(21.0)
LAW = np.concatenate([[0.3], 0.7 * np.arange(20, 0, -1) / 210])
"""Numbers that people hold, and their probabilities."""
FEW, WEEKS = 500, 4
"""People behind an interval, and weeks that `ldp publish` looks at."""


@dataclass(frozen=True)
class Setting:
    """Constant `shares` of values among `people`.

    A part `replaced` of the people is replaced in every period. Everybody reports `each` times, by
    randomised response.
    """

    epsilon: float
    shares: tuple[float, ...]
    people: int = PEOPLE
    each: int = 1
    replaced: float = 0.0

    @property
    def channel(self) -> tuple[float, float]:
        """Probabilities of the true value, and of each other value."""
        others = len(self.shares) - 1
        return exp(self.epsilon) / (exp(self.epsilon) + others), 1 / (exp(self.epsilon) + others)

    @property
    def floor(self) -> float:
        """Smallest share that one period tells from 0, at the error rate of one value among all."""
        p, q = self.channel
        noise = sqrt(q * (1 - q) / (self.people * self.each)) / (p - q)
        return float(-ndtri(ALPHA / len(self.shares))) * noise

    @property
    def is_hidden(self) -> bool:
        """Whether people's errors alone could be a jump of the last share by FLOORS noise
        floors."""
        middle = self.shares[-1] + FLOORS * self.floor / 2
        return FLOORS * self.floor < HIDDEN * sqrt(middle * (1 - middle) / self.people)


def histories(
    setting: Setting, runs: int, periods: int, random: np.random.Generator, jump: float = 0.0
) -> tuple[Floats, Floats]:
    """Return the estimated shares and the standard errors of their noise.

    Both have shape (periods, runs, values). From period AT on a share `jump` of the people has the
    last value instead of the first.
    """
    values, (p, q) = len(setting.shares), setting.channel
    law, n = np.array(setting.shares), setting.people * setting.each
    chances = q + (p - q) * np.eye(values)
    people = _drawn(law, (runs, setting.people), random)
    first_cell = np.arange(runs)[:, None] * values
    named = np.empty((periods, runs, values))
    for period in range(periods):
        if period and setting.replaced:
            is_new = random.random(people.shape) < setting.replaced
            people[is_new] = _drawn(law, int(is_new.sum()), random)
        if jump and period == AT:
            is_moved = (people == 0) & (random.random(people.shape) < jump / law[0])
            people[is_moved] = values - 1
            law[[0, -1]] += -jump, jump
        held = np.bincount((people + first_cell).ravel(), minlength=runs * values)
        reports = held.reshape(runs, values) * setting.each
        named[period] = sum(random.multinomial(reports[:, v], chances[v]) for v in range(values))
    share = (named / n - q) / (p - q)
    holders = np.clip(share, 0, 1)
    noise = holders * p * (1 - p) + (1 - holders) * q * (1 - q)
    return share, np.sqrt(noise / n) / (p - q)


def _drawn(law: Floats, size: int | tuple[int, int], random: np.random.Generator) -> Ints:
    """Return the values that people hold, by number."""
    return np.searchsorted(np.cumsum(law)[:-1], random.random(size), "right")


def first_changes(setting: Setting, share: Floats, error: Floats, stated: float = 1.0) -> Ints:
    """Return the first period in which the share of each value changed, shape (runs, values).

    It is the number of periods for a share that never changed. `stated`: factor on people's
    variance, as it is stated to the detector.
    """
    periods, runs, values = share.shape
    p, q = setting.channel
    series = Series(
        share=share.reshape(periods, -1),
        std_error=error.reshape(periods, -1),
        reports=np.full(periods, float(setting.people * setting.each)),
        season=np.zeros(periods, dtype=np.int64),
        is_share=np.ones(runs * values),
        reports_per_person=np.full(periods, stated * setting.each),
        reach=(1 - q) / (p - q),
    )
    first = np.full((runs, values), periods)
    for change in detect(series, ALPHA * runs):  # each run has an error rate of its own
        run, value = divmod(change.column, values)
        first[run, value] = min(first[run, value], change.at)
    return first


def alarms(setting: Setting, runs: int, random: np.random.Generator) -> int:
    """Return how many half years have a change."""
    first = first_changes(setting, *histories(setting, runs, PERIODS, random))
    return int((first.min(axis=1) < PERIODS).sum())


def misses(setting: Setting, runs: int, random: np.random.Generator) -> int:
    """Return how many pairs of equal arms ever differ in LOOKS looks."""
    arms = []
    for _ in range(2):
        share, error = (x.reshape(LOOKS, -1) for x in histories(setting, runs, LOOKS, random))
        keys = [("count", str(place)) for place in range(share.shape[1])]
        n = setting.people * setting.each
        periods = (
            dict(zip(keys, zip(x, s, strict=True), strict=True))
            for x, s in zip(share.tolist(), error.tolist(), strict=True)
        )
        arm = [ArmPeriod(cells, (0, 1), n, setting.each, False) for cells in periods]
        arms.append(numbers_of_arm(arm, keys))
    (first, noise, people), (second, noise2, people2) = arms
    parts = first - second, noise + noise2, np.sqrt(people + people2)
    p, q = setting.channel
    step = (1 - q) / (p - q) / n
    is_missed = np.zeros(len(keys), dtype=bool)
    for look in range(1, LOOKS + 1):
        d, variance, error = (part[:look] for part in parts)
        mean, distance = intervals(d, variance, error, alpha=ALPHA * runs, step=step)
        is_missed |= np.abs(mean) > distance
    return int(is_missed.reshape(runs, -1).any(axis=1).sum())


def jumps_found(setting: Setting, runs: int, random: np.random.Generator) -> int:
    """Return how many jumps of the last value are found in time, and not before they come."""
    jump = FLOORS * setting.floor
    first = first_changes(setting, *histories(setting, runs, AT + WITHIN, random, jump))[:, -1]
    return int(((first >= AT) & (first < AT + WITHIN)).sum())


def coverage(
    epsilon: float, each: int, draws: int, random: np.random.Generator
) -> dict[str, float]:
    """Return, by statistic, the share of intervals that hold the population's number.

    FEW people from the population report `each` times.
    """
    bounds = (float(NUMBERS[0]), float(NUMBERS[-1]))
    mechanisms: dict[str, tuple[Any, Any, Floats]] = {
        "share": (
            RandomizedResponse(categories=("a", "b", "c"), epsilon=epsilon),
            ("a", "b", "c"),
            np.array([0.6, 0.37, 0.03]),
        ),
        "one-bit-mean": (OneBitMean(bounds=bounds, epsilon=epsilon), NUMBERS.tolist(), LAW),
        "piecewise": (Piecewise(bounds=bounds, epsilon=epsilon), NUMBERS.tolist(), LAW),
        "histogram": (
            HierarchicalHistogram(bounds=(0.0, 32.0), epsilon=epsilon, buckets=32),
            NUMBERS.tolist(),
            LAW,
        ),
    }
    holds: dict[str, list[bool]] = {}
    for name, (mechanism, values, law) in mechanisms.items():
        for _ in range(draws):
            people = each * random.multinomial(FEW, law)
            table = draw_table(mechanism, values, counts=people, generator=random)
            for what, low, truth, high in _intervals(name, table, law, float(each)):
                holds.setdefault(f"{name}, {what}", []).append(bool(low <= truth <= high))
    return {what: float(np.mean(some)) for what, some in holds.items()}


def _intervals(
    name: str, table: Any, law: Floats, each: float
) -> Iterator[tuple[str, float, float, float]]:
    """Yield each interval: its name, its lower end, the true number, and its upper end."""
    if name == "share":
        lows, highs = decode(table, weighted_reports_per_client=each).interval(population=True)
        for share, low, high in zip(law, lows, highs, strict=True):
            yield f"of {share:g}", low, FEW * each * share, high
    elif name == "histogram":
        result = decode_distribution(table).at(reports_per_person=each)
        assert isinstance(result, Distribution)
        for q in (0.5, 0.9):
            row = result.quantile(q)
            truth = float(NUMBERS[np.searchsorted(np.cumsum(law), q)])
            yield row.name, row.low, truth, row.high
        row = result.between(0, 8)
        yield "share below 8", row.low, float(law[NUMBERS < 8].sum()), row.high
        row = result.moments()[0]
        yield "mean", row.low, float(law @ NUMBERS), row.high
    else:
        low, high = decode_mean(table).at(reports_per_person=each).interval()
        yield "mean", low, float(law @ NUMBERS), high


def published(metrics: int, random: np.random.Generator) -> int:
    """Return for how many metrics `ldp publish` writes a change.

    In each metric, 5 % of the people are replaced each day, and everybody reports twice.
    """
    names = [f"m{number:03}" for number in range(metrics)]
    keys = 'mechanism = "rr"\nepsilon = 4.0\ncategories = ["a", "b"]\nreports_per_window = 2'
    with TemporaryDirectory() as folder:
        top, days = Path(folder), 7 * WEEKS
        text = (METRIC.format(name=n, version=1, about="one of two", keys=keys) for n in names)
        (top / "metrics.toml").write_text(HEAD + "".join(text), "utf-8")
        registry = Registry.load(top / "metrics.toml")
        for name in names:
            mechanism, people = registry.metric(name).mechanism, random.random(300) < 0.5
            for day in range(days):
                is_new = random.random(people.size) < 0.05
                people[is_new] = random.random(int(is_new.sum())) < 0.5
                counts = 2 * np.array([people.sum(), (~people).sum()])
                at = START + timedelta(days=day)
                with ReportWriter(top / "store", name, 1, mechanism, at, "a") as writer:
                    for batch in draw_reports(
                        mechanism, Population(("a", "b"), counts=counts), random
                    ):
                        writer.write(*batch)
        words = ["publish", "--registry", top / "metrics.toml", "--store", top / "store"]
        words += ["--out", top / "out", "--until", START + timedelta(days=days - 1)]
        with redirect_stdout(StringIO()):
            commands.main([*map(str, words)], standalone_mode=False)
        return sum(bool(read_changes(top / "out", name, 1)) for name in names)


def settings_of_people() -> Iterator[Setting]:
    """Yield the settings of constant shares."""
    for shares, epsilon, each, replaced in product(SHARES, EPSILONS, EACH, REPLACED):
        yield Setting(epsilon, shares, each=each, replaced=replaced)


def settings_of_rare() -> Iterator[Setting]:
    """Yield the settings of rare values."""
    for (epsilon, shares, people), each, replaced in product(RARE, (1, 7), (0.0, 0.05, 0.2, 1.0)):
        yield Setting(epsilon, shares, people, each, replaced)


KINDS: dict[str, tuple[Callable[..., int], Callable[[], Iterator[Setting]]]] = {
    "half years of constant shares that have a change": (alarms, settings_of_people),
    "half years of rare values that have a change": (alarms, settings_of_rare),
    "equal arms that ever differ": (misses, settings_of_people),
    "equal arms of rare values that ever differ": (misses, settings_of_rare),
}


def slack(rate: float, runs: int, is_sample: bool) -> float:
    """Return 3 standard errors of a `rate` of `runs` runs for a sample, else 0."""
    return 3 * sqrt(rate * (1 - rate) / runs) if is_sample else 0.0


def bars_of_alarms(runs: int, seed: int) -> Iterator[tuple[campaign.Bar, list[Any]]]:
    """Yield the bars of each of KINDS, with the alarms of every setting."""
    for number, (what, (count, settings)) in enumerate(KINDS.items()):
        random, rows = np.random.default_rng([seed, number]), list[Any]()
        for setting in settings():
            rows.append({**vars(setting), "alarms": count(setting, runs, random)})
        most = max(row["alarms"] for row in rows)
        bar = MOST_OF_ONE * runs / RUNS + runs * slack(0.05, runs, runs < RUNS)
        name = f"{what}, of {runs} in one of {len(rows)} settings, at most"
        yield campaign.Bar(name, most, f"at most {bar:g}", most <= bar), rows
        total = len(rows) * runs
        rate, limit = sum(row["alarms"] for row in rows) / total, 0.05 + 3 * sqrt(0.0475 / total)
        yield campaign.Bar(f"{what}, of {total:,}", rate, f"at most {limit:.4f}", rate <= limit), []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    made, part = campaign.provenance(), 10 if options.sample else 1
    runs, bars, alarm_rows = RUNS // part, list[campaign.Bar](), list[Any]()
    for bar, rows in bars_of_alarms(runs, options.seed):
        bars.append(bar)
        alarm_rows += rows
    random, found = np.random.default_rng([options.seed, 10]), list[Any]()
    for (epsilon, shares, people), replaced in product(JUMPS, REPLACED):
        setting = Setting(epsilon, shares, people, replaced=replaced)
        share = jumps_found(setting, runs, random) / runs
        found.append({**vars(setting), "is_hidden": setting.is_hidden, "found": share})
    least = min(row["found"] for row in found if not row["is_hidden"])
    what = f"of {runs} jumps of {FLOORS:g} noise floors in one setting, found in {WITHIN} periods"
    limit = LEAST_FOUND - slack(LEAST_FOUND, runs, options.sample)
    bars.append(campaign.Bar(f"{what}, at least", least, f"at least {limit:.3g}", least >= limit))
    random, held = np.random.default_rng([options.seed, 11]), list[Any]()
    for epsilon, each in product((1.0, 4.0), EACH):
        holds = coverage(epsilon, each, DRAWS // part, random)
        held.append({"epsilon": epsilon, "each": each, "holds": holds})
    least = min(share for row in held for share in row["holds"].values())
    what = f"intervals of 95 % that hold, of {DRAWS // part} in one setting, at least"
    limit = LEAST_COVERED - slack(0.05, DRAWS // part, options.sample)
    bars.append(campaign.Bar(what, least, f"at least {limit:.3g}", least >= limit))
    metrics = 40 // part
    alarmed = published(metrics, np.random.default_rng([options.seed, 12])) / metrics
    limit = 0.05 + 3 * sqrt(0.0475 / metrics)
    what = f"of {metrics} metrics that ldp publish looks at for {WEEKS} weeks, those with a change"
    bars.append(campaign.Bar(what, alarmed, f"at most {limit:.3f}", alarmed <= limit))
    result = {"bars": bars, "alarms": alarm_rows, "jumps": found, "coverage": held}
    campaign.write(options.out, made, result)
    return campaign.shown(bars)


if __name__ == "__main__":
    sys.exit(main())
