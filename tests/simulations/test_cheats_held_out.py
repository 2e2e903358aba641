"""The held-out grammar's statistics are exact, and its draws follow the seed."""

import math
from collections.abc import Iterator
from copy import deepcopy
from fractions import Fraction
from itertools import islice, product
from typing import Any

import numpy as np
import pytest

from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.protocol.wire import pack_report
from simulations.cheats import Event, Memory, Metric, Subject, paths
from simulations.cheats.held_out import WRONGS, HeldOut, draw, draw_of, text_of
from simulations.cheats.law import Part, cells_of, parts
from simulations.cheats.population import lives
from simulations.cheats.qualification import sighted
from tests.tiers import tiered

FEW_PAYLOADS = (
    "rr 1",  # a value list
    "coin 1",
    "unary 0",
    "subset 0",
    "hadamard 0",
    "piecewise 1",  # a number, rounded at random
    "bit-flip 0",
    "moments 0",
    "hcms 1",  # a text
    "local-hashing 0",
    "unary 2",  # a set
    "privset 0",
    "joint 1",  # several parts
    "joint 2",
    "sfp 0",
    "rappor 3",  # memoised
    "memoised-rr 1",
)

MECHANISMS = paths.mechanisms()
DRAWS = 3
"""Cheats of each class and mechanism."""
FALSE_FAILURE = 1e-9


