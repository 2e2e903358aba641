"""Estimates are unbiased, their intervals hold, and discoveries keep their error rate."""

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2, norm, poisson

from ldp import (
    CoinResponse,
    CountMeanSketch,
    HadamardCountMeanSketch,
    LocalHashing,
    RandomizedResponse,
    Rappor,
)
from ldp.arrays import Floats
from ldp.decoding.error_law import Collisions
from ldp.decoding.mean_sketch import estimated_squares
from ldp.errors import DecodeError, MissingPackage
from ldp.files import csv_text
from ldp.mechanisms import Mechanism
from ldp.mechanisms.sketch import MeanSketch
from ldp.protocol.randomness import SeededBits
from ldp.report import render
from ldp.server import Table, TableBuilder, decode
from ldp.simulation import draw_table
from ldp.tables.estimates import CONTROLS, Estimates, Rule
from ldp.tables.result import COLUMNS
from ldp.tables.saved import SavedResult
from tests.statistics import ALPHA, mean_p, share_p
from tests.tiers import tiered

ZIPF = np.array([4000, 2000, 1300, 1000, 800, 670, 570, 500, 440, 400])
NAMES = tuple(f"value-{i}" for i in range(40))
COUNTS = np.append(ZIPF, np.zeros(30, dtype=np.int64))


def sketch(seed: int, **changes: float) -> CountMeanSketch:
    settings = {"epsilon": 4.0, "rows": 256, "width": 64, **changes}
    return CountMeanSketch(**settings, seed=f"{seed:08x}")  # type: ignore[arg-type]


def hadamard_sketch(seed: int) -> HadamardCountMeanSketch:
    return HadamardCountMeanSketch(epsilon=4.0, rows=128, width=64, seed=f"{seed:08x}")


def randomized(seed: int) -> RandomizedResponse:
    """Return a mechanism of a closed list, whose estimates depend on each other: they add up."""
    return RandomizedResponse(categories=NAMES, epsilon=4.0)


def bloom(seed: int) -> Rappor:
    """Return RAPPOR with few cohorts, whose estimates depend on each other: candidates share
    bits."""
    return Rappor(bits=8, hashes=2, cohorts=16, f=0.0, p=0.25, q=0.75, seed=f"{seed:08x}")


def _squares(table: Table) -> float:
    return estimated_squares(table, table.named_counts())


def errors(mechanism: str, repeats: int) -> tuple[Floats, Floats]:
    """Return estimate - truth and the stated standard errors, shape (repeats, candidates).

    Tables are independent; sketches redraw their hash functions.
    """
    generator = np.random.default_rng(3)
    found, stated = [], []
    chosen: Mechanism
    for seed in range(repeats):
        if mechanism == "cms":
            chosen, names, counts = sketch(seed), NAMES, COUNTS
        elif mechanism == "hcms":
            chosen, names, counts = hadamard_sketch(seed), NAMES, COUNTS
        else:
            names, counts = NAMES[:10], ZIPF
            chosen = RandomizedResponse(categories=names, epsilon=1.5)
        table = draw_table(chosen, names, counts=counts, generator=generator)
        estimates = decode(table, names, method="direct" if mechanism == "rr" else "mean-sketch")
        found.append(estimates.count - counts)
        stated.append(estimates.std_error)
    return np.array(found), np.array(stated)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", tiered(["rr", "cms", "hcms"], 0, 2))
def test_estimates_are_unbiased_with_right_errors_and_intervals(mechanism: str) -> None:
    """Over 250 independent tables, every candidate's error averages to 0.

    The squared errors of a table average to their stated variance (normal tails, split over the
    candidates), and nominal intervals hold. This fails falsely with probability 3 ALPHA; the seed
    is fixed.
    """
    found, stated = errors(mechanism, 250)
    for column in found.T:
        assert mean_p(column, 0.0, column.std(ddof=1)) > ALPHA / found.shape[1]
    ratios = (found**2).mean(axis=1) / (stated**2).mean(axis=1)
    assert mean_p(ratios, 1.0, ratios.std(ddof=1)) > ALPHA
    tight = 1.25 * ratios  # the twin: standard errors 10 % too small
    assert mean_p(tight, 1.0, tight.std(ddof=1)) < ALPHA
    scores = found / stated
    held = int((np.abs(scores) < 1.959964).sum())
    assert share_p(held, scores.size, 0.94, 0.96) > ALPHA
    narrow = int((np.abs(scores) < 0.8 * 1.959964).sum())
    assert share_p(narrow, scores.size, 0.94, 0.96) < ALPHA  # the twin: errors 20 % too small


