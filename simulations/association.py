"""Measure whether `associate` recovers the joint distribution of a joint metric.

`python -m simulations.association` simulates reports of many populations and associates them. One
joint metric is the pair that RAPPOR's critics ask for: which banners are shown, and which are
dismissed. The others are pairs of strings, some of which no list names. It counts how many
intervals hold, and how often the test of independence rejects. It also times the fit of 100,000
reports to 11 x 11 cells beside plain EM. Last, a device records a pair, to see what its budget
group is charged.

The campaign prints each bar beside its figure, writes all as JSON and exits 1 when a bar is missed.
With `--sample` it runs a twenty-fifth of the sets.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom
from threadpoolctl import threadpool_limits

from ldp import JointReport, Rappor, UnaryEncoding
from ldp.arrays import Bools, Floats, Ints
from ldp.client import Client
from ldp.decoding import decode
from ldp.decoding.association import (
    Association,
    Variable,
    associate,
    likelihoods,
    variable,
)
from ldp.decoding.mixtures import Mixture, covariance, fit_shares
from ldp.protocol.batch import Batch
from ldp.registry import Registry
from ldp.simulation import Population, draw_reports
from ldp.tables.estimates import Rule
from ldp.tables.joint_table import whole_table
from ldp.tables.result import OTHER
from simulations import campaign
from simulations.campaign import Bar

LEVEL = 0.95
INSIDE = 3.0
"""Fewest standard errors that a cell's count has for its interval to be counted."""
DAYS = 40
CHANCE = 1e-6
"""Probability that chance alone misses one bar."""
REGISTRY = """
[product]
name = "browser"

[group.banners]
window = "1d"
window_epsilon = 8.5
lifetime_epsilon = 10.0

[metric.banner]
version = 1
group = "banners"
description = "Which banners are dismissed"
owners = ["study@example.org"]
expires = 2099-12-31
mechanism = "joint"
of = ["banner-shown", "banner-dismissed"]

[metric.banner-shown]
version = 1
group = "banners"
description = "Which banner was shown"
owners = ["study@example.org"]
expires = 2099-12-31
mechanism = "rappor"
bits = 16
hashes = 2
cohorts = 16
f = 0.25
p = 0.25
q = 0.75

[metric.banner-dismissed]
version = 1
group = "banners"
description = "Whether it was dismissed"
owners = ["study@example.org"]
expires = 2099-12-31
mechanism = "unary"
categories = ["no", "yes"]
epsilon = 1.0
"""


def bloom(seed: str) -> Rappor:
    """Return RAPPOR with the setting of the reference's own measurements."""
    return Rappor(bits=16, hashes=2, cohorts=16, f=0.25, p=0.25, q=0.75, seed=seed)


@dataclass(frozen=True)
class Task:
    """Joint metric and its population.

    `shares`: true shares; rows are values of the first member, columns those of the second. The
    first `listed` rows are candidates; so are the first `listed` columns where the second member is
    hashed.
    """

    name: str
    shares: tuple[tuple[float, ...], ...]
    listed: int
    reports: int
    sets: int
    hashed: bool
    dependent: bool


def independent(*margin: float) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(a * b for b in margin) for a in margin)


TASKS = (
    Task(
        "banners",
        ((0.04, 0.36), (0.25, 0.05), (0.10, 0.10), (0.01, 0.09)),
        listed=4,
        reports=20_000,
        sets=300,
        hashed=False,
        dependent=True,
    ),
    Task(
        "strings, all listed",
        independent(0.3, 0.2, 0.15, 0.15, 0.1, 0.1),
        listed=6,
        reports=20_000,
        sets=300,
        hashed=True,
        dependent=False,
    ),
    Task(
        "strings, one of a fifth unlisted",
        independent(0.25, 0.2, 0.15, 0.1, 0.1, 0.2),
        listed=5,
        reports=20_000,
        sets=300,
        hashed=True,
        dependent=False,
    ),
    Task(
        "strings, each with itself alone",
        tuple(
            tuple(share if i == j else 0.0 for j in range(5))
            for i, share in enumerate((0.3, 0.25, 0.2, 0.15, 0.1))
        ),
        listed=5,
        reports=20_000,
        sets=300,
        hashed=True,
        dependent=True,
    ),
)


