"""Count the structure and the words of the package from its syntax trees.

`python -m tests.architecture` prints packages, edges, cycles, docstrings, names and lines;
`tests/test_architecture.py` holds the bars.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean, median

import click

import ldp

PACKAGE = Path(ldp.__file__).parent
ROOT = PACKAGE.parent
SENTENCES = re.compile(r"(?<=[.!?])\s+")
LOOSE = {"__init__", "__main__", "server", "errors", "files", "data_files", "arrays"}
BASE = {"errors", "arrays", "files", "data_files"}
"""Loose modules that everything may import."""
NESTED = ("central/regression",)
"""Packages within others that are counted by themselves."""
VERBS = frozenset(
    """
    accept add advance aggregate agree allow answer append apply ask assemble associate audit
    average begin bound bring build calibrate call cancel change charge check clean clear clip
    close collect combine commit compare compile compose compute confirm convert copy correct
    count cut decide declare decode delete deliver derive describe discover divide do drain
    draw drop empty encode end enter estimate evaluate expect explain extend fill filter find
    finish fit fold follow forget format forward freeze gather give go grant group guard hash
    hold identify join judge keep label leave let list listen load lock log look lower make map mark
    match maximise measure merge minimise move name note notice number observe open order pack
    parse pass pick place plan play post prepare print project put raise read rebuild receive
    recognise record reduce refit refuse register release remove render repeat replace report
    require reset resolve restore return rewrite round run sample save say scatter seal search
    see select send serve set settle show shuffle simulate skip solve sort split spread start
    state stop store stretch sum sync take tell test time try tune turn undo unpack update
    upgrade use validate verify wait warn withdraw work write yield
    """.split()  # noqa: SIM905
)
"""Verbs with which the docstring of a function may start."""
RIDDLES = ("of ", "the same", "what ", "how many", "so many", "whose ", "where ", "that ", "its ")
"""Beginnings of docstrings that do not say what a thing is."""
PARTICIPLES = frozenset(
    ("told", "found", "made", "asked", "named", "given", "shown", "drawn", "kept")
)
"""Participles that stand alone as any name: of a local, an argument, an attribute, a function."""
FORBIDDEN_NAMES = PARTICIPLES | {
    *("lasting", "again", "own", "each", "one", "this", "these", "there")
}
"""Participles and pronouns that stand alone as a public name or an argument of a public one."""
FORBIDDEN_WORDS = re.compile(r"\b(house|room|rooms|door|doors|floors|wall|walls)\b", re.IGNORECASE)
FRAGMENTS = re.compile(
    "(Of|Or|The same|At|Its|It|In place|By|For|How|Where|From|To|With|When|Else|Last day|More|Also"
    r"|As)\b"
)
"""Beginnings of help texts that hang on another text."""
PHRASES = re.compile(r"wall time|noise floor|floor\(|floors of 2", re.IGNORECASE)


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return [*ast.walk(self.tree)]

    @cached_property
    def name(self) -> str:
        """Dotted name of the module; for a package, of its folder."""
        parts = self.path.relative_to(PACKAGE.parent).with_suffix("").parts
        return ".".join(parts).removesuffix(".__init__")

    @cached_property
    def package(self) -> str:
        """Folder below the package, or name of a loose module."""
        return package_of(self.path.relative_to(PACKAGE).with_suffix("").as_posix())

    @cached_property
    def imports(self) -> set[str]:
        """Dotted names of what is imported, also inside functions."""
        names = set()
        for node in self.nodes:
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
        return {name for name in names if name.split(".")[0] == "ldp"}

    def public(self) -> Iterator[tuple[str, ast.AST, str | None]]:
        """Yield (name, node, docstring) of public functions, methods, classes and constants."""
        yield from _public(self.tree.body, self.name)

    @property
    def code_lines(self) -> int:
        """Number of lines without blanks, comments and docstrings."""
        return len(self.code)

    @cached_property
    def code(self) -> dict[int, str]:
        """Lines without blanks, comments and docstrings, by their numbers."""
        documented = set[int]()
        for node in self.nodes:
            body = getattr(node, "body", None)
            for child in body if isinstance(body, list) else []:
                if _is_text(child):
                    documented |= set(range(child.lineno, child.end_lineno + 1))
        ignored = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT}
        ignored |= {tokenize.DEDENT, tokenize.ENDMARKER}
        lines = set[int]()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in ignored:
                lines |= set(range(token.start[0], token.end[0] + 1))
        every = self.text.splitlines()
        return {number: every[number - 1] for number in sorted(lines - documented)}


def package_of(place: str) -> str:
    """Return the package that a path below `ldp` belongs to, without suffix."""
    for nested in NESTED:
        if place.startswith(nested):
            return nested
    return place.split("/")[0]


def modules() -> list[Module]:
    """Return all files of the package."""
    return [Module(path) for path in sorted(PACKAGE.rglob("*.py"))]


def edges(listed: list[Module]) -> set[tuple[str, str]]:
    """Return the pairs (package, imported package), each once."""
    pairs = set()
    for module in listed:
        for name in module.imports:
            place = "/".join(name.split(".")[1:])
            there = package_of(place)
            exists = (PACKAGE / there).is_dir() or (PACKAGE / f"{there}.py").exists()
            if exists and there != module.package:
                pairs.add((module.package, there))
    return pairs


def edges_above_the_base(listed: list[Module]) -> set[tuple[str, str]]:
    """Return `edges` without those from and to BASE."""
    return {pair for pair in edges(listed) if not BASE & {*pair}}


def probes(listed: list[Module]) -> list[str]:
    """Return the calls of getattr and hasattr that ask a mechanism what it is.

    Calls within `mechanisms` are left out.
    """
    attributes = {
        getattr(child, "name", "") or ast.unparse(child.target)  # type: ignore[union-attr]
        for module in listed
        if module.package == "mechanisms"
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
        for child in node.body
        if isinstance(child, ast.FunctionDef | ast.AnnAssign)
    }
    return [
        f"{module.name}:{node.lineno} {ast.unparse(node)}"
        for module in listed
        if module.package != "mechanisms"
        for node in module.nodes
        if isinstance(node, ast.Call) and is_probe(node, attributes)
    ]


def is_probe(node: ast.Call, attributes: set[str]) -> bool:
    """Return whether a call asks for an attribute that its subject may not have.

    The subject is a mechanism, an addressing or a part; or the attribute is one of the `attributes`
    of mechanisms.
    """
    if not _calls(node, "getattr", "hasattr"):
        return False
    subject, name = node.args[:2]
    is_known = isinstance(name, ast.Constant) and name.value in attributes
    return is_known or bool(re.search("mechanism|addressing|part", ast.unparse(subject)))


def type_checks(listed: list[Module]) -> list[str]:
    """Return the calls of isinstance, outside of `mechanisms`, with a class that is defined
    there."""
    classes = {
        node.name
        for module in listed
        if module.package == "mechanisms"
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
    }
    return [
        f"{module.name}:{node.lineno} {ast.unparse(node)}"
        for module in listed
        for node in module.nodes
        if module.package != "mechanisms"
        and isinstance(node, ast.Call)
        and _calls(node, "isinstance")
        and classes & {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
    ]


def _calls(node: ast.Call, *names: str) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id in names


def largest_file(listed: list[Module]) -> tuple[int, str]:
    """Return the largest number of lines of code of a file, and the file's name."""
    return max((module.code_lines, module.name) for module in listed)


