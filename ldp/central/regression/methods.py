"""The provable methods, by name: how each splits its budget and solves its noisy moments.

A method sees `Rows` and nothing else, releases with one source of noise, and all of its releases
together cost what `Budget` says.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ldp.arrays import Floats
from ldp.central import Noise
from ldp.central.regression.boosting import Boosted
from ldp.central.regression.calibration import Budget, Fit, Shares, calibrate, release_moments
from ldp.central.regression.laplace import FromLaplace, solve_robust
from ldp.central.regression.rows import Rows
from ldp.errors import ParameterError
from ldp.regression import ridge
from ldp.regression.moments import Moments


class Method(Protocol):
    """A way to fit privately."""

    @property
    def words(self) -> str:
        """A line of description."""
        ...

    def fit(self, rows: Rows, budget: Budget, noise: Noise) -> Fit:
        """Release moments of `rows` with `noise` and solve them."""
        ...


@dataclass(frozen=True, kw_only=True)
class FromMoments:
    """Method with Gaussian noise on X'X and X'y (and on the smallest eigenvalue), then `solve`."""

    words: str
    solve: Callable[[Moments], Floats]
    split: float = 0.5
    eigenvalue_share: float | None = None

    def fit(
        self,
        rows: Rows,
        budget: Budget,
        noise: Noise,
        split: float | None = None,
        eigenvalue_share: float | None = None,
    ) -> Fit:
        if self.eigenvalue_share is None and eigenvalue_share is not None:
            raise ParameterError("eigenvalue_share is for methods that release the eigenvalue")
        share = self.eigenvalue_share if eigenvalue_share is None else eigenvalue_share
        if self.eigenvalue_share is not None and not share:
            raise ParameterError("eigenvalue_share must lie in (0, 1) for this method")
        shares = Shares.of(split=self.split if split is None else split, eigenvalue=share or 0.0)
        scales = calibrate(shares, mu=budget.mu, norm=rows.norm, neighbours=budget.neighbours)
        moments = release_moments(rows, scales, noise)
        return Fit(self.solve(moments), budget.cost, moments)


METHODS: dict[str, Method] = {
    "ridge": FromMoments(
        words="noise-calibrated ridge, for every direction its own (our default)",
        solve=ridge.floored,
        split=1 / 3,
    ),
    "spectral-ridge": FromMoments(
        words="one ridge, of the length of the noise", solve=ridge.spectral
    ),
    "const-ssp-full": FromMoments(words="one safe ridge (Piazza 2021)", solve=ridge.safe),
    "ada-ssp": FromMoments(
        words="safe ridge less the smallest eigenvalue (Wang 2018)",
        solve=ridge.adaptive,
        eigenvalue_share=1 / 3,
    ),
    "ada-ssp-budget": FromMoments(
        words="the same, 5 % of the budget for the eigenvalue (Piazza 2021)",
        solve=ridge.adaptive,
        eigenvalue_share=0.05,
    ),
    "ssp": FromMoments(words="no ridge at all (Vu and Slavkovic 2009)", solve=ridge.none),
    "robust": FromLaplace(
        words="clipped moments with Laplace noise, pure epsilon (Honkela and others 2018)",
        solve=solve_robust,
    ),
    "boosted": Boosted(),
}
"""Every provable method; the first is the default."""

PURE = tuple(name for name, method in METHODS.items() if isinstance(method, FromLaplace))
"""Methods with Laplace noise, whose delta is 0."""
