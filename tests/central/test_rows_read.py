"""What a private release says of its rows.

Tested are the law of the noise, its cost, when a release is refused, and what counts as unreadable.
"""

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp import (
    HierarchicalHistogram,
    OneBitMean,
    PrefixExtension,
    PrivSet,
    RandomizedResponse,
)
from ldp.accounting import Neighbours
from ldp.central import DiscreteLaplace, Releases, Simulated
from ldp.central.regression import METHODS
from ldp.central.rows_read import (
    LEAST_READABLE,
    LEAST_SHARE,
    MOST_SHARE,
    PRECISE,
    TELLING,
    RowsRead,
    epsilon_of_rows,
    release_rows_read,
)
from ldp.data_files import Reading
from ldp.errors import ParameterError
from ldp.simulation import Population
from tests.command_line import run
from tests.tiers import tiered

REPLACE, ADD = Neighbours.REPLACE_VALUE, Neighbours.ADD_REMOVE
REGRESS = "regress data.csv --target y --bounds bounds.csv --epsilon 1 --delta 1e-9"
REGISTRY = """
[product]
name = "p"
[group.g]
window = "1d"
window_epsilon = 40.0
lifetime_epsilon = 400.0
[metric.minutes]
version = 1
group = "g"
description = "d"
owners = ["a@example.org"]
expires = 2099-12-31
mechanism = "one-bit-mean"
epsilon = 1.0
bounds = [0, 10]
[metric.city]
version = 1
group = "g"
description = "d"
owners = ["a@example.org"]
expires = 2099-12-31
mechanism = "rr"
epsilon = 4.0
categories = ["Oslo", "Bergen"]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "metrics.toml").write_text(REGISTRY)
    (tmp_path / "bounds.csv").write_text("column,low,high\nx,0,10\ny,0,40\n")
    return tmp_path


def released(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    assert run(f"{words} --json", monkeypatch) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


# --- the law


@pytest.mark.exact
def test_the_parts_of_epsilon_add_exactly() -> None:
    """They add as rational numbers, and as the doubles that are printed."""
    generator = np.random.default_rng(1)
    for _ in range(2000):
        epsilon = float(10 ** generator.uniform(-6, 3))
        rows = None if generator.random() < 0.2 else int(10 ** generator.uniform(0, 7))
        part = epsilon_of_rows(epsilon, rows)
        left = epsilon - part
        assert Fraction(part) + Fraction(left) == Fraction(epsilon)
        assert part + left == epsilon
        assert LEAST_SHARE * epsilon * (1 - 1e-12) <= part <= MOST_SHARE * epsilon
        deviation = DiscreteLaplace(epsilon=part, sensitivity=2.0, neighbours=REPLACE).std_error
        if rows is None or part < LEAST_SHARE * epsilon * (1 + 1e-12):
            assert part == pytest.approx(LEAST_SHARE * epsilon)
        elif part < MOST_SHARE * epsilon * (1 - 1e-12):
            assert deviation == pytest.approx(PRECISE * rows)
        if rows is not None and deviation > PRECISE * rows:
            assert part == pytest.approx(MOST_SHARE * epsilon)
    for wrong in (0.0, -1.0, math.nan, math.inf, 1e308, 1e-300):
        with pytest.raises(ParameterError, match="epsilon must be from 1e-9 to 1e9, got "):
            epsilon_of_rows(wrong, 10)
    largest = DiscreteLaplace(epsilon=1e9, sensitivity=2.0, neighbours=REPLACE)
    assert 0 < largest.std_error < 1e-99
    assert math.isfinite(largest.excess_kurtosis)


class Recorded(Simulated):
    """Noise that notes the scale it had to have, and adds none."""

    def discrete_laplace(self, counts: Any, scale: float) -> Any:
        self.scale = scale
        return counts


@pytest.mark.exact
@pytest.mark.parametrize(("neighbours", "changes"), [(REPLACE, 2), (ADD, 1)])
def test_one_row_changes_the_counts_by_no_more_than_the_noise_hides(
    neighbours: Neighbours, changes: int
) -> None:
    """The ratio of the probabilities of any noisy counts is at most e**(epsilon of the counts).

    Noise of half the scale is not enough.
    """
    noise = Recorded(np.random.default_rng(1))
    counts = [5000, 300, 40]
    read = release_rows_read(counts, epsilon=1.0, neighbours=neighbours, noise=noise)
    moves = [
        np.subtract(after, before)
        for before in np.eye(3, dtype=int)
        for after in np.eye(3, dtype=int)
    ]
    moves = moves if changes == 2 else [*np.eye(3, dtype=int)]
    worst = max(int(np.abs(move).sum()) for move in moves)
    assert worst == changes
    assert worst / noise.scale <= read.epsilon
    assert worst / (noise.scale / 2) > read.epsilon
    shares = (read.within_bounds, read.clipped, read.unreadable)
    assert shares == pytest.approx(np.array(counts) / 5340, abs=1e-4)


@pytest.mark.exact
def test_a_release_is_refused_by_shares_that_tell_something_alone() -> None:
    def read(unreadable: float, std_error: float) -> RowsRead:
        return RowsRead(
            within_bounds=1 - unreadable,
            clipped=0.0,
            unreadable=unreadable,
            std_error=std_error,
            epsilon=0.1,
        )

    read(0.5, TELLING).require()
    read(1.0, 0.101).require()
    assert "They tell nothing" in read(1.0, 0.101).words
    assert "tell nothing" not in read(0.5, TELLING).words
    with pytest.raises(ParameterError, match=r"49\.0 % of the rows .* That cost epsilon 0\.1\. "):
        read(0.51, TELLING).require()


@pytest.mark.exact
def test_rows_that_are_all_readable_are_refused_in_one_file_of_2000_at_most() -> None:
    """The threshold is half of the noisy count, with discrete Laplace noise of the largest
    deviation."""
    scale = 10_000 * TELLING / math.sqrt(2)
    assert math.exp(-10_000 * LEAST_READABLE / scale) / 2 < 1 / 2000


# --- regress


def rows_of(number: str, times: int) -> str:
    return "".join(number.format(i % 10, 3 * (i % 10) + 2) for i in range(times))


@pytest.mark.exact
@pytest.mark.parametrize("method", tiered([*METHODS], slow=2))
@pytest.mark.parametrize("neighbours", tiered(["replace-one", "add-remove"]))
def test_the_printed_epsilon_is_the_sum_of_both_parts(
    method: str,
    neighbours: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A share is off by a fifth, 20 scales of its noise, with probability 2e-9."""
    (here / "data.csv").write_text("x,y\n" + rows_of("{},{}\n", 20_000))
    words = f"{REGRESS} --method {method} --neighbours {neighbours}"
    result = released(words, monkeypatch, capsys)
    assert result["epsilon"] == 1.0
    assert result["rows_read"]["epsilon"] == pytest.approx(0.01)
    assert result["rows_read"]["within_bounds"] > 0.8
    assert result["rows_read"]["unreadable"] < 0.2


