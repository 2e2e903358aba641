"""`ldp demo`: the main job end to end on real data, in two acts.

A million keyboards encode emoji, one call of the device encoder each. The reports go into a store.
From there on the demo is the public commands, each a process of its own that sees files only. In
the second act these simulate too: words that nobody listed, and browser versions.
"""

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from textwrap import fill

import click
import numpy as np

from ldp.cli.options import FILE, SEED, current_day, generator, working
from ldp.errors import LdpError, ParameterError
from ldp.files import csv_text, write_whole
from ldp.registry import Metric, Registry
from ldp.simulation.datasets import browsers, emoji, words
from ldp.simulation.devices import encode_shares
from ldp.simulation.populations import Population

# the size Apple published for its popular emoji
DICTIONARY = 2600
BROWSERS = 500
WORDS_PER_USER = 10
SHOWN = 15
COLUMNS = "{:>3}  {:>11}  {:>22}  {:>11}  {}"
"""Format of a line: rank, estimate, interval, truth, and last the value, whose letters may be two
columns wide."""
SAID = {
    "words": (
        "\nAct two: what the server was not told, and what a browser says.\n\n"
        "{users:,} people each write a word, of which there is no list: reports hold the\n"
        "randomised word and a fragment of it (Apple's puzzle). For speed their table is\n"
        "drawn at once, not report by report:\n"
    ),
    "browser": (
        "\n{users:,} people look at the web. The browser's version is hashed and randomised\n"
        f"twice (Chrome's RAPPOR), and a list of {BROWSERS} versions is asked for:\n"
    ),
}
"""Introductions to the halves of the second act."""
PROCESSES = 2
SHARES = 8
REGISTRY = (files("ldp.cli") / "demo.toml").read_text("utf-8")


@click.command()
@click.option("--users", type=click.IntRange(1), default=1_000_000, help="Keyboards to draw.")
@click.option("--out", type=FILE, default=Path("demo"), help="Folder to write everything into.")
@click.option("--first-act", is_flag=True, help="Stop after the first act, of emoji.")
@SEED
def demo_command(users: int, out: Path, first_act: bool, seed: int | None) -> None:
    """Simulate a million keyboards, from the device to the report, on real emoji frequencies; then
    words that nobody listed, and browser versions.

    Writes estimates.csv, truth.csv and report.html, and everything between, into the folder.

    \b
    Example: ldp demo --out demo --seed 1
    """
    started = time.monotonic()
    marker = out / "metrics.toml"
    is_ours = marker.is_file() and marker.read_text("utf-8", "replace") == REGISTRY
    if out.exists() and any(out.iterdir()) and not is_ours:
        raise ParameterError(f"{out} is neither empty nor an earlier demo's; choose another --out")
    write_whole(marker, REGISTRY)
    families, vocabulary = browsers(), words()
    write_whole(out / "browsers.txt", _lines(_with_absent(families.values, BROWSERS)))
    acts = [_emoji(users, out, seed)]
    if not first_act:
        acts.append(_simulated("words", WORDS_PER_USER * users, out, vocabulary, seed))
        acts.append(_simulated("browser", users, out, families, seed))
    click.echo("\nAll of it on one page, for reading:")
    page = out / "report.html"
    results = [estimates for estimates, _ in acts]
    truths = [word for _, truth in acts for word in ("--truth", truth)]
    _run("report", *results, *truths, "--registry", marker, "--out", page)
    click.echo(f"\nOpen {page}. {time.monotonic() - started:.0f} s in total.")


def _emoji(users: int, out: Path, seed: int | None) -> tuple[Path, Path]:
    """Run the first act; return the files of estimates and truth."""
    started, symbols = time.monotonic(), emoji()
    values = _with_absent(symbols.values, DICTIONARY)
    write_whole(out / "emoji.txt", _lines(values))
    metric = Registry.load(out / "metrics.toml").metric("emoji")
    randomness = generator(seed)
    sample = symbols.sample(users, randomness)
    absent = len(values) - len(symbols.values)
    people = Population(values, counts=np.append(sample.numbers, np.zeros(absent, int)))
    registry, truth, table = out / "metrics.toml", out / "truth.csv", out / "emoji.table"
    estimates = out / "estimates.csv"
    write_whole(truth, people.to_csv())

    epsilon = metric.mechanism.cost.epsilon
    click.echo(
        f"Act one: emoji, from the device on.\n\n"
        f"{users:,} keyboards each insert one emoji, randomise it (epsilon {epsilon:g})\n"
        "and send that. What they inserted is kept in truth.csv alone."
    )
    _collect(metric, people, out / "reports", randomness, seed)
    click.echo(f"The reports are in {out / 'reports'} after {time.monotonic() - started:.0f} s:\n")
    _run("aggregate", "emoji", "--registry", registry, out / "reports", "--out", table)
    _run("decode", table, "--out", estimates)
    _show(estimates, people.truth(), "symbol")
    return estimates, truth


