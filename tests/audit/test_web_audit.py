"""`ldp audit` checks the TypeScript package against each mechanism's law, and catches its
mutants."""

import shlex
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ldp.audit.certificate import AuditSubject
from ldp.audit.foreign import ForeignEncoder
from ldp.audit.verdict import audited_from_outside
from ldp.cli import commands, main
from ldp.cli.audit import _of_program, audit_command
from ldp.errors import ParameterError, ReportError
from ldp.mechanisms import (
    CATALOGUE,
    CatalogueMechanism,
    CountMeanSketch,
    RandomizedResponse,
    UnaryEncoding,
)
from ldp.mechanisms.base import Example
from tests.web_client import FOLDER, require_web_client

RESPONSE = RandomizedResponse(categories=("a", "b"), epsilon=0.49)
CERTAIN = RandomizedResponse(categories=("a", "b", "c"), epsilon=4.0)
UNARY = UnaryEncoding(categories=("a", "b", "c"), epsilon=1.0)
SKETCH = CountMeanSketch(epsilon=4.0, rows=64, width=64, seed="00ff")
EXAMPLES = [pytest.param(kind.examples()[0], id=name) for name, kind in CATALOGUE.items()]


def passed(mechanism: CatalogueMechanism, mutant: str, trials: int) -> bool:
    require_web_client()
    command = ["node", str(FOLDER / "test" / "mutants.mjs"), mutant]
    with ForeignEncoder(command, mechanism) as foreign:
        return audited_from_outside("one", mechanism, [foreign.encode], trials).passed


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("example", EXAMPLES)
def test_the_shipped_encoder_has_the_law_that_it_claims(example: Example) -> None:
    """This fails falsely less than once in 5e5 runs of an example; the mutants below are the
    twins."""
    assert passed(example.mechanism, "honest", 100)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("mechanism", "mutant", "trials"),
    [
        (UNARY, "unnoisedBit", 300),
        (RESPONSE, "floatThreshold", 1500),
        (SKETCH, "reusedBlock", 300),
    ],
    ids=lambda given: str(given) if isinstance(given, str) else "",
)
def test_the_audit_catches_the_mutant(
    mechanism: CatalogueMechanism, mutant: str, trials: int
) -> None:
    """Each honest encoder, the twin, passes where its mutant is caught, except less than once in
    5e5 runs."""
    assert not passed(mechanism, mutant, trials)
    assert passed(mechanism, "honest", min(trials, 300))


@pytest.mark.slow
@pytest.mark.exact
def test_the_command_audits_a_program(tmp_path: Path) -> None:
    require_web_client()
    metrics = str(FOLDER / "test" / "metrics.toml")
    program = f"{shutil.which('node')} {FOLDER / 'dist' / 'encode-lines.js'}"
    words = ["city", "--registry", metrics, "--trials", "200"]
    done = CliRunner().invoke(audit_command, [*words, "--encoder", program])
    assert done.exit_code == 0, done.output
    assert "epsilon 2 claimed" in done.output
    words = ["audit", *words, "--encoder", program, "--report", "x.json"]
    assert "--encoder does not go with --report" in CliRunner().invoke(commands, words).output


PROGRAM = """
import json, sys, time
from ldp.mechanisms import from_parameters
from ldp.protocol.randomness import SeededBits, SystemBits
mechanism = from_parameters(json.loads(input()))
encode = mechanism.encoder(BITS).encode
for line in sys.stdin:
    value = json.loads(line, object_hook=lambda some: bytes.fromhex(some["hex"]))
    print(encode(value).hex(), flush=True)
"""


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    "mechanism", [RESPONSE, UNARY, SKETCH, CERTAIN], ids=lambda one: f"{one.name} {one.epsilon:g}"
)
@pytest.mark.parametrize(
    ("bits", "status"),
    [
        ("SystemBits()", 0),
        ("SeededBits(b'constant')", 1),
        ("SeededBits(b'%d' % (time.time() / 60))", 1),
    ],
    ids=["new", "constant", "minute"],
)
def test_noise_that_a_program_draws_again_after_a_start_is_refuted(
    mechanism: CatalogueMechanism, bits: str, status: int, tmp_path: Path
) -> None:
    """Noise of one start looks random, so nothing else shows it. With little noise 400 reports
    are equal by chance: a constant passed as "ok" at epsilon 4.

    Two of three starts are within one minute. An honest program fails less than once in 5e5 runs.
    """
    (tmp_path / "program.py").write_text(PROGRAM.replace("BITS", bits))
    command = f"{sys.executable} {tmp_path / 'program.py'}"
    subject = AuditSubject("one", mechanism)
    assert bool(_of_program(command.split(), subject, 200, 0).findings) == status


@pytest.mark.exact
@pytest.mark.parametrize("command", ["cat", "true", "yes", "cat /dev/zero"])
def test_a_program_that_answers_with_no_report_is_refused(command: str) -> None:
    """One that has ended, too, and one that writes without end, whose output nobody keeps."""
    with ForeignEncoder(command.split(), RESPONSE) as foreign:
        if command == "true":
            foreign._process.wait()
        with pytest.raises(ReportError):
            foreign.encode("a")
    assert foreign._process.poll() is not None


@pytest.mark.exact
@pytest.mark.parametrize("command", ["sleep 100", "sh -c 'sleep 100; true'", "true"])
def test_a_program_that_does_not_answer_is_ended(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An audit waited for it without end, and for the program of a shell. The twin ends by
    itself."""
    monkeypatch.setattr("ldp.audit.foreign.MOST_SECONDS", 0.5)
    what = "with no report: it ended with status 0" if command == "true" else "0.5 s: it must write"
    with ForeignEncoder(shlex.split(command), RESPONSE) as foreign:
        for _ in range(2):
            with pytest.raises(ReportError, match=what):
                foreign.encode("a")
    assert foreign._process.poll() is not None


@pytest.mark.exact
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("sh -c 'echo ready; cat'", r"the encoder answered 'a' with no report: 'ready'"),
        (r"sh -c 'printf \\377\\n; cat'", r"with no report: '\\\\xff'"),
        ("sh -c 'echo; cat'", "with no report: an empty line"),
        ("sh -c 'exit 3'", "with no report: it ended with status 3"),
    ],
)
def test_what_a_program_did_instead_is_said(command: str, message: str) -> None:
    with (
        ForeignEncoder(shlex.split(command), RESPONSE) as foreign,
        pytest.raises(ReportError, match=message),
    ):
        foreign.encode("a")


@pytest.mark.exact
@pytest.mark.parametrize(
    ("command", "message"), [("", "it names no program"), ("perl '", "No closing quotation")]
)
def test_a_command_that_is_none_is_refused(
    command: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["ldp", "audit", "--client", "--encoder", command]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.startswith(f"ldp: Invalid value for '--encoder': {message}")


@pytest.mark.exact
def test_a_program_that_cannot_be_started_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or that ends before it reads the mechanism's parameters."""

    def write(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(ForeignEncoder, "write", write)
    with ForeignEncoder(["true"], RESPONSE) as foreign, pytest.raises(ReportError):
        foreign.encode("a")
    with pytest.raises(ParameterError, match="cannot be started"):
        ForeignEncoder(["/no/such/program"], RESPONSE)
    with pytest.raises(ParameterError, match="cannot be started"):
        ForeignEncoder(["/no/such/program"], RESPONSE)
