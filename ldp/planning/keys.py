"""Keys of a file of questions: each is taken once, and checked by its form."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ldp.errors import ParameterError
from ldp.planning.percentiles import people_of_result
from ldp.protocol.channel import require_whole
from ldp.protocol.strict_json import is_plain
from ldp.registry.definitions import read_values
from ldp.simulation import Population


def _is_list(value: Any, *types: type) -> bool:
    return isinstance(value, list) and all(type(x) in types for x in value)


@dataclass
class Keys:
    """Keys of a section of the file, taken from those `left`, each once; a method for each form of
    a value. Raises ParameterError naming the section and the key."""

    path: Path
    where: str
    keys: Any
    left: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.keys, dict):
            raise ParameterError(f"{self.path}: {self.where} is not a section")
        self.left = dict(self.keys)

    def error(self, what: str) -> ParameterError:
        """Return the error that says `what` is wrong in this section."""
        return ParameterError(f"{self.path}: {self.where}: {what}")

    def take(
        self,
        name: str,
        form: str = "",
        is_right: Callable[[Any], object] = lambda value: True,
        otherwise: Any = None,
    ) -> Any:
        """Return the value of a key, or `otherwise`; `form` are the words of a right value."""
        value = self.left.pop(name, otherwise)
        if value is None:
            close = get_close_matches(name, self.left, 1)
            meant = f"; did you mean it by {close[0]!r}?" if close else ""
            raise self.error(f"{name} is missing{meant}")
        if not is_right(value):
            raise self.error(f"{name} must be {form}")
        return value

    def section(self, name: str) -> "Keys":
        """Return the keys of a section within this one."""
        return Keys(self.path, f"{self.where}: {name}", self.take(name))

    def text(self, name: str) -> str:
        """Return a text of one line."""
        form = "a text of one line, with a letter and no hidden characters"
        return str(self.take(name, form, lambda value: isinstance(value, str) and is_plain(value)))

    def amount(self, name: str) -> float:
        """Return a number above 0."""
        form = "a number above 0 and below 1e9"
        return float(self.take(name, form, lambda x: type(x) in (int, float) and 0 < x < 1e9))

    def whole(self, name: str, most: int) -> int:
        """Return a whole number from 1 to `most`."""
        value = self.take(name)
        require_whole(value, f"{self.path}: {self.where}: {name}", 1, most)
        return int(value)

    def day(self, name: str, otherwise: date | None = None) -> date:
        """Return a date."""
        form, not_a_time = "a date, as 2027-06-30", lambda value: type(value) is date
        day: date = self.take(name, form, not_a_time, otherwise)
        return day

    def days(self, name: str) -> int:
        """Return a number of days, of a text such as "7d"."""
        form = 'whole days, as "7d"'
        is_right = re.compile("0*[1-9][0-9]{0,4}d").fullmatch
        return int(self.take(name, form, lambda value: is_right(str(value)))[:-1])

    def texts(self, name: str, otherwise: list[str] | None = None) -> tuple[str, ...]:
        """Return a list of texts."""
        return tuple(self.take(name, "a list of texts", lambda x: _is_list(x, str), otherwise))

    def bounds(self, name: str) -> tuple[float, float]:
        """Return two numbers, the smaller first."""
        form = "two numbers, as [0, 10]"
        pair = self.take(name, form, lambda x: _is_list(x, int, float) and len(x) == 2)
        low, high = map(float, pair)
        if not -1e15 < low < high < 1e15:
            raise self.error(f"{name} must be two numbers, the smaller first")
        return low, high

    def values(self, name: str) -> tuple[str, ...]:
        """Return different texts of a list, or of the lines of the file that is named."""
        if isinstance(self.left[name], str):
            values = tuple(read_values(self.path.parent / self.text(name)))
        else:
            values = self.texts(name)
        if len(values) < 2 or len({*values}) < len(values) or not all(map(str.isprintable, values)):
            raise self.error(f"{name} must be two different texts or more, of printable characters")
        return values

    def people(self) -> dict[str, Any]:
        """Return the numbers of the file that `population` or `from` names, if one is there, and
        the name of the file."""
        for name, read in (("population", Population.numbers_from_csv), ("from", people_of_result)):
            if name in self.left:
                path = self.path.parent / self.text(name)
                return {"people": read(path), "like": path.name}
        return {}

    def require_end(self) -> None:
        """Raise ParameterError where a key is left."""
        if self.left:
            raise self.error(f"unknown key {min(self.left)}")
