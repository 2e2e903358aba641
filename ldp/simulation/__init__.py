"""Populations, their reports, and tables drawn without reports; seeded numpy generators only."""

from ldp.simulation.populations import Population
from ldp.simulation.reports import encode_batch, simulate
from ldp.simulation.tables import draw_table

__all__ = ["Population", "draw_table", "encode_batch", "simulate"]
