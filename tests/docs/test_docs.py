"""Everything that the documentation shows is run: doctests of pages and modules, README's
examples."""

import doctest
import os
import re
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import ldp
from ldp.mechanisms import METRIC_MECHANISMS
from tests import doc_tables
from tests.folders import ROOT, TESTS

PAGES = sorted((ROOT / "docs").rglob("*.md"))
LONG = {"count-mean-sketch.md", "memoised.md", "privacy.md", "randomized-response.md"}
"""Pages whose examples take seconds."""
README = (ROOT / "README.md").read_text("utf-8")
MODULES = [module.name for module in walk_packages(ldp.__path__, "ldp.")]


@pytest.mark.exact
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page.name in LONG else [], id=page.name)
        for page in PAGES
    ],
)
def test_the_examples_of_a_page_run(page: Path) -> None:
    result = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert result.failed == 0


@pytest.mark.exact
@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_the_examples_of_a_module_run(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0


@pytest.mark.exact
@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def type_along(page: str, folder: Path) -> list[str]:
    """Do what a page shows, in its order; return the languages of its blocks.

    This writes the files that the page names (in backticks, in the paragraph above) and runs its
    Python and its commands. Their output must be what stands below each.
    """
    commands = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": commands + os.pathsep + os.environ["PATH"]}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command[-1]}\n{done.stderr}"
        return done.stdout + done.stderr

    languages = []
    fenced = r"((?:[^\n]+\n)*)\n?```(\w+)\n(.*?)```"
    for above, language, block in re.findall(fenced, page, re.DOTALL):
        languages.append(language)
        named = re.findall(r"`([\w.]+\.(?:toml|csv|txt|py))`", above)
        if language == "console":
            for typed, wanted in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
                shown = run("bash", "-ec", typed)
                assert alike(wanted, shown), f"$ {typed}\n{shown}"
        elif named:
            (folder / named[-1]).write_text(block, "utf-8")
        elif language == "sh":
            run("bash", "-ec", block)
        elif language == "python" and not block.startswith(">>>"):
            run(sys.executable, "-c", block)
    return languages


def alike(wanted: str, shown: str) -> bool:
    """Return whether an output is the one that a page shows, where "..." is any text, and empty
    lines do not count."""
    wanted, shown = (re.sub(r"\n+", "\n", f"{text.strip()}\n") for text in (wanted, shown))
    return doctest.OutputChecker().check_output(wanted, shown, doctest.ELLIPSIS)


@pytest.mark.exact
@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_no_formula_reads_as_bold_type(page: Path) -> None:
    """Two powers of one paragraph are taken for emphasis, unless they are code or escaped."""
    text = re.sub(r"```.*?```|`[^`]*`|^    .*?$", "", page.read_text("utf-8"), flags=re.S | re.M)
    for paragraph in text.split("\n\n"):
        powers = re.findall(r".{,20}(?<=[\w)])\*\*(?=[\w(-]).{,20}", paragraph)
        assert len(powers) < 2, powers


@pytest.mark.exact
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_table_is_torn_in_two_by_an_empty_line(page: Path) -> None:
    """A table's first line is followed by its rule; anything else after an empty line is text."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for before, line, after in zip(lines, lines[1:], [*lines[2:], ""], strict=False):
        if not before and line.startswith("| "):
            assert after.startswith("| ---"), line


@pytest.mark.slow
@pytest.mark.exact
def test_the_three_uses_of_the_readme_run_in_order(tmp_path: Path) -> None:
    uses = README.split("## Three uses")[1].split("\n## ")[0]
    assert type_along(uses, tmp_path).count("python") >= 2


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize(
    "name",
    [
        "tutorials/simulate",
        "tutorials/first-day",
        "tutorials/embed",
        "tutorials/aggregate",
        pytest.param("longitudinal", marks=pytest.mark.campaign),
        pytest.param("planning", marks=pytest.mark.campaign),
        "central",
        "surveys",
        "active-people",
        "mechanisms/percentiles",
        "publishing",
    ],
)
def test_a_page_can_be_typed_along(name: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    left = 60 - time.time() % 60
    if name == "tutorials/first-day" and left < 30:  # each minute the app's records are sealed
        time.sleep(left)
    assert {"console", "sh"} & set(type_along(page, tmp_path))


@pytest.mark.exact
def test_an_output_that_is_not_shown_is_noticed(tmp_path: Path) -> None:
    page = "In `a.txt`:\n\n```text\none\n```\n\n```console\n$ cat a.txt\n{}\n```\n"
    type_along(page.format("..."), tmp_path)
    type_along(page.format("one"), tmp_path)
    with pytest.raises(AssertionError):
        type_along(page.format("two"), tmp_path)
    with pytest.raises(AssertionError):
        type_along(page.replace("cat", "false").format("..."), tmp_path)


@pytest.mark.exact
def test_every_sentence_of_the_device_protocol_names_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "device-protocol.md").read_text("utf-8")
    sentences = re.split(r"^\d+\. ", page, flags=re.MULTILINE)[1:]
    assert len(sentences) == 28
    for sentence in sentences:
        assert re.search(r"`(test_\w+)`|tests/client/test_client_faults.py", sentence), sentence


@pytest.mark.exact
@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    tests = "".join(path.read_text("utf-8") for path in TESTS.rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", page.read_text("utf-8"))
    assert [name for name in named if f"def {name}(" not in tests] == []


@pytest.mark.exact
def test_the_table_of_mechanisms_is_that_of_the_catalogue() -> None:
    assert doc_tables.committed() == doc_tables.table(), "run `python -m tests.doc_tables`"


@pytest.mark.exact
@pytest.mark.parametrize("page", doc_tables.PARAMETER_PAGES)
def test_every_parameter_is_described(page: str) -> None:
    parameters = {name for kind in METRIC_MECHANISMS.values() for name in doc_tables.names(kind)}
    assert sorted(doc_tables.described(page)) == sorted(parameters)


@pytest.mark.exact
def test_the_page_of_commands_is_made_from_the_commands() -> None:
    page = (ROOT / "docs" / "commands.md").read_text("utf-8")
    assert page == doc_tables.commands_page(), "run `python -m tests.doc_tables`"
    assert "    Example: ldp demo --out demo --seed 1\n" in page


@pytest.mark.exact
def test_every_row_of_what_was_criticised_names_its_test() -> None:
    page = (ROOT / "docs" / "privacy.md").read_text("utf-8")
    rows = page.split("| --- | --- | --- | --- |")[1].split("\n\n")[0].strip().splitlines()
    assert len(rows) == 14
    assert all(re.search(r"`test_\w+` \|$", row) for row in rows)
