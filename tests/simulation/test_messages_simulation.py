"""Simulated messages for a shuffler are what a collector behind a relay would hold."""

import json
from pathlib import Path
from typing import Any

import pytest

from ldp.server import decode
from tests.collecting import counted
from tests.command_line import run
from tests.messages import registry


@pytest.mark.exact
def test_a_simulation_writes_what_a_collector_behind_a_relay_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """These are all messages of one batch, the size that the relay stated, and nothing of fewer
    people."""
    loaded = registry(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("value,count\nOslo,900\nBergen,300\n")
    simulated = "simulate city --registry metrics.toml --population people.csv --reports store"
    assert run(f"{simulated} --users 999", monkeypatch) == 2
    assert "the messages of 1,000 people or more: give --users 1000" in capsys.readouterr().err
    assert not Path("store").exists()
    assert run(f"{simulated} --seed 1", monkeypatch) == 0
    assert "1,200 people's 3,600 messages of 'city' -> store" in capsys.readouterr().out
    table: Any = counted(Path("store"), loaded, "city")
    assert decode(table).reports == 1200
    assert [*decode(table).warnings()] == []
    amplified = "amplify city --registry metrics.toml --sizes store --delta 1e-6"
    assert run(f"{amplified} --json", monkeypatch) == 0
    assert json.loads(capsys.readouterr().out)["reports"] == 1200


@pytest.mark.exact
def test_a_scenario_refuses_messages_for_a_shuffler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    registry(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("value,count\nOslo,900\nBergen,300\n")
    city = '[metric.city]\npopulation = "people.csv"\n'
    Path("days.toml").write_text(f"users = 1250\ndays = 8\nstart = 2026-01-01\n{city}")
    assert run("simulate --scenario days.toml --registry metrics.toml", monkeypatch) == 2
    assert "'city' sends messages for a shuffler: `ldp simulate METRIC`" in capsys.readouterr().err
