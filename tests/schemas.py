"""Make the JSON Schemas of metrics.toml, questions and scenarios from tables of keys."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import date
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from ldp.mechanisms import METRIC_MECHANISMS, CatalogueMechanism
from ldp.planning.portfolio import ASK
from ldp.planning.portfolio import PRODUCT as PRODUCT_OF_QUESTIONS
from ldp.planning.portfolio import TOP as TOP_OF_QUESTIONS
from ldp.planning.question import KINDS
from ldp.protocol.keys import REQUIRED, SPAN, Form, Key
from ldp.registry.toml_file import GROUP, METRIC, PRODUCT, TOP
from ldp.simulation.scenarios import METRIC as SCENARIO_METRIC
from ldp.simulation.scenarios import SCENARIO

Schema = dict[str, Any]
DIALECT = "http://json-schema.org/draft-07/schema#"
"""Version that editors of TOML understand."""
_PLAIN = {float: "number", int: "integer", bool: "boolean", str: "string"}
_TYPES = _PLAIN | {date: "string", list: "array", dict: "object"}
_LIMITS = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}


def form_schema(form: Form) -> Schema:
    """Return the schema of a form of values."""
    if form.either:
        return {"anyOf": [*map(form_schema, form.either)]}
    if form.choices is not None:
        return {"enum": [*form.choices]}
    if not form.types:
        return {}
    kind = _TYPES[form.types[-1]]
    schema: Schema = {"type": kind}
    names = _LIMITS.get(kind, ("minimum", "maximum"))
    for name, limit in zip(names, (form.least, form.most), strict=True):
        if abs(limit) < 1e300 and kind != "object":
            schema[name] = limit
    if form.above > -math.inf:
        schema["exclusiveMinimum"] = form.above
    if form.pattern:
        schema["pattern"] = f"^{form.pattern}$"
    if form.items:
        schema["items"] = form_schema(form.items)
    if form.types == (date,):
        schema["format"] = "date"
    return schema


def keys_schema(keys: Mapping[str, Key]) -> Schema:
    """Return the schema of a section with these keys, and no others."""
    return {
        "type": "object",
        "required": [name for name, key in keys.items() if key.default is REQUIRED],
        "properties": {
            name: form_schema(key.form) | {"description": _description(key)}
            for name, key in keys.items()
        },
        "additionalProperties": False,
    }


def _description(key: Key) -> str:
    if not key.words:
        return key.form.words
    return f"{key.words}; {SPAN.words}" if key.form == SPAN else key.words


def registry_schema() -> Schema:
    """Return the JSON Schema of metrics.toml."""
    whole = {name: kind for name, kind in METRIC_MECHANISMS.items() if kind.is_whole}
    parameters: Schema = {}
    for kind in whole.values():
        parameters |= _parameters(kind)
    metric = keys_schema(METRIC)
    metric["anyOf"] = [{"required": ["mechanism"]}, {"required": ["preset"]}]
    metric["allOf"] = [_branch(name, kind) for name, kind in whole.items()]
    metric["properties"]["mechanism"]["enum"] = list(whole)
    metric["properties"] = parameters | metric["properties"]
    sections = {
        "product": keys_schema(PRODUCT),
        "group": named_sections(keys_schema(GROUP)),
        "metric": named_sections(metric),
    }
    return _titled("metrics.toml, the registry of ldp", keys_schema(TOP), sections)


def question_schema() -> Schema:
    """Return the JSON Schema of a file of questions."""
    kinds = [kind.keys for kind in KINDS.values()]
    question = keys_schema(ASK)
    for keys in kinds:
        question["properties"] |= keys_schema(keys)["properties"]
    question["oneOf"] = [{"required": [name]} for name in KINDS]
    question["allOf"] = [
        {
            "if": {"required": [name]},
            "then": {"propertyNames": {"enum": sorted(ASK | kind.keys)}},
        }
        for name, kind in KINDS.items()
    ]
    sections = {
        "product": keys_schema(PRODUCT_OF_QUESTIONS),
        "question": named_sections(question),
    }
    return _titled("Questions of ldp plan product", keys_schema(TOP_OF_QUESTIONS), sections)


def scenario_schema() -> Schema:
    """Return the JSON Schema of a scenario file."""
    metric = named_sections(keys_schema(SCENARIO_METRIC))
    return _titled("A scenario of ldp simulate", keys_schema(SCENARIO), {"metric": metric})


def _titled(title: str, top: Schema, sections: Schema) -> Schema:
    top["properties"] |= sections
    return {"$schema": DIALECT, "title": title, **top}


def named_sections(section: Schema) -> Schema:
    """Return the schema of sections that have names of their own, such as [metric.NAME]."""
    return {"type": "object", "additionalProperties": section}


def _branch(name: str, kind: type[CatalogueMechanism]) -> Schema:
    """Return what holds for a metric with this mechanism: its parameters, and no others."""
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
    """Return the schema of a parameter by its type.

    `of` names metrics, `categories` and `by` may name a file, `bounds` are one pair or several.
    """
    if isinstance(hint, UnionType):
        hint = next(choice for choice in get_args(hint) if choice is not NoneType)
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if name == "of":
        return {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 4}
    if name == "bounds":  # `moments` has a pair for each number
        pair = _type_schema("", tuple[float, float])
        return {"anyOf": [pair, {"type": "array", "items": pair, "minItems": 2}]}
    assert get_origin(hint) is tuple
    items = get_args(hint)
    length = {"minItems": 2} | ({} if items[-1] is ... else {"maxItems": len(items)})
    several = {"type": "array", "items": _type_schema("", items[0]), **length}
    is_file = {"type": "string", "description": "A file with one a line"}
    return {"anyOf": [several, is_file]} if name in ("categories", "by") else several
