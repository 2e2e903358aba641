"""The tables of the documentation that list mechanisms, from the catalogue, and JSON Schemas.

`python -m tests.tables` (`make tables`) writes them into the pages, and `tests/test_docs.py` holds
the pages to them. A table is found by its header. The ranges of parameters are prose, in a table by
parameter on the same page.
"""

import json
import re
from dataclasses import MISSING, fields
from pathlib import Path

from ldp.mechanisms import CATALOGUE, Catalogued, Mechanism
from ldp.registry.schema import registry_schema
from ldp.simulation.scenarios import scenario_schema

DOCS = Path(__file__).parent.parent / "docs"
HEADERS = {
    "wire.md": "| mechanism | id | kind | parameters |\n",
    "registry.md": "| mechanism | what it is | parameters |\n",
}
"""Headers of the tables, by page."""


def table(page: str) -> str:
    """Return the lines of a page's table below its header."""
    kinds = sorted(CATALOGUE.values(), key=lambda kind: kind.wire_id)
    if page == "wire.md":
        rows = [[_link(k), str(k.wire_id), _form(k), _code(names(k))] for k in kinds]
    else:
        rows = [[_link(k), _summary(k), _choices(k)] for k in kinds if k.is_whole]
    rule = ["---"] * len(rows[0])
    return "".join(f"| {' | '.join(row)} |\n" for row in (rule, *rows))


def committed(page: str) -> str:
    """Return the same lines as they stand on the page."""
    _, below = (DOCS / page).read_text("utf-8").split(HEADERS[page])
    return below.split("\n\n")[0] + "\n"


def described(page: str) -> list[str]:
    """Return the parameters in the first column of the page's table by parameter."""
    _, below = (DOCS / page).read_text("utf-8").split("\n| parameter | ")
    firsts = [row.split("|")[1] for row in below.split("\n\n")[0].splitlines()[2:]]
    return re.findall(r"`(\w+)`", " ".join(firsts))


def names(kind: type[Catalogued]) -> list[str]:
    """Return the parameters of a mechanism."""
    return [field.name for field in fields(kind)]


def _link(kind: type[Catalogued]) -> str:
    """Return the name, with a link to the page that shows the mechanism's picture."""
    for path in sorted((DOCS / "mechanisms").glob("*.md")):
        if f"studies/estimates-{kind.name}.svg)" in path.read_text("utf-8"):
            return f"[`{kind.name}`](mechanisms/{path.name})"
    return f"`{kind.name}`"


def _form(kind: type[Catalogued]) -> str:
    return kind.kind.__name__.upper() if issubclass(kind, Mechanism) else "several parts"


def _summary(kind: type[Catalogued]) -> str:
    """Return the first sentence of the docstring."""
    return " ".join(str(kind.__doc__).split("\n\n")[0].split())


def _choices(kind: type[Catalogued]) -> str:
    """Return the parameters that metrics.toml must give, then those that it may give."""
    has_default = {field.name: field.default is not MISSING for field in fields(kind)}
    has_default |= {"seed": True} if "seed" in has_default else {}  # derived by default
    required = _code([name for name in names(kind) if not has_default[name]])
    optional = _code([name for name in names(kind) if has_default[name]])
    return f"{required}; optional {optional}" if optional else required


def _code(words: list[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def schemas() -> dict[str, str]:
    """Return the JSON Schemas of the documentation as text, by file."""
    made = {"metrics": registry_schema(), "scenario": scenario_schema()}
    return {
        f"{name}.schema.json": json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
        for name, schema in made.items()
    }


def main() -> None:
    for file, text in schemas().items():
        (DOCS / "schemas" / file).write_text(text, "utf-8")
    for page in HEADERS:
        old, new = (HEADERS[page] + rows for rows in (committed(page), table(page)))
        text = (DOCS / page).read_text("utf-8")
        (DOCS / page).write_text(text.replace(old, new), "utf-8")


if __name__ == "__main__":
    main()
