"""Define conditions of cheats: one or two atoms over what a program sees when it draws a report."""

import zlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from simulations.cheats import Event
from simulations.cheats.values import read

Look = Callable[[Event], int | None]

FIELDS: Mapping[str, Look] = {
    "call": lambda event: event.call,
    "row": lambda event: event.row,
    "device": lambda event: event.device,
    "epoch": lambda event: _checksum(event.epoch),
    "metric": lambda event: _checksum(event.metric),
    "repetition": lambda event: int(event.value == event.before),
}
"""Integers that an atom may be about, besides features of the value and of the value before.

Names of epochs and metrics are represented by their CRC-32. Repetition is 1 where the value equals
the value before.
"""


def _checksum(name: str | None) -> int | None:
    return None if name is None else zlib.crc32(name.encode())


def look(event: Event, field: str, feature: str = "") -> int | None:
    """Return the integer that an atom is about; None where the event has none."""
    if field == "value":
        return read(event.mechanism, feature, event.value)
    if field == "value before":
        return read(event.mechanism, feature, event.before)
    return FIELDS[field](event)


class Atom(NamedTuple):
    """Condition on one integer n.

    With a `modulus`, n // `block` modulo `modulus` is one of `residues`. Without a modulus, n //
    `block` lies from `least` to `most`; None means no limit.
    """

    field: str
    feature: str = ""
    block: int = 1
    modulus: int = 0
    residues: tuple[int, ...] = ()
    least: int | None = None
    most: int | None = None

    def holds(self, event: Event) -> bool:
        """Return whether an event meets the condition; True if a row that is not drawn decides
        it."""
        if self.field == "row" and event.row is None:
            return True
        number = look(event, self.field, self.feature)
        if number is None:
            return False
        number //= self.block
        if self.modulus:
            return number % self.modulus in self.residues
        return (self.least is None or self.least <= number) and (
            self.most is None or number <= self.most
        )

    def __str__(self) -> str:
        if self.field == "repetition":
            return f"the value is {'' if 1 in self.residues else 'not '}the one before"
        feature = "CRC-32" if self.field in ("epoch", "metric") else self.feature
        name = f"{self.field}'s {feature}" if feature else self.field
        name += f" // {self.block}" if self.block > 1 else ""
        if self.modulus:
            if len(self.residues) == 1:
                return f"{name} % {self.modulus} == {self.residues[0]}"
            return f"{name} % {self.modulus} in {{{', '.join(map(str, self.residues))}}}"
        if self.least == self.most:
            return f"{name} == {self.least}"
        if self.least is None:
            return f"{name} <= {self.most}"
        return (
            f"{name} >= {self.least}"
            if self.most is None
            else (f"{self.least} <= {name} <= {self.most}")
        )


class Condition(NamedTuple):
    """Conjunction of atoms."""

    atoms: tuple[Atom, ...]

    def holds(self, event: Event) -> bool:
        """Return whether an event meets all atoms; True if a row that is not drawn decides it."""
        return all(atom.holds(event) for atom in self.atoms)

    def __str__(self) -> str:
        return " and ".join(map(str, self.atoms))
