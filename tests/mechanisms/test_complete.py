"""A mechanism of the catalogue has everything that docs/adding-a-mechanism.md lists."""

import re

import pytest

from ldp.mechanisms import CATALOGUE
from ldp.mechanisms.catalogue import ENTRIES
from tests import doc_tables
from tests.folders import ROOT


def missing(name: str, entry: str, parameters: list[str], is_whole: bool = True) -> list[str]:
    """Return what a mechanism lacks, each piece with what makes it.

    `entry`: the mechanism's entry of the catalogue.
    """
    picture = f"simulations/results/studies/estimates-{name}.svg"
    pages = {
        path.name: path.read_text("utf-8") for path in (ROOT / "docs" / "mechanisms").glob("*.md")
    }
    page = next((page for page, text in pages.items() if f"{picture})" in text), "")
    heads = " ".join(re.findall(r"^##+ (.*)", pages.get(page, ""), re.MULTILINE)).lower()
    twin = re.sub(r"-(\w)", lambda match: match[1].upper(), name)
    twins = (ROOT / "clients" / "typescript" / "src" / "mechanisms").glob("*.ts")
    source = (ROOT / "ldp" / "mechanisms" / "catalogue.py").read_text("utf-8")
    schema = (ROOT / "docs" / "schemas" / "metrics.schema.json").read_text("utf-8")
    on_the_wire = (ROOT / "docs" / "wire.md").read_text("utf-8") + "".join(
        text.partition("\n## On the wire\n")[2] for text in pages.values()
    )
    module, class_name = entry.split(".")
    pieces = {
        f"ldp/mechanisms/{module}.py": (ROOT / f"ldp/mechanisms/{module}.py").exists(),
        f"{class_name} as {class_name} in ldp/mechanisms/catalogue.py": (
            f"{class_name} as {class_name}" in source
        ),
        f"tests/vectors/{name}.json: make vectors, of the class's cases": (
            ROOT / f"tests/vectors/{name}.json"
        ).exists(),
        f"export const {twin}: Mechanism in clients/typescript/src/mechanisms": any(
            f"export const {twin}: Mechanism =" in path.read_text("utf-8") for path in twins
        ),
        "its row in docs/registry.md: make tables": f"`{name}`" in doc_tables.committed(),
        "its thresholds and columns, in docs/wire.md or below `## On the wire` of its page": (
            f"`{name}`" in on_the_wire
        ),
        "docs/schemas/metrics.schema.json: make tables": f'"{name}"' in schema or not is_whole,
    }
    if is_whole:
        pieces |= {
            f"{picture}: settings of the class, then python -m simulations.studies "
            f"estimates-{name}": (ROOT / picture).exists(),
            f"a page of docs/mechanisms with ({picture})": bool(page),
            "a heading of that page with `sampling distribution`": "sampling distribution" in heads,
            "a heading of that page with `estimator`": "estimator" in heads,
            "a heading with `variance`, or a `standard error`, in that page": (
                "variance" in heads or "standard error" in pages.get(page, "")
            ),
        }
    pieces |= {
        f"parameter {parameter} in docs/{described_in}": (
            parameter in doc_tables.described(described_in)
        )
        for described_in in doc_tables.PARAMETER_PAGES
        for parameter in parameters
    }
    return [piece for piece, is_there in pieces.items() if not is_there]


@pytest.mark.exact
def test_every_mechanism_is_complete() -> None:
    lacking = dict[str, list[str]]()
    for name, entry in ENTRIES.items():
        try:
            kind = CATALOGUE[name]
        except (ImportError, AttributeError):
            lacking[name] = missing(name, entry, [])
        else:
            lacking[name] = missing(name, entry, doc_tables.names(kind), kind.is_whole)
    lines = [f"{name} lacks {piece}" for name, pieces in lacking.items() for piece in pieces]
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)


@pytest.mark.exact
def test_a_new_mechanism_is_told_all_that_it_lacks() -> None:
    assert [piece.split(":")[0] for piece in missing("wheel", "wheel.Wheel", ["turns"])] == [
        "ldp/mechanisms/wheel.py",
        "Wheel as Wheel in ldp/mechanisms/catalogue.py",
        "tests/vectors/wheel.json",
        "export const wheel",
        "its row in docs/registry.md",
        "its thresholds and columns, in docs/wire.md or below `## On the wire` of its page",
        "docs/schemas/metrics.schema.json",
        "simulations/results/studies/estimates-wheel.svg",
        "a page of docs/mechanisms with (simulations/results/studies/estimates-wheel.svg)",
        "a heading of that page with `sampling distribution`",
        "a heading of that page with `estimator`",
        "a heading with `variance`, or a `standard error`, in that page",
        "parameter turns in docs/wire.md",
        "parameter turns in docs/registry.md",
    ]
