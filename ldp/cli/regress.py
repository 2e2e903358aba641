"""`ldp regress`: a private linear regression of a CSV file, all methods compared on the file, or a
regression of answers that were randomised before."""

import math
import warnings
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from ldp.accounting.cost_composition import exact_sum
from ldp.cli.columns import read_bounds, read_columns, read_texts
from ldp.cli.estimates import check_output
from ldp.cli.options import FILE, JSON, LEVEL, SEED, aligned, generator, say, warn, wrap
from ldp.cli.parsing import Typed, name_and_parameters
from ldp.cli.reading import reading_options
from ldp.cli.settings import rare
from ldp.errors import DecodeError, ParameterError, errors_in, require_one_of
from ldp.files import counted, csv_text
from ldp.protocol.channel import rounded_up
from ldp.registry.lookalikes import odd_values
from ldp.regression.randomized_outcome import (
    DESIGNS,
    MODELS,
    OutcomeDesign,
    RandomizedOutcomeRegression,
)
from ldp.tables.result import write_with_summary

OF_METHODS = ("norm", "clip_features", "clip_target", "budget_split")
"""Numbers that --method may state."""
OF_WHOM = {
    "population": "the population of which the rows are a random sample",
    "people": "the people of the rows themselves, whoever else there is",
}
"""Words for the people about whom the intervals of a survey speak."""
Said = tuple[dict[str, Any], list[str]]
"""Result of a command, and lines about it."""
CSV_COLUMNS = ("term", "coefficient", "std_error", "low", "high")


def _method(text: str) -> tuple[str, dict[str, Any], Path | None]:
    """Return the method of a text, its numbers, and the file of its public rows."""
    name, stated = name_and_parameters(text, "robust, clip_target = 0.5")
    public = stated.pop("public_rows", None)
    numbers = {key: _number_of(key, value) for key, value in stated.items()}
    return name, numbers, None if public is None else Path(str(public))


