"""`ldp init`: a registry, its lock and an app to start from."""

import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date, timedelta
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import Any

import click

from ldp.cli.options import FILE, JSON, current_day, say
from ldp.cli.parsing import Typed
from ldp.errors import ParameterError
from ldp.files import quoted, write_together
from ldp.protocol.channel import require_epsilon
from ldp.protocol.keys import PLAIN
from ldp.registry import Registry
from ldp.registry.value_files import read_values

YEAR = timedelta(days=365)
LIFE = 30
"""Reports that the cap for life of a first registry pays for."""
DEV_REPORTS, DEV_LIFE = 20, 1_000_000.0
"""Reports a minute, and cap for life, in a registry for development."""
REGISTRY, METRIC, APP = (
    (files("ldp.cli") / f"init.{name}.txt").read_text("utf-8") for name in ("toml", "metric", "py")
)
"""Templates of the files that are written. The template of a metric begins with its group."""
DEVELOPMENT = """\
# For a developer's own screen. For people take this line out, and what "people:" says.
development = true
"""


QUESTIONS = {
    "product": "What is the product called?",
    "metric": "One word for what you want to know, as theme?",
    "question": "The whole question, as people would read it?",
    "answers": "Its answers, with commas between (or: numbers, numbers 0 to 100, a file)?",
    "owner": "Whom to ask about it (an e-mail address)?",
}
"""Questions that the command asks on a terminal, by option."""


