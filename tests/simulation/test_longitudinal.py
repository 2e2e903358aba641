"""Collections over many days: bulk devices, the attacker's likelihoods, and the books.

Bulk devices are compared with the real ones, likelihoods with enumeration, the books with the
ledger.
"""

import math
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp import RandomizedResponse, Rappor
from ldp.accounting import Caps, Cost, Ledger
from ldp.client import Client
from ldp.client.periods import ending
from ldp.errors import ParameterError
from ldp.mechanisms import CatalogueMechanism
from ldp.mechanisms.dummies import Dummies
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.protocol.hashing import Value
from ldp.protocol.randomness import SeededBits
from ldp.protocol.wire import split_report
from ldp.registry import Registry
from ldp.registry.definitions import Memoise
from ldp.simulation import Population, draw_reports, longitudinal
from ldp.simulation.averaging import affordable
from ldp.simulation.fleet import Fleet
from ldp.simulation.longitudinal import Collection
from ldp.simulation.people import People, Scenario, ScenarioMetric, draw_people
from ldp.simulation.scenarios import most_frequent
from tests.devices import Memory
from tests.many_days import (
    HASHED,
    PLACE,
    PLACES,
    START,
    caps,
    forget,
    generator,
    lasting_law,
    metric,
    registry,
    scenario,
)
from tests.statistics import ALPHA, law_p, share_p

VALUES = ("home", "work")


def telling(mechanism: MemoisedMechanism) -> tuple[Value, Value]:
    """Return two values that do not touch the same cells in any row."""
    listed = ("home", "work", "lol", "afk", "brb", "gym", "bus")
    known = getattr(mechanism, "categories", ()) or listed
    return next(
        (one, other)
        for one, other in product(known, repeat=2)
        if all(
            set(mechanism.cells(one, row)) != set(mechanism.cells(other, row))
            for row in range(mechanism.shape.rows)
        )
    )


def joint_law(mechanism: MemoisedMechanism, memoise: Memoise) -> dict[int, float]:
    """Return P(rows and payloads of three reports) of a device with one value, another, and the
    first.

    Every payload and the row are one number in mixed radix.
    """
    one, other = telling(mechanism)
    rows, limit = mechanism.shape.rows, mechanism.layout.payload_limit
    law = {}
    for row in range(rows):
        for numbers in product(range(limit), repeat=3):
            if memoise == "epoch":
                chance = lasting_law(mechanism, row, one, numbers)
            else:
                chance = lasting_law(mechanism, row, one, numbers[::2])
                chance *= lasting_law(mechanism, row, other, numbers[1:2])
            key = row
            for number in numbers:
                key = key * limit + number
            law[key] = chance / rows
    return law


def keys_of(mechanism: CatalogueMechanism, sent: Sequence[tuple[Any, Any]]) -> NDArray[Any]:
    limit = mechanism.layout.payload_limit  # type: ignore[union-attr]
    key = sent[0][0].astype(np.int64)
    for rows, payloads in sent:
        assert (rows == sent[0][0]).all(), "a device stays in its cohort"
        key = key * limit + payloads[:, 0]
    return np.asarray(key)


def of_fleet(mechanism: MemoisedMechanism, memoise: Memoise, devices: int) -> NDArray[Any]:
    every = np.arange(devices)
    made = Fleet(mechanism, telling(mechanism), memoise, devices, generator(5))
    sent = [made.encode(every, np.full(devices, place))[:2] for place in (0, 1, 0)]
    return keys_of(mechanism, sent)


def of_encoders(mechanism: MemoisedMechanism, memoise: Memoise, devices: int) -> NDArray[Any]:
    one, other = telling(mechanism)
    sent: list[list[tuple[int, bytes]]] = [[], [], []]
    for device in range(devices):
        bits = SeededBits(b"device" + device.to_bytes(4, "big"))
        if memoise == "epoch":
            encoder = mechanism.encoder(bits, epoch="")
        else:
            encoder = mechanism.encoder(bits, secret=device.to_bytes(32, "big"))
        for turn, value in zip(sent, (one, other, one), strict=True):
            turn.append(split_report(encoder.encode(value), mechanism.header, mechanism.layout))
    return keys_of(
        mechanism,
        [
            (
                np.array([row for row, _ in turn], dtype=np.uint32),
                np.array([list(payload) for _, payload in turn]),
            )
            for turn in sent
        ],
    )


