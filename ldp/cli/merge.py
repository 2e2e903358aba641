"""`ldp merge`: tables of one mechanism become one."""

from pathlib import Path
from typing import Any

import click

from ldp.cli.options import FILE, JSON, say
from ldp.tables.joint_table import load_table


@click.command()
@click.argument("tables", nargs=-1, required=True, type=FILE)
@click.option("--out", required=True, type=FILE, help="Table file to write.")
@JSON
def merge(tables: tuple[Path, ...], out: Path, as_json: bool) -> None:
    """Add tables of the same mechanism; exact in any order.

    \b
    Example: ldp merge monday.table tuesday.table --out week.table
    """
    total: Any = load_table(tables[0])
    windows = list(total.windows)
    for path in tables[1:]:  # one at a time: a year of tables may not fit into memory
        table: Any = load_table(path)
        windows += table.windows
        total += table
    if len(set(windows)) < len(windows):
        click.echo("note: some days are in more than one of these tables", err=True)
    total.save(out)
    result = {"tables": len(tables), "reports": total.total, "written": str(out)}
    say(result, f"{len(tables)} tables, {total.total:,} reports -> {out}", as_json)
