"""Run the command line in this process, on a registry and a population of cities."""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ldp import cli

CITIES = Path(__file__).parent / "data" / "cities.csv"


REGISTRY = """\
[product]
name = "weather"

[group.places]
window = "1d"
window_epsilon = 8.0
lifetime_epsilon = 64.0

[metric.city]
version = 1
group = "places"
description = "Where people ask for the weather"
owners = ["team@example.org"]
expires = 2027-12-31
mechanism = "cms"
epsilon = 4.0
rows = 128
width = 256
dictionary = "cities.txt"

[metric.home]
version = 1
group = "places"
description = "Where people live"
owners = ["team@example.org"]
expires = 2027-12-31
mechanism = "rr"
epsilon = 3.0
categories = "cities.txt"
"""


NAMES = [line.rsplit(",", 1)[0].strip('"') for line in CITIES.read_text().splitlines()[1:]]

WITHOUT_SERVER = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"numpy", "scipy", "sklearn", "numba", "pyarrow", "jinja2"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""
"""Code after which a process finds no package of the extra `server`."""


def run(words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a command line in this process; return its exit status."""
    monkeypatch.setattr(sys, "argv", ["ldp", *words.split()])
    try:
        cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def settings(folder: Path, **values: Any) -> tuple[str, str]:
    """Return the words that name a new file of these settings in a folder."""
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
    path = folder / f"settings-{hashlib.sha256(text.encode()).hexdigest()[:8]}.toml"
    path.write_text(text)
    return "--config", str(path)


SIMULATE = "simulate city --registry metrics.toml --population cities.csv"
