"""A relay passes on full batches of sealed reports, in no order, once, and keeps nothing."""

import csv
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from fractions import Fraction
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from ldp.collection.acknowledged import digest_of_id
from ldp.collection.holding import Holding
from ldp.collection.relay_buffer import RelayBuffer
from ldp.errors import LdpError, ParameterError, Unreachable
from ldp.privacy_loss import amplify_by_shuffling, least_reports
from ldp.protocol.batch import Batch, Item
from ldp.protocol.sealed_report import Attestation, digest_of_all
from ldp.protocol.sealing_keys import RelayPublicKey, verify_with
from ldp.registry import Registry
from tests.collecting import (
    TODAY,
    Clock,
    Service,
    batch,
    counted,
    items,
    registry,
    same_counts,
    summed,
)
from tests.command_line import run
from tests.sealing import KEY, OTHER_RELAY, RELAY, RETIRED, Relaying, Way, opening, sealed

DAY = timedelta(days=1)
AT_ONCE = Holding(smallest=6, shortest=timedelta(0))


def texts(service: Service, number: int, word: str = "hello") -> list[Item]:
    """Return `number` sealed reports of a word."""
    return sealed(service.registry, items(service.registry, "word", word, number))


def reports(bodies: list[bytes]) -> list[bytes]:
    """Return the sealed reports of batches, in their order."""
    return [item.report for body in bodies for item in Batch.from_bytes(body).items]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Relaying, Service, Way]]:
    """Yield a relay that makes batches of six at once, a collector, and the way between them."""
    with opening(tmp_path / "collector") as collector:
        way = Way(collector)
        with Relaying(tmp_path / "relay", destination=way, holding=AT_ONCE) as relay:
            yield relay, collector, way


Pair = tuple[Relaying, Service, Way]


@pytest.mark.exact
def test_a_batch_waits_until_it_has_enough_reports_and_leaves_whole(pair: Pair) -> None:
    relay, collector, way = pair
    asked = registry(relay.buffer.parent)
    plain = [items(asked, "word", "hello", 3), items(asked, "city", "Oslo", 2)]
    plain += [items(asked, "word", "hello", 4)]
    for part in plain[:2]:
        assert relay.send(batch(sealed(asked, part))).json == {"refused": []}
        relay.work()
    assert way.bodies == []
    relay.send(batch(sealed(asked, plain[2])))
    relay.work()
    (body,) = way.bodies
    assert len(reports([body])) == 9
    collector.collector.move_everything()
    for metric in ("word", "city"):
        total = summed(asked, [batch(part) for part in plain], metric)
        assert same_counts(counted(collector.store, asked, metric), total)
    assert relay.tallies() == {
        "report_bytes": 256,
        "smallest_batch": 6,
        "batches": 1,
        "forwarded": 9,
        "refused": 0,
        "dropped": 0,
    }


@pytest.mark.exact
def test_a_batch_waits_for_its_time(tmp_path: Path) -> None:
    way = Way(None)
    holding = Holding(smallest=1, shortest=timedelta(hours=1))
    with Relaying(tmp_path, destination=way, holding=holding) as relay:
        relay.send(batch(texts(relay, 3)))
        relay.work()
        worker = relay.collector._worker
        buffer = RelayBuffer(relay.buffer)
        assert buffer.shuffle("places", 4, TODAY) == 0, "too few for a batch"
        assert (worker.waiting, buffer.outgoing()) == (3, [])
        worker._since["places"] -= 3600
        relay.work()
        assert len(RelayBuffer(relay.buffer).outgoing()) == 1


@pytest.mark.exact
def test_a_batch_has_one_id_and_one_order_from_before_it_is_sent(pair: Pair) -> None:
    """The collector gets the same bytes and counts each report once, whatever is lost on the way.

    A new process also keeps id and order.
    """
    relay, collector, way = pair
    relay.send(batch(texts(relay, 6)))
    way.service = None
    relay.work()
    before = RelayBuffer(relay.buffer)
    (identity,) = before.outgoing()
    body = before.body(identity)
    before.close()
    for fates in ([0], [1], [1], [2]):
        other = Way(collector, fates)
        with Relaying(relay.buffer.parent, destination=other, holding=AT_ONCE) as again:
            again.work()
        assert set(other.bodies) <= {body}
    assert RelayBuffer(relay.buffer).outgoing() == []
    collector.collector.move_everything()
    assert counted(collector.store, collector.registry, "word").total == 6


