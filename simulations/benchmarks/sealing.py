"""Measure how many reports a device seals and a collector opens in a second of one core.

`python -m simulations.benchmarks.sealing` prints both rates beside `openssl speed ecdhx25519`, and
beside the two X25519 operations that sealing needs at least. The bar of both is half of openssl's
rate; it exits 1 when one misses it. Each figure is that of the quickest of many short rounds,
openssl's of three.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from datetime import date

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from ldp.protocol.batch import Item
from ldp.protocol.sealed_report import Content
from ldp.protocol.sealing_keys import PrivateKey, PublicKey
from simulations.benchmarks.measuring import fastest

ROUNDS, CALLS, SIZE = 500, 20, 256


def rate(work: Callable[[], object]) -> float:
    """Return calls a second."""
    return CALLS / fastest(lambda: [work() for _ in range(CALLS)], ROUNDS)


def openssl_rate() -> float:
    """Return X25519 operations a second, as openssl itself measures them."""
    command = ["openssl", "speed", "-seconds", "1", "ecdhx25519"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (figure,) = re.findall(r"X25519\).*\s([0-9.]+)\s*$", printed, re.MULTILINE)
    return float(figure)


def main() -> int:
    private = X25519PrivateKey.generate()
    key = PrivateKey(private)
    public, content = (
        PublicKey(key.public),
        Content(date(2026, 11, 23), Item("word", 1, bytes(140))),
    )
    sealed = public.seal("typing", SIZE, content)
    figures = {
        "sealed": rate(lambda: public.seal("typing", SIZE, content)),
        "opened": rate(lambda: key.open(sealed)),
    }
    pairs = rate(lambda: X25519PrivateKey.generate().exchange(private.public_key()))
    least = max(openssl_rate() for _ in range(3))
    print(f"openssl speed ecdhx25519: {least:,.0f} a second; a key pair and a secret: {pairs:,.0f}")
    for name, figure in figures.items():
        share = figure / least
        verdict = "ok  " if share >= 0.5 else "MISS"
        print(f"{verdict} {name}: {figure:,.0f} a second, {1e6 / figure:.1f} us, {share:.2f} of it")
    return int(min(figures.values()) < least / 2)


if __name__ == "__main__":
    sys.exit(main())
