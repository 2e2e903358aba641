"""What a device encodes of a value: words are cleaned, other values have a category."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.client import Declined, Recorded
from ldp.errors import ParameterError, RegistryError
from ldp.hashing import Spelling
from ldp.mechanisms.words import LETTERS
from ldp.registry import Registry
from ldp.simulation.populations import Population
from tests.test_client import App

WORDS = 'mechanism = "prefix"\nepsilon = 4.0\nrows = 10\n'
CATEGORIES = 'mechanism = "rr"\nepsilon = 4.0\ncategories = ["Oslo", "Bergen", "other"]\n'
METRIC = """
[metric.{name}]
version = 1
group = "places"
description = "What people type"
owners = ["team@example.org"]
expires = 2030-12-31
"""
GROUP = """
[product]
name = "weather"
[group.places]
window = "1d"
window_epsilon = 8.0
lifetime_epsilon = 64.0
"""


def registered(folder: Path, *texts: str) -> Registry:
    names = [METRIC.format(name=f"m{number}") + text for number, text in enumerate(texts)]
    (folder / "metrics.toml").write_text(GROUP + "".join(names))
    return Registry.load(folder / "metrics.toml")


@pytest.mark.exact
@pytest.mark.parametrize(
    ("word", "cleaned"),
    [
        ("depressions", "depression"),
        ("Müller", "muller"),
        ("don't", "dont"),
        ("Straße", "strasse"),
        ("\u200bnaïve", "naive"),
        ("42", ""),
        ("", ""),
        ("d\u00e9j\u00e0 vu".encode(), "dejavu"),
        ("DON'T", "dont"),
    ],
)
def test_any_text_becomes_a_word_of_the_alphabet(word: str | bytes, cleaned: str) -> None:
    spelling = Spelling(10, LETTERS, 2)
    assert spelling.cleaned(word) == cleaned
    assert spelling.padded(cleaned)


@pytest.mark.exact
@given(st.text())
def test_cleaning_twice_is_cleaning_once_and_every_clean_word_is_encoded(word: str) -> None:
    spelling = Spelling(4, "abcÄß", 2)
    cleaned = spelling.cleaned(word)
    assert spelling.cleaned(cleaned) == cleaned
    assert spelling.padded(cleaned)


@pytest.mark.exact
@pytest.mark.parametrize("word", ["\u00e4rger", "\u00c4rger", "\u00c4RGER", "a\u0308rger"])
def test_a_letter_of_the_alphabet_keeps_its_accent_however_it_is_typed(word: str) -> None:
    assert Spelling(10, LETTERS + "\u00e4", 2).cleaned(word) == "\u00e4rger"


@pytest.mark.exact
def test_what_is_no_text_is_no_word() -> None:
    with pytest.raises(ParameterError, match="must be text"):
        Spelling(4, "ab", 2).cleaned(b"\xff")


@pytest.mark.exact
@pytest.mark.parametrize("word", ["depression", "depressions", "Dépressions!", ""])
def test_a_device_answers_alike_whatever_the_word(tmp_path: Path, word: str) -> None:
    """Before, a word too long or with other letters silenced the device, which tells it."""
    registered(tmp_path, WORDS)
    made = App(tmp_path)
    registered(tmp_path, WORDS, CATEGORIES)
    made.client = made.open()
    made.client.grant()
    assert made.client.record("m0", word) == Recorded()
    made.client.close()


@pytest.mark.exact
def test_a_value_that_is_not_listed_is_told_as_the_other_one(tmp_path: Path) -> None:
    registry = registered(tmp_path, CATEGORIES + 'other = "other"\n', CATEGORIES)
    named, unnamed = registry.metrics.values()
    assert [named.cleaned(value) for value in ("Oslo", "Paris", b"Oslo")] == [
        "Oslo",
        "other",
        b"Oslo",
    ]
    assert unnamed.cleaned("Paris") == "Paris"
    made = App(tmp_path)
    registered(tmp_path, CATEGORIES + 'other = "other"\n', CATEGORIES)
    made.client = made.open()
    made.client.grant()
    answers: list[Any] = [made.client.record(name, "Paris") for name in ("m0", "m1")]
    assert answers[0] == Recorded()
    assert isinstance(answers[1], Declined)
    made.client.close()


@pytest.mark.exact
def test_the_members_of_a_joint_metric_keep_their_other_category(tmp_path: Path) -> None:
    unary = CATEGORIES.replace('"rr"', '"unary"').replace("4.0", "2.0") + 'other = "other"\n'
    registry = registered(
        tmp_path, unary, unary, 'mechanism = "joint"\nof = ["m0", "m1"]\nreports_per_window = 1\n'
    )
    joint = registry.metric("m2")
    assert registry.cleaned(joint, ("Oslo", "Paris")) == ("Oslo", "other")
    assert registry.cleaned(joint, ("Oslo",)) == ("Oslo",)


@pytest.mark.exact
def test_the_check_names_metrics_that_fall_silent(tmp_path: Path) -> None:
    registry = registered(
        tmp_path, WORDS, WORDS + 'words = "refuse"\n', CATEGORIES, CATEGORIES + 'other = "Oslo"\n'
    )
    assert [metric.silent for metric in registry.metrics.values()] == [
        "",
        "a word that is too long or has other letters",
        "a value that is not among the categories",
        "",
    ]


@pytest.mark.exact
def test_cleaning_belongs_to_the_version_and_to_the_dictionary(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("depression\ndepressions\nJoy\n")
    words = WORDS + 'dictionary = "words.txt"\n'
    registered(tmp_path, words + 'words = "refuse"\n').lock()
    registry = registered(tmp_path, words)
    with pytest.raises(RegistryError, match=r"changed its words or other .* version 2"):
        registry.check()
    assert registry.metric("m0").candidates() == ("depression", "joy")
    people = Population(("depression", "depressions", "Joy"), counts=np.array([1, 2, 4]))
    assert people.mapped(registry.metric("m0").cleaned).truth() == {"depression": 3, "joy": 4}


@pytest.mark.exact
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CATEGORIES + 'words = "clean"\n', "words .* belongs to mechanisms of words"),
        (WORDS + 'words = "cut"\n', "words .* belongs to mechanisms of words"),
        (CATEGORIES + 'other = "Paris"\n', "other must name one of"),
        (WORDS + 'other = "none"\n', "other must name one of"),
    ],
)
def test_a_wrong_key_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        registered(tmp_path, text)
