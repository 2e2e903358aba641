"""Collection of reports: the collector, the report store, and aggregation."""

from ldp.errors import from_extra

with from_extra("ldp.collection", "server"):
    from ldp.collection.aggregate import aggregate
    from ldp.collection.store import ReportWriter, report_files

__all__ = ["ReportWriter", "aggregate", "report_files"]
