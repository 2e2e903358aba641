"""Maps of RAPPOR's candidates: hashed, or read from a folder where an earlier decoding kept them.

A map is kept in a file named by a digest of all that it depends on: the addressing, the number of
cohorts, the candidates in their order, and the format. The file is a .npy array and a BLAKE2b of
its bytes. It is read, memory-mapped, only when its type, its shape, its length and that checksum
are right, and hashed again otherwise. The checksum has no key: it finds damage, not forgery.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ldp.errors import DecodeError
from ldp.files import replacing
from ldp.hashing import Md5Bloom, PolynomialBloom, value_bytes
from ldp.table import Table

Map = NDArray[np.unsignedinteger]
"""The bits that each candidate's hashes set, shape (candidates, cohorts, hashes)."""
MOST_BYTES = 4 << 30
"""Of a map: 16 million candidates of two hashes in 128 cohorts."""
_FORMAT = b"ldp map v1"
_CHECKSUM = 32


def bloom_map(table: Table, candidates: Sequence[str], folder: str | Path | None = None) -> Map:
    """The map of the candidates of a table of Bloom filters, kept in `folder` where one is given.

    Raises DecodeError for more candidates than a map of MOST_BYTES holds.
    """
    from ldp import kernels  # late: numba takes half a second to import

    addressing, rows = table.mechanism.addressing, table.mechanism.shape.rows
    assert isinstance(addressing, PolynomialBloom | Md5Bloom)
    kind: np.dtype[np.unsignedinteger] = np.dtype(np.uint8 if addressing.bits <= 256 else np.uint16)
    shape = (len(candidates), rows, addressing.hashes)
    fitting = MOST_BYTES // (rows * addressing.hashes * kind.itemsize)
    if len(candidates) > fitting:
        raise DecodeError(
            f"{len(candidates):,} candidates are too many: {fitting:,} fit into a map of "
            f"{MOST_BYTES >> 30} GiB"
        )
    if folder is None:
        return kernels.bloom_map(addressing, rows, candidates)
    path = Path(folder) / f"{_name(repr((addressing, rows)), candidates)}.npy"
    kept = _read(path, kind, shape)
    if kept is not None:
        return kept
    made = kernels.bloom_map(addressing, rows, candidates)
    with replacing(path) as part, part.open("wb") as file:
        np.save(file, made, allow_pickle=False)
        file.write(_checksum(made))
    return made


def _name(described: str, candidates: Sequence[str]) -> str:
    spelled = [value_bytes(candidate) for candidate in candidates]
    lengths = np.array([len(described), *map(len, spelled)], dtype="<u8")
    digest = hashlib.blake2b(digest_size=20, person=_FORMAT)
    for part in (lengths.tobytes(), described.encode(), b"".join(spelled)):
        digest.update(part)
    return digest.hexdigest()


def _checksum(made: Map) -> bytes:
    return hashlib.blake2b(made.reshape(-1).data, digest_size=_CHECKSUM, person=_FORMAT).digest()


def _read(path: Path, kind: np.dtype[np.unsignedinteger], shape: tuple[int, ...]) -> Map | None:
    """The map in that file; None unless it is whole."""
    try:
        kept = np.lib.format.open_memmap(path, mode="r")  # of arrays only, nothing is unpickled
        with path.open("rb") as file:
            file.seek(-_CHECKSUM, 2)
            checksum = file.read()
            whole = file.tell() == kept.offset + kept.nbytes + _CHECKSUM
    except (OSError, ValueError, OverflowError):
        return None  # none, foreign, or cut off
    whole &= kept.dtype == kind and kept.shape == shape and kept.flags.c_contiguous
    return kept if whole and _checksum(kept) == checksum else None
