"""`ldp rappor`: a table of RAPPOR in the files of google/rappor."""

from pathlib import Path

import click

from ldp.cli.options import FILE, JSON, say
from ldp.errors import DecodeError, ParameterError
from ldp.files import write_together


@click.command()
@click.argument("table", type=FILE)
@click.option("--candidates", type=FILE, required=True, help="One value a line.")
@click.option("--out", required=True, type=FILE, help="Folder to write into.")
@JSON
def rappor(table: Path, candidates: Path, out: Path, as_json: bool) -> None:
    """Write a TABLE of RAPPOR as google/rappor's params.csv, counts.csv and map.csv.

    Its decoder in R reads them. A map may be of any hash functions, so any scheme will do.

    \b
    Example: ldp rappor home.table --candidates hosts.txt --out rappor
    """
    from ldp.registry import read_values
    from ldp.tables.google_rappor import file_texts
    from ldp.tables.joint_table import load_table
    from ldp.tables.table import Table

    counted, names = load_table(table), read_values(candidates)
    if not isinstance(counted, Table):
        raise DecodeError(f"{table}: holds several tables; google/rappor has files of one")
    texts = file_texts(counted, names)
    for path in (table, candidates):
        if path.resolve() in {(out / name).resolve() for name in texts}:
            raise ParameterError(f"{path} is also an input; name another folder for the output")
    write_together({out / name: text for name, text in texts.items()})
    result = {"reports": counted.total, "candidates": len(names), "written": [*texts]}
    words = f"{counted.total:,} reports, {len(names):,} candidates -> {out}: {', '.join(texts)}"
    say(result, words, as_json)
