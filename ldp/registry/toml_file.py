"""Reader of metrics.toml, which checks it key by key.

The message of an error is one line, with the place and what would be right.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from datetime import timedelta
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from ldp.accounting.policy import Caps
from ldp.errors import LdpError, ParameterError, RegistryError, errors_in
from ldp.mechanisms import METRIC_MECHANISMS, CatalogueMechanism, Mechanism, from_parameters
from ldp.mechanisms.presets import PRESETS
from ldp.protocol.channel import rounded_up
from ldp.protocol.hashing import derived_seed
from ldp.protocol.keys import (
    DAY,
    EPSILON,
    FILE,
    FLAG,
    PLAIN,
    PLAINS,
    SPAN,
    TEXT,
    Form,
    Key,
    choice,
    nearest,
    read_keys,
    require_known,
    section,
    several,
    whole,
)
from ldp.protocol.strict_json import are_texts, read_toml
from ldp.registry.definitions import Group, Memoise, Metric, listed_in, read_bytes

MOST_NAME, MOST_VERSION = 100, 2**32 - 1
"""Most letters of a name, two of which fit into the name of a file or of a queue, and largest
version that a sealed batch can carry."""
DEVELOPMENT = 2**31
"""Number added to the versions in a registry for development: no other registry counts its reports.
"""
FINGERPRINT = Form("64 hexadecimal digits", (str,), pattern="[0-9a-f]{64}")
TOP = {
    "product": Key(section(" [product]")),
    "group": Key(section(" [group.NAME] for each budget")),
    "metric": Key(section(" [metric.NAME] for each metric")),
}
PRODUCT = {
    "name": Key(PLAIN, "Name of the product, which goes into derived seeds"),
    "lifetime_epsilon": Key(EPSILON, "Cap for life on all groups of a device together", math.inf),
    "development": Key(FLAG, "For a developer's own screen only", False),
    "sealing_keys": Key(
        several(FINGERPRINT, "a list of fingerprints that `ldp key FILE` prints"),
        "Fingerprints of the collector's keys that devices may seal reports to",
        (),
    ),
}
CAPS = {
    "window": Key(SPAN, "Length of the windows that a cap holds for"),
    "window_epsilon": Key(EPSILON, "Cap on every window"),
    "lifetime_epsilon": Key(EPSILON, "Cap for life"),
    "report_epsilon": Key(EPSILON, "Cap on one report", None),
}
GROUP = CAPS | {
    "lateness": Key(
        SPAN, "How old a sealed batch may be that the collector takes", timedelta(days=7)
    ),
    "trust": Key(choice("device", "shuffler"), "What protects a person", "device"),
    "consent": Key(
        PLAIN._replace(read=str.strip), "What a person agrees to, where a shuffler is trusted", ""
    ),
}
METRIC = {
    "version": Key(whole(1, MOST_VERSION), "Raise it with any change"),
    "group": Key(TEXT, "Name of the budget group"),
    "description": Key(PLAIN, "What is asked"),
    "owners": Key(PLAINS, "Who answers for the metric"),
    "expires": Key(DAY, "Last day, without quotes"),
    "mechanism": Key(Form("the name of a mechanism"), "How values are randomised", None),
    "preset": Key(choice(*sorted(PRESETS)), "Published parameters", None),
    "dictionary": Key(FILE, "File of candidates, beside metrics.toml", None),
    "memoise": Key(choice(False, "epoch", "per-value"), "What reports share", False),
    "epoch": Key(SPAN, "Time for which one response holds", None),
    "reports_per_window": Key(whole(1, 10_000), "Reports that a device sends in a window", None),
    "presence": Key(choice("public", "hidden"), "Whether it shows who reports", "public"),
    "words": Key(choice("clean", "refuse"), "Words with other letters", None),
    "other": Key(TEXT, "Category that stands for every value that is not listed", None),
    "planned_for": Key(PLAIN, "People about whom the plan of the metric states its error", None),
    "control": Key(TEXT, "Public value that every build records, to be seen in its reports", None),
    "shuffled_epsilon": Key(
        EPSILON, "What a report should cost in a relay's batch, by itself", None
    ),
}
CHARGED_FOR: dict[Memoise, str] = {
    False: "a report costs",
    "epoch": "the reports of an epoch cost",
    "per-value": "the reports about one value cost",
}
JOINT = "joint"
"""Name of the mechanism whose parts are the mechanisms of other metrics."""
_NAME = re.compile("[A-Za-z0-9_-]+")
LEAST_SHUFFLED = 0.01
"""Least target of messages for a shuffler: below it, finding the batch it needs takes minutes."""


class Contents(NamedTuple):
    """Contents of a metrics.toml. `lifetime_epsilon`: cap for life of all groups together.
    `development`: whether its reports are a developer's own, which no other registry counts.
    `sealing_keys`: fingerprints of the keys that devices may seal reports to."""

    path: Path
    product: str
    groups: Mapping[str, Group]
    metrics: Mapping[str, Metric]
    lifetime_epsilon: float = math.inf
    development: bool = False
    sealing_keys: tuple[str, ...] = ()


def read_registry(path: Path) -> Contents:
    """Return the contents of a metrics.toml. Raises RegistryError with a line for each mistake: the
    place and the remedy."""
    document = read_toml(path)
    with errors_in(str(path), RegistryError):
        return _contents(path, document)


def _depends(keys: Any, mistakes: Mapping[str, str]) -> bool:
    """Return whether a metric's group or a member of it has a mistake, which is said once."""
    if not (mistakes and isinstance(keys, dict)):
        return False
    members = keys.get("of") if isinstance(keys.get("of"), list) else []
    names = {f"group.{keys.get('group')}", *(f"metric.{member}" for member in members or ())}
    return not names.isdisjoint(mistakes)


