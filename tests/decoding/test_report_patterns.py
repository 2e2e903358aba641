"""RAPPOR decoded from whole reports is exact by enumeration, and its discoveries are honest."""

import hashlib
import json
import sys
from collections import Counter
from dataclasses import replace
from datetime import date
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest

from ldp import RandomizedResponse, Rappor, cli
from ldp.arrays import Floats, Ints
from ldp.collection import ReportWriter
from ldp.decoding import report_patterns
from ldp.decoding.bloom_maps import candidate_bits
from ldp.decoding.report_patterns import (
    PatternEquations,
    pattern_counts,
    random_filter,
    report_law,
)
from ldp.errors import DecodeError
from ldp.registry import Registry
from ldp.regression.debiased import Sparse
from ldp.server import Table, decode, whole_table
from ldp.simulation import Population, draw_reports
from ldp.tables.patterns import Patterns
from simulations.whole_reports import draw_patterns, table_of
from tests.candidate_tables import TYPICAL
from tests.registries import GROUP, METRIC
from tests.tiers import tiered

SMALL = Rappor(bits=4, hashes=2, cohorts=3, f=0.25, p=0.1, q=0.8, seed="0a")
VALUES = tuple(f"v{i}" for i in range(4))
SHARES, OTHERS = np.array([0.4, 0.3, 0.15, 0.05]), 0.1
CHROME = Rappor(bits=8, hashes=2, cohorts=16, f=0.5, p=0.25, q=0.75, seed="00ff")


def of(mechanism: Rappor, counts: Ints, seed: int = 1) -> tuple[Table, Patterns]:
    """Return the table and the patterns of reports about v0, v1, ..., `counts` of each."""
    values, generator = tuple(f"v{i}" for i in range(counts.size)), np.random.default_rng(seed)
    patterns = draw_patterns(mechanism, values, counts, generator)
    return table_of(patterns), patterns


def expected() -> tuple[PatternEquations, Floats]:
    """Return the equations of SMALL, and the probability of each filter of a person.

    Shares of reports are their probabilities, where OTHERS hold random strings. The second result
    has shape (cohorts, filters).
    """
    table, patterns = of(SMALL, np.array([4000, 3000, 2000, 1000]))
    equations = PatternEquations.of(table, patterns, candidate_bits(table, VALUES))
    filters = np.tile(OTHERS * equations.mean, (SMALL.cohorts, 1))
    for share, numbers in zip(SHARES, equations.map[:, :, 0], strict=True):
        filters[np.arange(SMALL.cohorts), numbers] += share
    return replace(equations, share=filters @ equations.channel.T), filters


@pytest.mark.exact
@pytest.mark.parametrize("hashes", [1, 2, 3])
def test_filters_of_random_strings_and_their_reports_are_those_of_all_hashes(hashes: int) -> None:
    mechanism = replace(SMALL, bits=6, hashes=hashes)
    filters, mean = random_filter(6, hashes)
    hashed = Counter(sum(1 << bit for bit in {*bits}) for bits in product(range(6), repeat=hashes))
    assert dict(zip(filters.tolist(), mean * 6**hashes, strict=True)) == pytest.approx(hashed)
    law, channel = report_law(mechanism, filters), mechanism.channel
    for report, number in ((0, 0), (5, 1), (63, filters.size - 1), (40, 3)):
        chances = [
            channel.touched if filters[number] >> bit & 1 else channel.untouched for bit in range(6)
        ]
        exact = prod(x if report >> bit & 1 else 1 - x for bit, x in enumerate(chances))
        assert law[report, number] == pytest.approx(float(exact), rel=1e-12)
    np.testing.assert_allclose(law.sum(axis=0), 1, rtol=1e-12)


@pytest.mark.exact
def test_without_noise_the_estimates_are_the_shares_at_any_weights() -> None:
    """The weights are taken at any distribution, that of the fit or far from it."""
    equations, _ = expected()
    for fit in (
        None,
        Sparse(np.arange(4), SHARES, np.empty(0), 0.0),
        Sparse(np.array([1, 3]), np.array([0.1, 0.7]), np.empty(0), 0.0),
    ):
        design, target = equations.at(fit)
        columns = design.columns(np.arange(4))
        found = np.linalg.lstsq(columns, target, rcond=None)[0]
        np.testing.assert_allclose(found, SHARES, rtol=1e-9)
        np.testing.assert_allclose(columns @ SHARES, target, atol=1e-9)


