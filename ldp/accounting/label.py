"""Privacy label of a metric, as in tables and estimates: caps, never spendings."""

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ldp.errors import ParameterError

NUMBERS = ("report_epsilon", "window_epsilon", "lifetime_epsilon")
MOST = sys.float_info.max


@dataclass(frozen=True, kw_only=True, order=True)
class Label:
    """Privacy label of a metric: the epsilon of one whole report, and the caps of its group, in
    every fixed `window` and for life (that of the device, where it is less).

    `memoise` is "", "epoch" or "per-value"; `window` and `epoch` are lengths in words, such as
    "1 day". Raises ParameterError for anything else.
    """

    metric: str
    group: str
    report_epsilon: float
    window: str
    window_epsilon: float
    lifetime_epsilon: float
    memoise: str = ""
    epoch: str = ""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name not in NUMBERS and not isinstance(value, str):
                raise ParameterError("a label's names and lengths must be texts")
            if name in NUMBERS and not (isinstance(value, int | float) and 0 <= value <= MOST):
                raise ParameterError("a label's epsilons must be numbers >= 0")
        if self.memoise not in ("", "epoch", "per-value"):
            raise ParameterError("a label's memoise must be epoch, per-value or empty")

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "Label":
        """Return the label whose `asdict` is `fields`; raise ParameterError for anything else."""
        try:
            return cls(**fields)
        except TypeError:
            raise ParameterError("a label names something unknown, or not enough") from None
