"""The JSON Schemas of metrics.toml and of scenario files, made from the tables of their keys."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from ldp.mechanisms import METRIC_MECHANISMS, CatalogueMechanism
from ldp.registry.schema import GROUP, GROUP_REQUIRED, METRIC, METRIC_REQUIRED, PRODUCT, Schema
from ldp.simulation.scenarios import _METRIC, _REQUIRED, _TOP

DIALECT = "http://json-schema.org/draft-07/schema#"
"""Version that editors of TOML understand."""
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


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema of a scenario file."""
    top, metric = (
        section_schema(
            {name: {**key.schema} | {"description": key.wanted} for name, key in keys.items()},
            [name for name, key in keys.items() if key.default is _REQUIRED],
        )
        for keys in (_TOP, _METRIC)
    )
    top["properties"]["metric"] = named_sections(metric)
    top["required"].append("metric")
    return {"$schema": DIALECT, "title": "A scenario of ldp simulate", **top}
