"""The report page: one self-contained HTML file from estimates, and the truth where it is known."""

from ldp.report.page import Results, render

__all__ = ["Results", "render"]
