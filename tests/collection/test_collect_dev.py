"""`ldp collect --dev` serves registries for development on this machine, and says all in words."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from ldp.client import Collector
from ldp.client.testing import Device
from ldp.collection.workers import Shuffling
from ldp.errors import RegistryError
from ldp.protocol.batch import Item
from ldp.protocol.randomness import SeededBits
from ldp.publishing.development import LATEST, Development, Reported, reported_words
from ldp.registry import Registry
from tests.collecting import TODAY, Process, Service, batch, items, wait_until
from tests.command_line import run, settings
from tests.developing import registry
from tests.pages import dumped, words

HOST = "127.0.0.1:8787"
HERE = {"host": HOST}


@contextmanager
def served(folder: Path) -> Iterator[tuple[Service, list[str]]]:
    """Yield a collector for development in this process, and what it prints."""
    said: list[str] = []
    development = registry(folder)
    quick = Shuffling(least=1, longest=timedelta(0), smallest=1)
    with Service(folder, shuffling=quick) as service:
        service.collector.app = Development(
            development,
            service.collector.app,
            store=service.store,
            hosts=[HOST, "localhost:8787"],
            say=said.append,
            clock=lambda: datetime(TODAY.year, TODAY.month, TODAY.day, 12, tzinfo=UTC),
        )
        yield service, said


@pytest.mark.exact
def test_every_batch_is_said_in_words_and_shown_on_the_page(tmp_path: Path) -> None:
    with served(tmp_path) as (service, said):
        page = service.ask("GET", "/", headers=HERE)
        assert "Nothing came since this collector started" in page.body.decode()
        assert service.ask("GET", "/report", headers=HERE).status == 404
        reports = items(service.registry, "city", "Oslo", 60)
        reports += [Item("city", 7, b"x"), Item("none", 1, b"x")]
        body = batch(reports)
        assert service.send(body, **HERE).status == 202
        assert service.send(body, **HERE).status == 202  # a retry prints nothing
        assert said[0] == "12:00:00  a sealed batch with 62 reports"
        assert len(said) == 63
        oslo = [line for line in said if 'names "Oslo" of 3 answers' in line]
        assert len(oslo) > 40  # of 60 with probability 0.909 each: fewer by chance in 1e-8
        assert oslo[0].endswith("(a true answer is named 90.9 times in 100)")
        assert said[-2:] == ["  city: refused: wrong_version", "  none: refused: unknown_metric"]
        text = service.ask("GET", "/", headers=HERE).body.decode()
        assert ">60</td>" in text
        assert ">1</td>" in text, "refused"
        assert re.search(r"<div>Oslo: about \d+ of 60, between \d+ and \d+</div>", text)
        assert text.count("<td><time>") == LATEST
        assert text.index("Oslo: about") < text.index("Bergen: about")
        report = service.ask("GET", "/report", headers=HERE).body.decode()
        assert "Where people ask for the weather" in report
        assert "candidates found in 60 reports" in report


def tried(service: Service, query: str) -> str:
    """Return the text of the page on which a value was typed."""
    answer = service.ask("GET", f"/try{query}", headers=HERE)
    assert answer.status == 200
    return words(answer.body.decode())


@pytest.mark.exact
def test_a_value_that_is_typed_is_shown_beside_its_report(tmp_path: Path) -> None:
    with served(tmp_path) as (service, said):
        assert 'city takes "Oslo", "Bergen" and "Hell"' in tried(service, "")
        text = tried(service, "?metric=city&value=Oslo")
        sent = re.search(r'"Oslo", sent as "(.*?)": happens (.*?) times in 100', text)
        assert sent is not None
        assert sent[2] == ("90.9" if sent[1] == "Oslo" else "4.53")
        text = tried(service, "?metric=word&value=hello")
        assert re.search(r'"hello", sent as a report that names \d+ of the 64 cells', text)
        assert re.search(r"It (names|does not name) the value: happens [\d.]+ times in 100", text)
        assert "not one of the 3 categories" in tried(service, "?metric=city&value=Paris")
        assert "no metric 'none'" in tried(service, "?metric=none&value=Oslo")
        assert '"<b>", sent' in tried(service, "?metric=word&value=%3Cb%3E"), "text, no markup"
        assert service.ask("POST", "/try", headers=HERE).status == 404
        assert said == [], "nothing of it is counted"
        assert "0 reports" in words(service.ask("GET", "/", headers=HERE).body.decode())


@pytest.mark.slow
@pytest.mark.exact
def test_no_page_of_development_breaks_its_own_policy(tmp_path: Path) -> None:
    with served(tmp_path) as (service, _):
        service.send(batch(items(service.registry, "city", "Oslo", 5)), **HERE)
        pages = [service.ask("GET", path, headers=HERE) for path in ("/", "/try", "/report")]
    for number, page in enumerate(pages):
        (path := tmp_path / f"{number}.html").write_bytes(page.body)
        assert "weather" in dumped(path, tmp_path / "profile") or number == 2
    broken = pages[0].body.decode().replace("img-src data:; ", "")
    path.write_text(broken, "utf-8")
    with pytest.raises(AssertionError, match="Content Security Policy"):
        dumped(path, tmp_path / "profile")


@pytest.mark.exact
def test_numbers_are_said_in_words_as_far_as_reports_tell_them(tmp_path: Path) -> None:
    path = registry(tmp_path).path
    latency = path.read_text().partition("[metric.word]")[0].replace("metric.city", "metric.wait")
    kind = latency.replace('"rr"', '"hierarchical-histogram"')
    path.write_text(re.sub("categories = .*", "", kind))
    known = Registry.load(path)
    encoder = known.metric("wait").mechanism.encoder(SeededBits(b"words"))
    reported = Reported(known, known.metric("wait"), tmp_path)
    assert [*reported_words(reported)] == []
    for total, said in ((60, "p90: not enough reports"), (30_000, "p90: about 7.")):
        reported.add([encoder.encode(7.0) for _ in range(total)], TODAY)
        assert any(text.startswith(said) for text in reported_words(reported))


@pytest.mark.exact
def test_what_the_store_holds_is_counted_after_a_restart(tmp_path: Path) -> None:
    with served(tmp_path) as (service, _):
        service.send(batch(items(service.registry, "city", "Oslo", 5)), **HERE)
        wait_until(lambda: [*service.store.glob("*/*/*/*.parquet")])
    with served(tmp_path) as (service, _):
        page = service.ask("GET", "/", headers=HERE).body.decode()
    assert "5 reports" in page


@pytest.mark.exact
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "evil.example:8787"},
        {"host": "127.0.0.1:8788"},
        {**HERE, "origin": "http://evil.example"},
        {**HERE, "origin": "null"},
    ],
)
def test_another_host_or_origin_is_refused(tmp_path: Path, headers: dict[str, str]) -> None:
    with served(tmp_path) as (service, said):
        body = batch(items(service.registry, "city", "Oslo", 1))
        kind = {"content-type": "application/vnd.ldp.batch"}
        for method, path in (("GET", "/"), ("GET", "/v1/registry"), ("POST", "/v1/reports")):
            got = service.ask(method, path, body, {**headers, **kind})
            assert got.status == 403
        reason = "refused a page of another origin; --allow-origin lets it send"
        others = [headers["origin"]] if headers.get("host") == HOST else []
        assert said == [f"{reason}: {origin}" for origin in others], "once"


@pytest.mark.exact
def test_a_page_whose_origin_is_allowed_may_send(tmp_path: Path) -> None:
    known, page = registry(tmp_path), "http://localhost:8000"
    with Service(tmp_path, origins=[page]) as service:
        service.collector.app = Development(
            known,
            service.collector.app,
            store=service.store,
            hosts=[HOST],
            origins=[page],
            say=lambda _: None,
            clock=lambda: datetime.now(UTC),
        )
        body = batch(items(service.registry, "city", "Oslo", 1))
        answer = service.send(body, **HERE, origin=page)
        assert answer.status == 202
        assert answer.headers["access-control-allow-origin"] == page
        assert service.send(body, **HERE, origin="http://localhost:8001").status == 403


@pytest.mark.exact
def test_an_answer_allows_no_other_origin(tmp_path: Path) -> None:
    with served(tmp_path) as (service, _):
        for path in ("/", "/v1/health"):
            own = {**HERE, "origin": f"http://{HOST}"}
            headers = service.ask("GET", path, headers=own).headers
            assert not any(name.startswith("access-control") for name in headers)
        assert (
            "frame-ancestors 'none'"
            in service.ask("GET", "/", headers=HERE).headers["content-security-policy"]
        )


@pytest.mark.exact
def test_what_a_device_sends_cannot_become_markup(tmp_path: Path) -> None:
    path = tmp_path / "metrics.toml"
    registry(tmp_path)
    path.write_text(path.read_text().replace('"Hell"', '"<b>\\u202e"'))
    with Service(tmp_path) as service:
        application = Development(
            Registry.load(path),
            service.collector.app,
            store=service.store,
            hosts=[HOST],
            say=lambda _: None,
            clock=lambda: datetime.now(UTC),
        )
        service.collector.app = application
        service.send(batch(items(service.registry, "city", "<b>\u202e", 9)), **HERE)
        text = service.ask("GET", "/", headers=HERE).body.decode()
    assert "&lt;b&gt;\\u202e" in text
    assert "<b>\\u202e" not in text
    assert "\u202e" not in text


@pytest.mark.exact
def test_neither_collector_takes_the_registry_of_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    live = registry(tmp_path, "")
    with pytest.raises(RegistryError, match="development = true"):
        Development(
            live,
            lambda *_: None,  # type: ignore[arg-type]
            store=tmp_path,
            hosts=[HOST],
            say=print,
            clock=lambda: datetime.now(UTC),
        )
    assert run("collect --dev", monkeypatch) == 2
    assert "as `ldp init --dev` writes it" in capsys.readouterr().err
    assert run("collect", monkeypatch) == 2
    assert "--store names the folder" in capsys.readouterr().err
    registry(tmp_path)
    assert run("collect --store reports", monkeypatch) == 2
    assert "run it with --dev" in capsys.readouterr().err
    assert run(f"collect --dev --drain {' '.join(settings(tmp_path, ids='f'))}", monkeypatch) == 2
    assert "--dev does not go with --drain, --ids" in capsys.readouterr().err
    assert run("collect --dev --listen 0.0.0.0:0", monkeypatch) == 2
    assert "on this machine only" in capsys.readouterr().err


@pytest.mark.exact
def test_a_developer_sees_a_report_in_a_browser(tmp_path: Path) -> None:
    path = registry(tmp_path).path
    process = Process(tmp_path, "--dev", "--listen", "127.0.0.1:0")
    try:
        assert process.url.startswith("http://127.0.0.1:")
        with Device(tmp_path, registry=path, destination=Collector(process.url)) as device:
            device.client.record("city", "Oslo")
            assert len(device.sealed()) == 1
        with urlopen(Request(process.url)) as answer:
            assert " of 1, between " in answer.read().decode()
    finally:
        process.end()
