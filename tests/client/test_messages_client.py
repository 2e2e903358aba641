"""A device asks for consent to messages for a shuffler, and sends nothing else."""

import math
import threading
from collections import Counter
from pathlib import Path

import pytest

from ldp.client import Client, Collector
from ldp.client.destinations import Folder
from ldp.client.results import Declined
from ldp.client.testing import Device, Memory
from ldp.errors import ParameterError
from ldp.protocol.batch import Batch
from tests.command_line import run
from tests.devices import DAY, NOON
from tests.messages import MESSAGES, OSLO, QUEUE, Person, ThroughRelay, items, registry
from tests.sealing import KEY

ANYWHERE, RELAYED = "http://127.0.0.1:1", "http://127.0.0.1:2"


@pytest.mark.exact
def test_a_client_without_a_relay_and_its_key_is_refused(tmp_path: Path) -> None:
    loaded = registry(tmp_path)
    for way in (Collector(ANYWHERE, key=KEY.public), Folder(tmp_path / "out")):
        with pytest.raises(ParameterError, match="metric 'city' protects nothing without a relay"):
            Client(tmp_path / "d", registry=loaded, destination=way)
    with pytest.raises(ParameterError, match="another address"):
        Collector(ANYWHERE, relay=ANYWHERE, key=KEY.public)
    Client(
        tmp_path / "d",
        registry=loaded,
        destination=Collector(ANYWHERE, relay=RELAYED, key=KEY.public),
    ).close()
    silent = Client(tmp_path / "d", registry=loaded, witness=False)
    silent.grant(["trusting"])
    assert silent.record("city", "Oslo") == Declined(
        "relay", "metric 'city' needs a relay to send to"
    )
    assert silent.record("mood", "good")


@pytest.mark.exact
def test_a_device_of_tests_shows_each_message_and_stands_for_the_relay(tmp_path: Path) -> None:
    """Their number and sizes are those of a client that seals them."""
    loaded, memory = registry(tmp_path), Memory()
    person = Person(tmp_path / "d", loaded, way := ThroughRelay())
    with Device(tmp_path / "tested", registry=loaded, destination=memory) as device:
        for client in (person.client, device.client):
            client.record("mood", "good")
            client.record("city", "Oslo")
        statements = device.sealed()
        person.now += DAY
        person.client.upload()
        waiting = [Batch.from_bytes(body) for body in memory.batches.values()]
        assert not any(b"city" in item.report for batch in waiting for item in batch.items)
        (city,) = (one for one in device.client.sent() if "city" in one.reports)
        assert (city.state, city.reports) == ("acknowledged", {"city": OSLO.messages})
    assert Counter(one.metric for one in statements) == {"mood": 1, "city": OSLO.messages}
    assert 'names "Oslo" of 3 answers' in [one.text for one in statements if one.metric == "city"]
    sizes = [
        Counter((item.metric, len(item.report)) for item in Batch.from_bytes(body).items)
        for body in (*way.got, *memory.batches.values())
    ]
    assert sorted(map(str, sizes[:2])) == sorted(map(str, sizes[2:]))
    with Device(tmp_path / "asked", registry=loaded, has_consent=False) as device:
        assert device.client.grant()
        assert isinstance(device.client.record("city", "Oslo"), Declined)
    with pytest.raises(ParameterError, match="to memory only"):
        Device(tmp_path / "out", registry=loaded, destination=Folder(tmp_path / "out"))


@pytest.mark.exact
def test_it_needs_a_consent_of_its_own(tmp_path: Path) -> None:
    """This holds also where the group existed before, with noise of its own and the same caps."""
    person = Person(tmp_path / "d", registry(tmp_path), way := ThroughRelay())
    person.client.grant()
    assert person.client.status().unasked == ("trusting",)
    declined = person.client.record("city", "Oslo")
    assert isinstance(declined, Declined)
    assert declined.details == "group 'trusting' needs its own consent: ask again"
    assert person.client.record("mood", "good")
    with pytest.raises(ParameterError, match="no group 'places' that trusts a shuffler"):
        person.client.grant(["places"])
    person.client._strict = False
    assert not person.client.grant(["places"])
    assert person.client._unwritten == "there is no group 'places' that trusts a shuffler"
    person.client._strict = True
    person.client.grant(["trusting"])
    assert person.client.record("city", "Oslo")
    person.client.grant()
    person.now += DAY
    person.client.upload()
    assert {item.metric for item in items(way)} == {"queue:places"}


