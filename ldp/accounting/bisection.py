"""Bisection of an interval of real numbers, and of whole numbers."""

from collections.abc import Callable


def bisect(
    is_below: Callable[[float], bool], low: float, high: float, steps: int = 200
) -> tuple[float, float]:
    """Return (low, high) after `steps` halvings of the interval around the number where `is_below`
    turns from true to false, fewer where no number lies between. The ends are never tested."""
    for _ in range(steps):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low, high


def least_number(holds: Callable[[int], bool], most: int) -> int | None:
    """Return the smallest number from 1 to `most` for which `holds`, taken to be monotone. Returns
    None if it does not hold for `most`. It holds for the number returned, and not for one less."""
    low, high = 0, 1
    while not holds(high):
        if high >= most:
            return None
        low, high = high, min(most, 4 * high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
