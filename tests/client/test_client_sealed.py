"""A client seals each report once, to a listed key, and its owner can read everything."""

import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ldp.client import Client, Collector
from ldp.errors import ParameterError, Unreachable
from ldp.protocol.batch import Batch, Destination, Item
from ldp.protocol.sealing_keys import PrivateKey, PublicKey
from tests.devices import DAY, REGISTRY, App, Memory
from tests.sealing import FOREIGN, KEY, RETIRED

TODAY = date(2026, 11, 21)
HERE, RELAY = "http://127.0.0.1:1", "http://127.0.0.1:2"


class Relay(Memory):
    """Destination in memory that takes sealed reports."""

    def __init__(self, key: PrivateKey = KEY) -> None:
        super().__init__()
        self.key = PublicKey(key.public)


class SealingApp(App):
    """App whose client seals to a key, with a registry that lists two keys."""

    def write(self, metrics: Any) -> None:
        super().write(metrics)
        path, keys = self.folder / "metrics.toml", [KEY.fingerprint, RETIRED.fingerprint]
        listed = f"[product]\nsealing_keys = {keys}".replace("'", '"')
        path.write_text(path.read_text().replace("[product]", listed))

    def open(self, **changes: Any) -> Client:
        if isinstance(self.server, Memory) and not hasattr(self.server, "key"):
            self.server = Relay()
        return super().open(strict=True, **changes)

    def pass_days(self, number: int) -> None:
        """Record a city and a word on each of `number` days, and upload on the last."""
        for _ in range(number):
            self.client.record("city", "Oslo")
            self.client.record("word", "Bergen")
            self.now += DAY
        self.client.upload()


METRICS: dict[str, dict[str, Any]] = {"city": {}, "word": {}}


@pytest.fixture
def app(tmp_path: Path) -> SealingApp:
    app = SealingApp(tmp_path, METRICS)
    app.client.grant()
    return app


def received(app: App) -> list[Batch]:
    """Return the batches that left the device, each as often as it was sent."""
    return [Batch.from_bytes(body) for _, body in app.server.got]


@pytest.mark.exact
def test_what_leaves_is_sealed_to_the_key_of_one_size_and_opens(app: SealingApp) -> None:
    app.pass_days(3)
    items = [item for batch in received(app) for item in batch.items]
    assert {(item.metric, len(item.report)) for item in items} == {("queue:places", 128)}
    days = [KEY.open(item).day for item in items]
    assert days == [batch.day for batch in received(app) for _ in batch.items]
    metrics = sorted(KEY.open(item).item.metric for item in items)
    assert metrics == ["city"] * 3 + ["word"] * 3
    assert not any(b"city" in body for _, body in app.server.got)


@pytest.mark.exact
def test_a_sealed_batch_is_repeated_byte_for_byte_and_never_encrypted_again(
    app: SealingApp,
) -> None:
    """This holds also for another process with another key."""
    app.server.down = True
    app.pass_days(1)
    app.client.close()
    app.server = Relay(RETIRED)
    app.client = app.open()
    app.now += DAY
    (before,) = app.rows("SELECT sealed FROM batches")
    app.client.upload()
    assert [body for _, body in app.server.got] == list(before)
    for item in received(app)[0].items:
        assert KEY.open(item)
    app.server.got.clear()
    app.pass_days(1)
    for item in received(app)[0].items:
        assert RETIRED.open(item)


@pytest.mark.exact
def test_the_owner_reads_what_waits_and_withdraws_it(app: SealingApp) -> None:
    app.server.down = True
    app.pass_days(1)
    assert {name: len(said) for name, said in app.client.pending().items()} == {
        "city": 1,
        "word": 1,
    }
    assert app.client.withdraw()
    assert app.rows("SELECT body, sealed FROM batches") == [(None, None)]


