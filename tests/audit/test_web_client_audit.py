"""`ldp audit --client` plays its lives through the TypeScript client, and catches its mutants."""

from collections.abc import Sequence

import pytest
from click.testing import CliRunner

from ldp.audit.client import COMMON_PARTS, client_stages
from ldp.audit.draws import Draws
from ldp.audit.foreign import ForeignClients
from ldp.audit.judging import Checks, judge
from ldp.cli import commands
from ldp.cli.audit import audit_command
from tests.client_mutants import (
    AUDIT_ALPHA,
    few_responses,
    missed,
    one_report_a_window,
)
from tests.statistics import ALPHA
from tests.web_client import FOLDER, require_web_client

MUTANTS = {
    "oneCategoryPlain": ("reports", "metric 'new': touched cell reported, column", 1.0),
    "everyFourthPlain": ("reports", "metric 'new': first touched cell by call, few groups", 0.8),
    "oddDevicesPlain": ("reports", "metric 'new': touched cells reported", 1.2),
    "repeatedByEpoch": ("lives", "metric 'epoch-1': untouched unit named by the first two", 0.7),
    "repeatedPerValue": ("lives", "metric 'value-1': untouched unit named by the first two", 0.7),
}
"""Part of the audit that catches each mutant, the check, and the scale.

At this scale a mutant is missed with a probability below 1e-27.
"""


def checks_of(mutant: str, scale: float, parts: Sequence[str]) -> list[Checks]:
    require_web_client()
    with ForeignClients(["node", str(FOLDER / "test" / "client-mutants.mjs"), mutant]) as clients:
        stages = client_stages(Draws(1), make=clients.make, scale=scale, parts=parts)
        return [check for stage in stages for check in stage]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("encoders", ["honest", "honestEncoders"])
def test_the_typescript_client_passes(encoders: str) -> None:
    """This fails falsely with probability ALPHA, also where each encoder is wrapped as those of the
    mutants.

    Its bits are the system's. The twins are the mutants below.
    """
    assert judge(checks_of(encoders, 0.3, COMMON_PARTS), ALPHA).findings == ()


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_audit_catches_the_mutant(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant is missed with probability ALPHA at most (`missed`). The twin is the honest client
    above."""
    monkeypatch.setattr("ldp.audit.client.CATALOGUE", {})
    part, count, scale = MUTANTS[mutant]
    if part == "reports":
        one_report_a_window(monkeypatch)
    few_responses(monkeypatch, ["epoch-1", "value-1"])
    checks = checks_of(mutant, scale, [part])
    assert missed(checks, count) < ALPHA
    assert not judge(checks, AUDIT_ALPHA).passed


@pytest.mark.exact
def test_the_same_seed_makes_the_same_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a seed, the bits are the platform's."""
    require_web_client()
    monkeypatch.setattr("ldp.audit.client.CATALOGUE", {})
    played = []
    for seeded in (True, True, False):
        command = ["node", str(FOLDER / "dist" / "client-lines.js")]
        with ForeignClients(command, seeded=seeded) as clients:
            (stage,) = client_stages(Draws(1), make=clients.make, scale=0.1, parts=["periods"])
            played.append([check[1].tolist() for check in stage])
    assert played[0] == played[1] != played[2]


@pytest.mark.exact
@pytest.mark.parametrize("answers", ["", "[]", "{}", '{"batches": ["00"], "declined": 0}'])
def test_a_program_that_answers_no_batches_is_refuted(answers: str) -> None:
    with ForeignClients(["sh", "-c", f"while read -r line; do echo '{answers}'; done"]) as program:
        stages = client_stages(Draws(1), make=program.make, parts=["periods"])
        assert not judge(next(stages), ALPHA).passed


@pytest.mark.exact
def test_the_command_names_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(audit_command, ["--client", "--encoder", "cat"])
    assert done.exit_code == 1
    assert "FAIL client: 4 counts checked of 43,104 reports, 25 mechanisms" in done.output
    refused = CliRunner().invoke(commands, ["audit", "--all", "--encoder", "cat"])
    assert "--encoder does not go with --all" in refused.output
