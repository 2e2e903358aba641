"""Definitions of metrics.toml: budget groups, metrics, and the files of their values."""

import hashlib
import math
import re
from datetime import date, timedelta
from decimal import Decimal
from math import gcd
from numbers import Real
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ldp.accounting.policy import Caps, periods_touched
from ldp.errors import ParameterError, RegistryError
from ldp.files import bytes_of
from ldp.mechanisms import CatalogueMechanism
from ldp.protocol.sealed_report import SHUFFLER

Memoise = Literal[False, "epoch", "per-value"]
Presence = Literal["public", "hidden"]
Trust = Literal["device", "shuffler"]
BEHIND_RELAY = ", behind an honest relay"
"""Words after the name of a number that holds only behind a relay that is honest."""
_SURROGATES = re.compile("[\ud800-\udfff]")


class Group(NamedTuple):
    """Privacy budget shared by metrics about the same behaviour. `lateness`: how long after sealing
    a batch is still taken. `trust`: what protects a person, the device's noise or a shuffler. With
    a shuffler the caps bound the epsilon behind an honest relay, there is no bound behind another,
    and `consent` is the text that a person agrees to."""

    name: str
    caps: Caps
    lateness: timedelta
    trust: Trust = "device"
    consent: str = ""

    @property
    def needs_shuffler(self) -> bool:
        """Return whether the group's reports protect nothing until a relay shuffles them."""
        return self.trust == "shuffler"


class Queue(NamedTuple):
    """Sealed reports that a relay shuffles together. `size`: bytes of each report. `lateness`: how
    long after sealing a relay forwards them. `messages`: number of messages that one person's
    record becomes. If more than one, a device's batch is one record. `is_daily`: whether the
    reports of a relay's batch are all of one day of sealing."""

    size: int
    lateness: timedelta
    messages: int = 1
    is_daily: bool = False


NOBODY = "name an owner"
"""Owner in a registry that a plan wrote, until somebody is named."""


