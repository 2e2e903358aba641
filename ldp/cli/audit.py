"""`ldp audit`: the privacy that an encoder delivers, tested against the printed one."""

import gc
import json
import math
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, astuple
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from ldp import __version__
from ldp.audit.certificate import AuditSubject, certified, differences, subject_of
from ldp.audit.client import COMMON_PARTS, PARTS, audit_client, played
from ldp.audit.foreign import ForeignClients, ForeignEncoder
from ldp.audit.verdict import ALPHA, DAYS, MOST_FINDINGS, Verdict, audited_from_outside
from ldp.cli.options import FILE, JSON, say
from ldp.cli.parsing import Typed
from ldp.errors import ParameterError
from ldp.files import write_whole
from ldp.mechanisms import CATALOGUE
from ldp.mechanisms.presets import COMPLETE, PRESETS, preset_mechanism
from ldp.protocol.channel import rounded_up
from ldp.registry import Registry
from ldp.registry.certificates import CLIENT, FORMAT, TRIALS, read_certificate
from ldp.registry.odds import epsilon_text

STARTS = 4
"""Number of starts of a program, to check that its noise is new each time."""


def _words(command: str) -> list[str]:
    """Return the words of a command; raise ParameterError where it has none, or an open quote."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ParameterError(str(error)) from None
    if not words:
        raise ParameterError("it names no program")
    return words


@click.command()
@click.argument("metric", required=False)
@click.option("--registry", type=FILE, help="Registry that states METRIC.")
@click.option("--preset", type=click.Choice(sorted(PRESETS)), help="Published setting to audit.")
@click.option(
    "--encoder",
    type=Typed("COMMAND", _words),
    help="Program whose reports are audited instead of the encoder's.",
)
@click.option("--client", "of_client", is_flag=True, help="Audit the client: what leaves a device.")
@click.option(
    "--all", "everything", is_flag=True, help="Audit every example and preset, and the client."
)
@click.option("--verify", type=FILE, help="Certificate to repeat and compare.")
@click.option(
    "--trials", type=click.IntRange(100), default=TRIALS, help="Reports to draw of each value."
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, help="Seed of the values that are tried."
)
@click.option("--report", type=FILE, help="JSON file to write the certificate to.")
@JSON
def audit_command(
    metric: str | None,
    registry: Path | None,
    preset: str | None,
    encoder: list[str] | None,
    of_client: bool,
    everything: bool,
    verify: Path | None,
    trials: int,
    seed: int,
    report: Path | None,
    as_json: bool,
) -> None:
    """Hold a real encoder's bytes against the epsilon that is printed. The status is 1 if it fails.

    It checks the law against the stated epsilon, in fractions, and counts of reports against that
    law: of one encoder and of new ones, for many values, those of the metric's dictionary included.
    It bounds epsilon from below by the reports alone, and checks many days of memoised mechanisms.
    --client checks the reports of every mechanism against its law, what is memoised within a metric
    and between two, which records are sent, the order and the ids of sealed batches, and the
    secret. An honest encoder or client fails with probability 1e-6 at most. docs/audit.md says what
    is checked, and what no audit can see.

    --encoder holds a program in another language to the mechanism of METRIC or --preset, by its
    bytes alone: it reads the parameters, then one value a line, and answers with reports. With
    --client it reads what a device recorded in a period, a line each, and answers with the batches
    that the client sends.

    --report writes a certificate: what was audited, its law in fractions, what was tried, what was
    found, which cheats were caught. --verify repeats it, with its trials and seed.

    \b
    Example: ldp audit city --registry metrics.toml --report city.json && ldp audit --verify
    city.json
    """
    certificate: dict[str, Any] = {}
    if verify is not None:
        certificate = read_certificate(verify)
        subjects = [subject_of(entry) for entry in certificate["audits"]]
        trials, seed = certificate["trials"], certificate["seed"]
        of_client = CLIENT in certificate
    elif metric is not None and registry is not None:
        definition = Registry.load(registry).metric(metric)
        subjects = [AuditSubject(metric, definition.mechanism, definition.candidates() or ())]
    else:
        names = sorted(COMPLETE) if everything else filter(None, [preset])
        subjects = [AuditSubject(name, preset_mechanism(name)) for name in names]
    if everything:
        subjects += _examples()
        of_client = True
    result = _provenance() | {"trials": trials, "seed": seed, "alpha": ALPHA}
    if encoder is not None:
        verdicts = [_of_program(encoder, subject, trials, seed) for subject in subjects]
        audits = [{**asdict(verdict), "passed": verdict.passed} for verdict in verdicts]
        lines = [_line(verdict, {}, trials, of_program=True) for verdict in verdicts]
        passed = all(verdict.passed for verdict in verdicts)
        if of_client:
            with ExitStack() as stack:
                starts = [stack.enter_context(ForeignClients(encoder)).make for _ in range(STARTS)]
                result[CLIENT], line = _client(seed, COMMON_PARTS, starts=starts)
            passed, lines = result[CLIENT]["passed"], [line]
        say({"passed": passed, **result, "audits": audits}, lines, as_json)
        sys.exit(0 if passed else 1)
    # reports make no cycles of references: the search took a tenth of the time
    gc.disable()
    try:
        tried = partial(certified, trials=trials, seed=seed, with_cheats=bool(report or verify))
        pairs = [*map(tried, subjects)]
    finally:
        gc.enable()
    result["audits"] = [entry for _, entry in pairs]
    lines = [_line(verdict, entry.get("cheats_caught", {}), trials) for verdict, entry in pairs]
    if of_client:
        result[CLIENT], line = _client(seed)
        lines.append(line)
    passed = all(entry["passed"] for entry in _entries(result).values())
    if verify is not None:
        result["differences"] = _compare(certificate, {**result, "passed": passed})
        passed = passed and not any(result["differences"].values())
        lines += _difference_lines(certificate, result)
    result = {"passed": passed, **result}
    if report is not None:
        write_whole(report, json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    say(result, lines, as_json)
    sys.exit(0 if passed else 1)


def _client(seed: int, parts: Sequence[str] = PARTS, **starts: Any) -> tuple[dict[str, Any], str]:
    """Return the client's entry in a certificate, and its line."""
    client = audit_client(seed, parts=parts, alpha=ALPHA, **starts)
    findings = [str(finding) for finding in client.findings]
    counted = f"{client.checks:,} counts checked of {played(parts)}"
    line = f"{'ok  ' if client.passed else 'FAIL'} client: {counted}"
    entry = {"passed": client.passed, "checks": client.checks, "findings": findings}
    return entry, "\n     ".join([line, *findings[:MOST_FINDINGS]])


