"""A mechanism from outside the package is registered, drawn, saved, loaded, decoded and audited."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

import ldp
from ldp.audit import exact_findings
from ldp.audit.cheats import cheats_caught
from ldp.audit.verdict import audited
from ldp.errors import ParameterError, RegistryError
from ldp.mechanisms import RandomizedResponse, from_parameters
from ldp.mechanisms.base import Case, Shape
from ldp.mechanisms.catalogue import CATALOGUE, METRIC_MECHANISMS
from ldp.mechanisms.categorical import Categorical
from ldp.protocol.channel import Channel
from ldp.protocol.kinds import Bits, Index, Kind, Sign, Subset
from ldp.registry import Registry
from ldp.server import Table, TableBuilder, decode
from ldp.simulation import draw_table
from tests.registries import GROUP, METRIC


@dataclass(frozen=True, kw_only=True)
class Flip(Categorical):
    """Flip every bit of a category's one-hot code with the probability 1 / 4."""

    name: ClassVar[str] = "flip"
    wire_id: ClassVar[int] = 200
    kind: ClassVar[Kind] = Bits
    cases: ClassVar[tuple[Case, ...]] = (Case(*"abc", categories=("a", "b", "c"), epsilon=2.2),)

    @cached_property
    def channel(self) -> Channel:
        return Channel(touched=Fraction(3, 4), untouched=Fraction(1, 4), differing=(1, 1))


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for catalogue in (CATALOGUE, METRIC_MECHANISMS):
        monkeypatch.setattr(catalogue, "_loaded", {**catalogue._loaded})
    ldp.register(Flip)


@pytest.mark.slow
@pytest.mark.exact
def test_a_mechanism_of_ones_own_goes_all_the_way(tmp_path: Path) -> None:
    """Each of three counts is within five standard errors of the truth, except with probability
    2e-6.

    The audit passes the mechanism, and catches each cheat that it knows.
    """
    mechanism = Flip(categories=("a", "b", "c"), epsilon=2.2)
    builder, encoder = TableBuilder(mechanism), mechanism.encoder()
    builder.add_all(encoder.encode("b") for _ in range(100))
    people = {"counts": np.array([6000, 3000, 1000]), "generator": np.random.default_rng(1)}
    drawn = draw_table(mechanism, ("a", "b", "c"), **people)  # type: ignore[arg-type]
    (drawn + builder.build()).save(tmp_path / "a.table")
    estimates = decode(Table.load(tmp_path / "a.table"))
    assert list(estimates.values) == ["a", "b", "c"]
    errors = (estimates.count - [6000, 3100, 1000]) / estimates.std_error
    assert np.abs(errors).max() < 5
    assert audited("flip", mechanism, 1000, seed=1).passed
    caught = cheats_caught(mechanism, ("a", "b", "c"), 5000, 1e-6)
    assert caught
    assert all(caught.values())


@pytest.mark.exact
@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"shape": Shape(1, 2)}, "a column for each category"),
        ({"shape": Shape(1, 2), "kind": Index}, "a column for each category"),
        ({"shape": Shape(0, 3)}, "rows must be a whole number from 1"),
        ({"shape": Shape(1, -3)}, "columns must be a whole number from 1"),
        ({"shape": Shape(1, cast("int", 3.5))}, "of type int, not float"),
        ({"shape": (1, 3)}, "shape must be a Shape"),
        ({"kind": None}, "kind one of the four"),
        ({"kind": Sign}, "in a power of 2"),
        ({"kind": Subset}, "needs `ones`"),
    ],
)
def test_a_table_that_its_values_do_not_fit_is_refused(
    attributes: dict[str, object], reason: str
) -> None:
    """Without the reasons there were an IndexError, and a crash for a sign of three columns."""
    other: Any = dataclass(frozen=True, kw_only=True)(type("Other", (Flip,), attributes))
    mechanism = other(categories=("a", "b", "c"), epsilon=2.2)
    for use in (
        lambda: mechanism.encoder().encode("c"),
        lambda: TableBuilder(mechanism),
        lambda: draw_table(mechanism, ("a", "b", "c"), counts=np.array([1, 2, 3])),
        lambda: exact_findings(mechanism, ("a", "b", "c")),
    ):
        with pytest.raises(ParameterError, match=reason):
            use()


@pytest.mark.exact
@pytest.mark.parametrize("cells", [(), (1,), (1, 1, 1), "ab", (-1, 1), (0, 0), (1.5, 1), None])
def test_a_channel_of_other_numbers_of_cells_is_refused(cells: Any) -> None:
    with pytest.raises(ParameterError, match="differing must be two numbers of cells"):
        Channel(touched=Fraction(3, 4), untouched=Fraction(1, 4), differing=cells)


@pytest.mark.exact
def test_names_and_numbers_of_others_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ldp.register(Flip)  # again
    with pytest.raises(ParameterError, match="another mechanism has the name 'rr'"):
        ldp.register(type("Other", (RandomizedResponse,), {}))
    for number in (3, 127, 256):
        with pytest.raises(ParameterError, match="wire_id must be a number from 128 to 255"):
            ldp.register(type("Low", (Flip,), {"name": "low", "wire_id": number}))


@pytest.mark.exact
def test_a_class_that_is_defined_again_replaces_the_old_one() -> None:
    """A notebook runs its cell twice."""
    again = type("Flip", (Flip,), {"__module__": __name__})
    assert ldp.register(again) is METRIC_MECHANISMS["flip"] is not Flip


@pytest.mark.exact
def test_an_entry_point_is_registered_when_its_name_is_met(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A table or a registry names it; without an entry point the name is unknown to both."""

    class Point:
        @staticmethod
        def load() -> type[Flip]:
            return Flip

    mechanism = Flip.examples()[0].mechanism
    rest = 'mechanism = "flip"\nepsilon = 2.2\ncategories = ["a", "b", "c"]'
    metric = METRIC.format(name="flips", group="all", rest=rest)
    path = tmp_path / "metrics.toml"
    path.write_text('[product]\nname = "toy"\n' + GROUP.format(name="all") + metric)
    for catalogue in (CATALOGUE, METRIC_MECHANISMS):
        catalogue._loaded.pop("flip")
    with pytest.raises(ParameterError, match="unknown mechanism 'flip'"):
        from_parameters(mechanism.parameters())
    with pytest.raises(RegistryError, match="no mechanism 'flip'"):
        Registry.load(path)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group, name: [Point()])
    assert Registry.load(path).metric("flips").mechanism == mechanism
    for catalogue in (CATALOGUE, METRIC_MECHANISMS):
        catalogue._loaded.pop("flip")
    assert from_parameters(mechanism.parameters()) == mechanism
