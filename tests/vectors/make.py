"""Compute what the golden vectors hold, for the whole catalogue."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from ldp.errors import DecodeError
from ldp.mechanisms import (
    BitFlip,
    CatalogueMechanism,
    CoinResponse,
    CountMeanSketch,
    HierarchicalHistogram,
    JointReport,
    RandomizedResponse,
    Rappor,
    RapporNgrams,
    RegressionMoments,
    SequenceFragmentPuzzle,
)
from ldp.mechanisms.base import Example
from ldp.mechanisms.base import threshold as as_threshold
from ldp.mechanisms.dummies import Dummies
from ldp.mechanisms.joint_base import parts_of, values_of_parts
from ldp.mechanisms.numeric import Numeric
from ldp.mechanisms.secrets import message as as_message
from ldp.protocol.hashing import PolynomialRows, derived_seed, value_point
from ldp.protocol.randomness import KeyedBits, SeededBits, bernoulli, uniform_below
from ldp.protocol.wire import HEADER_BYTES
from ldp.server import Table, decode, decode_mean
from ldp.tables.joint_table import JointTable, empty_builder
from tests.examples import WHOLE

BERNOULLI = (
    (1 << 63, 8, 0, 0),
    (2**64 // 3, 64, 0, 0),
    (2**64 - 1, 16, 0, 0),
    (2**64, 4, 0, 0),
    (0, 4, 0, 0),
    (3 << 62, 1000, 0, 0),
    (2**64 // 3, 64, 0xF0F0, 2**64 // 7),
    (0, 16, 0xFF, 2**64),
)
"""Cases of `bernoulli`: threshold, lanes, chosen, chosen_threshold."""
AWKWARD = (
    RandomizedResponse(categories=("", "é", "😂", 'a"\\b', "\n\t\x00\x7f", "/"), epsilon=1.5),
    CoinResponse(alpha=2.5e-07, beta=0.0001),
    CoinResponse(alpha=1e-05, beta=0.1),
    CountMeanSketch(epsilon=0.1 + 0.2, rows=1, width=1 << 24, seed="ff" * 64),
)
"""Mechanisms whose parameters are not easily written as JSON."""
WIDE = (
    Example(
        CountMeanSketch(epsilon=4.0, rows=257, width=9, seed="00ff"), ("", "naïve", "😂", "a" * 40)
    ),
    Example(
        Rappor(
            bits=12,
            hashes=3,
            cohorts=2,
            f=0.3,
            p=0.2,
            q=0.9,
            scheme="rappor-md5-1byte",
            permanent="keyed",
        ),
        ("", "naïve", "😂", "a" * 40),
    ),
    Example(
        SequenceFragmentPuzzle(
            epsilon=0.8,
            fragment_epsilon=0.3,
            rows=3,
            width=9,
            fragment_rows=3,
            fragment_width=11,
            seed="00ff",
            length=6,
            alphabet="aé😂",
            fragment=3,
            tag_bits=11,
        ),
        ("", "aé😂aé", "😂" * 6),
    ),
    Example(
        RapporNgrams(
            epsilon=0.8,
            fragment_epsilon=0.3,
            bits=11,
            hashes=2,
            cohorts=3,
            seed="00ff",
            length=6,
            alphabet="aé😂",
        ),
        ("", "aé😂aé", "😂" * 6),
    ),
)
"""Mechanisms with more than a byte of row, of bits or of values, and with unusual parameters.

