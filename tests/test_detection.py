"""Changes: never more often said than stated, whenever somebody looks, and found where they are."""

import math
import re
from datetime import timedelta

import numpy as np
import pytest

from ldp.publishing import detection
from ldp.publishing.changes import read_changes, update_changes
from ldp.publishing.detection import ALPHA, TAU, Series, detect, weight
from simulations.changes import JUMPS, alarms, delays, history
from simulations.publish import START
from tests.pages import words
from tests.publications import World, run


def series(share: list[list[float]], std_error: float = 1.0, **changes: object) -> Series:
    """Periods of one season, as many reports in each, whose people are no sample."""
    values = np.array(share)
    settings: dict[str, object] = {
        "share": values,
        "std_error": np.full(values.shape, std_error),
        "reports": np.ones(len(values)),
        "season": np.zeros(len(values), dtype=np.int64),
        "is_share": np.zeros(values.shape[1]),
        **changes,
    }
    return Series(**settings)  # type: ignore[arg-type]


@pytest.mark.exact
def test_weights_add_to_one_at_most() -> None:
    """The rest of the sum is below 1 / log(n): the integral from n on."""
    numbers = np.arange(1_000_000)
    rest = 1 / (2.1098 * math.log(len(numbers) + 1))
    assert 0.99 < weight(numbers).sum() + rest <= 1


@pytest.mark.exact
def test_the_evidence_is_the_mixture_that_it_says() -> None:
    """By another way: the likelihood ratio of independent normal differences, integrated over the
    size of the change, averaged over where it began."""
    from scipy.integrate import quad
    from scipy.stats import norm

    share = [0.3, -0.4, 0.2, 3.0, 3.5, 4.0]
    differences, variances = [], []
    for at in range(1, len(share)):
        differences.append(share[at] - np.mean(share[:at]))
        variances.append(1 + 1 / at)
    evidence = 0.0
    for start in range(1, len(share)):
        parts = [start / at for at in range(start, len(share))]
        tau = TAU * math.sqrt(variances[start - 1])
        r, v = differences[start - 1 :], variances[start - 1 :]

        def ratio(size: float, parts=parts, r=r, v=v, tau=tau) -> float:  # type: ignore[no-untyped-def]
            log = sum(
                (difference * part * size - (part * size) ** 2 / 2) / variance
                for difference, part, variance in zip(r, parts, v, strict=True)
            )
            return float(norm.pdf(size, 0, tau) * math.exp(log))

        mean = quad(ratio, -12 * tau, 12 * tau, points=[0, 3], limit=200)[0]
        evidence += float(weight(np.array(start - 1))) * mean
    (last,) = detect(series([[x] for x in share]), alpha=1 / (evidence * 0.999))
    assert last.at == 5
    assert last.log_e == pytest.approx(math.log(evidence))
    assert not detect(series([[x] for x in share]), alpha=1 / (evidence * 1.001))


@pytest.mark.exact
def test_a_rhythm_of_the_week_is_no_change() -> None:
    week = [0.1, 0.1, 0.1, 0.1, 0.1, 0.4, 0.4]
    share = [[x] for x in week * 8]
    days = np.arange(len(share)) % 7
    assert not detect(series(share, 0.001, season=days))
    assert detect(series(share, 0.001))


@pytest.mark.exact
def test_after_a_change_a_value_begins_anew() -> None:
    """One change up and one down, each said once; the other value has none."""
    share = [[0.1, 0.2]] * 10 + [[0.3, 0.2]] * 20 + [[0.1, 0.2]] * 20
    changes = detect(series(share, 0.005))
    assert [(change.column, change.at, change.since) for change in changes] == [
        (0, 10, 10),
        (0, 30, 30),
    ]
    assert [round(change.difference, 3) for change in changes] == [0.2, -0.2]


@pytest.mark.exact
def test_a_period_without_an_estimate_is_no_change() -> None:
    share = [[0.1, 0.1]] * 5 + [[math.nan, 0.1]] + [[0.1, 0.1]] * 5
    assert not detect(series(share, 0.001))
    (change,) = detect(series([*share, [0.2, 0.1]], 0.001))
    assert (change.column, change.at) == (0, 11)


@pytest.mark.slow
@pytest.mark.statistical
def test_constant_shares_hardly_ever_have_a_change() -> None:
    """30 years of 50 values with a weekly season and numbers of reports that grow and vary; at a
    rate of 5 % six or more have a change with probability 0.003 (seeds are fixed). Twin: errors
    that are stated a third too small."""
    assert alarms(30, values=50, seed=1) <= 5
    assert alarms(8, values=50, seed=2, stated=0.66) >= 6


