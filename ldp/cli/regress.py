"""`ldp regress`: a private linear regression of a CSV file, all methods compared on it, or the
regression of a table of reports."""

import math
import warnings
from pathlib import Path
from textwrap import wrap
from typing import Any

import click
import numpy as np
from click.core import ParameterSource

from ldp.cli.columns import read_bounds, read_columns
from ldp.cli.estimates import check_output
from ldp.cli.options import FILE, JSON, SEED, generator, progress, say
from ldp.errors import DecodeError, ParameterError
from ldp.files import csv_text
from ldp.protocol.wire import TABLE_MAGIC
from ldp.tables.result import write_with_summary

WIDTH = 88
OF_A_TABLE = {"data", "level", "out", "as_json"}
OF_A_RELEASE = {
    *("clip_features", "clip_target", "budget_split", "public_rows", "out"),
}
"""Options that go with a table; and those that do not go with --compare."""
CSV_COLUMNS = ("term", "coefficient", "std_error", "low", "high")


@click.command()
@click.argument("data", type=FILE, metavar="DATA.csv|TABLE")
@click.option("--target", help="The column to predict.")
@click.option(
    "--bounds",
    "bounds_file",
    type=FILE,
    help="CSV file column,low,high with public ranges of the target and of the columns to use.",
)
@click.option("--epsilon", type=float, help="Privacy loss of the release.")
@click.option(
    "--delta", type=float, help="Delta of the release, far below 1 / rows; a pure method has none."
)
@click.option(
    "--method",
    default="ridge",
    show_default=True,
    help="Method of the release, as ridge, ada-ssp or robust.",
)
@click.option(
    "--neighbours",
    type=click.Choice(["replace-one", "add-remove"]),
    default="replace-one",
    show_default=True,
    help="Data sets that cannot be told apart; add-remove hides the number of rows too.",
)
@click.option(
    "--norm",
    type=float,
    help="Public length that longer mapped rows are shortened to, for intervals too.",
)
@click.option(
    "--clip-features",
    type=float,
    help="Share of each half of a feature's range that robust methods keep, 0 to 1.",
)
@click.option(
    "--clip-target", type=float, help="Share of each half of the target's range that they keep."
)
@click.option(
    "--budget-split",
    metavar="XX,XY,YY",
    help="Shares of epsilon that robust methods spend on X'X, X'y and y'y.",
)
@click.option(
    "--public-rows",
    type=FILE,
    help="CSV file of rows that need no privacy, which robust methods add exactly.",
)
@click.option(
    "--level", type=float, default=0.95, show_default=True, help="Level of the intervals."
)
@click.option("--out", default="-", help="CSV file to write the coefficients to; - prints them.")
@click.option(
    "--compare", "compared", is_flag=True, help="Cross-validate every method, and release nothing."
)
@click.option(
    "--splits",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="Number of splits of --compare.",
)
@SEED
@JSON
def regress(
    data: Path,
    target: str | None,
    bounds_file: Path | None,
    epsilon: float | None,
    delta: float | None,
    method: str,
    neighbours: str,
    norm: float | None,
    clip_features: float | None,
    clip_target: float | None,
    budget_split: str | None,
    public_rows: Path | None,
    level: float,
    out: str,
    compared: bool,
    splits: int,
    seed: int | None,
    as_json: bool,
) -> None:
    """Release the coefficients of a differentially private linear regression.

    Nothing but the bounds that you state is taken for public, and the number of rows, unless
    --neighbours is add-remove. A cell that is not a number counts as the middle of its column's
    bounds, because an error would tell that somebody has none; --compare names its line. With
    --compare no coefficient is released: every method is simulated on splits of the data, local
    ones beside the curator's, and the errors shown are not private.

    Of a TABLE of `moments` reports, which are private already, the coefficients cost nothing.

    \b
    Example: ldp regress houses.csv --target price --bounds bounds.csv --epsilon 1 --delta 1e-6
    Example: ldp regress flats.table --out flats.csv
    """
    if seed is not None and not compared:
        raise ParameterError("a release takes no seed; --seed goes with --compare")
    check_output(out, level)
    if data.is_file() and _is_table(data):
        _refuse(_typed() - OF_A_TABLE, f"{data} is a table, which has its own bounds and epsilon")
        result, words = _decoded(data, level, out)
        say(result, words, as_json)
        return
    if compared:
        _refuse(_typed() & OF_A_RELEASE, "--compare releases nothing")
    from ldp.central.regression import PURE  # late: it loads scikit-learn

    if delta is None and method in PURE and not compared:
        delta = 0.0
    if target is None or bounds_file is None or epsilon is None or delta is None:
        raise ParameterError("a CSV file needs --target, --bounds, --epsilon and --delta")
    ranges = read_bounds(bounds_file)
    if target not in ranges:
        raise ParameterError(f"{bounds_file} has no row for the target column")
    features = [name for name in ranges if name != target]
    if not features:
        raise ParameterError(f"{bounds_file} has no row for any column but the target")
    columns = [*features, target]
    public = None if public_rows is None else read_columns(public_rows, columns, strict=True)
    table = read_columns(data, columns, strict=compared)
    X, y = table[:, :-1], table[:, -1]
    pairs = np.array([ranges[name] for name in features])
    if compared:
        result, words = _compared(
            X, y, pairs, ranges[target], epsilon=epsilon, delta=delta, splits=splits, seed=seed
        )
    else:
        result, words = _released(
            X,
            y,
            features,
            level,
            out,
            epsilon=epsilon,
            delta=delta,
            bounds=pairs,
            target_bounds=ranges[target],
            method=method,
            neighbours=neighbours,
            norm=norm,
            clip_features=clip_features,
            clip_target=clip_target,
            budget_split=_shares(budget_split),
            public_rows=None if public is None else (public[:, :-1], public[:, -1]),
        )
    say(result, words, as_json)


