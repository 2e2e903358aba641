"""`ldp audit`: what an encoder delivers, held against what its mechanism prints."""

import json
import math
import sys
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

import click

from ldp.audit import audit_encoder, epsilon_at_least, exact_findings
from ldp.audit.history import exact_epsilon
from ldp.cli.options import FILE, JSON, say
from ldp.errors import ParameterError
from ldp.files import write_whole
from ldp.hashing import Fragments
from ldp.mechanisms import CATALOGUE, Catalogued, Rappor, from_parameters
from ldp.mechanisms.base import Identity, Value
from ldp.mechanisms.joint import parts_of
from ldp.mechanisms.presets import COMPLETE
from ldp.registry import Registry

ALPHA = 1e-6
VALUES = ("lol", "a value of more than sixteen bytes", "")
DAYS = 8
"""Length of the histories that memoised mechanisms are held against."""


@dataclass(frozen=True)
class Memoised:
    """What DAYS reports tell, exactly: between two values that never change, which `lifetime`
    bounds; between a history that never changes and one that does, per value and by epoch. None
    is infinite, which JSON has no number for."""

    lifetime: float | None
    unchanging: float | None
    changing_per_value: float | None
    changing_by_epoch: float | None

    @property
    def passed(self) -> bool:
        bound = _or_infinite(self.lifetime)
        return max(map(_or_infinite, (self.unchanging, self.changing_by_epoch))) <= bound


@dataclass(frozen=True)
class Verdict:
    """One encoder's audit: what refutes its exact law; how many counts were checked, of one encoder
    and of new ones, and what refutes those; an epsilon that it has at least; `memoised` is None
    where nothing is."""

    name: str
    claimed: float
    exact: list[str]
    checks: int
    findings: list[str]
    at_least: float
    memoised: Memoised | None

    @property
    def passed(self) -> bool:
        memoised = self.memoised is None or self.memoised.passed
        found = self.exact or self.findings
        return not found and memoised and self.at_least <= self.claimed


@click.command()
@click.argument("metric", required=False)
@click.option("--registry", type=FILE, help="metrics.toml, for METRIC.")
@click.option("--preset", type=click.Choice(sorted(COMPLETE)), help="A published setting.")
@click.option("--all", "everything", is_flag=True, help="Every mechanism's examples and preset.")
@click.option("--trials", type=click.IntRange(100), default=5000, show_default=True)
@click.option("--report", type=FILE, help="Write what was checked there, as JSON.")
@JSON
def audit(
    metric: str | None,
    registry: Path | None,
    preset: str | None,
    everything: bool,
    trials: int,
    report: Path | None,
    as_json: bool,
) -> None:
    """Hold a real encoder's bytes against the epsilon that is printed; status 1 if it fails.

    Checks: the law against the stated epsilon, in fractions; every count of reports against that
    law, of one encoder and of a new one for each report; an epsilon that the encoder has at least,
    from outside; and of memoised mechanisms what many days tell, in fractions. An honest encoder
    fails with probability 2e-6 at most.

    \b
    Example: ldp audit city --registry metrics.toml
    """
    if [metric is not None, preset is not None, everything].count(True) != 1:
        raise ParameterError("give one of METRIC with --registry, --preset or --all")
    if (metric is None) != (registry is None):
        raise ParameterError("METRIC and --registry go together")
    subjects: list[tuple[str, Catalogued]] = []
    if metric is not None and registry is not None:
        subjects = [(metric, Registry.load(registry).metric(metric).mechanism)]
    for name in sorted(COMPLETE) if everything else [preset] if preset else []:
        subjects.append((name, from_parameters({**COMPLETE[name].parameters, "seed": "00"})))
    if everything:
        for name, kind in CATALOGUE.items():
            subjects += [(f"{name} (example)", one.mechanism) for one in kind.examples()]
    verdicts = [_audited(name, mechanism, trials) for name, mechanism in subjects]
    result = {
        "passed": all(verdict.passed for verdict in verdicts),
        "trials": trials,
        "alpha": ALPHA,
        "audits": [{**asdict(verdict), "passed": verdict.passed} for verdict in verdicts],
    }
    if report is not None:
        write_whole(report, json.dumps(result, indent=2) + "\n")
    say(result, "\n".join(map(_line, verdicts)), as_json)
    sys.exit(0 if result["passed"] else 1)


def _audited(name: str, mechanism: Catalogued, trials: int) -> Verdict:
    values = tried(mechanism)
    encode = mechanism.encoder().encode
    audits = [
        audit_encoder(mechanism, values, each, trials=trials, alpha=ALPHA / 2)
        for each in (encode, lambda value: mechanism.encoder().encode(value))
    ]
    return Verdict(
        name=name,
        claimed=mechanism.cost.epsilon,
        exact=exact_findings(mechanism, values),
        checks=sum(audit.checks for audit in audits),
        findings=[str(finding) for audit in audits for finding in audit.findings[:3]],
        at_least=epsilon_at_least(
            mechanism, (values[0], values[1]), encode, trials=2 * trials, error=ALPHA
        ),
        memoised=_memoised(mechanism, values) if isinstance(mechanism, Rappor) else None,
    )


def _memoised(mechanism: Rappor, values: tuple[Value, ...]) -> Memoised:
    stays, other = (values[0],) * DAYS, (values[1],) * DAYS
    changes = other[: DAYS // 2] + stays[DAYS // 2 :]
    exact = (
        mechanism.cost.lifetime,
        exact_epsilon(mechanism, (stays, other), "per-value"),
        exact_epsilon(mechanism, (stays, changes), "per-value"),
        exact_epsilon(mechanism, (stays, changes), "epoch"),
    )
    return Memoised(*(float(number) if math.isfinite(number) else None for number in exact))


def _or_infinite(number: float | None) -> float:
    return math.inf if number is None else number


def tried(mechanism: Catalogued) -> tuple[Value, ...]:
    """Two values or more that the mechanism knows."""
    addressing = parts_of(mechanism)[0].addressing
    if isinstance(addressing, Identity):
        return (addressing.categories + addressing.untouching)[:4]
    if isinstance(addressing, Fragments):
        letters, length = addressing.spelling.alphabet, addressing.spelling.length
        return letters[:2][:length], letters[-1] * length, ""
    return VALUES


def _line(verdict: Verdict) -> str:
    line = (
        f"{'ok  ' if verdict.passed else 'FAIL'} {verdict.name}: epsilon {verdict.claimed:g} "
        f"claimed, at least {verdict.at_least:.3g} seen from outside; its law is "
        f"{'NOT ' if verdict.exact else ''}exact; {verdict.checks:,} counts checked"
    )
    lines = [line, *verdict.exact, *verdict.findings]
    if (told := verdict.memoised) is not None:
        lifetime, unchanging, per_value, by_epoch = map(_or_infinite, astuple(told))
        lines.append(
            f"{DAYS} days memoised: {unchanging:.4g} between values that never change (lifetime "
            f"{lifetime:.4g}); between histories that change at different times {per_value:.4g} "
            f"per value, {by_epoch:.4g} by epoch"
        )
    return "\n     ".join(lines)
