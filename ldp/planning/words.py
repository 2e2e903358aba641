"""Words that nobody lists: how rare a word prefix extension finds, before anybody is asked."""

import math
from bisect import bisect_left
from collections.abc import Iterator
from statistics import NormalDist

from ldp.decoding.prefixes import CHANCE, MOST_KEPT, MOST_TESTED
from ldp.decoding.puzzle import fragment_number
from ldp.mechanisms import LocalHashing, PrefixExtension
from ldp.planning.candidates import SEED, zipf_squares

POWER, ALPHA = 0.9, 0.05
"""Probability with which a word is found, and the error rate over all words tested."""
ROWS = 8192
"""Hash functions of each length of beginnings."""
MORE = 1.02
"""Factor of shares: of those that normal laws give, words were found in .876 +- .012 of 700 windows
(`make campaign-portfolio`), where .9 are promised."""
SHARES = tuple(1e-7 * 1.01**step for step in range(1_620))
"""Shares that are tried: 1e-7 to 1 in steps of 1 %."""


def prefix_mechanisms(length: int, epsilon: float) -> Iterator[PrefixExtension]:
    """Yield prefix extension of words of at most `length` letters a to z, for each number of
    lengths of beginnings that can be decoded. Raises ParameterError for an epsilon or length out of
    range."""
    for groups in (groups for groups in range(1, length + 1) if length % groups == 0):
        mechanism = PrefixExtension(
            epsilon=epsilon, rows=ROWS * groups, seed=SEED, length=length, groups=groups
        )
        if CHANCE * fragment_number(mechanism.spelling) <= MOST_TESTED:
            yield mechanism


def smallest_share(mechanism: PrefixExtension, users: int) -> float:
    """Return the least share of people whose word is found with probability POWER when `users` send
    a report each; infinite where none up to 1 is. It is cautious: as many words are taken to be
    tested as can have that share."""
    place = bisect_left(
        SHARES, True, key=lambda share: chance_to_find(mechanism, users, share) >= POWER
    )
    share = MORE * SHARES[place] if place < len(SHARES) else math.inf
    return share if share <= 1 else math.inf


def chance_to_find(mechanism: PrefixExtension, users: int, share: float) -> float:
    """Return the probability that a word of this share is discovered: each of its beginnings among
    those that are kept, and the word by Bonferroni at ALPHA (normal laws)."""
    groups, normal = mechanism.groups, NormalDist()
    sketch = LocalHashing(
        epsilon=mechanism.epsilon,
        rows=mechanism.rows // groups,
        seed=mechanism.seed,
        buckets=mechanism.buckets,
    )
    about, endings = max(1, users // groups), fragment_number(mechanism.spelling)
    others = zipf_squares(math.ceil(1 / share))
    rare, noise = (sketch.std_error(about, held, others) for held in (0.0, share))
    there = math.hypot(noise, math.sqrt(about * share * (1 - share)))  # who reports on a length
    beginnings = min(MOST_KEPT, CHANCE + 1 / share)
    chance = 1.0
    for group in range(groups):
        tested = endings * (beginnings if group else 1)
        rate = ALPHA / tested if group == groups - 1 else min(0.5, CHANCE / tested)
        chance *= normal.cdf((about * share + normal.inv_cdf(rate) * rare) / there)
    return chance