@pytest.mark.exact
def test_a_repeated_device_batch_and_a_repeated_report_leave_once(pair: Pair) -> None:
    relay, _, way = pair
    mine = texts(relay, 6)
    body = batch(mine)
    assert relay.send(body).json == relay.send(body).json == {"refused": []}
    relay.send(batch(mine[:3]))
    relay.work()
    assert len(reports(way.bodies)) == 6
    relay.send(body)
    relay.send(batch([*mine[:3], *texts(relay, 3)]))
    relay.work()
    assert len(reports(way.bodies)) == 12, "the relay has forgotten them, the collector has not"
    assert (relay.tallies()["forwarded"], relay.tallies()["refused"]) == (9, 3)


@pytest.mark.exact
def test_the_order_is_drawn_and_no_order_of_arrival_is_on_the_disk(tmp_path: Path) -> None:
    """Reports leave in a drawn order, which starts from the order of their bytes."""
    with Relaying(tmp_path, destination=Way(None), holding=AT_ONCE) as relay:
        mine = texts(relay, 40)
        for text in mine:
            relay.send(batch([text]))
        buffer = RelayBuffer(relay.buffer)
        stored = [sealed for (sealed,) in buffer._rows("SELECT sealed FROM waiting")]
        assert stored == sorted(text.report for text in mine)
        assert buffer.shuffle("places", 6, TODAY, order=random.Random(3).shuffle) == 40  # noqa: S311
        random.Random(3).shuffle(stored)  # noqa: S311
        assert reports([buffer.body(identity) for identity in buffer.outgoing()]) == stored
        buffer.close()


@pytest.mark.statistical
def test_every_order_is_as_likely(tmp_path: Path) -> None:
    """Chi-squared over the 6 orders of three reports in 720 batches exceeds 35.9 with probability
    1e-6.

    There are 5 degrees of freedom. In the twin the order does nothing.
    """
    buffer = RelayBuffer(tmp_path, synchronous="OFF")

    def statistic(**settings: Any) -> float:
        seen: dict[bytes, int] = {}
        for _ in range(720):
            with buffer._transaction():
                buffer._sqlite.executemany(
                    "INSERT INTO waiting VALUES ('q', ?, '2026-11-21')", [(b"a",), (b"b",), (b"c",)]
                )
            buffer.shuffle("q", 3, TODAY, **settings)
            (identity,) = buffer.outgoing()
            order = b"".join(reports([buffer.body(identity)]))
            buffer.finish(identity, 0)
            seen[order] = seen.get(order, 0) + 1
        return sum((seen.get(order, 0) - 120) ** 2 / 120 for order in seen) + 120 * (6 - len(seen))

    assert statistic() < 35.9
    assert statistic(order=lambda rows: None) > 35.9
    buffer.close()


@pytest.mark.exact
def test_what_is_not_full_at_the_lateness_is_dropped_and_counted(tmp_path: Path) -> None:
    clock, way = Clock(), Way(None)
    with opening(tmp_path / "collector") as collector:
        way.service = collector
        with Relaying(
            tmp_path / "relay", destination=way, holding=AT_ONCE, **clock.settings
        ) as relay:
            relay.send(batch(texts(relay, 5)))
            relay.work()
            clock.go_on(relay.collector._writer, 6)
            clock.show(relay.collector._writer, clock.day + 1000 * DAY, 1)
            relay.work()
            assert relay.tallies()["dropped"] == 0, "a clock that leapt for an hour"
            clock.show(relay.collector._writer, TODAY + 7 * DAY, 24)
            relay.work()
            assert relay.tallies()["dropped"] == 0
            clock.go_on(relay.collector._writer, 1)
            relay.work()
            assert (relay.tallies()["dropped"], way.bodies) == (5, [])
            relay.send(batch(texts(relay, 1), clock.day))
            relay.work()
            assert way.bodies == [], "those that were dropped fill no batch"


@pytest.mark.exact
def test_a_first_reading_that_was_ahead_drops_nothing(tmp_path: Path) -> None:
    clock, way = Clock(TODAY + 3 * DAY), Way(None)
    with Relaying(tmp_path, destination=way, holding=AT_ONCE, **clock.settings) as relay:
        clock.show(relay.collector._writer, TODAY, 1)
        relay.send(batch(texts(relay, 5), TODAY - 7 * DAY))
        relay.work()
        assert relay.tallies()["dropped"] == 0
        assert relay.has_any()


