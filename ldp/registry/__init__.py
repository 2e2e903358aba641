"""Registry of metrics: metrics.toml, its lock, and what its metrics can cost."""

from ldp.protocol.keys import duration
from ldp.registry.definitions import Group, Metric
from ldp.registry.registry import Registry

__all__ = ["Group", "Metric", "Registry", "duration"]
