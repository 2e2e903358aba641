"""The page of sources names only what exists: commands, options, studies, tests, calls, links."""

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import click
import pytest

from ldp.cli import commands as cli

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "sources.md"


def rows(page: str) -> list[list[str]]:
    """Return the cells of every table row of a page, without headers and rules."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row != ["there", "here"] and set(row) != {"---"}]


def command_mistakes(words: list[str]) -> Iterator[str]:
    """Yield what the words after `ldp` name that the command line does not have."""
    command: click.Command = cli
    while words and isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            yield f"no command {words[0]}"
            return
        command, words = found, words[1:]
    options = {name: option for option in command.params for name in option.opts}
    for word, value in zip(words, [*words[1:], ""], strict=False):
        if not word.startswith("-"):
            continue
        if word not in options:
            yield f"{command.name} has no option {word}"
        elif isinstance(kind := options[word].type, click.Choice) and value not in kind.choices:
            yield f"{word} of {command.name} does not take {value}"
        elif word == "--method" and command.name == "regress":
            methods = import_module("ldp.central.regression").METHODS
            if value not in methods:
                yield f"no method {value}"


def study_mistakes(words: list[str]) -> Iterator[str]:
    """Yield what the words after `python -m` name that does not exist."""
    module, *names = words
    path = ROOT.joinpath(*module.split("."))
    if not path.with_suffix(".py").is_file() and not (path / "__main__.py").is_file():
        yield f"no module {module}"
    elif names:
        studies = import_module(f"{module}.catalogue").STUDIES
        yield from (f"no study {name} of {module}" for name in names if name not in studies)


def code_mistakes(code: str, tests: str) -> Iterator[str]:
    """Yield what a text in backticks names that does not exist. `tests`: the source of all."""
    if code.startswith("ldp "):
        yield from command_mistakes(shlex.split(code)[1:])
    elif code.startswith("python -m "):
        yield from study_mistakes(shlex.split(code)[2:])
    elif code.startswith("test_") and f"def {code}(" not in tests:
        yield f"no test {code}"
    elif re.fullmatch(r"ldp(\.\w+)+", code):
        try:
            resolve_name(code)
        except (ImportError, AttributeError):
            yield f"no {code}"


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the book make them."""
    headings = re.findall(r"^#+ (.*)", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def link_mistakes(page: Path, text: str) -> Iterator[str]:
    """Yield the links of `text`, which stands in `page`, that lead to no file or heading."""
    for path, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
        target = page.parent / path if path else page
        if "://" not in path and not target.exists():
            yield f"no page {path}"
        elif anchor and "://" not in path and anchor not in anchors(target):
            yield f"no heading {anchor} in {path}"


def mistakes(page: Path) -> list[str]:
    """Return all that a page of sources says wrongly, row by row."""
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").glob("test_*.py"))
    found = []
    for row in rows(page.read_text("utf-8")):
        if len(row) != 2 or not all(row):
            found.append(f"an empty cell, or not two: {row}")
            continue
        codes = re.findall(r"`([^`]+)`", row[-1])
        says = "](" in row[-1] or re.search(r"background: \w|not built: \w", row[-1])
        if not codes and not says:
            found.append(f"names nothing: {row}")
        found += [mistake for code in codes for mistake in code_mistakes(code, tests)]
    return found + list(link_mistakes(page, page.read_text("utf-8")))


@pytest.mark.exact
def test_the_page_of_sources_names_only_what_exists() -> None:
    assert mistakes(PAGE) == []
    assert len(rows(PAGE.read_text("utf-8"))) > 150


@pytest.mark.exact
def test_links_of_the_page_beside_lead_to_headings() -> None:
    page = ROOT / "docs" / "beside.md"
    assert list(link_mistakes(page, page.read_text("utf-8"))) == []


@pytest.mark.exact
@pytest.mark.parametrize(
    ("cell", "mistake"),
    [
        ("", "an empty cell"),
        ("nothing in particular", "names nothing"),
        ("not built:", "names nothing"),
        ("`ldp guess TABLE`", "no command guess"),
        ("`ldp registry guess`", "no command guess"),
        ("`ldp decode TABLE --guess`", "no option --guess"),
        ("`ldp decode TABLE --method guess`", "does not take guess"),
        ("`ldp audit --preset guess`", "does not take guess"),
        ("`ldp regress DATA --method guess`", "no method guess"),
        ("`python -m simulations.guess`", "no module simulations.guess"),
        ("`python -m simulations.regression guess`", "no study guess"),
        ("`test_guess`", "no test test_guess"),
        ("`ldp.central.Guess`", "no ldp.central.Guess"),
        ("`ldp.guess`", "no ldp.guess"),
        ("[a page](guess.md)", "no page guess.md"),
        ("[a heading](#guess)", "no heading guess"),
    ],
)
def test_what_a_page_of_sources_says_wrongly_is_noticed(
    cell: str, mistake: str, tmp_path: Path
) -> None:
    page = tmp_path / "sources.md"
    right = (
        "`ldp decode TABLE --method lasso-ols`, `ldp registry check`, `python -m simulations.words`"
        ", `python -m simulations.regression boston`, [1](#one), `ldp.central.Laplace`"
    )
    made = "# One\n\n| there | here |\n| --- | --- |\n| 1 | {} |\n| 2 | {} |\n"
    page.write_text(made.format(right, "background: a reason"), "utf-8")
    assert mistakes(page) == []
    page.write_text(made.format(right, cell), "utf-8")
    found = mistakes(page)
    assert len(found) == 1
    assert mistake in found[0]