def characters_of_a_line(listed: list[Module]) -> float:
    """Return the mean number of characters of a line of code, without its indentation."""
    return mean(len(line.strip()) for module in listed for line in module.code.values())


def lines_of_a_function(listed: list[Module]) -> float:
    """Return the median number of lines of code of a function, including its first line."""
    sizes = []
    for module in listed:
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                inside = range(node.lineno, (node.end_lineno or 0) + 1)
                sizes.append(sum(number in module.code for number in inside))
    return median(sizes)


def repeated_files(listed: list[Module]) -> list[str]:
    """Return the names of files that stand in several folders, besides those of Python itself."""
    counts = Counter(module.path.name for module in listed)
    return sorted(name for name, count in counts.items() if count > 1 and "__" not in name)


def repeated_names(listed: list[Module]) -> list[str]:
    """Return the public functions and classes that several files define, without methods."""
    counts = Counter(
        node.name
        for module in listed
        for node in module.tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    )
    return sorted(name for name, count in counts.items() if count > 1)


def _commands() -> tuple[list[click.Command], list[click.Command]]:
    """Return the commands after `ldp`, and those that follow one of them."""
    from ldp.cli import commands

    context = click.Context(commands)
    loaded = [commands.get_command(context, name) for name in commands.list_commands(context)]
    top = [command for command in loaded if command is not None]
    groups = [command for command in top if isinstance(command, click.Group)]
    return top, [command for group in groups for command in group.commands.values()]


def command_words() -> tuple[int, int]:
    """Return the number of words after `ldp`, and that number plus the words after them."""
    top, below = _commands()
    return len(top), len(top) + len(below)


def fragments_of_help() -> list[str]:
    """Return the help texts of options that begin as a fragment."""
    options = [option for commands in _commands() for one in commands for option in one.params]
    texts = {option.help or "" for option in options if isinstance(option, click.Option)}
    return sorted(text for text in texts if FRAGMENTS.match(text))


