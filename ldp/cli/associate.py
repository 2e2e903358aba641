"""`ldp associate`: from the reports of a joint metric to the joint distribution of its members."""

from datetime import date
from pathlib import Path

import click

from ldp.cli.estimates import check_output
from ldp.cli.options import DAY, FILE, JSON, REGISTRY, STORE, check_days, progress, say
from ldp.cli.stores import noting_what_waits
from ldp.collection.object_store import StorePath
from ldp.errors import DecodeError, ParameterError
from ldp.tables.estimates import CONTROLS, Rule


@click.command()
@click.argument("joint")
@click.argument("stores", nargs=-1, required=True, type=STORE, metavar="DIR...")
@REGISTRY
@click.option("--out", required=True, help="Joint counts as CSV; - prints them.")
@click.option(
    "--candidates",
    multiple=True,
    type=FILE,
    help="Of each member in turn; without it their dictionaries.",
)
@click.option("--since", type=DAY, help="First day.")
@click.option("--until", type=DAY, help="Last day.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Error rate.")
@click.option("--control", type=click.Choice(CONTROLS), default="fdr", show_default=True)
@click.option("--level", type=float, default=0.95, show_default=True, help="Of the intervals.")
@JSON
def associate(
    joint: str,
    stores: tuple[StorePath, ...],
    registry: Path,
    out: str,
    candidates: tuple[Path, ...],
    since: date | None,
    until: date | None,
    alpha: float,
    control: str,
    level: float,
    as_json: bool,
) -> None:
    """Estimate how many reports of the metric JOINT held each combination of values.

    Reads the reports, because a table keeps no combinations. A member with a dictionary has a cell
    for each candidate that it discovers by itself, and one for all other values. Each cell has an
    interval at --level and is tested at the error rate --alpha over all cells. Prints a test that
    the members are independent.

    \b
    Example: ldp associate banner --registry metrics.toml store --out banner.csv
    """
    from ldp.collection import read_patterns, report_files
    from ldp.decoding.outcome import associate_members
    from ldp.mechanisms import JointReport
    from ldp.registry import Registry, read_values
    from ldp.registry.explaining import label

    rule = Rule(alpha=alpha, control=control)
    check_output(out, level)
    known = Registry.load(registry)
    definition = known.metric(joint)
    if not isinstance(definition.mechanism, JointReport):
        raise DecodeError(
            f"metric {joint!r}: no joint metric but {definition.mechanism.name}, of which there is "
            "one value a report (words are found by ldp discover)"
        )
    names = [member.name for member in definition.members]
    if candidates and len(candidates) != len(names):
        members = ", ".join(names)
        raise ParameterError(f"give --candidates once for each member, in turn: {members}")
    for store in stores:
        if store.is_file():
            raise DecodeError(f"{store} keeps no report patterns: name the store of the reports")
    listed = (
        [
            tuple(dict.fromkeys(map(member.cleaned, read_values(path))))
            for member, path in zip(definition.members, candidates, strict=True)
        ]
        if candidates
        else [member.candidates() for member in definition.members]
    )
    check_days(since, until)
    with noting_what_waits(stores, joint, definition.version):
        files = report_files(stores, joint, definition.version, since, until)
    advance = progress("files", len(files))
    patterns = read_patterns(
        stores,
        joint,
        definition.version,
        definition.mechanism,
        since=since,
        until=until,
        on_file=lambda _: advance(1),
    )
    windows = sorted({day for day, _ in files})
    by_member = dict(zip(names, listed, strict=True))
    association = associate_members(patterns, by_member, windows, label(known, joint), rule)
    for warning in association.details["warnings"]:
        click.echo(f"ldp: {warning}", err=True)
    association = association.at(level=level)
    text = association.to_csv(None if out == "-" else out)
    tested, cells = association.independence, " x ".join(map(str, association.shares.shape))
    summary = association.summary
    words = (
        f"{summary['detected']} of {cells} cells of {' x '.join(names)} discovered among "
        f"{association.reports:,} reports -> {out}\n1 % of made-up reports could move a cell by "
        f"{summary['fakes_move']:,.0f}"
    )
    if tested.freedom:
        words += (
            f"\nindependent? chi-square {tested.statistic:.1f}, {tested.freedom} degrees of "
            f"freedom, p {tested.p_value:.2g}"
        )
    if out == "-":
        say({**summary, "cells": association.rows()}, text.rstrip("\n"), as_json)
    else:
        say({**summary, "written": out}, words, as_json, f"ldp report {out} --out report.html")
