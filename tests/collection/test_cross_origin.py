"""The collector answers browsers of exact origins, and serves the registry that they read."""

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ldp.cli.registry import export_resolved
from ldp.collection.cross_origin import checked_origin
from ldp.collection.service import Limits
from ldp.errors import ParameterError
from ldp.mechanisms import from_parameters
from ldp.protocol.batch import MEDIA_TYPE, MOST_BYTES
from ldp.registry import Registry
from ldp.registry.resolved import resolved_bytes
from tests import developing
from tests.collecting import Got, Process, Service, batch, items, registry
from tests.command_line import settings

pytestmark = pytest.mark.exact

APP, OTHER = "https://app.example", "https://evil.example"
PREFLIGHT = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "content-type,ldp-batch",
}


def headers_for_browsers(got: Got) -> dict[str, str]:
    return {name: text for name, text in got.headers.items() if name.startswith("access-control")}


def test_a_page_of_an_allowed_origin_may_send_and_read_the_answer(tmp_path: Path) -> None:
    with Service(tmp_path, origins=[APP]) as service:
        asked = service.ask("OPTIONS", "/v1/reports", headers={"origin": APP, **PREFLIGHT})
        assert asked.status == 204
        assert asked.headers["access-control-allow-origin"] == APP
        assert asked.headers["access-control-allow-headers"] == "Content-Type, Ldp-Batch"
        assert "POST" in asked.headers["access-control-allow-methods"]
        sent = service.send(batch(items(service.registry, "city", "Oslo", 1)), origin=APP)
    assert sent.status == 202
    assert headers_for_browsers(sent) == {
        "access-control-allow-origin": APP,
        "access-control-expose-headers": "Retry-After",
    }
    assert sent.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in asked.headers


def test_errors_have_the_headers_too(tmp_path: Path) -> None:
    with Service(tmp_path, origins=[APP], limits=Limits(rate=4.0)) as service:
        answers = [
            service.send(b"no batch", origin=APP),
            service.ask("POST", "/v1/reports", b"", {"origin": APP}),
            service.send(bytes(MOST_BYTES + 1), origin=APP),
            service.ask("GET", "/v1/reports", headers={"origin": APP}),
        ]
        while (last := service.send(b"", origin=APP)).status != 429:
            pass
    with Service(tmp_path / "full", origins=[APP], limits=Limits(buffer_bytes=0)) as service:
        full = service.send(b"", origin=APP)
    assert [got.status for got in (*answers, last, full)] == [400, 415, 413, 405, 429, 503]
    for got in (*answers, last, full):
        assert got.headers["access-control-allow-origin"] == APP
        assert got.headers["access-control-expose-headers"] == "Retry-After"


@pytest.mark.parametrize("origin", [OTHER, "null", APP + ":8443", "http://app.example", APP + "/"])
def test_no_other_origin_gets_a_header(tmp_path: Path, origin: str) -> None:
    with Service(tmp_path, origins=[APP]) as service:
        asked = service.ask("OPTIONS", "/v1/reports", headers={"origin": origin, **PREFLIGHT})
        read = service.ask("GET", "/v1/registry.json", headers={"origin": origin})
    assert asked.status == 403
    assert (read.status, read.headers["vary"]) == (200, "Origin")
    assert headers_for_browsers(asked) == headers_for_browsers(read) == {}


def test_the_door_is_shut_by_default_and_other_pages_have_none(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        asked = service.ask("OPTIONS", "/v1/reports", headers={"origin": APP, **PREFLIGHT})
        assert (asked.status, asked.headers.get("vary")) == (405, None)
    with Service(tmp_path, origins=[APP]) as service:
        for path in ("/v1/health", "/v1/metrics", "/v1/registry"):
            got = service.ask("GET", path, headers={"origin": APP})
            assert got.status == 200
            assert headers_for_browsers(got) == {}


@pytest.mark.parametrize(
    "text",
    [
        *("*", "null", "", "app.example", "https://", "https://app.example/", "https://*.example"),
        *("https://App.example", "https://app.example:443", "https://u@app.example", "ftp://a"),
        *("http://app.example", "https://app.example?x", "https://app.example:99999"),
        *("http://localhost:80", "https://äpp.example", "https://app.example:", "https://a b"),
        *("https://app.example:08443", "https://app.example:0", "https://app.example\n"),
    ],
)
def test_what_is_no_exact_origin_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="exact origin"):
        checked_origin(text)


