"""Strings that nobody listed, from RAPPOR of pairs of their fragments (n-grams).

Source: Fanti, Pihur and Erlingsson 2016, "Building a RAPPOR with the Unknown", section 4: the joint
distribution of the fragments at two positions, by expectation maximisation; a graph of the pairs
that are held; strings are its cliques with one fragment a position. Here the threshold of a pair
follows from its standard error, a string is extended by a fragment only if the fragment occurs with
all earlier ones, and the table of strings decides which are discovered: its noise is independent of
their choice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ldp.arrays import Places
from ldp.decoding import decode
from ldp.decoding.association import (
    PartReports,
    Variable,
    likelihoods,
    touch_matrix,
    whole_of,
)
from ldp.decoding.mixtures import Mixture, accelerated_em, covariance
from ldp.decoding.puzzle import fragment_number, fragments_of, no_estimates
from ldp.errors import DecodeError
from ldp.mechanisms import PairedFilters, RapporNgrams
from ldp.protocol.spelling import PAD
from ldp.tables.estimates import WORDS_RULE, Estimates, Normal, Rule, table_details
from ldp.tables.joint_table import JointTable
from ldp.tables.patterns import Patterns
from ldp.tables.result import OTHER
from ldp.tables.table import Table

CHANCE = 10
"""Mean number of fragments of a position that pass by noise; also of pairs of all positions."""
MOST_KEPT = 128
"""Largest number of fragments of a position whose pairs are tested. They are the most frequent
ones."""
MOST_FRAGMENTS = 1 << 17
MOST_PAIRS = 512
"""Largest number of pairs of two positions with standard errors. They are the most frequent
ones."""
MOST_STRINGS = 100_000
STEP = 3e-5
"""Largest change of a share by the last step of EM."""
FragmentLists = Sequence[Sequence[str]]
PairSets = Mapping[tuple[int, int], set[tuple[str, str]]]


def discover_ngrams(table: Table | JointTable, *, rule: Rule | None = None) -> Estimates:
    """Return estimates of every string assembled from fragments. `rule` (Bonferroni at 0.05 by
    default) discovers among all of them.

    1. For each position the significant fragments are kept, from the filters of all pairs with the
       position; on average CHANCE of them pass by noise.
    2. The joint distribution of the kept fragments of every two positions is estimated, all other
       fragments as one; a pair is kept where its share is far enough above 0, in standard errors,
       that noise alone keeps CHANCE of all pairs.
    3. A string has one fragment a position, and every two of its fragments are a kept pair.
    4. The table of strings decides (`decode`) among these. Strings that do not pass are in the
       result, not detected.

    Given the strings that people hold, the two parts of the reports are independent, so step 4
    alone controls the error rate of `rule` as `decode` does, whatever passes the steps before.
    Raises DecodeError for a table without whole reports, which alone show which fragments occur
    together, for another mechanism, for no reports, and for more than MOST_FRAGMENTS fragments or
    MOST_STRINGS strings.
    """
    mechanism = table.mechanism
    if not isinstance(table, JointTable) or not isinstance(mechanism, RapporNgrams):
        raise DecodeError("n-grams are found in tables of a rappor-ngrams metric alone")
    rule = Rule.of(rule, WORDS_RULE)
    patterns = whole_of(table)
    spelling = mechanism.spelling
    if fragment_number(spelling) > MOST_FRAGMENTS:
        raise DecodeError(f"more than {MOST_FRAGMENTS:,} fragments: shorter ones are needed")
    fragments = _significant_fragments(mechanism.pairs, table["pairs"])
    pairs = _kept_pairs(mechanism.pairs, patterns, fragments)
    strings = assemble_strings(fragments, pairs)
    estimates = decode(table["words"], strings, rule=rule) if strings else no_estimates(table, rule)
    details: dict[str, Any] = {
        **estimates.details,
        **table_details(table, "ngrams"),
        "fragments_kept": [len(names) for names in fragments],
        "pairs_kept": [len(names) for names in pairs.values()],
    }
    return replace(estimates, details=details)


def assemble_strings(fragment_lists: FragmentLists, pairs: PairSets) -> list[str]:
    """Return the strings, without padding, that have one of the `fragment_lists` fragments at each
    position, every two of them in `pairs` under their positions. Raises DecodeError for more than
    MOST_STRINGS."""
    beginnings: list[tuple[str, ...]] = [()]
    for position, fragments in enumerate(fragment_lists):
        beginnings = [
            (*earlier, fragment)
            for earlier in beginnings
            for fragment in fragments
            if all(
                (first, fragment) in pairs[place, position] for place, first in enumerate(earlier)
            )
        ]
        if len(beginnings) > MOST_STRINGS:
            raise DecodeError(
                f"fragments go together in more than {MOST_STRINGS:,} ways: more reports, or a "
                "larger fragment_epsilon, are needed"
            )
    strings = ("".join(fragments).rstrip(PAD) for fragments in beginnings)
    return [string for string in strings if PAD not in string]


def _significant_fragments(part: PairedFilters, table: Table) -> list[list[str]]:
    """Return the significant fragments of each position, the most frequent first."""
    filters, fragments = part.addressing, fragments_of(part.spelling)
    by_pair = table.counts.reshape(len(filters.pairs), part.cohorts, 2, part.bits)
    reports = table.reports.reshape(len(filters.pairs), part.cohorts)
    fragment_lists = []
    for position in range(part.spelling.positions):
        places = [
            (number, pair.index(position))
            for number, pair in enumerate(filters.pairs)
            if position in pair
        ]
        position_table = Table(
            part.rappor,
            np.sum([by_pair[number, :, half] for number, half in places], axis=0, dtype=np.int64),
            np.sum([reports[number] for number, _ in places], axis=0),
        )
        estimates = decode(position_table, fragments, rule=Rule(control="none"))
        significant = np.flatnonzero(estimates.p_value <= min(0.5, CHANCE / len(fragments)))
        order = significant[np.argsort(-estimates.count[significant], kind="stable")][:MOST_KEPT]
        fragment_lists.append([estimates.values[i] for i in order.tolist()])
    return fragment_lists


def _kept_pairs(part: PairedFilters, patterns: Patterns, fragments: FragmentLists) -> PairSets:
    """Return for every two positions the pairs of kept fragments that occur together."""
    (rows, payloads), _ = patterns.parts()
    bits = np.unpackbits(payloads, axis=1, bitorder="little")[:, : 2 * part.bits]
    halves = [np.packbits(half, axis=1, bitorder="little") for half in np.split(bits, 2, axis=1)]
    variables = [
        Variable(part.rappor, (*names, OTHER), touch_matrix(part.rappor, names))
        for names in fragments
    ]
    pairs = part.addressing.pairs
    tested = sum(len(fragments[first]) * len(fragments[second]) for first, second in pairs)
    alpha = min(0.5, CHANCE / max(tested, 1))
    pair_sets = dict[tuple[int, int], set[tuple[str, str]]]()
    for number, pair in enumerate(pairs):
        chosen = np.flatnonzero(rows // part.cohorts == number)
        if not chosen.size:
            pair_sets[pair] = set()
            continue
        counts, cohorts = patterns.counts[chosen], rows[chosen] % part.cohorts
        reports = [PartReports.of(cohorts, half[chosen], counts) for half in halves]
        factors = [
            likelihoods(variables[position], half.rows, half.payloads)
            for position, half in zip(pair, reports, strict=True)
        ]
        mixture = Mixture.of(factors, counts, [half.places for half in reports])
        left_places, right_places = _held_cells(mixture, alpha)
        names = [variables[position].values for position in pair]
        pair_sets[pair] = {
            (names[0][i], names[1][j])
            for i, j in zip(left_places.tolist(), right_places.tolist(), strict=True)
            if i < len(fragments[pair[0]]) and j < len(fragments[pair[1]])
        }
    return pair_sets


def _held_cells(mixture: Mixture, alpha: float) -> tuple[Places, Places]:
    """Return the rows and columns of the cells whose share is above 0 at level `alpha`.

    The standard errors come from the observed information about the cells with a report or more.
    The others stay at 0, where the maximum has them.
    """
    shares = accelerated_em(mixture, tolerance=STEP).shares
    cells = np.argsort(-shares, axis=None, kind="stable")[:MOST_PAIRS]
    cells = cells[shares.ravel()[cells] * mixture.total >= 1]
    rows, columns = np.unravel_index(cells, shares.shape)
    variances = np.diag(covariance(mixture.information_of(shares, rows, columns)))
    # below 0 by rounding, where reports do not tell cells apart
    errors = np.sqrt(np.where(variances < 0, np.inf, variances))
    is_held = shares[rows, columns] > Normal().upper(alpha) * errors
    return rows[is_held], columns[is_held]
