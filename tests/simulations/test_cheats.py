"""Generated cheats: their conditions, their statistics' exact chances, their qualification."""

import io
import json
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from ldp.audit.tried_values import drawn_values
from ldp.mechanisms import CATALOGUE, LocalHashing, RandomizedResponse, from_parameters
from ldp.mechanisms.joint_base import values_of_parts
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.protocol.randomness import SeededBits
from ldp.protocol.wire import pack_report
from simulations.cheats import Event, Memory, Metric, Subject, paths
from simulations.cheats.cases import Case, bars, case, table
from simulations.cheats.conditions import Atom, Condition
from simulations.cheats.grammar import ConditionedWrong, draw
from simulations.cheats.hooks import Hook, client_maker, hooked, serve, with_cheat
from simulations.cheats.law import Part, clear, is_true, parts, replaced
from simulations.cheats.population import lives, permanent_response
from simulations.cheats.qualification import ALPHA, Sighting, binomial_power, lower_limit, sighted
from simulations.cheats.values import read, value_type
from simulations.cheats.wrongs import (
    SCOPES,
    Lie,
    PermanentOnly,
    Plain,
    Repeated,
    Shared,
    Weaker,
    WrongPart,
    alike,
)
from tests.devices import DAY, App

TOLERANCE = 1e-9
LARGEST = 70
"""Largest number of payloads that are enumerated."""
RESPONSE = RandomizedResponse(categories=tuple("abcd"), epsilon=1.0)
ALWAYS = Condition((Atom("call", modulus=1, residues=(0,)),))
EXAMPLES = [(name, e) for name, kind in CATALOGUE.items() for e in kind.examples()]
IDS = [f"{name}-{type(e.values[0]).__name__}-{i}" for i, (name, e) in enumerate(EXAMPLES)]


def every_part(example: Any) -> Iterator[Part]:
    """Yield a part for each value, part and row of an example.

    A memoised part also comes with each of two permanent responses.
    """
    for mechanism, values in values_of_parts(example.mechanism, example.values):
        if mechanism.layout.outcomes > LARGEST:
            continue
        for value, row in product(values, range(mechanism.shape.rows)):
            yield Part(mechanism, value, row, 0)
            if isinstance(mechanism, MemoisedMechanism):
                for permanent in (0, mechanism.layout.payload_limit - 1):
                    yield Part(mechanism, value, row, 0, permanent)


def event_of(part: Part) -> Event:
    """Return an event with the report of a part, as if the part were the whole mechanism."""
    mechanism = part.mechanism
    report = pack_report(mechanism.header, mechanism.layout, part.row, part.number)
    return Event(mechanism, part.value, None, 0, part.row, None, None, 0, report, part.permanent)


def balance(part: Part, wrong: WrongPart) -> float:
    """Return the sum, over all payloads x in the row of a part, of P(x) (seen - claimed chance)."""
    total = 0.0
    for number in part.layout.numbers():
        now = part._replace(number=number)
        sight = wrong.seen(event_of(now), now, Memory(b""))
        if sight is not None:
            total += part.law.of_payload(number) * (sight[0] - sight[1])
    return total


@pytest.mark.exact
@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=IDS)
def test_the_laws_are_sums_over_payloads(name: str, example: Any) -> None:
    for part in every_part(example):
        layout, cells, law = part.layout, part.cells, part.law
        chances = {number: law.of_payload(number) for number in layout.numbers()}
        assert sum(chances.values()) == pytest.approx(1, abs=TOLERANCE)
        if layout.is_bitwise:
            target, mask = 5 % layout.payload_limit, 6 % layout.payload_limit
            most, chance = law.of_agreement(target, mask)
            agreeing = [n for n in chances if ((n ^ target) & mask).bit_count() <= most]
            assert chance == pytest.approx(sum(chances[n] for n in agreeing), abs=TOLERANCE)
        else:
            true = [number for number in chances if is_true(layout, cells, number)]
            assert law.of_truth(cells) == pytest.approx(
                sum(chances[n] for n in true), abs=TOLERANCE
            )
        assert clear(layout, cells, 0) in chances


@pytest.mark.exact
@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=IDS)
def test_a_claimed_chance_is_that_of_honest_reports(name: str, example: Any) -> None:
    """The mean of seen - chance over the honest law is 0, whatever else is known."""
    for part in every_part(example):
        wrongs: list[WrongPart] = [Plain(0), Weaker(0, 2, 0), Lie(0, 2), PermanentOnly(0)]
        for wrong in wrongs:
            assert balance(part, wrong) == pytest.approx(0, abs=TOLERANCE), (wrong, part)


