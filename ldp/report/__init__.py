"""How it is read: one self-contained HTML file from estimates, and the truth where it is known."""

from ldp.report.by_category import NumbersByCategory
from ldp.report.crosstable import CrossTable
from ldp.report.numbers import Numbers
from ldp.report.page import load, render
from ldp.report.results import Results

__all__ = ["CrossTable", "Numbers", "NumbersByCategory", "Results", "load", "render"]
