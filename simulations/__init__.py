"""Studies and benchmarks of `ldp`, run from the root of the repository."""
