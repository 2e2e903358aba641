"""Mechanisms: the channel and the report of each, one file a mechanism, listed in `catalogue`."""

from typing import TYPE_CHECKING, Any

from ldp.mechanisms import catalogue as _catalogue
from ldp.mechanisms.base import Catalogued, Encoder, Example, Mechanism
from ldp.mechanisms.catalogue import from_parameters
from ldp.mechanisms.joint_base import JointMechanism

if TYPE_CHECKING:
    from ldp.mechanisms.catalogue import *  # noqa: F403

    CATALOGUE: dict[str, type[Catalogued]]

__all__ = [
    "CATALOGUE",
    "Catalogued",
    "Encoder",
    "Example",
    "JointMechanism",
    "Mechanism",
    "from_parameters",
    *_catalogue.FILES,
]


def __getattr__(name: str) -> Any:
    if name == "CATALOGUE":
        return _catalogue.by_name()
    if name not in _catalogue.FILES:
        raise AttributeError(f"module 'ldp.mechanisms' has no attribute {name!r}")
    return _catalogue.mechanism_class(name)


def __dir__() -> list[str]:
    return sorted(__all__)