@pytest.mark.slow
@pytest.mark.statistical
def test_many_reports_need_the_collision_term() -> None:
    """At 1e8 reports in 256 rows, the hash functions are most of the error.

    Intervals hold with their term in the variance; this fails falsely with probability ALPHA, if
    those of a table are independent; the seed is fixed. Without it, in the twin, far fewer hold.
    """
    generator = np.random.default_rng(9)
    counts = COUNTS * 10_000
    held = bare = trials = 0
    for seed in range(60):
        table = draw_table(sketch(seed), NAMES, counts=counts, generator=generator)
        estimates = decode(table, NAMES, method="mean-sketch")
        error = np.abs(estimates.count - counts)
        noise = np.sqrt(table.total * table.mechanism.channel.variance(0.0)) * 64 / 63
        held += int((error < 1.959964 * estimates.std_error).sum())
        bare += int((error < 1.959964 * noise).sum())
        trials += counts.size
    assert share_p(held, trials, 0.93, 0.97) > ALPHA
    assert share_p(bare, trials, 0.93, 0.97) < ALPHA


@pytest.mark.statistical
def test_the_sum_of_squares_is_estimated_without_bias() -> None:
    """This fails falsely with probability ALPHA; the seed is fixed. The twin claims a tenth
    more."""
    generator = np.random.default_rng(4)
    counts = COUNTS * 1000
    found = np.array(
        [
            _squares(draw_table(sketch(seed), NAMES, counts=counts, generator=generator))
            for seed in range(100)
        ]
    )
    truth = float((counts.astype(float) ** 2).sum())
    assert mean_p(found, truth, found.std(ddof=1)) > ALPHA
    assert mean_p(found, 1.1 * truth, found.std(ddof=1)) < ALPHA


@pytest.mark.exact
def test_the_sum_of_squares_does_not_overflow() -> None:
    """With 1e12 reports in 64 rows, sums of squares of the counts exceed 2**63."""
    counts = np.array([6, 3, 1]) * 10**11
    chosen = CountMeanSketch(epsilon=4.0, rows=64, width=1024, seed="01")
    table = draw_table(chosen, NAMES[:3], counts=counts, generator=np.random.default_rng(1))
    assert _squares(table) == pytest.approx(float((counts.astype(float) ** 2).sum()), rel=0.02)


@pytest.mark.exact
def test_the_sum_of_squares_is_never_negative() -> None:
    generator = np.random.default_rng(4)
    single = draw_table(
        sketch(1), NAMES, counts=np.eye(1, 40, dtype=np.int64)[0], generator=generator
    )
    assert _squares(single) >= 0


def most_p(samples: Floats, most: float) -> float:
    """Return the one-sided normal p-value of "the mean of many such samples is at most `most`"."""
    return float(norm.sf((samples.mean() - most) / (samples.std(ddof=1) / samples.size**0.5)))


def discoveries(repeats: int, make: Callable[[int], Mechanism], *controls: str) -> list[Floats]:
    """Return the false-discovery proportions of each control, over the same independent tables.

    Hash functions are redrawn.
    """
    generator, proportions = np.random.default_rng(8), []
    for seed in range(repeats):
        table = draw_table(make(seed), NAMES, counts=COUNTS, generator=generator)
        estimates = decode(table, NAMES)
        for control in controls:
            detected = estimates.detected(Rule(control=control))
            proportions.append((detected & (COUNTS == 0)).sum() / max(1, detected.sum()))
    return list(np.reshape(proportions, (repeats, len(controls))).T)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("make", tiered([sketch, randomized, bloom, hadamard_sketch], 0, 3))
