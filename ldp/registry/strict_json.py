"""Files of JSON that people rely on, read strictly: none can be read in two ways."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import UnionType
from typing import Any

from ldp.errors import ParameterError, RegistryError
from ldp.registry.definitions import is_plain, read_bytes

Kinds = Mapping[type | UnionType, str]
"""Types of JSON, each with the names of the fields that have it, separated by spaces."""


def read_json(path: Path, form: str, check: Callable[[Any], None]) -> dict[str, Any]:
    """Return the object in a file of JSON. Raise RegistryError, which says that the file is not
    `form`, unless it is UTF-8, no key is there twice, every number is finite, integers have 18
    digits at most, and `check` of the contents raises no ValueError."""
    data = read_bytes(path)
    try:
        text = data.decode()
        contents = json.loads(text, object_pairs_hook=_without_repetition, parse_int=_integer)
        # fails for a number that is not finite, and for half of a surrogate pair:
        json.dumps(contents, allow_nan=False, ensure_ascii=False).encode()
        require_fields(contents, {})
        check(contents)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise RegistryError(f"{path}: not {form}: {reason}") from None
    return dict(contents)


def require_fields(entry: Any, kinds: Kinds, where: str = "") -> None:
    """Raise ParameterError, with the words `where`, unless `entry` is an object in which each field
    has its kind, and texts are plain. It may have more fields."""
    if not isinstance(entry, dict):
        raise ParameterError(f"{where}{shortened(entry)} is not an object")
    for kind, names in kinds.items():
        for name in names.split():
            value = entry.get(name, ...)
            is_right = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
            if not is_right or (isinstance(value, str) and not is_plain(value)):
                raise ParameterError(
                    f"{where}{name} is {shortened(value) if name in entry else 'missing'}"
                )


def shortened(value: Any) -> str:
    """Return a value, or the start of it, for a message of one line."""
    return f"{value!a:.60}"


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ParameterError("a key is there twice")
    return dict(pairs)


def _integer(text: str) -> int:
    if len(text) > 18:
        raise ParameterError(f"{shortened(text)} has too many digits")
    return int(text)
