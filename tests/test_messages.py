"""Messages for a shuffler: from a device through a relay to a count, and no other way."""

import json
import math
import threading
from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

from ldp.arrays import Floats
from ldp.client import Client, Collector
from ldp.client.destinations import Folder
from ldp.client.results import Declined
from ldp.client.sealing import Sealer
from ldp.client.testing import Device, Memory
from ldp.collection.holding import Holding, target_sizes
from ldp.collection.relay import forward
from ldp.decoding.dummies import PART_OF_A_BATCH, DummyLaw, MessageBounds
from ldp.errors import ParameterError, RegistryError
from ldp.mechanisms import CATALOGUE, JointReport
from ldp.mechanisms.dummies import Dummies
from ldp.mechanisms.outcomes import dominating_pair, outcomes
from ldp.privacy_loss import compose
from ldp.protocol.batch import Batch, Item
from ldp.protocol.sealed_report import Attestation, Content
from ldp.protocol.sealing_keys import PublicKey, RelayPublicKey
from ldp.registry import Registry
from ldp.registry.explaining import explained, label
from ldp.registry.resolved import resolved_bytes
from ldp.report.page import COUNTED, SHUFFLED
from ldp.server import decode
from ldp.simulation.tables import draw_tables
from ldp.tables.table import Table
from tests.collecting import counted
from tests.command_line import run
from tests.devices import DAY, NOON
from tests.sealing import KEY, RELAY, RETIRED, Relaying, Way, opening

MESSAGES = f"""
[product]
name = "weather"
sealing_keys = ["{KEY.fingerprint}"]
[group.places]
window = "1d"
window_epsilon = 8.0
lifetime_epsilon = 64.0
[group.trusting]
window = "1d"
window_epsilon = 1.0
lifetime_epsilon = 30.0
trust = "shuffler"
consent = "Your city leaves this device as it is, and a relay mixes it with others'."
[metric.mood]
version = 1
group = "places"
description = "How people are"
owners = ["team@example.org"]
expires = 2999-12-31
mechanism = "rr"
epsilon = 1.0
categories = ["good", "bad"]
[metric.city]
version = 3
group = "trusting"
description = "Where people ask for the weather"
owners = ["team@example.org"]
expires = 2999-12-31
mechanism = "dummies"
categories = ["Oslo", "Bergen", "Hell"]
slots = 2
probability = 0.5
shuffled_epsilon = 1.0
"""
QUEUE = "shuffler:trusting/city/3"
OSLO = Dummies(categories=("Oslo", "Bergen", "Hell"), slots=2, probability=0.5)
ANYWHERE, RELAYED = "http://127.0.0.1:1", "http://127.0.0.1:2"


def registry(folder: Path, *changes: tuple[str, str]) -> Registry:
    """The registry with some texts replaced."""
    folder.mkdir(exist_ok=True)
    text = MESSAGES
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "metrics.toml").write_text(text)
    return Registry.load(folder / "metrics.toml")


class ThroughRelay:
    """A destination that keeps what a relay gets; with a relay in this process, hands it on."""

    has_relay = True

    def __init__(self, relay: Relaying | None = None) -> None:
        self.key, self.relay, self.got = PublicKey(KEY.public), relay, list[bytes]()

    def send(self, identity: bytes, body: bytes) -> int:
        self.got.append(body)
        if self.relay is None:
            return 0
        answer = self.relay.send(body)
        assert answer.status == 202
        return len(answer.json["refused"])


class Person:
    """A device with a clock of its own."""

    def __init__(self, path: Path, loaded: Registry, way: Any) -> None:
        self.now = NOON
        self.client = Client(
            path,
            registry=loaded,
            destination=way,
            clock=lambda: self.now,
            jitter=timedelta(0),
            strict=True,
        )
        self.client.grant(["trusting"])

    def answer(self, value: str, days: int = 1) -> None:
        self.client.record("city", value)
        self.now += days * DAY
        self.client.upload()


