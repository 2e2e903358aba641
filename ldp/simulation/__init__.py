"""Populations, their reports, and tables drawn without reports; seeded numpy generators only."""

from ldp.errors import from_extra

with from_extra("ldp.simulation", "server"):
    from ldp.simulation.bulk_reports import draw_reports, encode_batch, encode_points, points_of
    from ldp.simulation.populations import Population
    from ldp.simulation.tables import draw_estimates, draw_table, draw_tables

__all__ = [
    "Population",
    "draw_estimates",
    "draw_reports",
    "draw_table",
    "draw_tables",
    "encode_batch",
    "encode_points",
    "points_of",
]
