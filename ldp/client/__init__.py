"""Names that an app imports: mechanisms, encoders, a ledger, and a client. No numpy is loaded.

>>> from ldp.client import CountMeanSketch
>>> mechanism = CountMeanSketch(epsilon=4.0, rows=65536, width=1024, seed="00ff")
>>> report = mechanism.encoder().encode("😂")   # bytes, randomised by the operating system
>>> len(report)
140
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ldp.errors import BudgetExceeded, LdpError, ParameterError
from ldp.mechanisms import Encoder, Mechanism, catalogue

if TYPE_CHECKING:
    from ldp.accounting import Caps as Caps
    from ldp.accounting import Cost as Cost
    from ldp.accounting import Ledger as Ledger
    from ldp.client.destinations import Collector as Collector
    from ldp.client.destinations import Folder as Folder
    from ldp.client.results import Declined as Declined
    from ldp.client.results import Recorded as Recorded
    from ldp.client.runtime import Client as Client
    from ldp.mechanisms.catalogue import *  # noqa: F403

_MODULES = {
    "Client": "client.runtime",
    **dict.fromkeys(("Collector", "Folder"), "client.destinations"),
    **dict.fromkeys(("Declined", "Recorded"), "client.results"),
    **dict.fromkeys(("Caps", "Cost", "Ledger"), "accounting"),
}
"""Modules of names that are loaded when they are first used."""

__all__ = [
    "BudgetExceeded",
    "Encoder",
    "LdpError",
    "Mechanism",
    "ParameterError",
    *_MODULES,
    *catalogue.PUBLIC,
]


def __getattr__(name: str) -> Any:
    """Load a name of the runtime or a mechanism when it is first used."""
    if name in _MODULES:
        return getattr(import_module(f"ldp.{_MODULES[name]}"), name)
    if name in catalogue.PUBLIC:
        return catalogue.mechanism_class(name)
    raise AttributeError(f"module 'ldp.client' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