def _with_lines(path: Path, mistakes: Mapping[str, str]) -> Iterator[str]:
    """Yield mistakes, each after "line N: ": the line of the section's key that the mistake names
    first, or else of the section's header. Without "line N: " where that line is not recognised."""
    keys, here = dict[str, dict[str, int]](), dict[str, int]()
    for number, line in enumerate(read_bytes(path).decode().split("\n"), 1):
        if header := re.match(r"\s*\[\s*(\w+)\s*\.\s*([\"']?)(.*?)\2\s*\]", line):
            here = keys.setdefault(f"{header[1]}.{header[3]}", {"": number})
        elif re.match(r"\s*\[", line):
            here = {}
        elif key := re.match(r"\s*([\w-]+)\s*=", line):
            here[key[1]] = number
    for where, mistake in mistakes.items():
        places = keys.get(where, {})
        words = re.findall(r"[\w-]+", mistake.removeprefix(f"[{where}]").partition(",")[0])
        place = next((places[word] for word in (*words, "") if word in places), None)
        yield f"line {place}: {mistake}" if place else mistake


def _contents(path: Path, document: dict[str, Any]) -> Contents:
    with errors_in("the top level"):
        top = read_keys(document, TOP)
    with errors_in("[product]"):
        product = read_keys(top["product"], PRODUCT)
    for kind in ("group", "metric"):
        with errors_in(f"[{kind}]"):
            _require_names(kind, top[kind])
    groups, mistakes = dict[str, Group](), dict[str, str]()
    for name, keys in top["group"].items():
        try:
            groups[name] = _group(name, keys)
        except LdpError as error:
            mistakes[f"group.{name}"] = f"[group.{name}]: {error}"
    reader = _Metrics(path, product["name"], product["development"], groups)
    sections = top["metric"]
    # after their members
    for name in sorted(sections, key=lambda name: _is_joint(sections[name])):
        try:
            if not _depends(sections[name], mistakes):
                reader.read(name, sections[name])
        except LdpError as error:
            mistakes[f"metric.{name}"] = f"[metric.{name}]: {error}"
    if mistakes:
        raise RegistryError("\n".join(_with_lines(path, mistakes)))
    metrics = {name: reader.metrics[name] for name in sections}
    contents = Contents(path, product.pop("name"), groups, metrics, **product)
    _require_one_presence(metrics.values())
    _require_shufflers_apart(groups, contents.lifetime_epsilon, contents.sealing_keys)
    for name, metric in metrics.items():
        if metric.needs_shuffler:
            metrics[name] = metric._replace(sealing_key=contents.sealing_keys[0])
    for metric in metrics.values():
        _require_budget(metric, groups[metric.group].caps, contents.lifetime_epsilon)
    return contents


