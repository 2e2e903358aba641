"""The privacy label of a page: what the summary says about a person's risk, in plain words."""

from collections.abc import Iterator, Mapping
from typing import Any

from ldp.accounting.explain import caps_sentence, guess_sentence, upwards
from ldp.accounting.label import Label
from ldp.registry.explaining import NOT_COVERED, REMEMBERED

NO_LABEL = (
    "Not known: the table does not carry what its metric may spend. Tables that `ldp aggregate` "
    "writes do."
)


def labels(summary: Mapping[str, Any]) -> list[Label]:
    """Return the labels that the summary carries."""
    return [Label.of(fields) for fields in summary.get("labels", [])]


def report_epsilon(summary: Mapping[str, Any]) -> float:
    """Return the epsilon of one whole report, which for a part of a joint metric is more than the
    part's own."""
    epsilon: float = summary["epsilon"]
    return max([epsilon, *(label.report_epsilon for label in labels(summary))])


def questions(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the statements of the label: a question and its answer, one after the other."""
    epsilon, known = report_epsilon(summary), labels(summary)
    yield "One report", guess_sentence(epsilon)
    yield "Several reports of one person", " ".join(_several(summary, epsilon, known))
    yield (
        "The most a device may ever say",
        " ".join(_capped(label) for label in known) or NO_LABEL,
    )
    yield "Not covered", NOT_COVERED


def _several(summary: Mapping[str, Any], epsilon: float, known: list[Label]) -> Iterator[str]:
    lifetime, days = summary.get("lifetime_epsilon"), len(summary["windows"])
    memoise = {(label.memoise, label.epoch) for label in known}
    if summary.get("memoised") and lifetime is not None:
        if not memoise:
            yield "They share a randomised response; for how long is not known."
        for how, epoch in sorted(memoise):
            seen = f"all reports of {epoch}" if epoch else "all reports about one value"
            yield f"{REMEMBERED[how or False].format(epoch=epoch)} {guess_sentence(lifetime, seen)}"
        return
    yield REMEMBERED[False]
    if days > 1:
        yield (
            f"These are of {days} days: whoever sent a report on each of them spent {days} times "
            f"epsilon, {upwards(days * epsilon)}."
        )


def _capped(label: Label) -> str:
    return (
        f"Its group, {label.group}, may spend "
        f"{caps_sentence(label.window, label.window_epsilon, label.lifetime_epsilon)}, all metrics "
        "together. "
        f"{guess_sentence(label.lifetime_epsilon, 'everything, ever, of this group')} "
        "What other groups of the product spend adds to it."
    )
