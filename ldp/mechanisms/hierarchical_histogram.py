"""Hierarchical histogram: percentiles and ranges of a number, of all people or by category.

Nobody needs to know the range of the numbers.

Source: Cormode, Kulkarni and Srivastava 2019, "Answering range queries under local differential
privacy", section 4.3 (each report is about one level of a tree, and takes all of epsilon). The bins
are those of `ldp/mechanisms/bins.py`; `ldp/decoding/distribution.py` combines the levels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

from ldp.errors import ParameterError
from ldp.mechanisms.addressing import Identity, require_categories
from ldp.mechanisms.base import AnswerKind, Case, Mechanism, Shape
from ldp.mechanisms.bins import Bins, EqualBins, RelativeBins
from ldp.mechanisms.numeric import Range, require_outside, require_range
from ldp.protocol.channel import (
    EXACT,
    Channel,
    convert,
    keep_probability,
    nearest_whole,
    require_epsilon,
    require_whole,
)
from ldp.protocol.hashing import Value
from ldp.protocol.kinds import Bits

MOST_BINS = 1 << 11
"""Largest number of bins: a report has a bit for each."""
MOST_COLUMNS = 1 << 14
"""Largest number of bins of all categories together: a report has 2 kilobytes."""
MAGNITUDES = (1e-6, 1e9)
"""Magnitudes between which the bins of an unknown range lie by default."""


@dataclass(frozen=True)
class Levels:
    """Addressing of numbers by a tree over bins: column c of row r is the c-th group of
    `branching`**(`rows` - 1 - r) neighbouring bins. So the last row has the bins themselves. With
    categories, in `by`, each category has a tree. Its groups follow the groups of the category
    before it."""

    bins: Bins
    branching: int
    rows: int
    by: tuple[str, ...] = ()

    @cached_property
    def of(self) -> Identity:
        """Addressing of the categories."""
        return Identity(self.by)

    def point(self, value: Value) -> int:
        """Return the bin of a number, from 0. With categories a value is a pair (category, number),
        and the bins of each category are numbered after those of the category before it."""
        if not self.by:
            return self.bins.place(value)
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise ParameterError("a value must be a pair of a category and a number")
        category, number = value
        return self.of.point(category) * len(self.bins) + self.bins.place(number)

    def width(self, row: int) -> int:
        """Return the number of bins in a group of this row."""
        return int(self.branching ** (self.rows - 1 - row))

    def groups(self, row: int) -> int:
        """Return the number of groups of a category in this row."""
        return -(-len(self.bins) // self.width(row))

    def cells(self, point: int, row: int) -> Sequence[int]:
        category, place = divmod(point, len(self.bins))
        return (category * self.groups(row) + place // self.width(row),)


@dataclass(frozen=True, kw_only=True)
class HierarchicalHistogram(Mechanism):
    """Histogram of numbers in levels, from which every percentile follows.

    Report: (level, one bit for each bin). The level is uniform. In level r the bins stand in groups
    of `branching`**(rows - 1 - r) neighbours, and the bit of the number's own group is 1 with
    probability e**(epsilon/4) / (e**(epsilon/4) + 1), any other with 1 / (e**(3 epsilon/4) + 1),
    rounded towards more privacy. Two numbers differ in two bits.

    Without `bounds` nobody needs to know the range: every doubling between the two `magnitudes`,
    widened to powers of two, has `buckets` equal bins (a power of two, 16 by default), so a bin is
    at most 1 / `buckets` as wide as the numbers in it are large. Smaller numbers share one bin,
    larger ones another. If `signed`, negative numbers have bins too, else they are taken for 0.
    With `bounds` there are `buckets` (256) equal bins of the stated range.

    With categories, in `by`, a value is a pair (category, number), and a report has the bits of all
    categories: two pairs differ in two bits, too.

    >>> latency = HierarchicalHistogram(epsilon=2.0)
    >>> len(latency.bins), latency.shape.rows, latency.branching, latency.cost.epsilon <= 2.0
    (802, 5, 4, True)
    >>> latency.bins.edges[300:302]
    (0.421875, 0.4375)
    >>> by_version = HierarchicalHistogram(epsilon=2.0, by=("2.0", "2.1"))
    >>> by_version.shape.columns, len(by_version.encoder().encode(("2.1", 0.83)))
    (1604, 212)

    `branching`: 2 or more, by default nearest to e**(epsilon/2) / 3, at least 4. `epsilon` and
    `outside` as for `Numeric`; `by`: 2 or more different texts. Raises ParameterError for anything
    else, for more than 2048 bins, and for more than 16384 of all categories together.
    """

    name = "hierarchical-histogram"
    wire_id = 25
    kind = Bits
    cases = (
        Case(0.5, 3, 100.0, epsilon=2.0, magnitudes=(1.0, 8.0), buckets=1, branching=2),
        Case(-1.5, 0, 1.75, epsilon=1.0, magnitudes=(1.0, 2.0), buckets=2, signed=True),
        Case(0.0, 4.5, 10, epsilon=3.0, bounds=(0.0, 10.0), buckets=6, branching=3),
        Case(
            *(("2.0", 0.5), ("2.1", 3), ("2.1", 0.5)),
            epsilon=2.0,
            bounds=(0.0, 5.0),
            buckets=5,
            branching=2,
            by=("2.0", "2.1"),
        ),
    )

    epsilon: float
    bounds: Range | None = None
    buckets: int = 0
    magnitudes: Range = MAGNITUDES
    signed: bool = False
    branching: int = 0
    outside: str = "clip"
    by: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        convert(self, epsilon=require_epsilon)
        require_outside(self.outside)
        if type(self.signed) is not bool:
            raise ParameterError("signed must be true or false")
        if self.buckets == 0 and type(self.buckets) is int:
            object.__setattr__(self, "buckets", 16 if self.bounds is None else 256)
        require_whole(self.buckets, "buckets", 1, MOST_BINS)
        self._require_bins()
        if len(self.bins) > MOST_BINS:
            raise ParameterError(f"there must be at most {MOST_BINS} bins, not {len(self.bins)}")
        if self.by is not None:
            convert(self, by=require_categories)
            if len(self.by) * len(self.bins) > MOST_COLUMNS:
                raise ParameterError(
                    f"{len(self.by)} categories of {len(self.bins)} bins are more than "
                    f"{MOST_COLUMNS:,} bins: take fewer categories, fewer buckets, or narrower "
                    "magnitudes"
                )
        if self.branching == 0 and type(self.branching) is int:
            third = EXACT.divide(EXACT.exp(Decimal(self.epsilon) / 2), 3)
            branching = nearest_whole(third, 4)
            object.__setattr__(self, "branching", min(branching, len(self.bins)))
        require_whole(self.branching, "branching", 2, len(self.bins))
        # raises for too small an epsilon
        _ = self.channel

    def _require_bins(self) -> None:
        convert(self, magnitudes=require_range)
        if self.bounds is not None:
            convert(self, bounds=require_range)
            require_whole(self.buckets, "buckets", 2, MOST_BINS)
            if self.magnitudes != MAGNITUDES or self.signed:
                raise ParameterError("magnitudes and signed go with an unknown range, no bounds")
        elif self.magnitudes[0] < 2.0**-100:
            raise ParameterError("magnitudes must be at least 2**-100")
        elif self.buckets & (self.buckets - 1):
            raise ParameterError("buckets must be a power of two where the range is unknown")

    @property
    def answers(self) -> AnswerKind:
        return "numbers by category" if self.by else "number"

    @cached_property
    def bins(self) -> Bins:
        """Bins of the numbers."""
        if self.bounds is not None:
            return EqualBins(self.bounds, self.outside, self.buckets)
        low, high = self.magnitudes
        mantissa, exponent = math.frexp(high)
        most, least = exponent - (mantissa == 0.5), math.frexp(low)[1] - 1
        return RelativeBins(least, max(most, least + 1), self.buckets, self.signed, self.outside)

    @cached_property
    def channel(self) -> Channel:
        quarter = Fraction(self.epsilon) / 4
        return Channel(
            touched=keep_probability(quarter, others=1),
            untouched=1 - keep_probability(3 * quarter, others=1),
            differing=(1, 1),
        )

    @cached_property
    def addressing(self) -> Levels:
        return Levels(self.bins, self.branching, self.shape.rows, self.by or ())

    @cached_property
    def shape(self) -> Shape:
        bins, rows = len(self.bins), 1
        while self.branching**rows < bins:
            rows += 1
        return Shape(rows, bins * len(self.by or ("",)))
