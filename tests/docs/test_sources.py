"""The page of sources names only things that exist: commands, options, studies, tests, calls,
links."""

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import click
import pytest

from ldp.cli import commands as cli
from ldp.cli.parsing import Typed
from ldp.mechanisms.presets import COMPLETE
from tests.folders import ROOT, TESTS

PAGE = ROOT / "docs" / "sources.md"
NUMBERS = {
    "Boenisch 2019": {
        "": "1 2.1 2.1.1 2.1.1.1 2.1.1.2 2.1.1.3 2.1.1.4 2.1.1.5 2.1.1.6 2.1.1.7 2.1.2 2.1.3 2.1.4 "
        "2.1.5 2.2 2.2.1 2.2.2 2.2.3 3.1 3.1.1 3.1.2 3.1.3 3.1.4 3.1.5 3.1.6 3.1.6.1 3.1.6.2 "
        "3.1.6.3 3.2 3.2.1 3.2.2 3.2.3 3.2.4 3.3 4.1 4.1.1 4.1.2 4.2 4.3.1 4.3.2 4.4 5 5.1.1 "
        "5.1.1.1 5.1.1.2 5.1.2 5.1.3 5.1.4 5.1.5 5.2.1 5.2.2 5.2.2.1 5.2.2.2 5.2.2.3 5.2.3 5.2.4 "
        "5.2.5",
        "figure": "2.1 2.2 3.1 3.2 3.3 3.4 3.5 3.6 3.7 3.8 4.1 4.2 4.3 4.4 4.5 5.1 5.2 5.3 5.4 5.5",
        "table": "3.1 5.1 5.2",
        "algorithm": "5.1 5.2 5.3 5.4 5.5",
    },
    "Nieminen 2017": {
        "": "1 2.1 2.2 2.3 2.4 2.4.1 2.4.2 3.1 3.2 3.2.1 3.3 3.3.1 3.3.2 3.3.3 3.4 3.4.1 3.4.2 3.5 "
        "3.6 3.7.1 3.7.2 3.8 3.8.1 3.8.2 3.9 4.1 4.2 4.3 5.1 5.2 5.3",
        "figure": "3.1 4.1 4.2 4.3 4.4 4.5 4.6",
        "table": "2.1",
        "algorithm": "1 2",
    },
    "Kalaja 2020": {
        "": "1 2.1 2.1.1 2.1.2 2.1.3 2.2 2.2.1 2.2.2 2.2.3 2.2.4 3.1 3.2 3.2.1 3.2.2 3.3 3.3.1 "
        "3.3.2 3.3.3 3.4 3.5 4 4.1.1 4.1.2 4.1.3 4.2 4.2.1 4.2.2 5",
        "figure": "4.1 4.2 4.3 4.4 4.5 4.6 4.7 4.8",
        "algorithm": "1 2 3",
    },
    "Piazza 2021": {
        "": "1 1.1 2.1 2.2 2.3 3 4.1.1 4.1.2 4.2.1 4.2.2 5 5.1 5.2 5.3 5.4 6.1 6.2.1 6.2.2 6.2.3 "
        "6.3 7.1 7.2 7.3 8",
        "figure": "1 2 3 4 5 6",
        "algorithm": "1 2 3 4",
    },
}
"""Numbers of sections (""), figures, tables and algorithms of each thesis."""