class Metric(NamedTuple):
    """One version of one metric. `dictionary`: the file of its candidates, if it has one. `epoch`:
    length of an epoch where responses are memoised by epoch."""

    name: str
    version: int
    group: str
    description: str
    owners: tuple[str, ...]
    expires: date
    mechanism: CatalogueMechanism
    dictionary: Path | None
    reports_per_window: int
    memoise: Memoise = False
    epoch: timedelta | None = None
    presence: Presence = "public"
    members: tuple["Metric", ...] = ()
    """Metrics whose values a joint metric reports together."""
    cleans: bool = False
    """True if words are cleaned before they are encoded (`Spelling.cleaned`)."""
    other: str | None = None
    """Category that stands for every text that is not listed."""
    control: str | None = None
    """Public value that every build records, so that its reports show which noise really runs."""
    shuffled_epsilon: float | None = None
    """Target for the epsilon of a report in a relay's batch, which holds this metric only."""
    planned_for: str | None = None
    """People about whom the plan of the metric states its error."""
    sealing_key: str | None = None
    """Fingerprint of the only key that messages for a shuffler are sealed to, so that no choice of
    a key tells people apart. It is None for other metrics."""

    @property
    def needs_shuffler(self) -> bool:
        """Return whether its reports protect nothing before a relay shuffled them."""
        return self.mechanism.needs_shuffler

    @property
    def price(self) -> float:
        """Epsilon of one charge: for a report, or, where responses are memoised, for all reports
        about one value, or of one epoch. For messages to a shuffler it holds behind an honest
        relay."""
        cost = self.mechanism.cost
        if self.needs_shuffler:
            assert self.shuffled_epsilon  # the registry requires it
            return self.shuffled_epsilon
        return cost.lifetime if self.memoise else cost.epsilon

    @property
    def queue(self) -> str:
        """Name of the queue of its sealed reports: its group's, or with `shuffled_epsilon` one of
        its own for each version, which the collector tells apart."""
        name = f"{self.group}/{self.name}/{self.version}" if self.shuffled_epsilon else self.group
        return SHUFFLER + name if self.needs_shuffler else name

    @property
    def manner(self) -> str:
        """Memoisation and presence as text; "" for fresh reports with public presence."""
        parts = {self.memoise or "", f"epoch {self.epoch}" if self.epoch else "", self.presence}
        return ", ".join(sorted(parts - {"", "epoch", "public"}))

    def cleaned(self, value: Any) -> Any:
        """Return the value to encode: cleaned, or `other`. For a joint metric it is a tuple of such
        values. A NaN becomes minus infinity, and what is not Unicode in a text becomes U+FFFD. What
        is not a value of the metric is returned as it is: the metric's mechanism rejects it."""
        if self.members and isinstance(value, tuple) and len(value) == len(self.members):
            pairs = zip(self.members, value, strict=True)
            return tuple(member.cleaned(part) for member, part in pairs)
        if isinstance(value, set | frozenset):
            return frozenset(map(self._cleaned, value))
        if isinstance(value, list | tuple):
            names = 1 if self.mechanism.by else 0
            return (*map(self._cleaned, value[:names]), *map(_number, value[names:]))
        return self._cleaned(value)

    def _cleaned(self, value: Any) -> Any:
        """Return one text as it is encoded."""
        if not isinstance(value, str | bytes):
            return _number(value)
        if isinstance(value, str):
            value = _SURROGATES.sub("\ufffd", value)
        if self.cleans:
            assert self.mechanism.spelling  # the registry requires it
            text = value.decode(errors="replace") if isinstance(value, bytes) else value
            return self.mechanism.spelling.clean(text)
        if self.other is not None:
            # which has categories
            mechanism: Any = self.mechanism
            try:
                of = mechanism.addressing.of if mechanism.by else mechanism.candidate_addressing
                of.point(value)
            except ParameterError:
                return self.other
        return value

    @property
    def silent(self) -> str:
        """Values that are recorded but never sent, as text. It is "" if there are none. A missing
        report tells that such a value was recorded."""
        if self.members:
            return next((f"{m.silent} in {m.name}" for m in self.members if m.silent), "")
        if self.mechanism.spelling:
            return "" if self.cleans else 'a long word or other letters: set words = "clean"'
        if self.mechanism.outside == "refuse":
            return 'a number out of bounds: set outside = "clip"'
        if listed_in(self.mechanism) and self.other is None:
            return "a value that is not among the categories: set other to one of them"
        return ""

    def charges(self, span: timedelta, window: timedelta) -> int:
        """Return how often the price can be charged in a span of time, without caps: for every
        report of the windows that it touches, or once for every epoch."""
        if self.epoch:
            return periods_touched(span, self.epoch)
        return self.reports_per_window * periods_touched(span, window)

    def reports_of_one(self, span: timedelta, window: timedelta) -> int:
        """Return the most reports that one person sends in a `span` of whole days of UTC: those of
        all windows that the span touches."""
        # between beginnings of days and windows
        step = gcd(86_400, int(window.total_seconds()))
        return self.reports_per_window * periods_touched(span - timedelta(seconds=step), window)

    def candidates(self) -> tuple[str, ...] | None:
        """Return the values of the dictionary, cleaned as devices clean them. Without a dictionary
        return the `control` where values are hashed, else None. Raise RegistryError for a file that
        cannot be read."""
        if self.dictionary is None:
            return None if self.mechanism.listed or self.control is None else (self.control,)
        # late: devices have no dictionary
        from ldp.registry.value_files import read_values

        return tuple(dict.fromkeys(map(self.cleaned, read_values(self.dictionary))))

    def pinned(self) -> dict[str, Any]:
        """Return the pins of the metric in metrics.lock; raise RegistryError."""
        dictionary = self.dictionary and digest(self.dictionary)
        pins: dict[str, Any] = {
            "version": self.version,
            "fingerprint": self.mechanism.fingerprint.hex(),
            "dictionary_sha256": dictionary,
        }
        texts = {
            "manner": self.manner,
            "members": ", ".join(member.name for member in self.members),
            "sealing_key": self.sealing_key or "",
            "values": self._values(),
            "shuffled_epsilon": f"{self.shuffled_epsilon}" if self.needs_shuffler else "",
        }
        return pins | {pin: text for pin, text in texts.items() if text}

    def _values(self) -> str:
        """Return how values are replaced before they are encoded, as metrics.lock states it."""
        members = [member._values() for member in self.members]
        if any(members):
            return "; ".join(members)
        return "cleaned" if self.cleans else f"other {self.other}" if self.other else ""


def _number(value: Any) -> Any:
    """Return the value. For a NaN of any numeric type, returns minus infinity, which is below all
    bounds."""
    if isinstance(value, Decimal):
        return -math.inf if value.is_nan() else value
    return -math.inf if isinstance(value, Real) and value != value else value


def listed_in(mechanism: CatalogueMechanism) -> tuple[str, ...]:
    """Return the categories of the values of `mechanism`, or of its numbers. The result is empty
    without categories."""
    return mechanism.listed or mechanism.by or ()


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file. Raises RegistryError if it cannot be read."""
    try:
        return bytes_of(path)
    except OSError as error:
        raise RegistryError(f"cannot read {path}: {error.strerror}") from None


def digest(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal text; raise RegistryError."""
    return hashlib.sha256(read_bytes(path)).hexdigest()
