"""Measure whether google/rappor's own cases are decoded better than by its own decoder.

`python -m simulations.rappor_cases` draws three fresh tables of each of 17 cases. The cases come
from google/rappor's regression test and demo (tests/regtest_spec.py, demo.sh @a13fa96). It decodes
the tables with the default method. It prints every figure beside that of google/rappor's decoder
(`Reference`), which decoded other tables of the same cases. It prints each bar, writes all as JSON
and exits 1 when a bar is missed.

Beside the recall stands that of an ideal decoder. It knows how many people hold every string, on
the list or not, except the one that it tests. `--sample` runs the cases of up to 200 candidates.
`--whole` runs twelve tables of each case of 8 bits, from whole reports, beside the bits of the same
reports.
"""

import argparse
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ldp import Rappor, bulk
from ldp.arrays import Bools, Floats, Ints, Points
from ldp.decoding.candidates import BitEquations, BloomDesign
from ldp.decoding.report_patterns import MOST_BITS
from ldp.mechanisms.base import Mechanism
from ldp.protocol.bloom import PolynomialBloom
from ldp.server import Table, decode
from ldp.simulation import draw_table
from ldp.tables.estimates import Estimates, Rule
from ldp.tables.patterns import Patterns
from simulations import campaign
from simulations.campaign import Bar
from simulations.whole_reports import draw_patterns, table_of

LOOSE_RULE = Rule(alpha=0.2)
SEEDS, WHOLE_SEEDS = 3, 12
SAMPLED = 200


class Share(NamedTuple):
    """Number of successes, `part`, out of `whole`."""

    part: int
    whole: int

    def __float__(self) -> float:
        return self.part / self.whole if self.whole else 1.0

    def __str__(self) -> str:
        return f"{self.part}/{self.whole}"

    @classmethod
    def of(cls, shares: Iterable["Share"]) -> "Share":
        """Return the share of all of them together."""
        parts, wholes = zip(*shares, strict=True)
        return cls(sum(parts), sum(wholes))


class Reference(NamedTuple):
    """Result of google/rappor's decoder (R 4.2.2, glmnet 4.1-6, limSolve 2.0.3) for a case.

    It is for one table; for four cases, recall at 3 sigma and variation are for four tables. The
    metrics are those of `Score`, with processor seconds of the decoder and megabytes of its
    process.
    """

    detected: int
    false: int
    at_3: Share
    at_1: Share
    variation: float
    nominal: float
    seconds: float
    megabytes: int


@dataclass(frozen=True)
class Case:
    """One line of google/rappor's regression test.

    `people` report `each` values, drawn from a distribution over `strings`. The list of candidates
    has these strings, without every tenth if `removed`, and `extra` strings that nobody holds.
    """

    distribution: str
    strings: int
    people: int
    parameters: Mapping[str, float]
    extra: int
    removed: bool
    reference: Reference
    each: int = 1

    def shares(self) -> Floats:
        """Return the share of each string: float64, shape (strings,), sum 1."""
        places = np.arange(1, self.strings + 1)
        weights = DISTRIBUTIONS[self.distribution](places, self.strings).astype(np.float64)
        shares: Floats = weights / weights.sum()
        return shares


DISTRIBUTIONS: Mapping[str, Callable[[Ints, int], NDArray[np.floating]]] = {
    "unif": lambda i, n: np.ones(n),
    "exp": lambda i, n: np.exp(-5 * i / n),
    "gauss": lambda i, n: np.exp(-(((i - n / 2) / (n / 6)) ** 2) / 2),
    "zipf1": lambda i, n: 1 / i,
    "zipf1.5": lambda i, n: i**-1.5,
}

