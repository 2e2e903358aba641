"""Mark which parameters of a test are for `make test`, `make check`, or the campaign of tests."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def tiered(parameters: Iterable[Any], fast: int = 1, slow: int | None = None) -> Sequence[Any]:
    """Return the parameters of a test with their marks.

    The first `fast` have none, and the next `slow` (None: all that follow) are slow. The rest is
    left to the campaign. A tuple has the values of several arguments.
    """
    marked = []
    for number, each in enumerate(parameters):
        values = each if isinstance(each, tuple) else (each,)
        is_slow = slow is None or number < fast + slow
        mark = pytest.mark.slow if is_slow else pytest.mark.campaign
        marked.append(pytest.param(*values, marks=[mark] if number >= fast else []))
    return marked