def _require_names(kind: str, names: Iterable[str]) -> None:
    """Raise RegistryError for a name that is not plain ASCII, that is too long for the name of a
    file or a queue, or that differs from another in case only: people could not tell them apart."""
    lowered = dict[str, str]()
    for name in names:
        if not _NAME.fullmatch(name):
            raise RegistryError(f"a {kind}'s name has letters a to z, digits, - and _: {name!a}")
        if len(name) > MOST_NAME:
            raise RegistryError(f"a {kind}'s name has {MOST_NAME} letters at most")
        if (other := lowered.setdefault(name.lower(), name)) != name:
            raise RegistryError(f"{other} and {name} differ in case only: give one another name")


def _is_joint(keys: Any) -> bool:
    return isinstance(keys, dict) and keys.get("mechanism") == JOINT


def _group(name: str, keys: Any) -> Group:
    values = read_keys(keys, GROUP)
    caps = Caps(**{cap: values.pop(cap) for cap in CAPS})
    group = Group(name=name, caps=caps, **values)
    if bool(group.consent) != group.needs_shuffler:
        raise RegistryError(
            'consent, the text that people agree to, goes with trust = "shuffler", and only with it'
        )
    if group.needs_shuffler and (caps.report_epsilon or caps.window % timedelta(days=1)):
        raise RegistryError(
            'trust = "shuffler" needs a window of whole days, so that a batch of a day has one '
            "record of a person, and no report_epsilon, since a report alone has no bound"
        )
    return group


def _require_shufflers_apart(
    groups: Mapping[str, Group], life: float, sealing_keys: tuple[str, ...]
) -> None:
    """Raise RegistryError for a group that trusts a shuffler if the device has a cap for life,
    which such a group cannot keep, or if `sealing_keys` does not hold exactly one key."""
    for name in (name for name, group in groups.items() if group.needs_shuffler):
        if life < math.inf:
            raise RegistryError(
                f'[group.{name}]: trust = "shuffler" has no bound before the relay, so it cannot '
                "be under lifetime_epsilon of [product]: take that out, or give it its own product"
            )
        if len(sealing_keys) != 1:
            raise RegistryError(
                f'[group.{name}]: trust = "shuffler" needs exactly one key in sealing_keys: the '
                "collector could tell apart who seals to which"
            )


class _Metrics:
    """Metrics of the registry at `path`, read one after the other, members before joint ones."""

    def __init__(
        self, path: Path, product: str, development: bool, groups: Mapping[str, Group]
    ) -> None:
        self._path, self._product, self._groups = path, product, groups
        self._added = DEVELOPMENT if development else 0
        self.metrics = dict[str, Metric]()

    def read(self, name: str, keys: Any) -> None:
        """Add the metric of a section. Raises an LdpError that names the key."""
        values = read_keys(keys, METRIC, may_have_others=True)
        if values["group"] not in self._groups:
            choice(*self._groups).take("group", values["group"])
        group = self._groups[values["group"]]
        values["version"] += self._added
        if values["version"] > MOST_VERSION:
            whole(1, MOST_VERSION - self._added).take("version", keys["version"])
        # in a window of a day a device sends what its preset's do
        is_daily = "preset" in keys and group.caps.window == timedelta(days=1)
        donations = PRESETS[keys["preset"]].donations if is_daily else None
        values["reports_per_window"] = values["reports_per_window"] or donations or 1
        members = _members(keys, self.metrics) if _is_joint(keys) else ()
        identity = (self._product, name, str(values["version"]))
        values["mechanism"] = mechanism = _mechanism(self._path, keys, identity, members)
        if values["dictionary"]:
            values["dictionary"] = self._path.parent / values["dictionary"]
        words, has_words = values.pop("words"), mechanism.spelling is not None
        if words and not has_words:
            raise RegistryError('words = "clean" or "refuse" belongs to mechanisms of words only')
        del values["preset"]
        cleans = has_words and words != "refuse"
        metric = Metric(name=name, members=members, cleans=cleans, **values)
        for objection in chain(
            _of_memoisation(metric, group), _of_shuffler(metric, group, keys), _of_values(metric)
        ):
            raise RegistryError(objection)
        self.metrics[name] = metric


