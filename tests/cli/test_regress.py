"""`ldp regress` releases a CSV file and compares models; every mistake gives one clear line."""

import json
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp import RegressionMoments, cli
from ldp.accounting import Neighbours
from ldp.central import gaussian_delta
from ldp.central.regression import METHODS, Budget, Moments, Rows
from ldp.central.regression.calibration import joint_mu
from ldp.central.regression.methods import FromMoments
from ldp.central.regression.trust_models import gaussian_reports, sign_reports
from ldp.privacy_loss import AnyMechanism, largest_shuffled, shuffled_delta
from ldp.regression.intervals import NO_BETTER
from ldp.regression.signs import Coordinates, from_signs, keep_ratio
from ldp.simulation import draw_table
from tests.folders import TESTS
from tests.statistics import ALPHA, mean_p
from tests.tiers import tiered

DATA = TESTS / "data" / "regression"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for path in DATA.glob("*.csv"):
        shutil.copy(path, tmp_path)
    return tmp_path


def run(words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["ldp", *shlex.split(words)])
    try:
        cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


BOSTON = "regress boston.csv --target medv --bounds boston-bounds.csv"
BIKE = "regress bike.csv --target cnt --bounds bike-bounds.csv"
BUDGET = " --epsilon 1 --delta 1e-6"


