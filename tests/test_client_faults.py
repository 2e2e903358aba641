"""What is left when a device's process ends at the wrong moment: only files are looked at.

Each time: what left costs no more than the ledger says, nothing acknowledged is missing, a batch
that is sent twice is the same bytes, and a later process goes on.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from ldp.batch import Batch
from tests.device import EXITED, registry_text

ROOT = Path(__file__).parent.parent


def device(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.device", str(folder), *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def lived(folder: Path, *words: str) -> tuple[int, str]:
    process = device(folder, *words)
    printed, _ = process.communicate(timeout=120)
    return process.returncode, printed.strip()


def checked(folder: Path, before: dict[str, bytes]) -> dict[str, bytes]:
    """The batches in the folder, after everything that must hold was held."""
    sent = {path.stem: path.read_bytes() for path in (folder / "sent").glob("*.batch")}
    assert before.items() <= sent.items(), "a batch changed or vanished"
    items = [item for body in sent.values() for item in Batch.from_bytes(body).items]
    if not (folder / "device.ldp").exists():
        assert not sent
        return sent
    with closing(sqlite3.connect(folder / "device.ldp")) as ledger:
        tables = {row[0] for row in ledger.execute("SELECT name FROM sqlite_master")}
        if "charges" not in tables:
            assert not sent
            return sent
        charged = ledger.execute("SELECT at, metric, times, epsilon FROM charges").fetchall()
        batches = ledger.execute("SELECT id, body, state FROM batches").fetchall()
        assert ledger.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    for metric in ("city", "home"):
        left = sum(item.metric == metric for item in items)
        assert left <= sum(times for _, name, times, _ in charged if name == metric)
    for end in {at for at, *_ in charged}:
        assert sum(n * epsilon for at, _, n, epsilon in charged if at == end) <= 8 + 1e-9
    for identity, body, state in batches:
        if state == "acknowledged":
            assert identity.hex() in sent, "something acknowledged is lost"
        elif identity.hex() in sent:
            assert body == sent[identity.hex()], "a retry would send other bytes"
    return sent


@pytest.mark.slow
@pytest.mark.exact
def test_a_process_may_end_before_any_statement(tmp_path: Path) -> None:
    """Two periods end in every life, so the statements of record, seal, send and acknowledge are
    all passed; the next process, which is not ended, goes on from what is there."""
    at, sent = 0, dict[str, bytes]()
    folder = tmp_path / "at"
    folder.mkdir()
    while True:
        at += 1
        status, _ = lived(folder, "4", "--records", "1", "--exit-at", str(at))
        sent = checked(folder, sent)
        if status != EXITED:
            break
    assert status == 0
    assert at > 100, "hardly a statement was executed"
    assert lived(folder, "9")[0] == 0
    after = checked(folder, sent)
    assert len(after) > len(sent)


@pytest.mark.slow
@pytest.mark.statistical
def test_a_process_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    """40 times, at random; when a later one is left alone everything that waited has left."""
    moments, sent = np.random.default_rng(1), dict[str, bytes]()
    for _ in range(40):
        process = device(tmp_path, "0", "--until-killed")
        time.sleep(moments.uniform(0.1, 0.6))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        sent = checked(tmp_path, sent)
    assert len(sent) > 40
    assert lived(tmp_path, "4")[0] == 0
    checked(tmp_path, sent)
    with closing(sqlite3.connect(tmp_path / "device.ldp")) as ledger:
        states = dict(ledger.execute("SELECT state, count(*) FROM batches GROUP BY state"))
    assert set(states) <= {"acknowledged", "dropped"}


@pytest.mark.slow
@pytest.mark.exact
def test_two_processes_may_share_a_file(tmp_path: Path) -> None:
    """Each with records of its own; between them no period holds more than its cap."""
    assert lived(tmp_path, "1")[0] == 0
    both = [device(tmp_path, "150") for _ in range(2)]
    printed = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert all(int(text) < 450 for text in printed), "one of them hardly got to the file"
    assert len(checked(tmp_path, {})) > 40


FORKING = """
import os, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from ldp.client import Client, Folder
from tests.device import registry

folder = Path(sys.argv[1])
now = datetime(2026, 1, 1, tzinfo=UTC)
settings = dict(registry=registry(folder), destination=Folder(folder / "sent"), jitter=timedelta(0))
client = Client(folder / "device.ldp", clock=lambda: now, **settings)
client.grant()
client.record("city", "Oslo")
child = os.fork()
if child:
    client.close()
    client = Client(folder / "device.ldp", clock=lambda: now, **settings)
for _ in range(40):
    client.record("city", "Oslo")
    client.record("home", "Oslo")
    client.upload()
    now += timedelta(days=1)
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
client.close()
os._exit(0)
"""


@pytest.mark.exact
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_parent_and_child_of_a_fork_share_one_ledger(tmp_path: Path) -> None:
    """The parent closes its client and opens another one while the child goes on with the old: both
    live forty days, and together they say no more than one device may."""
    (tmp_path / "metrics.toml").write_text(registry_text(64.0))
    done = subprocess.run([sys.executable, "-c", FORKING, str(tmp_path)], cwd=ROOT, check=False)
    assert done.returncode == 0
    sent = checked(tmp_path, {})
    items = [item for body in sent.values() for item in Batch.from_bytes(body).items]
    with closing(sqlite3.connect(tmp_path / "device.ldp")) as ledger:
        ((charged,),) = ledger.execute("SELECT sum(times) FROM charges")
    assert len(items) == charged == 16


@pytest.mark.slow
@pytest.mark.exact
def test_a_full_disk_declines_and_loses_nothing(tmp_path: Path) -> None:
    assert lived(tmp_path, "12")[0] == 0
    sent = checked(tmp_path, {})
    size = (tmp_path / "device.ldp").stat().st_size
    for limit in (1, 4096, size - 1, size, size + 4096, 2 * size):
        status, declined = lived(tmp_path, "6", "--file-limit", str(limit))
        assert status == 0, "the app was crashed"
        assert limit > 4096 or int(declined) == 36
        sent = checked(tmp_path, sent)
    status, declined = lived(tmp_path, "12")
    assert (status, declined) == (0, "0")
    assert len(checked(tmp_path, sent)) > len(sent)
