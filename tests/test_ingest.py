"""From the buffer to the store: every way to end early, shuffling, retention, what is set aside."""

import os
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from ldp import (
    CountMeanSketch,
    Rappor,
)
from ldp.collection import ingest
from ldp.collection.buffer import Arrived, Buffer
from ldp.collection.collector import Collector, NotMoved
from ldp.collection.ingest import write_block
from ldp.collection.intake import asked_of, sort_batch, split_bodies
from ldp.collection.plausibility import CHANCE, ones_limits, plausible, row_limit
from ldp.files import sync_folder
from ldp.mechanisms import CATALOGUE, Catalogued
from ldp.mechanisms.joint import parts_of
from tests.collecting import (
    TODAY,
    Service,
    batch,
    counted,
    items,
    registry,
    same_counts,
    summed,
)

WEEK = timedelta(days=7)


def filled(folder: Path, batches: int) -> list[bytes]:
    """Puts batches of words into the buffer."""
    asked = registry(folder)
    bodies = [batch(items(asked, "word", "hello", 20)) for _ in range(batches)]
    buffer, known = Buffer(folder / "buffer"), asked_of(asked)
    buffer.expect(known)
    for number, body in enumerate(bodies):
        digest = number.to_bytes(16, "little")
        buffer.commit([Arrived(sort_batch(body, known, TODAY), digest)], TODAY, WEEK)
    buffer.close()
    return bodies


def drained(folder: Path, day: date = TODAY) -> None:
    Collector(registry(folder), folder / "reports", folder / "buffer", today=lambda: day).drain()


class Ended(BaseException):
    """Stands for the end of the process."""


STEPS = ["decide", "write", "rename", "written", "forget", "erase"]


@pytest.mark.exact
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("is_after", [False, True])
def test_a_run_that_ends_anywhere_is_repeated_and_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, is_after: bool
) -> None:
    """Before and after each step; the next run is on the next day, and more has come meanwhile."""
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
    assert buffer.waiting() == {}
    assert all(buffer.plan(one.number) is None for one in buffer.metrics())
    buffer.close()


