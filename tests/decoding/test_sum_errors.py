"""The error of the sum of all estimates is that of the reports no candidate explains."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chi2

from ldp import BitFlip, HadamardResponse, PrefixExtension, ProjectiveGeometry, Rappor
from ldp.decoding.mean_sketch import estimated_squares
from ldp.mechanisms import MemoisedBitFlip, MemoisedHashing, MemoisedResponse
from ldp.server import Estimates, decode, discover_prefixes
from ldp.simulation import draw_table
from ldp.tables.table import Table
from tests.statistics import ALPHA

LETTERS = tuple("abcdefghij")
HELD = np.array([3000, 1000, 500, 100, 100, 300, 0, 0, 200, 200])


@pytest.mark.exact
@pytest.mark.parametrize("kind", [ProjectiveGeometry, HadamardResponse])
@pytest.mark.parametrize("listed", [1, 4, 10])
def test_of_sets_of_columns_it_is_that_of_the_exact_law(
    kind: type[ProjectiveGeometry] | type[HadamardResponse], listed: int
) -> None:
    """A table has the proportions of the law, with 10**5 times as many reports as people.

    So rounding is small. The twin adds up the candidates' variances.
    """
    mechanism, times = kind(categories=LETTERS, epsilon=2.0), 100_000
    columns = range(mechanism.shape.columns)
    member = np.array([[c in mechanism.cells(value, 0) for c in columns] for value in LETTERS])
    chance = np.where(member, float(mechanism.channel.touched), float(mechanism.channel.untouched))
    counts = np.round(times * HELD @ chance).astype(np.uint32)
    found = decode(Table(mechanism, counts[None], np.array([counts.sum()])), LETTERS[:listed])
    added = member[:listed].sum(axis=0) / mechanism.support.gain
    variances = chance @ added**2 - (chance @ added) ** 2
    expected = np.sqrt(times * HELD @ variances)
    assert found.sum_std_error == pytest.approx(expected, rel=1e-4)
    together = np.sqrt((found.std_error**2).sum())
    assert (listed == 1) == (found.sum_std_error == pytest.approx(together, rel=0.02))


def squares_add_up(
    tables: int, draw: Callable[[int], tuple[Estimates, float, float]], slack: float = 1.0
) -> None:
    """Check that the squared errors of the sum, over its variance, add to a chi-square.

    Tables are independent, the factor `slack` is allowed, and the twin's error must exceed it.
    `draw`: returns estimates, the true sum and the twin's error. This fails falsely with
    probability ALPHA.
    """
    stated = twin = 0.0
    for number in range(tables):
        found, truth, other = draw(number)
        wrong = float(found.count.sum()) - truth
        assert found.sum_std_error is not None
        stated += (wrong / found.sum_std_error) ** 2
        twin += (wrong / other) ** 2
    low, high = chi2.ppf([ALPHA / 2, 1 - ALPHA / 2], tables)
    assert low / slack < stated < high * slack
    assert twin > high * slack


@pytest.mark.statistical
@pytest.mark.parametrize("listed", [3, 8])
def test_of_bit_flips_it_counts_which_holders_were_asked(listed: int) -> None:
    """The twin has only the noise of the bits.

    This fails falsely with probability ALPHA; the seed is fixed.
    """
    mechanism = BitFlip(bounds=(0.0, 8.0), buckets=8, bits=2, epsilon=8.0)
    numbers, generator = tuple(f"{i + 0.5}" for i in range(8)), np.random.default_rng(1)

    def draw(_: int) -> tuple[Estimates, float, float]:
        table = draw_table(mechanism, numbers, counts=HELD[:8], generator=generator)
        found = decode(table, mechanism.labels[:listed])
        share = np.clip(found.count / table.total, 0, 1)
        noise = 4 * table.total * float(mechanism.channel.variance(share).sum())
        return found, float(HELD[:listed].sum()), float(np.sqrt(noise))

    squares_add_up(200, draw)


@pytest.mark.exact
def test_of_pooled_bit_flips_it_grows_with_the_reports_of_a_client() -> None:
    mechanism = MemoisedBitFlip(
        bounds=(0.0, 8.0), buckets=8, bits=8, epsilon=1.0, lifetime_epsilon=2.0
    )
    numbers = tuple(f"{i + 0.5}" for i in range(8))
    table = draw_table(mechanism, numbers, counts=HELD[:8], generator=np.random.default_rng(1))
    alone, pooled = (decode(table, weighted_reports_per_client=k) for k in (1, 5))
    assert mechanism.permanent_channel
    share = np.clip(alone.count / table.total, 0, 1)
    more = 4 * table.total * float(mechanism.permanent_channel.variance(share).sum())
    assert alone.sum_std_error
    assert pooled.sum_std_error == pytest.approx(np.sqrt(alone.sum_std_error**2 + more))


@pytest.mark.exact
def test_of_pooled_columns_it_grows_with_the_reports_of_a_client() -> None:
    """Columns of three candidates are one column, which a holder of any of them touches."""
    mechanism = MemoisedResponse(categories=LETTERS[:4], epsilon=1.0, lifetime_epsilon=2.0)
    generator = np.random.default_rng(1)
    table = draw_table(mechanism, LETTERS[:4], counts=HELD[:4], generator=generator)
    alone, pooled = (decode(table, LETTERS[:3], weighted_reports_per_client=k) for k in (1, 5))
    assert mechanism.permanent_channel
    true, other = mechanism.permanent_channel.chances
    held = min(1.0, alone.count.sum() / table.total)
    named = held * (true + 2 * other) + (1 - held) * 3 * other
    spread = held * (true + 2 * other) ** 2 + (1 - held) * (3 * other) ** 2
    more = 4 * table.total * (named - spread) / (true - other) ** 2
    assert alone.sum_std_error
    assert pooled.sum_std_error == pytest.approx(np.sqrt(alone.sum_std_error**2 + more))


@pytest.mark.exact
def test_collisions_are_told_from_the_noise_that_a_clients_reports_share() -> None:
    """With more reports of a client less of the cells' squares is left for the values."""
    mechanism = MemoisedHashing(epsilon=1.0, lifetime_epsilon=2.0, rows=64, seed="00")
    generator = np.random.default_rng(1)
    table = draw_table(mechanism, LETTERS, counts=100 * HELD, generator=generator)
    alone, pooled = (estimated_squares(table, table.named_counts(), more) for more in (0.0, 2.0))
    assert mechanism.permanent_channel
    rows, width = mechanism.shape
    one, none = (mechanism.permanent_channel.variance(share) for share in (1.0, 0.0))
    noise = 2 * table.total * (one + (width - 1) * none + 1 - 1 / rows)
    assert pooled > 0
    assert alone - pooled == pytest.approx(noise * rows / (1 - 1 / width))


