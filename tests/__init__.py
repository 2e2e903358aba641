"""Tests mirror the package; conformance and audit run over the whole catalogue."""