@pytest.mark.exact
def test_a_relay_dates_no_batch_by_a_clock_that_leaps(tmp_path: Path) -> None:
    """The collector would take such a batch after years.

    So nothing leaves until the clock has shown the day for an hour, as after weeks without power.
    When the clock is behind, the relay keeps its day.
    """
    clock, way = Clock(), Way(None)
    with opening(tmp_path / "collector", **clock.settings) as collector:
        way.service = collector
        with Relaying(
            tmp_path / "relay", destination=way, holding=AT_ONCE, **clock.settings
        ) as relay:
            writer, dated = relay.collector._writer, []
            for ahead, hours, number in ((0, 1, 1), (3000, 0, 1), (-3000, 0, 2), (30, 1, 3)):
                clock.show(writer, TODAY + ahead * DAY, hours)
                relay.send(batch(texts(relay, 6)))
                relay.work()
                assert len(way.bodies) == number
                dated.append((Batch.from_bytes(way.bodies[-1]).day - TODAY).days)
    assert dated == [0, 0, 0, 30]


@pytest.mark.exact
def test_a_batch_that_is_too_late_for_the_collector_is_counted(tmp_path: Path) -> None:
    """By the relay's own day, too, it must be so: a new collector's clock may be wrong for a while,
    and devices were told that their reports are taken."""
    clock, way = Clock(), Way(None)
    with Relaying(tmp_path / "relay", destination=way, holding=AT_ONCE, **clock.settings) as relay:
        relay.send(batch(texts(relay, 6)))
        for status, days, refused in ((500, 0, 0), (410, 0, 0), (410, 7, 0), (410, 1, 6)):
            clock.go_on(relay.collector._writer, days)
            way.status = status
            relay.work()
            tallies = relay.tallies()
            assert (tallies.get("refused", 0), tallies.get("forwarded", 0)) == (refused, 0)
            assert len(RelayBuffer(relay.buffer).outgoing()) == (not refused)


@pytest.mark.exact
def test_a_relay_knows_the_ids_of_the_format_before(tmp_path: Path) -> None:
    """They stood there as they are."""
    with Relaying(tmp_path, destination=Way(None), holding=AT_ONCE) as relay:
        body = batch(texts(relay, 6))
        relay.send(body)
    identity = Batch.from_bytes(body).id
    with closing(sqlite3.connect(relay.buffer / "buffer.db")) as disk, disk:
        changed = disk.execute(f"UPDATE ids_{TODAY:%Y%m%d} SET id = ?", [identity])
        assert changed.rowcount == 1
        disk.execute("PRAGMA user_version = 1")
    for _ in range(2):
        with Relaying(tmp_path, destination=Way(None), holding=AT_ONCE) as relay:
            relay.send(body)
            tallies = relay.collector._worker._reader.tallies()
            assert sum(numbers["waiting"] for numbers in tallies.values()) == 6
    disk_bytes = b"".join(file.read_bytes() for file in relay.buffer.iterdir() if file.is_file())
    assert identity not in disk_bytes


@pytest.mark.exact
def test_what_no_key_opens_is_given_up_at_the_lateness(tmp_path: Path) -> None:
    """The collector has retired the key, and answers 400. The batch stays for as long as another
    key could come, and then it is counted as refused: it is no fault of the relay for ever."""
    clock = Clock()
    with (
        opening(tmp_path / "collector", **clock.settings) as collector,
        Relaying(
            tmp_path / "relay", destination=Way(collector), holding=AT_ONCE, **clock.settings
        ) as relay,
    ):
        old = items(relay.registry, "word", "hello", 6)
        relay.send(batch(sealed(relay.registry, old, key=RETIRED)))
        for days, refused in ((0, 0), (7, 0), (1, 6)):
            clock.go_on(relay.collector._writer, days)
            relay.work()
            tallies = relay.tallies()
            assert (tallies["refused"], tallies["forwarded"]) == (refused, 0)
            assert bool(relay.collector._worker.failures) == (not refused)
        assert not relay.has_any()