@dataclass(frozen=True)
class Result:
    """Outcome of all sets of a task.

    `held`: how many intervals hold, of one cell of each set; `held_as_published`: the same with the
    published law of unlisted strings. `rejected`: how often independence was rejected at 5 %.
    `false_discoveries`: mean share of the cells discovered at 5 % that nobody held. `variation`:
    mean total variation between the joint estimate and the truth; `variation_of_margins`: between
    the product of the margins and the truth.
    """

    task: str
    sets: int
    held: int
    held_as_published: int | None
    rejected: int
    false_discoveries: float
    variation: float
    variation_of_margins: float
    seconds: float


def values(task: Task) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names = tuple(f"value-{i}" for i in range(len(task.shares)))
    return names, names if task.hashed else ("no", "yes")


def truth(task: Task, counts: Ints, found: Association) -> Floats:
    """Return the true counts of the cells of `found`; a value that is in no other cell is in
    OTHER."""
    made = np.zeros(found.shares.shape)
    for (a, b), count in zip(product(*values(task)), counts.tolist(), strict=True):
        place = tuple(
            axis.index(value) if value in axis else axis.index(OTHER)
            for axis, value in zip(found.values, (a, b), strict=True)
        )
        made[place] += count
    return made


def run(task: Task, sets: int) -> Result:
    generator = np.random.default_rng([len(task.name), task.reports])
    names, answers = values(task)
    other = bloom("02") if task.hashed else UnaryEncoding(categories=answers, epsilon=1.0)
    mechanism = JointReport(of=(bloom("01"), other))
    listed = [names[: task.listed], answers[: task.listed] if task.hashed else None]
    pairs: Any = tuple(product(names, answers))
    held = published = rejected = 0
    variations, seconds, false = [], 0.0, 0.0
    for _ in range(sets):
        counts = generator.multinomial(task.reports, np.array(task.shares).ravel())
        people = Population(pairs, counts=counts)
        table = whole_table(mechanism, draw_reports(mechanism, people, generator))
        started = time.process_time()
        found = associate(table, listed)
        seconds += time.process_time() - started
        true = truth(task, counts, found)
        inside = np.argwhere(true > INSIDE * found.std_error)
        # one cell of each set, because the cells of a set depend on each other
        place = tuple(inside[generator.integers(len(inside))].tolist())
        held += holds(found, true, place)
        if task.hashed:
            published += holds(as_published(table, found), true, place)
        rejected += found.independence.p_value < 1 - LEVEL
        discovered = found.detected()
        false += float((discovered & (true == 0)).sum()) / max(1, int(discovered.sum()))
        shares = (found.shares.sum(axis=axis) for axis in (1, 0))
        margins = task.reports * np.outer(*shares)
        variations.append(
            [np.abs(each - true).sum() / 2 / task.reports for each in (found.count, margins)]
        )
    joint, alone = np.mean(variations, axis=0).tolist()
    beside = published if task.hashed else None
    return Result(
        task.name,
        sets,
        held,
        beside,
        rejected,
        false / sets,
        joint,
        alone,
        round(seconds / sets, 3),
    )


def holds(found: Association, true: Floats, place: tuple[int, ...]) -> bool:
    """Return whether the interval of a cell holds its true count."""
    low, high = found.interval(LEVEL)
    return bool(low[place] <= true[place] <= high[place])


