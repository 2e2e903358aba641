"""Means, histograms and regressions are decoded from rounded values."""

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from ldp import (
    BitFlip,
    HierarchicalHistogram,
    OneBitMean,
    Piecewise,
    RandomizedResponse,
    RegressionMoments,
)
from ldp.audit import exact_law
from ldp.cli import commands
from ldp.decoding.error_law import Collisions
from ldp.errors import DecodeError, ParameterError
from ldp.mechanisms.numeric import Numeric, position
from ldp.server import Table, decode, decode_mean, decode_regression
from ldp.simulation import draw_table
from tests.statistics import ALPHA


@pytest.mark.exact
@pytest.mark.parametrize(
    "number",
    [*map(np.int64, (-3, 2)), np.float32(2.5), np.uint8(2), Decimal("2.5"), Fraction(5, 2)],
    ids=repr,
)
def test_numbers_of_every_real_type_are_the_same_number(number: Any) -> None:
    bounds = (-3.0, 5.5)
    assert position(number, bounds, "refuse") == position(float(number), bounds, "refuse")
    mechanism = HierarchicalHistogram(epsilon=1.0)
    assert mechanism.addressing.point(number) == mechanism.addressing.point(float(number))


@pytest.mark.exact
@pytest.mark.parametrize(
    "value",
    [True, np.bool_(True), 1j, np.float32("nan"), Decimal("nan"), Decimal("sNaN"), None, "nine"],
    ids=repr,
)
def test_what_is_no_real_number_is_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match="not a number"):
        position(value, (0.0, 1.0), "clip")


@pytest.mark.exact
@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(2, 40))
def test_a_number_stays_what_it_is_on_average(number: float, bins: int) -> None:
    mechanism = Piecewise(bounds=(-3.0, 5.5), epsilon=1.0, bins=bins, outside="clip")
    steps = mechanism.addressing.steps
    mean = sum(share * cells[0] for share, cells in mechanism.roundings(number, 0))
    place = position(number, mechanism.bounds, "clip")
    assert 0 <= place * steps - mean < Fraction(1, 2**60)


@pytest.mark.exact
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
@pytest.mark.parametrize("place", [0.0, 0.3, 0.77, 1.0])
def test_the_variance_of_a_number_is_that_of_its_law(epsilon: float, place: float) -> None:
    """`mean_variance` equals the variance of the enumerated law.

    The decoder's formula for it is unbiased under that law.
    """
    for mechanism in (
        OneBitMean(bounds=(0.0, 1.0), epsilon=epsilon),
        Piecewise(bounds=(0.0, 1.0), epsilon=epsilon, bins=24),
    ):
        law = exact_law(mechanism, place)
        first = sum(float(p) * number for (_, number), p in law.items())
        second = sum(float(p) * number**2 for (_, number), p in law.items())
        q, per_step = float(mechanism.channel.untouched), mechanism.channel.gain * mechanism.width
        step = (first - q * sum(range(mechanism.bins))) / per_step - (mechanism.width - 1) / 2
        assert step / mechanism.addressing.steps == pytest.approx(place, abs=1e-12)
        scaled = (second - first**2) / (per_step * mechanism.addressing.steps) ** 2
        assert mechanism.mean_variance(place) == pytest.approx(scaled, rel=1e-9)


def means(mechanism: Numeric, repeats: int) -> tuple[int, int, float]:
    """Return how many 95 % intervals hold the true mean, how many of half the width, and the mean
    error.

    The true mean is of the distribution from which people are drawn; the error is in standard
    errors.
    """
    generator = np.random.default_rng(3)
    values, shares = ["1", "2.5", "9"], np.array([0.5, 0.3, 0.2])
    truth = float(shares @ np.array([float(value) for value in values]))
    held, narrow, errors = 0, 0, 0.0
    for _ in range(repeats):
        table = draw_table(mechanism, values, frequencies=shares, users=2000, generator=generator)
        mean = decode_mean(table)
        low, high = mean.interval(0.95)
        held += low <= truth <= high
        narrow += abs(truth - (low + high) / 2) <= (high - low) / 4
        errors += (mean.mean - truth) / mean.std_error
    return held, narrow, errors / repeats


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [OneBitMean, Piecewise])
def test_intervals_of_a_mean_hold_as_often_as_they_say(kind: type[Numeric]) -> None:
    """If 94 to 96 % hold, each count in 600 tables is out of bounds with probability ALPHA.

    A bias of 5 standard errors has probability 6e-7. The twin has intervals of half the width.
    """
    repeats = 600
    held, narrow, bias = means(kind(bounds=(0.0, 10.0), epsilon=1.0), repeats)
    least, most = binom.ppf(ALPHA, repeats, 0.94), binom.ppf(1 - ALPHA, repeats, 0.96)
    assert narrow < least <= held <= most
    assert abs(bias) < 5 / math.sqrt(repeats)


