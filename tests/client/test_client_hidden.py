"""With hidden presence, what is sent says nothing of what was recorded."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

from ldp import RandomizedResponse
from ldp.client import Recorded, runtime
from ldp.client.memoisation_modes import Fresh, HiddenFresh
from ldp.client.responses import Report, Responses
from ldp.client.sealing import MOST_PERIODS
from ldp.protocol.batch import Batch
from ldp.protocol.channel import exact_log
from ldp.protocol.hashing import Value
from ldp.registry import Metric, Registry
from tests.devices import DAY
from tests.memoising_devices import CITIES, EPOCH, EPOCH_BEGINS, PRICE, RR, Home
from tests.tiers import tiered

HIDDEN = 'presence = "hidden"\n'


@pytest.mark.exact
def test_hidden_periods_without_a_grant_share_nothing(home: Any) -> None:
    """The budget holds one epoch; in the twelve after it every report is drawn anew.

    The chance that in each of them all four reports are alike is below 1e-17.
    """
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
    """Number, days and sizes of what is sent, and the charges, do not depend on hidden records.

    A public metric stands beside, and the clock was days ahead for a moment.
    """

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
    """The number depends neither on records nor on whether anything can still be spent."""
    one = home(how + HIDDEN, reports=3, window=6, lifetime=life)
    for values in ([], ["Oslo"], ["Bergen"] * 9, []) * 6:
        one.day(*values)
    counts = Counter(Batch.from_bytes(body).day for _, body in one.server.got)
    assert len(one.server.items) == 3 * 24
    assert set(counts.values()) == {1}
    assert life - PRICE < one.spent <= life, "the cap was reached"


@pytest.mark.exact
def test_hidden_periods_are_sealed_by_uploads_only_and_at_most_thirty(home: Any) -> None:
    """Where more periods are over, only the latest is sealed; a leap of the clock does not spend
    thirty."""
    one = home(RR + HIDDEN)
    one.now += 2 * DAY
    one.client.record("city", "Oslo")
    assert one.rows("SELECT count(*) FROM batches") == [(0,)]
    one.now += (MOST_PERIODS - 2) * DAY
    for _ in range(2):
        one.client.upload()
        assert len(one.server.items) == MOST_PERIODS
        assert one.spent == pytest.approx(2.0 * MOST_PERIODS)
    one.now += 10 * 365 * DAY
    one.client.upload()
    assert len(one.server.items) == MOST_PERIODS + 1


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
    assert one.client.status().unasked == ("spots", "ort")
    assert {item.metric for item in one.server.items} == {"city"}
    one.client.grant()
    one.day()
    assert {item.metric for item in one.server.items} == {"city", "ort"}


class Told(Responses):
    """Responses of a client that hold what a report would be about, without noise.

    So nothing is random but the draws of the protocol.
    """

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


def told(
    folder: Path, how: str, lifetime: float, history: tuple[Event, ...], uploads: Sequence[int]
) -> tuple[tuple[Any, ...], list[int], float]:
    """Return (days and sizes of what was sent, what reports were about, what was charged).

    Reports are in the order of periods. The device recorded at noon of the first three days.
    """
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
    """Return the law of all reports together, given what each of them is about."""
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
    """Keep reports in the order of their periods; the shuffle only mixes what is compared."""
    monkeypatch.setattr(runtime, "Responses", Told)
    monkeypatch.setattr("ldp.client.sealing.random_order", lambda items, bits: list(items))


@pytest.mark.exact
@pytest.mark.usefixtures("unshuffled")
@pytest.mark.parametrize(("uploads", "prices"), tiered(product(UPLOADS, (ONE, TWO, ALL)), 1, 3))
def test_hidden_all_histories_have_one_count_and_laws_within_what_was_charged(
    tmp_path: Path, uploads: str, prices: float
) -> None:
    """In 27 histories days and sizes are the same.

    For every pair, the ratio of the exact laws of all bytes together is at most e to the charge,
    which is the same for all histories.
    """
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
    """The mutant sends, and charges for, what was recorded, so the count reveals the history."""
    histories = HISTORIES[:2] + HISTORIES[-1:]
    _within_what_was_charged(tmp_path / "honest", 3.0, UPLOADS["daily"], histories)
    monkeypatch.setattr(HiddenFresh, "take", Fresh.take)
    with pytest.raises(AssertionError):
        _within_what_was_charged(tmp_path / "mutant", 3.0, UPLOADS["daily"], histories)


@pytest.mark.exact
@pytest.mark.usefixtures("unshuffled")
@pytest.mark.parametrize(
    ("uploads", "prices", "epoch"),
    tiered(product(UPLOADS, (TWO, ONE, ALL), ["2d", "1d"]), 1, 5),
)
def test_hidden_epochs_tell_one_value_each_and_only_of_the_epoch_before(
    tmp_path: Path, uploads: str, prices: float, epoch: str
) -> None:
    """In 27 histories, days, sizes and charges are the same.

    Every epoch's reports are about one value, drawn among those of the epoch before, or about none.
    So histories differ in at most as many responses, of one price each, as were charged.
    """
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
    if prices > ONE:  # the first epoch can be about nothing, and takes one price
        assert len({tuple(about) for about in abouts}) > 1


@pytest.mark.exact
def test_hidden_a_response_that_was_charged_stays_when_the_clock_goes_back(home: Any) -> None:
    """The epoch would tell two values else, for one price.

    The first of 50 later records would be drawn in 50 of 51 cases.
    """
    one = home(EPOCH + HIDDEN)
    one.client.withdraw()
    one.now = EPOCH_BEGINS + 4 * DAY
    one.client.grant()
    one.day("Oslo")
    charged = one.rows("SELECT ends, response FROM frozen WHERE charged")
    one.now = EPOCH_BEGINS
    answers = [one.client.record("city", "Bergen") for _ in range(50)]
    assert answers == 50 * [Recorded()]
    assert charged
    assert {*charged} <= {*one.rows("SELECT ends, response FROM frozen WHERE charged")}


@pytest.mark.statistical
@pytest.mark.usefixtures("unshuffled")
@pytest.mark.parametrize("is_uniform", tiered([True, False]))
def test_hidden_the_value_of_an_epoch_is_drawn_uniformly(
    home: Any, is_uniform: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """60 devices have three records each, and every count is binomial (60, 1/3).

    One outside of 3 to 40 has probability 1.4e-7. The twin keeps the last record.
    """
    if not is_uniform:
        monkeypatch.setattr("ldp.client.pool.uniform_below", lambda bits, bound: 0)
    seen = Counter[int]()
    for _ in range(60):
        one = home(EPOCH.replace("4d", "1d") + HIDDEN)
        one.day("Oslo", "Bergen", "none")
        one.day()
        seen[one.payloads[-1][-1]] += 1
        one.client.close()
    assert all(3 <= seen[cell] <= 40 for cell in range(3)) is is_uniform, seen


@pytest.mark.exact
def test_a_registry_of_hidden_metrics_is_loaded(tmp_path: Path) -> None:
    Home(tmp_path, EPOCH + HIDDEN)
    registry = Registry.load(tmp_path / "metrics.toml")
    assert registry.is_hidden("places")
    assert registry.metric("city").epoch == 4 * DAY
