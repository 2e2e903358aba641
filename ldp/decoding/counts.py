"""Decoding of a table into estimates, by the method that fits its mechanism."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ldp.arrays import Points, texts
from ldp.bulk.compiled import blas_of_one_thread
from ldp.decoding import candidates as bloom
from ldp.decoding import direct, geometry, histogram, mean_sketch, message_counts
from ldp.decoding.binomials import HARDLY_ANY_LIES
from ldp.decoding.bloom_maps import candidate_bits, has_single_bits, require_places
from ldp.decoding.report_patterns import require_decodable, require_independent
from ldp.errors import DecodeError, ParameterError, require_one_of
from ldp.mechanisms.addressing import CellSets, Identity
from ldp.mechanisms.bit_flip import Buckets
from ldp.mechanisms.dummies import MessageColumns
from ldp.protocol.bloom import PolynomialBloom
from ldp.protocol.channel import real_number
from ldp.protocol.cityhash import CityBloom
from ldp.protocol.hashing import PolynomialRows
from ldp.protocol.kinds import Index
from ldp.protocol.md5_bloom import Md5Bloom
from ldp.tables.estimates import Estimates, Rule, table_details
from ldp.tables.fakes import fakes_among
from ldp.tables.table import Table, one_table

BY_CELL: dict[str, Callable[..., Estimates]] = {
    "direct": direct.decode,
    "geometry": geometry.decode,
    "histogram": histogram.decode,
    "mean-sketch": mean_sketch.decode,
    "messages": message_counts.decode,
}
"""Methods that read each candidate's cells by themselves, by name."""
BY_MAP = ("regression", "lasso-ols")
"""Methods that fit all candidates together, by the cells that each names."""
METHODS = (*BY_CELL, *BY_MAP)
MOST_PLACES = 1 << 24
"""Most rows times candidates of a sketch that is decoded by regression by default: some ten
seconds and 1 GiB."""
REPORTS_A_ROW = 3
"""Least number of reports a row, on average, for errors of a regression that hold: of 150 tables of
1,024 rows intervals of held values covered .61 at 1 report a row, .93 at 3."""
FITTING = {
    Identity: ("direct",),
    MessageColumns: ("messages",),
    CellSets: ("geometry",),
    Buckets: ("histogram",),
    PolynomialRows: ("mean-sketch", *BY_MAP),
    PolynomialBloom: BY_MAP,
    Md5Bloom: BY_MAP,
    CityBloom: BY_MAP,
}
"""Methods for each type of addressing. "auto" is the first, or regression for small sketches."""


def decode(
    table: Table,
    candidates: Sequence[str] | None = None,
    *,
    method: str = "auto",
    rule: Rule | None = None,
    places: Points | None = None,
    weighted_reports_per_client: float | None = None,
) -> Estimates:
    """Return estimates of the counts of the candidates in `table`.

    `candidates` default to the table's dictionary or the mechanism's categories. `method`: one of
    `METHODS`, or "auto": the first that fits, or regression for a sketch of at most 2**20 cells
    with more equations than candidates and enough reports. Decoding again, also with other
    candidates, costs no privacy: it reads the table only. `places`: the bits that the candidates of
    a RAPPOR table set, from a map (`ldp.tables.google_rappor.read_map`).
    `weighted_reports_per_client`: number of reports that the client of a report sent (under one
    permanent response, where there is one), on average over the reports: see `weighted_mean`.
    Default: 1. Raises DecodeError for an empty table, for one that pools several days of a memoised
    metric without this number, because errors would be too small, for no or repeated candidates,
    for a method that does not fit the mechanism, and for candidates or places that their map cannot
    have. Whole reports of RAPPOR, if the table has them, find more values than its counts of bits
    (`ldp.decoding.report_patterns`). Their decoding raises DecodeError for more than 8 bits, for
    other mechanisms, and where reports share a permanent response.
    """
    addressing = one_table(table).mechanism.candidate_addressing
    fitting = next((FITTING[kind] for kind in type(addressing).__mro__ if kind in FITTING), None)
    if table.mechanism.is_numeric:
        raise DecodeError(f"a {table.mechanism.name} table holds numbers, not counts of candidates")
    if fitting is None:
        raise DecodeError(
            f"a {table.mechanism.name} table is decoded with the puzzle it is part of, "
            "or by discover_prefixes"
        )
    require_one_of(method, ("auto", *METHODS), "method")
    if method not in ("auto", *fitting):
        raise DecodeError(f"method {method!r} does not fit a {table.mechanism.name} table")
    if candidates is None:
        candidates = table.dictionary or table.mechanism.labels or None
    if candidates is None:
        raise DecodeError(
            f"a {table.mechanism.name} table needs --candidates FILE, or the key dictionary"
        )
    candidates = texts(candidates, "candidates")
    if not candidates:
        raise DecodeError("the list of candidates is empty")
    if len(set(candidates)) < len(candidates):
        raise DecodeError("the list of candidates names a value twice")
    if not table.total:
        raise DecodeError("the table holds no reports")
    patterns = table.whole if weighted_reports_per_client in (None, 1) else None
    if patterns is not None:
        require_decodable(table.mechanism)
        require_independent(table, weighted_reports_per_client)
    rule = Rule.of(rule)
    pooled = _pooled(table, weighted_reports_per_client)
    if method == "auto" and _is_small_sketch(table, len(candidates), pooled) and places is None:
        weighted = weighted_reports_per_client
        by = partial(decode, table, candidates, rule=rule, weighted_reports_per_client=weighted)
        return replace(by(method="regression"), bounded=partial(by, method="mean-sketch"))
    is_auto = method == "auto"
    method = fitting[0] if is_auto else method
    if is_auto and has_single_bits(places):
        method = "direct"
    elif places is not None and method not in BY_MAP:
        raise DecodeError(f"method {method!r} takes no places")
    if places is not None:
        require_places(table, len(candidates), places)
    elif method in BY_MAP:
        places = candidate_bits(table, candidates)
    if places is None:
        estimates = BY_CELL[method](table, tuple(candidates), rule, *pooled)
    elif method == "direct":
        estimates = direct.of_cells(table, tuple(candidates), places.ravel(), rule, *pooled)
    else:
        with blas_of_one_thread():
            estimates = bloom.from_map(
                table, tuple(candidates), places, rule, method, sum(pooled), patterns=patterns
            )
    damage = None if method in BY_MAP else partial(fakes_among, table.mechanism, table.total)
    details = {
        **table_details(table, method),
        "fakes_move": table.total * table.mechanism.fakes_move() if damage else None,
        "fakes_name_one": table.mechanism.kind is Index and isinstance(addressing, Identity),
        **estimates.details,
        **_answer_details(table, estimates),
        **({} if damage else {"reach": 1 / table.mechanism.support.gain}),
    }
    estimates = replace(estimates, details=details, damage=damage)
    return estimates.at(reports_per_person=weighted_reports_per_client)