@pytest.mark.exact
@pytest.mark.parametrize(("status", "tries"), [(409, 1), (408, 100), (500, 100), (0, 100)])
def test_a_batch_that_the_collector_will_not_take_keeps_no_other_waiting(
    tmp_path: Path, status: int, tries: int
) -> None:
    """After a status that may be about all batches the relay stops, and begins with any batch the
    next time."""

    class Refusing:
        refused, ids = b"", list[bytes]()
        is_down = True

        def send(self, identity: bytes, body: bytes) -> int:
            if self.is_down or identity == self.refused:
                raise Unreachable("refused", status=503 if self.is_down else status)
            self.ids.append(identity)
            return 0

    to = Refusing()
    to.ids = []
    with Relaying(tmp_path, destination=to, holding=AT_ONCE) as relay:
        for _ in range(3):
            relay.send(batch(texts(relay, 6)))
            relay.work()
        waiting = relay.collector._worker._reader.outgoing()
        to.refused, to.is_down = min(waiting), False
        waiting.remove(to.refused)
        for _ in range(tries):
            relay.work()
        assert sorted(to.ids) == sorted(waiting)
        assert relay.collector._worker._reader.outgoing() == [to.refused]
        assert [*relay.collector._worker.failures] == ["batches cannot be forwarded"]


@pytest.mark.exact
@pytest.mark.parametrize(
    ("status", "asked", "waited"),
    [(503, 60.0, 60), (429, 0.0, 5), (0, float("inf"), 3600), (421, 60.0, 5)],
)
def test_a_relay_waits_as_long_as_the_collector_asks(
    tmp_path: Path, status: int, asked: float, waited: int
) -> None:
    """After a status that is about one batch it does not: other batches would wait too."""

    class Asking:
        tries = 0

        def send(self, identity: bytes, body: bytes) -> int:
            self.tries += 1
            raise Unreachable("later", asked, status)

    to = Asking()
    with Relaying(tmp_path, destination=to, holding=AT_ONCE) as relay:
        relay.send(batch(texts(relay, 6)))
        before = monotonic()
        relay.work()
        (until,) = relay.collector._worker._next_try.values()
        assert waited <= until - before <= waited + monotonic() - before
        relay.collector._worker.work()
        assert to.tries == 1


@pytest.mark.exact
def test_an_attestation_of_another_queue_counts_for_nothing(tmp_path: Path) -> None:
    verify = partial(verify_with, [RelayPublicKey(RELAY.public)])
    with opening(tmp_path, verify=verify) as service:
        for queue in ("places", "elsewhere"):
            reports = texts(service, 5)
            service.send(batch([*reports, stated(queue, bytes(16), 999, reports)]))
        service.collector.move_everything()
    path = tmp_path / "reports" / "relayed" / "word-1.csv"
    assert sorted(_sizes(path)) == [(0, 5), (999, 5)]


def stated(queue: str, name: bytes, size: int, reports: list[Item]) -> Item:
    digest = digest_of_all(item.report for item in reports)
    return RELAY.attest(Attestation(queue, name, size, digest))


@pytest.mark.exact
def test_an_attestation_counts_for_the_reports_of_its_batch_and_once(tmp_path: Path) -> None:
    """Other reports, fewer or more reports, another order, or no new ones make it count for
    nothing.

    Such a batch is sent directly.
    """
    verify = partial(verify_with, [RelayPublicKey(RELAY.public)])
    with opening(tmp_path, verify=verify) as service:
        reports, others = texts(service, 4), [texts(service, 2) for _ in range(2)]
        mine = stated("places", b"a" * 16, 4, reports)
        for misused in (others[0], [*reports[:1], *others[1]], reports[1:], reports[::-1], reports):
            service.send(batch([*misused, mine]))
        got = service.send(batch([*reports, mine]))
        assert [refusal["code"] for refusal in got.json["refused"]] == ["repeated"] * 4
        fresh = texts(service, 4)
        service.send(batch([*fresh, stated("places", b"b" * 16, 4, fresh)]))
        service.send(batch([*texts(service, 3), stated("places", b"b" * 16, 4, fresh)]))
        service.collector.move_everything()
    path = tmp_path / "reports" / "relayed" / "word-1.csv"
    assert sorted(_sizes(path)) == [(0, 11), (4, 4)]


