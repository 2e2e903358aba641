"""A device cleans words before it encodes them, and has a category for other values."""

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from ldp.cli import commands
from ldp.client import Declined, Recorded
from ldp.errors import ParameterError, RegistryError
from ldp.mechanisms import CATALOGUE
from ldp.mechanisms.numeric import number_of
from ldp.mechanisms.words import LETTERS
from ldp.protocol.spelling import Spelling
from ldp.registry import Registry
from ldp.simulation.populations import Population
from ldp.tables.saved import SavedResult
from tests.devices import App

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
    assert spelling.clean(word) == cleaned
    assert spelling.pad(cleaned)


@pytest.mark.exact
@given(st.text())
def test_cleaning_twice_is_cleaning_once_and_every_clean_word_is_encoded(word: str) -> None:
    spelling = Spelling(4, "abcÄß", 2)
    cleaned = spelling.clean(word)
    assert spelling.clean(cleaned) == cleaned
    assert spelling.pad(cleaned)


@pytest.mark.exact
@pytest.mark.parametrize("word", ["\u00e4rger", "\u00c4rger", "\u00c4RGER", "a\u0308rger"])
def test_a_letter_of_the_alphabet_keeps_its_accent_however_it_is_typed(word: str) -> None:
    assert Spelling(10, LETTERS + "\u00e4", 2).clean(word) == "\u00e4rger"


@pytest.mark.exact
def test_what_is_no_text_is_no_word() -> None:
    with pytest.raises(ParameterError, match="must be text"):
        Spelling(4, "ab", 2).clean(b"\xff")


@pytest.mark.exact
@pytest.mark.parametrize("word", ["depression", "depressions", "Dépressions!", ""])
def test_a_device_answers_alike_whatever_the_word(tmp_path: Path, word: str) -> None:
    """A word that was too long, or had other letters, once silenced the device, and the silence
    revealed it."""
    registered(tmp_path, WORDS)
    made = App(tmp_path)
    registered(tmp_path, WORDS, CATEGORIES)
    made.client = made.open()
    made.client.grant()
    assert made.client.record("m0", word) == Recorded()
    made.client.close()


NUMBERS = 'mechanism = "one-bit-mean"\nepsilon = 2.0\nbounds = [0.0, 1.0]\n'
NO_NUMBERS = [np.float32("nan"), np.float16("nan"), Decimal("NaN"), Decimal("-sNaN"), math.nan]
BEYOND = [Fraction(10**400), Fraction(-(10**400), 3), Decimal("1e999"), np.longdouble("1e4000")]


@pytest.mark.exact
@pytest.mark.parametrize("number", [*NO_NUMBERS, *BEYOND])
def test_no_number_of_any_type_silences_a_device(tmp_path: Path, number: Any) -> None:
    """A NaN that is no float, or a fraction beyond all floats, was once declined, and the refusal
    revealed it.

    Such numbers of other types are taken.
    """
    registered(tmp_path, NUMBERS)
    made = App(tmp_path)
    registered(tmp_path, NUMBERS)
    made.client = made.open()
    made.client.grant()
    assert made.client.record("m0", number) == Recorded()
    made.client.close()


@pytest.mark.exact
def test_what_is_no_number_is_below_all_bounds(tmp_path: Path) -> None:
    metric = registered(tmp_path, NUMBERS).metric("m0")
    assert [metric.cleaned(number) for number in NO_NUMBERS] == [-math.inf] * len(NO_NUMBERS)
    point = metric.mechanism.addressing.point  # type: ignore[attr-defined]
    assert [point(number) for number in BEYOND] == [point(n) for n in (1.0, 0.0, 1.0, 1.0)]


@pytest.mark.exact
@pytest.mark.parametrize("unit", ["ns", "ms", "s", "M"])
def test_a_duration_of_numpy_is_no_number_whatever_its_unit(unit: Any) -> None:
    """numpy calls it a whole number; 5 nanoseconds would be the number 5."""
    with pytest.raises(ParameterError, match="value is not a number"):
        number_of(cast(Any, np.timedelta64(5, unit)))


@pytest.mark.exact
def test_bytes_that_are_no_text_are_a_word_to_a_device(tmp_path: Path) -> None:
    metric = registered(tmp_path, WORDS).metric("m0")
    assert metric.cleaned(b"ab\xffC") == "abc"


