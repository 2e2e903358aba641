"""Estimates and their page, for tests of the report."""

import html
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ldp.report import Results
from ldp.tables.estimates import Estimates, Rule

DETAILS = {
    "method": "direct",
    "mechanism": "rr",
    "fingerprint": "00112233aabbccdd",
    "epsilon": 2.0,
    "windows": ["2026-01-01"],
}


NAMES = ("Oslo", "Bergen", "Tromsø", "Bodø")


def results(
    folder: Path,
    count: Sequence[float] = (600, 300, 10, -10),
    values: Sequence[str] = NAMES,
    name: str = "cities.csv",
    rule: Rule | None = None,
    reports: int = 1000,
    **details: Any,
) -> Results:
    """Estimates with a standard error of 10 reports, written and read back."""
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
    return Results.load(folder / name)


def words(page: str) -> str:
    """The page as it is read: no style, no tags, single spaces."""
    body = page.split("</style>")[1].split("<script>")[0]
    return re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]*>", " ", body)))
