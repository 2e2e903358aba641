"""The audit passes every honest encoder and catches every mutant."""

from fractions import Fraction

import numpy as np
import pytest

from ldp import CountMeanSketch
from ldp.audit import audit_encoder, report_law, worst_ratio
from ldp.audit.cells import check_reports, judge
from ldp.kernels import points
from ldp.mechanisms import Mechanism
from ldp.mechanisms.base import Example
from ldp.mechanisms.presets import PRESETS
from ldp.randomness import SeededBits, SystemBits
from ldp.simulation import encode_batch
from tests.examples import CATALOGUED, for_each_kind, for_each_mechanism
from tests.mutants import MUTANTS, Mutant, applies
from tests.statistics import ALPHA

TRIALS = 20_000


@pytest.mark.exact
@for_each_kind
def test_the_law_of_the_reports_adds_to_one(example: Example) -> None:
    for value in example.values:
        assert sum(report_law(example.mechanism, value).values()) == Fraction(1)


@pytest.mark.exact
@for_each_kind
def test_the_stated_epsilon_is_the_worst_ratio_of_the_enumerated_law(example: Example) -> None:
    assert worst_ratio(example.mechanism, example.values) == example.mechanism.channel.worst_ratio


@pytest.mark.statistical
@for_each_kind
def test_device_reports_have_the_law_they_claim(example: Example) -> None:
    encoder = example.mechanism.encoder(SeededBits(b"device"))
    audit = audit_encoder(
        example.mechanism, example.values, encoder.encode, trials=TRIALS, alpha=ALPHA
    )
    assert audit.passed, audit.findings[0]


@pytest.mark.slow
@pytest.mark.statistical
@for_each_kind
def test_device_reports_with_system_randomness_have_the_law_they_claim(example: Example) -> None:
    encoder = example.mechanism.encoder(SystemBits())
    audit = audit_encoder(
        example.mechanism, example.values, encoder.encode, trials=5 * TRIALS, alpha=ALPHA
    )
    assert audit.passed, audit.findings[0]


@pytest.mark.statistical
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_audit_catches_the_mutant(mutant: Mutant) -> None:
    caught = 0
    for mechanism, values in CATALOGUED:
        if applies(mutant, mechanism):
            encode = mutant(mechanism, SeededBits(b"mutant"))
            audit = audit_encoder(mechanism, values, encode, trials=TRIALS, alpha=ALPHA)
            assert not audit.passed, f"{mutant.__name__} of {mechanism} was not caught"
            caught += 1
    assert caught


def _batch_findings(mechanism: Mechanism, value: str, trials: int) -> list[str]:
    """Findings of the same checks on reports made in bulk."""
    generator = np.random.default_rng(7)
    repeated = np.repeat(points(mechanism.addressing, [value]), trials)
    rows, payloads = encode_batch(mechanism, repeated, generator)
    numbers = [mechanism.layout.payload_number(row.tobytes()) for row in payloads]
    checks = list(check_reports(mechanism, value, rows.astype(np.int64), payloads, numbers))
    return [str(finding) for finding in judge(checks, ALPHA).findings]


@pytest.mark.statistical
@for_each_mechanism
def test_bulk_reports_have_the_law_of_device_reports(example: Example) -> None:
    for value in example.values:
        assert _batch_findings(example.mechanism, str(value), TRIALS) == []


@pytest.fixture(scope="module")
def emoji_preset() -> CountMeanSketch:
    parameters = {**PRESETS["apple-emoji"].parameters, "seed": "00ff"}
    del parameters["mechanism"]
    return CountMeanSketch(**parameters)


@pytest.mark.statistical
def test_twenty_thousand_device_reports_of_a_full_size_sketch_pass(
    emoji_preset: CountMeanSketch,
) -> None:
    encoder = emoji_preset.encoder(SeededBits(b"full size"))
    audit = audit_encoder(emoji_preset, ["😂"], encoder.encode, trials=TRIALS, alpha=ALPHA)
    assert audit.passed, audit.findings[0]
    assert audit.checks > 3000


@pytest.mark.statistical
def test_twenty_thousand_bulk_reports_of_a_full_size_sketch_pass(
    emoji_preset: CountMeanSketch,
) -> None:
    assert _batch_findings(emoji_preset, "😂", TRIALS) == []


@pytest.mark.statistical
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_audit_catches_the_mutant_at_full_size(
    mutant: Mutant, emoji_preset: CountMeanSketch
) -> None:
    if not applies(mutant, emoji_preset):
        return
    encode = mutant(emoji_preset, SeededBits(b"full size mutant"))
    audit = audit_encoder(emoji_preset, ["😂"], encode, trials=4000, alpha=ALPHA)
    assert not audit.passed
