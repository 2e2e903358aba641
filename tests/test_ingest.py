"""From the buffer to the store: every way to end early, shuffling, retention, what is set aside."""

import os
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
from ldp.collection.collector import Collector
from ldp.collection.ingest import write_block
from ldp.collection.intake import asked_of, sort_batch, split_bodies
from ldp.collection.plausibility import CHANCE, ones_limits, plausible, row_limit
from ldp.files import sync_folder
from ldp.mechanisms import CATALOGUE, Catalogued
from ldp.mechanisms.joint import parts_of
from tests.collecting import TODAY, batch, counted, items, registry, same_counts, summed

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
