"""Study the curator's basic mechanisms: counts beside randomised response, and choices."""

import math

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import laplace

from ldp import CoinResponse
from ldp.accounting import Neighbours
from ldp.central import Exponential, Laplace, Simulated
from simulations.campaign import Bar
from simulations.study import Row, Setting, Study, column, figure

SHARE = 0.2
COINS = CoinResponse(alpha=0.5, beta=0.5)
TIMES = 1000
SIZES = tuple(range(5, 100, 5)) + tuple(range(100, 3001, 100))


def _smokers(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    """Return estimated shares of "yes" in one survey, as drawn in the thesis, and their spread.

    The spread is that of TIMES surveys in which exactly 20 % smoke. Local: two fair coins; central:
    Laplace noise of scale 1 / ln 3.
    """
    n = int(setting["respondents"])
    smoking = round(SHARE * n)
    channel = COINS.channel
    yes = generator.binomial(smoking, float(channel.touched), TIMES)
    yes += generator.binomial(n - smoking, float(channel.untouched), TIMES)
    local = np.asarray(channel.holders(yes, n), dtype=np.float64) / n
    noise = Laplace(epsilon=math.log(3))
    central = noise.release(np.full(TIMES, float(smoking)), Simulated(generator)) / n
    return {
        "local_one_survey": float(local[0]),
        "central_one_survey": float(central[0]),
        "local_std": float(local.std()),
        "central_std": float(central.std()),
        "local_stated": COINS.std_error(n, SHARE) / n,
        "central_stated": noise.std_error / n,
    }


def _draw_smokers(rows: list[Row]) -> Figure:
    made = figure()
    axes = made.subplots()
    n = column(rows, "respondents")
    for name, colour in (("local", "tab:orange"), ("central", "tab:blue")):
        axes.plot(n, column(rows, f"{name}_one_survey"), ".", color=colour, label=f"{name}, one")
        spread = column(rows, f"{name}_stated")
        axes.fill_between(n, SHARE - spread, SHARE + spread, alpha=0.2, color=colour)
    axes.axhline(SHARE, color="black", linewidth=0.7)
    axes.set(xlabel="respondents", ylabel="estimated share of smokers", ylim=(-0.4, 0.8))
    axes.legend(title="epsilon ln 3; band: one standard error")
    return made


def _bars_smokers(rows: list[Row]) -> list[Bar]:
    worst = max(
        abs(float(row[f"{name}_std"]) / float(row[f"{name}_stated"]) - 1)
        for row in rows
        for name in ("local", "central")
    )
    last = rows[-1]
    ratio = float(last["local_std"]) / float(last["central_std"])
    return [
        Bar("measured spread beside the stated one, at worst", worst, "<= .13", worst <= 0.13),
        Bar("local error over central at 3,000 respondents", ratio, "> 20", ratio > 20),
    ]


PRICES = (1.00, 4.01, 4.02)
BIDS = (1.0, 1.0, 1.0, 4.01)
COLOURS = {"brown": 450.0, "blue": 300.0, "green": 150.0, "grey": 100.0}
DRAWS = 100_000
CHOICES = {
    "auction": (tuple(map(str, PRICES)), [p * sum(b >= p for b in BIDS) for p in PRICES], 4.02),
    "eye colours": (tuple(COLOURS), list(COLOURS.values()), 1.0),
}


def _choices(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    """Return the exact chance of an answer, and its share of DRAWS choices."""
    answers, scores, sensitivity = CHOICES[setting["question"]]
    mechanism = Exponential(
        epsilon=setting["epsilon"], sensitivity=sensitivity, neighbours=Neighbours.ADD_REMOVE
    )
    place = answers.index(setting["answer"])
    chances = mechanism.probabilities(np.array(scores))
    shifted = np.array(scores) / mechanism.scale + generator.gumbel(size=(DRAWS, len(scores)))
    return {
        "score": scores[place],
        "chance": float(chances[place]),
        "share": float((shifted.argmax(axis=1) == place).mean()),
    }


def _draw_choices(rows: list[Row]) -> Figure:
    made = figure()
    axes = made.subplots(1, len(CHOICES))
    for axis, (question, (answers, _, _)) in zip(axes, CHOICES.items(), strict=True):
        for answer in answers:
            where = {"question": question, "answer": answer}
            epsilon = column(rows, "epsilon", **where)
            (line,) = axis.plot(epsilon, column(rows, "chance", **where), label=answer)
            axis.plot(epsilon, column(rows, "share", **where), "o", color=line.get_color())
        axis.set(title=question, xlabel="epsilon", ylabel="chance of the answer", xscale="log")
        axis.legend()
    return made


def _bars_choices(rows: list[Row]) -> list[Bar]:
    def z(row: Row) -> float:
        chance = float(row["chance"])
        error = math.sqrt(max(chance * (1 - chance), 1e-9) / DRAWS)
        return abs(float(row["share"]) - chance) / error

    worst = max(map(z, rows))
    return [Bar("shares off their chances, in standard errors, at worst", worst, "< 5", worst < 5)]


PEOPLE, THRESHOLD, PLAYED = 100, 0.005, 100_000
DENSITIES = (1.0, 2.0, 5.0)
"""Scales of the published densities (figure 3.7)."""


def _game(setting: Setting, generator: np.random.Generator) -> dict[str, float]:
    """Return the chances that a noisy mean reaches the adversary's threshold.

    Of a hundred people nobody smokes, or one. The mean has Laplace noise. The chances are exact,
    and also shares of PLAYED rounds.
    """
    scale = setting["scale"]
    chances, shares = [], []
    for smoking in (0, 1):
        middle = smoking / PEOPLE
        if not scale:
            chances.append(float(middle >= THRESHOLD))
            shares.append(chances[-1])
            continue
        mechanism = Laplace(epsilon=1 / (PEOPLE * scale), sensitivity=1 / PEOPLE)
        chances.append(float(laplace.sf(THRESHOLD, middle, mechanism.scale)))
        means = mechanism.release(np.full(PLAYED, middle), Simulated(generator))
        shares.append(float((means >= THRESHOLD).mean()))
    return {
        "none_smoking": chances[0],
        "one_smoking": chances[1],
        "none_share": shares[0],
        "one_share": shares[1],
        "guessed_right": (1 - chances[0] + chances[1]) / 2,
        "factor": math.exp(min(1 / (PEOPLE * scale), 700.0)) if scale else 0.0,
    }


def _draw_game(rows: list[Row]) -> Figure:
    made = figure(12.0, 3.6)
    *games, densities = made.subplots(1, len(rows) + 1)
    for axis, row in zip(games, rows, strict=True):
        x = np.linspace(-0.03, 0.04, 701)
        for smoking, colour in ((0, "tab:blue"), (1, "tab:orange")):
            middle = smoking / PEOPLE
            if row["scale"]:
                law = laplace.pdf(x, middle, row["scale"])
                axis.plot(x, law, color=colour, label=f"{smoking} smoking")
                axis.fill_between(x, law, where=x >= THRESHOLD, alpha=0.3, color=colour)
            else:
                axis.vlines(middle, 0, 1, color=colour, label=f"{smoking} smoking")
        axis.axvline(THRESHOLD, color="black", linestyle=":")
        axis.set(xlabel="what is told", title=f"scale {row['scale']:g}")
    games[0].legend(fontsize=7)
    x = np.linspace(-10, 10, 401)
    for scale in DENSITIES:
        densities.plot(x, laplace.pdf(x, 0, scale), label=f"scale {scale:g}")
    densities.set(title="densities")
    densities.legend(fontsize=7)
    return made


def _bars_game(rows: list[Row]) -> list[Bar]:
    sure, little, much = rows
    noisy = rows[1:]
    off = max(
        abs(float(row[f"{who}_share"]) - float(row[f"{who}_smoking"])) * 2 * math.sqrt(PLAYED)
        for row in noisy
        for who in ("none", "one")
    )
    factor = max(
        float(row["one_smoking"]) / float(row["none_smoking"]) / float(row["factor"])
        for row in noisy
    )
    right = float(sure["guessed_right"])
    apart = [float(row["one_smoking"]) - float(row["none_smoking"]) for row in (little, much)]
    return [
        Bar("without noise: guessed right", right, "1, as published", right == 1),
        Bar("shares off their chances, in standard errors, at worst", off, "< 5", off < 5),
        Bar("odds of one over none, over e**epsilon, at most", factor, "<= 1", factor <= 1),
        Bar("scale .003: chances apart", apart[0], "> .5: a lot greater, as published",
            apart[0] > 0.5),
        Bar("scale .03: chances apart", apart[1], "< .2: nearly the same, as published",
            apart[1] < 0.2),
    ]  # fmt: skip


STUDIES = (
    Study(
        "game",
        "a hundred people, one smoker or none, and Laplace noise (Boenisch 3.1, 3.2, 3.7)",
        tuple({"scale": scale} for scale in (0.0, 0.003, 0.03)),
        _game,
        _draw_game,
        _bars_game,
    ),
    Study(
        "smokers",
        "randomised response and Laplace noise against the number asked (Boenisch 3.6, 3.8)",
        tuple({"respondents": n} for n in SIZES),
        _smokers,
        _draw_smokers,
        _bars_smokers,
    ),
    Study(
        "choices",
        "the exponential mechanism on an auction and on eye colours (Boenisch 3.2.4)",
        tuple(
            {"question": question, "answer": answer, "epsilon": epsilon}
            for question, (answers, _, _) in CHOICES.items()
            for answer in answers
            for epsilon in ((0.1, 1.0, 10.0) if question == "auction" else (0.001, 0.01, 0.1))
        ),
        _choices,
        _draw_choices,
        _bars_choices,
    ),
)
