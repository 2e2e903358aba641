"""Audit of whether the printed privacy is delivered: exact laws of reports, and tests of encoders
against these laws by their bytes alone."""

from ldp.errors import from_extra

with from_extra("ldp.audit", "server"):
    from ldp.audit.black_box import epsilon_at_least
    from ldp.audit.encoder import audit_encoder
    from ldp.audit.judging import Audit, Finding
    from ldp.audit.law import exact_findings, exact_law, worst_ratio

__all__ = [
    "Audit",
    "Finding",
    "audit_encoder",
    "epsilon_at_least",
    "exact_findings",
    "exact_law",
    "worst_ratio",
]
