"""Measure whether the TypeScript client keeps its promises when its browser or process is killed.

`python -m simulations.web` kills Chromium and Node, 100 times each at random, in the middle of
recording, sealing and sending. Then it looks only at the device's document and at what arrived.
What left was sealed, and a batch that is sent twice has the same bytes. Nothing sealed is lost, and
every report of fresh noise is charged once. No cap is passed
(`clients/typescript/test/invariants.mjs`). A browser that is killed may discard all of its storage,
as if the visitor had cleared it; that is counted. It prints every bar, writes all as JSON and exits
1 when one is missed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from simulations import campaign
from simulations.campaign import Bar

CLIENT = Path(__file__).parent.parent / "clients" / "typescript"
LEAST_NODE, NEWER_NODE = (22, 13), "node@24.21.0"
KILLS = 100


def run(*command: str, **environment: str) -> str:
    """Return what a command prints in the client's folder; raise CalledProcessError if it fails."""
    done = subprocess.run(
        command,
        cwd=CLIENT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=1800,
    )
    return done.stdout


def node_with_sqlite(folder: Path) -> str:
    """Return a Node that has `node:sqlite`: the one on the PATH, or one that npm installs."""
    major, minor = map(int, re.findall(r"\d+", run("node", "--version"))[:2])
    if (major, minor) >= LEAST_NODE:
        return "node"
    words = ("--prefix", str(folder), "--ignore-scripts=false", "--silent", NEWER_NODE)
    run("npm", "install", *words)
    return str(folder / "node_modules" / ".bin" / "node")


def kill_processes(kills: int, folder: Path) -> dict[str, int]:
    """Kill a Node process `kills` times, and return what it left."""
    node = node_with_sqlite(folder)
    words = ("--test", "--test-reporter=tap", "test/sqlite.test.mjs")
    printed = run(node, *words, KILLS=str(kills))
    assert "# fail 0" in printed
    assert "# skipped 0" in printed
    return dict(json.loads(re.findall(r'\{"kills.*\}', printed)[-1]))


def kill_browser(kills: int) -> dict[str, int]:
    """Kill a browser with all its tabs `kills` times, and return what it left."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or "chromium"
    return dict(json.loads(run("node", "test/kill-browser.mjs", chromium, str(kills))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    made, bars = campaign.provenance(), list[Bar]()
    run("npm", "ci", "--silent")
    run("npm", "run", "--silent", "build")
    with tempfile.TemporaryDirectory() as folder:
        results = {
            "Node": kill_processes(KILLS, Path(folder)),
            "Chromium": kill_browser(KILLS),
        }
    discarded = results["Chromium"]["discarded"]
    bars.append(Bar("times that Chromium discarded its storage", discarded, "<= 5", discarded <= 5))
    for what, result in results.items():
        sent = result["sent"]
        line = f"batches checked after {KILLS} kills of {what}, every promise held"
        bars.append(Bar(line, sent, "> 0", sent > 0))
    campaign.write(asked.out, made, {"bars": bars, "results": results})
    return campaign.shown(bars)


if __name__ == "__main__":
    sys.exit(main())
