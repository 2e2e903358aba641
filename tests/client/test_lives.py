"""Pairs of lives of a real client never exceed any figure that is printed about them.

Two lives differ in what was recorded within one span of time. The client sends what each report
would be about, in place of reports. So the largest log-ratio of all reports of both lives is a sum
over the fresh reports, epochs and memoised values that differ. Each term comes from the exact
channel of its mechanism. Registries and times of records and uploads are drawn anew for every pair.
"""

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import log, log2
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ldp.audit.memoised_histories import exact_epsilon
from ldp.client import Client, runtime
from ldp.protocol.batch import Batch
from ldp.protocol.randomness import SeededBits
from ldp.registry import Metric, Registry
from ldp.registry.explaining import marks_of
from tests.devices import Memory
from tests.lives import METRIC, Subjects
from tests.tiers import tiered

PAIRS = 500
TOLERANCE = 1e-9
START = datetime(2026, 1, 1, tzinfo=UTC)
SPANS = ("window", "length of a window", "day", "year", "life")
WINDOWS = ("5h", "6h", "12h", "1d", "36h", "2d", "7d", "30d")
VALUES = tuple("abcdefgh")
"""Values that people record outside the span that differs.

Inside it, one life has the values in `ONE` and the other those in `OTHER`. So values return at the
same times in both.
"""
ONE, OTHER = "ijkl", "mnop"
CATEGORIES = ", ".join(f'"{value}"' for value in (*VALUES, *ONE, *OTHER))


class Pair(NamedTuple):
    """Registry, and a list of what happens: an upload, or a record of a metric in both lives."""

    registry: Registry
    span: str
    group: str
    events: list[tuple[datetime, str, tuple[str, str]]]


def drawn(chance: random.Random, folder: Path) -> Pair:
    """Draw a registry, and two lives that differ within a random span."""
    text, groups = '[product]\nname = "product"\n', ["one", "two"][: chance.choice([1, 2])]
    for group in groups:
        text += _group(chance, group)
    if chance.random() < 0.2:
        text = text.replace("\n", f"\nlifetime_epsilon = {chance.choice([6, 12])}\n", 1)
    (folder / "metrics.toml").write_text(text)
    registry = Registry.load(folder / "metrics.toml")
    group, span = chance.choice(groups), chance.choice(SPANS)
    window = registry.groups[group].caps.window
    length = {"day": timedelta(days=1), "year": timedelta(days=366)}.get(span, window)
    whole = min(max(8 * window, 1.5 * length), timedelta(days=600))
    begins = START + chance.random() * whole
    if span == "window":
        begins = START + (begins - START) // window * window
        begins -= timedelta(seconds=begins.timestamp() % window.total_seconds())
    ends = begins + length
    events: list[tuple[datetime, str, tuple[str, str]]] = []
    for _ in range(chance.choice([10, 20, 40])):
        at = START + chance.random() * whole
        if chance.random() < 0.6:  # near or within the span, and near the ends of windows
            at = begins + chance.uniform(-0.2, 1.2) * length
        metric = chance.choice(list(registry.metrics))
        same = chance.choice(VALUES)
        differs = span == "life" or begins <= at < ends
        which = chance.randrange(len(ONE))
        both = (ONE[which], OTHER[which]) if differs and chance.random() < 0.9 else (same, same)
        if at >= START:
            events += [(at, metric, both)] * chance.choice([1, 1, 1, 3])
    for _ in range(chance.choice([1, 4, 12])):
        events.append((START + chance.random() * whole, "", ("", "")))
    events.append((START + whole + 4 * window, "", ("", "")))
    events.append((START + whole + 12 * window, "", ("", "")))
    return Pair(registry, span, group, sorted(events, key=lambda event: event[0]))


