"""Tests, in folders like those of the package; conformance and audit run over the catalogue."""
