"""The collector of a developer's own machine: it states what every batch holds, what the reports
estimate, and what a report of a value that is typed on its page says.

It takes registries for development only. It answers only requests whose `Host` and `Origin` are its
own, so that a page of another site whose name resolves to this machine is refused. It counts in
memory beside the store.
"""

import json
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ldp.collection.aggregate import aggregate, with_metric
from ldp.collection.service import is_for_reports
from ldp.collection.store import NoReports
from ldp.decoding.outcome import outcome
from ldp.errors import LdpError, RegistryError
from ldp.files import counted
from ldp.protocol.batch import Batch
from ldp.registry import Metric, Registry
from ldp.registry.answers import (
    StatementReader,
    in_100,
    listing,
    naming,
    quoted_answer,
    typed_value,
)
from ldp.registry.explaining import label
from ldp.report import render
from ldp.report.formats import quantity, span, visible_label, whole_number
from ldp.report.page import template
from ldp.tables.batches import batches
from ldp.tables.joint_table import empty_builder
from ldp.tables.result import Result
from ldp.tables.saved import SavedResult

LATEST = 40
"""Number of sentences on the page."""
MOST_LINES = 5
"""Largest number of estimates of a metric that are stated in words."""
REPORT, TRY = "/report", "/try"
SAFE = {"Content-Security-Policy": "frame-ancestors 'none'", "Cache-Control": "no-store"}
REFRESHED = {"Refresh": "2"}


Query = Mapping[str, str]


class Reported:
    """Reports of one metric that arrived: their table, how many were refused, and `true_share`, the
    probability that a report names the true answer."""

    def __init__(self, registry: Registry, metric: Metric, store: Path) -> None:
        self.metric, self.refused = metric, 0
        self.true_share = naming(metric.mechanism)[0]
        self._label = label(registry, metric.name)
        mechanism = metric.mechanism
        self._begin = partial(empty_builder, mechanism, whole=mechanism.needs_whole)
        self._table: Any = self._begin().build()
        with suppress(NoReports):
            self._table = aggregate(
                [store], metric.name, metric.version, mechanism, whole=mechanism.needs_whole
            )

    @property
    def total(self) -> int:
        """Number of reports."""
        return int(self._table.total)

    def add(self, reports: Sequence[bytes], day: date) -> None:
        """Count reports that came on a day. Raises ReportError for an invalid one."""
        builder = self._begin()
        for rows, payloads in batches(self.metric.mechanism, reports):
            builder.add_batch(rows, payloads, window=day.isoformat())
        self._table = self._table + builder.build()

    def decoded(self) -> Result:
        """Return the estimates; raise DecodeError where there are none yet."""
        return outcome(with_metric(self._table, self.metric, self._label))


