"""Simulate a power cut, after which only what was synced survives of a folder.

`power_loss.c` watches the syncs.
"""

import shutil
import subprocess
from pathlib import Path


def compiled(folder: Path) -> Path:
    """Return the library that watches the syncs; raise OSError without a C compiler."""
    library = folder / "power_loss.so"
    source = Path(__file__).with_name("power_loss.c")
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


def keep_as_synced(live: Path, disk: Path) -> None:
    """Count everything that lies in `live` as synced."""
    for path in [live, *live.rglob("*")]:
        inode = path.stat().st_ino
        if path.is_dir():
            lines = [
                f"{'d' if one.is_dir() else 'f'} {one.stat().st_ino} {one.name}\n"
                for one in path.iterdir()
            ]
            (disk / f"folder-{inode}").write_text("".join(lines))
        else:
            shutil.copy(path, disk / f"file-{inode}")


def survived(folder: Path, disk: Path, after: Path) -> None:
    """Write into `after` what the disk holds of a folder.

    Names are as of the last sync of their folder, contents as of the last sync of the file. A file
    that was never synced is empty.
    """
    after.mkdir()
    _survived(folder.stat().st_ino, disk, after)


def _survived(inode: int, disk: Path, after: Path) -> None:
    names = disk / f"folder-{inode}"
    for line in names.read_text().splitlines() if names.exists() else ():
        kind, number, name = line.split(" ", 2)
        if kind == "d":
            (after / name).mkdir()
            _survived(int(number), disk, after / name)
        elif (disk / f"file-{number}").exists():
            shutil.copy(disk / f"file-{number}", after / name)
        else:
            (after / name).touch()
