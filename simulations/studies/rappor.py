"""Study RAPPOR: its two worked examples, and what its decoder finds.

The decoder is tried with more users and other cohorts. The examples are Boenisch 2019, sections 5.2
(a filter through both responses) and 5.3 (three answers, three bits). The noise is Chrome's, normal
(f = 1/2) and for low frequencies (f = 1/4).
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import binom

from ldp import Rappor
from ldp.arrays import Floats
from ldp.protocol.kinds import as_bits
from ldp.protocol.randomness import SeededBits
from ldp.protocol.wire import split_report
from ldp.server import Table, decode
from ldp.simulation import draw_table
from simulations.campaign import Bar
from simulations.study import Row, Setting, Study, column, figure

NOISE: Mapping[str, Mapping[str, Any]] = {
    "normal": {"f": 0.5, "p": 0.25, "q": 0.75},
    "low frequency": {"f": 0.25, "p": 0.25, "q": 0.75},
}
SEED = "5eed"

# --- one filter through both responses -------------------------------------------------------

EXAMPLE = Rappor(bits=32, hashes=2, cohorts=128, seed=SEED, **NOISE["normal"])
DEVICES = 200


def _responses(device: int) -> tuple[int, int, int]:
    """Return the filter, the permanent response and the report of a device as integers of 32 bits.

    The encoder is the one that devices run.
    """
    encoder = EXAMPLE.encoder(SeededBits(f"device {device}".encode()), epoch="only")
    report = encoder.encode("value")
    row, payload = split_report(report, EXAMPLE.header, EXAMPLE.layout)
    assert encoder.frozen is not None
    frozen = EXAMPLE.header + encoder.frozen
    _, permanent = split_report(frozen, EXAMPLE.header, EXAMPLE.layout)
    number = EXAMPLE.layout.payload_number
    return as_bits(EXAMPLE.cells("value", row)), number(permanent), number(payload)


def _bits(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    names = ("in_filter", "in_permanent", "in_report")
    responses = _responses(int(setting["device"]))
    return dict(zip(names, (float(one.bit_count()) for one in responses), strict=True))


def _ones(low: float, high: float, rows: list[Row]) -> Floats:
    """Return the exact law of the number of ones among 32 bits, averaged over the devices' filters.

    A bit is 1 with probability `high` where the filter has a 1, else with `low`.
    """
    places = np.arange(33)
    found = np.zeros(33)
    for row in rows:
        held = int(row["in_filter"])
        found += np.convolve(
            binom.pmf(np.arange(held + 1), held, high),
            binom.pmf(np.arange(33 - held), 32 - held, low),
        )
    assert places.size == found.size
    return found / len(rows)


def _laws(rows: list[Row]) -> dict[str, Floats]:
    half = EXAMPLE.f / 2
    channel = EXAMPLE.channel
    return {
        "in_permanent": _ones(half, 1 - half, rows),
        "in_report": _ones(float(channel.untouched), float(channel.touched), rows),
    }


def _draw_bits(rows: list[Row]) -> Figure:
    made = figure(high=4.6)
    shown, counted = made.subplots(2, 1, height_ratios=(1, 2))
    pictures = _responses(int(rows[0]["device"]))
    grid = [[one >> place & 1 for place in range(32)] for one in pictures]
    shown.imshow(grid, cmap="Greys", aspect="equal", vmin=0, vmax=1)
    shown.set_yticks(range(3), ["filter", "permanent", "report"])
    shown.set_xticks(range(0, 32, 4))
    for name, law in _laws(rows).items():
        seen = np.bincount(column(rows, name).astype(int), minlength=33) / len(rows)
        words = name.replace("_", " ")
        (line,) = counted.step(range(33), seen, where="mid", label=f"{words}; dots: exact law")
        counted.plot(range(33), law, "o", markersize=3, color=line.get_color())
    counted.set(xlabel="ones of 32 bits", ylabel="share of devices")
    counted.legend()
    return made


def _bars_bits(rows: list[Row]) -> list[Bar]:
    bars = []
    for name, law in _laws(rows).items():
        ones = np.arange(33)
        mean = float(law @ ones)
        error = math.sqrt(float(law @ (ones - mean) ** 2) / len(rows))
        seen = float(column(rows, name).mean())
        what = f"mean ones {name.replace('_', ' ')}, exact {mean:.3f}"
        bars.append(Bar(what, seen, "within 5 standard errors", abs(seen - mean) < 5 * error))
    return bars


# --- three answers, three bits ---------------------------------------------------------------

ANSWERS = ("a1", "a2", "a3")
PLACES = np.array([[0, 1], [0, 2], [1, 2]])
HELD = np.array([4000, 2000, 3000])
BITS = np.array([6000, 7000, 5000])
TABLES = 400


def _three(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    """Return the count of an answer, decoded by the paper's decoder.

    The bits' counts are true (no noise), or come from noisy tables. The default decoder is for many
    cohorts and says little here. Our RAPPOR needs more than three bits for two hashes, so it has a
    fourth, empty bit here.
    """
    place = ANSWERS.index(setting["answer"])
    if setting["noise"] == "none":
        design = np.zeros((3, 3))
        np.add.at(design, (PLACES, np.arange(3)[:, None]), 1)
        solved = float(np.linalg.solve(design, BITS)[place])
        return {"held": float(HELD[place]), "mean": solved, "std": 0.0, "stated": 0.0}
    mechanism = Rappor(bits=4, hashes=2, cohorts=1, seed=SEED, **NOISE[setting["noise"]])
    touched, total = np.append(BITS, 0), int(HELD.sum())
    channel = mechanism.channel
    found, stated = [], []
    for _ in range(TABLES):
        ones = generator.binomial(touched, float(channel.touched))
        ones += generator.binomial(total - touched, float(channel.untouched))
        table = Table(mechanism, ones[None].astype(np.uint32), np.array([total]))
        made = decode(
            table, ANSWERS, method="lasso-ols", places=PLACES[:, None, :].astype(np.uint32)
        )
        found.append(float(made.count[place]))
        stated.append(float(made.std_error[place]))
    return {
        "held": float(HELD[place]),
        "mean": float(np.mean(found)),
        "std": float(np.std(found)),
        "stated": float(np.mean(stated)),
    }


def _draw_three(rows: list[Row]) -> Figure:
    made = figure(high=3.4)
    axes = made.subplots()
    for offset, noise in enumerate(("none", *NOISE)):
        places = np.arange(3) + 0.25 * (offset - 1)
        mean, std = (column(rows, name, noise=noise) for name in ("mean", "std"))
        axes.bar(places, mean, 0.22, yerr=std, label=f"noise: {noise}")
    axes.plot(np.arange(3), HELD, "k_", markersize=40, label="held")
    axes.set_xticks(range(3), ANSWERS)
    axes.set_ylabel("estimated count, one standard deviation")
    axes.legend()
    return made


def _bars_three(rows: list[Row]) -> list[Bar]:
    solved = column(rows, "mean", noise="none")
    noisy = [row for row in rows if row["noise"] != "none"]
    off = max(
        abs(float(row["mean"]) - float(row["held"])) / (float(row["std"]) / math.sqrt(TABLES))
        for row in noisy
    )
    spread = max(abs(float(row["stated"]) / float(row["std"]) - 1) for row in noisy)
    exact = float(np.abs(solved - HELD).max())
    return [
        Bar("without noise, off 4,000, 2,000 and 3,000 by at most", exact, "< 1e-6", exact < 1e-6),
        Bar(
            "with noise, means off in standard errors of a mean, at worst", off, "< 4.5", off < 4.5
        ),
        Bar(
            "stated standard error beside the measured one, at worst", spread, "< .2", spread < 0.2
        ),
    ]


# --- recovery against the number of users, and of cohorts ------------------------------------

STRINGS, ABSENT = 100, 200
NAMES = tuple(f"v{i}" for i in range(1, STRINGS + 1))
CANDIDATES = NAMES + tuple(f"absent-{i}" for i in range(ABSENT))
SHARES = 1 / np.arange(1, STRINGS + 1) / (1 / np.arange(1, STRINGS + 1)).sum()


def _found(
    noise: str, users: int, cohorts: int, tables: int, generator: np.random.Generator
) -> dict[str, float]:
    """Return means of found and false strings, and of errors, over `tables` tables.

    People hold 100 strings with Zipf frequencies; nobody holds the other 200. Filters have 32 bits
    and 2 hashes, with new hash functions for each table. The decision rule has 5 % false
    discoveries.
    """
    found, false, errors = [], [], []
    for _ in range(tables):
        mechanism = Rappor(
            bits=32, hashes=2, cohorts=cohorts, seed=generator.bytes(8).hex(), **NOISE[noise]
        )
        counts = generator.multinomial(users, SHARES)
        table = draw_table(mechanism, NAMES, counts=counts, generator=generator)
        made = decode(table, CANDIDATES)
        hits = made.detected()
        found.append(int(hits[:STRINGS].sum()))
        false.append(int(hits[STRINGS:].sum()))
        truth = np.append(counts, np.zeros(ABSENT))
        errors.append(float(((made.count - truth) ** 2).mean()))
    return {
        "found": float(np.mean(found)),
        "false": float(np.mean(false)),
        "error": math.sqrt(float(np.mean(errors))) / users,
    }


def _recovery(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    return _found(setting["noise"], int(setting["users"]), 128, 4, generator)


def _draw_recovery(rows: list[Row]) -> Figure:
    made = figure()
    axes = made.subplots()
    for noise in NOISE:
        users = column(rows, "users", noise=noise)
        (line,) = axes.plot(users, column(rows, "found", noise=noise), "o-", label=f"{noise} noise")
        axes.plot(users, column(rows, "false", noise=noise), "x:", color=line.get_color())
    axes.set(xscale="log", xlabel="users", ylabel="of 100 strings found (dots), false (crosses)")
    axes.legend()
    return made


def _bars_recovery(rows: list[Row]) -> list[Bar]:
    normal, low = (column(rows, "found", noise=noise) for noise in NOISE)
    false, found = (float(column(rows, name).sum()) for name in ("false", "found"))
    share, least = false / (false + found), float((low - normal).min())
    first, last = float(normal[0]), float(normal[-1])
    return [
        Bar("false of all discovered", share, "<= .07", share <= 0.07),
        Bar("strings found more at low-frequency noise, at least", least, ">= 0", least >= 0),
        Bar("strings found of 10,000,000 users, normal noise", last, ">= 80", last >= 80),
        Bar("strings found of 10,000 users, normal noise", first, "<= 10", first <= 10),
    ]


def _cohorts(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    return _found("normal", int(setting["users"]), int(setting["cohorts"]), 3, generator)


def _draw_cohorts(rows: list[Row]) -> Figure:
    made = figure(wide=8.0)
    left, right = made.subplots(1, 2)
    for users in USERS:
        cohorts = column(rows, "cohorts", users=users)
        (line,) = left.plot(cohorts, column(rows, "found", users=users), "o-", label=f"{users:,}")
        left.plot(cohorts, column(rows, "false", users=users), "x:", color=line.get_color())
        right.plot(cohorts, column(rows, "error", users=users), "o-")
    left.set(xscale="log", xlabel="cohorts", ylabel="found (dots), false (crosses)")
    left.legend(title="users")
    right.set(xscale="log", yscale="log", xlabel="cohorts", ylabel="error of a frequency")
    return made


def _bars_cohorts(rows: list[Row]) -> list[Bar]:
    found, places = (column(rows, name, users=USERS[-1]) for name in ("found", "cohorts"))
    few, chosen, many = (float(found[places == number][0]) for number in (2, 128, 1024))
    false = float(column(rows, "false").max())
    return [
        Bar("found with 128 cohorts over found with 2", chosen / few, ">= 2", chosen >= 2 * few),
        Bar(
            *("found with 1,024 cohorts over found with 128", many / chosen, "<= 1.05"),
            met=many <= 1.05 * chosen,
        ),
        Bar("false discoveries of any setting, at most", false, "<= 8", false <= 8),
    ]


USERS = (30_000, 1_000_000)
STUDIES = (
    Study(
        "rappor-bits",
        "one value through the permanent and the instantaneous response (Boenisch 5.2)",
        tuple({"device": device} for device in range(DEVICES)),
        _bits,
        _draw_bits,
        _bars_bits,
    ),
    Study(
        "rappor-three",
        "three answers from three bits, without noise and with Chrome's (Boenisch 5.3)",
        tuple({"noise": n, "answer": a} for n in ("none", *NOISE) for a in ANSWERS),
        _three,
        _draw_three,
        _bars_three,
    ),
    Study(
        "rappor-recovery",
        "strings found against the number of users, with Chrome's two noise levels",
        tuple(
            {"noise": noise, "users": users}
            for noise in NOISE
            for users in (10**4, 30_000, 10**5, 300_000, 10**6, 3 * 10**6, 10**7)
        ),
        _recovery,
        _draw_recovery,
        _bars_recovery,
    ),
    Study(
        "rappor-cohorts",
        "too few cohorts and too many",
        tuple(
            {"users": users, "cohorts": cohorts}
            for users in USERS
            for cohorts in (1, 2, 4, 8, 16, 32, 128, 1024)
        ),
        _cohorts,
        _draw_cohorts,
        _bars_cohorts,
    ),
)
