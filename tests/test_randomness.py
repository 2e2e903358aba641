"""The samplers are exact: on given bits they answer as the definition does."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.randomness import PROBABILITY_ONE, SeededBits, SystemBits, bernoulli, uniform_below

U64 = st.integers(0, PROBABILITY_ONE - 1)


class Scripted:
    """Lanes of given 64-bit uniforms, handed out from their top bits down."""

    def __init__(self, uniforms: list[int]) -> None:
        self.uniforms, self.position = uniforms, 63

    def draw(self, count: int) -> int:
        assert count == len(self.uniforms)
        word = sum((u >> self.position & 1) << lane for lane, u in enumerate(self.uniforms))
        self.position -= 1
        return word


@pytest.mark.exact
@given(st.lists(U64, min_size=1, max_size=9), st.integers(0, PROBABILITY_ONE), st.data())
def test_a_bit_is_one_exactly_when_its_uniform_is_below_the_threshold(
    uniforms: list[int], threshold: int, data: st.DataObject
) -> None:
    if data.draw(st.booleans()):  # ties are decided by the last bit, and random pairs never tie
        uniforms[0] = min(max(threshold + data.draw(st.integers(-1, 1)), 0), PROBABILITY_ONE - 1)
    word = bernoulli(Scripted(uniforms), threshold, len(uniforms))
    assert [word >> lane & 1 for lane in range(len(uniforms))] == [
        int(u < threshold) for u in uniforms
    ]


@pytest.mark.exact
def test_certain_events_are_certain() -> None:
    assert bernoulli(SystemBits(), 0, 100) == 0
    assert bernoulli(SystemBits(), PROBABILITY_ONE, 100) == (1 << 100) - 1


class Listed:
    """Hands out the given numbers, each for a call."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers

    def draw(self, count: int) -> int:
        number = self.numbers.pop(0)
        assert number < 1 << count
        return number


@pytest.mark.exact
def test_uniform_below_rejects_and_never_folds() -> None:
    assert uniform_below(Listed([7, 5, 4]), 5) == 4
    assert [uniform_below(Listed([n]), 8) for n in range(8)] == list(range(8))


@pytest.mark.exact
def test_uniform_below_one_draws_nothing() -> None:
    assert uniform_below(Listed([0]), 1) == 0


@pytest.mark.exact
@given(st.binary(max_size=40), st.lists(st.integers(0, 200), max_size=60))
def test_seeded_bits_are_one_stream_whatever_the_sizes(seed: bytes, sizes: list[int]) -> None:
    stream, whole = SeededBits(seed), SeededBits(seed)
    total = sum((size + 7) // 8 for size in sizes)
    data = whole.draw(8 * total).to_bytes(total, "little")
    for size in sizes:
        taken, data = data[: (size + 7) // 8], data[(size + 7) // 8 :]
        assert stream.draw(size) == int.from_bytes(taken, "little") & ((1 << size) - 1)


@pytest.mark.exact
def test_a_seed_is_not_shown() -> None:
    assert "secret" not in repr(SeededBits(b"secret"))


@pytest.mark.exact
def test_a_forked_child_does_not_repeat_its_parents_noise() -> None:
    source = SystemBits()
    source.draw(8)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, source.draw(256).to_bytes(32, "little"))
        os._exit(0)
    os.waitpid(child, 0)
    assert int.from_bytes(os.read(read, 32), "little") != source.draw(256)
