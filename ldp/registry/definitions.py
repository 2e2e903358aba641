"""What metrics.toml defines: budget groups, metrics, and the files of their values."""

import csv
import hashlib
import io
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal

from ldp.accounting.policy import Caps, touched
from ldp.errors import ParameterError, RegistryError
from ldp.files import read_lines
from ldp.mechanisms import Catalogued

Memoise = Literal[False, "epoch", "per-value"]
Presence = Literal["public", "hidden"]


@dataclass(frozen=True, kw_only=True)
class Group:
    """A privacy budget shared by metrics that tell about the same behaviour."""

    name: str
    caps: Caps
    lateness: timedelta


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One version of one metric. `dictionary` is the file of its candidates, if it names one."""

    name: str
    version: int
    group: str
    description: str
    owners: tuple[str, ...]
    expires: date
    mechanism: Catalogued
    dictionary: Path | None
    reports_per_window: int
    memoise: Memoise = False
    epoch: timedelta | None = None
    presence: Presence = "public"
    members: tuple["Metric", ...] = ()
    """The metrics whose values a joint metric reports together."""
    cleans: bool = False
    """Whether words are cleaned before they are encoded (`Spelling.cleaned`)."""
    other: str | None = None
    """The category that stands for every text that is not listed."""

    @property
    def price(self) -> float:
        """The epsilon that is charged at a time: for a report, or, where responses are memoised,
        for every report about one value, or of one epoch."""
        cost = self.mechanism.cost
        return cost.lifetime if self.memoise else cost.epsilon

    @property
    def manner(self) -> str:
        """How reports hang together; "" for fresh ones whose number may be seen."""
        said = {self.memoise or "", f"epoch {self.epoch}" if self.epoch else "", self.presence}
        return ", ".join(sorted(said - {"", "epoch", "public"}))

    def cleaned(self, value: Any) -> Any:
        """Return what is encoded of a value, or of each value of a joint metric; what is no value
        of the metric at all stays as it is, to be refused by its mechanism."""
        if self.members and isinstance(value, tuple) and len(value) == len(self.members):
            pairs = zip(self.members, value, strict=True)
            return tuple(member.cleaned(each) for member, each in pairs)
        if not isinstance(value, str | bytes):
            return value
        if self.cleans:
            mechanism: Any = self.mechanism
            with suppress(ParameterError):
                return mechanism.spelling.cleaned(value)
        if self.other is not None:
            try:
                self.mechanism.check(value)
            except ParameterError:
                return self.other
        return value

    @property
    def silent(self) -> str:
        """What a device says nothing about, although somebody recorded it; "" if there is no such
        value. Silence tells that it was recorded."""
        mechanism: Any = self.mechanism
        if self.members:
            return next(filter(None, (member.silent for member in self.members)), "")
        if hasattr(mechanism, "spelling"):
            return "" if self.cleans else "a word that is too long or has other letters"
        if getattr(mechanism, "outside", "clip") != "clip":
            return "a number out of bounds"
        if getattr(mechanism, "categories", ()) and self.other is None:
            return "a value that is not among the categories"
        return ""

    def charges(self, span: timedelta, window: timedelta) -> int:
        """Return how often a price can be charged for a span of time, were there no caps: for
        every report of the windows that it touches, or once for every epoch."""
        if self.epoch:
            return touched(span, self.epoch)
        return self.reports_per_window * touched(span, window)

    def candidates(self) -> tuple[str, ...] | None:
        """Return the values of the dictionary, cleaned as devices clean them, or None when the
        metric names none."""
        if self.dictionary is None:
            return None
        return tuple(dict.fromkeys(map(self.cleaned, read_values(self.dictionary))))

    def pinned(self) -> dict[str, Any]:
        """What metrics.lock keeps of the metric."""
        dictionary = self.dictionary and hashlib.sha256(read_bytes(self.dictionary)).hexdigest()
        pins: dict[str, Any] = {
            "version": self.version,
            "fingerprint": self.mechanism.fingerprint.hex(),
            "dictionary_sha256": dictionary,
        }
        named = {
            "manner": self.manner,
            "members": ", ".join(member.name for member in self.members),
            "values": self._values(),
        }
        return pins | {pin: said for pin, said in named.items() if said}

    def _values(self) -> str:
        """Return how values become those of the mechanism, as the lock names it."""
        members = [member._values() for member in self.members]
        if any(members):
            return "; ".join(members)
        return "cleaned" if self.cleans else f"other {self.other}" if self.other is not None else ""


def read_values(path: Path) -> tuple[str, ...]:
    """The values of a candidates file: one a line, UTF-8, blank lines skipped; or the `value`
    column of a CSV, which its name or its first line tells."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RegistryError(f"{path}: not UTF-8 (byte {error.start})") from None
    values = read_lines(text)
    columns = values[0].split(",") if values else []
    if path.suffix == ".csv" or (len(columns) > 1 and "value" in columns):
        if "value" not in columns:
            raise RegistryError(f"{path}: a CSV of candidates needs a column named value")
        try:
            rows = list(csv.DictReader(io.StringIO(text, newline="")))
        except csv.Error as error:
            raise RegistryError(f"{path}: not a CSV file: {error}") from None
        values = [row["value"] for row in rows if row["value"]]
    if not values:
        raise RegistryError(f"{path}: holds no values")
    repeated = len(values) - len(set(values))
    if repeated:
        raise RegistryError(f"{path}: names {repeated} values more than once")
    return tuple(values)


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RegistryError(f"cannot read {path}: {error.strerror}") from None
