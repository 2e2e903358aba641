"""What mechanisms' own laws allow beyond closed forms: exact composition of many reports."""

from ldp.privacy_loss.composition import Composition, compose

__all__ = ["Composition", "compose"]
