"""`ldp audit`: what an encoder delivers, held against what its mechanism prints."""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, astuple
from pathlib import Path

import click
import numpy as np

from ldp.audit.client import audit_client
from ldp.audit.verdict import ALPHA, DAYS, MOST_FINDINGS, Verdict, audited
from ldp.cli.options import FILE, JSON, say
from ldp.errors import ParameterError
from ldp.files import write_whole
from ldp.mechanisms import CATALOGUE, Catalogued, from_parameters
from ldp.mechanisms.presets import COMPLETE
from ldp.registry import Registry


@click.command()
@click.argument("metric", required=False)
@click.option("--registry", type=FILE, help="metrics.toml, for METRIC.")
@click.option("--preset", type=click.Choice(sorted(COMPLETE)), help="A published setting.")
@click.option("--client", "of_client", is_flag=True, help="The client: what leaves a device.")
@click.option("--all", "everything", is_flag=True, help="Every example and preset, and the client.")
@click.option("--trials", type=click.IntRange(100), default=5000, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Draws values.")
@click.option("--report", type=FILE, help="Write what was checked there, as JSON.")
@JSON
def audit(
    metric: str | None,
    registry: Path | None,
    preset: str | None,
    of_client: bool,
    everything: bool,
    trials: int,
    seed: int,
    report: Path | None,
    as_json: bool,
) -> None:
    """Hold a real encoder's bytes against the epsilon that is printed; status 1 if it fails.

    Checks: the law against the stated epsilon, in fractions; every count of reports against that
    law, of one encoder and of a new one for each report, over many values (the metric's dictionary,
    too); an epsilon that the encoder has at least, from outside; and of memoised mechanisms what
    many days tell. Of the client: which records are sent, the order and the ids of sealed batches,
    what is memoised, the secret. An honest encoder fails with probability 3e-6 at most, an honest
    client with 1e-6. docs/audit.md says what is checked, and what no audit can see.

    \b
    Example: ldp audit city --registry metrics.toml
    """
    if [metric is not None, preset is not None, of_client, everything].count(True) != 1:
        raise ParameterError("give one of METRIC with --registry, --preset, --client or --all")
    if (metric is None) != (registry is None):
        raise ParameterError("METRIC and --registry go together")
    subjects: list[tuple[str, Catalogued]] = []
    dictionary: Sequence[str] = ()
    if metric is not None and registry is not None:
        definition = Registry.load(registry).metric(metric)
        subjects, dictionary = [(metric, definition.mechanism)], definition.candidates() or ()
    for name in sorted(COMPLETE) if everything else [preset] if preset else []:
        subjects.append((name, from_parameters({**COMPLETE[name].parameters, "seed": "00"})))
    if everything:
        for name, kind in CATALOGUE.items():
            subjects += [(f"{name} (example)", example.mechanism) for example in kind.examples()]
    verdicts = [
        audited(name, mechanism, trials, dictionary=dictionary, seed=seed)
        for name, mechanism in subjects
    ]
    lines = list(map(_line, verdicts))
    result = {
        "trials": trials,
        "seed": seed,
        "alpha": ALPHA,
        "audits": [{**asdict(verdict), "passed": verdict.passed} for verdict in verdicts],
    }
    passed = all(verdict.passed for verdict in verdicts)
    if of_client or everything:
        client = audit_client(np.random.default_rng(seed), alpha=ALPHA)
        passed &= client.passed
        findings = [str(finding) for finding in client.findings]
        result["client"] = {"passed": client.passed, "checks": client.checks, "findings": findings}
        line = f"{'ok  ' if client.passed else 'FAIL'} client: {client.checks:,} counts checked"
        lines.append("\n     ".join([line, *findings[:MOST_FINDINGS]]))
    result = {"passed": passed, **result}
    if report is not None:
        write_whole(report, json.dumps(result, indent=2) + "\n")
    say(result, "\n".join(lines), as_json)
    sys.exit(0 if passed else 1)


def _line(verdict: Verdict) -> str:
    line = (
        f"{'ok  ' if verdict.passed else 'FAIL'} {verdict.name}: epsilon {verdict.claimed:g} "
        f"claimed, at least {verdict.at_least:.3g} seen from outside; its law is "
        f"{'NOT ' if verdict.exact else ''}exact; {verdict.checks:,} counts checked"
    )
    lines = [line, *verdict.exact, *verdict.findings]
    if (memoised := verdict.memoised) is not None:
        lifetime, unchanging, per_value, by_epoch, at_least, cohorts = (
            math.inf if number is None else number for number in astuple(memoised)
        )
        lines.append(
            f"{DAYS} days memoised: epsilon {unchanging:.4g} between values that never change "
            f"(lifetime {lifetime:.4g} claimed, at least {at_least:.3g} seen from outside); "
            "between histories whose answers change at different times "
            f"{per_value:.4g} per value, {by_epoch:.4g} by epoch"
        )
        if cohorts > 1:
            lines.append(f"a device named {cohorts:.0f} cohorts: its value shows through them")
    return "\n     ".join(lines)