def sentence_lengths(folder: Path) -> list[int]:
    """Return the number of words of each sentence of the docstrings below a folder.

    Docstrings of attributes and private things count, doctests and single words do not.
    """
    lengths = []
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            body = getattr(node, "body", None)
            for child in body if isinstance(body, list) else []:
                if _is_text(child):
                    prose = re.sub(r"(?m)^\s*(>>>|\.\.\.).*$", "", child.value.value)
                    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", prose))
                    sentences = [one for part in paragraphs for one in SENTENCES.split(part)]
                    lengths += [len(one.split()) for one in sentences]
    return [length for length in lengths if length > 1]


def prose_of_readme() -> int:
    """Return the number of words of README.md without code, pictures and addresses."""
    text = (ROOT / "README.md").read_text("utf-8")
    for ignored in (r"(?s)```.*?```", r"!\[[^]]*\]\([^)]*\)", r"(?<=\])\([^)]*\)"):
        text = re.sub(ignored, "", text)
    return len(text.split())


def _pages() -> list[str]:
    """Return the pages of the documentation that people write."""
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name != "commands.md"]
    written = [page for page in pages if not {"_build", "notebooks"} & {*page.parts}]
    return [page.read_text("utf-8") for page in written]


def words_of_docs() -> int:
    """Return the number of words of the documentation that people write."""
    return sum(len(page.split()) for page in _pages())


def sentence_lengths_of_docs() -> list[int]:
    """Return the number of words of each sentence of the documentation.

    Code, tables, headings, pictures and addresses are left out. Items of lists stand alone.
    """
    lengths = []
    for page in _pages():
        text = page
        for ignored in (r"(?s)```.*?```", r"!\[[^]]*\]\([^)]*\)", r"(?<=\])\([^)]*\)"):
            text = re.sub(ignored, "", text)
        text = re.sub(r"(?m)^\s*(#|\||:::).*$", "", text)
        items = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", text)
        sentences = [one for item in items for one in SENTENCES.split(" ".join(item.split()))]
        lengths += [len(one.split()) for one in sentences]
    return [length for length in lengths if length > 1]


def cycles(listed: list[Module]) -> list[str]:
    """Return the modules that import themselves through others when they are loaded."""
    names = {module.name for module in listed}
    graph: dict[str, set[str]] = {}
    for module in listed:
        graph[module.name] = set()
        for node in module.tree.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    there = full if full in names else node.module
                    is_parent = module.name.startswith(f"{there}.")
                    if there in names and there != module.name and not is_parent:
                        graph[module.name].add(there)
    reached = {name: _reachable(graph, name) for name in graph}
    return sorted(name for name in graph if name in reached[name])


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen, waiting = set[str](), list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph[name]
    return seen


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _public(body: list[ast.stmt], owner: str) -> Iterator[tuple[str, ast.AST, str | None]]:
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not node.name.startswith("_"):
                yield f"{owner}.{node.name}", node, ast.get_docstring(node)
                if isinstance(node, ast.ClassDef):
                    yield from _public(node.body, f"{owner}.{node.name}")
        elif isinstance(node, ast.Assign | ast.AnnAssign) and after is not None and _is_text(after):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and not target.id.startswith("_"):
                yield f"{owner}.{target.id}", node, ast.literal_eval(after.value)  # type: ignore[attr-defined]


def follows_the_law(node: ast.AST, docstring: str) -> bool:
    """Return whether a docstring starts with a verb (functions) or a noun phrase (the rest)."""
    start = " ".join(docstring.split()).lower()
    first = re.split(r"[^\w]", start, maxsplit=1)[0]
    is_property = any(
        "property" in ast.unparse(decorator) for decorator in getattr(node, "decorator_list", [])
    )
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return first in VERBS or (is_property and not start.startswith((*RIDDLES, "whether ")))
    return not start.startswith(RIDDLES) and first not in ("whether", "why", "who")


