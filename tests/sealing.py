"""What tests of sealed reports share: keys, sealed items, a collector that opens them."""

from collections.abc import Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from ldp.protocol.batch import Item
from ldp.protocol.sealed_report import Content
from ldp.protocol.sealing_keys import PrivateKey, PublicKey, open_with
from ldp.registry import Registry
from tests.collecting import TODAY, Service

KEY, RETIRED, FOREIGN = (
    PrivateKey(X25519PrivateKey.from_private_bytes(bytes([number]) * 32)) for number in (1, 2, 3)
)


def sealed(
    registry: Registry, items: Sequence[Item], day: date = TODAY, key: PrivateKey = KEY
) -> list[Item]:
    """The same reports, sealed to a key."""
    queues = registry.queues()
    return [
        PublicKey(key.public).seal(queue, queues[queue].size, Content(day, item))
        for item in items
        for queue in (registry.metric(item.metric).queue,)
    ]


def opening(folder: Path, *keys: PrivateKey, **settings: Any) -> Service:
    """A collector that opens reports sealed to these keys."""
    return Service(folder, open_report=partial(open_with, keys or (KEY,)), **settings)
