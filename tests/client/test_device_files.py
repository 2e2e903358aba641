"""The device's file and its default witness survive older formats, copies and deletions."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ldp.client import Client, Collector, Declined, ParameterError
from ldp.client.device_file import FORMAT, SCHEMA
from ldp.client.witness import state_folder
from ldp.protocol.randomness import SeededBits
from tests.devices import DAY, App, Memory
from tests.folders import DATA

FORMAT_1 = (
    SCHEMA.replace("meaning", "fingerprint")
    .replace("times INTEGER", "reports INTEGER")
    .replace(" tag BLOB,", "")
    .replace(",\n    sealed BLOB", "")
    .replace("    forgotten INTEGER NOT NULL DEFAULT 0, PRIMARY", "    PRIMARY")
    .replace(",\n    begins INTEGER NOT NULL, ends INTEGER NOT NULL", "")
)
FORMAT_3 = """
ALTER TABLE totals DROP COLUMN forgotten;
ALTER TABLE charges DROP COLUMN begins;
ALTER TABLE charges DROP COLUMN ends;
ALTER TABLE frozen DROP COLUMN source;
DROP TABLE sealed;
INSERT OR REPLACE INTO state VALUES ('latest', 2051222400);
PRAGMA user_version = 3"""
"""Statements that turn a file of today into one of format 3, whose clock once stood at 2035."""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    made = App(tmp_path)
    made.client.grant()
    yield made
    made.client.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of default witnesses, which is empty."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("sys.platform", "linux")
    return tmp_path / "state" / "ldp"


@pytest.mark.exact
def test_a_device_file_of_commit_0bb2e93_gives_the_permanent_responses_it_gave(
    tmp_path: Path,
) -> None:
    """Its reports are permanent responses: of two metrics memoised per value, and one by epoch."""
    for path in (DATA / "device-format-2").iterdir():
        shutil.copy(path, tmp_path)
    now, server = datetime(2026, 2, 3, 12, tzinfo=UTC), Memory()
    reports = json.loads((tmp_path / "reports.json").read_text())
    with Client(
        tmp_path / "device.ldp",
        registry=tmp_path / "metrics.toml",
        destination=server,
        clock=lambda: now,
        jitter=timedelta(0),
        strict=True,
    ) as client:
        before = client.remaining()
        for number, value in enumerate(("Oslo", "Bergen", "Hell")):
            for name in reports:
                client.record(name, value)
            now += DAY
            server.got.clear()
            client.upload()
            assert {item.metric: item.report.hex() for item in server.items} == {
                name: sent[number] for name, sent in reports.items()
            }
        assert client.remaining() == before, "nothing was charged again"


@pytest.mark.exact
def test_a_file_of_format_1_is_upgraded_and_keeps_what_it_charged(app: App) -> None:
    for _ in range(2):
        app.client.record("city", "Oslo")
        app.now += DAY
        app.client.upload()
    app.client.record("city", "Oslo")
    app.client.close()
    old = app.path.with_name("old.ldp")
    with closing(sqlite3.connect(old)) as connection:
        for statement in FORMAT_1.split(";"):
            if not any(name in statement for name in ("frozen", "cells", "TABLE sealed")):
                connection.execute(statement)
        connection.execute("ATTACH ? AS new", (str(app.path),))
        for table in ("state", "seen"):
            connection.execute(f"INSERT INTO {table} SELECT * FROM new.{table}")
        connection.execute(
            "INSERT INTO charges SELECT number, budget, metric, at, times, epsilon FROM new.charges"
        )
        connection.execute(
            "INSERT INTO totals SELECT budget, metric, epsilon, times FROM new.totals"
        )
        connection.execute(
            "INSERT INTO batches SELECT id, day, last_day, not_before, contents, body, state "
            "FROM new.batches"
        )
        connection.execute(
            "INSERT INTO pool SELECT ends, metric, version, meaning, slot, report FROM new.pool"
        )
        connection.execute("DELETE FROM state WHERE name IN ('mark', 'witness', 'terms')")
        connection.execute("PRAGMA application_id = 1818521649")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    app.path = old
    app.client = app.open(witness=False, strict=True)
    assert app.client.consent == "granted"
    app.now += DAY
    assert app.client.upload().acknowledged == 1
    assert app.rows("SELECT sum(times) FROM totals") == [(3,)]
    assert app.rows("PRAGMA user_version") == [(FORMAT,)]


@pytest.mark.exact
def test_a_file_of_format_2_is_upgraded_and_sends_what_waits(app: App) -> None:
    app.server.down = True
    app.client.record("city", "Oslo")
    app.now += DAY
    app.client.upload()
    app.client.close()
    with closing(sqlite3.connect(app.path)) as connection:
        connection.executescript(FORMAT_3)
        connection.execute("ALTER TABLE batches DROP COLUMN sealed")
        connection.execute("PRAGMA user_version = 2")
    app.server.down, app.now = False, app.now + DAY
    app.client = app.open(strict=True)
    assert app.client.upload().acknowledged == 1
    assert app.server.got[0] == app.server.got[1]
    assert app.rows("PRAGMA user_version") == [(FORMAT,)]


@pytest.mark.exact
def test_a_file_of_format_3_whose_clock_stood_ahead_sends_again(app: App) -> None:
    app.client.record("city", "Oslo")
    app.now += DAY
    app.client.upload()
    app.client.close()
    with closing(sqlite3.connect(app.path)) as connection:
        connection.executescript(FORMAT_3)
    app.client = app.open(strict=True)
    app.client.record("city", "Oslo")
    app.now += DAY
    assert app.client.upload().acknowledged == 1
    assert app.rows("SELECT times, forgotten FROM totals") == [(2, 0)]
    assert app.rows("PRAGMA user_version") == [(FORMAT,)]


@pytest.mark.exact
@pytest.mark.parametrize("number", [FORMAT + 1, 0, -3])
def test_a_file_of_a_later_or_no_format_is_declined(app: App, number: int) -> None:
    app.client.close()
    with closing(sqlite3.connect(app.path)) as connection:
        connection.execute(f"PRAGMA user_version = {number}")
    app.client = app.open()
    answer: Any = app.client.record("city", "Oslo")
    assert (answer.reason, "newer version" in answer.details) == ("storage", True)
    assert app.rows("PRAGMA user_version") == [(number,)]


@pytest.mark.exact
@pytest.mark.parametrize("what", ["deleted", "replaced"])
def test_a_file_that_is_deleted_while_it_is_open_takes_no_more_records(app: App, what: str) -> None:
    """Records once went on into a file that nobody would find again."""
    assert app.client.record("city", "Oslo")
    for path in app.folder.glob("device.ldp*"):
        path.unlink()
    if what == "replaced":
        app.path.write_bytes(b"")
    answer: Any = app.client.record("city", "Oslo")
    assert answer.reason == ("storage" if what == "deleted" else "consent")
    if what == "deleted":
        assert not app.path.exists(), "no file is made before there is consent"


@pytest.mark.exact
def test_a_restored_copy_is_refused_by_the_default_witness(folder: Path, tmp_path: Path) -> None:
    """After five restores of a file with a cap of 64 for life there are 16 reports, not 80."""
    made = App(tmp_path)
    made.client.grant()
    made.client.record("city", "Oslo")
    made.client.close()
    shutil.copy(made.path, tmp_path / "copy")
    for _ in range(5):
        made.client = made.open()
        for _ in range(20):
            made.client.record("city", "Oslo")
            made.now += DAY
            made.client.upload()
        made.client.close()
        for path in tmp_path.glob("device.ldp*"):
            path.unlink()
        shutil.copy(tmp_path / "copy", made.path)
    assert len(made.server.items) == 16
    (witness,) = folder.iterdir()
    assert witness.suffix == ".witness"
    assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.exact
def test_a_missing_default_witness_is_made_anew_and_counted(folder: Path, app: App) -> None:
    app.client.close()
    app.client = app.open()
    for losses in (1, 2):
        for path in folder.iterdir():
            path.unlink()
        assert app.client.record("city", "Oslo")
        assert app.client.status().witnesses_lost == losses
        app.now += DAY
        assert app.client.upload().acknowledged == 1
        assert len(list(folder.iterdir())) == 1
    assert app.client.status().witnesses_lost == 2


@pytest.mark.exact
def test_without_a_place_for_it_the_client_goes_on_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    for place in (str(tmp_path / "file"), "~nobody/state"):
        monkeypatch.setenv("XDG_STATE_HOME", place)
        folder = tmp_path / str(len(place))
        folder.mkdir()
        made = App(folder)
        made.client.grant()
        made.client.record("city", "Oslo")
        made.now += DAY
        assert made.client.upload().acknowledged == 1
        assert made.client.status().witnesses_lost > 0
        made.client.close()


@pytest.mark.exact
def test_a_named_witness_is_not_replaced_by_the_default_one(folder: Path, tmp_path: Path) -> None:
    made = App(tmp_path)
    made.client = made.open(witness=tmp_path / "witness")
    made.client.grant()
    made.client.close()
    made.client = made.open()
    answer: Any = made.client.record("city", "Oslo")
    assert (answer.reason, "open the client with it" in answer.details) == ("storage", True)
    made.client.close()


@pytest.mark.exact
def test_an_app_can_name_a_witness_later(folder: Path, app: App) -> None:
    app.client.close()
    app.client = app.open(witness=app.folder / "witness")
    assert app.client.record("city", "Oslo")
    (app.folder / "witness").unlink()
    answer: Any = app.client.record("city", "Oslo")
    assert (answer.reason, "missing" in answer.details) == ("storage", True)


@pytest.mark.exact
def test_the_default_witness_is_never_in_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/ada")
    for platform, place in (
        ("linux", "/home/ada/.local/state/ldp"),
        ("darwin", "/home/ada/Library/Application Support/ldp"),
    ):
        monkeypatch.setattr("sys.platform", platform)
        assert state_folder() == Path(place)


@pytest.mark.exact
def test_a_destination_that_cannot_send_is_refused_at_once(app: App) -> None:
    with pytest.raises(ParameterError, match=r"Collector\("):
        app.open(destination="https://telemetry.example.org")
    app.open(destination=Collector("https://telemetry.example.org")).close()


@pytest.mark.exact
def test_a_destination_with_another_key_is_refused_at_once(app: App) -> None:
    """The app's own class has a key of a bucket, say."""

    class Bucket(Memory):
        key = "reports/today"

    with pytest.raises(ParameterError, match="the attribute key of a destination is a collector"):
        app.open(destination=Bucket())


@pytest.mark.exact
def test_bits_that_a_seed_gives_away_are_warned_of(app: App) -> None:
    with pytest.warns(UserWarning, match="known to whoever knows the seed"):
        app.open(bits=SeededBits(b"seed")).close()


@pytest.mark.exact
def test_a_place_that_the_system_does_not_show_is_a_fault_of_the_storage(tmp_path: Path) -> None:
    """A name that is too long, as a folder without permission, was "error" and "OSError"."""
    app = App(tmp_path)
    client = Client(tmp_path / ("n" * 300), registry=tmp_path / "metrics.toml")
    assert not client.grant()
    declined = client.record("city", "Oslo")
    assert isinstance(declined, Declined)
    assert (declined.reason, "File name too long" in declined.details) == ("storage", True)
    for text in (client.status().storage, client.upload().why, client.explain()):
        assert "File name too long" in text
    app.client.close()
