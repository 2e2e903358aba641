"""Mechanisms that are small enough to enumerate."""

from ldp import (
    CountMeanSketch,
    HadamardCountMeanSketch,
    RandomizedResponse,
    UnaryEncoding,
)


def rr(categories: int, epsilon: float) -> RandomizedResponse:
    return RandomizedResponse(categories=tuple(map(str, range(categories))), epsilon=epsilon)


def unary(epsilon: float, variant: str = "symmetric") -> UnaryEncoding:
    return UnaryEncoding(categories=("0", "1", "2"), epsilon=epsilon, variant=variant)


def cms(epsilon: float) -> CountMeanSketch:
    return CountMeanSketch(epsilon=epsilon, rows=2, width=8, seed="00")


def hcms(epsilon: float) -> HadamardCountMeanSketch:
    return HadamardCountMeanSketch(epsilon=epsilon, rows=1, width=4, seed="00")
