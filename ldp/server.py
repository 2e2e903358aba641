"""The door for aggregation scripts: tables, decoding, estimates."""

from ldp.decoding import decode
from ldp.estimates import Estimates, Rule
from ldp.table import Table, TableBuilder

__all__ = ["Estimates", "Rule", "Table", "TableBuilder", "decode"]