class Development:
    """Application for a developer: that of `collector`, with a page of what arrived, a page of the
    report that an analyst reads, and a page that states what a report of a typed value says.

    `store`: the store whose reports are counted at the start. `hosts`: values of `Host` that are
    answered, such as 127.0.0.1:8787. `origins`: origins of other pages that may send. `say`:
    function that takes the text printed for every batch. `clock`: the local time. Raises
    RegistryError unless the registry is for development.
    """

    def __init__(
        self,
        registry: Registry,
        collector: ASGIApp,
        *,
        store: Path,
        hosts: Sequence[str],
        origins: Sequence[str] = (),
        say: Callable[[str], object],
        clock: Callable[[], datetime],
    ) -> None:
        require_development(registry)
        self._registry, self._collector = registry, collector
        self._hosts = {host.encode() for host in hosts}
        self._origins = {f"http://{host}".encode() for host in hosts}
        self._origins |= {origin.encode() for origin in origins}
        self._others: set[bytes] = set()
        self._address, self._say, self._clock = f"http://{hosts[0]}", say, clock
        self._reader = StatementReader(registry)
        store.mkdir(parents=True, exist_ok=True)
        self._latest: deque[tuple[str, str, str]] = deque(maxlen=LATEST)
        self._seen: set[bytes] = set()
        self._pages = {"/": self._came, REPORT: self._report, TRY: self._try}
        self._reported = {
            name: Reported(registry, metric, store) for name, metric in registry.metrics.items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._collector(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if refusal := self._refusal(headers):
            await Response(f"{refusal}\n", 403)(scope, receive, send)
        elif is_for_reports(scope["path"]):
            await self._take(scope, receive, send)
        elif scope["path"] in self._pages and scope["method"] == "GET":
            query = parse_qs(scope["query_string"].decode("latin-1"))
            page = self._pages[scope["path"]]({name: texts[-1] for name, texts in query.items()})
            await page(scope, receive, send)
        else:
            await self._collector(scope, receive, send)

    def _refusal(self, headers: Mapping[bytes, bytes]) -> str:
        """Return why a request is refused, "" if its host is this collector and its origin is
        missing or may send. Print the first origins that are refused."""
        if headers.get(b"host", b"") not in self._hosts:
            return "this collector answers its own machine only"
        origin = headers.get(b"origin")
        if origin is None or origin in self._origins:
            return ""
        reason = "refused a page of another origin; --allow-origin lets it send"
        if origin not in self._others and len(self._others) < LATEST:
            self._others.add(origin)
            self._say(visible_label(f"{reason}: {origin.decode('latin-1')}"))
        return reason

    async def _take(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a batch to the collector, and note the batch if the collector takes it."""
        body, answer, status = bytearray(), bytearray(), 0

        async def receive_copy() -> Message:
            message = await receive()
            body.extend(message.get("body", b""))
            return message

        async def send_copy(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            answer.extend(message.get("body", b""))
            await send(message)

        await self._collector(scope, receive_copy, send_copy)
        if status == 202:
            self._note(Batch.from_bytes(bytes(body)), json.loads(answer)["refused"])

    def _note(self, batch: Batch, refused: Sequence[Mapping[str, Any]]) -> None:
        if batch.id in self._seen:  # a retry
            return
        self._seen.add(batch.id)
        codes = {refusal["item"]: refusal["code"] for refusal in refused}
        time = f"{self._clock():%H:%M:%S}"
        self._say(f"{time}  a sealed batch with {counted(len(batch.items), 'report')}")
        taken: dict[str, list[bytes]] = {}
        for number, item in enumerate(batch.items):
            statement = self._reader.read(item)
            if number in codes:
                text = f"refused: {codes[number]}"
                if item.metric in self._reported:
                    self._reported[item.metric].refused += 1
            else:
                taken.setdefault(item.metric, []).append(item.report)
                often = in_100(self._reported[item.metric].true_share)
                text = f"{statement.text} (a true answer is named {often})"
            self._say(visible_label(f"  {item.metric}: {text}"))
            self._latest.appendleft((time, item.metric, visible_label(text)))
        for metric, reports in taken.items():
            self._reported[metric].add(reports, self._clock().astimezone(UTC).date())

    def _came(self, _: Query) -> Response:
        """Return the page of what arrived: reports, and what they estimate, in words."""
        metrics = [
            (name, reported.total, reported.refused, [*reported_words(reported)])
            for name, reported in self._reported.items()
        ]
        came = metrics, [*self._latest], self._address, REPORT, TRY
        return self._page("came", *came, **REFRESHED)

    def _report(self, _: Query) -> Response:
        """Return the page of `ldp report` about all metrics with estimates."""
        with TemporaryDirectory() as folder:
            paths = []
            for name, reported in self._reported.items():
                with suppress(LdpError):
                    if reported.total:
                        paths.append(Path(folder) / f"{name}.csv")
                        reported.decoded().to_csv(paths[-1])
            files = [SavedResult.load(path) for path in paths if path.exists()]
            if not files:
                return Response("nothing is there to report yet\n", 404)
            return HTMLResponse(render(files, registry=self._registry), headers=SAFE)

    def _try(self, query: Query) -> Response:
        """Return the page on which a value is typed, with what a report of it says. These reports
        are not counted."""
        names = [
            name for name, metric in self._registry.metrics.items() if not metric.needs_shuffler
        ]
        name, text = query.get("metric", next(iter(names), "")), query.get("value", "")
        sentence, answers, problem = "", "", ""
        try:
            metric = self._registry.metric(name)
            answers = listing(metric).text
            sentence = self._tried(metric, text) if text else ""
        except LdpError as error:
            problem = str(error)
        return self._page("trying", names, name, answers, text, sentence, problem, TRY)

    def _tried(self, metric: Metric, text: str) -> str:
        """Return what a report of a typed value says, and how often."""
        value = typed_value(metric, text)
        report = metric.mechanism.encoder().encode(value)
        return f"{quoted_answer(text)}, {self._reader.outcome(metric, value, report)}"

    def _page(self, macro: str, *data: Any, **headers: str) -> Response:
        """Return a page of the `macro` of the template with its `data`."""
        macros = template("ldp.publishing", "development.html").module
        fragment = getattr(macros, macro)(*data)
        title = f"{self._registry.product}: development"
        return HTMLResponse(render([], title=title, above=fragment), headers=SAFE | headers)


def require_development(registry: Registry) -> None:
    """Raise RegistryError unless the registry is for development."""
    if not registry.development:
        raise RegistryError(
            f"{registry.path} is a registry of people's reports: --dev takes one with "
            "development = true in [product] only, as `ldp init --dev` writes it"
        )


def reported_words(reported: Reported) -> Iterator[str]:
    """Yield what the reports of a metric estimate, or why that is not known."""
    if not (total := reported.total):
        return
    try:
        lines = [*reported.decoded().lines()]
    except LdpError as error:
        yield str(error)
        return
    for line in lines[:MOST_LINES]:
        text = line.instead or f"about {quantity(line.estimate)}, {span(line.low, line.high)}"
        if not math.isfinite(line.high - line.low):
            text = "not enough reports"
        elif line.discovered is not None:
            low, high = max(0, math.floor(line.low)), min(total, math.ceil(line.high))
            about = whole_number(min(max(line.estimate, 0), total))
            text = f"about {about} of {total:,}, between {low:,} and {high:,}"
        yield f"{visible_label(line.name)}: {text}"
    if len(lines) > MOST_LINES:
        yield f"and {len(lines) - MOST_LINES:,} more"