def test_discoveries_keep_the_false_discovery_rate(make: Callable[[int], Mechanism]) -> None:
    """With 30 of 40 candidates held by nobody, the mean proportion is at most 0.05 (normal tail).

    This fails falsely with probability ALPHA. The twin is uncorrected.
    """
    controlled, uncorrected = discoveries(200, make, "fdr", "none")
    assert most_p(controlled, 0.05) > ALPHA
    assert most_p(uncorrected, 0.05) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("rows", "width", "reports", "held"),
    tiered(
        [
            (64, 1024, 10**6, 3),
            (4096, 64, 3, 3),
            (256, 1024, 10**6, 3),
            (256, 256, 10**5, 50),
            (512, 512, 10**8, 3),
            (256, 2048, 10**7, 3),
            (4096, 64, 1, 3),
            (2048, 512, 10, 3),
            (2048, 512, 100, 3),
        ],
        2,
    ),
)
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "unlisted"])
def test_values_nobody_holds_are_rarely_discovered_at_any_shape(
    rows: int, width: int, reports: int, held: int, listed: bool
) -> None:
    """Of 1,000 candidates that nobody holds, Bonferroni at 0.05 discovers any in 5 % of 24 tables
    at most.

    This fails falsely with probability ALPHA (exact binomial); the seed is fixed. The twin, a
    normal tail, discovers some where collisions are rare and heavy.
    """
    generator = np.random.default_rng(6)
    weights = 1 / np.arange(1, held + 1)
    names = tuple(f"held-{i}" for i in range(held))
    absent = tuple(f"absent-{i}" for i in range(1000))
    candidates = names + absent if listed else absent
    failures = normal = 0
    for seed in range(24):
        table = draw_table(
            sketch(seed, rows=rows, width=width),
            names,
            frequencies=weights / weights.sum(),
            users=reports,
            generator=generator,
        )
        estimates = decode(table, candidates, method="mean-sketch")
        bar = 0.05 / len(candidates)
        failures += bool((estimates.p_value[-1000:] <= bar).any())
        normal += bool((norm.sf(estimates.count[-1000:] / estimates.noise) <= bar).any())
    assert share_p(failures, 24, 0.0, 0.05) > ALPHA
    if (rows, width) in ((64, 1024), (256, 1024)):
        assert share_p(normal, 24, 0.0, 0.05) < ALPHA  # the twin: a normal tail


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("method", ["regression", "mean-sketch"])
def test_heavy_values_that_are_not_listed_make_no_discoveries(method: str) -> None:
    """Of 1,000 candidates that nobody holds, Bonferroni at 0.05 discovers any in 5 % of 24 tables
    at most.

    This fails falsely with probability ALPHA (exact binomial); the seed is fixed. The twin, a
    normal tail, discovers some in all tables.
    """
    generator, failures, normal = np.random.default_rng(6), 0, 0
    for seed in range(24):
        table = draw_table(
            sketch(seed, rows=64, width=1024),
            ("a", "b", "c"),
            counts=np.array([550_000, 270_000, 180_000]),
            generator=generator,
        )
        estimates = decode(table, [f"absent-{i}" for i in range(1000)], method=method)
        failures += bool((estimates.p_value <= 0.05 / 1000).any())
        normal += bool((norm.sf(estimates.count / estimates.std_error) <= 0.05 / 1000).any())
    assert share_p(failures, 24, 0.0, 0.05) > ALPHA
    assert share_p(normal, 24, 0.0, 0.05) < ALPHA


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("rows", "width"), [(256, 1024), (2048, 512)])
def test_intervals_of_discoveries_hold_where_collisions_are_skewed(rows: int, width: int) -> None:
    """At 95 %, this fails falsely with probability ALPHA, if intervals of a table are independent.

    The seed is fixed. The twin has intervals of half the width.
    """
    generator = np.random.default_rng(2)
    weights = 1 / np.arange(1, 301)
    names = tuple(f"value-{i}" for i in range(1500))
    held = found = narrow = 0
    for seed in range(20):
        counts = np.append(generator.multinomial(10**6, weights / weights.sum()), np.zeros(1200))
        table = draw_table(
            sketch(seed, rows=rows, width=width),
            names,
            counts=counts.astype(np.int64),
            generator=generator,
        )
        estimates = decode(table, names, method="mean-sketch")
        low, high = estimates.interval(0.95, selected=True)
        detected = estimates.detected()
        held += int(((low <= counts) & (counts <= high))[detected].sum())
        narrow += int((4 * abs(counts - (low + high) / 2) <= high - low)[detected].sum())
        found += int(detected.sum())
    assert share_p(held, found, 0.95, 1.0) > ALPHA
    assert share_p(narrow, found, 0.95, 1.0) < ALPHA