def _of_shuffler(metric: Metric, group: Group, keys: Mapping[str, Any]) -> Iterator[str]:
    """Yield what in a metric does not fit the `trust` of its group."""
    name = f"mechanism {metric.mechanism.name!r}"
    if metric.needs_shuffler != group.needs_shuffler:
        yield (
            f"{name} protects nothing before a relay shuffled: it needs a group with trust = "
            '"shuffler"'
            if metric.needs_shuffler
            else f'{name} has noise of its own, so its group must not have trust = "shuffler"'
        )
    if metric.shuffled_epsilon and metric.memoise:
        yield (
            "shuffled_epsilon does not go with memoise: reports that share a permanent response "
            "stay linked in a shuffled batch"
        )
    if not metric.needs_shuffler:
        return
    if metric.shuffled_epsilon is None:
        yield (
            f"{name} needs shuffled_epsilon, which the relay holds batches for, and which is "
            "charged for a record"
        )
    elif metric.shuffled_epsilon < LEAST_SHUFFLED:
        yield f"{name} needs a shuffled_epsilon of {LEAST_SHUFFLED:g} at least"
    if metric.reports_per_window != 1:
        yield f"{name} sends one record in a window: reports_per_window = 1"
    if "presence" in keys or "control" in keys:
        yield f"{name} has neither presence nor control"


def _of_memoisation(metric: Metric, group: Group) -> Iterator[str]:
    """Yield what in a metric does not fit its memoisation."""
    memoise, epoch, mechanism = metric.memoise, metric.epoch, metric.mechanism
    if memoise and not mechanism.is_memoisable:
        names = ", ".join(name for name, kind in METRIC_MECHANISMS.items() if kind.is_memoisable)
        yield f"mechanism {mechanism.name!r} memoises nothing; these do: {names}"
    if memoise and math.isinf(mechanism.cost.lifetime):
        yield "a permanent response without noise (f = 0) must not be memoised"
    if (memoise == "epoch") != (epoch is not None):
        yield 'epoch, such as "90d", goes with memoise = "epoch", and only with it'
    if epoch is not None and (not epoch or epoch % group.caps.window):
        yield "epoch must be a multiple of the group's window"


def _of_values(metric: Metric) -> Iterator[str]:
    """Yield what is wrong with the values that stand for none and for others, and with the control,
    whose reports must be all about it and share no noise."""
    mechanism, control = metric.mechanism, metric.control
    if metric.presence == "hidden" and metric.memoise == "per-value":
        yield (
            'presence = "hidden" does not go with memoise = "per-value": what is charged would '
            "depend on the values"
        )
    if metric.presence == "hidden" and mechanism.placeholder is None:
        yield (
            'presence = "hidden" needs a value that stands for none: a mechanism with categories '
            'lists one called "none"; sketches and Bloom filters have the empty text'
        )
    if metric.other is not None and metric.other not in listed_in(mechanism):
        yield "other must name one of the mechanism's categories"
    if control is None:
        return
    is_fresh = not metric.memoise and metric.presence == "public"
    if not (is_fresh and isinstance(mechanism, Mechanism)) or mechanism.at_most_answers > 1:
        yield "control belongs to metrics of one value with fresh noise and public presence"
        return
    try:
        addressing = mechanism.candidate_addressing
        cells = addressing.cells(addressing.point(control), 0)
    except (ParameterError, TypeError):
        yield "control must be a value that the mechanism takes as text"
        return
    if len(cells) != 1 and mechanism.kind.is_bitwise:
        yield "control needs a mechanism in which a value has one bit: hashes = 1"


def _members(keys: dict[str, Any], metrics: Mapping[str, Metric]) -> tuple[Metric, ...]:
    """Return the metrics that a joint metric names."""
    names, members = keys.get("of"), list[Metric]()
    if not are_texts(names):
        raise RegistryError('of must be a list of metrics, such as ["shown", "dismissed"]')
    for name in names:
        if (member := metrics.get(name)) is None:
            raise RegistryError(f"of names no metric {name!r}{nearest(name, metrics)}")
        if member.group != keys["group"]:
            raise RegistryError(
                f"metric {name!r} is in group {member.group!r}: a joint metric is charged to "
                "one group, that of its members"
            )
        if member.memoise:
            raise RegistryError(
                f"metric {name!r} is memoised: a joint report has fresh noise and would reveal "
                "what its permanent response hides; give the joint metric a member that is not"
            )
        if member.needs_shuffler:
            raise RegistryError(
                f"metric {name!r} is for a shuffler: it can be no member of another"
            )
        members.append(member)
    if "dictionary" in keys:
        raise RegistryError("a joint metric has the dictionaries of its members, none of its own")
    return tuple(members)