def _simulated(
    metric: str, users: int, out: Path, population: Population, seed: int | None
) -> tuple[Path, Path]:
    """Run a half of the second act, words or browsers."""
    registry, table, reports = out / "metrics.toml", out / f"{metric}.table", out / "reports"
    what = metric.removesuffix("s")
    held, truth, estimates = (
        out / f"{what}s{end}" for end in ("-population.csv", "-truth.csv", ".csv")
    )
    rows = zip(population.values, population.shares.tolist(), strict=True)
    write_whole(held, csv_text([("value", "frequency"), *rows]))
    click.echo(SAID[metric].format(users=users))
    goal = ("--table", table) if metric == "words" else ("--reports", reports)
    seeded = () if seed is None else ("--seed", seed)
    source = ("--registry", registry, "--population", held, "--users", users)
    _run("simulate", metric, *source, *goal, "--truth", truth, *seeded)
    if metric != "words":
        _run("aggregate", metric, "--registry", registry, reports, "--out", table)
    _run("decode", table, "--out", estimates)
    _show(estimates, Population.from_csv(truth).truth(), what)
    return estimates, truth


def _with_absent(values: tuple[str, ...], size: int) -> tuple[str, ...]:
    """Return `size` candidates: the values, and names that nobody holds."""
    return values + tuple(f"absent-{i:04d}" for i in range(1, size - len(values) + 1))


def _lines(values: Sequence[str]) -> str:
    return "\n".join(values) + "\n"


def _collect(
    metric: Metric,
    people: Population,
    store: Path,
    randomness: np.random.Generator,
    seed: int | None,
) -> None:
    """Encode every person's value on a device of their own. The store replaces that of an earlier
    demo."""
    fresh = store.with_name(f".{store.name}.part")
    shutil.rmtree(fresh, ignore_errors=True)
    held = randomness.permutation(np.repeat(np.arange(len(people.values)), people.numbers))
    parts = np.array_split(held, min(SHARES, held.size))
    shares = [[people.values[i] for i in part] for part in parts]
    try:
        with working("devices"):
            encode_shares(metric, current_day(), fresh, seed, shares, PROCESSES)
        shutil.rmtree(store, ignore_errors=True)
        fresh.rename(store)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _run(*words: str | int | Path) -> None:
    """Run one public command in a process of its own."""
    arguments = [str(word) for word in words]
    click.echo(f"  $ {shlex.join(['ldp', *arguments])}")
    done = subprocess.run(
        [sys.executable, "-m", "ldp", *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise LdpError(done.stderr.strip().removeprefix("ldp: ") or "a step of the demo failed")
    click.echo("".join(f"    {line}\n" for line in done.stdout.splitlines()), nl=False)


def _show(estimates: Path, truth: Mapping[str, int], what: str) -> None:
    """Print the largest discoveries beside the truth, and how many values are too rare."""
    from ldp.report.formats import visible_label
    from ldp.tables.saved import SavedResult

    results = SavedResult.load(estimates)
    summary, discoveries = results.summary, results.rows(results.where("discovered"))
    click.echo()
    if discoveries:
        click.echo(COLUMNS.format("", "estimate", "95 % interval", "truth", what).rstrip())
    for rank, row in enumerate(discoveries[:SHOWN], 1):
        low, high, count = row["selected_low"], row["selected_high"], truth.get(row["value"], 0)
        note = "  (held by nobody)" if not count else "" if low <= count <= high else "  (outside)"
        interval = f"{low:,.0f} to {high:,.0f}"
        numbers = rank, f"{row['estimate']:z,.0f}", interval, f"{count:,}"
        click.echo(COLUMNS.format(*numbers, visible_label(row["value"])) + note)
    if len(discoveries) > SHOWN:
        click.echo(f"... and {len(discoveries) - SHOWN} more, in report.html")
    click.echo()
    floor, held = summary["noise_floor"], sum(count > 0 for count in truth.values())
    below = sum(0 < count < floor for count in truth.values())
    rest = (
        f"It takes about {floor:,.0f} of the {summary['reports']:,} reports to stand out (the "
        f"noise floor). Of {held:,} {what}s that somebody holds, {below:,} ({below / held:.1%}) "
        "are rarer: found by luck or not at all."
    )
    click.echo(fill(rest, 88))
