"""Histories of values, and a device that reports them."""

from ldp.audit.memoised_histories import MakeDevice
from ldp.mechanisms.memoisation import MemoisedMechanism
from tests.mutants import (
    device_of,
)


def stays(value: str, days: int) -> tuple[str, ...]:
    return (value,) * days


def changes(first: str, then: str, days: int) -> tuple[str, ...]:
    return (first,) * (days // 2) + (then,) * (days - days // 2)


def honest(mechanism: MemoisedMechanism, epoch: str | None) -> MakeDevice:
    return device_of(
        lambda secret, bits: mechanism.encoder(bits, secret=secret, epoch=epoch).encode
    )
