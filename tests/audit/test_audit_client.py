"""The audit of the client passes the real one and catches every mutant."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from ldp.audit import client
from ldp.audit.client import COMMON_PARTS, audit_client, client_stages, repeated_starts
from ldp.audit.draws import Draws
from ldp.audit.encoder import REPEATED
from ldp.audit.judging import Checks, judge
from ldp.client import Client
from ldp.protocol.randomness import BitSource, SeededBits, SystemBits
from tests.client_mutants import (
    AUDIT_ALPHA,
    NOISE_MUTANTS,
    RESPONSE_MUTANTS,
    SAMPLING_MUTANTS,
    SECRET_MUTANTS,
    VALUE_MUTANTS,
    few_responses,
    missed,
    no_dummies,
    one_report_a_window,
)
from tests.statistics import ALPHA

SCALES = {
    "plain": 0.3,
    "every fourth call plain": 0.7,
    "one category plain": 1.0,
    "odd devices plain": 1.2,
    "lies name the value before": 1.2,
    "epochs renewed": 0.8,
}
"""Factors on an audit's devices and days, by mutant; others have 2, in lives 3.

Bits of reports follow from a seed, and secrets of lives do not. With 3, the bound of `missed` is
1e-21 in the median or less, so that it lies above ALPHA with a probability of about ALPHA.
"""


def checks_of(part: str, scale: float, make: Callable[..., Client] = Client) -> list[Checks]:
    stages = client_stages(Draws(1), make=make, scale=scale, parts=[part])
    return [check for stage in stages for check in stage]


@pytest.fixture
def few_mechanisms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave only the metrics that the mutants change, which takes a tenth of the time."""
    monkeypatch.setattr("ldp.audit.client.CATALOGUE", {})


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("part", COMMON_PARTS)
def test_the_audit_of_the_client_passes(part: str) -> None:
    """This fails falsely with probability ALPHA. The twins are the mutants below."""
    assert judge(checks_of(part, 0.5), ALPHA).findings == ()


@pytest.mark.statistical
@pytest.mark.usefixtures("few_mechanisms")
def test_a_small_audit_of_the_client_passes() -> None:
    """An audit at a tenth of the size fails falsely with probability ALPHA. The twins are the
    mutants below."""
    assert audit_client(1, scale=0.1, alpha=ALPHA).findings == ()


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("source", "passes"), [(SystemBits, True), (partial(SeededBits, b"0"), False)]
)
def test_noise_that_a_client_draws_again_after_a_start_is_refuted(
    source: Callable[[], BitSource], passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise of one start looks random.

    The test fails falsely with probability ALPHA. That none of 40 reports differs though the noise
    is new has a probability below 1e-17.
    """
    monkeypatch.setattr("ldp.audit.encoder.AFTER_START", 40)

    def make(path: Path, *, bits: BitSource, **others: Any) -> Client:
        return Client(path, bits=source(), **others)

    checks = repeated_starts([make, make], np.random.default_rng(1))
    assert judge(checks, ALPHA).passed is passes


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("mutant", SAMPLING_MUTANTS)
def test_the_periods_of_one_device_catch_the_mutant(mutant: str) -> None:
    """The weakest mutant is 10 standard errors beyond its level, so missed with probability below
    1e-20.

    The twin is the real client above.
    """
    assert judge(checks_of("periods", 0.27, SAMPLING_MUTANTS[mutant]()), AUDIT_ALPHA).findings


@pytest.mark.statistical
@pytest.mark.usefixtures("few_mechanisms")
@pytest.mark.parametrize("make", [*VALUE_MUTANTS, Client])
def test_batches_that_follow_from_a_value_are_refuted(
    make: type[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bit or a half follows from the value in 304 batches, by chance with probability 2**-304.

    The twin is the real client, which fails falsely with AUDIT_ALPHA.
    """
    one_report_a_window(monkeypatch)
    findings = judge(checks_of("reports", 0.3, make), AUDIT_ALPHA).findings
    assert bool(findings) == (make is not Client)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("mutant", SECRET_MUTANTS)
def test_new_devices_catch_the_mutant(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No chance is involved; the twin is the real client above.

    Two mutants repeat secret bits on all devices. In the third, one of 64 devices that leaves its
    cohort is enough.
    """
    few_responses(monkeypatch, ["value-1"])
    assert judge(checks_of("lives", 1.0, SECRET_MUTANTS[mutant]()), AUDIT_ALPHA).findings


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.usefixtures("few_mechanisms")
@pytest.mark.parametrize("mutant", NOISE_MUTANTS)
def test_reports_with_fresh_noise_catch_the_mutant(
    mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mutant is missed with probability ALPHA at most (`missed`). The twin is the real client
    above."""
    count, mutate = NOISE_MUTANTS[mutant]
    one_report_a_window(monkeypatch)
    mutate(monkeypatch)
    checks = checks_of("reports", SCALES.get(mutant, 2.0))
    assert missed(checks, f"metric 'new': {count}") < ALPHA
    findings = [finding.what for finding in judge(checks, AUDIT_ALPHA).findings]
    assert all("'new'" in what or " metrics" in what for what in findings)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("mutant", RESPONSE_MUTANTS)
def test_lives_catch_the_mutant(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant is missed with probability ALPHA at most (`missed`). The twin is the real client
    above."""
    count, mutate = RESPONSE_MUTANTS[mutant]
    mode = "value" if "'value-" in count else "epoch"
    few_responses(monkeypatch, [f"{mode}-1", f"{mode}-2"])
    mutate(monkeypatch)
    assert missed(checks_of("lives", SCALES.get(mutant, 3.0)), count) < ALPHA


@pytest.mark.slow
@pytest.mark.statistical
def test_messages_for_a_shuffler_are_held_through_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The honest client fails falsely with probability ALPHA.

    The twin sends no dummies, and is missed with probability ALPHA at most (`missed`).
    """
    assert judge(checks_of("messages", 0.2), ALPHA).findings == ()
    no_dummies(monkeypatch)
    assert missed(checks_of("messages", 1.0), "records of 'a'") < ALPHA


@pytest.mark.statistical
def test_values_stay_for_some_days() -> None:
    """The number of days is binomial, so beyond these limits with probability below 1e-9. The seed
    is fixed."""
    which = client._of_days(client.TRIED, 1000, np.random.default_rng(1))
    days, chance = client.DEVICES * 999, REPEATED + (1 - REPEATED) / client.TRIED
    stays = np.count_nonzero(which[:, 1:] == which[:, :-1])
    assert binom.ppf(1e-9, days, chance) <= stays <= binom.isf(1e-9, days, chance)
