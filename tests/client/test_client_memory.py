"""The client's memoised metrics, hidden presence and witness follow docs/device-protocol.md."""

import os
import stat
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ldp.client import ParameterError, Rappor
from ldp.client.responses import AccountSecret, SecretFile, _key
from ldp.registry import Metric
from tests.devices import DAY
from tests.memoising_devices import BASIC, EPOCH, EPOCH_BEGINS, PRICE, RR, Home

BLOOM = 'scheme = "polynomial"\nbits = 16\nhashes = 2\ncohorts = 64'


PER_VALUE = BASIC + 'memoise = "per-value"\n'


@pytest.mark.exact
def test_the_first_record_of_an_epoch_is_the_only_one_that_is_told(home: Any) -> None:
    """All reports of an epoch are one response, whatever is recorded later and after any restart.

    The next epoch is new. There are twelve devices, so that luck cannot help.
    """
    seen = Counter[bool]()
    for _ in range(12):
        one = home(EPOCH, reports=2)
        one.now = EPOCH_BEGINS + timedelta(hours=12)
        for values in (["Oslo"], ["Bergen", "Bergen"], [], ["Bergen"]):
            assert all(one.day(*values))
            one.restart()
        assert len(one.payloads) == 4
        assert len(set(one.payloads)) == 1
        assert one.spent == pytest.approx(PRICE)
        one.day("Bergen")
        assert one.spent == pytest.approx(2 * PRICE)
        seen[one.payloads[-1] == one.payloads[0]] += 1
    assert seen[False] > 0


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("memoise", ["epoch", "per-value"])
def test_an_epoch_tells_of_its_first_value(home: Any, memoise: str) -> None:
    """The bit of the first value is 1 with probability 7/8, that of a later one with 1/8.

    So more than half of 30 devices show the first and not the second, except with probability 8e-7.
    The twin memoises per value and shows the second, except with probability 7e-7.
    """
    first, later = 0, 0
    how = BASIC.replace("0.5", "0.25") + f'memoise = "{memoise}"\n'
    for _ in range(30):
        one = home(how + 'epoch = "4d"\n' * (memoise == "epoch"))
        one.now = EPOCH_BEGINS + timedelta(hours=12)
        one.day("Oslo")
        one.day("Bergen")
        first += one.payloads[-1][0] & 1
        later += one.payloads[-1][0] >> 1 & 1
        one.client.close()
    assert (first > 15 >= later) == (memoise == "epoch"), (first, later)


@pytest.mark.exact
def test_a_value_that_returns_has_the_response_it_had_and_costs_nothing(home: Any) -> None:
    one = home(PER_VALUE)
    for value in ("Oslo", "Bergen", "Oslo", "Oslo", "Bergen"):
        one.day(value)
        one.restart()
    oslo, bergen, *later = one.payloads
    assert later == [oslo, oslo, bergen]
    assert one.spent == pytest.approx(2 * PRICE)
    assert one.rows("SELECT count(*), min(length(tag)) FROM cells") == [(2, 16)]


@pytest.mark.exact
def test_a_metric_stops_for_all_values_once_a_new_one_would_not_fit(home: Any) -> None:
    one = home(PER_VALUE, lifetime=1.9 * PRICE)
    one.day("Oslo")
    answers = one.day("Oslo") + one.day("Bergen")
    assert [answer.reason for answer in answers] == ["cap", "cap"]
    assert len(one.payloads) == 1


@pytest.mark.exact
def test_slots_are_granted_as_if_every_value_were_new(home: Any) -> None:
    one = home(PER_VALUE, reports=3, window=2.5 * PRICE)
    for _ in range(2):
        one.day("Oslo", "Oslo", "Oslo")
    assert len(one.payloads) == 4
    assert one.spent == pytest.approx(PRICE)


@pytest.mark.exact
def test_an_epoch_that_is_paid_goes_on_when_the_life_is_spent(home: Any) -> None:
    one = home(EPOCH, lifetime=1.5 * PRICE)
    one.now = EPOCH_BEGINS + timedelta(hours=12)
    answers = [one.day("Oslo")[0] for _ in range(6)]
    assert [bool(answer) for answer in answers] == [True] * 4 + [False] * 2
    assert len(one.payloads) == 4


