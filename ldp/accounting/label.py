"""What a metric asks of a person, as a table and its estimates carry it: caps, never spendings."""

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ldp.errors import ParameterError

NUMBERS = ("report_epsilon", "window_epsilon", "lifetime_epsilon")
MOST = sys.float_info.max


@dataclass(frozen=True, kw_only=True, order=True)
class Label:
    """The privacy label of a metric: the epsilon of one whole report, and the caps of its group, in
    every fixed `window` and for life (of the whole device, where that is less). `memoise` is "",
    "epoch" or "per-value"; `window` and `epoch` are lengths in words, such as "1 day"."""

    metric: str
    group: str
    report_epsilon: float
    window: str
    window_epsilon: float
    lifetime_epsilon: float
    memoise: str = ""
    epoch: str = ""

    def __post_init__(self) -> None:
        told = asdict(self)
        numbers = [told[name] for name in NUMBERS]
        if not all(isinstance(each, int | float) and 0 <= each <= MOST for each in numbers):
            raise ParameterError("a label's epsilons must be numbers >= 0")
        if not all(isinstance(told[name], str) for name in {*told} - {*NUMBERS}):
            raise ParameterError("a label's names and lengths must be texts")
        if self.memoise not in ("", "epoch", "per-value"):
            raise ParameterError("a label's memoise must be epoch, per-value or empty")

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Label":
        """The label whose `asdict` this is; raises ParameterError for anything else."""
        try:
            return cls(**told)
        except TypeError:
            raise ParameterError("a label names something unknown, or not enough") from None
