"""Explanation of a registry for the people it asks, as data and, from that data, in plain words."""

import math
from collections.abc import Iterator, Mapping
from datetime import timedelta
from fractions import Fraction
from textwrap import wrap
from typing import Any

from ldp.accounting.policy import length, length_in_words, periods_touched
from ldp.errors import require_share
from ldp.files import counted, finite
from ldp.mechanisms.outcomes import outcomes, permanent_outcomes
from ldp.protocol.channel import rounded_up
from ldp.registry import Metric, Registry
from ldp.registry.answers import in_100, listing, naming, quoted_answer
from ldp.registry.guessing import linked_reports
from ldp.registry.label import NUMBERS, Label
from ldp.registry.odds import (
    MOST_ODDS,
    REPORTS_MULTIPLY,
    UNLESS,
    caps_sentence,
    epsilon_text,
    guess_sentence,
    in_hundred,
    odds,
    posterior,
)

WIDTH = 100
EPSILON = (
    "Epsilon is a number for how much reports can tell about you: 0 is nothing, and the epsilons "
    "of several reports add up. What each one means is said beside it."
)
NOT_COVERED = (
    "What is recorded on several days can be sent together, and then arrives together. What no "
    "epsilon here covers: that you take part, and how many reports come; when your device sends, "
    "and the address it sends from, which whoever receives it could see; what is learned about "
    "people like you, which would be learned without you as well; what your other devices send, "
    "each with allowances of its own."
)
MARKS = (
    "Names and versions of questions, and how many reports of each, {leave}. For one "
    "period they say in which of {groups} groups your device is, at most (bits: {bits:g}; another "
    "app version is another mark): days can be linked by that alone. Which questions you are "
    "asked, as the arm of an experiment, is told without noise, and no epsilon counts it."
)
WHO = {
    "receiver": (
        "Reports carry no name. To know which ones are yours it takes somebody who receives what "
        "your device sends (a relay, the collector, their hosts, or who breaks into them) and "
        "keeps address, time or marks of each delivery. Whoever receives reports that leave "
        "together knows that they belong together: those of all questions of one period, and after "
        "days without a network those of several."
    ),
    "reader": (
        "Somebody who reads only the stored reports, which have no address, no order and no time "
        "but the day, needs that receiver's help, unless hardly anybody else took part that day."
    ),
    "people": (
        "Other people's reports do not help to take the noise from yours, which is drawn on your "
        "device alone."
    ),
    "device": "Your app, and who holds your unlocked device, see your answers before any noise.",
}
"""Parties that could link reports, or could not, and what each needs."""
SHUFFLED_PEOPLE = (
    "Of messages for a shuffler what hides yours are the dummies of the other people in the batch, "
    "as long as the relay does not help to take them away. Of all other reports, other people's do "
    "not help to take the noise from yours, which is drawn on your device alone."
)
REMEMBERED = {
    False: f"Every report has fresh noise. {REPORTS_MULTIPLY}",
    "epoch": (
        "All reports of {epoch} are about one value; part of the noise is drawn once for all of "
        "them, so together they count as one. A new version of the question starts again."
    ),
    "per-value": (
        "A value is always answered from the same randomised response, and counted once. When a "
        "value changes is not covered: who links reports, and sees when they change, learns more "
        "from one of them than its epsilon."
    ),
}
CHANGING = (
    "Two lives that differ only in the answers of one {window}, and give these answers at other "
    "times as well, are told apart by at most epsilon {epsilon}; each further {window} that "
    "differs can tell as much again. The day on which reports end for good tells how many "
    "different answers there were."
)
"""Sentence about a group with metrics memoised per value, whose caps hold unless values change."""
CONSENT = {
    "unknown": "You have not agreed: nothing is recorded or sent.",
    "granted": "You have agreed.",
    "withdrawn": "You do not agree any more: nothing is recorded or sent.",
}
MESSAGES = (
    "Sent: of one of the answers recorded in {window}, drawn at random, {messages} messages, each "
    "sealed by itself: one with your answer as it is{sending}, and others that are empty or name "
    "an answer drawn by chance. A relay mixes them with those of many other people before anybody "
    "reads them."
)
UNSHUFFLED = (
    "What protects is the relay: one that does not mix, or works together with whoever reads the "
    "messages, leaves nothing, and your answer can be read as it is (epsilon unlimited)."
)
SEEN = {
    "public": (
        "Sent: at most {reports} of the answers recorded in {window}, drawn at random, with noise. "
        "Whoever receives it sees how many reports come, so also whether anything was recorded."
    ),
    "hidden": (
        "Sent: always exactly {reports} in {window}, also if nothing is recorded, so that nobody "
        "sees whether anything was."
    ),
}
SPANS = {
    "day": "all reports of this group about any 24 hours",
    "life": "all reports that this group ever sends",
}


