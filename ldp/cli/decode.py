"""`ldp decode`: a table becomes estimates."""

import csv
import io
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ldp.cli.estimates import INTERVALS_UNDER_FAKES, OF_REPORTS, check_output, write_estimates
from ldp.cli.options import (
    DAY,
    FAKES,
    FILE,
    JSON,
    QUANTILES,
    STORE,
    check_days,
    progress,
    say,
)
from ldp.cli.stores import noting_what_waits
from ldp.collection.object_store import StorePath
from ldp.decoding import METHODS
from ldp.decoding.consistency import CONSISTENCIES
from ldp.errors import DecodeError, ParameterError
from ldp.files import csv_text, read_lines
from ldp.protocol.md5_bloom import MD5_SCHEMES
from ldp.tables.estimates import CONTROLS, Rule
from ldp.tables.result import COUNT

if TYPE_CHECKING:
    from ldp.protocol.spelling import Spelling
    from ldp.tables.patterns import Patterns
    from ldp.tables.result import Result
    from ldp.tables.table import Table


HASHES = (*MD5_SCHEMES, "chromium-city64")


@click.command()
@click.argument("source", required=False, metavar="[TABLE|METRIC]")
@click.argument("stores", nargs=-1, type=STORE, metavar="[DIR]...")
@click.option("--registry", type=FILE, help="metrics.toml, when a METRIC is named.")
@click.option("--since", type=DAY, help="First day of the reports in DIR.")
@click.option("--until", type=DAY, help="Last day.")
@click.option("--rappor-params", type=FILE, help="google/rappor's params file, instead of TABLE.")
@click.option("--rappor-counts", type=FILE, help="Its counts file.")
@click.option("--rappor-reports", type=FILE, help="Or its clients' reports, to be summed.")
@click.option("--rappor-map", type=FILE, help="Its map of candidates; or give --candidates.")
@click.option("--rappor-hash", type=click.Choice(HASHES), help="How clients hash.")
@click.option(
    "--weighted-reports-per-client",
    metavar="X|FILE",
    help="Number sum K**2 / sum K over clients that sent K reports each, or a CSV file "
    "reports,clients with how many clients sent how many: errors of people count each client once.",
)
@click.option("--part", help="Which table of a file that holds several, as words of a puzzle.")
@click.option("--candidates", help="One value a line, or CSV with a value column; - reads stdin.")
@click.option("--out", required=True, help="Estimates as CSV; - prints them.")
@click.option("--method", type=click.Choice(["auto", *METHODS]), default="auto")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Error rate.")
@click.option("--control", type=click.Choice(CONTROLS), default="fdr", show_default=True)
@click.option("--level", type=float, default=0.95, show_default=True, help="Of the intervals.")
@QUANTILES
@click.option("--threshold", type=float, help="Discover by count instead of by error rate.")
@click.option(
    "--consistency",
    type=click.Choice(CONSISTENCIES),
    default="none",
    show_default=True,
    help="Print counts that could be counts: a smaller error in all, and a bias, which is stated.",
)
@FAKES
@JSON
def decode(
    source: str | None,
    stores: tuple[StorePath, ...],
    registry: Path | None,
    since: date | None,
    until: date | None,
    rappor_params: Path | None,
    rappor_counts: Path | None,
    rappor_reports: Path | None,
    rappor_map: Path | None,
    rappor_hash: str | None,
    weighted_reports_per_client: str | None,
    part: str | None,
    candidates: str | None,
    out: str,
    method: str,
    alpha: float,
    control: str,
    level: float,
    quantiles: tuple[float, ...],
    threshold: float | None,
    consistency: str,
    fakes: float | None,
    as_json: bool,
) -> None:
    """Estimate how many reports of TABLE, or of google/rappor's files, held each candidate.

    Decoding again, with other candidates too, costs no privacy: it reads the table only.

    Of a RAPPOR metric of up to 8 bits, the whole reports in DIR find more than a table, which
    counts their bits.

    With --fakes intervals hold for the other reports, whatever that share of all says.

    \b
    Example: ldp decode city.table --out estimates.csv
    Example: ldp decode --rappor-params params.csv --rappor-counts counts.csv \\
                 --rappor-map map.csv --out estimates.csv
    Example: ldp decode latency.table --quantile 0.5 --quantile 0.95 --out latency.csv
    Example: ldp decode city.table --fakes 1% --out estimates.csv
    Example: ldp decode homepage store --registry metrics.toml --out homepage.csv
    """
    from ldp.decoding.outcome import is_about_numbers, numbers_outcome
    from ldp.registry import read_values
    from ldp.server import consistent
    from ldp.server import decode as decoded
    from ldp.tables.google_rappor import SCHEME, read_map, read_reports, read_table

    sources = [rappor_counts is not None, rappor_reports is not None].count(True)
    if (source is None) == (rappor_params is None) or sources != (rappor_params is not None):
        raise ParameterError(
            "give either TABLE, or --rappor-params with --rappor-counts or --rappor-reports"
        )
    if (registry is None) == bool(stores) or (registry is None and (since or until)):
        raise ParameterError("to decode whole reports, name a metric, its stores and --registry")
    if rappor_params is None and (rappor_map or rappor_hash):
        raise ParameterError("--rappor-map and --rappor-hash go with --rappor-params")
    if rappor_params is not None and (rappor_map is None) == (candidates is None):
        raise ParameterError("give either --rappor-map or --candidates")
    rule = Rule(alpha=alpha, control=control, threshold=threshold)
    check_output(out, level)
    names, weighted = None, _weighted(weighted_reports_per_client)
    if candidates:
        names = read_values(Path("/dev/stdin" if candidates == "-" else candidates))
    places = spelling = patterns = None
    if registry is not None:
        if part is not None:
            raise ParameterError("--part goes with a table")
        counted, patterns = _whole_reports(str(source), stores, registry, since, until)
    elif source is not None:
        context = click.get_current_context()
        counted, spelling = _single(FILE.convert(source, None, context), part)
        if names and spelling:
            names = tuple(dict.fromkeys(map(spelling.clean, names)))
    else:
        assert rappor_params is not None
        scheme = rappor_hash or SCHEME
        if rappor_reports is not None:
            counted = read_reports(rappor_params, rappor_reports, scheme)
        else:
            assert rappor_counts is not None
            counted = read_table(rappor_params, rappor_counts, scheme)
        if rappor_map is not None:
            names, places = read_map(rappor_map, counted)
    if quantiles or is_about_numbers(counted.mechanism):
        if candidates:
            raise ParameterError("--candidates names values: a table of numbers has none")
        numbers = numbers_outcome(counted, level, quantiles, consistency)
        numbers = numbers.at(reports_per_person=weighted).under_fakes(fakes)
        _write_numbers(numbers, out, fakes, as_json)
        return
    estimates = decoded(
        counted,
        names,
        method=method,
        rule=rule,
        places=places,
        weighted_reports_per_client=weighted,
        patterns=patterns,
    )
    estimates = consistent(estimates.under_fakes(fakes), consistency)
    if spelling is not None:
        details = {**estimates.details, "spelling": asdict(spelling)}
        estimates = replace(estimates, details=details)
    write_estimates(estimates.at(level=level), out, "candidates", as_json)


