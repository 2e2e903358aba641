"""Questions of words that nobody lists: how rare a word prefix extension finds."""

import dataclasses
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, permutations
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ldp import central
from ldp.arrays import Generator
from ldp.decoding.prefixes import CHANCE, MOST_KEPT, MOST_TESTED, discover_prefixes
from ldp.decoding.puzzle import fragment_number
from ldp.mechanisms import PrefixExtension
from ldp.planning.mechanism_choice import SEED, zipf_squares
from ldp.planning.numbers import Mean, Percentile
from ldp.planning.question import DRAWS, VALUES, Answers, Curated, Curator, Files, Question
from ldp.planning.values import Shares
from ldp.protocol.keys import Key, whole
from ldp.protocol.spelling import MOST_LETTERS
from ldp.simulation import draw_table

if TYPE_CHECKING:
    from ldp.registry import Metric

POWER, ALPHA = 0.9, 0.05
"""Probability with which a word is found, and the error rate over all words tested."""
ROWS = 8192
"""Hash functions of each length of beginnings."""
MORE = 1.02
"""Factor of shares: of those that normal laws give, words were found in .876 +- .012 of 700 windows
(`make campaign-portfolio`), where .9 are promised."""
SHARES = tuple(1e-7 * 1.01**step for step in range(1_620))
"""Shares that are tried: 1e-7 to 1 in steps of 1 %."""
WINDOWS = 100
"""Number of tables in which a word is looked for."""
DELTA = 1e-8
"""Delta of a curator's words, which no list names."""


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
    a report each. It is infinite where none up to 1 is. It is cautious: as many words are taken to
    be tested as can have that share."""
    place = bisect_left(
        SHARES, True, key=lambda share: chance_to_find(mechanism, users, share) >= POWER
    )
    share = MORE * SHARES[place] if place < len(SHARES) else math.inf
    return share if share <= 1 else math.inf


def chance_to_find(mechanism: PrefixExtension, users: int, share: float) -> float:
    """Return the probability that a word of this share is discovered: each of its beginnings among
    those that are kept, and the word by Bonferroni at ALPHA (by normal distributions)."""
    groups, normal = mechanism.groups, NormalDist()
    about, endings = max(1, users // groups), fragment_number(mechanism.spelling)
    others = zipf_squares(math.ceil(1 / share))
    rare, noise = (mechanism.single.std_error(about, held, others) for held in (0.0, share))
    # who reports on a length
    there = math.hypot(noise, math.sqrt(about * share * (1 - share)))
    beginnings = min(MOST_KEPT, CHANCE + 1 / share)
    chance = 1.0
    for group in range(groups):
        tested = endings * (beginnings if group else 1)
        rate = ALPHA / tested if group == groups - 1 else min(0.5, CHANCE / tested)
        chance *= normal.cdf((about * share + normal.inv_cdf(rate) * rare) / there)
    return chance


@dataclass(frozen=True, kw_only=True)
class Words(Question):
    """The words, of at most `letters` letters, that nobody can list. Its error is the least share
    of people whose word is found with probability POWER."""

    letters: int
    key = "words"
    keys: ClassVar = {"words": Key(whole(1, MOST_LETTERS), "Most letters of a word")}
    released_as = "strings"
    error_name = "smallest share that is found"

    @classmethod
    def read(cls, keys: Mapping[str, Any], files: Files, **shared: Any) -> "Words":
        return cls(**shared, letters=keys["words"])

    def mechanisms(self) -> Iterable[PrefixExtension]:
        return prefix_mechanisms(self.letters, self.epsilon)

    def std_error(self, mechanism: PrefixExtension) -> float:
        return smallest_share(mechanism, self.users)

    def simulate(self, mechanism: PrefixExtension, generator: Generator) -> tuple[float, float]:
        """Return the share of draws in which a word of the smallest share is found, beside 300
        others of Zipf frequencies, and its standard error."""
        others = islice(permutations("abcdefgh", min(4, self.letters)), 300)
        words, share = ["yeti"[: self.letters], *map("".join, others)], self.std_error(mechanism)
        rest = 1 / np.arange(1.0, len(words))
        shares = np.array([share, *(1 - share) * rest / rest.sum()])
        hits = np.zeros(WINDOWS)
        for draw in range(WINDOWS):
            counts = generator.multinomial(self.users, shares)
            table = draw_table(mechanism, words, counts=counts, generator=generator)
            estimates = discover_prefixes(table)
            hits[draw] = words[0] in np.array(estimates.values)[estimates.detected()]
        return float(hits.mean()), float(hits.std()) / math.sqrt(WINDOWS)

    def curator(self, generator: Generator, draws: int = DRAWS * VALUES) -> Curator:
        """Return the least share of people whose word reaches the threshold of a curator's strings
        with probability POWER."""
        noise = self._laplace(2.0, 1 / self.users, draws, generator)
        strings = central.noisy_strings(
            {}, epsilon=self.epsilon, delta=DELTA, noise=central.Simulated(generator)
        )
        least = (strings.threshold or 0) + strings.mechanism.upper_tail(1 - POWER) - 1
        return dataclasses.replace(noise, std_error=least / self.users)

    @classmethod
    def is_about(cls, metric: "Metric") -> bool:
        return not any(kind.is_about(metric) for kind in (Shares, Mean, Percentile))

    @classmethod
    def release(cls, curated: Curated) -> tuple[central.Histogram, Answers]:
        strings = central.noisy_strings(
            curated.people.answer_counts(),
            epsilon=curated.epsilon,
            delta=curated.delta,
            at_most=curated.metric.mechanism.at_most_answers,
            noise=curated.noise,
        )
        return strings, curated.answers(strings)

    local = Shares.local
