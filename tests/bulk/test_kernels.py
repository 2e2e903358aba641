"""The bulk sampler and the bulk counter do what their scalar definitions say, word by word."""

import subprocess
import sys
import threading
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp import bulk
from ldp.arrays import AnyInts
from ldp.bulk import counting, sampling
from ldp.bulk.compiled import FEW, by_rows, lanes
from ldp.bulk.counting import count_bits
from ldp.bulk.geometry_kernels import _points, vectors
from ldp.bulk.sampling import _fill_below, fit_subsets
from ldp.protocol.randomness import ONE, bernoulli
from tests.statistics import ALPHA, law_p

U64 = st.integers(0, ONE - 1)
EDGES = [0, 1, 3 << 62, 1 << 63, (1 << 63) - 1, ONE - 2, ONE - 1]


class Recorded:
    """Generator that keeps the blocks of words which it returns."""

    def __init__(self, seed: int) -> None:
        self.generator, self.blocks = np.random.default_rng(seed), list[list[int]]()

    def integers(self, low: int, high: int, size: int, dtype: type) -> NDArray[np.uint64]:
        drawn = self.generator.integers(low, high, size=size, dtype=dtype).astype(np.uint64)
        self.blocks.append(drawn.tolist())
        return drawn


class Listed:
    """Source that returns the given words; `used` counts them."""

    def __init__(self, words: list[int]) -> None:
        self.words, self.used = words, 0

    def draw(self, count: int) -> int:
        assert count == 64
        self.used += 1
        return self.words[self.used - 1]


def one_by_one(blocks: list[list[int]], threshold: int, words: int) -> list[int]:
    """Return what the scalar sampler draws from the same words.

    It leaves a block where 64 words may not be enough. It draws to the end for lanes that tie with
    every 1 bit of the threshold so far; the bulk sampler does not, because such a lane can no
    longer be below.
    """
    found: list[int] = []
    for block in blocks:
        at = 0
        while len(found) < words and at + 64 <= len(block):
            source = Listed(block[at:])
            found.append(bernoulli(source, threshold, 64))
            needed = 64 - ((threshold & -threshold).bit_length() - 1) if threshold else 0
            at += min(source.used, needed)
    return found


@pytest.mark.exact
@given(st.sampled_from(EDGES) | U64, st.integers(0, 300), st.integers(0, 99))
def test_packed_bits_are_those_of_the_scalar_sampler(threshold: int, words: int, seed: int) -> None:
    recorded = Recorded(seed)
    generator = cast(np.random.Generator, recorded)
    drawn = bulk.packed_bernoulli(generator, threshold, words)
    assert drawn.tolist() == one_by_one(recorded.blocks, threshold, words)


@pytest.mark.exact
@given(st.lists(U64, min_size=64, max_size=64), st.sampled_from(EDGES) | U64, st.data())
def test_every_lane_of_a_word_compares_its_own_uniform(
    uniforms: list[int], threshold: int, data: st.DataObject
) -> None:
    tied = data.draw(st.integers(-1, 1))  # the last bit decides; random pairs never tie
    uniforms[data.draw(st.integers(0, 63))] = min(max(threshold + tied, 0), ONE - 1)
    stream = [
        sum((u >> position & 1) << lane for lane, u in enumerate(uniforms))
        for position in range(63, -1, -1)
    ]
    below = np.zeros(1, dtype=np.uint64)
    done = _fill_below(below, 0, np.uint64(threshold), np.array(stream, dtype=np.uint64))
    assert done == 1
    assert [int(below[0]) >> lane & 1 for lane in range(64)] == [
        int(u < threshold) for u in uniforms
    ]


@pytest.mark.exact
def test_a_word_is_not_begun_where_the_stream_might_end_within_it() -> None:
    below, stream = np.zeros(1, dtype=np.uint64), np.zeros(63, dtype=np.uint64)
    assert _fill_below(below, 0, np.uint64(1 << 63), stream) == 0
    assert _fill_below(below, 0, np.uint64(1 << 63), np.append(stream, stream[:1])) == 1


