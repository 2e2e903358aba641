"""`ldp simulate --scenario`: a collection over many days, before anybody is asked for data.

It prints what was sent, what this cost people, and what an attacker learns who knows which reports
are of one device.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import Generator
from ldp.cli.options import Rows, aligned, generator, say, wrap
from ldp.cli.reading import chosen_reading
from ldp.collection import ReportWriter
from ldp.files import counted, write_whole
from ldp.protocol.channel import rounded_up
from ldp.registry import Registry
from ldp.registry.definitions import Memoise
from ldp.simulation import Population
from ldp.simulation.averaging import Averaged, averaging
from ldp.simulation.linking import linking
from ldp.simulation.longitudinal import Collection, SentReports
from ldp.simulation.people import Scenario, ScenarioMetric, draw_people
from ldp.simulation.scenarios import attacked, memoised, read_scenario

DAYS = (1, 7, 30, 90, 365)
REPORTS = (1, 7, 30)
MOST_VALUES = 1000
"""Largest number of values of a metric, the most frequent ones, that attacked people may hold."""
REGISTERED, FRESH, PER_VALUE = "as registered", "fresh noise, no caps", "per value, no caps"
MANNER = {False: "no", "epoch": "by epoch", "per-value": "per value"}
LINKED: dict[Memoise, str] = {
    False: "fresh noise",
    "epoch": "by epoch, of two epochs",
    "per-value": "per value",
}
WITHIN = ", or within one epoch"
DEVICES_ADD = (
    "Caps are kept by each device. It knows nothing of its owner's other devices, and what they "
    "tell adds: somebody with k of them can tell k times as much as a cap says."
)
ALIKE = (
    "The attacker can tell whose reports are whose, knows the mechanism and how frequent values "
    "are, and takes the most probable value; the people attacked stay and keep their values, which "
    "is when averaging works best. Advantage: how often a likelihood-ratio test of two sets of so "
    "many reports says so if it is so, less how often if it is not; 0 is chance, 100 % certainty."
)


def simulate_days(
    path: Path,
    registry: Path,
    reports: Path | None,
    truth: Path | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Run a scenario, write what the options name, and print the result."""
    scenario = read_scenario(path, Registry.load(registry), chosen_reading())
    randomness = generator(seed)
    people = draw_people(scenario, randomness)
    collection = Collection(scenario, people, randomness)
    sent = _collected(scenario, collection, reports, truth)
    written = {"reports": reports, "truth": truth}
    result: dict[str, Any] = {
        "simulation": True,
        "days": scenario.days,
        "start": scenario.start.isoformat(),
        "users": scenario.users,
        "people": int(people.joined.size),
        "devices": int(people.owner.size),
        "metrics": {
            name: metric | _of_memory(scenario, collection, name) for name, metric in sent.items()
        },
        "spent": _spent(scenario, collection),
        "attacker": _attacker(scenario, randomness),
        "written": {what: str(place) for what, place in written.items() if place is not None},
    }
    say(result, _words(scenario, result), as_json)


def _collected(
    scenario: Scenario,
    collection: Collection,
    reports: Path | None,
    truth: Path | None,
) -> dict[str, dict[str, Any]]:
    """Run all days. Return for each metric the number of reports, also by day, and the share of
    reports about a value that its owner no longer held."""
    days: dict[str, list[int]] = {metric.name: [] for metric in scenario.metrics}
    old = Counter[str]()
    for every in collection.days():
        sent_by_name = {sent.scenario_metric.name: sent for sent in every}
        for name, numbers in days.items():
            numbers.append(sent_by_name[name].devices.size if name in sent_by_name else 0)
        for name, sent in sent_by_name.items():
            old[name] += int((sent.value_indices != sent.held_indices).sum())
            if sent.rows.size:
                _write(scenario, sent, reports, truth)
    return {
        name: {
            "reports": sum(numbers),
            "reports_by_day": numbers,
            "of_old_values": old[name] / max(1, sum(numbers)),
        }
        for name, numbers in days.items()
    }


