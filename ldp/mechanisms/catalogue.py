"""Catalogue: the only list of all mechanisms, a line and a typed import each.

A mechanism's file is loaded when it is first used (PEP 562). So an app loads only those it uses.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from ldp.errors import ParameterError
from ldp.mechanisms.base import CatalogueMechanism

if TYPE_CHECKING:  # held to ENTRIES by a test
    from ldp.mechanisms.bit_flip import BitFlip as BitFlip
    from ldp.mechanisms.cms import CountMeanSketch as CountMeanSketch
    from ldp.mechanisms.dummies import Dummies as Dummies
    from ldp.mechanisms.hadamard_response import HadamardResponse as HadamardResponse
    from ldp.mechanisms.hcms import HadamardCountMeanSketch as HadamardCountMeanSketch
    from ldp.mechanisms.hierarchical_histogram import (
        HierarchicalHistogram as HierarchicalHistogram,
    )
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
    from ldp.mechanisms.privset import PrivSet as PrivSet
    from ldp.mechanisms.projective_geometry import ProjectiveGeometry as ProjectiveGeometry
    from ldp.mechanisms.randomized_response import CoinResponse as CoinResponse
    from ldp.mechanisms.randomized_response import RandomizedResponse as RandomizedResponse
    from ldp.mechanisms.rappor import Rappor as Rappor
    from ldp.mechanisms.sfp import FragmentSketch as FragmentSketch
    from ldp.mechanisms.sfp import SequenceFragmentPuzzle as SequenceFragmentPuzzle
    from ldp.mechanisms.subset_selection import SubsetSelection as SubsetSelection
    from ldp.mechanisms.unary import UnaryEncoding as UnaryEncoding

T = TypeVar("T")

ENTRIES = {
    "coin": "randomized_response.CoinResponse",
    "rr": "randomized_response.RandomizedResponse",
    "unary": "unary.UnaryEncoding",
    "rappor": "rappor.Rappor",
    "cms": "cms.CountMeanSketch",
    "hcms": "hcms.HadamardCountMeanSketch",
    "sfp-fragments": "sfp.FragmentSketch",
    "sfp": "sfp.SequenceFragmentPuzzle",
    "local-hashing": "local_hashing.LocalHashing",
    "pgr": "projective_geometry.ProjectiveGeometry",
    "hadamard": "hadamard_response.HadamardResponse",
    "bit-flip": "bit_flip.BitFlip",
    "hierarchical-histogram": "hierarchical_histogram.HierarchicalHistogram",
    "one-bit-mean": "numeric.OneBitMean",
    "piecewise": "numeric.Piecewise",
    "moments": "moments.RegressionMoments",
    "subset": "subset_selection.SubsetSelection",
    "privset": "privset.PrivSet",
    "prefix": "prefix.PrefixExtension",
    "rappor-ngrams": "ngrams.RapporNgrams",
    "rappor-ngram-pairs": "ngrams.PairedFilters",
    "joint": "joint_report.JointReport",
    "memoised-rr": "memoised.MemoisedResponse",
    "memoised-hashing": "memoised.MemoisedHashing",
    "memoised-bit-flip": "memoised.MemoisedBitFlip",
}
"""Module of `ldp.mechanisms` and class of each local randomizer, by its name in metrics.toml."""
SHUFFLED_ENTRIES = {"dummies": "dummies.Dummies"}
"""Module and class of each mechanism that protects nothing until a relay has shuffled. They are
listed apart, so that code that relies on the epsilon of a report (plans, composition) takes none
of them."""
CLASSES = {entry.split(".")[1]: name for name, entry in {**ENTRIES, **SHUFFLED_ENTRIES}.items()}
"""Names of mechanisms by their classes."""
PUBLIC = [name for name in CLASSES if name not in ("FragmentSketch", "PairedFilters", "Dummies")]
"""Classes that apps import: no parts of other mechanisms, and none that needs a shuffler."""


class Catalogue(Mapping[str, type[T]]):
    """Classes by names, such as mechanisms by their names in metrics.toml. `entries`: for each name
    a "module.Class" of `ldp.mechanisms`, which is loaded when it is looked up."""

    def __init__(self, entries: Mapping[str, str]) -> None:
        self._entries = entries
        self._loaded: dict[str, type[T]] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            module, class_name = self._entries[name].split(".")
            self._loaded[name] = getattr(import_module(f"ldp.mechanisms.{module}"), class_name)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        if name in self._entries or name in self._loaded:
            return True
        return isinstance(name, str) and _is_elsewhere(name)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._entries, **self._loaded})

    def __len__(self) -> int:
        return len({**self._entries, **self._loaded})

    def add(self, name: str, kind: type[T]) -> None:
        """Add a class from outside the package."""
        self._loaded[name] = kind


CATALOGUE: Catalogue[CatalogueMechanism] = Catalogue(ENTRIES)
"""Every local randomizer."""
METRIC_MECHANISMS: Catalogue[CatalogueMechanism] = Catalogue({**ENTRIES, **SHUFFLED_ENTRIES})
"""Every mechanism that a metric may have, or a part of one."""


FIRST_OUTSIDE = 128
"""Least `wire_id` of a mechanism from outside the package. No mechanism in it has one as large."""
M = TypeVar("M", bound=type[CatalogueMechanism])


def register(kind: M) -> M:
    """Add the mechanism class `kind` from outside the package, and return it, so that its tables
    are saved and loaded and a registry may name it. An installed package lists such classes as
    entry points of the group `ldp.mechanisms`, each under its name. Raises ParameterError for a
    name that another class has, and for a `wire_id` below 128 or above 255. A class that is defined
    again replaces the old one."""
    if not (isinstance(kind, type) and issubclass(kind, CatalogueMechanism)):
        raise ParameterError(f"{kind!r} is not a class of mechanisms")
    if kind.name in [*METRIC_MECHANISMS] and repr(METRIC_MECHANISMS[kind.name]) != repr(kind):
        raise ParameterError(f"another mechanism has the name {kind.name!r}")
    if not FIRST_OUTSIDE <= kind.wire_id <= 255:
        raise ParameterError(f"wire_id must be a number from {FIRST_OUTSIDE} to 255")
    for catalogue in (CATALOGUE, METRIC_MECHANISMS):
        catalogue.add(kind.name, kind)
    return kind


def _is_elsewhere(name: str) -> bool:
    """Register the mechanism `name` if an installed package lists it as an entry point. Returns
    whether one does."""
    from importlib.metadata import entry_points  # late: for an unknown name only

    points = entry_points(group="ldp.mechanisms", name=name)
    for point in points:
        register(point.load())
    return bool(points)


def mechanism_class(class_name: str) -> Any:
    """Return the class `class_name`, loaded now. Raises KeyError if it is not listed."""
    return METRIC_MECHANISMS[CLASSES[class_name]]


def from_parameters(parameters: Mapping[str, Any]) -> CatalogueMechanism:
    """Return the mechanism with these `parameters()`; raise ParameterError for anything else."""
    rest = dict(parameters)
    name = rest.pop("mechanism", None)
    if not isinstance(name, str) or name not in METRIC_MECHANISMS:
        known = ", ".join(METRIC_MECHANISMS)
        raise ParameterError(f"unknown mechanism {name!r}; known: {known}")
    try:
        mechanism: CatalogueMechanism = METRIC_MECHANISMS[name](**rest)
    except TypeError as error:
        raise ParameterError(f"mechanism {name!r}: {str(error).split('() ')[-1]}") from None
    return mechanism
