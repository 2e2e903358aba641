"""Names that an app imports: mechanisms, encoders, a ledger, and a client; no numpy is loaded.

>>> from ldp.client import CountMeanSketch
>>> mechanism = CountMeanSketch(epsilon=4.0, rows=65536, width=1024, seed="00ff")
>>> report = mechanism.encoder().encode("😂")   # bytes, randomised by the operating system
>>> len(report)
140
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ldp.accounting import Caps, Cost, Ledger
from ldp.errors import BudgetExceeded, LdpError, ParameterError
from ldp.mechanisms import Encoder, Mechanism, catalogue

if TYPE_CHECKING:
    from ldp.client.destinations import Collector as Collector
    from ldp.client.destinations import Folder as Folder
    from ldp.client.results import Declined as Declined
    from ldp.client.results import Recorded as Recorded
    from ldp.client.runtime import Client as Client
    from ldp.mechanisms.catalogue import *  # noqa: F403

_RUNTIME = {
    "Client": "runtime",
    **dict.fromkeys(("Collector", "Folder"), "destinations"),
    **dict.fromkeys(("Declined", "Recorded"), "results"),
}
"""Public names of modules of this folder, each loaded when it is first used."""

__all__ = [
    "BudgetExceeded",
    "Caps",
    "Cost",
    "Encoder",
    "LdpError",
    "Ledger",
    "Mechanism",
    "ParameterError",
    *_RUNTIME,
    *catalogue.PUBLIC,
]


def __getattr__(name: str) -> Any:
    """Load a name of the runtime or a mechanism when it is first used."""
    if name in _RUNTIME:
        return getattr(import_module(f"ldp.client.{_RUNTIME[name]}"), name)
    if name in catalogue.PUBLIC:
        return catalogue.mechanism_class(name)
    raise AttributeError(f"module 'ldp.client' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
