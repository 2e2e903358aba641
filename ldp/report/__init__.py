"""How it is read: one self-contained HTML file from estimates, and the truth where it is known."""

from ldp.report.page import render
from ldp.report.results import Numbers, Results, load

__all__ = ["Numbers", "Results", "load", "render"]
