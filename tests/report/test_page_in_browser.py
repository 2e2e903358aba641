"""Every page answers first, measured in Chromium at the width of a desktop and of a phone."""

import html
import json
import re
import shlex
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ldp.cli import commands
from ldp.protocol.batch import Item
from ldp.publishing.development import Development
from ldp.report import render
from tests.collecting import Service, batch, items
from tests.developing import registry
from tests.pages import dumped, results
from tests.printed import FOLDER, R

FIRST_ROW = {1280: 400, 390: 600, 360: 600}
"""Most pixels from the top of a page to its first row of data, by the page's width."""
MOST_WORDS = 1200
"""Most words of a page of three metrics when it opens."""
LEAST_LETTERS = 14
"""Smallest letters, in pixels, of text that is read as sentences."""
MEASURE = """
const frames = [...document.querySelectorAll("iframe")];
const measured = (frame) => {
  const page = frame.contentDocument, seen = (part) => part.checkVisibility();
  const size = (part) => parseFloat(frame.contentWindow.getComputedStyle(part).fontSize);
  const parts = [...page.querySelectorAll("p, dd, li, caption, figcaption, summary")].filter(seen);
  const read = parts.filter((part) => part.innerText.trim() && !part.classList.contains("hidden"));
  const row = [...page.querySelectorAll("tbody tr, .plot, .heat")].find(seen);
  return {
    row: row ? row.getBoundingClientRect().top : null,
    words: page.body.innerText.split(/\\s+/).filter(Boolean).length,
    letters: Math.min(...read.map(size)),
    beyond: page.documentElement.scrollWidth - page.documentElement.clientWidth,
    labels: page.querySelectorAll(".label").length,
  };
};
addEventListener("load", () => {
  const answer = document.createElement("pre");
  answer.textContent = JSON.stringify(frames.map((frame) => [frame.title, measured(frame)]));
  document.body.append(answer);
});
"""

DECODED = ("theme", "apps", "battery", "latency", "startup", "hour")
COMMANDS = (
    *(f"decode {name}.table --out {name}-result.csv" for name in DECODED),
    *(f"report {name}-result.csv {R} --out pages/{name}.html" for name in DECODED),
    "decode theme.table --fakes 1% --consistency sum-to-n --out fakes.csv",
    "report fakes.csv --truth theme.csv --out pages/fakes.html",
    "decode flat.table --out flat-result.csv",
    "report flat-result.csv --out pages/regression.html",
    "decode typed.table --out typed-result.csv",
    f"report typed-result.csv {R} --out pages/words.html",
    f"aggregate network {R} store --out network.table",
    "decode network.table --out network.csv",
    f"report network.csv {R} --out pages/pairs.html",
    f"aggregate theme store {R} --until 2026-01-05 --out one.table",
    f"aggregate theme store {R} --since 2026-01-06 --out two.table",
    "decode one.table --out one.csv",
    "decode two.table --out two.csv",
    f"report one.csv two.csv {R} --out pages/days.html",
    f"report one.csv network.csv latency-result.csv {R} --out pages/three.html",
    f"publish {R} --store store --out published --until 2026-01-06 --config arms.toml",
    *(
        f"central {name} {R} --data {name}.csv --seed 1 --out pages/central-{name}.html"
        for name in ("theme", "latency", "battery", "search")
    ),
    "try trips.csv --column city --seed 1 --out pages/try.html",
    "try trips.csv --column minutes --seed 1 --out pages/try-numbers.html",
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return every page, by its name."""
    folder = tmp_path_factory.mktemp("pages")
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    (folder / "pages").mkdir()
    cities = ("Oslo", "Bergen", "Oslo", "Oslo", "Hell", "Bergen", "Bodø")
    rows = [f"{cities[i % 7]},{(i * i) % 97 + 0.5}" for i in range(3000)]
    (folder / "trips.csv").write_text("\n".join(["city,minutes", *rows, ""]), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in COMMANDS:
            done = CliRunner().invoke(commands, shlex.split(line))
            assert done.exit_code == 0, f"{line}: {done.output}"
    count = [9000.0 - 60 * i for i in range(150)] + [0.0] * 1200
    names = [f"value {i}" for i in range(1350)]
    truth = {name: 9000 - 60 * i for i, name in enumerate(names[:150])}
    long_lists = [
        results(folder, count, names, name=f"{name}.csv", reports=10**6, fingerprint=name)
        for name in ("browser", "emoji", "word")
    ]
    (folder / "pages" / "three-lists.html").write_text(render(long_lists, truth), "utf-8")
    (folder / "pages" / "development.html").write_text(development(folder / "device"), "utf-8")
    listed = [*(folder / "pages").glob("*.html"), *(folder / "published" / "site").rglob("*.html")]
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in listed
        if path.name != "registry.html"
    }


def development(folder: Path) -> str:
    """Return the page of a collector in development to which a device sent 60 reports."""
    known = registry(folder)
    with Service(folder) as service:
        service.collector.app = Development(
            known,
            service.collector.app,
            store=service.store,
            hosts=["localhost"],
            say=lambda _: None,
            clock=lambda: datetime.now(UTC),
        )
        here = {"host": "localhost"}
        reports = [*items(service.registry, "city", "Oslo", 60), Item("none", 1, b"x")]
        assert service.send(batch(reports), **here).status == 202
        return str(service.ask("GET", "/", headers=here).body.decode())


def measured(pages: Mapping[str, str], width: int, folder: Path) -> dict[str, dict[str, Any]]:
    """Return what Chromium measures of each page at a width."""
    frames = "".join(
        f'<iframe title="{name}" width="{width}" srcdoc="{html.escape(page)}"></iframe>'
        for name, page in pages.items()
    )
    whole = folder / f"frames-{width}.html"
    whole.write_text(f'<!doctype html><meta charset="utf-8">{frames}<script>{MEASURE}</script>')
    answer = re.search(r"(?s)<pre>(.*?)</pre>", dumped(whole, folder / "profile"))
    assert answer
    return dict(json.loads(html.unescape(answer[1])))


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("width", FIRST_ROW)
def test_every_page_answers_first(pages: Mapping[str, str], width: int, tmp_path: Path) -> None:
    """The first row of data is near the top; no letters are small, and nothing is beyond the edge.

    There is one privacy label.
    """
    found = measured(pages, width, tmp_path)
    assert len(found) >= 20
    late = {name: page["row"] for name, page in found.items() if page["row"] > FIRST_ROW[width]}
    assert late == {}
    small = {name: page["letters"] for name, page in found.items()}
    assert {name: size for name, size in small.items() if size < LEAST_LETTERS} == {}
    assert {name: page["beyond"] for name, page in found.items() if page["beyond"] > 0} == {}
    assert {name for name, page in found.items() if page["labels"] > 1} == set()
    for name in ("pages/three.html", "pages/three-lists.html"):
        assert found[name]["words"] < MOST_WORDS


@pytest.mark.slow
@pytest.mark.exact
def test_a_page_that_explains_first_is_noticed(pages: Mapping[str, str], tmp_path: Path) -> None:
    """The twin has a long paragraph in small letters before the table."""
    whole = pages["pages/theme.html"]
    before = f'<p class="small">{"It depends. " * 700}</p><div class="label"></div>'
    (page,) = measured({"a": whole.replace("</h1>", f"</h1>{before}")}, 390, tmp_path).values()
    assert page["row"] > FIRST_ROW[390]
    assert page["words"] > MOST_WORDS
    assert page["letters"] < LEAST_LETTERS
    assert page["labels"] == 2
