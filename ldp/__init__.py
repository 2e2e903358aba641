"""Telemetry under local differential privacy: device encoders, server decoders, one accountant.

`import ldp` loads nothing; every public name is imported on first use (PEP 562), so that an app
that only encodes never pays for numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ldp.mechanisms.bit_flip import BitFlip as BitFlip
    from ldp.mechanisms.cms import CountMeanSketch as CountMeanSketch
    from ldp.mechanisms.hcms import HadamardCountMeanSketch as HadamardCountMeanSketch
    from ldp.mechanisms.joint_report import JointReport as JointReport
    from ldp.mechanisms.local_hashing import LocalHashing as LocalHashing
    from ldp.mechanisms.memoised import MemoisedBitFlip as MemoisedBitFlip
    from ldp.mechanisms.memoised import MemoisedHashing as MemoisedHashing
    from ldp.mechanisms.memoised import MemoisedResponse as MemoisedResponse
    from ldp.mechanisms.moments import RegressionMoments as RegressionMoments
    from ldp.mechanisms.ngrams import RapporNgrams as RapporNgrams
    from ldp.mechanisms.numeric import OneBitMean as OneBitMean
    from ldp.mechanisms.numeric import Piecewise as Piecewise
    from ldp.mechanisms.prefix import PrefixExtension as PrefixExtension
    from ldp.mechanisms.projective_geometry import ProjectiveGeometry as ProjectiveGeometry
    from ldp.mechanisms.randomized_response import CoinResponse as CoinResponse
    from ldp.mechanisms.randomized_response import RandomizedResponse as RandomizedResponse
    from ldp.mechanisms.rappor import Rappor as Rappor
    from ldp.mechanisms.sfp import SequenceFragmentPuzzle as SequenceFragmentPuzzle
    from ldp.mechanisms.subset_selection import SubsetSelection as SubsetSelection
    from ldp.mechanisms.unary import UnaryEncoding as UnaryEncoding

_HOMES = {
    "CoinResponse": "ldp.mechanisms.randomized_response",
    "RandomizedResponse": "ldp.mechanisms.randomized_response",
    "Rappor": "ldp.mechanisms.rappor",
    "UnaryEncoding": "ldp.mechanisms.unary",
    "CountMeanSketch": "ldp.mechanisms.cms",
    "HadamardCountMeanSketch": "ldp.mechanisms.hcms",
    "SequenceFragmentPuzzle": "ldp.mechanisms.sfp",
    "LocalHashing": "ldp.mechanisms.local_hashing",
    "MemoisedBitFlip": "ldp.mechanisms.memoised",
    "MemoisedHashing": "ldp.mechanisms.memoised",
    "MemoisedResponse": "ldp.mechanisms.memoised",
    "BitFlip": "ldp.mechanisms.bit_flip",
    "OneBitMean": "ldp.mechanisms.numeric",
    "Piecewise": "ldp.mechanisms.numeric",
    "RegressionMoments": "ldp.mechanisms.moments",
    "SubsetSelection": "ldp.mechanisms.subset_selection",
    "PrefixExtension": "ldp.mechanisms.prefix",
    "RapporNgrams": "ldp.mechanisms.ngrams",
    "ProjectiveGeometry": "ldp.mechanisms.projective_geometry",
    "JointReport": "ldp.mechanisms.joint_report",
}

__all__ = [
    "BitFlip",
    "CoinResponse",
    "CountMeanSketch",
    "HadamardCountMeanSketch",
    "JointReport",
    "LocalHashing",
    "MemoisedBitFlip",
    "MemoisedHashing",
    "MemoisedResponse",
    "OneBitMean",
    "Piecewise",
    "PrefixExtension",
    "ProjectiveGeometry",
    "RandomizedResponse",
    "Rappor",
    "RapporNgrams",
    "RegressionMoments",
    "SequenceFragmentPuzzle",
    "SubsetSelection",
    "UnaryEncoding",
    "__version__",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'ldp' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
