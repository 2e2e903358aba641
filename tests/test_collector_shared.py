"""Collectors behind one address: what any of them acknowledged is counted once by all together."""

import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ldp.client import Collector as Destination
from ldp.collection import workers
from ldp.collection.acknowledged import BufferUnusable
from ldp.collection.collector import Collector
from ldp.collection.shared import Ownership, SharedBuffer
from ldp.collection.workers import Shuffling
from ldp.errors import ParameterError
from ldp.protocol.batch import Batch
from simulations import collector as campaign
from tests.collecting import (
    TODAY,
    Process,
    Service,
    batch,
    counted,
    items,
    registry,
    wait_until,
)
from tests.tiers import tiered

LATER = Shuffling(least=1000, smallest=1)


def service(folder: Path, postgres: str, **settings: Any) -> Service:
    settings.setdefault("shuffling", LATER)
    return Service(folder, shared=postgres, **settings)


def moved(*folders: Path, postgres: str) -> int:
    """How many reports of `city` the stores hold, after all collectors moved what is theirs."""
    for folder in folders:
        Collector(
            registry(folder),
            folder / "reports",
            folder / "buffer",
            today=lambda: TODAY,
            shuffling=LATER,
            shared=postgres,
        ).drain()
    return sum(counted(one / "reports", registry(one), "city").total for one in folders)


def body(folder: Path, number: int = 3) -> bytes:
    asked = registry(folder)
    return batch([*items(asked, "city", "Oslo", number), *items(asked, "word", "x", 1)])


@pytest.mark.exact
def test_a_repeat_elsewhere_is_answered_alike_and_counted_once(
    tmp_path: Path, postgres: str
) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    refused = batch([*items(registry(a), "city", "Oslo", 3), *items(registry(a), "old", "yes", 1)])
    with service(a, postgres) as first, service(b, postgres) as second:
        answers = [one.send(refused) for one in (first, second, first, second, second)]
        assert {(got.status, got.body) for got in answers} == {(202, answers[0].body)}
    assert moved(a, b, postgres=postgres) == 3
    assert counted(a / "reports", registry(a), "city").total == 0  # B had it last


@pytest.mark.exact
def test_other_bytes_with_an_id_are_a_conflict_everywhere(tmp_path: Path, postgres: str) -> None:
    a, b, identity = tmp_path / "a", tmp_path / "b", bytes(16)
    one = batch(items(registry(a), "city", "Oslo", 3), identity=identity)
    other = batch(items(registry(a), "city", "Hell", 5), identity=identity)
    with service(a, postgres) as first, service(b, postgres) as second:
        statuses = [first.send(one), second.send(other), second.send(one), second.send(other)]
    assert [got.status for got in statuses] == [202, 409, 202, 409]
    assert moved(a, b, postgres=postgres) == 3


@pytest.mark.exact
def test_a_dead_owners_disk_that_returns_doubles_nothing(tmp_path: Path, postgres: str) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    sent = body(a)
    with service(a, postgres) as first:
        first.send(sent)
    with service(b, postgres) as second:
        second.send(sent)
    assert moved(b, postgres=postgres) == 3
    assert moved(a, b, postgres=postgres) == 3


@pytest.mark.exact
def test_a_lost_disk_loses_only_what_it_alone_acknowledged(tmp_path: Path, postgres: str) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    alone, repeated = body(a, 2), body(a, 3)
    with service(a, postgres) as first, service(b, postgres) as second:
        first.send(alone)
        first.send(repeated)
        second.send(repeated)
    shutil.rmtree(a / "buffer")
    assert moved(a, b, postgres=postgres) == 3


POINTS: dict[str, tuple[Any, str, bool]] = {
    "before the local commit": (SharedBuffer, "_hold", False),
    "before the claim": (Ownership, "claim", False),
    "after the claim": (Ownership, "claim", True),
    "before the promise": (Ownership, "promise", False),
    "after the promise": (Ownership, "promise", True),
    "before the file": (workers, "write_block", False),
    "after the file": (workers, "write_block", True),
    "before the mark": (SharedBuffer, "mark_written", False),
    "after the mark": (SharedBuffer, "mark_written", True),
    "before the rows are deleted": (Ownership, "forget", False),
    "after the rows are deleted": (Ownership, "forget", True),
}


def killed_at(real: Callable[..., Any], is_after: bool) -> Callable[..., Any]:
    def fault(*values: Any, **named: Any) -> Any:
        if is_after:
            real(*values, **named)
        raise BufferUnusable("the process ended here")

    return fault


