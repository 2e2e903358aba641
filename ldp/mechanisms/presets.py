"""Published production settings, as data. What a company did not publish is not guessed here.

Source of Apple's: "Learning with Privacy at Scale" (2017) and Apple's "Differential Privacy
Overview"; epsilon is per donation, so a day's loss is epsilon times the donations of that day.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Preset(NamedTuple):
    """Parameters as metrics.toml would give them, and where they were published."""

    parameters: Mapping[str, Any]
    source: str


_APPLE = "Apple 2017, Learning with Privacy at Scale, and Differential Privacy Overview"


def _apple(mechanism: str, epsilon: float, rows: int, width: int) -> Preset:
    parameters = {"mechanism": mechanism, "epsilon": epsilon, "rows": rows, "width": width}
    return Preset(parameters, _APPLE)


PRESETS: dict[str, Preset] = {
    "apple-emoji": _apple("cms", epsilon=4.0, rows=65536, width=1024),
    "apple-safari-autoplay": _apple("cms", epsilon=8.0, rows=65536, width=1024),
    "apple-safari-energy": _apple("hcms", epsilon=4.0, rows=1024, width=32768),
    "apple-health-types": _apple("cms", epsilon=2.0, rows=65536, width=256),
}
