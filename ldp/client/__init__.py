"""What an app embeds: mechanisms, their encoders and a ledger; standard library, mmh3, bitarray.

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
"""What is in a module of this folder, and loaded when it is first asked for."""

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
    """Load the runtime or a mechanism when it is first asked for."""
    if name in _RUNTIME:
        return getattr(import_module(f"ldp.client.{_RUNTIME[name]}"), name)
    if name in catalogue.PUBLIC:
        return catalogue.mechanism_class(name)
    raise AttributeError(f"module 'ldp.client' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
