"""Clocks leap beside updates of the registry, and no window reveals more than its cap."""

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ldp.accounting.policy import Allowance
from ldp.client import Client, charges, runtime, sealing
from ldp.client.memoisation_modes import ByEpoch, HiddenByEpoch, Mode
from ldp.client.sealing import Sealer
from ldp.errors import RegistryError
from ldp.protocol.batch import Item
from ldp.registry import Registry
from tests.lives import METRIC, Subjects
from tests.tiers import tiered

pytestmark = pytest.mark.exact
HOUR, DAY = 3600, 86_400
LIVES, CALLS = 150, 60
START = 20_000 * DAY
CAP = 4.0
NESTED = (["1d", "2d", "12h", "1d", "1d", "1d", "1d"], ["2d", "4d", "8d"])
"""Lengths of windows and of epochs, of which each divides the longer ones."""
CROSSING = (["5h", "7h", "35h", "25h", "90m", "36h"], ["35h", "70h", "36h", "75h", "1260h", "50h"])
"""Lengths of which most do not divide each other."""
LEAPS = [0, 0, HOUR, DAY, -DAY, 3 * DAY, -3 * DAY]
ODD_LEAPS = [*LEAPS, 5 * HOUR, -5 * HOUR, 7 * HOUR, -7 * HOUR, 36 * HOUR, 1234, -4321]
MANNERS = {
    "fresh": 'mechanism = "rr"\nepsilon = {price}',
    "per-value": 'mechanism = "memoised-rr"\nepsilon = {half}\nlifetime_epsilon = {price}\n'
    'memoise = "per-value"',
    "epoch": 'mechanism = "memoised-rr"\nepsilon = {half}\nlifetime_epsilon = {price}\n'
    'memoise = "epoch"\nepoch = "{epoch}"',
}
Window = tuple[int, int]


class Told(NamedTuple):
    """A report that was sealed. `agreed`: length of the windows that the owner last agreed to."""

    group: str
    window: Window
    price: float
    response: str
    value: str
    agreed: int


def registries(
    chance: random.Random, folder: Path, lengths: tuple[list[str], list[str]]
) -> list[Registry]:
    """Return registries of one product whose groups have equal caps."""
    names = [f"m{i}" for i in range(3)]
    plans, loaded = [_new_plan(chance, names, lengths[1])], list[Registry]()
    while len(loaded) < 3:
        plan = {name: {**keys} for name, keys in plans[-1].items()}
        for name in names:
            if chance.random() < 0.3:
                new = _new_plan(chance, [name], lengths[1])[name]
                plan[name] = {**new, "version": len(plans) + 1}
            plan[name]["is_there"] = chance.random() < 0.7
        plans.append(plan)
        with suppress(RegistryError):
            loaded.append(_loaded(plan, folder, chance, lengths[0]))
    return loaded


def _new_plan(
    chance: random.Random, names: list[str], epochs: list[str]
) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "version": 1,
            "group": chance.choice("gh"),
            "manner": chance.choice([*MANNERS, "epoch", "epoch"]),
            "price": chance.choice([1.0, 2.0, 4.0]),
            "epoch": chance.choice(epochs),
            "reports": chance.choice([1, 2]),
            "is_there": True,
        }
        for name in names
    }


def _loaded(
    plan: dict[str, dict[str, Any]], folder: Path, chance: random.Random, windows: list[str]
) -> Registry:
    text = '[product]\nname = "p"\n'
    hidden = {group: chance.random() < 0.3 for group in "gh"}
    for group in "gh":
        window = chance.choice(windows)
        text += f'[group.{group}]\nlateness = "9000d"\nwindow = "{window}"\n'
        text += f"window_epsilon = {CAP}\nlifetime_epsilon = 100000.0\n"
    values = ", ".join(f'"{number}"' for number in range(CALLS))
    for name, keys in plan.items():
        if keys["is_there"]:
            is_hidden = hidden[keys["group"]]
            manner = "fresh" if is_hidden and keys["manner"] == "per-value" else keys["manner"]
            how = MANNERS[manner].format(**{**keys, "half": keys["price"] / 2})
            how += '\npresence = "hidden"' * is_hidden
            section = METRIC.format(name=name, categories=values, how=how, **keys)
            text += section.replace("version = 1", f"version = {keys['version']}")
    path = folder / f"metrics{chance.random()}.toml"
    path.write_text(text)
    return Registry.load(path)