def _group(chance: random.Random, group: str) -> str:
    """Draw a group of up to four metrics that want more than its caps allow."""
    window, presence = chance.choice(WINDOWS), chance.choice(["public", "public", "hidden"])
    text, fresh, aside = "", 0.0, 0.0
    for number in range(chance.choice([1, 2, 3, 4])):
        kinds = ["fresh", "epoch", "per-value"][: 2 if presence == "hidden" else 3]
        kind, price = chance.choice(kinds), chance.choice([1.0, 2.0, 3.89, 4.0])
        how = f'mechanism = "rr"\nepsilon = {price}\npresence = "{presence}"'
        if kind != "fresh":
            how = how.replace('"rr"', '"memoised-rr"').replace(
                f"= {price}", f'= {price / 2}\nlifetime_epsilon = {price}\nmemoise = "{kind}"'
            )
        if kind == "epoch":
            how += f'\nepoch = "{_times(window, chance.choice([1, 2, 3]))}"'
            aside += price
        else:
            fresh = max(fresh, price)
        text += METRIC.format(
            name=f"{group}{number}",
            group=group,
            reports=chance.choice([1, 2, 3]),
            categories=CATEGORIES,
            how=how,
        )
    cap = aside + fresh * chance.choice([1.0, 1.0, 1.7, 2.0])
    life = cap * chance.choice([1.0, 1.5, 3.0, 7.0])
    return (
        f'[group.{group}]\nwindow = "{window}"\nwindow_epsilon = {cap}\n'
        f'lifetime_epsilon = {life}\nlateness = "9000d"\n{text}'
    )


def _times(window: str, many: int) -> str:
    return f"{many * int(window[:-1])}{window[-1]}"


def sent(folder: Path, pair: Pair, which: int, seed: bytes) -> list[tuple[str, str]]:
    """Return (metric, subject) of every report that a real client sends in one of the lives."""
    now, server = START, Memory()
    folder.mkdir()
    with Client(
        folder / "device.ldp",
        registry=pair.registry,
        destination=server,
        clock=lambda: now,
        bits=SeededBits(seed),
        jitter=timedelta(0),
        secret=bytes(32),
        witness=folder / "witness",
    ) as client:
        client.grant()
        for at, metric, values in pair.events:
            now = at
            if metric:
                client.record(metric, values[which])
            else:
                arrived = -1
                while arrived < (arrived := len(server.got)):
                    client.upload()
    bodies = dict(server.got).values()
    batches = sorted((Batch.from_bytes(body) for body in bodies), key=lambda batch: batch.id)
    return [(item.metric, item.report.decode()) for batch in batches for item in batch.items]


def log_ratios(pair: Pair, folder: Path, seed: bytes) -> dict[str, float]:
    """Return for every group the largest log-ratio of all reports of the two lives."""
    lives = [sent(folder / str(which), pair, which, seed) for which in (0, 1)]
    assert [_structure(report) for report in lives[0]] == [_structure(r) for r in lives[1]]
    subjects = Counter[tuple[str, str, str]]()
    totals = dict.fromkeys(pair.registry.groups, 0.0)
    for (name, one), (_, other) in zip(*lives, strict=True):
        if one == other:
            continue
        metric = pair.registry.metrics[name]
        if one.startswith("fresh"):
            totals[metric.group] += _largest(metric, 1, memoised=False)
        else:
            subjects[name, one, other] += 1
    for (name, _, _), reports in subjects.items():
        metric = pair.registry.metrics[name]
        totals[metric.group] += _largest(metric, reports, memoised=True)
    return totals


def _structure(report: tuple[str, str]) -> tuple[str, str, str]:
    name, subject = report
    kind, response, _ = subject.split(":")
    return name, kind, response


def _largest(metric: Metric, reports: int, memoised: bool) -> float:
    """Return the largest log-ratio of reports about one value or another.

    It is largest where all of them tell the first value. Memoised reports share a permanent
    response, which is summed over.
    """
    mechanism: Any = metric.mechanism
    if not memoised:
        channel = mechanism.channel
        return log(channel.touched / channel.untouched)
    keep, (tell, lie) = mechanism.permanent_channel, mechanism.instantaneous
    others = len(mechanism.categories) - 2
    right, wrong = Fraction(tell) ** reports, Fraction(lie) ** reports
    first = keep.touched * right + keep.untouched * wrong * (others + 1)
    second = keep.untouched * right + (keep.touched + keep.untouched * others) * wrong
    return log(first / second)


