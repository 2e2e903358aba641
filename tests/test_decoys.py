"""Decoys fare like candidates that nobody holds."""

import numpy as np
import pytest

from ldp import RandomizedResponse, Rappor
from ldp.errors import DecodeError, ParameterError
from ldp.server import Rule, Table, decode, decode_with_decoys
from ldp.simulation import draw_table

VALUES = tuple(f"v{i}" for i in range(300))
COUNTS = np.array([20_000, 10_000, 5_000, 2_000, 1_000] * 8 + [0] * 260)


def table(seed: int = 1, cohorts: int = 64) -> Table:
    settings = {"bits": 8, "hashes": 2, "f": 0.5, "p": 0.25, "q": 0.75, "seed": f"{seed:08x}"}
    mechanism = Rappor(cohorts=cohorts, **settings)  # type: ignore[arg-type]
    return draw_table(mechanism, VALUES, counts=COUNTS, generator=np.random.default_rng(seed))


@pytest.mark.exact
def test_decoys_are_counted_and_left_out() -> None:
    found = decode_with_decoys(table(), VALUES, decoys=200, rule=Rule(alpha=0.2))
    assert found.values == VALUES
    assert found.count.shape == found.std_error.shape == found.p_value.shape == (300,)
    assert found.details["decoys"] == 200
    together = decode(table(), (*VALUES, *(f"\0decoy {i}" for i in range(200))))
    assert found.count.tolist() == together.count[:300].tolist()
    largest = found.p_value[found.detected()].max()
    assert found.details["decoys_discovered"] == (together.p_value[300:] <= largest).sum()
    by_count = decode_with_decoys(table(), VALUES, decoys=200, rule=Rule(threshold=1.0))
    assert by_count.details["decoys_discovered"] == (together.count[300:] >= 1).sum()


@pytest.mark.slow
@pytest.mark.statistical
def test_decoys_pass_as_often_as_absent_candidates_where_strings_are_missing() -> None:
    """40 tables, every third string that is held not on the list, each candidate tested alone at
    5 %: of 10,400 absent candidates and of 12,000 decoys the same share passes, within 5 standard
    errors of two binomials, doubled for what a table's share in common: 6e-7, and seeds are fixed;
    strings that are held pass more often, which is the twin."""
    listed = np.array([i for i in range(300) if i >= 40 or i % 3])
    rule, absent, decoys, held = Rule(control="none"), 0, 0, 0
    for seed in range(40):
        found = decode_with_decoys(table(seed), [VALUES[i] for i in listed], decoys=300, rule=rule)
        passed = found.p_value <= found.p_value[found.detected()].max()
        absent += int(passed[COUNTS[listed] == 0].sum())
        held += int(passed[COUNTS[listed] > 0].sum())
        decoys += found.details["decoys_discovered"]
    shares = absent / (40 * 260), decoys / (40 * 300)
    error = np.sqrt(sum(s * (1 - s) / n for s, n in zip(shares, (10_400, 12_000), strict=True)))
    assert abs(shares[0] - shares[1]) < 10 * error
    assert held / (40 * (COUNTS[listed] > 0).sum()) > shares[1] + 10 * error


@pytest.mark.exact
def test_what_takes_no_decoys() -> None:
    for wrong in (0, -1, 2.0, 1_000_001):
        with pytest.raises(ParameterError, match="decoys must be a whole number"):
            decode_with_decoys(table(), VALUES, decoys=wrong)  # type: ignore[arg-type]
    mechanism = RandomizedResponse(categories=("a", "b", "c"), epsilon=1.0)
    with pytest.raises(DecodeError, match="cells of their own"):
        decode_with_decoys(Table.empty(mechanism), decoys=3)
    with pytest.raises(DecodeError, match="the list of candidates is empty"):
        decode_with_decoys(table(), decoys=3)