def items(way: ThroughRelay) -> list[Item]:
    return [item for body in way.got for item in Batch.from_bytes(body).items]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([('trust = "shuffler"\nconsent', "consent")], "consent, the text"),
        ([('consent = "Your city', 'description = "Your city')], "unknown key"),
        ([('consent = "Your', 'consent = ""#')], "consent, the text"),
        ([('trust = "shuffler"', 'trust = "relay"')], "trust must be"),
        ([('group = "trusting"', 'group = "places"')], "protects nothing before a relay"),
        ([('group = "places"\nd', 'group = "trusting"\nd')], "has noise of its own"),
        ([("shuffled_epsilon = 1.0", "")], "needs shuffled_epsilon"),
        ([("shuffled_epsilon = 1.0", "shuffled_epsilon = 1e-9")], "of 0.01 at least"),
        ([("shuffled_epsilon = 1.0", "shuffled_epsilon = 1.5")], "its group's cap is 1.0"),
        ([("slots = 2", "slots = 2\nreports_per_window = 2")], "sends one record in a window"),
        ([("slots = 2", 'slots = 2\nmemoise = "per-value"')], "memoises nothing"),
        ([("slots = 2", 'slots = 2\npresence = "hidden"')], "neither presence nor control"),
        ([("slots = 2", 'slots = 2\ncontrol = "Oslo"')], "neither presence nor control"),
        ([("slots = 2", "slots = 100")], "slots must be a whole number from 1 to 99"),
        ([("probability = 0.5", "probability = 1e-5")], "probability must be from"),
        ([('name = "weather"', 'name = "weather"\nlifetime_epsilon = 9.0')], "has no bound before"),
        ([("sealing_keys", "#")], "exactly one key"),
        ([("sealing_keys = [", f'sealing_keys = ["{RETIRED.fingerprint}", ')], "exactly one key"),
        (
            [('window = "1d"\nwindow_epsilon = 1.0', 'window = "12h"\nwindow_epsilon = 1.0')],
            "whole",
        ),
        ([("lifetime_epsilon = 30.0", "lifetime_epsilon = 30.0\nreport_epsilon = 1.0")], "whole"),
    ],
)
@pytest.mark.exact
def test_a_registry_that_would_send_it_unprotected_is_refused(
    tmp_path: Path, changes: list[tuple[str, str]], message: str
) -> None:
    with pytest.raises(RegistryError, match=message):
        registry(tmp_path, *changes)


@pytest.mark.exact
def test_what_a_device_can_lose_is_unlimited_and_what_a_relay_leaves_is_beside_it(
    tmp_path: Path,
) -> None:
    loaded = registry(tmp_path)
    assert loaded.worst_case("trusting") == dict.fromkeys(("day", "year", "life"), math.inf)
    assert loaded.worst_case_of_all() == dict.fromkeys(("day", "year", "life"), math.inf)
    assert loaded.capped("trusting") == {"day": 2.0, "year": 30.0, "life": 30.0}
    assert math.isfinite(loaded.worst_case("places")["life"])
    stated = label(loaded, "city")
    assert (stated.report_epsilon, stated.lifetime_epsilon) == (math.inf, math.inf)
    assert (stated.shuffled_report_epsilon, stated.shuffled_lifetime_epsilon) == (1.0, 30.0)
    assert type(stated).of(json.loads(json.dumps(stated.fields))) == stated
    text = " ".join(explained(loaded).split())
    for sentence in ("Your city leaves this device as it is", "epsilon unlimited", "3 messages"):
        assert sentence in text