def printed(pair: Pair, group: str) -> float:
    """Return what is printed about a group for a span of the pair's length."""
    caps, worst = pair.registry.groups[group].caps, pair.registry.worst_case(group)
    if pair.span == "window":
        return min(caps.window_epsilon, worst["life"])
    if pair.span == "length of a window":
        return min(2 * caps.window_epsilon, worst["life"])
    return worst[pair.span]


def excess(pairs: range, span: str = "") -> Iterator[tuple[Pair, str, float, float]]:
    """Return (pair, group, ratio, printed) of the lives whose log-ratio exceeds what is printed.

    With `span`, only spans of that kind count.
    """
    with tempfile.TemporaryDirectory() as folder:
        for number in pairs:
            home = Path(folder) / str(number)
            home.mkdir()
            pair = drawn(random.Random(number), home)  # noqa: S311
            if span and pair.span != span:
                continue
            ratios = log_ratios(pair, home, b"lives %d" % number)
            limits = {group: printed(pair, group) for group in ratios}
            if pair.span in ("window", "length of a window"):
                limits = {pair.group: limits[pair.group]}
            else:
                ratios[""] = sum(ratios.values())
                limits[""] = pair.registry.worst_case_of_all()[pair.span]
            for group, limit in limits.items():
                if ratios[group] > limit + TOLERANCE:
                    yield pair, group, ratios[group], limit


@pytest.fixture(autouse=True)
def subjects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "Responses", Subjects)


def changing(chance: random.Random, folder: Path) -> Pair:
    """Draw a registry with a metric memoised per value, and two lives whose values change.

    They differ in what one day records, of values that both record on other days too.
    """
    p, q = chance.choice([(0.25, 0.75), (0.1, 0.6), (0.4, 0.5)])
    reports, f = chance.choice([1, 2, 3]), chance.choice([0.25, 0.5, 0.75])
    how = 'mechanism = "rappor"\nscheme = "identity"\nmemoise = "per-value"\n'
    text = '[product]\nname = "product"\n[group.one]\nwindow = "1d"\nlateness = "9000d"\n'
    text += f"window_epsilon = {chance.choice([4, 8, 20])}\nlifetime_epsilon = 9000.0\n"
    shape = {"group": "one", "categories": '"a", "b"'}
    text += METRIC.format(name="kept", reports=reports, how=f"{how}f={f}\np={p}\nq={q}", **shape)
    if chance.random() < 0.5:
        text += METRIC.format(name="rr", reports=2, how='mechanism = "rr"\nepsilon = 1.5', **shape)
    (folder / "metrics.toml").write_text(text)
    registry = Registry.load(folder / "metrics.toml")
    days = chance.choice([3, 9, 17])
    differing = chance.randrange(days)
    events = []
    for day in range(days):
        at, value = START + timedelta(days=day), chance.choice("ab")
        both = ("a", "b") if day == differing else (value, value)
        for metric in registry.metrics:
            events += [(at + timedelta(hours=n), metric, both) for n in range(reports)]
        events.append((at + timedelta(days=1, minutes=1), "", ("", "")))
    return Pair(registry, "window", "one", sorted(events, key=lambda event: event[0]))


def losses_of_changes(pairs: range) -> Iterator[tuple[float, Registry]]:
    """Yield the largest log-ratio of two lives whose values change, and their registry.

    The log-ratio is that of all reports, by the audit's law of histories.
    """
    with tempfile.TemporaryDirectory() as folder:
        for number in pairs:
            home = Path(folder) / str(number)
            home.mkdir()
            pair = changing(random.Random(number), home)  # noqa: S311
            lives = [sent(home / str(which), pair, which, b"%d" % number) for which in (0, 1)]
            loss, histories = 0.0, (list[str](), list[str]())
            for (name, one), (_, other) in zip(*lives, strict=True):
                if name == "rr":
                    loss += (one != other) * _largest(pair.registry.metrics[name], 1, False)
                    continue
                histories[0].append(one.split(":")[2])
                histories[1].append(other.split(":")[2])
            mechanism: Any = pair.registry.metrics["kept"].mechanism
            both = tuple(histories[0]), tuple(histories[1])
            if both[0] != both[1]:
                loss += float(exact_epsilon(mechanism, both, "per-value"))
            yield loss, pair.registry