@pytest.mark.exact
def test_a_release_prints_coefficients_and_what_they_cost(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(BOSTON + BUDGET, monkeypatch) == 0
    shown = capsys.readouterr().out
    assert "lstat" in shown
    assert "black" not in shown, "the bounds file does not name it"
    assert "unbounded" in shown
    assert "epsilon 1, delta 1e-06; neighbours: replace the value of one report" in shown
    assert "there are 506 rows" in " ".join(shown.split())
    made = []
    for _ in range(2):
        assert run(BIKE + BUDGET + " --neighbours replace-one --json", monkeypatch) == 0
        made.append(json.loads(capsys.readouterr().out))
    assert made[0]["coefficients"] != made[1]["coefficients"]
    assert made[0]["rows"] == 5793
    assert made[0]["neighbours"] == "replace the value of one report"
    assert run(BIKE + BUDGET + " --neighbours add-remove --json", monkeypatch) == 0
    hidden = json.loads(capsys.readouterr().out)
    assert hidden["rows"] is None
    assert not re.search(r"(?<![\d.])5793(?![\d.])", json.dumps(hidden))  # nor as digits of noise
    assert run(BIKE + BUDGET + " --neighbours add-remove", monkeypatch) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "but not the number of rows" in words
    assert "5,793" not in words
    (here / "few.csv").write_text("column,low,high\nhr,0,23\nhum,0,1\ncnt,0,1000\n")
    few = BIKE.replace("bike-bounds", "few")
    assert run(few + " --epsilon 50 --delta 1e-3", monkeypatch) == 0
    both = capsys.readouterr()
    assert " to " in both.out
    assert "clipped to the bounds. " in " ".join(both.out.split())
    assert both.err == "ldp: note: " + both.err.removeprefix("ldp: note: ")
    assert "publishing a random person's row" in both.err
    shortened = few + " --epsilon 50 --delta 1e-6 --method 'ridge, norm = 1.4'"
    assert run(shortened, monkeypatch) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "with rows longer than 1.4 shortened to that: not the coefficients of the rows" in shown


@pytest.mark.exact
def test_a_table_of_devices_becomes_coefficients_with_errors(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mechanism = RegressionMoments(features=1, bounds=((0, 10), (0, 100)), epsilon=4.0)
    for name, count in (("many", 10_000_000), ("few", 20)):
        draw_table(
            mechanism,
            ("1,12", "4,38", "9,95"),
            counts=np.full(3, count),
            generator=np.random.default_rng(1),
        ).save(f"{name}.table")
    assert run("decode many.table --out fit.csv --level 0.99", monkeypatch) == 0
    header, slope, intercept = Path("fit.csv").read_text().splitlines()
    assert header == "statistic,value,estimate,std_error,low,high"
    statistic, name, *numbers = slope.split(",")
    coefficient, error, low, high = map(float, numbers)
    assert (statistic, name) == ("coefficient", "x1")
    assert intercept.startswith("coefficient,intercept,")
    assert low < 10.479 < high  # the line through (1, 12), (4, 38) and (9, 95)
    assert high - low == pytest.approx(2 * 2.5758 * error, rel=0.01)
    summary = json.loads(Path("fit.json").read_text())
    assert summary["level"] == 0.99
    assert summary["coef"] == [pytest.approx(coefficient, rel=1e-5)]
    assert len(summary["fakes_move"]) == len(summary["std_error"]) == 2
    capsys.readouterr()
    assert run("decode few.table --out few.csv --json", monkeypatch) == 0
    assert None in json.loads(capsys.readouterr().out)["low"]


@pytest.mark.exact
def test_robust_regression_takes_clips_a_split_and_public_rows(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    split = "clip_features = 0.5, clip_target = 0.4, budget_split = [0.4, 0.5, 0.1]"
    robust = BIKE + " --epsilon 4"
    assert run(f"{robust} --method 'robust, {split}' --json", monkeypatch) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["delta"], made["clips"]) == (0, [0.5, 0.4])
    assert made["intervals_cover"].endswith("to 0.5 (features) and 0.4 (target) of their halves")
    assert set(made["std_errors"]) == set(made["coefficients"]) == set(made["intervals"])
    lines = (here / "bike.csv").read_text().splitlines()
    (here / "public.csv").write_text("\n".join(lines[:41]) + "\n")
    method = "\"robust, clip_target = 0.5, public_rows = 'public.csv'\""
    assert run(f"{robust} --method {method} --out fit.csv", monkeypatch) == 0
    assert "with 40 public rows as they are." in " ".join(capsys.readouterr().out.split())
    assert run(f"{robust} --method {method} --out public.csv", monkeypatch) == 2
    assert "public.csv is also an input" in capsys.readouterr().err
    header, *rows = Path("fit.csv").read_text().splitlines()
    assert header == "term,coefficient,std_error,low,high"
    summary = json.loads(Path("fit.json").read_text())
    assert [row.split(",")[0] for row in rows] == list(summary["coefficients"])
    assert summary["level"] == 0.95
    assert max(summary["clips"]) <= 1


@pytest.mark.exact
def test_a_hole_in_a_release_is_no_error(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Words in place of numbers count as the middle of the bounds; the release says nothing of
    them."""
    (here / "b.csv").write_text("column,low,high\nx,0,4\ny,0,4\n")
    lines = [f"{i % 5},{(i + 1) % 5}" for i in range(5000)]
    shown = []
    for hole in ("2,1", ",1", "many,1", "nan,1"):
        (here / "holes.csv").write_text("\n".join(["x,y", hole, *lines]) + "\n")
        assert run("regress holes.csv --target y --bounds b.csv" + BUDGET, monkeypatch) == 0
        both = capsys.readouterr()
        assert "line" not in both.err
        words = " ".join(re.sub(r"-?[0-9][0-9.e+-]*", "#", both.out).split())
        shown.append(words.replace(f" {NO_BETTER}.", ""))  # as the noise falls
    assert len(set(shown)) == 1


@pytest.mark.exact
def test_the_comparison_fits_as_a_release_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 40 rows a tenth of epsilon pays for the shares that were read; nobody else pays it."""
    monkeypatch.chdir(tmp_path)
    Path("d.csv").write_text("x,y\n" + "".join(f"{i},{i % 7}\n" for i in range(40)))
    Path("b.csv").write_text("column,low,high\nx,0,40\ny,0,7\n")
    budgets = list[float]()
    fit = FromMoments.fit

    def watched(self: Any, rows: Any, budget: Any, noise: Any) -> Any:
        budgets.append(budget.epsilon)
        return fit(self, rows, budget, noise)

    monkeypatch.setattr(FromMoments, "fit", watched)
    command = "regress d.csv --target y --bounds b.csv --epsilon 1 --delta 1e-6"
    assert run(command, monkeypatch) == 0
    (released,) = budgets
    assert run(f"{command} --compare 1", monkeypatch) == 0
    assert released == pytest.approx(0.9)
    assert set(budgets) == {released, 1.0}
    assert budgets.count(1.0) == 1, "only the secure sum's"


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("words", tiered([BOSTON, BIKE]))
def test_the_comparison_prints_every_method_on_boston_and_bike(
    words: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = words + BUDGET + " --compare 1 --seed 1"
    assert run(command, monkeypatch) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("A simulation: these errors are not private.")
    rows = [line.split() for line in shown.splitlines()]
    for name in METHODS:
        assert any(row[:3] == [name, "central", "yes"] for row in rows)
    for model in ("local", "shuffled", "secure"):
        assert any(len(row) > 1 and row[1] == model for row in rows)
    assert run(command + " --json", monkeypatch) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["simulation"]
    again = [f"{row['rmse']:.4g}" for row in first["scores"]]
    assert again == [row[-5] for row in rows[3 : 3 + len(again)]]
    errors = {(row["method"], row["model"]): row["rmse"] for row in first["scores"]}
    assert errors["ridge of 1", "none"] < errors["ridge", "central"] < errors["ssp", "central"]
    assert errors["ridge", "central"] < errors["mean of the target", "none"]
    assert errors["ridge", "central"] < errors["signs", "local"]


@pytest.mark.exact
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (BOSTON + BUDGET + " --seed 1", "--seed goes with --compare"),
        (BOSTON + " --epsilon 0 --delta 1e-6", "epsilon must be from 1e-9 to 1e9, got 0.0"),
        (BOSTON + BUDGET + " --method magic", "method must be one of ridge"),
        (BOSTON + " --epsilon 1 --method magic", "method must be one of ridge"),
        (BOSTON.replace("medv", "value") + BUDGET, "has no row for the target column"),
        ("regress bike.csv --target medv --bounds boston-bounds.csv" + BUDGET, "no column 'crim'"),
        ("regress none.csv --target y --bounds bike-bounds.csv" + BUDGET, "no row for the target"),
        ("regress none.csv --target cnt --bounds bike-bounds.csv" + BUDGET, "none.csv"),
        ("regress hole.csv --target y --bounds b.csv --compare 20" + BUDGET, "hole.csv, line 3: "),
        (
            "regress short.csv --target y --bounds b.csv --compare 20" + BUDGET,
            "line 2: 2 cells were",
        ),
        ("regress empty.csv --target y --bounds b.csv" + BUDGET, "empty.csv has no rows"),
        ("regress ok.csv --target y --bounds upside.csv" + BUDGET, "line 2: low must be below"),
        ("regress ok.csv --target y --bounds twice.csv" + BUDGET, "line 3: the column 'x' is"),
        ("regress ok.csv --target y --bounds ok.csv" + BUDGET, "the line column,low,high"),
        ("regress ok.csv --target y --bounds only.csv" + BUDGET, "any column but the target"),
        ("regress ok.csv --target y --bounds b.csv --compare 20" + BUDGET, "at least 10 rows"),
        (
            "regress bytes.csv --target y --bounds b.csv --compare 20" + BUDGET,
            "2: byte 4 (0xff) is not UTF-8",
        ),
        ("regress nothing.csv --target y --bounds b.csv" + BUDGET, "is empty"),
        (BOSTON + BUDGET + " --level 1", "level must lie strictly"),
        ("regress boston.csv" + BUDGET, "Missing option '--target'"),
        (BOSTON + BUDGET + " --compare 20 --out x.csv", "--compare does not go with --out"),
        (BOSTON + BUDGET + " --compare 20 --method ssp", "--compare does not go with --method"),
        (BOSTON + " --epsilon 1", "Missing --delta"),
        (BOSTON + " --epsilon 1 --compare 20", "Missing --delta"),
        (BOSTON + BUDGET + " --method 'ridge, clip_target = 0.5'", "are for method robust"),
        (BOSTON + BUDGET + " --method 'robust, budget_split = 1'", "budget_split a list of three"),
        (BOSTON + BUDGET + " --method 'ridge, norm = \"a\"'", "norm must be a number"),
        (
            BOSTON + BUDGET + " --method 'ridge, norms = 2'",
            "--method has no norms, but public_rows",
        ),
        (BOSTON + BUDGET + " --method 'ridge, norm'", 'parameters are like "robust, clip_target'),
    ],
)
def test_a_mistake_is_one_line(
    words: str,
    sentence: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, text in {
        "hole.csv": "x,y\n1,2\n,3\n",
        "short.csv": "x,y\n1\n",
        "empty.csv": "x,y\n",
        "ok.csv": "x,y\n1,2\n3,4\n",
        "b.csv": "column,low,high\nx,0,5\ny,0,5\n",
        "upside.csv": "column,low,high\nx,5,0\ny,0,5\n",
        "twice.csv": "column,low,high\nx,0,5\nx,0,5\ny,0,5\n",
        "only.csv": "column,low,high\ny,0,5\n",
        "nothing.csv": "",
    }.items():
        (here / name).write_text(text)
    (here / "bytes.csv").write_bytes(b"x,y\n\xff,1\n")
    assert run(words, monkeypatch) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert sentence in shown.err
    assert shown.err.count("\n") == 1


# --- the local model's law


def example_rows(n: int) -> Rows:
    generator = np.random.default_rng(4)
    X = generator.uniform(-1, 1, (n, 2))
    return Rows.of(X, 0.5 * X[:, 0] - 0.2, intercept=True, norm=None)


@pytest.mark.exact
def test_coordinates_are_all_products_but_the_known_one() -> None:
    for features in (1, 2, 5):
        made = Coordinates.of(features)
        assert len(made) == (features + 1) * (features + 2) // 2 + features + 1
        assert (0, 0) not in zip(made.first.tolist(), made.second.tolist(), strict=True)
        assert (made.first[-1], made.second[-1]) == (features + 1, features + 1)


@pytest.mark.exact
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_a_sign_report_is_epsilon_private(epsilon: float) -> None:
    """The worst ratio over values in [-1, 1] is e**epsilon, at the ends, whatever the coordinate
    is."""
    high, low = ((1 + v / keep_ratio(epsilon)) / 2 for v in (1, -1))
    assert np.log(high / low) == pytest.approx(epsilon)
    assert np.log((1 - low) / (1 - high)) == pytest.approx(epsilon)


@pytest.mark.statistical
def test_moments_of_signs_are_unbiased_with_the_stated_error() -> None:
    """In 400 tables of 4,000 reports, every moment's mean is within ALPHA / 10 of the truth.

    The stated scale is an upper bound, so the test is conservative. The twin, moments of another
    epsilon, fails.
    """
    rows, generator = example_rows(4000), np.random.default_rng(0)
    made, wrong = [], []
    for _ in range(400):
        reports, signs = sign_reports(rows, 2.0, generator)
        assert reports.sum() == 4000
        made.append(from_signs(reports, signs, epsilon=2.0, features=2))
        wrong.append(from_signs(reports, signs, epsilon=1.0, features=2))
    truth = rows.xx / 4000
    for i, j in ((0, 1), (0, 2), (0, 0)):
        drawn = np.array([one.xx[i, j] for one in made])
        scale = float(np.mean([one.scales.xx for one in made]))
        assert mean_p(drawn, float(truth[i, j]), scale) > ALPHA / 10
        assert drawn.std() < 1.1 * scale
    xy = np.array([one.xy[0] for one in made])
    scale = float(np.mean([one.scales.xy for one in made]))
    assert mean_p(xy, float(rows.xy[0]) / 4000, scale) > ALPHA / 10
    assert 0.8 * scale < xy.std() < 1.1 * scale
    biased = np.array([one.xy[0] for one in wrong])
    assert mean_p(biased, float(rows.xy[0]) / 4000, scale) < ALPHA / 10


@pytest.mark.exact
def test_local_gaussian_noise_is_a_release_about_each_person() -> None:
    rows = example_rows(400)
    budget = Budget(epsilon=1.0, delta=1e-6, neighbours=Neighbours.REPLACE_VALUE)
    made: Moments = gaussian_reports(rows, budget, np.random.default_rng(0))
    one = type(made.scales)(xx=made.scales.xx / 20, xy=made.scales.xy / 20)
    spent = joint_mu(one, norm=rows.norm, neighbours=budget.neighbours)
    assert 0.999e-6 <= gaussian_delta(1.0, spent) <= 1e-6


@pytest.mark.exact
def test_shuffled_reports_cost_the_budget_and_no_more() -> None:
    local = largest_shuffled(AnyMechanism, 100_000, 1.0, 1e-6)
    assert local > 4
    asked = {"reports": 100_000, "epsilon": 1.0}
    assert shuffled_delta(AnyMechanism(local), **asked) <= 1e-6  # type: ignore[arg-type]
    assert shuffled_delta(AnyMechanism(local + 0.02), **asked) > 1e-6  # type: ignore[arg-type]
    assert largest_shuffled(AnyMechanism, 20, 1.0, 1e-6) == 1.0