SHORT = {"bits": 8, "hashes": 2, "cohorts": 128}
TYPICAL = {**SHORT, "p": 0.39, "q": 0.61, "f": 0.45}
LOOSE = {**SHORT, "p": 0.225, "q": 0.775, "f": 0.0}
DEMO = {"bits": 32, "hashes": 1, "cohorts": 64, "p": 0.25, "q": 0.75, "f": 0.5}
CHROME = {"hashes": 2, "cohorts": 128, "p": 0.25, "q": 0.75, "f": 0.5}


def _reference(
    detected: int, false: int, at_3: str, at_1: str, variation: float, *rest: float
) -> Reference:
    three, one = (Share(*map(int, text.split("/"))) for text in (at_3, at_1))
    nominal, seconds, megabytes = rest
    return Reference(detected, false, three, one, variation, nominal, seconds, int(megabytes))


# fmt: off
CASES = {
    "exp-tiny-typical": Case("exp", 100, 10**3, TYPICAL, 20, True,
        _reference(1, 1, "0/0", "0/0", 0.508, 0.00, 0.30, 244)),
    "unif-small-typical": Case("unif", 100, 10**6, TYPICAL, 20, True,
        _reference(75, 0, "0/0", "75/90", 0.178, 0.83, 0.37, 245)),
    "exp-small-typical": Case("exp", 100, 10**6, TYPICAL, 20, True,
        _reference(48, 2, "104/104", "38/45", 0.136, 0.77, 0.32, 244)),
    "gauss-small-sharp": Case("gauss", 100, 10**6, TYPICAL, 0, False,
        _reference(61, 0, "37/39", "53/63", 0.171, 0.70, 0.28, 244)),
    "exp-small-loose": Case("exp", 100, 10**6, LOOSE, 20, True,
        _reference(73, 3, "55/57", "65/76", 0.062, 0.67, 0.36, 244)),
    "demo3-exp": Case("exp", 100, 10**5, DEMO, 100, True,
        _reference(66, 13, "39/39", "46/58", 0.105, 0.61, 0.84, 246), each=10),
    "zipf1-small-over_x10": Case("zipf1", 100, 10**6, TYPICAL, 1_000, True,
        _reference(25, 7, "49/56", "18/42", 0.202, 0.44, 1.60, 255)),
    "exp-small-over_x10": Case("exp", 100, 10**6, TYPICAL, 1_000, True,
        _reference(44, 9, "26/26", "34/45", 0.165, 0.52, 3.94, 292)),
    "zipf1.5-medium-typical": Case("zipf1.5", 1_000, 10**7, TYPICAL, 200, True,
        _reference(18, 0, "71/76", "17/40", 0.095, 0.56, 0.44, 243)),
    "exp-medium-loose": Case("exp", 1_000, 10**7, LOOSE, 200, True,
        _reference(315, 18, "231/350", "266/547", 0.280, 0.50, 2.81, 268)),
    "zipf1-medium-over_x10": Case("zipf1", 1_000, 10**7, TYPICAL, 10_000, True,
        _reference(35, 9, "24/31", "25/93", 0.262, 0.40, 3.48, 325)),
    "exp-medium-over_x10": Case("exp", 1_000, 10**7, TYPICAL, 10_000, True,
        _reference(48, 30, "12/47", "17/244", 0.471, 0.33, 2.95, 329)),
    "zipf1.5-large-typical": Case("zipf1.5", 10_000, 10**8, TYPICAL, 2_000, True,
        _reference(19, 0, "76/168", "19/86", 0.122, 0.11, 2.03, 331)),
    "zipf1-large-over_x10": Case("zipf1", 10_000, 10**8, TYPICAL, 100_000, True,
        _reference(51, 21, "26/75", "26/224", 0.316, 0.35, 19.97, 988)),
    "chrome8-exp-1m-15000": Case("exp", 100, 10**6, {"bits": 8, **CHROME}, 15_000, False,
        _reference(41, 3, "37/44", "38/65", 0.169, 0.27, 4.15, 397)),
    "chrome32-zipf1-1m-1000": Case("zipf1", 100, 10**6, {"bits": 32, **CHROME}, 1_000, False,
        _reference(55, 7, "32/32", "48/98", 0.121, 0.64, 61.3, 529)),
    "chrome128-exp-100k-1000": Case("exp", 100, 10**5, {"bits": 128, **CHROME}, 1_000, False,
        _reference(30, 7, "17/20", "22/44", 0.291, 0.50, 195.5, 1_322)),
}
# fmt: on
NO_RECALL_BAR = "exp-medium-over_x10"
"""Case without a bar on its recall.

It has a thousand strings for 1,024 equations, and 30 of the 48 strings that google/rappor finds are
false.
"""