@pytest.mark.exact
def test_what_was_sent_leaves_no_ciphertext(app: SealingApp) -> None:
    app.client.close()
    app.client = app.open(keep_sent=9 * DAY)
    app.pass_days(1)
    assert len(app.client.sent()[0].statements) == 2
    assert app.rows("SELECT body IS NULL, sealed FROM batches") == [(0, None)]


@pytest.mark.exact
def test_a_key_that_the_registry_does_not_list_is_refused(app: SealingApp) -> None:
    for destination in (Relay(FOREIGN), Collector(HERE, relay=RELAY, key=FOREIGN.public)):
        with pytest.raises(ParameterError, match="does not list the key"):
            app.open(destination=destination)
    app.open(destination=Collector(HERE, relay=RELAY, key=KEY.public)).close()
    with pytest.raises(ParameterError, match="give the destination the collector's key"):
        app.open(destination=Collector(HERE))


@pytest.mark.exact
def test_a_destination_of_its_own_without_a_key_is_refused(app: SealingApp) -> None:
    class Own:
        def send(self, identity: bytes, body: bytes) -> int:
            return 0

    with pytest.raises(ParameterError, match="give the destination the collector's key"):
        app.open(destination=Own())


@pytest.mark.exact
def test_a_report_that_no_sealed_batch_holds_is_refused_at_the_start(app: SealingApp) -> None:
    path = app.folder / "metrics.toml"
    large = 'mechanism = "cms"\nrows = 2\nwidth = 4194304'
    text = path.read_text().replace('mechanism = "rr"', large)
    path.write_text(re.sub(r'categories = \["Oslo.*', "", text))
    with pytest.raises(ParameterError, match="a sealed report of queue 'places' is larger"):
        app.open()
    app.open(destination=None).close()


@pytest.mark.exact
def test_a_relay_gets_nothing_that_it_could_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that was sealed before there was a key goes where it would have gone."""
    with pytest.raises(ParameterError, match="give the collector's key too"):
        Collector(HERE, relay=RELAY)
    destination: Destination = Collector(HERE, relay=RELAY, key=KEY.public)
    hosts: list[str] = []

    def connection(self: Collector, address: Any) -> Any:
        hosts.append(address.host)
        raise AssertionError

    monkeypatch.setattr(Collector, "_connection", connection)
    for item in (Item("city", 1, b"x"), Item("queue:places", 1, b"x")):
        with pytest.raises(AssertionError):
            destination.send(bytes(16), Batch(bytes(16), TODAY, (item,)).to_bytes())
    assert hosts == ["127.0.0.1:1", "127.0.0.1:2"]


@pytest.mark.exact
def test_an_error_says_whether_the_relay_or_the_collector_is_away() -> None:
    """It was always the collector."""
    destination = Collector(HERE, relay=RELAY, key=KEY.public)
    for name, receiver in (("city", "collector"), ("queue:places", "relay")):
        body = Batch(bytes(16), TODAY, (Item(name, 1, b"x"),)).to_bytes()
        with pytest.raises(Unreachable, match=f"the {receiver} cannot be reached"):
            destination.send(bytes(16), body)


@pytest.mark.exact
def test_a_device_without_a_key_loads_no_cryptography(tmp_path: Path) -> None:
    (tmp_path / "metrics.toml").write_text(REGISTRY + "[metric]\n")
    code = (
        "import sys; from ldp.client import Client, Collector; "
        f"Client({str(tmp_path / 'd')!r}, registry={str(tmp_path / 'metrics.toml')!r}, "
        f"destination=Collector({HERE!r})); print('cryptography' in sys.modules); "
        f"Collector({HERE!r}, key={KEY.public!r}); print('cryptography' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.exact
def test_without_the_package_a_key_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['cryptography'] = None; from ldp.client import Collector; "
        f"Collector({HERE!r}); Collector({HERE!r}, key={KEY.public!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "sealing reports needs the package cryptography" in done.stderr.splitlines()[-1]
    assert "pip install '.[sealed]'" in done.stderr.splitlines()[-1]
