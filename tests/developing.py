"""Make a registry for development, or the same one for people, which several files share."""

from pathlib import Path

from ldp.registry import Registry

REGISTRY = """
[product]
name = "weather"
{development}
[group.places]
window = "1m"
window_epsilon = 63.0
lifetime_epsilon = 6000.0
[metric.city]
version = 1
group = "places"
description = "Where people ask for the weather"
owners = ["team@example.org"]
expires = 2999-12-31
mechanism = "rr"
epsilon = 3.0
categories = ["Oslo", "Bergen", "Hell"]
reports_per_window = 20
[metric.word]
version = 1
group = "places"
description = "What people type"
owners = ["team@example.org"]
expires = 2999-12-31
mechanism = "cms"
epsilon = 3.0
rows = 16
width = 64
"""


def registry(folder: Path, development: str = "development = true") -> Registry:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "metrics.toml"
    path.write_text(REGISTRY.format(development=development))
    return Registry.load(path)
