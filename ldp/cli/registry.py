"""`ldp registry`: add metrics to metrics.toml, check, lock, export and sign it off."""

import hashlib
import json
import math
from datetime import date, timedelta
from pathlib import Path

import click

from ldp.cli.init import answered, metric_options, metric_section
from ldp.cli.options import FILE, JSON, SPAN, current_day, say
from ldp.cli.parsing import CommandGroup
from ldp.errors import ParameterError, RegistryError
from ldp.files import alone_in, counted, real_path, write_whole
from ldp.protocol.strict_json import is_plain
from ldp.registry import Registry
from ldp.registry.certificates import read_certificates
from ldp.registry.definitions import BEHIND_RELAY
from ldp.registry.explaining import changing_notes, marks_of, touched_notes
from ldp.registry.lookalikes import lookalike_notes
from ldp.registry.odds import epsilon_text, odds, odds_text
from ldp.registry.sign_off import (
    BESIDE,
    check_sign_off,
    missing_for_signing,
    read_sign_off,
)
from ldp.registry.sign_off import sign as sign_off
from ldp.registry.sign_off_page import page as page_text

_FILE = click.argument("file", type=FILE)


@click.group(cls=CommandGroup)
def registry_command() -> None:
    """Check, lock, export and sign off metrics.toml, and add metrics to it.

    \b
    Example: ldp registry lock metrics.toml && ldp registry check metrics.toml
    """


@registry_command.command()
@_FILE
@metric_options
@JSON
def add(file: Path, epsilon: float, as_json: bool, **given_texts: str | None) -> None:
    """Add a metric in a group of its own at the end of FILE, which is otherwise left as it is.

    Asks on a terminal for what is missing, like `ldp init`.

    \b
    Example: ldp registry add metrics.toml --metric city --question "Which city?" \\
                 --answers Oslo,Bergen --owner team@example.org
    """
    Registry.load(file)
    texts, today = answered(file.parent, given_texts, epsilon), current_day()
    click.get_current_context().with_resource(alone_in(real_path(file).parent))
    loaded = Registry.load(file)
    name, section, _ = metric_section(file.parent, texts, epsilon, loaded.development, today)
    if name in loaded.metrics or name in loaded.groups:
        what = "metric" if name in loaded.metrics else "group"
        raise ParameterError(f"{file} has the {what} {name!r} already: name another metric")
    before = file.read_bytes()
    write_whole(file, before.rstrip() + f"\n\n{section}".encode())
    try:
        Registry.load(file).check(today)
    except Exception:
        write_whole(file, before)
        raise
    words = f"metric {name} added to {file}: a collector reads it when it starts again"
    said = {"added": name, "written": str(file)}
    say(said, words, as_json, "ldp registry lock {}", file)


