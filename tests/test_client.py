"""The client: every sentence of docs/device-protocol.md."""

import socket
import sqlite3
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import permutations
from pathlib import Path
from threading import Thread, active_count
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp.client import (
    Client,
    Collector,
    Declined,
    Folder,
    ParameterError,
    Recorded,
    destinations,
    sending,
)
from ldp.client.destinations import Unreachable
from ldp.client.device_file import DeviceFile, StorageError
from ldp.client.pool import enter
from ldp.client.responses import Report
from ldp.client.sealing import MOST_WAITING
from ldp.errors import RegistryError
from ldp.mechanisms.base import Encoder
from ldp.protocol.batch import Batch
from ldp.protocol.randomness import SeededBits
from ldp.registry import Registry
from tests.devices import DAY, NOON, App, Memory
from tests.statistics import ALPHA, law_p


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    made = App(tmp_path)
    made.client.grant()
    yield made
    made.client.close()


@pytest.mark.exact
def test_before_consent_there_is_no_file_and_no_traffic(tmp_path: Path) -> None:
    made = App(tmp_path)
    assert made.client.record("city", "Oslo") == Declined("consent", "nobody has agreed yet")
    assert made.client.upload().why == "consent"
    assert made.client.consent == "unknown"
    assert made.client.remaining() == {"places": 8.0, "other": 4.0}
    assert made.client.sent() == []
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.toml"]
    made.client.withdraw()
    assert not made.client.record("city", "Oslo")
    made.now += 3 * DAY
    assert made.client.upload().why == "consent"
    assert made.server.got == []
    assert made.client.grant()
    assert made.client.record("city", "Oslo") == Recorded()


@pytest.mark.exact
def test_withdrawing_deletes_what_waits_and_keeps_what_was_spent(app: App) -> None:
    app.client.record("city", "Oslo")
    app.now += DAY
    app.server.down = True
    app.client.upload()
    app.client.record("city", "Bergen")
    assert (app.client.status().waiting, app.client.status().pooled) == (1, 1)
    assert app.client.pending() == {"city": 1}
    assert app.client.withdraw()
    assert app.client.pending() == {}
    assert (app.client.status().waiting, app.client.status().pooled) == (0, 0)
    app.server.down, sent = False, len(app.server.got)
    app.now += DAY
    assert app.client.upload().why == "consent"
    assert len(app.server.got) == sent
    app.client.grant()
    assert app.rows("SELECT times, epsilon FROM charges") == [(1, pytest.approx(4.0))]


