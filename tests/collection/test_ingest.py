"""Reports move from the buffer to the store, through every way to end early, and are shuffled."""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp.collection import ingest
from ldp.collection.acknowledged import BufferUnusable
from ldp.collection.buffer import Buffer
from ldp.collection.collector import Collector, MoveError
from ldp.collection.ingest import MARK, mark_of, write_block, write_mark
from ldp.collection.workers import Shuffling
from ldp.files import sync_folder
from tests.collecting import (
    TODAY,
    Clock,
    Service,
    batch,
    counted,
    filled,
    items,
    registry,
    same_counts,
    summed,
)
from tests.command_line import settings


def drained(folder: Path, day: date = TODAY) -> None:
    places = (folder / "reports", folder / "buffer")
    shuffling = Shuffling(smallest=1)
    Collector(registry(folder), *places, today=lambda: day, shuffling=shuffling).drain()


class Ended(BaseException):
    """Error that stands for the end of the process."""


STEPS = ["decide", "write", "rename", "mark_written", "forget", "erase"]


@pytest.mark.exact
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("is_after", [False, True])
def test_a_run_that_ends_anywhere_is_repeated_and_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, is_after: bool
) -> None:
    """It ends before or after each step. The next run is on the next day, and more has come
    meanwhile."""
    bodies = filled(tmp_path, 5)

    def ending(work: object) -> object:
        def ended(*words: object, **named: object) -> object:
            assert callable(work)
            if is_after:
                work(*words, **named)
            raise Ended

        return ended

    with monkeypatch.context() as patched:
        if step == "write":
            patched.setattr("ldp.collection.workers.write_block", ending(write_block))
        elif step == "rename":
            patched.setattr("ldp.collection.ingest.sync_folder", ending(sync_folder))
        else:
            patched.setattr(Buffer, step, ending(getattr(Buffer, step)))
        with pytest.raises(Ended):
            drained(tmp_path)
    bodies += filled(tmp_path, 3)
    drained(tmp_path, TODAY + timedelta(days=1))
    asked = registry(tmp_path)
    table = counted(tmp_path / "reports", asked, "word")
    assert same_counts(table, summed(asked, bodies, "word"))
    assert table.total == 160
    buffer = Buffer(tmp_path / "buffer")
    assert buffer.report_counts() == {}
    assert all(buffer.plan(one.number) is None for one in buffer.metrics())
    buffer.close()