@pytest.fixture(autouse=True)
def few_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw conditions from 400 events, which is most of the time."""
    monkeypatch.setattr("simulations.cheats.held_out.SAMPLE", 400)


def subject(name: str, path: str = "encoder", reports: int = 400) -> Subject:
    """Return an encoder, or a client with a metric of it and others of other types."""
    mechanism = MECHANISMS[name]
    modes = ("fresh", "value", "epoch") if mechanism.is_memoisable else ("fresh",)
    if path == "encoder":
        return Subject(path, name, tuple(Metric(None, mechanism, mode) for mode in modes), reports)
    others = (("number", "piecewise 1"), ("set", "unary 2"), ("pair", "joint 2"))
    metrics = tuple(Metric(f"{name} {mode}", mechanism, mode) for mode in modes)
    metrics += tuple(Metric(label, MECHANISMS[other]) for label, other in others)
    return Subject(path, "client", metrics, reports)


def met(cheat: HeldOut, of: Subject, seed: int) -> Iterator[Event]:
    """Yield events of honest reports in which the condition holds."""
    for event, stream in islice(lives(of, np.random.default_rng([seed, 5])), of.reports):
        if cheat.holds(event) and cheat.holds(whole := stream.report(event)):
            yield whole


def probability(part: Part, number: int) -> Fraction:
    """Return the exact probability of a payload, from what the mechanism states."""
    mechanism, chance = part.mechanism, part.layout.probability
    if part.permanent is not None:
        assert isinstance(mechanism, MemoisedMechanism)
        permanent = cells_of(part.layout, part.permanent)
        return Fraction(chance(number, permanent, *mechanism.instantaneous))
    channel = mechanism.channel
    roundings = mechanism.roundings(part.value, part.row)
    pairs = (
        (share, chance(number, c, channel.touched, channel.untouched)) for share, c in roundings
    )
    return Fraction(sum(share * of_payload for share, of_payload in pairs))


def excess(cheat: Any, event: Event, memory: Memory, factor: float = 1.0) -> float | None:
    """Return by how much the mean of what the test sees exceeds the mean of its chances times
    `factor`.

    The means are over all honest reports with their exact probabilities. Returns None where no
    report is judged.
    """
    mechanism, total, difference, judged = event.mechanism, Fraction(0), 0.0, False
    every = parts(event, event.report)
    for numbers in product(*(list(part.layout.numbers()) for part in every)):
        pairs = [(part.row, number) for part, number in zip(every, numbers, strict=True)]
        report = pack_report(mechanism.header, mechanism.layout, *mechanism.layout.join(pairs))
        chance = math.prod(map(probability, every, numbers))
        total += chance
        sight = cheat.statistic(event, report, deepcopy(memory))
        if sight is not None:
            judged = True
            difference += float(chance) * (sight[0] - factor * sight[1])
    assert total == 1
    return difference if judged else None


def excesses(name: str, wrong: str, factor: float = 1.0) -> list[float]:
    """Return the excesses over a few events of drawn cheats of a class."""
    differences = []
    of = subject(name, reports=150)
    for seed in range(DRAWS):
        cheat = draw_of(np.random.default_rng([seed, 3]), of, wrong)
        memory, left = Memory(b"test"), 3
        for number, event in enumerate(met(cheat, of, seed)):
            if number % 7 == 3 and left:
                left -= 1
                difference = excess(cheat, event, memory, factor)
                differences += [] if difference is None else [difference]
            cheat.statistic(event, event.report, memory)
    return differences


@pytest.mark.exact
@pytest.mark.parametrize("wrong", WRONGS)
@pytest.mark.parametrize("name", FEW_PAYLOADS)
def test_stated_chance_is_that_of_all_honest_reports(name: str, wrong: str) -> None:
    assert np.abs(excesses(name, wrong)).max(initial=0) < 1e-9


@pytest.mark.exact
@pytest.mark.parametrize("wrong", WRONGS)
def test_chance_that_is_a_thousandth_too_large_is_refuted(wrong: str) -> None:
    assert min(excesses("unary 0", wrong, 1.001)) < -1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("path", ["encoder", "typescript"])
@pytest.mark.parametrize("name", tiered(["prefix 0", "chrome-uma", "apple-safari-energy"]))
def test_stated_chance_is_the_frequency_among_honest_reports(name: str, path: str) -> None:
    """By the inequality of Azuma and Hoeffding, honest reports of a random seed would rarely fail.

    The probability is at most `FALSE_FAILURE`.
    """
    of = subject(name, path, 800)
    refuted = False
    for number, wrong in enumerate(WRONGS * 2):
        cheat = draw_of(np.random.default_rng([number, 4]), of, wrong)
        sums = np.zeros(2)
        memories, cheating = (Memory(b"0"), Memory(b"1")), Memory(b"2")
        judged = np.zeros(2)
        for event in met(cheat, of, number):
            for i, report in enumerate((event.report, cheat.alter(event, cheating))):
                sight = cheat.statistic(event, report, memories[i])
                if sight is not None:
                    judged[i] += 1
                    sums[i] += sight[0] - sight[1]
        limits = np.sqrt(judged / 2 * math.log(2 * len(WRONGS) * 2 / FALSE_FAILURE))
        assert abs(sums[0]) <= limits[0]
        refuted |= bool(sums[1] > limits[1])
    assert refuted  # the same test refutes cheats


@pytest.mark.exact
@pytest.mark.parametrize("path", ["encoder", "python", "typescript"])
@pytest.mark.parametrize("wrong", WRONGS)
@pytest.mark.parametrize(
    "name", tiered(["piecewise 1", "joint 1", "rappor 0", "rr 1", "cms 0", "unary 2"], 3)
)
def test_every_class_is_drawn_for_every_type_of_value(name: str, wrong: str, path: str) -> None:
    of = subject(name, path, 60)
    for seed in range(2):
        cheat = draw_of(np.random.default_rng(seed), of, wrong)
        assert cheat.wrong == wrong
        assert cheat.sentence.isprintable()
        sighting = sighted(cheat, of, seed)
        assert sighting.judged <= sighting.met <= of.reports


@pytest.mark.exact
def test_draw_has_all_classes_and_follows_the_seed() -> None:
    of, wrongs = subject("rappor 0", reports=60), set()
    for seed in range(14, 22):
        cheats = [draw(np.random.default_rng(seed), of) for _ in range(2)]
        wrongs.add(cheats[0].wrong)
        assert cheats[0].sentence == cheats[1].sentence
        left = [
            [cheat.alter(event, memory) for event in met(cheat, of, 1)]
            for cheat, memory in zip(cheats, (Memory(b"a"), Memory(b"a")), strict=True)
        ]
        assert left[0] == left[1]
    assert wrongs == set(WRONGS)


@pytest.mark.exact
@pytest.mark.parametrize("wrong", WRONGS)
def test_typescript_needs_no_permanent_response(wrong: str) -> None:
    of = subject("rappor 0", "typescript", 100)
    for seed in range(3):
        cheat = draw_of(np.random.default_rng(seed), of, wrong)
        assert "permanent" not in cheat.sentence
        memories = Memory(b"a"), Memory(b"a")
        for event in met(cheat, of, seed):
            without = cheat.alter(event._replace(permanent=None), memories[1])
            assert cheat.alter(event, memories[0]) == without


@pytest.mark.exact
def test_equal_values_have_equal_bytes() -> None:
    assert text_of(frozenset("ab")) == text_of({"b", "a"})
    assert text_of(1) == text_of(1.0)
    assert text_of(("a", 1)) != text_of(("a", 2))