These are letters beyond ASCII, and epsilons that do not split.
"""
SECRET = bytes(range(32))
VALUES = ("", "lol", "naïve", "😂", "a" * 40)


EXAMPLES = (*WHOLE, *WIDE, *Dummies.examples())


def primitives() -> dict[str, Any]:
    """Return vectors of bits, samplers, points and polynomials."""
    bits = SeededBits(b"vectors")
    rows = PolynomialRows("00ff", 1000)
    return {
        "seeded_bits": {
            "seed_hex": b"vectors".hex(),
            "draws": [[count, hex(bits.draw(count))] for count in (1, 8, 9, 64, 1024, 40_000, 3)],
        },
        "bernoulli": [
            {
                "seed_hex": b"b".hex(),
                "threshold": str(threshold),
                "lanes": lanes,
                "chosen": hex(chosen),
                "chosen_threshold": str(above),
                "word": hex(bernoulli(SeededBits(b"b"), threshold, lanes, chosen, above)),
            }
            for threshold, lanes, chosen, above in BERNOULLI
        ],
        "keyed_bits": [
            [SECRET.hex(), message.hex(), hex(KeyedBits(SECRET, message).draw(4000))]
            for message in (b"", as_message("permanent", "keyboard/words/1") + b"\x05")
        ],
        "fingerprints": [
            [mechanism.parameters(), mechanism.fingerprint.hex()] for mechanism in AWKWARD
        ],
        "uniform_below": [
            {
                "seed_hex": b"u".hex(),
                "bound": bound,
                "number": uniform_below(SeededBits(b"u"), bound),
            }
            for bound in (1, 2, 3, 1000, 65_536)
        ],
        "points": [[value, str(value_point(value))] for value in VALUES],
        "polynomial_rows": {
            "seed": rows.seed,
            "width": rows.width,
            "row_digests": [[row, rows.row_digest(row).hex()] for row in (0, 1, 65_535)],
            "columns": [
                [value, row, rows.cells(value_point(value), row)[0]]
                for value in VALUES
                for row in (0, 1, 65_535)
            ],
        },
        "derived_seed": [["keyboard", "emoji", "1"], derived_seed("keyboard", "emoji", "1")],
    }


def of_mechanism(name: str) -> dict[str, Any]:
    """Return every example of one mechanism: reports from a seed, their table, their estimates."""
    examples = [example for example in EXAMPLES if example.mechanism.name == name]
    return {"examples": [_example(example) for example in examples]}


def _example(example: Example) -> dict[str, Any]:
    mechanism = example.mechanism
    encoder = mechanism.encoder(SeededBits(b"golden"))
    are_tuples = isinstance(mechanism, JointReport) or getattr(mechanism, "by", None)
    spelled: Any = (lambda value: [*map(str, value)]) if are_tuples else _spelled
    values: list[Any] = [spelled(value) for value in example.values] * 8
    records = [encoder.encode(value) for value in example.values * 8]
    reports = [report for record in records for report in mechanism.split(record)]
    builder = empty_builder(mechanism)
    builder.add_all(reports)
    built = builder.build()
    tables = built.tables if isinstance(built, JointTable) else (built,)
    good = reports[0]
    return {
        "parameters": mechanism.parameters(),
        "fingerprint": mechanism.fingerprint.hex(),
        "epsilon": None if mechanism.needs_shuffler else mechanism.cost.epsilon,
        "thresholds": [
            {
                "touched": str(as_threshold(part.channel.touched)),
                "untouched": str(as_threshold(part.channel.untouched)),
            }
            for part in parts_of(mechanism)
        ],
        "seed_hex": b"golden".hex(),
        "reports": [[value, record.hex()] for value, record in zip(values, records, strict=True)],
        "bad_reports": {
            "truncated": good[:-1].hex(),
            "trailing byte": (good + b"\0").hex(),
            "format version": (bytes([good[0] + 1]) + good[1:]).hex(),
            "mechanism id": (good[:1] + bytes([good[1] ^ 0x80]) + good[2:]).hex(),
            "fingerprint": (good[:2] + bytes([good[2] ^ 1]) + good[3:]).hex(),
            "payload out of range": (good[:-1] + b"\xff").hex(),
        }
        | _row_out_of_range(mechanism, good),
        "tables": [
            {"counts": table.counts.tolist(), "reports": table.reports.tolist()} for table in tables
        ],
        "estimates": [
            _estimates(table, sorted({str(value) for value in _singles(own)}))
            for table, (_, own) in zip(
                tables, values_of_parts(mechanism, example.values), strict=True
            )
        ],
    } | ({"memoised": _memoised(mechanism, example.values * 8)} if mechanism.is_memoisable else {})


def _spelled(value: Any) -> str | list[str]:
    """Return a value as text; a set of answers is a list in alphabetical order."""
    return sorted(map(str, value)) if isinstance(value, frozenset) else str(value)


def _singles(values: Iterable[Any]) -> Iterable[Any]:
    """Return the values, or the answers of sets."""
    return chain.from_iterable(v if isinstance(v, frozenset) else (v,) for v in values)


def _memoised(mechanism: Any, values: Sequence[Any]) -> list[dict[str, Any]]:
    """Return reports under a secret: first per value, then of an epoch."""
    return [
        {
            "secret_hex": SECRET.hex(),
            "metric": "keyboard/words/1",
            "epoch": epoch,
            "seed_hex": b"golden".hex(),
            "reports": [[_spelled(value), encoder.encode(value).hex()] for value in values],
        }
        for epoch in (None, "2026-W47")
        for encoder in [
            mechanism.encoder(
                SeededBits(b"golden"), secret=SECRET, epoch=epoch, metric="keyboard/words/1"
            )
        ]
    ]


def _row_out_of_range(mechanism: CatalogueMechanism, good: bytes) -> dict[str, str]:
    """Return a report of the first row that does not exist; None where the bytes cannot name
    one."""
    size, rows = mechanism.layout.row_bytes, mechanism.layout.rows
    if rows == 1 << 8 * size:
        return {}
    row = rows.to_bytes(size, "little")
    return {"row out of range": (good[:HEADER_BYTES] + row + good[HEADER_BYTES + size :]).hex()}


def _estimates(table: Table, candidates: list[str]) -> list[list[Any]] | None:
    """Return candidate, count and standard error; None where nothing decodes the table yet."""
    mechanism = table.mechanism
    if isinstance(mechanism, Numeric):
        mean = decode_mean(table)
        return [["mean", round(mean.mean, 9), round(mean.std_error, 9)]]
    if isinstance(mechanism, RegressionMoments | HierarchicalHistogram):
        return None
    if isinstance(mechanism, BitFlip):
        candidates = list(mechanism.labels)
    else:
        addressing = mechanism.candidate_addressing
        candidates = [c for c in candidates if addressing.cells(addressing.point(c), 0)]
    method = "mean-sketch" if isinstance(mechanism.candidate_addressing, PolynomialRows) else "auto"
    try:
        estimates = decode(table, candidates, method=method)
    except DecodeError:
        return None
    if float("inf") in estimates.std_error:  # which is no number of JSON
        return None
    numbers = zip(candidates, estimates.count, estimates.std_error, strict=True)
    return [[value, round(float(n), 9), round(float(error), 9)] for value, n, error in numbers]


FILES: dict[str, Callable[[], dict[str, Any]]] = {"primitives.json": primitives} | {
    f"{name}.json": (lambda name=name: of_mechanism(name))
    for name in dict.fromkeys(example.mechanism.name for example in EXAMPLES)
}