def explanation(
    registry: Registry, name: str | None = None, *, belief: float = 0.5, certainty: float = 0.99
) -> dict[str, Any]:
    """Return the explanation of one metric, or of all, as JSON-ready data (docs/embedding.md).

    `belief`: prior probability that somebody gave the first of two answers. The second has the
    rest. `certainty`: share of right guesses for which the number of linked reports is stated.
    Raises RegistryError for an unknown metric, ParameterError for shares outside (0, 1).
    """
    belief, certainty = require_share(belief, "belief"), require_share(certainty, "certainty")
    chosen = [registry.metric(name)] if name else list(registry.metrics.values())
    groups = {metric.group for metric in chosen}
    trusting = any(metric.needs_shuffler for metric in chosen)
    return {
        "product": registry.product,
        "belief": belief,
        "certainty": certainty,
        "metrics": {metric.name: _metric(registry, metric, belief, certainty) for metric in chosen},
        "groups": {
            group: _group(registry, group, belief) for group in registry.groups if group in groups
        },
        "device": {} if name else _meanings(registry.worst_case_of_all(), belief),
        "marks": marks_of(registry),
        "who": {**WHO, "people": SHUFFLED_PEOPLE} if trusting else WHO,
        "not_covered": NOT_COVERED,
    }


def in_text(data: Mapping[str, Any], width: int = WIDTH) -> str:
    """Return an `explanation` in words, in lines of at most `width` and WIDTH letters."""
    lines = [CONSENT[data["consent"]], EPSILON] if "consent" in data else [EPSILON]
    if data["device"]:
        for name, group in data["groups"].items():
            lines += group_lines(name, group, data["belief"])
            for metric in group["metrics"]:
                lines += [f"  {line}" for line in metric_lines(data, metric)]
        epsilons = [data["device"][span]["epsilon"] for span in ("day", "year", "life")]
        if None in epsilons:
            lines.append("All groups together have no bound where a relay is not honest.")
        elif len(data["groups"]) > 1:
            day, year, life = map(rounded_up, epsilons)
            unless = any(group["is_conditional"] for group in data["groups"].values()) * UNLESS
            lines.append(
                f"The groups add up: together they tell at most epsilon {day} about what was "
                f"recorded in any 24 hours, {year} in any year, and {life} for life{unless}."
            )
    else:
        for name in data["metrics"]:
            lines += metric_lines(data, name)
        for name, group in data["groups"].items():
            lines += group_lines(name, group, data["belief"])
    lines += marks_lines(data["marks"])
    lines += [" ".join(data["who"].values()), data["not_covered"]]
    if "remaining" in data:
        lives = data["remaining_for_life"]
        budgets = [
            f"{name}: {left:g} in the current window, {lives[name]:g} for life"
            for name, left in data["remaining"].items()
            # without an honest relay there is no bound
            if None not in (left, lives[name])
        ]
        lines.append(f"Epsilon that may still be spent: {'; '.join(budgets)}.")
    return "\n".join(part for line in lines for part in _wrapped(line, width))


def marks_of(registry: Registry) -> dict[str, Any]:
    """Return how many `groups` of devices the clear part of one period's batches tells apart, as
    text; `bits`, the logarithm of this number to base 2; and `leave`, words for who can read it."""
    groups = registry.marks()
    bits = math.ceil(100 * math.log2(groups)) / 100
    leave = "are read by whoever opens them" if registry.sealing_keys else "leave in the clear"
    stated = f"{groups:,}" if bits < 40 else f"2**{bits:g}"
    return {"groups": stated, "bits": bits, "leave": leave}


