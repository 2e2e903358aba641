"""Private regressions exactly as they were published: constants and noise.

They serve to reproduce published figures and to check claims, never for a release. Each maps data
with statistics that it does not pay for, so none is private end to end. Some are not private even
given those statistics. `PUBLISHED` holds the noise of each; `Claim.holds` checks its claim by the
exact joint delta of all releases. The table is in docs/regression.md.

Sources: Wang 2018 and its code `suffstats_perturb.m`, `adassp.m`; Kalaja 2020, algorithms 1-3;
Piazza 2021, algorithms 1, 3 and 4; the baseline of Lev and others 2026. The negative controls are
public code, named beside each.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ldp.accounting import Neighbours
from ldp.arrays import Floats
from ldp.central import gaussian_delta, gaussian_mu
from ldp.central.gaussian import require_budget
from ldp.central.regression.calibration import joint_mu
from ldp.errors import ParameterError
from ldp.regression.noisy_moments import Scales
from ldp.regression.ridge import safe_ridge

Multiplier = Callable[[float, float], float]
"""Function from (epsilon, delta) of one release to its standard deviation times epsilon."""


def _wang(epsilon: float, delta: float) -> float:
    return math.sqrt(math.log(2 / delta))


def _dwork_roth(epsilon: float, delta: float) -> float:
    return math.sqrt(2 * math.log(1.25 / delta))


def _piazza(epsilon: float, delta: float) -> float:
    return math.sqrt(2 * math.log(2 / delta))


def _analytic(epsilon: float, delta: float) -> float:
    return epsilon / gaussian_mu(epsilon, delta)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One published method: how its releases split (epsilon, delta), and its noise.

    `eigenvalue`: share of the smallest eigenvalue, 0 if it is not released; the other releases
    halve the rest. `whole`: every release uses the whole epsilon, not a share (a mistake). `noise`:
    noise on X'X: "upper" (the upper triangle, mirrored), "full" (all entries) or "averaged".
    `identity`: multiple of the identity that is added to X'X. `rule`: the ridge, "none", "safe" or
    "adaptive". `limit`: epsilon of one release at which the proof ends, and from which `scales`
    raises ParameterError.
    """

    source: str
    multiplier: Multiplier
    eigenvalue: float = 0.0
    whole: bool = False
    noise: str = "upper"
    identity: float = 0.0
    rule: str = "none"
    limit: float = math.inf

    def scales(self, epsilon: float, delta: float) -> Scales:
        """Return the standard deviations as published, for unit bounds.

        Raises ParameterError from `limit` on.
        """
        require_budget(epsilon, delta)
        rest = (1 - self.eigenvalue) / 2
        xx = self._scale(epsilon, delta, rest)
        eigenvalue = self._scale(epsilon, delta, self.eigenvalue) if self.eigenvalue else math.inf
        return Scales(xx=xx, xy=xx, eigenvalue=eigenvalue)

    def _scale(self, epsilon: float, delta: float, share: float) -> float:
        part = epsilon if self.whole else share * epsilon
        if part >= self.limit:
            raise ParameterError(
                f"epsilon {epsilon:g} is too large for the classical Gaussian mechanism that was "
                f"published: its proof needs epsilon < {self.limit / share:.3g}; the provable "
                "methods serve every epsilon"
            )
        return self.multiplier(part, share * delta) / part

    def delta(self, epsilon: float, delta: float) -> float:
        """Return the exact delta, at the claimed epsilon, of all releases together (add/remove)."""
        return gaussian_delta(epsilon, self.mu(epsilon, delta))

    def holds(self, epsilon: float, delta: float) -> bool:
        """Return whether the claimed (epsilon, delta) holds, given public bounds."""
        return self.delta(epsilon, delta) <= delta

    def mu(self, epsilon: float, delta: float) -> float:
        """Return the exact joint mu of all releases together (add/remove)."""
        scales = self.scales(epsilon, delta)
        return joint_mu(scales, norm=1.0, neighbours=Neighbours.ADD_REMOVE)

    def fit(
        self, X: Floats, y: Floats, *, epsilon: float, delta: float, generator: np.random.Generator
    ) -> Floats:
        """Return the coefficients, shape (columns,), with numpy's noise.

        `X`: mapped rows, shape (n, columns); `y`: targets, shape (n,).
        """
        scales, columns = self.scales(epsilon, delta), X.shape[1]
        xx = X.T @ X + self.identity * np.eye(columns)
        ridge = self.ridge(xx, epsilon=epsilon, delta=delta, generator=generator)
        noise = _NOISE[self.noise](generator.normal(0.0, scales.xx, (columns, columns)))
        noisy = xx + noise + ridge * np.eye(columns)
        xy = X.T @ y + generator.normal(0.0, scales.xy, columns)
        return np.asarray(np.linalg.solve(noisy, xy), dtype=np.float64)

    def ridge(
        self, xx: Floats, *, epsilon: float, delta: float, generator: np.random.Generator
    ) -> float:
        """Return the ridge for the exact X'X `xx`, shape (columns, columns), without `identity`."""
        scales = self.scales(epsilon, delta)
        if self.rule == "none":
            return 0.0
        safe_length = safe_ridge(len(xx), scales.xx)
        if self.rule == "safe":
            return safe_length
        # the shift is one multiplier more than the scale, such as log(2 / delta) / epsilon
        shift = self.multiplier(self.eigenvalue * epsilon, self.eigenvalue * delta)
        least = np.linalg.eigvalsh(xx)[0] + scales.eigenvalue * (generator.normal() - shift)
        return max(0.0, safe_length - max(0.0, float(least)))


