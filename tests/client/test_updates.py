"""Updates of the registry in a device's life let no window tell more than its cap."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ldp.client import Client, runtime
from ldp.registry import Registry
from tests.devices import Memory
from tests.lives import METRIC, Subjects

DAY = timedelta(days=1)


def at(day: int, hour: int = 12) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day, hours=hour)


def fresh(price: float, **keys: Any) -> dict[str, Any]:
    return {"how": f'mechanism = "rr"\nepsilon = {price}', **keys}


def epoch(price: float, length: str, **keys: Any) -> dict[str, Any]:
    how = f'mechanism = "memoised-rr"\nepsilon = {price / 2}\nlifetime_epsilon = {price}\n'
    return {"how": f'{how}memoise = "epoch"\nepoch = "{length}"', **keys}


class Device:
    """Client whose registry can be replaced, with what it sent."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.server, self.now = folder, Memory(), at(0)
        self.client: Client | None = None

    def registry(self, metrics: dict[str, Any], groups: str = "", **caps: Any) -> Registry:
        usual = {"window": "1d", "cap": 8.0, "life": 64.0, "more": ""} | caps
        text = '[product]\nname = "p"\n[group.g]\nlateness = "9000d"\n'
        text += 'window = "{window}"\nwindow_epsilon = {cap}\n'.format(**usual)
        text += "lifetime_epsilon = {life}\n{more}\n".format(**usual) + groups
        for name, keys in metrics.items():
            filled = {"group": "g", "reports": 1, "version": 1, "expires": "2099-12-31", **keys}
            section = METRIC.format(name=name, categories='"a", "b"', **filled)
            section = section.replace("version = 1", f"version = {filled['version']}")
            text += section.replace("2099-12-31", filled["expires"])
        path = self.folder / "metrics.toml"
        path.write_text(text)
        return Registry.load(path)

    def use(self, registry: Registry) -> Client:
        self.close()
        self.client = Client(
            self.folder / "device.ldp",
            registry=registry,
            destination=self.server,
            clock=lambda: self.now,
            jitter=timedelta(0),
            secret=bytes(32),
        )
        return self.client

    def close(self) -> None:
        if self.client is not None:
            self.client.close()

    def record(self, day: int, **values: str) -> None:
        self.now = at(day)
        assert self.client is not None
        for name, each in values.items():
            for value in each:
                self.client.record(name, value)

    def upload(self, day: int) -> list[str]:
        """Upload on a day, and return everything that was sent until then."""
        self.now = at(day)
        assert self.client is not None
        for _ in range(20):
            self.client.upload()
        return sorted(f"{item.metric} {item.report.decode()}" for item in self.server.items)


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    monkeypatch.setattr(runtime, "Responses", Subjects)
    made = Device(tmp_path)
    yield made
    made.close()


@pytest.mark.exact
def test_epochs_of_new_metrics_keep_to_the_cap_that_was_shown(device: Device) -> None:
    """The cap was 4 a day. Three epochs of 4 together need 12, to which nobody agreed."""
    device.use(device.registry({"m1": epoch(4.0, "7d")}, cap=4.0)).grant()
    metrics = {name: epoch(4.0, "7d") for name in ("m1", "m2", "m3")}
    client = device.use(device.registry(metrics, cap=12.0))
    assert client.status().unasked == ("g", "m2", "m3")
    assert client.remaining() == {"g": 4.0}
    device.record(1, m1="a", m2="a", m3="a")
    assert device.upload(2) == []
    client.grant()
    device.record(3, m1="a", m2="a", m3="a")
    assert len(device.upload(4)) == 3


@pytest.mark.exact
@pytest.mark.parametrize("other", ["7d", "2d", "12h"])
def test_windows_that_overlap_do_not_both_tell(device: Device, other: str) -> None:
    """The length of the window changes and is rolled back within one day."""

    def registry(window: str) -> Registry:
        return device.registry({"f": fresh(4.0)}, cap=4.0, window=window)

    device.use(registry("1d")).grant()
    for window in (other, "1d", other, "1d"):
        device.use(registry(window))
        device.record(1, f="a")
    sent = [device.upload(day) for day in range(2, 20)][-1]
    assert len(sent) == 1


@pytest.mark.exact
@pytest.mark.parametrize("change", ["expires", "group"])
def test_an_epoch_is_told_of_no_window_that_set_nothing_aside(device: Device, change: str) -> None:
    """A metric expires, or moves to another group, before what it froze was sent, and comes back.

    The other metric filled the window of that record.
    """
    window = "7d" if change == "expires" else "1d"
    there: dict[str, Any] = {"expires": "2026-01-02"} if change == "expires" else {"group": "h"}
    groups = f'[group.h]\nwindow = "{window}"\nwindow_epsilon = 8.0\nlifetime_epsilon = 64.0\n'

    def registry(**keys: Any) -> Registry:
        metrics = {"e": epoch(4.0, "28d", **keys), "f": fresh(4.0, reports=2)}
        return device.registry(metrics, groups, window=window)

    before, after = (there, {}) if change == "expires" else ({}, there)
    device.use(registry(**before)).grant()
    device.record(1, e="a", f="aa")
    device.use(registry(**(before if change == "expires" else after)))
    assert device.upload(8) == ["f fresh::a", "f fresh::a"]
    device.use(registry())
    device.record(8, e="b")
    sent = device.upload(16)
    assert [each[-2:] for each in sent if each.startswith("e ")] == [":b"]


