"""A joint metric sends one report about several values, charged once, whose parts share only
that."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp import JointReport, MemoisedResponse, Rappor, UnaryEncoding
from ldp.audit import audit_encoder
from ldp.client import Client, Declined, Recorded
from ldp.errors import ParameterError, RegistryError
from ldp.mechanisms import CoinResponse, HadamardCountMeanSketch
from ldp.mechanisms.joint_base import claimed_ratio
from ldp.protocol.channel import exact_log, round_up
from ldp.protocol.randomness import SeededBits
from ldp.protocol.wire import split_report
from ldp.registry import Registry
from ldp.simulation import Population, draw_reports, draw_tables
from ldp.tables.joint_table import JointTableBuilder
from tests.devices import DAY, NOON, Memory
from tests.examples import part_numbers
from tests.registries import GROUP, JOINT, METRIC

KINDS = UnaryEncoding(categories=("cookies", "update", "none"), epsilon=1.5)
ANSWERS = UnaryEncoding(categories=("no", "yes", "none"), epsilon=0.75)
BANNER = JointReport(of=(KINDS, ANSWERS))
SHOWN = 'mechanism = "unary"\ncategories = ["cookies", "update", "none"]\nepsilon = 1.5'
DISMISSED = 'mechanism = "unary"\ncategories = ["no", "yes", "none"]\nepsilon = 0.75'
MEMOISED = """mechanism = "rappor"
scheme = "identity"
categories = ["no", "yes"]
f = 0.5
p = 0.25
q = 0.75
memoise = "per-value"
"""


def registry(folder: Path, joint: str = JOINT, dismissed: str = DISMISSED, **groups: str) -> Path:
    """Return a registry with the joint metric before its members, as a file may have it."""
    metrics = {"banner": joint, "shown": SHOWN, "dismissed": dismissed}
    text = '[product]\nname = "browser"\n' + GROUP.format(name="banners")
    text += "".join(GROUP.format(name=group) for group in {*groups.values()} - {"banners"})
    for name, rest in metrics.items():
        text += METRIC.format(name=name, group=groups.get(name, "banners"), rest=rest)
    path = folder / "metrics.toml"
    path.write_text(text)
    return path


@pytest.mark.exact
def test_a_joint_report_costs_what_its_parts_cost_together() -> None:
    assert claimed_ratio(BANNER) == KINDS.channel.worst_ratio * ANSWERS.channel.worst_ratio
    assert BANNER.cost.epsilon == round_up(exact_log(claimed_ratio(BANNER)))
    assert BANNER.cost.epsilon <= 1.5 + 0.75


@pytest.mark.exact
@pytest.mark.parametrize(
    ("of", "told"),
    [
        ((KINDS,), "a joint report is of 2 to 4 mechanisms"),
        ((KINDS,) * 5, "a joint report is of 2 to 4 mechanisms"),
        ("ab", "a joint report is of 2 to 4 mechanisms"),
        (
            (KINDS, MemoisedResponse(categories=("a", "b"), epsilon=1.0, lifetime_epsilon=2.0)),
            "not 'memoised-rr'",
        ),
        ((KINDS, CoinResponse(alpha=0.5, beta=0.5)), "not 'coin'"),
        ((KINDS, HadamardCountMeanSketch(epsilon=1, rows=1, width=2, seed="00")), "not 'hcms'"),
        ((KINDS, BANNER), "not 'joint'"),
        ((KINDS, {"mechanism": "telepathy"}), "unknown mechanism 'telepathy'"),
        ((KINDS, 3), "not 'no mechanism'"),
    ],
)
def test_what_is_no_joint_report_is_refused(of: object, told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        JointReport(of=of)  # type: ignore[arg-type]


@pytest.mark.exact
@pytest.mark.parametrize("value", ["cookies", ("cookies",), ("cookies", "no", "no"), 3, None])
def test_a_value_that_is_no_tuple_of_as_many_is_refused(value: object) -> None:
    with pytest.raises(ParameterError, match="a value must be a tuple of 2 values"):
        BANNER.check(value)


@pytest.mark.exact
def test_a_value_that_a_part_does_not_know_is_not_repeated() -> None:
    with pytest.raises(ParameterError, match="value is not one of the 3 categories") as caught:
        BANNER.encoder().encode(("cookies", "my secret"))
    assert "secret" not in str(caught.value)


@pytest.mark.exact
@given(st.binary(min_size=1, max_size=8), st.sampled_from("ab"), st.sampled_from("xyz"))
def test_each_part_is_drawn_as_if_the_other_value_were_another(
    seed: bytes, first: str, second: str
) -> None:
    """The same noise and another second value leave the first part as it is.

    The second part's noise comes after the first's, so the audit tests it, in either order of the
    parts.
    """
    bloom = Rappor(bits=8, hashes=2, cohorts=4, f=0.25, p=0.25, q=0.75, seed="08")
    mechanism = JointReport(of=(bloom, bloom))

    def first_part(*value: str) -> object:
        report = mechanism.encoder(SeededBits(seed)).encode(value)
        row, payload = split_report(report, mechanism.header, mechanism.layout)
        return part_numbers(mechanism, row, payload)[0]

    assert first_part(first, "another") == first_part(first, second)


@pytest.mark.slow
@pytest.mark.statistical
def test_an_encoder_that_gives_both_parts_one_noise_is_caught() -> None:
    """This is the twin of the audit that every joint report of the catalogue passes.

    The honest encoder fails with probability 1e-6; the seed is fixed.
    """
    mechanism = JointReport(of=(ANSWERS, ANSWERS))
    honest = mechanism.encoder(SeededBits(b"twin")).encode

    def shared(value: object) -> bytes:
        report = honest(value)
        return report[:-1] + report[-2:-1]

    pair: object = (("no", "no"), ("yes", "yes"))
    assert audit_encoder(mechanism, pair, honest, trials=500).passed  # type: ignore[arg-type]
    assert not audit_encoder(mechanism, pair, shared, trials=500).passed  # type: ignore[arg-type]


@pytest.mark.exact
def test_the_tables_of_a_joint_report_are_those_of_its_parts() -> None:
    """With hardly any noise, each part is counted for its own value."""
    loud = [UnaryEncoding(categories=tuple(some), epsilon=64.0) for some in ("ab", "xyz")]
    mechanism, pairs = JointReport(of=tuple(loud)), (("a", "x"), ("b", "z"), ("a", "z"))
    counts, generator = np.array([5, 7, 11]), np.random.default_rng(1)
    table = draw_tables(mechanism, pairs, counts, generator)
    assert table["a"].counts.tolist() == [[16, 7]]  # type: ignore[index]
    assert table["b"].counts.tolist() == [[5, 0, 18]]  # type: ignore[index]
    people = Population(pairs, counts=counts)
    builder = JointTableBuilder(mechanism)
    for batch in draw_reports(mechanism, people, generator):
        builder.add_batch(*batch)
    assert builder.build() == table


@pytest.mark.exact
def test_a_population_of_pairs_is_read_and_written_back(tmp_path: Path) -> None:
    text = "a,b,count\ncookies,yes,30\nupdate,no,20\ncookies,no,10\n"
    (tmp_path / "pairs.csv").write_text(text)
    people = Population.from_csv(tmp_path / "pairs.csv")
    assert people.truth()["cookies", "yes"] == 30
    assert people.to_csv() == text
    for wrong, told in (
        ("a,c,count\nx,y,1\n", "line 1 must be"),
        ("a,b,count\nx,1\n", "line 2: 3 cells were expected"),
        ("a,b,count\nx,y,1\nx,y,2\n", "line 3 repeats a value"),
        ("a,count\nx,1\n", "line 1 must be"),
        ("", "is empty"),
    ):
        (tmp_path / "pairs.csv").write_text(wrong)
        with pytest.raises(ParameterError, match=told):
            Population.from_csv(tmp_path / "pairs.csv")


@pytest.mark.exact
def test_a_joint_metric_has_the_mechanisms_of_its_members(tmp_path: Path) -> None:
    read = Registry.load(registry(tmp_path))
    assert list(read.metrics) == ["banner", "shown", "dismissed"]
    joint = read.metric("banner")
    assert joint.mechanism == BANNER
    assert [member.name for member in joint.members] == ["shown", "dismissed"]
    assert joint.price == BANNER.cost.epsilon


@pytest.mark.exact
def test_other_members_are_another_version(tmp_path: Path) -> None:
    """Even members with the same parameters differ: their names say what a report is about."""
    path = registry(tmp_path, dismissed=SHOWN)
    Registry.load(path).lock()
    turned = JOINT.replace('"shown", "dismissed"', '"dismissed", "shown"')
    registry(tmp_path, joint=turned, dismissed=SHOWN)
    with pytest.raises(RegistryError, match=r"changed its members since .* give it version 2"):
        Registry.load(path).check()
    registry(tmp_path)
    with pytest.raises(RegistryError, match="changed its mechanism"):
        Registry.load(path).check()


@pytest.mark.exact
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"joint": JOINT.replace("dismissed", "dismiss")}, "of names no metric 'dismiss'; did you"),
        ({"joint": JOINT.replace('"shown", ', "")}, "a joint report is of 2 to 4"),
        ({"joint": 'mechanism = "joint"'}, "of must be a list of metrics"),
        ({"joint": 'mechanism = "joint"\nof = ["shown", 3]'}, "of must be a list of metrics"),
        ({"joint": JOINT + '\ndictionary = "a.txt"'}, "has the dictionaries of its members"),
        ({"joint": JOINT + '\nmemoise = "per-value"'}, "memoises nothing"),
        ({"joint": JOINT + "\nepsilon = 2.0"}, "mechanism 'joint' takes of, not 'epsilon'"),
        ({"dismissed": MEMOISED}, "metric 'dismissed' is memoised: a joint report has fresh noise"),
        ({"shown": "others"}, "metric 'shown' is in group 'others'"),
    ],
)
def test_a_joint_metric_that_cannot_be_is_one_line(
    tmp_path: Path, change: dict[str, str], told: str
) -> None:
    with pytest.raises(RegistryError, match=told) as caught:
        Registry.load(registry(tmp_path, **change))
    assert "[metric.banner]" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.exact
def test_one_record_of_a_pair_is_charged_once_and_sent_as_one_report(tmp_path: Path) -> None:
    server, now = Memory(), NOON
    settings: dict[str, Any] = {"destination": server, "clock": lambda: now, "jitter": timedelta(0)}
    with Client(tmp_path / "device", registry=registry(tmp_path), **settings) as client:
        client.grant()
        assert client.record("banner", ("cookies", "yes")) == Recorded()
        assert isinstance(client.record("banner", "cookies"), Declined)
        assert client.remaining()["banners"] == 8.0
        now += DAY
        assert client.upload().acknowledged == 1
    with closing(sqlite3.connect(tmp_path / "device")) as connection:
        charges = connection.execute("SELECT times, epsilon FROM totals").fetchall()
    assert charges == [(1, pytest.approx(BANNER.cost.epsilon))]
    (item,) = server.items
    assert item.metric == "banner"
    row, payload = split_report(item.report, BANNER.header, BANNER.layout)
    assert len(part_numbers(BANNER, row, payload)) == 2


@pytest.mark.exact
def test_hidden_presence_sends_a_pair_of_nones() -> None:
    assert BANNER.placeholder == ("none", "none")
    yes_no = UnaryEncoding(categories=("no", "yes"), epsilon=1.0)
    assert JointReport(of=(KINDS, yes_no)).placeholder is None