def _is_small_sketch(table: Table, candidates: int, pooled: tuple[float, ...]) -> bool:
    """Return whether a table is that of a sketch for which regression is the better method. With
    more equations than candidates, regression takes away their collisions, which the mean sketch
    averages. It takes seconds up to MOST_PLACES, and has an error rate from REPORTS_A_ROW on."""
    is_sketch = isinstance(table.mechanism.candidate_addressing, PolynomialRows)
    untouched = table.mechanism.support.untouched
    equations = int((table.reports > 0).sum()) * (table.mechanism.shape.columns - 1)
    is_known = not pooled or table.mechanism.kind.is_bitwise
    is_small = table.counts.size <= bloom.MOST_CELLS and bloom.FEW <= equations > candidates
    is_small &= candidates * table.mechanism.shape.rows <= MOST_PLACES
    lies = table.total * float(untouched * (1 - untouched))
    has_errors = lies >= HARDLY_ANY_LIES and table.total >= REPORTS_A_ROW * len(table.counts)
    return is_sketch and is_known and is_small and has_errors


def _answer_details(table: Table, estimates: Estimates) -> dict[str, float]:
    """Return how many of the candidates people hold on average, with its standard error, where a
    value is a set of answers."""
    if table.mechanism.answers != "sets":
        return {}
    assert estimates.sum_std_error is not None
    return {
        "at_most": table.mechanism.at_most_answers,
        "answers_each": float(estimates.count.sum()) / table.total,
        "answers_each_std_error": estimates.sum_std_error / table.total,
    }


def weighted_mean(clients: Mapping[int, int]) -> float:
    """Return the number of reports that the client of a report sent, on average over the reports:
    sum K**2 / sum K over clients that sent K each. `clients`: K -> number of clients. It is more
    than the mean over clients, unless all sent the same number. Raises ParameterError for K below 1
    and clients below 0.

    >>> weighted_mean({7: 100}), weighted_mean({1: 90, 61: 10})   # the mean is 7 twice
    (7.0, 53.285714285714285)
    """
    if not clients or not all(
        type(reports) is int and type(number) is int and reports >= 1 and number >= 0
        for reports, number in clients.items()
    ):
        raise ParameterError("reports must be whole numbers, 1 or more, and clients 0 or more")
    total = sum(reports * number for reports, number in clients.items())
    if not total:
        raise ParameterError("no client sent a report")
    return sum(reports**2 * number for reports, number in clients.items()) / total


def _pooled(table: Table, weighted: float | None) -> tuple[float, ...]:
    """Return the number of further reports that the client of a report sent, on average over the
    reports. Returns an empty tuple where there is no pooling."""
    mechanism, days = table.mechanism, len(table.windows)
    if weighted is None and table.memoised and days > 1:
        raise DecodeError(
            f"the table pools {days} days of a memoised metric: say how many reports K a client "
            "sent under one permanent response, as sum K**2 / sum K over the clients "
            "(--weighted-reports-per-client X, or a CSV file reports,clients)"
        )
    name = "weighted_reports_per_client"
    if weighted is not None and not 1 <= real_number(weighted, name) < np.inf:
        raise ParameterError(f"{name} must be 1 or more")
    if weighted is None or weighted == 1 or not mechanism.is_memoisable:
        return ()
    return (float(weighted) - 1,)
