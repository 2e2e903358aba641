"""Encoder in a process of its own, such as a client in another language: one line a request."""

import json
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from ldp.errors import ParameterError, ReportError
from ldp.mechanisms import CatalogueMechanism
from ldp.protocol.hashing import Value


class ForeignEncoder:
    """Encoder that a `command` runs, in a `with` block.

    The process reads the mechanism's parameters as one line of JSON, then one value a line, JSON as
    well (a set or a tuple is a list, bytes are {"hex": "00ff"}), and answers each value with a
    line, the report in hexadecimal digits. Raises ParameterError for a command that cannot be
    started.
    """

    def __init__(self, command: Sequence[str], mechanism: CatalogueMechanism) -> None:
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
        except (OSError, IndexError) as error:
            raise ParameterError(f"the encoder cannot be started: {error}") from None
        self._write(mechanism.parameters())

    def encode(self, value: Value) -> bytes:
        """Return a report about a value; raise ReportError where the process gives none."""
        assert self._process.stdout is not None
        try:
            self._write(_readable(value))
            return bytes.fromhex(self._process.stdout.readline().strip() or "no report")
        except (OSError, ValueError):
            raise ReportError("the encoder answered a value with no report") from None

    def __enter__(self) -> "ForeignEncoder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self._process.communicate(timeout=10)
        self._process.kill()
        self._process.wait()

    def _write(self, content: Any) -> None:
        assert self._process.stdin is not None
        print(json.dumps(content), file=self._process.stdin, flush=True)


def _readable(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, set | frozenset):
        return sorted(value)
    return [_readable(part) for part in value] if isinstance(value, tuple) else value