@pytest.mark.exact
def test_the_secret_is_the_owners_alone_and_goes_with_a_withdrawal(home: Any) -> None:
    one = home(PER_VALUE)
    path = one.path.with_name("device.ldp.secret")
    assert not path.exists(), "made when it is first needed"
    one.day("Oslo")
    first = path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(first) == 32
    assert first not in one.path.read_bytes()
    assert first.hex() not in repr(vars(one.client)) + repr(one.client._secret.read())
    one.client.withdraw()
    assert not path.exists()
    assert one.spent == pytest.approx(PRICE)
    one.client.grant()
    one.day("Oslo")
    assert path.read_bytes() != first
    assert one.spent == pytest.approx(2 * PRICE), "under another secret it is another response"


@pytest.mark.exact
def test_a_withdrawal_forgets_what_an_epoch_froze_and_silences_it(home: Any) -> None:
    """What was revealed stays charged once; the next epoch is new."""
    one = home(EPOCH)
    one.now = EPOCH_BEGINS + timedelta(hours=12)
    one.day("Oslo")
    one.client.withdraw()
    assert one.rows("SELECT length(response) FROM frozen") == [(0,)]
    one.client.grant()
    (answer,) = one.day("Bergen")
    assert (answer.reason, "after the withdrawal" in answer.details) == ("cap", True)
    assert (len(one.payloads), one.spent) == (1, pytest.approx(PRICE))
    one.now += 3 * DAY
    assert one.day("Bergen")[0]
    assert (len(one.payloads), one.spent) == (2, pytest.approx(2 * PRICE))


@pytest.mark.exact
def test_what_was_frozen_and_never_told_is_forgotten_by_a_withdrawal(home: Any) -> None:
    one = home(EPOCH)
    one.client.record("city", "Oslo")
    one.client.withdraw()
    assert one.rows("SELECT * FROM frozen") == []
    one.client.grant()
    assert one.day("Bergen")[0]


@pytest.mark.exact
def test_devices_of_one_account_give_one_response(home: Any) -> None:
    """A withdrawal keeps what was charged about the response."""
    devices = [home(PER_VALUE) for _ in range(8)]
    for one in devices:
        one.restart(secret=b"an account's own")
        one.day("Oslo")
        assert not one.path.with_name("device.ldp.secret").exists()
    assert len({payload for one in devices for payload in one.payloads}) == 1
    one.client.withdraw()
    one.client.grant()
    one.day("Oslo")
    assert one.payloads[0] == one.payloads[1]
    assert one.spent == pytest.approx(PRICE)
    with pytest.raises(ParameterError, match="16 or more"):
        one.open(secret=b"short")


@pytest.mark.exact
def test_two_products_of_one_account_share_no_secret() -> None:
    weather, again, news = (
        AccountSecret(b"an account's own", product).read()
        for product in ("weather", "weather", "news")
    )
    assert bytes(weather) == bytes(again) != bytes(news)


@pytest.mark.exact
def test_two_metrics_and_two_versions_of_one_secret_share_no_noise(tmp_path: Path) -> None:
    made = Home(tmp_path, PER_VALUE.replace("0.5", "0.9"))
    metrics = dict(made.client._registry.metrics)
    city = metrics["city"]
    others = [
        city._replace(name="town"),
        city._replace(version=2),
        city._replace(mechanism=Rappor(**{**vars_of(city), "f": 0.875})),
    ]
    keys = {_key(bytes(32), purpose, m) for purpose in ("tag", "response") for m in [city, *others]}
    assert len(keys) == 8


def vars_of(metric: Metric) -> dict[str, Any]:
    parameters = metric.mechanism.parameters()
    return {key: value for key, value in parameters.items() if key != "mechanism"}


@pytest.mark.exact
def test_a_lost_secret_is_charged_anew_and_a_damaged_one_declines(home: Any) -> None:
    one = home(PER_VALUE)
    path = one.path.with_name("device.ldp.secret")
    one.day("Oslo")
    path.unlink()
    one.day("Oslo")
    assert one.spent == pytest.approx(2 * PRICE)
    path.write_bytes(b"short")
    (answer,) = one.day("Oslo")
    assert (answer.reason, "damaged" in answer.details) == ("storage", True)


@pytest.mark.exact
def test_what_was_recorded_under_another_memoisation_is_never_sent(home: Any) -> None:
    one = home(PER_VALUE)
    one.client.record("city", "Oslo")
    one.how = BASIC
    one.write({"city": {}})
    one.restart()
    one.day()
    assert one.payloads == []
    assert one.spent == 0


