"""Maps of candidates: which cells of each row their hashes name, in a Bloom filter or a sketch."""

from collections.abc import Sequence

from ldp.arrays import Points
from ldp.errors import DecodeError
from ldp.protocol.hashing import Md5Bloom, PolynomialBloom, PolynomialRows
from ldp.tables.table import Table

"""The bits that each candidate's hashes set, shape (candidates, cohorts, hashes)."""
MOST_BYTES = 4 << 30
"""Of a map: 16 million candidates of two hashes in 128 cohorts."""


def filters(table: Table) -> PolynomialBloom | Md5Bloom:
    """How the candidates of a table are hashed, a sketch's row being a filter of one hash."""
    addressing = table.mechanism.addressing
    if isinstance(addressing, PolynomialRows):
        return PolynomialBloom(addressing.seed, addressing.width, 1)
    assert isinstance(addressing, PolynomialBloom | Md5Bloom)
    return addressing


def bloom_map(table: Table, candidates: Sequence[str]) -> Points:
    """The map of the candidates of a table, hashed; raises DecodeError for more than a map of
    MOST_BYTES holds."""
    from ldp import bulk

    addressing, rows = filters(table), table.mechanism.shape.rows
    fitting = MOST_BYTES // (rows * addressing.hashes * (1 if addressing.bits <= 256 else 2))
    if len(candidates) > fitting:
        raise DecodeError(
            f"{len(candidates):,} candidates are too many: {fitting:,} fit into a map of "
            f"{MOST_BYTES >> 30} GiB"
        )
    return bulk.bloom_map(addressing, rows, candidates)


def require_places(table: Table, candidates: int, places: Points) -> None:
    """Raises DecodeError for a map that is not one of the table's: compiled code checks no
    bounds."""
    addressing, (rows, bits) = filters(table), table.mechanism.shape
    shape = (candidates, rows, addressing.hashes)
    if places.dtype.kind != "u" or places.shape != shape:
        raise DecodeError(f"places must be unsigned integers of shape {shape}")
    if int(places.max()) >= bits:
        raise DecodeError(f"places name a bit above {bits - 1}")