def _of_program(command: list[str], subject: AuditSubject, trials: int, seed: int) -> Verdict:
    name, mechanism, dictionary = subject
    with ExitStack() as stack:
        starts = [
            stack.enter_context(ForeignEncoder(command, mechanism)).encode for _ in range(STARTS)
        ]
        return audited_from_outside(
            name, mechanism, starts, trials, dictionary=dictionary, seed=seed
        )


def _examples() -> list[AuditSubject]:
    return [
        AuditSubject(f"{name} (example {number})", example.mechanism)
        for name, kind in CATALOGUE.items()
        for number, example in enumerate(kind.examples(), 1)
    ]


def _provenance() -> dict[str, Any]:
    """Return the origin of a certificate: its format, the time, the version, the commit (None
    outside a checkout) and the version of Python."""
    return {
        "certificate": FORMAT,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "commit": _commit(Path(__file__)),
        "python": platform.python_version(),
    }


def _commit(file: Path) -> str | None:
    """Return the commit of the checkout that tracks `file`, with "-dirty" if it was changed."""

    def git(*words: str) -> str:
        command = ("git", *words)
        done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        # an install may lie in another's checkout
        git("ls-files", "--error-unmatch", file.name)
        return git("describe", "--always", "--abbrev=12", "--dirty")
    except (OSError, subprocess.CalledProcessError):
        return None


def _entries(result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the entries of a certificate by name, and the client's."""
    entries = {entry["name"]: entry for entry in result["audits"]}
    return entries | ({CLIENT: result[CLIENT]} if CLIENT in result else {})


def _compare(certificate: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, list[str]]:
    before, after = _entries(certificate), _entries(result)
    whole = [{key: each.get(key) for key in ("passed", "alpha")} for each in (certificate, result)]
    changes = {name: differences(entry, after[name]) for name, entry in before.items()}
    return {"(certificate)": differences(*whole), **changes}


def _difference_lines(certificate: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    """Return the lines that state what differs, or that nothing does, and which differences are
    only of the origin."""
    lines = [
        f"DIFF {name}: {difference}"
        for name, changes in result["differences"].items()
        for difference in changes
    ]
    lines += [
        f"note: {key} was {certificate.get(key)}, is {result[key]}"
        for key in ("version", "commit", "python")
        if certificate.get(key) != result[key]
    ]
    audits = len(_entries(certificate))
    same = f"repeated as certified on {certificate.get('made')}; audits: {audits}"
    return lines if any(result["differences"].values()) else [*lines, same]


def _line(
    verdict: Verdict, cheats: Mapping[str, bool], trials: int, *, of_program: bool = False
) -> str:
    claimed = rounded_up(verdict.claimed, 6)
    seen = f"epsilon {claimed} claimed, at least {verdict.at_least:.3g} seen from outside"
    if math.isinf(verdict.claimed):
        seen = "epsilon unlimited before a relay shuffles"
    law = f"its law is {'NOT ' if verdict.exact else ''}exact; {verdict.checks:,} counts checked"
    # the exact law is that of the parameters
    if of_program:
        law = f"{verdict.checks:,} counts of its reports checked"
        law += " against a law that is NOT exact" * bool(verdict.exact)
    caught = cheats.values()
    is_weak = trials < TRIALS or not all(caught)
    word = "weak" if is_weak else "ok  "
    if not verdict.passed:
        word = "FAIL"
    line = f"{word} {verdict.name}: {seen}; {law}"
    lines = [line, *verdict.exact, *verdict.findings]
    if (memoised := verdict.memoised) is not None:
        *epsilons, at_least, cohorts = astuple(memoised)
        lifetime, unchanging, per_value, by_epoch = map(epsilon_text, epsilons)
        lines.append(
            f"{DAYS} days memoised: epsilon {unchanging} between values that never change "
            f"(lifetime {lifetime} claimed, at least {at_least:.3g} seen from outside); "
            "between histories whose answers change at different times "
            f"{per_value} per value, {by_epoch} by epoch"
        )
        if cohorts > 1:
            lines.append(f"a device named {cohorts} cohorts: its value shows through them")
    if cheats:
        lines.append(f"cheats caught: {sum(caught)} of {len(cheats)}")
    if is_weak and verdict.passed:
        least = f"{TRIALS:,} trials or more"
        lines.append(f"no verdict: it takes {least}, and every cheat caught")
    return "\n     ".join(lines)
