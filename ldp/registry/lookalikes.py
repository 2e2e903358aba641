"""Texts that look alike and are not the same: they differ in normal form, variation selectors,
signs without width or blanks at their ends. Nothing is normalised before it is hashed, and devices
may write any of them. Values of data that may stand for something else, as for a missing one.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from ldp.files import counted
from ldp.mechanisms.numeric import is_number, number_of
from ldp.registry.definitions import Metric, listed_in, value_lines

SHOWN = 40
"""Number of letters of a value that a note shows."""
SELECTORS = dict.fromkeys([*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])
HIDDEN = dict.fromkeys([0xAD, 0x200B, 0x200E, 0x200F, 0x2060, 0xFEFF])
"""Signs without width that change no letter; those that join letters do."""
_CODE = re.compile(r" *(0[0-9]|\+[0-9]{6}).*")
"""Beginning of a code, a phone number or a date, which numbers seldom have."""
_NINES = re.compile(r"-?9+(\.0+)?")
"""Number with which statistics programs often mark a missing one."""
_MISSING = re.compile(r"#?n/?a|nan|\\n|none|null|\(null\)|<na>|missing|[-.?]|-9+|99+", re.I)
"""Text with which programs mark a missing value."""
MOST_NOTES = 20
"""Largest number of groups of look-alikes of a metric that are listed."""


def look(text: str) -> str:
    """Return the form that this text shares with all texts that look like it: NFKC without
    variation selectors, signs without width and blanks at the ends.

    >>> look("cafe\u0301 ") == look("caf\u00e9"), look("\u2764\ufe0f") == look("\u2764")
    (True, True)
    """
    return unicodedata.normalize("NFKC", text.translate(SELECTORS | HIDDEN)).strip()


def lookalikes(lines: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield each group of two or more texts that look alike. `lines`: the line of each text."""
    groups = defaultdict[str, list[str]](list)
    for text in lines:
        groups[look(text)].append(text)
    return (texts for texts in groups.values() if len(texts) > 1)


def lookalike_notes(metrics: Iterable[Metric]) -> Iterator[str]:
    """Yield a sentence for each group of look-alikes in a dictionary or list of `metrics`, with the
    lines and bytes of its texts."""
    for metric in metrics:
        lines = {text: place for place, text in enumerate(listed_in(metric.mechanism), 1)}
        where, what = f"metric {metric.name}", "categories"
        if metric.dictionary is not None:
            lines, where, what = value_lines(metric.dictionary), f"{metric.dictionary}", "lines"
        groups = [*lookalikes(lines)]
        for texts in groups[:MOST_NOTES]:
            written = ", ".join(f"{text.encode().hex(' ')} ({text!r})" for text in texts)
            yield (
                f"{where}: {what} {' and '.join(str(lines[text]) for text in texts)} look alike "
                f"(normal form, variation selector or blanks), and count apart: {written}"
            )
        if groups[MOST_NOTES:]:
            yield f"{where}: {len(groups) - MOST_NOTES} more groups of {what} look alike"


def odd_values(held: Mapping[str, int], are_numbers: bool) -> str:
    """Return words, each after a semicolon, about values of a column that may stand for something
    else. `held`: the number of rows of each value.

    Categories: the first that look alike, and that mark a missing value. Numbers: the first that
    begins as codes do, and one of nines in several rows that is below 0 where no other is, or
    further from all others than these are from each other.
    """
    words = ""
    if not are_numbers:
        missing = [
            value
            for value in held
            if _MISSING.fullmatch(value.strip()) and (len(held) <= 20 or not is_number(value))
        ]
        for first, second, *_ in [*lookalikes(held)][:1]:
            words += f"; {first[:SHOWN]!a} and {second[:SHOWN]!a} look alike and count apart"
        for value in missing[:1]:
            words += f"; {value!r} in {counted(held[value], 'row')} may stand for a missing value"
        return words
    order = sorted(filter(is_number, held), key=number_of)
    if codes := [value for value in held if _CODE.fullmatch(value)]:
        words += f"; {codes[0][:SHOWN]!r} may be a code or a date (--as categories)"
    for end, *others in (order, order[::-1]):
        if _NINES.fullmatch(end) and min(held[end], len(others)) > 1:
            near, far = number_of(others[0]), number_of(others[-1])
            if number_of(end) < 0 <= near or abs(number_of(end) - near) > abs(far - near):
                words += f"; {end} in {counted(held[end], 'row')} may stand for a missing number"
    return words