@pytest.mark.exact
def test_consent_that_is_taken_back_deletes_what_waits_of_it(tmp_path: Path) -> None:
    """That is what is sealed and what is pooled; other records stay."""

    class Down(ThroughRelay):
        down = True

        def send(self, identity: bytes, body: bytes) -> int:
            if self.down:
                raise OSError
            return super().send(identity, body)

    person = Person(tmp_path / "d", registry(tmp_path), way := Down())
    person.client.record("mood", "good")
    person.answer("Oslo")
    person.client.record("city", "Oslo")
    assert person.client.status().waiting == 2
    person.client.grant()
    status = person.client.status()
    assert (status.waiting, status.pooled) == (1, 0)
    way.down = False
    person.client.grant(["trusting"])
    person.now += 2 * DAY
    person.client.upload()
    assert {item.metric for item in items(way)} == {"queue:places"}


@pytest.mark.exact
def test_another_text_needs_another_consent(tmp_path: Path) -> None:
    Person(tmp_path / "d", registry(tmp_path), ThroughRelay()).client.close()
    other = registry(tmp_path, ("and a relay mixes it", "and nobody mixes it"))
    client = Client(tmp_path / "d", registry=other, destination=ThroughRelay(), clock=lambda: NOON)
    assert client.status().unasked == ("trusting",)
    assert isinstance(client.record("city", "Oslo"), Declined)
    client.grant(["trusting"])
    assert client.status().unasked == ()
    assert client.record("city", "Oslo")


@pytest.mark.exact
def test_consent_is_that_of_the_group_under_which_a_record_was_sealed(tmp_path: Path) -> None:
    """The metric moves to another group, whose consent does not cover what waits."""

    class Down(ThroughRelay):
        def send(self, identity: bytes, body: bytes) -> int:
            raise OSError

    person = Person(tmp_path / "d", registry(tmp_path), Down())
    person.answer("Oslo")
    assert person.client.status().waiting == 1
    person.client.close()
    group = '[group.other]\nwindow = "1d"\nwindow_epsilon = 1.0\nlifetime_epsilon = 9.0\n'
    moved = registry(
        tmp_path,
        ("[metric.city]", f'{group}trust = "shuffler"\nconsent = "x"\n[metric.city]'),
        ('group = "trusting"', 'group = "other"'),
        ("version = 3", "version = 4"),
    )
    now = person.now + DAY // 2
    client = Client(tmp_path / "d", registry=moved, destination=Down(), clock=lambda: now)
    client.grant(["other"])
    assert client.status().waiting == 0


@pytest.mark.exact
def test_taking_a_consent_back_waits_for_what_is_on_its_way(tmp_path: Path) -> None:
    class Slow(ThroughRelay):
        inside, go = threading.Event(), threading.Event()

        def send(self, identity: bytes, body: bytes) -> int:
            self.inside.set()
            self.go.wait(10)
            return super().send(identity, body)

    person = Person(tmp_path / "d", registry(tmp_path), way := Slow())
    person.client.record("city", "Oslo")
    person.now += DAY
    uploading = threading.Thread(target=person.client.upload)
    uploading.start()
    assert way.inside.wait(10)
    taking_back = threading.Thread(target=person.client.grant)
    taking_back.start()
    taking_back.join(0.3)
    assert taking_back.is_alive()
    assert not way.got
    way.go.set()
    taking_back.join(10)
    assert len(way.got) == 1
    uploading.join()


@pytest.mark.exact
def test_a_record_leaves_as_a_batch_of_its_own_with_always_as_many_messages(
    tmp_path: Path,
) -> None:
    """All messages have one size and are sealed one by one, and only the latest finished period is
    sent."""
    person = Person(tmp_path / "d", registry(tmp_path), way := ThroughRelay())
    for value in ("Oslo", "Bergen", "Hell"):
        person.client.record("mood", "good")
        person.answer(value)
    person.client.record("city", "Oslo")
    person.now += DAY
    person.client.record("city", "Bergen")  # the period before is sealed, and waits
    person.now += 5 * DAY
    person.client.upload()
    person.client.upload()
    batches = [Batch.from_bytes(body) for body in way.got]
    own = [batch for batch in batches if batch.items[0].metric == f"queue:{QUEUE}"]
    assert {len(batch.items) for batch in own} == {OSLO.messages}
    assert {len(item.report) for batch in own for item in batch.items} == {128}
    assert {item.metric for batch in batches if batch not in own for item in batch.items} == {
        "queue:places"
    }
    days = [batch.day for batch in own]
    assert len(days) == len(set(days)) == 5
    opened = [[KEY.open(item) for item in batch.items] for batch in own]
    for batch, contents, value in zip(
        sorted(own, key=lambda batch: batch.day),
        sorted(opened, key=lambda contents: contents[0].day),
        ("Oslo", "Bergen", "Hell", "Oslo", "Bergen"),
        strict=True,
    ):
        assert {content.day for content in contents} == {batch.day}
        column = OSLO.categories.index(value)
        assert column in [content.item.report[-1] for content in contents]
    remaining = {"places": 8.0, "trusting": math.inf, "trusting, behind an honest relay": 1.0}
    assert person.client.remaining() == remaining  # a new window; of life five are spent
    text = " ".join(person.client.explain().split())
    assert "trusting, behind an honest relay: 1 in the current window, 25 for life" in text
    assert "trusting: 1 in the current window" not in text
    data = person.client.explain(as_data=True)
    assert data["remaining"] == {**remaining, "trusting": None}
    assert data["remaining_for_life"]["trusting, behind an honest relay"] == 25.0
    assert {len(body) for body in way.got} == {1024}


