"""Words are found from their beginnings, and hardly ever one that nobody holds."""

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import binom

from ldp import LocalHashing, PrefixExtension
from ldp.cli import commands
from ldp.errors import DecodeError, ParameterError
from ldp.server import discover_prefixes
from ldp.simulation import draw_table
from ldp.tables.estimates import Rule
from ldp.tables.table import Table
from tests.statistics import ALPHA, share_p

WORDS = ("abba", "cab", "ca", "b", "aaaa", "")
COUNTS = np.array([4000, 3000, 2000, 1500, 1000, 500])


def small(**changed: object) -> PrefixExtension:
    usual: dict[str, object] = {"epsilon": 3.0, "rows": 512, "seed": "0a", "length": 4}
    return PrefixExtension(**{**usual, "alphabet": "abc", "groups": 2, **changed})  # type: ignore[arg-type]


def drawn(mechanism: PrefixExtension, scale: int = 1, seed: int = 1) -> Table:
    generator = np.random.default_rng(seed)
    return draw_table(mechanism, WORDS, counts=scale * COUNTS, generator=generator)


@pytest.mark.statistical
def test_words_of_all_lengths_are_found_and_their_counts_told() -> None:
    """Each of 6 counts is within 6 standard errors, except with probability 2e-8.

    The twin, counts not scaled to all reports, is not.
    """
    found = discover_prefixes(
        drawn(small(rows=8192), 100), rule=Rule(alpha=1e-6, control="bonferroni")
    )
    named = {found.values[i] for i in np.flatnonzero(found.detected())}
    assert named == set(WORDS)
    at = [found.values.index(word) for word in WORDS]
    z = (found.count[at] - 100 * COUNTS) / found.std_error[at]
    assert np.abs(z).max() < 6
    unscaled = found.count[at] * found.details["reports_about_words"] / found.reports
    assert np.abs((unscaled - 100 * COUNTS) / found.std_error[at]).max() > 6


@pytest.mark.statistical
def test_fakes_about_whole_words_move_a_count_by_what_is_printed() -> None:
    """1 % fakes all name one word; a part of its share is taken from honest reports.

    Half a percent of the rise is allowed; this fails falsely with probability 1e-9 (over 12 seeds
    it is off by 0.05 +- 0.07 %). The twin has only the channel's leverage, which is half of the
    rise.
    """
    mechanism = small()
    honest = drawn(mechanism, 99)
    each = honest.total // 99 // 256
    counts, reports = np.zeros((512, mechanism.shape.columns), np.int64), np.zeros(512, np.int64)
    for row in range(256, 512):
        counts[row, list(mechanism.cells("abba", row))] = reports[row] = each
    fakes = Table(mechanism, counts, reports)
    before, after = discover_prefixes(honest), discover_prefixes(honest + fakes)
    place = after.values.index("abba")
    held = before.count[before.values.index("abba")]
    honest_share = 1 - each * 256 / after.details["reports_about_words"]
    rise = after.count[place] - held * honest_share * after.reports / before.reports
    share = each * 256 / after.reports
    assert rise == pytest.approx(after.reports * mechanism.fakes_move(share), rel=0.005)
    assert after.details["fakes_move"] == after.reports * mechanism.fakes_move()
    assert rise != pytest.approx(after.reports * share * mechanism.support.leverage, rel=0.4)


@pytest.mark.campaign
@pytest.mark.statistical
def test_intervals_of_found_words_hold_and_false_words_are_as_rare_as_said() -> None:
    """Intervals of one word hold in 90 to 99 % of 200 tables (binomial tails at ALPHA).

    A false word at 0.05 is in no more tables than binomial tails allow. This fails falsely with
    probability 3 ALPHA; seeds are fixed. The twin has intervals of half the width.
    """
    held = narrow = false = 0
    for seed in range(200):
        found = discover_prefixes(drawn(small(), 4, seed), rule=Rule(control="bonferroni"))
        low, high = found.interval(0.95)
        at = found.values.index("abba")
        held += bool(low[at] <= 4 * COUNTS[0] <= high[at])
        narrow += bool(4 * abs(4 * COUNTS[0] - (low[at] + high[at]) / 2) <= high[at] - low[at])
        named = {found.values[i] for i in np.flatnonzero(found.detected())}
        false += bool(named - set(WORDS))
    assert narrow < binom.ppf(ALPHA, 200, 0.94) <= held <= binom.ppf(1 - ALPHA, 200, 0.96)
    assert false <= binom.ppf(1 - ALPHA, 200, 0.05)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("is_wrong", [False, True])
def test_intervals_of_a_word_of_few_reports_hold(
    is_wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of 20 people hold a word, and some 5 of them report whole words.

    In 100 tables or more its interval holds in 95 % at least, except with probability ALPHA at
    most. The twin takes estimates for the true counts.
    """
    if is_wrong:
        monkeypatch.setattr("ldp.decoding.prefixes.bounds_of_few", lambda *few, is_sample: None)
    held = tables = 0
    for seed in range(250):
        mechanism = small(epsilon=6.0, seed=f"{seed:04x}", groups=4)
        generator = np.random.default_rng(seed)
        counts = np.array([10, 4, 2, 2, 1, 1])
        table = draw_table(mechanism, WORDS, counts=counts, generator=generator)
        try:
            found = discover_prefixes(table)
        except DecodeError:  # no beginning stands out
            continue
        if WORDS[0] in found.values:
            at, (low, high) = found.values.index(WORDS[0]), found.interval()
            held, tables = held + bool(low[at] <= 10 <= high[at]), tables + 1
    assert tables >= 100
    assert (share_p(held, tables, 0.95, 1.0) > ALPHA) is not is_wrong


@pytest.mark.exact
def test_what_is_no_table_of_words_is_refused() -> None:
    plain = LocalHashing(epsilon=1.0, rows=64, seed="0a")
    with pytest.raises(DecodeError, match="not of mechanism prefix"):
        discover_prefixes(Table.empty(plain))
    with pytest.raises(DecodeError, match="rows a length"):
        discover_prefixes(Table.empty(small(rows=64)))
    with pytest.raises(DecodeError, match="no reports"):
        discover_prefixes(Table.empty(small()))


@pytest.mark.exact
@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"groups": 3}, "length must be a multiple of groups"),
        ({"groups": 0}, "groups"),
        ({"rows": 511}, "rows must be a multiple of groups"),
        ({"alphabet": "a"}, "alphabet"),
        ({"length": 65, "groups": 65}, "length"),
    ],
)
def test_lengths_that_do_not_divide_are_refused(changed: dict[str, object], line: str) -> None:
    with pytest.raises(ParameterError, match=line):
        small(**changed)


@pytest.mark.exact
def test_the_command_finds_words(tmp_path: object) -> None:
    drawn(small(), 10).save(f"{tmp_path}/w.table")
    done = CliRunner().invoke(commands, ["decode", f"{tmp_path}/w.table", "--out", "-"])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[1].startswith("abba,")
    with pytest.raises(ParameterError, match="puzzle"):
        CliRunner().invoke(
            commands,
            ["decode", f"{tmp_path}/w.table", "--out", "-", "--method", "puzzle, top = 3"],
            catch_exceptions=False,
        )
