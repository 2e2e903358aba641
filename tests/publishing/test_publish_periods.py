"""Periods may have any number of days.

Tested are where they begin and which windows they may not cut, and devices that each send one
report for a window in which they were used.
"""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp.client.testing import Clock, Device, Memory
from ldp.collection.store import ReportWriter
from ldp.decoding import decode
from ldp.protocol.batch import Batch
from ldp.protocol.wire import split_report
from ldp.publishing import Job, Publication, opened, publish
from ldp.publishing.publish import are_whole, counted_periods, first_day
from ldp.publishing.subjects import Subject
from ldp.registry import Registry
from ldp.simulation.bulk_reports import as_bytes
from ldp.tables.table import Table
from simulations.publish import HEAD, METRIC, START
from tests.command_line import run
from tests.publications import rows

GROUPS = {"daily": "1d", "weekly": "7d", "monthly": "30d"}
REGISTRY = '[product]\nname = "maps"\n' + "".join(
    f"""
[group.{name}]
window = "{window}"
window_epsilon = 1.0
lifetime_epsilon = 1000.0
[metric.{name}]
version = 1
group = "{name}"
description = "Since when the app is used"
owners = ["team@example.org"]
expires = 2999-12-31
mechanism = "rr"
epsilon = 1.0
categories = ["new", "old"]
"""
    for name, window in GROUPS.items()
)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "metrics.toml").write_text(REGISTRY)
    return Registry.load(tmp_path / "metrics.toml")


def published(registry: Registry, period: str, today: date) -> Publication:
    out = Path(period)
    job = Job(registry=registry, stores=[Path("store")], out=out, today=today, period=period)
    with opened(out, period) as lock:
        return publish(job, lock)


@pytest.mark.exact
@pytest.mark.parametrize("length", [2, 7, 28, 30, 365])
def test_a_period_begins_at_a_multiple_of_its_length_since_1970(length: int) -> None:
    """Windows of devices begin likewise; the days of a period are all those with its first day."""
    first = date(1970, 1, 1) + timedelta(days=20_454 // length * length)
    for day in range(length):
        assert first_day(first + timedelta(days=day), f"{length}d") == first
    assert first_day(first + timedelta(days=length), f"{length}d") == first + timedelta(days=length)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("window", "period", "is_whole"),
    [
        (timedelta(days=7), "7d", True),
        (timedelta(days=7), "28d", True),
        (timedelta(days=7), "30d", False),
        (timedelta(days=7), "week", False),  # windows begin on Thursdays
        (timedelta(days=30), "28d", False),
        (timedelta(days=30), "7d", False),
        (timedelta(hours=36), "3d", True),
        (timedelta(hours=36), "2d", False),
        (timedelta(days=1), "30d", True),
        (timedelta(minutes=30), "week", True),
    ],
)
def test_which_periods_hold_whole_windows(window: timedelta, period: str, is_whole: bool) -> None:
    assert are_whole(window, period) == is_whole
    days = 7 if period == "week" else int(period[:-1])
    start = first_day(date(2026, 2, 1), period)
    ends = [datetime(start.year, start.month, start.day, tzinfo=UTC).timestamp()]
    ends.append(ends[0] + 86_400 * days)
    assert is_whole == (
        window <= timedelta(days=1) or not any(e % window.total_seconds() for e in ends)
    )


@pytest.mark.exact
def test_the_most_reports_of_a_person_are_those_of_the_whole_windows(registry: Registry) -> None:
    for metric, days, most in (
        ("daily", 1, 1),
        ("daily", 30, 30),
        ("weekly", 7, 1),
        ("weekly", 28, 4),
        ("monthly", 30, 1),
        ("monthly", 60, 2),
    ):
        assert Subject.of_registry(registry, metric, days).reports_per_person[0] == most
    assert counted_periods(1, "30d") == "1 period of 30 days"
    assert counted_periods(2, "30d") == "2 periods of 30 days"
    assert counted_periods(2, "week") == "2 weeks"


def reports_of(registry: Registry, uses: list[set[int]], days: int) -> Counter[tuple[str, date]]:
    """Write reports that devices send, and return them counted by metric and day.

    The devices are used on these days from 2026-01-07 on, which begins a window of 30 days.
    """
    sent = Counter[tuple[str, date]]()
    for number, used in enumerate(uses):
        memory, clock = Memory(), Clock(datetime(2026, 1, 7, 9, tzinfo=UTC))
        folder = Path(f"device-{number}")
        folder.mkdir()
        seed = f"{number}".encode()
        with Device(
            folder, registry=registry, destination=memory, clock=clock, seed=seed
        ) as device:
            for day in range(days):
                if day in used:
                    for name in ("weekly", "monthly", "weekly"):
                        device.client.record(name, "new")
                    device.client.upload()
                clock.advance(timedelta(days=1))
        for place, body in enumerate(memory.batches.values()):
            batch = Batch.from_bytes(body)
            for item in batch.items:
                sent[item.metric, batch.day] += 1
                mechanism: Any = registry.metric(item.metric).mechanism
                row, payload = split_report(item.report, mechanism.header, mechanism.layout)
                part = f"{number}-{place}"
                with ReportWriter(
                    Path("store"), item.metric, 1, mechanism, batch.day, part
                ) as file:
                    file.write(np.array([row]), np.frombuffer(payload, np.uint8)[None, :])
    return sent