@pytest.mark.exact
def test_a_withdrawal_that_cannot_be_written_down_holds_all_the_same(app: App) -> None:
    app.client.record("city", "Oslo")
    app.now += DAY
    other = sqlite3.connect(app.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert app.client.record("city", "Oslo").reason == "busy"  # type: ignore[union-attr]
    assert app.client.consent == "granted"
    assert not app.client.withdraw()
    other.execute("ROLLBACK")
    other.close()
    assert app.client.upload().why == "consent"
    assert not app.client.record("city", "Oslo")
    assert app.server.got == []
    assert app.rows("SELECT value FROM state WHERE name = 'consent'") == [("withdrawn",)]
    assert app.client.grant()
    assert app.client.record("city", "Oslo")


@pytest.mark.exact
def test_what_waited_when_consent_was_withdrawn_is_still_listed(app: App) -> None:
    app.client.record("city", "Oslo")
    app.now += DAY
    app.server.down = True
    app.client.upload()
    app.client.withdraw()
    assert [(one.reports, one.state) for one in app.client.sent()] == [({"city": 1}, "withdrawn")]
    before = app.rows("SELECT * FROM state"), app.rows("SELECT * FROM batches")
    app.now += 3 * DAY
    app.client.upload()
    assert (app.rows("SELECT * FROM state"), app.rows("SELECT * FROM batches")) == before


@pytest.mark.exact
def test_a_period_is_sealed_by_the_first_call_after_its_end(app: App) -> None:
    app.client.record("city", "Oslo")
    app.now = NOON + timedelta(hours=11, minutes=59)
    app.client.upload()
    assert app.server.got == []
    app.now = NOON + timedelta(hours=12)
    app.client.record("city", "Oslo")
    midnight = round(app.now.timestamp())
    assert app.rows("SELECT at FROM charges") == [(midnight,)]
    assert app.client.upload().acknowledged == 1
    (item,) = app.server.items
    assert (item.metric, item.version) == ("city", 1)
    assert Batch.from_bytes(app.server.got[0][1]).day == date(2026, 1, 2)


@pytest.mark.exact
def test_each_period_that_was_missed_has_a_sample_of_its_own(app: App) -> None:
    for _ in range(10):
        for _ in range(5):
            app.client.record("city", "Oslo")
        app.now += DAY
    app.client.upload()
    assert app.rows("SELECT count(DISTINCT at), sum(times) FROM charges") == [(10, 10)]
    assert [one.reports for one in app.client.sent()] == [{"city": 1}] * 10
    assert len(app.server.items) == 8, "two are older than the collector would take"


@pytest.mark.exact
def test_a_record_that_is_not_drawn_is_never_encoded(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded = []
    honest = Encoder.encode

    def counting(self: Encoder, value: str | bytes) -> bytes:
        encoded.append(value)
        return honest(self, value)

    monkeypatch.setattr(Encoder, "encode", counting)
    for number in range(2000):
        before = app.rows("SELECT report FROM pool") if number % 100 == 0 else None
        count = len(encoded)
        app.client.record("city", "Oslo")
        if before is not None:
            changed = app.rows("SELECT report FROM pool") != before
            assert len(encoded) > count or not changed
    # the number encoded is a sum of independent coins 1 / n: 8.2, standard deviation 2.6
    assert 1 <= len(encoded) <= 40


@pytest.mark.statistical
@pytest.mark.parametrize("records", [2, 3, 7])
def test_every_record_and_every_slot_is_as_likely_as_any_other(
    tmp_path: Path, records: int
) -> None:
    """Three slots; which records are in which of them is uniform over all assignments."""
    made = App(tmp_path, {"city": {"reports": 3}})
    metric = Registry.load(tmp_path / "metrics.toml").metric("city")
    file, bits, trials, seen = DeviceFile(made.path), SeededBits(b"slots"), 6000, Counter[Any]()
    with file.transaction() as connection:
        for trial in range(trials):
            for number in range(records):
                enter(connection, metric, trial, bits, partial(Report, bytes([number])))
            held = connection.execute(
                "SELECT slot, report FROM pool WHERE ends = ?", (trial,)
            ).fetchall()
            seen[tuple(sorted(held))] += 1
    kept = min(3, records)
    orders = {
        tuple(sorted((slot, bytes([n])) for slot, n in zip(slots, chosen, strict=True)))
        for chosen in permutations(range(records), kept)
        for slots in permutations(range(3), kept)
    }
    numbers = {order: i for i, order in enumerate(sorted(orders))}
    samples = np.array([numbers[order] for order, n in seen.items() for _ in range(n)])
    law = dict.fromkeys(range(len(orders)), 1 / len(orders))
    assert law_p(samples, law) > ALPHA
    late = np.array([number for order, number in numbers.items() if order[0][1] == b"\0"])
    remaining = samples[~np.isin(samples, late[: len(late) // 2])]
    assert law_p(remaining, law) < ALPHA  # the twin: an early record loses half of a slot
    file.close()


@pytest.mark.exact
def test_the_file_holds_no_value_and_no_time(app: App) -> None:
    """No column but the metric, its meaning, the slot, the report and the period's end; the time it
    remembers is the beginning of a period; what was sent keeps its day only."""
    for hour in range(5):
        app.now = NOON + timedelta(hours=hour, seconds=7 * hour)
        app.client.record("city", "Hell")
    tables = [app.rows(f"PRAGMA table_info({table})") for table in ("pool", "seen")]
    columns = {row[1] for table in tables for row in table}
    assert columns == {"metric", "version", "meaning", "ends", "slot", "report", "records", "tag"}
    midnight = round(datetime(2026, 1, 2, tzinfo=UTC).timestamp())
    assert app.rows("SELECT ends FROM pool") == [(midnight,)]
    assert app.rows("SELECT value FROM state WHERE name = 'latest'") == [(midnight - 86400,)]
    (report,) = app.rows("SELECT report FROM pool")[0]
    app.now += DAY
    app.client.upload()
    assert app.rows("SELECT not_before, body FROM batches") == [(0, None)]
    app.client.close()
    assert stat.S_IMODE(app.path.stat().st_mode) == 0o600
    held = b"".join(path.read_bytes() for path in app.folder.glob("device.ldp*"))
    assert report not in held, "what was sent is overwritten"


@pytest.mark.exact
def test_the_log_is_emptied_although_another_process_read_it(app: App) -> None:
    app.client.record("city", "Oslo")
    (report,) = app.rows("SELECT report FROM pool")[0]
    reader = sqlite3.connect(app.path)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM pool").fetchall()
    assert app.client.withdraw()
    log = app.path.with_name("device.ldp-wal")
    assert report in log.read_bytes(), "a reader kept it"
    reader.close()
    assert app.client.grant()
    assert not log.exists() or report not in log.read_bytes()
    assert report not in app.path.read_bytes()


@pytest.mark.exact
def test_a_grant_that_is_not_used_lapses(tmp_path: Path) -> None:
    """The window holds two reports and the group has three metrics. Only one of them records: it is
    sent in two days of three, although nobody else uses the allowance; never twice."""
    made = App(tmp_path, {name: {} for name in ("city", "home", "work")})
    made.client = made.open(bits=SeededBits(b"grants"))
    made.client.grant()
    sent = 0
    for _ in range(30):
        made.client.record("city", "Oslo")
        made.now += DAY
        made.client.upload()
        assert len(made.server.items) - sent in (0, 1)
        sent = len(made.server.items)
    assert sent == 16  # then the lifetime of 64 is spent
    made.client = made.open(bits=SeededBits(b"grants"))
    days = [row[0] for row in made.rows("SELECT at FROM charges")]
    assert len(set(days)) == 16
    assert (max(days) - min(days)) / 86400 > 16, "on some days another metric was granted"
    assert made.client.record("city", "Oslo").reason == "cap"  # type: ignore[union-attr]
    made.client.close()


EDITS = (
    {"city": {"reports": 2}, "home": {}},
    {"city": {"reports": 1}, "home": {"reports": 3}},
    {"city": {"group": "other", "version": 2}, "home": {}},
    {"city": {"epsilon": 0.5}, "home": {"epsilon": 1.0}},
    {"town": {"group": "other"}},
)
STEPS = st.tuples(st.integers(-100, 100), st.integers(1, 4), st.integers(0, 12))


@pytest.mark.exact
@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_a_hostile_app_never_gets_more_than_the_caps(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, int]]
) -> None:
    """Clocks that jump by hours either way, restarts at any moment, and metrics.toml edited without
    a new version: other epsilons, slots, groups and names. What left is priced by the fingerprint
    in its own header."""
    made = App(tmp_path_factory.mktemp("app"), EDITS[0])
    made.client.grant()
    prices = dict[bytes, float]()
    for hours, records, edit in steps:
        if edit < len(EDITS):
            made.client.close()
            made.write(EDITS[edit])
            made.client = made.open()
        made.now += timedelta(hours=hours)
        metrics = Registry.load(made.folder / "metrics.toml").metrics
        for name, metric in metrics.items():
            prices[metric.mechanism.fingerprint] = metric.mechanism.cost.epsilon
            for _ in range(records):
                made.client.record(name, "Oslo")
        made.client.upload()
        if edit > 10:
            made.client.close()
            made.client = made.open()
    charges = made.rows("SELECT at, times * epsilon FROM charges")
    each = "SELECT budget, metric, epsilon, {} FROM {} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    assert made.rows(each.format("sum(times)", "charges")) == made.rows(
        each.format("times", "totals")
    )
    left = sum(prices[item.report[2:10]] for item in made.server.items)
    assert left <= sum(epsilon for _, epsilon in charges) + 1e-9
    for group, cap, life in (("places", 8, 64), ("other", 4, 8)):
        own = f"SELECT at, times * epsilon FROM charges WHERE budget = '{group}'"
        spent = made.rows(own)
        assert sum(epsilon for _, epsilon in spent) <= life + 1e-9
        for end, _ in spent:
            assert sum(e for at, e in spent if end - 86400 < at <= end) <= cap + 1e-9
    waiting = [one.reports for one in made.client.sent() if one.state == "waiting"]
    dropped = [one.reports for one in made.client.sent() if one.state == "dropped"]
    sealed = len(made.server.items) + sum(sum(reports.values()) for reports in waiting + dropped)
    assert sealed == sum(times for (times,) in made.rows("SELECT times FROM charges"))
    made.client.close()


@pytest.mark.exact
def test_a_report_is_never_charged_at_another_price(app: App) -> None:
    """Recorded at epsilon 4, sealed by a registry that says 0.5 of the same version: not sent."""
    for _ in range(40):
        app.client.close()
        app.write({"city": {}})
        app.client = app.open()
        app.client.record("city", "Oslo")
        app.client.close()
        app.write({"city": {"epsilon": 0.5}})
        app.client = app.open()
        app.now += DAY
        app.client.upload()
    assert app.server.items == []


@pytest.mark.exact
def test_a_new_name_for_everything_brings_no_new_life(app: App) -> None:
    for _ in range(16):
        app.client.record("city", "Oslo")
        app.now += DAY
        app.client.upload()
    app.client.close()
    app.write({"town": {"group": "spots"}})
    path = app.folder / "metrics.toml"
    path.write_text(path.read_text().replace("[group.places]", "[group.spots]"))
    app.client = app.open()
    assert app.client.record("town", "Oslo").reason == "consent"  # type: ignore[union-attr]
    app.client.grant()
    assert app.client.remaining()["spots"] == 0
    assert app.client.record("town", "Oslo").reason == "cap"  # type: ignore[union-attr]


@pytest.mark.exact
def test_what_a_metric_that_is_gone_was_charged_counts_for_every_group(app: App) -> None:
    """A metric renamed into another group, while its old group stays in the file."""
    for _ in range(3):
        app.client.record("city", "Oslo")
        app.now += DAY
        app.client.upload()
    app.client.close()
    app.write({"town": {"group": "other"}})
    app.client = app.open()
    assert app.client.remaining() == {"places": 8.0, "other": 0.0}
    assert app.client.record("town", "Oslo").reason == "cap"  # type: ignore[union-attr]


@pytest.mark.exact
def test_a_device_has_a_cap_for_all_groups_together(tmp_path: Path) -> None:
    made = App(tmp_path, {"city": {}, "home": {"group": "other"}})
    path = tmp_path / "metrics.toml"
    path.write_text(path.read_text().replace("\n", "\nlifetime_epsilon = 13.0\n", 2))
    path.write_text(path.read_text().replace("lifetime_epsilon = 13.0\n", "", 1))
    made.client = made.open()
    assert made.client.remaining() == {"places": 8.0, "other": 4.0}
    made.client.grant()
    for _ in range(5):
        made.client.record("city", "Oslo")
        made.client.record("home", "Oslo")
        made.now += DAY
        made.client.upload()
    assert made.rows("SELECT sum(times) FROM totals") == [(3,)]
    assert max(made.client.remaining().values()) == pytest.approx(1.0)
    assert made.client.record("city", "Oslo").reason == "cap"  # type: ignore[union-attr]


@pytest.mark.exact
def test_a_cap_that_was_raised_is_not_used_before_the_owner_is_asked_again(app: App) -> None:
    def registered(old: str, new: str) -> None:
        app.client.close()
        path = app.folder / "metrics.toml"
        path.write_text(path.read_text().replace(old, new, 1))
        app.client = app.open()

    app.write({"city": {"group": "other"}})
    app.client.close()
    app.client = app.open()
    for _ in range(2):
        app.client.record("city", "Oslo")
        app.now += DAY
        app.client.upload()
    assert app.client.record("city", "Oslo").reason == "cap"  # type: ignore[union-attr]
    assert app.client.status().unasked == ()
    registered("lifetime_epsilon = 8.0", "lifetime_epsilon = 16.0")
    assert app.client.status().unasked == ("other",)
    assert app.client.record("city", "Oslo").reason == "consent"  # type: ignore[union-attr]
    assert app.client.grant()
    assert app.client.status().unasked == ()
    assert app.client.record("city", "Oslo")
    registered("lifetime_epsilon = 16.0", "lifetime_epsilon = 8.0")
    assert app.client.record("city", "Oslo").reason == "cap"  # type: ignore[union-attr]


@pytest.mark.exact
def test_a_shorter_window_gives_no_more_before_the_owner_is_asked_again(app: App) -> None:
    """Cap 8 of a day for reports of 4; halving the window would allow 16 of a day."""
    app.client.close()
    app.write({"city": {"reports": 2}})
    path = app.folder / "metrics.toml"
    path.write_text(path.read_text().replace('window = "1d"', 'window = "12h"', 1))
    app.client = app.open()
    assert app.client.status().unasked == ("places",)
    for _ in range(8):
        for _ in range(2):
            app.client.record("city", "Oslo")
        app.now += DAY / 2
        app.client.upload()
    assert app.rows("SELECT sum(times) FROM charges") == [(8,)], "two a day"


@pytest.mark.exact
def test_a_consent_from_before_caps_were_kept_stands_for_those_of_today(app: App) -> None:
    with closing(sqlite3.connect(app.path)) as connection:
        connection.execute("DELETE FROM state WHERE name = 'terms'")
        connection.commit()
    assert app.client.record("city", "Oslo")
    app.now += DAY
    app.client.upload()
    assert len(app.server.items) == 1
    assert app.rows("SELECT count(*) FROM state WHERE name = 'terms'") == [(1,)]


@pytest.mark.exact
def test_charges_follow_a_metric_into_another_group(app: App) -> None:
    for _ in range(2):
        app.client.record("city", "Oslo")
        app.now += DAY
        app.client.upload()
    assert app.client.remaining()["other"] == 4.0
    app.write({"city": {"group": "other", "version": 2}, "home": {}})
    app.client.close()
    app.client = app.open()
    assert app.client.remaining() == {"places": 8.0, "other": 0.0}
    assert app.client.record("city", "Oslo").reason == "cap"  # type: ignore[union-attr]
    assert app.client.record("home", "Oslo")


@pytest.mark.exact
def test_a_retry_repeats_the_batch_byte_for_byte(app: App) -> None:
    app.client.record("city", "Oslo")
    app.now += DAY
    app.server.down = True
    for _ in range(5):
        app.client.upload()
        app.now += timedelta(hours=7)
        app.client.close()
        app.client = app.open()
    app.server.down = False
    assert app.client.upload().acknowledged == 1
    assert len(app.server.got) == 6
    assert len(set(app.server.got)) == 1
    assert app.rows("SELECT body, state FROM batches") == [(None, "acknowledged")]
    assert app.client.upload().acknowledged == 0
    assert len(app.server.got) == 6


@pytest.mark.exact
def test_batches_that_are_too_old_or_too_many_are_dropped_and_counted(app: App) -> None:
    app.server.down = True
    app.client.record("city", "Oslo")
    app.now += DAY
    app.client.upload()
    app.now += 9 * DAY
    app.client.record("city", "Oslo")
    app.now += DAY
    app.client.upload()
    assert (app.client.status().dropped, app.client.status().waiting) == (1, 1)
    with closing(sqlite3.connect(app.path)) as connection, connection:
        for number in range(5):
            connection.execute(
                "INSERT INTO batches VALUES (?, '2026-01-11', '2026-02-11', 0, '{}', ?, 'waiting')",
                (bytes([number]), bytes(MOST_WAITING // 4)),
            )
    app.client.record("city", "Oslo")
    app.now += DAY
    app.client.upload()
    size = app.rows("SELECT sum(length(body)) FROM batches")[0][0]
    assert size <= MOST_WAITING
    assert app.client.status().dropped >= 3
    assert app.rows("SELECT sum(times) FROM charges") == [(3,)], "nothing is refunded"


@pytest.mark.exact
def test_an_old_batch_is_dropped_although_nothing_else_happens(app: App) -> None:
    app.client.record("city", "Oslo")
    app.now += DAY
    app.server.down = True
    app.client.upload()
    app.now, app.server.down = app.now + 40 * DAY, False
    assert app.client.upload().acknowledged == 0
    assert app.client.status().dropped == 1


@pytest.mark.exact
def test_one_batch_that_is_never_taken_does_not_block_the_others(app: App) -> None:
    for _ in range(6):
        app.client.record("city", "Oslo")
        app.now += DAY
        app.client.record("city", "Oslo")
    poisoned, taken = app.rows("SELECT min(id) FROM batches")[0][0], set()

    class Picky:
        def send(self, identity: bytes, body: bytes) -> int:
            if identity == poisoned:
                raise Unreachable("not that one")
            taken.add(identity)
            return 1

    app.client.close()
    app.client = app.open(destination=Picky())
    for _ in range(100):
        app.client.upload()
        app.now += timedelta(minutes=50)
    assert len(taken) == 6
    assert app.client.status().refused == 6


@pytest.mark.exact
def test_the_items_of_a_batch_are_in_random_order(tmp_path: Path) -> None:
    """Two metrics, one report each: with a free seed 30 batches would all have them in the same
    order with probability 2e-9."""
    made = App(tmp_path, {"city": {}, "home": {}})
    made.client = made.open(bits=SeededBits(b"order"))
    made.client.grant()
    for _ in range(8):
        made.client.record("city", "Oslo")
        made.client.record("home", "Oslo")
        made.now += DAY
        made.client.upload()
    batches = [Batch.from_bytes(body).items for _, body in made.server.got]
    assert {tuple(item.metric for item in items) for items in batches} == {
        ("city", "home"),
        ("home", "city"),
    }
    made.client.close()


@pytest.mark.exact
def test_failures_are_followed_by_longer_random_waits(app: App) -> None:
    app.client.record("city", "Oslo")
    app.now += DAY
    app.server.down = True
    waits = []
    for failures in range(1, 12):
        app.client.upload()
        assert len(app.server.got) == failures
        wait = app.rows("SELECT value FROM state WHERE name = 'next_try'")[0][0]
        waits.append(wait - app.now.timestamp())
        assert 0 <= waits[-1] <= min(60 * 2**failures, 6 * 3600)
        app.client.close()
        app.client = app.open()
        if waits[-1] > 1:
            app.now += timedelta(seconds=waits[-1] - 1)
            assert app.client.upload().why == "waits after a failure"
        app.now += timedelta(seconds=1)
    assert len(set(waits)) > 8
    late = app.open(jitter=timedelta(hours=5), bits=SeededBits(b"late"))
    late.record("city", "Oslo")
    app.now += DAY
    late.record("city", "Oslo")
    day = app.rows("SELECT not_before FROM batches ORDER BY not_before DESC")[0][0]
    assert 0 < day - app.now.timestamp() <= 5 * 3600
    late.close()


@pytest.mark.exact
def test_a_clock_that_was_set_back_waits(app: App) -> None:
    app.now += timedelta(days=5)
    app.client.record("city", "Oslo")
    app.now -= timedelta(days=3)
    for _ in range(3):
        app.client.record("city", "Oslo")
        app.now += DAY - timedelta(hours=1)
        app.client.upload()
        assert app.server.items == []
    app.now += DAY
    app.client.upload()
    assert len(app.server.items) == 1


@pytest.mark.exact
@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"", None])
def test_a_damaged_or_foreign_file_is_refused_and_left_alone(
    tmp_path: Path, content: bytes | None
) -> None:
    made = App(tmp_path)
    if content is None:
        with closing(sqlite3.connect(made.path)) as connection, connection:
            connection.execute("CREATE TABLE mine (x)")
    else:
        made.path.write_bytes(content)
    before = made.path.read_bytes()
    granted = made.client.grant()
    if content == b"":
        assert granted, "an empty file is nobody's"
        return
    assert not granted
    declined = made.client.record("city", "Oslo")
    assert isinstance(declined, Declined)
    assert declined.reason == "storage"
    assert "Oslo" not in declined.details
    assert made.client.status().storage
    assert made.client.remaining() == {"places": 0.0, "other": 0.0}
    assert made.client.upload().why
    assert made.client.sent() == []
    assert made.path.read_bytes() == before
    with pytest.raises(StorageError):
        made.open(strict=True).record("city", "Oslo")


@pytest.mark.exact
def test_mistakes_of_the_app_raise_only_when_it_asks_for_it(app: App) -> None:
    names: list[Any] = ["cty", "Oslo", [], None, 7]
    for name in names:
        declined = app.client.record(name, "Oslo")
        assert declined == Declined("unknown metric", "no such metric is registered")
    declined = app.client.record("city", "Trondheim")
    assert isinstance(declined, Declined)
    assert declined.reason == "value"
    assert "Trondheim" not in declined.details
    strict = app.open(strict=True)
    for metric, value in (("cty", "Oslo"), ("city", "Trondheim")):
        with pytest.raises(ParameterError):
            strict.record(metric, value)
    strict.close()


def fails(*_: Any) -> Any:
    raise RuntimeError("a value: Oslo")


@pytest.mark.exact
@pytest.mark.parametrize(
    "changes",
    [
        {"path": "x" * 300},
        {"path": "x\0y"},
        {"path": "\udc80"},
        {"path": "/proc/none/device.ldp"},
        {"clock": fails},
        {"clock": lambda: None},
        {"destination": type("Failing", (), {"send": fails})()},
        {"destination": type("Silent", (), {"send": lambda *_: None})()},
        {"bits": type("Broken", (), {"draw": fails})()},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_nothing_that_fails_reaches_the_app(
    tmp_path: Path, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some of these names are files that can be made
    made = App(tmp_path)
    made.client.grant()
    made.client.record("city", "Oslo")
    made.now += DAY
    path = changes.pop("path", made.path)
    usual = {"registry": tmp_path / "metrics.toml", "clock": lambda: made.now}
    calls: list[Callable[[Client], object]] = [
        *(Client.grant, lambda client: client.record("city", "Oslo"), Client.upload),
        *(Client.status, Client.sent, Client.remaining, Client.explain, repr),
        *(lambda client: client.consent, Client.withdraw, Client.close),
    ]
    for strict in (False, True):
        client = Client(path, **{**usual, "jitter": timedelta(0), **changes}, strict=strict)
        for call in calls:
            try:
                answer = call(client)
            except Exception:
                assert strict
            else:
                assert "Oslo" not in str(answer)
    if "destination" in changes:
        assert made.client.status().waiting == 0, "withdrawn"


@pytest.mark.exact
def test_a_destination_may_withdraw_and_a_failing_one_is_waited_for(app: App) -> None:
    app.client.record("city", "Oslo")
    app.now += DAY

    class Gone:
        calls = 0

        def send(self, identity: bytes, body: bytes) -> int:
            self.calls += 1
            if self.calls > 1:
                app.client.withdraw()
            raise TimeoutError("a plain one")

    gone = Gone()
    app.client._sender.destination = gone
    assert app.client.upload().why == "TimeoutError"
    assert app.client.upload().why in ("waits after a failure", "TimeoutError", "consent")
    app.now += timedelta(hours=6)
    app.client.upload()
    assert app.client.consent == "withdrawn"


@pytest.mark.exact
def test_a_clock_that_was_once_absurd_is_survived(app: App) -> None:
    app.client.record("city", "Oslo")
    now = app.now
    app.now = datetime(9999, 12, 31, 23, tzinfo=UTC)
    app.client.record("city", "Oslo")
    app.client.upload()
    app.now = now
    for _ in range(2):
        assert app.client.record("city", "Oslo").reason == "expired"  # type: ignore[union-attr]
        app.client.upload()
    assert app.client.status().storage == ""


@pytest.mark.exact
def test_an_interrupted_transaction_is_rolled_back_by_the_next_call(app: App) -> None:
    file = app.client._open_file()
    assert file._connection is not None
    file._connection.execute("BEGIN IMMEDIATE")
    file._connection.execute("DELETE FROM state")
    assert app.client.record("city", "Oslo")


@pytest.mark.exact
def test_a_client_stays_with_its_file_whatever_the_folder(
    app: App, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(app.folder)
    here = app.open()
    here._path = Path("device.ldp").absolute()
    relative = Client("device.ldp", registry="metrics.toml", clock=lambda: app.now)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert relative.record("city", "Oslo")
    relative.close()
    here.close()


@pytest.mark.exact
def test_a_thread_uploads_soon_and_ends_with_the_client(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "SOON", timedelta(milliseconds=20))
    app.client.record("city", "Oslo")
    app.now += DAY
    before = active_count()
    for _ in range(3):
        app.client.start()
    assert active_count() == before + 1
    for _ in range(200):
        if app.server.got:
            break
        sleep(0.02)
    assert len(app.server.items) == 1
    app.client.close()
    assert active_count() == before
    assert app.client.record("city", "Oslo") == Declined("storage", "the client is closed")
    app.client.start()
    assert active_count() == before
    for wrong in (timedelta(0), timedelta(-1)):
        with pytest.raises(ParameterError, match="longer than nothing"):
            app.client.start(wrong)
        with pytest.raises(ParameterError, match="not be negative"):
            app.open(jitter=timedelta(seconds=-1))


@pytest.mark.exact
def test_reports_that_no_batch_holds_are_refused_at_once(tmp_path: Path) -> None:
    made = App(tmp_path)
    text = (tmp_path / "metrics.toml").read_text()
    large = 'mechanism = "cms"\nrows = 4\nwidth = 16777216\n'
    path = tmp_path / "large.toml"
    path.write_text(text.replace('mechanism = "rr"\n', large).replace("categories", "#"))
    with pytest.raises(ParameterError, match="larger than any batch"):
        made.open(registry=path)
    for old, new, message in (
        ("version = 1", "version = 4294967296", "1 to 4294967295"),
        ("[metric.city]", f"[metric.{'c' * 256}]", "255 bytes at most"),
    ):
        path.write_text(text.replace(old, new))
        with pytest.raises(RegistryError, match=message):
            made.open(registry=path)


@pytest.mark.exact
def test_an_expired_metric_is_declined_and_its_last_day_is_sent(tmp_path: Path) -> None:
    made = App(tmp_path, {"city": {"expires": "2026-01-01"}})
    made.client.grant()
    assert made.client.record("city", "Oslo")
    made.now += DAY
    assert made.client.record("city", "Oslo").reason == "expired"  # type: ignore[union-attr]
    made.client.upload()
    assert len(made.server.items) == 1
    made.client.close()


@pytest.mark.exact
def test_a_new_version_of_a_metric_sends_nothing_of_the_old_one(app: App) -> None:
    app.client.record("city", "Oslo")
    app.write({"city": {"version": 2}})
    app.client.close()
    app.client = app.open()
    app.client.record("city", "Oslo")
    app.now += DAY
    app.client.upload()
    assert [item.version for item in app.server.items] == [2]


@pytest.mark.exact
def test_a_folder_has_each_batch_once_and_whole(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out")
    for _ in range(2):
        assert folder.send(b"\1" * 16, b"body") == 0
    assert [path.read_bytes() for path in (tmp_path / "out").iterdir()] == [b"body"]
    (tmp_path / "file").write_text("")
    with pytest.raises(Unreachable):
        Folder(tmp_path / "file").send(b"\1" * 16, b"body")


class Answers(BaseHTTPRequestHandler):
    """A collector that gives the answers it was told to, and keeps what it got."""

    answers: list[tuple[int, dict[str, str], bytes]]
    got: list[tuple[str, bytes]]

    def do_POST(self) -> None:
        self.got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        status, headers, body = self.answers.pop(0)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.exact
def test_a_collector_acknowledges_with_202_and_nothing_else() -> None:
    Answers.got = []
    Answers.answers = [
        (202, {}, b'{"refused": []}'),
        (202, {}, b'{"refused": [{"item": 3, "why": "expired"}]}'),
        (202, {}, b"<html>"),
        (202, {}, b'{"refused": "abc"}'),
        (202, {}, b"[" * 200_000),
        (200, {}, b'{"refused": []}'),
        (302, {"Location": "http://elsewhere.example/"}, b""),
        (409, {}, b""),
        (503, {"Retry-After": "120"}, b""),
        (429, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, b""),
    ]
    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    collector = Collector(f"http://127.0.0.1:{server.server_port}/telemetry/")
    try:
        assert [collector.send(b"", b"body") for _ in range(2)] == [0, 1]
        waits = []
        for message in (*["cannot be read"] * 3, "200", "302", "409", "503", "429"):
            with pytest.raises(Unreachable, match=message) as caught:
                collector.send(b"", b"body")
            waits.append(caught.value.retry_after)
        assert waits == [0] * 6 + [120, 0]
        assert Answers.got == [("/telemetry/v1/reports", b"body")] * 10
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    with pytest.raises(Unreachable, match="cannot be reached"):
        collector.send(b"", b"body")


@pytest.mark.exact
def test_a_collector_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte every tenth of a second would never exceed a socket's own time limit."""
    monkeypatch.setattr(destinations, "TIMEOUT_SECONDS", 0.5)
    listening = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        peer, _ = listening.accept()
        with peer, suppress(OSError):
            while True:
                peer.sendall(b"H")
                sleep(0.1)

    thread = Thread(target=drip, daemon=True)
    thread.start()
    started = monotonic()
    with pytest.raises(Unreachable, match="cannot be reached"):
        Collector(f"http://127.0.0.1:{listening.getsockname()[1]}").send(b"", b"body")
    assert monotonic() - started < 5
    listening.close()
    thread.join(5)


@pytest.mark.exact
@pytest.mark.parametrize(
    "url",
    [
        *("http://collector.example", "ftp://127.0.0.1", "collector", "", "https://[::1"),
        *("https://a..b/", f"https://{'a' * 70}.example", "https://a.example/\u00fc"),
        *("https://a.example/?key=1", "https://a.example:x/", "https://"),
    ],
)
def test_an_address_without_tls_is_refused(url: str) -> None:
    with pytest.raises(ParameterError, match="must be https"):
        Collector(url)
    Collector("https://collector.example/telemetry")


@pytest.mark.exact
def test_what_it_says_to_its_owner(app: App) -> None:
    told = app.client.explain()
    words = " ".join(told.split())
    assert "Where people ask for the weather" in told
    assert "98.3 times in 100" in told
    assert "how many is visible" in told
    assert "your other devices" in words
    assert told.endswith("Epsilon that could still be spent: places: 8, other: 4")
    app.client.close()
    assert app.open().explain() == told
    assert repr(app.client) == "<Client of weather, consent granted>"


@pytest.mark.exact
def test_a_batch_is_dated_to_the_day_of_its_sealing(app: App) -> None:
    app.client.record("city", "Oslo")
    app.now += 3 * DAY
    app.client.upload()
    (body,) = [body for _, body in app.server.got]
    assert Batch.from_bytes(body).day == app.now.date()


@pytest.mark.exact
def test_of_too_many_batches_the_oldest_are_dropped(app: App) -> None:
    app.server.down = True
    with closing(sqlite3.connect(app.path)) as connection, connection:
        for day in range(1, 7):
            connection.execute(
                "INSERT INTO batches VALUES (?, ?, '2026-02-11', 0, '{}', ?, 'waiting')",
                (bytes([day]), f"2026-01-0{day}", bytes(MOST_WAITING // 4)),
            )
    app.client.upload()
    left = app.rows("SELECT day FROM batches WHERE state = 'waiting' ORDER BY day")
    assert left == [(f"2026-01-0{day}",) for day in range(3, 7)]


@pytest.mark.statistical
def test_reports_of_two_periods_are_mixed_in_their_batch(tmp_path: Path) -> None:
    """At epsilon 8 a report tells the truth but for 7 in 10,000; in 40 devices that the first
    period's is always the first, or never, has a chance below 1e-11."""
    first = Counter[bool]()
    for number in range(40):
        folder = tmp_path / str(number)
        folder.mkdir()
        made = App(folder, {"city": {"epsilon": 8.0}})
        made.client.grant()
        for value in ("Oslo", "Bergen"):
            with made.client._open_file().transaction() as connection:
                made.client._enter(
                    connection,
                    made.client._registry.metric("city"),
                    value,
                    round(made.now.timestamp()),
                )
            made.now += DAY
        made.client.upload()
        first[made.server.items[0].report[-1] == 0] += 1
        made.client.close()
    assert set(first) == {True, False}


@pytest.mark.exact
def test_a_collector_that_says_when_is_not_asked_before(app: App) -> None:
    app.client.record("city", "Oslo")
    app.now += DAY

    class Later(Memory):
        def send(self, identity: bytes, body: bytes) -> int:
            super().send(identity, body)
            raise Unreachable("later", retry_after=3000.0)

    app.client._sender.destination = later = Later()
    app.client.upload()
    app.now += timedelta(seconds=2999)
    assert app.client.upload().why == "waits after a failure"
    app.now += timedelta(seconds=1)
    app.client.upload()
    assert len(later.got) == 2