def fault_of(
    seed: int, folder: Path, patch: pytest.MonkeyPatch, *, is_crossing: bool = False
) -> str:
    """Return which window of a life reveals more than its cap, "" for none.

    Every record has a value of its own, and every report names its subject. With `is_crossing`
    windows do not divide each other, and the owner agrees to few of the registries.
    """
    chance = random.Random(f"leaps and updates {seed}")  # noqa: S311, a life of nobody
    folder.mkdir()
    choices = registries(chance, folder, CROSSING if is_crossing else NESTED)
    now, leaps = START, ODD_LEAPS if is_crossing else LEAPS
    patch.setattr(runtime, "Responses", Subjects)
    patch.setattr(Subjects, "frozen_responses", 0)
    told, agreed = list[Told](), dict[str, int]()
    honest = sealing.Sealer._charged_items

    def charged_items(self: Sealer, connection: Any, group: str, end: int) -> list[Item]:
        items = honest(self, connection, group, end)
        length = round(self._registry.groups[group].caps.window.total_seconds())
        for item in items:
            price = self._registry.metrics[item.metric].price
            kind, response, value = item.report.decode().split(":")
            number = str(len(told)) if kind == "fresh" else response or value
            if (kind, value) != ("fresh", "none"):  # which reveals nothing
                response = f"{item.metric} {number}"
                told.append(Told(group, (end - length, end), price, response, value, agreed[group]))
        return items

    patch.setattr(Sealer, "_charged_items", charged_items)
    begun = dict[str, Window]()

    def client_of(registry: Registry) -> Client:
        return Client(
            folder / "device.ldp",
            registry=registry,
            clock=lambda: datetime.fromtimestamp(now, UTC),
            jitter=timedelta(0),
            secret=bytes(32),
            witness=False,
            strict=True,
        )

    def grant() -> None:
        client.grant()
        for group in client._registry.groups.values():
            agreed[group.name] = round(group.caps.window.total_seconds())

    client = client_of(choices[0])
    grant()
    for number in range(CALLS):
        now = max(START, now + int(chance.choice(leaps)))
        draw = chance.random()
        if draw < 0.15:
            client.close()
            client = client_of(chance.choice(choices))
            if not is_crossing or chance.random() < 0.3:
                grant()
        elif draw < 0.4:
            client.upload()
        else:
            registry = client._registry
            name = chance.choice([*registry.metrics])
            length = round(
                registry.groups[registry.metrics[name].group].caps.window.total_seconds()
            )
            beginning = now - now % length
            begun[str(number)] = beginning, beginning + length
            client.record(name, str(number))
    client.close()
    return _above(told, begun)


def _above(told: list[Told], begun: dict[str, Window]) -> str:
    """Return the window about which, or in which, a group reveals more than its cap."""
    for last, new in enumerate(told):
        so_far = [one for one in told[: last + 1] if one.group == new.group]
        begins, ends = begun.get(new.value, (0, 0))
        span = new.agreed
        shown = [(start, start + span) for start in range(begins - begins % span, ends, span)]
        sums = [
            *(
                ("about", _prices_about(window, so_far, begun))
                for window in ((begins, ends), *shown)
            ),
            ("of", {one.response: one.price for one in so_far if one.window == new.window}),
        ]
        is_new = all(one.response != new.response for one in told[:last])
        for what, prices in sums:
            if sum(prices.values()) > CAP and (is_new or what == "of"):
                return f"{what} {new.group} {new.window} by {last}: {prices}"
    return ""


def _prices_about(window: Window, told: list[Told], begun: dict[str, Window]) -> dict[str, float]:
    """Return the price of each response about a time in `window`."""
    prices = dict[str, float]()
    for one in told:
        source = begun.get(one.value, (0, 0))
        if window[0] < source[1] and source[0] < window[1]:
            prices[one.response] = one.price
    return prices


def _seal_windows_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sealing, "mark_sealed", lambda *_: None)


def _charge_epochs_of_the_window_that_is_sealed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ByEpoch, "span", Mode.span)
    patch.setattr(HiddenByEpoch, "span", Mode.span)


def _begin_epochs_in_windows_that_are_spent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runtime, "remaining_budget", lambda *_: Allowance(Fraction(9), Fraction(9)))
    patch.setattr(runtime, "is_window_sealed", lambda *_: False)


@pytest.mark.parametrize(
    ("mutant", "seed"),
    [
        (_seal_windows_again, 4),
        (_charge_epochs_of_the_window_that_is_sealed, 197),
        (_begin_epochs_in_windows_that_are_spent, 90),
    ],
)
def test_twin_a_window_that_tells_more_is_found(
    mutant: Callable[[pytest.MonkeyPatch], None],
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The seed makes a life that shows it."""
    mutant(monkeypatch)
    assert fault_of(seed, tmp_path / "life", monkeypatch)


@pytest.mark.parametrize("first", tiered(range(0, LIVES, 50), slow=1))
def test_no_window_tells_more_than_its_cap_whatever_clock_and_registry_do(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(first, first + 50):
        with monkeypatch.context() as patch:
            assert not (line := fault_of(seed, tmp_path / f"{seed}", patch)), f"{seed}: {line}"


@pytest.mark.parametrize("first", tiered(range(0, LIVES, 50), slow=1))
def test_no_window_tells_more_than_its_cap_where_windows_do_not_divide_each_other(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(first, first + 50):
        with monkeypatch.context() as patch:
            fault = fault_of(seed, tmp_path / f"{seed}", patch, is_crossing=True)
            assert not fault, f"{seed}: {fault}"


def test_twin_that_charges_the_period_alone_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window that the owner agreed to may reach beyond the period. The seed makes such a life."""
    monkeypatch.setattr(charges, "beginning", lambda now, _: now)
    monkeypatch.setattr(charges, "ending", lambda now, _: now + 1)
    assert fault_of(37, tmp_path / "life", monkeypatch, is_crossing=True)