def _typed() -> set[str]:
    """Return the names of the options that stand on the command line."""
    context = click.get_current_context()
    return {
        name
        for name in context.params
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }


def _refuse(names: set[str], reason: str) -> None:
    options = sorted(f"--{name.removesuffix('_file').replace('_', '-')}" for name in names)
    if options:
        raise ParameterError(f"{reason}: leave out {', '.join(options)}")


def _shares(option: str | None) -> tuple[float, ...] | None:
    if option is None:
        return None
    try:
        return tuple(map(float, option.split(",")))
    except ValueError:
        raise ParameterError("--budget-split must be three numbers with commas between") from None


def _is_table(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(TABLE_MAGIC)) == TABLE_MAGIC


def _decoded(path: Path, level: float, out: str) -> tuple[dict[str, Any], str]:
    """Write the regression of a table to `out`; return its summary, and it in words."""
    from ldp.server import Table, decode_regression

    fit = decode_regression(Table.load(path)).at(level=level)
    summary = fit.summary
    if out != "-":
        fit.to_csv(out)
    names = [*(f"x{number}" for number in range(1, len(fit.std_error))), "(intercept)"]
    columns = {
        "coefficient": [*fit.coef, fit.intercept],
        "std. error": fit.std_error,
        "1 % fakes": fit.fakes_move,
    }
    notes = (
        f"{fit.reports:,} reports of epsilon {summary['epsilon']:g} each. The intervals cover "
        "the least-squares coefficients, values clipped to the bounds, of the population from "
        "which the people who reported were drawn at random. 1 % fakes: how far 1 % of made-up "
        "reports could move a coefficient, if all of them are about one product."
    )
    intervals = np.column_stack(fit.interval(level))
    lines = [*_lines(names, columns, intervals, level), "", *wrap(notes, WIDTH)]
    return summary, "\n".join([*lines, *_unbounded(intervals), *_written(out)])


def _lines(names: list[str], columns: dict[str, Any], intervals: Any, level: float) -> list[str]:
    """Return a line for each of `names` below a header: its number of every column, and its
    interval, if there are any."""
    table = {"column": names}
    table |= {head: [f"{number:.6g}" for number in column] for head, column in columns.items()}
    if intervals is not None:
        table[f"{100 * level:g} % interval"] = [_interval(*ends) for ends in intervals]
    rows = zip(*([head, *cells] for head, cells in table.items()), strict=True)
    first, *others = (max(map(len, [head, *cells])) for head, cells in table.items())
    return ["  ".join([row[0].ljust(first), *map(str.rjust, row[1:], others)]) for row in rows]


def _interval(low: float, high: float) -> str:
    return f"{low:.6g} to {high:.6g}" if math.isfinite(high - low) else "unbounded"


def _unbounded(intervals: Any) -> list[str]:
    """Return what an interval without ends says, if there is one."""
    if intervals is None or np.isfinite(intervals).all():
        return []
    return wrap(
        "Unbounded: the noise leaves the coefficient undetermined; what is printed is mostly the "
        "ridge's choice.",
        WIDTH,
    )


def _written(out: str) -> list[str]:
    return [] if out == "-" else [f"-> {out}"]