_NOISE: dict[str, Callable[[Floats], Floats]] = {
    "upper": lambda noise: np.triu(noise) + np.triu(noise, 1).T,
    "full": lambda noise: noise,
    "averaged": lambda noise: (noise + noise.T) / 2,
}

PUBLISHED: dict[str, Claim] = {
    "ssp-wang": Claim(source="Wang 2018, SSP", multiplier=_wang),
    "ssp-wang-code": Claim(
        source="suffstats_perturb.m: forgets to halve epsilon",
        multiplier=_wang,
        whole=True,
        noise="full",
        identity=1.0,
    ),
    "ssp-kalaja": Claim(source="Kalaja 2020, algorithm 1", multiplier=_dwork_roth, limit=1.0),
    "ssp-piazza": Claim(
        source="Piazza 2021, algorithm 1", multiplier=_piazza, identity=1.0, limit=1.0
    ),
    "ada-ssp-wang": Claim(
        source="Wang 2018, adaSSP", multiplier=_wang, eigenvalue=1 / 3, rule="adaptive"
    ),
    "ada-ssp-wang-code": Claim(
        source="adassp.m",
        multiplier=_wang,
        eigenvalue=1 / 3,
        rule="adaptive",
        noise="averaged",
        identity=1.0,
    ),
    "ada-ssp-kalaja": Claim(
        source="Kalaja 2020, algorithm 3 (fixed noise)",
        multiplier=_dwork_roth,
        eigenvalue=1 / 3,
        rule="adaptive",
        limit=1.0,
    ),
    "ada-ssp-budget": Claim(
        source="Piazza 2021, algorithm 3, gamma 0.05",
        multiplier=_piazza,
        eigenvalue=0.05,
        rule="adaptive",
        identity=1.0,
        limit=1.0,
    ),
    "const-ssp-full": Claim(
        source="Piazza 2021, algorithm 4", multiplier=_piazza, rule="safe", identity=1.0, limit=1.0
    ),
    "ada-ssp-lev": Claim(
        source="Lev and others 2026, baseline: the analytic Gaussian for each release",
        multiplier=_analytic,
        eigenvalue=1 / 3,
        rule="adaptive",
    ),
}
"""Published methods, by name."""