@pytest.mark.exact
@pytest.mark.parametrize("broken", ["city", "word"])
def test_a_metric_that_cannot_be_stored_does_not_hold_up_the_others(
    tmp_path: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A file lies where its folder would be. The others move, the health page names it, one line is
    logged, and it moves when the file is gone."""
    asked = registry(tmp_path)
    body = batch([*items(asked, "city", "Oslo", 3), *items(asked, "word", "hello", 3)])
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / f"metric={broken}").touch()
    other = {"city": "word", "word": "city"}[broken]
    with Service(tmp_path) as service:
        assert service.send(body).status == 202
        with pytest.raises(NotMoved, match=f"reports of {broken} cannot be moved"):
            service.collector.move_everything()
        service.collector._ingestor.work(everything=True)  # not tried again at once
        assert counted(service.store, asked, other).total == 3
        health = service.ask("GET", "/v1/health")
        assert health.status == 503
        assert health.json["error"] == f"reports of {broken} cannot be moved to the store"
        service.collector._ingestor._next_try.clear()
        (tmp_path / "reports" / f"metric={broken}").unlink()
        service.collector.move_everything()
        assert service.ask("GET", "/v1/health").status == 200
        assert counted(service.store, asked, broken).total == 3
    assert len([one for one in caplog.records if broken in one.getMessage()]) == 1


@pytest.mark.exact
def test_half_a_file_is_never_read_and_is_cleared_away(tmp_path: Path) -> None:
    bodies = filled(tmp_path, 2)
    buffer = Buffer(tmp_path / "buffer")
    name = buffer.name
    buffer.close()
    folder = tmp_path / "reports" / "metric=word" / "version=1" / f"day={TODAY}"
    folder.mkdir(parents=True)
    half = folder / f".{name}-000000000001-000000000002.parquet.77.part"
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
    assert ingest.retire(store, TODAY - timedelta(days=30)) == 2
    assert len(list(store.rglob("*.parquet"))) == 4
    assert not list(store.rglob(f"day={TODAY - timedelta(days=31)}"))


HOUR = ingest.SETTLED_SECONDS


@pytest.mark.exact
def test_files_are_kept_from_a_day_that_the_clock_has_shown_for_an_hour() -> None:
    """Leaps of any length and either direction, for seconds or for years, delete nothing; days that
    pass do."""
    keep, day = timedelta(days=90), timedelta(days=1)
    for leap in (-4000, -1, 1, 2, 20, 31, 400):
        retention = ingest.Retention(keep, TODAY, 0.0)
        assert retention.oldest(TODAY, HOUR) == TODAY - keep
        leapt = TODAY + leap * day
        assert retention.oldest(leapt, HOUR + 1) is None
        assert retention.oldest(leapt, HOUR + 3) is None
        assert retention.oldest(TODAY, HOUR + 4) is None, "it has to settle again"
        assert retention.oldest(TODAY, 2 * HOUR + 4) == TODAY - keep
        late = retention.oldest(leapt, 2 * HOUR + 5) or retention.oldest(leapt, 4 * HOUR)
        assert late == (None if leap > 1 else leapt - keep)
    retention = ingest.Retention(keep, TODAY, 0.0)
    passed = [
        oldest
        for hours in range(24 * 100)
        if (oldest := retention.oldest(TODAY + hours // 24 * day, hours * 3600.0))
    ]
    assert set(passed) == {TODAY + number * day - keep for number in range(100)}
    assert len(passed) == 23 * 100
    assert ingest.Retention(timedelta(days=10**6), TODAY, 0.0).oldest(TODAY, HOUR) == date.min


@pytest.mark.exact
def test_a_clock_that_leaps_deletes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """400 days ahead while a collector runs and retains 90 days, and in a collector that is started
    then; without an hour to settle the buffer still does not believe it."""
    filled(tmp_path, 2)
    drained(tmp_path)
    days = [TODAY]
    for settled in (HOUR, 0.0):
        monkeypatch.setattr("ldp.collection.ingest.SETTLED_SECONDS", settled)
        days[0] = TODAY
        with Service(tmp_path, today=lambda: days[0], retain=timedelta(days=90)) as service:
            days[0] = TODAY + timedelta(days=400)
            for _ in range(3):
                with suppress(NotMoved):
                    service.collector.move_everything()
        assert counted(tmp_path / "reports", registry(tmp_path), "word").total == 40
    days[0] = TODAY + timedelta(days=30)  # believed, and the files are older than 20 days
    with Service(tmp_path, today=lambda: days[0], retain=timedelta(days=20)) as service:
        service.collector.move_everything()
    assert not any((tmp_path / "reports").rglob("*.parquet"))


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
    """The place of the first report among 20, in 600 blocks: chi-square; false failure 1e-6."""
    from scipy.stats import chi2

    filled(tmp_path, 1)
    buffer = Buffer(tmp_path / "buffer")
    (waiting,) = [one for one in buffer.metrics() if one.metric == "word"]
    plan = buffer.decide(waiting.number, TODAY, 1 << 20)
    assert plan is not None
    lots = buffer.bodies(waiting.number, plan)
    buffer.close()
    places = np.zeros(20)
    size = waiting.mechanism.layout.body_bytes
    for _ in range(600):
        order = ingest.shuffled(lots, size, os.urandom)
        places[[row.tobytes() for row in order].index(lots[0][:size])] += 1
    assert ((places - 30) ** 2 / 30).sum() < chi2.isf(1e-6, 19)
    same = ingest.shuffled(lots, size, lambda number: bytes(number))  # the twin: no randomness
    assert same[0].tobytes() == lots[0][:size]


MECHANISMS = [example.mechanism for one in CATALOGUE.values() for example in one.examples()]


@pytest.mark.exact
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.describe())
def test_honest_reports_are_hardly_ever_set_aside(mechanism: Catalogued) -> None:
    """The exact chance, for a value that touches no bit and for one that touches as many as any."""
    from scipy.stats import binom

    for part in parts_of(mechanism):
        if part.layout.kind.value != "bits":
            continue
        fewest, most = ones_limits(part)
        columns, touched = part.shape.columns, float(part.channel.touched)
        untouched = float(part.channel.untouched)
        for hashes in (0, min(columns, getattr(part.addressing, "hashes", 1))):
            ones = np.arange(columns + 1)
            true = binom.pmf(ones, hashes, touched)
            law = np.convolve(true, binom.pmf(ones, columns - hashes, untouched))[: columns + 1]
            assert law[:fewest].sum() + law[most + 1 :].sum() <= CHANCE * 1.001


@pytest.mark.exact
@pytest.mark.parametrize(("reports", "rows"), [(1, 1), (100, 1), (4, 65_536), (50_000, 256)])
def test_a_row_is_too_full_with_the_stated_chance(reports: int, rows: int) -> None:
    from scipy.stats import binom

    limit = row_limit(reports, rows)
    assert rows * binom.sf(limit, reports, 1 / rows) <= CHANCE
    assert limit == 0 or rows * binom.sf(limit - 1, reports, 1 / rows) > CHANCE


@pytest.mark.exact
def test_what_is_not_plausible_is_set_aside_and_counted_apart(tmp_path: Path) -> None:
    """Among 2,000 honest reports: all ones, no ones, and 100 of one row."""
    mechanism = CountMeanSketch(epsilon=4.0, rows=256, width=1024, seed="00")
    encoder = mechanism.encoder()
    honest = np.frombuffer(
        b"".join(encoder.encode("hello")[10:] for _ in range(2000)), np.uint8
    ).reshape(2000, -1)
    rows, payloads = split_bodies(honest, mechanism)
    assert plausible(mechanism, rows, payloads).all()
    fakes = payloads[:120].copy()
    fakes[:10], fakes[10:20] = 255, 0
    fake_rows = np.concatenate([rows[:20], np.full(100, 7, np.uint32)])
    good = plausible(
        mechanism, np.concatenate([rows, fake_rows]), np.concatenate([payloads, fakes])
    )
    assert not good[2000:].any()
    assert good[:2000][rows != 7].all()


@pytest.mark.exact
def test_devices_that_keep_their_row_are_not_set_aside() -> None:
    mechanism = Rappor(bits=32, hashes=2, cohorts=64, f=0.5, p=0.5, q=0.75, seed="00")
    rows = np.full(5000, 3, np.uint32)
    payloads = np.tile(np.array([15, 15, 15, 15], np.uint8), (5000, 1))
    assert plausible(mechanism, rows, payloads).all()
