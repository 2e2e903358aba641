"""Secrets of devices and accounts, and the messages that are keyed with them."""

from functools import lru_cache
from typing import NoReturn

LEAST_SECRET = 16
"""Least length of a secret, in bytes."""


class Secret(bytes):
    """Secret of a device or an account; never printed, formatted or pickled."""

    def __repr__(self) -> str:
        return "<secret>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")


@lru_cache(maxsize=256)
def message(purpose: str, *parts: str) -> bytes:
    """Return `purpose` and `parts`, which are public, as bytes, each after its length as 4 bytes
    little-endian."""
    texts = [part.encode() for part in (purpose, *parts)]
    return b"".join(len(text).to_bytes(4, "little") + text for text in texts)