OF_TIERS = range(30), range(30, 180), range(180, PAIRS)


@pytest.mark.exact
@pytest.mark.parametrize("pairs", tiered(OF_TIERS, slow=1), ids=str)
def test_no_pair_of_lives_is_told_apart_by_more_than_is_printed(pairs: range) -> None:
    assert next(excess(pairs), None) is None


@pytest.mark.exact
@pytest.mark.parametrize("pairs", tiered([range(9), range(9, 30)]), ids=str)
def test_no_pair_of_lives_whose_values_change_is_told_apart_by_more_than_is_printed(
    pairs: range,
) -> None:
    """The figure is not too large either.

    The cap of a window, which was once all that was printed, and a figure that is a twentieth
    smaller are exceeded.
    """
    shares, passed = [], 0
    for loss, registry in losses_of_changes(pairs):
        figure = registry.worst_case("one")["changing_per_value"]
        shares.append(loss / figure)
        passed += loss > registry.groups["one"].caps.window_epsilon
    assert max(shares) <= 1 + TOLERANCE
    assert max(shares) > 0.95
    assert passed > 0


@pytest.mark.exact
def test_the_twin_that_counts_any_span_of_a_windows_length_as_one_window_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cap of a window was once printed for any span of its length."""

    def one_window(pair: Pair, group: str) -> float:
        return pair.registry.groups[group].caps.window_epsilon

    monkeypatch.setattr("tests.client.test_lives.printed", one_window)
    pair, _, ratio, limit = next(excess(range(PAIRS), "length of a window"))
    assert pair.span == "length of a window"
    assert ratio > limit


@pytest.mark.exact
def test_the_twin_whose_epochs_take_nothing_of_a_window_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Earlier, an epoch that is paid could report beside a full window."""
    monkeypatch.setattr(Registry, "set_aside", lambda *_: Fraction(0))
    pair, _, ratio, limit = next(excess(range(PAIRS), "window"))
    assert pair.span == "window"
    assert ratio > limit


@pytest.mark.exact
@pytest.mark.parametrize("experiments", [1, 2, 6])
def test_days_are_linked_by_names_alone_no_better_than_the_printed_bits(
    tmp_path: Path, experiments: int
) -> None:
    """Real devices have an arm of every experiment.

    The attacker has the names in the batches of two days, and links each batch to one with the same
    names.
    """
    devices, chance = 60, random.Random(experiments)  # noqa: S311
    arms = [f"e{n}{arm}" for n in range(experiments) for arm in "ab"]
    text = '[product]\nname = "p"\n[group.one]\nwindow = "1d"\nwindow_epsilon = 99\n'
    text += "lifetime_epsilon = 9999\n"
    shape = {"group": "one", "categories": '"a"', "reports": 1}
    how = 'mechanism = "rr"\nepsilon = 1.0'
    (tmp_path / "metrics.toml").write_text(
        text + "".join(METRIC.format(name=name, how=how, **shape) for name in arms)
    )
    registry = Registry.load(tmp_path / "metrics.toml")
    days: tuple[list[frozenset[str]], list[frozenset[str]]] = ([], [])
    for device in range(devices):
        mine = [f"e{n}{chance.choice('ab')}" for n in range(experiments)]
        for day, names in enumerate(days):
            at = START + timedelta(days=day)
            events = [(at, name, ("a", "a")) for name in mine]
            events.append((at + timedelta(days=1, minutes=1), "", ("", "")))
            life = Pair(registry, "day", "one", events)
            reports = sent(tmp_path / f"{device}.{day}", life, 0, b"%d" % device)
            names.append(frozenset(name for name, _ in reports))
    yesterday = Counter(days[0])
    linked = sum((names == before) / yesterday[names] for before, names in zip(*days, strict=True))
    groups = registry.marks()
    assert marks_of(registry)["bits"] == 2 * experiments == log2(groups)
    assert linked <= groups + TOLERANCE
    assert linked > min(2**experiments, devices / 3) - TOLERANCE, "the twin: names do link days"
