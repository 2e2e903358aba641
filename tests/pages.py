"""Make estimates and their page, for tests of the report."""

import html
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp.report.value_face import MOST_FEW
from ldp.tables.estimates import Estimates, Rule
from ldp.tables.result import write_with_summary
from ldp.tables.saved import SavedResult

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DETAILS = {
    "method": "direct",
    "mechanism": "rr",
    "fingerprint": "00112233aabbccdd",
    "epsilon": 2.0,
    "windows": ["2026-01-01"],
}


def sign(path: Path, **keys: Any) -> Path:
    """Write the CSV file `path` anew, with these keys in its summary; return its path."""
    summary = json.loads(path.with_suffix(".json").read_text("utf-8"))
    write_with_summary(path, path.read_text("utf-8"), {**summary, **keys})
    return path


NAMES = ("Oslo", "Bergen", "Tromsø", "Bodø")


def results(
    folder: Path,
    count: Sequence[float] = (600, 300, 10, -10),
    values: Sequence[str] = NAMES,
    name: str = "cities.csv",
    rule: Rule | None = None,
    reports: int = 1000,
    **details: Any,
) -> SavedResult:
    """Return estimates with a standard error of 10 reports, written and read back."""
    from scipy.stats import norm

    counts = np.array(count, dtype=np.float64)
    estimates = Estimates(
        values=tuple(values),
        count=counts,
        std_error=np.full(counts.size, 10.0),
        p_value=norm.sf(counts / 10),
        reports=reports,
        noise=10.0,
        rule=rule or Rule(),
        details={**DETAILS, **details},
    )
    (folder / name).parent.mkdir(exist_ok=True)
    estimates.to_csv(folder / name)
    return SavedResult.load(folder / name)


def long_list(
    folder: Path, count: Sequence[float] = (600, 300, 10, -10), **details: Any
) -> SavedResult:
    """Return the estimates of `results`, with enough values that nobody holds to make a long
    list."""
    values = [*details.pop("values", NAMES), *(f"nobody {i}" for i in range(MOST_FEW))]
    return results(folder, [*count, *[-30.0] * MOST_FEW], values, **details)


def words(page: str) -> str:
    """Return the visible text of a page: no style, no tags, single spaces."""
    body = page.split("</style>")[1].split("<script>")[0]
    return re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]*>", " ", body)))


class Page(HTMLParser):
    """Parts of a page.

    `tables`: sortable rows, each a list of cells as (text, sort key). `attributes`: names and
    attributes of all tags. `script`: the page's script.
    """

    VOID = ("meta", "link", "input", "line", "polyline", "circle", "br")

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[tuple[str, str | None]]]] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.script = ""
        self.inside = False

    @classmethod
    def read(cls, page: str) -> "Page":
        parsed = cls()
        parsed.feed(page)
        parsed.close()
        assert not parsed.open
        return parsed

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.attributes.append((tag, told))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "table":
            self.inside = "sortable" in (told.get("class") or "")
            if self.inside:
                self.tables.append([])
        elif tag == "tr" and self.inside and "tbody" in self.open:
            self.tables[-1].append([])
        elif tag in ("td", "th") and self.inside and "tbody" in self.open:
            self.tables[-1][-1].append(("", told.get("data-sort")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.script += data
        if self.inside and "tbody" in self.open and {"td", "th"} & {*self.open}:
            text, sort = self.tables[-1][-1][-1]
            self.tables[-1][-1][-1] = (text + data, sort)


def days_of(folder: Path, shares: Sequence[Sequence[float]], **details: Any) -> list[SavedResult]:
    """Write a file of 1,000 reports a day, with a standard error of 10 reports."""
    return [
        results(
            folder,
            [1000 * share for share in day],
            [f"v{i}" for i in range(len(day))],
            name=f"day{number}.csv",
            windows=[f"2026-01-{number + 1:02d}"],
            **details,
        )
        for number, day in enumerate(shares)
    ]


def dumped(page: Path, profile: Path, fragment: str = "") -> str:
    """Return a page as Chromium has it after its script ran.

    The page must keep to its own Content-Security-Policy. Without Chromium the test is skipped.
    """
    if CHROMIUM is None:
        assert os.environ.get("CI") != "true", "Chromium is missing where it must not be"
        pytest.skip("chromium is not on the PATH: what a page does cannot be tried")
    words = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    more = ["--virtual-time-budget=20000", "--enable-logging=stderr", f"--user-data-dir={profile}"]
    done = subprocess.run(
        [*words, *more, f"{page.as_uri()}#{fragment}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "Content Security Policy" not in done.stderr, done.stderr
    return done.stdout
