"""The site of a publication has an index and a page of each metric, and nothing from elsewhere."""

import json
import re
import shutil
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp.collection import ReportWriter
from ldp.publishing.history import EDGE, HEIGHT, WIDTH, HistoryLine, LinePoint
from ldp.registry import Registry
from ldp.registry.sign_off import facts
from ldp.simulation import Population, draw_reports
from simulations.publish import REPORTED, START, write_registry
from tests.command_line import settings
from tests.pages import Page, words
from tests.printed import FOLDER
from tests.publications import World, rows, run

QUIET = "epsilon = 14.0\nfragment_epsilon = 10.0\nbits = 8"
"""Keys of a metric of words, of which few people's reports show none."""


def after(days: int) -> dict[str, Any]:
    return {"today": START + timedelta(days=days)}


def index(world: World) -> str:
    return (world.out / "site" / "index.html").read_text("utf-8")


def state(world: World, metric: str) -> str:
    """Return what the index says of a metric, from its name to its trend."""
    told = words(index(world))
    return told[told.index(f" {metric} ") :].split("●")[0]


@pytest.mark.exact
def test_every_metric_has_a_page_with_its_face_and_history(world: World) -> None:
    for day in range(2):
        for metric in REPORTED:
            world.write(metric, day)
    world.publish(**after(2))
    page = index(world)
    links = re.findall(r'<a href="([^"]*)"', page)
    assert links == ["registry.html", *(f"metrics/{metric}.html" for metric in sorted(REPORTED))]
    faces = {
        "theme": "Values with estimates",
        "latency": "Statistics of the numbers",
        "network": "All combinations",
    }
    for metric, face in faces.items():
        told = (world.out / "site" / "metrics" / f"{metric}.html").read_text("utf-8")
        assert face in told
        assert '<a href="../index.html">' in told
        assert "2 periods, 2026-01-01 to 2026-01-02" in words(told)
    theme = (world.out / "site" / "metrics" / "theme.html").read_text("utf-8")
    assert theme.count('class="history"') == 4
    assert "9.4 × wifi" in words(page) or "9.4 × mobile" in words(page)


@pytest.mark.exact
def test_no_page_asks_anybody_for_anything(world: World) -> None:
    for metric in REPORTED:
        world.write(metric)
    world.publish(**after(1))
    pages = [*(world.out / "site").rglob("*.html")]
    assert len(pages) == 2 + len(REPORTED)
    for page in pages:
        text = page.read_text("utf-8")
        assert "default-src 'none'" in text
        assert not re.findall(r'(?:src|href)="(?:https?:)?//', text)
        for target in re.findall(r'href="([^"#:,]+)"', text):
            assert (page.parent / target).exists(), target


@pytest.mark.exact
def test_the_site_has_the_page_that_an_officer_signs(world: World) -> None:
    """The record beside the registry is also read; a record of other bytes is labelled as such."""
    world.write("theme")
    world.publish(**after(1))
    assert "what is asked of people : not signed off." in words(index(world))
    asked = world.out / "site" / "registry.html"
    assert "Since Officer" not in asked.read_text("utf-8")
    empty = {"file": "metrics.toml", "sha256": "0" * 64}
    record = {"sign_off": 1, "name": "Officer", "date": "2026-01-01", "certificates": []}
    record |= {"registry": empty, "lock": empty, "facts": facts(world.registry)}
    world.registry.path.with_name("metrics.signed.json").write_text(json.dumps(record))
    world.publish(**after(1))
    state = "signed off by Officer on 2026-01-01, changed since."
    assert f"what is asked of people : {state}" in words(index(world))
    assert "Nothing changed of what people are asked" in asked.read_text("utf-8")
    world.registry.path.with_name("metrics.signed.json").write_text("{}")
    world.publish(**after(1))
    assert "metrics.signed.json or a certificate that it names cannot be used." in words(
        index(world)
    )
    assert "Nothing changed" not in asked.read_text("utf-8")


@pytest.mark.exact
def test_the_index_says_how_each_metric_is(tmp_path: Path) -> None:
    world = World(tmp_path)
    for day in range(4):
        world.write("theme", day)
        world.write("search", day, people=400 if day < 3 else 100)
    world.write("battery", 1)
    world.write("latency", 3)
    world.write("latency", 3, "b")
    (damaged,) = world.store.rglob("metric=latency/**/b.parquet")
    damaged.write_bytes(damaged.read_bytes()[:100])
    world.publish(**after(4))
    assert "fresh 400 reports, 2026-01-04" in state(world, "theme")
    assert "few reports 100 reports, 25 % of the usual number" in state(world, "search")
    assert "silent no reports for 2 days, since 2026-01-02" in state(world, "battery")
    assert "problem" in state(world, "latency")
    assert "damaged" in state(world, "latency")
    assert "no reports none was counted yet" in state(world, "network")
    assert "release" not in words(index(world))  # a member of network, which has its values
    text = (tmp_path / "metrics.toml").read_text("utf-8")
    (tmp_path / "metrics.toml").write_text(text.replace("2999-12-31", "2026-01-02"), "utf-8")
    world.registry = type(world.registry).load(tmp_path / "metrics.toml")
    world.publish(**after(4))
    assert "ended expired on 2026-01-02" in state(world, "battery")