@pytest.mark.slow
@pytest.mark.statistical
def test_direct_intervals_hold_for_a_rare_category_in_few_reports() -> None:
    """1,300 reports of 8 categories at epsilon 9 name a category that nobody holds 0.2 times on
    average.

    An interval of two normal standard errors, the twin, holds in 85 % only. This fails falsely with
    probability ALPHA.
    """
    names = tuple("abcdefgh")
    mechanism = RandomizedResponse(categories=names, epsilon=9.0)
    counts = np.array([1300, 0, 0, 0, 0, 0, 0, 0])
    generator = np.random.default_rng(1)
    held = normal = 0
    for _ in range(1000):
        table = draw_table(mechanism, names, counts=counts, generator=generator)
        estimates = decode(table)
        low, high = estimates.interval(0.95)
        held += int((low[1] <= 0) and (high[1] >= 0))
        normal += int(abs(estimates.count[1]) <= 1.959964 * estimates.std_error[1])
    assert share_p(held, 1000, 0.95, 1.0) > ALPHA
    assert share_p(normal, 1000, 0.95, 1.0) < ALPHA


@pytest.mark.exact
def test_a_direct_p_value_is_the_binomial_tail_of_nobody() -> None:
    mechanism = CoinResponse(alpha=0.5, beta=0.5)
    builder = TableBuilder(mechanism)
    encoder = mechanism.encoder(SeededBits(b"p"))
    builder.add_all(encoder.encode("no") for _ in range(3))
    table = builder.build()
    yes = int(table.counts[0, 0])
    tail = sum({0: 27, 1: 27, 2: 9, 3: 1}[k] / 64 for k in range(yes, 4))  # Binomial(3, 1/4) >= yes
    assert decode(table).p_value[0] == pytest.approx(tail)


@pytest.mark.exact
def test_few_rows_claim_no_error_rate() -> None:
    table = draw_table(sketch(1, rows=63), NAMES, counts=COUNTS, generator=np.random.default_rng(1))
    estimates = decode(table, NAMES, method="mean-sketch")
    assert np.isnan(estimates.p_value).all()
    assert not estimates.detected().any()
    assert estimates.detected(Rule(threshold=2000.0)).any()
    assert "regression" in estimates.summary["warning"]


@pytest.mark.exact
def test_decoding_again_gives_the_same_numbers_for_the_same_candidate() -> None:
    table = draw_table(sketch(1), NAMES, counts=COUNTS, generator=np.random.default_rng(1))
    many, one = (decode(table, some, method="mean-sketch") for some in (NAMES, NAMES[3:4]))
    assert one.count[0] == many.count[3]


@pytest.mark.exact
@pytest.mark.parametrize(
    ("candidates", "message"), [((), "empty"), (("a", "a"), "twice"), (None, "candidates")]
)
def test_bad_candidates_are_refused(candidates: tuple[str, ...] | None, message: str) -> None:
    table = draw_table(sketch(1), NAMES, counts=COUNTS, generator=np.random.default_rng(1))
    with pytest.raises(DecodeError, match=message):
        decode(table, candidates)


@pytest.mark.exact
def test_an_empty_table_is_refused() -> None:
    with pytest.raises(DecodeError, match="no reports"):
        decode(Table.empty(sketch(1)), NAMES)


def toy(p_values: list[float]) -> Estimates:
    count = np.arange(len(p_values), dtype=float)
    return Estimates(
        values=tuple(map(str, range(len(p_values)))),
        count=count,
        std_error=np.full(count.size, 2.0),
        p_value=np.array(p_values),
        reports=100,
        noise=2.0,
    )


