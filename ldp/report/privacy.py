"""The privacy label of a page: what a summary says about a person's risk, in plain words."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ldp.registry.explaining import NOT_COVERED, REMEMBERED, UNSHUFFLED
from ldp.registry.label import Label
from ldp.registry.odds import PRIORS, caps_sentence, guess_sentence, posterior, rounded_up
from ldp.tables.saved import Facts, SavedResult

NO_LABEL = (
    "Not known here: the caps are in a registry, and the tables that `ldp aggregate` writes carry "
    "them."
)

FRESH = "", ""
"""Memoisation and epoch of a label whose reports have fresh noise each."""


def report_epsilon(file: SavedResult) -> float:
    """Return the epsilon of one whole report of a `file`. For a part of a joint metric this is more
    than the epsilon of the part."""
    epsilon: float = math.inf if file.facts["epsilon"] is None else file.facts["epsilon"]
    return max([epsilon, *(label.report_epsilon for label in file.labels)])


def privacy_label(files_read: Sequence[SavedResult], names: Sequence[str]) -> dict[str, Any]:
    """Return the label of a page: `answers` to each question, with the `names` of the files that
    each answer is about; the `priors`; and for each epsilon the `beliefs` after a report, one for
    each prior."""
    answers: dict[str, dict[str, list[str]]] = {}
    for file, name in zip(files_read, names, strict=True):
        for question, answer in questions(file):
            answers.setdefault(question, {}).setdefault(answer, []).append(name)
    beliefs = {
        rounded_up(epsilon): [posterior(prior, epsilon) for prior in PRIORS]
        for epsilon in sorted({*map(report_epsilon, files_read)})
    }
    return {"answers": answers, "priors": PRIORS, "beliefs": beliefs}


def questions(file: SavedResult) -> Iterator[tuple[str, str]]:
    """Yield the statements of the label of a `file`: pairs of a question and its answer."""
    epsilon = report_epsilon(file)
    if math.isinf(epsilon):
        yield "One person's messages, before they are shuffled", UNSHUFFLED
        behind = " ".join(_shuffled(label) for label in file.labels if label.trusts_shuffler)
        yield "Behind an honest relay", behind or NO_LABEL
        yield "Not covered", NOT_COVERED
        return
    yield "One report", guess_sentence(epsilon)
    yield (
        "Several reports of one person",
        " ".join(_several(file.facts, epsilon, file.labels)),
    )
    yield (
        "The most a device may ever say",
        " ".join(map(_capped, file.labels)) or NO_LABEL,
    )
    yield "Not covered", NOT_COVERED


def _shuffled(label: Label) -> str:
    """Return a sentence with the epsilons behind an honest relay."""
    window, life = label.shuffled_window_epsilon, label.shuffled_lifetime_epsilon
    return (
        f"If the relay is honest, epsilon {rounded_up(label.shuffled_report_epsilon)} for a person "
        f"in a batch; group {label.group}: {caps_sentence(label.window, window, life)}, with a "
        "probability to miss that the relay states."
    )


def _several(summary: Facts, epsilon: float, known: list[Label]) -> Iterator[str]:
    lifetime, days = summary.get("lifetime_epsilon"), len(summary["windows"])
    memoise = {(label.memoise, label.epoch) for label in known}
    if summary.get("memoised") and lifetime is not None:
        if not memoise:
            yield "They share a randomised response; for how long is not known."
        for how, epoch in sorted(memoise - {FRESH}):
            seen = f"all reports of {epoch}" if epoch else "all reports about one value"
            yield f"{REMEMBERED[how].format(epoch=epoch)} {guess_sentence(lifetime, seen)}"
        if FRESH not in memoise:
            return
    yield REMEMBERED[False]
    if days > 1:
        yield (
            f"These are of {days} days: whoever sent a report on each of them spent {days} times "
            f"epsilon, {rounded_up(days * epsilon)}."
        )


def _capped(label: Label) -> str:
    caps = caps_sentence(label.window, label.window_epsilon, label.lifetime_epsilon, label.memoise)
    return (
        f"Its group, {label.group}, may spend {caps}, all metrics together. "
        f"{guess_sentence(label.lifetime_epsilon, 'everything, ever, of this group')} "
        "What other groups of the product spend adds to it."
    )