@pytest.mark.exact
def test_the_number_of_reports_is_that_of_devices_used_in_the_window_before(
    registry: Registry,
) -> None:
    """Twelve devices are used every few days, some only for a while.

    The row of a period counts devices that were used in the window before, and ran again in it. A
    device that ran once is counted nowhere.
    """
    days, every = 121, [1, 2, 3, 5, 8, 13, 21, 34]
    uses = [set(range(0, days, step)) for step in every]
    uses += [{4}, {4, 31}, {4, 75}, {29, 30, 59, 60, 100}]
    sent = reports_of(registry, uses, days)
    for name, length in (("weekly", 7), ("monthly", 30)):
        start, wanted = date(2026, 1, 7), Counter[date]()
        offset = (start - date(1970, 1, 1)).days
        for used in uses:
            windows = sorted({(offset + day) // length for day in used})
            for _, back in pairwise(windows):
                wanted[date(1970, 1, 1) + timedelta(days=back * length)] += 1
        counted = Counter[date]()
        for (metric, day), number in sent.items():
            if metric == name:
                counted[first_day(day, f"{length}d")] += number
        assert counted == wanted
        result = published(registry, f"{length}d", start + timedelta(days=days + 30))
        periods = {c.period: c.reports for c in result.counted if c.metric == name}
        assert periods == wanted
        assert {row["days"] for row in rows(Path(f"{length}d"))} == {length}
    (problem,) = published(registry, "28d", date(2026, 6, 1)).problems
    assert problem.metric == "monthly"
    assert problem.text == (
        "its windows of 30 days are cut by periods of 28 days, so people would count twice or not "
        'at all; nothing of it is counted: publish it with period = "30d" or a multiple, in '
        "another folder for --out"
    )


@pytest.mark.exact
def test_the_command_takes_days_and_chosen_metrics(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("people.csv").write_text("value,count\nnew,600\nold,400\n")
    for name, day in (("weekly", "2026-01-08"), ("monthly", "2026-01-10")):
        words = f"simulate {name} --registry metrics.toml --population people.csv"
        assert run(f"{words} --reports store --day {day} --seed 1", monkeypatch) == 0
    capsys.readouterr()
    publish_all = "publish --registry metrics.toml --store store"
    assert run(f"{publish_all} --out w --period 7d --metric weekly", monkeypatch) == 0
    assert "weekly v1 2026-01-08: 1,000 reports" in capsys.readouterr().out
    assert run(f"{publish_all} --out m --period 30d --metric monthly", monkeypatch) == 0
    assert "1 period of 30 days counted -> m" in capsys.readouterr().out
    assert run(f"{publish_all} --out w --period 14d --metric weekly", monkeypatch) == 2
    assert "was made with another period" in capsys.readouterr().err
    assert run(f"{publish_all} --out x --period week", monkeypatch) == 2
    said = capsys.readouterr().err
    assert "weekly: its windows of 7 days are cut by periods of 7 days from Monday" in said
    assert "monthly: its windows of 30 days are cut" in said
    assert run(f"{publish_all} --out x --metric week", monkeypatch) == 2
    assert "no metric 'week'" in capsys.readouterr().err
    for wrong in ("month", "0d", "3w", "28", "-7d", "99999d"):
        assert run(f"{publish_all} --out x --period {wrong}", monkeypatch) == 2
        assert "day, week, or a number of days such as 28d" in capsys.readouterr().err
    assert run(f"{publish_all} --out d --period 1d", monkeypatch) == 0
    assert "2 days counted -> d" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.statistical
def test_intervals_hold_where_reports_of_a_person_share_a_permanent_response(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """60 days of 200 people who report ten times a day; nine in ten of 240 intervals hold.

    Of independent intervals fewer would with probability 2e-3; the seed is fixed. The twin decodes
    the kept tables as if all noise were new, and less than two in three hold.
    """
    keys = 'mechanism = "memoised-rr"\nepsilon = 1.9\nlifetime_epsilon = 2.0\n'
    keys += 'memoise = "per-value"\nreports_per_window = 10\ncategories = ["a", "b", "c", "d"]'
    text = METRIC.format(name="m", version=1, about="a letter", keys=keys)
    monkeypatch.chdir(tmp_path)
    Path("metrics.toml").write_text(HEAD + text, "utf-8")
    registry, random = Registry.load("metrics.toml"), np.random.default_rng(52)
    mechanism: Any = registry.metric("m").mechanism
    first, both = float(mechanism.permanent_channel.touched), float(mechanism.channel.touched)
    lie = (1 - first) / 3
    again = (both - lie) / (first - lie)
    held = [random.choice(4, 200, p=(0.6, 0.2, 0.15, 0.05)) for _ in range(60)]
    for day, values in enumerate(held):
        sent = values
        for keep, times in ((first, 1), (again, 10)):
            sent = np.repeat(sent, times)
            other = (sent + random.integers(1, 4, sent.size)) % 4
            sent = np.where(random.random(sent.size) < keep, sent, other)
        at = START + timedelta(days=day)
        with ReportWriter(Path("store"), "m", 1, mechanism, at, "a") as writer:
            writer.write(np.zeros(sent.size, np.uint32), as_bytes(sent, mechanism.layout))
    assert not published(registry, "day", START + timedelta(days=60)).problems
    holds, twin = list[bool](), list[bool]()
    printed = {(row["period"], row["value"]): row for row in rows(Path("day"))}
    for day, values in enumerate(held):
        period, truth = START + timedelta(days=day), 10 * np.bincount(values, minlength=4)
        for value, true in zip("abcd", truth, strict=True):
            row = printed[period, value]
            holds.append(row["low"] <= true <= row["high"])
        table = Table.load(f"day/tables/m/v1/{period}.0.table")
        low, high = decode(table).interval()
        twin += [*(low <= truth) & (truth <= high)]
    assert np.mean(holds) > 0.9
    assert np.mean(twin) < 0.65
