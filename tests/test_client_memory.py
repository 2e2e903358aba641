"""The client's memoised metrics, hidden presence, and witness: docs/device-protocol.md."""

import shutil
import sqlite3
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

from ldp import RandomizedResponse
from ldp.client import ParameterError, Rappor, runtime
from ldp.client.device_file import StorageError
from ldp.client.memoisation_modes import Fresh, HiddenFresh
from ldp.client.responses import Report, Responses, _key
from ldp.client.sealing import MOST_PERIODS, Sealer
from ldp.client.witness import NoWitness, Witness
from ldp.protocol.batch import Batch
from ldp.protocol.channel import exact_log
from ldp.protocol.hashing import Value
from ldp.registry import Metric, Registry
from tests.devices import DAY
from tests.memoising_devices import CITIES, EPOCH_BEGINS, Home

BASIC = """mechanism = "rappor"
scheme = "identity"
categories = ["Oslo", "Bergen", "none"]
f = 0.5
p = 0.0
q = 1.0
"""
"""No instantaneous noise: a report is the permanent response itself."""
BLOOM = 'scheme = "polynomial"\nbits = 16\nhashes = 2\ncohorts = 64'
RR = 'mechanism = "rr"\nepsilon = 2.0\ncategories = ["Oslo", "Bergen", "none"]\n'
PER_VALUE = BASIC + 'memoise = "per-value"\n'
EPOCH = BASIC + 'memoise = "epoch"\nepoch = "4d"\n'
HIDDEN = 'presence = "hidden"\n'
PRICE = Rappor(bits=3, f=0.5, p=0, q=1, scheme="identity", categories=CITIES).cost.lifetime


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Callable[..., Home]]:
    made: list[Home] = []

    def make(how: str, **changes: Any) -> Home:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Home(folder, how, **changes))
        return made[-1]

    yield make
    for one in made:
        one.client.close()


@pytest.mark.exact
def test_the_first_record_of_an_epoch_is_the_only_one_that_is_told(home: Any) -> None:
    """Twelve devices, so that no luck helps: reports of an epoch are all one response, whatever was
    recorded later and however often the client restarted; the next epoch is new."""
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