def _require_one_presence(metrics: Iterable[Metric]) -> None:
    """Raise RegistryError for a group in which some metrics are hidden and some are not."""
    first = dict[str, Metric]()
    for metric in metrics:
        other = first.setdefault(metric.group, metric)
        if other.presence != metric.presence:
            hidden, public = sorted((other, metric), key=lambda metric: metric.presence)
            raise RegistryError(
                f"[group.{metric.group}]: metric {hidden.name!r} is hidden and {public.name!r} is "
                "not: the reports of one would reveal what the other spent"
            )


def _require_budget(metric: Metric, caps: Caps, life: float) -> None:
    """Raise RegistryError for a metric that could never send a report under its group's caps."""
    limit = min(caps.window_epsilon, caps.lifetime_epsilon, life)
    for description, cost, cap in (
        ("a report costs", metric.mechanism.cost.epsilon, caps.report_epsilon),
        (CHARGED_FOR[metric.memoise], metric.price, limit),
    ):
        if cap is not None and cost > cap:
            raise RegistryError(
                f"[metric.{metric.name}]: {description} {rounded_up(cost)}, "
                f"its group's cap is {cap}"
            )


def _mechanism(
    path: Path, keys: dict[str, Any], identity: tuple[str, ...], members: tuple[Metric, ...]
) -> CatalogueMechanism:
    """Return the mechanism of a metric, from its preset's parameters and its own keys. A missing
    seed is derived from product, metric and version. Categories may be a file. A joint metric has
    the mechanisms of its members."""
    parameters: dict[str, Any] = {}
    if "preset" in keys:
        parameters.update(PRESETS[keys["preset"]].parameters)
    if "mechanism" in keys:
        parameters["mechanism"] = keys["mechanism"]
    if "mechanism" not in parameters:
        require_known(keys, METRIC.keys() | _parameter_names())
    kind = _kind(parameters.get("mechanism"), "preset" in keys)
    name = kind.name
    own_keys, needed = _keys_of(kind)
    parameter_keys = {key: value for key, value in keys.items() if key not in METRIC}
    if not parameter_keys.keys() <= own_keys.keys():
        if others := sorted((parameter_keys.keys() - own_keys.keys()) & _parameter_names()):
            own = ", ".join(own_keys)
            raise RegistryError(f"mechanism {name!r} takes {own}, not {others[0]!r}")
        require_known(keys, METRIC.keys() | own_keys.keys())
    parameters.update(parameter_keys)
    if kind.has_seed(parameters):
        parameters.setdefault("seed", derived_seed(*identity))
    for key in ("categories", "by"):
        if isinstance(parameters.get(key), str):
            from ldp.registry.value_files import read_values  # late: most metrics state them

            parameters[key] = read_values(path.parent / FILE.take(key, parameters[key]))
    if members:
        parameters["of"] = [member.mechanism for member in members]
    if missing_keys := needed - parameters.keys():
        note = " (never published)" if "preset" in keys else ""
        raise RegistryError(f"mechanism {name!r} needs {', '.join(sorted(missing_keys))}{note}")
    return from_parameters(parameters)


@cache
def _keys_of(kind: type[CatalogueMechanism]) -> tuple[dict[str, object], set[str]]:
    """Return the parameters of a mechanism, in order, and those that have no default."""
    own_keys = {field.name: field.default for field in fields(kind)}
    return own_keys, {key for key, default in own_keys.items() if default is MISSING}


def _parameter_names() -> set[str]:
    """Return the parameters of all mechanisms. It loads every mechanism: call it for a mistake
    only."""
    return {key for kind in METRIC_MECHANISMS.values() for key in kind.__dataclass_fields__}


def _kind(name: Any, has_preset: bool) -> type[CatalogueMechanism]:
    """Return the mechanism class with a `name` that a metric can have. Raises RegistryError."""
    if name is None:
        note = " (the preset's was never published)" if has_preset else " or preset"
        raise RegistryError(f"needs mechanism{note}; docs/registry.md lists them")
    if not isinstance(name, str) or name not in METRIC_MECHANISMS:
        whole = [name for name, kind in METRIC_MECHANISMS.items() if kind.is_whole]
        raise RegistryError(f"there is no mechanism {name!r}{nearest(str(name), whole)}")
    kind: type[CatalogueMechanism] = METRIC_MECHANISMS[name]
    if not kind.is_whole:
        raise RegistryError(f"mechanism {name!r} is a part of others and cannot be a metric")
    return kind
