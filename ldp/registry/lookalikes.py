"""Texts that look alike and are not the same: they differ in normal form, variation selectors,
signs without width or blanks at their ends. Nothing is normalised before it is hashed, and devices
may write any of them. Values of data that may stand for something else, as for a missing one.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from ldp.data_files import SHOWN
from ldp.files import counted
from ldp.mechanisms.numeric import is_number, number_of
from ldp.registry.definitions import Metric, listed_in
from ldp.registry.value_files import value_lines

SELECTORS = dict.fromkeys([*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])
SELECTORS |= dict.fromkeys([0xAD, 0x200B, 0x200E, 0x200F, 0x2060, 0xFEFF])
"""Variation selectors, and signs without width that change no letter. Those that join do."""
_CODE = re.compile(r" *(0[0-9]|\+[0-9]{6}).*")
"""Beginning of a code, a phone number or a date, which numbers seldom have."""
_NINES = re.compile(r"-?9+(\.0+)?")
"""Number with which statistics programs often mark a missing one."""
_MISSING = re.compile(r"(#?n/?a|nan|\\n|none|#?null!?|\(null\)|<na>|missing|\.[a-z]|[-.?])?", re.I)
"""Text with which programs mark a missing value."""
MOST_NOTES = 20
"""Largest number of groups of look-alikes of a metric that are listed."""


def look(text: str) -> str:
    """Return the form that this text shares with all texts that look like it: NFKC without
    variation selectors, signs without width and blanks at the ends.

    >>> look("cafe\u0301 ") == look("caf\u00e9"), look("\u2764\ufe0f") == look("\u2764")
    (True, True)
    """
    return unicodedata.normalize("NFKC", text.translate(SELECTORS)).strip()


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
            more = counted(len(groups) - MOST_NOTES, "more group")
            yield f"{where}: {more} of {what} that look alike"


def odd_values(held: Mapping[str, int], are_numbers: bool) -> list[str]:
    """Return words about values of a column that may stand for something else. `held`: the number
    of rows of each value.

    Of numbers: the first that begins as codes do. Of categories: the first that look alike, and the
    first that marks a missing value. Of both: nines in several rows that are below 0 where no other
    number is, or further from all others than these are from each other.
    """
    words, order = list[str](), sorted(filter(is_number, held), key=number_of)
    if codes := [value for value in held if are_numbers and _CODE.fullmatch(value)]:
        words.append(f"{codes[0][:SHOWN]!r} may be a code or a date (--as categories)")
    if alike := [] if are_numbers else [*lookalikes(held)]:
        first, second = (f"{text[:SHOWN]!a}" for text in alike[0][:2])
        words.append(f"{first} and {second} look alike and count apart")
    if ends := [text for text in held if not are_numbers and _MISSING.fullmatch(text.strip())]:
        words.append(
            f"{ends[0]!r} in {counted(held[ends[0]], 'row')} may stand for a missing value"
        )
    for end, *others in filter(None, (order, order[::-1])):
        if _NINES.fullmatch(end) and min(held[end], len(others)) > 1:
            near, far = number_of(others[0]), number_of(others[-1])
            if number_of(end) < 0 <= near or abs(number_of(end) - near) > abs(far - near):
                words.append(f"{end} in {counted(held[end], 'row')} may stand for a missing number")
    return words
