"""The values that an encoder is audited on: a few at length, and many that are drawn."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np

from ldp.errors import ParameterError
from ldp.mechanisms import CatalogueMechanism, JointReport
from ldp.mechanisms.addressing import Addressing, Answers, Identity
from ldp.mechanisms.bit_flip import Buckets
from ldp.mechanisms.hierarchical_histogram import Levels
from ldp.mechanisms.joint_base import parts_of
from ldp.mechanisms.moments import Products
from ldp.mechanisms.numeric import Numbers, Range
from ldp.protocol.hashing import Value
from ldp.protocol.spelling import PositionAddressing

VALUES = ("lol", "a value of more than sixteen bytes", "")
MOST_CATEGORIES = 256
"""Up to so many categories are tried all; of more, so many."""
MANY, NUMBERS = 64, 16
"""Texts that are drawn, of each dictionary as many; numbers that are drawn."""
ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz",
    " 0123456789.-_/ABCXYZ",
    "äßéñøłčžşİ",
    "абвгджшыюяλΩπ",
    "日本語中文한국어",
    "😂👍🏽👩‍👩‍👧❤️🇩🇪",
    "עبيتحกขि\u0301\u200f",
)


def tried(mechanism: CatalogueMechanism) -> tuple[Value, ...]:
    """Return two values or more that the mechanism knows; they are tried at length."""
    if isinstance(mechanism, JointReport):
        tuples: Any = tuple(zip(*map(tried, mechanism.of), strict=False))
        return tuples  # type: ignore[no-any-return]
    addressing = parts_of(mechanism)[0].addressing
    if isinstance(addressing, Answers):
        assert isinstance(addressing.of, Identity)
        answers, most = addressing.of.categories, addressing.at_most
        sets = (answers[:most], answers[-most:], (), answers[: most + 1])
        return tuple(dict.fromkeys(map(frozenset, sets)))
    return _tried_single(addressing)


def _tried_single(addressing: Addressing) -> tuple[Any, ...]:
    if isinstance(addressing, Identity):
        names = addressing.categories + addressing.untouching
        return names[:4] if len(names) <= 4 else (*names[:3], names[-1])
    if isinstance(addressing, Numbers | Buckets):
        return (*addressing.bounds, sum(addressing.bounds) / 2)
    if isinstance(addressing, Levels):
        edges = _edges(addressing)
        return _by(addressing, (edges[0], edges[-1], edges[len(edges) // 2]))
    if isinstance(addressing, Products):
        low, high = (tuple(pair[end] for pair in addressing.bounds) for end in (0, 1))
        return low, high, (low[0], *high[1:])
    if isinstance(addressing, PositionAddressing):
        letters, length = addressing.spelling.alphabet, addressing.spelling.length
        return letters[0] * length, letters[-1] * length, ""
    return VALUES


def drawn_values(
    mechanism: CatalogueMechanism, generator: np.random.Generator, dictionary: Sequence[Value] = ()
) -> tuple[Value, ...]:
    """Return many values that the mechanism knows, drawn by `generator`: all categories or
    MOST_CATEGORIES of them; else MANY of the dictionary and as many texts of many scripts, lengths
    and bytes, or words of the alphabet; or NUMBERS numbers."""
    if isinstance(mechanism, JointReport):
        members = [drawn_values(member, generator) for member in mechanism.of]
        longest = max(map(len, members))
        tuples: Any = zip(
            *([texts[i % len(texts)] for i in range(longest)] for texts in members), strict=True
        )
        return tuple(tuples)
    addressing = parts_of(mechanism)[0].addressing
    if isinstance(addressing, Answers):
        return _sets(addressing, _draw_single(addressing.of, generator, dictionary), generator)
    return _draw_single(addressing, generator, dictionary)


def _sets(
    addressing: Answers, answers: Sequence[Any], generator: np.random.Generator
) -> tuple[frozenset[Any], ...]:
    """Return MANY sets of 0 to `at_most` answers, all different."""
    most = min(addressing.at_most, len(answers))
    sizes = generator.integers(most + 1, size=MANY)
    places = (generator.choice(len(answers), size, replace=False) for size in sizes)
    return tuple({frozenset(answers[place] for place in some): None for some in places})


def _draw_single(
    addressing: Addressing,
    generator: np.random.Generator,
    dictionary: Sequence[Value],
) -> tuple[Any, ...]:
    if isinstance(addressing, Identity):
        return _some(addressing.categories + addressing.untouching, MOST_CATEGORIES, generator)
    if isinstance(addressing, Numbers | Buckets):
        return tuple(_numbers(addressing.bounds, generator))
    if isinstance(addressing, Levels):
        edges = _edges(addressing)
        numbers = _some(edges, MANY, generator), _numbers((edges[0], edges[-1]), generator)
        return _by(addressing, (*numbers[0], *numbers[1]))
    if isinstance(addressing, Products):
        columns = [_numbers(bounds, generator) for bounds in addressing.bounds]
        for column in columns:
            generator.shuffle(column)
        return tuple(zip(*columns, strict=True))
    if isinstance(addressing, PositionAddressing):
        spelling = addressing.spelling
        texts = _texts((spelling.alphabet,), spelling.length, generator)
    else:
        texts = [*_texts(ALPHABETS, 24, generator), generator.bytes(12), generator.bytes(40)]
    chosen = dict.fromkeys([*_some(tuple(dictionary), MANY, generator), *texts])
    return tuple(value for value in chosen if _knows(addressing, value))


def _some(
    values: tuple[Value, ...], most: int, generator: np.random.Generator
) -> tuple[Value, ...]:
    """Return all values, or the first, the last and others, `most` in all."""
    if len(values) <= most:
        return values
    inner = 1 + generator.choice(len(values) - 2, most - 2, replace=False)
    return (values[0], *(values[i] for i in sorted(inner)), values[-1])


def _numbers(bounds: Range, generator: np.random.Generator) -> list[float]:
    """Return numbers within the bounds: half of them anywhere, half near a bound."""
    low, high = bounds
    near = generator.random(NUMBERS // 4) / 16
    shares = [*generator.random(NUMBERS // 2), *near, *(1 - near)]
    return [min(max(low + (high - low) * float(share), low), high) for share in shares]


def _edges(addressing: Levels) -> tuple[float, ...]:
    """Return 0 and the finite edges of the bins, those that are not refused."""
    edges = sorted({0.0, *filter(math.isfinite, addressing.bins.edges)})
    plain = replace(addressing, by=())
    return tuple(edge for edge in edges if _knows(plain, edge))


def _by(addressing: Levels, numbers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the `numbers`, with categories each as a pair, by turns with each of them."""
    return tuple(zip(cycle(addressing.by), numbers, strict=False)) if addressing.by else numbers


def _texts(alphabets: Sequence[str], length: int, generator: np.random.Generator) -> list[Value]:
    """Return MANY texts of up to so many letters, each of one alphabet; none is empty."""
    texts: list[Value] = []
    for number in range(MANY):
        letters = alphabets[number % len(alphabets)]
        places = generator.integers(len(letters), size=generator.integers(1, length + 1))
        texts.append("".join(letters[place] for place in places))
    return texts


def _knows(addressing: Addressing, value: Value) -> bool:
    with suppress(ParameterError):
        addressing.point(value)
        return True
    return False
