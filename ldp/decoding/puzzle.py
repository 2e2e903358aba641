"""The sequence fragment puzzle: words that no dictionary lists, put together from their fragments.

Source: Apple, "Learning with Privacy at Scale" (2017), "Sequence Fragment Puzzle"; it joins the T
largest tagged fragments of each position. Here a fragment is kept when it is significant among all
that were tested, a word must have the tag that its fragments carry, and what is put together is
then decided by the words' own table, whose noise had no part in choosing it.
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
from ldp.decoding import decode
from ldp.decoding.mean_sketch import MIN_ROWS, measure
from ldp.errors import DecodeError, ParameterError
from ldp.mechanisms import CountMeanSketch, SequenceFragmentPuzzle
from ldp.protocol.spelling import PAD, Fragments, Spelling
from ldp.tables.estimates import Estimates, Rule, table_details
from ldp.tables.joint_table import JointTable
from ldp.tables.table import Table

MOST_WORDS = 100_000
"""Words that the fragments of one tag may spell; a tag with more is left out, and said to be."""
CHANCE_WORDS = 100
"""Words that `chance_screen` lets noise put together, on average."""
MOST_TESTED = 1 << 25
"""Tagged fragments of all positions: a count and a p-value are in memory for each."""


def discover(
    table: JointTable,
    *,
    rule: Rule | None = None,
    screen: Rule | None = None,
    top: int | None = None,
) -> Estimates:
    """Finds the words of a puzzle: estimates of every word put together, decided by `rule`.

    1. Of each position every tag with every fragment is estimated from that position's rows.
    2. `screen` keeps what is significant among all fragments of all positions (`chance_screen`
       unless given; a threshold is in reports of one position). `top`: keeps the so many largest of
       each position instead.
    3. Kept fragments of one tag, one a position, make a word if they spell one (letters, then
       padding) and its tag is theirs. A tag whose fragments spell more than MOST_WORDS is left out:
       `details` lists it, with a warning.
    4. The words' table decides (`decode`; Bonferroni at 0.05 unless `rule` says otherwise) among
       all words put together. Those that do not pass are in the result, not detected.

    What is controlled: given what people hold, the two tables are independent. So the words that
    are tested are chosen without looking at the noise that tests them, and step 4 alone keeps the
    error rate of `rule` over them, whatever steps 2 and 3 let through; these decide only which
    words have a chance. Raises DecodeError for a table of anything else, an empty one, positions
    with fewer than 64 rows unless `top` or the screen's threshold is given, and more than
    MOST_TESTED fragments.
    """
    puzzle = table.mechanism if isinstance(table, JointTable) else None
    if not isinstance(puzzle, SequenceFragmentPuzzle):
        raise DecodeError("the table is none of a puzzle of words (mechanism sfp)")
    if not table.total:
        raise DecodeError("the table holds no reports")
    if top is not None and (type(top) is not int or top < 1):
        raise ParameterError("top must be a whole number, 1 or more")
    rule = rule or Rule(control="bonferroni")
    screen = screen or chance_screen(puzzle)
    kept = _kept(table["fragments"], puzzle, screen, top)
    words, left_out = assemble(puzzle.fragments.addressing, kept)
    found = decode(table["words"], words, rule=rule) if words else no_estimates(table, rule)
    details: dict[str, Any] = {
        **found.details,
        **table_details(table, "puzzle"),
        "fragments_tested": kept.size,
        "fragments_kept": kept.sum(axis=(1, 2)).tolist(),
        "screen": {"top": top} if top else asdict(screen),
        "tags_left_out": left_out,
    }
    if left_out:
        warning = (
            f"{len(left_out)} of {kept.shape[1]} tags left out: their fragments spell more than "
            f"{MOST_WORDS:,} words each; a stricter screen or more tag_bits would help"
        )
        details["warning"] = "; ".join([*filter(None, [details.get("warning")]), warning])
    return replace(found, details=details)


def chance_screen(puzzle: SequenceFragmentPuzzle) -> Rule:
    """As loose as joining allows: it keeps a fragment that nobody holds with probability p.

    With f fragments and t tags, noise alone keeps f p fragments for each tag at a position, and
    (f p)**positions products for each tag, one in t of which has it: p is chosen so that these are
    CHANCE_WORDS words of all tags.
    """
    spelling = puzzle.fragments.spelling
    fragments = sum(len(spelling.alphabet) ** size for size in range(spelling.fragment + 1))
    alpha = CHANCE_WORDS ** (1 / spelling.positions) / fragments
    return Rule(alpha=min(0.5, alpha), control="none")


def fragments_of(spelling: Spelling) -> list[str]:
    """Every fragment that a padded word can have: letters, then padding."""
    return [
        "".join(letters).ljust(spelling.fragment, PAD)
        for size in range(spelling.fragment + 1)
        for letters in product(spelling.alphabet, repeat=size)
    ]


def assemble(addressing: Fragments, kept: Bools) -> tuple[list[str], list[int]]:
    """The words that the kept fragments spell and whose tag is theirs, without padding; and the
    tags left out. `kept`: shape (positions, tags, fragments), the latter as in `fragments_of`."""
    fragments = np.array(fragments_of(addressing.spelling), dtype=object)
    words, left_out = list[str](), list[int]()
    for tag in np.flatnonzero(kept.any(axis=2).all(axis=0)).tolist():
        joined = join([fragments[some].tolist() for some in kept[:, tag]])
        if joined is None:
            left_out.append(tag)
        else:
            words += [word.rstrip(PAD) for word in joined if addressing.tag(word) == tag]
    return words, left_out


def join(fragments: Sequence[Sequence[str]]) -> list[str] | None:
    """Every padded word made of one of the fragments of each position; None beyond MOST_WORDS.

    After padding there is only padding. Fragments after which no word can end go first, so every
    beginning of a word that is made becomes at least one word.
    """
    usable, padding = list[list[str]](), True
    for some in reversed(fragments):
        usable.append([fragment for fragment in some if padding or not fragment.endswith(PAD)])
        padding = padding and any(not fragment.strip(PAD) for fragment in some)
    words = [""] if all(usable) else []
    for some in reversed(usable):
        longer = [word for word in words if not word.endswith(PAD)]
        ended = [word for word in words if word.endswith(PAD)]
        if len(longer) * len(some) + len(ended) > MOST_WORDS:
            return None
        words = [word + fragment for word in longer for fragment in some]
        words += [word + PAD * len(some[0]) for word in ended]
    return words


def _kept(table: Table, puzzle: SequenceFragmentPuzzle, screen: Rule, top: int | None) -> Bools:
    """Which tagged fragments the screen keeps: shape (positions, tags, fragments)."""
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
            "say how many to keep (top)"
        )
    count, p_value = (np.stack(each) for each in zip(*_estimates(table, puzzle), strict=True))
    kept: Bools = np.isfinite(count)
    if top is None:
        kept &= screen.discovers(count, p_value)
    else:
        rank = np.argsort(np.argsort(-count, axis=1, kind="stable"), axis=1)
        kept &= rank < top
    return kept.reshape(spelling.positions, tags, -1)


def _estimates(table: Table, puzzle: SequenceFragmentPuzzle) -> Iterator[tuple[Floats, Floats]]:
    """For each position counts and p-values of all tagged fragments, from its own rows."""
    from ldp.bulk import coefficients, gather  # late: numba takes half a second to import

    part = puzzle.fragments
    each, polynomials = puzzle.fragment_rows, coefficients(part.addressing.rows, part.rows)
    points = _points(part.spelling)
    sketch = CountMeanSketch(epsilon=part.epsilon, rows=each, width=part.width, seed=part.seed)
    for first in range(0, part.rows, each):
        some = slice(first, first + each)
        there = Table(sketch, table.counts[some], table.reports[some])
        if not there.total:
            yield np.full(points.size, -math.inf), np.ones(points.size)
            continue
        named = gather(sketch.addressing, there.counts, points, polynomials[some])
        measured = measure(there, there.counts, named)
        yield measured.count, measured.p_value


@lru_cache(maxsize=1)
def _points(spelling: Spelling) -> NDArray[np.uint64]:
    """The points of all tagged fragments, by tag, then as in `fragments_of`: they do not depend on
    the position or the seed."""
    addressing, fragments = Fragments("00", 2, 1, spelling), fragments_of(spelling)
    tags = range(1 << spelling.tag_bits)
    return np.fromiter(
        (addressing.fragment_point(tag, fragment) for tag in tags for fragment in fragments),
        dtype=np.uint64,
        count=len(tags) * len(fragments),
    )


def no_estimates(table: JointTable, rule: Rule) -> Estimates:
    """The estimates when no word could be put together."""
    none = np.empty(0)
    return Estimates(
        values=(),
        count=none,
        std_error=none,
        p_value=none,
        reports=table.total,
        noise=table["words"].mechanism.std_error(table.total),
        rule=rule,
    )