@pytest.mark.exact
def test_the_false_discovery_rate_on_a_worked_example() -> None:
    """The 15 p-values are those of Benjamini and Hochberg 1995, section 4.1.

    Four are above a half, so 10 candidates seem to be held by nobody. So 0.0344 <= 8 x 0.05 / 10 is
    discovered, and 0.0459 > 9 x 0.05 / 10 is not. With another 15 p-values of 1.0, it is their own
    rule at 30 candidates, and three pass.
    """
    published = [
        *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344),
        *(0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0),
    ]
    estimates = toy(published)
    assert estimates.detected().tolist() == [True] * 8 + [False] * 7
    assert estimates.noise_floor() == pytest.approx(2 * norm.isf(8 * 0.05 / 10))
    assert toy(published + [1.0] * 15).detected().sum() == 3
    assert estimates.detected(Rule(control="bonferroni")).sum() == 3
    assert estimates.detected(Rule(control="none")).sum() == 9


@pytest.mark.exact
@given(st.lists(st.floats(0, 1) | st.just(np.nan), max_size=30), st.floats(0.001, 0.5))
def test_what_is_discovered_passes_a_test_alone_and_bonferroni_implies_it(
    p_values: list[float], alpha: float
) -> None:
    p = np.array(p_values)
    found = {
        control: Rule(alpha=alpha, control=control).discovers(np.zeros(p.size), p)
        for control in CONTROLS
    }
    assert not (found["fdr"] & ~found["none"]).any()
    assert not (found["bonferroni"] & ~found["fdr"]).any()


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("held", [0, 5, 15])
def test_independent_p_values_keep_the_false_discovery_rate(held: int) -> None:
    """Of 20 candidates, `held` are at 3 standard errors (normal tail).

    This fails falsely with probability ALPHA. The twin has twice alpha.
    """
    z = np.random.default_rng(9).normal(size=(20_000, 20))
    z[:, :held] += 3
    pairs = [*zip(z, norm.sf(z), strict=True)]

    def proportions(alpha: float) -> Floats:
        found = np.array([Rule(alpha=alpha).discovers(*pair) for pair in pairs])
        share: Floats = found[:, held:].sum(axis=1) / np.maximum(1, found.sum(axis=1))
        return share

    assert most_p(proportions(0.05), 0.05) > ALPHA
    if held < 15:  # where 5 are absent, even 0.1 of each is less than 0.05 of what is found
        assert most_p(proportions(0.1), 0.05) < ALPHA


@pytest.mark.exact
@pytest.mark.parametrize("control", ["fdr", "bonferroni", "none"])
def test_no_candidates_are_no_discoveries(control: str, tmp_path: Path) -> None:
    estimates = replace(toy([]), rule=Rule(control=control), details=decode(some_table()).details)
    assert estimates.detected().tolist() == []
    assert estimates.noise_floor() > 0
    assert len(estimates.to_csv(tmp_path / "none.csv").splitlines()) == 1
    assert "<html" in render([SavedResult.load(tmp_path / "none.csv")])


def some_table() -> Table:
    mechanism = CoinResponse(alpha=0.5, beta=0.5)
    generator = np.random.default_rng(1)
    return draw_table(mechanism, ("yes", "no"), counts=np.array([5, 5]), generator=generator)


@pytest.mark.exact
def test_intervals_widen_for_selection_and_for_the_population() -> None:
    estimates = toy([0.0001, 0.5, 0.5, 0.5])
    low, high = estimates.interval(0.95)
    assert (high - low) / 2 == pytest.approx(np.full(4, 1.959964 * 2), rel=1e-6)
    low, high = estimates.interval(0.95, selected=True)  # 1 of 4 discovered: level 1 - 0.05 / 4
    assert (high - low) / 2 == pytest.approx(np.full(4, 2.497705 * 2), rel=1e-6)
    low, high = estimates.interval(0.95, population=True)
    spread = np.sqrt(4 + estimates.count * (1 - estimates.count / 100))
    assert (high - low) / 2 == pytest.approx(1.959964 * spread, rel=1e-6)