def rows(page: str) -> list[list[str]]:
    """Return the cells of every table row of a page, without headers and rules."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row != ["there", "here"] and set(row) != {"---"}]


def command_mistakes(words: list[str]) -> Iterator[str]:
    """Yield what the words after `ldp` name that the command line does not have."""
    command: click.Command = cli
    while words and isinstance(command, click.Group):
        subcommand = command.get_command(click.Context(command), words[0])
        if subcommand is None:
            yield f"no command {words[0]}"
            return
        command, words = subcommand, words[1:]
    options = {name: option for option in command.params for name in option.opts}
    for word, value in zip(words, [*words[1:], ""], strict=False):
        if not word.startswith("-"):
            continue
        if word not in options:
            yield f"{command.name} has no option {word}"
        elif isinstance(kind := options[word].type, click.Choice) and value not in kind.choices:
            yield f"{word} of {command.name} does not take {value}"
        elif word == "--preset" and value not in COMPLETE:
            yield f"{command.name} lacks what {value} never published"
        elif isinstance(kind, Typed):
            try:
                made = kind.convert(value, None, None)
            except click.BadParameter:
                yield f"{word} of {command.name} does not take {value}"
                continue
            methods = import_module("ldp.central.regression").METHODS
            if command.name == "regress" and made[0] not in methods:
                yield f"no method {made[0]}"


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
    """Yield what a text in backticks names that does not exist.

    `tests`: source of all tests.
    """
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
    """Return all wrong statements of a page of sources, row by row."""
    tests = "".join(path.read_text("utf-8") for path in TESTS.rglob("test_*.py"))
    problems = []
    for row in rows(page.read_text("utf-8")):
        if len(row) != 2 or not all(row):
            problems.append(f"an empty cell, or not two: {row}")
            continue
        codes = re.findall(r"`([^`]+)`", row[-1])
        names = any(re.match(r"ldp[ .]|python -m |test_", code) for code in codes)
        if not names and not re.search(r"\]\(|background: \w|not built: \w", row[-1]):
            problems.append(f"names nothing: {row}")
        problems += [mistake for code in codes for mistake in code_mistakes(code, tests)]
    return problems + list(link_mistakes(page, page.read_text("utf-8")))


def numbered(there: str, kind: str) -> set[str]:
    """Return the numbers that a cell names after `kind`, or the section numbers at its start."""
    text = re.sub(r"\(.*?\)", "", there.lower())
    lists = re.findall(rf"{kind}s?((?: |,|and|to|\d|\.)+)" if kind else r"^((?:[\d.]+,? ?)+)", text)
    numbers = set[str]()
    for text in lists:
        for first, last in re.findall(r"(\d+(?:\.\d+)*)(?: to (\d+(?:\.\d+)*))?", text):
            *before, low = first.split(".")
            high = (last or first).split(".")[-1]
            numbers |= {".".join([*before, str(n)]) for n in range(int(low), int(high) + 1)}
    return numbers


@pytest.mark.exact
@pytest.mark.parametrize("thesis", NUMBERS)
def test_every_section_figure_table_and_algorithm_of_a_thesis_has_a_row(thesis: str) -> None:
    page = PAGE.read_text("utf-8").split(f"\n## {thesis}\n")[1].split("\n## ")[0]
    for kind, numbers in NUMBERS[thesis].items():
        listed = set().union(*(numbered(there, kind) for there, _ in rows(page)))
        assert set(numbers.split()) - listed == set(), kind


@pytest.mark.exact
def test_numbers_are_read_from_a_cell() -> None:
    assert numbered("2.1, 2.1.1 Two, figures 4.1 (a 3) and 4.3", "") == {"2.1", "2.1.1"}
    assert numbered("2.1 One, figures 4.1 (a 3) and 4.3, table 5", "figure") == {"4.1", "4.3"}
    assert numbered("Algorithms 1 to 3, equations 4 to 5", "algorithm") == {"1", "2", "3"}
    assert numbered("2.1 One, figure 4.1", "table") == set()


@pytest.mark.exact
def test_the_page_of_sources_names_only_what_exists() -> None:
    assert mistakes(PAGE) == []
    assert len(rows(PAGE.read_text("utf-8"))) > 130


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
        ("`nothing`", "names nothing"),
        ("not built:", "names nothing"),
        ("`ldp guess TABLE`", "no command guess"),
        ("`ldp registry guess`", "no command guess"),
        ("`ldp decode TABLE --guess`", "no option --guess"),
        ("`ldp decode TABLE --method guess`", "does not take guess"),
        ("`ldp audit --preset guess`", "does not take guess"),
        ("`ldp audit --preset apple-new-words`", "lacks what apple-new-words never published"),
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
    problems = mistakes(page)
    assert len(problems) == 1
    assert mistake in problems[0]
