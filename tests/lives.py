"""Make reports that name their subject, and metrics of any memoisation."""

from ldp.client.responses import Report, Responses
from ldp.protocol.hashing import Value
from ldp.registry import Metric

METRIC = """
[metric.{name}]
version = 1
group = "{group}"
description = "What people choose"
owners = ["team@example.org"]
expires = 2099-12-31
reports_per_window = {reports}
categories = ["none", {categories}]
{how}
"""


class Subjects(Responses):
    """Responses of a client that name their subject: a kind, a response and a value."""

    frozen_responses = 0

    def memoised_report(self, metric: Metric, value: Value) -> Report:
        tag = f"{metric.name} {value!s}".encode()
        return Report(f"memoised::{value!s}".encode(), tag.ljust(16))

    def permanent_response(self, metric: Metric, value: Value) -> bytes:
        self.frozen_responses += 1
        return f"{self.frozen_responses}:{value!s}".encode()

    def epoch_report(self, metric: Metric, response: bytes, value: Value) -> Report:
        return Report(b"epoch:" + response)

    def fresh_report(self, metric: Metric, value: Value) -> Report:
        return Report(f"fresh::{value!s}".encode())
