"""Accounting of privacy budgets, independent of mechanisms; standard library only.

A name's module is loaded when it is first used: mechanisms need `Cost` alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ldp.accounting.cost import Cost as Cost
    from ldp.accounting.cost import Neighbours as Neighbours
    from ldp.accounting.cost_composition import advanced as advanced
    from ldp.accounting.cost_composition import group as group
    from ldp.accounting.cost_composition import parallel as parallel
    from ldp.accounting.cost_composition import sequential as sequential
    from ldp.accounting.ledger import Ledger as Ledger
    from ldp.accounting.policy import Caps as Caps

_MODULES = {
    **dict.fromkeys(("advanced", "group", "parallel", "sequential"), "cost_composition"),
    **dict.fromkeys(("Cost", "Neighbours"), "cost"),
    "Ledger": "ledger",
    "Caps": "policy",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'ldp.accounting' has no attribute {name!r}")
    return getattr(import_module(f"ldp.accounting.{_MODULES[name]}"), name)
