"""Telemetry under local differential privacy: device encoders, server decoders, one accountant.

`import ldp` loads nothing. Every public name is imported on first use (PEP 562), so that an app
that only encodes never pays for numpy.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ldp.mechanisms.catalogue import *  # noqa: F403
    from ldp.planning.column_trial import try_column as try_column
    from ldp.planning.error_curves import compare as compare
    from ldp.planning.simulated import simulate as simulate

_ON_DATA = {"compare": "error_curves", "simulate": "simulated", "try_column": "column_trial"}
"""Modules of `ldp.planning` with the functions that take data. They need the extra `server`."""


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module 'ldp' has no attribute {name!r}")
    from ldp.mechanisms import catalogue

    if name == "__all__":
        return sorted(["__version__", "register", *_ON_DATA, *catalogue.PUBLIC])
    if name in _ON_DATA:
        from importlib import import_module

        from ldp.errors import from_extra

        with from_extra(f"ldp.{name}", "server"):
            return getattr(import_module(f"ldp.planning.{_ON_DATA[name]}"), name)
    if name == "register":
        return catalogue.register
    if name not in catalogue.PUBLIC:
        raise AttributeError(f"module 'ldp' has no attribute {name!r}")
    return catalogue.mechanism_class(name)


def __dir__() -> list[str]:
    return [*__getattr__("__all__")]