@pytest.mark.exact
def test_a_later_registry_changes_neither_trust_nor_key_unnoticed(tmp_path: Path) -> None:
    loaded = registry(tmp_path)
    loaded.lock()
    other_key = registry(tmp_path, (KEY.fingerprint, RETIRED.fingerprint))
    with pytest.raises(RegistryError, match=r"changed its sealing key .* give it version 4"):
        other_key.check()
    dearer = registry(tmp_path, ("shuffled_epsilon = 1.0", "shuffled_epsilon = 0.5"))
    with pytest.raises(RegistryError, match=r"changed its shuffled_epsilon .* give it version 4"):
        dearer.check()
    local = registry(
        tmp_path / "old",
        ('trust = "shuffler"\nconsent = "Your', '# "Your'),
        ('mechanism = "dummies"', 'mechanism = "rr"\nepsilon = 1.0'),
        ("slots = 2\nprobability = 0.5\n", ""),
    )
    with pytest.raises(RegistryError, match="trust was 'device'"):
        loaded.check_against(local, math.inf)
    again = registry(tmp_path / "new")
    again.check_against(loaded)
    head, rest = MESSAGES.split("[group.trusting]")
    (tmp_path / "less").mkdir()
    local_only = head + rest[rest.index("[metric.mood]") : rest.index("[metric.city]")]
    (tmp_path / "less" / "metrics.toml").write_text(local_only)
    without = Registry.load(tmp_path / "less" / "metrics.toml")
    with pytest.raises(RegistryError, match="one device by epsilon inf"):
        again.check_against(without, 1e9)
    again.check_against(without, math.inf)


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
    """With the same number and sizes as those of a client that seals them."""
    loaded, memory = registry(tmp_path), Memory()
    person = Person(tmp_path / "d", loaded, way := ThroughRelay())
    with Device(tmp_path / "tested", registry=loaded, destination=memory) as device:
        for client in (person.client, device.client):
            client.record("mood", "good")
            client.record("city", "Oslo")
        statements = device.sealed()
        person.now += DAY
        person.client.upload()
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
    """Also where the group was there before, with noise of its own and the same caps."""
    person = Person(tmp_path / "d", registry(tmp_path), way := ThroughRelay())
    person.client.grant()
    assert person.client.status().unasked == ("trusting",)
    declined = person.client.record("city", "Oslo")
    assert isinstance(declined, Declined)
    assert declined.details == "group 'trusting' needs its own consent: ask again"
    assert person.client.record("mood", "good")
    with pytest.raises(ParameterError, match="no group 'places' that trusts a shuffler"):
        person.client.grant(["places"])
    person.client.grant(["trusting"])
    assert person.client.record("city", "Oslo")
    person.client.grant()
    person.now += DAY
    person.client.upload()
    assert {item.metric for item in items(way)} == {"queue:places"}


@pytest.mark.exact
def test_consent_that_is_taken_back_deletes_what_waits_of_it(tmp_path: Path) -> None:
    """What is sealed and what is pooled; what is not under it stays."""

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
    """Its metric moves to another group, whose consent does not cover what waits."""

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
    """Of one size each, sealed one by one, and only the latest of the periods that are over."""
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
    """So that a batch of a day of sealing has at most one record of a person."""
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
def test_sealed_messages_wait_for_a_relay_whatever_the_next_registry_says(tmp_path: Path) -> None:
    """An app that no longer has the metric, and a destination without a relay."""

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


def small(**rules: Any) -> Holding:
    return Holding(smallest=3, shortest=timedelta(0), **rules)


