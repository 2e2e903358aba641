"""Formats of numbers and values on a page, and the round numbers of an axis."""

import math
import unicodedata
from collections.abc import Sequence

JOINERS = {"\N{ZERO WIDTH JOINER}", *map(chr, range(0xE0020, 0xE0080))}
"""Characters that join the parts of one symbol."""


MOST_LETTERS = 120
"""Most characters of a value on the page. The CSV has it whole."""


def percent(share: float) -> str:
    return f"{100 * share:z.3g}\N{NO-BREAK SPACE}%".replace("-", "\N{MINUS SIGN}")


def in_points(share: float) -> str:
    """Return a difference of shares with its sign, in percentage points."""
    text = percent(share).removesuffix("\N{NO-BREAK SPACE}%")
    return text if share <= 0 else f"+{text}"


def visible_label(value: str, most: int = MOST_LETTERS) -> str:
    """Return a value as it is shown, cut to `most` letters. Characters that would not show, or
    would turn the direction of the text, are made visible."""
    cut = value if len(value) <= most else f"{value[:most]}\N{HORIZONTAL ELLIPSIS}"
    return "".join(map(_visible, cut))


def _visible(letter: str) -> str:
    if letter < " " and letter not in "\n\t":
        return chr(0x2400 + ord(letter))
    is_hidden = unicodedata.category(letter) in ("Cf", "Zl", "Zp")
    return f"\\u{ord(letter):04x}" if is_hidden and letter not in JOINERS else letter


def whole_number(number: float) -> str:
    return f"{number:z,.0f}".replace("-", "−")


def quantity(number: float) -> str:
    """Return a `number` in some unit as text of four digits, or of all digits before the point."""
    if number and not 1e-5 <= abs(number) < 1e15:
        return f"{number:.3e}".replace("-", "\N{MINUS SIGN}")
    digits = max(0, 3 - math.floor(math.log10(abs(number)))) if number else 0
    text = f"{number:z,.{digits}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "\N{MINUS SIGN}")


def signed(number: float) -> str:
    """Return a difference in some unit as text with its sign."""
    return quantity(number) if number <= 0 else f"+{quantity(number)}"


def span(low: float | None, high: float | None) -> str:
    """Return an interval as text; an end that is None is open."""
    if low is None:
        return "not known" if high is None else f"at most {quantity(high)}"
    return f"at least {quantity(low)}" if high is None else f"{quantity(low)} to {quantity(high)}"


def p_text(p_value: float) -> str:
    """Return a `p_value` as text; what is printed is not below 1e-15."""
    return f"{p_value:.2g}" if p_value >= 1e-15 else "< 1e-15"


def tenths(parts: Sequence[float]) -> list[str]:
    """Return percentages of `parts`, at least 0, with one decimal, so that the printed numbers add
    to 100: those that lose most by rounding down are rounded up."""
    shares = [1000 * part / (sum(parts) or 1) for part in parts]
    whole = [math.floor(share) for share in shares]
    missing = round(sum(shares)) - sum(whole)
    for place in sorted(range(len(parts)), key=lambda i: whole[i] - shares[i])[:missing]:
        whole[place] += 1
    return [f"{number / 10:.1f}\N{NO-BREAK SPACE}%" for number in whole]


def even_numbers(low: float, high: float) -> list[float]:
    """Return round numbers from `low` to `high`, with at most 5 equal steps between them."""
    length = (high - low) or 1.0
    step = 10.0 ** math.floor(math.log10(length / 5))
    step *= next(times for times in (1, 2, 5, 10) if length / (times * step) <= 5 + 1e-9)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]
