"""Catalogue: the only list of all mechanisms, a line and a typed import each.

A mechanism's file is loaded when it is first used (PEP 562), so an app loads only those it uses.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ldp.errors import ParameterError
from ldp.mechanisms.base import Catalogued

if TYPE_CHECKING:  # held to FILES by a test
    from ldp.mechanisms.bit_flip import BitFlip as BitFlip
    from ldp.mechanisms.cms import CountMeanSketch as CountMeanSketch
    from ldp.mechanisms.hadamard_response import HadamardResponse as HadamardResponse
    from ldp.mechanisms.hcms import HadamardCountMeanSketch as HadamardCountMeanSketch
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

FILES = {
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
    "HadamardResponse": "hadamard_response",
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
"""Modules of `ldp.mechanisms` by the class that they define."""
PUBLIC = [name for name in FILES if name not in ("FragmentSketch", "PairedFilters")]
"""Classes that can be a metric's own mechanism; the others are parts of one."""


def mechanism_class(name: str) -> Any:
    """Return the class `name`, and load its module; raise KeyError if it is not listed."""
    return getattr(import_module(f"ldp.mechanisms.{FILES[name]}"), name)


@cache
def by_name() -> dict[str, type[Catalogued]]:
    """Return every mechanism by its name in metrics.toml, and load all modules."""
    return {mechanism.name: mechanism for mechanism in map(mechanism_class, FILES)}


def from_parameters(parameters: Mapping[str, Any]) -> Catalogued:
    """Return the mechanism with these `parameters()`; raise ParameterError for anything else."""
    rest, catalogue = dict(parameters), by_name()
    name = rest.pop("mechanism", None)
    if not isinstance(name, str) or name not in catalogue:
        raise ParameterError(f"unknown mechanism {name!r}; known: {', '.join(catalogue)}")
    try:
        return catalogue[name](**rest)
    except TypeError as error:
        raise ParameterError(f"mechanism {name!r}: {str(error).split('() ')[-1]}") from None