def covariances(equations: PatternEquations, filters: Floats, fit: Sparse) -> list[Floats]:
    """Return the covariance of the target of each cohort, by enumeration of all reports.

    A report's target is that of a cohort of only such reports; it is weighted by the report's
    probability.
    """
    blocks = []
    for cohort in range(len(filters)):
        chance = equations.channel @ filters[cohort]
        alone = []
        for report in range(chance.size):
            share = np.zeros_like(equations.share)
            share[:, report] = 1
            _, target = replace(equations, share=share).at(fit)
            alone.append(target.reshape(len(filters), -1)[cohort])
        targets = np.array(alone)
        mean = chance @ targets
        block = (targets * chance[:, None]).T @ targets - np.outer(mean, mean)
        blocks.append(block / equations.table.reports[cohort])
    return blocks


@pytest.mark.exact
def test_the_variance_is_that_of_all_reports_by_enumeration() -> None:
    """Variances are those of the least-squares estimates and of their sum.

    In one twin the weights are of another distribution; the other has the variance of a new table.
    """
    equations, filters = expected()
    fit = Sparse(np.arange(4), SHARES, np.empty(0), 0.0)
    n = equations.table.total

    def enumerated(fit: Sparse) -> Floats:
        design, _ = equations.at(fit)
        columns = design.columns(np.arange(4))
        weights = np.linalg.pinv(columns)
        weights = np.vstack([weights, weights.sum(axis=0)]).reshape(5, SMALL.cohorts, -1)
        total = np.zeros(5)
        for cohort, block in enumerate(covariances(equations, filters, fit)):
            total += np.einsum("je,ef,jf->j", weights[:, cohort], block, weights[:, cohort])
        return total

    held = np.append(SHARES, SHARES.sum())
    exact = enumerated(fit) - held * (1 - held) / n
    found = equations.variances(equations.at(fit)[0], fit, np.zeros(4))
    np.testing.assert_allclose(found, exact, rtol=1e-9)
    wrong = Sparse(np.arange(4), SHARES[::-1].copy(), np.empty(0), 0.0)
    twin = equations.variances(equations.at(wrong)[0], fit, np.zeros(4))
    assert (abs(twin / exact - 1) > 1e-3).all()
    assert (abs(enumerated(fit)[:4] / exact[:4] - 1) > 1e-3).all()
    # no weights have less variance
    assert (enumerated(fit) < enumerated(wrong)).all()


@pytest.mark.exact
def test_what_a_column_leaves_is_counted_over_all_strings() -> None:
    """It is the mean over all filters in each cohort of x' (1 - H) x, and of (x'r)**2."""
    equations, _ = expected()
    fit = Sparse(np.array([0, 2]), SHARES[[0, 2]], np.empty(0), 0.0)
    design, target = equations.at(fit)
    columns = design.columns(fit.chosen)
    residual = target - columns @ fit.coefficients
    fit = replace(fit, residual=residual)
    project = np.eye(target.size) - columns @ np.linalg.pinv(columns)
    middle = np.zeros((target.size, target.size))
    for cohort, size in product(range(SMALL.cohorts), range(equations.mean.size)):
        x = np.zeros((SMALL.cohorts, design.root.shape[1]))
        point = (np.arange(equations.mean.size) == size) - equations.mean
        x[cohort] = design.root[cohort] @ point
        middle += equations.mean[size] * np.outer(x.ravel(), x.ravel())
    left, scale = equations.remaining(design, fit)
    assert left == pytest.approx(np.trace(project @ middle) / np.trace(middle), rel=1e-9)
    assert scale == pytest.approx(residual @ middle @ residual / np.trace(project @ middle))
    np.testing.assert_allclose(design.norms, np.linalg.norm(design.columns(np.arange(4)), axis=0))
    factors = np.array([0.3, 0.0, -0.1, 2.0])
    np.testing.assert_allclose(
        design.fitted(slice(None), factors), design.columns(np.arange(4)) @ factors, atol=1e-9
    )
    np.testing.assert_allclose(
        design.correlations(residual), design.columns(np.arange(4)).T @ residual, atol=1e-9
    )


