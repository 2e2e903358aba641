"""The budget accountant everyone shares; knows no mechanism, standard library only.

`compose` and `amplify_by_shuffling` are `ldp.privacy_loss`'s, for servers, and loaded when they
are asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


if not TYPE_CHECKING:  # a checker would follow these names upwards

    def __getattr__(name: str) -> Any:
        if name not in ("compose", "amplify_by_shuffling"):
            raise AttributeError(f"module 'ldp.accounting' has no attribute {name!r}")
        return getattr(import_module("ldp.privacy_loss"), name)