@pytest.mark.exact
def test_a_relay_takes_sealed_reports_of_known_queues_and_sizes_only(pair: Pair) -> None:
    relay, _, _ = pair
    (good,) = texts(relay, 1)
    odd = [
        *(good._replace(metric="queue:other"), good._replace(version=2)),
        *(good._replace(report=good.report + b"x"), good, Item("word", 1, b"x")),
    ]
    codes = [(one["item"], one["code"]) for one in relay.send(batch(odd)).json["refused"]]
    unknown = "unknown_queue"
    assert codes == [(0, unknown), (1, unknown), (2, "wrong_size"), (4, unknown)]
    plain = relay.send(batch(items(relay.registry, "word", "hello", 1)))
    assert (plain.status, plain.json) == (400, {"error": "a relay takes sealed reports only"})


@pytest.mark.exact
def test_numbers_that_cannot_be_read_are_asked_for_later(pair: Pair) -> None:
    """They were an error of the server, with a traceback in the log for every request."""
    relay, _, _ = pair
    relay.collector._writer.perform(lambda buffer: buffer._sqlite.execute("DROP TABLE tallies"))
    got = relay.ask("GET", "/v1/queues")
    assert (got.status, got.json) == (503, {"error": "the buffer cannot be read"})


@pytest.mark.exact
def test_queues_do_not_mix_and_are_of_one_size(tmp_path: Path) -> None:
    (tmp_path / "metrics.toml").write_text(
        registry(tmp_path / "other")
        .path.read_text()
        .replace("categories", "shuffled_epsilon = 1.0\ncategories")
    )
    way = Way(None)
    with Relaying(tmp_path, destination=way, holding=AT_ONCE) as relay:
        asked = relay.registry
        for _ in range(6):
            one = [*items(asked, "word", "hello", 1), *items(asked, "city", "Oslo", 1)]
            relay.send(batch(sealed(asked, one)))
        relay.work()
        buffer = RelayBuffer(relay.buffer)
        batches = [Batch.from_bytes(buffer.body(identity)) for identity in buffer.outgoing()]
        shapes = [{(item.metric, len(item.report)) for item in each.items} for each in batches]
        assert sorted(shapes, key=str) == [{("queue:places", 256)}, {("queue:places/city/3", 128)}]
        buffer.close()


@pytest.mark.exact
def test_a_batch_with_a_target_is_of_one_day_and_one_version(tmp_path: Path) -> None:
    """Reports are of two days and two versions.

    Each batch has reports of one day and version, and never fewer than the target.
    """
    text = registry(tmp_path / "other").path.read_text()
    text = text.replace("categories", "shuffled_epsilon = 1.0\ncategories")
    (tmp_path / "metrics.toml").write_text(text)
    older = tmp_path / "older"
    older.mkdir()
    (older / "metrics.toml").write_text(text.replace("version = 3", "version = 2"))
    asked, before = registry(tmp_path), registry(older)
    assert asked.metric("city").queue != before.metric("city").queue
    yesterday = TODAY - timedelta(days=1)
    holding = Holding(smallest=3, shortest=timedelta(0))
    with Relaying(tmp_path, destination=Way(None), holding=holding) as relay:
        new = sealed(asked, items(asked, "city", "Oslo", 4))
        old = sealed(asked, items(asked, "city", "Oslo", 2), yesterday)
        gone = sealed(before, items(before, "city", "Oslo", 4))
        for some, day in ((new, TODAY), (old, yesterday), (gone, TODAY)):
            relay.send(Batch(bytes([len(some), day.day]) * 8, day, tuple(some)).to_bytes())
        relay.work()
        buffer = RelayBuffer(relay.buffer)
        left = [Batch.from_bytes(buffer.body(identity)).items for identity in buffer.outgoing()]
        assert [{item.report for item in each} for each in left] == [{one.report for one in new}]
        assert buffer.tallies()["places/city/3"]["waiting"] == 2
        buffer.close()


