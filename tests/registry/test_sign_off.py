"""Signing a registry off: its page, its record, and the build that fails when it changed."""

import json
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ldp.errors import ParameterError, RegistryError
from ldp.registry import Registry
from ldp.registry.certificates import Certificates, read_certificates
from ldp.registry.sign_off import (
    changes,
    check_sign_off,
    read_sign_off,
    sign,
    state_of,
)
from ldp.registry.sign_off_page import STYLE, UNSEEN, page
from tests.command_line import run
from tests.folders import ROOT
from tests.signing import CAUGHT, FAILED, PAGE, SIGN, TODAY, certify, folder

__all__ = ["folder"]


@pytest.mark.exact
def test_the_state_of_a_sign_off_is_that_of_the_files(folder: Path) -> None:
    registry = Registry.load(folder / "metrics.toml")
    assert state_of(registry, None, folder) == "not signed off"
    record = sign(registry, "Officer", [folder / "audit.json"], TODAY)
    assert state_of(registry, record, folder) == "signed off by Officer on 2026-06-01"
    certify(folder, registry, at_least=1.0)
    assert state_of(registry, record, folder).endswith("on 2026-06-01, changed since")


@pytest.mark.exact
def test_a_page_of_a_single_metric_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sections = (folder / "metrics.toml").read_text().split("[metric.")
    (folder / "metrics.toml").write_text("[metric.".join(sections[:2]))
    assert run("registry page metrics.toml --out page.html", monkeypatch) == 0
    assert "\n1 metric -> page.html" in f"\n{capsys.readouterr().out}"


CHECK = "registry check metrics.toml --against metrics.signed.json"


