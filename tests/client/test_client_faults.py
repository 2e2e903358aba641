"""A device's process ends at a wrong moment, and only its files are examined.

What left costs no more than the ledger says. Nothing acknowledged is missing, and a batch that is
sent twice has the same bytes. Memoised answers stay the same, and a later process goes on. `make
campaign-device-faults` does the same a thousand times.
"""

import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ldp.protocol.batch import Batch
from simulations.device import METRICS, registry_text
from simulations.device_faults import (
    ROOT,
    Broken,
    Charges,
    checked,
    device,
    hostile,
    kills,
    lived,
    power_cut,
    received,
)
from simulations.power_loss import compiled
from tests.tiers import tiered

ENDING = """
import os, sys
from pathlib import Path
from simulations import device
from simulations.device_faults import checked

folder, statement, status, sent = Path(sys.argv[1]), -int(sys.argv[2]), device.EXITED, {}
while status == device.EXITED:
    statement += 3
    child = os.fork()
    if not child:
        device.main([str(folder), "4", "--records", "1", "--exit-at", str(statement)])
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sent = checked(folder, sent)
print(statement, status)
"""
"""Program of lives in processes of their own.

They are forked, because starting Python takes longer than they do.
"""


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_process_may_end_before_any_statement(tmp_path: Path) -> None:
    """Every third statement is tried, from a random one of the first three.

    Two periods end in every life, so that the statements of record, seal, send and acknowledge are
    all passed. The next process goes on from there.
    """
    command = [sys.executable, "-c", ENDING, str(tmp_path), str(secrets.randbelow(3))]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    statement, status = map(int, done.stdout.split()[-2:])
    assert status == 0
    assert statement > 300, "hardly a statement was executed"
    sent = received(tmp_path)
    assert lived(tmp_path, "9")[0] == 0
    assert len(checked(tmp_path, sent)) > len(sent)


@pytest.mark.slow
@pytest.mark.exact
def test_a_process_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    """After 25 random kills, a life that is left alone sends everything that waited.

    The checks hold at every moment, so no chance is involved. In the twin a batch is lost.
    """
    charges: Charges = {}
    sent = kills(tmp_path, 25, 1, charges)
    assert len(sent) > 25
    (tmp_path / "sent" / f"{next(iter(sent))}.batch").unlink()
    with pytest.raises(Broken, match="something acknowledged is lost"):
        checked(tmp_path, {}, charges)


@pytest.mark.slow
@pytest.mark.exact
def test_what_was_synced_is_enough_when_the_power_fails(tmp_path: Path) -> None:
    """Power fails at the moment at which a batch has arrived; the device goes on with what the disk
    kept."""
    shim, sent = compiled(tmp_path), dict[str, bytes]()
    home = tmp_path / "home"
    home.mkdir()
    for cut in range(12):
        power_cut(home, shim, 1 + cut % 4)
        sent = checked(home, sent)
    assert len(sent) > 12


@pytest.mark.slow
@pytest.mark.exact
def test_the_twin_that_does_not_sync_is_caught_by_a_power_cut(tmp_path: Path) -> None:
    shim, home = compiled(tmp_path), tmp_path / "home"
    home.mkdir()
    power_cut(home, shim, 2, "--unsynced")
    with pytest.raises(Broken, match=r"more was sent|without a"):
        checked(home, {})


@pytest.mark.slow
@pytest.mark.exact
def test_two_processes_may_share_a_file(tmp_path: Path) -> None:
    """Each has records of its own; between them no period holds more than its cap."""
    assert lived(tmp_path, "1")[0] == 0
    both = [device(tmp_path, "100") for _ in range(2)]
    printed = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    most = 100 * 3 * len(METRICS) / 2
    assert all(int(text) < most for text in printed), "one of them hardly got to the file"
    assert len(checked(tmp_path, {})) > 30


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("lifetime", tiered([64.0, 1e6], 0, 1))
def test_a_hostile_app_lives_for_a_year_within_its_caps(tmp_path: Path, lifetime: float) -> None:
    """A seed draws the days, and the caps hold whatever they are.

    The twin is held to a smaller cap than the device was.
    """
    assert len(hostile(tmp_path, 400, seed=2, lifetime=lifetime)) > 10
    (tmp_path / "metrics.toml").write_text(registry_text(4.0))
    with pytest.raises(Broken, match="more than a life"):
        checked(tmp_path, {})


FORKING = """
import os, sys
from datetime import timedelta
from pathlib import Path
from simulations.device import START, opened

folder, now = Path(sys.argv[1]), [START]
client = opened(folder, now)
client.grant()
client.record("city", "Oslo")
child = os.fork()
if child:
    client.close()
    client = opened(folder, now)
for _ in range(40):
    client.record("city", "Oslo")
    client.record("home", "Oslo")
    client.upload()
    now[0] += timedelta(days=1)
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
client.close()
os._exit(0)
"""