@dataclass(frozen=True)
class Score:
    """Discoveries of a rule, compared with the truth.

    `false`: strings that nobody holds. `at_3`, `at_1`: recall of the candidates with 3 standard
    errors of a bit or more, and with 1. `variation`: half the sum over candidates of |share held -
    share discovered|. `nominal`, `selected`: how many 95 % intervals of discoveries hold.
    """

    detected: int
    false: int
    at_3: Share
    at_1: Share
    variation: float
    nominal: Share
    selected: Share


def scored(estimates: Estimates, truth: Mapping[str, int], noise: float) -> Score:
    """Return the score of estimates.

    `truth`: reports of every string that is held, candidate or not. `noise`: standard error, as a
    share, of a bit that no filter has.
    """
    reports, detected = sum(truth.values()), estimates.detected()
    held = np.array([truth.get(value, 0) for value in estimates.values])
    shown = np.where(detected, estimates.count, 0) / estimates.reports

    def holding(selected: bool) -> Share:
        low, high = estimates.interval(selected=selected)
        return Share(int((detected & (low <= held) & (held <= high)).sum()), int(detected.sum()))

    return Score(
        detected=int(detected.sum()),
        false=int((detected & (held == 0)).sum()),
        at_3=recall(held, detected, 3 * noise * reports),
        at_1=recall(held, detected, noise * reports),
        variation=float(abs(shown - held / reports).sum()) / 2,
        nominal=holding(False),
        selected=holding(True),
    )


def recall(held: Ints, detected: Bools, least: float) -> Share:
    large = held >= least
    return Share(int((large & detected).sum()), int(large.sum()))