@pytest.mark.exact
def test_a_build_fails_when_something_is_not_as_it_was_signed_off(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(SIGN, monkeypatch) == 0
    assert "Officer signed off 2 metrics -> metrics.signed.json" in capsys.readouterr().out
    assert run(CHECK, monkeypatch) == 0
    record = json.loads((folder / "metrics.signed.json").read_text())
    assert record["name"] == "Officer"
    assert record["note"] == "a record, and no cryptographic signature"
    text = (folder / "metrics.toml").read_text()
    for old, new, said in (
        ("epsilon = 3.0\n", "epsilon = 2.5\n", "metric home: epsilon was 3, is 2.5"),
        (
            "window_epsilon = 8.0",
            "window_epsilon = 9.0",
            "group places: window epsilon was 8, is 9",
        ),
        ("team@", "ops@", "owners was team@example.org, is ops@example.org"),
        ("[product]", "# a comment\n[product]", "in what the record does not list, as comments;"),
    ):
        (folder / "metrics.toml").write_text(text.replace(old, new))
        (folder / "metrics.lock").unlink()
        assert run("registry lock metrics.toml", monkeypatch) == 0
        capsys.readouterr()
        assert run(CHECK, monkeypatch) == 2
        assert said in capsys.readouterr().err
    (folder / "metrics.toml").write_text(text)
    (folder / "metrics.lock").unlink()
    assert run("registry lock metrics.toml", monkeypatch) == 0
    assert run(CHECK, monkeypatch) == 0
    capsys.readouterr()
    (folder / "audit.json").write_text('{"audits": []}')
    assert run(CHECK, monkeypatch) == 2
    error = capsys.readouterr().err
    assert "audit.json: not as Officer signed off" in error
    assert "the content (SHA-256) of audit.json is another than the one signed;" in error
    assert "comments" not in error  # a certificate has none
    (folder / "metrics.toml").write_text(f"# a comment\n{text}")
    assert run(CHECK, monkeypatch) == 2
    error = capsys.readouterr().err
    assert "metrics.toml, audit.json: not as Officer" in error
    assert "metrics.toml differs only in what the record does not list, as comments; the" in error


@pytest.mark.exact
def test_nothing_is_signed_off_without_a_lock_and_a_passed_audit(folder: Path) -> None:
    registry = Registry.load(folder / "metrics.toml")
    audit = folder / "audit.json"
    assert sign(registry, "Officer", [audit], TODAY)["date"] == "2026-06-01"
    with pytest.raises(RegistryError, match="'city' has no certificate: `ldp audit city"):
        sign(registry, "Officer", [], TODAY)
    assert sign(registry, "Officer", [], date(3000, 1, 1))  # of what expired nothing is asked
    with pytest.raises(RegistryError, match="development = true asks nobody"):
        sign(registry._replace(development=True), "Officer", [audit], TODAY)
    registry.lock_path.unlink()
    names = ", ".join(registry.metrics)
    with pytest.raises(RegistryError, match=rf"`ldp registry lock .*metrics.toml` first: {names}"):
        sign(registry, "Officer", [audit], TODAY)


@pytest.mark.exact
@pytest.mark.parametrize("command", [SIGN, PAGE])
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda made: made["audits"][1].update(claimed=1.0), "home: claimed is 1.0, "),
        (lambda made: made["audits"][1].update(claimed=None), "home: claimed is None, "),
        (lambda made: made["audits"][1].update(findings=["no!"]), "home: findings is ['no!'], "),
        (lambda made: made["audits"][1].update(exact=["no!"]), "home: exact is ['no!'], "),
        (lambda made: made["audits"][1].update(at_least=9.0), "home: at_least is 9.0, must be at"),
        (lambda made: made["audits"][1].update(at_least=math.nan), "not a certificate of"),
        (lambda made: made["audits"][1].update(at_least="0"), "audit 2: at_least is '0'"),
        (lambda made: made["audits"][1].update(passed=False), "home: passed is False, "),
        (
            lambda made: made["audits"][1].update(exact_epsilon="2.9"),
            "home: exact_epsilon is '2.9'",
        ),
        (lambda made: made["audits"][1].update(worst_ratio="2"), "home: worst_ratio is '2', "),
        (lambda made: made["audits"][1]["parameters"].update(epsilon=2), "home: fingerprint is "),
        (lambda made: made["audits"][1]["parameters"].update(epsilon=99), "home: epsilon must be"),
        (
            lambda made: made["audits"][1].update(memoised={"lifetime": 1.0, "at_least": 0.0}),
            "home: lifetime is 1.0, must be None",
        ),
        (lambda made: made["audits"][1].update(parameters=[1]), "not a certificate"),
        (lambda made: made["audits"][1].pop("parameters"), "not a certificate"),
        (lambda made: made.update(passed=False), "the certificate: passed is False, "),
        (lambda made: made.update(client=FAILED), "client: passed is False, must be True"),
    ],
)
def test_a_certificate_that_contradicts_itself_is_refused(
    command: str,
    spoil: Callable[[Any], Any],
    said: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is refused even if another one of the same mechanism passed, named before or after it."""
    made = json.loads((folder / "audit.json").read_text())
    spoil(made)
    (folder / "bad.json").write_text(json.dumps(made))
    for names in ("bad.json --certificate audit.json", "audit.json --certificate bad.json"):
        assert run(command.replace("audit.json", names), monkeypatch) == 2
        error = capsys.readouterr().err
        assert "bad.json: " in error
        assert said in error
        assert error.count("\n") == 1


@pytest.mark.exact
def test_the_committed_certificate_can_be_signed() -> None:
    committed = ROOT / "simulations/results/certificate.json"
    entries = json.loads(committed.read_text("utf-8"))["audits"]
    assert {*read_certificates([committed]).audits} == {entry["fingerprint"] for entry in entries}


@pytest.mark.exact
def test_the_page_has_all_that_an_officer_signs(folder: Path) -> None:
    registry = Registry.load(folder / "metrics.toml")
    text = page(registry, read_certificates([folder / "audit.json"]), None, TODAY)
    for part in (
        "Where people live",
        "team@example.org",
        "2999-12-31",
        "&quot;Oslo&quot;, &quot;Bergen&quot; and &quot;Hell&quot;",
        "the odds are multiplied by at most 20.09 (epsilon 3)",
        "any 24 hours can touch 2 of them",
        "What no epsilon here covers",
        registry.metric("home").mechanism.fingerprint.hex(),
        "Audited with 5,000 trials: 1 counts, 0 findings; 2 of 2 cheats caught; the client was "
        "not audited (ldp audit --client --report)",
        "What no audit can see",
        *UNSEEN,
    ):
        assert part in text, part
    assert 'class="bad"' not in text
    assert "://" not in text  # it loads nothing
    without = page(registry, Certificates(), None, date(3000, 1, 1))
    assert without.count("no certificate") == 2
    assert without.count(", expired") == 2


@pytest.mark.exact
@pytest.mark.parametrize(
    ("head", "cheats", "said"),
    [
        ({"trials": 4999}, CAUGHT, "4,999 trials: 1 counts, 0 findings; 2 of 2 cheats caught"),
        ({"trials": 5000}, {**CAUGHT, "repeated_report": False}, "1 of 2 cheats caught"),
        ({"trials": 100}, {}, "100 trials: 1 counts, 0 findings; 0 of 0 cheats caught"),
        ({"trials": 5000}, {}, "0 of 0 cheats caught"),
    ],
)
def test_a_weak_certificate_is_not_signed_and_the_page_says_what_it_lacks(
    head: dict[str, int],
    cheats: dict[str, bool],
    said: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is not signed even if a strong one is named, before it or after it."""
    made = json.loads((folder / "audit.json").read_text()) | head
    made["audits"].pop()
    made["audits"][0]["tried"]["reports_of_each"] = made["trials"]
    made["audits"][0]["cheats_caught"] = cheats
    (folder / "weak.json").write_text(json.dumps(made))
    for names in ("weak.json --certificate audit.json", "audit.json --certificate weak.json"):
        assert run(SIGN.replace("audit.json", names), monkeypatch) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "metric 'city' has a weak certificate, weak.json (" in error
        assert f"{said}; due: 5,000 trials or more, and every cheat caught)" in error
        assert "`ldp audit city --registry metrics.toml --report city.json`" in error
        assert not (folder / "metrics.signed.json").exists()
        assert run(PAGE.replace("audit.json", names), monkeypatch) == 0
        assert "to sign it, metric 'city' has a weak" in capsys.readouterr().out
        text = (folder / "page.html").read_text()
        assert text.count('class="bad"') == text.count(">Too weak to be signed.<") == 1
        assert said in text


@pytest.mark.exact
def test_the_page_and_the_record_name_the_audit_of_the_client(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit of the client may be in a certificate of its own."""
    made = json.loads((folder / "audit.json").read_text()) | {"audits": []}
    (folder / "client.json").write_text(json.dumps(made | {"client": FAILED}))
    page_of_both = f"{PAGE} --certificate client.json"
    assert run(page_of_both, monkeypatch) == 2
    passed = {"passed": True, "checks": 1416, "findings": []}
    (folder / "client.json").write_text(json.dumps(made | {"client": passed}))
    assert run(page_of_both, monkeypatch) == 0
    text = (folder / "page.html").read_text()
    assert text.count("2 of 2 cheats caught; the client was audited<") == 2
    assert "<td>client.json</td>" in text
    assert run(f"{SIGN} --certificate client.json", monkeypatch) == 0
    record = json.loads((folder / "metrics.signed.json").read_text())
    assert [entry["file"] for entry in record["certificates"]] == ["audit.json", "client.json"]


@pytest.mark.exact
def test_a_long_name_breaks_no_heading_of_its_table() -> None:
    """A long name, which may break anywhere, left "expir es" and "charg ed" above the columns."""
    (heading,) = re.findall(r"^thead th \{(.*?)\}", STYLE, re.MULTILINE)
    assert "overflow-wrap: normal" in heading


@pytest.mark.exact
def test_the_page_says_what_changed_since_the_last_sign_off(folder: Path) -> None:
    registry = Registry.load(folder / "metrics.toml")
    record = sign(registry, "<Officer>", [folder / "audit.json"], TODAY)
    assert "Nothing changed of what people are asked" in page(
        registry, Certificates(), record, TODAY
    )
    path = folder / "metrics.toml"
    path.write_text(path.read_text().replace("[metric.home]", "[metric.house]"))
    changed = Registry.load(path)
    assert changes(record, changed) == ["metric house is new", "metric home is gone"]
    text = page(changed, Certificates(), record, TODAY)
    assert "&lt;Officer&gt; signed off on 2026-06-01" in text
    assert "<li>metric home is gone</li>" in text


@pytest.mark.exact
def test_a_description_cannot_become_markup(folder: Path) -> None:
    path = folder / "metrics.toml"
    path.write_text(path.read_text().replace("Where people live", "<script>x</script>"))
    certificates = read_certificates([folder / "audit.json"])
    audits = {key: audit._replace(origin="<script>") for key, audit in certificates.audits.items()}
    text = page(Registry.load(path), certificates._replace(audits=audits), None, TODAY)
    assert "<script>" not in text


@pytest.mark.exact
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("check metrics.toml --fail-expiring 9999d", ""),
        (
            "check metrics.toml --most-odds 3",
            "can let somebody guess right nearly always (epsilon 14), --most-odds is 3",
        ),
        ("check metrics.toml --most-odds nan", "'--most-odds': nan lies in no range"),
        ("check metrics.toml --most-odds inf", "--most-odds must be a finite number"),
        ("check metrics.toml --most-odds 1e400", "--most-odds must be a finite number"),
        ("check metrics.toml --accept-growth nan", "'--accept-growth': nan lies in no range"),
        ("check metrics.toml --accept-growth inf", ""),
        ("check metrics.toml --against audit.json", "not a record of `ldp registry sign`"),
        ("page metrics.toml --out metrics.lock", "is also an input"),
        ("page metrics.toml --out p.html --certificate cities.txt", "not a certificate of"),
        ("sign metrics.toml --name A --certificate audit.json --out cities.txt", "also an input"),
        ("sign metrics.toml --name A --certificate audit.json --out sub/s.json", "belongs beside"),
    ],
)
def test_a_promise_that_is_broken_is_one_line(
    words: str,
    said: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(f"registry {words}", monkeypatch) == (2 if said else 0)
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == bool(said)


@pytest.mark.exact
@pytest.mark.parametrize("certificates", [None, 3, ["audit.json"], [{"file": "audit.json"}]])
def test_a_record_without_its_certificates_is_none(folder: Path, certificates: object) -> None:
    registry = Registry.load(folder / "metrics.toml")
    record = sign(registry, "Officer", [folder / "audit.json"], TODAY)
    path = folder / "s.json"
    path.write_text(json.dumps({**record, "certificates": certificates}))
    with pytest.raises(RegistryError, match="not a record of `ldp registry sign`"):
        read_sign_off(path)
    path.write_text(json.dumps({key: record[key] for key in record if key != "certificates"}))
    with pytest.raises(RegistryError, match="not a record of `ldp registry sign`"):
        read_sign_off(path)


@pytest.mark.exact
def test_a_metric_that_expires_soon_fails_the_build(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)  # today, if midnight passes
    path = folder / "metrics.toml"
    path.write_text(path.read_text().replace("2999-12-31", str(tomorrow), 1))
    assert run("registry check metrics.toml", monkeypatch) == 0
    assert run("registry check metrics.toml --fail-expiring 2d", monkeypatch) == 2
    assert "these metrics will have expired: city" in capsys.readouterr().err


@pytest.mark.exact
def test_metrics_that_are_gone_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (folder / "metrics.toml").read_text()
    (folder / "old.toml").write_text(text.replace("[metric.home]", "[metric.house]"))
    check = "registry check metrics.toml --against old.toml"
    assert run(check, monkeypatch) == 0
    assert "\nnote: metric house of old.toml is gone\n" in capsys.readouterr().out
    assert run(f"{check} --json", monkeypatch) == 0
    assert json.loads(capsys.readouterr().out)["gone"] == ["house"]


@pytest.mark.exact
def test_a_page_is_written_and_said_as_json(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"{PAGE} --json", monkeypatch) == 0
    assert json.loads(capsys.readouterr().out) == {"written": "page.html", "missing": []}
    assert run(PAGE.replace("--certificate audit.json", ""), monkeypatch) == 0
    assert (
        "\nto sign it, metric 'city' has no certificate: `ldp audit city" in capsys.readouterr().out
    )
    assert run(f"{SIGN} --json", monkeypatch) == 0
    record = json.loads(capsys.readouterr().out)
    check_sign_off(Registry.load("metrics.toml"), record, folder)


@pytest.mark.parametrize("name", ["", " ", "A\nB", "A\u202eB", "A\udcff"])
def test_a_signer_whose_name_is_no_line_is_refused(folder: Path, name: str) -> None:
    registry = Registry.load(folder / "metrics.toml")
    with pytest.raises(ParameterError, match="the name of who signs"):
        sign(registry, name, [], date(2026, 1, 1))
