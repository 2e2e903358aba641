"""The sequence fragment puzzle: words that no dictionary lists, assembled from their fragments.

Source: Apple, "Learning with Privacy at Scale" (2017), "Sequence Fragment Puzzle". It joins the T
largest tagged fragments of each position. Here a fragment is kept when it is significant among all
tested ones, a word must have the tag of its fragments, and the table of words decides which are
discovered: its noise is independent of their choice.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import Bools, Floats
from ldp.bulk.counting import gather
from ldp.bulk.hash_kernels import coefficients
from ldp.decoding import decode
from ldp.decoding.mean_sketch import MIN_ROWS, measure
from ldp.errors import DecodeError, ParameterError, require_kind
from ldp.mechanisms import CountMeanSketch, SequenceFragmentPuzzle
from ldp.protocol.channel import real_number
from ldp.protocol.spelling import PAD, Fragments, Spelling
from ldp.tables.estimates import WORDS_RULE, Estimates, Rule, table_details
from ldp.tables.joint_table import JointTable
from ldp.tables.table import Table

MOST_WORDS = 100_000
"""Largest number of words that the fragments of a tag may spell. `details` lists others."""
CHANCE_WORDS = 100
"""Mean number of words that noise alone assembles under `chance_screen`."""
MOST_TESTED = 1 << 25
"""Largest number of tagged fragments of all positions: each has a count and a p-value in memory."""


def discover(
    table: JointTable,
    *,
    rule: Rule | None = None,
    screen: Rule | None = None,
    top: int | None = None,
) -> Estimates:
    """Return estimates of every word assembled from fragments, decided by `rule`.

    1. For each position every tag with every fragment is estimated from that position's rows.
    2. `screen` keeps the significant ones among all fragments of all positions (default:
       `chance_screen`; a threshold is in reports of one position). `top`: keeps this number of the
       largest of each position instead.
    3. Kept fragments of one tag, one a position, make a word if they spell one (letters, then
       padding) that has their tag. A tag whose fragments spell more than MOST_WORDS is left out:
       `details` lists it, with a warning.
    4. The table of words decides (`decode`; default: Bonferroni at 0.05) among all assembled words.
       Those that do not pass are in the result, not detected.

    Given the words that people hold, the two tables are independent. So the choice of the tested
    words is independent of the noise that tests them, and step 4 alone controls the error rate of
    `rule` over them, whatever passes steps 2 and 3. Raises DecodeError for a table of another
    mechanism, an empty one, positions with fewer than MIN_ROWS rows without `top` or a screen with
    a threshold, and more than MOST_TESTED fragments. Raises ParameterError for an invalid `top`.
    """
    puzzle = table.mechanism if isinstance(table, JointTable) else None
    if not isinstance(puzzle, SequenceFragmentPuzzle):
        raise DecodeError("the table is not of mechanism sfp")
    if not table.total:
        raise DecodeError("the table holds no reports")
    if top is not None:
        number = real_number(top, "top")
        if number < 1 or number % 1:
            raise ParameterError("top must be a whole number, 1 or more")
        top = int(number)
    rule = Rule.of(rule, WORDS_RULE)
    screen = require_kind(screen or chance_screen(puzzle), Rule, "screen")
    is_kept = _screen_mask(table["fragments"], puzzle, screen, top)
    words, left_out = assemble(puzzle.fragments.addressing, is_kept)
    # the mean sketch, which takes unlisted words for what they are
    if words:
        estimates = decode(table["words"], words, rule=rule, method="mean-sketch")
    else:
        estimates = no_estimates(table, rule)
    details: dict[str, Any] = {
        **estimates.details,
        **table_details(table, "puzzle"),
        "fragments_tested": is_kept.size,
        "fragments_kept": is_kept.sum(axis=(1, 2)).tolist(),
        "screen": {"top": top} if top else asdict(screen),
        "tags_left_out": left_out,
    }
    if left_out:
        warning = (
            f"{len(left_out)} of {is_kept.shape[1]} tags left out: their fragments spell more than "
            f"{MOST_WORDS:,} words each; a stricter screen or more tag_bits would help"
        )
        details["warning"] = "; ".join([*filter(None, [details.get("warning")]), warning])
    return replace(estimates, details=details)


def chance_screen(puzzle: SequenceFragmentPuzzle) -> Rule:
    """Return the loosest screen that joining allows: it keeps a fragment that nobody holds with
    probability p.

    With f fragments and t tags, noise alone keeps f p fragments for each tag at a position. They
    spell (f p)**positions words for each tag, and one word in t has the tag: with this p that is
    CHANCE_WORDS words over all tags.
    """
    spelling = puzzle.fragments.spelling
    alpha = CHANCE_WORDS ** (1 / spelling.positions) / fragment_number(spelling)
    return Rule(alpha=min(0.5, alpha), control="none")


def fragment_number(spelling: Spelling) -> int:
    """Return the number of fragments that a padded word can have, those of `fragments_of`."""
    return sum(len(spelling.alphabet) ** size for size in range(spelling.fragment + 1))


def fragments_of(spelling: Spelling) -> list[str]:
    """Return every fragment that a padded word can have: letters, then padding."""
    return [
        "".join(letters).ljust(spelling.fragment, PAD)
        for size in range(spelling.fragment + 1)
        for letters in product(spelling.alphabet, repeat=size)
    ]


def assemble(addressing: Fragments, is_kept: Bools) -> tuple[list[str], list[int]]:
    """Return the words, without padding, that kept fragments spell and that have their tag; and
    the tags left out. `is_kept`: shape (positions, tags, fragments), in the order of
    `fragments_of`."""
    fragments = np.array(fragments_of(addressing.spelling), dtype=object)
    words, left_out = list[str](), list[int]()
    for tag in np.flatnonzero(is_kept.any(axis=2).all(axis=0)).tolist():
        spelled = join([fragments[tag_mask].tolist() for tag_mask in is_kept[:, tag]])
        if spelled is None:
            left_out.append(tag)
        else:
            words += [word.rstrip(PAD) for word in spelled if addressing.tag(word) == tag]
    return words, left_out


def join(fragments: Sequence[Sequence[str]]) -> list[str] | None:
    """Return every padded word of one of the `fragments` of each position. Returns None for more
    than MOST_WORDS.

    Padding is followed by padding only. Fragments after which no word can end are removed first, so
    that every beginning becomes at least one word.
    """
    usable, padding = list[list[str]](), True
    for choices in reversed(fragments):
        usable.append([fragment for fragment in choices if padding or not fragment.endswith(PAD)])
        padding = padding and any(not fragment.strip(PAD) for fragment in choices)
    words = [""] if all(usable) else []
    for choices in reversed(usable):
        longer = [word for word in words if not word.endswith(PAD)]
        ended = [word for word in words if word.endswith(PAD)]
        if len(longer) * len(choices) + len(ended) > MOST_WORDS:
            return None
        words = [word + fragment for word in longer for fragment in choices]
        words += [word + PAD * len(choices[0]) for word in ended]
    return words


def _screen_mask(
    table: Table, puzzle: SequenceFragmentPuzzle, screen: Rule, top: int | None
) -> Bools:
    """Return the mask of the tagged fragments that the screen keeps: shape (positions, tags,
    fragments). Raises DecodeError for too many of them, or too few rows."""
    spelling, rows = puzzle.fragments.spelling, puzzle.fragment_rows
    tags, letters = 1 << spelling.tag_bits, len(spelling.alphabet)
    if spelling.positions * tags * (letters + 1) ** spelling.fragment > MOST_TESTED:
        raise DecodeError(
            f"more than {MOST_TESTED:,} tagged fragments: too many to test; "
            "shorter fragments or fewer tag_bits are needed"
        )
    if rows < MIN_ROWS and top is None and screen.threshold is None:
        raise DecodeError(
            f"fewer than {MIN_ROWS} rows a position: no error rate is claimed for fragments; "
            "say how many to keep (--method 'puzzle, top = 4')"
        )
    count, p_value = map(np.stack, zip(*_estimates(table, puzzle), strict=True))
    is_kept: Bools = np.isfinite(count)
    if top is None:
        is_kept &= screen.discovers(count, p_value)
    else:
        rank = np.argsort(np.argsort(-count, axis=1, kind="stable"), axis=1)
        is_kept &= rank < top
    return is_kept.reshape(spelling.positions, tags, -1)


def _estimates(table: Table, puzzle: SequenceFragmentPuzzle) -> Iterator[tuple[Floats, Floats]]:
    """Yield for each position the counts and p-values of all tagged fragments, from its rows: shape
    (tags * fragments,)."""
    part = puzzle.fragments
    rows, polynomials = puzzle.fragment_rows, coefficients(part.addressing.rows, part.rows)
    points = _points(part.spelling)
    sketch = CountMeanSketch(epsilon=part.epsilon, rows=rows, width=part.width, seed=part.seed)
    for first in range(0, part.rows, rows):
        block = slice(first, first + rows)
        position = Table(sketch, table.counts[block], table.reports[block])
        if not position.total:
            yield np.full(points.size, -math.inf), np.ones(points.size)
            continue
        named_counts = gather(sketch.addressing, position.counts, points, polynomials[block])
        measured = measure(position, position.counts, named_counts)
        yield measured.count, measured.p_value


@lru_cache(maxsize=1)
def _points(spelling: Spelling) -> NDArray[np.uint64]:
    """Return the points of all tagged fragments, by tag, then as in `fragments_of`: uint64, shape
    (tags * fragments,). They do not depend on the position or the seed."""
    addressing, fragments = Fragments("00", 2, 1, spelling), fragments_of(spelling)
    tags = range(1 << spelling.tag_bits)
    return np.fromiter(
        (addressing.fragment_point(tag, fragment) for tag in tags for fragment in fragments),
        dtype=np.uint64,
        count=len(tags) * len(fragments),
    )


def no_estimates(table: JointTable, rule: Rule) -> Estimates:
    """Return the estimates where no word was assembled."""
    empty, mechanism = np.empty(0), table["words"].mechanism
    return Estimates(
        values=(),
        count=empty,
        std_error=empty,
        p_value=empty,
        reports=table.total,
        noise=mechanism.std_error(table.total),
        rule=rule,
        details={"fakes_move": table.total * mechanism.fakes_move()},
    )
