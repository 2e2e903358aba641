"""Cost of one release: epsilon, delta, and the neighbours between which they hold."""

import math
from dataclasses import dataclass
from enum import Enum

from ldp.errors import ParameterError, require_kind
from ldp.protocol.channel import convert, real_number_up


class Neighbours(Enum):
    """Change that turns a data set into its neighbour."""

    REPLACE_VALUE = "replace the value of one report"
    ADD_REMOVE = "add or remove one person"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of one release: (epsilon, delta)-differential privacy for a neighbour relation.

    `epsilon` is >= 0, in natural logarithms, and may be infinite. `delta` is in [0, 1]. `lifetime`:
    the epsilon of any number of reports about one value, where a memoised response bounds it. It is
    infinite where every report has fresh noise, and their epsilons add. Raises ParameterError
    otherwise.

    >>> Cost(epsilon=2.0).delta
    0.0
    """

    epsilon: float
    delta: float = 0.0
    lifetime: float = math.inf
    neighbours: Neighbours = Neighbours.REPLACE_VALUE

    def __post_init__(self) -> None:
        require_kind(self.neighbours, Neighbours, "neighbours")
        convert(self, **dict.fromkeys(("epsilon", "delta", "lifetime"), real_number_up))
        if not self.epsilon >= 0:
            raise ParameterError(f"a cost's epsilon must be >= 0, got {self.epsilon!r}")
        if not self.lifetime >= 0:
            raise ParameterError(f"a cost's lifetime must be >= 0, got {self.lifetime!r}")
        if not 0 <= self.delta <= 1:
            raise ParameterError(f"a cost's delta must be in [0, 1], got {self.delta!r}")
