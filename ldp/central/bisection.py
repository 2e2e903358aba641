"""Bisection of an interval of real numbers."""

from collections.abc import Callable


def bisect(
    is_below: Callable[[float], bool], low: float, high: float, steps: int = 200
) -> tuple[float, float]:
    """Return (low, high) after `steps` halvings of the interval around the number where `is_below`
    turns from true to false; the ends themselves are never tested."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low, high
