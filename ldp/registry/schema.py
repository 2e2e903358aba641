"""Keys of metrics.toml, each with its JSON Schema, by which editors complete and check.

A schema sees one key at a time and the parameters of a mechanism; what several keys promise each
other (prices below caps, members of one group) is checked by `Registry.load` only.
"""

from typing import Any

from ldp.mechanisms.presets import PRESETS

Schema = dict[str, Any]


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def _epsilon(description: str) -> Schema:
    return {"type": "number", "exclusiveMinimum": 0, "description": description}


def _span(description: str) -> Schema:
    return _text(f"{description}; a length of time, as 30m, 12h or 1d", pattern="^[0-9]{1,5}[mhd]$")


PRODUCT = {
    "name": _text("Name of the product, which goes into derived seeds", minLength=1),
    "lifetime_epsilon": _epsilon("Cap for life on all groups of a device together"),
    "development": {"type": "boolean", "description": "For a developer's own screen only"},
    "sealing_keys": {
        "type": "array",
        "items": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "minItems": 1,
        "description": "Fingerprints of the collector's keys that devices may seal reports to",
    },
}
GROUP = {
    "window": _span("Length of the windows that a cap holds for"),
    "window_epsilon": _epsilon("Cap on every window"),
    "lifetime_epsilon": _epsilon("Cap for life"),
    "report_epsilon": _epsilon("Cap on one report"),
    "lateness": _span("How old a sealed batch may be that the collector takes"),
    "trust": {"enum": ["device", "shuffler"], "description": "What protects a person"},
    "consent": _text("What a person agrees to, where a shuffler is trusted", minLength=1),
}
METRIC = {
    "version": {"type": "integer", "minimum": 1, "description": "Raise it with any change"},
    "group": _text("Name of the budget group"),
    "description": _text("What is asked"),
    "owners": {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "description": "Who answers for the metric",
    },
    "expires": _text("Last day, without quotes", format="date"),
    "mechanism": _text("How values are randomised"),
    "preset": _text("Published parameters", enum=sorted(PRESETS)),
    "dictionary": _text("File of candidates, beside metrics.toml"),
    "memoise": {"enum": [False, "epoch", "per-value"], "description": "What reports share"},
    "epoch": _span("Time for which one response holds"),
    "reports_per_window": {
        "type": "integer",
        "minimum": 1,
        "maximum": 10_000,
        "description": "Reports that a device sends in a window",
    },
    "presence": {"enum": ["public", "hidden"], "description": "Whether it shows who reports"},
    "words": {"enum": ["clean", "refuse"], "description": "Words with other letters"},
    "other": _text("Category that stands for every value that is not listed"),
    "control": _text("Public value that every build records, to be seen in its reports"),
    "shuffled_epsilon": _epsilon("What a report should cost in a relay's batch, by itself"),
}
GROUP_REQUIRED = ("window", "window_epsilon", "lifetime_epsilon")
METRIC_REQUIRED = ("version", "group", "description", "owners", "expires")
