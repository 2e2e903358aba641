"""What an app embeds: mechanisms, their encoders and a ledger; standard library, mmh3, bitarray.

>>> from ldp.client import CountMeanSketch
>>> mechanism = CountMeanSketch(epsilon=4.0, rows=65536, width=1024, seed="00ff")
>>> report = mechanism.encoder().encode("😂")   # bytes, randomised by the operating system
>>> len(report)
140
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ldp import mechanisms
from ldp.accounting import Caps, Cost, Ledger
from ldp.errors import BudgetExceeded, LdpError, ParameterError
from ldp.mechanisms import Encoder, Mechanism

if TYPE_CHECKING:
    from ldp.client.destinations import Collector as Collector
    from ldp.client.destinations import Folder as Folder
    from ldp.client.results import Declined as Declined
    from ldp.client.results import Recorded as Recorded
    from ldp.client.runtime import Client as Client
    from ldp.mechanisms import BitFlip as BitFlip
    from ldp.mechanisms import CoinResponse as CoinResponse
    from ldp.mechanisms import CountMeanSketch as CountMeanSketch
    from ldp.mechanisms import HadamardCountMeanSketch as HadamardCountMeanSketch
    from ldp.mechanisms import JointReport as JointReport
    from ldp.mechanisms import LocalHashing as LocalHashing
    from ldp.mechanisms import MemoisedBitFlip as MemoisedBitFlip
    from ldp.mechanisms import MemoisedHashing as MemoisedHashing
    from ldp.mechanisms import MemoisedResponse as MemoisedResponse
    from ldp.mechanisms import OneBitMean as OneBitMean
    from ldp.mechanisms import Piecewise as Piecewise
    from ldp.mechanisms import PrefixExtension as PrefixExtension
    from ldp.mechanisms import ProjectiveGeometry as ProjectiveGeometry
    from ldp.mechanisms import RandomizedResponse as RandomizedResponse
    from ldp.mechanisms import Rappor as Rappor
    from ldp.mechanisms import RapporNgrams as RapporNgrams
    from ldp.mechanisms import RegressionMoments as RegressionMoments
    from ldp.mechanisms import SequenceFragmentPuzzle as SequenceFragmentPuzzle
    from ldp.mechanisms import SubsetSelection as SubsetSelection
    from ldp.mechanisms import UnaryEncoding as UnaryEncoding

__all__ = [
    "BitFlip",
    "BudgetExceeded",
    "Caps",
    "Client",
    "CoinResponse",
    "Collector",
    "Cost",
    "CountMeanSketch",
    "Declined",
    "Encoder",
    "Folder",
    "HadamardCountMeanSketch",
    "JointReport",
    "LdpError",
    "Ledger",
    "LocalHashing",
    "Mechanism",
    "MemoisedBitFlip",
    "MemoisedHashing",
    "MemoisedResponse",
    "OneBitMean",
    "ParameterError",
    "Piecewise",
    "PrefixExtension",
    "ProjectiveGeometry",
    "RandomizedResponse",
    "Rappor",
    "RapporNgrams",
    "Recorded",
    "RegressionMoments",
    "SequenceFragmentPuzzle",
    "SubsetSelection",
    "UnaryEncoding",
]


_RUNTIME = {
    "Client": "runtime",
    **dict.fromkeys(("Collector", "Folder"), "destinations"),
    **dict.fromkeys(("Declined", "Recorded"), "results"),
}
"""What is in a module of this folder, and loaded when it is first asked for."""


def __getattr__(name: str) -> Any:
    """The runtime and the mechanisms are loaded when they are first asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'ldp.client' has no attribute {name!r}")
    if name in _RUNTIME:
        return getattr(import_module(f"ldp.client.{_RUNTIME[name]}"), name)
    return getattr(mechanisms, name)
