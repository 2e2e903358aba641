"""Arguments of a wrong type raise an error of the package, which names what is expected."""

import json
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ldp
from ldp import audit, central, planning, privacy_loss, server, simulation
from ldp.accounting import Caps, Cost, advanced, group, parallel, sequential
from ldp.central.regression import PrivateLinearRegression
from ldp.errors import LdpError, ParameterError, require_share
from ldp.mechanisms.memoised import MemoisedResponse
from ldp.registry import Registry
from ldp.registry.explaining import explanation, in_text
from ldp.regression import OutcomeDesign, RandomizedOutcomeRegression
from ldp.tables.result import Result
from tests.folders import TESTS

pytestmark = pytest.mark.exact

Wrong: Any = "foo"
NONE: Any = None
TIME: Any = np.timedelta64(1, "s")
ONE: Any = np.timedelta64(1)
"""Times that numpy calls whole numbers."""
HALF: Any = 3.5
PARTS: Any = [1.5, 2.0]
TWO: Any = np.int64(2)
CITIES = ldp.RandomizedResponse(categories=("Oslo", "Bergen", "Hell"), epsilon=4.0)
TABLE = simulation.draw_table(CITIES, ["Oslo", "Hell"] * 50, generator=1)
PART: Any = ldp.RandomizedResponse(categories=("a", "b"), epsilon=1.0)
PAIR: Any = ldp.JointReport(of=(PART, PART))
CURATOR: Any = {"categories": ("a", "b"), "epsilon": 1.0}
NUMBERS = simulation.draw_table(
    ldp.HierarchicalHistogram(epsilon=4.0, bounds=(0, 8), buckets=4), ["1", "5"] * 500, generator=1
)
BY_CATEGORY = simulation.draw_table(
    ldp.HierarchicalHistogram(epsilon=4.0, bounds=(0, 8), buckets=4, by=("a", "b")),
    [("a", 1), ("b", 5)] * 500,
    generator=1,
)
MEAN = simulation.draw_table(ldp.OneBitMean(bounds=(0, 8), epsilon=4.0), ["1"] * 50, generator=1)
MEMOISED = simulation.draw_table(
    MemoisedResponse(categories=("a", "b"), epsilon=1.0, lifetime_epsilon=2.0),
    ["a", "b"] * 50,
    generator=1,
)
SHARES: Any = {"users": 1000, "epsilon": 1.0, "domain": 4}

CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "design": (lambda: RandomizedOutcomeRegression(Wrong), "design must be OutcomeDesign, got str"),
    "time for epsilon": (
        lambda: ldp.RandomizedResponse(categories=("a", "b"), epsilon=TIME),
        "epsilon must be a number",
    ),
    "times for epsilons": (
        lambda: ldp.compare(["rr"], ["a", "b"], epsilons=[1, TIME]),
        "epsilon must be a number",
    ),
    "register": (lambda: ldp.register(Wrong), "'foo' is not a class of mechanisms"),
    "rule": (lambda: server.decode(TABLE, rule=Wrong), "rule must be Rule, got str"),
    "threshold": (lambda: server.Rule(threshold=Wrong), "threshold must be a float"),
    "delta": (
        lambda: PrivateLinearRegression(delta=NONE).fit([[1.0], [2.0]], [1.0, 2.0]),
        "delta must be a float",
    ),
    "share": (
        lambda: require_share(Decimal("0.5"), "level"),
        r"level must be a float or fraction strictly between 0 and 1, got Decimal\('0.5'\)",
    ),
    "mean": (lambda: server.decode_mean(Wrong), "give one Table"),
    "regression": (lambda: server.decode_regression(Wrong), "give one Table"),
    "categories": (lambda: server.decode_by_category(Wrong), "give one Table"),
    "prefixes": (lambda: server.discover_prefixes(Wrong), "give one Table"),
    "pairs": (lambda: server.associate(Wrong), "give one Table"),
    "start": (lambda: server.TableBuilder(CITIES, start=Wrong), "give one Table"),
    "parts": (lambda: server.JointTableBuilder(Wrong), "'foo' is not a mechanism"),
    "pooled": (
        lambda: server.decode(TABLE, weighted_reports_per_client=Wrong),
        "weighted_reports_per_client must be a number",
    ),
    "neighbours": (lambda: Cost(epsilon=1.0, neighbours=Wrong), "neighbours must be Neighbours"),
    "released": (
        lambda: central.noisy_histogram(["a"], **CURATOR, neighbours=Wrong),
        "neighbours must be Neighbours, got str",
    ),
    "at most": (
        lambda: central.noisy_histogram(["a"], **CURATOR, at_most=Wrong),
        "at_most must be a number",
    ),
    "quantiles": (
        lambda: server.decode_distribution(NUMBERS).at(quantiles=Wrong),
        "quantiles must be a float or fraction",
    ),
    "no quantile": (
        lambda: server.decode_by_category(BY_CATEGORY).at(quantiles=1),
        "quantiles must lie strictly between 0 and 1",
    ),
    "audit of nothing": (
        lambda: audit.audit_encoder(CITIES, [], Wrong, trials=5),
        "an audit needs values, and trials",
    ),
    "audit of no trial": (
        lambda: audit.audit_encoder(CITIES, ["Oslo"], Wrong, trials=0),
        "an audit needs values, and trials",
    ),
    "audit of half a trial": (
        lambda: audit.epsilon_at_least(CITIES, ("Oslo", "Hell"), Wrong, trials=Wrong),
        "an audit needs values, and trials",
    ),
    "audit that passes": (
        lambda: audit.audit_encoder(CITIES, ["Oslo"], Wrong, trials=1, alpha=float("nan")),
        "alpha must lie strictly between 0 and 1",
    ),
    "error": (
        lambda: audit.epsilon_at_least(CITIES, ("Oslo", "Hell"), Wrong, trials=1, error=2),
        "error must lie strictly between 0 and 1",
    ),
    "one value": (lambda: audit.worst_ratio(CITIES, ["Oslo"]), "give two values or more"),
    "half a person": (
        lambda: simulation.Population.of_counts({"Oslo": HALF}),
        "counts must be whole numbers from 0",
    ),
    "half a person at the curator": (
        lambda: central.noisy_histogram({"a": HALF, "b": 2}, **CURATOR),
        "counts must be whole numbers from 0",
    ),
    "strings of half a person": (
        lambda: central.noisy_strings({"a": HALF}, epsilon=1.0, delta=1e-6),
        "counts must be whole numbers from 0",
    ),
    "mean of half a person": (
        lambda: central.noisy_mean(np.ones(2), PARTS, bounds=(0, 8), epsilon=1.0),
        "counts must be whole numbers from 0",
    ),
    "frequencies": (
        lambda: simulation.draw_table(
            CITIES, ["Oslo", "Hell"], frequencies=np.array([2.0, -1]), users=5
        ),
        "counts must be >= 0",
    ),
    "users": (
        lambda: simulation.draw_table(CITIES, ["Oslo", "Hell"], frequencies=np.ones(2), users=-1),
        "users must be from 1",
    ),
    "answers": (
        lambda: ldp.UnaryEncoding(categories=("a", "b"), epsilon=1.0, at_most=TWO),
        "at_most must be a whole number from 1 to 2 of type int, not int64",
    ),
    "bounds": (
        lambda: ldp.OneBitMean(bounds=(0, float("nan")), epsilon=1.0),
        "bounds must be two numbers",
    ),
    "bound of one value": (lambda: planning.lower_bound(1, 2.0), "domain must be two values"),
    "bound of no epsilon": (lambda: planning.lower_bound(4, -1), "epsilon must be finite and > 0"),
    "ratio of no report": (
        lambda: planning.bound_ratio(CITIES, 3, reports=0),
        "reports must be finite and > 0",
    ),
    "mu": (lambda: central.gaussian_delta(1.0, NONE), "mu must be a number"),
    "gaussian": (lambda: central.gaussian_mu(NONE, 1e-6), "epsilon must be a float"),
    "gaussian epsilon": (lambda: central.gaussian_epsilon(1.0, NONE), "delta must be a float"),
    "costs": (lambda: sequential([Wrong]), "cost must be Cost, got str"),
    "largest": (lambda: parallel([Wrong]), "cost must be Cost, got str"),
    "people": (lambda: group(Cost(epsilon=1.0), NONE), "size must be a number"),
    "window": (
        lambda: Caps(window=Wrong, window_epsilon=1.0, lifetime_epsilon=1.0),
        "window must be timedelta, got str",
    ),
    "fakes": (lambda: planning.plan(**SHARES, fakes=Wrong), "share of made-up reports must be"),
    "bytes": (lambda: planning.report_bytes(Wrong), "'foo' is not a mechanism"),
    "law": (lambda: audit.exact_law(Wrong, "Oslo"), "'foo' is not a mechanism"),
    "one part": (
        lambda: server.JointTableBuilder(PART),
        "of one part are counted by a TableBuilder",
    ),
    "several": (
        lambda: simulation.draw_table(PAIR, [("a", "b")]),
        "several parts: use draw_tables",
    ),
    "estimates": (
        lambda: simulation.draw_estimates(
            PAIR, held=1, others=np.array([2]), draws=1, generator=np.random.default_rng(1)
        ),
        "several parts: use draw_tables",
    ),
    "reports": (lambda: simulation.encode_batch(Wrong, ["Oslo"]), "'foo' is not a mechanism"),
    "drawn": (lambda: simulation.draw_table(Wrong, ["Oslo"]), "'foo' is not a mechanism"),
    "people drawn": (
        lambda: list(simulation.draw_reports(Wrong, simulation.Population(("a",), np.array([1])))),
        "'foo' is not a mechanism",
    ),
    "no text": (lambda: ldp.simulate(CITIES, [b"\xff"]), r"b'\\xff': value is not one of"),
    "pair": (lambda: ldp.simulate(CITIES, [("a", b"\xff")]), r"\"a,b'.*'\": value is not one of"),
    "any": (lambda: privacy_loss.AnyMechanism(NONE), "must be a float or fraction"),
    "time as epsilon": (lambda: privacy_loss.AnyMechanism(TIME), "must be a float or fraction"),
    "time as threshold": (
        lambda: server.Rule(threshold=TIME),
        "threshold must be a float or fraction",
    ),
    "time as share": (
        lambda: ldp.Rappor(bits=16, hashes=2, cohorts=2, f=ONE, p=0.5, q=0.75, seed="00"),
        "f must be a number from 0 to 1",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_type_is_an_error_of_the_package(name: str) -> None:
    call, text = CALLS[name]
    with pytest.raises(LdpError, match=text):
        call()


def test_the_right_types_are_taken() -> None:
    assert Caps(window=timedelta(days=1), window_epsilon=1.0, lifetime_epsilon=np.float64(2.0))
    assert server.decode(TABLE, rule=server.Rule(threshold=np.float64(3))).values
    assert planning.Shares(**SHARES, alpha=np.float64(0.05)).alpha == 0.05


@pytest.mark.parametrize("number", [Fraction, np.float32, np.float64, lambda x: x])
def test_results_and_explanations_take_every_type_of_real_numbers(
    number: Callable[[float], Any], tmp_path: Path
) -> None:
    """A fraction was refused by scipy, and a number of numpy by the file of the summary."""
    quarter, half, two = map(number, (0.25, 0.5, 2.0))
    results: list[Result] = [
        server.decode(TABLE, rule=server.Rule(alpha=quarter)).under_fakes(quarter).at(level=half),
        server.decode(TABLE, rule=server.Rule(threshold=two)).at(reports_per_person=two),
        server.decode(MEMOISED, weighted_reports_per_client=two),
        server.decode_distribution(NUMBERS).at(level=half, quantiles=(quarter,)),
        server.decode_by_category(BY_CATEGORY).at(quantiles=quarter).under_fakes(quarter),
        server.decode_mean(MEAN).at(level=half, reports_per_person=two).under_fakes(quarter),
    ]
    for place, result in enumerate(results):
        result.to_csv(tmp_path / f"{place}.csv")
        ends = result.interval(half)
        assert all(np.asarray(end).dtype == np.float64 for end in ends)
    registry = Registry.load(TESTS / "data" / "device-format-2" / "metrics.toml")
    data = explanation(registry, belief=quarter, certainty=number(0.75))
    assert "rather than" in in_text(data)
    assert json.dumps(data) == json.dumps(explanation(registry, belief=0.25, certainty=0.75))


@pytest.mark.parametrize("number", [Fraction, np.float32, np.float64, np.int64, np.uint8])
def test_bounds_are_of_every_type_of_real_numbers(number: Callable[[float], Any]) -> None:
    """The least and the largest number of a column of numpy were refused as no numbers."""
    bounds: Any = (number(0), number(8))
    of_floats = ldp.OneBitMean(bounds=(0.0, 8.0), epsilon=1.0)
    assert ldp.OneBitMean(bounds=bounds, epsilon=1.0).fingerprint == of_floats.fingerprint
    assert planning.Mean(users=1000, epsilon=1.0, bounds=bounds).bounds == (0.0, 8.0)


@pytest.mark.parametrize("level", [95, 0, -1, "0.95"])
def test_a_range_has_no_interval_at_a_level_that_is_no_share(level: Any) -> None:
    with pytest.raises(ParameterError, match="level must"):
        server.decode_distribution(NUMBERS).between(0, 4, level)


@pytest.mark.parametrize("number", [Fraction, np.float32, np.float64])
def test_a_share_of_every_type_of_real_numbers_has_the_result_of_its_float(
    number: Callable[[float], Any],
) -> None:
    """A fraction was refused by decimal, by numpy or by scipy."""
    histogram = central.noisy_histogram(["a", "b", "b"] * 100, **CURATOR)
    design = OutcomeDesign.forced(truth=2 / 3, yes=1 / 6)
    columns, answers = np.arange(8.0)[:, None], np.array([1.0, 0, 0, 1, 0, 1, 1, 1])
    logistic = RandomizedOutcomeRegression(design).fit(columns, answers)

    def results(share: Any) -> list[object]:
        return [
            advanced([Cost(epsilon=0.1)] * 365, delta=share),
            planning.Percentile(q=share, users=1000, epsilon=1.0),
            central.percentile(histogram, (0, 1, 2), share, level=share),
            central.DiscreteLaplace(epsilon=1.0).reach(share),
            logistic.coefficient_intervals(share).tolist(),
        ]

    assert repr(results(number(0.25))) == repr(results(0.25))