@pytest.mark.exact
def test_every_mechanism_of_words_has_a_value_for_none() -> None:
    of_words = {name: CATALOGUE[name] for name in ("sfp", "prefix", "rappor-ngrams")}
    for kind in of_words.values():
        assert {example.mechanism.placeholder for example in kind.examples()} == {""}


@pytest.mark.exact
def test_no_number_stands_for_none() -> None:
    """Without a value for none a registry refuses hidden presence."""
    numbers = [kind for kind in CATALOGUE.values() if kind.examples()[0].mechanism.outside]
    assert len(numbers) >= 5
    for kind in numbers:
        assert {example.mechanism.placeholder for example in kind.examples()} == {None}


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
    assert joint.cleaned(("Oslo", "Paris")) == ("Oslo", "other")
    assert joint.cleaned(("Oslo",)) == ("Oslo",)


@pytest.mark.exact
def test_an_empty_other_category_is_not_pinned(tmp_path: Path) -> None:
    categories = CATEGORIES.replace('"other"', '""')
    registry = registered(tmp_path, categories + 'other = ""\n', categories)
    named, unnamed = registry.metrics.values()
    assert "values" not in named.pinned()
    assert (named.cleaned("Paris"), unnamed.cleaned("Paris")) == ("", "Paris")


@pytest.mark.exact
def test_the_check_names_metrics_that_fall_silent(tmp_path: Path) -> None:
    registry = registered(
        tmp_path, WORDS, WORDS + 'words = "refuse"\n', CATEGORIES, CATEGORIES + 'other = "Oslo"\n'
    )
    assert [metric.silent for metric in registry.metrics.values()] == [
        "",
        'a long word or other letters: set words = "clean"',
        "a value that is not among the categories: set other to one of them",
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
        (WORDS + 'words = "cut"\n', "words must be one of .* not 'cut'"),
        (CATEGORIES + 'other = "Paris"\n', "other must name one of"),
        (WORDS + 'other = "none"\n', "other must name one of"),
    ],
)
def test_a_wrong_key_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        registered(tmp_path, text)


@pytest.mark.exact
def test_another_other_category_of_a_member_needs_a_new_version_of_the_joint_metric(
    tmp_path: Path,
) -> None:
    unary = CATEGORIES.replace('"rr"', '"unary"').replace("4.0", "2.0")
    joint = 'mechanism = "joint"\nof = ["m0", "m1"]\nreports_per_window = 1\n'
    registered(tmp_path, unary, unary, joint).lock()
    registered(tmp_path, unary + 'other = "Oslo"\n', unary, joint)
    file = tmp_path / "metrics.toml"
    file.write_text(file.read_text().replace("version = 1", "version = 2", 1))
    registry = Registry.load(file)
    assert registry.metric("m2").silent.endswith(": set other to one of them in m1")
    with pytest.raises(RegistryError, match=r"'m2' changed its words or other .* version 2"):
        registry.check()


@pytest.mark.exact
def test_candidates_and_truths_of_words_are_cleaned_as_devices_clean_them(tmp_path: Path) -> None:
    words = 'mechanism = "sfp"\nepsilon = 6.0\nfragment_epsilon = 3.0\nwidth = 256\n'
    more = "rows = 64\nfragment_rows = 64\nfragment_width = 256\n"
    registry = registered(tmp_path, words + more)
    (tmp_path / "people.csv").write_text(
        "value,count\nDepressions,3000\ndepression,500\nJoy,2000\n"
    )
    (tmp_path / "listed.txt").write_text("Depressions\ndepression\nJoy!\n")
    runner = CliRunner()
    paths = {name: str(tmp_path / name) for name in ("t.table", "people.csv", "e.csv", "r.html")}
    for command in (
        f"simulate m0 --registry {registry.path} --population {paths['people.csv']} "
        f"--table {paths['t.table']} --seed 1",
        f"decode {paths['t.table']} --part words --candidates {tmp_path / 'listed.txt'} "
        f"--out {paths['e.csv']}",
        f"report {paths['e.csv']} --truth {paths['people.csv']} --out {paths['r.html']}",
    ):
        done = runner.invoke(commands, command.split())
        assert done.exit_code == 0, done.output
    read = SavedResult.load(paths["e.csv"])
    assert {row["value"] for row in read.rows()} == {"depression", "joy"}
    assert "3,500" in (tmp_path / "r.html").read_text("utf-8")