@click.command()
@click.argument("data", type=FILE, metavar="DATA.csv")
@click.option("--target", required=True, help="The column to predict.")
@click.option(
    "--bounds",
    "bounds_file",
    type=FILE,
    help="CSV file column,low,high with public ranges of the target and of the columns to use.",
)
@click.option("--epsilon", type=float, help="Privacy loss that the release may have.")
@click.option(
    "--delta", type=float, help="Delta of the release, far below 1 / rows; a pure method has none."
)
@click.option(
    "--method",
    type=Typed("METHOD", _method),
    default="ridge",
    metavar="NAME[, KEY = VALUE]",
    help="Method of the release, as ridge, ada-ssp or 'robust, clip_target = 0.5, budget_split = "
    "[0.4, 0.5, 0.1]'; norm = X shortens longer mapped rows to this public length, and public_rows "
    "= 'FILE' names a CSV file of rows that need no privacy, which robust adds exactly.",
)
@rare(
    "--neighbours",
    click.Choice(["replace-one", "add-remove"]),
    "replace-one",
    "Data sets that cannot be told apart; add-remove hides the number of rows too.",
)
@LEVEL
@click.option("--out", default="-", help="CSV file to write the coefficients to; - prints them.")
@click.option(
    "--compare",
    "splits",
    type=click.IntRange(1, 10_000),
    metavar="SPLITS",
    help="Release nothing, and cross-validate every method on this number of splits, as 20.",
)
@SEED
@click.option(
    "--randomized",
    "design",
    type=Typed("DESIGN", OutcomeDesign.of),
    help="Design of a survey whose target is a randomised answer, 0 or 1, which needs no epsilon: "
    f"{'; '.join(DESIGNS.values())}.",
)
@rare("--feature", str, (), "Columns of numbers to predict a randomised answer from.")
@rare(
    "--category",
    str,
    (),
    "Columns of categories to predict a randomised answer from: a coefficient for each but the "
    "first in order.",
)
@rare("--model", click.Choice(MODELS), "linear", "Model to fit, of an outcome or of its log odds.")
@rare("--weights", str, None, "Column that has a survey's weights, as 1 / P(selected).")
@rare("--strata", str, None, "Column that has a survey's strata.")
@rare("--of", click.Choice([*OF_WHOM]), "population", "People that a survey's intervals speak of.")
@JSON
@reading_options
def regress_command(
    data: Path,
    target: str,
    bounds_file: Path | None,
    epsilon: float | None,
    delta: float | None,
    method: tuple[str, dict[str, Any], Path | None],
    neighbours: str,
    level: float,
    out: str,
    splits: int | None,
    seed: int | None,
    design: OutcomeDesign | None,
    as_json: bool,
    **survey: Any,
) -> None:
    """Release the coefficients of a differentially private linear regression.

    Only the bounds that you state are public, and with --neighbours replace-one the number of rows.
    A cell that is not a number counts as the middle of its column's bounds, because an error would
    reveal that somebody has none. --compare names its line. 1 to 10 % of epsilon pays for noisy
    shares of the rows that were read, clipped and unreadable: where half or more are unreadable,
    nothing is released. --compare releases no coefficient: it simulates every method on splits of
    the data, local ones beside the curator's, and the errors shown are not private.

    A table of `moments` reports, which are private already, is read by ldp decode. With
    --randomized the target is a randomised answer of a survey, 0 or 1, and each --feature and
    --category is in the clear: no privacy is charged (docs/surveys.md).

    \b
    Example: ldp regress houses.csv --target price --bounds bounds.csv --epsilon 1 --delta 1e-6
    Example: ldp regress houses.csv --target price --bounds bounds.csv --epsilon 1 --delta 1e-6
             --compare 20
    Example: ldp regress answers.csv --target y --feature age
             --randomized "forced, truth = 2/3, yes = 1/6"
    """
    check_output(out, level)
    if design is not None:
        result, lines = _of_answers(data, target, design, level, out, **survey)
        say(result, lines, as_json)
        return
    # goes with --epsilon, one of both is there
    assert bounds_file is not None
    assert epsilon is not None
    # late: it loads scikit-learn
    from ldp.central.regression import METHODS, PURE

    name, parameters, public_rows = method
    require_one_of(name, METHODS, "method")
    if delta is None and (splits is not None or name not in PURE):
        raise ParameterError("Missing --delta, as 1e-6: only pure methods go without")
    ranges = read_bounds(bounds_file)
    if target not in ranges:
        raise ParameterError(f"{bounds_file} has no row for the target column {target!r}")
    names = [column for column in ranges if column != target]
    if not names:
        raise ParameterError(f"{bounds_file} has no row for any column but the target")
    table = read_columns(data, [*names, target], is_private=splits is None)
    if not len(table) and neighbours != "add-remove":
        raise ParameterError(f"{data} has no rows")
    X, y = table[:, :-1], table[:, -1]
    if public_rows is not None:
        public = read_columns(public_rows, [*names, target], is_private=False)
        parameters["public_rows"] = public[:, :-1], public[:, -1]
    question: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta or 0.0,
        "bounds": np.array([ranges[column] for column in names]),
        "target_bounds": ranges[target],
    }
    if splits is not None:
        result, lines = _compared(X, y, seed, **question, splits=splits)
    else:
        question |= {"method": name, "neighbours": neighbours, **parameters}
        result, lines = _released(X, y, names, level, out, **question)
    say(result, lines, as_json)


def _number_of(key: str, value: Any) -> float | tuple[float, ...]:
    """Return the value of a parameter of --method. Raises ParameterError for an invalid one."""
    if key not in OF_METHODS:
        raise ParameterError(f"--method has no {key}, but public_rows, {', '.join(OF_METHODS)}")
    try:
        return tuple(map(float, value)) if key == "budget_split" else float(value)
    except (TypeError, ValueError):
        raise ParameterError(f"{key} must be a number, budget_split a list of three") from None


def _lines(names: list[str], columns: dict[str, Any], intervals: Any, level: float) -> list[str]:
    """Return a header and a line for each of `names`, with its number in every column, and with its
    interval if there are intervals."""
    table = {"column": names}
    table |= {head: [f"{number:.6g}" for number in column] for head, column in columns.items()}
    if intervals is not None:
        table[f"{100 * level:g} % interval"] = [_interval(*ends) for ends in intervals]
    return aligned(zip(*([head, *cells] for head, cells in table.items()), strict=True))


def _interval(low: float, high: float) -> str:
    is_open = math.isinf(low) and math.isinf(high)
    return "unbounded" if is_open else f"{low:.6g} to {high:.6g}"


def _written(out: str) -> list[str]:
    return [] if out == "-" else [f"-> {out}"]


