"""Studies and benchmarks of `ldp`; run them from the root of the repository."""
