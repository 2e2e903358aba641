"""The collector of a developer's own machine: it says what every batch holds, and shows estimates.

It takes registries for development only, answers requests whose `Host` and `Origin` are its own (a
page of another site that has a name lead here is refused), and counts in memory beside the store.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from markupsafe import Markup
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ldp.collection.aggregate import aggregate, with_metric
from ldp.collection.service import is_for_reports
from ldp.collection.store import NoReports
from ldp.decoding.outcome import outcome
from ldp.errors import LdpError, RegistryError
from ldp.protocol.batch import Batch
from ldp.registry import Metric, Registry
from ldp.registry.answers import StatementReader, naming
from ldp.registry.explaining import label
from ldp.report import render
from ldp.report.formats import visible_label
from ldp.report.page import environment
from ldp.tables.batches import batches
from ldp.tables.joint_table import empty_builder
from ldp.tables.result import Result
from ldp.tables.saved import SavedResult

LATEST = 40
"""Number of sentences on the page."""
REPORT = "/report"
SAFE = {"Content-Security-Policy": "frame-ancestors 'none'", "Cache-Control": "no-store"}
REFRESHED = {"Refresh": "2"}


class Reported:
    """Reports of one metric that came: their table, how many were refused, and `true_share`, the
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
        """Count reports that came on a day; raises ReportError."""
        builder = self._begin()
        for rows, payloads in batches(self.metric.mechanism, reports):
            builder.add_batch(rows, payloads, window=day.isoformat())
        self._table = self._table + builder.build()

    def decoded(self) -> Result:
        """Return the estimates; raises DecodeError where there are none yet."""
        return outcome(with_metric(self._table, self.metric, self._label))


class Development:
    """Application that a developer looks at: `collector`'s, with a page at `/` of what came.

    `store`: whose reports are counted from the beginning; `hosts`: values of `Host` that are
    answered, as 127.0.0.1:8787; `say`: takes what is printed of every batch; `clock`: the local
    time. Raises RegistryError unless the registry is for development.
    """

    def __init__(
        self,
        registry: Registry,
        collector: ASGIApp,
        *,
        store: Path,
        hosts: Sequence[str],
        say: Callable[[str], object],
        clock: Callable[[], datetime],
    ) -> None:
        require_development(registry)
        self._registry, self._collector = registry, collector
        self._hosts = {host.encode() for host in hosts}
        self._origins = {f"http://{host}".encode() for host in hosts}
        self._address, self._say, self._clock = f"http://{hosts[0]}", say, clock
        self._reader = StatementReader(registry)
        store.mkdir(parents=True, exist_ok=True)
        self._latest: deque[tuple[str, str, str]] = deque(maxlen=LATEST)
        self._seen: set[bytes] = set()
        self._reported = {
            name: Reported(registry, metric, store) for name, metric in registry.metrics.items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._collector(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if not self._is_from_here(headers):
            refusal = Response("this collector answers its own machine only\n", 403)
            await refusal(scope, receive, send)
        elif is_for_reports(scope["path"]):
            await self._take(scope, receive, send)
        elif scope["path"] in ("/", REPORT) and scope["method"] == "GET":
            page = self._page(above=scope["path"] == "/")
            await page(scope, receive, send)
        else:
            await self._collector(scope, receive, send)

    def _is_from_here(self, headers: Mapping[bytes, bytes]) -> bool:
        """Return whether a request names this collector as its host, and as its origin if any."""
        origin = headers.get(b"origin")
        return headers.get(b"host", b"") in self._hosts and (
            origin is None or origin in self._origins
        )

    async def _take(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the collector take a batch; note it when the collector did."""
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
        self._say(f"{time}  a sealed batch with {_counted(len(batch.items), 'report')}")
        taken: dict[str, list[bytes]] = {}
        for number, item in enumerate(batch.items):
            statement = self._reader.read(item)
            if number in codes:
                text = f"refused: {codes[number]}"
                if item.metric in self._reported:
                    self._reported[item.metric].refused += 1
            else:
                taken.setdefault(item.metric, []).append(item.report)
                share = 100 * self._reported[item.metric].true_share
                text = f"{statement.text} (a true answer is named {share:.3g} times in 100)"
            self._say(visible_label(f"  {item.metric}: {text}"))
            self._latest.appendleft((time, item.metric, visible_label(text)))
        for metric, reports in taken.items():
            self._reported[metric].add(reports, self._clock().astimezone(UTC).date())

    def _page(self, above: bool) -> Response:
        """Return the page of `ldp report` about all metrics with reports; with what came `above`
        it, it refreshes itself."""
        notes: dict[str, str] = {}
        with TemporaryDirectory() as folder:
            files = [*map(SavedResult.load, _written(self._reported.values(), Path(folder), notes))]
            if not above and not files:
                return Response("nothing is there to report yet\n", 404)
            title = f"{self._registry.product}: development" if above else None
            fragment = self._came(notes) if above else None
            page = render(files, title=title, registry=self._registry, above=fragment)
        return HTMLResponse(page, headers=SAFE | (REFRESHED if above else {}))

    def _came(self, notes: Mapping[str, str]) -> Markup:
        """Return what came, as HTML: the reports of each metric with its note, and sentences."""
        macros: Any = environment("ldp.publishing").get_template("development.html").module
        metrics = [
            (name, reported.total, reported.refused, notes.get(name, ""))
            for name, reported in self._reported.items()
        ]
        return Markup(macros.development(metrics, [*self._latest], self._address, REPORT))


def require_development(registry: Registry) -> None:
    """Raise RegistryError unless the registry is for development."""
    if not registry.development:
        raise RegistryError(
            f"{registry.path} is a registry of people's reports: --dev takes one with "
            "development = true in [product] only, as `ldp init --dev` writes it"
        )


def _written(
    listed: Iterable[Reported], folder: Path, notes: MutableMapping[str, str]
) -> Iterator[Path]:
    """Write the estimates of every metric that has some, and yield their paths; note why another
    has none, by its name."""
    for reported in listed:
        name = reported.metric.name
        try:
            if reported.total:
                path = folder / f"{name}.csv"
                reported.decoded().to_csv(path)
                yield path
        except LdpError as error:
            notes[name] = str(error)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
