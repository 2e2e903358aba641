"""Registry of metrics: metrics.toml, its lock, and what its metrics can cost."""

from ldp.registry.definitions import Group, Metric, read_values
from ldp.registry.registry import Registry
from ldp.registry.toml_file import duration

__all__ = ["Group", "Metric", "Registry", "duration", "read_values"]