@pytest.mark.exact
def test_a_mean_needs_reports_and_numbers() -> None:
    numbers, letters = (
        OneBitMean(bounds=(0, 1), epsilon=1.0),
        RandomizedResponse(categories=("a", "b"), epsilon=1.0),
    )
    generator = np.random.default_rng(1)
    some = draw_table(letters, ("a",), counts=np.array([5]), generator=generator)
    with pytest.raises(DecodeError, match="decode_mean reads no table of rr"):
        decode_mean(some)
    with pytest.raises(DecodeError, match="moments"):
        decode_regression(some)
    told = draw_table(numbers, ("0.5",), counts=np.array([5]), generator=generator)
    with pytest.raises(DecodeError, match="numbers"):
        decode(told)
    with pytest.raises(DecodeError, match="no reports"):
        decode_mean(type(told).empty(numbers))
    assert decode_mean(told).std_error > 0
    with pytest.raises(ParameterError, match="level"):
        decode_mean(told).interval(1.0)


@pytest.mark.statistical
def test_a_regression_is_recovered_from_signs() -> None:
    """Y = 9 x_1 + 6 x_2 + 5 exactly; 4e8 reports leave errors of 0.05 (over 12 other seeds).

    So an error of 0.5 has probability 1e-23. The twin, which reads plus for minus, is farther off.
    """
    mechanism = RegressionMoments(features=2, bounds=((0, 10), (0, 1), (0, 100)), epsilon=4.0)
    people = ["2,0.2,24.2", "4,0.9,46.4", "8,0.5,80", "6,0.1,59.6"]
    generator = np.random.default_rng(1)
    table = draw_table(mechanism, people, counts=np.full(4, 10**8), generator=generator)
    found = decode_regression(table)
    assert np.abs(found.coef - [9, 6]).max() < 0.5
    assert abs(found.intercept - 5) < 0.5
    turned = type(table)(mechanism, table.counts[:, ::-1].copy(), table.reports)
    assert np.abs(decode_regression(turned).coef - [9, 6]).max() > 0.5


@pytest.mark.statistical
def test_a_histogram_has_the_variance_it_states() -> None:
    """Bias and mean squared error of each of 5 buckets are within 5.5 standard errors in 600
    tables.

    They fail falsely with probabilities 2e-7 and 1.3e-6, if errors are normal. The twin states
    errors half as large.
    """
    mechanism = BitFlip(bounds=(0, 10), buckets=5, bits=2, epsilon=2.0)
    values, counts = ("1", "5", "9.5"), np.array([600, 300, 100])
    truth = np.array([600, 0, 300, 0, 100])
    generator, errors = np.random.default_rng(2), []
    for _ in range(600):
        table = draw_table(mechanism, values, counts=counts, generator=generator)
        found = decode(table, mechanism.labels)
        order = [found.values.index(label) for label in mechanism.labels]
        errors.append(found.count[order] - truth)
    z = np.array(errors) / np.sqrt(mechanism.variance(1000, truth / 1000))
    assert np.abs(z.mean(axis=0)).max() < 5.5 / math.sqrt(600)
    spread = (z**2).mean(axis=0)
    assert np.abs(spread - 1).max() < 5.5 * math.sqrt(2 / 600)
    assert (4 * spread > 1 + 5.5 * math.sqrt(2 / 600)).all()  # twice the stated error would show


@pytest.mark.exact
def test_the_command_prints_a_mean(tmp_path: Path) -> None:
    mechanism = OneBitMean(bounds=(0, 1), epsilon=1.0)
    generator = np.random.default_rng(1)
    table = draw_table(mechanism, ("0.5",), counts=np.array([500]), generator=generator)
    path = f"{tmp_path}/t.table"
    table.save(path)
    done = CliRunner().invoke(commands, ["decode", path, "--out", "-"])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[0] == "statistic,estimate,std_error,low,high"
    done = CliRunner().invoke(commands, ["decode", path, "--out", f"{tmp_path}/m.csv", "--json"])
    assert done.exit_code == 0, done.output


