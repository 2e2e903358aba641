"""`ldp demo`: the main job end to end on real data.

A million keyboards encode emoji, one call of the device encoder each; the reports go into a store;
from there on the demo is the public commands, each a process of its own that sees files only.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
import numpy as np

from ldp.cli.options import FILE, SEED, generator, progress
from ldp.errors import LdpError, ParameterError
from ldp.files import write_whole
from ldp.registry import Metric, Registry
from ldp.simulation.datasets import emoji
from ldp.simulation.devices import Share, encode_shares
from ldp.simulation.populations import Population

DICTIONARY = 2600  # the size Apple published for its popular emoji
PROCESSES = 2
SHARES = 8  # several a process, so that progress shows
REGISTRY = """\
[product]
name = "demo-keyboard"

[group.typing]
window = "1d"
window_epsilon = 4.0
lifetime_epsilon = 120.0

[metric.emoji]
version = 1
group = "typing"
description = "Which emoji people insert"
owners = ["keyboard-team@example.org"]
expires = 2030-12-31
preset = "apple-emoji"
dictionary = "emoji.txt"
"""


@click.command()
@click.option("--users", type=click.IntRange(1), default=1_000_000, show_default=True)
@click.option("--out", type=FILE, default=Path("demo"), show_default=True)
@click.option("--control", type=click.Choice(["fdr", "bonferroni", "none"]), default="fdr")
@SEED
def demo(users: int, out: Path, control: str, seed: int | None) -> None:
    """A million simulated keyboards, from the device to the report, on real emoji frequencies.

    Writes estimates.csv, truth.csv and report.html, and everything between, into the folder.

    \b
    Example: ldp demo --out demo --seed 1
    """
    started = time.monotonic()
    marker = out / "metrics.toml"
    if out.exists() and any(out.iterdir()) and not _is_ours(marker):
        raise ParameterError(f"{out} is neither empty nor an earlier demo's; choose another --out")
    write_whole(out / "metrics.toml", REGISTRY)
    symbols = emoji()
    absent = tuple(f"absent-{i:04d}" for i in range(1, DICTIONARY - len(symbols.values) + 1))
    values = symbols.values + absent
    write_whole(out / "emoji.txt", "\n".join(values) + "\n")
    metric = Registry.load(out / "metrics.toml").metric("emoji")
    randomness = generator(seed)
    drawn = symbols.sample(users, randomness)
    assert drawn.counts is not None
    people = Population(values, counts=np.append(drawn.counts, np.zeros(len(absent), int)))
    write_whole(out / "truth.csv", people.to_csv())

    epsilon = metric.mechanism.cost.epsilon
    click.echo(f"{users:,} devices randomise one emoji each (epsilon {epsilon:g}) ...")
    _collect(metric, people, out / "reports", randomness, seed)
    click.echo(
        f"  stored in {out / 'reports'} after {time.monotonic() - started:.0f} s; from here on"
    )
    click.echo("  only those files are read:")
    registry, truth, table = out / "metrics.toml", out / "truth.csv", out / "emoji.table"
    estimates, page = out / "estimates.csv", out / "report.html"
    for command in (
        ["aggregate", "emoji", "--registry", registry, out / "reports", "--out", table],
        ["decode", table, "--out", estimates, "--control", control],
        ["report", estimates, "--truth", truth, "--title", "Emoji", "--out", page],
    ):
        _run([str(word) for word in command])
    _show(estimates, people)
    click.echo(f"\n{page} shows it all; {time.monotonic() - started:.0f} s in total.")


def _is_ours(registry: Path) -> bool:
    return registry.is_file() and registry.read_text("utf-8", "replace") == REGISTRY


def _collect(
    metric: Metric,
    people: Population,
    store: Path,
    randomness: np.random.Generator,
    seed: int | None,
) -> None:
    """Every person's device encodes its value; the store takes the place of an earlier demo's."""
    fresh = store.with_name(f".{store.name}.part")
    shutil.rmtree(fresh, ignore_errors=True)
    assert people.counts is not None
    held = randomness.permutation(np.repeat(np.arange(len(people.values)), people.counts))
    shares = [
        Share(
            mechanism=metric.mechanism.parameters(),
            metric=metric.name,
            version=metric.version,
            day=datetime.now(UTC).date(),
            store=fresh,
            part=f"part-{number}",
            held=[people.values[i] for i in part],
            seed=None if seed is None else f"demo {seed} {number}".encode(),
        )
        for number, part in enumerate(np.array_split(held, min(SHARES, held.size)))
    ]
    advance = progress("devices", people.users)
    try:
        for done in encode_shares(shares, PROCESSES):
            advance(done)
        shutil.rmtree(store, ignore_errors=True)
        fresh.rename(store)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _run(arguments: Sequence[str]) -> None:
    """One public command in a process of its own."""
    click.echo(f"  $ ldp {' '.join(arguments)}")
    done = subprocess.run(
        [sys.executable, "-m", "ldp", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LdpError(done.stderr.strip().removeprefix("ldp: ") or "a step of the demo failed")
    click.echo("".join(f"    {line}\n" for line in done.stdout.splitlines()), nl=False)


def _show(estimates: Path, people: Population) -> None:
    """The discoveries beside the truth, and the rest in sentences."""
    from rich.console import Console
    from rich.table import Table

    from ldp.report import Results

    results, truth = Results.load(estimates), people.truth()
    summary, compared = results.summary, results.compared(truth)
    if not results.rows:
        raise ParameterError("no estimates")
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, side in (("", "right"), ("symbol", "left"), ("estimate", "right")):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for name in ("95 % interval", "truth", ""):
        table.add_column(name, justify="right")
    for rank, row in enumerate(results.discovered, 1):
        low, high, count = row["selected_low"], row["selected_high"], truth[row["value"]]
        note = "held by nobody" if not count else "" if low <= count <= high else "outside"
        table.add_row(
            str(rank),
            row["value"],
            f"{row['count']:,.0f}",
            f"{low:,.0f} to {high:,.0f}",
            f"{count:,}",
            note,
        )
    click.echo()
    Console(width=80).print(table)
    found, typed, below = summary["detected"], compared["held_by_somebody"], compared["below_floor"]
    click.echo(
        f"\n{found} of {len(results.rows):,} candidates discovered, {compared['false']} of them "
        f"held by nobody ({summary['control']} at {summary['alpha']:g}).\n"
        f"The noise: a standard error of {summary['noise_std_error']:,.0f} reports for every "
        f"symbol; about {summary['noise_floor']:,.0f}\nreports are needed to be discovered. "
        f"{below} of the {typed} symbols that somebody typed ({below / typed:.0%}) lie\nbelow that "
        "noise floor: they are found by luck or not at all. The last symbols\nof the list tend to "
        "be estimated too high, because that is why they are on it."
    )
    if compared["selected_hold"] is not None:
        click.echo(
            f"Intervals that hold the truth: {compared['selected_hold']:.1%} of the discovered, "
            f"adjusted for selection."
        )
