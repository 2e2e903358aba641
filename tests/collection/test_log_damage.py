"""The number of commits reveals damage of a buffer's log, which SQLite takes for its end."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from ldp.collection.acknowledged import BufferUnusable
from ldp.collection.buffer import Buffer
from tests.collecting import Service, batch, items, registry

pytestmark = pytest.mark.exact
LOG_HEAD, FRAME = 32, 24 + 4096


def reports_in(folder: Path) -> int:
    """Return the reports that wait in a buffer, by a reader that knows nothing of commits."""
    with closing(sqlite3.connect(folder / "buffer.db")) as connection:
        return int(connection.execute("SELECT coalesce(sum(reports), 0) FROM lots").fetchone()[0])


def killed(tmp_path: Path, batches: int = 5) -> tuple[Path, list[int]]:
    """Return the buffer of a killed collector, and the size of its log after each batch."""
    asked, ends = registry(tmp_path), []
    with Service(tmp_path) as service:
        for _ in range(batches):
            service.send(batch(items(asked, "word", "hello", 3)))
            ends.append((tmp_path / "buffer" / "buffer.db-wal").stat().st_size)
        shutil.copytree(tmp_path / "buffer", tmp_path / "killed")
    return tmp_path / "killed", ends


def is_refused(folder: Path) -> bool:
    try:
        Buffer(folder).close()
    except BufferUnusable:
        return True
    return False


def cut(data: bytearray, at: int) -> None:
    del data[at:]


def flip(data: bytearray, at: int) -> None:
    data[at] ^= 1


def overwrite(data: bytearray, at: int) -> None:
    data[at : at + 256] = os.urandom(len(data[at : at + 256]))


@pytest.mark.parametrize("damage", [cut, flip, overwrite])
def test_a_damaged_log_loses_nothing_in_silence(
    tmp_path: Path, damage: Callable[[bytearray, int], None]
) -> None:
    """Wherever the log is damaged, the buffer is refused and left as it is, or holds every report.

    Without the number, a buffer opens and has lost some reports.
    """
    folder, ends = killed(tmp_path)
    data, chance = (folder / "buffer.db-wal").read_bytes(), np.random.default_rng(3)
    places = {0, 8, ends[-2], ends[-1] - FRAME, ends[-1] - 1, *chance.integers(1, ends[-1], 20)}
    refused = lost = 0
    for place in sorted(int(each) for each in places - ({0} if damage is cut else set())):
        copy, bare = (shutil.copytree(folder, tmp_path / f"{name}-{place}") for name in "cb")
        changed = bytearray(data)
        damage(changed, place)
        for each in (copy, bare):
            (each / "buffer.db-wal").write_bytes(changed)
        (bare / "buffer.db-commits").unlink()
        if is_refused(copy):
            refused += 1
            assert (copy / "buffer.db-wal").read_bytes() == changed
        else:
            assert reports_in(copy) == 15
        lost += not is_refused(bare) and reports_in(bare) < 15
    assert refused >= 12
    assert lost >= 12


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    path.with_name("new").write_bytes(path.read_bytes())
    path.with_name("new").replace(path)


@pytest.mark.parametrize("file", ["buffer.db", "buffer.db-wal"])
@pytest.mark.parametrize("damage", [delete, replace])
def test_what_a_restart_would_not_find_is_not_acknowledged(
    tmp_path: Path, file: str, damage: Callable[[Path], None]
) -> None:
    """Earlier, SQLite went on in files that had no name any more, and the answer was 202."""
    asked = registry(tmp_path)
    with Service(tmp_path) as service:
        assert service.send(batch(items(asked, "word", "hello", 3))).status == 202
        damage(tmp_path / "buffer" / file)
        assert service.send(batch(items(asked, "word", "hello", 3))).status == 503
        assert service.ask("GET", "/v1/health").status == 503


READS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT sum(reports) FROM lots").fetchone()[0])
connection.close()
"""


def test_who_looks_into_the_buffer_of_a_running_collector_takes_nothing_away(
    tmp_path: Path,
) -> None:
    """Earlier, the collector dropped its locks when it opened its second connection.

    Then the last connection of any other program deleted the log. The collector went on in a log
    without a name, and lost with its process what it acknowledged.
    """
    asked = registry(tmp_path)
    with Service(tmp_path) as service:
        for number in (3, 6, 9):
            assert service.send(batch(items(asked, "word", "hello", 3))).status == 202
            command = [sys.executable, "-c", READS, str(tmp_path / "buffer" / "buffer.db")]
            assert subprocess.check_output(command) == f"{number}\n".encode()
            assert (tmp_path / "buffer" / "buffer.db-wal").exists()
        shutil.copytree(tmp_path / "buffer", tmp_path / "killed")
    assert reports_in(tmp_path / "killed") == 9


def test_what_a_power_cut_leaves_is_no_damage(tmp_path: Path) -> None:
    """The last commit may be on the disk or not, in part or whole, since it was not acknowledged.

    The number is written before an acknowledgement, and is itself not synced.
    """
    folder, _ = killed(tmp_path)
    log, number = folder / "buffer.db-wal", folder / "buffer.db-commits"
    with log.open("ab") as file:  # a frame that was begun
        file.write(log.read_bytes()[LOG_HEAD : LOG_HEAD + 1000])
    noted = number.read_bytes()
    for left in (noted, b"", b"%020d\n" % (int(noted) - 1), bytes(21), noted[:7]):
        copy = shutil.copytree(folder, tmp_path / f"copy-{len(list(tmp_path.iterdir()))}")
        (copy / number.name).write_bytes(left)
        Buffer(copy).close()
        assert reports_in(copy) == 15


def test_a_buffer_that_lost_commits_opens_when_its_number_is_deleted(tmp_path: Path) -> None:
    """The buffer lost its log, and so all its commits."""
    folder, ends = killed(tmp_path)
    shutil.copytree(folder, tmp_path / "older")
    (folder / "buffer.db-wal").unlink()
    with pytest.raises(BufferUnusable, match=r"has 0 commits of \d+.*delete buffer.db-commits"):
        Buffer(folder)
    (folder / "buffer.db-commits").unlink()
    Buffer(folder).close()
    assert ends
