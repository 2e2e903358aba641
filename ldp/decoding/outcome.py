"""Results by what a table is about: values, numbers, words or combinations of values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ldp.decoding.association import Association, associate
from ldp.decoding.by_category import Distributions
from ldp.decoding.counts import decode
from ldp.decoding.distribution import QUANTILES, Distribution, decode_distribution
from ldp.decoding.means import decode_numbers
from ldp.decoding.ngram_search import discover_ngrams
from ldp.decoding.prefixes import discover_prefixes
from ldp.decoding.puzzle import discover
from ldp.errors import ParameterError
from ldp.mechanisms import HierarchicalHistogram, SequenceFragmentPuzzle
from ldp.mechanisms.base import AnswerKind
from ldp.tables.estimates import Estimates, Rule
from ldp.tables.joint_table import JointTable
from ldp.tables.result import Result
from ldp.tables.table import Table


def numbers_outcome(
    table: Table,
    level: float = 0.95,
    quantiles: tuple[float, ...] = (),
    consistency: str = "none",
) -> Result:
    """Return the mean, the regression or the distribution of a `table` of numbers; of numbers in
    bins at `quantiles`, if any, else at the usual ones. Raises ParameterError for a `consistency`
    that these numbers do not have."""
    has_bins = isinstance(table.mechanism, HierarchicalHistogram)
    by_value = quantiles and not has_bins
    numbers = decode_distribution(table) if by_value else decode_numbers(table)
    if isinstance(numbers, Distribution | Distributions) and consistency == "sum-to-n":
        numbers = numbers.monotone()
    elif consistency != "none":
        raise ParameterError("of numbers only those in bins have a consistency, sum-to-n")
    if isinstance(numbers, Distribution | Distributions):
        return numbers.at(level=level, quantiles=quantiles or QUANTILES)
    return numbers.at(level=level)


def discover_words(
    table: Table | JointTable, rule: Rule | None = None, top: int | None = None
) -> Estimates:
    """Return the words of a `table`. `top`: number of fragments of each position of a puzzle that
    are joined. Raises ParameterError for it where there is no puzzle."""
    if table.mechanism.name == SequenceFragmentPuzzle.name:
        return discover(table, rule=rule, top=top)  # type: ignore[arg-type]
    if top is not None:
        raise ParameterError("top goes with a puzzle (sfp)")
    if table.mechanism.needs_whole:
        return discover_ngrams(table, rule=rule)
    return discover_prefixes(table, rule=rule)  # type: ignore[arg-type]


def associate_members(
    table: JointTable,
    candidates: Sequence[Sequence[str] | None] | None = None,
    rule: Rule | None = None,
) -> Association:
    """Return the joint distribution of the parts of a `table`. `candidates`: of each part, by
    default the dictionaries of their tables."""
    if candidates is None:
        candidates = [part.dictionary for part in table.tables]
    association = associate(table, candidates, rule=rule)
    details = {
        **association.details,
        "members": [*table.member_names],
        "windows": [*table.windows],
        "labels": [label.fields for label in table.labels],
    }
    return replace(association, details=details)


def outcome(table: Any, people: float | None = None) -> Result:
    """Return what `ldp decode` writes of a `table` with its dictionary and label, at the default
    rules and level. `people`: its `reports_per_person`."""
    if table.memoised:
        return decode(table, weighted_reports_per_client=people)
    return OUTCOMES[table.mechanism.answers](table).at(reports_per_person=people)


OUTCOMES: Mapping[AnswerKind, Callable[[Any], Result]] = {
    "values": decode,
    "sets": decode,
    "number": numbers_outcome,
    "numbers by category": numbers_outcome,
    "moments": numbers_outcome,
    "words": discover_words,
    "pairs": associate_members,
}
"""Decoders by the kind of answers."""
