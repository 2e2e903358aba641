"""Is the privacy that is printed the privacy that is delivered? Exact laws, and encoders held to
them by their bytes alone."""

from ldp.audit.cells import Audit, Finding, audit_encoder
from ldp.audit.law import report_law, worst_ratio

__all__ = ["Audit", "Finding", "audit_encoder", "report_law", "worst_ratio"]
