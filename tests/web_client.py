"""Build the TypeScript client of `clients/typescript` once, for the tests that run it."""

import fcntl
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "clients" / "typescript"
CACHE = FOLDER / ".test_cache"
BUILT = CACHE / "built"
LEAST_NODE = 20


def run(*command: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a command in the client's folder."""
    return subprocess.run(
        command,
        cwd=FOLDER,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
        env={**os.environ, "NO_COLOR": "1", "npm_config_update_notifier": "false"},
    )


@cache
def missing() -> str:
    """Install and build the client; return why it cannot run here, "" if it can."""
    if not (shutil.which("node") and shutil.which("npm")):
        return "node and npm are not on the PATH: the TypeScript client cannot run"
    version = run("node", "--version").stdout.strip()
    if int((re.findall(r"\d+", version) or ["0"])[0]) < LEAST_NODE:
        return f"Node {LEAST_NODE} or newer is needed, this is {version}"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "lock").open("w") as lock:  # tests run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (FOLDER / "node_modules" / "@noble").exists():
            installed = run("npm", "ci", timeout=180)
            if installed.returncode:
                return f"npm ci failed: {installed.stderr.strip().splitlines()[-1:]}"
        if not is_built():
            built = run("npm", "run", "--silent", "build")
            assert built.returncode == 0, built.stdout + built.stderr
            BUILT.touch()
    return ""


def is_built() -> bool:
    """Return whether the client was built after its last change."""
    sources = [*(FOLDER / "src").rglob("*.ts"), FOLDER / "tsconfig.json", FOLDER / "package.json"]
    latest = max(path.stat().st_mtime for path in sources)
    return BUILT.exists() and (FOLDER / "dist").exists() and BUILT.stat().st_mtime > latest


def require_web_client() -> None:
    """Skip the test where the client cannot run."""
    if reason := missing():
        pytest.skip(reason)