@pytest.mark.exact
@pytest.mark.parametrize("row", ["10," * 9 + "40", "text" + "," * 9])
def test_a_file_of_nobody_is_one_person_from_a_file_of_one(
    row: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the scales of their Laplace noise, the changes add up to epsilon at most.

    As one unreadable row, nobody would move two counts of rows: 1.002 in all.
    """
    releases = list[tuple[Any, float]]()

    def recorded(_: Releases, values: Any, scale: float) -> Any:
        releases.append((values, scale))
        return values + 1

    for name in ("laplace", "discrete_laplace"):
        monkeypatch.setattr(Releases, name, recorded)
    names = [f"x{place}" for place in range(9)]
    bounds = [f"{name},0,10" for name in names]
    (here / "bounds.csv").write_text("\n".join(["column,low,high", *bounds, "y,0,40"]))
    for rows in ("", row + "\n"):
        (here / "data.csv").write_text(",".join([*names, "y"]) + "\n" + rows)
        assert run(f"{REGRESS} --method robust --neighbours add-remove", monkeypatch) == 0
    pairs = [*zip(releases[:4], releases[4:], strict=True)]
    loss = sum(float(np.abs(b - a).sum()) / scale for (a, scale), (b, _) in pairs)
    assert loss < 1 + 1e-9


@pytest.mark.exact
def test_rows_are_within_bounds_clipped_or_unreadable(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """60 % are within, 30 % clipped and 10 % unreadable.

    Noise of 1.4 % of the rows is within 12 of its deviations, except with probability 4e-8.
    """
    good, clipped = rows_of("{},{}\n", 12_000), "11,5\n-1,inf\n" * 3000
    (here / "data.csv").write_text("x,y\n" + good + clipped + 'few,3\n1\n3,4,5\n"1\n' * 500)
    read = released(REGRESS, monkeypatch, capsys)["rows_read"]
    shares = [read[name] for name in ("within_bounds", "clipped", "unreadable")]
    assert shares == pytest.approx([0.6, 0.3, 0.1], abs=12 * read["std_error"])
    assert run(REGRESS, monkeypatch) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert words.index("intervals cover") < words.index("Rows, by a private histogram of epsilon")
    assert "epsilon 1, delta 1e-09" in words


@pytest.mark.exact
def test_what_a_release_costs_is_rounded_up(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cost is 0.12345612 as six digits; rows cost 1 % of it with add-remove."""
    (here / "data.csv").write_text("x,y\n" + "3,4\n" * 20_000)
    words = REGRESS.replace("--epsilon 1 ", "--epsilon 0.12345612 ") + " --neighbours add-remove"
    assert run(words, monkeypatch) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "epsilon 0.123457, delta 1e-09" in shown
    assert "a private histogram of epsilon 0.00123457:" in shown


@pytest.mark.exact
def test_a_column_of_texts_is_refused_at_its_price(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the wrong decimal sign; with the right one it is read. No error names a line or a value.
    Of 50 rows no share tells anything: the release is made, and says so."""
    (here / "data.csv").write_text("x;y\n" + rows_of("{},25;{},75\n", 20_000))
    (here / "out.csv").write_text("before")
    assert run(REGRESS, monkeypatch) == 2
    assert "may be 1234: give --decimal . or --decimal ,\n" in capsys.readouterr().err
    with_points = f"{REGRESS} --decimal ."
    assert run(f"{with_points} --out out.csv", monkeypatch) == 2
    error = capsys.readouterr().err
    assert error.startswith("ldp: nothing is released: by a private histogram")
    assert "That cost epsilon 0.01." in error
    assert error.count("\n") == 1
    assert "line" not in error
    assert (here / "out.csv").read_text() == "before"
    result = released(f"{REGRESS} --decimal ,", monkeypatch, capsys)
    low, high = result["intervals"]["x"]
    assert abs((low + high) / 2 - 3) < 2.6 * (high - low) / 2  # 5 standard errors: 1e-6
    (here / "data.csv").write_text("x;y\n" + rows_of("{},25;{},75\n", 50))
    read = released(with_points, monkeypatch, capsys)["rows_read"]
    assert (read["epsilon"], read["precise"]) == (pytest.approx(0.1), False)
    assert run(with_points, monkeypatch) == 0
    assert "They tell nothing: the rows" in " ".join(capsys.readouterr().out.split())


# --- central


@pytest.mark.exact
def test_a_curator_counts_an_unreadable_number_as_the_middle(tmp_path: Path) -> None:
    mean = OneBitMean(bounds=(0.0, 10.0), epsilon=1.0, outside="clip")
    people = Population(("3", "11", "few", ""), counts=np.array([5, 3, 2, 1]))
    readable, counts = people.rows_read(mean)
    assert counts == (5, 3, 3)
    assert readable.truth() == {"3": 5, "11": 3, "5.0": 3}
    city = RandomizedResponse(categories=("Oslo", "Bergen"), epsilon=1.0)
    people = Population(("Oslo", "oslo"), counts=np.array([5, 3]))
    readable, counts = people.rows_read(city)
    assert (readable.truth(), counts) == ({"Oslo": 5}, (5, 0, 3))
    nobody = Population(("oslo",), counts=np.array([3])).rows_read(city)
    assert nobody[0].users == 1
    assert nobody[1] == (0, 0, 3)


@pytest.mark.exact
def test_every_metric_counts_unreadable_people_without_an_error() -> None:
    """The metrics are numbers by category, bounded or not, words and sets; one person is readable,
    or none."""
    bounded = HierarchicalHistogram(epsilon=1.0, bounds=(0, 10), by=("a", "b"), outside="clip")
    for mechanism, good, wrong in (
        (bounded, ("a", "5"), ("a", "x")),
        (HierarchicalHistogram(epsilon=1.0, by=("a", "b")), ("a", "5"), ("q", "3")),
        (PrefixExtension(epsilon=4.0, rows=40960, seed="00"), "abc", "0"),
        (PrivSet(categories=("x", "y", "z"), epsilon=1.0, at_most=2), frozenset({"x"}), ""),
    ):
        for values in ((good, wrong), (wrong,)):
            people = Population(values, counts=np.ones(len(values), dtype=np.int64))
            readable, counts = people.rows_read(mechanism)
            assert counts == (len(values) - 1, 0, 1)
            for value in readable.values:
                mechanism.check(value)


@pytest.mark.exact
def test_a_count_that_is_none_is_one_unreadable_person(tmp_path: Path) -> None:
    """The line is "x, y" without quotes, in a file of counts."""
    path = tmp_path / "data.csv"
    path.write_text("value,count\nOslo,50\nBergen,49\nx, y,1\n")
    city = RandomizedResponse(categories=("Oslo", "Bergen"), epsilon=1.0)
    people = Population.from_csv(path, Reading(is_private=True))
    assert people.rows_read(city)[1] == (99, 0, 1)
    with pytest.raises(ParameterError, match="line 4"):
        Population.from_csv(path)


@pytest.mark.exact
@pytest.mark.parametrize("metric", ["minutes", "city"])
def test_a_curators_release_says_what_it_was_fed(
    metric: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No error tells a person's answer or line, and epsilon is the one asked for."""
    good = {"minutes": "3", "city": "Oslo"}[metric]
    words = f"central {metric} --registry metrics.toml --data data.csv --epsilon 1 --decimal ."
    (here / "data.csv").write_text(f"value;count\n{good};15000\nunlisted;5000\n")
    result = released(words, monkeypatch, capsys)
    assert (result["epsilon"], result["people"]) == (1.0, 20_000)
    read = result["rows_read"]
    assert read["unreadable"] == pytest.approx(0.25, abs=12 * read["std_error"])
    assert run(words, monkeypatch) == 0
    assert "Rows, by a private histogram of epsilon 0.01:" in capsys.readouterr().out
    (here / "data.csv").write_text(f"value;count\n{good};5000\nunlisted;15000\n")
    assert run(words, monkeypatch) == 2
    error = capsys.readouterr().err
    assert "nothing is released" in error
    assert "unlisted" not in error
    assert "line" not in error
    people = [good] * 15_000 + ["a;b", '"', "unlisted"] * 1000
    (here / "data.csv").write_text("\n".join(["value", *people]))
    read = released(f"{words} --delimiter ;", monkeypatch, capsys)["rows_read"]
    assert read["unreadable"] == pytest.approx(3 / 18, abs=12 * read["std_error"])
