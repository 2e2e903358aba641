"""The committed results of the studies are complete, drawn, within their bars, and repeatable."""

import csv
import math
import re
import secrets
import sys
from pathlib import Path

import pytest

from simulations import study as form
from simulations.regression import catalogue as regression
from simulations.regression.data import expression, load, published
from simulations.studies import catalogue as others
from simulations.study import Row, Study, shown

HOMES = {
    name: (study, catalogue.RESULTS)
    for catalogue in (regression, others)
    for name, study in catalogue.STUDIES.items()
}
LONG_ROWS = ("drugs", "nieminen", "poisoning", "poisoning-defences", "intervals")
"""Studies whose rows take five seconds or more, as those of estimates do."""
MANY_ROWS = (
    "boosted",
    "budget",
    "budget-why",
    "drugs-traded",
    "kalaja",
    "local",
    "selection",
    "wang",
)
"""Studies of which one row is drawn, since all would take more than eight seconds."""
ESTIMATES = [name for name in HOMES if name.startswith("estimates-")]
each = pytest.mark.parametrize(("study", "folder"), HOMES.values(), ids=list(HOMES))
of_short_rows = pytest.mark.parametrize(
    ("study", "folder"),
    [
        pytest.param(
            *home,
            id=name,
            marks=[pytest.mark.campaign] if name in (*LONG_ROWS, *ESTIMATES) else [],
        )
        for name, home in HOMES.items()
    ],
)


def same(one: Row, other: Row, chains: tuple[str, ...] = ()) -> bool:
    """Return whether two rows agree in every figure.

    Figures of chains, which are rank correlations, may differ by .15; two chains of one row differ
    by .04 at most.
    """
    return list(one) == list(other) and all(
        math.isclose(
            *(float(value), float(other[name])),
            rel_tol=1e-3,
            abs_tol=0.15 if name in chains else 1e-9,
        )
        if isinstance(value, float)
        else value == other[name]
        for name, value in one.items()
    )


@pytest.mark.exact
@each
def test_a_studys_results_are_complete_drawn_and_within_their_bars(
    study: Study, folder: Path
) -> None:
    rows, stated = study.read(folder), form.about_picture(folder / f"{study.name}.svg")
    listed = [stated["row"]] if len(study.settings) == 1 else listed_in(study, folder)
    assert len(rows) == len(study.settings) == len(listed)
    for row, setting in zip(listed, study.settings, strict=True):
        assert {name: row[name] for name in setting} == {
            name: shown(value) for name, value in setting.items()
        }
    missed = [bar for bar in study.bars(rows) if not bar.met]
    assert not missed
    bars = {bar.what: bar.met for bar in study.bars(rows)}
    assert bars == {bar["what"]: bar["met"] for bar in stated["bars"]}
    assert re.fullmatch("[0-9a-f]{12}", stated["commit"]), "drawn by a changed tree"


