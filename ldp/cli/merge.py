"""`ldp merge`: tables of one mechanism become one."""

from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import click

from ldp.cli.options import FILE, JSON, say
from ldp.errors import MergeError, ParameterError, errors_in
from ldp.files import counted
from ldp.tables.joint_table import load_table


@click.command()
@click.argument("tables", nargs=-1, required=True, type=FILE)
@click.option("--out", required=True, type=FILE, help="Table file to write.")
@click.option(
    "--overlapping",
    is_flag=True,
    help="Accept days that are in several tables, and equal tables, whose reports differ.",
)
@JSON
def merge_command(tables: tuple[Path, ...], out: Path, overlapping: bool, as_json: bool) -> None:
    """Add tables of the same mechanism exactly, in any order.

    A day that is in two of them may be counted twice: nobody can tell from tables whether their
    reports are the same. So it is refused without --overlapping, and so are two equal tables.

    \b
    Example: ldp merge monday.table tuesday.table --out week.table
    """
    total: Any = load_table(tables[0])
    windows = list(total.windows)
    # one at a time: a year of tables may not fit into memory
    for path in tables[1:]:
        table: Any = load_table(path)
        windows += table.windows
        with errors_in(str(path), MergeError):
            total += table
    repeated = sorted(day for day, times in Counter(windows).items() if times > 1)
    if repeated and not overlapping:
        raise ParameterError(
            f"days in more than one of these tables: {len(repeated)}, the first {repeated[0]}; "
            "give --overlapping if their reports differ, or each table once"
        )
    digests = {sha256(path.read_bytes()).digest() for path in tables}
    if len(digests) < len(tables) and not overlapping:
        raise ParameterError(
            "two of these tables are the same: name each once, or give --overlapping if the "
            "reports differ"
        )
    total.save(out)
    result = {"tables": len(tables), "reports": total.total, "written": str(out)}
    words = f"{counted(len(tables), 'table')}, {counted(total.total, 'report')} -> {out}"
    say(result, words, as_json, "ldp decode {} --out estimates.csv", out)
