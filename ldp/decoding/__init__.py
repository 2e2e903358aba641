"""Decoders: the channel of a table inverted, with a standard error on every number."""

from ldp.decoding.counts import METHODS, decode, weighted_mean

__all__ = ["METHODS", "decode", "weighted_mean"]
