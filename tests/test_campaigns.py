"""Samples of the long runs, and the report page in a browser: run by `make check`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ldp import RandomizedResponse
from ldp.report import Results, render
from ldp.server import decode
from ldp.simulation import draw_table

ROOT = Path(__file__).parent.parent
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def module(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.statistical
def test_a_sample_of_the_coverage_campaign_meets_its_bars() -> None:
    """Seeds are fixed; its own twins (no control, no collision term) are among its bars."""
    done = module("simulations.coverage", "--sample")
    assert done.returncode == 0, done.stdout
    assert "with --control none" in done.stdout


@pytest.mark.slow
@pytest.mark.exact
def test_the_benchmarks_run_and_the_bars_on_size_are_met() -> None:
    done = module("simulations.benchmarks", "--no-peers")
    assert done.returncode == 0, done.stderr
    assert "Calibration" in done.stdout


@pytest.mark.slow
@pytest.mark.exact
def test_the_report_page_opens_in_a_browser_and_shows_any_symbol(tmp_path: Path) -> None:
    if CHROMIUM is None:
        assert os.environ.get("CI") != "true", "Chromium is missing where it must not be"
        pytest.skip("Chromium is not installed")
    names = ("😂", "<script>alert(1)</script>", "naïve & co")
    mechanism = RandomizedResponse(categories=names, epsilon=4.0)
    counts = np.array([900, 500, 100])
    table = draw_table(mechanism, names, counts=counts, generator=np.random.default_rng(1))
    decode(table).to_csv(tmp_path / "answers.csv")
    page = tmp_path / "page.html"
    truth = dict(zip(names, counts.tolist(), strict=True))
    page.write_text(render([Results.load(tmp_path / "answers.csv")], truth), "utf-8")
    flags = "--headless --no-sandbox --disable-gpu --disable-background-networking --dump-dom"
    shown = subprocess.run(
        [CHROMIUM, *flags.split(), f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    assert shown.count('class="row"') == 3
    assert "😂" in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "<script" not in shown
