"""Measure whether a device keeps its promises when its process ends at a wrong moment.

`python -m simulations.device_faults` kills devices 1,000 times at random and cuts one's power at 60
sends. It also lets a hostile app live 10,000 days. After each fault it looks at files only. What
left costs no more than the ledger says. Nothing acknowledged is missing, and a batch that is sent
twice has the same bytes. Memoised answers stay the same, and no cap is ever passed.

It prints every bar, writes all as JSON and exits 1 when a bar is missed.
`tests/client/test_client_faults.py` does the same on a small scale.
"""

import argparse
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import numpy as np

from ldp.protocol.batch import Batch
from ldp.registry import Registry
from simulations import campaign, power_loss
from simulations.campaign import Bar
from simulations.device import EXITED, METRICS, START, opened, record_all, registry_text

ROOT = Path(__file__).parent.parent
NOT_ON_THE_DEVICE = "sent", "clock", "metrics.toml"
"""Files that other machines hold, or that the app brings along."""
CHARGES = "SELECT number, at, budget, metric, times, epsilon FROM charges WHERE number > ?"
TOTALS = "SELECT budget, metric, epsilon, times FROM totals"
Charges = dict[int, tuple[int, str, str, int, float]]
"""Time, group, metric, times and price of charges, by their numbers."""


class Broken(AssertionError):
    """Error: a promise of the device protocol does not hold."""


def require(holds: object, what: str) -> None:
    if not holds:
        raise Broken(what)


def device(folder: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "simulations.device", str(folder), *words]
    environment = {**os.environ, **environment}
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment)


def lived(folder: Path, *words: str, **environment: str) -> tuple[int, str]:
    """Run one life; return its exit status, and how many records were declined."""
    process = device(folder, *words, **environment)
    printed, _ = process.communicate(timeout=120)
    return process.returncode, printed.strip()


def received(folder: Path) -> dict[str, bytes]:
    """Return the batches that arrived, by their ids."""
    return {path.stem: path.read_bytes() for path in (folder / "sent").glob("*.batch")}


def charged(path: Path, charges: Charges) -> None:
    """Add those charges of a device's file that are not among `charges`; it forgets old ones."""
    with closing(sqlite3.connect(path)) as ledger:
        for number, *charge in ledger.execute(CHARGES, [max(charges, default=0)]):
            charges[number] = (*charge,)


def checked(
    folder: Path, before: dict[str, bytes], charges: Charges | None = None
) -> dict[str, bytes]:
    """Require everything that must hold, and return the batches in the folder.

    `charges`: those that were read before the file forgot them. Raises Broken.
    """
    charges = {} if charges is None else charges
    sent = received(folder)
    require(before.items() <= sent.items(), "a batch changed or vanished")
    path = folder / "device.ldp"
    if not path.exists():
        require(not sent, "something was sent without a ledger")
        return sent
    with closing(sqlite3.connect(path)) as ledger:
        tables = {row[0] for row in ledger.execute("SELECT name FROM sqlite_master")}
        if "charges" not in tables:
            require(not sent, "something was sent without a charge")
            return sent
        totals = ledger.execute(TOTALS).fetchall()
        batches = ledger.execute("SELECT id, body, state FROM batches").fetchall()
        whole = ledger.execute("PRAGMA integrity_check").fetchone()
    require(whole == ("ok",), "the file is damaged")
    charged(path, charges)
    _require_paid(folder, sent, charges)
    summed = Counter[tuple[str, str, float]]()
    for _, budget, metric, count, epsilon in charges.values():
        summed[budget, metric, epsilon] += count
    require(summed == {(*of,): count for *of, count in totals}, "the totals are not the charges")
    for identity, body, state in batches:
        if state == "acknowledged":
            require(identity.hex() in sent, "something acknowledged is lost")
        elif identity.hex() in sent:
            require(body == sent[identity.hex()], "a retry would send other bytes")
    return sent


def _require_paid(folder: Path, sent: dict[str, bytes], charges: Charges) -> None:
    """Require that what left costs no more than was charged, and that charges respect the caps."""
    registry = Registry.load(folder / "metrics.toml")
    times, spent = defaultdict[str, int](int), defaultdict[str, list[tuple[int, float]]](list)
    for at, budget, metric_name, count, epsilon in charges.values():
        times[metric_name] += count
        spent[budget].append((at, count * epsilon))
    reports = defaultdict[str, list[bytes]](list)
    for body in sent.values():
        for item in Batch.from_bytes(body).items:
            reports[item.metric].append(item.report)
    for name, metric in registry.metrics.items():
        if metric.memoise:  # every response was charged, whatever its value
            told = len(set(reports[name]))
            require(metric.presence == "hidden" or told <= times[name], f"{name}: more was told")
        elif metric.presence == "public":
            require(len(reports[name]) <= times[name], f"{name}: more was sent than charged")
    for name, group in registry.groups.items():
        caps, ordered = group.caps, sorted(spent[name])
        life = sum(epsilon for _, epsilon in ordered)
        require(life <= caps.lifetime_epsilon + 1e-9, f"{name}: more than a life")
        for i, (end, _) in enumerate(ordered):
            since = end - caps.window.total_seconds()
            window = sum(epsilon for at, epsilon in ordered[: i + 1] if at > since)
            require(window <= caps.window_epsilon + 1e-9, f"{name}: more than a window")


