"""The book: README, the pages of docs/ and the gallery as they are, in the order of docs/index.md.

`sphinx-build -c docs . docs/_build`: the source folder is the checkout, so that a link or a picture
means in the book what it means there. Nothing is fetched, neither to build it nor to read it.
"""

import inspect
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

project = "ldp"
author = "the ldp-telemetry authors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "simulations/README.md"]
exclude_patterns = ["docs/_build", ".venv*", "ldp", "tests", "simulations/data"]

html_theme = "furo"
html_title = project
smartquotes = False
highlight_language = "text"
html_show_copyright = False
html_copy_source = html_show_sourcelink = False
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
myst_heading_anchors = 3
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80


TERMS = tomllib.loads(Path(__file__).with_name("index-terms.toml").read_text("utf-8"))


def read(app: Any, page: str, source: list[str]) -> None:
    """What two pages say in a form that a checkout shows too, as Sphinx wants it."""
    if page == root_doc:
        source[0] += "".join(contents(source[0]))
    elif page == "docs/api":
        source[0] += "".join(public_modules(source[0]))
    terms = "".join(f"   ! single: {term}\n" for term in TERMS.get(page.removeprefix("docs/"), ()))
    if terms:
        source[0] += f"\n```{{eval-rst}}\n.. index::\n{terms}```\n"


def contents(page: str) -> Iterator[str]:
    """A table of contents for each part of the page "Start here": its links, in their order.

    The other pages of mechanisms follow those that it links.
    """
    folder = Path(__file__).parent / "mechanisms"
    for part in page.split("\n## ")[1:]:
        title, text = part.split("\n", 1)
        links = re.findall(r"\]\(([\w./-]+)\.md\)", text)
        if title == "Mechanisms":
            links += [f"mechanisms/{path.stem}" for path in sorted(folder.glob("*.md"))]
        lines = [":hidden:", f":caption: {title}", "", *dict.fromkeys(links)]
        yield "\n```{toctree}\n" + "\n".join(lines) + "\n```\n"


def public_modules(page: str) -> Iterator[str]:
    """Every public name of the modules in the page's table, below the first that has it."""
    seen: dict[int, str] = {}
    for module_name in re.findall(r"^\| `(ldp[\w.]*)`", page, re.MULTILINE):
        module, again = import_module(module_name), list[str]()
        yield f"\n## {module_name}\n\n```{{eval-rst}}\n.. currentmodule:: {module_name}\n\n"
        for name in public(module):
            item = getattr(module, name)
            if id(item) in seen:
                again.append(f"``{name}``")
            elif callable(item):
                seen[id(item)] = module_name
                kind = "class" if inspect.isclass(item) else "function"
                members = "\n   :members:" if kind == "class" else ""
                yield f".. auto{kind}:: {module_name}.{name}{members}\n\n"
        yield (f"From above: {', '.join(again)}.\n" if again else "") + "```\n"


def public(module: Any) -> list[str]:
    """What a module says is its own, or else the classes and functions that it defines."""
    defined = (
        name
        for name, item in vars(module).items()
        if callable(item) and item.__module__ == module.__name__ and not name.startswith("_")
    )
    return sorted(getattr(module, "__all__", defined))


def plain(app: Any, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """A docstring is plain text: `code`, examples, indented parts, and nothing else is markup."""
    made, example = list[str](), False
    for line in lines:
        if set(line.strip()) == {"-"}:  # below a heading
            continue
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>> "))
        if not example:
            code = line.split("`")
            code[::2] = [re.sub(r"([\\*_|])", r"\\\1", text) for text in code[::2]]
            line = "``".join(code)
            if line and made and made[-1] and indent(line) != indent(made[-1]):
                made.append("")
        made.append(line)
    lines[:] = made


def indent(line: str) -> int:
    """How far a line is indented."""
    return len(line) - len(line.lstrip())


def setup(app: Any) -> None:
    app.add_lexer("csv", TextLexer)
    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", plain)
