"""What mechanisms' own laws allow beyond closed forms: exact composition of many reports, and the
amplification of one among many people's by shuffling."""

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
