"""Accounting of privacy budgets, independent of mechanisms; standard library only."""

from ldp.accounting.composition import advanced, group, parallel, sequential
from ldp.accounting.cost import Cost, Neighbours
from ldp.accounting.explain import in_words, posterior
from ldp.accounting.ledger import Ledger
from ldp.accounting.policy import Caps

__all__ = [
    "Caps",
    "Cost",
    "Ledger",
    "Neighbours",
    "advanced",
    "group",
    "in_words",
    "parallel",
    "posterior",
    "sequential",
]