@pytest.mark.slow
@pytest.mark.statistical
def test_noise_that_periods_share_is_no_change() -> None:
    """As above, of permanent responses of people who come and go slowly: five or more of 20 have a
    change with probability 0.003 (seeds are fixed). Twin: the same, taken for fresh noise."""
    assert alarms(20, values=50, seed=3, churn=0.02) <= 4
    assert alarms(4, values=50, seed=4, churn=0.02, is_memoised=False) >= 3


@pytest.mark.campaign
@pytest.mark.statistical
def test_jumps_are_found_in_time() -> None:
    """Of ten jumps each eight are found within the days of the campaign's bars; seeds are fixed:
    with others fewer are with probability .32, if 80 % are. The twin: jumps a third as high."""
    for jump, within in JUMPS:
        for height, is_found in ((jump, True), (jump / 3, False)):
            found = sum(delay <= within for delay in delays(10, height, values=1_000, seed=5))
            assert (found >= 8) is is_found


@pytest.mark.exact
def test_a_change_is_in_the_data_set_on_the_site_and_in_the_command(world: World) -> None:
    duckdb = pytest.importorskip("duckdb")
    for day in range(15):
        world.write("theme", day, people=3_000, first="light" if day < 12 else "sepia")
    database = world.top / "results.duckdb"
    done = run(
        *("publish", "--registry", world.top / "metrics.toml", "--store", world.store),
        *("--out", world.out, "--until", START + timedelta(days=14), "--duckdb", database),
    )
    assert done.exit_code == 0, done.output
    assert re.search(r"^theme: light changed by −[\d.]+ ± [\d.]+ points, since", done.output, re.M)
    changes = read_changes(world.out, "theme", 1)
    assert {change.value for change in changes} >= {"light", "sepia"}
    began = {change.since for change in changes if change.value in ("light", "sepia")}
    assert began == {START + timedelta(days=12)}
    with duckdb.connect(str(database)) as connection:
        found = connection.execute("SELECT * FROM changes ORDER BY period, value").fetchall()
    listed = sorted(changes, key=lambda change: (change.period, change.value))
    assert found == [tuple(vars(change).values()) for change in listed]
    before = (world.out / "changes" / "theme" / "v1.parquet").stat().st_mtime_ns
    update_changes(world.out)
    assert (world.out / "changes" / "theme" / "v1.parquet").stat().st_mtime_ns == before
    page = words((world.out / "site" / "metrics" / "theme.html").read_text("utf-8"))
    assert "since 2026-01-13" in page
    assert "No change is more than noise" not in page
    assert " points" in words((world.out / "site" / "index.html").read_text("utf-8"))


@pytest.mark.exact
def test_a_change_is_said_once(world: World) -> None:
    """Not again when its period is re-opened, also where the copies fail; and it is said where an
    earlier period, of late reports, brings it out."""
    words = (
        *("publish", "--registry", world.top / "metrics.toml", "--store", world.store),
        *("--out", world.out, "--until", START + timedelta(days=14)),
    )
    for day in range(15):
        if day != 8:
            world.write("theme", day, people=3_000, first="light" if day < 12 else "sepia")
    world.top.joinpath("no.duckdb").write_text("no database")
    done = run(*words, "--duckdb", world.top / "no.duckdb")
    assert done.exit_code != 0
    first = read_changes(world.out, "theme", 1)
    assert len(first) == done.output.count(" changed by ") > 0
    world.write("theme", (first[-1].period - START).days, "b", people=10)
    done = run(*words)
    assert "counted again" in done.output
    assert " changed by " not in done.output
    assert {change.key for change in first} == {
        change.key for change in read_changes(world.out, "theme", 1)
    }
    world.write("theme", 8, people=3_000, first="sepia")
    done = run(*words)
    before = {change.key for change in first}
    fresh = [change for change in read_changes(world.out, "theme", 1) if change.key not in before]
    assert fresh
    said = [line for line in done.output.splitlines() if " changed by " in line]
    assert said == [*map(str, fresh)]


@pytest.mark.exact
def test_the_rate_is_the_one_that_pages_state() -> None:
    assert ALPHA == 0.05
    assert history(1, 5, np.random.default_rng(0)).share.shape == (365, 5)


@pytest.mark.exact
@pytest.mark.parametrize("seed", range(4))
def test_periods_that_are_left_out_would_say_nothing(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Changes of a jump and of noise alike, where averages are computed in every period too."""
    made = history(100, 50, np.random.default_rng(seed), jump=0.7)
    changes = detect(made, alpha=0.5)
    monkeypatch.setattr(detection._Sums, "may_reach", lambda *_: True)
    assert changes == detect(made, alpha=0.5)
    assert changes
