"""Estimated: the channel of a table inverted, a standard error on every number."""

from ldp.decoding.counts import METHODS, decode, weighted_mean

__all__ = ["METHODS", "decode", "weighted_mean"]