def documents_arguments(node: ast.AST, docstring: str) -> bool | None:
    """Return whether a docstring names an argument or a shape; None if there are no arguments."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    arguments = {argument.arg for argument in every} - {"self", "cls"}
    if not arguments:
        return None
    words = set(re.findall(r"\w+", docstring))
    return bool(words & arguments) or "shape" in words


def bound_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of everything that is bound.

    That is variables, attributes, arguments, functions, classes, imported and caught names.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.alias):
            yield node.lineno, node.asname or node.name
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.lineno, node.name


def forbidden_names(listed: list[Module]) -> list[str]:
    """Return names that no noun or verb carries: public names, and arguments of public functions.

    The places where a participle alone is bound follow, private or not.
    """
    names = [
        f"{module.name}:{line} {name}"
        for module in listed
        for line, name in bound_names(module.tree)
        if name.strip("_") in PARTICIPLES
    ]
    for module in listed:
        for name, node, _ in module.public():
            if name.rsplit(".", 1)[1] in FORBIDDEN_NAMES:
                names.append(name)
            if isinstance(node, ast.FunctionDef):
                every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                names += [
                    f"{name}({argument.arg})"
                    for argument in every
                    if argument.arg in FORBIDDEN_NAMES
                ]
    return names


def forbidden_words(listed: list[Module]) -> list[str]:
    """Return the lines of code and prose that hold a word for the layout of a building."""
    return [
        f"{module.name}: {line.strip()}"
        for module in listed
        for line in module.text.splitlines()
        if FORBIDDEN_WORDS.search(PHRASES.sub("", line))
    ]


def kinds_of_results(listed: list[Module]) -> list[str]:
    """Return the classes of tables and decoders that define intervals, or how a file is written."""
    return [
        f"{module.name}.{node.name}"
        for module in listed
        if module.package in ("tables", "decoding")
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
        and {"interval", "to_csv"} & {getattr(child, "name", "") for child in node.body}
    ]


def kinds_of_questions(listed: list[Module]) -> list[str]:
    """Return the classes with a body for a mechanism's error and for its simulation."""
    kinds = []
    for module in listed:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                methods = {
                    child.name
                    for child in node.body
                    if isinstance(child, ast.FunctionDef) and not child.decorator_list
                }
                if {"std_error", "simulate"} <= methods:
                    kinds.append(f"{module.name}.{node.name}")
    return kinds


@dataclass(frozen=True)
class Words:
    """Counts of the docstrings of public things.

    `lawful`: docstrings that follow the law of words. `documented`: functions `with_arguments`
    whose docstring names an argument or a shape.
    """

    total: int
    lawful: int
    with_arguments: int
    documented: int
    offenders: tuple[str, ...]


def words(listed: list[Module]) -> Words:
    """Return the counts of public docstrings."""
    total = lawful = with_arguments = documented = 0
    offenders = []
    for module in listed:
        for name, node, docstring in module.public():
            if docstring is None:
                continue
            total += 1
            if follows_the_law(node, docstring):
                lawful += 1
            else:
                offenders.append(f"{name}: {docstring.splitlines()[0]}")
            has = documents_arguments(node, docstring)
            with_arguments += has is not None
            documented += bool(has)
    return Words(total, lawful, with_arguments, documented, tuple(offenders))


def main() -> None:
    listed = modules()
    packages = Counter(module.package for module in listed)
    loose = [name for name in packages if (PACKAGE / f"{name}.py").exists()]
    print(
        f"{len(packages)} packages and loose modules, {len(edges(listed))} edges between them, "
        f"{len(edges_above_the_base(listed))} without {', '.join(sorted(BASE))}"
    )
    print(f"loose modules: {', '.join(sorted(loose))}")
    print(f"cycles: {len(cycles(listed))} {' '.join(cycles(listed))}")
    counted = words(listed)
    print(
        f"public docstrings: {counted.total}, {counted.lawful / counted.total:.1%} start as they "
        f"should; of {counted.with_arguments} functions with arguments "
        f"{counted.documented / counted.with_arguments:.1%} name an argument or a shape"
    )
    print(f"forbidden names: {len(forbidden_names(listed))}")
    print(f"forbidden words: {len(forbidden_words(listed))}")
    print(f"classes with intervals and files: {', '.join(kinds_of_results(listed))}")
    print(f"kinds of questions: {', '.join(kinds_of_questions(listed))}")
    print(f"lines of code: {sum(module.code_lines for module in listed):,}")
    print("largest file: {:,} lines of code, {}".format(*largest_file(listed)))
    print(f"characters of a line of code, mean: {characters_of_a_line(listed):.1f}")
    print(f"lines of a function, median: {lines_of_a_function(listed):g}")
    print(f"files whose name stands twice: {len(repeated_files(listed))}")
    print(f"public names in several files: {len(repeated_names(listed))}")
    for folder in (PACKAGE, ROOT / "simulations", ROOT / "tests"):
        length = median(sentence_lengths(folder))
        print(f"words of a sentence in docstrings of {folder.name}, median: {length:g}")
    print(f"words of a sentence in docs, median: {median(sentence_lengths_of_docs()):g}")
    print(f"helps that are fragments: {len(fragments_of_help())}")
    print(f"words of docs: {words_of_docs():,}, prose of README: {prose_of_readme()}")
    print("words of commands: {} at the top level, {} in all".format(*command_words()))
    print(f"mechanisms that are asked by getattr what they are: {len(probes(listed))}")
    print(f"classes of mechanisms that are asked for: {len(type_checks(listed))}")
    for line in (*counted.offenders, *forbidden_names(listed), *forbidden_words(listed)):
        print("  ", line)


if __name__ == "__main__":
    main()
