"""The JSON Schemas of metrics.toml and of a scenario are as published, and right about files."""

import json
import re
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from ldp.errors import RegistryError
from ldp.mechanisms import CATALOGUE
from ldp.registry import Registry
from tests import doc_tables
from tests.command_line import REGISTRY
from tests.developing import registry
from tests.folders import ROOT
from tests.registries import GROUP, JOINT, METRIC

SCHEMAS = ROOT / "docs" / "schemas"
DOCS = SCHEMAS.parent
WHOLE = {name for name, kind in CATALOGUE.items() if kind.is_whole} - {"joint"}
"""Mechanisms of a metric of its own; the members of a joint one are metrics."""


def mistakes(schema: str, text: str) -> list[str]:
    """Return what the published schema says of a TOML file."""
    validator = jsonschema_rs.validator_for(json.loads((SCHEMAS / schema).read_text("utf-8")))
    return [error.message for error in validator.iter_errors(_as_json(tomllib.loads(text)))]


def _as_json(value: Any) -> Any:
    """Return a value with dates as texts, as a schema sees TOML's dates."""
    if isinstance(value, dict):
        return {key: _as_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_json(inner) for inner in value]
    return value.isoformat() if isinstance(value, date) else value


@pytest.mark.exact
@pytest.mark.parametrize("file", ["metrics.schema.json", "scenario.schema.json"])
def test_the_published_schemas_are_those_of_the_code(file: str) -> None:
    published = (SCHEMAS / file).read_text("utf-8")
    assert published == doc_tables.schemas()[file], "run `python -m tests.doc_tables`"
    jsonschema_rs.validator_for(json.loads(published))


def documented() -> list[str]:
    """Return the registries of the pages."""
    pages = [DOCS.parent / "README.md", *DOCS.rglob("*.md")]
    texts = "\n".join(page.read_text("utf-8") for page in pages)
    blocks = re.findall(r"^```toml\n(.*?)^```", texts, re.DOTALL | re.MULTILINE)
    return [block for block in blocks if "[group." in block]


@pytest.mark.exact
def test_registries_that_load_are_right_by_the_schema(tmp_path: Path) -> None:
    members = "".join(
        METRIC.format(name=name, group="a", rest='mechanism = "rr"\nepsilon = 1\ncategories = "f"')
        for name in ("shown", "dismissed")
    )
    product = '[product]\nname = "x"\n' + GROUP.format(name="a")
    joint = product + members + METRIC.format(name="both", group="a", rest=JOINT)
    for text in (REGISTRY, registry(tmp_path).path.read_text(), joint, *documented()):
        assert mistakes("metrics.schema.json", text) == []
    assert len(documented()) >= 4


@pytest.mark.exact
@pytest.mark.parametrize("name", sorted(WHOLE))
def test_every_example_of_the_catalogue_is_right_by_the_schema(name: str, tmp_path: Path) -> None:
    for example in CATALOGUE[name].examples():
        parameters = {**example.mechanism.parameters()}
        lines = [
            f"{key} = {json.dumps(value, ensure_ascii=False)}"
            for key, value in parameters.items()
            if value not in (None, [], ())
        ]
        text = '[product]\nname = "x"\n' + GROUP.format(name="a")
        text += METRIC.format(name="m", group="a", rest="\n".join(lines))
        assert mistakes("metrics.schema.json", text) == []


@pytest.mark.exact
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('mechanism = "rr"', 'mechanism = "grr"'),
        ('mechanism = "rr"', 'mechanism = "sfp-fragments"'),
        ('mechanism = "rr"', 'mechansim = "rr"'),
        ('mechanism = "rr"', 'mechanism = "cms"'),
        ("rows = 128\n", ""),
        ("rows = 128", "rows = 1.5"),
        ('window = "1d"', 'window = "1 day"'),
        ("window_epsilon = 8.0", "window_epsilon = 0"),
        ("[product]\n", "[product]\nowner = 1\n"),
        ("version = 1", "version = 0"),
        ('owners = ["team@example.org"]', "owners = []"),
        ("[group.places]", "[groups.places]"),
        ("epsilon = 3.0", 'epsilon = 3.0\nmemoise = "always"'),
    ],
)
def test_a_mistake_is_one_to_the_schema_and_to_the_code(old: str, new: str, tmp_path: Path) -> None:
    text = REGISTRY.replace(old, new)
    assert text != REGISTRY
    assert mistakes("metrics.schema.json", text)
    (tmp_path / "cities.txt").write_text("Oslo\nBergen\n")
    (tmp_path / "metrics.toml").write_text(text)
    with pytest.raises(RegistryError):
        Registry.load(tmp_path / "metrics.toml")


SCENARIO = """
users = 1000
days = 30
start = 2026-01-01
devices = [0.5, 0.5]
[metric.city]
population = "cities.csv"
change = 0.01
"""


@pytest.mark.exact
@pytest.mark.parametrize(
    ("old", "new"),
    [("days = 30", "days = 0"), ("change", "changes"), ("[0.5, 0.5]", "17"), ("[metric.city]", "")],
)
def test_a_scenario_is_right_or_wrong_by_the_schema(old: str, new: str) -> None:
    assert mistakes("scenario.schema.json", SCENARIO) == []
    assert mistakes("scenario.schema.json", SCENARIO.replace(old, new))