@registry_command.command()
@_FILE
@click.option(
    "--against", type=FILE, help="Older registry, or record of a sign-off, to compare with."
)
@click.option(
    "--accept-growth",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="EPSILON",
    help="Accept that a life may lose this much more epsilon than --against says.",
)
@click.option(
    "--fail-expiring", type=SPAN, help="Fail for a metric that expires within this time, as 30d."
)
@click.option(
    "--most-odds",
    type=click.FloatRange(min=1),
    help="Fail where 24 hours of one device multiply odds by more than this.",
)
@JSON
def check(
    file: Path,
    against: Path | None,
    accept_growth: float,
    fail_expiring: timedelta | None,
    most_odds: float | None,
    as_json: bool,
) -> None:
    """Validate FILE, compare it with its lock, print each group's worst-case epsilon.

    Fails when a metric changed without a new version. With --against it also fails when a metric
    moved to another group, a group is gone or allows more in a window than it did, or more can be
    lost in a life than --accept-growth allows. Against the record of `ldp registry sign` it fails
    when registry, lock or certificates are not those that were signed off.

    \b
    Example: ldp registry check metrics.toml --against main/metrics.toml
    Example: ldp registry check metrics.toml --against metrics.signed.json --fail-expiring 30d
    """
    loaded = Registry.load(file)
    today = current_day()
    unlocked = loaded.check(today)
    gone: list[str] = []
    if against is not None and against.suffix == ".json":
        check_sign_off(loaded, read_sign_off(against), against.parent)
    elif against is not None:
        older = Registry.load(against)
        loaded.check_against(older, accept_growth)
        gone = [name for name in older.metrics if name not in loaded.metrics]
    _check_limits(loaded, today, fail_expiring, most_odds)
    expired = loaded.expired(today)
    worst = {name: loaded.worst_case(name) for name in loaded.groups}
    of_all = loaded.worst_case_of_all()
    lines = [f"{file} is well formed: metrics {', '.join(loaded.metrics)}"]
    shuffled = {name: loaded.capped(name) for name, g in loaded.groups.items() if g.needs_shuffler}
    lines += [
        f"{whose}: epsilon at most {epsilon_text(spans['day'])} in any 24 hours, "
        f"{epsilon_text(spans['year'])} in any year, {epsilon_text(spans['life'])} for life"
        for whose, spans in [
            *((f"group {name}", spans) for name, spans in worst.items()),
            *((f"group {name}{BEHIND_RELAY}", spans) for name, spans in shuffled.items()),
            ("all of one device", of_all),
        ]
    ]
    lines += [f"note: {note}" for note in (*changing_notes(loaded), *touched_notes(loaded))]
    marks = marks_of(loaded)
    lines += [
        f"note: names, versions and numbers of reports of a period {marks['leave']}: they say in "
        f"which of {marks['groups']} groups a device is, at most (bits: {marks['bits']:g})"
    ] * (marks["bits"] > 0)
    lines += [f"note: metric {name} of {against} is gone" for name in gone]
    lines += [f"metric {name} has expired" for name in expired]
    silent = {name: metric.silent for name, metric in loaded.metrics.items() if metric.silent}
    lines += [f"note: metric {name} sends nothing, visibly, for {w}" for name, w in silent.items()]
    alike = [*lookalike_notes(loaded.metrics.values())]
    lines += [f"note: {sentence}" for sentence in alike]
    lines += [f"metric {one} is not locked yet: `ldp registry lock {file}`" for one in unlocked]
    result = {
        "gone": gone,
        "expired": expired,
        "not_locked": unlocked,
        "silent_about": silent,
        "lookalikes": alike,
        "worst_case_epsilon": worst,
        **({"worst_case_behind_relay": shuffled} if shuffled else {}),
        "worst_case_epsilon_of_all": of_all,
        "marks": marks,
    }
    following = "ldp registry lock {}" if unlocked else "ldp explain --registry {}"
    say(result, lines, as_json, following, file)


@registry_command.command()
@_FILE
@JSON
def lock(file: Path, as_json: bool) -> None:
    """Write metrics.lock beside FILE: what each metric means today.

    \b
    Example: ldp registry lock metrics.toml
    """
    loaded = Registry.load(file)
    loaded.lock(current_day())
    alike = [*lookalike_notes(loaded.metrics.values())]
    words = f"metrics pinned: {', '.join(loaded.metrics)} -> {loaded.lock_path}"
    lines = [words, *(f"note: {sentence}" for sentence in alike)]
    written = {"written": str(loaded.lock_path), "lookalikes": alike}
    say({"locked": [*loaded.metrics], **written}, lines, as_json, "ldp registry check {}", file)


@registry_command.command("export")
@_FILE
@JSON
def export_resolved(file: Path, as_json: bool) -> None:
    """Write the registry beside FILE as JSON, which clients in other languages read.

    An app bundles the file, or fetches it from a collector and pins its SHA-256.

    \b
    Example: ldp registry export metrics.toml
    """
    from ldp.registry.resolved import resolved_bytes

    body, out = resolved_bytes(Registry.load(file)), file.with_suffix(".json")
    write_whole(out, body)
    digest = hashlib.sha256(body).hexdigest()
    say({"written": str(out), "sha256": digest}, f"{out}\nsha256 {digest}", as_json)


