"""Results: what the calls of a client return. None raises into the app."""

from collections.abc import Mapping
from datetime import date, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from ldp.registry.answers import Statement

Consent = Literal["unknown", "granted", "withdrawn"]
Reason = Literal[
    "consent",
    "unknown metric",
    "value",
    "expired",
    "cap",
    "relay",
    "busy",
    "storage",
    "error",
]


class Recorded(NamedTuple):
    """Answer to a record that took part in its period's draw. The draw is on the disk and survives
    a killed process, but not a power cut. The answer does not say whether the record was drawn."""

    def __bool__(self) -> bool:
        return True


class Declined(NamedTuple):
    """Answer to a record that was not stored: the `reason`, and `details`, one line for a log,
    which does not hold the value."""

    reason: Reason
    details: str

    def __bool__(self) -> bool:
        return False


class Uploaded(NamedTuple):
    """Result of one upload: batches `acknowledged`, reports in them that were `refused` for good,
    batches still `waiting`, and `why` no more were sent, or that reports were refused ("" when
    all went well)."""

    acknowledged: int = 0
    refused: int = 0
    waiting: int = 0
    why: str = ""


class Sent(NamedTuple):
    """One sealed batch: the `day` on which it was sealed, which is after the period that was
    recorded and may be before the batch leaves; the number of its reports by metric; its state;
    and, while its bytes are kept, what each report says, in no order."""

    day: date
    reports: dict[str, int]
    state: Literal["waiting", "held", "acknowledged", "dropped", "withdrawn"]
    statements: tuple["Statement", ...] = ()


class Status(NamedTuple):
    """State of a client. `storage`: "" or what is wrong with the file. `pooled`: reports drawn in
    periods that are not over. `waiting`: sealed batches; `acknowledged`, `dropped` (too many):
    batches. `refused`: reports. `unasked`: groups that are new, or allow more than the owner was
    shown ("[product]": the whole device), or trust a shuffler and were not agreed to by name, and
    new metrics: ask the owner, and call `grant` again. `witnesses_lost`: how often the default
    witness was missing or could not be written, so that a restored copy of the file would not have
    been noticed. `why`: the reason that nothing more is sent now, in words. `next_upload`: the
    earliest time at which something can be sent, UTC, None where no clock decides it. `held`:
    sealed batches that no collector takes on the clock's day, and that wait for another day.
    `leap`: the latest day that the clock showed, where it shows an earlier one now. `declined`:
    records that were declined under the owner's consent, by reason."""

    consent: Consent
    storage: str = ""
    pooled: int = 0
    waiting: int = 0
    acknowledged: int = 0
    refused: int = 0
    dropped: int = 0
    unasked: tuple[str, ...] = ()
    witnesses_lost: int = 0
    why: str = ""
    next_upload: datetime | None = None
    held: int = 0
    leap: date | None = None
    declined: Mapping[str, int] = MappingProxyType({})