@pytest.mark.exact
def test_messages_travel_by_relay_to_a_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nine people on one day, two on the next, whose batch never fills; and to a page, which does
    not say that reports were randomised."""
    for name in ("near", "far"):
        registry(tmp_path / name)
    loaded = Registry.load(tmp_path / "near" / "metrics.toml")
    today = (NOON + DAY).date()
    verify = RelayPublicKey(RELAY.public).verify
    with (
        opening(tmp_path / "far", today=lambda: today, verify=verify) as collector,
        Relaying(
            tmp_path / "near",
            destination=Way(collector),
            holding=small(targets={QUEUE: 4}),
            today=lambda: today,
            attest=RELAY.attest,
        ) as relay,
    ):
        people = [
            Person(tmp_path / f"d{number}", loaded, ThroughRelay(relay)) for number in range(11)
        ]
        for number, person in enumerate(people[:3]):
            person.answer(OSLO.categories[number % 2])
        relay.work()
        assert relay.tallies(QUEUE)["batches"] == 0
        assert relay.tallies(QUEUE)["smallest_batch"] == 4 * OSLO.messages
        for number, person in enumerate(people[3:9], 3):
            person.answer(OSLO.categories[number % 2])
        for person in people[9:]:
            person.answer("Hell", days=2)
        relay.work()
        assert relay.tallies(QUEUE)["forwarded"] == 9 * OSLO.messages
        relay.work()
        assert relay.tallies(QUEUE)["batches"] == 1
        collector.collector.move_everything()
        table = counted(collector.store, loaded, "city")
    sizes = (tmp_path / "far" / "reports" / "relayed" / "city-3.csv").read_text().splitlines()
    assert [line.split(",")[1:] for line in sizes[1:]] == [["27", "27"]]
    assert table.total == 9 * OSLO.messages
    estimates = decode(table)  # type: ignore[arg-type]
    assert estimates.reports == 9
    low, high = estimates.interval(1 - 1e-9)  # false failures: 3e-9
    assert (low <= [5, 4, 0]).all()
    assert (high >= [5, 4, 0]).all()
    near, out = tmp_path / "near" / "metrics.toml", tmp_path / "out"
    assert run(f"publish --registry {near} --store {collector.store} --out {out}", monkeypatch) == 0
    assert "city v3 2026-01-02: 9 reports" in capsys.readouterr().out
    page = unescape((out / "site" / "metrics" / "city.html").read_text())
    assert SHUFFLED in page
    assert COUNTED not in page
    assert "local differential privacy" not in page
    rows = pq.read_table(out / "results" / "city" / "v3").to_pylist()
    in_file = {row["value"]: row["estimate"] for row in rows}  # the largest first, rounded
    counted_by_value = dict(zip(estimates.values, estimates.count, strict=True))
    assert in_file == {value: pytest.approx(n, abs=0.5) for value, n in counted_by_value.items()}
    assert {row["reports"] for row in rows} == {9}


@pytest.mark.exact
def test_requests_and_answers_that_are_lost_count_nobody_twice_and_nobody_in_parts(
    tmp_path: Path,
) -> None:
    """One of four each, between devices and relay and between relay and collector. That a device is
    unlucky all the time has a probability below 1e-6."""
    for name in ("near", "far"):
        registry(tmp_path / name)
    loaded = Registry.load(tmp_path / "near" / "metrics.toml")
    draws = np.random.default_rng(3)
    fates = iter(lambda: int(draws.integers(4)), None)
    today = (NOON + DAY).date()

    class Losing(ThroughRelay):
        def send(self, identity: bytes, body: bytes) -> int:
            fate = next(fates)
            refused = super().send(identity, body) if fate else 0
            if fate < 2:
                raise OSError
            return refused

    with (
        opening(
            tmp_path / "far", today=lambda: today, verify=RelayPublicKey(RELAY.public).verify
        ) as collector,
        Relaying(
            tmp_path / "near",
            destination=Way(collector, fates),
            holding=small(),
            today=lambda: today,
            attest=RELAY.attest,
        ) as relay,
    ):
        people = [Person(tmp_path / f"d{n}", loaded, Losing(relay)) for n in range(9)]
        for person in people:
            person.answer("Oslo")
        for _ in range(300):
            relay.work()
            for person in people:
                person.now += timedelta(minutes=20)
                person.client.upload()
        collector.collector.move_everything()
        forwarded = relay.tallies(QUEUE)["forwarded"]
        waiting = relay.collector._worker._reader.tallies()[QUEUE]["waiting"]
        table = counted(collector.store, loaded, "city")
    assert {person.client.status().acknowledged for person in people} == {1}
    assert forwarded + waiting == len(people) * OSLO.messages
    assert table.total == forwarded
    assert forwarded % OSLO.messages == 0


@pytest.mark.exact
def test_a_relay_takes_whole_records_only(tmp_path: Path) -> None:
    loaded = registry(tmp_path)
    with Relaying(tmp_path, destination=Way(None), holding=small()) as relay:
        person = Person(tmp_path / "d", loaded, way := ThroughRelay())
        person.answer("Oslo")
        batch = Batch.from_bytes(way.got[0])
        today = date(2026, 11, 21)
        for number in (2, 4):
            listed = (*batch.items, *batch.items)[:number]
            got = relay.send(Batch(bytes(15) + bytes([number]), today, listed).to_bytes())
            assert [refusal["code"] for refusal in got.json["refused"]] == ["wrong_number"] * number
        other = batch.items[0]._replace(metric="queue:places")
        got = relay.send(Batch(bytes([9] * 16), today, (other, *batch.items[1:])).to_bytes())
        assert [refusal["code"] for refusal in got.json["refused"]] == ["wrong_number"] * 3
        assert relay.send(Batch(bytes(16), today, batch.items).to_bytes()).json["refused"] == []


@pytest.mark.exact
def test_a_relay_without_the_registry_of_a_queue_never_forwards_it(tmp_path: Path) -> None:
    loaded = registry(tmp_path)
    today = (NOON + DAY).date()
    rules: dict[str, Any] = {"destination": Way(None), "today": lambda: today}
    with Relaying(tmp_path, holding=small(), **rules) as relay:
        for number in range(2):
            Person(tmp_path / f"d{number}", loaded, ThroughRelay(relay)).answer("Oslo")
    registry(tmp_path, ("version = 3", "version = 4"))
    with Relaying(tmp_path, holding=Holding(smallest=1, shortest=timedelta(0)), **rules) as relay:
        relay.work()
        tallies = relay.collector._worker._reader.tallies()[QUEUE]
        assert tallies == {"waiting": 2 * OSLO.messages, "dropped": 0}


@pytest.mark.exact
@pytest.mark.parametrize("number", [1, 20])
def test_a_collector_takes_them_from_a_known_relay_only(tmp_path: Path, number: int) -> None:
    loaded = registry(tmp_path)
    metric, today = loaded.metric("city"), date(2026, 11, 21)
    message = OSLO.split(OSLO.encoder().encode("Oslo"))[0]
    bare = [Item("city", 3, message)] * number
    person = Person(tmp_path / "d", loaded, way := ThroughRelay())
    person.answer("Oslo")
    sealed = Batch.from_bytes(way.got[0]).items
    assert metric.queue == QUEUE
    for verify in (None, RelayPublicKey(RELAY.public).verify):
        with opening(tmp_path, today=lambda: today, verify=verify) as collector:
            got = collector.send(Batch(bytes(16), today, tuple(bare)).to_bytes())
            assert {refusal["code"] for refusal in got.json["refused"]} == {"unsealed"}
            assert len(got.json["refused"]) == number
            got = collector.send(Batch(bytes(15) + b"1", today, sealed).to_bytes())
            assert {refusal["code"] for refusal in got.json["refused"]} == {"unattested"}


@pytest.mark.exact
def test_a_relay_waits_for_as_many_people_as_the_certificate_needs(tmp_path: Path) -> None:
    """The registry's parameters decide: fewer dummies need more people."""
    loaded = registry(tmp_path)
    needed = target_sizes(loaded, 1e-6, 0)  # type: ignore[arg-type]
    fewer = registry(tmp_path, ("probability = 0.5", "probability = 0.25"))
    assert 1.8 < target_sizes(fewer, 1e-6, 0)[QUEUE] / needed[QUEUE] < 2.2  # type: ignore[arg-type]


