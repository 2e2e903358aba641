"""MD5 of one value after every row number, all rows side by side.

google/rappor's clients hash this way (`ldp.protocol.md5_bloom.Md5Bloom`). A decoder needs 128
digests or more for each candidate. The rows' messages differ in their first word only. So a round
is one loop over the rows, which the compiler turns into vector code. Source: RFC 1321; a test holds
it to `hashlib`.
"""

import math
from typing import Any

import numpy as np

from ldp.bulk.compiled import compiled, lanes

_START = np.array([0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476], dtype=np.uint32)
_SINES = np.array([int(2**32 * abs(math.sin(i + 1))) for i in range(64)], dtype=np.uint32)
_TURNS = np.array(
    [(7, 12, 17, 22), (5, 9, 14, 20), (4, 11, 16, 23), (6, 10, 15, 21)], dtype=np.uint32
)
_BLOCK = 64
_32 = np.uint32(32)


@compiled()
def md5_of_rows(value: Any, rows: int) -> Any:
    """Return MD5(row as 4 bytes big-endian || value) of the rows 0..rows-1, `value` as uint8: four
    little-endian words, uint32, shape (4, rows)."""
    size = 4 + value.size
    message = np.zeros((size + 8) // _BLOCK * _BLOCK + _BLOCK, dtype=np.uint8)
    message[4:size] = value
    message[size] = 0x80
    for i in range(8):
        message[message.size - 8 + i] = (8 * size >> 8 * i) & 0xFF
    # little-endian, as numba's targets are
    written = message.view(np.uint32)
    state, words = np.empty((4, rows), dtype=np.uint32), np.empty((16, rows), dtype=np.uint32)
    for i in range(4):
        state[i] = _START[i]
    for first in range(0, written.size, 16):
        for i in range(16):
            words[i] = written[first + i]
        if first == 0:
            for row in lanes(rows):
                words[0, row] = (
                    (row & 0xFF) << 24 | (row & 0xFF00) << 8 | (row >> 8) & 0xFF00 | row >> 24
                )
        _add_block(state, words)
    return state


@compiled()
def _add_block(state: Any, words: Any) -> None:
    a, b, c, d = state[0].copy(), state[1].copy(), state[2].copy(), state[3].copy()
    for i in range(64):
        part = i >> 4
        turn, sine = _TURNS[part, i & 3], _SINES[i]
        word = words[(i, 5 * i + 1, 3 * i + 5, 7 * i)[part] & 15]
        for row in lanes(a.size):
            if part == 0:
                mixed = (b[row] & c[row]) | (~b[row] & d[row])
            elif part == 1:
                mixed = (d[row] & b[row]) | (~d[row] & c[row])
            elif part == 2:
                mixed = b[row] ^ c[row] ^ d[row]
            else:
                mixed = c[row] ^ (b[row] | ~d[row])
            turned = np.uint32(a[row] + mixed + sine + word[row])
            a[row] = b[row] + ((turned << turn) | (turned >> (_32 - turn)))
        a, b, c, d = d, a, b, c
    state[0] += a
    state[1] += b
    state[2] += c
    state[3] += d
