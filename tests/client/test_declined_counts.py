"""Declined records are counted by reason, without the value, and forgotten with consent."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ldp.errors import ParameterError
from tests.command_line import run
from tests.devices import App


@pytest.mark.exact
def test_declined_records_are_counted_by_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Counts survive restarts. A record before consent is counted nowhere, since nothing is written
    then."""
    app = App(tmp_path, {"city": {"epsilon": 1.0}, "old": {"expires": "2026-01-01"}})
    assert not app.client.record("city", 7)
    assert not app.path.exists()
    assert dict(app.client.status().declined) == {}
    app.client.grant()
    assert app.client.record("city", "Oslo")
    values: list[Any] = [7, None, object()]
    for value in values:
        assert not app.client.record("city", value)
    for _ in range(3):
        assert not app.client.record("town", "Oslo")
    before = dict(app.client.status().declined)
    assert before == {"unknown metric": 3, "value": 3}
    app.client.close()
    app.client = app.open(strict=True)
    with pytest.raises(ParameterError):
        app.client.record("city", 7)
    assert app.client.status().declined == {"unknown metric": 3, "value": 4}
    app.client.close()
    words = f"device {app.path} --registry {tmp_path / 'metrics.toml'}"
    assert run(words, monkeypatch) == 0
    shown = capsys.readouterr().out
    assert "3 of a metric that the registry does not have" in shown
    assert "4 with a value that is not an answer of the metric" in shown
    app.client = app.open()
    app.client.withdraw()
    assert dict(app.client.status().declined) == {}
    app.now += timedelta(days=1)
    assert not app.rows("SELECT * FROM state WHERE name LIKE 'declined%'")
    app.client.close()
