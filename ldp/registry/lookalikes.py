"""Texts that look alike and are not the same: they differ in normal form, variation selectors or
blanks at their ends. Nothing is normalised before it is hashed, and devices may write any of them.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from ldp.registry.definitions import Metric, listed_in, value_lines

SELECTORS = dict.fromkeys([*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])
MOST_NOTES = 20
"""Largest number of groups of look-alikes of a metric that are listed."""


def look(text: str) -> str:
    """Return the form that this text shares with all texts that look like it: NFKC without
    variation selectors and blanks at the ends.

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
            yield f"{where}: {len(groups) - MOST_NOTES} more groups of {what} look alike"
