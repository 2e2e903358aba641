"""Make the peers' environment, `.venv-peers`, on demand, and return the peers' figures from it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

PEERS = {
    "pure_ldp": "pure-ldp 1.2.0",
    "multi_freq_ldpy": "multi-freq-ldpy 0.2.5",
    "toolbox": "ldp-toolbox 0.1.3",
    "clip": "clip-protocol 2.4",
}
"""Modules here that measure a peer, each with the peer's name and version."""
MEASURED = """\
Of the peers that do a row's work, the fastest is shown. All run at the same settings, in memory,
without a store or bytes on a wire, with floats and an ordinary generator.
pure-ldp decoded 100 of the 2,600 candidates, one call each: the figure is per candidate."""
ENVIRONMENT = Path(".venv-peers")
PINS = Path(__file__).with_name("peers.txt")
ALONE = Path(__file__).with_name("peers_alone.txt")
"""File of the peers that are installed without their dependencies, which other peers exclude."""


class Figure(NamedTuple):
    """Figure of the best peer, and the peer's name."""

    value: float
    name: str


class PeerMissing(Exception):
    """Error: the peers cannot be installed or do not run here."""


def figures(keys: Sequence[str] = ()) -> dict[str, Figure]:
    """Return the least figure of all peers by key, for `keys` or for all keys.

    Raises PeerMissing with the reason in one line.
    """
    python, least = _environment(), dict[str, Figure]()
    for module, name in PEERS.items():
        output = _output([python, "-m", f"simulations.benchmarks.{module}", *keys])
        for key, value in json.loads(output).items():
            least[key] = min(Figure(value, name.split()[0]), least.get(key, Figure(inf, "")))
    return least


def _environment() -> Path:
    """Return the environment's interpreter; make the environment anew when the pins have
    changed."""
    python, made_from = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "made-from.txt"
    pins = PINS.read_text() + ALONE.read_text()
    if made_from.exists() and made_from.read_text() == pins:
        return python
    is_311 = sys.version_info[:2] == (3, 11)
    base = sys.executable if is_311 else shutil.which("python3.11")
    if base is None:
        raise PeerMissing("it needs Python 3.11")
    _output([base, "-m", "venv", "--clear", ENVIRONMENT])
    install: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    _output([*install, "-r", PINS])
    _output([*install, "--no-deps", "-r", ALONE])
    made_from.write_text(pins)
    return python


def _output(command: list[str | Path]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeerMissing((done.stderr.strip().splitlines() or ["no reason given"])[-1])
    return done.stdout
