"""Make a registry that can be signed off, with a certificate of each of its metrics."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ldp.audit.certificate import AuditSubject, certified
from ldp.audit.verdict import Verdict
from ldp.mechanisms import CatalogueMechanism
from ldp.registry import Registry
from ldp.registry.certificates import TRIALS
from tests.command_line import REGISTRY

SIGN = "registry sign metrics.toml --name Officer --certificate audit.json"
PAGE = "registry page metrics.toml --out page.html --certificate audit.json"
CAUGHT = {"better_of_two": True, "repeated_report": True}
FAILED = {"passed": False, "checks": 9, "findings": ["an id is there twice"]}
TODAY = date(2026, 6, 1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a locked registry with a certificate of each metric."""
    monkeypatch.chdir(tmp_path)
    text = REGISTRY.replace("expires = 2027-12-31", "expires = 2999-12-31")
    (tmp_path / "metrics.toml").write_text(text)
    (tmp_path / "cities.txt").write_text("Oslo\nBergen\nHell\n")
    registry = Registry.load(tmp_path / "metrics.toml")
    registry.lock()
    certify(tmp_path, registry)
    return tmp_path


def certify(folder: Path, registry: Registry, **changed: object) -> None:
    """Write what `ldp audit --report` says of an audit that found nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ldp.audit.certificate.audited", found_nothing)
        audits = [
            certified(AuditSubject(metric.name, metric.mechanism), TRIALS, 0, with_cheats=False)[1]
            for metric in registry.metrics.values()
        ]
    audits = [{**audit, "cheats_caught": dict(CAUGHT), **changed} for audit in audits]
    document = {"passed": True, "version": "0.1.0", "commit": None, "made": "2026-06-01T00:00:00"}
    document |= {"certificate": 1, "python": "3.13.1", "trials": TRIALS, "seed": 0, "alpha": 1e-6}
    (folder / "audit.json").write_text(json.dumps({**document, "audits": audits}))


def found_nothing(name: str, mechanism: CatalogueMechanism, *_: Any, **__: Any) -> Verdict:
    """Return the verdict of an audit that found nothing, at once."""
    return Verdict(name, mechanism.cost.epsilon, [], 1, [], 2.5, None)
