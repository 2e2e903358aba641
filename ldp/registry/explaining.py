"""Explanation of a registry for the people it asks, in odds and plain words."""

from collections.abc import Iterator
from datetime import timedelta
from textwrap import wrap

from ldp.accounting.explain import REPORTS_MULTIPLY, caps_sentence, guess_sentence, upwards
from ldp.accounting.label import Label
from ldp.registry import Metric, Registry

WIDTH = 100
NOT_COVERED = (
    "What is recorded on several days can be sent together. What no epsilon here covers: that you "
    "take part; when your device sends, and the address it "
    "sends from, which whoever receives it could see; what is learned about people like you, which "
    "would be learned without you as well; what your other devices send, each with allowances of "
    "its own."
)
REMEMBERED = {
    False: f"Every report has fresh noise. {REPORTS_MULTIPLY}",
    "epoch": (
        "All reports of {epoch} are about one value and count once, together. A new version of the "
        "question starts again."
    ),
    "per-value": (
        "A value is always answered from the same randomised response, and counted once. When a "
        "value changes is not covered: between people whose answers change at other times only one "
        "report is covered."
    ),
}
UNLESS = " That holds as long as nobody learns when a value changes."
SEEN = {
    "public": "Sent: up to {reports} of what is recorded in {window}; how many is visible.",
    "hidden": ("Sent: exactly {reports} in {window}, whatever is recorded, also if nothing is."),
}


def explained(registry: Registry, name: str | None = None) -> str:
    """Return the explanation of one metric, or of all by group, and of what is not covered. Raise
    RegistryError for an unknown metric."""
    if name is not None:
        metric = registry.metric(name)
        lines = [*_metric(registry, metric), *_group(registry, metric.group)]
    else:
        lines = []
        for group in registry.groups:
            members = registry.metrics_of(group)
            lines += _group(registry, group) if members else []
            lines += [f"  {line}" for metric in members for line in _metric(registry, metric)]
        worst = registry.worst_case_of_all()
        lines.append(
            f"Groups add: all of them tell at most epsilon {upwards(worst['day'])} of any 24 hours "
            f"and {upwards(worst['life'])} for life."
        )
    return "\n".join(part for line in [*lines, NOT_COVERED] for part in _wrapped(line))


def label(registry: Registry, name: str) -> Label:
    """Return the label of a metric for its tables; raise RegistryError for an unknown metric."""
    metric = registry.metric(name)
    caps = registry.groups[metric.group].caps
    return Label(
        metric=name,
        group=metric.group,
        report_epsilon=metric.mechanism.cost.epsilon,
        window=_length(caps.window),
        window_epsilon=caps.window_epsilon,
        lifetime_epsilon=min(caps.lifetime_epsilon, registry.lifetime_epsilon),
        memoise=metric.memoise or "",
        epoch=_length(metric.epoch) if metric.epoch else "",
    )


def _metric(registry: Registry, metric: Metric) -> Iterator[str]:
    window = _length(registry.groups[metric.group].caps.window)
    epoch = _length(metric.epoch) if metric.epoch else ""
    yield f"{metric.name}: {metric.description}"
    yield SEEN[metric.presence].format(reports=metric.reports_per_window, window=window)
    yield guess_sentence(metric.mechanism.cost.epsilon)
    yield REMEMBERED[metric.memoise].format(epoch=epoch)
    if metric.memoise:
        reports = f"all reports of {epoch}" if epoch else "all reports about one value"
        yield guess_sentence(metric.price, reports)


def _group(registry: Registry, name: str) -> Iterator[str]:
    caps, worst = registry.groups[name].caps, registry.worst_case(name)
    life = min(caps.lifetime_epsilon, registry.lifetime_epsilon)
    members = registry.metrics_of(name)
    names = ", ".join(metric.name for metric in members)
    limits = caps_sentence(_length(caps.window), caps.window_epsilon, life)
    yield f"{name} ({names}): {limits}, on each device; what is not spent lapses."
    unless = UNLESS if any(metric.memoise == "per-value" for metric in members) else ""
    for span, events in (("day", "everything of any 24 hours"), ("life", "everything, ever")):
        yield f"  {guess_sentence(worst[span], f'{events}, of this group')}{unless}"


def _length(span: timedelta) -> str:
    sizes = {"day": timedelta(days=1), "hour": timedelta(hours=1), "minute": timedelta(minutes=1)}
    unit, size = next(pair for pair in sizes.items() if span % pair[1] == timedelta(0))
    return f"1 {unit}" if span == size else f"{span // size} {unit}s"


def _wrapped(line: str) -> list[str]:
    margin = " " * (len(line) - len(line.lstrip()))
    return wrap(line, WIDTH, initial_indent="", subsequent_indent=margin + "  ")