@pytest.mark.exact
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_parent_and_child_of_a_fork_share_one_ledger(tmp_path: Path) -> None:
    """The parent opens another client while the child goes on with the old one.

    Both live forty days, and together they send no more than one device may.
    """
    places = {name: METRICS[name] for name in ("city", "home")}
    (tmp_path / "metrics.toml").write_text(registry_text(64.0, places))
    done = subprocess.run([sys.executable, "-c", FORKING, str(tmp_path)], cwd=ROOT, check=False)
    assert done.returncode == 0
    sent = checked(tmp_path, {})
    items = [item for body in sent.values() for item in Batch.from_bytes(body).items]
    with closing(sqlite3.connect(tmp_path / "device.ldp")) as ledger:
        ((charged,),) = ledger.execute("SELECT sum(times) FROM charges")
    assert len(items) == charged == 16


CLOSING = """
import os, signal, sys, threading
from pathlib import Path
from simulations.device import START, opened

client = opened(Path(sys.argv[1]), [START])
held = threading.Event()

def hold():
    with client._sender._stopped._cond:
        held.set()
        threading.Event().wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(5)
    client.close()
    os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0)
"""
"""Program whose thread holds the lock of the event that ends an upload thread, while it forks."""


@pytest.mark.exact
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_closes_a_client_whatever_the_parents_threads_held(tmp_path: Path) -> None:
    (tmp_path / "metrics.toml").write_text(registry_text(64.0, {"city": METRICS["city"]}))
    done = subprocess.run([sys.executable, "-c", CLOSING, str(tmp_path)], cwd=ROOT, check=False)
    assert done.returncode == 0


FULL = """
import resource, sys
from pathlib import Path
from ldp.client import Client
from ldp.registry import Registry

folder = Path(sys.argv[1])
registry = Registry.load(folder / "metrics.toml")
with Client(folder / "device.ldp", registry=registry, witness=False) as before:
    assert before.grant()
client = Client(folder / "device.ldp", registry=registry, witness=False)
open_files = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, open_files[1]))
assert client.record("city", "Oslo").reason == "storage"
for call in (client.grant, client.upload, client.remaining, client.status, client.forget):
    call()
for answer in (client.sent(), client.pending()):
    assert not answer
assert client.explain() and client.explain(as_data=True)["error"]
resource.setrlimit(resource.RLIMIT_NOFILE, open_files)
assert client.record("city", "Oslo")
client.close()
"""
"""Program that may open no further file for a while."""


@pytest.mark.exact
def test_no_method_raises_where_no_file_can_be_opened(tmp_path: Path) -> None:
    """Not even to import what is loaded for few apps only."""
    (tmp_path / "metrics.toml").write_text(registry_text(64.0, {"city": METRICS["city"]}))
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], cwd=ROOT, check=False)
    assert done.returncode == 0


@pytest.mark.slow
@pytest.mark.exact
def test_a_full_disk_declines_and_loses_nothing(tmp_path: Path) -> None:
    assert lived(tmp_path, "12")[0] == 0
    sent = checked(tmp_path, {})
    size = (tmp_path / "device.ldp").stat().st_size
    records = 6 * 3 * len(METRICS)
    for limit in (1, 4096, size - 1, size, size + 4096, 2 * size):
        status, declined = lived(tmp_path, "6", "--file-limit", str(limit))
        assert status == 0, "the app was crashed"
        assert limit > 4096 or int(declined) == records
        sent = checked(tmp_path, sent)
    status, declined = lived(tmp_path, "12")
    assert (status, declined) == (0, "0")
    assert len(checked(tmp_path, sent)) > len(sent)


@pytest.mark.exact
def test_the_checker_sees_what_it_looks_for(tmp_path: Path) -> None:
    """In the changed files a charge or a batch is missing, or a batch has other bytes."""
    assert lived(tmp_path, "7")[0] == 0
    sent = checked(tmp_path, {})
    assert len(sent) > 1
    name, body = next(iter(sent.items()))
    with pytest.raises(Broken, match="changed or vanished"):
        checked(tmp_path, {name: body[:-1]})
    shutil.copy(tmp_path / "device.ldp", tmp_path / "kept")
    for harm, what in (
        ("DELETE FROM charges WHERE metric = 'city'", "city: more was sent"),
        ("DELETE FROM charges WHERE metric = 'theme'", "theme: more was told"),
        ("UPDATE charges SET times = 3 * times WHERE metric = 'lang'", "more than a window"),
        ("UPDATE totals SET times = times - 1 WHERE metric = 'city'", "the totals are not"),
        ("UPDATE batches SET id = zeroblob(16) WHERE id = ?", "is lost"),
    ):
        with closing(sqlite3.connect(tmp_path / "device.ldp")) as ledger:
            ledger.execute(harm, (bytes.fromhex(name),) if "?" in harm else ())
            ledger.commit()
        with pytest.raises(Broken, match=what):
            checked(tmp_path, {})
        shutil.copy(tmp_path / "kept", tmp_path / "device.ldp")
