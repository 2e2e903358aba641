"""Do RAPPOR's discoveries keep their error rate, and do their intervals hold?

`python -m simulations.discoveries` draws 200 tables of 300,000 clients at Chrome's noise for each
of three lists: fewer candidates than equations, more, and more without every tenth string that is
held, redraws the hash functions each time and decodes each table. It prints the mean proportion of
false discoveries beside alpha, with and without correction, and how many intervals hold, writes
them as JSON and exits 1 when a bar is missed. Of the list with strings missing nothing is promised:
its figures are what they are. `--sample`: 20 tables.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ldp import Rappor
from ldp.server import decode
from ldp.simulation import draw_table
from ldp.tables.estimates import Rule
from simulations import campaign
from simulations.campaign import Bar
from simulations.rappor_cases import Share, scored

STRINGS, CLIENTS = 100, 300_000
SETTINGS = {"bits": 8, "hashes": 2, "cohorts": 128, "f": 0.5, "p": 0.25, "q": 0.75}
UNCORRECTED = Rule(control="none")


@dataclass(frozen=True)
class List:
    """So many candidates; `missing`: every tenth string that is held is not among them."""

    candidates: int
    missing: bool


LISTS = {
    "fewer candidates than equations": List(200, False),
    "more candidates than equations": List(1_200, False),
    "a tenth of the strings missing": List(1_200, True),
}


@dataclass(frozen=True)
class Run:
    """One table: `uncorrected`, discoveries that are false without correction, of how many."""

    list: str
    seed: int
    discovered: int
    false: Share
    uncorrected: Share
    nominal: Share
    selected: Share


def runs(name: str, tables: int, method: str) -> Iterator[Run]:
    listed = LISTS[name]
    weights = np.exp(-np.arange(STRINGS) / 20)
    everyone = tuple(f"v{i}" for i in range(STRINGS))
    absent = tuple(f"absent-{i}" for i in range(listed.candidates - STRINGS))
    held = tuple(v for i, v in enumerate(everyone) if not (listed.missing and i % 10 == 9))
    for seed in range(1, tables + 1):
        generator = np.random.default_rng([seed, listed.candidates, listed.missing])
        mechanism = Rappor(**SETTINGS, seed=generator.bytes(16).hex())  # type: ignore[arg-type]
        counts = generator.multinomial(CLIENTS, weights / weights.sum())
        table = draw_table(mechanism, everyone, counts=counts, generator=generator)
        estimates = decode(table, held + absent, method=method)
        truth = dict(zip(everyone, counts.tolist(), strict=True))
        score = scored(estimates, truth, mechanism.std_error(table.total) / table.total)
        wild = estimates.detected(UNCORRECTED)
        false = sum(not truth.get(estimates.values[i], 0) for i in np.flatnonzero(wild))
        yield Run(
            list=name,
            seed=seed,
            discovered=score.detected,
            false=Share(score.false, score.detected),
            uncorrected=Share(false, int(wild.sum())),
            nominal=score.nominal,
            selected=score.selected,
        )


def proportion(shares: Iterable[Share]) -> tuple[float, float]:
    """Mean false-discovery proportion, 0 where nothing is discovered, and its standard error."""
    each = np.array([part / max(1, whole) for part, whole in shares])
    return float(each.mean()), float(each.std(ddof=1) / each.size**0.5)


def bars(made: list[Run]) -> list[Bar]:
    """Every line that must hold, of each list."""
    lines = []
    for name, listed in LISTS.items():
        some = [run for run in made if run.list == name]
        mean, error = proportion(run.false for run in some)
        wild, wild_error = proportion(run.uncorrected for run in some)
        nominal = float(Share.of(run.nominal for run in some))
        selected = float(Share.of(run.selected for run in some))
        if listed.missing:
            gate = float(np.mean([run.false.part <= max(5, 0.15 * run.discovered) for run in some]))
            lines += [
                Bar(f"{name}: tables of at most max(5, 15 %) false", gate, ">= 0.99", gate >= 0.99),
                Bar(f"{name}: false-discovery proportion, +- {error:.4f}", mean, "any", True),
                Bar(f"{name}: selected intervals that hold", selected, "any", True),
                Bar(f"{name}: nominal intervals that hold", nominal, "any", True),
            ]
            continue
        lines += [
            Bar(
                f"{name}: false-discovery proportion",
                mean,
                f"<= 0.05 + 2 x {error:.4f}",
                mean <= 0.05 + 2 * error,
            ),
            Bar(
                f"{name}: the same with --control none",
                wild,
                f"> 0.05 + 2 x {wild_error:.4f}",
                wild > 0.05 + 2 * wild_error,
            ),
            Bar(f"{name}: selected intervals that hold", selected, ">= 0.95", selected >= 0.95),
            Bar(f"{name}: nominal intervals that hold", nominal, "any", True),
        ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true", help="20 tables of each list")
    parser.add_argument("--method", default="auto", help="regression, the default, or lasso-ols")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    asked, started = parser.parse_args(), campaign.provenance()
    tables = 20 if asked.sample else 200
    made = [run for name in LISTS for run in runs(name, tables, asked.method)]
    lines = bars(made)
    status = campaign.shown(lines)
    task = {"method": asked.method, "tables": tables, "settings": SETTINGS}
    campaign.write(asked.out, started, {**task, "bars": lines, "runs": made})
    sys.exit(status)


if __name__ == "__main__":
    main()