@pytest.mark.statistical
@pytest.mark.parametrize("threshold", [1 << 62, 0x1E84_8000_0000_0001, (1 << 63) + 12345])
def test_the_number_of_ones_of_a_word_is_binomial(threshold: int) -> None:
    """The ones of each of 40,000 words are Binomial(64, p).

    Each threshold fails falsely with probability ALPHA.
    """
    from scipy.stats import binom

    words = bulk.packed_bernoulli(np.random.default_rng(3), threshold, 40_000)
    ones = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).sum(axis=1).astype(np.int64)

    def law(p: float) -> dict[int, float]:
        return {k: float(binom.pmf(k, 64, p)) for k in range(65)}

    assert law_p(ones, law(threshold / ONE)) > ALPHA
    assert law_p(ones, law(threshold / ONE + 0.01)) < ALPHA  # the twin: 1 % more


@pytest.mark.exact
@given(
    st.integers(1, 5),
    st.integers(1, 150),
    st.integers(0, 40),
    st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]),
    st.integers(0, 99),
    st.data(),
)
def test_counted_bits_are_the_sums_of_unpacked_bits(
    rows: int, columns: int, reports: int, kind: type, seed: int, data: st.DataObject
) -> None:
    generator = np.random.default_rng(seed)
    at = generator.integers(0, rows, size=reports, dtype=np.uint32)
    payloads = generator.integers(0, 256, size=(reports, -(-columns // 8)), dtype=np.uint8)
    start = data.draw(st.integers(0, rows))
    stop = data.draw(st.integers(start, rows))
    expected: AnyInts = np.full((rows, columns), 7, dtype=kind)
    bits: AnyInts = np.unpackbits(payloads, axis=1, count=columns, bitorder="little").astype(kind)
    owned = (start <= at) & (at < stop)
    np.add.at(expected, at[owned], bits[owned])
    counts: AnyInts = np.full((rows, columns), 7, dtype=kind)
    count_bits(counts, at, payloads, start, stop)
    assert (counts == expected).all()
    assert counts.dtype == expected.dtype


@pytest.mark.exact
@pytest.mark.parametrize("columns", [27, 64, 200])
def test_python_fits_subsets_as_compiled_code_does(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words, and the generator's state after them, are equal. A set has a third of the columns, and
    as many of those touched as is said."""
    fitted = []
    for way in (sampling._fit.function, sampling._fit.machine_code):
        monkeypatch.setattr(sampling, "_fit", way)
        generator = np.random.default_rng(columns)
        words = generator.integers(0, 1 << 64, size=(50, -(-columns // 64)), dtype=np.uint64)
        touched = generator.permuted(np.tile(np.arange(columns), (50, 1)), axis=1)[:, :2]
        sizes = generator.integers(0, 3, 50)
        with np.errstate(over="ignore"):
            fit_subsets(words, touched, sizes, columns, columns // 3, generator)
        is_named = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
        assert (is_named[:, :columns].sum(axis=1) == columns // 3).all()
        assert not is_named[:, columns:].any()
        assert (np.take_along_axis(is_named, touched, 1) == (np.arange(2) < sizes[:, None])).all()
        fitted.append((words.tolist(), generator.integers(0, 1 << 64, dtype=np.uint64)))
    assert fitted[0] == fitted[1]


@pytest.mark.exact
@pytest.mark.parametrize(("field", "dimension"), [(2, 5), (5, 3), (13, 2)])
def test_python_picks_points_as_compiled_code_does(field: int, dimension: int) -> None:
    every = (field**dimension - 1) // (field - 1)
    normals, numbers = (places.ravel() for places in np.mgrid[:every, : field ** (dimension - 1)])
    inverses = np.array([0, *(pow(number, -1, field) for number in range(1, field))])
    for is_inside in (False, True):
        some = numbers < (every - 1) // field if is_inside else np.ones(numbers.size, bool)
        shared = normals[some], np.full(some.sum(), is_inside), numbers[some], inverses, dimension
        points = _points.function(*shared)
        assert (points == _points.machine_code(*shared)).all()
        products = vectors(normals[some], field, dimension) * vectors(points, field, dimension)
        assert ((products.sum(axis=1) % field == 0) == is_inside).all()


@pytest.mark.exact
def test_python_counts_and_compares_bits_as_compiled_code_does() -> None:
    generator = np.random.default_rng(5)
    stream = generator.integers(0, 1 << 64, size=2000, dtype=np.uint64)
    rows = generator.integers(0, 3, size=40, dtype=np.uint32)
    payloads = generator.integers(0, 256, size=(40, 5), dtype=np.uint8)
    for loop in ("function", "machine_code"):
        below, counts = np.zeros(300, np.uint64), np.zeros((3, 37), np.uint16)
        filled = getattr(_fill_below, loop)(below, 0, np.uint64(3 << 60 | 5), stream)
        getattr(count_bits, loop)(counts, rows, payloads, 0, 2)
        if loop == "function":
            expected = filled, below.tolist(), counts.tolist()
    assert expected == (filled, below.tolist(), counts.tolist())
    assert 0 < filled < 300


@pytest.mark.exact
@pytest.mark.parametrize(
    ("most", "chance"), [(3, 0.12), (60, 0.5), (2000, 1e-3), (50, 0.6), (400, 0.3), (0, 0.2)]
)
def test_many_binomial_numbers_are_those_of_numpy(most: int, chance: float) -> None:
    """Every number and the generator's state are equal to numpy's."""
    reports = np.random.default_rng(3).integers(0, most + 1, 512)
    held = np.random.default_rng(4).integers(0, reports[:, None] + 1, (512, 512))
    expected, generator = np.random.default_rng(5), np.random.default_rng(5)
    cells = np.ones_like(held)
    bulk.add_binomials(cells, reports, held, chance, generator)
    assert (cells == 1 + expected.binomial(reports[:, None] - held, chance)).all()
    assert generator.random() == expected.random()


@pytest.mark.slow
@pytest.mark.exact
def test_where_nothing_is_writable_loops_are_compiled_without_a_cache() -> None:
    """In a read-only container without a home, numba finds no place for its cache.

    The twin, numba's own decorator, raises there.
    """
    script = """
from numba import njit
from numba.core import caching

def nowhere(self):
    raise OSError("read-only file system")

caching._CacheLocator.ensure_cache_path = nowhere
from ldp.bulk.compiled import compiled

def twice(x):
    return 2 * x

try:
    njit(cache=True)(compiled)
except RuntimeError:
    print("no place")
import ldp.bulk, ldp.bulk.md5, ldp.regression.descent
from ldp import RandomizedResponse
from ldp.server import TableBuilder, decode
answers = RandomizedResponse(categories=("yes", "no"), epsilon=1.0)
builder, encoder = TableBuilder(answers), answers.encoder()
builder.add_all(encoder.encode("yes") for _ in range(100))
print(decode(builder.build()).reports, compiled()(twice)(21))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.split("\n")[:2] == ["no place", "100 42"], done.stderr


@pytest.mark.exact
def test_machine_code_leaves_a_loop_of_python_to_numpy() -> None:
    """The loop of all numbers at once became a loop of Python once the module was compiled."""
    places = np.random.default_rng(1).integers(0, 8, (100, 6, 2), dtype=np.uint8)
    cells = np.random.default_rng(2).random((6, 8))
    compiled_sums = counting._sum_cells.machine_code(places, cells)
    assert vars(counting)["lanes"] is lanes
    assert np.allclose(counting._sum_cells.function(places, cells), compiled_sums, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.exact
def test_without_numba_loops_return_the_same() -> None:
    """The tests of kernels and of sums by two moduli hold in a Python that has no numba."""
    script = """
import sys
sys.modules["numba"] = None
import pytest
sums = "tests/audit/test_audit_conditions.py::test_sums_by_two_are_those_of_a_slow_way"
sys.exit(pytest.main(["-q", "-m", "not slow", "-p", "no:cacheprovider", *sys.argv[1:], sums]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, __file__], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.exact
def test_a_large_input_is_announced_once_where_numba_is_missing() -> None:
    """Reports are drawn in blocks, so the calls count together; the command prints one line."""
    script = """
import sys
sys.modules["numba"] = None
import numpy as np
from ldp.bulk.compiled import LARGE
from ldp.bulk.counting import sum_cells
from ldp import cli

def many(**_):
    for call in range(20):
        sum_cells(np.zeros((LARGE // 4, 1, 1), dtype=np.uint8), np.ones((1, 8)))
        if call in (0, 19):
            print(call, file=sys.stderr)

cli.commands.main = many
cli.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    first, line, last = done.stderr.splitlines()
    assert (first, last) == ("0", "19")
    assert line.startswith("ldp: a fast answer needs the package numba: install ldp")


@pytest.mark.exact
@pytest.mark.parametrize("size", [0, FEW - 1, FEW])
def test_only_much_work_starts_threads(size: int) -> None:
    def work(part: slice) -> tuple[int, range]:
        return threading.get_ident(), range(5)[part]

    parts = by_rows(work, 5, size)
    assert [row for _, part in parts for row in part] == [*range(5)]
    assert ({thread for thread, _ in parts} == {threading.get_ident()}) == (size < FEW)
