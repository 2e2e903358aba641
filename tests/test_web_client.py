"""The TypeScript client: its own tests run where Node is installed."""

import re

import pytest

from ldp.registry import Registry
from ldp.registry.resolved import resolved_bytes
from tests.web_client import FOLDER, require_web_client, run

pytestmark = pytest.mark.exact


def test_the_typescript_client_passes_its_tests_and_every_vector() -> None:
    require_web_client()
    tests = sorted(str(path) for path in (FOLDER / "test").glob("*.test.mjs"))
    done = run("node", "--test", "--test-reporter=tap", *tests)
    assert done.returncode == 0, done.stdout[-4000:]
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert passed, done.stdout[-400:]
    assert int(passed[1]) >= 53
    assert "golden vectors: primitives.json" in done.stdout


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
    assert uses_node == ["encode-lines.ts", "sqlite.ts"]


def test_every_sentence_of_the_protocol_has_a_test_or_a_reason_here() -> None:
    """Titles of the client's tests begin with the sentences that they hold; docs/embedding-web.md
    lists those that cannot hold in a browser."""
    titles = [
        title
        for path in (FOLDER / "test").glob("*.test.mjs")
        for title in re.findall(r'^test\("(\d+(?: and \d+)*) ', path.read_text("utf-8"), re.M)
    ]
    page = (FOLDER.parents[1] / "docs" / "embedding-web.md").read_text("utf-8")
    reasons = re.findall(r"^\| ([\d, ]+): ", page, re.M)
    covered = {int(number) for text in titles + reasons for number in re.findall(r"\d+", text)}
    assert covered == set(range(1, 29))