@pytest.mark.exact
def test_a_day_that_becomes_full_leaves_at_once_if_the_first_report_has_waited(
    tmp_path: Path,
) -> None:
    """That the reports of two days were enough together, and those of neither day, begins no new
    wait."""
    text = registry(tmp_path / "other").path.read_text()
    text = text.replace("categories", "shuffled_epsilon = 1.0\ncategories")
    (tmp_path / "metrics.toml").write_text(text)
    asked, yesterday = registry(tmp_path), TODAY - timedelta(days=1)
    holding = Holding(smallest=3, shortest=timedelta(hours=1))
    with Relaying(tmp_path, destination=Way(None), holding=holding) as relay:
        for number, day in ((2, TODAY), (2, yesterday)):
            relay.send(batch(sealed(asked, items(asked, "city", "Oslo", number), day), day))
        relay.work()
        relay.collector._worker._since["places/city/3"] -= 3600
        relay.work()
        relay.send(batch(sealed(asked, items(asked, "city", "Oslo", 1))))
        relay.work()
        buffer = RelayBuffer(relay.buffer)
        (identity,) = buffer.outgoing()
        assert len(Batch.from_bytes(buffer.body(identity)).items) == 3
        buffer.close()


@pytest.mark.exact
def test_what_a_relay_attests_stands_beside_what_was_opened(tmp_path: Path) -> None:
    """Each metric of each batch has a line, and each report counts once.

    Reports without a statement, or with one of an unknown relay, count as a batch of size 0.
    """
    verify = partial(verify_with, [RelayPublicKey(RELAY.public)])
    with opening(tmp_path / "far", verify=verify) as collector:
        asked, way = collector.registry, Way(collector)
        mine = sealed(asked, [*items(asked, "word", "x", 5), *items(asked, "city", "Oslo", 3)])
        with Relaying(
            tmp_path / "a", destination=way, holding=AT_ONCE, attest=RELAY.attest
        ) as relay:
            relay.send(batch(mine))
            relay.work()
            assert relay.tallies()["forwarded"] == 8
            relay.send(batch([*mine[:3], *texts(relay, 5)]))
            relay.work()
            assert (relay.tallies()["forwarded"], relay.tallies()["refused"]) == (13, 3)
        with Relaying(
            tmp_path / "b", destination=way, holding=AT_ONCE, attest=OTHER_RELAY.attest
        ) as relay:
            relay.send(batch(texts(relay, 7)))
            relay.work()
        collector.send(batch(texts(collector, 2)))
        collector.collector.move_everything()
    words = _sizes(tmp_path / "far" / "reports" / "relayed" / "word-1.csv")
    assert sorted(words) == [(0, 9), (8, 5), (8, 5)]
    assert _sizes(tmp_path / "far" / "reports" / "relayed" / "city-3.csv") == [(8, 3)]


def _sizes(path: Path) -> list[tuple[int, int]]:
    """Return (attested, opened) of each batch."""
    with path.open() as file:
        return [(int(row["attested"]), int(row["opened"])) for row in csv.DictReader(file)]


@pytest.mark.exact
@pytest.mark.parametrize(("size", "number"), [(128, 1203), (65_536, 40), (256, 499), (256, 500)])
def test_a_batch_of_any_size_goes_into_sealed_batches(
    tmp_path: Path, size: int, number: int
) -> None:
    buffer = RelayBuffer(tmp_path)
    rows = [("q", at.to_bytes(4, "big") + bytes(size - 4)) for at in range(number)]
    with buffer._transaction():
        buffer._sqlite.executemany("INSERT INTO waiting VALUES (?, ?, '2026-11-21')", rows)
    assert buffer.shuffle("q", 1, TODAY, attest=RELAY.attest) == number
    batches = [Batch.from_bytes(buffer.body(identity)) for identity in buffer.outgoing()]
    key, names = RelayPublicKey(RELAY.public), set()
    for *reports, statement in (each.items for each in batches):
        digest = digest_of_all(item.report for item in reports)
        names.add(key.verify(statement, digest)[:3])
    ((_, _, attested),) = names
    assert attested == number
    assert sorted(item.report for each in batches for item in each.items[:-1]) == [
        text for _, text in rows
    ]
    buffer.close()


