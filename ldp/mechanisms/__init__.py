"""Mechanisms: the channel and the report of each, one file a mechanism, listed in `catalogue`."""

from typing import TYPE_CHECKING, Any

from ldp.mechanisms import catalogue as _catalogue
from ldp.mechanisms.base import CatalogueMechanism, Encoder, Example, Mechanism
from ldp.mechanisms.catalogue import CATALOGUE, METRIC_MECHANISMS, from_parameters

if TYPE_CHECKING:
    from ldp.mechanisms.catalogue import *  # noqa: F403

__all__ = [
    "CATALOGUE",
    "CatalogueMechanism",
    "Encoder",
    "Example",
    "METRIC_MECHANISMS",
    "Mechanism",
    "from_parameters",
    *_catalogue.CLASSES,
]


def __getattr__(name: str) -> Any:
    if name not in _catalogue.CLASSES:
        raise AttributeError(f"module 'ldp.mechanisms' has no attribute {name!r}")
    return _catalogue.mechanism_class(name)


def __dir__() -> list[str]:
    return sorted(__all__)
