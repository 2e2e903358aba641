"""Registries for development, and the device that an app's own tests use."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ldp.client import Client, Collector, Folder
from ldp.client.runtime import NOBODY_AGREED
from ldp.client.testing import Clock, Device, Memory
from ldp.collection.intake import collected_metrics, sort_batch
from ldp.errors import ParameterError, RegistryError
from ldp.registry import Registry
from ldp.registry.toml_file import DEVELOPMENT
from tests.developing import registry

pytest_plugins = ["pytester"]

LOOPBACK = "http://127.0.0.1:8787"
NOON = datetime(2026, 1, 1, 12, 0, 5, tzinfo=UTC)


@pytest.mark.exact
def test_no_other_registry_counts_what_one_for_development_collects(tmp_path: Path) -> None:
    live, development = registry(tmp_path / "a", ""), registry(tmp_path / "b")
    memory = Memory()
    with Device(tmp_path, registry=development, destination=memory) as device:
        device.client.record("city", "Oslo")
        device.client.record("word", "hello")
        assert len(device.sealed()) == 2
    (body,) = memory.batches.values()
    today = device.clock.now.date()
    codes = [item.code for item in sort_batch(body, collected_metrics(live), today).refused]
    assert codes == ["wrong_version"] * 2
    assert not sort_batch(body, collected_metrics(development), today).refused
    assert development.metric("city").version == DEVELOPMENT + 1
    seeds = [one.metric("word").mechanism.fingerprint for one in (live, development)]
    assert seeds[0] != seeds[1]


@pytest.mark.exact
def test_a_registry_for_development_has_a_lock_of_its_own(tmp_path: Path) -> None:
    registry(tmp_path).lock()
    assert (tmp_path / "development.lock").exists()
    live = registry(tmp_path, "")
    assert live.check() == ["city", "word"]  # nothing of it is locked
    live.lock()
    assert live.check() == []
    assert registry(tmp_path).check() == []
    path = tmp_path / "metrics.toml"
    path.write_text(path.read_text().replace('"Bergen"', '"Bodø"', 1))
    with pytest.raises(RegistryError, match=r"give it version 2$"):  # as metrics.toml counts them
        Registry.load(path).check()


@pytest.mark.exact
@pytest.mark.parametrize("value", ["1", '"yes"'])
def test_development_is_true_or_false(tmp_path: Path, value: str) -> None:
    with pytest.raises(RegistryError, match="development must be true or false"):
        registry(tmp_path, f"development = {value}")


@pytest.mark.exact
def test_a_client_in_development_sends_to_this_machine_only(tmp_path: Path) -> None:
    development = registry(tmp_path)
    for destination in (Collector(LOOPBACK), Collector("http://localhost:1"), Folder(tmp_path)):
        Client(tmp_path / "d", registry=development, destination=destination).close()
    with pytest.raises(ParameterError, match="ldp collect --dev"):
        Client(tmp_path / "d", registry=development, destination=Collector("https://a.example"))
    live = registry(tmp_path / "live", "")
    Client(tmp_path / "d", registry=live, destination=Collector("https://a.example")).close()


@pytest.mark.exact
def test_a_developer_begins_again_by_deleting_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for development, begins_again in (("development = true", True), ("", False)):
        path = tmp_path / f"{begins_again}.ldp"
        known = registry(tmp_path / str(begins_again), development)
        for has_begun in (True, begins_again):
            with Client(path, registry=known, destination=Folder(tmp_path)) as client:
                client.grant()
                assert bool(client.record("city", "Oslo")) == has_begun
            path.unlink(missing_ok=True)


@pytest.mark.exact
def test_a_device_of_tests_sends_nothing_to_a_collector_that_would_count_it(tmp_path: Path) -> None:
    live = registry(tmp_path, "")
    for destination in (Collector(LOOPBACK), Collector("https://a.example")):
        with pytest.raises(ParameterError, match="a device of tests"):
            Device(tmp_path, registry=live, destination=destination)
    development = registry(tmp_path / "dev")
    Device(tmp_path, registry=development, destination=Collector(LOOPBACK)).client.close()
    with pytest.raises(ParameterError, match="a device of tests"):
        Device(tmp_path, registry=development, destination=Collector("https://a.example"))


@pytest.mark.exact
def test_a_device_of_tests_says_what_would_leave_once_and_the_same_again(tmp_path: Path) -> None:
    texts = []
    for run in ("first", "second"):
        development = registry(tmp_path / run)
        clock = Clock(NOON)
        with Device(tmp_path / run, registry=development, clock=clock) as device:
            assert device.client.status().why == "nothing is recorded that was not sent"
            for _ in range(8):
                assert device.client.record("city", "Oslo")
            first = device.sealed()
            assert clock.now == NOON + timedelta(seconds=55)
            assert device.sealed() == []
            device.client.record("city", "Bergen")
            texts.append([statement.text for statement in first + device.sealed()])
    assert texts[0] == texts[1]
    assert len(texts[0]) == 9
    assert sum("Oslo" in text for text in texts[0]) > 4
    with Device(tmp_path, registry=development, has_consent=False) as other:
        assert not other.client.record("city", "Oslo")


@pytest.mark.exact
def test_a_mistake_of_the_app_fails_its_test(tmp_path: Path) -> None:
    with (
        Device(tmp_path, registry=registry(tmp_path)) as device,
        pytest.raises(ParameterError, match="not one of the 3 categories"),
    ):
        device.client.record("city", "Paris")


@pytest.mark.exact
def test_the_fixture_of_pytest_is_a_device(pytester: pytest.Pytester) -> None:
    registry(pytester.path, "")
    pytester.makeconftest('pytest_plugins = ["ldp.client.pytest_plugin"]')
    pytester.makepyfile(
        """
        def test_the_app_asks_for_a_city(ldp_device):
            ldp_device.client.record("city", "Oslo")
            (statement,) = ldp_device.sealed()
            assert statement.metric == "city" and statement.total == 3
        """
    )
    pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider").assert_outcomes(passed=1)


@pytest.mark.exact
def test_the_status_says_why_nothing_was_sent_and_when_it_will_be(tmp_path: Path) -> None:
    clock, memory = Clock(NOON), Memory()
    with Client(
        tmp_path / "device.ldp",
        registry=registry(tmp_path, ""),
        destination=memory,
        clock=clock,
        jitter=timedelta(seconds=30),
        witness=False,
    ) as client:
        assert client.status().why == NOBODY_AGREED
        client.grant()
        client.record("city", "Oslo")
        status = client.status()
        assert status.why == "what was recorded is sealed after its period"
        assert status.next_upload == NOON.replace(minute=1, second=0)
        clock.advance(timedelta(minutes=1))
        status = client.status()
        assert (status.why, status.next_upload) == ("waits for upload(), which start() calls", None)
        while client.upload().waiting == 0:  # until one has to wait
            client.record("city", "Oslo")
            clock.advance(timedelta(minutes=1))
        status = client.status()
        assert status.why == "waits for its random moment"
        assert status.next_upload is not None
        assert clock.now < status.next_upload <= clock.now + timedelta(seconds=30)
        clock.now = status.next_upload
        assert client.upload().acknowledged == 1
        client.withdraw()
        status = client.status()
        assert (status.why, status.next_upload) == ("withdrawn", None)