def marks_lines(marks: Mapping[str, Any]) -> list[str]:
    """Return `marks_of` in words; no line where all devices send the same."""
    return [MARKS.format(**marks)] if marks["bits"] else []


def label(registry: Registry, name: str) -> Label:
    """Return the label of a metric for its tables. Raises RegistryError for an unknown metric."""
    metric = registry.metric(name)
    caps = registry.groups[metric.group].caps
    stated: dict[str, Any] = {
        "metric": name,
        "group": metric.group,
        "window": length_in_words(caps.window),
    }
    if metric.needs_shuffler:
        return Label(
            **stated | dict.fromkeys(NUMBERS, math.inf),
            shuffled_report_epsilon=metric.price,
            shuffled_window_epsilon=caps.window_epsilon,
            shuffled_lifetime_epsilon=caps.lifetime_epsilon,
        )
    return Label(
        **stated,
        report_epsilon=metric.mechanism.cost.epsilon,
        window_epsilon=caps.window_epsilon,
        lifetime_epsilon=registry.life_of(metric.group),
        memoise=metric.memoise or "",
        epoch=length_in_words(metric.epoch) if metric.epoch else "",
    )


def _metric(registry: Registry, metric: Metric, belief: float, certainty: float) -> dict[str, Any]:
    """Return the explanation of a metric. For a metric that needs a shuffler, `report` is what one
    person's messages tell whoever sees them, and `shuffled` what they tell behind an honest
    relay."""
    mechanism: Any = metric.mechanism
    answers = listing(metric)
    data = {
        "group": metric.group,
        "version": metric.version,
        "description": metric.description,
        "answers": {**answers._asdict(), "pair": list(answers.pair)},
        "presence": metric.presence,
        "reports_per_window": metric.reports_per_window,
        "window_seconds": length(registry.groups[metric.group].caps.window),
        "report": _meaning(mechanism.cost.epsilon, belief),
    }
    if metric.needs_shuffler:
        return data | {
            "trust": "shuffler",
            "messages": mechanism.messages,
            "sending": mechanism.sending,
            "shuffled": _meaning(metric.price, belief),
        }
    if_held, if_not = naming(mechanism)
    return data | {
        "named_if_held": if_held,
        "named_if_not": if_not,
        "memoise": metric.memoise or "",
        "epoch_seconds": length(metric.epoch) if metric.epoch else 0,
        "charged": _meaning(metric.price, belief),
        "linked": _linked(registry, metric, belief, certainty),
    }