def kills(folder: Path, times: int, seed: int, charges: Charges | None = None) -> dict[str, bytes]:
    """Kill lives at random, one after the other, and leave a last one alone.

    After the last one, everything that waited must have left. The first life shows how long a life
    takes on this machine. `charges`: those that are read are added.
    """
    moments, since = np.random.default_rng(seed), time.monotonic()
    require(lived(folder, "1")[0] == 0, "the device does not start")
    charges = {} if charges is None else charges
    usual, sent = time.monotonic() - since, checked(folder, {}, charges)
    for _ in range(times):
        process = device(folder, "0", "--until-killed")
        time.sleep(usual * moments.uniform(0.3, 2.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        sent = checked(folder, sent, charges)
    require(lived(folder, "4")[0] == 0, "the device does not go on")
    sent = checked(folder, sent, charges)
    with closing(sqlite3.connect(folder / "device.ldp")) as ledger:
        states = {row[0] for row in ledger.execute("SELECT DISTINCT state FROM batches")}
    require(states <= {"acknowledged", "dropped", "held"}, "something waits for ever")
    return sent


def power_cut(folder: Path, library: Path, send: int, *words: str) -> None:
    """Run a life in which the power fails when the batch of this number has arrived.

    Of the device's own files, only what was synced is left.
    """
    disk, after = (folder.with_name(f"{folder.name}-{end}") for end in ("disk", "after"))
    disk.mkdir()
    power_loss.keep_as_synced(folder, disk)
    status, _ = lived(
        folder,
        *("100", "--records", "1", "--cut-at", str(send), *words),
        LD_PRELOAD=str(library),
        POWER_LOSS_DISK=str(disk),
    )
    require(status == EXITED, "the power did not fail")
    power_loss.survived(folder, disk, after)
    for name in NOT_ON_THE_DEVICE:
        shutil.rmtree(after / name, ignore_errors=True)
        shutil.move(folder / name, after / name)
    shutil.rmtree(disk)
    shutil.rmtree(folder)
    after.rename(folder)


def hostile(folder: Path, days: int, seed: int, lifetime: float) -> dict[str, bytes]:
    """Run an app that records twenty times a day, restarts, withdraws and consents again.

    Its clock jumps both ways.
    """
    (folder / "metrics.toml").write_text(registry_text(lifetime))
    chance, now, charges = np.random.default_rng(seed), [START], Charges()
    client = opened(folder, now)
    client.grant()
    for day in range(days):
        record_all(client, 20 // len(METRICS) + 1, 3 * day)
        client.upload()
        charged(folder / "device.ldp", charges)
        match int(chance.integers(12)):
            case 0:
                client.close()
                client = opened(folder, now)
            case 1:
                now[0] += timedelta(days=int(chance.integers(-40, 40)))
            case 2:
                client.withdraw()
                client.grant()
        now[0] += timedelta(hours=int(chance.integers(20, 30)))
    client.close()
    return checked(folder, {}, charges)


def _killed(folder: Path, seed: int) -> int:
    return len(kills(folder, KILLS, seed))


def _cut(folder: Path, seed: int) -> int:
    """Cut the power 60 times, at the first to the seventh batch of a life."""
    library, sent = power_loss.compiled(folder.parent), dict[str, bytes]()
    for cut in range(60):
        power_cut(folder, library, 1 + (seed + cut) % 7)
        sent = checked(folder, sent)
    return len(sent)


def _short(folder: Path, seed: int) -> int:
    return len(hostile(folder, 10_000, seed, lifetime=64.0))


def _long(folder: Path, seed: int) -> int:
    return len(hostile(folder, 10_000, seed, lifetime=1e6))


KILLS = 100
LIVES: tuple[tuple[str, int, Callable[[Path, int], int]], ...] = (
    ("batches of a hostile app in 10,000 days, caps held", 1, _long),
    ("the same with a lifetime of 64 in every group", 1, _short),
    ("batches over 60 power cuts, every promise held", 1, _cut),
    ("batches over 1,000 kills, every promise held", 10, _killed),
)
"""What is counted, in how many folders, and the function that counts.

Each function raises Broken when a promise is broken.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    made, bars = campaign.provenance(), list[Bar]()
    with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(2) as pool:
        lives = []
        for what, times, live in LIVES:
            folders = [Path(name) / live.__name__ / str(seed) for seed in range(times)]
            for folder in folders:
                folder.mkdir(parents=True)
            lives.append((what, [pool.submit(live, one, i) for i, one in enumerate(folders)]))
        for what, found in lives:
            sent = sum(one.result() for one in found)
            bars.append(Bar(what, sent, "> 50, and nothing broken", sent > 50))
            print(f"{what}: {sent}", flush=True)
    campaign.write(asked.out, made, {"bars": bars})
    return campaign.shown(bars)


if __name__ == "__main__":
    sys.exit(main())
