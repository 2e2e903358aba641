"""What fake clients can do to an estimate."""

from ldp.mechanisms.base import Mechanism
from ldp.mechanisms.bit_flip import BitFlip
from ldp.mechanisms.sketch import MeanSketch

FAKES = 0.01
"""The share of fake reports whose damage is stated with every estimate."""


def fakes_move(mechanism: Mechanism, share: float = FAKES) -> float:
    """The frequency that fake reports, `share` of all, give a value by naming it in each: `share`
    times the channel's leverage L; for a sketch of m columns share (m L - 1) / (m - 1). Fake
    reports of bit flips are all about the value, where of honest ones only so many are."""
    moved = mechanism.support.leverage
    if isinstance(mechanism, BitFlip):
        honest = (1 - share) * mechanism.bits / mechanism.buckets
        return share / (honest + share) * moved
    if isinstance(mechanism, MeanSketch):
        m = mechanism.columns
        moved = (m * moved - 1) / (m - 1)
    return share * moved