@pytest.mark.exact
def test_a_dearer_report_waits_for_the_owner_too(device: Device) -> None:
    def registry(epsilon: float) -> Registry:
        metrics = {"f": fresh(epsilon, version=int(epsilon))}
        return device.registry(metrics, more=f"report_epsilon = {epsilon}")

    device.use(registry(1.0)).grant()
    client = device.use(registry(8.0))
    assert client.status().unasked == ("g",)
    device.record(1, f="a")
    assert device.upload(2) == []
    client.grant()
    device.record(3, f="a")
    assert len(device.upload(4)) == 1


@pytest.mark.exact
def test_an_expired_metric_takes_nothing_from_others(device: Device) -> None:
    metrics = {"old": fresh(4.0, expires="2026-01-02"), "new": fresh(4.0)}
    device.use(device.registry(metrics, cap=4.0, life=4000.0)).grant()
    for day in range(10, 30):
        device.record(day, new="a")
    assert len(device.upload(31)) == 20


@pytest.mark.exact
def test_the_successor_of_an_expired_epoch_metric_is_registered(device: Device) -> None:
    metrics = {"e1": epoch(4.0, "7d", expires="2025-01-01"), "e2": epoch(4.0, "7d")}
    registry = device.registry(metrics, cap=4.0)
    assert registry.check(at(0).date()) == ["e1", "e2"]
    device.use(registry).grant()
    device.record(1, e2="a")
    assert device.upload(2) == ["e2 epoch:1:a"]


Harm = Callable[[Device, Path], None]


def _lose(device: Device, folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Path]:
    """Yield a function that switches between state folders and returns the new one."""

    def switch(number: int) -> Path:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / f"home{number}"))
        return tmp_path / f"home{number}" / "ldp"

    switch(1)
    return switch


@pytest.mark.exact
def test_a_copy_that_was_made_after_a_loss_is_refused_too(
    device: Device, homes: Callable[[int], Path]
) -> None:
    registry = device.registry({"f": fresh(4.0)}, life=16.0)
    device.use(registry).grant()
    device.record(1, f="a")
    device.upload(2)
    _lose(device, homes(1))
    device.record(2, f="a")
    device.close()
    copy = (device.folder / "device.ldp").read_bytes()
    for day in (10, 20, 30):
        client = device.use(registry)
        for step in range(6):
            device.record(day + step, f="a")
        device.upload(day + 7)
        device.close()
        (device.folder / "device.ldp").write_bytes(copy)
    assert len(device.server.items) == 4, "the cap for life"
    client = device.use(registry)
    assert "restored copy" in client.status().storage


@pytest.mark.exact
def test_a_name_for_the_witness_does_not_take_over_a_restored_copy(
    device: Device, homes: Callable[[int], Path], tmp_path: Path
) -> None:
    registry = device.registry({"f": fresh(4.0)})
    device.use(registry).grant()
    device.record(1, f="a")
    device.close()
    copy = (device.folder / "device.ldp").read_bytes()
    device.use(registry)
    device.upload(2)
    device.close()
    (device.folder / "device.ldp").write_bytes(copy)
    with closing(
        Client(device.folder / "device.ldp", registry=registry, witness=tmp_path / "w")
    ) as client:
        answer: Any = client.record("f", "a")
        assert (answer.reason, "restored copy" in answer.details) == ("storage", True)
        assert "restored copy" in client.status().storage


@pytest.mark.exact
def test_witnesses_in_two_places_lock_nobody_out(
    device: Device, homes: Callable[[int], Path]
) -> None:
    """A service and a session have different state folders; each finds the other's work newer."""
    registry = device.registry({"f": fresh(4.0)})
    device.use(registry).grant()
    for day in range(1, 7):
        homes(day % 2)
        client = device.use(registry)
        device.record(day, f="a")
        assert client.status().storage == ""
        assert len(device.upload(day)) == day - 1
    assert client.status().witnesses_lost == 5


@pytest.mark.exact
def test_a_state_folder_that_cannot_be_read_locks_nobody_out(
    device: Device, homes: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = device.registry({"f": fresh(4.0)})

    def denied(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    client = device.use(registry)
    client.grant()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", denied)
        patch.setattr("ldp.client.witness.write_whole", denied)
        for day in (1, 2, 3):
            device.record(day, f="a")
        assert len(device.upload(4)) == 3
        assert client.status().witnesses_lost == 1
    device.record(5, f="a")
    assert len(device.upload(6)) == 4
    assert client.status().storage == ""
