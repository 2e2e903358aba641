"""`ldp plan product QUESTIONS`: the questions of one product, below one person's caps."""

from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

import click

from ldp.cli.options import aligned, current_day, say, wrap
from ldp.cli.reading import chosen_reading
from ldp.errors import ParameterError
from ldp.files import counted, write_whole
from ldp.planning.portfolio import PlannedMetric, Portfolio, Product, RefusedQuestion
from ldp.protocol.channel import rounded_up
from ldp.registry import Registry
from ldp.registry.definitions import NOBODY

REGISTRY = "metrics.toml"
HEADS = ("question", "mechanism", "every", "epoch", "epsilon", "times", "life", "error", "asked")


def plan_questions(questions: Path, out: Path | None, as_json: bool) -> None:
    """Print which questions fit, and write their registry to the folder `out`. Raises
    ParameterError where none fits, and for a folder that has a registry or other lists already."""
    portfolio = Product.load(questions, current_day(), chosen_reading()).answer()
    lines = _words(portfolio)
    if out is not None:
        for name, text in portfolio.files().items():
            path = out / name
            old = path.read_bytes() if path.exists() else b""
            if old and (name == REGISTRY or old != text.encode()):
                raise ParameterError(f"{path} exists; name another folder for --out")
        if not portfolio.accepted:
            if not as_json:
                click.echo("\n".join(lines))
            raise ParameterError("no question fits: nothing was written")
        with TemporaryDirectory() as name:
            _write(portfolio, Path(name))
            registry = Registry.load(Path(name) / REGISTRY)
        out.mkdir(parents=True, exist_ok=True)
        _write(portfolio, out)
        lines += ["", f"written: {', '.join(str(out / name) for name in portfolio.files())}"]
        nobody = any(NOBODY in metric.owners for metric in registry.metrics.values())
        first = f"name an owner of each metric in {out / REGISTRY}, then " if nobody else ""
        lines.append(f"next: {first}ldp registry check {quote(str(out / REGISTRY))}")
    say(portfolio.to_dict(), lines, as_json)


def _write(portfolio: Portfolio, folder: Path) -> None:
    for name, text in portfolio.files().items():
        write_whole(folder / name, text)


def _words(portfolio: Portfolio) -> list[str]:
    product = portfolio.product
    lines = [f"{product.name}: {counted(product.users, 'user')}, from {product.start}", ""]
    if portfolio.accepted:
        lines += [*aligned([HEADS, *map(_cells, portfolio.accepted)]), ""]
    for answer in portfolio.accepted:
        if answer.planned_for:
            lines += wrap(f"{answer.ask.name} is planned for {answer.planned_for}.")
    for refusal in portfolio.refused:
        lines += wrap(_refusal(refusal))
    last = max((answer.ask.until for answer in portfolio.accepted), default=product.start)
    notes = (
        f"A person loses at most {rounded_up(portfolio.day)} in any 24 hours (cap "
        f"{product.day_epsilon:g}) and {rounded_up(portfolio.life)} until {last} (cap "
        f"{product.lifetime_epsilon:g}). Epsilon: of a charge, one for every window or epoch. "
        "Error: the standard error, of the value of a list, or the place in a range, where it is "
        "largest; of a percentile relative, and expected; of words the smallest share that is "
        "found. Questions are taken in the order of the file."
    )
    return [*lines, *wrap(notes)]


def _cells(answer: PlannedMetric) -> tuple[str, ...]:
    """Return the cells below HEADS."""
    ask, epoch = answer.ask, f"{answer.keep_days}d" if answer.keep_days else "-"
    return (
        *(ask.name, answer.mechanism.name),
        *(f"{ask.days}d", epoch),
        rounded_up(answer.price, 3),
        str(answer.charges),
        rounded_up(answer.life, 3),
        f"{answer.error:.4g}",
        f"{ask.within:.4g}",
    )


def _refusal(refusal: RefusedQuestion) -> str:
    ask, affordable = refusal.ask, refusal.affordable
    text = f"{ask.name} does not fit: {refusal.reason}."
    if affordable is None:
        return text
    if affordable.error >= ask.question.useless_error:
        return f"{text} What is left pays no answer of use; ask more users, or less often (every)."
    return text + (
        f" What is left pays a {ask.question.error_name} of {affordable.error:.3g} where "
        f"{ask.within:g} is asked; a longer window (every) or more users take less."
    )
