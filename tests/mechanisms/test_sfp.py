"""SFP on the device: what spells a word, what is refused, the split of epsilon, what is cut off."""

from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp import SequenceFragmentPuzzle
from ldp.errors import ParameterError
from ldp.protocol.spelling import PAD

BASE: dict[str, Any] = {
    "epsilon": 8.0,
    "fragment_epsilon": 3.0,
    "rows": 16,
    "width": 8,
    "seed": "00ff",
    "fragment_rows": 4,
    "fragment_width": 8,
    "length": 6,
    "alphabet": "abc",
    "fragment": 2,
}


class NoBits:
    def draw(self, count: int) -> int:
        raise AssertionError("a bit was drawn")


@pytest.mark.exact
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": float("nan")}, "epsilon must be > 0"),
        ({"fragment_epsilon": 8.0}, "fragment_epsilon must be below epsilon"),
        ({"fragment_epsilon": float("inf")}, "epsilon must be > 0 and at most 64"),
        ({"length": 0}, "length must be a whole number from 1 to 64"),
        ({"length": 6.0}, "length must be a whole number"),
        ({"length": 5}, "multiple of fragment"),
        ({"fragment": 0}, "fragment must be a whole number"),
        ({"tag_bits": 17}, "tag_bits must be a whole number from 1 to 16"),
        ({"alphabet": "a"}, "2 or more different letters"),
        ({"alphabet": "aba"}, "2 or more different letters"),
        ({"alphabet": ["a", "b"]}, "alphabet must be a text"),
        ({"alphabet": "ab\0"}, "character 0"),
        ({"alphabet": "a\ud800"}, "not valid Unicode"),
        ({"fragment_rows": 0}, "fragment_rows must be"),
        ({"rows": 0}, "rows must be a whole number"),
        ({"fragment_width": 1}, "width must be a whole number"),
        ({"seed": "xyz"}, "seed must be"),
        ({"seed": 5}, "seed must be text"),
        ({"seed": "\ud800"}, "not valid Unicode"),
    ],
)
def test_impossible_parameters_are_one_clear_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        SequenceFragmentPuzzle(**{**BASE, **change})


@pytest.mark.exact
def test_fragments_have_as_many_rows_for_every_position() -> None:
    with pytest.raises(ParameterError, match="rows must be a multiple of the positions"):
        replace(SequenceFragmentPuzzle(**BASE).fragments, rows=4)


@pytest.mark.exact
@pytest.mark.parametrize("value", ["abcabca", "abd", "ab" + PAD, b"\xff", b"abcabca", 7])
def test_what_is_no_word_is_refused_before_a_bit_is_drawn(value: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        SequenceFragmentPuzzle(**BASE).encoder(NoBits()).encode(value)
    assert "abd" not in str(caught.value)
    assert caught.value.__context__ is caught.value.__cause__ is None


@pytest.mark.exact
def test_fragments_of_a_word_stand_in_the_rows_of_their_positions() -> None:
    part = SequenceFragmentPuzzle(**BASE).fragments
    places, word = part.addressing, "abca" + 2 * PAD
    tag = places.tag(word)
    for row in range(part.rows):
        start = row // 4 * 2
        point = places.fragment_point(tag, word[start : start + 2])
        assert part.cells("abca", row) == (places.rows.column(point, row),)


@pytest.mark.exact
@given(st.floats(0.01, 60, allow_subnormal=False), st.floats(0.01, 0.99), st.sampled_from([5, 28]))
def test_the_parts_never_cost_more_than_was_asked_for_whatever_the_apps_decimals(
    epsilon: float, share: float, digits: int
) -> None:
    fragments = epsilon * share
    with localcontext() as context:
        context.prec = digits
        puzzle = SequenceFragmentPuzzle(
            **{**BASE, "epsilon": epsilon, "fragment_epsilon": fragments}
        )
        cost = puzzle.cost.epsilon
    asked = [part.epsilon for _, part in puzzle.parts]  # type: ignore[attr-defined]
    assert sum(map(Fraction, asked)) <= Fraction(epsilon)
    assert cost <= epsilon
    with localcontext() as context:
        context.prec = 80
        exact = sum((part.channel.exact_epsilon for _, part in puzzle.parts), Decimal(0))
        assert Decimal(cost) >= exact - Decimal("1e-55")