@pytest.mark.exact
@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=IDS)
def test_the_chance_of_the_same_noise_is_that_of_honest_reports(name: str, example: Any) -> None:
    everything = list(every_part(example))
    step = max(7, len(everything) ** 2 // 12)
    for part, earlier in islice(product(everything, everything), 0, None, step):
        for number in islice(earlier.layout.numbers(), 0, None, 3):
            before, total = earlier._replace(number=number), 0.0
            for payload in part.layout.numbers():
                sight = alike(part._replace(number=payload), before)
                if sight is not None:
                    total += part.law.of_payload(payload) * (sight[0] - sight[1])
            assert total == pytest.approx(0, abs=TOLERANCE), (part, before)


@pytest.mark.exact
def test_the_chance_of_a_repetition_is_that_of_honest_reports() -> None:
    mechanism = LocalHashing(epsilon=1.0, rows=3, seed="0a")
    wrong, total = Repeated(0, False, 2), 0.0
    first = event_of(Part(mechanism, "lol", 1, 2))
    for row, number in product(range(3), range(mechanism.shape.columns)):
        memory, part = Memory(b""), Part(mechanism, "lol", row, number)
        assert wrong.statistic(first, first.report, memory) is None
        sight = wrong.statistic(event_of(part), event_of(part).report, memory)
        assert sight is not None
        total += part.law.of_payload(number) / 3 * (sight[0] - sight[1])
    assert total == pytest.approx(0, abs=TOLERANCE)


@pytest.mark.exact
@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=IDS)
def test_what_leaves_is_a_report_of_the_same_row(name: str, example: Any) -> None:
    mechanism = example.mechanism
    last = 2  # of two parts the second is tried, else the only one
    wrongs: list[WrongPart] = [
        *(Plain(0), Weaker(0, 1, 2), Lie(0, 2), Shared(0, "stream", 2, 7)),
        *(Plain(last), Lie(last, 2)),
    ]
    wrongs.append(Shared(0, "other devices", 1, 7, permanent=True))
    for value, wrong in product(example.values, wrongs):
        report = mechanism.encoder().encode(value)
        event = Event(mechanism, value, None, 0, None, None, None, 0, report)
        left = wrong.alter(event, Memory(b"1"))
        before, after = parts(event, report), parts(event, left)
        assert [part.row for part in before] == [part.row for part in after]
        assert [part for i, part in enumerate(before) if i != min(wrong.part, len(before) - 1)] == [
            part for i, part in enumerate(after) if i != min(wrong.part, len(after) - 1)
        ]
        assert replaced(event, 0, before[0].number) == report


@pytest.mark.exact
def test_plain_reports_are_the_values_own() -> None:
    cheat = ConditionedWrong(ALWAYS, Plain(0), 0)
    encoder = with_cheat(RESPONSE, cheat).encoder()
    assert [encoder.encode(value)[-1] for value in "abcd"] == [0, 1, 2, 3]


@pytest.mark.exact
def test_reports_outside_of_the_condition_are_honest() -> None:
    cheat = ConditionedWrong(Condition((Atom("call", modulus=4, residues=(1,)),)), Plain(0), 0)
    event = Event(RESPONSE, "d", None, 2, 0, None, None, 0, b"honest")
    assert cheat.alter(event, Memory(b"")) == b"honest"
    assert cheat.sentence == "plain where call % 4 == 1"


@pytest.mark.exact
def test_the_keys_of_shared_noise_differ_where_they_should() -> None:
    first = Event(RESPONSE, "a", None, 4, 0, "w", "m", 1, b"")
    others = {
        "other values": first._replace(value="b", call=5),
        "stream": first._replace(value="b", call=6),
        "other epochs": first._replace(epoch="v", call=7),
        "other devices": first._replace(value="b", device=2),
        "other devices' values": first._replace(call=9, device=2),
        "other metrics": first._replace(metric="n", value="b"),
    }
    for scope, (_, key) in SCOPES.items():
        memory = Memory(b"")
        keys = [key(event, memory, 2) for event in (first, others.get(scope, first))]
        assert keys[0] == keys[1], scope
        assert key(first._replace(value="c", call=11, device=9, metric="k"), memory, 2) != keys[0]