@pytest.mark.exact
def test_the_drawn_patterns_are_those_of_encoded_reports() -> None:
    """Totals of every cohort and report of 200,000 people are drawn both ways.

    The p-value of the chi-square of 48 cells is below 1e-9 by chance once in a thousand million.
    """
    from scipy.stats import chi2_contingency

    counts = np.array([80_000, 60_000, 40_000, 20_000])
    _, drawn = of(SMALL, counts)
    people = Population(VALUES, counts=counts)
    encoded = whole_table(SMALL, draw_reports(SMALL, people, np.random.default_rng(2))).whole
    assert encoded is not None
    both = np.array([pattern_counts(some).ravel() for some in (drawn, encoded)])
    assert chi2_contingency(both).pvalue > 1e-9
    shifted = np.array([both[0], np.roll(both[1], 1)])
    assert chi2_contingency(shifted).pvalue < 1e-9  # the twin: bits in another order


@pytest.mark.slow
@pytest.mark.statistical
def test_whole_reports_find_more_with_honest_errors() -> None:
    """In 40 tables, discoveries of bits were 6.0 and of whole reports 10.8 a table.

    z-scores have variance 1 within 0.15. Seeds are fixed; with others each bar is missed with
    probability 3e-4 (3.4 standard errors). The twin, errors as if all reports were of bits, is
    outside.
    """
    shares = np.exp(-np.arange(100) / 20)
    found, z = {"bits": 0, "whole": 0}, []
    listed = tuple(f"v{i}" for i in range(200))
    for seed in range(40):
        counts = np.random.default_rng(seed).multinomial(30_000, shares / shares.sum())
        table, _ = of(replace(CHROME, seed=f"{seed:04x}"), counts, seed)
        bits, whole = decode(replace(table, whole=None), listed), decode(table, listed)
        found["bits"] += int(bits.detected().sum())
        found["whole"] += int(whole.detected().sum())
        error = whole.count - np.append(counts, np.zeros(100))
        z.append([error / whole.std_error, error / bits.std_error])
    assert found["whole"] > 1.3 * found["bits"]
    variances = np.square(z).reshape(40, 2, 2, 100).mean(axis=(0, 3))
    assert (abs(variances[0] - 1) < 0.15).all()
    assert (abs(variances[1] - 1) > 0.15).all()


