"""Define types of values: the stated distribution of people's values, and what a program sees.

Categories follow Zipf's law in their order. Numbers are log-uniform over three powers of ten below
twice the metric's own scale. Half of them are negative where the scale has both signs; a third of
them are whole. Texts are 1,000 words by Zipf's law, of 1 to 12 letters. Words of an alphabet are
drawn likewise, with at most as many letters as the alphabet's metric takes. A set has from 0 to
`at_most` + 1 answers, by Zipf's law. Tuples have independent parts.

A feature is a named integer of a value: the index of a category, the integer part of a number, the
length of a text. A value of another type has no such feature.
"""

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ldp.errors import ParameterError
from ldp.mechanisms.addressing import Answers, Identity
from ldp.mechanisms.base import CatalogueMechanism
from ldp.mechanisms.bins import EqualBins, RelativeBins
from ldp.mechanisms.bit_flip import Buckets
from ldp.mechanisms.hierarchical_histogram import Levels
from ldp.mechanisms.joint_report import JointReport
from ldp.mechanisms.moments import Products
from ldp.mechanisms.numeric import Numbers, number_of
from ldp.protocol.hashing import value_bytes

Feature = Callable[[Any], int]
WORDS = 1_000
LONGEST_WORD = 12
DECADES = 3


class ValueType(ABC):
    """Type of value: how people's values are drawn, and their features."""

    @abstractmethod
    def draw(self, generator: np.random.Generator) -> Any:
        """Draw a person's value."""

    @cached_property
    @abstractmethod
    def features(self) -> Mapping[str, Feature]:
        """Features by name; they raise ParameterError or TypeError for another type of value."""


def zipf(number: int) -> np.ndarray:
    """Return the cumulative shares of `number` values by Zipf's law."""
    totals = np.cumsum(1 / np.arange(1, number + 1))
    return np.asarray(totals / totals[-1])


@dataclass(frozen=True)
class CategoryType(ValueType):
    """Type of a category from a list."""

    names: tuple[str, ...]

    @cached_property
    def _shares(self) -> np.ndarray:
        return zipf(len(self.names))

    @cached_property
    def _indices(self) -> dict[bytes, int]:
        return {name.encode(): i for i, name in enumerate(self.names)}

    def place(self, value: Any) -> int:
        """Return the index of a category; raise ParameterError for anything else."""
        index = self._indices.get(value_bytes(value))
        if index is None:
            raise ParameterError("value is not one of the categories")
        return index

    def draw(self, generator: np.random.Generator) -> str:
        index = int(np.searchsorted(self._shares, generator.random(), side="right"))
        return self.names[min(index, len(self.names) - 1)]

    @cached_property
    def features(self) -> Mapping[str, Feature]:
        return {"index": self.place}


@dataclass(frozen=True)
class NumberType(ValueType):
    """Type of a number of size up to twice `scale`, drawn between `low` and `high`."""

    scale: float
    low: float
    high: float

    def draw(self, generator: np.random.Generator) -> float:
        while True:
            number = 2 * self.scale * 10 ** (-DECADES * generator.random())
            number *= generator.choice((-1, 1)) if self.low < 0 else 1
            number = round(number) if generator.random() < 1 / 3 else number
            if self.low <= number <= self.high:
                return float(number)

    @cached_property
    def features(self) -> Mapping[str, Feature]:
        step = self.scale / 100
        return {
            "sign": lambda value: int(np.sign(_finite(value))),
            "integer part": lambda value: math.floor(_finite(value)),
            "hundredths of the scale": lambda value: math.floor(_finite(value) / step),
        }


def _finite(value: Any) -> float:
    return float(np.clip(number_of(value), -1e15, 1e15))


@dataclass(frozen=True)
class TextType(ValueType):
    """Type of a text: a word of `alphabet`, of at most `length` letters."""

    alphabet: str
    length: int
    least: int = 1

    @cached_property
    def words(self) -> list[str]:
        """Words that people have, the most frequent first."""
        generator = np.random.default_rng([self.length, len(self.alphabet)])
        letters = list(self.alphabet)
        sizes = generator.integers(self.least, self.length + 1, WORDS)
        return ["".join(generator.choice(letters, size)) for size in sizes]

    @cached_property
    def _shares(self) -> np.ndarray:
        return zipf(WORDS)

    def draw(self, generator: np.random.Generator) -> str:
        index = int(np.searchsorted(self._shares, generator.random(), side="right"))
        return self.words[min(index, WORDS - 1)]

    @cached_property
    def features(self) -> Mapping[str, Feature]:
        return {
            "length": lambda value: len(value_bytes(value)),
            "first byte": lambda value: (value_bytes(value) or b"\0")[0],
            "last byte": lambda value: (value_bytes(value) or b"\0")[-1],
            "CRC-32": lambda value: zlib.crc32(value_bytes(value)),
        }


