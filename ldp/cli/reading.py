"""Options for the format of data files, and small tables of whole numbers."""

from collections.abc import Callable
from typing import Any

import click

from ldp.cli.parsing import Typed
from ldp.cli.settings import rare
from ldp.data_files import DELIMITERS, SHOWN, DataTable, Reading
from ldp.errors import ParameterError


def whole_rows(table: DataTable, names: list[str]) -> list[tuple[int, ...]]:
    """Return the columns `names` of whole numbers >= 0, one tuple a row. Raise ParameterError for
    any other cell, with its line and its text."""
    columns = [table.numbers(name) for name in names]
    for (line, _), *cells in zip(table.rows, *columns, strict=True):
        for cell in cells:
            if not (cell.isascii() and cell.isdigit()):
                raise ParameterError(
                    f"{table.where(line)}: whole numbers were expected, not {cell[:SHOWN]!r}"
                )
    return [tuple(map(int, cells)) for cells in zip(*columns, strict=True)]


def _delimiter(text: str) -> str:
    sign = next(
        (sign for sign, name in DELIMITERS.items() if text in (name, sign, ascii(sign)[1:-1])), text
    )
    if len(sign) != 1 or sign in '"\r\n\0':
        raise ParameterError("is one character, or tab")
    return sign


def _keep(context: click.Context, option: click.Parameter, value: Any) -> None:
    context.meta[f"ldp.{option.name}"] = value


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the format of a data file to a command. `chosen_reading` returns their
    values."""
    for name, kind, words in (
        ("--encoding", None, "Encoding that the data have, as cp1252; by default UTF-8."),
        ("--decimal", click.Choice([".", ","]), "Decimal sign that numbers of data have."),
        ("--delimiter", Typed("SIGN", _delimiter), "Sign that separates columns, as ; or tab."),
    ):
        command = rare(name, kind, None, words, expose_value=False, callback=_keep)(command)
    return command


def chosen_reading() -> Reading:
    """Return the format of data files that the options of the command state."""
    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    delimiter, decimal, encoding = map(meta.get, ("ldp.delimiter", "ldp.decimal", "ldp.encoding"))
    return Reading(delimiter, decimal, encoding)
