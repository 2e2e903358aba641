"""A real collector and real clients, all killed and started again, agree on every report."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from ldp.collection.aggregate import aggregate
from ldp.registry import Registry
from ldp.server import decode
from ldp.tables.table import Table
from simulations.collector import Served
from tests.collecting import counted, registry
from tests.command_line import settings
from tests.folders import ROOT
from tests.sending_device import WINDOWS

DEVICES = 12
CITIES = ("Oslo", "Bergen", "Hell")
WORDS = tuple(f"word {number}" for number in range(10))
ALPHA = 1e-6


class Device:
    """Client in a process of its own."""

    def __init__(self, folder: Path, number: int, url: str, start: datetime) -> None:
        self.city, self.word = CITIES[number % 2], WORDS[number % 7]  # some are held by nobody
        place = folder / f"device-{number}"
        place.mkdir()
        self._command = [
            *(sys.executable, "-m", "tests.sending_device", str(place)),
            *(url, self.city, self.word, start.isoformat()),
        ]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def acknowledged(self) -> Counter[str]:
        """Return the acknowledged reports by metric, when the client is done."""
        printed, _ = self.process.communicate(timeout=300)
        assert self.process.returncode == 0
        return Counter(json.loads(printed))


@pytest.mark.slow
@pytest.mark.statistical
def test_twelve_clients_and_a_collector_that_is_killed_agree_on_every_report(
    tmp_path: Path,
) -> None:
    """All intervals hold at a joint level of 1 - 1e-6, so this fails falsely with probability 1e-6.

    The twin, the interval of a city in which nobody is, holds for no other city.
    """
    asked, moments = registry(tmp_path), np.random.default_rng(1)
    served = Served(tmp_path, *settings(tmp_path, shuffle_least=300))
    served.start()
    start = datetime.now(UTC) - WINDOWS * timedelta(minutes=1) - timedelta(minutes=5)
    devices = [Device(tmp_path, number, served.url, start) for number in range(DEVICES)]
    for _ in range(2):
        time.sleep(float(moments.uniform(2, 4)))
        for device in devices[::2]:
            device.kill()
        served.end(signal.SIGKILL)
        for device in devices[::2]:
            device.start()
        served.start()
    ledgers = [device.acknowledged() for device in devices]
    assert served.end() == 0
    served.drain()
    truth: dict[str, Counter[str]] = {"city": Counter(), "word": Counter()}
    for device, ledger in zip(devices, ledgers, strict=True):
        truth["city"][device.city] += ledger["city"]
        truth["word"][device.word] += ledger["word"]
    level = 1 - ALPHA / (len(CITIES) + len(WORDS))
    for metric, candidates in (("city", CITIES), ("word", WORDS)):
        table = counted(served.store, asked, metric)
        assert isinstance(table, Table)
        assert table.total == sum(truth[metric].values()) == DEVICES * WINDOWS
        low, high = decode(table, candidates).interval(level)
        for value, least, most in zip(candidates, low, high, strict=True):
            assert least <= truth[metric][value] <= most, value
            is_nobodys = value == "Hell"
            assert not (is_nobodys and least <= truth["city"]["Oslo"] <= most)


@pytest.mark.slow
@pytest.mark.exact
def test_the_readmes_app_sends_to_a_collector_as_it_does_to_a_folder(tmp_path: Path) -> None:
    """The README's lines run as they stand, with the collector's address in place of the folder.

    A day later the app uploads once more, and the report can be counted.
    """
    readme = (ROOT / "README.md").read_text("utf-8")
    (tmp_path / "metrics.toml").write_text(readme.split("```toml\n")[1].split("```")[0])
    served = Served(tmp_path)
    served.start()
    lines = readme.split("```python\n")[1].split("```")[0]
    assert "Folder" in lines
    lines = lines.replace('Folder("outbox")', f'Collector("{served.url}")')
    lines = lines.replace("Folder", "Collector")
    lines = lines.replace('"device.ldp",', '"device.ldp", clock=lambda: now[0],')
    start = "from datetime import UTC, datetime, timedelta\nnow = [datetime.now(UTC)]\n"
    tomorrow = """
now[0] += timedelta(days=1)
client.upload()
now[0] += timedelta(hours=1)
print(client.upload(), client.status().acknowledged)
"""
    done = subprocess.run(
        [sys.executable, "-c", start + lines + tomorrow],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith(" 1"), done.stdout
    assert served.end() == 0
    served.drain()
    city = Registry.load(tmp_path / "metrics.toml").metric("city")
    assert aggregate([served.store], city.name, city.version, city.mechanism).total == 1