def as_published(whole: Any, found: Association) -> Association:
    """Return the association with the paper's law of OTHER.

    In the paper, the reports of a cohort that no detected value explains have independent bits. The
    probability of a bit follows from what remains of its count. The interval comes from the
    information of the likelihood at its maximum.
    """
    factors = []
    for table, values, (rows, payloads) in zip(
        whole.tables, found.values, whole.whole.parts(), strict=True
    ):
        axis = variable(table, values[:-1], Rule(control="none", alpha=0.999), "a part")
        factor = likelihoods(axis, rows, payloads)
        channel = table.mechanism.channel
        shown = float(channel.untouched) + channel.gain * axis.touched
        shares = np.maximum(decode(table, axis.values[:-1]).count, 0) / table.total
        reports = table.reports[:, None]
        expected = reports * np.einsum("j,rjc->rc", shares, shown)
        left = np.maximum(reports * (1 - shares.sum()), 1)
        chance = np.clip((table.counts - expected) / left, 1e-9, 1 - 1e-9)
        bits = np.unpackbits(payloads, axis=1, bitorder="little")[:, : chance.shape[1]] == 1

        def of_bits(each: Floats, bits: Bools = bits, at: Any = rows) -> Floats:
            return np.asarray(np.where(bits, np.log(each[at]), np.log(1 - each[at])).sum(axis=1))

        factor[:, -1] = factor[:, 0] * np.exp(of_bits(chance) - of_bits(shown[:, 0]))
        factors.append(factor / factor.max(axis=1, keepdims=True))
    mixture = Mixture.of(factors, whole.whole.counts)
    fit = fit_shares(mixture)
    variance = np.diag(covariance(mixture.information(fit.shares))).reshape(fit.shares.shape)
    of_table = np.maximum(variance - fit.shares * (1 - fit.shares) / found.reports, 0)
    errors = found.reports * np.sqrt(of_table)
    return replace(found, unbiased=found.reports * fit.shares, std_error=errors)


@dataclass(frozen=True)
class Fitted:
    """Time and result of a fit of `reports` to 11 x 11 cells.

    `seconds`, `steps`: CPU time and steps of the fit. `plain_*`: of plain EM until no cell changes
    by 1e-6: its time, its steps, its largest distance from the fit, and by how much it is less
    likely. `end_*`: of plain EM until no cell changes by `end`.
    """

    reports: int
    seconds: float
    steps: int
    plain_seconds: float
    plain_steps: int
    plain_from_fit: float
    plain_below_fit: float
    end: float
    end_steps: int
    end_from_fit: float


def timed(reports: int, end: float) -> Fitted:
    generator = np.random.default_rng(11)
    mechanism = JointReport(of=(bloom("01"), bloom("02")))
    names = tuple(f"value-{i}" for i in range(12))
    pairs: Any = tuple(product(names, repeat=2))
    people = Population(pairs, frequencies=generator.dirichlet(np.full(144, 0.3)))
    sampled = people.sample(reports, generator)
    whole: Any = whole_table(mechanism, draw_reports(mechanism, sampled, generator))
    patterns = whole.whole
    axes: list[Variable] = [
        variable(table, names[:10], Rule(threshold=1.0), "a part") for table in whole.tables
    ]
    factors = [likelihoods(axis, *part) for axis, part in zip(axes, patterns.parts(), strict=True)]
    mixture = Mixture.of(factors, patterns.counts)
    started = time.process_time()
    fit = fit_shares(mixture)
    seconds = time.process_time() - started
    shares, steps, started = np.full(fit.shares.shape, 1 / fit.shares.size), 0, time.process_time()
    plain: tuple[float, int, float, float] | None = None
    change = 1.0
    while change >= end:
        moved, likelihood = mixture.step(shares)
        change, shares, steps = float(np.abs(moved - shares).max()), moved, steps + 1
        if plain is None and change < 1e-6:
            apart = float(np.abs(shares - fit.shares).max())
            plain = time.process_time() - started, steps, apart, fit.likelihood - likelihood
    assert plain is not None
    apart = float(np.abs(shares - fit.shares).max())
    return Fitted(reports, seconds, fit.steps, *plain, end, steps, apart)


@dataclass(frozen=True)
class Charged:
    """Charge of a budget group whose device recorded a pair on each of DAYS days.

    `spent`: epsilon that the group was charged, of 10 for life; `cost`: epsilon of one report of
    the pair; `sent`: number of reports sent.
    """

    spent: float
    cost: float
    sent: int


def charged() -> Charged:
    """Return what one device was charged.

    What a day has left of its cap goes to the group's metrics in random order, so a pair may wait.
    Over DAYS days, all that fits into the cap is sent.
    """
    now, got = datetime(2026, 1, 1, 12, tzinfo=UTC), list[bytes]()

    class Kept:
        def send(self, identity: bytes, body: bytes) -> int:
            got.append(body)
            return 0

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.toml"
        path.write_text(REGISTRY)
        cost = Registry.load(path).metric("banner").mechanism.cost.epsilon
        client = Client(
            Path(folder) / "device",
            registry=path,
            destination=Kept(),
            clock=lambda: now,
            jitter=timedelta(0),
        )
        with client:
            client.grant()
            for _ in range(DAYS):
                client.record("banner", ("cookies", "yes"))
                now += timedelta(days=1)
                client.upload()
            now += timedelta(days=2)  # no window reaches back, so only the cap for life is left
            left = client.remaining()["banners"]
            life = Registry.load(path).groups["banners"].caps.lifetime_epsilon
            items = [item for body in got for item in Batch.from_bytes(body).items]
            return Charged(life - left, cost, len(items))


