"""Values on which an encoder is audited: a few with many reports each, and many that are drawn."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import cycle, product
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any

import numpy as np

from ldp.arrays import Generator
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
"""Largest number of categories that are tried: all, or this number of more."""
MANY, NUMBERS = 192, 64
"""Texts and sets that are drawn, of each dictionary as many; numbers that are drawn."""
LONGEST = 4096
"""Bytes of the longest text that is drawn."""
SCRIPTS = (
    (0xC0, 0x180),
    (0x3B1, 0x3CA),
    (0x410, 0x450),
    (0x4E00, 0x9FA6),
    (0xAC00, 0xD7A4),
)
"""Latin letters beyond ASCII, Greek, Cyrillic, Chinese and Korean ones: first, and after the last.
"""
ALPHABETS = (
    ascii_lowercase,
    f" .-_/{digits}{ascii_uppercase}",
    *("".join(map(chr, range(*ends))) for ends in SCRIPTS),
    "😂👍🏽👩‍👩‍👧❤️🇩🇪",
    "עبيتحกขि\u0301\u200f",
)


def tried(mechanism: CatalogueMechanism) -> tuple[Any, ...]:
    """Return two values or more that the mechanism knows, to be tried with many reports each."""
    if isinstance(mechanism, JointReport):
        return tuple(zip(*map(tried, mechanism.of), strict=False))
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
        ends = (edges[0], edges[-1], edges[len(edges) // 2])
        return tuple(zip(cycle(addressing.by), ends, strict=False)) if addressing.by else ends
    if isinstance(addressing, Products):
        low, high = (tuple(pair[end] for pair in addressing.bounds) for end in (0, 1))
        return low, high, (low[0], *high[1:])
    if isinstance(addressing, PositionAddressing):
        letters, length = addressing.spelling.alphabet, addressing.spelling.length
        return letters[0] * length, letters[-1] * length, ""
    return VALUES


def drawn_values(
    mechanism: CatalogueMechanism, generator: Generator, dictionary: Sequence[Value] = ()
) -> tuple[Any, ...]:
    """Return many values that the mechanism knows, drawn by `generator`: all categories or
    MOST_CATEGORIES of them; else MANY of the dictionary and as many texts of many scripts, lengths
    and bytes, or words of the alphabet; or NUMBERS numbers. Of a joint metric: all pairs of what is
    drawn of its members, or MOST_CATEGORIES of them."""
    if isinstance(mechanism, JointReport):
        members = [drawn_values(member, generator) for member in mechanism.of]
        return _tuples(members, generator)
    addressing = parts_of(mechanism)[0].addressing
    if isinstance(addressing, Answers):
        answers = _draw_single(addressing.of, generator, dictionary)
        return _sets(answers, addressing.at_most, generator)
    return _draw_single(addressing, generator, dictionary)


def _tuples(members: Sequence[Sequence[Any]], generator: Generator) -> tuple[tuple[Any, ...], ...]:
    """Return all tuples with one value of each member. Where there are more than MOST_CATEGORIES,
    return so many, but each member's value stands in one at least."""
    if math.prod(map(len, members)) <= MOST_CATEGORIES:
        return tuple(product(*members))
    size = max(MOST_CATEGORIES, *map(len, members))
    columns = [generator.permutation(np.resize(np.arange(len(some)), size)) for some in members]
    places = zip(*(column.tolist() for column in columns), strict=True)
    chosen = [tuple(some[at] for some, at in zip(members, place, strict=True)) for place in places]
    return tuple(dict.fromkeys(chosen))


def _sets(answers: Sequence[Any], at_most: int, generator: Generator) -> tuple[frozenset[Any], ...]:
    """Return MANY sets, all different: half of them of up to `at_most` answers, half of up to
    all."""
    most = np.resize((min(at_most, len(answers)), len(answers)), MANY)
    places = (
        generator.choice(len(answers), size, replace=False) for size in generator.integers(most + 1)
    )
    return tuple({frozenset(answers[place] for place in some): None for some in places})


