"""Names that an aggregation script imports: tables, decoders, estimates."""

from ldp.errors import from_extra

with from_extra("ldp.server", "server"):
    from ldp.decoding import decode
    from ldp.decoding.association import Association, associate
    from ldp.decoding.by_category import Distributions, decode_by_category
    from ldp.decoding.consistency import consistent
    from ldp.decoding.distribution import Distribution, decode_distribution
    from ldp.decoding.means import MeanEstimate, RegressionEstimate, decode_mean, decode_regression
    from ldp.decoding.ngram_search import discover_ngrams
    from ldp.decoding.prefixes import discover_prefixes
    from ldp.decoding.puzzle import discover
    from ldp.tables.estimates import Estimates, Rule
    from ldp.tables.joint_table import JointTable, JointTableBuilder, load_table, whole_table
    from ldp.tables.table import Table, TableBuilder

__all__ = [
    "Association",
    "Distribution",
    "Distributions",
    "Estimates",
    "JointTable",
    "JointTableBuilder",
    "MeanEstimate",
    "RegressionEstimate",
    "Rule",
    "Table",
    "TableBuilder",
    "associate",
    "consistent",
    "decode",
    "decode_by_category",
    "decode_distribution",
    "decode_mean",
    "decode_regression",
    "discover",
    "discover_ngrams",
    "discover_prefixes",
    "load_table",
    "whole_table",
]
