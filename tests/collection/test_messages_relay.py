"""Messages for a shuffler travel through a relay to a collector, and no other way."""

from datetime import date, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ldp.client.sealing import Sealer
from ldp.collection.holding import Holding
from ldp.protocol.batch import Batch, Item
from ldp.protocol.sealed_report import Content
from ldp.protocol.sealing_keys import RelayPublicKey
from ldp.registry import Registry
from ldp.report.page import COUNTED, SHUFFLED
from ldp.server import decode
from tests.collecting import counted
from tests.command_line import run
from tests.devices import DAY, NOON
from tests.messages import OSLO, QUEUE, Person, ThroughRelay, registry
from tests.sealing import RELAY, Relaying, Way, opening


def small(**rules: Any) -> Holding:
    return Holding(smallest=3, shortest=timedelta(0), **rules)


@pytest.mark.exact
def test_messages_travel_by_relay_to_a_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nine people send on one day, and two on the next, whose batch never fills.

    The page does not say that reports were randomised.
    """
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
    """One of four requests and one of four answers is lost, on both ways of the relay.

    That a device is unlucky all the time has a probability below 1e-6.
    """
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
def test_messages_tied_together_are_taken_by_no_relay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is the twin of a device that seals each message by itself: all messages are in one."""
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
