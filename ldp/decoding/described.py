"""What every summary says of the table it came from."""

import math
from dataclasses import asdict
from typing import Any

from ldp.joint_table import JointTable
from ldp.table import Table


def described(table: Table | JointTable, method: str) -> dict[str, Any]:
    """Method, mechanism, what a report costs, days, and what the metric asks of people: the first
    keys of `Estimates.details`."""
    mechanism, cost = table.mechanism, table.mechanism.cost
    return {
        "method": method,
        "mechanism": mechanism.name,
        "fingerprint": mechanism.fingerprint.hex(),
        "epsilon": cost.epsilon,
        "lifetime_epsilon": None if math.isinf(cost.lifetime) else cost.lifetime,
        "memoised": table.memoised,
        "labels": [asdict(label) for label in table.labels],
        "windows": list(table.windows),
        **({"spelling": asdict(mechanism.spelling)} if hasattr(mechanism, "spelling") else {}),
    }
