"""The catalogue: every mechanism there is, one line each; one file each beside this one."""

from collections.abc import Mapping
from typing import Any

from ldp.errors import ParameterError
from ldp.mechanisms.base import Catalogued, Encoder, Example, Mechanism
from ldp.mechanisms.cms import CountMeanSketch
from ldp.mechanisms.hcms import HadamardCountMeanSketch
from ldp.mechanisms.joint import JointMechanism
from ldp.mechanisms.randomized_response import CoinResponse, RandomizedResponse
from ldp.mechanisms.rappor import Rappor
from ldp.mechanisms.sfp import FragmentSketch, SequenceFragmentPuzzle
from ldp.mechanisms.unary import UnaryEncoding

CATALOGUE: dict[str, type[Catalogued]] = {
    mechanism.name: mechanism
    for mechanism in (
        *(CoinResponse, RandomizedResponse, UnaryEncoding, Rappor),
        *(CountMeanSketch, HadamardCountMeanSketch, FragmentSketch, SequenceFragmentPuzzle),
    )
}

__all__ = [
    "CATALOGUE",
    "Catalogued",
    "CoinResponse",
    "CountMeanSketch",
    "Encoder",
    "Example",
    "HadamardCountMeanSketch",
    "JointMechanism",
    "Mechanism",
    "RandomizedResponse",
    "Rappor",
    "SequenceFragmentPuzzle",
    "UnaryEncoding",
    "from_parameters",
]


def from_parameters(parameters: Mapping[str, Any]) -> Catalogued:
    """The mechanism that its `parameters()` described; raises ParameterError."""
    rest = dict(parameters)
    name = rest.pop("mechanism", None)
    if not isinstance(name, str) or name not in CATALOGUE:
        raise ParameterError(f"unknown mechanism {name!r}; known: {', '.join(CATALOGUE)}")
    try:
        return CATALOGUE[name](**rest)
    except TypeError as error:
        raise ParameterError(f"mechanism {name!r}: {str(error).split('() ')[-1]}") from None