@pytest.mark.exact
def test_simulate_says_how_many_numbers_were_clipped(tmp_path: Path) -> None:
    registry, people = tmp_path / "metrics.toml", tmp_path / "people.csv"
    registry.write_text(
        '[product]\nname = "shop"\n[group.g]\nwindow = "1d"\nwindow_epsilon = 2.0\n'
        'lifetime_epsilon = 20.0\n[metric.minutes]\nversion = 1\ngroup = "g"\n'
        'description = "Minutes a day"\nowners = ["a@example.org"]\nexpires = 2099-12-31\n'
        'mechanism = "one-bit-mean"\nbounds = [0, 100]\nepsilon = 1.0\noutside = "clip"\n'
    )
    people.write_text("value,count\n20,5\n100.5,3\n-7,2\n")
    asked = ["simulate", "minutes", "--registry", str(registry), "--population", str(people)]
    done = CliRunner().invoke(commands, [*asked, "--table", str(tmp_path / "t.table")])
    assert done.exit_code == 0, done.output
    assert "5 people hold a number out of bounds" in done.output


@pytest.mark.exact
@pytest.mark.parametrize("text", ["1_000", "٣", "0x1p3", "", "1e", "1 000", "nan", "9" * 1001])
def test_text_is_a_number_only_as_the_wire_format_says(text: str) -> None:
    with pytest.raises(ParameterError, match="not a number"):
        position(text, (0.0, 10.0), "clip")


@pytest.mark.exact
@pytest.mark.parametrize(
    ("value", "place"), [("1e400", 1), (math.inf, 1), (-math.inf, 0), (10**400, 1), (" 2.5 ", 0.25)]
)
def test_what_is_out_of_bounds_is_clipped_however_large(value: str | float, place: float) -> None:
    assert position(value, (0.0, 10.0), "clip") == place


@pytest.mark.exact
def test_fakes_that_choose_their_bucket_move_it_as_far_as_said() -> None:
    """1 % fakes about one bucket raise the expected estimate by `fakes_move`.

    The twin counts fakes like honest reports, and states a twentieth.
    """
    mechanism = BitFlip(bounds=(0, 24), buckets=24, bits=1, epsilon=4.0)
    n, channel = 1_000_000, mechanism.channel
    asked = 0.99 * n / 24 + 0.01 * n
    told = 0.99 * n / 24 * float(channel.untouched) + 0.01 * n
    assert mechanism.fakes_move() == pytest.approx(channel.holders(told, asked) / asked, rel=1e-9)
    assert mechanism.fakes_move() > 15 * 0.01 * channel.leverage


@pytest.mark.statistical
def test_intervals_of_a_held_bucket_hold_where_sampling_outweighs_noise() -> None:
    """A count outside of what 94 to 96 % would give in 500 tables has probability ALPHA.

    The twin has intervals of half the width. The law of an empty bucket's noise holds fewer too,
    but 500 tables cannot tell 91 %.
    """
    mechanism = BitFlip(bounds=(0, 6), buckets=6, bits=1, epsilon=6.0)
    counts, held, narrow, noise = np.array([800, 600, 400, 200]), 0, 0, 0
    reports = int(counts.sum()) // 6
    law = Collisions(channel=mechanism.channel, reports=reports, rows=1, width=1 << 60).law()
    generator = np.random.default_rng(1)
    for _ in range(500):
        values = ("0.5", "1.5", "2.5", "3.5")
        table = draw_table(mechanism, values, counts=counts, generator=generator)
        found = decode(table, mechanism.labels[:1])
        low, high = found.interval()
        held += bool(low[0] <= counts[0] <= high[0])
        narrow += bool(4 * abs(counts[0] - (low[0] + high[0]) / 2) <= high[0] - low[0])
        low, high = replace(found, law=law, bounds=None).interval()
        noise += bool(low[0] <= counts[0] <= high[0])
    assert narrow < binom.ppf(ALPHA, 500, 0.94) <= held <= binom.ppf(1 - ALPHA, 500, 0.96)
    assert noise < held


@pytest.mark.exact
def test_one_report_of_a_mean_claims_little() -> None:
    mechanism = OneBitMean(bounds=(0, 10), epsilon=4.0)
    for counts in ([[1, 0]], [[0, 1]], [[0, 2]]):
        cells = np.array(counts, dtype=np.uint8)
        found = decode_mean(Table(mechanism, cells, cells.sum(axis=1, dtype=np.int64)))
        low, high = found.interval(0.95)
        assert 0 <= low <= high <= 10
        assert found.std_error * cells.sum() ** 0.5 > 3  # with 3.3 each stated; the real one is 4.9


@pytest.mark.exact
def test_labels_of_near_buckets_differ() -> None:
    labels = BitFlip(bounds=(1e12, 1e12 + 60), buckets=6, bits=2, epsilon=1.0).labels
    assert len(set(labels)) == 6
