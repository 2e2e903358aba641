"""The report page: one self-contained HTML file from estimates, and the truth where it is known."""

from ldp.report.page import Numbers, Results, load, render

__all__ = ["Numbers", "Results", "load", "render"]