CERTIFICATES = click.option(
    "--certificate",
    "certificates",
    type=FILE,
    multiple=True,
    help="Certificate that `ldp audit --report` wrote; may be repeated.",
)


@registry_command.command("page")
@_FILE
@click.option("--out", type=FILE, required=True, help="Page to write, as HTML.")
@CERTIFICATES
@click.option(
    "--against", type=FILE, help="Record of the last sign-off; the page says what changed."
)
@JSON
def write_page(
    file: Path, out: Path, certificates: tuple[Path, ...], against: Path | None, as_json: bool
) -> None:
    """Write the page that a privacy officer signs.

    It states metrics, owners and dates, the worst case of a day, a year and a life, what reports
    reveal in the metrics' own answers, what is not covered, the audits' certificates, and what
    changed since the last sign-off.

    \b
    Example: ldp registry page metrics.toml --certificate city.json --out page.html
    """
    loaded = Registry.load(file)
    today = current_day()
    loaded.check(today)
    _require_plain(out, *loaded.files, *certificates, *([against] if against else []))
    signed = read_sign_off(against) if against else None
    certified = read_certificates(certificates)
    write_whole(out, page_text(loaded, certified, signed, today))
    missing = [*missing_for_signing(loaded, certified, today)]
    words = [
        f"{_metrics(loaded)} -> {out}",
        *(f"to sign it, {line}" for line in missing),
    ]
    say({"written": str(out), "missing": missing}, words, as_json)


@registry_command.command("sign")
@_FILE
@click.option("--name", required=True, help="Name of the person who agrees.")
@CERTIFICATES
@click.option(
    "--out", type=FILE, help="Record to write; by default metrics.signed.json beside FILE."
)
@JSON
def sign_registry(
    file: Path, name: str, certificates: tuple[Path, ...], out: Path | None, as_json: bool
) -> None:
    """Write down who agreed to FILE, when, and the SHA-256 of registry, lock and certificates.

    It is a record and no cryptographic signature: `ldp registry check --against` fails when one of
    them is another. Every metric that has not expired needs a certificate of an audit that passed,
    with 5,000 trials or more and every cheat caught. Certificates belong beside the record.

    \b
    Example: ldp registry sign metrics.toml --name "A. Officer" --certificate city.json
    """
    loaded = Registry.load(file)
    record = out or file.with_name(BESIDE)
    _require_plain(record, *loaded.files, *certificates)
    for path in certificates:
        if real_path(path).parent != real_path(record).parent:
            raise ParameterError(f"{path}: a certificate belongs beside the record, {record}")
    document = sign_off(loaded, name, certificates, current_day())
    write_whole(record, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    words = f"{name} signed off {_metrics(loaded)} -> {record}"
    say({"written": str(record), **document}, words, as_json)


def _metrics(loaded: Registry) -> str:
    return counted(len(loaded.metrics), "metric")


def _require_plain(*files: Path) -> None:
    if hidden := [file.name for file in files if not is_plain(file.name)]:
        raise ParameterError(f"the name of a file must be a text of one line: {hidden[0]!a}")


def _check_limits(
    loaded: Registry, today: date, within: timedelta | None, most_odds: float | None
) -> None:
    """Raise RegistryError for a metric that expires `within` a time, and if 24 hours of a device
    can multiply odds by more than `most_odds`. Raises ParameterError if that is no valid limit."""
    if within is not None:
        expiring = [x.name for x in loaded.metrics.values() if x.expires < today + within]
        if expiring:
            raise RegistryError(
                f"{loaded.path}: by {today + within} these metrics will have expired: "
                f"{', '.join(expiring)}"
            )
    if most_odds == math.inf:
        raise ParameterError("--most-odds must be a finite number: every odds are below infinity")
    epsilon = loaded.day_that_differs()
    if most_odds is not None and odds(epsilon) > most_odds:
        raise RegistryError(
            f"{loaded.path}: any 24 hours of one device can {odds_text(epsilon)}, --most-odds is "
            f"{most_odds:g}: lower the caps of its groups, or allow as much"
        )