@pytest.mark.exact
def test_the_law_of_a_record_is_the_stated_one() -> None:
    """Enumerated over all bits that can be drawn: thresholds that are multiples of 1/2."""
    mechanism = Dummies(categories=("a", "b"), slots=1, probability=0.5, sending=0.5)
    seen: Counter[tuple[int, ...]] = Counter()

    class Bits:
        """Words that follow a list, whose first bits decide."""

        def __init__(self, choices: int) -> None:
            self.choices, self.used = choices, 0

        def draw(self, bits: int) -> int:
            word = self.choices >> self.used & 1
            self.used += 1
            return word << (bits - 1) if bits else 0

    for choices in range(16):
        record = mechanism.encoder(Bits(choices)).encode("a")
        seen[tuple(message[-1] for message in mechanism.split(record))] += 1
    assert sum(seen.values()) == 16
    orders = Counter({tuple(sorted(columns)): 0 for columns in seen})
    for columns, number in seen.items():
        orders[tuple(sorted(columns))] += number
        assert seen[columns[::-1]] == number
    assert orders == {(0, 0): 2, (0, 1): 2, (0, 2): 6, (1, 2): 2, (2, 2): 4}


@pytest.mark.exact
def test_messages_tied_together_are_taken_by_no_relay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of a device that seals each message by itself: all in one."""
    loaded = registry(tmp_path)

    def tied(self: Sealer, listed: list[Item], day: date) -> Any:
        for item in listed:
            queue = self._registry.queues()[QUEUE]
            assert self._key
            yield (item,), (self._key.seal(QUEUE, 4 * queue.size, Content(day, item)),)

    monkeypatch.setattr(Sealer, "_packed", tied)
    Person(tmp_path / "d", loaded, way := ThroughRelay()).answer("Oslo")
    with Relaying(tmp_path, destination=Way(None), today=lambda: date(2026, 1, 2)) as relay:
        got = relay.send(way.got[0])
        assert [refusal["code"] for refusal in got.json["refused"]] == ["wrong_size"]


SETTINGS = [
    Dummies(categories=tuple(map(str, range(40))), slots=2, probability=0.5),
    Dummies(categories=tuple(map(str, range(40))), slots=3, probability=0.4, sending=0.5),
    Dummies(categories=tuple(map(str, range(400))), slots=1, probability=0.25, sending=0.8),
    Dummies(categories=("off", "on"), slots=1, probability=0.5, sending=0.95),
    Dummies(categories=("off", "on"), slots=1, probability=0.9, sending=0.8),
]
"""The last two: more messages name the first value than there are dummies of all values."""
NAMES = ["always", "sometimes", "rare", "popular", "dense"]


def intervals_and_errors_hold(mechanism: Dummies, made: Dummies) -> bool:
    """Whether 500 tables of messages that are drawn by `made`, decoded as those of `mechanism`,
    have each value's count in its interval at 90 % as often, and the stated variance."""
    generator, tables = np.random.default_rng(5), 500
    values = mechanism.categories[:4]
    counts = np.array([900, 90, 9, 0])[: len(values)]
    hits, errors = np.zeros(counts.size), list[Any]()
    for _ in range(tables):
        table = draw_tables(made, values, counts, generator)
        estimates = decode(replace(table, mechanism=mechanism), values)  # type: ignore[arg-type]
        low, high = estimates.interval(0.9)
        hits += (low <= counts) & (counts <= high)
        errors.append(estimates.count - counts)
        assert estimates.reports == counts.sum()
    people = int(counts.sum())
    squares = np.array(errors) ** 2 / mechanism.variance(people, counts / people)
    reach = 5.5 * squares.std(axis=0) / math.sqrt(tables)
    is_covered = (hits >= binom.isf(1 - 1e-7, tables, 0.9)).all()
    return bool(is_covered and (abs(squares.mean(axis=0) - 1) < reach).all())


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", SETTINGS, ids=NAMES)
def test_intervals_hold_as_often_as_they_say_and_errors_are_those_stated(
    mechanism: Dummies,
) -> None:
    """False failures below 1e-6."""
    assert intervals_and_errors_hold(mechanism, mechanism)


