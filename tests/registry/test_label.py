"""The most that a metric may cost goes with its table, from the registry to the summary."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from ldp import MemoisedResponse, RandomizedResponse
from ldp.errors import DecodeError, ParameterError
from ldp.registry import Registry
from ldp.registry.explaining import label
from ldp.registry.label import Label
from ldp.server import Table, decode
from ldp.simulation import draw_table
from ldp.tables.joint_table import load_table
from tests.command_line import REGISTRY, run

MECHANISM = RandomizedResponse(categories=("a", "b", "c"), epsilon=3.0)
LABEL = Label(
    metric="home",
    group="places",
    report_epsilon=3.0,
    window="1 day",
    window_epsilon=8.0,
    lifetime_epsilon=64.0,
)
OTHER = replace(LABEL, lifetime_epsilon=128.0, memoise="epoch", epoch="90 days")


@pytest.mark.exact
def test_a_label_is_what_the_registry_says(tmp_path: Path) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(REGISTRY)
    (tmp_path / "cities.txt").write_text("Oslo\nBergen\n")
    made = label(Registry.load(path), "home")
    assert made == replace(LABEL, report_epsilon=made.report_epsilon)
    assert 2.999 < made.report_epsilon <= 3
    kept = REGISTRY.replace('mechanism = "rr"\n', 'mechanism = "memoised-rr"\nmemoise = "epoch"\n')
    kept = kept.replace("epsilon = 3.0", 'epsilon = 1.0\nlifetime_epsilon = 3.0\nepoch = "30d"')
    path.write_text(kept)
    made = label(Registry.load(path), "home")
    assert (made.memoise, made.epoch) == ("epoch", "30 days")


@pytest.mark.exact
def test_labels_survive_files_and_are_united_in_any_order() -> None:
    plain = Table.empty(MECHANISM)
    one, two = plain.labelled(LABEL), plain.labelled(OTHER)
    assert (plain + one).labels == one.labels == (LABEL,)
    assert one + two == two + one
    assert set((one + two).labels) == {LABEL, OTHER}
    assert (one + one).labels == (LABEL,)
    assert one != plain
    assert Table.from_bytes((one + two).to_bytes()) == one + two
    assert b"labels" not in plain.to_bytes()


@pytest.mark.exact
@pytest.mark.parametrize(
    "spoilt",
    [{"report_epsilon": "3"}, {"window": 1}, {"memoise": "always"}, {"owner": "x"}],
)
def test_a_label_that_is_none_is_refused(spoilt: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="label"):
        Label.of({**asdict(LABEL), **spoilt})
    with pytest.raises(ParameterError, match="not enough"):
        Label.of({"metric": "home"})


@pytest.mark.exact
def test_a_table_file_with_a_wrong_label_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table.empty(MECHANISM).labelled(LABEL)
    monkeypatch.setattr(Label, "fields", {"metric": "home"})
    data = table.to_bytes()
    with pytest.raises(DecodeError, match="label"):
        Table.from_bytes(data)


@pytest.mark.exact
def test_the_commands_carry_the_label_to_the_summary(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate = "simulate home --registry metrics.toml --population cities.csv --seed 1"
    assert run(f"{simulate} --table drawn.table", monkeypatch) == 0
    assert run(f"{simulate} --reports store", monkeypatch) == 0
    counted = "aggregate home --registry metrics.toml store --out counted.table"
    assert run(counted, monkeypatch) == 0
    expected = (label(Registry.load("metrics.toml"), "home"),)
    for name in ("drawn", "counted"):
        assert load_table(f"{name}.table").labels == expected
        assert run(f"decode {name}.table --out {name}.csv", monkeypatch) == 0
        summary = json.loads(Path(f"{name}.json").read_text("utf-8"))
        assert [Label.of(told) for told in summary["labels"]] == [*expected]
        assert (summary["memoised"], summary["lifetime_epsilon"]) == (False, None)


@pytest.mark.exact
def test_a_memoised_table_tells_what_a_life_costs() -> None:
    kept = MemoisedResponse(categories=("a", "b", "c"), epsilon=1.0, lifetime_epsilon=3.0)
    table = draw_table(kept, ("a",), counts=np.array([100]), generator=np.random.default_rng(1))
    summary = decode(table.of_metric(None, memoised=True).labelled(OTHER)).summary
    assert summary["memoised"]
    assert 2.999 < summary["lifetime_epsilon"] <= 3
    assert summary["labels"] == [OTHER.fields]
