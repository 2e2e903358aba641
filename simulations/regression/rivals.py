"""List all provable methods: those of `ldp regress`, and published ones that lose to them."""

from functools import partial

from ldp.central.regression import METHODS as OURS
from ldp.central.regression.laplace import FromLaplace
from ldp.central.regression.methods import Method
from simulations.regression.bayes import naive, noise_aware, posterior_mean
from simulations.regression.functional import Functional
from simulations.regression.output import Output

METHODS: dict[str, Method] = {
    **OURS,
    "robust-bayes": FromLaplace(
        words="the posterior mean of the robust moments, the noise taken for what it is",
        solve=partial(posterior_mean, noise_aware),
    ),
    "robust-bayes-naive": FromLaplace(
        words="their posterior mean, the noise ignored (Nieminen 2017)",
        solve=partial(posterior_mean, naive),
    ),
    "functional": Functional(),
    "output": Output(),
}
"""Every provable method, by name."""
