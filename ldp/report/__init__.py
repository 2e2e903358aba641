"""Report: one self-contained HTML file of results, with the truth where it is known."""

from ldp.report.page import render

__all__ = ["render"]