@pytest.mark.exact
@pytest.mark.parametrize("sending", [0.3, 0.8, 0.95])
@pytest.mark.parametrize(("people", "slots"), [(3, 1), (10, 1), (10, 2), (30, 1)])
def test_intervals_of_few_people_hold_for_every_count(
    sending: float, people: int, slots: int
) -> None:
    """Summed over all numbers of messages, for every number of holders."""
    dummies = DummyLaw(slots * people, 0.25)
    named = np.arange(people + dummies.number + 1)
    count: Floats = (named - np.float64(dummies.number * dummies.share)) / np.float64(sending)
    low, high = MessageBounds(named, people, sending, dummies, count)(0.05, population=False)
    law_of_dummies = binom.pmf(np.arange(dummies.number + 1), dummies.number, dummies.share)
    for held in range(people + 1):
        law = np.convolve(binom.pmf(np.arange(held + 1), held, sending), law_of_dummies)
        is_held = ((low <= held) & (held <= high))[: law.size]
        assert law[is_held].sum() >= 0.95


@pytest.mark.statistical
def test_twin_fewer_dummies_than_are_stated_are_outside_of_the_intervals() -> None:
    """Three quarters of them; passes wrongly with probability below 1e-6."""
    fewer = replace(SETTINGS[0], probability=0.375)
    assert not intervals_and_errors_hold(SETTINGS[0], fewer)


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", SETTINGS, ids=NAMES)
@pytest.mark.parametrize(
    ("aim", "is_sound"), [("named", True), ("another", True), ("named", False)]
)
def test_intervals_hold_whatever_made_up_messages_say(
    mechanism: Dummies, aim: str, is_sound: bool
) -> None:
    """200 tables of 1,800 people and 10 % of messages that all name the first value, or all the
    second; false failures below 1e-6. The twin allows for 1 %."""
    generator, tables, held = np.random.default_rng(7), 200, np.array([900, 900])
    honest = mechanism.messages * int(held.sum())
    made_up, hits = honest // 9, 0
    values = mechanism.categories[:2]
    for _ in range(tables):
        counts = draw_tables(mechanism, values, held, generator).counts.astype(np.int64)  # type: ignore[union-attr]
        counts[0, 0 if aim == "named" else 1] += made_up
        table = Table.from_counts(mechanism, counts, honest + made_up)
        low, high = decode(table, values, fakes=0.1 if is_sound else 0.01).interval(0.9)
        hits += bool(low[0] <= held[0] <= high[0])
    is_covered = hits >= binom.isf(1 - 1e-6, tables, 0.9)
    assert is_covered == is_sound


