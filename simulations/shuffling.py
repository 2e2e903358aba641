"""Measure whether shuffled costs are never below the truth, and what days and dummies cost.

`python -m simulations.shuffling` enumerates batches of up to six people, and prints the certified
epsilon over the true one. It composes 365 batches, and calibrates dummies to (1, 1e-6) beside
randomised response in the same batch. It exits 1 when a ratio is below 1, when a year costs more
than 10 % of its sum, or when dummies have more than 2.6 times a curator's error. `--sample` runs
fewer cases.
"""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations
from pathlib import Path

import numpy as np

from ldp.accounting.bisection import bisect
from ldp.central import DiscreteLaplace
from ldp.mechanisms import Mechanism
from ldp.planning.comparison import shuffled_rivals
from ldp.privacy_loss import amplify_by_shuffling, compose_shuffled
from ldp.simulation import Population
from simulations import campaign
from simulations.campaign import Bar
from tests.small_batches import batch_laws
from tests.small_mechanisms import cms, hcms, rr, unary

DELTA = 1e-6
SMALL = (
    (rr(2, 1.0), "01", 6),
    (rr(2, 3.0), "01", 6),
    (rr(3, 0.7), "012", 5),
    (unary(1.0), "012", 3),
    (unary(1.5, "optimized"), "012", 3),
    (hcms(1.0), "013", 3),
)
"""Mechanisms, their values, and the largest number of people whose batch is enumerated."""
DELTAS = (0.1, 0.01, 0.001)
YEARS = (
    (rr(2, 1.0), 10_000),
    (rr(2_600, 8.0), 1_000_000),
    (cms(4.0), 100_000),
    (hcms(4.0), 1_000_000),
    (hcms(8.0), 1_000_000),
)
HISTOGRAMS = ((2_600, 100_000), (2_600, 1_000_000), (250_000, 1_000_000))
"""Numbers of values and of users."""


@dataclass(frozen=True)
class Ratio:
    """Certified epsilon of a batch of `people`, and the true epsilon of its worst case.

    The worst case is over the pair of values and the values of the others.
    """

    mechanism: str
    local: float
    people: int
    delta: float
    true: float
    certified: float


@dataclass(frozen=True)
class Year:
    """Epsilon of one batch, and of 365 composed batches, at DELTA each."""

    mechanism: str
    local: float
    reports: int
    single: float
    composed: float

    @property
    def share(self) -> float:
        """Composed epsilon as a share of the sum of 365 batches."""
        return self.composed / (365 * self.single)


def true_epsilon(mechanism: Mechanism, values: Sequence[str], people: int, delta: float) -> float:
    """Return the true epsilon at `delta`: the least that holds for every pair and all other
    values."""
    batches = [
        [(first[z], second[z]) for z in first]
        for one, other in permutations(values, 2)
        for others in combinations_with_replacement(values, people - 1)
        for first, second in [batch_laws(mechanism, one, other, others)]
    ]

    def is_above(epsilon: float) -> bool:
        growth = math.exp(epsilon)
        return any(math.fsum(max(0, p - growth * q) for p, q in law) > delta for law in batches)

    if not is_above(0.0):
        return 0.0
    return bisect(is_above, 0.0, mechanism.cost.epsilon, 40)[0]


def ratios(cases: Sequence[tuple[Mechanism, str, int]]) -> Iterator[Ratio]:
    """Yield the ratios of all sizes of batches and deltas that have a true epsilon above 0."""
    for mechanism, values, most in cases:
        for people in range(2, most + 1):
            for delta in DELTAS:
                true = true_epsilon(mechanism, values, people, delta)
                if true > 0:
                    yield Ratio(
                        mechanism=mechanism.name,
                        local=mechanism.cost.epsilon,
                        people=people,
                        delta=delta,
                        true=true,
                        certified=amplify_by_shuffling(
                            mechanism, reports=people, delta=delta
                        ).epsilon,
                    )


def year(mechanism: Mechanism, reports: int) -> Year:
    """Return what a year of batches costs."""
    return Year(
        mechanism=mechanism.name,
        local=mechanism.cost.epsilon,
        reports=reports,
        single=amplify_by_shuffling(mechanism, reports=reports, delta=DELTA).epsilon,
        composed=compose_shuffled([(mechanism, reports, 365)]).at(DELTA).epsilon,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", action="store_true", help="one case of each")
    parser.add_argument("--out", type=Path, help="JSON to write")
    options = parser.parse_args()
    made = campaign.provenance()
    most = 1 if options.sample else None
    small = list(ratios(SMALL[:most]))
    print("certified over true epsilon of small batches")
    for line in small:
        print(
            f"  {line.mechanism:<6} {line.local:4.2f}  {line.people} people, "
            f"delta {line.delta:5g}: {line.certified:.4f} / {line.true:.4f} = "
            f"{line.certified / line.true:.4f}"
        )
    shares = [line.certified / line.true for line in small]
    bars = [
        Bar("smallest certified epsilon over the true one", min(shares), ">= 1", min(shares) >= 1)
    ]
    years = [year(*case) for case in YEARS[:most]]
    bars += [
        Bar(
            f"365 batches of {line.reports:,} {line.mechanism} at {line.local:.3g}, "
            f"{line.single:.3g} each: composed over their sum",
            line.share,
            "<= 0.1",
            line.share <= 0.1,
        )
        for line in years
    ]
    central = DiscreteLaplace(epsilon=1.0, sensitivity=2.0).std_error
    rows = []
    for values, users in HISTOGRAMS[:most]:
        even = Population(tuple(map(str, range(values))), frequencies=np.full(values, 1 / values))
        response, dummies = shuffled_rivals(
            even, users=users, epsilon=1.0, delta=DELTA, generator=np.random.default_rng(1)
        )
        rows += [response, dummies]
        ratio = dummies.predicted / central
        what = (
            f"{values:,} values, {users:,} users: error of dummies over a curator's, with "
            f"{dummies.messages:.3g} messages and {dummies.sent_bytes:.3g} bytes a user; rr has "
            f"{response.predicted / central:.3g} with {response.sent_bytes:.3g}"
        )
        bars.append(Bar(what, ratio, "<= 2.6", ratio <= 2.6))
    campaign.write(
        options.out,
        made,
        {
            "bars": bars,
            "ratios": small,
            "years": years,
            "histograms": [
                {
                    "mechanism": row.mechanism,
                    "values": row.parameters.get("values"),
                    "users": row.users,
                    "predicted": row.predicted,
                    "measured": row.measured,
                    "messages": row.messages,
                    "bytes": row.sent_bytes,
                }
                for row in rows
            ],
        },
    )
    sys.exit(campaign.shown(bars))


if __name__ == "__main__":
    main()
