"""Tails of binomial distributions equal those of scipy.stats, whose import the package avoids."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import binom

from ldp.arrays import binomial_above, binomial_ends, binomial_law, binomial_up_to

LARGE = {"numba", "sklearn", "scipy.stats", "scipy.optimize", "scipy.sparse"}
"""Modules that a command loads only where its work is large."""
LAWS = [(0, 0.3), (1, 0.5), (7, 0.0), (7, 1.0), (40, 1e-12), (1_000, 0.25), (10**9, 1e-6)]


@pytest.mark.exact
@pytest.mark.parametrize(("number", "share"), LAWS)
def test_tails_are_those_of_scipy(number: int, share: float) -> None:
    middle, spread = round(number * share), 5 + round((number * share) ** 0.5)
    counts = np.unique([-2, -1, *range(middle - 3 * spread, middle + 9 * spread), number])
    above, up_to = (tails(counts, number, share) for tails in (binomial_above, binomial_up_to))
    assert np.allclose(above, binom.sf(counts, number, share), rtol=1e-11, atol=0)
    assert np.allclose(up_to, binom.cdf(counts, number, share), rtol=1e-11, atol=0)


@pytest.mark.exact
@pytest.mark.parametrize(("number", "share"), LAWS)
@pytest.mark.parametrize("tail", [1e-16, 1e-9, 0.003, 0.25])
def test_ends_are_the_first_counts_that_hold(number: int, share: float, tail: float) -> None:
    least, most = binomial_ends(tail, number, share)
    assert binom.cdf(least, number, share) >= tail
    assert binom.sf(most, number, share) <= tail
    assert least == 0 or binom.cdf(least - 1, number, share) < tail
    assert most == 0 or binom.sf(most - 1, number, share) > tail


@pytest.mark.exact
def test_a_law_sums_to_one_and_is_that_of_scipy() -> None:
    law = binomial_law(60, 0.3)
    assert abs(law.sum() - 1) < 1e-14
    assert np.allclose(law, binom.pmf(np.arange(61), 60, 0.3), rtol=0, atol=1e-15)


@pytest.mark.exact
@pytest.mark.parametrize(
    "packages",
    [
        "cli.decode",
        "cli.merge",
        "cli.report",
        "cli.simulate",
        "cli.plan",
        "cli.attack",
        "publishing",
    ],
)
def test_a_command_loads_nothing_that_only_large_work_needs(packages: str) -> None:
    """Loading them once took most of a second: 1.1 s of `ldp decode` of twenty values."""
    code = f"import sys, ldp.{packages}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert f"ldp.{packages}" in loaded
    assert not loaded & LARGE


@pytest.mark.exact
def test_a_trial_of_a_hundred_rows_loads_nothing_that_only_large_work_needs() -> None:
    """Compiled loops that drew points and subsets once took half a second of `ldp try`."""
    code = (
        "import sys, ldp.cli.trial; from ldp.planning.column_trial import try_column; "
        "trials = try_column([i % 27 for i in range(100)], read_as='categories', seed=1); "
        "print(*(row['mechanism'] for row in trials.rows()), *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    mechanisms, loaded = done.stdout.split()[:3], done.stdout.split()[3:]
    assert mechanisms == ["pgr", "subset", "rr"]
    assert not {*loaded} & LARGE