@pytest.mark.exact
def test_arrow_has_the_columns_of_the_csv_and_pandas_is_asked_for_by_name() -> None:
    estimates = toy([0.0001, 0.5])
    assert estimates.to_arrow().column_names == [*estimates.columns]
    assert [*estimates.columns] == [name for name in COLUMNS if name in estimates.columns]
    if find_spec("pandas") is None:
        with pytest.raises(MissingPackage, match="pip install pandas"):
            estimates.to_pandas()
    else:
        assert [*estimates.to_pandas().columns] == [*estimates.columns]


@pytest.mark.exact
def test_the_csv_is_in_falling_order_and_clipped() -> None:
    lines = toy([0.0001, 0.5, 0.5, 0.5]).to_csv().splitlines()
    assert lines[0].startswith("value,estimate,std_error,low,high,p_value,discovered")
    assert [line.split(",")[0] for line in lines[1:]] == ["3", "2", "1", "0"]
    assert lines[-1] == "0,0.00,2.00,0.00,3.92,0.0001,1,0.00,5.00"
    assert lines[1].endswith(",0.5,0,,")


@pytest.mark.exact
def test_the_csv_has_any_value_and_quotes_those_that_need_it() -> None:
    values = ("plain", "a, b", 'say "x"', "two\nlines", "", " ", "naïve", "a\rb")
    text = replace(toy([0.0001] * 8), values=values).to_csv()
    found = {
        line["value"]: line["estimate"] for line in csv.DictReader(io.StringIO(text, newline=""))
    }
    assert found == {value: f"{place}.00" for place, value in enumerate(values)}
    assert '\n"say ""x""",2.00,' in text
    assert "\nplain,0.00," in text


@pytest.mark.exact
def test_any_csv_quotes_a_carriage_return() -> None:
    rows = [["a\rb", 'say "x"', "two\nlines", "", "c\r\nd"], ["1", "2", "3", "4", "5"]]
    text = csv_text(rows)
    assert [*csv.reader(io.StringIO(text, newline=""))] == rows
    assert text.endswith("\n1,2,3,4,5\n")


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("kind", [CountMeanSketch, HadamardCountMeanSketch])
def test_a_regression_is_the_remedy_where_rows_are_few(
    kind: type[CountMeanSketch] | type[HadamardCountMeanSketch],
) -> None:
    """There are 16 rows of 64 cells, and 50 of 200 values are held.

    The 4,000 intervals of 20 tables hold in 95 % +- 2.5 % (6 standard errors between tables: 2e-9),
    and discoveries keep their rate. The typical error is less than half of the mean sketch's, whose
    collisions do not average out. The twin, half of the errors, holds in 67 %.
    """
    values, generator = tuple(f"v{i}" for i in range(200)), np.random.default_rng(1)
    counts, weights = np.zeros(200, dtype=np.int64), 1 / np.arange(1.0, 51)
    counts[:50] = generator.multinomial(200_000, weights / weights.sum())
    held, narrow, false, errors = [], [], [], []
    for seed in range(20):
        mechanism = kind(epsilon=3.0, rows=16, width=64, seed=f"{seed:08x}")
        table = draw_table(mechanism, values, counts=counts, generator=generator)
        found, mean = decode(table, values), decode(table, values, method="mean-sketch")
        z = abs(found.count - counts) / found.std_error
        held.append(np.mean(z <= 1.959964))
        narrow.append(np.mean(z <= 0.98))
        detected = found.detected()
        false.append((detected & (counts == 0)).sum() / max(1, detected.sum()))
        errors.append([np.median(abs(one.count - counts)) for one in (found, mean)])
        assert "use method regression" in mean.details["warning"]
        assert "warning" not in found.details
    assert np.mean(held) == pytest.approx(0.95, abs=0.025)
    assert np.mean(narrow) < 0.8
    assert np.mean(false) <= 0.05 + 2 * np.std(false) / 20**0.5
    ours, means = np.mean(errors, axis=0)
    assert ours < means / 2


@pytest.mark.exact
def test_a_regression_is_refused_a_table_that_is_too_large_for_it() -> None:
    mechanism = CountMeanSketch(epsilon=3.0, rows=1025, width=1024, seed="00")
    table = draw_table(mechanism, ("a",), counts=np.array([9]), generator=np.random.default_rng(1))
    for method in ("regression", "lasso-ols"):
        with pytest.raises(DecodeError, match="more than 1,048,576 cells"):
            decode(table, ("a",), method=method)