FILTER = Rappor(bits=3, cohorts=2, f=0.25, p=0.1, q=0.9, seed="08")


TINY = [FILTER, Rappor(bits=2, f=0.5, p=0.25, q=0.75, scheme="identity"), PLACE, HASHED]


EITHER: list[Memoise] = ["per-value", "epoch"]


@pytest.mark.statistical
@pytest.mark.parametrize("memoise", EITHER)
@pytest.mark.parametrize("mechanism", TINY, ids=lambda mechanism: mechanism.name)
def test_many_devices_at_once_have_the_law_of_the_real_encoder(
    mechanism: MemoisedMechanism, memoise: Memoise
) -> None:
    """Reports of a value, another and the first again have the exact joint law.

    There are 5,000 devices in bulk and 300 real encoders. Each fails falsely with probability 1e-6;
    without memoisation it does fail.
    """
    law = joint_law(mechanism, memoise)
    assert sum(law.values()) == pytest.approx(1)
    assert law_p(of_fleet(mechanism, memoise, 5_000), law) > ALPHA
    assert law_p(of_encoders(mechanism, memoise, 300), law) > ALPHA


@pytest.mark.statistical
def test_devices_that_forget_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is the twin of the test above: it is off by 17 standard errors.

    The seed is fixed; fewer than 5 have probability 1e-20.
    """
    forget(monkeypatch)
    law = joint_law(PLACE, "per-value")
    assert law_p(of_fleet(PLACE, "per-value", 20_000), law) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize(("by", "is_right"), [("devices", True), ("bulk", True), ("twin", False)])
def test_messages_of_many_devices_at_once_have_the_law_of_the_real_encoder(
    by: str, is_right: bool
) -> None:
    """The numbers of two people's six messages that name each category have the exact law.

    The days are 3,000 of bulk devices or 300 of real encoders; how often Oslo is first is tested
    too. It fails falsely with probability 2e-6; the twin, whose devices always send, passes with
    probability below 1e-9.
    """
    days = 300 if by == "devices" else 3_000
    law = Counter[int]()
    for choices in product(range(2), *[range(6)] * 2, range(2), *[range(6)] * 2):
        named = np.zeros(4, dtype=np.int64)
        for value, (sends, *dummies) in enumerate((choices[:3], choices[3:])):
            named[value if sends else 3] += 1
            for dummy in dummies:  # half of the places are empty
                named[min(dummy, 3)] += 1
        chance = math.prod((0.25, 0.75)[sends] for sends in choices[::3]) / 6**4
        law[int(named @ 7 ** np.arange(4))] += chance  # type: ignore[assignment]
    mechanism = replace(MESSAGES, sending=1.0) if by == "twin" else MESSAGES
    people, bits = Population(CITIES[:2], counts=np.array([1, 1])), generator(3)
    counts, firsts = np.empty(days, dtype=np.int64), Counter[int]()
    encoder = MESSAGES.encoder(SeededBits(b"messages"))
    for day in range(days):
        if by == "devices":
            records = [encoder.encode(value) for value in CITIES[:2]]
            columns = [message[-1] for record in records for message in MESSAGES.split(record)]
        else:
            ((_, payloads),) = draw_reports(mechanism, people, bits)
            columns = payloads[:, 0].tolist()
        assert len(columns) == 6
        counts[day] = np.bincount(columns, minlength=4) @ 7 ** np.arange(4)
        firsts[columns[0]] += 1
    assert sum(law.values()) == pytest.approx(1)
    assert (law_p(counts, law) > ALPHA) == is_right
    if by == "bulk":  # no place of a batch shows whose message it was
        share = (0.75 + 4 / 6) / 6
        assert share_p(firsts[0], days, share, share) > ALPHA


@pytest.mark.exact
def test_values_that_touch_the_same_cells_share_a_response() -> None:
    many = tuple(f"word {i}" for i in range(40))
    made = Fleet(HASHED, many, "per-value", 2, generator(1))
    devices = np.repeat(np.arange(2), 40)
    rows, _, about = made.encode(devices, np.tile(np.arange(40), 2))
    assert about is not None
    own = about.reshape(2, 40)
    assert not set(own[0]) & set(own[1])
    assert len(set(own[0])) == 2, "as many as there are buckets"
    rows = rows.reshape(2, 40)
    assert (rows == rows[:, :1]).all()
    for device in (0, 1):
        cells = [HASHED.cells(value, int(rows[device, 0])) for value in many]
        assert len(set(zip(map(tuple, cells), own[device].tolist(), strict=True))) == 2


CITIES = ("Oslo", "Bergen", "none")


BASIC = Rappor(bits=3, f=0.5, p=0.25, q=0.75, scheme="identity", categories=CITIES)


PRICE = BASIC.cost.lifetime


RR = RandomizedResponse(categories=CITIES, epsilon=2.0)


MESSAGES = Dummies(categories=CITIES, slots=2, probability=0.5, sending=0.75)


COUNTED = Population(CITIES, counts=np.array([5, 3, 2]))


DAY = timedelta(days=1)


FOUR = timedelta(days=4)


LIVES: dict[str, tuple[Caps, int, list[ScenarioMetric]]] = {
    "fresh, until the life is spent": (
        caps(1, 2.0, 7.0),
        12,
        [ScenarioMetric(metric=metric(RR), population=COUNTED)],
    ),
    "several records and slots": (
        caps(1, 4.1, 17.0),
        12,
        [ScenarioMetric(metric=metric(RR, reports_per_window=3), population=COUNTED, records=2)],
    ),
    "windows of two days": (
        caps(2, 2.0, 9.0),
        13,
        [ScenarioMetric(metric=metric(RR), population=COUNTED)],
    ),
    "windows of half a day": (
        Caps(window=timedelta(hours=12), window_epsilon=2.0, lifetime_epsilon=9.0),
        6,
        [ScenarioMetric(metric=metric(RR), population=COUNTED)],
    ),
    "per value": (
        caps(1, PRICE, 2.5 * PRICE),
        14,
        [ScenarioMetric(metric=metric(BASIC, memoise="per-value"), population=COUNTED)],
    ),
    "per value, all of two days": (
        caps(2, 3 * PRICE, 4 * PRICE),
        14,
        [
            ScenarioMetric(
                metric=metric(BASIC, memoise="per-value", reports_per_window=2), population=COUNTED
            )
        ],
    ),
    "by epoch": (
        caps(1, PRICE, 2.5 * PRICE),
        14,
        [ScenarioMetric(metric=metric(BASIC, memoise="epoch", epoch=FOUR), population=COUNTED)],
    ),
    "by epoch in windows of two days": (
        caps(2, PRICE, 1.5 * PRICE),
        15,
        [ScenarioMetric(metric=metric(BASIC, memoise="epoch", epoch=FOUR), population=COUNTED)],
    ),
    "until it expires": (
        caps(1, 2.0, 70.0),
        8,
        [ScenarioMetric(metric=metric(RR, expires=START + timedelta(days=4)), population=COUNTED)],
    ),
    "recorded on some days": (
        caps(2, 4.1, 17.0),
        13,
        [ScenarioMetric(metric=metric(RR, reports_per_window=2), population=COUNTED, active=0.4)],
    ),
    "by epoch, recorded on some days": (
        caps(1, PRICE, 2.5 * PRICE),
        14,
        [
            ScenarioMetric(
                metric=metric(BASIC, memoise="epoch", epoch=FOUR), population=COUNTED, active=0.5
            )
        ],
    ),
    "hidden presence, until the life is spent": (
        caps(1, 4.1, 17.0),
        12,
        [
            ScenarioMetric(
                metric=metric(RR, reports_per_window=3, presence="hidden"),
                population=COUNTED,
                active=0.5,
                records=2,
            )
        ],
    ),
    "two groups": (
        caps(1, PRICE, 20.0),
        9,
        [
            ScenarioMetric(metric=metric(RR), population=COUNTED),
            ScenarioMetric(
                metric=metric(BASIC, "home", memoise="per-value", group="homes"),
                population=COUNTED,
            ),
        ],
    ),
}


LONG = {"several records and slots", "windows of half a day", "per value, all of two days"}


def registered(asked: Sequence[ScenarioMetric], limits: Caps) -> Registry:
    groups = tuple(dict.fromkeys(each.metric.group for each in asked))
    return registry({each.metric.name: each.metric for each in asked}, limits, groups)


def lived(
    folder: Path,
    made: Scenario,
    values: Mapping[str, Sequence[int]],
    recorded: Mapping[str, Sequence[bool]],
    joined: int,
) -> tuple[dict[tuple[str, int], int], dict[str, int]]:
    """Let a real client record these values at noon, from the day `joined` on.

    Returns how often each metric was charged at each end of a period, and how many reports the
    client sent.
    """
    now = [datetime(made.start.year, made.start.month, made.start.day, 12, tzinfo=UTC)]
    server = Memory()
    client = Client(
        folder / "device.ldp",
        registry=made.registry,
        destination=server,
        clock=lambda: now[0],
        jitter=timedelta(0),
        strict=True,
    )
    for day in range(made.days):
        if day == joined:
            client.grant()
        for asked in made.metrics if day >= joined else ():
            for _ in range(asked.records if recorded[asked.metric.name][day] else 0):
                client.record(
                    asked.metric.name, asked.population.values[values[asked.metric.name][day]]
                )
        now[0] += DAY
        client.upload()
    charges: dict[tuple[str, int], int] = {}
    with closing(sqlite3.connect(folder / "device.ldp")) as connection:
        for name, at, times in connection.execute("SELECT metric, at, times FROM charges"):
            charges[name, at] = charges.get((name, at), 0) + times
    client.close()
    return charges, dict(Counter(item.metric for item in server.items))


@pytest.mark.exact
@pytest.mark.parametrize(
    "life", [pytest.param(life, marks=pytest.mark.slow if life in LONG else ()) for life in LIVES]
)
def test_many_devices_at_once_are_charged_as_a_real_client_is(life: str, tmp_path: Path) -> None:
    """One of two people joins later; every charge and every count of reports is compared."""
    limits, days, asked = LIVES[life]
    made = scenario(asked, days=days, users=2)
    made = replace(made, registry=registered(asked, limits))
    joined = np.array([0, 2])
    drawn = generator(len(life))
    values = {each.metric.name: drawn.integers(0, len(CITIES), (2, days)) for each in asked}
    recorded = {each.metric.name: drawn.random((2, days)) < each.active for each in asked}
    people = People(
        joined=joined, left=np.full(2, days), owner=np.arange(2), values=values, recorded=recorded
    )
    collection = Collection(made, people, generator(2))
    charges: list[dict[tuple[str, int], int]] = [{}, {}]
    counted: list[Counter[str]] = [Counter(), Counter()]
    for sent in (sent for every in collection.days() for sent in every):
        name = sent.scenario_metric.name
        window = made.registry.groups[sent.scenario_metric.metric.group].caps.window
        ends = ending(made.noons[sent.day], window)
        for device in range(2):
            if times := int(sent.charged[device]):
                charges[device][name, ends] = times
            counted[device][name] += int((sent.devices == device).sum())
    for device in range(2):
        folder = tmp_path / str(device)
        folder.mkdir()
        own = {name: listed[device].tolist() for name, listed in values.items()}
        records = {name: days_of[device].tolist() for name, days_of in recorded.items()}
        expected, reports = lived(folder, made, own, records, int(joined[device]))
        assert charges[device] == expected
        assert {name: n for name, n in counted[device].items() if n} == reports
    assert all(charges)


@pytest.mark.exact
def test_two_metrics_that_share_a_window_take_turns_by_chance(tmp_path: Path) -> None:
    """Only one of them fits into a day.

    The other member of the group, which nobody uses here, takes its turn too, and lapses.
    """
    asked = [
        ScenarioMetric(metric=metric(RR, name), population=COUNTED) for name in ("city", "home")
    ]
    idle = metric(RR, "idle")
    made = scenario(asked, days=30, users=40)
    limits = caps(1, 2.0, 1e3)
    known = registry({each.name: each for each in (*(a.metric for a in asked), idle)}, limits)
    made = replace(made, registry=known)
    people = draw_people(made, generator(1))
    collection = Collection(made, people, generator(2))
    each_day = [sum(sent.charged for sent in every) for every in collection.days()]
    totals = np.stack(each_day)
    assert totals.max() == 1
    assert share_p(int(totals.sum()), totals.size, 2 / 3, 2 / 3) > ALPHA
    assert share_p(int(collection.charged["city"].sum()), totals.size, 1 / 3, 1 / 3) > ALPHA


@pytest.mark.exact
def test_a_metric_that_expired_takes_no_turn() -> None:
    """A device seals no report of it, and so grants none: what fits is for the other one.

    What it was charged before counts for life, here of four reports.
    """
    over = metric(RR, "over", expires=START + timedelta(days=1))
    asked = [ScenarioMetric(metric=one, population=COUNTED) for one in (metric(RR), over)]
    known = registry({each.name: each.metric for each in asked}, caps(1, 2.0, 8.0))
    for simulated in (asked[:1], asked):
        made = replace(scenario(simulated, days=6), registry=known)
        collection = Collection(made, draw_people(made, generator(1)), generator(2))
        days = [{sent.scenario_metric.name for sent in every} for every in collection.days()]
        assert days[2:] == [{"city"}] * 4
        charged = np.sum([*collection.charged.values()], axis=0)
        assert charged.min() == charged.max() == 4


@pytest.mark.exact
def test_seventy_metrics_are_charged_together() -> None:
    """An array of numpy has 64 dimensions at most, and a scenario may have more metrics."""
    names = [f"city{number}" for number in range(70)]
    asked = [ScenarioMetric(metric=metric(RR, name), population=COUNTED) for name in names]
    made = scenario(asked, caps(1, 100.0, 1e3), days=2, users=9)
    collection = Collection(made, draw_people(made, generator(1)), generator(2))
    for _ in collection.days():
        pass
    price = Fraction(asked[0].metric.price)
    counts = np.sum([collection.charged[name] for name in names], axis=0)
    for spent, count in zip(collection.epsilons(names).tolist(), counts.tolist(), strict=True):
        assert 0 <= Fraction(spent) - price * count <= Fraction(math.ulp(spent))
    assert counts.max() > 70, "somebody reports more often than once a metric"


@pytest.mark.exact
def test_the_ledger_takes_every_charge_and_comes_to_the_same_sums() -> None:
    """`ldp.accounting.Ledger` gets each charge at the end of its period, and refuses none.

    Its sums are the printed ones, to the last bit.
    """
    asked = [
        ScenarioMetric(metric=metric(RR), population=COUNTED, change=0.5),
        ScenarioMetric(
            metric=metric(BASIC, "home", memoise="per-value"), population=COUNTED, change=0.3
        ),
        ScenarioMetric(
            metric=metric(PLACE, "place", memoise="epoch", epoch=FOUR),
            population=PLACES,
            change=0.4,
        ),
    ]
    limits = caps(1, 7.5, 31.0)
    made = scenario(asked, limits, days=25, users=12, churn=0.05, devices=(0.5, 0.5))
    people = draw_people(made, generator(4))
    collection = Collection(made, people, generator(5))
    ledgers = [Ledger({"places": limits}) for _ in range(people.owner.size)]
    for sent in (sent for every in collection.days() for sent in every):
        now = datetime.fromtimestamp(ending(made.noons[sent.day], DAY), UTC)
        for device in np.flatnonzero(sent.charged).tolist():
            for _ in range(int(sent.charged[device])):
                ledgers[device].charge(
                    "places", Cost(epsilon=sent.scenario_metric.metric.price), now=now
                )
    spent = [ledger.spent("places") for ledger in ledgers]
    names = [each.metric.name for each in asked]
    assert collection.epsilons(names).tolist() == spent
    assert max(spent) > 27, "the caps were reached"
    for person, total in enumerate(collection.persons(names).tolist()):
        own = [spent[device] for device in np.flatnonzero(people.owner == person)]
        assert total == pytest.approx(sum(own), rel=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize("chunk", [1, 1 << 22])
def test_every_record_of_a_period_is_as_likely_to_be_sent_as_any_other(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of three records are sent, one of one, none of two, and four of four.

    Each share fails falsely with probability 1e-6; seeds are fixed. The twin draws the first
    records of everybody.
    """
    monkeypatch.setattr(longitudinal, "_CHUNK", chunk)
    made = scenario([ScenarioMetric(metric=metric(RR), population=COUNTED)])
    collection = Collection(made, draw_people(made, generator(1)), generator(2))
    records, sent = np.tile([3, 1, 2, 4], 500), np.tile([2, 1, 0, 4], 500)
    place, chosen = collection._draw_records(records, sent)
    assert np.bincount(place, minlength=2000).tolist() == sent.tolist()
    assert (chosen < records[place]).all()
    assert len(set(zip(place.tolist(), chosen.tolist(), strict=True))) == place.size

    def p_values() -> list[float]:
        place, chosen = collection._draw_records(records, sent)
        times = [int((chosen[place % 4 == 0] == record).sum()) for record in range(3)]
        return [share_p(each, 500, 2 / 3, 2 / 3) for each in times]

    assert min(p_values()) > ALPHA
    collection._generator = SimpleNamespace(  # type: ignore[assignment]
        random=lambda shape: np.tile(np.arange(shape[1]) / 4, (shape[0], 1)), permutation=np.arange
    )
    assert min(p_values()) < ALPHA


