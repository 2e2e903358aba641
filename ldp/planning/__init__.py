"""Plans: the error and the price of each mechanism for a question, before data are collected."""

from ldp.planning.candidates import CANDIDATES, candidates, tune
from ldp.planning.percentiles import PercentilePlan, plan_percentile
from ldp.planning.plan import Forecast, Plan, plan
from ldp.planning.question import Question, bound_ratio, lower_bound, report_bytes

__all__ = [
    "CANDIDATES",
    "Forecast",
    "PercentilePlan",
    "Plan",
    "Question",
    "bound_ratio",
    "candidates",
    "lower_bound",
    "plan",
    "plan_percentile",
    "report_bytes",
    "tune",
]