def at_point(
    a: Path, sent: bytes, postgres: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Send a batch to the collector in `a`, and have it move, ending at a point."""
    place, name, is_after = POINTS[point]
    with monkeypatch.context() as patch:
        patch.setattr(place, name, killed_at(getattr(place, name), is_after))
        patch.setattr(workers, "RETRY_SECONDS", 3600.0)
        with service(a, postgres) as first:
            first.send(sent)
            with suppress(OSError):
                first.collector.move_everything()


@pytest.mark.exact
@pytest.mark.parametrize("is_first_back", [False, True])
@pytest.mark.parametrize("point", tiered(POINTS, fast=0))
def test_a_collector_that_ends_at_any_point_loses_and_doubles_nothing(
    tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch, point: str, is_first_back: bool
) -> None:
    """The sender repeats the batch at B, and A's disk returns after or before that."""
    a, b = tmp_path / "a", tmp_path / "b"
    sent = body(a)
    at_point(a, sent, postgres, point, monkeypatch)
    if is_first_back:
        moved(a, postgres=postgres)
    with service(b, postgres) as second:
        assert second.send(sent).status == 202
    assert moved(b, postgres=postgres) in (0, 3)
    assert moved(a, b, postgres=postgres) == 3
    with service(a, postgres) as first:
        assert first.send(sent).status == 202
    assert moved(a, b, postgres=postgres) == 3


@pytest.mark.exact
def test_without_the_promise_a_batch_is_counted_twice(
    tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: a collector that moves what it holds without asking is found out."""
    a, b = tmp_path / "a", tmp_path / "b"
    sent = body(a)
    monkeypatch.setattr(SharedBuffer, "promise", lambda *_: True)
    with service(a, postgres) as first, service(b, postgres) as second:
        first.send(sent)
        second.send(sent)
    assert moved(a, b, postgres=postgres) == 6


@pytest.mark.exact
def test_a_file_has_its_least_size_after_others_took_over(tmp_path: Path, postgres: str) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    kept, taken = body(a, 2), body(a, 3)
    rule = Shuffling(least=1000, smallest=5)
    with service(a, postgres, shuffling=rule) as first, service(b, postgres) as second:
        first.send(kept)
        first.send(taken)
        second.send(taken)
        first.collector.move_everything()
        assert not any((a / "reports").rglob("*.parquet"))
        first.send(body(a, 3))
        first.collector.move_everything()
        assert counted(a / "reports", first.registry, "city").total == 5


@pytest.mark.exact
def test_a_database_that_is_down_means_503_and_loses_nothing(
    tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, sent = tmp_path / "a", [body(tmp_path / "a") for _ in range(3)]
    with service(a, postgres) as first:
        assert first.send(sent[0]).status == 202
        ownership = first.collector._buffer._ownership
        ownership.close()
        good, ownership._conninfo = ownership._conninfo, f"host={tmp_path} dbname=none"
        refused = first.send(sent[1])
        assert (refused.status, refused.headers["retry-after"]) == (503, "30")
        assert first.ask("GET", "/v1/health").status == 503
        ownership._conninfo = good
        assert [first.send(one).status for one in sent] == [202] * 3
    assert moved(a, postgres=postgres) == 9


@pytest.mark.exact
def test_ids_are_kept_until_the_latest_of_all_clocks_refuses_their_day(
    tmp_path: Path, postgres: str
) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    sent, late = body(a), TODAY + timedelta(days=8)
    with service(a, postgres) as first:
        assert first.send(sent).status == 202
    with service(b, postgres, today=lambda: late) as second:
        second.send(batch(items(second.registry, "city", "Oslo", 1), day=late))
    with service(tmp_path / "c", postgres) as third:  # its clock is behind
        assert third.send(sent).status == 410
    assert moved(a, postgres=postgres) == 3


@pytest.mark.exact
def test_a_shared_buffer_is_not_used_alone_and_no_password_is_said(
    tmp_path: Path, postgres: str
) -> None:
    with service(tmp_path, postgres):
        pass
    with pytest.raises(BufferUnusable, match="--shared"):
        Collector(registry(tmp_path), tmp_path / "reports", tmp_path / "buffer")
    for conninfo in ("postgresql://u:secret@h/d", "password=secret", "postgresql://u:secret@[/"):
        with pytest.raises(ParameterError) as caught:
            Ownership(conninfo, "")
        assert "secret" not in str(caught.value)


@pytest.mark.exact
def test_a_signal_moves_what_is_enough_for_a_file(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    collector = Process(tmp_path, "--listen", "127.0.0.1:0", "--shuffle-smallest", "3")
    sent = batch([*items(asked, "city", "Oslo", 3), *items(asked, "word", "x", 2)])
    assert Destination(collector.url).send(Batch.from_bytes(sent).id, sent) == 0
    collector.process.send_signal(signal.SIGHUP)
    wait_until(lambda: counted(tmp_path / "reports", asked, "city").total == 3)
    assert counted(tmp_path / "reports", asked, "word").total == 0
    assert collector.end() == 0


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.usefixtures("postgres_server")
def test_three_collectors_that_are_killed_count_each_acknowledged_batch_once(
    tmp_path: Path,
) -> None:
    """Processes under load; the database's server is stopped once. The campaign kills 100."""
    found, lost = campaign.failed_over(tmp_path, 5, seed=1)
    assert found.is_none, found
    assert found.sent > 0
    assert lost > 0
