"""Keys of TOML files: a table states the form, the words and the default of each key, and
`read_keys` reads a section by it. `tests/schemas.py` makes JSON Schemas of the same tables. A
device has no code for them.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date, timedelta
from sys import float_info
from typing import Any, NamedTuple

from ldp.errors import ParameterError
from ldp.protocol.strict_json import is_plain, shortened

REQUIRED: Any = object()
"""Default of a key that every section must have."""
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


class Form(NamedTuple):
    """Form of a value: the `words` after "must be", and the conditions that they state. `types`:
    types of Python, empty for any type. `least`, `most`: limits of a number, or of the length of a
    text or list. `above`: number that the value must exceed. `pattern`: of a text. `choices`:
    values that are allowed. `items`: form of each item. `either`: forms, of which the value has
    one. `is_right`: a further test. `read` turns the value into what is used."""

    words: str
    types: tuple[type, ...] = ()
    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    pattern: str = ""
    choices: Collection[Any] | None = None
    items: "Form | None" = None
    either: tuple["Form", ...] = ()
    is_right: Callable[[Any], bool] | None = None
    read: Callable[[Any], Any] | None = None

    def fits(self, value: Any) -> bool:
        """Return whether a value has this form."""
        _, types, least, most, above, pattern, choices, items, either, is_right, _ = self
        kind = type(value)
        if either:
            return any(form.fits(value) for form in either)
        if types and kind not in types:
            return False
        if choices is not None or not types:
            return choices is None or value in choices
        size = len(value) if kind in (str, list, dict) else value
        return (
            (kind is date or (least <= size <= most and above < size))
            and (not pattern or re.fullmatch(pattern, value) is not None)
            and (items is None or all(map(items.fits, value)))
            and (is_right is None or is_right(value))
        )

    def take(self, name: str, value: Any) -> Any:
        """Return what `read` turns the value of a key into. Raises ParameterError, with the key's
        `name`, for a value of another form."""
        if not self.fits(value):
            raise ParameterError(f"{name} must be {self.words}, not {shortened(value)}")
        return self.read(value) if self.read else value


class Key(NamedTuple):
    """Key of a section: the form of its value, its meaning in `words`, and its default."""

    form: Form
    words: str = ""
    default: Any = REQUIRED


def whole(least: int, most: int) -> Form:
    """Return the form of whole numbers from `least` to `most`."""
    return Form(f"a whole number from {least:,} to {most:,}", (int,), least, most)


def choice(*values: str | bool) -> Form:
    """Return the form of one of these values."""
    words = ", ".join(f'"{value}"' if value is not False else "false" for value in values)
    types = {str, *map(type, values)}
    return Form(f"one of {words}", (*types,), choices=dict.fromkeys(values))


def several(items: Form, words: str) -> Form:
    """Return the form of lists of one item or more."""
    return Form(words, (list,), 1, items=items, read=tuple)


def section(words: str, least: int = 0) -> Form:
    """Return the form of sections of at least `least` keys."""
    return Form(f"a section{words}", (dict,), least)


TEXT = Form("a text", (str,))
PLAIN = Form(
    "a text of one line, with a letter and no hidden characters", (str,), 1, is_right=is_plain
)
PLAINS = several(PLAIN, "a list of texts of one line, with a letter and no hidden characters")
FILE = Form("the name of a file", (str,), 1, is_right=lambda name: name != "-" and "\0" not in name)
FLAG = Form("true or false", (bool,))
DAY = Form("a date such as 2027-12-31, without quotes", (date,))
SPAN = Form(
    'a length of time such as "1d", "12h" or "30m"',
    (str,),
    pattern="[0-9]{1,5}[mhd]",
    read=lambda text: timedelta(**{_UNITS[text[-1]]: int(text[:-1])}),
)
SHARE = Form("a number from 0 to 1", (int, float), 0, 1)
EPSILON = Form("a number above 0", (int, float), most=float_info.max, above=0, read=float)


def duration(text: object) -> timedelta:
    """Return a length of time from text such as "1d", "12h" or "30m". Raises ParameterError for
    anything else."""
    result: timedelta = SPAN.take("it", text)
    return result


def read_keys(keys: Any, table: Mapping[str, Key], may_have_others: bool = False) -> dict[str, Any]:
    """Return the values of a section by a `table` of its keys, with defaults. Raise ParameterError
    with the key, its value and what would be right. `may_have_others`: whether the section may have
    keys that are not in the table."""
    if not isinstance(keys, dict):
        raise ParameterError("must be a section")
    if not may_have_others:
        require_known(keys, table)
    values = {name: key[2] for name, key in table.items()}
    for name, value in keys.items():
        if name in values:
            values[name] = table[name][0].take(name, value)
    if REQUIRED in values.values():
        name = next(name for name, value in values.items() if value is REQUIRED)
        raise ParameterError(f"needs {name}, {table[name].form.words}")
    return values


def require_known(names: Iterable[str], known: Collection[str]) -> None:
    """Raise ParameterError for a name that is not known, with the nearest that is."""
    for name in names:
        if name not in known:
            raise ParameterError(f"unknown key {name!r}{nearest(name, known)}")


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest name, or all names."""
    from difflib import get_close_matches  # late: for a mistake only

    matches = get_close_matches(name, list(names), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else f"; known: {', '.join(sorted(names))}"
