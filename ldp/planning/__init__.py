"""Plans: the error and the price of each mechanism for a question, before data are collected."""

from ldp.errors import from_extra

with from_extra("ldp.planning", "server"):
    from ldp.planning.mechanism_choice import CANDIDATES, candidates, report_bytes, tune
    from ldp.planning.numbers import Mean, Percentile
    from ldp.planning.plan import (
        Forecast,
        PercentilePlan,
        Plan,
        bound_ratio,
        lower_bound,
        plan,
        plan_percentile,
    )
    from ldp.planning.question import Question
    from ldp.planning.values import CrossTable, Shares
    from ldp.planning.word_questions import Words

__all__ = [
    "CANDIDATES",
    "CrossTable",
    "Forecast",
    "Mean",
    "Percentile",
    "PercentilePlan",
    "Plan",
    "Question",
    "Shares",
    "Words",
    "bound_ratio",
    "candidates",
    "lower_bound",
    "plan",
    "plan_percentile",
    "report_bytes",
    "tune",
]
