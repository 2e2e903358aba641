"""The peers' environment, `.venv-peers`, made on demand, and the peers' figures from it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

PEERS = {"pure_ldp": "pure-ldp 1.2.0", "multi_freq_ldpy": "multi-freq-ldpy 0.2.5"}
"""Module here that measures it -> name and version."""
MEASURED = """\
The peer of the unary and subset rows is multi-freq-ldpy 0.2.5, of all others pure-ldp 1.2.0.
Both run at the same settings, in memory, without a store or bytes on a wire.
pure-ldp decoded 100 of the 2,600 candidates, one call each: the figure is per candidate."""
ENVIRONMENT = Path(".venv-peers")
PINS = Path(__file__).with_name("peers.txt")


class PeerMissing(Exception):
    """The peers cannot be installed or do not run here."""


def figures() -> dict[str, float]:
    """The peers' figures by key; raises PeerMissing with the reason, in one line."""
    python = _environment()
    measured: dict[str, float] = {}
    for module in PEERS:
        measured |= json.loads(_output([python, "-m", f"simulations.benchmarks.{module}"]))
    return measured


def _environment() -> Path:
    """The interpreter of the environment; makes it anew when the pins have changed."""
    python, made_from = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "made-from.txt"
    if made_from.exists() and made_from.read_bytes() == PINS.read_bytes():
        return python
    is_311 = sys.version_info[:2] == (3, 11)
    base = sys.executable if is_311 else shutil.which("python3.11")
    if base is None:
        raise PeerMissing("it needs Python 3.11")
    _output([base, "-m", "venv", "--clear", ENVIRONMENT])
    _output([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", PINS])
    shutil.copyfile(PINS, made_from)
    return python


def _output(command: list[str | Path]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeerMissing((done.stderr.strip().splitlines() or ["no reason given"])[-1])
    return done.stdout