def _write(scenario: Scenario, sent: SentReports, reports: Path | None, truth: Path | None) -> None:
    """Write one metric's reports of one day to the store, and the values that they are about as a
    population."""
    metric, day = sent.scenario_metric.metric, scenario.date(sent.day)
    if reports is not None:
        with ReportWriter(reports, metric.name, metric.version, metric.mechanism, day) as writer:
            writer.write(sent.rows, sent.payloads)
    if truth is not None:
        values = sent.scenario_metric.values
        counts = np.bincount(sent.value_indices, minlength=len(values))
        population = Population(values, counts=counts)
        write_whole(truth / metric.name / f"{day.isoformat()}.csv", population.to_csv())


def _of_memory(scenario: Scenario, collection: Collection, name: str) -> dict[str, Any]:
    """Return the bound of memoisation: the price, and how often devices paid it."""
    metric = scenario.registry.metric(name)
    charged = collection.charged[name]
    return {
        "memoise": metric.memoise,
        "price": metric.price,
        "report_epsilon": metric.mechanism.cost.epsilon,
        "prices_paid": {"median": _median(charged), "worst": int(charged.max())},
    }


def _spent(scenario: Scenario, collection: Collection) -> dict[str, dict[str, Any]]:
    """Return the epsilon of each budget group, and of all groups together if there are several."""
    groups: dict[str, list[str]] = {}
    for metric in scenario.metrics:
        groups.setdefault(metric.metric.group, []).append(metric.name)
    rows = dict(groups)
    if len(groups) > 1:
        rows["all groups"] = [name for names in groups.values() for name in names]
    spent: dict[str, dict[str, Any]] = {}
    for group, names in rows.items():
        sides = {"device": collection.epsilons(names), "person": collection.persons(names)}
        spent[group] = {
            side: {"median": _median(epsilons), "worst": float(epsilons.max())}
            for side, epsilons in sides.items()
        }
    return spent


def _median(numbers: NDArray[Any]) -> float:
    return float(np.quantile(numbers, 0.5, method="higher"))


def _attacker(scenario: Scenario, randomness: Generator) -> dict[str, Any] | None:
    """Return the averaging attack and the linking attack on every metric whose values can be
    guessed. Returns None if there is none or nobody is attacked."""
    fit = attacked(scenario, MOST_VALUES)
    guessable = [metric for metric in fit.metrics if metric.guessable]
    if not (guessable and fit.attacked):
        return None
    days = sorted({day for day in DAYS if day < scenario.days} | {scenario.days})
    guessed = {
        words: averaging(other, days, randomness, limited=words == REGISTERED)
        for words, other in (
            (REGISTERED, fit),
            (FRESH, memoised(fit, False)),
            (PER_VALUE, memoised(fit, "per-value")),
        )
        if other.metrics
    }
    return {
        "people": fit.attacked,
        "metrics": {
            metric.name: {
                "values": len(metric.population.values),
                "without_reports": float(metric.population.shares.max()),
                "guessed": [
                    {"how": words, "days": list(map(Averaged._asdict, by_metric[metric.name]))}
                    for words, by_metric in guessed.items()
                    if metric.name in by_metric
                ],
                "linked": list(_linked(metric, fit.attacked, randomness)),
            }
            for metric in guessable
        },
    }


def _linked(metric: ScenarioMetric, people: int, randomness: Generator) -> Iterator[dict[str, Any]]:
    """Yield both tests of two sets of reports, under each mode of memoisation."""
    mechanism, population = metric.metric.mechanism, metric.population
    if np.count_nonzero(population.shares) < 2:
        return
    manners: list[Memoise] = list(LINKED) if mechanism.is_memoisable else [False]
    for memoise in manners:
        for reports in REPORTS:
            tests = linking(
                mechanism, population, memoise, reports, people=people, generator=randomness
            )
            results = zip(("person", "change"), (test._asdict() for test in tests), strict=True)
            yield {"memoise": memoise, "reports": reports, **dict(results)}


