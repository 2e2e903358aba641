"""What watches a collector and its results works.

Series exist before their first event, alerts fire, the dashboard's queries run, and so do the
commands of systemd's units.
"""

import json
import math
import re
import shutil
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ldp.collection import workers
from ldp.collection.collector_counts import BUCKETS, Counts, exposition
from ldp.collection.intake import CODES
from ldp.collection.workers import Shuffling
from simulations.publish import START
from tests.collecting import Service, batch, items, registry
from tests.command_line import settings
from tests.folders import DATA, ROOT
from tests.publications import World, run

DOCS = ROOT / "docs"
DASHBOARD = json.loads((DOCS / "monitoring" / "dashboard.json").read_text("utf-8"))
TARGETS = [(panel["title"], t) for panel in DASHBOARD["panels"] for t in panel["targets"]]
QUERIES = {title: target["rawSql"] for title, target in TARGETS if "rawSql" in target}
GAUGES = (
    *("ldp_buffer_reports", "ldp_buffer_bytes", "ldp_requests_in_flight"),
    *("ldp_oldest_batch_seconds", "ldp_clock_ahead_days"),
)
EXPRESSIONS = [target["expr"] for _, target in TARGETS if "expr" in target]


def series(text: str) -> dict[str, float]:
    """Return the values of a page of metrics, by name and labels."""
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


@pytest.mark.exact
def test_a_store_that_hangs_is_said_and_holds_up_no_batch_and_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk of the network may answer nothing.

    Earlier, health was then good for ever, and SIGTERM had no effect.
    """
    asked, begun, answered = registry(tmp_path), threading.Event(), threading.Event()

    def hang(*_: Any, **__: Any) -> None:
        begun.set()
        answered.wait(60)
        raise OSError("it answers nothing")

    monkeypatch.setattr(workers, "write_block", hang)
    monkeypatch.setattr(workers, "HANGS_SECONDS", 0.2)
    monkeypatch.setattr(workers, "STOP_SECONDS", 0.2)
    with Service(tmp_path, shuffling=Shuffling(least=1, smallest=1)) as service:
        assert service.ask("GET", "/v1/health").status == 200
        service.send(batch(items(asked, "city", "Oslo", 3)))
        assert begun.wait(30)
        time.sleep(0.5)
        health = service.ask("GET", "/v1/health")
        assert (health.status, health.body) == (503, b'{"error": "the ingestor hangs"}')
        assert service.send(batch(items(asked, "city", "Oslo", 3))).status == 202
        end = time.monotonic()
    assert time.monotonic() - end < 30
    answered.set()


@pytest.mark.exact
def test_series_are_there_before_their_first_event(tmp_path: Path) -> None:
    """Every series that a batch can raise is 0 before it, except the status of an admission."""
    asked = registry(tmp_path)
    with Service(tmp_path) as service:
        before = series(service.ask("GET", "/v1/metrics").body.decode())
        service.send(batch(items(asked, "city", "Oslo", 3)))
        service.send(b"nonsense")
        service.ask("PUT", "/v1/reports")
        service.collector.move_everything()
        after = series(service.ask("GET", "/v1/metrics").body.decode())
    assert before.keys() == after.keys()
    assert not any(value for name, value in before.items() if "_bytes" not in name)
    assert {f'ldp_reports_refused_total{{code="{code}"}}' for code in CODES} <= before.keys()
    for kind in ("accepted", "stored", "set_aside", "damaged"):
        assert f'ldp_reports_{kind}_total{{metric="word"}}' in before
    assert after['ldp_reports_stored_total{metric="city"}'] == 3
    assert [after[f'ldp_requests_total{{status="{code}"}}'] for code in (202, 400, 405)] == [1] * 3
    assert after["ldp_commit_seconds_count"] == 1


@pytest.mark.exact
def test_commits_are_counted_in_classes_that_add_up() -> None:
    counts = Counts()
    for seconds in (0.0, 0.001, 0.0011, 0.1, 3.0):
        counts.add_commit(seconds)
    text = exposition(counts, {})
    assert "# TYPE ldp_commit_seconds histogram" in text.splitlines()
    shown = series(text)
    ends = [*(f"{end:g}" for end in BUCKETS if end < math.inf), "+Inf"]
    classes = [shown[f'ldp_commit_seconds_bucket{{le="{end}"}}'] for end in ends]
    assert classes == [2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 5]
    assert shown["ldp_commit_seconds_count"] == 5
    assert shown["ldp_commit_seconds_sum"] == pytest.approx(3.1021)


@pytest.mark.exact
def test_alerts_panels_and_the_page_name_series_and_labels_that_there_are() -> None:
    gauges = dict.fromkeys(GAUGES, 0)
    labels: dict[str, set[str]] = {}
    for name in series(exposition(Counts(["city"], are_sealed=True), gauges)):
        labels.setdefault(name.split("{")[0], {"instance"}).update(re.findall(r"(\w+)=", name))
    alerts = re.findall("expr: (.*)", (DOCS / "monitoring" / "alerts.yml").read_text("utf-8"))
    for expression in (*alerts[1:], *EXPRESSIONS):  # the first is of `up`, which is Prometheus's
        names = re.findall(r"ldp_\w+", expression)
        groups = re.findall(r"by \(([\w, ]+)\)", expression)
        used = {label for group in groups for label in group.split(", ")}
        used |= {*re.findall(r"(\w+)=~", expression)}
        assert names, expression
        assert used <= set[str]().union(*(labels[name] for name in names)), expression
    page = (DOCS / "operating.md").read_text("utf-8")
    table = page[page.index("| figure of") : page.index("`/v1/health` is 200")]
    assert {*re.findall(r"ldp_\w+", table)} <= labels.keys()


@pytest.mark.slow
@pytest.mark.exact
def test_promtool_accepts_alerts_and_panels(tmp_path: Path) -> None:
    """The alerts of made-up series (tests/data/alerts-test.yml) are the expected ones."""
    if not (promtool := shutil.which("promtool")):
        pytest.skip("promtool is not installed (Debian's package prometheus)")
    shutil.copy(DOCS / "monitoring" / "alerts.yml", tmp_path)
    shutil.copy(DATA / "alerts-test.yml", tmp_path)
    rules = [
        {"record": f"panel:{number}", "expr": expression.replace("$__rate_interval", "5m")}
        for number, expression in enumerate(EXPRESSIONS)
    ]
    (tmp_path / "panels.yml").write_text(json.dumps({"groups": [{"name": "p", "rules": rules}]}))
    for words in ("check rules alerts.yml panels.yml", "test rules alerts-test.yml"):
        done = subprocess.run(
            [promtool, *words.split()], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    alerts = (tmp_path / "alerts.yml").read_text("utf-8")
    (tmp_path / "alerts.yml").write_text(alerts.replace("> 0.1", "> 1"))  # the twin: a wrong rule
    assert subprocess.run([promtool, *words.split()], cwd=tmp_path, check=False).returncode != 0


def filled(query: str, metric: str = "theme") -> str:
    """Return a query as Grafana sends it, for these days."""
    days = [f"'{START + timedelta(days=day)}T00:00:00Z'" for day in (-1, 30)]
    between = rf"\1 BETWEEN {days[0]} AND {days[1]}"
    return re.sub(r"\$__timeFilter\((\w+)\)", between, query.replace("$metric", metric))


@pytest.mark.slow
@pytest.mark.exact
def test_the_queries_of_the_dashboard_run(world: World, postgres: str) -> None:
    """In PostgreSQL, and on the data set with DuckDB, they return the same rows, and at least
    one."""
    duckdb = pytest.importorskip("duckdb")
    import psycopg

    for day in range(2):
        world.write("theme", day)
        world.write("battery", day)
    until, database = START + timedelta(days=2), world.top / "results.duckdb"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS ldp_results, ldp_changes, ldp_periods")
        done = run(
            *("publish", "--registry", world.top / "metrics.toml", "--store", world.store),
            *(
                "--out",
                world.out,
                "--until",
                until,
                "--duckdb",
                database,
                *settings(world.top, postgres=postgres),
            ),
        )
        assert done.exit_code == 0, done.output
        change = (
            f"INSERT INTO {{}} VALUES ('theme', 1, '{START}', '{START}', 'count', 'dark', 0, 1)"
        )
        connection.execute(change.format("ldp_changes").encode())
        with duckdb.connect(str(database)) as local:
            local.execute(change.format("changes"))
            for title, query in (*QUERIES.items(), ("metrics", variable())):
                asked = filled(query, "battery" if "Statistics" in title else "theme")
                rows = connection.execute(asked.encode()).fetchall()
                assert rows, title
                assert local.execute(asked.replace("ldp_", "")).fetchall() == rows, title
    assert rows == [("battery",), ("theme",)]


def variable() -> str:
    """Return the query of the dashboard's list of metrics."""
    (query,) = (v["query"] for v in DASHBOARD["templating"]["list"] if v["type"] == "query")
    return str(query)