def within(share: float, slack: float, trials: int) -> tuple[int, int]:
    """Return the range that a binomial count leaves with probability CHANCE at most.

    The trials succeed with a probability within `slack` of `share`.
    """
    low, high = max(0.0, share - slack), min(1.0, share + slack)
    return int(binom.ppf(CHANCE / 2, trials, low)), int(binom.isf(CHANCE / 2, trials, high))


def bars(results: list[Result], few: Fitted, fit: Fitted, paid: Charged) -> list[Bar]:
    """Return every bar with its figure."""
    made = []
    for result, task in zip(results, TASKS, strict=True):
        low, high = within(LEVEL, 0.01, result.sets)
        what = f"{result.task}: intervals that hold, of {result.sets}"
        made.append(Bar(what, result.held, f"{low} to {high}", low <= result.held <= high))
        # among shares with a mean of 5 %, the sum varies most where each share is 0 or 1
        most_false = within(1 - LEVEL, 0.0, result.sets)[1] / result.sets
        what = f"{result.task}: discovered cells that nobody held"
        false = result.false_discoveries
        made.append(Bar(what, false, f"<= {most_false:.3f}", false <= most_false))
        what = f"{result.task}: independence rejected at 5 %, of {result.sets}"
        if task.dependent:
            made.append(Bar(what, result.rejected, "all", result.rejected == result.sets))
            apart, alone = result.variation, result.variation_of_margins
            what = f"{result.task}: total variation of the joint estimate"
            wanted = f"< a third of the margins' {alone:.3f}"
            made.append(Bar(what, apart, wanted, apart < alone / 3))
        else:
            _, most = within(1 - LEVEL, 0.01, result.sets)
            made.append(Bar(what, result.rejected, f"<= {most}", result.rejected <= most))
    times = int(10.0 // paid.cost)
    return [
        *made,
        Bar("pairs that a group of 10 lets out", paid.sent, f"{times}", paid.sent == times),
        Bar(
            "epsilon it is charged for them",
            paid.spent,
            f"{times} x {paid.cost:.4g}",
            abs(paid.spent - times * paid.cost) < 1e-9,
        ),
        Bar(f"CPU seconds to fit {fit.reports:,} reports", fit.seconds, "< 1", fit.seconds < 1),
        Bar(
            "largest cell's distance from plain EM at its end",
            few.end_from_fit,
            "< 1e-4",
            few.end_from_fit < 1e-4,
        ),
        Bar(
            "log likelihood that plain EM to 1e-6 falls short by",
            fit.plain_below_fit,
            "> 0",
            fit.plain_below_fit > 0,
        ),
        Bar(
            "plain EM's CPU seconds to 1e-6, as many times ours",
            fit.plain_seconds / fit.seconds,
            "> 5",
            fit.plain_seconds > 5 * fit.seconds,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true", help="a 25th of the sets")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    asked, started = parser.parse_args(), campaign.provenance()
    with threadpool_limits(1):
        status = shown(asked.sample, asked.out, started)
    sys.exit(status)


def shown(is_sample: bool, out: Path | None, started: dict[str, str]) -> int:
    """Run everything, print it and write it; return the exit status."""
    paid, few = charged(), timed(10_000, end=1e-8)
    fit = few if is_sample else timed(100_000, end=1e-6)
    print(f"     {asdict(paid)}\n     {asdict(few)}\n     {asdict(fit)}", flush=True)
    results = []
    for task in TASKS:
        results.append(run(task, task.sets // 25 if is_sample else task.sets))
        print(f"     {asdict(results[-1])}", flush=True)
    made = bars(results, few, fit, paid)
    status = campaign.shown(made)
    written = {
        "tasks": TASKS,
        "bars": made,
        "results": results,
        "few": few,
        "fit": fit,
        "charged": paid,
    }
    campaign.write(out, started, written)
    return status


if __name__ == "__main__":
    main()
