"""A collector that opens sealed reports counts each once, whoever repeats it, in any batch."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ldp.collection.intake import GivenUp, collected_metrics, sort_sealed
from ldp.protocol.batch import Item
from ldp.protocol.sealed_report import QUEUE, Attestation
from ldp.protocol.sealing_keys import open_with
from tests.collecting import (
    REGISTRY,
    TODAY,
    Clock,
    Process,
    Service,
    batch,
    counted,
    items,
    registry,
    same_counts,
    summed,
)
from tests.command_line import run, settings
from tests.sealing import FOREIGN, KEY, RETIRED, opening, sealed

WEEK, DAY = timedelta(days=7), timedelta(days=1)


def suppressed(attempt: Callable[[], list[str]]) -> list[str] | None:
    """Return the result of a try; None where the batch was given up."""
    with suppress(GivenUp):
        return attempt()
    return None


def codes(service: Service, body: bytes) -> list[str]:
    """Return the codes of the refused reports of a batch that is answered 202."""
    answer = service.send(body)
    assert answer.status == 202, answer
    return [refusal["code"] for refusal in answer.json["refused"]]


@pytest.mark.exact
def test_a_sealed_report_counts_once_in_whatever_batch_it_comes(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    plain = [*items(asked, "word", "hello", 5), *items(asked, "city", "Oslo", 3)]
    texts = sealed(asked, plain)
    first, second = batch(texts[:5]), batch([*texts[3:], texts[7]])
    with opening(tmp_path) as service:
        assert codes(service, first) == codes(service, first) == []
        assert codes(service, second) == codes(service, second) == ["repeated"] * 3
    with opening(tmp_path) as service:  # as after a restart
        assert codes(service, batch(texts)) == ["repeated"] * 8
        service.collector.move_everything()
        for metric in ("word", "city"):
            table = counted(service.store, asked, metric)
            assert same_counts(table, summed(asked, [batch(plain)], metric))


@pytest.mark.exact
def test_a_retired_key_opens_and_a_foreign_one_does_not(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    (one, two, three) = (
        sealed(asked, items(asked, "city", "Oslo", 1), key=key)[0]
        for key in (KEY, RETIRED, FOREIGN)
    )
    with opening(tmp_path, KEY, RETIRED) as service:
        assert codes(service, batch([one, two, three])) == ["unopened"]
        assert codes(service, batch([one, *items(asked, "city", "Oslo", 1)])) == [
            *("repeated", "unopened")
        ]


@pytest.mark.exact
def test_noise_in_sealed_batches_is_given_up_after_three(tmp_path: Path) -> None:
    asked, opened = registry(tmp_path), list[Item]()

    def open_report(item: Item) -> Any:
        opened.append(item)
        return open_with([KEY], item)

    noise = sealed(asked, items(asked, "city", "Oslo", 500), key=FOREIGN)
    with Service(tmp_path, open_report=open_report) as service:
        got = service.send(batch(noise))
    assert (got.status, got.headers["connection"], len(opened)) == (400, "close", 3)


@pytest.mark.exact
@pytest.mark.parametrize("bad", [3, 5])
def test_reports_that_do_not_open_cost_the_batch_unless_a_relay_states_it(
    tmp_path: Path, bad: int
) -> None:
    """Without a known relay, such reports must be a minority, in whatever order they are tried."""
    asked = registry(tmp_path)
    reports = sealed(asked, items(asked, "city", "Oslo", 40))
    reports += sealed(asked, items(asked, "city", "Oslo", bad), key=FOREIGN)
    queue = reports[0].metric.removeprefix(QUEUE)
    stated = Attestation(queue, bytes(16), len(reports), b"")
    metrics = collected_metrics(asked)

    def refused(all_items: list[Item], verify: Any) -> list[str]:
        body = batch(all_items)
        result = sort_sealed(body, metrics, TODAY, lambda item: open_with([KEY], item), verify)
        assert [report.item for report in result.opened] == [*range(40)]
        return [code for _, code in result.refused]

    signed = [*reports, stated.to_item(bytes(64))]
    assert refused(signed, lambda item, digest: stated) == ["unopened"] * bad
    with pytest.raises(GivenUp):
        refused(reports, lambda item, digest: stated)
    tries = [suppressed(lambda: refused(reports, None)) for _ in range(20)]
    assert ["unopened"] * bad in tries, "the order is drawn anew at each try"


@pytest.mark.exact
def test_reports_in_the_clear_of_a_registry_with_keys_are_counted(tmp_path: Path) -> None:
    keys = f'[product]\nsealing_keys = ["{KEY.fingerprint}"]'
    (tmp_path / "metrics.toml").write_text(REGISTRY.replace("[product]", keys))
    asked = registry(tmp_path)
    (report,) = sealed(asked, items(asked, "city", "Oslo", 1))
    with opening(tmp_path) as service:
        assert codes(service, batch([report])) == []
        assert codes(service, batch(items(asked, "city", "Oslo", 2))) == []
        text = service.ask("GET", "/v1/metrics").body
    assert b'ldp_reports_unsealed_total{metric="city"} 2\n' in text


@pytest.mark.exact
def test_a_report_is_forgotten_only_when_its_day_is_not_taken_any_more(tmp_path: Path) -> None:
    asked, clock = registry(tmp_path), Clock()
    (old,) = sealed(asked, items(asked, "city", "Oslo", 1), TODAY - WEEK)
    (early,) = sealed(asked, items(asked, "city", "Oslo", 1), TODAY + 2 * DAY)
    with opening(tmp_path, **clock.settings) as service:
        assert codes(service, batch([old])) == []
        assert codes(service, batch([early])) == ["wrong_day"]
        assert codes(service, batch([old, early])) == ["repeated", "wrong_day"]
        clock.go_on(service.collector._writer, 1)
        assert codes(service, batch([old, early], clock.day)) == ["wrong_day"]
        assert service.ask("GET", "/v1/metrics").body.count(b'code="wrong_day"} 3') == 1


@pytest.mark.exact
def test_what_would_not_be_counted_in_the_open_is_not_when_sealed(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    (good,) = items(asked, "city", "Oslo", 1)
    odd = [*(good._replace(version=version) for version in (2, 4)), good._replace(report=b"x")]
    odd += items(asked, "old", "yes", 1)
    with opening(tmp_path) as service:
        assert codes(service, batch(sealed(asked, odd))) == [
            *("wrong_version", "wrong_version", "malformed", "expired")
        ]


@pytest.mark.exact
def test_a_report_that_came_by_another_queue_is_malformed(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    (good,) = items(asked, "city", "Oslo", 1)
    lone = REGISTRY.replace(
        "epsilon = 4.0\ncategories", "shuffled_epsilon = 1\nepsilon = 4.0\ncategories"
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "metrics.toml").write_text(lone)
    (elsewhere,) = sealed(registry(tmp_path / "other"), [good])
    assert elsewhere.metric == "queue:places/city/3"
    with opening(tmp_path) as service:
        assert codes(service, batch([elsewhere])) == ["malformed"]
    with opening(tmp_path / "other") as service:
        assert codes(service, batch([elsewhere])) == []


@pytest.mark.exact
def test_a_conflict_uses_nothing_up(tmp_path: Path) -> None:
    """Other bytes under a known id are refused; their reports count under a new
    id."""
    asked = registry(tmp_path)
    one, two = sealed(asked, items(asked, "city", "Oslo", 2))
    identity = bytes(16)
    with opening(tmp_path) as service:
        assert codes(service, batch([one], identity=identity)) == []
        assert service.send(batch([two], identity=identity)).status == 409
        assert codes(service, batch([two])) == []


@pytest.mark.exact
def test_without_a_key_sealed_reports_are_not_lost(tmp_path: Path) -> None:
    """The sender repeats them until the collector has its key."""
    asked = registry(tmp_path)
    body = batch(sealed(asked, items(asked, "city", "Oslo", 1)))
    with Service(tmp_path) as service:
        answer = service.send(body)
        assert (answer.status, answer.headers["retry-after"]) == (503, "60")
        assert codes(
            service, batch([*items(asked, "city", "Oslo", 1), Item("queue:x", 1, b"")])
        ) == ["unknown_metric"]


@pytest.mark.slow
def test_the_command_opens_with_the_keys_of_the_registry_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The collector does not start while devices may seal to a key that it lacks.

    What waits in its buffer is already open, so draining it needs no key.
    """
    keys = list[dict[str, str]]()
    for name in "aba":
        assert run(f"key {tmp_path / name} --json", monkeypatch) == 0
        keys.append(json.loads(capsys.readouterr().out))
    first, second, again = keys
    assert first == again != second
    assert run(f"key {tmp_path / 'a'}", monkeypatch) == 0
    assert first["fingerprint"] in capsys.readouterr().out
    listed = json.dumps([first["fingerprint"], second["fingerprint"]])
    (tmp_path / "metrics.toml").write_text(
        REGISTRY.replace("[product]", f"[product]\nsealing_keys = {listed}")
    )
    names = [str(tmp_path / name) for name in "ab"]
    some = settings(tmp_path, sealed=names[:1])
    both = *settings(tmp_path, sealed=names), "--listen", "127.0.0.1:0"
    for given, missing in ((), first), (some, second):
        assert Process(tmp_path, *given).ended() == 2
        words = f"devices may seal to the key {missing['fingerprint']}"
        assert words in (tmp_path / "log").read_text()
    few = settings(tmp_path, sealed=names, ids="0-3")
    assert Process(tmp_path, *few).ended() == 2
    assert "ids does not go with sealed reports" in (tmp_path / "log").read_text()
    process = Process(tmp_path, *both)
    assert process.url
    assert process.end() == 0
    assert Process(tmp_path, "--drain").ended() == 0
