"""Bloom filters of single values (Bloom 1970), hashed by row polynomials.

`docs/wire.md` specifies them for other languages.
"""

from dataclasses import dataclass
from functools import cached_property

from ldp.protocol.hashing import PolynomialRows, value_point


@dataclass(frozen=True)
class PolynomialBloom:
    """Addressing by a Bloom filter a row: hash i of row j is row `hashes` j + i of
    `PolynomialRows`.

    `seed`: as for `PolynomialRows`; `bits`: size of the filter. Two hashes of a value may be equal.
    """

    seed: str
    bits: int
    hashes: int

    @cached_property
    def rows(self) -> PolynomialRows:
        return PolynomialRows(self.seed, self.bits)

    point = staticmethod(value_point)

    def cells(self, point: int, row: int) -> tuple[int, ...]:
        first = row * self.hashes
        return tuple(sorted({self.rows.column(point, first + i) for i in range(self.hashes)}))