@pytest.mark.slow
@pytest.mark.exact
def test_a_queue_waits_until_its_shuffled_epsilon_is_met(tmp_path: Path) -> None:
    """One report fewer is not certified; with fakes, as many more reports are needed."""
    text = registry(tmp_path / "other").path.read_text()
    (tmp_path / "metrics.toml").write_text(
        text.replace("categories", "shuffled_epsilon = 1.0\ncategories")
    )
    asked = registry(tmp_path)
    mechanism = asked.metric("city").mechanism
    target = least_reports(mechanism, epsilon=1.0, delta=1e-6)
    assert amplify_by_shuffling(mechanism, reports=target, delta=1e-6).epsilon <= 1.0
    fewer = round(0.98 * target)  # the search stops within 1 % of the least
    assert amplify_by_shuffling(mechanism, reports=fewer, delta=1e-6).epsilon > 1.0
    with_fakes = least_reports(mechanism, epsilon=1.0, delta=1e-6, fakes=Fraction(1, 2))
    assert with_fakes == 2 * target
    for wrong in (Fraction(1), Fraction(-1, 2)):
        with pytest.raises(ParameterError, match="0 <= fakes < 1"):
            least_reports(mechanism, epsilon=1.0, delta=1e-6, fakes=wrong)
    way = Way(None)
    holding = Holding(smallest=1, shortest=timedelta(0), targets={"places/city/3": 5}, delta=1e-7)
    with Relaying(tmp_path, destination=way, holding=holding) as relay:
        for number, batches in ((4, 0), (1, 1)):
            relay.send(batch(sealed(asked, items(asked, "city", "Oslo", number))))
            relay.work()
            assert relay.tallies("places/city/3")["batches"] == batches
        assert relay.tallies("places/city/3")["smallest_batch"] == 5
        assert relay.tallies("places/city/3")["delta"] == 1e-7
        assert relay.tallies("places")["smallest_batch"] == 1
        assert "delta" not in relay.tallies("places")


@pytest.mark.slow
@pytest.mark.exact
def test_a_relay_says_how_many_reports_a_shuffled_epsilon_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The relay does not start if a batch cannot hold that many."""
    monkeypatch.chdir(tmp_path)
    path = registry(tmp_path).path
    path.write_text(path.read_text().replace("categories", "shuffled_epsilon = 0.005\ncategories"))
    mechanism = Registry.load(path).metric("city").mechanism
    least = least_reports(mechanism, epsilon=0.005, delta=1e-6, fakes=Fraction(1, 4))
    words = "relay --collector https://example.org --buffer waiting --fakes 25%"
    assert run(words, monkeypatch) == 2
    output = capsys.readouterr()
    assert f"a batch of places/city/3 has {least:,} reports at least" in output.out
    assert "a larger shuffled_epsilon" in output.err


@pytest.mark.exact
def test_the_buffers_of_a_relay_and_a_collector_are_not_mistaken(tmp_path: Path) -> None:
    with Service(tmp_path / "collector"):
        pass
    with pytest.raises(LdpError, match="is not the buffer of a relay"):
        RelayBuffer(tmp_path / "collector" / "buffer")


@pytest.mark.exact
def test_the_relays_disk_holds_no_payload_and_no_sender_and_forgets_what_left(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """While reports wait, the disk holds only ciphertexts; later only digests of device batches and
    of their ids.

    The collector has no id of a device's batch, and another order, except with probability 1 in
    12!.
    """
    relay, collector, way = pair
    asked = relay.registry
    plain = items(asked, "word", "hello", 12)
    mine = sealed(asked, plain)
    bodies = [batch([text], identity=bytes([200 + at]) * 16) for at, text in enumerate(mine)]
    for body in bodies:
        relay.ask(
            "POST",
            "/v1/reports",
            body,
            {"content-type": "application/vnd.ldp.batch", "x-forwarded-for": "198.51.100.23"},
        )

    def disk(folder: Path) -> bytes:
        return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())

    senders = [b"203.0.113.77", b"198.51.100.23", b"47115"]
    readable = [*(item.report[-20:] for item in plain), b"hello"]
    waiting = disk(relay.buffer)
    assert all(text.report in waiting for text in mine)
    assert not any(part in waiting for part in [*senders, *readable])
    relay.work()
    left = disk(relay.buffer)
    assert not any(text.report in left for text in mine)
    assert not any(Batch.from_bytes(body).id in waiting + left for body in bodies)
    assert all(digest_of_id(Batch.from_bytes(body).id) in left for body in bodies)
    assert not any(part in left for part in [*senders, *readable])
    there = disk(collector.buffer)
    assert not any(part in there for part in senders)
    assert not any(Batch.from_bytes(body).id in there for body in bodies)
    assert [KEY.open(item).item for item in Batch.from_bytes(way.bodies[0]).items] != plain
    assert caplog.text == ""