def _released(
    X: Any, y: Any, features: list[str], level: float, out: str, **parameters: Any
) -> Said:
    from ldp.central import Releases
    from ldp.central.regression import METHODS, PrivateLinearRegression
    from ldp.central.rows_read import epsilon_of_rows, release_rows_read
    from ldp.regression.intervals import LEAST_SIGNAL, NO_BETTER

    epsilon, table = parameters["epsilon"], np.column_stack([X, y])
    hides_rows = parameters["neighbours"] == "add-remove"
    lows, highs = np.array([*parameters["bounds"], parameters["target_bounds"]]).T
    left = epsilon - epsilon_of_rows(epsilon, None if hides_rows else len(y))
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        model = PrivateLinearRegression(**parameters | {"epsilon": left}).fit(X, y)
    is_unread = np.isnan(table).any(axis=1)
    is_clipped = ~is_unread & ((table < lows) | (table > highs)).any(axis=1)
    counts = [int(mask.sum()) for mask in (~is_unread & ~is_clipped, is_clipped, is_unread)]
    neighbours = model.cost_.neighbours
    read = release_rows_read(counts, epsilon=epsilon, neighbours=neighbours, noise=Releases())
    read.require()
    for warning in raised:
        warn(f"note: {warning.message}")
    names = [*features, "(intercept)"]
    columns: dict[str, Any] = {"coefficient": [*model.coef_.tolist(), model.intercept_]}
    intervals, errors, reason, signal = None, [None] * len(names), "", None
    try:
        signal = model.signal()
        intervals = model.coefficient_intervals(level).tolist()
        errors = columns["std. error"] = model.coefficient_std_errors().tolist()
    except DecodeError as error:
        reason = str(error)
    cost, method = model.cost_, parameters["method"]
    whole = exact_sum([read.epsilon, cost.epsilon])
    clips = getattr(model.moments_, "clips", (1.0, 1.0))
    covered = _covered(parameters.get("norm"), clips, parameters.get("public_rows"))
    result = {
        "method": method,
        "epsilon": whole,
        "delta": cost.delta,
        "neighbours": cost.neighbours.value,
        "rows": None if hides_rows else len(y),
        "rows_read": read.summary,
        "coefficients": dict(zip(names, columns["coefficient"], strict=True)),
        "std_errors": dict(zip(names, errors, strict=True)),
        "intervals": intervals and dict(zip(names, intervals, strict=True)),
        "intervals_cover": covered,
        "clips": clips,
        "level": level,
        "signal": signal,
        "no_intervals_because": reason or None,
    }
    ends = intervals or [("", "")] * len(names)
    rows = zip(names, columns["coefficient"], errors, *zip(*ends, strict=True), strict=True)
    if out != "-":
        write_with_summary(Path(out), csv_text([CSV_COLUMNS, *rows]), result)
    public = "the bounds, but not the number of rows"
    if not hides_rows:
        public = f"the bounds, and that there are {counted(len(y), 'row')}"
    spent = (
        f"epsilon {rounded_up(whole, 6)}, delta {rounded_up(cost.delta, 6)}; "
        f"neighbours: {cost.neighbours.value}. Public: {public}. Every run is another release, "
        "and their costs add."
    )
    noted = f"The intervals cover {covered}." if intervals else reason[:1].upper() + reason[1:]
    lines = [f"{method}: {METHODS[method].words}", *_lines(names, columns, intervals, level)]
    lines += ["", *wrap(noted)]
    if intervals and not np.isfinite(intervals).all():
        lines += wrap(
            "Unbounded: the noise leaves the coefficient undetermined; what is printed is mostly "
            "the ridge's choice."
        )
    if signal is not None and signal < LEAST_SIGNAL:
        lines += wrap(f"{NO_BETTER}.")
    lines += [*wrap(read.words), *wrap(spent), *_written(out)]
    return result, lines


def _covered(norm: float | None, clips: tuple[float, float], public: Any) -> str:
    """Return in words what the intervals cover."""
    words = "the least-squares coefficients of the data clipped to the bounds"
    if clips != (1.0, 1.0):
        words += " and then to {:.3g} (features) and {:.3g} (target) of their halves".format(*clips)
    if public is not None:
        rows = counted(len(public[1]), "public row as it is", "public rows as they are")
        words += f", with {rows}"
    if norm is None:
        return words
    return (
        f"{words}, with rows longer than {norm:g} shortened to that: not the coefficients of the "
        "rows as they are, unless few rows are longer"
    )


