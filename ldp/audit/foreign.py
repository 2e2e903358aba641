"""Programs that an audit talks to in a process of their own, one line a request: an encoder, or a
whole client, such as those in another language."""

import json
import math
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any, Self

from ldp.client.results import Declined, Recorded, Uploaded
from ldp.errors import ParameterError, ReportError
from ldp.mechanisms import CatalogueMechanism
from ldp.protocol.batch import Batch
from ldp.protocol.hashing import Value
from ldp.protocol.randomness import BitSource
from ldp.protocol.strict_json import parse_json, shortened
from ldp.registry import Registry
from ldp.registry.resolved import resolved_bytes

MOST_ANSWER = 1 << 26
"""Most characters of an answer that are read."""
MOST_SECONDS = 60.0
"""Seconds without an answer after which a program is ended."""


class _Program:
    """Program that a `command` runs, in a `with` block. Raises ParameterError if it cannot be
    started. It is ended when it owes an answer for MOST_SECONDS, with the programs that it
    started."""

    _since, _is_late, _answer = math.inf, False, ""

    def __init__(self, command: Sequence[str]) -> None:
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                errors="backslashreplace",
                bufsize=1,
                start_new_session=True,
            )
        except OSError as error:
            raise ParameterError(f"the program cannot be started: {error}") from None
        self._is_over = Event()
        Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._is_over.wait(MOST_SECONDS / 100):
            if monotonic() > self._since + MOST_SECONDS:
                self._is_late = True
                self._kill()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        process = self._process
        self._is_over.set()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
        self._kill()
        process.wait()

    def write(self, content: Any) -> None:
        """Write a line of JSON; raise OSError if the process has ended."""
        assert self._process.stdin is not None
        self._since, self._answer = monotonic(), ""
        print(json.dumps(content), file=self._process.stdin, flush=True)

    def read(self) -> str:
        """Return the next line; "" if the process has ended."""
        assert self._process.stdout is not None
        self._answer = self._process.stdout.readline(MOST_ANSWER).strip()
        self._since = math.inf
        return self._answer

    def error(self, what: str) -> ReportError:
        """Return the error that says `what` went wrong and what the program did instead, or that
        the program was too late."""
        if self._is_late:
            late = f"the program gave no answer for {MOST_SECONDS:g} s"
            return ReportError(f"{late}: it must write each line at once")
        answer = shortened(self._answer) if self._answer else "an empty line"
        with suppress(subprocess.TimeoutExpired):
            if not self._answer:
                answer = f"it ended with status {self._process.wait(0.5)}"
        return ReportError(f"{what}: {answer}")


class ForeignEncoder(_Program):
    """Encoder that a `command` runs.

    The process reads the mechanism's parameters as one line of JSON, then one value a line, JSON as
    well (a set or a tuple is a list, bytes are {"hex": "00ff"}), and answers each value with a
    line, the report in hexadecimal digits.
    """

    def __init__(self, command: Sequence[str], mechanism: CatalogueMechanism) -> None:
        super().__init__(command)
        with suppress(OSError):  # it ended; `encode` says so
            self.write(mechanism.parameters())
        self._since = math.inf

    def encode(self, value: Value) -> bytes:
        """Return a report about a value. Raises ReportError where the process gives none."""
        try:
            self.write(_readable(value))
            return bytes.fromhex(self.read() or "no report")
        except (OSError, ValueError):
            what = f"the encoder answered {shortened(value)} with no report"
            raise self.error(what) from None


class ForeignClients(_Program):
    """Clients that a `command` runs, all in one process.

    A line of JSON states what one device did in a period: `device`, its number; in its first line
    also `registry` (as `ldp registry export` writes it); `records`, a list of [seconds since 1970,
    metric, value], with values as for `ForeignEncoder`; `upload`, seconds since 1970. The process
    answers with a line of JSON: `batches`, the bodies of the batches that left, in hexadecimal
    digits; `declined`, the number of declined records; `secret`, the device's secret, if it has
    one. With `seeded`, the first line has a `seed` from the audit's bits.
    """

    def __init__(self, command: Sequence[str], *, seeded: bool = False) -> None:
        super().__init__(command)
        self._numbers, self._seeded = count(), seeded

    def make(
        self,
        path: Path,
        *,
        registry: Registry,
        destination: Any,
        clock: Callable[[], datetime],
        bits: BitSource,
        **_: Any,
    ) -> "ForeignClient":
        """Return a client with a new number. The arguments are those of `ldp.client.Client`, except
        jitter and witness, which such a client does not have."""
        first: dict[str, Any] = {"registry": json.loads(resolved_bytes(registry))}
        if self._seeded:
            first["seed"] = f"{bits.draw(256):064x}"
        number = next(self._numbers)
        return ForeignClient(self, {"device": number, **first}, path, destination, clock)


class ForeignClient:
    """Client of one device of a `ForeignClients` program, which gets the records at the next
    upload."""

    def __init__(
        self,
        program: ForeignClients,
        first: dict[str, Any],
        path: Path,
        destination: Any,
        clock: Callable[[], datetime],
    ) -> None:
        self._program, self._line, self._path = program, first, path
        self._destination, self._clock = destination, clock
        self._records: list[Any] = []

    def grant(self) -> bool:
        """Do nothing: the owner agrees in the first line."""
        return True

    def record(self, metric: str, value: Value) -> Recorded | Declined:
        """Take one record."""
        self._records.append([self._seconds(), metric, _readable(value)])
        return Recorded()

    def upload(self) -> Uploaded:
        """Send the batches in the program's answer. Raises ReportError if the answer is invalid or
        states a declined record."""
        line = {**self._line, "records": self._records, "upload": self._seconds()}
        self._line, self._records = {"device": self._line["device"]}, []
        try:
            self._program.write(line)
            answer = parse_json(self._program.read())
            bodies = [bytes.fromhex(body) for body in answer["batches"]]
            secret, declined = bytes.fromhex(answer.get("secret", "")), int(answer["declined"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise self._program.error("the program answered a period with no batches") from None
        if declined:
            raise ReportError(f"the program declined {declined} records")
        for body in bodies:
            self._destination.send(Batch.from_bytes(body).id, body)
        if secret:
            self._path.with_name(f"{self._path.name}.secret").write_bytes(secret)
        return Uploaded(len(bodies))

    def close(self) -> None:
        """Do nothing: the process has all devices until it ends."""

    def _seconds(self) -> int:
        return int(self._clock().timestamp())


def _readable(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, set | frozenset):
        return sorted(value)
    return [_readable(part) for part in value] if isinstance(value, tuple) else value
