"""Measure whether intervals of a regression of randomised answers hold as often as they say.

`python -m simulations.surveys` draws 10,000 surveys of each setting (design, model, number of
people, true share) and fits each. It prints the share of 95 % intervals that hold the true
coefficient, and writes all as JSON. It exits 1 when a share is below 94 or above 96 %. Wald's
intervals of log odds may reach 98 %, because near shares of 0 and 1 they are too wide. The twin has
errors that take the answers for the outcomes, and must miss. `--sample` draws 200 surveys of each
setting.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Literal

import numpy as np

from ldp.arrays import Floats
from ldp.regression import OutcomeDesign, RandomizedOutcomeRegression
from simulations import campaign
from simulations.campaign import Bar

SURVEYS, SAMPLE = 10_000, 200
DESIGNS = {
    "forced": OutcomeDesign.forced(truth=2 / 3, yes=1 / 6),
    "warner": OutcomeDesign.warner(statement=0.8),
    "unrelated": OutcomeDesign.unrelated(sensitive=0.7, unrelated_yes=0.25),
    "unrelated, estimated": OutcomeDesign.unrelated(
        sensitive=0.7, unrelated_yes=0.25, unrelated_people=1_000
    ),
}
UNRELATED = 0.25
"""True share of yes to the unrelated question."""


@dataclass(frozen=True)
class Setting:
    design: str
    model: Literal["linear", "logistic"]
    people: int
    share: float
    of_people: bool = False


SETTINGS = [
    *(
        Setting(design, model, people, share)
        for design, people in (("forced", 1_000), ("forced", 4_000), ("warner", 2_000))
        for model in ("linear", "logistic")
        for share in (0.1, 0.3, 0.5, 0.7, 0.9)
    ),
    *(
        Setting(design, model, 2_000, share)
        for design in ("unrelated", "unrelated, estimated")
        for model in ("linear", "logistic")
        for share in (0.1, 0.5, 0.9)
    ),
    *(Setting("forced", "linear", 1_000, share, of_people=True) for share in (0.1, 0.5, 0.9)),
]


@dataclass(frozen=True)
class Coverage:
    """Shares of intervals that hold the true value, of the surveys whose fit converged.

    `slope`, `intercept`: of the model's intervals; `wald_slope`, `wald_intercept`: of Wald's, which
    the linear model uses anyway. `naive`: of intervals with the errors of an outcome without noise.
    """

    setting: Setting
    surveys: int
    converged: int
    slope: float
    intercept: float
    wald_slope: float
    wald_intercept: float
    naive: float
    seconds: float


def truth_of(setting: Setting) -> tuple[float, float]:
    """Return the true slope and intercept for a covariate from -1 to 1.

    In the linear model, shares reach from 0.5 to 1.5 times the middle one, or the rest does.
    """
    share = setting.share
    if setting.model == "linear":
        return 0.5 * min(share, 1 - share), share
    return 0.5, float(np.log(share / (1 - share)))


def drawn(setting: Setting, generator: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Return the covariates, the true outcomes and the answers of a survey."""
    slope, intercept = truth_of(setting)
    x = generator.uniform(-1, 1, setting.people)
    predictor = intercept + slope * x
    share = predictor if setting.model == "linear" else 1 / (1 + np.exp(-predictor))
    held = generator.random(setting.people) < share
    design = DESIGNS[setting.design]
    chance = np.where(held, design.yes_if_yes, design.yes_if_no)
    return x, held.astype(np.float64), (generator.random(setting.people) < chance).astype(float)


def covered(setting: Setting, surveys: int, seed: int = 1) -> Coverage:
    """Return the coverage of a setting over fresh surveys."""
    generator = np.random.default_rng([seed, SETTINGS.index(setting)])
    design, started = DESIGNS[setting.design], time.process_time()
    holds, by_wald, naive, converged = np.zeros(2), np.zeros(2), 0, 0
    for _ in range(surveys):
        x, held, answers = drawn(setting, generator)
        used = design
        if design.yes_if_no_variance:
            seen = generator.binomial(1_000, UNRELATED) / 1_000
            used = OutcomeDesign.unrelated(
                sensitive=0.7, unrelated_yes=seen, unrelated_people=1_000
            )
        model = RandomizedOutcomeRegression(used, setting.model)
        model.fit(x[:, None], answers, of_people=setting.of_people)
        if not model.converged_:
            continue
        converged += 1
        wanted = np.array(truth_of(setting))
        if setting.of_people:
            wanted = np.linalg.lstsq(np.column_stack([x, np.ones_like(x)]), held, rcond=None)[0]
        low, high = model.coefficient_intervals(0.95).T
        holds += (low <= wanted) & (wanted <= high)
        low, high = model.coefficient_intervals(0.95, wald=True).T
        by_wald += (low <= wanted) & (wanted <= high)
        half = design.gain * (high - low)[0] / 2
        naive += bool(abs(model.coef_[0] - wanted[0]) <= half)
    slope, intercept, *wald = (np.append(holds, by_wald) / max(1, converged)).tolist()
    seconds, least = time.process_time() - started, naive / max(1, converged)
    return Coverage(setting, surveys, converged, slope, intercept, wald[0], wald[1], least, seconds)


def bars(results: list[Coverage], most: float) -> list[Bar]:
    """Return the bars: coverage within `most` of 95 %, the twin's below 90 %."""
    lines = []
    for result in results:
        what = " ".join(map(str, vars(result.setting).values()))
        for name in ("slope", "intercept"):
            figure, wald = getattr(result, name), getattr(result, f"wald_{name}")
            is_met = abs(figure - 0.95) <= most
            lines.append(Bar(f"{what}: {name} in 95 % intervals", figure, f"+- {most:.3g}", is_met))
            if result.setting.model == "logistic":
                line, is_met = (
                    f"{what}: {name} in Wald's",
                    0.95 - most <= wald <= 0.98 + most - 0.01,
                )
                lines.append(Bar(line, wald, "from the same least to 0.98", is_met))
        share = result.converged / result.surveys
        lines.append(Bar(f"{what}: converged", share, "0.99 or more", share >= 0.99))
        lines.append(
            Bar(f"{what}: twin without the noise", result.naive, "< 0.9", result.naive < 0.9)
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", action="store_true", help="200 surveys of each setting")
    parser.add_argument("--out", type=Path, help="JSON file of the result")
    arguments = parser.parse_args()
    made, results = campaign.provenance(), []
    surveys, most = (SAMPLE, 0.08) if arguments.sample else (SURVEYS, 0.01)
    with ProcessPoolExecutor(2) as pool:
        for result in pool.map(covered, SETTINGS, repeat(surveys)):
            results.append(result)
            print(result, file=sys.stderr, flush=True)
    lines = bars(results, most)
    campaign.write(arguments.out, made, {"surveys": surveys, "results": results, "bars": lines})
    return campaign.shown(lines)


if __name__ == "__main__":
    raise SystemExit(main())