@pytest.mark.exact
def test_fewer_are_attacked_where_hidden_slots_make_more_reports() -> None:
    """As many are attacked as if people recorded as often as there are slots."""
    each = ScenarioMetric(
        metric=metric(RR, reports_per_window=50, presence="hidden"), population=COUNTED
    )
    made = replace(scenario([each], days=3000), attacked=100_000)
    assert affordable(made) == affordable(replace(made, metrics=(each.alike_every_day(),)))
    assert affordable(made) < affordable(replace(made, metrics=(replace(each, metric=metric(RR)),)))


@pytest.mark.exact
def test_days_under_a_cap_of_the_product_are_not_simulated() -> None:
    metrics = [ScenarioMetric(metric=metric(PLACE), population=PLACES)]
    capped: Any = SimpleNamespace(lifetime_epsilon=9.0)
    with pytest.raises(ParameterError, match="cannot be simulated under lifetime_epsilon"):
        replace(scenario(metrics), registry=capped)


@pytest.mark.exact
def test_what_is_frozen_is_told_although_the_value_changed() -> None:
    asked = [ScenarioMetric(metric=metric(BASIC, memoise="epoch", epoch=FOUR), population=COUNTED)]
    made = scenario(asked, days=8, users=1)  # epochs begin on the first and the fifth day
    values = {"city": np.array([[0, 1, 2, 1, 2, 0, 0, 1]])}
    people = People(
        joined=np.zeros(1, np.int64), left=np.full(1, 8), owner=np.zeros(1, np.int64), values=values
    )
    sent = [every[0] for every in Collection(made, people, generator(1)).days()]
    assert [int(each.value_indices[0]) for each in sent] == [0, 0, 0, 0, 2, 2, 2, 2]
    assert [int(each.held_indices[0]) for each in sent] == values["city"][0].tolist()
    assert len({each.epoch for each in sent}) == 2


