"""`ldp publish --watch` and `--serve` repeat runs, and serve the site and nothing else.

Runs repeat themselves and end between two periods.
"""

import asyncio
import http.client
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ldp.publishing.publish import repeat
from ldp.publishing.site_server import site_application
from tests.collecting import Got, answer, wait_until
from tests.publications import World, rows, run


@pytest.mark.exact
def test_a_run_begins_when_its_time_has_come_or_the_one_before_ends() -> None:
    """Runs of 2, 25 and 0 seconds every 10 begin at 0, 10 and 35."""
    now, begun, lengths = 0.0, list[float](), iter((2.0, 25.0, 0.0))

    def publish() -> None:
        nonlocal now
        begun.append(now)
        now += next(lengths)

    def wait(seconds: float) -> bool:
        nonlocal now
        now += seconds
        return len(begun) == 3

    repeat(publish, 10.0, wait, lambda: now)
    assert begun == [0.0, 10.0, 35.0]
    assert now == 45.0


@pytest.mark.exact
def test_a_run_that_is_to_end_does_so_after_its_period(world: World) -> None:
    for day in range(3):
        world.write("theme", day)
    counted: list[Any] = []
    options: dict[str, Any] = {"on_period": counted.append, "is_ending": lambda: bool(counted)}
    assert len(world.publish(**options).counted) == 1
    assert (world.out / "site" / "metrics" / "theme.html").exists()
    assert len(world.publish().counted) == 2
    undisturbed = world.top / "undisturbed"
    assert len(world.publish(undisturbed).counted) == 3
    assert rows(world.out) == rows(undisturbed)


@contextmanager
def publishing(world: World, *words: str) -> Iterator[Any]:
    """Yield `ldp publish` as a process, whose lines go to a file; it ends by SIGTERM with status
    0."""
    command = [sys.executable, "-m", "ldp", "publish", "--registry", "metrics.toml"]
    command += ["--store", "store", "--out", "out", *words]
    with (world.top / "log").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=world.top,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    yield lambda: (world.top / "log").read_text()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert (world.top / "log").read_text().endswith("stopped\n")


@pytest.mark.slow
@pytest.mark.exact
def test_watch_counts_what_comes_and_goes_on_after_an_error(world: World) -> None:
    world.write("theme", 0)
    registry = world.top / "metrics.toml"
    text = registry.read_text()
    with publishing(world, "--watch", "0m") as log:
        wait_until(lambda: "1 day counted" in log())
        registry.write_text("[product")
        wait_until(lambda: "ldp: " in log())
        registry.write_text(text)
        world.write("theme", 1)
        wait_until(lambda: log().count("1 day counted") == 2)
    assert "theme v1 2026-01-02: 400 reports" in log()


@pytest.mark.slow
@pytest.mark.exact
def test_a_problem_that_stays_is_said_once(world: World) -> None:
    world.write("theme", 0)
    (path,) = world.store.rglob("*.parquet")
    path.write_bytes(b"PAR1")
    with publishing(world, "--watch", "0m") as log:
        wait_until(lambda: log().count("0 days counted") > 1)
    assert log().count("damaged") == 1


@pytest.mark.slow
@pytest.mark.exact
def test_serve_shows_the_site_while_it_watches(world: World) -> None:
    world.write("theme", 0)

    def get(port: int, path: str, host: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", path, headers={"Host": host})
        response = connection.getresponse()
        response.read()
        connection.close()
        return response

    with publishing(world, "--serve", "127.0.0.1:0") as log:
        wait_until(lambda: "publishing on http" in log() and "1 day counted" in log())
        address = log().split("publishing on http://")[1].split()[0]
        port = int(address.split(":")[1])
        page = get(port, "/metrics/theme.html", address)
        assert (page.status, page.headers["refresh"]) == (200, "300")
        assert get(port, "/", f"localhost:{port}").status == 200
        assert get(port, "/", "rebound.example").status == 403
        assert get(port, "/", f"rebound.example:{port}").status == 403


def ask(folder: Path, path: str, method: str = "GET", hosts: tuple[str, ...] = ()) -> Got:
    """Return the answer of the site's application to a request whose `Host` is 127.0.0.1:1."""
    headers = {"host": "127.0.0.1:1"}
    return asyncio.run(answer(site_application(folder, hosts), method, path, None, headers))


@pytest.mark.exact
def test_nothing_but_the_site_is_served(tmp_path: Path) -> None:
    site, outside = tmp_path / "out" / "site", tmp_path / "out" / "tables"
    for folder in (site / "metrics", outside):
        folder.mkdir(parents=True)
        (folder / "a.html").write_text(folder.name)
    (site / "index.html").write_text("index")
    (site / "link.html").symlink_to(outside / "a.html")
    (tmp_path / "out" / "site-of-others").mkdir()
    (tmp_path / "out" / "site-of-others" / "a.html").write_text("others")
    index = ask(site, "/")
    assert (index.status, index.body) == (200, b"index")
    assert (index.headers["refresh"], index.headers["cache-control"]) == ("300", "no-store")
    assert ask(site, "/metrics/a.html").body == b"metrics"
    for path in (
        "/link.html",
        "/../tables/a.html",
        "/metrics/../../tables/a.html",
        "/%2e%2e/tables/a.html",
        "/..\\tables\\a.html",
        "/../site-of-others/a.html",
        f"/{outside}/a.html",
        "/metrics",
        "/nothing.html",
        "/nul\0.html",
    ):
        assert ask(site, path).status == 404, path
    assert ask(site, "/", "POST").status == 405
    assert ask(site, "/", hosts=("127.0.0.1:1",)).status == 200
    assert ask(site, "/", hosts=("127.0.0.1:2",)).status == 403
    shutil.rmtree(site)
    early = ask(site, "/")  # no run has written it
    assert (early.status, early.headers["refresh"]) == (404, "5")


@pytest.mark.exact
def test_a_day_does_not_go_with_a_run_that_is_repeated(world: World) -> None:
    common = ("publish", "--registry", world.top / "metrics.toml", "--store", world.store)
    done = run(*common, "--out", world.out, "--watch", "--until", "2026-01-01")
    assert "--until does not go with --watch" in done.output
    done = run(*common, "--out", world.out, "--serve", "nowhere")
    assert "HOST:PORT" in str(done.exception)
    done = run(*common, "--out", world.out, "--watch", "soon")
    assert done.exit_code == 2
    assert not world.out.exists()
