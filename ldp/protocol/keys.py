"""Keys of TOML files: a table states the form, the words and the default of each, and the reader
goes by it. `tests/schemas.py` makes JSON Schemas of the same tables; a device has no code for them.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, timedelta
from sys import float_info
from typing import Any, NamedTuple

from ldp.errors import LdpError, ParameterError
from ldp.protocol.strict_json import is_plain, shortened

REQUIRED: Any = object()
"""Default of a key that every section must have."""
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


class Form(NamedTuple):
    """Form of a value: the `words` after "must be", and what they say. `types` of Python, any
    without; `least` and `most` of a number, or of the length of a text or list, a number being
    `above` another; `pattern` of a text; `choices`; form of the `items`; the forms of which it has
    `either`; `is_right`, a test beside these. `read` makes of the value what is used."""

    words: str
    types: tuple[type, ...] = ()
    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    pattern: str = ""
    choices: Collection[Any] | None = None
    items: "Form | None" = None
    either: tuple["Form", ...] = ()
    is_right: Callable[[Any], bool] = lambda value: True
    read: Callable[[Any], Any] = lambda value: value

    def fits(self, value: Any) -> bool:
        """Return whether a value has this form."""
        if self.either:
            return any(form.fits(value) for form in self.either)
        if self.types and type(value) not in self.types:
            return False
        size = len(value) if isinstance(value, str | list | dict) else value
        return (
            (type(size) not in (int, float) or (self.least <= size <= self.most))
            and (self.above == -math.inf or self.above < size)
            and (not self.pattern or re.fullmatch(self.pattern, value) is not None)
            and (self.choices is None or value in self.choices)
            and (self.items is None or all(map(self.items.fits, value)))
            and self.is_right(value)
        )

    def take(self, name: str, value: Any) -> Any:
        """Return what is made of the value of a key; raise ParameterError with its name."""
        if not self.fits(value):
            raise ParameterError(f"{name} must be {self.words}, not {shortened(value)}")
        return self.read(value)


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
    """Return the form of sections of at least so many keys."""
    return Form(f"a section{words}", (dict,), least)


ANY = Form("a value")
TEXT = Form("a text", (str,))
PLAIN = Form(
    "a text of one line, with a letter and no hidden characters", (str,), 1, is_right=is_plain
)
PLAINS = several(PLAIN, "a list of texts of one line, with a letter and no hidden characters")
FILE = Form("the name of a file", (str,), 1, is_right=lambda name: name != "-")
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
    """Return a length of time from text such as "1d", "12h" or "30m"; raise ParameterError."""
    result: timedelta = SPAN.take("it", text)
    return result


def read_keys(keys: Any, table: Mapping[str, Key], may_have_others: bool = False) -> dict[str, Any]:
    """Return the values of a section by a `table` of its keys, with defaults. Raise ParameterError
    with the key, its value and what would be right; `may_have_others`: also where keys are left."""
    if not isinstance(keys, dict):
        raise ParameterError("must be a section")
    if not may_have_others:
        require_known(keys, table)
    for name, key in table.items():
        if key.default is REQUIRED and name not in keys:
            raise ParameterError(f"needs {name}, {key.form.words}")
    return {
        name: key.form.take(name, keys[name]) if name in keys else key.default
        for name, key in table.items()
    }


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


@contextmanager
def errors_in(place: str, error: type[LdpError] = ParameterError) -> Iterator[None]:
    """Raise errors of the block as `error`, each line after the name of the `place`."""
    try:
        yield
    except LdpError as reason:
        lines = (f"{place}: {line}" for line in str(reason).splitlines())
        raise error("\n".join(lines)) from None
