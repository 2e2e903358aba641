"""Simulate the stated lives of devices, in which a condition must hold for one input in a hundred.

A device makes a log-uniform number of reports of a metric, from 1 to `LONGEST_LIFE`. In a client it
makes at most `LONGEST_CLIENT`, and reports of its metrics in turn. With probability 1/2 a value is
that before, else it is drawn anew (`values.py`). A third of the devices uses a memoised mechanism's
encoder in each of its modes. Epochs are weeks of `EPOCH` reports each. Devices are numbered.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ldp.protocol.randomness import SeededBits
from simulations.cheats import Event, Metric, Subject
from simulations.cheats.law import row_of
from simulations.cheats.values import value_type

LONGEST_LIFE = 1_000
LONGEST_CLIENT = 100
EPOCH = 8
STAYS = 0.5
WEEKS = 52


def week(number: int) -> str:
    """Return the name of a week, counted from the first of 2026."""
    return f"{2026 + number // WEEKS}-W{number % WEEKS + 1:02d}"


class Stream:
    """Encoder of one metric on one device, with its value and the number of its reports."""

    def __init__(self, metric: Metric, device: int, generator: np.random.Generator) -> None:
        self._metric, self._device, self._generator = metric, device, generator
        self._secret, self._bits = generator.bytes(16), SeededBits(generator.bytes(16))
        self._first_week = int(generator.integers(4 * WEEKS))
        self._call, self._value = -1, None
        self._encoder: Any = None
        self._type = value_type(metric.mechanism)

    def next(self) -> Event:
        """Draw what the next report is about, without drawing the report."""
        metric, before, generator = self._metric, self._value, self._generator
        self._call += 1
        if self._call == 0 or generator.random() >= STAYS:
            self._value = self._type.draw(generator)
        epoch = week(self._first_week + self._call // EPOCH) if metric.memoise == "epoch" else None
        if self._call % EPOCH == 0 and epoch:
            self._encoder = None
        if self._encoder is None:
            self._encoder = self._new_encoder(epoch)
        if epoch and self._call % EPOCH == 0:
            self._encoder.encode(self._value)  # the epoch's response is about its first value
        return Event(
            metric.mechanism,
            self._value,
            before,
            self._call,
            None,
            epoch,
            metric.name,
            self._device,
            b"",
        )

    def _new_encoder(self, epoch: str | None) -> Any:
        mechanism: Any = self._metric.mechanism
        if self._metric.memoise == "fresh":
            return mechanism.encoder(self._bits)
        return mechanism.encoder(self._bits, secret=self._secret, epoch=epoch)

    def report(self, event: Event) -> Event:
        """Return the event that `next` returned, with an honest report."""
        report = self._encoder.encode(event.value)
        permanent = permanent_response(self._encoder, event.value)
        return event._replace(report=report, row=row_of(event, report), permanent=permanent)


def permanent_response(encoder: Any, value: Any) -> int | None:
    """Return a memoised encoder's permanent response to a value, as a payload.

    Returns None where there is none, or where every report has a new one.
    """
    frozen = getattr(encoder, "frozen", None)
    if frozen is not None:
        row_bytes: int = encoder._layout.row_bytes
        return int.from_bytes(frozen[row_bytes:], "little")
    if getattr(encoder, "_secret", None) is None:
        return None
    point = encoder._addressing.point(value)
    response: int = encoder._permanent_response(encoder._true_response(point, encoder._cohort))
    return response


def lives(subject: Subject, generator: np.random.Generator) -> Iterator[tuple[Event, Stream]]:
    """Yield the events of device after device, without end, each with the stream that draws its
    report."""
    device = -1
    longest = LONGEST_LIFE if subject.path == "encoder" else LONGEST_CLIENT
    while True:
        device += 1
        reports = int(longest ** generator.random())
        metrics = subject.metrics
        if len({metric.name for metric in metrics}) < len(metrics):  # modes of one encoder
            metrics = (metrics[generator.integers(len(metrics))],)
        streams = [Stream(metric, device, generator) for metric in metrics]
        for _ in range(reports):
            for stream in streams:
                yield stream.next(), stream