@pytest.mark.statistical
def test_an_epoch_tells_of_its_first_value(home: Any) -> None:
    """The bit of the first value is 1 with probability 3/4, that of a later one with 1/4: that as
    many of 60 devices show the second has a chance below 1e-8."""
    first, later = 0, 0
    for _ in range(60):
        one = home(EPOCH)
        one.now = EPOCH_BEGINS + timedelta(hours=12)
        one.day("Oslo")
        one.day("Bergen")
        first += one.payloads[-1][0] & 1
        later += one.payloads[-1][0] >> 1 & 1
        one.client.close()
    assert first > later, (first, later)


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
    """What was told stays told and charged once; the next epoch is new."""
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
    """And a withdrawal keeps what was charged about it."""
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
def test_two_metrics_and_two_versions_of_one_secret_share_no_noise(tmp_path: Path) -> None:
    made = Home(tmp_path, PER_VALUE.replace("0.5", "0.9"))
    metrics = dict(made.client._registry.metrics)
    city = metrics["city"]
    others = [
        Metric(**{**vars(city), "name": "town"}),
        Metric(**{**vars(city), "version": 2}),
        Metric(**{**vars(city), "mechanism": Rappor(**{**vars_of(city), "f": 0.875})}),
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
    """Edited in the middle without a new version: what was recorded before is not sent."""
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
    """Version 2 has shorter epochs; what version 1 froze outlives its seals."""
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
    """Both freeze a value of one day; the second is sent. Once the update is rolled back the first
    tells of a later day, not of that one."""
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
    """64 cohorts: all reports of an epoch name one, also after restarts."""
    how = EPOCH.replace('scheme = "identity"\ncategories = ["Oslo", "Bergen", "none"]', BLOOM)
    one = home(how)
    one.now = EPOCH_BEGINS + timedelta(hours=12)
    for _ in range(4):
        one.day("Oslo")
        one.restart()
    assert len(set(one.payloads)) == 1


@pytest.mark.exact
def test_no_copy_of_the_secret_survives_a_withdrawal(home: Any) -> None:
    """Also not the one of a process that was killed while it made one."""
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


# Hidden presence


@pytest.mark.exact
def test_hidden_periods_without_a_grant_share_nothing(home: Any) -> None:
    """The budget holds one epoch; in the twelve after it every report is drawn afresh: that in each
    of them all four are alike has a chance below 1e-17."""
    one = home(EPOCH + HIDDEN, lifetime=1.1 * PRICE)
    one.now = EPOCH_BEGINS
    one.client.withdraw()
    one.client.grant()
    for _ in range(52):
        one.day("Oslo")
    assert one.spent == pytest.approx(PRICE)
    epochs = [one.payloads[4 * i : 4 * i + 4] for i in range(13)]
    assert len(set(epochs[0])) == 1
    assert any(len(set(epoch)) > 1 for epoch in epochs[1:])


PUBLIC = """
[group.streets]
window = "1d"
window_epsilon = 8.0
lifetime_epsilon = 64.0
[metric.street]
version = 1
group = "streets"
description = "Which streets people look for"
owners = ["team@example.org"]
expires = 2099-12-31
mechanism = "rr"
epsilon = 2.0
categories = ["Main", "High"]
"""


@pytest.mark.exact
@pytest.mark.parametrize("ahead", [0, 5])
def test_hidden_a_record_moves_nothing_that_is_sent(home: Any, ahead: int) -> None:
    """Beside a public metric, and with a clock that was days ahead for a moment: number, days and
    sizes of what is sent, and the charges, are those of a device that recorded nothing hidden."""

    def lived(records: bool) -> tuple[Any, ...]:
        one = home(RR + HIDDEN)
        with (one.folder / "metrics.toml").open("a") as file:
            file.write(PUBLIC)
        one.restart(jitter=timedelta(0))
        one.client.upload()
        one.client.record("street", "Main")
        one.now += 3 * DAY + ahead * DAY
        if records:
            one.client.record("city", "Oslo")
        one.now -= ahead * DAY
        for _ in range(5):
            one.now += 2 * DAY
            one.client.upload()
        sent = [Batch.from_bytes(body) for _, body in one.server.got]
        shape = [(batch.day, sorted(item.metric for item in batch.items)) for batch in sent]
        return shape, one.spent

    assert lived(records=True) == lived(records=False)


@pytest.mark.exact
@pytest.mark.parametrize(("how", "life"), [(RR, 20), (EPOCH, 5)], ids=["fresh", "epoch"])
def test_hidden_every_period_sends_the_same_number(home: Any, how: str, life: float) -> None:
    """Whatever was recorded, and also when nothing can be spent any more."""
    one = home(how + HIDDEN, reports=3, window=6, lifetime=life)
    for values in ([], ["Oslo"], ["Bergen"] * 9, []) * 6:
        one.day(*values)
    counts = Counter(Batch.from_bytes(body).day for _, body in one.server.got)
    assert len(one.server.items) == 3 * 24
    assert set(counts.values()) == {1}
    assert life - PRICE < one.spent <= life, "the cap was reached"


@pytest.mark.exact
def test_hidden_periods_are_sealed_by_uploads_only_and_at_most_thirty(home: Any) -> None:
    one = home(RR + HIDDEN)
    one.now += 2 * DAY
    one.client.record("city", "Oslo")
    assert one.rows("SELECT count(*) FROM batches") == [(0,)]
    one.now += 40 * DAY
    one.client.upload()
    assert len(one.server.items) == MOST_PERIODS
    assert one.spent == pytest.approx(2.0 * MOST_PERIODS)
    one.client.upload()
    assert len(one.server.items) == MOST_PERIODS


@pytest.mark.exact
def test_hidden_a_new_consent_begins_a_new_calendar(home: Any) -> None:
    one = home(RR + HIDDEN)
    one.day("Oslo")
    one.client.withdraw()
    one.now += 9 * DAY
    one.client.grant()
    one.client.upload()
    assert len(one.server.items) == 1
    one.day()
    assert len(one.server.items) == 2


@pytest.mark.exact
def test_hidden_a_new_group_sends_nothing_before_the_owner_is_asked(home: Any) -> None:
    one = home(RR + HIDDEN)
    one.day("Oslo")
    path = one.folder / "metrics.toml"
    path.write_text(
        path.read_text().replace("places", "spots").replace("metric.city", "metric.ort")
    )
    one.restart()
    one.day()
    assert one.client.status().unasked == ("spots",)
    assert {item.metric for item in one.server.items} == {"city"}
    one.client.grant()
    one.day()
    assert {item.metric for item in one.server.items} == {"city", "ort"}


class Told(Responses):
    """Instead of reports, what they are about: nothing is random but the draws of the protocol."""

    def fresh_report(self, metric: Metric, value: Value) -> Report:
        return Report(super().fresh_report(metric, "none").report[:-1] + self._code(value))

    def permanent_response(self, metric: Metric, value: Value) -> bytes:
        return self._code(value)

    def epoch_report(self, metric: Metric, response: bytes, value: Value) -> Report:
        assert value == "none"
        return Report(super().fresh_report(metric, value).report[:-1] + response)

    @staticmethod
    def _code(value: Value) -> bytes:
        return bytes([CITIES.index(str(value))])


Event = tuple[str, ...]
HISTORIES: list[tuple[Event, ...]] = list(product([(), ("Oslo",), ("Bergen",)], repeat=3))
UPLOADS = {"daily": (1, 2, 3, 4, 5), "late": (3, 5), "twice": (2, 2, 4, 5)}
ALL, ONE, TWO = 1000.0, 1.5, 2.5
"""Lifetimes, in prices."""


def some_fast(cases: Sequence[tuple[Any, ...]], fast: int) -> list[Any]:
    """So many of the cases belong to the fast tests."""
    slow = pytest.mark.slow
    return [pytest.param(*case, marks=slow if i >= fast else ()) for i, case in enumerate(cases)]


def told(
    folder: Path, how: str, lifetime: float, history: tuple[Event, ...], uploads: Sequence[int]
) -> tuple[tuple[Any, ...], list[int], float]:
    """(days and sizes of what was sent; what the reports were about, in the order of periods; what
    was charged), of a device whose records came at noon of the first three days."""
    folder.mkdir(parents=True)
    one = Home(folder, how + HIDDEN, lifetime=lifetime)
    one.now = EPOCH_BEGINS
    one.client.withdraw()
    one.client.grant()
    shape, about = [], list[int]()
    for day in range(6):
        if day in uploads:
            one.now = EPOCH_BEGINS + timedelta(days=day, hours=1)
            one.server.got.clear()
            for _ in range(uploads.count(day)):
                one.client.upload()
            bodies = [body for _, body in one.server.got]
            shape.append((day, [(Batch.from_bytes(b).day, len(b)) for b in bodies]))
            about += [item.report[-1] for item in one.server.items]
        if day < 3:
            one.now = EPOCH_BEGINS + timedelta(days=day, hours=12)
            for value in history[day]:
                one.client.record("city", value)
    one.client.close()
    return tuple(map(repr, shape)), about, one.spent


def law(about: list[int]) -> dict[tuple[int, ...], Fraction]:
    """Of all reports together, given what each of them is about."""
    channel = RandomizedResponse(categories=CITIES, epsilon=2.0).channel
    found: dict[tuple[int, ...], Fraction] = {(): Fraction(1)}
    for cell in about:
        chances = [channel.touched if seen == cell else channel.untouched for seen in range(3)]
        found = {
            (*before, seen): chance * chances[seen]
            for before, chance in found.items()
            for seen in range(3)
        }
    return found


@pytest.fixture
def unshuffled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports in the order of their periods: the shuffle only mixes what is compared."""
    monkeypatch.setattr(runtime, "Responses", Told)
    monkeypatch.setattr("ldp.client.sealing.random_order", lambda items, bits: list(items))


@pytest.mark.exact
@pytest.mark.usefixtures("unshuffled")
@pytest.mark.parametrize(
    ("uploads", "prices"), some_fast(list(product(UPLOADS, (ONE, TWO, ALL))), 1)
)
def test_hidden_all_histories_have_one_count_and_laws_within_what_was_charged(
    tmp_path: Path, uploads: str, prices: float
) -> None:
    """27 histories: the same days and sizes, and for every pair the ratio of the exact laws of all
    bytes together is at most e to what was charged, which is the same for all of them."""
    _within_what_was_charged(tmp_path, 2.0 * prices, UPLOADS[uploads], HISTORIES)


def _within_what_was_charged(
    folder: Path, lifetime: float, uploads: Sequence[int], histories: Sequence[tuple[Event, ...]]
) -> None:
    found = [
        told(folder / str(i), RR, lifetime, history, uploads) for i, history in enumerate(histories)
    ]
    assert len({shape for shape, _, _ in found}) == 1
    ((charged),) = {charged for _, _, charged in found}
    laws = {tuple(about): law(about) for _, about, _ in found}
    for one, other in combinations(laws.values(), 2):
        worst = max(max(one[key] / other[key], other[key] / one[key]) for key in one)
        assert float(exact_log(worst)) <= charged + 1e-9
    assert len(laws) > 1, "nothing is told at all"


@pytest.mark.exact
@pytest.mark.usefixtures("unshuffled")
def test_hidden_one_that_falls_silent_when_its_budget_ends_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant sends, and charges for, what was recorded: the count tells the history."""
    histories = HISTORIES[:2] + HISTORIES[-1:]
    _within_what_was_charged(tmp_path / "honest", 3.0, UPLOADS["daily"], histories)
    monkeypatch.setattr(HiddenFresh, "take", Fresh.take)
    with pytest.raises(AssertionError):
        _within_what_was_charged(tmp_path / "mutant", 3.0, UPLOADS["daily"], histories)


@pytest.mark.exact
@pytest.mark.usefixtures("unshuffled")
@pytest.mark.parametrize(
    ("uploads", "prices", "epoch"),
    some_fast(list(product(UPLOADS, (TWO, ONE, ALL), ["2d", "1d"])), 1),
)
def test_hidden_epochs_tell_one_value_each_and_only_of_the_epoch_before(
    tmp_path: Path, uploads: str, prices: float, epoch: str
) -> None:
    """27 histories: same days, sizes and charges; every epoch's reports are about one value, drawn
    among those of the epoch before, or none; so histories differ in at most as many responses, of
    one price each, as were charged."""
    how = EPOCH.replace("4d", epoch)
    found = [
        told(tmp_path / str(i), how, prices * PRICE, history, UPLOADS[uploads])
        for i, history in enumerate(HISTORIES)
    ]
    assert len({shape for shape, _, _ in found}) == 1
    ((charged),) = {charged for _, _, charged in found}
    days = int(epoch[0])
    abouts = [about for _, about, _ in found]
    for (_, about, _), history in zip(found, HISTORIES, strict=True):
        for start in range(0, 5, days):
            cells = set(about[start : start + days])
            before = {value for values in history[max(0, start - days) : start] for value in values}
            assert len(cells) == 1
            assert cells <= {CITIES.index(value) for value in before} | {2}
    for one, other in combinations(abouts, 2):
        differing = {i // days for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b}
        assert len(differing) * PRICE <= charged + 1e-9
    if prices > ONE:  # the first epoch, which can be about nothing, takes one price
        assert len({tuple(about) for about in abouts}) > 1


@pytest.mark.statistical
def test_hidden_the_value_of_an_epoch_is_drawn_uniformly(home: Any, unshuffled: None) -> None:
    """Of three records each, by 60 devices; every count is binomial (60, 1/3): 3 to 40 fails with a
    chance below 1e-6."""
    seen = Counter[int]()
    for _ in range(60):
        one = home(EPOCH.replace("4d", "1d") + HIDDEN)
        one.day("Oslo", "Bergen", "none")
        one.day()
        seen[one.payloads[-1][-1]] += 1
        one.client.close()
    assert all(3 <= seen[cell] <= 40 for cell in range(3)), seen


# The witness


def witnessed(home: Any, **changes: Any) -> Any:
    one = home(RR, **changes)
    one.witness = one.folder / "elsewhere" / "witness"
    one.restart(witness=one.witness)
    return one


def copied(path: Path, name: str) -> Path:
    return Path(shutil.copy(path, path.with_name(name)))


@pytest.mark.exact
def test_a_restored_copy_says_nothing_more(home: Any) -> None:
    one = witnessed(home)
    one.day("Oslo")
    one.client.close()
    old = copied(one.path, "old")
    one.restart(witness=one.witness)
    one.day("Oslo")
    sent = len(one.server.items)
    one.client.close()
    old.replace(one.path)
    one.restart(witness=one.witness)
    (answer,) = one.day("Oslo")
    assert (answer.reason, "restored copy" in answer.details) == ("storage", True)
    assert len(one.server.items) == sent
    assert one.client.withdraw()
    assert one.client.grant()
    assert one.day("Oslo")[0].reason == "storage", "a new consent does not mend it"


@pytest.mark.exact
def test_the_twin_without_a_witness_says_it_again(
    home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_witness", lambda *_: NoWitness())
    one = home(RR, lifetime=2)
    one.client.close()
    old = copied(one.path, "old")
    for _ in range(3):
        one.restart()
        one.day("Oslo")
        one.client.close()
        shutil.copy(old, one.path)
    assert len(one.server.items) == 3, "the lifetime allows for one"


@pytest.mark.exact
@pytest.mark.parametrize("harm", ["delete", "damage", "leave out", "delete the file"])
def test_without_its_witness_a_file_is_not_used(home: Any, harm: str) -> None:
    one = witnessed(home)
    one.day("Oslo")
    one.client.close()
    if harm == "delete":
        one.witness.unlink()
    elif harm == "damage":
        one.witness.write_text("ldp")
    elif harm == "delete the file":
        one.path.unlink()
    one.restart(**({} if harm == "leave out" else {"witness": one.witness}))
    one.client.grant()
    (answer,) = one.day("Oslo")
    assert answer.reason == "storage"
    assert len(one.server.items) == 1
    assert "witness" in one.client.upload().why


@pytest.mark.exact
def test_old_books_under_a_new_mark_are_a_restored_copy(home: Any) -> None:
    """As when a backup puts the file back beside a newer log, which holds the page of the mark."""
    one = witnessed(home)
    one.day("Oslo")
    one.day("Oslo")
    one.client.close()
    with closing(sqlite3.connect(one.path)) as connection:
        connection.execute("UPDATE totals SET times = 1")
        connection.commit()
    one.restart(witness=one.witness)
    assert one.day("Oslo")[0].reason == "storage"
    assert len(one.server.items) == 2


@pytest.mark.exact
def test_a_restored_copy_does_not_undo_a_withdrawal(home: Any) -> None:
    one = witnessed(home)
    one.server.down = True
    one.day("Oslo")
    one.client.close()
    old = copied(one.path, "old")
    one.restart(witness=one.witness)
    assert one.client.withdraw()
    one.client.close()
    old.replace(one.path)
    one.restart(witness=one.witness)
    one.server.down, before = False, len(one.server.got)
    one.now += DAY
    assert "restored copy" in one.client.upload().why
    assert len(one.server.got) == before


class PowerCut(BaseException):
    """Nothing after it happens."""


@pytest.mark.exact
@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_a_crash_around_a_commit_is_no_restored_copy(
    home: Any, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    one = witnessed(home)
    one.day("Oslo")
    one.client.record("city", "Oslo")
    one.now += DAY
    announce = Witness.announce

    def cut(self: Witness, connection: Any) -> None:
        if moment == "before the commit":
            announce(self, connection)
        raise PowerCut

    with monkeypatch.context() as patch:
        patch.setattr(Witness, "announce" if moment == "before the commit" else "confirm", cut)
        with pytest.raises(PowerCut):
            one.client.upload()
    assert len(one.server.items) == 1, "unconfirmed, nothing leaves"
    one.restart(witness=one.witness)
    assert all(one.day("Oslo"))
    assert len(one.server.items) == 3
    assert one.client.status().storage == ""


@pytest.mark.exact
def test_nothing_leaves_before_the_witness_confirms(home: Any, monkeypatch: Any) -> None:
    """A copy made at any moment of a life: put back later, it is refused, unless nothing was sent
    since."""
    one = witnessed(home)
    copies: list[tuple[bytes, int]] = []
    original = Sealer.seal

    def copying(self: Sealer, connection: Any, *rest: Any) -> None:
        copies.append((one.path.read_bytes(), len(one.server.items)))
        original(self, connection, *rest)

    monkeypatch.setattr(Sealer, "seal", copying)
    for _ in range(5):
        one.day("Oslo")
    one.client.close()
    assert len(copies) == 5
    for body, sent in copies:
        one.path.write_bytes(body)
        one.restart(witness=one.witness)
        one.client.record("city", "Oslo")
        one.now += DAY
        one.client.upload()
        one.client.close()
        assert len(one.server.items) == 5, sent


@pytest.mark.exact
def test_strict_names_what_is_wrong_with_a_copy(home: Any) -> None:
    one = witnessed(home)
    one.day("Oslo")
    one.witness.unlink()
    with pytest.raises(StorageError, match="witness"):
        one.open(witness=one.witness, strict=True).record("city", "Oslo")


@pytest.mark.exact
def test_a_registry_of_hidden_metrics_is_loaded(tmp_path: Path) -> None:
    Home(tmp_path, EPOCH + HIDDEN)
    registry = Registry.load(tmp_path / "metrics.toml")
    assert registry.is_hidden("places")
    assert registry.metric("city").epoch == 4 * DAY
