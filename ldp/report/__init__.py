"""How it is read: one self-contained HTML file from results, and the truth where it is known."""

from ldp.report.page import render

__all__ = ["render"]
