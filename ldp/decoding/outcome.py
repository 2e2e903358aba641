"""Results by what a metric is about: values, numbers, words or combinations of values.

`ldp decode`, `discover` and `associate` call the function for theirs; `outcome` chooses it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ldp.accounting.label import Label
from ldp.decoding.association import Association, associate
from ldp.decoding.by_category import Distributions
from ldp.decoding.counts import decode
from ldp.decoding.distribution import QUANTILES, Distribution, decode_distribution
from ldp.decoding.ngrams import discover_ngrams
from ldp.decoding.numeric import decode_numbers
from ldp.decoding.prefixes import discover_prefixes
from ldp.decoding.puzzle import discover
from ldp.errors import ParameterError
from ldp.mechanisms import CatalogueMechanism, JointReport, PrefixExtension, RapporNgrams
from ldp.mechanisms.addressing import Rounding
from ldp.mechanisms.hierarchical_histogram import Levels
from ldp.tables.estimates import Estimates, Rule
from ldp.tables.joint_table import JointTable
from ldp.tables.patterns import Patterns
from ldp.tables.result import Result
from ldp.tables.table import Table

Members = Mapping[str, Sequence[str] | None]
"""Candidates of each member of a joint metric, None for one with categories."""
WORDS_RULE = Rule(control="bonferroni")
"""Decision rule for words that nobody listed."""


def is_about_numbers(mechanism: CatalogueMechanism) -> bool:
    """Return whether reports of `mechanism` are decoded by `numbers_outcome`."""
    return isinstance(getattr(mechanism, "addressing", None), Rounding | Levels)


def needs_patterns(mechanism: CatalogueMechanism) -> bool:
    """Return whether tables of `mechanism` do not say which values or fragments go together."""
    return isinstance(mechanism, JointReport | RapporNgrams)


def numbers_outcome(
    table: Table,
    level: float = 0.95,
    quantiles: tuple[float, ...] = (),
    consistency: str = "none",
) -> Result:
    """Return the mean, the regression or the distribution of a `table` of numbers; of numbers in
    bins at `quantiles`, if any, else at the usual ones. Raises ParameterError for a `consistency`
    that these numbers do not have."""
    of_bins = isinstance(getattr(table.mechanism, "addressing", None), Levels)
    asked_of_others = quantiles and not of_bins
    numbers = decode_distribution(table) if asked_of_others else decode_numbers(table)
    if isinstance(numbers, Distribution | Distributions) and consistency == "sum-to-n":
        numbers = numbers.monotone()
    elif consistency != "none":
        raise ParameterError("of numbers only those in bins have a consistency, sum-to-n")
    if isinstance(numbers, Distribution | Distributions):
        return numbers.at(level=level, quantiles=quantiles or QUANTILES)
    return numbers.at(level=level)


def discover_words(
    reports: Table | JointTable | Patterns,
    rule: Rule = WORDS_RULE,
    top: int | None = None,
) -> Estimates:
    """Return the words in the table or, of n-grams, the patterns of `reports`; `top`: number of
    fragments of each position of a puzzle that are joined."""
    if isinstance(reports, JointTable):
        return discover(reports, rule=rule, top=top)
    if isinstance(reports, Patterns):
        return discover_ngrams(reports, rule=rule)
    return discover_prefixes(reports, rule=rule)


def associate_members(
    patterns: Patterns,
    members: Members,
    windows: Sequence[str],
    label: Label,
    rule: Rule | None = None,
) -> Association:
    """Return the joint distribution of the `members` of a joint metric; `windows`, the days of its
    reports, and its `label` go into the summary."""
    association = associate(patterns, [*members.values()], rule=rule)
    metric = {"members": [*members], "windows": [*windows], "labels": [label.fields]}
    return replace(association, details={**association.details, **metric})


def outcome(table: Table | JointTable, patterns: Patterns | None, members: Members) -> Result:
    """Return what a `table` with its dictionary and label says, at the default rules and level, as
    the command for it writes. `patterns`: those of the same reports where `needs_patterns`."""
    if members and patterns:
        return associate_members(patterns, members, table.windows, table.labels[0])
    if isinstance(table, JointTable) or isinstance(table.mechanism, PrefixExtension):
        words = discover_words(patterns or table)
        metric = {"windows": [*table.windows], "labels": [label.fields for label in table.labels]}
        return replace(words, details={**words.details, **metric})
    if is_about_numbers(table.mechanism):
        return numbers_outcome(table)
    return decode(table)
