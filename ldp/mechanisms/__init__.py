"""The catalogue: every mechanism there is, one line each; one file each beside this one.

None is loaded before it is used (PEP 562), so that an app pays for the mechanism it embeds.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ldp.errors import ParameterError
from ldp.mechanisms.base import Catalogued, Encoder, Example, Mechanism

if TYPE_CHECKING:
    from ldp.mechanisms.bit_flip import BitFlip as BitFlip
    from ldp.mechanisms.cms import CountMeanSketch as CountMeanSketch
    from ldp.mechanisms.hcms import HadamardCountMeanSketch as HadamardCountMeanSketch
    from ldp.mechanisms.joint import JointMechanism as JointMechanism
    from ldp.mechanisms.joint_report import JointReport as JointReport
    from ldp.mechanisms.local_hashing import LocalHashing as LocalHashing
    from ldp.mechanisms.memoised import MemoisedBitFlip as MemoisedBitFlip
    from ldp.mechanisms.memoised import MemoisedHashing as MemoisedHashing
    from ldp.mechanisms.memoised import MemoisedResponse as MemoisedResponse
    from ldp.mechanisms.moments import RegressionMoments as RegressionMoments
    from ldp.mechanisms.ngrams import PairedFilters as PairedFilters
    from ldp.mechanisms.ngrams import RapporNgrams as RapporNgrams
    from ldp.mechanisms.numeric import OneBitMean as OneBitMean
    from ldp.mechanisms.numeric import Piecewise as Piecewise
    from ldp.mechanisms.prefix import PrefixExtension as PrefixExtension
    from ldp.mechanisms.projective_geometry import ProjectiveGeometry as ProjectiveGeometry
    from ldp.mechanisms.randomized_response import CoinResponse as CoinResponse
    from ldp.mechanisms.randomized_response import RandomizedResponse as RandomizedResponse
    from ldp.mechanisms.rappor import Rappor as Rappor
    from ldp.mechanisms.sfp import FragmentSketch as FragmentSketch
    from ldp.mechanisms.sfp import SequenceFragmentPuzzle as SequenceFragmentPuzzle
    from ldp.mechanisms.subset_selection import SubsetSelection as SubsetSelection
    from ldp.mechanisms.unary import UnaryEncoding as UnaryEncoding

    CATALOGUE: dict[str, type[Catalogued]]

_CATALOGUED = {
    "CoinResponse": "randomized_response",
    "RandomizedResponse": "randomized_response",
    "UnaryEncoding": "unary",
    "Rappor": "rappor",
    "CountMeanSketch": "cms",
    "HadamardCountMeanSketch": "hcms",
    "FragmentSketch": "sfp",
    "SequenceFragmentPuzzle": "sfp",
    "LocalHashing": "local_hashing",
    "ProjectiveGeometry": "projective_geometry",
    "BitFlip": "bit_flip",
    "OneBitMean": "numeric",
    "Piecewise": "numeric",
    "RegressionMoments": "moments",
    "SubsetSelection": "subset_selection",
    "PrefixExtension": "prefix",
    "RapporNgrams": "ngrams",
    "PairedFilters": "ngrams",
    "JointReport": "joint_report",
    "MemoisedResponse": "memoised",
    "MemoisedHashing": "memoised",
    "MemoisedBitFlip": "memoised",
}
"""Class -> its file: a line here is a mechanism's place in the catalogue."""
_HOMES = {**_CATALOGUED, "JointMechanism": "joint"}

__all__ = [
    "CATALOGUE",
    "BitFlip",
    "Catalogued",
    "CoinResponse",
    "CountMeanSketch",
    "Encoder",
    "Example",
    "FragmentSketch",
    "HadamardCountMeanSketch",
    "JointMechanism",
    "JointReport",
    "LocalHashing",
    "Mechanism",
    "MemoisedBitFlip",
    "MemoisedHashing",
    "MemoisedResponse",
    "OneBitMean",
    "PairedFilters",
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
    "from_parameters",
]


def __getattr__(name: str) -> Any:
    if name == "CATALOGUE":
        return _catalogue()
    if name not in _HOMES:
        raise AttributeError(f"module 'ldp.mechanisms' has no attribute {name!r}")
    return getattr(import_module(f"ldp.mechanisms.{_HOMES[name]}"), name)


@cache
def _catalogue() -> dict[str, type[Catalogued]]:
    """Every mechanism by the name that metrics.toml calls it."""
    return {mechanism.name: mechanism for mechanism in map(__getattr__, _CATALOGUED)}


def from_parameters(parameters: Mapping[str, Any]) -> Catalogued:
    """The mechanism that its `parameters()` described; raises ParameterError."""
    rest, known = dict(parameters), _catalogue()
    name = rest.pop("mechanism", None)
    if not isinstance(name, str) or name not in known:
        raise ParameterError(f"unknown mechanism {name!r}; known: {', '.join(known)}")
    try:
        return known[name](**rest)
    except TypeError as error:
        raise ParameterError(f"mechanism {name!r}: {str(error).split('() ')[-1]}") from None
