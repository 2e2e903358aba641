"""The book that `make docs` makes has every page and no broken link.

Neither building it nor reading it asks a network for anything.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest

import ldp
from ldp import accounting, audit, client, collection, regression, server, simulation
from tests.folders import ROOT

DOCS = ROOT / "docs"


@pytest.mark.exact
def test_every_page_is_in_the_table_of_contents_once() -> None:
    """The book's order is that of the links of "Start here", each part below its heading.

    Pages of mechanisms that it does not link follow in that part.
    """
    parts = DOCS.joinpath("index.md").read_text("utf-8").split("\n## ", 1)[1]
    linked = re.findall(r"\]\(([^)]+)\)", parts)
    listed = {(DOCS / link).resolve() for link in linked}
    assert len(linked) == len(listed)
    listed |= set((DOCS / "mechanisms").glob("*.md"))
    pages = {page for page in DOCS.rglob("*.md") if "_build" not in page.parts}
    others = {*ROOT.glob("*.md"), ROOT / "simulations" / "README.md"}
    assert listed == (pages | others) - {DOCS / "index.md"}


class Fetched(HTMLParser):
    """Parser of what a browser fetches by itself to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "a":
            self.addresses += [text or "" for name, text in attrs if name in ("src", "href")]


def elsewhere(page: str) -> list[str]:
    """Return the addresses of another server among what a page fetches."""
    found = Fetched()
    found.feed(page)
    return [address for address in found.addresses if re.match(r"(\w+:)?//", address)]


@pytest.mark.exact
def test_a_page_that_fetches_from_elsewhere_is_noticed() -> None:
    page = '<a href="https://a"></a><img src="b.svg"><script src="{}x.js"></script>'
    assert elsewhere(page.format("")) == []
    assert elsewhere(page.format("https://c/")) == ["https://c/x.js"]
    assert elsewhere(page.format("//c/")) == ["//c/x.js"]


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the book, built as by `make docs`, in a process that cannot open a
    socket."""
    if find_spec("sphinx") is None:
        assert not os.environ.get("CI"), "Sphinx is missing where it must not be"
        pytest.skip("Sphinx is not installed")
    folder = tmp_path_factory.mktemp("book")
    code = (
        "import socket, sys; socket.socket.connect = None; "
        "from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "-q", "-W", "-c", str(DOCS), str(ROOT), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.campaign
@pytest.mark.exact
def test_the_book_is_built_without_a_warning_and_without_a_network(book: Path) -> None:
    pages = list(book.rglob("*.html"))
    assert book / "docs" / "index.html" in pages
    assert [address for page in pages for address in elsewhere(page.read_text("utf-8"))] == []
    styles = "".join(sheet.read_text("utf-8") for sheet in book.rglob("*.css"))
    assert not re.search(r"@import|url\(\s*[\"']?(https?:)?//", styles)
    api = (book / "docs" / "api.html").read_text("utf-8")
    described = set(re.findall(r'<dt [^>]*id="ldp\.(?:\w+\.)?(\w+)"', api))
    for door in (ldp, client, server, simulation, accounting, audit, collection, regression):
        assert {name for name in door.__all__ if callable(getattr(door, name))} <= described
    assert "plan" in described


JOBS = {
    "active-people": ("monthly active users",),
    "adding-a-mechanism": ("new mechanism",),
    "audit": ("audit encoder",),
    "comparison": ("which mechanism", "choose mechanism"),
    "compatibility": ("compatibility",),
    "data-files": ("excel csv", "decimal comma"),
    "device-protocol": ("withdraw consent", "stolen phone"),
    "embedding": ("desktop app", "unit tests of app"),
    "embedding-web": ("browser client", "javascript"),
    "fakes": ("fake reports", "poisoning"),
    "longitudinal": ("attacker many days",),
    "mechanisms/joint": ("cross table", "correlation"),
    "mechanisms/numbers": ("average",),
    "mechanisms/percentiles": ("percentile", "median"),
    "mechanisms/prefix-extension": ("unknown words", "heavy hitters"),
    "mechanisms/memoised": ("memoisation",),
    "operating": ("nginx", "prometheus alerts", "s3 bucket", "spark", "tls certificate"),
    "planning": ("how many users", "sample size", "which epsilon"),
    "publishing": ("grafana dashboard", "experiment", "cron", "duckdb", "kafka"),
    "registry": ("sign off",),
    "regression": ("linear regression",),
    "relay": ("shuffle",),
    "report": ("confidence interval", "jupyter notebook"),
    "surveys": ("survey", "randomised response"),
    "tutorials/aggregate": ("own queue",),
    "tutorials/data": ("pandas dataframe", "dataframe", "polars"),
    "tutorials/first-day": ("first day",),
}
"""What readers look for, by the page that answers."""
PRODUCTS = {
    *("android", "bigquery", "docker", "duckdb", "grafana", "ios", "jupyter", "kafka", "kotlin"),
    *("nginx", "pandas", "parquet", "polars", "postgresql", "prometheus", "s3", "spark", "swift"),
    "systemd",
}


@pytest.mark.exact
def test_a_term_of_the_index_that_names_a_product_stands_on_its_page() -> None:
    """The search leads only to pages that mention the term."""
    terms = tomllib.loads((DOCS / "index-terms.toml").read_text("utf-8"))
    absent = [
        (page, product)
        for page, texts in terms.items()
        for product in PRODUCTS & set(" ".join(texts).split())
        if product not in (DOCS / f"{page}.md").read_text("utf-8").lower()
    ]
    assert absent == []
    assert "docker" not in (DOCS / "operating.md").read_text("utf-8").lower()  # the twin


@pytest.mark.campaign
@pytest.mark.exact
def test_the_search_finds_the_page_of_each_job_among_the_first_three(book: Path) -> None:
    """The book's own search runs in Node.js; nonsense finds no page."""
    if shutil.which("node") is None:
        assert not os.environ.get("CI"), "Node.js is missing where it must not be"
        pytest.skip("Node.js is not installed")
    wanted = {query: f"docs/{page}" for page, queries in JOBS.items() for query in queries}
    command = ["node", str(Path(__file__).with_name("search.mjs")), str(book)]
    queries = json.dumps([*wanted, "xyzzy"])
    done = subprocess.run(command, input=queries, capture_output=True, text=True, check=True)
    *pages, nothing = json.loads(done.stdout)
    missed = {
        query: found[:3]
        for (query, page), found in zip(wanted.items(), pages, strict=True)
        if page not in found[:3]
    }
    assert (len(wanted) >= 30, missed, nothing) == (True, {}, [])
