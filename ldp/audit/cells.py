"""The cell-by-cell audit: an encoder's bytes against what its mechanism claims.

Nothing but the bytes is looked at. Every count that is checked is exactly binomial under the claim,
so every p-value is exact; they share `alpha` by Bonferroni, which makes `alpha` the probability
that an honest encoder fails.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp.audit.law import outcomes, report_law
from ldp.mechanisms.base import Mechanism, Value
from ldp.wire import Kind, split_report

MOST_OUTCOMES = 4096
"""Up to so many different reports the joint law of all cells is checked, not only single cells."""

Checks = tuple[str, NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
"""What is counted; observed counts; trials; claimed probabilities: arrays of one shape."""


@dataclass(frozen=True)
class Finding:
    """A count that an honest encoder would show with probability below alpha / checks."""

    what: str
    observed: int
    expected: float
    p_value: float

    def __str__(self) -> str:
        return f"{self.what}: {self.observed}, expected {self.expected:.1f} (p {self.p_value:.1e})"


@dataclass(frozen=True)
class Audit:
    """How many counts were checked, and those that refute the claim."""

    checks: int
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        return not self.findings


def binomial_p(
    observed: NDArray[np.int64], trials: NDArray[np.int64], probability: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Two-sided p-value of a binomial count: twice the smaller exact tail, at most 1."""
    from scipy.stats import binom

    lower = binom.cdf(observed, trials, probability)
    upper = binom.sf(observed - 1, trials, probability)
    smaller: NDArray[np.float64] = np.minimum(1.0, 2 * np.minimum(lower, upper))
    return smaller


def audit_encoder(
    mechanism: Mechanism,
    values: Sequence[Value],
    encode: Callable[[Value], bytes],
    *,
    trials: int,
    alpha: float = 1e-6,
) -> Audit:
    """Encodes every value `trials` times and checks the reports against `mechanism`.

    Raises ReportError when bytes are no report of the mechanism. Memory: trials x columns bytes.
    """
    checks: list[Checks] = []
    for value in values:
        split = [
            split_report(encode(value), mechanism.header, mechanism.layout) for _ in range(trials)
        ]
        rows = np.array([row for row, _ in split])
        numbers = [mechanism.layout.payload_number(payload) for _, payload in split]
        payloads = np.frombuffer(b"".join(p for _, p in split), dtype=np.uint8)
        checks += check_reports(mechanism, value, rows, payloads.reshape(trials, -1), numbers)
    return judge(checks, alpha)


def judge(checks: Sequence[Checks], alpha: float) -> Audit:
    """The findings among `checks`, at `alpha` for all of them together."""
    total = sum(observed.size for _, observed, _, _ in checks)
    findings = []
    for what, observed, trials, probability in checks:
        p_values = binomial_p(observed, trials, probability)
        findings += [
            Finding(f"{what} {i}", int(observed[i]), float((trials * probability)[i]), float(p))
            for i, p in enumerate(p_values)
            if p < alpha / total
        ]
    return Audit(total, tuple(findings))


def check_reports(
    mechanism: Mechanism,
    value: Value,
    rows: NDArray[np.int64],
    payloads: NDArray[np.uint8],
    numbers: Sequence[int],
) -> Iterator[Checks]:
    """All that is checked of some reports of one value: rows, cells, neighbours, joint law, and
    that consecutive reports are independent. `numbers` are the payloads as integers."""
    n, shape = rows.size, mechanism.shape
    blocks = min(shape.rows, MOST_OUTCOMES)
    sizes = np.bincount(np.arange(shape.rows) * blocks // shape.rows)
    counts = np.bincount(rows * blocks // shape.rows, minlength=blocks)
    yield "reports in block of rows", counts, np.full(blocks, n), sizes / shape.rows
    paired = rows[: n // 2 * 2].reshape(-1, 2)
    together = np.array([int((paired[:, 0] == paired[:, 1]).sum())])
    yield "consecutive reports in one row", together, np.array([n // 2]), np.array([1 / shape.rows])
    if mechanism.kind is not Kind.SIGN:
        yield from _cells(mechanism, value, rows, payloads, numbers)
    if outcomes(mechanism) <= MOST_OUTCOMES:
        law = report_law(mechanism, value)
        claimed = np.array([float(probability) for probability in law.values()])
        keys = rows * mechanism.layout.payload_limit + np.array(numbers)
        counts = np.bincount(keys, minlength=claimed.size)
        yield "reports equal to number", counts, np.full(claimed.size, n), claimed
        alike = np.array([int((keys[: n // 2 * 2 : 2] == keys[1::2]).sum())])
        equal = np.array([float((claimed**2).sum())])
        yield "equal consecutive reports", alike, np.array([n // 2]), equal


def _cells(
    mechanism: Mechanism,
    value: Value,
    rows: NDArray[np.int64],
    payloads: NDArray[np.uint8],
    numbers: Sequence[int],
) -> Iterator[Checks]:
    """Every column over all rows, apart where the value touches it and where not; and, for bits,
    every pair of neighbouring columns that the value does not touch."""
    columns = mechanism.shape.columns
    if mechanism.kind is Kind.BITS:
        reported = np.unpackbits(payloads, axis=1, bitorder="little")[:, :columns] == 1
    else:
        reported = np.arange(columns) == np.array(numbers)[:, None]
    touched = np.zeros(reported.shape, dtype=bool)
    known = {int(row): mechanism.cells(value, int(row)) for row in np.unique(rows)}
    for i, row in enumerate(rows.tolist()):
        touched[i, known[row]] = True
    channel = mechanism.channel
    for what, where, claimed in (
        ("touched cell reported, column", touched, float(channel.touched)),
        ("untouched cell reported, column", ~touched, float(channel.untouched)),
    ):
        trials = where.sum(axis=0)
        yield what, (reported & where).sum(axis=0), trials, np.full(columns, claimed)
    if mechanism.kind is Kind.BITS:
        cells = np.array([int(touched.sum())])
        seen = np.array([int((reported & touched).sum())])
        yield "touched cells reported in all", seen, cells, np.array([float(channel.touched)])
        both = ~touched[:, 1:] & ~touched[:, :-1]
        pair = reported[:, 1:] & reported[:, :-1] & both
        claimed = float(channel.untouched) ** 2
        yield (
            "neighbours both reported, column",
            pair.sum(axis=0),
            both.sum(axis=0),
            np.full(columns - 1, claimed),
        )
