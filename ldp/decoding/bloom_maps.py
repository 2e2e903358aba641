"""Maps of candidates: the cells of each row that their hashes name, in Bloom filters or
sketches."""

from collections.abc import Sequence

from ldp.arrays import Points
from ldp.errors import DecodeError
from ldp.protocol.bloom import PolynomialBloom
from ldp.protocol.cityhash import Bloom
from ldp.protocol.hashing import PolynomialRows
from ldp.tables.table import Table

MOST_BYTES = 4 << 30
"""Largest size of a map: 16 million candidates of two hashes in 128 cohorts."""


def filters(table: Table) -> Bloom:
    """Return the filters of a table's rows. A sketch's row is a filter of one hash."""
    addressing = table.mechanism.addressing
    if isinstance(addressing, PolynomialRows):
        return PolynomialBloom(addressing.seed, addressing.width, 1)
    assert isinstance(addressing, Bloom)
    return addressing


def candidate_bits(table: Table, candidates: Sequence[str]) -> Points:
    """Return the columns that the candidates' hashes name: shape (candidates, rows, hashes). Raises
    DecodeError for more candidates than a map of MOST_BYTES holds."""
    from ldp import bulk

    addressing, rows = filters(table), table.mechanism.shape.rows
    fitting = MOST_BYTES // (rows * addressing.hashes * (1 if addressing.bits <= 256 else 2))
    if len(candidates) > fitting:
        raise DecodeError(
            f"{len(candidates):,} candidates are too many: {fitting:,} fit into a map of "
            f"{MOST_BYTES >> 30} GiB"
        )
    return bulk.bloom_map(addressing, rows, candidates)


def has_single_bits(places: Points | None) -> bool:
    """Return whether a map is that of basic RAPPOR: one hash and one cohort, in which every
    candidate has a bit of its own, whose debiased count is the candidate's."""
    if places is None or places.shape[1:] != (1, 1):
        return False
    return len({*places.flat}) == len(places)


def require_places(table: Table, candidates: int, places: Points) -> None:
    """Raise DecodeError unless `places` is a map of `candidates` candidates for the table: compiled
    code checks no bounds."""
    addressing, (rows, bits) = filters(table), table.mechanism.shape
    shape = (candidates, rows, addressing.hashes)
    if places.dtype.kind != "u" or places.shape != shape:
        raise DecodeError(f"places must be unsigned integers of shape {shape}")
    if int(places.max()) >= bits:
        raise DecodeError(f"places name a bit above {bits - 1}")
