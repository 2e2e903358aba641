"""Provide a device whose metric is memoised, for tests of the client's memory."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ldp.client import Declined, Rappor, Recorded
from tests.devices import DAY, App

CITIES = ("Oslo", "Bergen", "none")


GROUP = """
[product]
name = "weather"
[group.places]
window = "1d"
window_epsilon = {window}
lifetime_epsilon = {lifetime}
"""


METRIC = """
[metric.{name}]
version = 1
group = "places"
description = "Where people ask for the weather"
owners = ["team@example.org"]
expires = 2099-12-31
reports_per_window = {reports}
{how}
"""


EPOCH_BEGINS = datetime(2026, 1, 7, tzinfo=UTC)
"""Time at which epochs of one, two and four days begin."""


class Home(App):
    """Device whose registry is made from the texts of this file."""

    def __init__(
        self, folder: Path, how: str, reports: int = 1, window: float = 100, lifetime: float = 1000
    ) -> None:
        self.how, self.reports, self.window, self.lifetime = how, reports, window, lifetime
        super().__init__(folder)
        self.client.grant()

    def write(self, metrics: Mapping[str, dict[str, Any]]) -> None:
        text = GROUP.format(window=self.window, lifetime=self.lifetime)
        for name in metrics:
            text += METRIC.format(name=name, reports=self.reports, how=self.how)
        (self.folder / "metrics.toml").write_text(text)

    def day(self, *values: str) -> list[Recorded | Declined]:
        """Record these values, and upload a day later."""
        answers = [self.client.record("city", value) for value in values]
        self.now += DAY
        self.client.upload()
        return answers

    def restart(self, **changes: Any) -> None:
        self.client.close()
        self.client = self.open(**changes)

    @property
    def payloads(self) -> list[bytes]:
        return [item.report[10:] for item in self.server.items]

    @property
    def spent(self) -> float:
        charges = self.rows("SELECT times, epsilon FROM charges")
        return float(sum(times * epsilon for times, epsilon in charges))


BASIC = """mechanism = "rappor"
scheme = "identity"
categories = ["Oslo", "Bergen", "none"]
f = 0.5
p = 0.0
q = 1.0
"""
"""Mechanism without instantaneous noise, whose report is the permanent response itself."""
RR = 'mechanism = "rr"\nepsilon = 2.0\ncategories = ["Oslo", "Bergen", "none"]\n'
EPOCH = BASIC + 'memoise = "epoch"\nepoch = "4d"\n'
PRICE = Rappor(bits=3, f=0.5, p=0, q=1, scheme="identity", categories=CITIES).cost.lifetime