@pytest.mark.parametrize(
    "text", [APP, "https://app.example:8443", "http://localhost:5173", "http://[::1]:8080"]
)
def test_exact_origins_are_taken(text: str) -> None:
    assert checked_origin(text) == text


def test_the_command_takes_exact_origins_only(tmp_path: Path) -> None:
    assert Process(tmp_path, *settings(tmp_path, allow_origin=[APP, "*"])).ended() == 2
    log = (tmp_path / "log").read_text()
    assert log.count("\n") == 1
    assert "'*' is not an exact origin" in log


def test_the_command_writes_what_the_collector_serves(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    done = CliRunner().invoke(export_resolved, [str(asked.path)])
    body = (tmp_path / "metrics.json").read_bytes()
    assert body == resolved_bytes(asked)
    assert done.output.splitlines()[1] == f"sha256 {hashlib.sha256(body).hexdigest()}"


def test_a_registry_for_development_says_so(tmp_path: Path) -> None:
    asked = [developing.registry(tmp_path / "a"), developing.registry(tmp_path / "b", "")]
    products = [json.loads(resolved_bytes(one))["product"] for one in asked]
    assert products == [{"name": "weather", "development": True}, {"name": "weather"}]


def test_the_registry_as_json_is_whole_and_always_the_same(tmp_path: Path) -> None:
    """Clients pin these bytes by their SHA-256, so they may change only with the format's
    version."""
    asked = registry(tmp_path)
    body = resolved_bytes(asked)
    pin = "66a0e709ec9246121519dfebdc88950e950d77a6740eb05b3a7e5b6dff6ef02a"
    assert hashlib.sha256(body).hexdigest() == pin
    with Service(tmp_path) as service:
        got = service.ask("GET", "/v1/registry.json")
        known = service.ask("GET", "/v1/registry.json", headers={"if-none-match": f'"{pin}"'})
    assert (got.body, got.headers["etag"]) == (body, f'"{pin}"')
    assert got.headers["cache-control"] == "max-age=3600"
    assert (known.status, known.body) == (304, b"")
    document = json.loads(body)
    assert document["format"] == 1
    assert document["groups"]["places"]["window"] == 60
    for name, metric in document["metrics"].items():
        mechanism = from_parameters(metric["mechanism"])
        assert mechanism == asked.metric(name).mechanism
        assert mechanism.fingerprint.hex() == metric["fingerprint"]
        assert metric["epsilon"] == metric["price"] == mechanism.cost.epsilon


def test_dictionaries_stay_with_the_server_and_seeds_go_along(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("secret-word\n")
    path = tmp_path / "metrics.toml"
    path.write_text(
        """
[product]
name = "weather"
lifetime_epsilon = 100.0
[group.typing]
window = "1d"
window_epsilon = 8.0
lifetime_epsilon = 64.0
[metric.word]
version = 1
group = "typing"
description = "What people type"
owners = ["team@example.org"]
expires = 2999-12-31
mechanism = "cms"
epsilon = 4.0
rows = 256
width = 1024
dictionary = "words.txt"
presence = "hidden"
"""
    )
    body = resolved_bytes(Registry.load(path))
    word = json.loads(body)["metrics"]["word"]
    assert b"secret-word" not in body
    assert b"team@" not in body
    assert len(word["mechanism"]["seed"]) == 32
    assert (word["none"], word["presence"]) == ("", "hidden")


def test_the_media_type_is_what_a_preflight_asks_for() -> None:
    """A POST of this type always has a preflight, so no page of another origin sends without
    one."""
    assert MEDIA_TYPE not in ("text/plain", "multipart/form-data")
