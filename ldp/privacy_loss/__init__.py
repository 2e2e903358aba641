"""Privacy loss from the distributions of reports: exact composition of many reports, and
amplification by shuffling."""

from ldp.errors import from_extra

with from_extra("ldp.privacy_loss", "server"):
    from ldp.privacy_loss.composition import Composition, compose
    from ldp.privacy_loss.shuffled_dummies import DummyMessages
    from ldp.privacy_loss.shuffling import (
        AnyMechanism,
        ShuffledComposition,
        amplify_by_shuffling,
        compose_shuffled,
        honest_reports,
        largest_shuffled,
        least_reports,
        shuffled_delta,
    )

__all__ = [
    "AnyMechanism",
    "Composition",
    "DummyMessages",
    "ShuffledComposition",
    "amplify_by_shuffling",
    "compose",
    "compose_shuffled",
    "honest_reports",
    "largest_shuffled",
    "least_reports",
    "shuffled_delta",
]