def listed_in(study: Study, folder: Path) -> list[dict[str, str]]:
    with (folder / f"{study.name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.exact
@pytest.mark.parametrize("name", ["game", "smokers", "choices", "rappor-bits", "apple-budget"])
def test_the_first_row_of_a_quick_study_comes_out_again(name: str) -> None:
    study, folder = HOMES[name]
    assert same(typed(study, study.row(0)), study.read(folder)[0])
    assert not same(typed(study, study.row(1)), study.read(folder)[0])


def typed(study: Study, row: Row) -> Row:
    """Return a fresh row as `Study.read` returns it: figures first, then settings."""
    setting = study.settings[0]  # for its names
    figures = {name: float(shown(row[name])) for name in row if name not in setting}
    return {**figures, **{name: row[name] for name in setting}}


@pytest.mark.slow
@pytest.mark.exact
@of_short_rows
def test_the_rows_of_a_study_come_out_again(study: Study, folder: Path) -> None:
    """All rows, so that a change of a decoder shows in every run, or one at random of many."""
    listed = study.read(folder)
    places = [secrets.randbelow(len(listed))] if study.name in MANY_ROWS else range(len(listed))
    again = {place: typed(study, study.row(place)) for place in places}
    assert not [p for p, row in again.items() if not same(row, listed[p], study.chains)]


@pytest.mark.exact
def test_a_changed_figure_is_noticed() -> None:
    study, folder = HOMES["choices"]
    row = study.read(folder)[0]
    assert same(row, dict(row))
    assert not same(row, {**row, "share": float(row["share"]) * 1.01})
    assert not same(row, {**row, "answer": "another"})
    chained = {**row, "share": float(row["share"]) + 0.1}
    assert same(row, chained, chains=("share",))
    assert not same(row, chained)


@pytest.mark.campaign
@pytest.mark.exact
def test_a_study_is_drawn_and_written_again_from_its_results(tmp_path: Path) -> None:
    for study, folder in HOMES.values():
        rows = [
            {**{name: row[name] for name in setting}, **row}
            for row, setting in zip(study.read(folder), study.settings, strict=True)
        ]
        about = form.about_picture(folder / f"{study.name}.svg")
        study.write(rows, tmp_path, about)
        if len(rows) > 1:
            assert listed_in(study, tmp_path) == listed_in(study, folder)
        again = form.about_picture(tmp_path / f"{study.name}.svg")
        assert again.keys() == about.keys()
        assert again.get("row") == about.get("row")


@pytest.mark.slow
@pytest.mark.exact
def test_a_resumed_run_skips_what_the_same_code_has_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, _ = HOMES["choices"]

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["study", "choices", "--out", str(tmp_path), *words])
        assert form.main({"choices": study}, tmp_path, "") == 0
        return capsys.readouterr().out

    assert "drawn by this code" not in run("--resume")  # nothing is there yet
    picture = tmp_path / "choices.svg"
    made = form.about_picture(picture)
    assert made["seconds"] >= 0
    text = picture.read_text().replace(made["commit"], "COMMIT")
    head = made["commit"].removesuffix("-dirty")
    for commit in (f"{head}-dirty", "0" * 12):
        picture.write_text(text.replace("COMMIT", commit))
        assert not form.is_current(picture)
    monkeypatch.setattr(form, "CODE", ("LICENSE",))  # which no test changes
    picture.write_text(text.replace("COMMIT", head))
    assert run("--resume") == "choices: drawn by this code\n"
    assert "choices: the exponential" in run()


@pytest.mark.exact
def test_the_data_are_what_the_readme_lists() -> None:
    data = form.RESULTS.parent / "data"
    page = (data / "README.md").read_text()
    paths = list(data.glob("*.npz"))
    assert all(f"| {path.stem} |" in page for path in paths)
    tables = list((data / "published").glob("*.csv"))
    assert len(tables) == 2
    assert all(f"| {path.name} |" in page and published(path.stem) for path in tables)
    assert expression().shape == (985, 40)
    assert (expression(64)[:, :40] == expression()).all()
    for path in paths:
        if path.stem in ("gdsc", "flights"):  # have no target
            continue
        X, y, names = load(path.stem)
        assert X.shape == (len(y), len(names))


@pytest.mark.exact
def test_the_gallery_names_every_study_and_each_picture_is_shown() -> None:
    gallery = form.RESULTS.parent / "README.md"
    pages = gallery.read_text() + "".join(
        page.read_text() for page in (form.RESULTS.parents[1] / "docs").rglob("*.md")
    )
    for name, (_, folder) in HOMES.items():
        command = "studies 'estimates-*'" if name in ESTIMATES else f"{folder.name} {name}"
        assert f"`python -m simulations.{command}`" in gallery.read_text(), name
        assert f"results/{folder.name}/{name}.svg)" in pages, name


@pytest.mark.exact
@pytest.mark.parametrize("wrong", [0.9, 1.1])
def test_a_standard_error_that_is_not_the_estimates_misses_its_bar(wrong: float) -> None:
    """In the committed draws, the row of a mechanism that stated another error would show it."""
    for name in ESTIMATES:
        study, folder = HOMES[name]
        (row,) = study.read(folder)
        told = {**row, "drawn_over_stated": float(row["drawn_over_stated"]) / wrong}
        assert [bar.met for bar in study.bars([told])].count(False) == 1, name


@pytest.mark.exact
def test_a_study_that_was_not_drawn_says_how(tmp_path: Path) -> None:
    study, _ = HOMES["estimates-rr"]
    with pytest.raises(ValueError, match=r"0 rows for 1 settings.* estimates-rr`$"):
        study.read(tmp_path)
