"""`ldp rappor`: tables of RAPPOR from the files of google/rappor, and back."""

from pathlib import Path

import click

from ldp.cli.options import FILE, JSON, say, warn
from ldp.cli.reading import chosen_reading, reading_options
from ldp.errors import DecodeError, ParameterError
from ldp.files import counted, real_path, write_together
from ldp.protocol.channel import rounded_up
from ldp.protocol.md5_bloom import MD5_SCHEMES

HASHES = (*MD5_SCHEMES, "chromium-city64")


@click.group()
def rappor_command() -> None:
    """Make a table from google/rappor's files, or its files from a table.

    \b
    Example: ldp rappor import --params params.csv --counts counts.csv --out home.table
    """


@rappor_command.command("import")
@click.option("--params", type=FILE, required=True, help="Parameters of google/rappor to read.")
@click.option("--counts", type=FILE, help="Counts of google/rappor to read.")
@click.option("--reports", type=FILE, help="Reports of google/rappor's clients to sum.")
@click.option(
    "--hash",
    "scheme",
    type=click.Choice(HASHES),
    default=HASHES[0],
    help="Hash functions that the clients use.",
)
@click.option("--out", type=FILE, required=True, help="Table file to write.")
@JSON
def import_(
    params: Path,
    counts: Path | None,
    reports: Path | None,
    scheme: str,
    out: Path,
    as_json: bool,
) -> None:
    """Make a table from google/rappor's params.csv and its counts or reports.

    \b
    Example: ldp rappor import --params params.csv --counts counts.csv --out home.table
    """
    from ldp.tables.google_rappor import read_google_reports, read_google_table

    if counts is not None:
        table = read_google_table(params, counts, scheme, warn)
    else:
        assert reports is not None  # one of both
        table = read_google_reports(params, reports, scheme, warn)
    table.save(out)
    epsilon = table.mechanism.cost.epsilon
    words = f"{counted(table.total, 'report')} of epsilon {rounded_up(epsilon)} -> {out}"
    with_map = "" if table.mechanism.listed else "--rappor-map map.csv "
    following = f"ldp decode {{}} {with_map}--out estimates.csv"
    result = {"reports": table.total, "epsilon": epsilon, "written": str(out)}
    say(result, words, as_json, following, out)


@rappor_command.command("export")
@click.argument("table", type=FILE)
@click.option("--candidates", type=FILE, required=True, help="Candidates to write, one a line.")
@click.option("--out", required=True, type=FILE, help="Folder to write into.")
@JSON
@reading_options
def export(table: Path, candidates: Path, out: Path, as_json: bool) -> None:
    """Write a TABLE of RAPPOR as google/rappor's params.csv, counts.csv and map.csv.

    Its decoder in R reads them. A map may be of any hash functions, so any scheme will do.

    \b
    Example: ldp rappor export home.table --candidates hosts.txt --out rappor
    """
    from ldp.registry.value_files import read_values
    from ldp.tables.google_rappor import file_texts
    from ldp.tables.joint_table import load_table
    from ldp.tables.table import Table

    loaded, names = load_table(table), read_values(candidates, chosen_reading())
    if not isinstance(loaded, Table):
        raise DecodeError(f"{table}: holds several tables; google/rappor has files of one")
    texts = file_texts(loaded, names)
    for path in (table, candidates):
        if real_path(path) in [real_path(out / name) for name in texts]:
            raise ParameterError(f"{path} is also an input; name another folder for the output")
    write_together({out / name: text for name, text in texts.items()})
    result = {"reports": loaded.total, "candidates": len(names), "written": [*texts]}
    words = f"{counted(loaded.total, 'report')}, {counted(len(names), 'candidate')} -> {out}: "
    words += ", ".join(texts)
    say(result, words, as_json)
