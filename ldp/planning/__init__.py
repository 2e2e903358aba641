"""Which question is worth asking: what each mechanism would see of it, at what price."""

from ldp.planning.candidates import CANDIDATES, candidates, tuned
from ldp.planning.plan import Forecast, Plan, plan
from ldp.planning.question import Question, lower_bound, report_bytes

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
