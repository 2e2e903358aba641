"""The estimate of one value, drawn from its exact law: no table, no reports.

Of one report a client, those that touch the value's cell are reported there with `touched`, all
others with `untouched`, each by itself; so what is counted for a value is the sum of two binomials.
With a mean sketch the touching ones are the holders and whoever collides with them: another value y
shares the cell in c_y of k rows, c_y binomial (k, 1/m), and each of its holders is in one of these
rows with probability c_y / k. Valid for mechanisms whose value has a cell of its own or a cell in
every row of a mean sketch.
"""

import numpy as np

from ldp.arrays import Floats, Ints
from ldp.errors import ParameterError
from ldp.mechanisms import Mechanism
from ldp.mechanisms.sketch import MeanSketch

POOLED = 1e-3
"""Part of the variance: values whose collisions add less than that together collide holder by
holder."""
_CHUNK = 1 << 22


def draw_estimates(
    mechanism: Mechanism,
    *,
    held: int,
    others: Ints,
    draws: int,
    generator: np.random.Generator,
) -> Floats:
    """Return independent estimates of the count of a value that `held` clients hold, `others`
    (int64, shape (values,)) the rest: float64, shape (draws,); each with hash functions of its own.

    The hash functions are independent where ours are 3-wise: mean and variance are the same. Raises
    ParameterError for a mechanism of cohorts.
    """
    reports = held + int(others.sum())
    channel = mechanism.support
    if not isinstance(mechanism, MeanSketch):
        if mechanism.shape.rows > 1:
            raise ParameterError("a mechanism of cohorts has no estimate from one cell")
        touching = np.full(draws, held)
    else:
        touching = held + _colliding(mechanism, held, others, draws, generator)
    naming = generator.binomial(touching, float(channel.touched))
    naming += generator.binomial(reports - touching, float(channel.untouched))
    holders = np.asarray(channel.holders(naming, reports), dtype=np.float64)
    if not isinstance(mechanism, MeanSketch):
        return holders
    m = mechanism.columns
    return m / (m - 1) * (holders - reports / m)


def _colliding(
    mechanism: MeanSketch,
    held: int,
    others: Ints,
    draws: int,
    generator: np.random.Generator,
) -> Ints:
    """Return how many holders of other values are in a row in which theirs shares the value's
    cell."""
    rows, columns = mechanism.shape
    counts = np.sort(others[others > 0])[::-1]
    reports = held + int(counts.sum())
    shares = (counts / reports) ** 2
    variance = mechanism.variance(reports, held / reports, float(shares.sum()))
    left = np.append(np.cumsum(shares[::-1])[::-1], 0.0) * reports**2 / (rows * (columns - 1))
    single = int(np.argmax(left <= POOLED * variance))
    colliding = generator.binomial(int(counts[single:].sum()), 1 / columns, draws)
    chunk = max(1, _CHUNK // max(1, single))
    for start in range(0, draws if single else 0, chunk):
        size = min(chunk, draws - start)
        shared = generator.binomial(rows, 1 / columns, (size, single))
        colliding[start : start + size] += generator.binomial(counts[:single], shared / rows).sum(
            axis=1
        )
    return np.asarray(colliding, dtype=np.int64)
