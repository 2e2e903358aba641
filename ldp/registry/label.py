"""Privacy label of a metric, as in tables and estimates: caps, never spendings."""

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ldp.errors import ParameterError

NUMBERS = ("report_epsilon", "window_epsilon", "lifetime_epsilon")
SHUFFLED = tuple(f"shuffled_{name}" for name in NUMBERS)
MOST = sys.float_info.max


@dataclass(frozen=True, kw_only=True, order=True)
class Label:
    """Privacy label of a metric: the epsilon of one whole report, and the caps of its group, in
    every fixed `window` and for life (that of the device, where it is less).

    `memoise` is "", "epoch" or "per-value". `window` and `epoch` are lengths in words, such as "1
    day". Where a shuffler is trusted the three epsilons are infinite, and the `shuffled` ones hold
    behind an honest relay. Elsewhere the `shuffled` ones are 0. Raises ParameterError for anything
    else.
    """

    metric: str
    group: str
    report_epsilon: float
    window: str
    window_epsilon: float
    lifetime_epsilon: float
    memoise: str = ""
    epoch: str = ""
    shuffled_report_epsilon: float = 0.0
    shuffled_window_epsilon: float = 0.0
    shuffled_lifetime_epsilon: float = 0.0

    @property
    def trusts_shuffler(self) -> bool:
        """Return whether a shuffler protects, and nothing else."""
        return self.shuffled_report_epsilon > 0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name in (*NUMBERS, *SHUFFLED):
                if not (isinstance(value, int | float) and value >= 0):
                    raise ParameterError("a label's epsilons must be numbers >= 0")
            elif not isinstance(value, str):
                raise ParameterError("a label's names and lengths must be texts")
        most = math.inf if self.trusts_shuffler else MOST
        if not (
            all(getattr(self, name) <= most for name in NUMBERS)
            and all(getattr(self, name) <= MOST for name in SHUFFLED)
        ):
            raise ParameterError("a label's epsilons must be finite without a shuffler")
        if self.memoise not in ("", "epoch", "per-value"):
            raise ParameterError("a label's memoise must be epoch, per-value or empty")

    @property
    def fields(self) -> dict[str, Any]:
        """JSON-ready data from which `of` makes the label again: without the shuffled epsilons
        where no shuffler is trusted, and with null for an infinite epsilon."""
        if self.trusts_shuffler:
            return {**asdict(self), **dict.fromkeys(NUMBERS)}
        return {name: value for name, value in asdict(self).items() if name not in SHUFFLED}

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "Label":
        """Return the label of these `fields`; raise ParameterError for anything else."""
        try:
            infinite = {name: math.inf for name in NUMBERS if fields.get(name, 0) is None}
            return cls(**{**fields, **infinite})
        except (TypeError, AttributeError):
            raise ParameterError("a label names something unknown, or not enough") from None
