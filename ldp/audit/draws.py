"""Random draws of an audit, so that it can be played again with other noise and the same values."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count

import numpy as np


class Draws:
    """Generators of an audit, from a seed. `plan` draws values and their order, the same in each
    playing. `coins` draws all else, anew in each. Values that are tried again because their reports
    look strange are `chosen` in the first playing only. `devices` numbers the devices of all
    playings, because a cheat may look at such a number."""

    def __init__(
        self,
        seed: int,
        choices: Sequence[list[int]] = (),
        playing: int = 0,
        devices: Iterator[int] | None = None,
    ) -> None:
        self._seed, self._known, self._choices = seed, iter(choices), list[list[int]]()
        self.devices = devices or count(1)
        self.plan = np.random.default_rng([seed, 0])
        self.coins = np.random.default_rng([seed, 1 + playing])

    def repeat(self, number: int = 0) -> "Draws":
        """Return the draws of a further playing, once the first is over. `number`: 0 for the first
        of these."""
        return Draws(self._seed, (*self._choices,), 1 + number, self.devices)

    def chosen(self, choose: Callable[[], list[int]]) -> list[int]:
        """Return the next choice: `choose()`, or in a further playing the choice of the first."""
        known = next(self._known, None)
        self._choices.append(choose() if known is None else known)
        return self._choices[-1]