def _weighted(option: str | None) -> float | None:
    """Return the number, or that of the CSV file reports,clients of this name."""
    from ldp.decoding import weighted_mean

    if option is None:
        return None
    with suppress(ValueError):
        return float(option)
    try:
        lines = read_lines(Path(option).read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError):
        raise ParameterError(
            "--weighted-reports-per-client must be a number or a CSV file reports,clients"
        ) from None
    if not lines or lines[0].split(",") != ["reports", "clients"]:
        raise ParameterError(f"{option} must start with the line reports,clients")
    clients = Counter[int]()
    for number, line in enumerate(lines[1:], 2):
        cells = line.split(",")
        if len(cells) != 2 or not all(cell.isascii() and cell.isdigit() for cell in cells):
            raise ParameterError(f"{option}, line {number}: two whole numbers were expected")
        clients[int(cells[0])] += int(cells[1])
    return weighted_mean(clients)


def _write_numbers(result: "Result", out: str, fakes: float | None, as_json: bool) -> None:
    """Write the mean, the regression or the distribution of a table of numbers, whose intervals
    allow for the share `fakes`."""
    text, summary = result.to_csv(None if out == "-" else out), result.summary
    if out != "-":
        rows = [*csv.reader(io.StringIO(text, newline=""))]
        text = csv_text([row for row in rows if row[0] != COUNT])
        for (name, higher), some in groupby(
            summary.get("differences", ()), lambda one: (one["statistic"], one["higher"])
        ):
            text += (
                f"{name} of {higher} is above that of {', '.join(one['lower'] for one in some)}\n"
            )
        if summary.get("differences"):
            sure = 100 * (1 - summary["differences_alpha"])
            text += f"all of these are right with a probability of {sure:g} %\n"
        text += f"-> {out}"
        if fakes is not None:
            text += f"\n{INTERVALS_UNDER_FAKES.format(share=100 * fakes)}"
        if result.reports_per_person is None:
            text += f"\n{OF_REPORTS}"
    following = "" if out == "-" else f"ldp report {out} --out report.html"
    say(summary, text.rstrip("\n"), as_json, following)


def _whole_reports(
    metric: str,
    stores: tuple[StorePath, ...],
    registry: Path,
    since: date | None,
    until: date | None,
) -> "tuple[Table, Patterns]":
    """Return the table and the patterns of the stored reports of a RAPPOR `metric`."""
    from ldp.collection import report_files
    from ldp.collection.patterns import patterns_of
    from ldp.decoding.report_patterns import require_decodable
    from ldp.registry import Registry
    from ldp.registry.explaining import label
    from ldp.tables.table import Table

    known = Registry.load(registry)
    definition = known.metric(metric)
    mechanism = require_decodable(definition.mechanism)
    check_days(since, until)
    with noting_what_waits(stores, metric, definition.version):
        files = report_files(stores, metric, definition.version, since, until)
    advance = progress("files", len(files))
    patterns = patterns_of(files, mechanism, lambda _: advance(1))
    table = patterns.table()
    assert isinstance(table, Table)
    table = replace(table, windows=tuple(sorted({day for day, _ in files})))
    table = table.of_metric(definition.candidates(), bool(definition.memoise))
    return table.labelled(label(known, metric)), patterns


def _single(path: Path, part: str | None) -> "tuple[Table, Spelling | None]":
    """Return the table of a file, or that of its `part`, and how its words are spelled."""
    from ldp.tables.joint_table import load_table
    from ldp.tables.table import Table

    loaded = load_table(path)
    if isinstance(loaded, Table):
        if part is not None:
            raise DecodeError(f"{path}: holds one table, leave --part out")
        return loaded, getattr(loaded.mechanism, "spelling", None)
    names = [name for name, _ in loaded.mechanism.parts]
    if part not in names:
        raise DecodeError(
            f"{path}: holds several tables: use ldp discover, or name one with --part: "
            f"{', '.join(names)}"
        )
    return loaded[part], getattr(loaded.mechanism, "spelling", None)