@pytest.mark.exact
def test_a_collision_many_standard_errors_away_has_the_probability_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All 6,400 reports hold one value, in 64 rows of 531,442 buckets; a candidate shares J of its
    cells.

    J is binomial, and the collision is some 60 standard errors. The twin computes with 40 at most,
    beyond which nothing has a probability.
    """
    rows, reports = 64, 6400
    mechanism = LocalHashing(epsilon=13.183, rows=rows, seed="00")
    p, q = float(mechanism.channel.touched), float(mechanism.channel.untouched)
    width = mechanism.buckets

    def law() -> list[float]:
        known = Collisions(
            channel=mechanism.channel, reports=reports, rows=rows, width=width, heavy=(reports,)
        )
        found = known.law()
        return [float(tail) for tail in found.p_value(np.array([1, 30, 45, 60, 75]))]

    def exactly(least: int) -> float:
        found = 0.0
        for times in range(4):
            lies = np.arange(8)
            told = poisson.sf(least - 1 - lies, 100 * times * (p - q))
            lied = float(binom.pmf(lies, reports, q) @ told)
            found += float(binom.pmf(times, rows, 1 / width)) * lied
        return found

    expected = [exactly(least) for least in (1, 30, 45, 60, 75)]
    assert law() == pytest.approx(expected, rel=1e-4)
    assert expected[4] > 1e-8
    monkeypatch.setattr(Collisions, "_reach", lambda _: 0.0)
    assert law()[4] < 1e-12


@pytest.mark.exact
@pytest.mark.parametrize(
    "mechanism",
    [
        LocalHashing(epsilon=4.0, rows=64, seed="00"),
        CountMeanSketch(epsilon=2.0, rows=64, width=16, seed="00"),
        HadamardCountMeanSketch(epsilon=4.0, rows=64, width=16, seed="00"),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_the_moments_of_the_error_law_are_those_it_states(mechanism: MeanSketch) -> None:
    """A touched cell may vary by more than another.

    The moments equal those of the formula too.
    """
    rows, width = mechanism.shape
    known = Collisions(
        channel=mechanism.channel,
        reports=3000,
        rows=rows,
        width=width,
        heavy=[900.0, 100.0],
        small_squares=9e4,
    )
    law = known.law()
    grid = law.start + law.step * (np.arange(law.mild.size - 1) + 0.5)
    mass = -np.diff(law.mild)
    mean = float(mass @ grid)
    assert mean == pytest.approx(law.mean, abs=law.step)
    assert float(mass @ (grid - mean) ** 2) ** 0.5 == pytest.approx(law.std, rel=0.01)
    others = (900.0**2 + 100.0**2 + 9e4) / 3000**2
    scale = width / (width - 1) / mechanism.channel.gain
    assert law.std * scale == pytest.approx(mechanism.std_error(3000, 0.0, others), rel=0.02)


@pytest.mark.slow
@pytest.mark.statistical
def test_the_sum_of_a_sketch_s_estimates_varies_as_it_says() -> None:
    """The squared errors of the unexplained, over its variance, add to a chi-square in 100 tables.

    10 % more is allowed, because the variance is estimated too. This fails falsely with probability
    ALPHA. The twin adds the candidates' variances as if their errors were independent.
    """
    tables = 100
    values = tuple(f"v{i}" for i in range(60))
    counts, generator = np.array([300] * 10 + [40] * 50), np.random.default_rng(11)
    listed = values[3:]
    stated = apart = 0.0
    for number in range(tables):
        mechanism = CountMeanSketch(epsilon=2.0, rows=128, width=16, seed=f"{number:04x}")
        table = draw_table(mechanism, values, counts=counts, generator=generator)
        found = decode(table, listed, method="mean-sketch")
        assert found.sum_std_error is not None
        wrong = found.unexplained() - 900
        stated += (wrong / found.sum_std_error) ** 2
        apart += wrong**2 / float((found.std_error**2).sum())
    low, high = chi2.ppf([ALPHA / 2, 1 - ALPHA / 2], tables)
    assert low / 1.1 < stated < high * 1.1
    assert apart > high * 1.1