@pytest.mark.slow
@pytest.mark.statistical
def test_of_prefixes_it_is_scaled_to_all_reports() -> None:
    """10 % more is allowed, because the variance is estimated too; the twin is not scaled.

    This fails falsely with probability ALPHA; seeds are fixed.
    """
    words, counts = ("abba", "cab", "ca", "b", "aaaa", ""), np.array([40, 30, 20, 15, 10, 5]) * 400

    def draw(number: int) -> tuple[Estimates, float, float]:
        mechanism = PrefixExtension(
            epsilon=3.0, rows=512, seed=f"{number:04x}", length=4, alphabet="abc", groups=2
        )
        table = draw_table(mechanism, words, counts=counts, generator=np.random.default_rng(number))
        found = discover_prefixes(table)
        truth = sum(
            count for word, count in zip(words, counts, strict=True) if word in found.values
        )
        assert found.sum_std_error is not None
        scale = table.total / found.details["reports_about_words"]
        return found, float(truth), found.sum_std_error / scale

    squares_add_up(100, draw, 1.1)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("method", ["regression", "lasso-ols"])
def test_of_filters_it_holds_for_candidates_in_the_fit_and_not(method: str) -> None:
    """Nobody holds most of the candidates, and a tenth of the people hold none of them.

    30 % are allowed; this fails falsely with probability ALPHA. The twin has the errors of as many
    candidates as were fitted.
    """
    values, counts = tuple(f"v{i}" for i in range(40)), np.array([3000] * 8 + [200] * 32)
    listed, generator = (*values[:30], *(f"none-{i}" for i in range(170))), np.random.default_rng(3)

    def draw(_: int) -> tuple[Estimates, float, float]:
        mechanism = Rappor(
            bits=64, hashes=2, cohorts=32, f=0.25, p=0.25, q=0.75, seed=generator.bytes(8).hex()
        )
        table = draw_table(mechanism, values, counts=counts, generator=generator)
        found = decode(table, listed, method=method)
        twin = float(np.median(found.std_error)) * found.details["fitted"] ** 0.5
        return found, float(counts[:30].sum()), twin

    squares_add_up(100, draw, 1.3)


@pytest.mark.exact
def test_of_filters_that_cannot_be_told_apart_it_is_not_known() -> None:
    mechanism = Rappor(bits=4, hashes=1, cohorts=2, f=0.0, p=0.25, q=0.75, seed="00")
    table = draw_table(mechanism, LETTERS, counts=HELD, generator=np.random.default_rng(1))
    found = decode(table, tuple(f"v{i}" for i in range(100)))
    assert not np.isfinite(found.std_error).all()
    assert found.sum_std_error is None
