"""How numbers and values are written on a page."""

import unicodedata

JOINERS = {"\N{ZERO WIDTH JOINER}", *map(chr, range(0xE0020, 0xE0080))}
"""Characters that join the parts of one symbol."""


MOST_LETTERS = 120
"""Most characters of a value on the page; the CSV has it whole."""


def percent(share: float) -> str:
    return f"{100 * share:.3g}\N{NO-BREAK SPACE}%".replace("-", "\N{MINUS SIGN}")


def visible_label(value: str) -> str:
    """Return a value as it is shown: not endless, and what would not show, or turn the direction of
    what does, made visible."""
    cut = value if len(value) <= MOST_LETTERS else f"{value[:MOST_LETTERS]}\N{HORIZONTAL ELLIPSIS}"
    return "".join(map(_visible, cut))


def _visible(letter: str) -> str:
    if letter < " " and letter not in "\n\t":
        return chr(0x2400 + ord(letter))
    is_hidden = unicodedata.category(letter) in ("Cf", "Zl", "Zp")
    return f"\\u{ord(letter):04x}" if is_hidden and letter not in JOINERS else letter


def whole_number(number: float) -> str:
    return f"{number:,.0f}".replace("-", "−")
