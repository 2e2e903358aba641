"""Fit from sums of products: published methods, with noise as printed or as coded, and ours."""

import dataclasses
from collections.abc import Callable

import numpy as np

from ldp.accounting import Neighbours
from ldp.arrays import Floats
from ldp.central import Simulated
from ldp.central.regression import METHODS, Budget
from ldp.central.regression.methods import FromMoments
from simulations.regression.posterior import ada_ops, ops
from simulations.regression.published import PUBLISHED, Claim
from simulations.regression.sums import Sums

Fit = Callable[[Sums, float, float, np.random.Generator], Floats]


def claimed(claim: Claim) -> Fit:
    """Return the fit of a published method."""

    def fit(sums: Sums, epsilon: float, delta: float, generator: np.random.Generator) -> Floats:
        X, y = sums.root
        return claim.fit(X, y, epsilon=epsilon, delta=delta, generator=generator)

    return fit


def provable(name: str, split: float | None = None) -> Fit:
    """Return the fit of one of our methods, between data sets with one row more or less."""
    method = METHODS[name]
    if split is not None:
        assert isinstance(method, FromMoments)
        method = dataclasses.replace(method, split=split)

    def fit(sums: Sums, epsilon: float, delta: float, generator: np.random.Generator) -> Floats:
        budget = Budget(epsilon=epsilon, delta=delta, neighbours=Neighbours.ADD_REMOVE)
        noise = Simulated(generator)
        return method.fit(sums.as_rows, budget, noise).coefficients

    return fit


def at_gamma(gamma: float) -> Claim:
    """Return adaSSPbudget with this share of the budget for the smallest eigenvalue."""
    return dataclasses.replace(PUBLISHED["ada-ssp-budget"], eigenvalue=gamma)


CODED: dict[str, Fit] = {
    "ssp": claimed(PUBLISHED["ssp-wang-code"]),
    "ssp_halved": claimed(PUBLISHED["ssp-wang"]),
    "ada_ssp": claimed(PUBLISHED["ada-ssp-wang-code"]),
    "ops": lambda sums, epsilon, delta, generator: ops(
        sums, epsilon=epsilon, delta=delta, generator=generator
    ),
    "ada_ops": lambda sums, epsilon, delta, generator: ada_ops(
        sums, epsilon=epsilon, delta=delta, generator=generator
    ),
    "ridge": provable("ridge"),
}
"""Methods of Wang's repository, with our default beside them."""
