"""Which question is worth asking: what each mechanism would see of it, at what price."""

from ldp.planning.plan import (
    CANDIDATES,
    Forecast,
    Plan,
    Question,
    candidates,
    lower_bound,
    plan,
    report_bytes,
    tuned,
)

__all__ = [
    "CANDIDATES",
    "Forecast",
    "Plan",
    "Question",
    "candidates",
    "lower_bound",
    "plan",
    "report_bytes",
    "tuned",
]
