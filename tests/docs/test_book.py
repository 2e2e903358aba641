"""The book that `make docs` makes of the pages: every page is in it, no link is broken, and neither
building nor reading it asks a network for anything."""

import os
import re
import subprocess
import sys
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
    """The book's order is that of the links of "Start here", each part below its heading."""
    parts = DOCS.joinpath("index.md").read_text("utf-8").split("\n## ", 1)[1]
    linked = re.findall(r"\]\(([^)]+)\)", parts)
    listed = {(DOCS / link).resolve() for link in linked}
    assert len(linked) == len(listed)
    pages = {page for page in DOCS.rglob("*.md") if "_build" not in page.parts}
    others = {*ROOT.glob("*.md"), ROOT / "simulations" / "README.md"}
    assert listed == (pages | others) - {DOCS / "index.md"}


class Fetched(HTMLParser):
    """What a browser fetches by itself to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "a":
            self.addresses += [text or "" for name, text in attrs if name in ("src", "href")]


def elsewhere(page: str) -> list[str]:
    """The addresses of another server among what a page fetches."""
    found = Fetched()
    found.feed(page)
    return [address for address in found.addresses if re.match(r"(\w+:)?//", address)]


@pytest.mark.exact
def test_a_page_that_fetches_from_elsewhere_is_noticed() -> None:
    page = '<a href="https://a"></a><img src="b.svg"><script src="{}x.js"></script>'
    assert elsewhere(page.format("")) == []
    assert elsewhere(page.format("https://c/")) == ["https://c/x.js"]
    assert elsewhere(page.format("//c/")) == ["//c/x.js"]


@pytest.mark.campaign
@pytest.mark.exact
def test_the_book_is_built_without_a_warning_and_without_a_network(tmp_path: Path) -> None:
    if find_spec("sphinx") is None:
        assert not os.environ.get("CI"), "Sphinx is missing where it must not be"
        pytest.skip("Sphinx is not installed")
    code = (  # the same as `make docs`, in a process that cannot open a socket
        "import socket, sys; socket.socket.connect = None; "
        "from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "-q", "-W", "-c", str(DOCS), str(ROOT), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert tmp_path / "docs" / "index.html" in pages
    assert [address for page in pages for address in elsewhere(page.read_text("utf-8"))] == []
    styles = "".join(sheet.read_text("utf-8") for sheet in tmp_path.rglob("*.css"))
    assert not re.search(r"@import|url\(\s*[\"']?(https?:)?//", styles)
    api = (tmp_path / "docs" / "api.html").read_text("utf-8")
    described = set(re.findall(r'<dt [^>]*id="ldp\.(?:\w+\.)?(\w+)"', api))
    for door in (ldp, client, server, simulation, accounting, audit, collection, regression):
        assert {name for name in door.__all__ if callable(getattr(door, name))} <= described
    assert "plan" in described
