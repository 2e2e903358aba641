"""The TypeScript client of `clients/typescript`, built once for the tests that run it."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "clients" / "typescript"
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
    if not (FOLDER / "node_modules").exists():
        installed = run("npm", "ci", timeout=180)
        if installed.returncode:
            return f"npm ci failed: {installed.stderr.strip().splitlines()[-1:]}"
    built = run("npm", "run", "--silent", "build")
    assert built.returncode == 0, built.stdout + built.stderr
    return ""


def require_web_client() -> None:
    """Skip the test where the client cannot run."""
    if reason := missing():
        pytest.skip(reason)