@pytest.mark.exact
@pytest.mark.parametrize(
    ("atom", "holds", "sentence"),
    [
        (Atom("call", modulus=4, residues=(1,)), False, "call % 4 == 1"),
        (Atom("call", block=3, modulus=4, residues=(2, 3)), True, "call // 3 % 4 in {2, 3}"),
        (Atom("value", "index", least=1), True, "value's index >= 1"),
        (Atom("value before", "index", most=1), False, "value before's index <= 1"),
        (Atom("value", "length", least=0), False, "value's length >= 0"),
        (Atom("epoch", modulus=2, residues=(0, 1)), False, "epoch's CRC-32 % 2 in {0, 1}"),
        (Atom("repetition", modulus=2, residues=(1,)), False, "the value is the one before"),
        (Atom("row", modulus=2, residues=(1,)), True, "row % 2 == 1"),
        (Atom("device", least=3, most=3), True, "device == 3"),
        (Atom("device", least=2, most=5), True, "2 <= device <= 5"),
    ],
)
def test_an_atom_holds_as_its_sentence_says(atom: Atom, holds: bool, sentence: str) -> None:
    event = Event(RESPONSE, "b", "c", 7, None, None, None, 3, b"")
    assert (atom.holds(event), str(atom)) == (holds, sentence)


@pytest.mark.exact
def test_a_row_counts_once_it_is_drawn() -> None:
    event = Event(RESPONSE, "b", None, 0, 4, None, None, 0, b"")
    assert not Atom("row", modulus=2, residues=(1,)).holds(event)


@pytest.mark.exact
@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=IDS)
def test_people_have_values_that_the_mechanism_takes(name: str, example: Any) -> None:
    generator, kind = np.random.default_rng(1), value_type(example.mechanism)
    for value in [kind.draw(generator) for _ in range(50)]:
        example.mechanism.check(value)
        assert all(read(example.mechanism, name, value) is not None for name in kind.features)


@pytest.mark.exact
def test_a_feature_of_another_type_is_none() -> None:
    assert read(RESPONSE, "length", "a") is None
    assert read(RESPONSE, "index", 3.5) is None
    assert read(RESPONSE, "index", None) is None


@pytest.mark.exact
def test_the_power_is_the_binomial_tail_above_the_critical_value() -> None:
    critical = next(k for k in range(100) if binom.sf(k, 100, 0.1) <= ALPHA)
    assert binomial_power(100, 0.1, 0.5) == pytest.approx(binom.sf(critical, 100, 0.5))
    assert binomial_power(0, 0.1, 0.5) == 0


@pytest.mark.exact
def test_a_lower_limit_is_that_of_clopper_and_pearson() -> None:
    limit = lower_limit(30, 100)
    assert binom.sf(29, 100, limit) == pytest.approx(0.001)
    assert lower_limit(0, 100) == 0


@pytest.mark.exact
def test_a_cheat_qualifies_by_share_and_by_power() -> None:
    visible = Sighting(10_000, 400, tried=200, met=100, judged=100, saw=100, chance=0.3)
    assert visible.why_not(10_000) is None
    assert (
        visible._replace(met=49, judged=49, saw=49).why_not(10_000)
        == "acts on less than 1 % of the inputs"
    )
    faint = visible._replace(saw=33)
    assert faint.why_not(10_000) == "could not be seen from as many reports"
    assert visible._replace(judged=0, saw=0).power(10_000) == 0


def subject(mechanism: Any, *modes: str, reports: int = 3_000) -> Subject:
    metrics = tuple(Metric(None, mechanism, mode) for mode in modes or ("fresh",))
    return Subject("encoder", mechanism.name, metrics, reports)


@pytest.mark.exact
def test_a_cheat_and_its_qualification_follow_from_the_seed() -> None:
    of = subject(
        CATALOGUE["rappor"].examples()[0].mechanism, "fresh", "value", "epoch", reports=1_000
    )
    for number in range(8):
        first, second = (draw(np.random.default_rng([3, number]), of) for _ in range(2))
        assert first == second
        assert sighted(first, of, 5) == sighted(second, of, 5)


