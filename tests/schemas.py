"""The JSON Schemas of metrics.toml and of scenario files, made from the tables of their keys."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from ldp.mechanisms import METRIC_MECHANISMS, CatalogueMechanism
from ldp.mechanisms.presets import PRESETS
from ldp.registry.toml_file import (
    GROUP_KEYS,
    GROUP_REQUIRED,
    METRIC_KEYS,
    METRIC_REQUIRED,
    PRODUCT_KEYS,
)
from ldp.simulation.poisoning import ATTACKS
from ldp.simulation.scenarios import _METRIC, _REQUIRED, _TOP, MOST_DEVICES, Key

Schema = dict[str, Any]
DIALECT = "http://json-schema.org/draft-07/schema#"
"""Version that editors of TOML understand."""


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
    "planned_for": _text("People about whom the plan of the metric states its error"),
    "control": _text("Public value that every build records, to be seen in its reports"),
    "shuffled_epsilon": _epsilon("What a report should cost in a relay's batch, by itself"),
}
assert ({*PRODUCT}, {*GROUP}, {*METRIC}) == (PRODUCT_KEYS, GROUP_KEYS, METRIC_KEYS)
_PLAIN = {float: "number", int: "integer", bool: "boolean", str: "string"}


def registry_schema() -> Schema:
    """Return the JSON Schema of metrics.toml."""
    whole = {name: kind for name, kind in METRIC_MECHANISMS.items() if kind.is_whole}
    parameters: Schema = {}
    for kind in whole.values():
        parameters |= _parameters(kind)
    metric = {
        "type": "object",
        "required": list(METRIC_REQUIRED),
        "anyOf": [{"required": ["mechanism"]}, {"required": ["preset"]}],
        "properties": {
            **parameters,
            **METRIC,
            "mechanism": METRIC["mechanism"] | {"enum": list(whole)},
        },
        "additionalProperties": False,
        "allOf": [_branch(name, kind) for name, kind in whole.items()],
    }
    return {
        "$schema": DIALECT,
        "title": "metrics.toml, the registry of ldp",
        **section_schema(
            {
                "product": section_schema(PRODUCT, ["name"]),
                "group": named_sections(section_schema(GROUP, GROUP_REQUIRED)),
                "metric": named_sections(metric),
            },
            ["product", "group", "metric"],
        ),
    }


def named_sections(section: Schema) -> Schema:
    """Return the schema of sections that have names of their own, such as [metric.NAME]."""
    return {"type": "object", "additionalProperties": section}


def section_schema(keys: Mapping[str, Schema], required: Iterable[str]) -> Schema:
    """Return the schema of a section with these keys, and no others."""
    return {
        "type": "object",
        "required": list(required),
        "properties": dict(keys),
        "additionalProperties": False,
    }


def _branch(name: str, kind: type[CatalogueMechanism]) -> Schema:
    """Return what holds of a metric with this mechanism: its parameters, and no others."""
    needed = [field.name for field in fields(kind) if field.default is MISSING]
    needed = [key for key in needed if key != "seed"]  # derived without one
    is_chosen = {"properties": {"mechanism": {"const": name}}, "required": ["mechanism"]}
    own_keys = {"propertyNames": {"enum": sorted({*METRIC, *_parameters(kind)})}}
    needs = {"anyOf": [{"required": needed}, {"required": ["preset"]}]}
    return {"if": is_chosen, "then": {**own_keys, **needs}}


def _parameters(kind: type[CatalogueMechanism]) -> Schema:
    hints = get_type_hints(kind)
    return {field.name: _type_schema(field.name, hints[field.name]) for field in fields(kind)}


def _type_schema(name: str, hint: Any) -> Schema:
    """Return the schema of a parameter by its type; `of` names metrics, `categories` and `by` may
    name a file, `bounds` are one pair or several."""
    if isinstance(hint, UnionType):
        hint = next(choice for choice in get_args(hint) if choice is not NoneType)
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if name == "of":
        return {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 4}
    if name == "bounds":  # of `moments` a pair for each number
        pair = _type_schema("", tuple[float, float])
        return {"anyOf": [pair, {"type": "array", "items": pair, "minItems": 2}]}
    assert get_origin(hint) is tuple
    items = get_args(hint)
    length = {"minItems": 2} | ({} if items[-1] is ... else {"maxItems": len(items)})
    several = {"type": "array", "items": _type_schema("", items[0]), **length}
    is_file = {"type": "string", "description": "A file with one a line"}
    return {"anyOf": [several, is_file]} if name in ("categories", "by") else several


_SHARE = {"type": "number", "minimum": 0, "maximum": 1}
SCENARIO: dict[str, Schema] = {
    "start": {"type": "string", "format": "date"},
    "devices": {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": MOST_DEVICES},
            {"type": "array", "items": _SHARE, "minItems": 1, "maxItems": MOST_DEVICES},
        ]
    },
    "account": {"type": "boolean"},
    "attacked": {"anyOf": [{"const": 0}, {"type": "integer", "minimum": 100, "maximum": 10**5}]},
    "population": {"type": "string", "minLength": 1},
    "like": {"type": "string"},
    "attack": {"enum": [*ATTACKS]},
}


def _key_schema(name: str, key: Key) -> Schema:
    """Return the schema of a key: of whole numbers by its limits, of others the one listed."""
    if key.limits:
        return {"type": "integer", "minimum": key.limits[0], "maximum": key.limits[1]}
    return SCENARIO.get(name, _SHARE)


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema of a scenario file."""
    top, metric = (
        section_schema(
            {
                name: _key_schema(name, key) | {"description": key.wanted}
                for name, key in keys.items()
            },
            [name for name, key in keys.items() if key.default is _REQUIRED],
        )
        for keys in (_TOP, _METRIC)
    )
    top["properties"]["metric"] = named_sections(metric)
    top["required"].append("metric")
    return {"$schema": DIALECT, "title": "A scenario of ldp simulate", **top}
