"""Registry as JSON for clients in other languages: nothing is left to compute but the reports.

`ldp registry export` writes these bytes, and a collector serves them. An app bundles them or pins
their SHA-256. `docs/wire.md`, section 13, is the specification.
"""

import json
import math
from typing import Any

from ldp.accounting.policy import length
from ldp.files import finite
from ldp.mechanisms.base import threshold
from ldp.mechanisms.joint_base import parts_of
from ldp.registry.definitions import Group, Metric
from ldp.registry.registry import Registry

FORMAT = 1
"""Version of the JSON's form."""


def resolved_bytes(registry: Registry) -> bytes:
    """Return the registry as JSON in UTF-8, the same bytes for equal registries: categories and
    seeds in full, thresholds (docs/wire.md, 4) as decimal text, lengths of time in seconds.
    Dictionaries and owners are left out."""
    product: dict[str, Any] = {"name": registry.product}
    if registry.lifetime_epsilon != math.inf:
        product["lifetime_epsilon"] = registry.lifetime_epsilon
    if registry.development:
        product["development"] = True
    if registry.sealing_keys:
        product["sealing_keys"] = registry.sealing_keys
    document = {
        "format": FORMAT,
        "product": product,
        "groups": {name: _group(group) for name, group in registry.groups.items()},
        "metrics": {name: _metric(metric) for name, metric in registry.metrics.items()},
    }
    return json.dumps(document, separators=(",", ":"), default=sorted).encode() + b"\n"


def _group(group: Group) -> dict[str, Any]:
    caps = group.caps
    return _stated(
        window=length(caps.window),
        window_epsilon=caps.window_epsilon,
        lifetime_epsilon=caps.lifetime_epsilon,
        report_epsilon=caps.report_epsilon,
        lateness=length(group.lateness),
        trust=group.trust if group.needs_shuffler else None,
    )


def _metric(metric: Metric) -> dict[str, Any]:
    mechanism: Any = metric.mechanism
    # infinite where nothing bounds what a changing value tells, or nothing is memoised per value
    changing = mechanism.changing_per_value if metric.memoise == "per-value" else math.inf
    return _stated(
        version=metric.version,
        group=metric.group,
        description=metric.description,
        expires=metric.expires.isoformat(),
        reports_per_window=metric.reports_per_window,
        memoise=metric.memoise or None,
        epoch=length(metric.epoch) if metric.epoch else None,
        presence="relayed" if metric.needs_shuffler else metric.presence,
        none=mechanism.placeholder if metric.presence == "hidden" else None,
        cleans=metric.cleans or None,
        other=metric.other,
        of=[member.name for member in metric.members] or None,
        mechanism=mechanism.parameters(),
        fingerprint=mechanism.fingerprint.hex(),
        thresholds=[
            {name: str(threshold(getattr(part.channel, name))) for name in ("touched", "untouched")}
            for part in parts_of(mechanism)
        ],
        epsilon=None if metric.needs_shuffler else mechanism.cost.epsilon,
        price=metric.price,
        changing_per_value=finite(changing),
    )


def _stated(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