def metric_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that define a metric to a command."""
    answers = "Answers to offer, commas between, or a file, or `numbers`, `numbers LOW to HIGH`."
    for option in (
        click.option("--epsilon", type=float, default=2.0, help="Privacy loss that a report has."),
        click.option("--owner", help="E-mail address of who answers for the metric."),
        click.option("--answers", help=answers),
        click.option("--question", help="Question that people are asked, as they would read it."),
        click.option("--metric", help="Name that the metric gets, one word."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("folder", type=FILE, default=".")
@click.option("--product", help="Name that the product has.")
@metric_options
@click.option(
    "--dev", is_flag=True, help="Write a registry for your own screen, with windows of a minute."
)
@JSON
def init_command(
    folder: Path, epsilon: float, dev: bool, as_json: bool, **given_texts: Any
) -> None:
    """Write a first metrics.toml, its lock and an app that sends reports, in FOLDER.

    Asks five questions on a terminal, or takes the options. With --dev the registry is for your own
    screen: what is recorded leaves within a minute, and only `ldp collect --dev` takes it.

    \b
    Example: ldp init --dev
    Example: ldp init --product weather --metric theme --question "Light or dark?" \\
                 --answers light,dark --owner team@example.org
    """
    paths = [folder / name for name in ("metrics.toml", "app.py")]
    for path in paths:
        if path.exists():
            raise ParameterError(
                f"{path} is there already: name another folder; `ldp registry add` adds a metric"
            )
    texts, today = answered(folder, given_texts, epsilon), current_day()
    registry = REGISTRY.format(
        product=quoted(texts["product"]), development=DEVELOPMENT if dev else ""
    )
    name, section, prompt = metric_section(folder, texts, epsilon, dev, today)
    destination = 'Collector("http://127.0.0.1:8787")' if dev else 'Folder(here / "outbox")'
    app = APP.format(
        metric=name,
        destination=destination,
        destination_class=destination.partition("(")[0],
        prompt=repr(f"{prompt}? "),
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_together(dict(zip(paths, (registry + section, app), strict=True)))
    try:
        loaded = Registry.load(paths[0])
        loaded.lock(today)
    except Exception:
        for path in paths:
            path.unlink()
        raise
    written = [*map(str, paths), str(loaded.lock_path)]
    lines = [f"written: {', '.join(written)}"]
    place = "" if folder == Path() else f"cd {quote(str(folder))} && "
    following = f"{place}ldp collect --dev"
    following = following if dev else f"ldp explain --registry {quote(str(paths[0]))}"
    lines.append(f"next: {following}")
    if dev:
        lines.append(f"and in a second terminal: {place}{Path(sys.executable).name} app.py")
    say({"written": written, "next": following}, lines, as_json)


def answered(folder: Path, texts: Mapping[str, str | None], epsilon: float) -> dict[str, str]:
    """Return the options; ask on a terminal for those that are missing, until an answer is right.
    Raises ParameterError without a terminal, and for a wrong epsilon."""
    require_epsilon(epsilon, "--epsilon")
    missing = [name for name in QUESTIONS if name in texts and not texts[name]]
    if missing and not (sys.stdin and sys.stdin.isatty()):
        options = ", ".join(f"--{name}" for name in missing)
        raise ParameterError(f"missing: {options} (or run it on a terminal, where it asks)")
    asked_for = {name: _answer_of(name, folder, epsilon) for name in missing}
    return {name: asked_for.get(name) or str(text) for name, text in texts.items()}


def _answer_of(name: str, folder: Path, epsilon: float) -> str:
    def read(answer: str) -> str:
        text = answer.strip()
        if name == "metric":
            _metric_name(text)
        elif name == "answers":
            _mechanism(folder, text, epsilon)
        else:
            PLAIN.take("it", text)
        return text

    try:
        prompt, kind = QUESTIONS[name], Typed(name, read)
        return str(click.prompt(prompt, type=kind, prompt_suffix=" "))
    except click.Abort:
        click.echo(err=True)  # ends the question's line
        raise


def metric_section(
    folder: Path, texts: Mapping[str, str], epsilon: float, dev: bool, today: date
) -> tuple[str, str, str]:
    """Return the name of a metric, the lines in metrics.toml of it and its group, and what an app
    may ask for. Raises ParameterError for a wrong text."""
    metric = _metric_name(texts["metric"])
    mechanism, prompt = _mechanism(folder, texts["answers"], epsilon)
    life = LIFE * epsilon
    window, window_epsilon, lifetime_epsilon = '"1d"', f"{epsilon}", f"{life}  # {LIFE} reports"
    if dev:
        mechanism += f"\nreports_per_window = {DEV_REPORTS}  # people: without this line, 1"
        window = f'"1m"  # people: {window}'
        window_epsilon = f"{DEV_REPORTS * epsilon}  # people: {window_epsilon}"
        lifetime_epsilon = f"{DEV_LIFE}  # people: {life}, for {LIFE} reports"
    text = METRIC.format(
        **{name: quoted(texts[name]) for name in ("question", "owner")},
        metric=metric,
        window=window,
        window_epsilon=window_epsilon,
        lifetime_epsilon=lifetime_epsilon,
        expires=today + YEAR,
        mechanism=mechanism,
        epsilon=epsilon,
    )
    return metric, text, prompt


def _metric_name(text: str) -> str:
    """Return the name of a metric, with a hyphen for spaces; raise ParameterError for another."""
    name = "-".join(text.split())
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_-]*", name):
        raise ParameterError("--metric has letters, digits, - and _, and begins with a letter")
    return name


def _mechanism(folder: Path, answers: str, epsilon: float) -> tuple[str, str]:
    """Return the lines of the mechanism for answers, of numbers a histogram, of a list the one with
    the least error, which is randomised response for a short list; and what an app may ask for."""
    numbers = re.fullmatch(r"numbers(?:\s+(\S+)\s+to\s+(\S+))?", answers.strip())
    if numbers:
        lines = 'mechanism = "hierarchical-histogram"'
        if numbers[1]:
            lines += f"\nbounds = [{_number(numbers[1])}, {_number(numbers[2])}]"
        return lines, "a number"
    if os.path.isfile(folder / answers):
        values, categories = read_values(folder / answers), quoted(answers)
    else:
        values = tuple(filter(None, map(str.strip, answers.split(","))))
        categories = f"[{', '.join(map(quoted, values))}]"
    if len(set(values)) < 2 or len(set(values)) < len(values):
        raise ParameterError(
            "--answers must be two or more different texts with commas between, numbers, or the "
            "name of a file in FOLDER with an answer a line"
        )
    is_short = round(len(values) / (math.exp(epsilon) + 1)) <= 1
    lines = f'mechanism = "{"rr" if is_short else "subset"}"\ncategories = {categories}'
    if "other" in values:
        lines += '\nother = "other"  # stands for every answer that is not listed'
    return lines, ", ".join(values[:5]) + (", ..." if len(values) > 5 else "")


def _number(text: str) -> float:
    with suppress(ValueError):
        if math.isfinite(number := float(text)):
            return number
    raise ParameterError(f"--answers: {text!r} is not a number")
