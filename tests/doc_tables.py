"""Write the table of mechanisms, the page of commands and JSON Schemas from the code.

`python -m tests.doc_tables` (`make tables`) writes them into the pages, and
`tests/docs/test_docs.py` compares the pages with them. The table is recognised by its header. What
parameters mean, and their ranges, is prose in tables by parameter.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from inspect import cleandoc
from pathlib import Path

import click

from ldp.cli import commands
from ldp.mechanisms import METRIC_MECHANISMS, CatalogueMechanism, Mechanism
from ldp.mechanisms.catalogue import CLASSES
from tests.schemas import question_schema, registry_schema, scenario_schema

DOCS = Path(__file__).parent.parent / "docs"
HEADER = "| mechanism | id | kind | what it is | parameters |\n"
"""Header of the table of mechanisms, in registry.md."""
PARAMETER_PAGES = ("wire.md", "registry.md")
"""Pages with a table by parameter."""


def table() -> str:
    """Return the lines of the table of mechanisms below its header."""
    kinds = sorted(METRIC_MECHANISMS.values(), key=lambda kind: kind.wire_id)
    rows = [[_link(k), str(k.wire_id), _form(k), _summary(k), _choices(k)] for k in kinds]
    return "".join(f"| {' | '.join(row)} |\n" for row in (["---"] * 5, *rows))


def committed() -> str:
    """Return the lines of the table of mechanisms as they are committed."""
    _, below = (DOCS / "registry.md").read_text("utf-8").split(HEADER)
    return below.split("\n\n")[0] + "\n"


def described(page: str) -> list[str]:
    """Return the parameters in the first column of the page's table by parameter."""
    _, below = (DOCS / page).read_text("utf-8").split("\n| parameter | ")
    firsts = [row.split("|")[1] for row in below.split("\n\n")[0].splitlines()[2:]]
    return re.findall(r"`(\w+)`", " ".join(firsts))


def names(kind: type[CatalogueMechanism]) -> list[str]:
    """Return the parameters of a mechanism."""
    return [field.name for field in fields(kind)]


def _link(kind: type[CatalogueMechanism]) -> str:
    """Return the name, with a link to the page that shows the mechanism's picture."""
    for path in sorted((DOCS / "mechanisms").glob("*.md")):
        if f"studies/estimates-{kind.name}.svg)" in path.read_text("utf-8"):
            return f"[`{kind.name}`](mechanisms/{path.name})"
    return f"`{kind.name}`"


def _form(kind: type[CatalogueMechanism]) -> str:
    return kind.kind.__name__.upper() if issubclass(kind, Mechanism) else "several parts"


def _summary(kind: type[CatalogueMechanism]) -> str:
    """Return the first sentence of the docstring up to its colon; a page has the rest."""
    sentence = " ".join(str(kind.__doc__).split("\n\n")[0].split()).partition(":")[0]
    named = re.sub(r"(?<=`)\w+(?=`)", lambda match: CLASSES.get(match[0], match[0]), sentence)
    return named.removesuffix(".")


def _choices(kind: type[CatalogueMechanism]) -> str:
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
    made = {
        "metrics": registry_schema(),
        "questions": question_schema(),
        "scenario": scenario_schema(),
    }
    return {
        f"{name}.schema.json": json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
        for name, schema in made.items()
    }


def commands_page() -> str:
    """Return the page of commands, made from the commands themselves."""
    parts = [COMMANDS_HEAD]
    for name in commands.list_commands(click.Context(commands)):
        command = commands.get_command(click.Context(commands), name)
        assert command is not None
        parts += _command(f"ldp {name}", command)
        inner = command.commands if isinstance(command, click.Group) else {}
        for inner_name, inner_command in inner.items():
            parts += _command(f"ldp {name} {inner_name}", inner_command)
    return "\n".join(parts)


def _command(name: str, command: click.Command) -> Iterator[str]:
    """Yield the lines of a command: its usage, its help, its options."""
    context = click.Context(command, info_name=name, show_default=True)
    yield f"## {name}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    paragraphs = cleandoc(str(command.help)).split("\n\n")
    for paragraph in paragraphs:
        if paragraph.startswith("\b"):
            lines = "\n".join(f"    {line}" for line in paragraph.splitlines()[1:])
            yield f"{lines}\n"
        else:
            yield f"{_escaped(' '.join(paragraph.split()))}\n"
    yield f"    {name} {usage}\n"
    options = [option for option in command.params if isinstance(option, click.Option)]
    for head, is_hidden in (("option", False), ("rare option", True)):
        rows = [_option(option, context) for option in options if option.hidden is is_hidden]
        if rows:
            yield f"| {head} | what it is |\n| --- | --- |"
            yield "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _option(option: click.Option, context: click.Context) -> list[str]:
    metavar = "" if option.is_flag else f" {option.make_metavar(context)}"
    metavar = metavar.replace(" RANGE", "")
    default = option.get_help_extra(context).get("default")
    notes = [_escaped(option.help or "")]
    notes += ["Required."] * option.required + [f"Default: {default}."] * (default is not None)
    names = ", ".join(option.opts)
    return [f"`{names}{metavar}`".replace("|", "\\|"), " ".join(notes).strip()]


def _escaped(text: str) -> str:
    """Return a text of help as Markdown that renders as the same text."""
    return re.sub(r"([|*<>_\[\]])", r"\\\1", text)


COMMANDS_HEAD = """\
# Commands

All commands and their options, made from the code by `make tables`; `ldp NAME --help` says the
same. What they read and write: [files](files.md).

**Numbers** are taken as people write them: `1e6`, `200k`, `1.5M`, `1,000,000`, `1_000_000`, `1 %`.

**Results.** Every command but `demo`, `report` and `relay` takes `--json`, which prints one object
for a program. On a terminal the last line is often the command to go on with. A mistake is one line
and exit status 2, a failed check status 1.

**Completion.** Put the line of your shell into its start-up file, and the names of commands and
options complete with the tabulator key:

    eval "$(_LDP_COMPLETE=bash_source ldp)"     # ~/.bashrc
    eval "$(_LDP_COMPLETE=zsh_source ldp)"      # ~/.zshrc
    _LDP_COMPLETE=fish_source ldp | source      # ~/.config/fish/config.fish

**A small installation.** `pip install '.[cli]'` brings click alone, without numpy: with it `ldp
init`, `registry`, `explain` and `device` work. `[server]` has all but the collector, `[collector]`
that too. `[fast]` is `[server]` with numba, which large inputs need.
"""


def main() -> None:
    (DOCS / "commands.md").write_text(commands_page(), "utf-8")
    for file, text in schemas().items():
        (DOCS / "schemas" / file).write_text(text, "utf-8")
    registry = (DOCS / "registry.md").read_text("utf-8")
    registry = registry.replace(HEADER + committed(), HEADER + table())
    (DOCS / "registry.md").write_text(registry, "utf-8")


if __name__ == "__main__":
    main()