@pytest.mark.exact
def test_an_epoch_of_another_length_is_another_meaning(home: Any) -> None:
    """The epoch's length changes within an epoch, without a new version; older records are not
    sent."""
    one = home(EPOCH, reports=2)
    one.now = EPOCH_BEGINS + timedelta(hours=12)
    one.client.record("city", "Oslo")
    one.how = EPOCH.replace("4d", "2d")
    one.write({"city": {}})
    one.restart()
    one.day("Bergen")
    assert len(one.payloads) == 1
    assert one.spent == pytest.approx(PRICE)


@pytest.mark.exact
def test_an_update_that_is_rolled_back_goes_on_with_what_was_frozen(home: Any) -> None:
    """Version 2 has shorter epochs, but what version 1 froze outlives its seals."""
    for _ in range(8):
        one = home(EPOCH.replace("4d", "8d"), reports=2)
        one.now = datetime(2026, 1, 3, 12, tzinfo=UTC)  # 8 days begin at 20456 = 2026-01-03
        one.day("Oslo")
        for how, value in ((EPOCH.replace("4d", "1d"), "Oslo"), (one.how, "Bergen")):
            one.how = how
            one.write({"city": {}})
            one.restart()
            one.day(value)
        assert one.payloads[0] == one.payloads[-1]
        assert one.spent == pytest.approx(2 * PRICE)
        one.client.close()


@pytest.mark.exact
def test_two_versions_do_not_both_tell_of_one_window(home: Any) -> None:
    """Both freeze a value of one day, and the second is sent.

    After the update is rolled back, the first tells of a later day instead.
    """
    for _ in range(8):
        one = home(EPOCH.replace("4d", "8d"))
        one.now = datetime(2026, 1, 3, 12, tzinfo=UTC)
        one.client.record("city", "Oslo")
        first, one.how = one.how, EPOCH.replace("4d", "1d")
        one.write({"city": {}})
        one.restart()
        one.day("Oslo")
        frozen = "SELECT count(*) FROM frozen WHERE NOT charged"
        assert one.rows(frozen) == [(0,)], "the first version froze a value of the same day"
        one.how = first
        one.write({"city": {}})
        one.restart()
        one.day("Bergen")
        assert one.spent == pytest.approx(2 * PRICE)
        one.client.close()


@pytest.mark.exact
def test_an_epoch_keeps_its_cohort(home: Any) -> None:
    """With 64 cohorts, all reports of an epoch name one cohort, also after restarts."""
    how = EPOCH.replace('scheme = "identity"\ncategories = ["Oslo", "Bergen", "none"]', BLOOM)
    one = home(how)
    one.now = EPOCH_BEGINS + timedelta(hours=12)
    for _ in range(4):
        one.day("Oslo")
        one.restart()
    assert len(set(one.payloads)) == 1


@pytest.mark.exact
def test_no_copy_of_the_secret_survives_a_withdrawal(home: Any) -> None:
    """A process that was killed while it made a copy leaves none either."""
    one = home(PER_VALUE)
    one.day("Oslo")
    left = one.path.with_name("device.ldp.secret.new")
    left.write_bytes(bytes(32))
    one.client.withdraw()
    assert not list(one.folder.glob("device.ldp.secret*"))


@pytest.mark.exact
def test_a_consent_after_a_withdrawal_that_could_not_be_written_sends_nothing_old(
    home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = home(RR)
    one.server.down = True
    one.day("Oslo")
    with monkeypatch.context() as patch:
        patch.setattr("ldp.client.runtime.remember", _fails)
        assert not one.client.withdraw()
    assert one.client.consent == "withdrawn"
    assert one.client.grant()
    one.server.down, before = False, len(one.server.got)
    one.now += DAY
    one.client.upload()
    assert len(one.server.got) == before


def _fails(*_: Any) -> None:
    raise OSError("the disk is full")


@pytest.mark.exact
def test_a_new_secret_is_on_the_disk_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut takes it back, and everything is charged again."""
    path, named = tmp_path / "device.secret", list[bool]()
    folder, sync = os.open(tmp_path, os.O_RDONLY), os.fsync

    def watched(handle: int) -> None:
        if os.path.sameopenfile(handle, folder):
            named.append(path.exists())
        sync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    secret = SecretFile(path).read()
    os.close(folder)
    assert named == [True]
    assert SecretFile(path).read() == secret