def _linked(registry: Registry, metric: Metric, belief: float, certainty: float) -> dict[str, Any]:
    """Return how many reports, epochs or values (`unit`) about one answer have to be linked for a
    guess to be right with probability `certainty`: `least`, None if no number of them is enough.
    `affordable`: how many of them a lifetime cap pays for, which other metrics share if
    `is_shared`. `windows`: the fewest windows in which the least number of reports is sent."""
    pairs = (permanent_outcomes if metric.memoise else outcomes)(metric.mechanism)
    masses = [[(float(one.first), float(one.second)) for one in classes] for classes in pairs]
    least, is_exact = min(linked_reports(pair, belief, certainty) for pair in masses)
    life, price = registry.life_of(metric.group), Fraction(metric.price)
    sharing = registry.metrics_of(metric.group)
    if life == registry.lifetime_epsilon:
        sharing = list(registry.metrics.values())
    in_window = registry.most_reports(metric)
    is_never = metric.memoise == "per-value" and least > 1
    return {
        "unit": {"epoch": "epochs", "per-value": "values"}.get(metric.memoise or "", "reports"),
        "least": None if is_never else least,
        "is_exact": is_exact,
        "affordable": math.floor(Fraction(life) / price),
        "is_shared": len(sharing) > 1,
        "windows": None if metric.memoise else -(-least // in_window),
    }


def _group(registry: Registry, name: str, belief: float) -> dict[str, Any]:
    caps, members = registry.groups[name].caps, registry.metrics_of(name)
    return {
        "metrics": [metric.name for metric in members],
        "window_seconds": length(caps.window),
        "window_epsilon": caps.window_epsilon,
        "lifetime_epsilon": registry.life_of(name),
        "is_conditional": any(metric.memoise == "per-value" for metric in members),
        **_meanings(registry.worst_case(name), belief),
        **_trust(registry, name, belief),
    }


def _trust(registry: Registry, name: str, belief: float) -> dict[str, Any]:
    """Return the consent of a group that trusts a shuffler, and what an honest relay leaves."""
    if not (group := registry.groups[name]).needs_shuffler:
        return {}
    shuffled = _meanings(registry.capped(name), belief)
    return {"trust": group.trust, "consent": group.consent, "shuffled": shuffled}


def _meanings(worst: Mapping[str, float], belief: float) -> dict[str, Any]:
    return {span: _meaning(epsilon, belief) for span, epsilon in worst.items()}


def _meaning(epsilon: float, belief: float) -> dict[str, float | None]:
    """Return an epsilon (None where there is no bound), the factor of odds (None from MOST_ODDS on,
    where it says nothing), and what it makes of a belief at most."""
    factor = odds(epsilon)
    return {
        "epsilon": finite(epsilon),
        "odds": factor if factor < MOST_ODDS else None,
        "belief": posterior(belief, epsilon),
    }


def metric_lines(data: Mapping[str, Any], name: str) -> Iterator[str]:
    """Yield the sentences of an explanation about the metric `name`. The first says what it
    asks."""
    metric, belief = data["metrics"][name], data["belief"]
    window = timedelta(seconds=metric["window_seconds"])
    answers = metric["answers"]
    quote = str if answers["kind"] in ("text", "numbers") else quoted_answer
    first, second = map(quote, answers["pair"])
    yield f"{name}: {metric['description']}"
    yield f"Answers: {answers['text']}."
    if metric.get("trust"):
        yield MESSAGES.format(
            window=length_in_words(window),
            messages=metric["messages"],
            sending=""
            if metric["sending"] == 1
            else f", in {100 * metric['sending']:.3g} of 100 cases",
        )
        seen = "everything that an honest relay passed on, and knew all answers of others"
        guess = guess_sentence(metric["shuffled"]["epsilon"], seen, (first, second), belief)
        yield f"{guess} The relay states with what small probability this does not hold."
        yield UNSHUFFLED
        return
    epoch = (
        length_in_words(timedelta(seconds=metric["epoch_seconds"]))
        if metric["epoch_seconds"]
        else ""
    )
    yield SEEN[metric["presence"]].format(
        reports=metric["reports_per_window"], window=length_in_words(window)
    )
    yield _naming_sentence(metric, first, second)
    yield guess_sentence(metric["report"]["epsilon"], "one report", (first, second), belief)
    yield REMEMBERED[metric["memoise"] or False].format(epoch=epoch)
    if metric["memoise"]:
        reports = f"all reports of {epoch}" if epoch else "all reports about one value"
        yield guess_sentence(metric["charged"]["epsilon"], reports, (first, second), belief)
    goal = f"To tell {first} from {second} and be right"
    linked = _linked_sentence(metric["linked"], goal, data["certainty"], window, epoch)
    if answers["kind"] == "sets":
        linked = linked.replace("about one answer", "about one unchanged set of answers")
        linked = linked.replace("about the same answer", "about the same set of answers")
        linked += " Sets that share answers take as many or more."
        if metric["memoise"]:
            linked += " An answer that stays while others change is told anew with each set."
    yield linked


def _naming_sentence(metric: Mapping[str, Any], first: str, second: str) -> str:
    if_held, if_not = in_100(metric["named_if_held"]), in_100(metric["named_if_not"])
    answer, condition, otherwise = first, "it is your answer", f"{second} is"
    if metric["answers"]["kind"] == "sets":
        answer, condition, otherwise = "an answer", "it is one of yours that counts", "it is not"
    if metric["answers"]["kind"] == "numbers":
        answer = f"{first}, or a range with it,"
    sentence = (
        f"A report names {answer} {if_held} if {condition}, and {if_not} if {otherwise}; so what "
        "it names may be there by chance."
    )
    if metric["answers"]["kind"] == "sets":
        sentence += " A report that names none of the answers is likelier if you have few."
    return sentence


def _linked_sentence(
    linked: Mapping[str, Any], goal: str, certainty: float, window: timedelta, epoch: str
) -> str:
    goal = f"{goal} {in_hundred(certainty)} times in 100 somebody"
    least, unit = linked["least"], linked["unit"]
    if least == 0:
        return f"{goal} needs no report: the likelier answer is right as often."
    if unit == "values":
        return (
            f"{goal} needs all your reports about one answer, and has to know that they are yours."
            if least
            else f"{goal} cannot get enough: no number of reports about one answer tells as much."
        )
    about = "" if linked["is_exact"] else "about "
    what = {"reports": "of your reports", "epochs": f"of your periods of {epoch}"}[unit]
    same = " about the same answer, and has to know that all are yours" if least > 1 else ""
    needs = f"{goal} needs at least {about}{least:,} {what}{same}"
    shared = ", shared with the other questions" if linked["is_shared"] else ""
    by_chance = " By chance fewer can tell as much." if least > 1 else ""
    if least > linked["affordable"]:
        return (
            f"{needs}: more than the {linked['affordable']:,} that your device may ever send."
            f"{by_chance}"
        )
    life = f"{linked['affordable']:,} in its life{shared}.{by_chance}"
    if unit == "epochs":
        return f"{needs}; your device may tell of {life}"
    windows = f"{counted(linked['windows'], 'window')} of {length_in_words(window)}"
    return f"{needs}; your device sends so many in {windows} or more, and at most {life}"


def group_lines(name: str, group: Mapping[str, Any], belief: float) -> Iterator[str]:
    """Yield the sentences of an explanation about a group: its caps, and what they allow."""
    window = length_in_words(timedelta(seconds=group["window_seconds"]))
    caps = caps_sentence(window, group["window_epsilon"], group["lifetime_epsilon"])
    if group.get("trust"):
        yield f"{name} ({', '.join(group['metrics'])}): {group['consent']}"
        yield f"  Behind an honest relay: {caps}, with a probability to miss that the relay states."
        yield f"  {UNSHUFFLED}"
        return
    metrics, unless = ", ".join(group["metrics"]), group["is_conditional"] * UNLESS
    yield (
        f"{name} ({metrics}): {caps}, on each device{unless}; what is left unspent is not added "
        f"to the next {window.removeprefix('1 ')}."
    )
    touched = periods_touched(timedelta(days=1), timedelta(seconds=group["window_seconds"]))
    day, year = group["day"]["epsilon"], group["year"]["epsilon"]
    life = group["lifetime_epsilon"]
    if day < min(life, touched * group["window_epsilon"]) or year < life:
        yield (
            f"  The metrics that it has now take at most {rounded_up(day)} of that in any 24 "
            f"hours, and {rounded_up(year)} in any year."
        )
    holds = " That holds" + unless.removeprefix(",") + "." if unless else ""
    for span, events in SPANS.items():
        yield f"  {guess_sentence(group[span]['epsilon'], events, None, belief)}{holds}"
    if unless:
        changing = group["changing_per_value"]["epsilon"]
        yield f"  {changing_sentence(window, math.inf if changing is None else changing)}"


def touched_notes(registry: Registry) -> Iterator[str]:
    """Yield for each length of window in a registry why 24 hours hold more than its cap."""
    for window in sorted({group.caps.window for group in registry.groups.values()}):
        windows = periods_touched(timedelta(days=1), window)
        yield (
            f"a cap holds for each window of {length_in_words(window)}, which begin at fixed times "
            f"(UTC); any 24 hours can touch {windows:,} of them"
        )


def changing_notes(registry: Registry) -> Iterator[str]:
    """Yield what the caps of each group with metrics memoised per value do not cover."""
    for name, group in registry.groups.items():
        if changing := registry.worst_case(name).get("changing_per_value"):
            sentence = changing_sentence(length_in_words(group.caps.window), changing)
            yield f"The figures of group {name} hold{UNLESS[1:]}. {sentence}"


def changing_sentence(window: str, changing: float) -> str:
    """Return the sentence about the epsilon `changing` that a changing value costs in each window.
    `window`: its length, such as "1 day"."""
    return CHANGING.format(window=window.removeprefix("1 "), epsilon=epsilon_text(changing))


def _wrapped(line: str, width: int) -> list[str]:
    margin = " " * (len(line) - len(line.lstrip()))
    return wrap(line, min(width, WIDTH), subsequent_indent=margin + "  ")