@pytest.mark.exact
def test_nothing_is_left_of_a_life_that_is_spent_with_or_without_a_relay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = registry(tmp_path, ("lifetime_epsilon = 30.0", "lifetime_epsilon = 2.0"))
    path, said = tmp_path / "d", list[str]()
    person = Person(path, loaded, ThroughRelay())
    for _ in range(2):
        person.answer("Oslo")
        command = f"device {path} --registry {tmp_path / 'metrics.toml'}"
        assert run(command, monkeypatch) == 0
        said.append(capsys.readouterr().out)
    assert "left now: 1, behind an honest relay; without one there is no bound" in said[0]
    assert "left now: 0\n" in said[1]
    remaining = person.client.remaining()
    assert remaining == {"places": 8.0, "trusting": 0.0, "trusting, behind an honest relay": 0.0}


@pytest.mark.exact
def test_a_device_that_was_away_sends_the_latest_record_only(tmp_path: Path) -> None:
    """So a batch of one day of sealing has at most one record of a person."""
    loaded = registry(tmp_path)
    person = Person(tmp_path / "d", loaded, way := ThroughRelay())
    sealer = person.client._sealer
    public = sealer.public_periods
    sealer.public_periods = lambda *_: []  # type: ignore[method-assign]
    for value in ("Oslo", "Bergen", "Hell"):
        person.client.record("city", value)
        person.now += DAY
    sealer.public_periods = public  # type: ignore[method-assign]
    person.client.upload()
    (batch,) = (Batch.from_bytes(body) for body in way.got)
    assert OSLO.categories.index("Hell") in [KEY.open(one).item.report[-1] for one in batch.items]
    assert person.client.remaining()["trusting, behind an honest relay"] == 1.0
    rows = person.client._open_file().transaction(reads=True)
    with rows as connection:
        assert connection.execute("SELECT sum(times) FROM totals").fetchone() == (1,)


@pytest.mark.exact
def test_a_clock_that_leaps_seals_no_two_records_on_one_day(tmp_path: Path) -> None:
    person = Person(tmp_path / "d", registry(tmp_path), way := ThroughRelay())
    for days in (9, 8):
        assert person.client.record("city", "Oslo")
        person.now += days * DAY
        person.client.upload()
        person.now -= 8 * DAY
    assert len(way.got) == 1
    person.now += 9 * DAY
    assert person.client.record("city", "Oslo")
    person.now += DAY
    person.client.upload()
    assert len(way.got) == 2


@pytest.mark.exact
def test_sealed_messages_wait_for_a_relay_whatever_the_next_registry_says(tmp_path: Path) -> None:
    """Here an app no longer has the metric, and a destination has no relay."""

    class Down(ThroughRelay):
        def send(self, identity: bytes, body: bytes) -> int:
            raise OSError

    person = Person(tmp_path / "d", registry(tmp_path), Down())
    person.answer("Oslo")
    person.client.close()
    head, _ = MESSAGES.split("[metric.city]")
    (tmp_path / "metrics.toml").write_text(head.replace('trust = "shuffler"\nconsent', "# "))

    class Direct(ThroughRelay):
        has_relay = False

    direct = Direct()
    later = Client(
        tmp_path / "d",
        registry=tmp_path / "metrics.toml",
        destination=direct,
        clock=lambda: person.now + DAY,
        strict=True,
    )
    assert (
        later.upload().why == "waits for a destination with a relay, without which it never leaves"
    )
    assert not direct.got
