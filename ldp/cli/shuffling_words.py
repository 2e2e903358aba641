"""Conditions of amplified epsilons, in words."""

from ldp.mechanisms import CatalogueMechanism
from ldp.mechanisms.dummies import Dummies
from ldp.privacy_loss import DummyMessages
from ldp.privacy_loss.shuffling import Shuffled
from ldp.protocol.channel import rounded_up


def shuffling_conditions(mechanism: Shuffled, reports: int, per_person: int) -> list[str]:
    """Return what must hold for an amplified epsilon to hold, a sentence each."""
    often = "one report" if per_person == 1 else f"at most {per_person} reports"
    conditions = [
        "an independent party shuffles the batch, and hands on reports without addresses or times: "
        "it takes each report out of its device's batch, or each is sealed by itself (ldp relay)",
        "how many reports a person sends does not depend on what they would say",
        f"at least {reports:,} reports of the batch are honest and about this metric",
        f"a person sends {often} to a batch: r in one batch cost r epsilon and "
        "r e**((r - 1) epsilon) delta; fresh reports in several batches compose (ldp amplify "
        "--batches)",
    ]
    if isinstance(mechanism, DummyMessages | Dummies):
        conditions.append(
            f"the {1 + mechanism.slots} messages of a person are shuffled one by one, and none can "
            "be told to be of the same person as another: otherwise the value can be read as it is"
        )
    if isinstance(mechanism, CatalogueMechanism) and mechanism.is_memoisable:
        conditions.append(
            "the report's noise is fresh: memoised reports are the same person's, and can be told "
            f"to be; together they cost {rounded_up(mechanism.cost.lifetime)}"
        )
    return conditions
