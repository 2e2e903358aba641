"""Changes are never reported more often than stated, whenever one looks, and found where they
are."""

import math
import re
from datetime import timedelta

import numpy as np
import pytest

from ldp.decoding.means import decode_mean
from ldp.mechanisms import OneBitMean
from ldp.publishing.changes import reach_of, read_changes, update_changes
from ldp.publishing.detection import ALPHA, WINDOWS, Contrast, Series, _History, detect, spent
from ldp.tables.table import Table
from simulations import people
from simulations.changes import JUMPS, alarms, delays, history
from simulations.publish import START
from tests.pages import words
from tests.publications import World, run


def series(share: list[list[float]], std_error: float = 1.0, **changes: object) -> Series:
    """Return periods of one season with equally many reports, whose people are no sample."""
    values = np.array(share)
    settings: dict[str, object] = {
        "share": values,
        "std_error": np.full(values.shape, std_error),
        "reports": np.ones(len(values)),
        "season": np.zeros(len(values), dtype=np.int64),
        "is_share": np.zeros(values.shape[1]),
        "reports_per_person": np.ones(len(values)),
        "reach": 0.0,
        **changes,
    }
    return Series(**settings)  # type: ignore[arg-type]


@pytest.mark.exact
def test_weights_add_to_one_at_most() -> None:
    """The weights are those of all tests until period T; a window is tested when a third of it is
    new."""
    total = 0.0
    for at in range(1, 5_000):
        for window in WINDOWS:
            new = max(1, window // 3)
            if at >= window and not (at + 1) % new:
                total += (spent(at + 1) - spent(at + 1 - new)) / len(WINDOWS)
    assert 0.8 < total / spent(5_000) <= 1
    assert spent(1e300) < 1


@pytest.mark.exact
def test_numbers_of_holders_are_as_rare_as_they_are_said_to_be() -> None:
    """The tail is that of Poisson numbers of any mean, at all probabilities that tests have.

    The twin, a normal tail, is exceeded by few holders a hundred times as often.
    """
    from scipy.stats import norm, poisson

    for z in np.arange(2.0, 8.0, 0.25):
        mean = np.geomspace(1e-4, 1e4, 2_000)
        beyond = mean + z * np.sqrt(mean)
        ratios = [
            (poisson.sf(np.ceil(beyond + more) - 1, mean) / norm.sf(z)).max()
            for more in ((z**2 + 2) / 6, 0)
        ]
        assert ratios[0] <= 1
        assert z < 4 or ratios[1] > 100


@pytest.mark.exact
@pytest.mark.parametrize("high", [0.001, 1.0, 1000.0])
def test_a_jump_of_a_mean_is_found_in_any_unit(high: float) -> None:
    """The twin takes a report to move a sum by 1, and does not find it where the range is 0.001."""
    mechanism, found = OneBitMean(bounds=(0.0, high), epsilon=4.0), []
    means = [
        decode_mean(Table(mechanism, np.array([[2_000 - k, k]]), np.array([2_000])))
        for k in [420] * 20 + [1_200] * 20
    ]
    for reach in (reach_of(means[0].summary), 1.0):
        jump = series(
            [[row.mean] for row in means],
            std_error=means[0].std_error,
            reports=np.full(len(means), 2_000.0),
            reach=reach,
        )
        found.append([change.at for change in detect(jump)])
    assert reach_of(means[0].summary) == pytest.approx(high * mechanism.reach)
    assert found == [[20], [20] if high > 0.001 else []]


@pytest.mark.exact
def test_the_variance_is_that_of_people_who_stay_and_of_noise_that_is_new() -> None:
    """Another way gives the same, for three periods against two of other sizes.

    One person sends up to 4 reports.
    """
    n, share = np.array([100.0, 400, 200, 300, 500]), [[0.1], [0.2], [0.1], [0.3], [0.3]]
    settings = {"reports": n, "is_share": np.ones(1), "reports_per_person": np.full(5, 4.0)}
    for shared in (0.0, 0.25, 1.0):
        of = series(share, 0.02, **settings, shared=shared, reach=2.0)
        got = _History(of, np.arange(1)).contrast(2, 4)
        a = np.concatenate([-n[:2] / n[:2].sum(), n[2:] / n[2:].sum()])
        f = (0.18 + 0.26) / 2
        people = np.abs(a) * np.sqrt(4 * f * (1 - f) / n)
        noise = (1 - shared) * (a**2 * 0.02**2).sum() + shared * 2 * 0.02**2
        variance = noise + people[:2].sum() ** 2 + people[2:].sum() ** 2
        assert got.difference.item() == pytest.approx(0.08)
        assert got.variance.item() == pytest.approx(variance)
        assert got.most.item() >= 4 / n.mean()
    assert Contrast(np.array([1.0]), np.array([0.0]), np.array([0.0])).is_beyond(1e-9).all()


@pytest.mark.exact
def test_a_rhythm_of_the_week_is_no_change() -> None:
    week = [0.1, 0.1, 0.1, 0.1, 0.1, 0.4, 0.4]
    share = [[x] for x in week * 8]
    days = np.arange(len(share)) % 7
    assert not detect(series(share, 0.001, season=days))
    assert detect(series(share, 0.001))


@pytest.mark.exact
def test_after_a_change_a_value_begins_anew() -> None:
    """There is one change up and one down, each reported once; the other value has none."""
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
    """30 years have 50 values, a weekly season, and numbers of reports that grow and vary.

    At a rate of 5 %, six or more years have a change with probability 0.003 (seeds are fixed). The
    twin states errors a third too small.
    """
    assert alarms(30, values=50, seed=1) <= 5
    assert alarms(8, values=50, seed=2, stated=0.66) >= 6


@pytest.mark.slow
@pytest.mark.statistical
def test_noise_that_periods_share_is_no_change() -> None:
    """People come and go slowly, with permanent responses.

    Of 20 such years, five or more have a change with probability 0.003 (seeds are fixed). The twin
    takes the noise for fresh.
    """
    assert alarms(20, values=50, seed=3, churn=0.02) <= 4
    assert alarms(4, values=50, seed=4, churn=0.02, is_memoised=False) >= 3


@pytest.mark.campaign
@pytest.mark.statistical
def test_jumps_are_found_in_time() -> None:
    """Eight of ten jumps each are found within the days of the campaign's bars.

    Seeds are fixed; with others fewer are found with probability .32, if 80 % are found on average.
    The twin's jumps are a third as high.
    """
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
    update_changes(world.out, [])
    assert (world.out / "changes" / "theme" / "v1.parquet").stat().st_mtime_ns == before
    page = words((world.out / "site" / "metrics" / "theme.html").read_text("utf-8"))
    assert "since 2026-01-13" in page
    assert "No change is more than noise" not in page
    assert " points" in words((world.out / "site" / "index.html").read_text("utf-8"))


@pytest.mark.exact
def test_a_change_is_said_once(world: World) -> None:
    """It is not reported again when its period is re-opened, even where the copies fail.

    It is reported where late reports of an earlier period reveal it.
    """
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


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("setting", [(1, 0.05), (1, 0.2), (7, 1.0)])
def test_people_who_stay_or_report_often_are_no_change(setting: tuple[int, float]) -> None:
    """Of 50 half years of two values at epsilon 4, nine or more have a change with probability 1e-3
    at most.

    Seeds are fixed. The twin states a seventh of people's variance.
    """
    made = people.Setting(4.0, (0.5, 0.5), each=setting[0], replaced=setting[1])
    share, error = people.histories(made, 50, 182, np.random.default_rng(1))
    for stated in (1.0, 1 / 7):
        first = people.first_changes(made, share, error, stated).min(axis=1)
        assert int((first < 182).sum() <= 8) == (stated == 1)
