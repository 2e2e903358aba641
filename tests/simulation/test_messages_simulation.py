"""Simulated messages for a shuffler are what a collector behind a relay would hold."""

import json
from pathlib import Path
from typing import Any

import pytest

from ldp.server import decode
from tests.collecting import counted
from tests.command_line import run
from tests.messages import OSLO, registry


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
def test_a_scenario_drops_days_of_too_few_people_and_says_what_a_relay_protects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = registry(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("value,count\nOslo,900\nBergen,300\n")
    head = "users = 1250\ndays = 8\nstart = 2026-01-01\nattacked = 100\n"
    city = '[metric.city]\npopulation = "people.csv"\nactive = 0.8\n'
    mood = '[metric.mood]\npopulation = "mood.csv"\n'
    Path("mood.csv").write_text("value,count\ngood,1\n")
    Path("days.toml").write_text(head + city + mood)
    command = "simulate --scenario days.toml --registry metrics.toml --seed 1"
    assert run(f"{command} --reports store --truth truth --json", monkeypatch) == 0
    said = json.loads(capsys.readouterr().out)
    told = said["metrics"]["city"]
    by_day = told["reports_by_day"]
    assert told["least_people"] == 1000
    assert 0 in by_day
    assert 0 < told["dropped"] < 1000 * by_day.count(0)
    assert all(number == 0 or number >= 1000 for number in by_day)
    assert 0 < said["spent_behind_relay"]["trusting"]["device"]["worst"] <= 8
    assert list(said["spent_behind_relay"]) == ["trusting", "all groups"]
    assert list(said["spent"]) == ["places"]
    assert told["report_epsilon"] is None
    assert list(said["attacker"]["metrics"]) == ["mood"]
    sizes = Path("store/relayed/city-3.csv").read_text().splitlines()[1:]
    numbers = sorted(OSLO.messages * number for number in by_day if number)
    assert sorted(int(line.split(",")[1]) for line in sizes) == numbers
    table: Any = counted(Path("store"), loaded, "city")
    assert decode(table).reports == told["reports"]
    assert len([*Path("truth/city").iterdir()]) == len(sizes)
    assert run(command, monkeypatch) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "a day's messages where there are 1,000 records or more, and dropped" in text
    assert "values are told as they are: epsilon is unlimited" in text
