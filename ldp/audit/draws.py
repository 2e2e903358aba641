"""Random draws of an audit, so that it can be played again with other noise and the same values."""

from collections.abc import Callable

import numpy as np


class Draws:
    """Generators of an audit, from a seed. `plan` draws values and their order, the same in each
    playing; `coins` draws all else, anew in each. Values that are tried again because their reports
    look strange are `chosen` in the first playing only."""

    def __init__(self, seed: int, choices: tuple[list[int], ...] | None = None) -> None:
        self._seed, self._known, self._choices = seed, iter(choices or ()), list[list[int]]()
        self.plan = np.random.default_rng([seed, 0])
        self.coins = np.random.default_rng([seed, 1 if choices is None else 2])

    def repeat(self) -> "Draws":
        """Return the draws of the second playing, once the first is over."""
        return Draws(self._seed, (*self._choices,))

    def chosen(self, choose: Callable[[], list[int]]) -> list[int]:
        """Return the next choice: `choose()`, or in the second playing the choice of the first."""
        known = next(self._known, None)
        self._choices.append(choose() if known is None else known)
        return self._choices[-1]