@pytest.mark.exact
def test_made_up_reports_move_a_count_by_what_is_stated() -> None:
    """1 % of the reports are the filter of v9, which nobody holds.

    Its count rises by 0.8 to 1.1 of what is stated. The twin, what a report of bits moves, is less
    than half of that.
    """
    table, patterns = of(replace(CHROME, cohorts=64), np.array([60_000, 40_000, 20_000]))
    places, listed = candidate_bits(table, ("v9",))[0], tuple(f"v{i}" for i in range(10))
    codes = np.array([sum(1 << bit for bit in {*bits.tolist()}) for bits in places], np.uint8)
    each = np.full(64, table.total // 6400)
    fakes = Patterns(table.mechanism, np.arange(64, dtype=np.uint32), codes[:, None], each)
    both = patterns + fakes
    before = decode(replace(table, whole=patterns), listed)
    after = decode(table_of(both), listed)
    moved = (after.count[9] - before.count[9]) / before.details["fakes_move"]
    assert 0.8 < moved < 1.1
    assert table.total * table.mechanism.fakes_move() < 0.5 * before.details["fakes_move"]


@pytest.mark.exact
def test_candidates_of_one_filter_in_every_cohort_are_not_told_apart() -> None:
    table, patterns = of(CHROME, np.array([3000, 2000, 1000]))
    places = candidate_bits(table, ("v0", "v1", "v2", "v3"))
    places[3] = places[0][:, ::-1]
    found = decode(replace(table, whole=patterns), ("v0", "v1", "v2", "same"), places=places)
    assert np.isinf(found.std_error).tolist() == [True, False, False, True]
    assert not found.detected()[[0, 3]].any()


@pytest.mark.exact
def test_whole_reports_that_cannot_be_decoded_are_one_line() -> None:
    table, patterns = of(CHROME, np.array([3000, 2000, 1000]))
    days = replace(table, windows=("2026-01-01", "2026-01-02"), memoised=True)
    with pytest.raises(DecodeError, match="one day"):
        decode(replace(days, whole=patterns), VALUES)
    weighted = decode(replace(table, whole=patterns), VALUES, weighted_reports_per_client=7)
    assert "whole_reports" not in weighted.details
    assert decode(replace(days, windows=days.windows[:1], whole=patterns), VALUES).reports == 6000
    with pytest.raises(DecodeError, match="not those of the reports"):
        decode(replace(table, whole=patterns + patterns), VALUES)
    other, _ = of(replace(CHROME, seed="01"), np.array([3000, 2000, 1000]))
    with pytest.raises(DecodeError, match="not those of the reports"):
        decode(replace(other, whole=patterns), VALUES)
    for wrong, said in (
        (replace(CHROME, bits=9), "8 bits and 1,024 cohorts of these, not 9 bits in 16 cohorts"),
        (replace(CHROME, cohorts=1025), "not 8 bits in 1,025 cohorts"),
        (Rappor(bits=4, scheme="identity", f=0.5, p=0.25, q=0.75), "basic RAPPOR is not decoded"),
        (RandomizedResponse(categories=("a", "b"), epsilon=1.0), "rr is not decoded from whole"),
    ):
        counted = Table(
            wrong, np.ones(wrong.shape, np.int64), np.full(wrong.shape.rows, 2, np.int64)
        )
        with pytest.raises(DecodeError, match=said):
            decode(replace(counted, whole=patterns), ("0", "1") if "basic" in said else ("a", "b"))


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: object
) -> tuple[int, str, str]:
    """Return a function that runs the command line in this process: status, output and errors."""
    monkeypatch.setattr(sys, "argv", ["ldp", *map(str, words)])
    status = 0
    try:
        cli.main()
    except SystemExit as ended:
        status = int(ended.code or 0)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pages = 'mechanism = "rappor"\nbits = {}\nhashes = 2\ncohorts = 16\nf = 0.0\np = 0.2\nq = 0.8\n'
    rest = {
        "page": pages.format(8) + 'seed = "00ff"\ndictionary = "pages.txt"',
        "wide": pages.format(32) + 'seed = "00ff"\ndictionary = "pages.txt"',
        "kind": 'mechanism = "rr"\ncategories = ["a", "b"]\nepsilon = 1.0',
    }
    text = '[product]\nname = "browser"\n' + GROUP.format(name="pages")
    text += "".join(METRIC.format(name=n, group="pages", rest=r) for n, r in rest.items())
    (tmp_path / "metrics.toml").write_text(text)
    (tmp_path / "pages.txt").write_text("\n".join(f"v{i}" for i in range(50)) + "\n")
    people = Population(("v0", "v1", "v2"), counts=np.array([3000, 2000, 1000]))
    mechanism = Rappor(bits=8, hashes=2, cohorts=16, f=0.0, p=0.2, q=0.8, seed="00ff")
    for day in (1, 2):
        at = date(2026, 1, day)
        with ReportWriter(tmp_path / "store", "page", 1, mechanism, at, "a") as writer:
            for batch in draw_reports(mechanism, people, np.random.default_rng(day)):
                writer.write(*batch)
    return tmp_path


