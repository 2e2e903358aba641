"""What the long runs share: a bar beside its figure, and a result file that says what made it."""

import json
import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Bar:
    """One line of a result: a figure, what it must be, whether it is."""

    what: str
    figure: float
    wanted: str
    met: bool


RESULTS = "simulations/results"
"""Folder, from the top of the checkout, of what campaigns and studies write."""


def shown(bars: Iterable[Bar]) -> int:
    """Prints the bars; the exit status, 1 when one is missed."""
    missed = 0
    for bar in bars:
        print(f"{'ok  ' if bar.met else 'MISS'} {bar.figure:.4g}  {bar.what} (wanted {bar.wanted})")
        missed |= not bar.met
    return int(missed)


def provenance() -> dict[str, str]:
    """Return the time, commit and machine of a run. Call it at the start, for the code that runs;
    changed files of results do not make the commit dirty."""
    commit = _git("describe", "--always", "--abbrev=12")
    is_changed = _git(
        "status", "--porcelain", "--untracked-files=no", "--", f":(top,exclude){RESULTS}"
    )
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": f"{commit}-dirty" if is_changed else commit,
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
    }


def _git(*words: str) -> str:
    """What git prints; nothing outside of a checkout."""
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def write(path: Path | None, made: Mapping[str, str], result: Mapping[str, Any]) -> None:
    """The result as JSON, after its provenance, dataclasses as their fields; None writes none."""
    if path is not None:
        text = json.dumps({**made, **result}, indent=1, allow_nan=False, default=asdict)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