@dataclass(frozen=True)
class SetType(ValueType):
    """Type of a set of categories."""

    of: CategoryType
    most: int

    def draw(self, generator: np.random.Generator) -> frozenset[str]:
        size = int(generator.integers(self.most + 1))
        answers: set[str] = set()
        while len(answers) < size:
            answers.add(self.of.draw(generator))
        return frozenset(answers)

    @cached_property
    def features(self) -> Mapping[str, Feature]:
        def holds(index: int) -> Feature:
            return lambda value: int(self.of.names[index] in _set(value))

        answers = {f"presence of answer {i}": holds(i) for i in range(min(4, len(self.of.names)))}
        return {
            "size": lambda value: len(_set(value)),
            "sum of indices": lambda value: sum(map(self.of.place, _set(value))),
            **answers,
        }


def _set(value: Any) -> frozenset[str]:
    if not isinstance(value, set | frozenset):
        raise ParameterError("value is not a set")
    return frozenset(value)


@dataclass(frozen=True)
class TupleType(ValueType):
    """Type of a tuple."""

    of: tuple[ValueType, ...]

    def draw(self, generator: np.random.Generator) -> tuple[Any, ...]:
        return tuple(part.draw(generator) for part in self.of)

    @cached_property
    def features(self) -> Mapping[str, Feature]:
        def through(number: int, feature: Feature) -> Feature:
            return lambda value: feature(_tuple(value)[number])

        features = {
            f"{name} of part {number}": through(number, feature)
            for number, part in enumerate(self.of)
            for name, feature in part.features.items()
        }
        features["number of different parts"] = lambda value: len(set(_tuple(value)))
        return features


def _tuple(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        value = tuple(value.strip("()").split(","))
    if not isinstance(value, list | tuple):
        raise ParameterError("value is not a tuple")
    return tuple(value)


_TYPES: dict[bytes, ValueType] = {}


def value_type(mechanism: CatalogueMechanism) -> ValueType:
    """Return the type of the values of a mechanism."""
    key = mechanism.fingerprint
    if key not in _TYPES:
        _TYPES[key] = _type(mechanism)
    return _TYPES[key]


def _type(mechanism: Any) -> ValueType:
    if isinstance(mechanism, JointReport):
        return TupleType(tuple(map(value_type, mechanism.of)))
    spelling = getattr(mechanism, "spelling", None)
    if spelling is not None:
        return TextType(spelling.alphabet, spelling.length, 0)
    return _by_addressing(mechanism.addressing)


def _by_addressing(addressing: Any) -> ValueType:
    if isinstance(addressing, Identity):
        return CategoryType(tuple(addressing.categories) + tuple(addressing.untouching))
    if isinstance(addressing, Answers):
        categories = _by_addressing(addressing.of)
        assert isinstance(categories, CategoryType)
        return SetType(categories, min(addressing.at_most + 1, len(categories.names)))
    if isinstance(addressing, Numbers | Buckets):
        return _numbers(addressing.bounds, addressing.outside)
    if isinstance(addressing, Products):
        return TupleType(
            tuple(_numbers(bounds, addressing.outside) for bounds in addressing.bounds)
        )
    if isinstance(addressing, Levels):
        number = _bins(addressing.bins)
        return TupleType((CategoryType(addressing.by), number)) if addressing.by else number
    return TextType("abcdefghijklmnopqrstuvwxyz", LONGEST_WORD)


def _numbers(bounds: tuple[float, float], outside: str) -> NumberType:
    scale = max(map(abs, bounds))
    low, high = bounds if outside == "refuse" else (-2 * scale if bounds[0] < 0 else 0.0, 2 * scale)
    return NumberType(scale, low, high)


def _bins(bins: Any) -> NumberType:
    if isinstance(bins, EqualBins):
        return _numbers(bins.bounds, bins.outside)
    assert isinstance(bins, RelativeBins)
    scale = math.ldexp(1, bins.most)
    clips = bins.outside == "clip"
    low = -2 * scale if bins.is_signed else 0.0
    return NumberType(scale, low, 2 * scale if clips else math.nextafter(scale, 0))


def read(mechanism: CatalogueMechanism, name: str, value: Any) -> int | None:
    """Return the feature of a value with this name; None where the value has none."""
    look = value_type(mechanism).features.get(name)
    try:
        return None if look is None or value is None else look(value)
    except (ParameterError, TypeError, ValueError, IndexError):
        return None
