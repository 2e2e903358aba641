"""The package keeps its layout and its words (docs/architecture.md, docs/glossary.md)."""

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import pytest

from tests import architecture
from tests.architecture import LOOSE, documents_arguments, follows_the_law, modules

LISTED = modules()


@pytest.mark.exact
def test_no_module_imports_itself_through_others() -> None:
    assert architecture.cycles(LISTED) == []


@pytest.mark.exact
def test_loose_modules_are_few() -> None:
    assert {path.stem for path in architecture.PACKAGE.glob("*.py")} <= LOOSE


@pytest.mark.exact
def test_an_init_file_only_re_exports() -> None:
    """Only functions that load a name late may be defined there."""
    late = {"__getattr__", "__dir__"}
    for module in LISTED:
        if module.path.name == "__init__.py" and module.name not in ("ldp.cli",):
            defined = {
                node.name
                for node in module.tree.body
                if isinstance(node, ast.FunctionDef | ast.ClassDef)
            }
            assert defined <= late, module.name


@pytest.mark.exact
def test_no_test_module_imports_another() -> None:
    for path in Path(__file__).parent.rglob("*.py"):
        assert not re.search(r"^\s*(from|import) tests\.test_", path.read_text("utf-8"), re.M), path


@pytest.mark.exact
def test_the_error_of_a_question_and_its_simulation_are_one_class_a_kind() -> None:
    kinds = architecture.kinds_of_questions(LISTED)
    names = ("numbers.Mean", "numbers.Percentile", "values.Shares", "word_questions.Words")
    assert kinds == [f"ldp.planning.{name}" for name in names]


@pytest.mark.exact
def test_docstrings_start_with_a_verb_or_a_noun() -> None:
    counted = architecture.words(LISTED)
    assert counted.lawful >= 0.95 * counted.total, "\n".join(counted.offenders)
    assert counted.documented >= 0.7 * counted.with_arguments


@pytest.mark.exact
def test_public_names_are_words_of_the_field() -> None:
    assert architecture.forbidden_names(LISTED) == []
    assert architecture.forbidden_words(LISTED) == []


@pytest.mark.exact
@pytest.mark.parametrize(
    "code",
    [
        "told = 1",
        "_found: int = 1",
        "self._made = 1",
        "def _asked(): ...",
        "def read(named): ...",
        "lambda *given: 1",
        "[shown for shown in ()]",
        "for _, drawn in (): ...",
        "with open('file') as kept: ...",
        "if (told := 1): ...",
        "from module import name as found",
        "try: ...\nexcept OSError as made: ...",
    ],
)
def test_a_participle_that_is_bound_anywhere_is_seen(code: str) -> None:
    names = {name.strip("_") for _, name in architecture.bound_names(ast.parse(code))}
    assert len(names & architecture.PARTICIPLES) == 1
    known = ast.parse("is_kept, named_counts = values.found, told(given=shown)")
    assert {name for _, name in architecture.bound_names(known)} == {"is_kept", "named_counts"}


@pytest.mark.exact
@pytest.mark.parametrize(
    ("docstring", "is_lawful"),
    [
        ("Return the sum.", True),
        ("Draw one report of `value`.", True),
        ("Of a table: its cells.", False),
        ("The same for many.", False),
        ("What is told.", False),
        ("How many there are.", False),
        ("Raises an error.", False),
    ],
)
def test_the_law_of_docstrings_tells_good_from_bad(docstring: str, is_lawful: bool) -> None:
    (function,) = ast.parse("def function(value): ...").body
    (constant,) = ast.parse("A = 1").body
    assert follows_the_law(function, docstring) == is_lawful
    assert not follows_the_law(constant, "Of a table: its cells.")
    assert follows_the_law(constant, "Largest number of cells of a table.")
    assert documents_arguments(function, docstring) == ("value" in docstring)


@pytest.mark.exact
def test_one_class_says_what_a_result_is() -> None:
    assert architecture.kinds_of_results(LISTED) == ["ldp.tables.result.Result"]


@pytest.mark.exact
def test_mechanisms_state_what_they_are() -> None:
    assert len(architecture.probes(LISTED)) <= 3, architecture.probes(LISTED)
    assert len(architecture.type_checks(LISTED)) <= 107, architecture.type_checks(LISTED)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("code", "is_probe"),
    [
        ('getattr(part, "x", 1)', True),
        ('hasattr(table.mechanism, "x")', True),
        ('getattr(it, "spelling")', True),
        ('getattr(connection, "sock")', False),
        ("isinstance(mechanism, Rappor)", False),
    ],
)
def test_a_probe_of_a_mechanism_is_seen(code: str, is_probe: bool) -> None:
    call = ast.parse(code, mode="eval").body
    assert isinstance(call, ast.Call)
    assert architecture.is_probe(call, {"spelling"}) == is_probe


@pytest.mark.exact
def test_the_package_grows_no_further() -> None:
    """Each figure has a bar, or its present value where the bar does not hold yet."""
    assert len(architecture.edges_above_the_base(LISTED)) <= 90
    most, name = architecture.largest_file(LISTED)
    assert most <= 450, name
    assert architecture.characters_of_a_line(LISTED) <= 40.2  # bar 39.2
    assert architecture.lines_of_a_function(LISTED) <= 5
    assert len(architecture.repeated_files(LISTED)) <= 10, architecture.repeated_files(LISTED)
    assert len(architecture.repeated_names(LISTED)) <= 5
    top, words = architecture.command_words()
    assert (top <= 26, words <= 40) == (True, True)
    assert architecture.words_of_docs() <= 75_000
    assert architecture.prose_of_readme() <= 450


@pytest.mark.exact
def test_sentences_are_short_and_helps_are_whole() -> None:
    assert architecture.fragments_of_help() == []
    assert architecture.FRAGMENTS.match("Last day to include.")
    assert not architecture.FRAGMENTS.match("Origin of pages that may send.")
    root = architecture.ROOT
    bars = {architecture.PACKAGE: 12, root / "simulations": 14, root / "tests": 14}
    for folder, most in bars.items():
        assert median(architecture.sentence_lengths(folder)) <= most, folder
    assert median(architecture.sentence_lengths_of_docs()) <= 12


@pytest.mark.exact
def test_files_and_campaigns_of_the_architecture_exist() -> None:
    """docs/architecture.md names files, and a test file or a campaign beside each decision."""
    root = architecture.PACKAGE.parent
    page = (root / "docs" / "architecture.md").read_text("utf-8")
    for name in re.findall(r"`([\w/]+\.py)`", page):
        folders = (root / "ldp", root / "tests")
        assert (root / name).exists() or any(any(f.rglob(name)) for f in folders), name
    for name in re.findall(r"`make campaign-([\w-]+)`", page):
        assert find_spec(f"simulations.{name.replace('-', '_')}"), name


@pytest.mark.exact
def test_decoders_know_nothing_of_made_up_reports() -> None:
    """Only the laws of intervals take them, for `Result.under_fakes`."""
    takers = {
        f"{module.name}.{node.name}"
        for module in LISTED
        if module.package == "decoding"
        for node in module.nodes
        if isinstance(node, ast.FunctionDef)
        and any(argument.arg == "fakes" for argument in node.args.args)
    }
    laws = ("binomials.under", "binomials._ends", "message_counts.under", "mean_sketch.under")
    sketches = ("mean_sketch.estimated_squares", "mean_sketch.under_fakes")
    assert takers == {f"ldp.decoding.{name}" for name in (*laws, *sketches)}
