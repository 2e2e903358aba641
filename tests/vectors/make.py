"""What the golden vectors hold; generic over the catalogue."""

from collections.abc import Callable
from typing import Any

from ldp.hashing import PolynomialRows, derived_seed, value_point
from ldp.mechanisms.base import Example
from ldp.mechanisms.base import threshold as as_threshold
from ldp.randomness import SeededBits, bernoulli, uniform_below
from ldp.server import TableBuilder, decode
from tests.examples import CATALOGUED

VALUES = ("", "lol", "naïve", "😂", "a" * 40)


def primitives() -> dict[str, Any]:
    """Bits, samplers, points, polynomials."""
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
                "word": hex(bernoulli(SeededBits(b"b"), threshold, lanes)),
            }
            for threshold, lanes in ((1 << 63, 8), (2**64 // 3, 64), (2**64 - 1, 16), (2**64, 4))
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
    """Every example of one mechanism: reports from a seed, their table, their estimates."""
    examples = [example for example in CATALOGUED if example.mechanism.name == name]
    return {"examples": [_example(example) for example in examples]}


def _example(example: Example) -> dict[str, Any]:
    mechanism = example.mechanism
    encoder = mechanism.encoder(SeededBits(b"golden"))
    values = [str(value) for value in example.values] * 8
    reports = [encoder.encode(value) for value in values]
    builder = TableBuilder(mechanism)
    builder.add_all(reports)
    table = builder.build()
    candidates = [str(value) for value in example.values if mechanism.cells(value, 0)]
    estimates = decode(table, candidates)
    good = reports[0]
    return {
        "parameters": mechanism.parameters(),
        "fingerprint": mechanism.fingerprint.hex(),
        "thresholds": {
            "touched": str(as_threshold(mechanism.channel.touched)),
            "untouched": str(as_threshold(mechanism.channel.untouched)),
        },
        "epsilon": mechanism.cost.epsilon,
        "seed_hex": b"golden".hex(),
        "reports": [[value, report.hex()] for value, report in zip(values, reports, strict=True)],
        "bad_reports": {
            "truncated": good[:-1].hex(),
            "trailing byte": (good + b"\0").hex(),
            "format version": (bytes([good[0] + 1]) + good[1:]).hex(),
            "mechanism id": (good[:1] + bytes([good[1] ^ 0x80]) + good[2:]).hex(),
            "fingerprint": (good[:2] + bytes([good[2] ^ 1]) + good[3:]).hex(),
            "payload out of range": (good[:-1] + b"\xff").hex(),
        },
        "table": {"counts": table.counts.tolist(), "reports": table.reports.tolist()},
        "estimates": [
            [value, round(float(count), 9), round(float(error), 9)]
            for value, count, error in zip(
                candidates, estimates.count, estimates.std_error, strict=True
            )
        ],
    }


FILES: dict[str, Callable[[], dict[str, Any]]] = {"primitives.json": primitives} | {
    f"{name}.json": (lambda name=name: of_mechanism(name))
    for name in dict.fromkeys(example.mechanism.name for example in CATALOGUED)
}
