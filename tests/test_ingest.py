"""From the buffer to the store: every way to end early, shuffling, retention, what is set aside."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp import (
    CountMeanSketch,
    HadamardCountMeanSketch,
    Rappor,
)
from ldp.collection import ReportWriter, ingest
from ldp.collection.acknowledged import BufferUnusable, PendingBatch
from ldp.collection.buffer import Buffer
from ldp.collection.collector import Collector, MoveError
from ldp.collection.ingest import write_block
from ldp.collection.intake import collected_metrics, sort_batch, split_bodies
from ldp.collection.plausibility import (
    CHANCE,
    candidate_cells,
    is_plausible,
    ones_limits,
    row_limit,
)
from ldp.collection.workers import Shuffling
from ldp.files import sync_folder
from ldp.mechanisms import CATALOGUE, CatalogueMechanism
from ldp.mechanisms.joint_base import parts_of
from ldp.protocol.batch import Batch, Item
from ldp.protocol.wire import HEADER_BYTES
from ldp.simulation.reports import encode_batch, points_of
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
    buffer, known = Buffer(folder / "buffer"), collected_metrics(asked)
    buffer.expect(known)
    for number, body in enumerate(bodies):
        digest = number.to_bytes(16, "little")
        buffer.commit([PendingBatch(sort_batch(body, known, TODAY), digest)], TODAY, WEEK)
    buffer.close()
    return bodies


def drained(folder: Path, day: date = TODAY) -> None:
    places = (folder / "reports", folder / "buffer")
    shuffling = Shuffling(smallest=1)
    Collector(registry(folder), *places, today=lambda: day, shuffling=shuffling).drain()


class Ended(BaseException):
    """Stands for the end of the process."""


STEPS = ["decide", "write", "rename", "mark_written", "forget", "erase"]


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
    assert buffer.report_counts() == {}
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
    """Eight devices, one after the other, each with a report of two metrics that becomes a file of
    its own. In the order of names the files of both metrics stand in another order of devices:
    false failure 1 in 8!. The twin: names that count."""
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
            for device in range(8):
                listed = [*items(asked, "city", "Oslo", 1), *items(asked, "word", "hello", 1)]
                assert service.send(batch(listed)).status == 202
                service.collector.move_everything()
                for metric, files in order.items():
                    for path in (service.store / f"metric={metric}").rglob("*.parquet"):
                        files.setdefault(path, device)
        names = [path.stem for files in order.values() for path in files]
        assert len({*names}) == 16
        assert all(re.fullmatch("[0-9a-f]{32}", name) for name in names)
        by_name = [[files[path] for path in sorted(files)] for files in order.values()]
        assert (by_name[0] == by_name[1]) is is_counting


@pytest.mark.exact
def test_few_reports_wait_however_long(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """99 are not written for age, nor by a drain, and both say so; with one more they are. Others
    that are more do not wait."""
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
        "99 reports of city version 3 wait: a file has 100 at least (--write-small writes them)"
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
    words += ["--trust-clock"]
    runs = [
        subprocess.run(
            [sys.executable, "-m", "ldp", *words, *more], check=True, capture_output=True, text=True
        ).stdout
        for more in ([], ["--json"], ["--shuffle-smallest", "60"], ["--write-small"])
    ]
    assert runs[0].splitlines() == [
        f"0 reports moved to {tmp_path / 'reports'}",
        "60 reports of word wait: a file has 100 at least; --write-small writes them",
    ]
    assert json.loads(runs[1]) == {"moved": {}, "waiting": {"word": 60}}
    assert runs[2] == f"60 reports moved to {tmp_path / 'reports'}\n"
    assert runs[3] == f"0 reports moved to {tmp_path / 'reports'}\n"
    filled(tmp_path, 1)


DATA = Path(__file__).parent / "data"


@pytest.mark.exact
def test_a_buffer_of_the_first_format_opens_and_loses_nothing(tmp_path: Path) -> None:
    """One that version 0bb2e93 wrote: a batch with a refused item, reports of two metrics and a
    plan whose file is there and was not noted. Its sender repeats the batch: nothing is counted
    twice."""
    asked = registry(tmp_path)
    (tmp_path / "buffer").mkdir()
    text = (DATA / "buffer-1.sql").read_text()
    with closing(sqlite3.connect(tmp_path / "buffer" / "buffer.db")) as connection:
        connection.executescript(text)
        ((parameters,),) = connection.execute("SELECT mechanism FROM metrics WHERE number = 2")
        ((name, lot),) = connection.execute(
            "SELECT value, bodies FROM state, lots WHERE name = 'name' AND metric = 2"
        )
    seed = json.loads(parameters)["seed"]
    asked.path.write_text(
        asked.path.read_text().replace("width = 1024", f'width = 1024\nseed = "{seed}"')
    )
    asked = registry(tmp_path)
    mechanism = asked.metric("word").mechanism
    body = np.frombuffer(lot, np.uint8).reshape(3, -1)
    part = f"{name}-{2:012d}-{2:012d}"
    with ReportWriter(tmp_path / "reports", "word", 1, mechanism, TODAY, part) as writer:
        writer.write(*split_bodies(body, mechanism))
    sent = (DATA / "buffer-1.batch").read_bytes()
    with Service(tmp_path) as service:
        got = service.send(sent)
        assert (got.status, got.body) == (202, b'{"refused":[{"item":8,"code":"unknown_metric"}]}')
        service.collector.move_everything()
        for metric, total in (("city", 5), ("word", 3)):
            table = counted(service.store, asked, metric)
            assert table.total == total
            assert same_counts(table, summed(asked, [sent], metric))
    buffer = Buffer(tmp_path / "buffer")
    assert buffer.report_counts() == {}
    buffer.close()


@pytest.mark.exact
def test_moving_a_metric_does_not_read_the_reports_of_others(tmp_path: Path) -> None:
    """Every statement finds its rows by an index, whose pages hold no reports."""
    filled(tmp_path, 2)
    buffer, statements = Buffer(tmp_path / "buffer"), list[str]()
    buffer._connection.set_trace_callback(statements.append)
    ((number, _),) = buffer.report_counts().items()
    plan = buffer.decide(number, TODAY, 1 << 20)
    assert plan is not None
    assert buffer.bodies(number, plan).lots
    assert not buffer.forget(number, plan)
    buffer._connection.set_trace_callback(None)
    on_lots = [text for text in statements if "lots" in text]
    assert len(on_lots) == 5
    for text in on_lots:
        for *_, how in buffer._rows(f"EXPLAIN QUERY PLAN {text}"):
            assert "INDEX lots_by_metric" in how
    buffer.close()


@pytest.mark.exact
@pytest.mark.parametrize("number", [2, 3, 4])
def test_an_older_buffer_is_upgraded_and_keeps_its_reports(tmp_path: Path, number: int) -> None:
    asked = registry(tmp_path)
    with Service(tmp_path) as service:
        service.send(batch(items(asked, "word", "hello", 3)))
    with closing(sqlite3.connect(tmp_path / "buffer" / "buffer.db")) as connection:
        if number == 2:
            connection.execute("DROP TABLE relayed")
        connection.execute("DROP INDEX lots_by_metric")
        if number < 4:
            connection.execute("DROP INDEX shared_lots")
            connection.execute("ALTER TABLE lots DROP COLUMN batch")
        connection.execute(f"PRAGMA user_version = {number}")
    buffer = Buffer(tmp_path / "buffer")
    assert (sum(buffer.report_counts().values()), buffer.relayed()) == (3, [])
    buffer.close()


@pytest.mark.exact
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("CREATE TABLE notes (text TEXT)", "is not the buffer of a collector"),
        ("PRAGMA user_version = 7", "is not the buffer of a collector"),
        ("PRAGMA application_id = 7", "is not the buffer of a collector"),
        (
            f"PRAGMA application_id = {Buffer.form.application}; PRAGMA user_version = 6",
            "a newer version",
        ),
        (None, "not a database"),
    ],
)
def test_a_file_that_is_no_buffer_is_left_alone(
    tmp_path: Path, script: str | None, message: str
) -> None:
    path = tmp_path / "buffer.db"
    if script is None:
        path.write_bytes(b"Dear diary, " * 500)
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(script)
    before = path.read_bytes()
    with pytest.raises(BufferUnusable, match=message):
        Buffer(tmp_path)
    assert path.read_bytes() == before


@pytest.mark.exact
def test_damaged_reports_in_the_buffer_are_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Any one bit of them: the row that holds it is left out and counted as damaged, the others are
    stored."""
    asked = registry(tmp_path)
    bodies = filled(tmp_path, 3)  # a row of each
    path = tmp_path / "buffer" / "buffer.db"
    whole, random = path.read_bytes(), np.random.default_rng(1)
    report = Batch.from_bytes(bodies[1]).items[7].report[HEADER_BYTES:]
    at = whole.index(report)
    expected = summed(asked, [bodies[0], bodies[2]], "word")
    for bit in random.choice(8 * len(report), 12, replace=False):
        damaged = bytearray(whole)
        damaged[at + bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(damaged)
        shutil.rmtree(tmp_path / "reports", ignore_errors=True)
        with Service(tmp_path) as service:
            service.collector.move_everything()
            assert same_counts(counted(service.store, asked, "word"), expected)
            text = service.ask("GET", "/v1/metrics").body.decode()
        assert 'ldp_reports_damaged_total{metric="word"} 20' in text
    assert "20 reports of word are damaged in the buffer" in caplog.text


@pytest.mark.exact
def test_others_cannot_read_the_buffer(tmp_path: Path) -> None:
    """In a folder that was there, with mode 755; also where an earlier version made the files."""
    place = tmp_path / "buffer"
    place.mkdir(mode=0o755)
    for _ in range(2):
        with Service(tmp_path) as service:
            service.send(batch(items(registry(tmp_path), "city", "Oslo", 1)))
            files = [path for path in place.iterdir() if path.name.startswith("buffer.db")]
            assert len(files) == 3
            assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
        for path in place.iterdir():
            path.chmod(0o644)


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
                with suppress(MoveError):
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
    """The place of the first report among 20, in 600 blocks: chi-square; false failure 1e-6. The
    twin: no randomness."""
    from scipy.stats import chi2

    filled(tmp_path, 1)
    buffer = Buffer(tmp_path / "buffer")
    (waiting,) = [one for one in buffer.metrics() if one.metric == "word"]
    plan = buffer.decide(waiting.number, TODAY, 1 << 20)
    assert plan is not None
    lots = buffer.bodies(waiting.number, plan).lots
    buffer.close()
    size = waiting.mechanism.layout.body_bytes
    for entropy, is_random in ((os.urandom, True), (bytes, False)):
        places = np.zeros(20)
        for _ in range(600):
            order = ingest.shuffle_bodies(lots, size, entropy)
            places[[row.tobytes() for row in order].index(lots[0][:size])] += 1
        assert (((places - 30) ** 2 / 30).sum() < chi2.isf(1e-6, 19)) == is_random


MECHANISMS = [example.mechanism for one in CATALOGUE.values() for example in one.examples()]


@pytest.mark.exact
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.describe())
def test_honest_reports_are_hardly_ever_set_aside(mechanism: CatalogueMechanism) -> None:
    """The exact chance among all cells, and among some (the candidates'), for a value that touches
    none of them and for one that touches as many as any: half of it for each."""
    from scipy.stats import binom

    for part in parts_of(mechanism):
        if not part.layout.has_independent_bits:
            continue
        columns, touched = part.shape.columns, float(part.channel.touched)
        untouched = float(part.channel.untouched)
        for cells in {columns, (columns + 1) // 2, 1}:
            fewest, most = ones_limits(part, cells)
            for hashes in (0, min(cells, getattr(part.addressing, "hashes", 1))):
                true = binom.pmf(np.arange(cells + 1), hashes, touched)
                others = binom.pmf(np.arange(cells + 1), cells - hashes, untouched)
                law = np.convolve(true, others)[: cells + 1]
                assert law[:fewest].sum() + law[most + 1 :].sum() <= CHANCE / 2 * 1.001


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
    assert is_plausible(mechanism, rows, payloads).all()
    fakes = payloads[:120].copy()
    fakes[:10], fakes[10:20] = 255, 0
    fake_rows = np.concatenate([rows[:20], np.full(100, 7, np.uint32)])
    good = is_plausible(
        mechanism, np.concatenate([rows, fake_rows]), np.concatenate([payloads, fakes])
    )
    assert not good[2000:].any()
    assert good[:2000][rows != 7].all()


@pytest.mark.exact
def test_a_column_of_signs_that_far_too_many_reports_name_is_set_aside() -> None:
    """Column 0 has the sign + for every value, so a fake of it names all; honest reports draw
    their column. 20,000 of them pass, 300 fakes in any row do not."""
    mechanism = HadamardCountMeanSketch(epsilon=4.0, rows=256, width=1024, seed="00")
    generator = np.random.default_rng(1)
    rows, payloads = encode_batch(mechanism, points_of(mechanism, ["a"] * 20_000), generator)
    assert is_plausible(mechanism, rows, payloads).all()
    fakes = np.zeros((300, payloads.shape[1]), np.uint8)
    good = is_plausible(
        mechanism, np.concatenate([rows, rows[:300]]), np.concatenate([payloads, fakes])
    )
    assert not good[20_000:].any()
    assert good[:20_000].mean() > 0.998


SKETCH = CountMeanSketch(epsilon=4.0, rows=256, width=1024, seed="00")
BLOOM = Rappor(bits=256, hashes=2, cohorts=8, f=0.0, p=0.25, q=0.75, seed="00")


@pytest.mark.exact
@pytest.mark.parametrize("mechanism", [SKETCH, BLOOM])
def test_the_cells_of_candidates_are_those_of_the_mechanism(mechanism: Any) -> None:
    values = tuple(f"value {number}" for number in range(40))
    rows = np.arange(mechanism.shape.rows, dtype=np.uint32)[::-1]
    found = candidate_cells(mechanism, values, rows)
    bits = np.unpackbits(found, axis=1, bitorder="little")
    for row, cells in zip(rows.tolist(), bits, strict=True):
        expected = {cell for value in values for cell in mechanism.cells(value, row)}
        assert {*np.flatnonzero(cells).tolist()} == expected


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", [SKETCH, BLOOM])
def test_a_report_that_names_many_candidates_is_set_aside(mechanism: Any) -> None:
    """60 values nobody holds, all named by reports with as many ones as honest ones have; 2,000
    honest reports beside them, of candidates and of others, stay: false failure 2e-6. Without the
    list (the twin) every fake passes, and a list of more values than cells is of no use."""
    random, few = np.random.default_rng(1), tuple(f"invented {number}" for number in range(60))
    encoder = mechanism.encoder()
    honest = np.frombuffer(
        b"".join(encoder.encode(few[n % 60] if n % 2 else f"held {n}")[10:] for n in range(2000)),
        np.uint8,
    ).reshape(2000, -1)
    rows, payloads = split_bodies(honest, mechanism)
    fake_rows = random.integers(0, mechanism.shape.rows, 100).astype(np.uint32)
    bits = np.unpackbits(candidate_cells(mechanism, few, fake_rows), axis=1, bitorder="little")
    typical = int(mechanism.shape.columns * float(mechanism.channel.untouched))
    for cells in bits:  # up to as many ones as an honest report has
        more = random.permutation(np.flatnonzero(cells == 0))[: max(0, typical - int(cells.sum()))]
        cells[more] = 1
    fakes = np.packbits(bits, axis=1, bitorder="little")
    all_rows, both = np.concatenate([rows, fake_rows]), np.concatenate([payloads, fakes])
    good = is_plausible(mechanism, all_rows, both, few)
    assert good[:2000].all()
    assert not good[2000:].any()
    assert is_plausible(mechanism, all_rows, both).all()
    many = few + tuple(f"other {number}" for number in range(mechanism.shape.columns))
    assert is_plausible(mechanism, all_rows, both, many).all()


@pytest.mark.exact
def test_a_collector_judges_by_the_dictionary_of_its_registry(tmp_path: Path) -> None:
    """Reports whose ones are all of a listed word's neighbours go to the place of the set-aside."""
    asked = registry(tmp_path)
    values = tuple(f"word {number}" for number in range(60))
    (tmp_path / "words.txt").write_text("\n".join(values))
    text = asked.path.read_text()
    asked.path.write_text(text.replace("width = 1024", 'width = 1024\ndictionary = "words.txt"'))
    asked = registry(tmp_path)
    mechanism: Any = asked.metric("word").mechanism
    (cells,) = candidate_cells(mechanism, values, np.array([7], np.uint32))
    cells[np.flatnonzero(cells == 0)[:9]] = 255  # as many ones as honest reports have
    header = items(asked, "word", "hello", 1)[0].report[:HEADER_BYTES]
    fakes = [Item("word", 1, header + bytes([7]) + cells.tobytes()) for _ in range(3)]
    honest = items(asked, "word", "word 3", 30)
    with Service(tmp_path) as service:
        assert service.send(batch([*honest, *fakes])).json == {"refused": []}
        service.collector.move_everything()
        assert counted(service.store, asked, "word").total == 30
        assert counted(service.store / "set-aside", asked, "word").total == 3


@pytest.mark.exact
def test_devices_that_keep_their_row_are_not_set_aside() -> None:
    mechanism = Rappor(bits=32, hashes=2, cohorts=64, f=0.5, p=0.5, q=0.75, seed="00")
    rows = np.full(5000, 3, np.uint32)
    payloads = np.tile(np.array([15, 15, 15, 15], np.uint8), (5000, 1))
    assert is_plausible(mechanism, rows, payloads).all()