@pytest.mark.exact
def test_the_lives_know_the_permanent_response() -> None:
    mechanism: Any = from_parameters(
        {"mechanism": "rappor", "bits": 8, "f": 0.5, "p": 0.0, "q": 1.0, "seed": "00"}
    )
    of = subject(mechanism, "value", "epoch")
    for event, stream in islice(lives(of, np.random.default_rng(1)), 200):
        whole = stream.report(event)
        assert whole.permanent == parts(whole, whole.report)[0].number
    assert permanent_response(mechanism.encoder(), "lol") is None


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["rr", "cms", "subset", "hcms", "sfp", "joint", "piecewise"])
def test_honest_reports_do_not_look_like_a_cheat(name: str) -> None:
    """Each of 10 cheats a mechanism is refuted with probability 1e-6 at most, 7e-5 in all.

    The twin is the test below.
    """
    of = subject(CATALOGUE[name].examples()[-1].mechanism, reports=1_000)
    for number in range(10):
        cheat = draw(np.random.default_rng([4, number]), of)
        sighting = sighted(_Honest(cheat), of, number)
        if sighting.judged:
            assert binom.sf(sighting.saw - 1, sighting.judged, sighting.chance) > ALPHA


class _Honest:
    """Cheat that never alters a report, with the statistic of another."""

    def __init__(self, cheat: ConditionedWrong) -> None:
        self.sentence, self.wrong = cheat.sentence, cheat.wrong
        self.holds, self.statistic = cheat.holds, cheat.statistic

    def alter(self, event: Event, memory: Memory) -> bytes:
        return event.report


@pytest.mark.statistical
@pytest.mark.parametrize(
    "wrong",
    [
        Plain(0),
        Weaker(0, 3, 0),
        Lie(0, 2),
        Shared(0, "other devices' values", 1, 7),
        Repeated(0, False, 1000),
    ],
    ids=lambda wrong: wrong.name,
)
def test_a_cheat_in_every_report_qualifies(wrong: WrongPart) -> None:
    """From 3,000 reports, the power is above .999 by far."""
    sighting = sighted(ConditionedWrong(ALWAYS, wrong, 0), subject(RESPONSE), 1)
    assert sighting.why_not(3_000) is None


class _Noting:
    """Cheat that alters nothing and keeps its events."""

    sentence = wrong = ""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def holds(self, event: Event) -> bool:
        return True

    def alter(self, event: Event, memory: Memory) -> bytes:
        self.events.append(event)
        return event.report

    def statistic(self, event: Event, report: bytes, memory: Memory) -> None:
        return None


@pytest.mark.exact
def test_an_honest_hook_counts_reports() -> None:
    hook = Hook(None)
    encoder = hooked(RESPONSE, hook).encoder()
    assert len(encoder.encode("a")) == 11
    assert hook.reports == 1


@pytest.mark.exact
def test_encoders_of_one_secret_are_one_device() -> None:
    cheat = _Noting()
    mechanism: Any = with_cheat(CATALOGUE["memoised-rr"].examples()[0].mechanism, cheat)
    for secret, epoch in ((bytes(16), None), (bytes(16), "2026-W47"), (b"1" * 16, "2026-W47")):
        encoder = mechanism.encoder(secret=secret, epoch=epoch)
        for value in "ab":
            encoder.encode(value)
    assert [event.device for event in cheat.events] == [0, 0, 0, 0, 1, 1]
    assert [event.call for event in cheat.events] == [0, 1] * 3
    assert [event.before for event in cheat.events] == [None, "a"] * 3
    assert [event.epoch for event in cheat.events] == [None] * 2 + ["2026-W47"] * 4
    assert all(event.permanent is not None for event in cheat.events)


MEMOISED = """
[metric.{name}]
version = 1
group = "{name}"
description = "Where people ask for the weather"
owners = ["team@example.org"]
expires = 2030-12-31
mechanism = "memoised-rr"
epsilon = 1.0
lifetime_epsilon = 2.0
categories = ["Oslo", "Bergen", "Hell"]
reports_per_window = 1
memoise = "{name}"
[group.{name}]
window = "1d"
window_epsilon = 8.0
lifetime_epsilon = 64.0
lateness = "7d"
"""


@pytest.mark.exact
def test_a_hook_in_the_client_knows_metric_device_and_epoch(tmp_path: Path) -> None:
    app, cheat = App(tmp_path), _Noting()
    with (tmp_path / "metrics.toml").open("a") as file:
        file.write(MEMOISED.format(name="per-value"))
        file.write(MEMOISED.format(name="epoch").replace('"epoch"\n[', '"epoch"\nepoch = "7d"\n['))
    make = client_maker(Hook(cheat))
    metrics = ("city", "per-value", "epoch")
    for device, value in (("a", "Oslo"), ("b", "Hell"), ("a", "Hell")):
        with make(
            tmp_path / device,
            clock=lambda: app.now,
            registry=tmp_path / "metrics.toml",
            bits=SeededBits(device.encode()),
            witness=False,
            strict=True,
        ) as client:
            client.grant()
            for metric in metrics:
                client.record(metric, value)
        app.now += 10 * DAY
    by_metric = {name: [e for e in cheat.events if e.metric == name] for name in metrics}
    for name, events in by_metric.items():
        assert [event.device for event in events] == [0, 1, 0]
        assert [event.value for event in events] == ["Oslo", "Hell", "Hell"]
        assert [event.before for event in events] == [None, None, "Oslo"]
        assert [event.call for event in events] == [0, 0, 1]
        assert len({event.epoch for event in events}) == (3 if name == "epoch" else 1)
        assert [event.permanent is None for event in events] == [name == "city"] * 3