def _draw_single(
    addressing: Addressing,
    generator: Generator,
    dictionary: Sequence[Value],
) -> tuple[Any, ...]:
    if isinstance(addressing, Identity):
        return _some(addressing.categories + addressing.untouching, MOST_CATEGORIES, generator)
    if isinstance(addressing, Numbers | Buckets):
        numbers = _numbers(addressing.bounds, generator)
        return tuple(number for number in numbers if _knows(addressing, number))
    if isinstance(addressing, Levels):
        edges = _edges(addressing)
        numbers_in = (*_some(edges, MANY, generator), *_numbers((edges[0], edges[-1]), generator))
        plain = replace(addressing, by=())
        known = tuple(number for number in numbers_in if _knows(plain, number))
        return _tuples((addressing.by, known), generator) if addressing.by else known
    if isinstance(addressing, Products):
        columns = [_numbers(bounds, generator) for bounds in addressing.bounds]
        for column in columns:
            generator.shuffle(column)
        rows = zip(*columns, strict=True)
        return tuple(row for row in rows if _knows(addressing, row))
    if isinstance(addressing, PositionAddressing):
        spelling = addressing.spelling
        texts = _texts((spelling.alphabet,), spelling.length, generator)
    else:
        texts = [*_texts(ALPHABETS, LONGEST // 4, generator)]
        texts += [generator.bytes(size) for size in (1, 12, 40, LONGEST)]
    chosen = dict.fromkeys([*_some(tuple(dictionary), MANY, generator), *texts])
    return tuple(value for value in chosen if _knows(addressing, value))


def _some(values: tuple[Value, ...], most: int, generator: Generator) -> tuple[Value, ...]:
    """Return all values, or the first, the last and others, `most` in all."""
    if len(values) <= most:
        return values
    inner = 1 + generator.choice(len(values) - 2, most - 2, replace=False)
    return (values[0], *(values[i] for i in sorted(inner)), values[-1])


def _numbers(bounds: Range, generator: Generator) -> list[float]:
    """Return numbers, a quarter of them each: anywhere within the bounds, half of these rounded;
    near a bound, on either side; of both signs and of every magnitude from a millionth of the
    bounds to a thousand times theirs; of both signs and of every magnitude from .001 to a billion.
    """
    low, high = bounds
    size, scale = NUMBERS // 4, max(abs(low), abs(high))
    signs, within = generator.choice((-1.0, 1.0), (2, size)), generator.random(size)
    ends, apart = generator.choice((low, high), size), generator.normal(0, (high - low) / 32, size)
    numbers = (
        low + (high - low) * within,
        ends + apart,
        signs[0] * scale * 10 ** generator.uniform(-6, 3, size),
        signs[1] * 10 ** generator.uniform(-3, 9, size),
    )
    some = np.concatenate(numbers).tolist()
    return [*map(round, some[: size // 2]), *some[size // 2 :]]


def _edges(addressing: Levels) -> tuple[float, ...]:
    """Return 0 and the finite edges of the bins, those that are not refused."""
    edges = sorted({0.0, *filter(math.isfinite, addressing.bins.edges)})
    plain = replace(addressing, by=())
    return tuple(edge for edge in edges if _knows(plain, edge))


def _texts(alphabets: Sequence[str], length: int, generator: Generator) -> list[Value]:
    """Return MANY texts of up to `length` letters, each of one alphabet. Half of them are words of
    the first one, of at most 24 letters. None is empty."""
    texts: list[Value] = []
    for number in range(MANY):
        is_word = number % 2
        letters = alphabets[0 if is_word else number // 2 % len(alphabets)]
        most = min(length, 24) if is_word else length
        size = int((most + 1) ** generator.random())  # every magnitude alike
        places = generator.integers(len(letters), size=size)
        texts.append("".join(letters[place] for place in places))
    return texts


def _knows(addressing: Addressing, value: Value) -> bool:
    with suppress(ParameterError):
        addressing.point(value)
        return True
    return False