def _released(
    X: Any, y: Any, features: list[str], level: float, out: str, **parameters: Any
) -> tuple[dict[str, Any], str]:
    from ldp.central.regression import METHODS, PrivateLinearRegression

    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        model = PrivateLinearRegression(**parameters).fit(X, y)
    for warning in raised:
        click.echo(f"ldp: note: {warning.message}", err=True)
    names = [*features, "(intercept)"]
    columns: dict[str, Any] = {"coefficient": [*model.coef_.tolist(), model.intercept_]}
    intervals, errors, reason = None, [None] * len(names), ""
    try:
        intervals = model.coefficient_intervals(level).tolist()
        errors = columns["std. error"] = model.coefficient_std_errors().tolist()
    except DecodeError as error:
        reason = str(error)
    cost, method = model.cost_, parameters["method"]
    hides_rows = parameters["neighbours"] == "add-remove"
    clips = getattr(model.moments_, "clips", (1.0, 1.0))
    covered = _covered(parameters["norm"], clips, parameters["public_rows"])
    result = {
        "method": method,
        "epsilon": cost.epsilon,
        "delta": cost.delta,
        "neighbours": cost.neighbours.value,
        "rows": None if hides_rows else len(y),
        "coefficients": dict(zip(names, columns["coefficient"], strict=True)),
        "std_errors": dict(zip(names, errors, strict=True)),
        "intervals": intervals and dict(zip(names, intervals, strict=True)),
        "intervals_cover": covered,
        "clips": clips,
        "level": level,
        "no_intervals_because": reason or None,
    }
    ends = intervals or [("", "")] * len(names)
    rows = zip(names, columns["coefficient"], errors, *zip(*ends, strict=True), strict=True)
    if out != "-":
        write_with_summary(Path(out), csv_text([CSV_COLUMNS, *rows]), result)
    public = "the bounds, but not the number of rows"
    if not hides_rows:
        public = f"the bounds, and that there are {len(y):,} rows"
    spent = (
        f"epsilon {cost.epsilon:g}, delta {cost.delta:g}; neighbours: {cost.neighbours.value}. "
        f"Public: {public}. Every run is another release, and their costs add."
    )
    noted = f"The intervals cover {covered}." if intervals else reason[:1].upper() + reason[1:]
    lines = [f"{method}: {METHODS[method].words}", *_lines(names, columns, intervals, level)]
    lines += ["", *wrap(noted, WIDTH), *_unbounded(intervals)]
    lines += [*wrap(spent, WIDTH), *_written(out)]
    return result, "\n".join(lines)


def _covered(norm: float | None, clips: tuple[float, float], public: Any) -> str:
    """Return in words what the intervals cover."""
    words = "the least-squares coefficients of the data clipped to the bounds"
    if clips != (1.0, 1.0):
        words += " and then to {:.3g} (features) and {:.3g} (target) of their halves".format(*clips)
    if public is not None:
        words += f", with {len(public[1]):,} public rows as they are"
    if norm is None:
        return words
    return (
        f"{words}, with rows longer than {norm:g} shortened to that: not the coefficients of the "
        "rows as they are, unless few rows are longer"
    )


def _compared(
    X: Any,
    y: Any,
    pairs: Any,
    target: tuple[float, float],
    *,
    epsilon: float,
    delta: float,
    splits: int,
    seed: int | None,
) -> tuple[dict[str, Any], str]:
    from ldp.planning.regression import compare_regressions
    from ldp.regression.bounds import Bounds

    scores = compare_regressions(
        X,
        y,
        bounds=Bounds.of(pairs, X.shape[1], "bounds"),
        target_bounds=Bounds.of(target, 1, "target bounds"),
        epsilon=epsilon,
        delta=delta,
        generator=generator(seed),
        splits=splits,
        done=progress("splits", splits),
    )
    rows: list[dict[str, Any]] = [
        {
            "method": score.method,
            "model": score.model,
            "private": score.private,
            "rmse": score.quantile(0.5),
            "low": score.quantile(0.25),
            "high": score.quantile(0.75),
        }
        for score in scores
    ]
    base = rows[0]["rmse"]
    lines = [
        f"A simulation: these errors are not private. epsilon {epsilon:g}, delta {delta:g}, "
        f"replace-one; {len(y):,} rows, {splits} splits.",
        "",
        f"{'method':<18} {'model':<13} {'private':<8} {'RMSE':>10} "
        f"{'quartiles':>23} {'of mean':>8}",
    ]
    for row in rows:
        lines.append(
            f"{row['method']:<18} {row['model']:<13} {row['private']:<8} {row['rmse']:10.4g} "
            f"{row['low']:10.4g} to {row['high']:9.4g} {_ratio(row['rmse'], base):>8}"
        )
    notes = (
        "RMSE: median over splits, in the target's units; of mean: beside predicting the mean, "
        "which is not private. Public for every private row: the bounds, the number of rows. "
        "Secure sum: a curator's noise without a curator, if enough senders are honest. Shuffled: "
        "an independent party shuffles one report a person."
    )
    lines += ["", *wrap(notes, WIDTH)]
    result = {
        "simulation": True,
        "epsilon": epsilon,
        "delta": delta,
        "rows": len(y),
        "scores": rows,
    }
    return result, "\n".join(lines)


def _ratio(error: float, base: float) -> str:
    return f"{error / base:.3f}" if base > 0 and error / base < 1e4 else "-"
