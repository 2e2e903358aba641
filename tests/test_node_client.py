"""A second client, in JavaScript and written from docs/wire.md alone, reproduces the vectors."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SCRIPT = TESTS / "client.mjs"
VECTORS = TESTS / "vectors"

pytestmark = pytest.mark.exact


def node() -> str:
    """The path of Node.js; without it a test is skipped, but fails where CI is set.

    Not a fixture: a failure in one would be reported as an error of the test.
    """
    path = shutil.which("node")
    if path is None:
        reason = "node is not on the PATH: the second client cannot run"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [node(), str(SCRIPT), str(folder)]
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False
    )


def test_the_second_client_reproduces_every_vector() -> None:
    done = run(VECTORS)
    assert done.returncode == 0, done.stderr
    named = [
        line.split(":")[0] for line in done.stdout.splitlines() if not line.startswith("note: ")
    ]
    assert named == [f"ok {path.name}" for path in sorted(VECTORS.glob("*.json"))]
    assert "ok primitives.json" in named


def test_twin_one_changed_digit_of_one_report_is_found(tmp_path: Path) -> None:
    shutil.copytree(VECTORS, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "hcms.json"
    vectors = json.loads(path.read_text(encoding="utf-8"))
    last = vectors["examples"][-1]["reports"][-1]
    last[1] = last[1][:-1] + f"{int(last[1][-1], 16) ^ 1:x}"
    path.write_text(json.dumps(vectors), encoding="utf-8")
    done = run(tmp_path)
    assert done.returncode == 1
    assert "hcms.json" in done.stderr
    assert last[1] in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_twin_an_unknown_mechanism_is_refused(tmp_path: Path) -> None:
    example = {"parameters": {"mechanism": "telepathy"}, "reports": [], "bad_reports": {}}
    path = tmp_path / "telepathy.json"
    path.write_text(json.dumps({"examples": [example]}), encoding="utf-8")
    done = run(tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [f"{path}: unknown mechanism telepathy"]


def test_the_script_is_short_and_knows_nothing_of_the_package() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) <= 620
    assert max(map(len, lines)) <= 100
    assert set(re.findall(r'from "([^"]*)"', text)) == {"node:crypto", "node:fs"}
    assert not re.search(r"\bimport\(|\brequire\b|child_process|python|\.py\b", text)
    # What is left of "ldp" are the personalisations, which are bytes of the format.
    assert set(re.findall(r".?ldp[^\"]*.?", text)) == {
        '"ldp rows v1"',
        '"ldp seed v1"',
        '"ldp seeded bits v1"',
        '"ldp keyed bits v1"',
        '"ldp tag v1"',
        '"ldp mechanism v1"',
    }
