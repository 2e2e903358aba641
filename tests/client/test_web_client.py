"""The TypeScript client's own tests run where Node is installed."""

import itertools
import json
import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

import ldp
from ldp.mechanisms import Rappor
from ldp.registry import Registry
from ldp.registry.resolved import resolved_bytes
from tests.web_client import FOLDER, require_web_client, run

pytestmark = pytest.mark.exact


def test_the_typescript_client_passes_its_tests_and_every_vector() -> None:
    require_web_client()
    tests = sorted(str(path) for path in (FOLDER / "test").glob("*.test.mjs"))
    done = run("node", "--test", "--test-reporter=tap", *tests, timeout=180)
    failed = re.findall(r"^ *not ok .*?^ *\.\.\.$", done.stdout, re.MULTILINE | re.DOTALL)
    assert done.returncode == 0, "\n".join(failed) or done.stdout[-4000:]
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert passed, done.stdout[-400:]
    assert int(passed[1]) >= 53
    assert "golden vectors: primitives.json" in done.stdout


def test_the_package_has_the_version_of_the_other() -> None:
    package = json.loads((FOLDER / "package.json").read_text("utf-8"))
    assert package["version"] == ldp.__version__
    assert package["dependencies"].keys() == {"@noble/hashes"}


def test_its_tests_read_the_registry_that_is_exported() -> None:
    registry = Registry.load(FOLDER / "test" / "metrics.toml")
    assert resolved_bytes(registry) == (FOLDER / "test" / "metrics.json").read_bytes()


def test_the_typescript_client_draws_from_one_source_only() -> None:
    sources = {path.name: path.read_text("utf-8") for path in (FOLDER / "src").rglob("*.ts")}
    assert not [name for name, text in sources.items() if "Math.random" in text]
    drawing = [name for name, text in sources.items() if "getRandomValues" in text]
    assert drawing == ["randomness.ts"]
    imported = {name for text in sources.values() for name in re.findall(r'from "([^."]+)', text)}
    of_noble = {"blake2", "hmac", "legacy", "sha2", "sha3"}
    of_node = {"fs", "readline", "sqlite", "url", "v8"}
    assert imported == {f"@noble/hashes/{name}" for name in of_noble} | {
        f"node:{name}" for name in of_node
    }
    uses_node = sorted(name for name, text in sources.items() if 'from "node:' in text)
    assert uses_node == ["client-lines.ts", "encode-lines.ts", "sqlite.ts"]


SCHEMES = {"rappor-md5-le": 300, "rappor-md5-be16": 100, "chromium-city64": 128}
VALUES = [
    "é😂ab"[i % 4] * i for i in (0, 1, 2, 3, 4, 7, 8, 9, 16, 17, 32, 33, 63, 64, 65, 128, 129)
]


def test_the_hashes_and_responses_without_vectors_are_those_of_python() -> None:
    require_web_client()
    settings: dict[str, Any] = {"f": 0.5, "p": 0.25, "q": 0.75, "hashes": 3, "cohorts": 4}
    asked, expected = [], []
    for scheme, bits in SCHEMES.items():
        rappor = Rappor(scheme=scheme, bits=bits, permanent="keyed", **settings)
        for value, row in itertools.product(VALUES, (0, 3)):
            asked.append([rappor.parameters(), value, row])
            expected.append([*rappor.addressing.cells(rappor.addressing.point(value), row)])
    responses, secret = [], bytes(range(32))
    for bits in (8, 32, 40, 128):
        rappor = Rappor(scheme="rappor-md5-le", bits=bits, permanent="rappor-cpp", **settings)
        cell = (1 << bits) - 12
        response = rappor.memory.response(secret, "words/1", cell)
        pair = [rappor.memory.cohort(secret, "words/1"), str(response)]
        responses.append(([rappor.parameters(), secret.hex(), "words/1", str(cell)], pair))
    letters, drawn = [*"abcdefghijkl"], []
    sets: dict[str, Any] = {"scheme": "identity", "categories": letters, "at_most": 2, "f": 0.5}
    answers = Rappor(p=0.25, q=0.75, **sets)
    encoder = answers.encoder(secret=secret, metric="words/1")
    for size in range(13):  # from larger sets the secret chooses two, whatever their order
        backwards = letters[:size][::-1]
        question = [answers.parameters(), secret.hex(), "words/1", backwards]
        drawn.append((question, [*encoder.cell(frozenset(backwards))]))
    content = {
        "choices": [question for question, _ in drawn],
        "columns": asked,
        "responses": [question for question, _ in responses],
    }
    done = subprocess.run(
        ["node", str(FOLDER / "test" / "filters.mjs")],
        input=json.dumps(content),
        capture_output=True,
        text=True,
        check=True,
    )
    said = json.loads(done.stdout)
    assert said["choices"] == [cell for _, cell in drawn]
    assert said["columns"] == expected
    assert said["responses"] == [pair for _, pair in responses]


def test_the_test_of_an_app_on_the_page_passes(tmp_path: Path) -> None:
    """The page's test runs beside the package, with the registry of the page's first steps."""
    require_web_client()
    page = (FOLDER.parents[1] / "docs" / "embedding-web.md").read_text("utf-8")
    toml = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    example = re.search(r"## The tests of your app\n.*?```js\n(.*?)```", page, re.DOTALL)
    assert toml
    assert example
    (tmp_path / "metrics.toml").write_text(textwrap.dedent(toml[1]))
    (tmp_path / "metrics.json").write_bytes(
        resolved_bytes(Registry.load(tmp_path / "metrics.toml"))
    )
    (tmp_path / "package.json").write_text("{}")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "ldp-telemetry").symlink_to(FOLDER)
    for wait, code in (("60_000", 0), ("1_000", 1)):  # the twin's period is not over
        (tmp_path / "app.test.mjs").write_text(example[1].replace("60_000", wait))
        done = run("node", "--test", str(tmp_path / "app.test.mjs"))
        assert done.returncode == code, done.stdout


def test_every_sentence_of_the_protocol_has_a_test_or_a_reason_here() -> None:
    """Titles of the client's tests begin with the sentences that they check.

    docs/embedding-web.md lists the sentences that cannot hold in a browser.
    """
    titles = [
        title
        for path in (FOLDER / "test").glob("*.test.mjs")
        for title in re.findall(r'^test\("(\d+(?: and \d+)*) ', path.read_text("utf-8"), re.M)
    ]
    page = (FOLDER.parents[1] / "docs" / "embedding-web.md").read_text("utf-8")
    reasons = re.findall(r"^\| ([\d, ]+): ", page, re.M)
    covered = {int(number) for text in titles + reasons for number in re.findall(r"\d+", text)}
    assert covered == set(range(1, 29))