@pytest.mark.exact
@pytest.mark.parametrize("broken", ["city", "word"])
def test_a_metric_that_cannot_be_stored_does_not_hold_up_the_others(
    tmp_path: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A file lies where the metric's folder would be.

    The others move, the health page names the metric, and one line is logged. It moves when the
    file is gone.
    """
    asked = registry(tmp_path)
    body = batch([*items(asked, "city", "Oslo", 3), *items(asked, "word", "hello", 3)])
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / f"metric={broken}").touch()
    other = {"city": "word", "word": "city"}[broken]
    with Service(tmp_path) as service:
        assert service.send(body).status == 202
        with pytest.raises(MoveError, match=f"reports of {broken} version . cannot be moved"):
            service.collector.move_everything()
        service.collector._ingestor.work(everything=True)  # not tried again at once
        assert counted(service.store, asked, other).total == 3
        health = service.ask("GET", "/v1/health")
        assert health.status == 503
        version = asked.metric(broken).version
        assert health.json["error"] == (
            f"reports of {broken} version {version} cannot be moved to the store"
        )
        service.collector._ingestor._next_try.clear()
        (tmp_path / "reports" / f"metric={broken}").unlink()
        service.collector.move_everything()
        assert service.ask("GET", "/v1/health").status == 200
        assert counted(service.store, asked, broken).total == 3
    assert len([one for one in caplog.records if broken in one.getMessage()]) == 1


@pytest.mark.exact
def test_a_version_that_cannot_be_stored_does_not_hold_up_the_next(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    with Service(tmp_path) as service:
        service.send(batch(items(asked, "city", "Oslo", 3)))
    (tmp_path / "reports" / "metric=city").mkdir(parents=True)
    (tmp_path / "reports" / "metric=city" / "version=3").touch()
    asked.path.write_text(asked.path.read_text().replace("version = 3", "version = 4"))
    asked = registry(tmp_path)
    with Service(tmp_path) as service:
        service.send(batch(items(asked, "city", "Oslo", 5)))
        with pytest.raises(MoveError, match="reports of city version 3 cannot"):
            service.collector.move_everything()
        assert counted(service.store, asked, "city").total == 5


@pytest.mark.statistical
def test_names_of_files_do_not_join_the_reports_of_a_device(tmp_path: Path) -> None:
    """Sorted by name, the files of two metrics have different orders of the ten devices.

    They have the same order with probability 1 / 10! = 3e-7. In the twin, names are numbers that
    grow.
    """
    asked = registry(tmp_path)
    for is_counting in (False, True):
        folder = tmp_path / str(is_counting)
        registry(folder)
        with Service(folder) as service:
            numbers = iter(range(1000))
            if is_counting:
                decide: Any = Buffer.decide

                def counting(*words: Any) -> Any:
                    name = next(numbers).to_bytes(16, "big")  # noqa: B023
                    return decide(*words, entropy=lambda _: name)  # noqa: B023

                service.collector._buffer.decide = partial(counting, service.collector._buffer)
            order = dict[str, dict[Path, int]](city={}, word={})
            for device in range(10):
                listed = [*items(asked, "city", "Oslo", 1), *items(asked, "word", "hello", 1)]
                assert service.send(batch(listed)).status == 202
                service.collector.move_everything()
                for metric, files in order.items():
                    for path in (service.store / f"metric={metric}").rglob("*.parquet"):
                        files.setdefault(path, device)
        names = [path.stem for files in order.values() for path in files]
        assert len({*names}) == 20
        assert all(re.fullmatch("[0-9a-f]{32}", name) for name in names)
        by_name = [[files[path] for path in sorted(files)] for files in order.values()]
        assert (by_name[0] == by_name[1]) is is_counting


@pytest.mark.exact
def test_few_reports_wait_however_long(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """99 reports are not written for age, nor by a drain, and both say so; 100 are written.

    More reports of another metric do not wait.
    """
    asked = registry(tmp_path)
    settings = {"shuffling": Shuffling(longest=timedelta(0), smallest=100)}
    with Service(tmp_path, **settings) as service:
        service.send(batch(items(asked, "city", "Oslo", 99)))
        service.send(batch(items(asked, "word", "hello", 120)))
        for _ in range(3):
            service.collector._ingestor.work()
        service.collector.move_everything()
        assert counted(service.store, asked, "city").total == 0
        assert counted(service.store, asked, "word").total == 120
    (line,) = [one.getMessage() for one in caplog.records if "city" in one.getMessage()]
    assert line == (
        "waiting: 99 reports of city version 3; a file has 100 at least (--write-small writes them)"
    )
    with Service(tmp_path, **settings) as service:
        service.send(batch(items(asked, "city", "Oslo", 1)))
        service.collector.move_everything()
        assert len([*(service.store / "metric=city").rglob("*.parquet")]) == 1
        assert counted(service.store, asked, "city").total == 100


@pytest.mark.slow
@pytest.mark.exact
def test_a_drain_says_what_it_leaves(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    filled(tmp_path, 3)
    words = ["collect", "--registry", str(tmp_path / "metrics.toml"), "--drain"]
    words += ["--store", str(tmp_path / "reports"), "--buffer", str(tmp_path / "buffer")]
    runs = [
        subprocess.run(
            [sys.executable, "-m", "ldp", *words, *more], check=True, capture_output=True, text=True
        ).stdout
        for more in (
            *([], ["--json"]),
            *(settings(tmp_path, shuffle_smallest=60), ["--write-small"]),
        )
    ]
    assert runs[0].splitlines() == [
        f"0 reports moved to {tmp_path / 'reports'}",
        "waiting: 60 reports of word; a file has 100 at least; --write-small writes them",
    ]
    assert json.loads(runs[1]) == {"moved": {}, "waiting": {"word": 60}}
    assert runs[2] == f"60 reports moved to {tmp_path / 'reports'}\n"
    assert runs[3] == f"0 reports moved to {tmp_path / 'reports'}\n"
    filled(tmp_path, 1)


@pytest.mark.exact
def test_half_a_file_is_never_read_and_is_cleared_away(tmp_path: Path) -> None:
    bodies = filled(tmp_path, 2)
    buffer = Buffer(tmp_path / "buffer")
    (word,) = [one for one in buffer.metrics() if one.metric == "word"]
    plan = buffer.decide(word.number, TODAY, 1 << 20)
    assert plan is not None
    buffer.close()
    folder = tmp_path / "reports" / "metric=word" / "version=1" / f"day={TODAY}"
    folder.mkdir(parents=True)
    half = folder / f".{plan.name}.parquet.77.part"
    half.write_bytes(b"PAR1 and no more")
    others = folder / ".another.parquet.77.part"
    others.write_bytes(b"PAR1")
    drained(tmp_path)
    asked = registry(tmp_path)
    table = counted(tmp_path / "reports", asked, "word")
    assert same_counts(table, summed(asked, bodies, "word"))
    assert not half.exists()
    assert others.exists()


@pytest.mark.exact
def test_old_files_go_and_young_ones_stay(tmp_path: Path) -> None:
    store = tmp_path / "reports"
    for place in (store, store / ingest.SET_ASIDE):
        for ago in (0, 30, 31):
            day = TODAY - timedelta(days=ago)
            folder = place / "metric=word" / "version=1" / f"day={day}"
            folder.mkdir(parents=True)
            (folder / "a.parquet").touch()
            (folder / ".b.parquet.77.part").touch()  # of a writer that was killed
    assert ingest.retire(store, TODAY - timedelta(days=30)) == 4
    assert len(list(store.rglob("*.parquet"))) == 4
    assert not list(store.rglob(f"day={TODAY - timedelta(days=31)}"))


@pytest.mark.exact
def test_files_are_kept_by_a_clock_that_nobody_set(tmp_path: Path) -> None:
    """A collector retains 90 days, and leaps ahead delete nothing; days that pass delete.

    A leap lasts an hour or half a day, comes at the start of a process, or is the first reading of
    a new buffer.
    """
    asked, clock, keep = registry(tmp_path), Clock(), timedelta(days=90)
    filled(tmp_path, 2)
    drained(tmp_path)

    def stored(service: Service) -> int:
        with suppress(MoveError):
            service.collector.move_everything()
        return counted(service.store, asked, "word").total

    def replace_buffer() -> None:
        (tmp_path / "buffer" / "buffer.db").unlink()
        (tmp_path / "buffer" / "buffer.db-commits").unlink()
        (tmp_path / "reports" / MARK).unlink()

    leapt = TODAY + 400 * timedelta(days=1)
    for hours in (0, 1, 11, 13):
        clock.day = TODAY
        with Service(tmp_path, retain=keep, **clock.settings) as service:
            writer = service.collector._writer
            clock.show(writer, leapt, hours)
            assert stored(service) == 40
            clock.show(writer, TODAY, 24)
            assert stored(service) == 40
        clock.day = leapt
        with Service(tmp_path, retain=keep, **clock.settings) as service:
            assert stored(service) == 40
    replace_buffer()
    with Service(tmp_path, retain=keep, **clock.settings) as service:
        writer = service.collector._writer
        assert (stored(service), writer.day) == (40, leapt)
        clock.show(writer, TODAY, 24)
        assert stored(service) == 40
    replace_buffer()
    with Service(tmp_path, retain=keep, **clock.settings) as service:
        clock.go_on(service.collector._writer, 90)
        assert stored(service) == 40
        clock.go_on(service.collector._writer, 1)
        assert stored(service) == 0


@pytest.mark.exact
def test_no_file_is_dated_by_a_clock_that_leaps(tmp_path: Path) -> None:
    """Nobody would count a file of a day that has not come.

    So nothing moves until the clock has shown the day for an hour, also where the clock was a day
    ahead for longer. Whoever asks for everything is answered.
    """
    clock, dated = Clock(), list[int]()
    shuffling = Shuffling(least=1, smallest=1)
    with Service(tmp_path, shuffling=shuffling, **clock.settings) as service:
        writer, ingestor = service.collector._writer, service.collector._ingestor
        for ahead, hours in ((0, 1), (1, 2), (3000, 0), (-3000, 0), (30, 1), (3000, 0)):
            clock.show(writer, TODAY + timedelta(days=ahead), hours)
            before = len([*service.store.rglob("*.parquet")])
            send_words(service)
            ingestor.work(everything=len(dated) == 5)
            new = len([*service.store.rglob("*.parquet")]) - before
            days = (folder.name[4:] for folder in service.store.rglob("day=*"))
            dated.append(new and max((date.fromisoformat(day) - TODAY).days for day in days))
    assert dated == [0, 1, 0, 1, 30, 3000]


@pytest.mark.exact
@pytest.mark.parametrize("is_moved", [False, True])
@pytest.mark.parametrize("restored", ["reports", "buffer"])
def test_a_restored_copy_of_buffer_or_store_is_refused(
    tmp_path: Path, restored: str, is_moved: bool
) -> None:
    """A copy is made, then batches come, and are moved to the store or not.

    The collector starts with both as they are, or with both of the copy. It does not start with one
    of the copy, or without one.
    """
    with Service(tmp_path) as service:
        send_words(service)
        service.collector.move_everything()
    shutil.copytree(tmp_path / restored, tmp_path / "copy")
    with Service(tmp_path) as service:
        send_words(service)
        service.collector._ingestor.work(everything=is_moved)
    with Service(tmp_path):
        pass
    (tmp_path / restored).rename(tmp_path / "newest")
    for folder in ("copy", None, "newest"):
        if folder:
            shutil.copytree(tmp_path / folder, tmp_path / restored)
        if folder != "newest":
            with pytest.raises(BufferUnusable, match="restored or replaced"):
                Service(tmp_path)
            shutil.rmtree(tmp_path / restored, ignore_errors=True)
    with Service(tmp_path) as service:
        service.collector.move_everything()
    assert counted(tmp_path / "reports", registry(tmp_path), "word").total == 40


@pytest.mark.exact
def test_a_collector_that_ended_while_it_marked_starts_again(tmp_path: Path) -> None:
    """The store has the last mark, or the one that was to be written; no other store matches."""
    buffer, mark = Buffer(tmp_path / "buffer"), ""
    for _ in range(3):
        following = buffer.step(mark, bytes)
        for stored in (mark, following):
            assert buffer.step(stored, bytes)
        buffer.step(mark, bytes)
        buffer.confirm(following)
        with pytest.raises(BufferUnusable, match="restored or replaced"):
            buffer.match(mark)
        mark = following
    buffer.close()


@pytest.mark.exact
def test_the_mark_of_a_store_is_on_the_disk_when_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut leaves the buffer with a mark that the store never had, and no collector
    starts again."""
    renamed: list[bool] = []
    sync = os.fsync

    def watched(handle: int) -> None:
        if os.path.sameopenfile(handle, folder):
            renamed.append(mark_of(tmp_path) == "name 2")
        sync(handle)

    folder = os.open(tmp_path, os.O_RDONLY)
    write_mark(tmp_path, "name 1")
    monkeypatch.setattr(os, "fsync", watched)
    write_mark(tmp_path, "name 2")
    os.close(folder)
    assert renamed[-1:] == [True]


@pytest.mark.exact
def test_the_mark_rises_in_each_minute_in_which_batches_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark rises at the start, and when MARK_SECONDS are over and a batch has come."""

    def number() -> int:
        service.collector._ingestor.work()
        return int(ingest.mark_of(tmp_path / "reports").split()[1])

    with Service(tmp_path) as service:
        assert number() == 1
        send_words(service)
        assert number() == 1
        monkeypatch.setattr("ldp.collection.workers.MARK_SECONDS", 0.0)
        assert [number(), number()] == [2, 2]
        send_words(service)
        assert number() == 3


def send_words(service: Service) -> None:
    """Send a batch of 20 words."""
    body = batch(items(service.registry, "word", "hello", 20))
    assert service.send(body).status == 202


@pytest.mark.exact
def test_nothing_is_deleted_through_a_link(tmp_path: Path) -> None:
    store, elsewhere = tmp_path / "reports", tmp_path / "elsewhere"
    old = f"day={TODAY - timedelta(days=31)}"
    (elsewhere / "version=1" / old).mkdir(parents=True)
    (elsewhere / "version=1" / old / "a.parquet").touch()
    (store / "metric=word" / "version=1" / old).mkdir(parents=True)
    (store / "metric=word" / "version=2").mkdir()
    (store / "metric=city").symlink_to(elsewhere)
    (store / "metric=word" / "version=2" / old).symlink_to(elsewhere / "version=1" / old)
    linked = store / "metric=word" / "version=1" / old / "b.parquet"
    linked.symlink_to(elsewhere / "version=1" / old / "a.parquet")
    assert ingest.retire(store, TODAY) == 0
    assert (elsewhere / "version=1" / old / "a.parquet").exists()
    assert linked.is_symlink()


@pytest.mark.statistical
def test_a_block_is_in_random_order(tmp_path: Path) -> None:
    """The place of the first report among 20, in 600 blocks, is tested by chi-square.

    This fails falsely with probability 1e-6; the seed is fixed. The twin has no randomness.
    """
    from scipy.stats import chi2

    filled(tmp_path, 1)
    buffer = Buffer(tmp_path / "buffer")
    (waiting,) = [one for one in buffer.metrics() if one.metric == "word"]
    plan = buffer.decide(waiting.number, TODAY, 1 << 20)
    assert plan is not None
    lots = buffer.bodies(waiting.number, plan)[0]
    buffer.close()
    size = waiting.mechanism.layout.body_bytes
    for entropy, is_random in ((np.random.default_rng(1).bytes, True), (bytes, False)):
        places = np.zeros(20)
        for _ in range(600):
            order = ingest.shuffle_bodies(lots, size, entropy)
            places[[row.tobytes() for row in order].index(lots[0][:size])] += 1
        assert (((places - 30) ** 2 / 30).sum() < chi2.isf(1e-6, 19)) == is_random
