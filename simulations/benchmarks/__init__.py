"""Speed and size of `ldp` beside its bars and its peer: `python -m simulations.benchmarks`."""