def memoised(
    mechanism: Rappor,
    values: Sequence[str],
    shares: Floats,
    clients: int,
    each: int,
    generator: np.random.Generator,
) -> tuple[Table, Ints]:
    """Return the table of clients who report `each` values, and how many reports hold each value.

    Values are drawn independently, and the result is exact for Bloom filters with one hash. A
    client's reports about values of one filter share a permanent response. So the filters of a
    cohort are counted by how many reports of a client they stand for.
    """
    rows, columns = mechanism.shape
    assert mechanism.hashes == 1
    held = generator.choice(len(values), (clients, each), p=shares)
    cohort = generator.integers(0, rows, clients)
    bit = places(mechanism, values)[held, cohort[:, None], 0].astype(np.int64)
    filters, times = np.unique(np.arange(clients)[:, None] * columns + bit, return_counts=True)
    there = cohort[filters // columns] * columns + filters % columns
    shown = np.zeros((rows, columns), dtype=np.int64)
    for reports in range(1, each + 1):
        of_filter = np.bincount(there[times == reports], minlength=rows * columns)
        own = of_filter.reshape(rows, columns)
        others = own.sum(axis=1, keepdims=True) - own
        ones = generator.binomial(own, 1 - mechanism.f / 2)
        ones += generator.binomial(others, mechanism.f / 2)
        shown += generator.binomial(reports * ones, mechanism.q)
        shown += generator.binomial(reports * (own + others - ones), mechanism.p)
    table = Table(mechanism, shown.astype(np.uint32), each * np.bincount(cohort, minlength=rows))
    return table, np.bincount(held.ravel(), minlength=len(values))


def drawn(
    case: Case, generator: np.random.Generator, is_whole: bool = False
) -> tuple[Table, Patterns | None, dict[str, int]]:
    """Return a fresh table with fresh hash functions, its patterns, and the reports of each string.

    The patterns are None unless `is_whole` is set and they can be decoded.
    """
    held = tuple(f"v{i}" for i in range(1, case.strings + 1))
    seed, shares = generator.bytes(16).hex(), case.shares()
    mechanism = Rappor(**case.parameters, seed=seed)  # type: ignore[arg-type]
    patterns = None
    if case.each > 1:
        table, counts = memoised(mechanism, held, shares, case.people, case.each, generator)
    else:
        counts = generator.multinomial(case.people, shares)
        if is_whole and mechanism.bits <= MOST_BITS:
            patterns = draw_patterns(mechanism, held, counts, generator)
            table = table_of(patterns)
        else:
            table = draw_table(mechanism, held, counts=counts, generator=generator)
    return table, patterns, dict(zip(held, counts.tolist(), strict=True))


def places(mechanism: Mechanism, values: Sequence[str]) -> Points:
    """Return the bits that each value's hashes set, shape (values, cohorts, hashes)."""
    assert isinstance(mechanism.addressing, PolynomialBloom)
    return bulk.bloom_map(mechanism.addressing, mechanism.shape.rows, values)


def candidates(case: Case) -> tuple[str, ...]:
    held = [i for i in range(1, case.strings + 1) if not (case.removed and i % 10 == 9)]
    extra = range(case.strings + 1, case.strings + case.extra + 1)
    return tuple(f"v{i}" for i in (*held, *extra))


def told(table: Table, found: Points, held: Ints, seed: int) -> Floats:
    """Return the p-values of a decoder that knows how many hold every string but the tested one.

    Then only the noise of the bits that the string sets is left.
    """
    equations = BitEquations.of(table, found, 0.0)
    weight = equations.weight(np.full(equations.share.shape, equations.mean))
    z = held / table.total * BloomDesign(found, weight, equations.mean).norms
    p: Floats = norm.sf(z + np.random.default_rng(seed).normal(size=held.size))
    return p


@dataclass(frozen=True)
class Run:
    """One table, decoded at alpha .05 (`score`) and .2 (`loose`).

    `matched_3`, `matched_1`: recall of the smallest p-values, taken until more are false than
    google/rappor reported. `told_3`, `told_1`: recall by the p-values of `told`, at 3 standard
    errors and alpha .05, and at 1 and .2. `seconds`: processor time without hashing the candidates.
    `megabytes`: peak of the process in this and all earlier runs of the case. `bits_3`, `bits_1`:
    as `matched_3` and `matched_1`, but from the bits of whole reports.
    """

    case: str
    seed: int
    score: Score
    loose: Score
    matched_3: Share
    matched_1: Share
    told_3: Share
    told_1: Share
    seconds: float
    megabytes: int
    bits_3: Share | None = None
    bits_1: Share | None = None


def run(name: str, seed: int, is_whole: bool) -> Run:
    case = CASES[name]
    generator = np.random.default_rng([seed, *name.encode()])
    table, patterns, truth = drawn(case, generator, is_whole)
    listed = candidates(case)
    found = places(table.mechanism, listed)

    def decoded(rule: Rule) -> Estimates:
        return decode(replace(table, whole=patterns), listed, rule=rule, places=found)

    started = time.process_time()
    estimates = decoded(Rule())
    seconds = time.process_time() - started
    noise = table.mechanism.std_error(reports=table.total) / table.total
    held = np.array([truth.get(value, 0) for value in listed])

    def matched(p_value: Floats) -> tuple[Share, Share]:
        order, taken = np.argsort(p_value, kind="stable"), np.zeros(len(listed), dtype=bool)
        taken[order[np.cumsum(held[order] == 0) <= case.reference.false]] = True
        three, one = (recall(held, taken, times * noise * table.total) for times in (3, 1))
        return three, one

    matched_3, matched_1 = matched(estimates.p_value)
    bits_3, bits_1 = None, None
    if is_whole:
        bits_3, bits_1 = matched(decode(table, listed, places=found).p_value)
    best = told(table, found, held, seed)
    return Run(
        case=name,
        seed=seed,
        score=scored(estimates, truth, noise),
        loose=scored(decoded(LOOSE_RULE), truth, noise),
        matched_3=matched_3,
        matched_1=matched_1,
        told_3=recall(held, Rule().discovers(held, best), 3 * noise * table.total),
        told_1=recall(held, LOOSE_RULE.discovers(held, best), noise * table.total),
        seconds=round(seconds, 3),
        megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        bits_3=bits_3,
        bits_1=bits_1,
    )


@dataclass(frozen=True)
class Row:
    """All runs of a case together: sums of shares, means of the other figures.

    `over_bits_3`, `over_bits_1`: mean number of strings by which `matched_3` and `matched_1` exceed
    those from bits, in its standard errors; 0 where no table differs.
    """

    case: str
    tables: int
    detected: float
    false: float
    at_3: Share
    at_1: Share
    loose_at_1: Share
    matched_3: Share
    matched_1: Share
    told_3: Share
    told_1: Share
    variation: float
    nominal: Share
    selected: Share
    seconds: float
    megabytes: int
    too_false: bool
    over_bits_3: float | None
    over_bits_1: float | None

    @classmethod
    def of(cls, runs: Sequence[Run]) -> "Row":
        scores = [run.score for run in runs]
        return cls(
            case=runs[0].case,
            tables=len(runs),
            detected=float(np.mean([score.detected for score in scores])),
            false=float(np.mean([score.false for score in scores])),
            at_3=Share.of(score.at_3 for score in scores),
            at_1=Share.of(score.at_1 for score in scores),
            loose_at_1=Share.of(run.loose.at_1 for run in runs),
            matched_3=Share.of(run.matched_3 for run in runs),
            matched_1=Share.of(run.matched_1 for run in runs),
            told_3=Share.of(run.told_3 for run in runs),
            told_1=Share.of(run.told_1 for run in runs),
            variation=float(np.mean([score.variation for score in scores])),
            nominal=Share.of(score.nominal for score in scores),
            selected=Share.of(score.selected for score in scores),
            seconds=float(np.median([run.seconds for run in runs])),
            megabytes=max(run.megabytes for run in runs),
            too_false=any(score.false > max(5, 0.15 * score.detected) for score in scores),
            over_bits_3=_over([(run.matched_3, run.bits_3) for run in runs]),
            over_bits_1=_over([(run.matched_1, run.bits_1) for run in runs]),
        )

    def __str__(self) -> str:
        """Return a line of the table in docs/mechanisms/rappor.md."""
        r = CASES[self.case].reference
        return (
            f"| {self.case} | {len(candidates(CASES[self.case])):,} "
            f"| {r.detected}, {r.false}, {r.at_3}, {r.at_1} | {r.variation:.3f} | {r.nominal:.2f} "
            f"| {r.seconds:.1f} | {self.detected:.0f}, {self.false:.1f}, {self.at_3}, {self.at_1} "
            f"| {_percent(self.told_3)} | {_percent(self.told_1)} | {self.variation:.3f} "
            f"| {_percent(self.nominal)} | {_percent(self.selected)} "
            f"| {self.seconds:.2f} |"
        )


def _over(pairs: Sequence[tuple[Share, Share | None]]) -> float | None:
    more = np.array([ours.part - bits.part for ours, bits in pairs if bits])
    if not more.size:
        return None
    return float(more.mean() * more.size**0.5 / max(more.std(ddof=1), 1e-9))


def _percent(share: Share) -> str:
    return f"{float(share):.2f}" if share.whole else "-"


def bars(rows: Sequence[Row]) -> list[Bar]:
    """Return every bar; after "but", a bar says how many cases may miss it."""
    reference = {row.case: CASES[row.case].reference for row in rows}

    def cases(what: str, but: int, met: Callable[[Row, Reference], bool]) -> Bar:
        missed = [row.case for row in rows if not met(row, reference[row.case])]
        named = f" ({', '.join(missed)})" if missed else ""
        wanted = f"all of {len(rows)}" + (f" but {but}" if but else "")
        return Bar(
            f"cases {what}; not{named or ': none'}",
            len(rows) - len(missed),
            wanted,
            len(missed) <= but,
        )

    def within_a_string(row: Row, ours: Share, theirs: Share) -> bool:
        return ours.part >= float(theirs) * ours.whole - row.tables

    nominal = float(np.mean([float(row.nominal) for row in rows if row.nominal.whole]))
    paired, far = "of no less recall than bits, with as many false", "2 standard errors apart"
    beside_bits = [
        cases(f"{paired}, at 3 sigma, {far}", 0, lambda row, _: (row.over_bits_3 or 0) >= -2),
        cases(f"{paired}, at 1 sigma, {far}", 0, lambda row, _: (row.over_bits_1 or 0) >= -2),
    ]
    return [
        cases("of at most max(5, 15 %) false, every table", 0, lambda row, _: not row.too_false),
        cases(
            "of no less recall at 3 sigma", 4, lambda row, ref: float(row.at_3) >= float(ref.at_3)
        ),
        cases(
            "of 85 % of that recall",
            0,
            lambda row, ref: row.case == NO_RECALL_BAR or float(row.at_3) >= 0.85 * float(ref.at_3),
        ),
        cases("of less variation", 3, lambda row, ref: row.variation < ref.variation),
        cases(
            "of at most .01 more variation",
            0,
            lambda row, ref: row.variation <= ref.variation + 0.01,
        ),
        Bar("nominal intervals of discoveries that hold", nominal, ">= 0.85", nominal >= 0.85),
        cases(
            "of no less recall at 1 sigma, at alpha 0.2",
            3,
            lambda row, ref: float(row.loose_at_1) >= float(ref.at_1),
        ),
        cases(
            "of the same recall at 3 sigma, a string apart, with as many false",
            0,
            lambda row, ref: within_a_string(row, row.matched_3, ref.at_3),
        ),
        cases(
            "of the same recall at 1 sigma, a string apart, with as many false",
            0,
            lambda row, ref: within_a_string(row, row.matched_1, ref.at_1),
        ),
        *(beside_bits if rows[0].over_bits_3 is not None else ()),
    ]


def measured(names: Sequence[str], seeds: int, is_whole: bool) -> Iterator[list[Run]]:
    """Yield the runs of each case, which has its own process, because memory is a process's
    peak."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a second thread costs processor time while it waits
    fresh = multiprocessing.get_context("spawn")
    for name in names:
        with fresh.Pool(1) as pool:
            yield pool.starmap(run, [(name, seed, is_whole) for seed in range(1, seeds + 1)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true", help="the cases of up to 200 candidates")
    parser.add_argument("--whole", action="store_true", help="8 bits from whole reports")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    asked, started = parser.parse_args(), campaign.provenance()
    names = [n for n, c in CASES.items() if not asked.sample or len(candidates(c)) <= SAMPLED]
    if asked.whole:
        names = [name for name in names if CASES[name].parameters["bits"] <= MOST_BITS]
    runs, rows = list[Run](), list[Row]()
    for some in measured(names, WHOLE_SEEDS if asked.whole else SEEDS, asked.whole):
        runs += some
        rows.append(Row.of(some))
        print(rows[-1], flush=True)
    made = bars(rows)
    status = campaign.shown(made)
    campaign.write(asked.out, started, {"bars": made, "rows": rows, "runs": runs})
    sys.exit(status)


if __name__ == "__main__":
    main()