@pytest.mark.exact
@pytest.mark.parametrize(("missing", "warned"), [(0, False), (1, True), (2, True)])
def test_a_part_of_a_batch_is_warned_of(missing: int, warned: bool) -> None:
    table = Table.from_counts(OSLO, np.array([[90, 60, 50, 100 - missing]]), 300 - missing)
    assert [*decode(table).warnings()] == [PART_OF_A_BATCH] * warned


@pytest.mark.exact
def test_stored_messages_are_not_forwarded(tmp_path: Path) -> None:
    loaded = registry(tmp_path)
    today = (NOON + DAY).date()
    verify = RelayPublicKey(RELAY.public).verify
    person = Person(tmp_path / "d", loaded, way := ThroughRelay())
    person.answer("Oslo")
    sealed = Batch.from_bytes(way.got[0]).items
    statement = RELAY.attest(Attestation(QUEUE, bytes(16), len(sealed)))
    with opening(tmp_path, today=lambda: today, verify=verify) as collector:
        got = collector.send(Batch(bytes(16), today, (*sealed, statement)).to_bytes())
        assert got.json["refused"] == []
        collector.collector.move_everything()
    result = forward(collector.store, collector.buffer, Way(None))
    ((_, why),) = result.left
    assert "taken from a relay only" in why


