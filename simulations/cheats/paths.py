"""Define the three paths: what is audited on each, and whether the audit catches a cheat there.

No other module of the package calls the audit. This one takes the audit's stages and its judgement
of counts, and stops at the first finding.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from ldp.audit.client import COMMON_PARTS, client_stages
from ldp.audit.draws import Draws
from ldp.audit.foreign import ForeignClients
from ldp.audit.judging import (
    Checks,
    Finding,
    Play,
    Size,
    counted_again,
    findings_of,
    judge,
    size_of,
    suspects,
)
from ldp.audit.verdict import ALPHA, encoder_stages
from ldp.mechanisms import CATALOGUE, CatalogueMechanism
from ldp.mechanisms.presets import COMPLETE, preset_mechanism
from simulations.cheats import Cheat, Metric, Subject
from simulations.cheats.hooks import Hook, client_maker, hooked, serve

TRIALS = 5_000
"""Reports of each value that an audit draws, as the command line does by default."""
MOST_EPSILON = 4.0
PATHS = ("encoder", "python", "typescript")
MODES = {False: "fresh", "per-value": "value", "epoch": "epoch"}
SCRIPT = Path(__file__).with_name("client.mjs")


def mechanisms() -> dict[str, CatalogueMechanism]:
    """Return the mechanisms of the encoder's path by name.

    They are the examples of the catalogue and the presets, up to an epsilon of `MOST_EPSILON`.
    """
    examples = {
        f"{name} {number}": example.mechanism
        for name, kind in CATALOGUE.items()
        for number, example in enumerate(kind.examples())
    }
    every = examples | {name: preset_mechanism(name) for name in COMPLETE}
    return {
        name: mechanism
        for name, mechanism in every.items()
        if mechanism.cost.epsilon <= MOST_EPSILON and not mechanism.needs_shuffler
    }


def names(path: str) -> tuple[str, ...]:
    """Return the names of what is audited on a path."""
    return tuple(mechanisms()) if path == "encoder" else ("client",)


@cache
def subject(path: str, name: str) -> Subject:
    """Return what is audited; an honest audit is run to know its size."""
    return _encoder_subject(name) if path == "encoder" else _client_subject(path, name)


def _judged(stages: Iterator[list[Checks]]) -> tuple[int, int]:
    """Return the size of an honest audit, which must pass."""
    checks = [check for stage in stages for check in stage]
    audit = judge(checks, ALPHA / 2)
    if not audit.passed:
        raise RuntimeError(f"what is honest failed: {audit.findings}")
    return size_of(checks)


def _encoder_subject(name: str) -> Subject:
    mechanism, hook = mechanisms()[name], Hook(None)
    size = _judged(encoder_stages(hooked(mechanism, hook), TRIALS, (), Draws(0)))
    modes = ("fresh", "value", "epoch") if mechanism.is_memoisable else ("fresh",)
    metrics = tuple(Metric(None, mechanism, mode) for mode in modes)
    return Subject("encoder", name, metrics, hook.reports, size)


def _client_subject(path: str, name: str) -> Subject:
    """Return the client of a path; its metrics are those that Python's client records in this
    audit."""
    hook, metrics = Hook(None), dict[str, Metric]()
    make = client_maker(hook)

    def noting(*arguments: Any, **options: Any) -> Any:
        client = make(*arguments, **options)
        for mode in client._modes.values():
            metric = mode.metric
            metrics[metric.name] = Metric(metric.name, metric.mechanism, MODES[metric.memoise])
        return client

    size = _judged(client_stages(Draws(0), make=noting, parts=COMMON_PARTS))
    return Subject(path, name, tuple(metrics.values()), hook.reports, size)


def caught(cheat: Cheat, of: Subject, seed: int) -> str | None:
    """Return the audit's first finding against a cheat; None where the cheat passes."""
    hook = Hook(cheat, seed.to_bytes(8, "little"))
    if of.path == "encoder":
        mechanism = hooked(of.metrics[0].mechanism, hook)
        return _finding(partial(encoder_stages, mechanism, TRIALS, ()), seed, of)
    play = partial(client_stages, parts=COMMON_PARTS)
    if of.path == "python":
        return _finding(partial(play, make=client_maker(hook)), seed, of)
    with typescript(hook, of.metrics) as make:
        return _finding(partial(play, make=make), seed, of)


def _finding(play: Play, seed: int, of: Subject) -> str | None:
    finding = first_finding(play, seed, ALPHA / 2, of.size)
    return None if finding is None else str(finding)


def first_finding(play: Play, seed: int, alpha: float, size: Size) -> Finding | None:
    """Return the finding of `judge_again` in the first stage that has one. `size`: the numbers of
    counts and checks in all stages of an honest audit, which share `alpha`."""
    draws, stages = Draws(seed), list[Sequence[Checks]]()
    for checks in play(draws):
        if finding := next(findings_of(checks, alpha / 2, size), None):
            return finding
        stages.append(checks)
    return next(counted_again(play, draws, suspects(stages, size), alpha / 2), None)


@contextmanager
def typescript(hook: Hook, metrics: Sequence[Metric]) -> Iterator[Callable[..., Any]]:
    """Yield a function that makes TypeScript clients whose reports pass a hook, through two named
    pipes."""
    of_metrics = {str(metric.name): metric.mechanism for metric in metrics}
    with TemporaryDirectory(prefix="ldp-cheat-") as folder:
        pipes = [Path(folder) / name for name in ("requests", "answers")]
        for pipe in pipes:
            os.mkfifo(pipe)

        errors = list[Exception]()

        def answer() -> None:
            with pipes[0].open() as requests, pipes[1].open("w") as answers:
                try:
                    serve(hook, of_metrics, requests, answers)
                except Exception as error:
                    errors.append(error)

        thread = Thread(target=answer, daemon=True)
        thread.start()
        with ForeignClients(["node", str(SCRIPT), *map(str, pipes)]) as program:
            yield program.make
        if errors:
            raise errors[0]