def units() -> dict[str, str]:
    """Return the units of the page, by file name."""
    page = (DOCS / "operating.md").read_text("utf-8")
    pairs: list[tuple[str, str]] = re.findall(
        r"`/etc/systemd/system/(\S+)`:\n\n```ini\n(.*?)```", page, re.S
    )
    return dict(pairs)


@pytest.mark.exact
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    if not (analyze := shutil.which("systemd-analyze")):
        pytest.skip("systemd is not installed")
    for name, text in units().items():
        (tmp_path / name).write_text(text.replace("/opt/ldp/bin/ldp", sys.executable))

    def complaints() -> str:
        done = subprocess.run(
            [analyze, "verify", *map(str, tmp_path.iterdir())],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stderr

    assert len(units()) == 3
    assert complaints() == ""
    timer = tmp_path / "ldp-publish.timer"
    timer.write_text(timer.read_text().replace("OnCalendar=*", "OnCalendar=every"))
    assert "ldp-publish.timer" in complaints()  # the twin


@pytest.mark.slow
@pytest.mark.exact
def test_the_commands_of_the_units_run(world: World) -> None:
    world.write("theme")
    world.store.rename(world.top / "reports")
    commands = {
        name: text.split("ExecStart=/opt/ldp/bin/ldp ")[1].split("\n")[0]
        for name, text in units().items()
        if name.endswith("service")
    }
    words = {
        name: line.replace("/etc/ldp", str(world.top)).split() for name, line in commands.items()
    }
    start = [sys.executable, "-m", "ldp"]
    done = subprocess.run(
        [*start, *words["ldp-publish.service"]],
        cwd=world.top,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith("1 day counted -> published\n")
    with subprocess.Popen(
        [*start, *words["ldp-collect.service"], "--listen", "127.0.0.1:0"],
        cwd=world.top,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline().startswith("collecting on http://127.0.0.1:")
        process.terminate()
        assert process.wait(30) == 0
