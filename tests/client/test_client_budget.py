"""A client spends no more than it may, whatever app, registry and clock do
(docs/device-protocol.md)."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp.client import charges
from ldp.client.device_file import DeviceFile, totals
from ldp.protocol.randomness import SeededBits
from ldp.registry import Registry
from tests.devices import DAY, App


@pytest.mark.exact
def test_a_grant_that_is_not_used_lapses(tmp_path: Path) -> None:
    """A window holds two reports, and the group has three metrics, of which only one records.

    That metric sends in two of three days, although no other metric uses the allowance, and never
    twice a day.
    """
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


@pytest.mark.slow
@pytest.mark.exact
@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_a_hostile_app_never_gets_more_than_the_caps(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, int]]
) -> None:
    """Clocks jump by hours either way, the client restarts at any moment, and metrics.toml changes.

    Edits without a new version change epsilons, slots, groups and names. What left is priced by the
    fingerprint in its own header.
    """
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
    spent = made.rows("SELECT at, times * epsilon FROM charges")
    each = "SELECT budget, metric, epsilon, {} FROM {} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    assert made.rows(each.format("sum(times)", "charges")) == made.rows(
        each.format("times", "totals")
    )
    left = sum(prices[item.report[2:10]] for item in made.server.items)
    assert left <= sum(epsilon for _, epsilon in spent) + 1e-9
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
    """A report of epsilon 4 is not sent if a registry says 0.5 of the same version when it is
    sealed."""
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
    """A metric moves to another group under a new name, while its old group stays in the file."""
    for _ in range(3):
        app.client.record("city", "Oslo")
        app.now += DAY
        app.client.upload()
    app.client.close()
    app.write({"town": {"group": "other"}})
    app.client = app.open()
    assert app.client.remaining() == {"places": 8.0, "other": 0.0}
    app.client.grant()
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
def test_totals_are_read_again_after_a_charge(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction reads them once, and what it charges or forgets shows at once."""
    metric = Registry.load(app.folder / "metrics.toml").metrics["city"]
    monkeypatch.setattr(charges, "MOST_WINDOWS", 1)
    with DeviceFile(app.path).transaction() as connection:
        for number in range(1, 4):
            charges.charge(connection, "places", metric, number, 1, (number - 1, number))
            assert totals(connection) == [("places", "city", 4.0, number, max(0, number - 2))]
            charges.mark_sealed(connection, "places", number)
            assert totals(connection) == [("places", "city", 4.0, number, number - 1)]


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
    """The cap is 8 a day for reports of 4; halving the window would allow 16 a day."""
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
def test_a_new_metric_of_a_group_that_was_agreed_to_waits_for_a_consent(app: App) -> None:
    app.write({"city": {}, "town": {}})
    app.client.close()
    app.client = app.open()
    assert app.client.status().unasked == ("town",)
    assert app.client.record("town", "Oslo").reason == "consent"  # type: ignore[union-attr]
    assert app.client.record("city", "Oslo")
    app.client.grant()
    assert app.client.status().unasked == ()
    assert app.client.record("town", "Oslo")


@pytest.mark.exact
def test_a_new_metric_with_a_groups_name_does_not_ask_for_the_group(app: App) -> None:
    app.write({"city": {"group": "other"}})
    app.client.close()
    app.client = app.open()
    for _ in range(2):
        app.client.record("city", "Oslo")
        app.now += DAY
        app.client.upload()
    app.write({"city": {"group": "other"}, "other": {}})
    app.client.close()
    app.client = app.open()
    assert app.client.status().unasked == ("other",)
    assert app.client.record("city", "Oslo").reason == "cap"  # type: ignore[union-attr]


@pytest.mark.exact
def test_a_consent_from_before_metrics_were_kept_stands_for_those_of_today(app: App) -> None:
    with closing(sqlite3.connect(app.path)) as connection:
        connection.execute(
            "UPDATE state SET value = json_remove(value, '$.metrics') WHERE name = 'terms'"
        )
        connection.commit()
    assert app.client.record("city", "Oslo")
    app.now += DAY
    app.client.upload()
    assert len(app.server.items) == 1
    app.write({"city": {}, "town": {}})
    app.client.close()
    app.client = app.open()
    assert app.client.record("town", "Oslo").reason == "consent"  # type: ignore[union-attr]


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
    app.client.grant()
    assert app.client.record("home", "Oslo")
