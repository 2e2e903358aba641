"""Plans: the error and the price of each mechanism for a question, before data are collected."""

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
