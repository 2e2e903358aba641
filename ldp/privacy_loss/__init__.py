"""Privacy loss from the distributions of reports: exact composition of many reports, and
amplification by shuffling."""

from ldp.privacy_loss.composition import Composition, compose
from ldp.privacy_loss.shuffling import (
    amplify_by_shuffling,
    clones_2021,
    clones_2023,
    shuffled_delta,
)

__all__ = [
    "Composition",
    "amplify_by_shuffling",
    "clones_2021",
    "clones_2023",
    "compose",
    "shuffled_delta",
]
