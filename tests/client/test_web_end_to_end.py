"""The TypeScript client works with a real `ldp collect`, in simulated browsers and in a real
one."""

import hashlib
import json
import re
import shutil
import subprocess
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from ldp.cli.registry import export_resolved
from ldp.registry import Registry
from ldp.registry.resolved import resolved_bytes
from ldp.server import decode
from ldp.tables.table import Table
from simulations.web import kill_browser, kill_processes, node_with_sqlite
from tests.collecting import Process, counted, drain
from tests.command_line import settings
from tests.pages import words
from tests.web_client import FOLDER, require_web_client, run

ROOT = FOLDER.parents[1]
METRICS = """
[product]
name = "weather"
[group.places]
window = "1h"
window_epsilon = 1000.0
lifetime_epsilon = 10000.0
"""
METRIC = """
[metric.{name}]
version = 1
group = "places"
description = "The city whose weather was asked for"
owners = ["team@example.org"]
expires = 2999-12-31
reports_per_window = 34
{rest}
"""
CITIES = 'categories = ["Oslo", "Bergen", "Hell"]'
CITY = METRIC.format(name="city", rest=f'mechanism = "rr"\nepsilon = 2.0\n{CITIES}')
ALL = CITY + "".join(
    METRIC.format(name=name, rest=rest)
    for name, rest in {
        "word": 'mechanism = "cms"\nepsilon = 3.0\nrows = 64\nwidth = 64',
        "colour": f'mechanism = "unary"\nvariant = "optimized"\nepsilon = 2.0\n{CITIES}',
    }.items()
)


