"""`ldp decode`: a table becomes estimates of values, numbers, words or pairs."""

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ldp.cli.estimates import INTERVALS_UNDER_FAKES, OF_REPORTS, check_output, write_estimates
from ldp.cli.options import FAKES, FILE, JSON, LEVEL, QUANTILES, say, warn
from ldp.cli.parsing import Typed, name_and_parameters, plain_number
from ldp.cli.reading import chosen_reading, reading_options, whole_rows
from ldp.cli.settings import rare
from ldp.data_files import read_table
from ldp.decoding import METHODS
from ldp.decoding.consistency import CONSISTENCIES
from ldp.errors import DecodeError, ParameterError
from ldp.files import counted
from ldp.tables.estimates import CONTROLS, Rule
from ldp.tables.result import COUNT

if TYPE_CHECKING:
    from ldp.decoding.association import Association
    from ldp.mechanisms import Mechanism
    from ldp.protocol.spelling import Spelling
    from ldp.tables.joint_table import AnyTable, JointTable
    from ldp.tables.result import Result


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of the command line, except --part."""

    candidates: tuple[str, ...]
    weighted_reports_per_client: str | None
    out: str
    rappor_map: Path | None
    method: tuple[str, int | None]
    rule: Rule | None
    level: float
    quantiles: tuple[float, ...]
    consistency: str
    fakes: float | None
    as_json: bool

    @property
    def weighted(self) -> float | None:
        """Reports that the client of a report sent, on average over the reports: the number, or
        that of the CSV file reports,clients of this name."""
        option = self.weighted_reports_per_client
        if option is None:
            return None
        with suppress(ValueError):
            return float(option)
        if not os.path.isfile(option):
            raise ParameterError(
                "--weighted-reports-per-client must be a number or a CSV file reports,clients"
            )
        from ldp.decoding import weighted_mean  # late: it loads scipy

        table = read_table(option, chosen_reading())
        if table.header != ["reports", "clients"]:
            raise ParameterError(f"{option} must start with the line reports,clients")
        clients = Counter[int]()
        for reports, number in whole_rows(table, table.header):
            clients[reports] += number
        return weighted_mean(clients)


def _rule(text: str) -> Rule:
    """Return the decision rule of a text such as fdr=0.05 or threshold=500."""
    name, equals, written = text.partition("=")
    try:
        number = float(plain_number(written)) if equals else math.nan
    except ValueError:
        name = ""
    if name not in (*CONTROLS, "threshold"):
        raise ParameterError("must be as fdr=0.05, bonferroni, none=0.05 or threshold=500")
    if name == "threshold":
        return Rule(threshold=number)
    return Rule(control=name, alpha=number if equals else Rule.alpha)


def _method(text: str) -> tuple[str, int | None]:
    """Return the method of a text such as regression or 'puzzle, top = 4', and the number `top`."""
    name, parameters = name_and_parameters(text, "puzzle, top = 4")
    known = {"top"} if name == "puzzle" else set[str]()
    if name not in ("auto", *METHODS, "puzzle") or not parameters.keys() <= known:
        raise ParameterError(f"must be one of auto, {', '.join(METHODS)} and 'puzzle, top = 4'")
    return name, parameters.get("top")


@click.command()
@click.argument("source", metavar="TABLE", type=FILE)
@click.option(
    "--candidates",
    multiple=True,
    help="Candidates to count, one a line or CSV; - reads stdin. Pairs need one for each part.",
)
@click.option("--part", help="Name of one table of a file that holds several, as words of sfp.")
@click.option(
    "--weighted-reports-per-client",
    metavar="X|FILE",
    help="Number sum K**2 / sum K over clients that sent K reports each, or a CSV file "
    "reports,clients with how many clients sent how many: errors of people count each client once.",
)
@click.option("--out", required=True, help="CSV file to write the estimates to; - prints them.")
@click.option(
    "--method",
    type=Typed("NAME", _method),
    default="auto",
    help=f"Method of decoding: auto, the best for the mechanism, {', '.join(METHODS)}, or, for "
    "words of sfp, 'puzzle, top = 4', which joins the 4 largest fragments of each position.",
)
@click.option(
    "--rule",
    type=Typed("RULE", _rule),
    help="Rule to discover by: fdr=0.05, the share of false ones (the default but for words), "
    "bonferroni=0.05, the probability of any false one, none=0.05, of each by itself, or "
    "threshold=500, a least count.",
)
@LEVEL
@QUANTILES
@click.option(
    "--consistency",
    type=click.Choice(CONSISTENCIES),
    default="none",
    help="Print counts that could be counts: a smaller error in all, and a bias, which is stated.",
)
@FAKES
@rare("--rappor-map", FILE, None, "Map to read of google/rappor: candidates and their bits.")
@JSON
@reading_options
def decode_command(source: Path, part: str | None, **typed: Any) -> None:
    """Estimate how many reports of TABLE held each value, number, word or pair.

    Words that nobody listed are found in tables of sfp, prefix and rappor-ngrams. For a joint
    metric it estimates each combination of values, and tests whether the parts are independent. A
    part with a dictionary has a cell for each candidate that it discovers by itself, and one for
    all other values.

    Decoding again, with other candidates too, costs no privacy: it reads the table only. With
    --fakes intervals hold for the honest reports, whatever the made-up ones say.

    \b
    Example: ldp decode city.table --out estimates.csv
    Example: ldp decode latency.table --quantile 0.5 --quantile 0.95 --out latency.csv
    Example: ldp decode city.table --fakes 1% --out estimates.csv
    Example: ldp decode words.table --out words.csv
    Example: ldp decode banner.table --out banner.csv
    """
    options = _Options(**typed)
    check_output(options.out, options.level)
    table, spelling = _part_of(source, part)
    decoder = DECODERS[table.mechanism.answers]
    _require_fitting(decoder, table)
    if not 1 <= (options.weighted or 1) <= max(1, table.total):
        raise ParameterError(f"--weighted-reports-per-client must be from 1 to {table.total:,}")
    decoder.decode(table, spelling, options)


def _part_of(source: Path, part: str | None) -> "tuple[AnyTable, Spelling | None]":
    """Return the table of a file, or that of its part of this name, and how its words are spelled.
    Raises DecodeError."""
    from ldp.tables.joint_table import load_table
    from ldp.tables.table import Table

    loaded = load_table(source)
    spelling = loaded.mechanism.spelling
    if part is None:
        return loaded, spelling
    if isinstance(loaded, Table):
        raise DecodeError(f"{source}: holds one table, leave --part out")
    if part not in loaded.part_names:
        raise DecodeError(f"{source}: --part is one of {', '.join(loaded.part_names)}")
    return loaded[part], spelling


def _require_fitting(decoder: "_Decoder", table: "AnyTable") -> None:
    """Raise ParameterError for an option of the command line that does not fit this table."""
    from ldp.tables.joint_table import JointTable

    context, of, kind = click.get_current_context(), table.mechanism.name, table.mechanism.answers
    for option in context.command.params:
        name = option.name or ""
        is_typed = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if is_typed and name in OF_SOME - decoder.options:
            reason = f"{option.opts[0]} does not go with this table, which is of {of} ({kind})"
            if isinstance(table, JointTable):
                reason += f"; --part decodes one of {', '.join(table.part_names)} by itself"
            raise ParameterError(reason)


def _decode_values(table: Any, spelling: "Spelling | None", options: _Options) -> None:
    from ldp.decoding import decode as decoded
    from ldp.decoding.consistency import consistent
    from ldp.tables.google_rappor import read_map

    # of numbers in bins that a table of values counts
    if options.quantiles:
        _decode_numbers(table, spelling, options)
        return
    if len(options.candidates) > 1:
        raise ParameterError("give --candidates once")
    names = next((_listed(path, spelling, table.mechanism) for path in options.candidates), None)
    places = None
    if options.rappor_map:
        names, places = read_map(options.rappor_map, table, warn, chosen_reading())
    estimates = decoded(
        table,
        names,
        method=options.method[0],
        rule=options.rule or Rule(),
        places=places,
        weighted_reports_per_client=options.weighted,
    )
    estimates = consistent(estimates.under_fakes(options.fakes), options.consistency)
    if spelling is not None:
        details = {**estimates.details, "spelling": asdict(spelling)}
        estimates = replace(estimates, details=details)
    write_estimates(estimates.at(level=options.level), options.out, "candidates", options.as_json)


def _decode_numbers(table: Any, _: "Spelling | None", options: _Options) -> None:
    from ldp.decoding.outcome import numbers_outcome

    if options.candidates:
        raise ParameterError("--candidates names values: a table of numbers has none")
    numbers = numbers_outcome(table, options.level, options.quantiles, options.consistency)
    numbers = numbers.at(reports_per_person=options.weighted).under_fakes(options.fakes)
    _write_numbers(numbers, options.out, options.fakes, options.as_json)


def _decode_words(table: Any, _: "Spelling | None", options: _Options) -> None:
    from ldp.decoding.outcome import discover_words

    method, top = options.method
    of = table.mechanism.name
    if method != "auto" and (method, of) != ("puzzle", "sfp"):
        raise ParameterError(f"--method {method} does not go with this table, which is of {of}")
    estimates = discover_words(table, options.rule, top)
    write_estimates(estimates.at(level=options.level), options.out, "words tested", options.as_json)


def _decode_pairs(table: "JointTable", _: "Spelling | None", options: _Options) -> None:
    from ldp.decoding.outcome import associate_members

    paths, parts, names = options.candidates, table.mechanism.parts, table.member_names
    if paths and len(paths) != len(parts):
        raise ParameterError(f"give --candidates once for each member, in turn: {', '.join(names)}")
    if options.rule and options.rule.threshold is not None:
        raise ParameterError("--rule threshold does not go with this table, which is of pairs")
    listed = [
        _listed(path, part.spelling, part) for (_, part), path in zip(parts, paths, strict=False)
    ]
    association = associate_members(table, listed or None, options.rule)
    details = association.details
    for warning in filter(None, (details["warning"], *details["warnings"])):
        warn(warning)
    association = association.at(
        level=options.level,
        reports_per_person=options.weighted,
    )
    _write_pairs(association, names, options.out, options.as_json)


def _listed(path: str, spelling: "Spelling | None", mechanism: "Mechanism") -> tuple[str, ...]:
    """Return the values of a file ("-": standard input), each once, as reports spell them. Raise
    ParameterError, with its line, for one that is not in the list of the mechanism."""
    from ldp.registry.value_files import value_lines
    from ldp.simulation import Population

    lines = value_lines(Path(path), chosen_reading())
    if spelling:
        return tuple(dict.fromkeys(map(spelling.clean, lines)))
    if mechanism.listed:
        shares: Any = [1] * len(lines)
        people = Population((*lines,), frequencies=shares, path=path, lines=(*lines.values(),))
        people.require(mechanism.candidate_addressing.point, mechanism.listed)
    return tuple(lines)


def _write_numbers(result: "Result", out: str, fakes: float | None, as_json: bool) -> None:
    """Write the mean, the regression or the distribution of a table of numbers, whose intervals
    allow for the share `fakes`."""
    text, summary = result.to_csv(None if out == "-" else out), result.summary
    if out != "-":
        lines = [line for line in text.split("\n") if not line.startswith(f"{COUNT},")]
        text = "\n".join(lines)
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
    following = "" if out == "-" else "ldp report {} --out report.html"
    say(summary, text.rstrip("\n"), as_json, following, out)


def _write_pairs(association: "Association", names: Sequence[str], out: str, as_json: bool) -> None:
    """Write the counts of combinations, and say whether the parts are independent."""
    text = association.to_csv(None if out == "-" else out)
    tested, cells = association.independence, " x ".join(map(str, association.shares.shape))
    summary = association.summary
    words = (
        f"{summary['detected']} of {cells} cells of {' x '.join(names)} discovered among "
        f"{counted(association.reports, 'report')} -> {out}\n"
        f"1 % of made-up reports could move a cell by {summary['fakes_move']:,.0f}"
    )
    if tested.freedom:
        words += (
            f"\nindependent? chi-square {tested.statistic:.1f}, {tested.freedom} degrees of "
            f"freedom, p {tested.p_value:.2g}"
        )
    if out == "-":
        say({**summary, "cells": association.rows()}, text.rstrip("\n"), as_json)
    else:
        say({**summary, "written": out}, words, as_json, "ldp report {} --out report.html", out)


class _Decoder(NamedTuple):
    """Way to decode a table, and the options that fit it, of those that do not fit all tables."""

    decode: Callable[[Any, "Spelling | None", _Options], None]
    options: frozenset[str]


_OF_NUMBERS = frozenset(("consistency", "fakes", "quantiles", "weighted_reports_per_client"))
_OF_VALUES = _OF_NUMBERS | {"candidates", "method", "rappor_map", "rule"}
_values, _numbers = _Decoder(_decode_values, _OF_VALUES), _Decoder(_decode_numbers, _OF_NUMBERS)
DECODERS: Mapping[str, _Decoder] = {
    "values": _values,
    "sets": _values,
    "number": _numbers,
    "numbers by category": _numbers,
    "moments": _numbers,
    "words": _Decoder(_decode_words, frozenset(("method", "rule"))),
    "pairs": _Decoder(
        _decode_pairs,
        frozenset(("candidates", "rule", "weighted_reports_per_client")),
    ),
}
"""Ways to decode, by the answers that a mechanism is about."""
OF_SOME = frozenset[str]().union(*(decoder.options for decoder in DECODERS.values()))
"""Options that do not fit every table."""
