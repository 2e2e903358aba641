"""Published production settings, as data. Parameters that a company did not publish are listed as
unknown, and a metric that uses the preset has to give them.

Sources: Apple, "Learning with Privacy at Scale" (2017) and "Differential Privacy Overview";
Chromium, components/rappor, and Erlingsson et al. 2014; the table: Boenisch 2019, table 5.2.
Apple's epsilon is per donation, as its overview says. So a day's loss is epsilon times the day's
donations. The table calls it a day's budget. Chrome's presets differ from Chrome in the hash only.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ldp.errors import ParameterError
from ldp.mechanisms.base import CatalogueMechanism
from ldp.mechanisms.catalogue import from_parameters


class Preset(NamedTuple):
    """Preset: parameters as in metrics.toml, their source, and the names of unpublished ones.
    `donations`: reports of a device in a day, `dictionary_size`: number of values that are counted,
    each None where it was not published."""

    parameters: Mapping[str, Any]
    source: str
    unknown: tuple[str, ...] = ()
    donations: int | None = None
    dictionary_size: int | None = None


_PAPER = "Apple 2017, Learning with Privacy at Scale"
_OVERVIEW = "Apple, Differential Privacy Overview"
_CHROME = "Chromium, components/rappor; Erlingsson et al. 2014, RAPPOR"
_SKETCH = ("mechanism", "rows", "width")


def _apple(mechanism: str, epsilon: float, rows: int, width: int, *published: int) -> Preset:
    """Return a preset of Apple's. `published`: its donations, and the size of its dictionary."""
    parameters = {"mechanism": mechanism, "epsilon": epsilon, "rows": rows, "width": width}
    return Preset(parameters, f"{_PAPER}; {_OVERVIEW}", (), *published)


def _chrome(bits: int, f: float) -> Preset:
    parameters = {"bits": bits, "hashes": 2, "cohorts": 128, "f": f, "p": 0.25, "q": 0.75}
    return Preset({"mechanism": "rappor", **parameters}, _CHROME)


PRESETS: dict[str, Preset] = {
    "apple-emoji": _apple("cms", 4.0, 65536, 1024, 1, 2600),
    "apple-safari-autoplay": _apple("cms", 8.0, 65536, 1024, 2, 250_000),
    "apple-safari-energy": _apple("hcms", 4.0, 1024, 32768, 2, 250_000),
    "apple-health-types": _apple("cms", 2.0, 65536, 256, 1),
    "apple-new-words": Preset(
        {"mechanism": "sfp", "epsilon": 8.0, "rows": 2048, "width": 1024},
        _PAPER,
        unknown=("fragment_epsilon", "fragment_rows", "fragment_width"),
    ),
    "apple-quicktype": Preset({"epsilon": 8.0}, _OVERVIEW, _SKETCH, 2),
    "apple-emoji-suggestions": Preset({"epsilon": 4.0}, _OVERVIEW, _SKETCH, 1),
    "apple-lookup-hints": Preset({"epsilon": 4.0}, _OVERVIEW, _SKETCH, 2),
    "apple-safari-crash": Preset({"epsilon": 4.0}, _OVERVIEW, _SKETCH, 2),
    "chrome-uma": _chrome(32, 0.5),
    "chrome-safe-browsing": _chrome(8, 0.5),
    "chrome-etld-plus-one": _chrome(128, 0.5),
    "chrome-uma-low-frequency": _chrome(32, 0.25),
    "chrome-safe-browsing-low-frequency": _chrome(8, 0.25),
    "chrome-etld-plus-one-low-frequency": _chrome(128, 0.25),
}
COMPLETE = {name: preset for name, preset in PRESETS.items() if not preset.unknown}
"""Presets without unknown parameters, except the public seed: every metric has its own."""


def preset_mechanism(name: str) -> CatalogueMechanism:
    """Return the mechanism of a preset, with the seed "00". Raises ParameterError for a preset with
    unknown parameters, and KeyError for another name."""
    preset = PRESETS[name]
    if preset.unknown:
        raise ParameterError(
            f"{name}: {', '.join(preset.unknown)} were never published; "
            "give them in metrics.toml and name the metric"
        )
    return from_parameters({**preset.parameters, "seed": "00"})
