"""The audit of the client passes the real one and catches every mutant."""

from collections.abc import Callable

import numpy as np
import pytest

from ldp.audit.client import audit_client
from ldp.client import Client
from tests.client_mutants import SAMPLING_MUTANTS, SECRET_MUTANTS, share_flips
from tests.statistics import ALPHA

PERIODS, DEVICES = 80, 40
"""Fewer than those of `ldp audit --client`: what is caught with these is caught there."""


def audited(periods: int, devices: int, make: Callable[..., Client] = Client) -> list[str]:
    generator = np.random.default_rng(1)
    audit = audit_client(generator, make=make, periods=periods, devices=devices, alpha=ALPHA)
    return [str(finding) for finding in audit.findings]


@pytest.mark.slow
@pytest.mark.statistical
def test_the_audit_of_the_client_passes() -> None:
    """False failure: ALPHA. The twins are the mutants below."""
    assert audited(PERIODS, DEVICES) == []


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("mutant", SAMPLING_MUTANTS)
def test_the_periods_of_one_device_catch_the_mutant(mutant: str) -> None:
    """The weakest is 10 standard errors beyond its level, so missed with probability below
    1e-20. The twin is the real client above."""
    assert audited(PERIODS, 0, SAMPLING_MUTANTS[mutant]())


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("mutant", SECRET_MUTANTS)
def test_new_devices_catch_the_mutant(mutant: str) -> None:
    """No chance is involved: 240 bits of a secret of two bytes are 0 on all devices, every bit of
    the product's is the same, and each of 40 devices would have to stay in its cohort when its
    secret is made anew, of which one would be enough. The twin is the real client above."""
    assert audited(0, DEVICES, SECRET_MUTANTS[mutant]())


@pytest.mark.slow
@pytest.mark.statistical
def test_flips_that_values_share_are_caught_through_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """10 standard errors beyond its level, so missed with probability below 1e-20. The twin is the
    real client above."""
    share_flips(monkeypatch)
    assert any("per-value" in finding for finding in audited(0, DEVICES))