@pytest.mark.statistical
def test_people_come_and_go_change_and_are_alike_as_told() -> None:
    """On the last day the values have the populations' frequencies, independently.

    Changes and departures have their rates. Each check fails falsely with probability 1e-6.
    """
    other = Population(("x", "y"), frequencies=np.array([0.6, 0.4]))
    asked = [
        ScenarioMetric(metric=metric(RR, "home"), population=other, change=0.2),
        ScenarioMetric(metric=metric(RR), population=COUNTED, change=0.1),
    ]
    made = scenario(asked, users=4000, days=12, churn=0.05, devices=(0.5, 0.25, 0.25))
    people = draw_people(made, generator(9))
    for day in range(12):
        assert ((people.joined <= day) & (day < people.left)).sum() == 4000
    stays = people.left == 12
    city, home = (people.values[name][stays, -1] for name in ("city", "home"))
    joint = np.outer(other.shares, COUNTED.shares)
    law = {3 * i + j: joint[i, j] for i, j in product(range(2), range(3))}
    assert law_p(3 * home + city, law) > ALPHA
    changed = people.values["city"][stays & (people.joined == 0)]
    rate = 0.1 * (1 - float((COUNTED.shares**2).sum()))
    moves = changed[:, 1:] != changed[:, :-1]
    assert share_p(int(moves.sum()), moves.size, rate, rate) > ALPHA
    gone = people.joined.size - 4000
    assert share_p(gone, 4000 * 11, 0.05, 0.05) > ALPHA
    many = np.bincount(people.owner)
    assert law_p(many, {1: 0.5, 2: 0.25, 3: 0.25}) > ALPHA


@pytest.mark.exact
def test_the_most_frequent_values_keep_their_order() -> None:
    few = most_frequent(Population(tuple("abcd"), counts=np.array([1, 5, 0, 4])), 2)
    assert few.values == ("b", "d")
    assert few.shares.tolist() == pytest.approx([5 / 9, 4 / 9])
