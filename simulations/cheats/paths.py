"""The three paths: what is audited on each, and whether the audit catches a cheat there.

This is the only module of the package that calls the audit. It asks for nothing but a verdict.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ldp.audit.client import audit_client
from ldp.audit.verdict import audited
from ldp.mechanisms import CATALOGUE, CatalogueMechanism
from ldp.mechanisms.presets import COMPLETE, preset_mechanism
from simulations.cheats import Cheat, Metric, Subject
from simulations.cheats.hooks import Hook, client_maker, hooked

TRIALS = 5_000
"""Reports of each value that an audit draws, the default of the command line."""
MOST_EPSILON = 4.0
PATHS = ("encoder", "python")
MODES = {False: "fresh", "per-value": "value", "epoch": "epoch"}


def mechanisms() -> dict[str, CatalogueMechanism]:
    """Return the mechanisms of the encoder's path by name: the examples of the catalogue and the
    presets, up to an epsilon of `MOST_EPSILON`."""
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
    """Return what is audited, with the number of reports of an honest audit, which is run."""
    return _SUBJECTS[path](name)


def _encoder_subject(name: str) -> Subject:
    mechanism, hook = mechanisms()[name], Hook(None)
    verdict = audited(name, hooked(mechanism, hook), TRIALS)
    if not verdict.passed:
        raise RuntimeError(f"the honest encoder of {name} failed: {verdict.findings}")
    modes = ("fresh", "value", "epoch") if mechanism.is_memoisable else ("fresh",)
    metrics = tuple(Metric(None, mechanism, mode) for mode in modes)
    return Subject("encoder", name, metrics, hook.reports)


def _python_subject(name: str) -> Subject:
    hook, metrics = Hook(None), {}
    make = client_maker(hook)

    def noting(*arguments: Any, **options: Any) -> Any:
        client = make(*arguments, **options)
        for mode in client._modes.values():
            metric = mode.metric
            metrics[metric.name] = Metric(metric.name, metric.mechanism, MODES[metric.memoise])
        return client

    audit = audit_client(np.random.default_rng(0), make=noting)
    if not audit.passed:
        raise RuntimeError(f"the honest client failed: {audit.findings}")
    return Subject("python", name, tuple(metrics.values()), hook.reports)


_SUBJECTS: dict[str, Callable[[str], Subject]] = {
    "encoder": _encoder_subject,
    "python": _python_subject,
}


def caught(cheat: Cheat, of: Subject, seed: int) -> str | None:
    """Return the audit's first finding against a cheat; None where it passes."""
    hook = Hook(cheat, seed.to_bytes(8, "little"))
    if of.path == "encoder":
        mechanism = hooked(of.metrics[0].mechanism, hook)
        verdict: Any = audited(of.name, mechanism, TRIALS, seed=seed)
    else:
        verdict = audit_client(np.random.default_rng(seed), make=client_maker(hook))
    return None if verdict.passed else str(next(iter(verdict.findings), "failed"))
