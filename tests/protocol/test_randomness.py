"""The samplers are exact: on given bits they answer as the definition does."""

import hmac
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp import CoinResponse, LocalHashing, RandomizedResponse, UnaryEncoding
from ldp.mechanisms.base import Mechanism
from ldp.protocol.kinds import Index
from ldp.protocol.randomness import (
    ONE,
    KeyedBits,
    ReportBits,
    SeededBits,
    SystemBits,
    bernoulli,
    uniform_below,
)
from simulations.timing import told_apart

U64 = st.integers(0, ONE - 1)


class Scripted:
    """Source of lanes of given 64-bit uniform numbers, from their top bits down."""

    def __init__(self, uniforms: list[int]) -> None:
        self.uniforms, self.position = uniforms, 63

    def draw(self, count: int) -> int:
        assert count == len(self.uniforms)
        word = sum((u >> self.position & 1) << lane for lane, u in enumerate(self.uniforms))
        self.position -= 1
        return word


@pytest.mark.exact
@given(st.lists(U64, min_size=1, max_size=9), st.integers(0, ONE), st.data())
def test_lanes_drawn_whole_have_the_same_law(
    uniforms: list[int], threshold: int, data: st.DataObject
) -> None:
    """The uniform numbers are bytes of the operating system, 8 a lane.

    Several lanes have one byte more, on which nothing depends.
    """
    uniforms[0] = min(max(threshold + data.draw(st.integers(-1, 1)), 0), ONE - 1)
    chosen, lanes = data.draw(st.integers(0, (1 << len(uniforms)) - 1)), len(uniforms)
    other = data.draw(st.integers(0, ONE))
    more = data.draw(st.binary(min_size=1, max_size=1)) if lanes > 1 else b""
    drawn = b"".join(uniform.to_bytes(8, "little") + more for uniform in uniforms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", lambda size: drawn if size == len(drawn) else b"")
        word = bernoulli(SystemBits(), threshold, lanes, chosen, other)
    assert [word >> lane & 1 for lane in range(lanes)] == [
        int(u < (other if chosen >> lane & 1 else threshold)) for lane, u in enumerate(uniforms)
    ]


class Given(SystemBits):
    """Source of top bytes and 56-bit tails of uniform numbers, in order."""

    def __init__(self, tops: bytes, tails: list[int]) -> None:
        self.tops, self.tails = tops, iter(tails)

    def draw_bytes(self, size: int) -> bytes:
        assert size == len(self.tops)
        return self.tops

    def draw(self, count: int) -> int:
        assert count == 56
        return next(self.tails)


THRESHOLD = st.integers(0, ONE)


@pytest.mark.exact
@pytest.mark.parametrize("chosen_lanes", [0, 1, 2, 65])
@given(st.integers(65, 300), THRESHOLD, THRESHOLD, st.integers(0, 1 << 32))
def test_of_many_lanes_each_compares_a_uniform_of_its_own(
    chosen_lanes: int, lanes: int, threshold: int, other: int, seed: int
) -> None:
    """Each lane has a top byte, and a tail that is drawn only where the byte does not decide.

    Bytes and tails are near those of the thresholds, where a difference of one decides.
    """
    generator, tail = np.random.default_rng(seed), (1 << 56) - 1
    chosen = set(generator.permutation(lanes)[:chosen_lanes].tolist())
    steps = [(limit, step) for limit in (threshold, other) for step in (-1, 0, 1)]
    near = [min(max((limit >> 56) + step, 0), 255) for limit, step in steps]
    ends = [min(max((limit & tail) + step, 0), tail) for limit, step in steps]
    tops = bytes(near[i] for i in generator.integers(0, 6, lanes))
    tails = [ends[i] for i in generator.integers(0, 6, 2 * lanes)]
    source = Given(tops, tails)
    word = bernoulli(source, threshold, lanes, sum(1 << lane for lane in chosen), other)

    unused = iter(tails)
    downwards = list(range(lanes - 1, -1, -1))
    passes = [(threshold, downwards, set(downwards) - chosen)]
    if chosen:
        is_few = len(chosen) * 128 <= lanes
        passes += [(other, sorted(chosen, reverse=True) if is_few else downwards, chosen)]
    for limit, order, which in passes:
        for lane in order:
            top = tops[lanes - 1 - lane]
            is_open = top == limit >> 56 and limit & tail
            uniform = top << 56 | (next(unused) if is_open else 0)
            assert lane not in which or word >> lane & 1 == (uniform < limit)
    assert list(source.tails) == list(unused)


@pytest.mark.exact
@given(st.binary(min_size=40, max_size=40), st.lists(st.integers(0, 64), max_size=20))
def test_the_bits_of_a_report_are_those_of_one_request_each_once(
    data: bytes, counts: list[int]
) -> None:
    """The first 8 bytes are read as bytes, the other 256 bits as numbers; where fewer are
    left than a number needs, 256 others are requested."""
    requests = list[int]()

    def serve(size: int) -> bytes:
        requests.append(size)
        return data if len(requests) == 1 else bytes(size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", serve)
        source = ReportBits(40, 8)
        numbers = [source.draw(count) for count in counts]
        assert source.draw_bytes(8) == data[:8]
        assert source.draw_bytes(8) == bytes(8)
    word = int.from_bytes(data[8:], "little")
    for count, number in zip(counts, numbers, strict=True):
        is_first = sum(counts) <= 256
        assert not is_first or number == word & (1 << count) - 1
        word >>= count
    left, more = 256, 0
    for count in counts:
        left, more = (left, more) if count <= left else (256, more + 1)
        left -= count
    assert requests == [40, *[32] * more, 8]


class Stepwise(SeededBits):
    """The stream of a `KeyedBits`, from a source that is drawn from bit by bit."""

    _DOMAIN, _BLOCK = KeyedBits._DOMAIN, KeyedBits._BLOCK


@pytest.mark.exact
@given(
    st.binary(min_size=32, max_size=32),
    st.integers(1, 64),
    st.integers(0, ONE),
    st.integers(0, ONE),
    st.data(),
)
def test_comparing_a_whole_keyed_stream_changes_neither_the_bits_nor_what_is_read(
    secret: bytes, lanes: int, threshold: int, other: int, data: st.DataObject
) -> None:
    chosen = data.draw(st.integers(0, (1 << lanes) - 1))
    keyed, stepwise = KeyedBits(secret, b""), Stepwise(hmac.digest(secret, b"", "sha256"))
    for _ in range(3):
        assert bernoulli(keyed, threshold, lanes, chosen, other) == bernoulli(
            stepwise, threshold, lanes, chosen, other
        )
    columns = data.draw(st.integers(2, 300))
    cells = (data.draw(st.integers(0, columns - 1)),)
    draw = Index(1, columns).draw
    assert draw(keyed, cells, threshold, 0) == draw(stepwise, cells, threshold, 0)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("mechanism", "value", "size"),
    [
        (CoinResponse(alpha=0.5, beta=0.5), "yes", 32),
        (RandomizedResponse(categories=("a", "b", "c", "d", "e"), epsilon=1.0), "a", 16),
        (LocalHashing(epsilon=2.0, rows=256, seed="00ff"), "a", 16),
    ],
)
def test_a_report_takes_one_request_whatever_it_says(
    mechanism: Mechanism, value: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request covers the coin, the row and the lie, whether the lie is sent or not."""
    requests, system, told = list[int](), os.urandom, set[bytes]()

    def counting(size: int) -> bytes:
        requests.append(size)
        return system(size)

    monkeypatch.setattr(os, "urandom", counting)
    encode = mechanism.encoder().encode
    for _ in range(60):
        requests.clear()
        told.add(encode(value))
        assert requests == [size]
    assert len(told) > 1


@pytest.mark.statistical
def test_times_that_tell_truth_from_lie_are_seen() -> None:
    """The threshold is chosen on other calls.

    Without a difference, the share told apart has a standard deviation of at most sqrt(1/4,000 +
    1/1,000) / 4 = 0.9 %, so 5 % is exceeded with probability below 1e-7. The twin's times differ by
    half of theirs, and 60 % are told apart.
    """
    generator = np.random.default_rng(0)
    truths = generator.random(10_000) < 0.8
    times = generator.normal(1e4, 100, 10_000)
    assert abs(told_apart(times.astype(np.int64), truths) - 0.5) < 0.05
    assert told_apart((times + 50 * truths).astype(np.int64), truths) > 0.55


@pytest.mark.exact
@given(st.lists(U64, min_size=1, max_size=9), st.integers(0, ONE), st.data())
def test_a_bit_is_one_exactly_when_its_uniform_is_below_the_threshold(
    uniforms: list[int], threshold: int, data: st.DataObject
) -> None:
    if data.draw(st.booleans()):  # ties are decided by the last bit, and random pairs never tie
        uniforms[0] = min(max(threshold + data.draw(st.integers(-1, 1)), 0), ONE - 1)
    word = bernoulli(Scripted(uniforms), threshold, len(uniforms))
    assert [word >> lane & 1 for lane in range(len(uniforms))] == [
        int(u < threshold) for u in uniforms
    ]


@pytest.mark.exact
def test_certain_events_are_certain() -> None:
    assert bernoulli(SystemBits(), 0, 100) == 0
    assert bernoulli(SystemBits(), ONE, 100) == (1 << 100) - 1


class Listed:
    """Source that returns the listed numbers, one for each call."""

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
    """It does not repeat the noise of an encoder either that has drawn before."""
    source = SystemBits()
    mechanism = UnaryEncoding(categories=tuple(map(str, range(300))), epsilon=1.0)
    encoder = mechanism.encoder(source)
    encoder.encode("0")
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, source.draw(256).to_bytes(32, "little") + encoder.encode("0"))
        os._exit(0)
    os.waitpid(child, 0)
    drawn = os.read(read, 1024)
    assert int.from_bytes(drawn[:32], "little") != source.draw(256)
    assert drawn[32:] != encoder.encode("0")