def _words(scenario: Scenario, result: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"A simulation: {scenario.users:,} people at a time, {result['people']:,} in all with "
        f"{counted(result['devices'], 'device')}, {counted(scenario.days, 'day')} from "
        f"{scenario.start}."
    )
    yield from ("", *_words_of_reports(result["metrics"]))
    yield from ("", *_words_of_spending(result))
    if (attacker := result["attacker"]) is not None:
        yield from _words_of_attacks(attacker)
    for what, place in result["written"].items():
        yield f"{what} -> {place}"


def _words_of_reports(metrics: Mapping[str, Any]) -> Iterator[str]:
    heads = ("reports", "on first day", "on last day", "of old values")
    table: Rows = [("metric", "memoised", *heads)]
    for name, metric in metrics.items():
        days = [many for many in metric["reports_by_day"] if many] or [0]
        cells = [f"{number:,}" for number in (metric["reports"], days[0], days[-1])]
        cells.append(f"{100 * metric['of_old_values']:.1f} %")
        table.append((name, MANNER[metric["memoise"]], *cells))
    yield from aligned(table)


def _words_of_spending(result: Mapping[str, Any]) -> Iterator[str]:
    yield "What people spent, epsilon        a device          a person"
    yield "                               median   worst    median   worst"
    for group, spent in result["spent"].items():
        numbers = [spent[side][which] for side in ("device", "person") for which in spent[side]]
        yield f"{group:<27} " + " ".join(f"{rounded_up(number):>8}" for number in numbers)
    yield from wrap(DEVICES_ADD)
    for name, metric in result["metrics"].items():
        if metric["memoise"]:
            yield from wrap(_bound(name, metric))


def _bound(name: str, metric: Mapping[str, Any]) -> str:
    """Return in words what memoisation bounds, and how often it was paid."""
    paid, price = metric["prices_paid"], rounded_up(metric["price"])
    if metric["memoise"] == "epoch":
        what = f"whatever is sent in an epoch costs {price} together"
    else:
        what = f"whatever is sent about one value costs {price} together, for life"
    return (
        f"{name}, memoised {MANNER[metric['memoise']]}: {what}; devices paid it "
        f"{paid['median']:.0f} (median) to {paid['worst']} times."
    )


def _words_of_attacks(attacker: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", *wrap(f"What somebody learns. {ALIKE}"))
    error = 0.5 / attacker["people"] ** 0.5
    yield (
        f"{attacker['people']:,} people of each kind; standard errors of shares are "
        f"{100 * error:.2g} % at most, of advantages {141 * error:.2g} %."
    )
    for name, metric in attacker["metrics"].items():
        yield from ("", *_words_of_guesses(name, metric))
        yield from _words_of_links(metric["linked"])
    yield ""


def _words_of_guesses(name: str, metric: Mapping[str, Any]) -> Iterator[str]:
    days = [guess["days"] for guess in metric["guessed"][0]["days"]]
    heads = "".join(f"{counted(number, 'day'):>10}" for number in days)
    yield f"{f'{name}: guessed right after':<44}{heads}"
    without = 100 * metric["without_reports"]
    yield f"  {'without any report':<42}" + f"{without:8.1f} %" * len(days)
    for row in metric["guessed"]:
        for words, key in ((row["how"], "right"), ("  at most, by its epsilon", "at_most")):
            shares = "".join(f"{100 * guess[key]:8.1f} %" for guess in row["days"])
            yield f"  {words:<42}{shares}"


def _words_of_links(linked: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines about both tests of two sets of reports."""
    heads = {"person": "one person's, not two people's", "change": "the value changed between"}
    for test, words in heads.items() if linked else ():
        every = "".join(f"{f'{reports} + {reports}':>10}" for reports in REPORTS)
        yield f"  {f'advantage: {words}':<42}{every}"
        for start in range(0, len(linked), len(REPORTS)):
            row = linked[start : start + len(REPORTS)]
            shares = "".join(f"{100 * result[test]['advantage']:8.1f} %" for result in row)
            memoise = row[0]["memoise"]
            within = WITHIN if (test, memoise) == ("person", "per-value") else ""
            yield f"    {LINKED[memoise] + within:<40}{shares}"