def _of_answers(
    data: Path,
    target: str,
    design: OutcomeDesign,
    level: float,
    out: str,
    *,
    feature: tuple[str, ...],
    category: tuple[str, ...],
    model: Any,
    weights: str | None,
    strata: str | None,
    of: str,
) -> Said:
    """Return the regression of a randomised answer, as a summary and in words."""
    if target in (*feature, *category):
        raise ParameterError(f"{target} is the target, and predicts itself: leave it out")
    weighted = [] if weights is None else [weights]
    kinds: Any = dict.fromkeys(weighted, ("a number above 0", (0.0).__lt__))
    kinds |= {target: ("0 or 1", (0.0, 1.0).__contains__)}
    table = read_columns(data, [*feature, *weighted, target], is_private=False, kinds=kinds)
    groups, bases = dict[str, Any](), dict[str, str]()
    texts = {name: read_texts(data, name) for name in [*category, *([strata] if strata else [])]}
    for name in category:
        bases[name], *others = sorted({*texts[name]})
        groups |= {f"{name} = {other}": np.equal(texts[name], other) for other in others}
    numbers = [[f"{number:.17g}" for number in column] for column in table.T.tolist()]
    for name, cells in [*zip([*feature, *weighted], numbers, strict=False), *texts.items()]:
        for words in odd_values(Counter(cells), name not in texts):
            warn(f"{data}: {name}: {words}")
    with errors_in(data):
        fitted = RandomizedOutcomeRegression(design, model).fit(
            np.column_stack([table[:, : len(feature)], *groups.values()]),
            table[:, -1],
            table[:, -2] if weighted else None,
            texts.get(strata or ""),
            of_people=of == "people",
        )
    names = [*feature, *groups, "(intercept)"]
    columns = {
        "coefficient": [*fitted.coef_.tolist(), fitted.intercept_],
        "std. error": fitted.std_errors_.tolist(),
    }
    intervals = fitted.coefficient_intervals(level).tolist()
    result = {
        "model": model,
        "design": asdict(design),
        "rows": len(table),
        "coefficients": dict(zip(names, columns["coefficient"], strict=True)),
        "std_errors": dict(zip(names, columns["std. error"], strict=True)),
        "intervals": dict(zip(names, intervals, strict=True)),
        "intervals_cover": OF_WHOM[of],
        "level": level,
        "weights": weights,
        "strata": strata,
        "bases": bases,
        "converged": fitted.converged_,
        "at_edge": fitted.at_edge_,
    }
    if out != "-":
        rows = zip(names, *columns.values(), *zip(*intervals, strict=True), strict=True)
        write_with_summary(Path(out), csv_text([CSV_COLUMNS, *rows]), result)
    unit = "shares" if model == "linear" else "log odds"
    lines = [f"{model}, in {unit}: {counted(len(table), 'row')}, P(yes | yes) "]
    lines[0] += f"{design.yes_if_yes:.4g}, P(yes | no) {design.yes_if_no:.4g}"
    lines += [*_lines(names, columns, intervals, level), ""]
    noted = f"The intervals are of {OF_WHOM[of]}. No privacy is charged: the answers were "
    noted += "randomised before."
    if not fitted.converged_:
        noted = (
            "Not converged: a share is estimated at 0 or 1, so that the likelihood has no largest "
            "value, and there are no intervals. Leave features out, or use the linear model."
        )
    elif fitted.at_edge_:
        where = "below 0 or above 1" if model == "linear" else "at 0 or 1"
        noted += f" Fitted shares of {counted(fitted.at_edge_, 'row')} lie {where}."
    for name, base in bases.items():
        noted += f" Coefficients of {name} are differences from {base!r}."
    return result, [*lines, *wrap(noted), *_written(out)]


def _compared(X: Any, y: Any, seed: int | None, **question: Any) -> Said:
    from ldp.central.regression.trust_models import compare_regressions

    rows = compare_regressions(X, y, **question, generator=generator(seed))
    base, epsilon, delta = rows[0]["rmse"], question["epsilon"], question["delta"]
    lines = [
        f"A simulation: these errors are not private. epsilon {epsilon:g}, delta {delta:g}, "
        f"replace-one; {counted(len(y), 'row')}, {counted(question['splits'], 'split')}.",
        "",
    ]
    table = [("method", "model", "private", "RMSE", "quartiles", "of mean")]
    for row in rows:
        beside = row["rmse"] / base if base > 0 else math.inf
        ratio = f"{beside:.3f}" if beside < 1e4 else "-"
        ends = f"{row['low']:.4g} to {row['high']:.4g}"
        texts = row["method"], row["model"], row["private"]
        table.append((*texts, f"{row['rmse']:.4g}", ends, ratio))
    lines += aligned(table)
    notes = (
        "RMSE: median over splits, in the target's units; of mean: beside predicting the mean, "
        "which is not private. Public for every private row: the bounds, the number of rows."
    )
    lines += ["", *wrap(notes)]
    stated = {"simulation": True, "epsilon": epsilon, "delta": delta, "rows": len(y)}
    return {**stated, "scores": rows}, lines
