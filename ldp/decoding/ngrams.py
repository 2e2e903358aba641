"""Strings that nobody listed, from RAPPOR of pairs of their fragments (n-grams).

Source: Fanti, Pihur and Erlingsson 2016, "Building a RAPPOR with the Unknown", section 4: the joint
distribution of the fragments at two positions, by expectation maximisation; a graph of the pairs
that are held; strings are its cliques with one fragment a position. Here a pair is kept by a
threshold that follows from its own standard error, a string grows by a fragment only when that
fragment goes together with all earlier ones, and strings are decided by their own table, whose
noise had no part in choosing them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ldp.arrays import Floats, Places
from ldp.decoding import decode
from ldp.decoding.association import OTHER, Variable, covariance, likelihoods, touch_matrix
from ldp.decoding.mixtures import Mixture, accelerated_em
from ldp.decoding.puzzle import fragments_of, no_estimates
from ldp.errors import DecodeError
from ldp.mechanisms import PairedFilters, RapporNgrams
from ldp.protocol.spelling import PAD
from ldp.tables.estimates import Estimates, Rule, table_details
from ldp.tables.patterns import Patterns
from ldp.tables.table import Table

CHANCE = 10
"""Fragments of one position that noise may let through, on average; pairs of all positions too."""
MOST_KEPT = 128
"""Fragments of one position whose pairs are looked for; the largest, where there are more."""
MOST_FRAGMENTS = 1 << 17
MOST_PAIRS = 512
"""Pairs of two positions whose standard errors are reckoned; the largest, where there are more."""
MOST_STRINGS = 100_000
STEP = 3e-5
"""What a step of EM changes a share by where it ends."""
Kept = Sequence[Sequence[str]]
Joined = Mapping[tuple[int, int], set[tuple[str, str]]]


def discover_ngrams(patterns: Patterns, *, rule: Rule | None = None) -> Estimates:
    """Finds strings: estimates of every string put together, decided by `rule` (Bonferroni at 0.05
    unless given) among all of them.

    1. Of each position the fragments that stand out are kept, from the filters of all pairs that it
       is in: as many by noise as CHANCE.
    2. Of each two positions the joint distribution of the kept fragments, all others together one
       of them; a pair is kept where its share is so many standard errors from 0 that noise passes
       CHANCE of all pairs.
    3. A string is a fragment of each position of which every two are kept.
    4. The strings' own table decides (`decode`) among those. Others are in the result, not
       detected.

    What is controlled: given what people hold, the two parts of the reports are independent, so
    step 4 alone keeps the error rate of `rule` as `decode` does, whatever the steps before let
    through. Raises DecodeError for a table, which does not say what goes together, for reports of
    another mechanism or none, more than MOST_FRAGMENTS fragments, or MOST_STRINGS strings.
    """
    mechanism = patterns.mechanism if isinstance(patterns, Patterns) else None
    if not isinstance(mechanism, RapporNgrams):
        raise DecodeError("n-grams are found from the report patterns of a rappor-ngrams metric")
    if not patterns.total:
        raise DecodeError("there are no reports")
    spelling = mechanism.spelling
    if sum(len(spelling.alphabet) ** size for size in range(spelling.fragment + 1)) > (
        MOST_FRAGMENTS
    ):
        raise DecodeError(f"more than {MOST_FRAGMENTS:,} fragments: shorter ones are needed")
    table, rule = patterns.table(), rule or Rule(control="bonferroni")
    kept = _standing_out(mechanism.pairs, table["pairs"])
    joined = _joined(mechanism.pairs, patterns, kept)
    strings = assemble_strings(kept, joined)
    found = decode(table["words"], strings, rule=rule) if strings else no_estimates(table, rule)
    details: dict[str, Any] = {
        **found.details,
        **table_details(table, "ngrams"),
        "fragments_kept": [len(fragments) for fragments in kept],
        "pairs_kept": [len(pairs) for pairs in joined.values()],
    }
    return replace(found, details=details)


def assemble_strings(kept: Kept, joined: Joined) -> list[str]:
    """The strings, without padding, made of one of the `kept` fragments of each position of which
    every two, by their positions, are `joined`; raises DecodeError for more than MOST_STRINGS."""
    grown: list[tuple[str, ...]] = [()]
    for position, fragments in enumerate(kept):
        grown = [
            (*earlier, fragment)
            for earlier in grown
            for fragment in fragments
            if all((one, fragment) in joined[at, position] for at, one in enumerate(earlier))
        ]
        if len(grown) > MOST_STRINGS:
            raise DecodeError(
                f"fragments go together in more than {MOST_STRINGS:,} ways: more reports, or a "
                "larger fragment_epsilon, are needed"
            )
    strings = ("".join(fragments).rstrip(PAD) for fragments in grown)
    return [string for string in strings if PAD not in string]


def _standing_out(part: PairedFilters, table: Table) -> list[list[str]]:
    """The fragments of each position that noise alone would hardly show; the largest first."""
    filters, fragments = part.addressing, fragments_of(part.spelling)
    by_pair = table.counts.reshape(len(filters.pairs), part.cohorts, 2, part.bits)
    reports = table.reports.reshape(len(filters.pairs), part.cohorts)
    kept = []
    for position in range(part.spelling.positions):
        places = [
            (number, pair.index(position))
            for number, pair in enumerate(filters.pairs)
            if position in pair
        ]
        own = Table(
            part.one,
            np.sum([by_pair[number, :, half] for number, half in places], axis=0, dtype=np.int64),
            np.sum([reports[number] for number, _ in places], axis=0),
        )
        found = decode(own, fragments, rule=Rule(control="none"))
        passed = np.flatnonzero(found.p_value <= min(0.5, CHANCE / len(fragments)))
        order = passed[np.argsort(-found.count[passed], kind="stable")][:MOST_KEPT]
        kept.append([found.values[i] for i in order.tolist()])
    return kept


def _joined(part: PairedFilters, patterns: Patterns, kept: Kept) -> Joined:
    """For every two positions which of the fragments kept there go together."""
    (rows, payloads), _ = patterns.parts()
    bits = np.unpackbits(payloads, axis=1, bitorder="little")[:, : 2 * part.bits]
    halves = [np.packbits(half, axis=1, bitorder="little") for half in np.split(bits, 2, axis=1)]
    variables = [Variable(part.one, (*some, OTHER), touch_matrix(part.one, some)) for some in kept]
    pairs = part.addressing.pairs
    tested = sum(len(kept[one]) * len(kept[other]) for one, other in pairs)
    alpha = min(0.5, CHANCE / max(tested, 1))
    joined = dict[tuple[int, int], set[tuple[str, str]]]()
    for number, pair in enumerate(pairs):
        some = np.flatnonzero(rows // part.cohorts == number)
        if not some.size:
            joined[pair] = set()
            continue
        factors = [
            likelihoods(variables[position], rows[some] % part.cohorts, halves[half][some])
            for half, position in enumerate(pair)
        ]
        first, second = _held(Mixture.of(factors, patterns.counts[some]), alpha)
        names = [variables[position].values for position in pair]
        joined[pair] = {
            (names[0][i], names[1][j])
            for i, j in zip(first.tolist(), second.tolist(), strict=True)
            if i < len(kept[pair[0]]) and j < len(kept[pair[1]])
        }
    return joined


def _held(mixture: Mixture, alpha: float) -> tuple[Places, Places]:
    """The cells whose share is further from 0 than noise goes with probability `alpha`.

    The standard errors are of the cells that have a report or more each, the others at 0, from the
    observed information about them: those at 0 are where the maximum has them.
    """
    from scipy.stats import norm

    shares = accelerated_em(mixture, tolerance=STEP).shares
    there = np.argsort(-shares, axis=None, kind="stable")[:MOST_PAIRS]
    there = there[shares.ravel()[there] * mixture.total >= 1]
    first, second = np.unravel_index(there, shares.shape)
    errors: Floats = np.sqrt(np.diag(covariance(mixture.information_of(shares, first, second))))
    passed = shares[first, second] > float(norm.isf(alpha)) * errors
    return first[passed], second[passed]