@pytest.mark.exact
def test_ldp_decode_reads_whole_reports_from_a_store(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, table = folder / "pages.csv", folder / "page.table"
    words = "--registry", folder / "metrics.toml", folder / "store", "--whole", "--out", table
    assert run(capsys, monkeypatch, "aggregate", "page", *words)[0] == 0
    status, said, _ = run(capsys, monkeypatch, "decode", table, "--out", out)
    assert status == 0
    assert "3 of 50 candidates discovered among 12,000 reports" in said
    assert "from whole reports: 560 equations" in said
    lines = out.read_text().splitlines()
    assert lines[0].startswith("value,estimate,std_error,low,high,p_value,discovered")
    assert [line.split(",")[0] for line in lines[1:4]] == ["v0", "v1", "v2"]
    summary = json.loads(out.with_suffix(".json").read_text())
    assert (summary["whole_reports"], summary["equations"]) == (True, 560)
    assert summary["windows"] == ["2026-01-01", "2026-01-02"]
    assert summary["labels"][0]["metric"] == "page"
    run(capsys, monkeypatch, "aggregate", "page", *words, "--since", "2026-01-02")
    _, said, _ = run(capsys, monkeypatch, "decode", table, "--out", out)
    assert "among 6,000 reports" in said
    for command, line in (
        (("aggregate", "kind", *words), "rr is not decoded from whole reports"),
        (("aggregate", "wide", *words), "cohorts: count the reports without --whole"),
        (("decode", table, "--out", out, "--part", "words"), "holds one table"),
        (("decode", folder / "none.table", "--out", out), "No such file"),
    ):
        status, _, error = run(capsys, monkeypatch, *command)
        assert (status, error.count("\n"), line in error) == (2, 1, True), error


@pytest.mark.exact
def test_whole_reports_of_a_memoised_metric_are_kept_where_a_device_sends_one(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are kept of one day, but not of two days, nor where a device may send two reports.

    The file of progress has none of them either.
    """
    path = folder / "metrics.toml"
    text = path.read_text().replace("f = 0.0", 'f = 0.25\nmemoise = "per-value"')
    text = text.replace("window_epsilon = 8.0", "window_epsilon = 64.0")
    path.write_text(text)
    mechanism = Registry.load(folder / "metrics.toml").metric("page").mechanism
    people = Population(("v0", "v1"), counts=np.array([300, 200]))
    for day in (1, 2):
        with ReportWriter(folder / "two", "page", 1, mechanism, date(2026, 1, day), "a") as writer:
            for batch in draw_reports(mechanism, people, np.random.default_rng(day)):
                writer.write(*batch)
    out = folder / "page.table"
    words = "--registry", folder / "metrics.toml", folder / "two", "--whole", "--out", out
    _, said, _ = run(capsys, monkeypatch, "aggregate", "page", *words, "--until", "2026-01-01")
    assert "different whole reports" in said
    assert Table.load(out).whole is not None
    monkeypatch.setattr("ldp.tables.joint_table.WholeBuilder", None)  # none is counted
    _, said, _ = run(capsys, monkeypatch, "aggregate", "page", *words)
    assert "without whole reports: those of a memoised metric are kept of one day only" in said
    assert Table.load(out).whole is None
    for old, new in (
        ("memoise", "reports_per_window = 2\nmemoise"),
        ('window = "1d"', 'window = "12h"'),
        ('window = "1d"', 'window = "36h"'),
    ):
        path.write_text(text.replace(old, new))
        status, _, error = run(capsys, monkeypatch, "aggregate", "page", *words)
        assert (status, "a device may send several reports a day" in error) == (2, True), error


@pytest.mark.exact
def test_a_table_keeps_whole_reports_through_files_and_sums() -> None:
    """A sum has them where both have, except for a memoised metric of several days.

    A file without them has its old bytes. A file that does not fit its version, or its counts, is
    refused.
    """
    first, second = (
        replace(table, whole=whole, windows=(day,))
        for day, (table, whole) in (
            ("2026-01-01", of(SMALL, np.array([300, 200, 100]), 1)),
            ("2026-01-02", of(SMALL, np.array([100, 200, 300]), 2)),
        )
    )
    whole = load_bytes(first.to_bytes())
    assert whole == first
    assert whole.whole == first.whole
    assert first.whole
    assert second.whole
    both = first + second
    assert both.whole == first.whole + second.whole
    assert load_bytes(both.to_bytes()).whole == both.whole
    without = replace(second, whole=None)
    assert (first + without).whole is None
    assert (first + Table.empty(SMALL)).whole == first.whole
    memoised = first.of_metric(None, memoised=True)
    assert memoised.whole == first.whole
    assert (memoised + second).whole is None
    assert (memoised + replace(second, windows=first.windows)).whole == both.whole
    nameless, of_both = (replace(memoised, windows=days) for days in ((), both.windows))
    assert (nameless + nameless).whole is None  # of two days, for all that anybody knows
    assert (of_both + replace(both, memoised=False)).whole is None
    assert both.of_metric(None, memoised=True).whole is None
    assert without.to_bytes()[9] == 1
    data = first.to_bytes()
    assert data[9] == 2
    for change in (
        replace(first.whole, counts=first.whole.counts + 1),
        replace(first.whole, counts=first.whole.counts * 0),
        second.whole + second.whole,
    ):
        with pytest.raises(DecodeError, match="table file"):
            load_bytes(replace(first, whole=change).to_bytes())
    body = data[:9] + bytes([1]) + data[10:-16]
    with pytest.raises(DecodeError, match="does not fit its format version"):
        load_bytes(body + hashlib.blake2b(body, digest_size=16).digest())


def load_bytes(data: bytes) -> Table:
    """Return the table of a file's bytes."""
    return Table.from_bytes(data)


UNLISTED = {
    "one at Chrome's noise": ({"f": 0.5, "p": 0.25, "q": 0.75}, (0.2,), 0.45, False),
    "three at epsilon 4.95": ({"f": 0.0, "p": 0.225, "q": 0.775}, (0.1, 0.05, 0.03), 0.25, False),
    "half at epsilon 4.95": ({"f": 0.0, "p": 0.225, "q": 0.775}, (0.5,), 0.15, True),
    "a long tail": ({"f": 0.0, "p": 0.225, "q": 0.775}, (0.005,) * 40, 0.75, True),
    "alike, never told apart": ({"f": 0.0, "p": 0.225, "q": 0.775}, (0.1, 0.1, 0.1), 0.75, True),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", tiered(UNLISTED, 0, len(UNLISTED) - 1))
def test_errors_hold_beside_popular_strings_that_are_not_listed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors are at most `most` of those from bits, with squared z-scores of 1 within 0.2.

    With 1,200 independent z-scores this would fail falsely with probability 6e-7. The twin also
    subtracts strings whose filters are in doubt, and has too small errors.
    """
    noise, unlisted, most, in_doubt = UNLISTED[name]
    listed, shares = tuple(f"v{i}" for i in range(200)), np.exp(-np.arange(100) / 20)
    others = (1_000_000 * np.array(unlisted)).astype(int)
    counts = np.zeros(200, int)
    counts[:100] = (1_000_000 - others.sum()) * shares / shares.sum()
    mechanism = Rappor(**{**TYPICAL, **noise}, seed="00")  # type: ignore[arg-type]
    both = [
        of(replace(mechanism, seed=f"{seed:04x}"), np.append(counts, others), seed)
        for seed in range(6)
    ]

    def measured(is_whole: bool) -> tuple[float, float, list[int]]:
        errors, ratios, found = [], [], list[int]()
        for table, patterns in both:
            estimates = decode(replace(table, whole=patterns if is_whole else None), listed)
            errors.append(estimates.count - counts)
            ratios.append(errors[-1] / estimates.std_error)
            found = estimates.details.get("unlisted", [])
        return float(np.std(errors)), float(np.mean(np.square(ratios))), found

    (bits, _, _), (whole, ratio, found) = measured(False), measured(True)
    assert whole < most * bits
    assert abs(ratio - 1) < 0.2
    told_apart = len(set(unlisted)) == len(unlisted)
    np.testing.assert_allclose(sorted(found), sorted(others) if told_apart else [], rtol=0.05)
    monkeypatch.setattr(report_patterns, "MOST_DOUBT", np.inf)
    monkeypatch.setattr(PatternEquations, "doubt", lambda _, __: 0.0)
    twin = measured(True)[1]
    assert twin > 1.15 if in_doubt else abs(twin / ratio - 1) < 0.05