@pytest.mark.exact
def test_a_new_version_goes_on_with_the_history_of_the_old_one(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write("theme", 0)
    world.publish(**after(1))
    world.registry = write_registry(tmp_path, version=2)
    world.write("theme", 1)
    world.publish(**after(2))
    text = words((world.out / "site" / "metrics" / "theme.html").read_text("utf-8"))
    assert "History of all versions" in text
    assert f"Version 2 begins on {START + timedelta(days=1)}" in text
    assert "night" in text


@pytest.mark.exact
def test_pages_that_stay_as_they_are_are_not_written(world: World) -> None:
    world.write("theme")
    world.publish(**after(1))
    before = {path: path.stat().st_mtime_ns for path in (world.out / "site").rglob("*")}
    world.publish(**after(1))
    assert before == {path: path.stat().st_mtime_ns for path in (world.out / "site").rglob("*")}


@pytest.mark.exact
def test_a_value_is_text_and_nothing_else(world: World) -> None:
    name = "<script>alert(1)</script>"
    (world.top / "words.txt").write_text(f"{name}\nmap\n", "utf-8")
    world.write("search")
    world.publish(**after(1))
    page = (world.out / "site" / "metrics" / "search.html").read_text("utf-8")
    assert name not in page
    assert "&lt;script&gt;alert(1)" in page
    assert f"{name} not found" in str(Page.read(page).tables)


@pytest.mark.exact
def test_only_a_cell_of_a_cross_table_is_named_by_its_parts() -> None:
    """A category that is itself a list as JSON had an empty name, or that of a cell."""
    names = {
        (value, is_cell): HistoryLine(
            statistic="count", value=value, points=(), is_cell=is_cell
        ).name
        for value, is_cell in (("[]", False), ("[1,2]", False), ('["a", "[1]"]', True))
    }
    assert [*names.values()] == ["[]", "[1,2]", "a × [1]"]


@pytest.mark.exact
def test_a_line_stands_where_its_numbers_are() -> None:
    """0 is at the bottom, days without reports leave their width, and an open end reaches the
    top."""
    days = [date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 5)]
    points = [
        LinePoint(period=day, at=at, low=at / 2, high=high)
        for day, at, high in zip(days, (1.0, 2.0, 4.0), (2.0, 3.0, None), strict=True)
    ]
    drawing = HistoryLine(statistic="p95", value="", points=points).drawing(days[0], days[-1])
    tall, wide = HEIGHT - 2 * EDGE, WIDTH - 2 * EDGE
    places = [(0, 1 / 4), (1 / 4, 2 / 4), (1, 1)]
    expected = [f"{EDGE + wide * x:.1f},{HEIGHT - EDGE - tall * y:.1f}" for x, y in places]
    assert drawing["line"].split() == expected
    assert drawing["whisker"] == (f"{HEIGHT - EDGE - tall / 2:.1f}", f"{EDGE:.1f}")
    assert drawing["words"] == "1 on 2026-01-01, 4 on 2026-01-05"


@pytest.mark.exact
def test_a_day_on_which_no_word_is_found_has_its_place(tmp_path: Path) -> None:
    """The day has no row in the data set. Earlier, the run ended with an IndexError, for all
    metrics."""
    text = (FOLDER / "metrics.toml").read_text("utf-8")
    text = text.replace("epsilon = 24.0\nfragment_epsilon = 16.0\nbits = 16", QUIET)
    (tmp_path / "metrics.toml").write_text(text, "utf-8")
    shutil.copy(FOLDER / "words.txt", tmp_path)
    known = Registry.load(tmp_path / "metrics.toml")
    mechanism, people = known.metric("joined").mechanism, Population(("cab",), np.array([500]))
    with ReportWriter(tmp_path / "store", "joined", 1, mechanism, START, "a") as file:
        for numbers, payloads in draw_reports(mechanism, people, np.random.default_rng(1)):
            file.write(numbers, payloads)
    done = run(
        *("publish", "--registry", known.path, "--store", tmp_path / "store"),
        *("--until", START, "--out", tmp_path / "out", *settings(tmp_path, jobs=1)),
    )
    assert done.exit_code == 0, done.output
    assert rows(tmp_path / "out") == []
    page = words((tmp_path / "out" / "site" / "metrics" / "joined.html").read_text("utf-8"))
    assert "No change is more than noise ; 1 period" in page
    assert "0 of 0 candidates found in 500 reports" in page
