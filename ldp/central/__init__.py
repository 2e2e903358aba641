"""Mechanisms of a trusted curator, with the cost type of the local ones and stated neighbours.

Releases draw their noise from OpenDP (`Releases`, no seed). Simulations draw it from numpy
(`Simulated`, seeded), and say so.
"""

from ldp.errors import from_extra

with from_extra("ldp.central", "server"):
    from ldp.central.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
    from ldp.central.mechanisms import DiscreteLaplace, Exponential, Gaussian, Laplace
    from ldp.central.noise import Noise, Releases, Simulated
    from ldp.central.queries import (
        Histogram,
        ReleasedMean,
        ReleasedPercentile,
        noisy_histogram,
        noisy_mean,
        noisy_strings,
        percentile,
    )

__all__ = [
    "DiscreteLaplace",
    "Exponential",
    "Gaussian",
    "Histogram",
    "Laplace",
    "Noise",
    "ReleasedMean",
    "ReleasedPercentile",
    "Releases",
    "Simulated",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "noisy_histogram",
    "noisy_mean",
    "noisy_strings",
    "percentile",
]
