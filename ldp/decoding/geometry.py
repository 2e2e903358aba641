"""Tables of a projective geometry: counts of the points of each candidate's hyperplane.

The points whose first number other than 0 is at one place are a block of the table: a function A of
the m numbers w that follow it, over a field of s. The hyperplane of a candidate (.., a, v), with a
at that place, has the points with a + <w, v> = 0. The sums of A over all w with the same product
with v are an inverse Fourier transform of s numbers, which the transform of A has at the multiples
of v (the "projection slice"): each block is transformed once and each line through 0 once, so all K
points cost about as much as summing over the points of one candidate.
"""

import numpy as np

from ldp.arrays import AnyInts, Floats, Ints
from ldp.decoding.direct import estimate_counts, known_points
from ldp.mechanisms.projective_geometry import Hyperplanes, points, vector
from ldp.tables.estimates import Estimates, Rule
from ldp.tables.table import Table


def decode(table: Table, candidates: tuple[str, ...], rule: Rule) -> Estimates:
    """Return estimates of a table of `pgr`. Time: K log K for K points; memory: three complex
    numbers a point. Raises DecodeError for a candidate that is no category."""
    known = known_points(table.mechanism, candidates)
    addressing = table.mechanism.addressing
    assert isinstance(addressing, Hyperplanes)
    field, dimension = addressing.field, addressing.dimension
    normals = np.array([vector(point, field, dimension) for point in known])
    return estimate_counts(
        table, candidates, count_incidences(table.counts[0], normals, field), rule
    )


def count_incidences(counts: AnyInts, normals: Ints, field: int) -> Ints:
    """Return for each of the vectors `normals`, shape (candidates, t), over the `field` the sum of
    the `counts`, shape (K,), of all points that are orthogonal to it: int64, shape (candidates,).
    Exact up to 2**52 reports, after rounding."""
    dimension = normals.shape[1]
    inverses = np.array([0, *(pow(number, -1, field) for number in range(1, field))])
    sums = np.zeros(len(normals), dtype=np.int64)
    for size in range(dimension):  # how many numbers follow the first
        block = counts[points(field, size) : points(field, size + 1)].astype(np.float64)
        place = dimension - 1 - size
        first, rest = normals[:, place], normals[:, place + 1 :]
        is_line = rest.any(axis=1)
        sums[~is_line] += np.where(first[~is_line], 0, int(block.sum()))
        if is_line.any():
            sums[is_line] += _along(block, first[is_line], rest[is_line], inverses)
    return sums


def _along(
    block: Floats,
    first: Ints,
    rest: Ints,
    inverses: Ints,
) -> Ints:
    """Return for each candidate, with numbers `first` (a) and `rest` (v, not 0), shape (candidates,
    m), the sum of the block over all w with a + <w, v> = 0: int64, shape (candidates,)."""
    field, size = inverses.size, rest.shape[1]
    weights = field ** np.arange(size)[::-1]
    leading = np.take_along_axis(rest, (rest != 0).argmax(axis=1)[:, None], axis=1)[:, 0]
    lines, line = np.unique(
        rest * inverses[leading][:, None] % field @ weights, return_inverse=True
    )
    directions = lines[:, None] // weights % field
    transformed = np.fft.fftn(block.reshape((field,) * size)).reshape(-1)
    slices = np.empty((lines.size, field), dtype=np.complex128)
    for c in range(field):
        slices[:, c] = transformed[c * directions % field @ weights]
    sums = np.fft.ifft(slices, axis=1).real
    return np.asarray(np.rint(sums[line, -first * inverses[leading] % field]), dtype=np.int64)
