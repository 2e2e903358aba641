"""JSON and TOML that people rely on, read strictly: no file can be read in two ways, and an error
is one line that names the file."""

import json
from collections.abc import Callable, Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeGuard

from ldp.errors import LdpError, ParameterError, RegistryError

if TYPE_CHECKING:
    from pathlib import Path

Kinds = Mapping[type | UnionType, str]
"""Types of JSON, each with the names of the fields that have it, separated by spaces."""
MOST_BYTES = 1 << 28
"""Largest number of bytes of a file of JSON or TOML."""
_SHAPELESS = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0")


def read_json(
    path: "Path", form: str, check: Callable[[Any], None], error: type[LdpError] = RegistryError
) -> dict[str, Any]:
    """Return the object in a file of JSON. Raise `error`, which says that the file is not `form`,
    unless `parse_json` reads it and `check` of the contents raises no ValueError."""

    def parse(text: str) -> dict[str, Any]:
        contents = parse_json(text)
        require_fields(contents, {})
        check(contents)
        return dict(contents)

    return _read(path, form, parse, error)


def read_toml(path: "Path", error: type[LdpError] = RegistryError) -> dict[str, Any]:
    """Return the tables of a TOML file. Raises `error` for any other file."""
    # late: opening a client needs it, importing one does not
    import tomllib

    def parse(text: str) -> dict[str, Any]:
        contents = tomllib.loads(text.removeprefix("\ufeff"))
        if "0x" in text or "0o" in text or "0b" in text:
            # fails for a number too long for any message
            repr(contents)
        return contents

    return _read(path, "valid TOML", parse, error)


def _read(
    path: "Path", form: str, parse: Callable[[str], dict[str, Any]], error: type[LdpError]
) -> dict[str, Any]:
    # late: a mechanism needs no path
    from ldp.files import bytes_of

    try:
        return parse(bytes_of(path, MOST_BYTES).decode())
    except OSError as reason:
        raise error(f"cannot read {path}: {reason.strerror}") from None
    except (ValueError, RecursionError) as wrong:
        why = "nested too deeply" if isinstance(wrong, RecursionError) else wrong
        raise error(f"{path}: not {form}: {why}") from None


def parse_json(text: str | bytes) -> Any:
    """Return the data of a JSON text. Raise ValueError unless it is UTF-8, no key occurs twice,
    every number is finite, and integers have 18 digits at most."""
    text = text if isinstance(text, str) else text.decode()
    try:
        contents = json.loads(text, object_pairs_hook=_without_repetition, parse_int=_integer)
    except RecursionError:
        raise ParameterError("nested too deeply") from None
    # fails for a number that is not finite, and for half of a surrogate pair:
    json.dumps(contents, allow_nan=False, ensure_ascii=False).encode()
    return contents


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


def is_plain(text: str) -> bool:
    """Return whether a text that people are shown has a letter or a digit, and is of one line
    without characters that hide or reorder letters: controls, formats and halves of surrogate
    pairs (Unicode Cc, Cf, Cs, Zl, Zp) and letters without a shape. The joiners U+200C and U+200D
    may be in it."""
    if not (any(map(str.isalnum, text)) and (text.isascii() or _SHAPELESS.isdisjoint(text))):
        return False
    if text.isprintable():  # by far the most texts
        return True
    from unicodedata import category  # late: few texts need it

    hidden = {category(letter) for letter in text if letter not in "\u200c\u200d"}
    return hidden.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})


def are_texts(values: object) -> TypeGuard[list[str]]:
    """Return whether `values` are a list of texts."""
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


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