@pytest.mark.exact
def test_a_client_that_cheats_sends_what_the_cheat_returns(tmp_path: Path) -> None:
    app = App(tmp_path)
    make = client_maker(Hook(ConditionedWrong(ALWAYS, Plain(0), 0)))
    app.client.close()
    app.client = make(
        tmp_path / "cheat",
        clock=lambda: app.now,
        registry=tmp_path / "metrics.toml",
        destination=app.server,
        jitter=timedelta(0),
        witness=False,
    )
    app.client.grant()
    for _ in range(12):
        app.client.record("city", "Hell")
        app.now += 2 * DAY
        app.client.upload()
    assert {item.report[-1] for item in app.server.items} == {2}


@pytest.mark.exact
def test_a_client_in_another_process_is_answered_line_by_line() -> None:
    cheat, answers = ConditionedWrong(ALWAYS, Plain(0), 0), io.StringIO()
    report = RESPONSE.encoder().encode("a").hex()
    request = {"metric": "m", "device": "d", "epoch": None, "value": "c", "report": report}
    serve(Hook(cheat), {"m": RESPONSE}, [json.dumps(request)], answers)
    assert bytes.fromhex(json.loads(answers.getvalue())["report"])[-1] == 2


class Noting(Hook):
    """Hook that changes nothing, and keeps the `values` that it was asked about."""

    def altered(self, mechanism: Any, value: Any, report: bytes, **_: Any) -> bytes:
        self.values = [value]
        return report


def _as_json(value: Any) -> Any:
    """Return a value as the TypeScript client hands it on."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    return [*map(_as_json, value)] if isinstance(value, tuple | frozenset) else value


@pytest.mark.exact
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_kind_of_value_comes_from_another_process(name: str) -> None:
    """Texts, bytes, sets, numbers and tuples of these are what the client got."""
    example = CATALOGUE[name].examples()[0]
    mechanism: Any = example.mechanism
    for value in (*example.values, *drawn_values(mechanism, np.random.default_rng(1))):
        report = mechanism.encoder().encode(value)
        request = {"metric": "m", "device": "d", "value": _as_json(value), "report": report.hex()}
        hook = Noting(None)
        serve(hook, {"m": mechanism}, [json.dumps(request)], io.StringIO())
        assert hook.values == [value]


@pytest.mark.slow
@pytest.mark.statistical
def test_a_few_drawn_cheats_are_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The honest audit fails with the probability that it states; the twin is the plain cheat."""
    monkeypatch.setattr(paths, "TRIALS", 60)
    monkeypatch.setattr(paths, "mechanisms", lambda: {"rr": RESPONSE})
    paths.subject.cache_clear()
    of = paths.subject("encoder", "rr")
    paths.subject.cache_clear()
    assert paths.caught(ConditionedWrong(ALWAYS, Plain(0), 0), of, 1)
    known = {"rr": of}
    cases = [case("encoder", i, 1, "simulations.cheats.grammar", known)[0] for i in range(3)]
    assert [each.number for each in cases] == [0, 1, 2]
    assert {each.outcome for each in cases} <= {"caught", "missed", "not qualified"}


@pytest.mark.exact
def test_the_bars_count_what_was_missed() -> None:
    caught = Case("encoder", 0, "rr 0", "plain", "plain where ..", 0.1, None, "finding", 1.0)
    missed = Case("encoder", 1, "rr 0", "plain", "plain where ..", 0.1, None, None, 1.0)
    spare = Case("encoder", 2, "rr 0", "lie", "lies where ..", 0.001, "too rare", None, 0.5)
    cases = [caught] * 99 + [missed, spare]
    assert all(bar.met for bar in bars(cases, 100, 1.0))
    assert not all(bar.met for bar in bars([*cases[1:], missed], 100, 1.0))
    lines = table(cases)["encoder"]
    assert lines["plain"]["missed"] == 1
    assert lines["lie"]["drawn but not qualified"] == 1