@pytest.mark.exact
def test_commands_that_rest_on_noise_refuse_it_and_the_others_say_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    registry(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("value,count\nOslo,300\nBergen,100\n")
    assert run("collect --registry metrics.toml --store reports", monkeypatch) == 2
    assert "--sealed KEYFILE and --relay-key PUBLIC" in capsys.readouterr().err
    relay = "relay --registry metrics.toml --collector http://127.0.0.1:1 --buffer waiting"
    assert run(relay, monkeypatch) == 2
    assert "from a relay that signs only: give --key" in capsys.readouterr().err
    of_people = "--registry metrics.toml --population people.csv"
    for words in (
        "central city --registry metrics.toml --data people.csv --out c.csv",
        "attack city --registry metrics.toml",
    ):
        assert run(words, monkeypatch) == 2
        assert "metric 'city' sends messages for a shuffler" in capsys.readouterr().err
    assert run(f"simulate city {of_people} --seed 1 --table city.table", monkeypatch) == 0
    assert run("decode city.table --fakes 1% --out city.csv", monkeypatch) == 0
    assert json.loads(Path("city.json").read_text())["fakes_reports"] == 12
    assert run("decode city.table --out city.csv", monkeypatch) == 0
    assert "among 400 reports" in capsys.readouterr().out
    assert run("report city.csv --out city.html", monkeypatch) == 0
    assert run("registry page metrics.toml --out page.html", monkeypatch) == 0
    for page in ("city.html", "page.html"):
        text = " ".join(Path(page).read_text("utf-8").split())
        assert "unlimited" in text
        assert "honest relay" in text or "the relay is honest" in text
    capsys.readouterr()
    assert run("registry check metrics.toml --json", monkeypatch) == 0
    stated = json.loads(capsys.readouterr().out)
    assert stated["worst_case_epsilon"]["trusting"] == dict.fromkeys(("day", "year", "life"))
    assert stated["worst_case_behind_relay"]["trusting"]["life"] == 30.0
    assert run("amplify city --registry metrics.toml --delta 1e-6", monkeypatch) == 0
    assert "seen by itself            epsilon unlimited" in capsys.readouterr().out


@pytest.mark.exact
def test_a_simulation_writes_what_a_collector_behind_a_relay_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All messages of one batch, the size that the relay stated, and nothing of fewer people."""
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
    amplified = "amplify city --registry metrics.toml --store store --delta 1e-6"
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
    assert "a relay passes on the days of 1,000 people or more, and dropped" in text
    assert "values are told as they are: epsilon is unlimited" in text
    Path("days.toml").write_text(head + city + 'attack = "half"\nsybils = 2\n')
    assert run(command, monkeypatch) == 2
    assert "no attack on dummies is known here" in capsys.readouterr().err


@pytest.mark.exact
def test_an_exported_registry_says_what_it_trusts_and_states_no_epsilon(tmp_path: Path) -> None:
    document = json.loads(resolved_bytes(registry(tmp_path)))
    assert document["groups"]["trusting"]["trust"] == "shuffler"
    assert "trust" not in document["groups"]["places"]
    assert document["metrics"]["city"]["presence"] == "relayed"
    assert "epsilon" not in document["metrics"]["city"]
    assert document["metrics"]["mood"]["epsilon"] <= 1.0


@pytest.mark.exact
def test_nothing_that_rests_on_the_epsilon_of_a_report_takes_messages() -> None:
    """The law of one message has a finite ratio, which is no bound: others depend on it."""
    assert "dummies" not in CATALOGUE
    assert OSLO.channel.epsilon < 2 < OSLO.cost.epsilon
    for refused in (
        lambda: compose([(OSLO, 1)]),
        lambda: outcomes(OSLO),
        lambda: dominating_pair(OSLO),
        lambda: JointReport(of=(OSLO, OSLO)),
    ):
        with pytest.raises(ParameterError):
            refused()