def registry(folder: Path, metrics: str) -> Registry:
    path = folder / "metrics.toml"
    path.write_text(METRICS + metrics)
    return Registry.load(path)


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """Yield the address of a folder as a static site, on another origin than the collector."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
@pytest.mark.statistical
def test_10_000_reports_of_100_simulated_browsers_decode_within_their_intervals(
    tmp_path: Path,
) -> None:
    """9 intervals have level 1 - 1e-9, so this fails falsely less than once in 1e8 runs."""
    require_web_client()
    asked = registry(tmp_path, ALL)
    (tmp_path / "metrics.json").write_bytes(resolved_bytes(asked))
    serving = Process(tmp_path, "--listen", "127.0.0.1:0")
    done = run(
        *("node", "test/send.mjs", serving.url, str(tmp_path / "metrics.json"), "100", "34"),
        timeout=120,
    )
    assert serving.end() == 0
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["acknowledged"] == 100
    drain(tmp_path)
    for name, truth in said["recorded"].items():
        table = counted(tmp_path / "reports", asked, name)
        assert isinstance(table, Table)
        assert table.total == 3400
        estimates = decode(table, list(truth))
        low, high = estimates.interval(1 - 1e-9)
        bounds = dict(zip(estimates.values, zip(low, high, strict=True), strict=True))
        for value, (least, most) in bounds.items():
            assert least <= truth[value] <= most, (name, value)
        assert not bounds["Hell"][0] <= truth["Oslo"] <= bounds["Hell"][1]  # twin: another value's


BROWSERS = {"chrome": ("chromium", "chromium-browser"), "firefox": ("firefox-esr", "firefox")}


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("browser", BROWSERS)
def test_the_example_runs_in_a_real_browser(tmp_path: Path, browser: str) -> None:
    """It runs vectors, consent, two tabs, a closed page, an upload to another origin and a
    withdrawal."""
    require_web_client()
    path = next(filter(None, map(shutil.which, BROWSERS[browser])), None)
    if path is None:
        pytest.skip(f"{BROWSERS[browser][0]} is not on the PATH")
    asked = registry(tmp_path, CITY)
    vectors = sorted(path.name for path in (ROOT / "tests" / "vectors").glob("*.json"))
    vectors.remove("dummies.json")  # messages for a shuffler, which this client does not send
    with site(ROOT) as origin:
        allowed = settings(tmp_path, allow_origin=[origin])
        serving = Process(tmp_path, "--listen", "127.0.0.1:0", *allowed)
        digest = hashlib.sha256(resolved_bytes(asked)).hexdigest()
        page = f"{origin}/clients/typescript/example/index.html"
        address = f"{page}?collector={serving.url}&sha256={digest}"
        done = run(
            *("node", "test/browser.mjs", browser, path, address, ",".join(vectors)), timeout=90
        )
        assert serving.end() == 0
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert steps[0]["checked"] > 400
    assert len(steps) == 5
    drain(tmp_path)
    table = counted(tmp_path / "reports", asked, "city")
    assert isinstance(table, Table)
    assert table.total == 3
    assert round(sum(decode(table, ["Oslo", "Bergen", "Hell"]).count), 6) == 3


@pytest.mark.slow
@pytest.mark.exact
def test_what_the_page_tells_a_web_developer_leads_to_a_count(tmp_path: Path) -> None:
    """The blocks of docs/embedding-web.md run in a folder of their own.

    The package is the one that the page's own commands make of a fresh checkout.
    """
    require_web_client()
    chromium = next(filter(None, map(shutil.which, BROWSERS["chrome"])), None)
    if chromium is None:
        pytest.skip("chromium is not on the PATH")
    text = (ROOT / "docs" / "embedding-web.md").read_text("utf-8")
    toml, html = (
        re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)[1]  # type: ignore[index]
        for language in ("toml", "html")
    )
    (tmp_path / "metrics.toml").write_text(textwrap.dedent(toml))
    packing = re.search(r"clients/typescript && npm ci && (.*)\)\n", text)
    assert packing
    fresh = tmp_path / "client"
    shutil.copytree(FOLDER, fresh, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (fresh / "node_modules").symlink_to(FOLDER / "node_modules")
    packed = subprocess.run(packing[1], shell=True, cwd=fresh, capture_output=True, check=False)
    assert packed.returncode == 0, packed.stderr
    (package,) = fresh.glob("*.tgz")
    installed = run("npm", "install", "--silent", "--prefix", str(tmp_path), str(package))
    if installed.returncode:
        pytest.skip(f"npm install failed: {installed.stderr[-200:]}")
    assert CliRunner().invoke(export_resolved, [str(tmp_path / "metrics.toml")]).exit_code == 0
    with site(tmp_path) as origin:
        developing = ("--dev", "--allow-origin", origin, "--listen", "127.0.0.1:0")
        serving = Process(tmp_path, *developing, command=("collect",))
        page = textwrap.dedent(html).replace("http://127.0.0.1:8787", serving.url)
        (tmp_path / "index.html").write_text(page)
        done = run("node", "test/quickstart.mjs", chromium, f"{origin}/index.html", timeout=60)
        with urlopen(serving.url) as answer:
            shown = words(answer.read().decode())
        assert serving.end() == 0
    assert done.returncode == 0, done.stderr
    assert "acknowledged 1" in done.stdout
    assert re.search(r'1 report of your own .* city names "\w+" of 4 answers', shown)


@pytest.mark.slow
@pytest.mark.exact
def test_a_node_process_that_is_killed_loses_nothing_sealed(tmp_path: Path) -> None:
    """Every test of the file in SQLite runs too; `make campaign-web` kills a hundred times."""
    require_web_client()
    try:
        node_with_sqlite(tmp_path)
    except subprocess.CalledProcessError:
        pytest.skip("npm cannot install a Node that has node:sqlite")
    assert kill_processes(10, tmp_path)["sent"] > 0


@pytest.mark.slow
@pytest.mark.exact
def test_a_browser_that_is_killed_loses_nothing_sealed() -> None:
    require_web_client()
    if not any(map(shutil.which, BROWSERS["chrome"])):
        pytest.skip("chromium is not on the PATH")
    assert kill_browser(3)["kills"] == 3
