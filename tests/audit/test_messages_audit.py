"""The audit of messages for a shuffler passes what is drawn, and catches what is not."""

import json
from typing import Any

import pytest

from ldp.audit.certificate import AuditSubject, certified
from ldp.audit.judging import judge
from ldp.audit.messages import CHEATS, CHEATS_OF_TWO, cheating, message_findings, record_checks
from ldp.mechanisms.dummies import Dummies
from ldp.privacy_loss import DummyMessages

OSLO = Dummies(categories=("Oslo", "Bergen", "Hell"), slots=2, probability=0.5)


@pytest.mark.exact
@pytest.mark.parametrize("example", Dummies.examples(), ids=["sometimes", "always"])
def test_the_audit_passes_what_is_drawn_and_catches_every_cheat(example: Any) -> None:
    """An honest encoder fails with probability 1e-6."""
    verdict, entry = certified(AuditSubject("one", example.mechanism), trials=2000, seed=1)
    assert verdict.passed, verdict
    caught = entry["cheats_caught"]
    assert len(caught) == (9 if example.mechanism.slots > 1 else 7)
    assert all(caught.values()), caught
    assert json.loads(json.dumps(entry))["claimed"] is None


@pytest.mark.exact
@pytest.mark.parametrize(("categories", "slots"), [(4, 2), (40, 3)], ids=["counted", "by pairs"])
def test_dummies_and_records_that_depend_on_each_other_are_caught(
    categories: int, slots: int
) -> None:
    """This holds where all records are counted, and where pairs are. This fails falsely with
    probability 1e-6."""
    names = tuple(map(str, range(categories)))
    mechanism = Dummies(categories=names, slots=slots, probability=0.5)
    assert judge(record_checks(mechanism, mechanism.encoder().encode, 500), 1e-6).passed
    for change in (*CHEATS_OF_TWO.values(), CHEATS["cycling dummies"], CHEATS["a record repeated"]):
        checks = record_checks(mechanism, cheating(mechanism, change), 500)
        assert not judge(checks, 1e-6).passed


@pytest.mark.exact
def test_an_audit_catches_a_certificate_that_counts_more_people(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The twin has the delta of a batch of one person more."""
    delta = DummyMessages.delta

    def wrong(messages: DummyMessages, epsilon: float, *, reports: int) -> float:
        return delta(messages, epsilon, reports=reports + 1)

    monkeypatch.setattr(DummyMessages, "delta", wrong)
    assert message_findings(OSLO)
