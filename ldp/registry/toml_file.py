"""Reader of metrics.toml, which checks it key by key.

The message of an error is one line, with the place and what would be right.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ldp.accounting.policy import Caps
from ldp.errors import LdpError, ParameterError, RegistryError
from ldp.mechanisms import METRIC_MECHANISMS, CatalogueMechanism, Mechanism, from_parameters
from ldp.mechanisms.presets import PRESETS
from ldp.protocol.hashing import derived_seed
from ldp.protocol.strict_json import are_texts, is_plain, read_toml
from ldp.registry.definitions import (
    Group,
    Memoise,
    Metric,
    Presence,
    Trust,
    listed_in,
    read_bytes,
    read_values,
)

PRODUCT_KEYS = {"name", "lifetime_epsilon", "development", "sealing_keys"}
GROUP_REQUIRED = ("window", "window_epsilon", "lifetime_epsilon")
GROUP_KEYS = {*GROUP_REQUIRED, "report_epsilon", "lateness", "trust", "consent"}
METRIC_REQUIRED = ("version", "group", "description", "owners", "expires")
METRIC_KEYS = {
    *METRIC_REQUIRED,
    *("mechanism", "preset", "dictionary", "memoise", "epoch", "reports_per_window", "presence"),
    *("words", "other", "control", "shuffled_epsilon", "planned_for"),
}
MOST_REPORTS_PER_WINDOW = 10_000
MOST_NAME, MOST_VERSION = 255, 2**32 - 1
"""Longest name, in bytes, and largest version that a sealed batch can carry."""
DEVELOPMENT = 2**31
"""Number added to the versions of a registry for development, so that no other counts its reports.
"""
MEMOISE = (False, "epoch", "per-value")
CHARGED_FOR: dict[Memoise, str] = {
    False: "a report costs",
    "epoch": "the reports of an epoch cost",
    "per-value": "the reports about one value cost",
}
JOINT = "joint"
"""Name of the mechanism whose parts are other metrics'."""
PRESENCE = ("public", "hidden")
TRUST = ("device", "shuffler")
LEAST_SHUFFLED = 0.01
"""Least target of messages for a shuffler: below, the batch that it needs takes minutes to find."""
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


class Identity(NamedTuple):
    """Registry that a metric is of: its path, its product, and what is added to versions."""

    path: Path
    product: str
    added_version: int


class Contents(NamedTuple):
    """Contents of a metrics.toml. `lifetime_epsilon`: cap for life of all groups together;
    `development`: whether its reports are a developer's own, which no other registry counts;
    `sealing_keys`: fingerprints of the keys that devices may seal reports to."""

    path: Path
    product: str
    groups: Mapping[str, Group]
    metrics: Mapping[str, Metric]
    lifetime_epsilon: float = math.inf
    development: bool = False
    sealing_keys: tuple[str, ...] = ()


def duration(text: object) -> timedelta:
    """Return a length of time from text such as "1d", "12h" or "30m"; raise RegistryError."""
    match = re.fullmatch("([0-9]{1,5})([mhd])", text) if isinstance(text, str) else None
    if match:
        return timedelta(**{_UNITS[match[2]]: int(match[1])})
    raise RegistryError('a length of time must be text like "1d", "12h" or "30m"')


def read_registry(path: Path) -> Contents:
    """Return the contents of a metrics.toml; raise RegistryError with a line for each mistake: the
    place and the remedy."""
    document = read_toml(path)
    with _errors_in(str(path)):
        return _contents(path, document)


@contextmanager
def _errors_in(place: str) -> Iterator[None]:
    """Raise errors of the block as RegistryError that names the place."""
    try:
        yield
    except LdpError as error:
        lines = (f"{place}: {line}" for line in str(error).splitlines())
        raise RegistryError("\n".join(lines)) from None


@contextmanager
def _noting(mistakes: dict[str, str], section: str) -> Iterator[None]:
    """Note an error of the block as that of a section, to go on with the next."""
    try:
        yield
    except LdpError as error:
        mistakes[section] = f"[{section}]: {error}"


def _depends(keys: Mapping[str, Any], mistakes: Mapping[str, str]) -> bool:
    """Return whether a metric's group or a member of it has a mistake, which is said once."""
    if not mistakes:
        return False
    members = keys.get("of") if isinstance(keys.get("of"), list) else []
    names = {f"group.{keys.get('group')}", *(f"metric.{member}" for member in members or ())}
    return not names.isdisjoint(mistakes)


def _with_lines(path: Path, mistakes: Mapping[str, str]) -> Iterator[str]:
    """Yield mistakes by section, each after "line N: " of the section's key that it names first, or
    else of its header; after nothing where that is written in another way."""
    keys, here = dict[str, dict[str, int]](), dict[str, int]()
    for number, line in enumerate(read_bytes(path).decode().splitlines(), 1):
        if header := re.match(r"\s*\[\s*(\w+)\s*\.\s*([\"']?)(.*?)\2\s*\]", line):
            here = keys.setdefault(f"{header[1]}.{header[3]}", {"": number})
        elif re.match(r"\s*\[", line):
            here = {}
        elif key := re.match(r"\s*([\w-]+)\s*=", line):
            here[key[1]] = number
    for section, mistake in mistakes.items():
        places = keys.get(section, {})
        words = re.findall(r"[\w-]+", mistake.removeprefix(f"[{section}]"))
        place = next((places[word] for word in (*words, "") if word in places), None)
        yield f"line {place}: {mistake}" if place else mistake


def _contents(path: Path, document: dict[str, Any]) -> Contents:
    with _errors_in("the top level"):
        _require_known(document, {"product", "group", "metric"})
    product = _section(document, "product", "product")
    with _errors_in("[product]"):
        _require_known(product, PRODUCT_KEYS)
    if not isinstance(product.get("name"), str) or not product["name"]:
        raise RegistryError("[product] needs a name")
    with _errors_in("[product]"):
        _require_plain("name", product["name"])
    lifetime = _number(product["lifetime_epsilon"]) if "lifetime_epsilon" in product else math.inf
    if not lifetime > 0:
        raise RegistryError("[product]: lifetime_epsilon must be a number > 0")
    if type(development := product.get("development", False)) is not bool:
        raise RegistryError("[product]: development must be true or false")
    with _errors_in("[product]"):
        sealing_keys = _sealing_keys(product)
    groups, mistakes = dict[str, Group](), dict[str, str]()
    for section in ("group", "metric"):
        with _errors_in(f"[{section}]"):
            _require_names(section, _section(document, section, section))
    for name in (group_sections := _section(document, "group", "group")):
        with _noting(mistakes, f"group.{name}"):
            groups[name] = _group(name, _section(group_sections, name, f"group.{name}"))
    sections, known = _section(document, "metric", "metric"), dict[str, Metric]()
    identity = Identity(path, product["name"], DEVELOPMENT if development else 0)
    for name in sorted(sections, key=lambda name: _is_joint(sections[name])):  # after their members
        with _noting(mistakes, f"metric.{name}"):
            keys = _section(sections, name, f"metric.{name}")
            if not _depends(keys, mistakes):
                known[name] = _metric(identity, groups, name, keys, known)
    if mistakes:
        raise RegistryError("\n".join(_with_lines(path, mistakes)))
    metrics = {name: known[name] for name in sections}
    _require_one_presence(metrics)
    _require_shufflers_apart(groups, lifetime, sealing_keys)
    for name, metric in metrics.items():
        if metric.needs_shuffler:
            metrics[name] = metric._replace(sealing_key=sealing_keys[0])
    for name, group in groups.items():
        _require_budget(name, group.caps, lifetime, metrics)
    return Contents(path, product["name"], groups, metrics, lifetime, development, sealing_keys)


def _sealing_keys(product: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fingerprints of keys; raise RegistryError."""
    keys = product.get("sealing_keys", [])
    are_keys = isinstance(keys, list) and all(
        isinstance(key, str) and re.fullmatch("[0-9a-f]{64}", key) for key in keys
    )
    if not are_keys or (not keys and "sealing_keys" in product):
        raise RegistryError("sealing_keys must list fingerprints that `ldp key FILE` prints")
    return tuple(keys)


def _require_plain(key: str, text: object) -> None:
    """Raise RegistryError, with the key, for what cannot be shown as a text of one line."""
    if not isinstance(text, str) or not is_plain(text):
        raise RegistryError(
            f"{key} must be a text of one line, with a letter and no hidden characters"
        )


def _require_names(kind: str, names: Iterable[str]) -> None:
    """Raise RegistryError for a name that is not plain ASCII, or that differs from another in case
    only: people could not tell them apart."""
    lowered = dict[str, str]()
    for name in names:
        if not re.fullmatch("[A-Za-z0-9_-]+", name):
            raise RegistryError(f"a {kind}'s name has letters a to z, digits, - and _: {name!a}")
        if (other := lowered.setdefault(name.lower(), name)) != name:
            raise RegistryError(f"{other} and {name} differ in case only: give one another name")


def _is_joint(keys: Any) -> bool:
    return isinstance(keys, dict) and keys.get("mechanism") == JOINT


def _group(name: str, keys: dict[str, Any]) -> Group:
    _require_known(keys, GROUP_KEYS)
    _require_keys(keys, GROUP_REQUIRED)
    caps = Caps(
        window=duration(keys["window"]),
        window_epsilon=_number(keys["window_epsilon"]),
        lifetime_epsilon=_number(keys["lifetime_epsilon"]),
        report_epsilon=_number(keys["report_epsilon"]) if "report_epsilon" in keys else None,
    )
    trust, consent = _trust(keys, caps)
    lateness = duration(keys.get("lateness", "7d"))
    return Group(name=name, caps=caps, lateness=lateness, trust=trust, consent=consent)


def _trust(keys: Mapping[str, Any], caps: Caps) -> tuple[Trust, str]:
    """Return what a group trusts, and the text of its consent; raise RegistryError."""
    trust, consent = keys.get("trust", "device"), keys.get("consent", "")
    if trust not in TRUST:
        raise RegistryError('trust must be "device" or "shuffler"')
    if not isinstance(consent, str) or bool(consent.strip()) != (trust == "shuffler"):
        raise RegistryError(
            'consent, the text that people agree to, goes with trust = "shuffler", and only with it'
        )
    if consent:
        _require_plain("consent", consent.strip())
    if trust == "shuffler" and (caps.report_epsilon or caps.window % timedelta(days=1)):
        raise RegistryError(
            'trust = "shuffler" needs a window of whole days, so that a batch of a day has one '
            "record of a person, and no report_epsilon, since a report alone has no bound"
        )
    return trust, consent.strip()


def _require_shufflers_apart(
    groups: Mapping[str, Group], life: float, sealing_keys: tuple[str, ...]
) -> None:
    """Raise RegistryError for a group that trusts a shuffler beside a cap of the device, which it
    has no bound for, or without the one key that its messages are sealed to."""
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


def _metric(
    registry: Identity,
    groups: Mapping[str, Group],
    name: str,
    keys: dict[str, Any],
    metrics: Mapping[str, Metric],
) -> Metric:
    _require_keys(keys, METRIC_REQUIRED)
    if len(name.encode()) > MOST_NAME:
        raise RegistryError(f"a metric's name has {MOST_NAME} bytes at most")
    path, product, added = registry
    if type(keys["version"]) is not int or not 1 <= keys["version"] <= MOST_VERSION - added:
        raise RegistryError(f"version must be a whole number, 1 to {MOST_VERSION - added}")
    version = keys["version"] + added
    if "dictionary" in keys and not isinstance(keys["dictionary"], str):
        raise RegistryError("dictionary must be the name of a file")
    _one_of("group", keys["group"], groups)
    if type(keys["expires"]) is not date:
        raise RegistryError("expires must be a date such as 2027-12-31, without quotes")
    _require_plain("description", keys["description"])
    _require_plain("planned_for", keys.get("planned_for", "all"))
    owners = keys["owners"]
    if not isinstance(owners, list) or not owners:
        raise RegistryError("owners must be a list of texts")
    for owner in owners:
        _require_plain("owners", owner)
    reports = keys.get("reports_per_window", _donations(keys, groups[keys["group"]].caps))
    if type(reports) is not int or not 1 <= reports <= MOST_REPORTS_PER_WINDOW:
        most = MOST_REPORTS_PER_WINDOW
        raise RegistryError(f"reports_per_window must be a whole number, 1 to {most}")
    members = _members(keys, metrics) if _is_joint(keys) else ()
    mechanism = _mechanism(path, keys, (product, name, str(version)), members)
    memoise, epoch = _memoisation(mechanism, keys, groups[keys["group"]].caps)
    _require_trust(mechanism, keys, groups[keys["group"]], reports)
    presence = _presence(mechanism, keys, memoise)
    cleans, other = _replacement(mechanism, keys)
    dictionary = path.parent / keys["dictionary"] if "dictionary" in keys else None
    return Metric(
        name=name,
        version=version,
        group=keys["group"],
        description=keys["description"],
        owners=tuple(owners),
        expires=keys["expires"],
        mechanism=mechanism,
        dictionary=dictionary,
        reports_per_window=reports,
        memoise=memoise,
        epoch=epoch,
        presence=presence,
        members=members,
        cleans=cleans,
        other=other,
        control=_control(mechanism, keys, bool(memoise) or presence == "hidden"),
        shuffled_epsilon=_shuffled_epsilon(keys),
        planned_for=keys.get("planned_for"),
    )


def _require_trust(
    mechanism: CatalogueMechanism, keys: Mapping[str, Any], group: Group, reports: int
) -> None:
    """Raise RegistryError where a mechanism does not fit to what its group trusts."""
    if mechanism.needs_shuffler != group.needs_shuffler:
        raise RegistryError(
            f"mechanism {mechanism.name!r} protects nothing before a relay shuffled: it needs a "
            'group with trust = "shuffler"'
            if mechanism.needs_shuffler
            else f"mechanism {mechanism.name!r} has noise of its own, so its group must not have "
            'trust = "shuffler"'
        )
    if not mechanism.needs_shuffler:
        return
    if "shuffled_epsilon" not in keys:
        raise RegistryError(
            f"mechanism {mechanism.name!r} needs shuffled_epsilon, which the relay holds batches "
            "for, and which is charged for a record"
        )
    if keys["shuffled_epsilon"] < LEAST_SHUFFLED:
        raise RegistryError(
            f"mechanism {mechanism.name!r} needs a shuffled_epsilon of {LEAST_SHUFFLED:g} at least"
        )
    if reports != 1:
        raise RegistryError(
            f"mechanism {mechanism.name!r} sends one record in a window: reports_per_window = 1"
        )
    if "presence" in keys or "control" in keys:
        raise RegistryError(f"mechanism {mechanism.name!r} has neither presence nor control")


def _shuffled_epsilon(keys: Mapping[str, Any]) -> float | None:
    """Return the target for the epsilon of a report in a relay's batch; raise RegistryError."""
    if (epsilon := keys.get("shuffled_epsilon")) is None:
        return None
    if type(epsilon) not in (int, float) or not 0 < epsilon < math.inf:
        raise RegistryError("shuffled_epsilon must be a number > 0")
    if keys.get("memoise"):
        raise RegistryError(
            "shuffled_epsilon does not go with memoise: reports that share a permanent response "
            "stay linked in a shuffled batch"
        )
    return float(epsilon)


def _donations(keys: Mapping[str, Any], caps: Caps) -> int:
    """Return the reports that a metric without `reports_per_window` sends: one, or in windows of a
    day what its preset sends in a day."""
    if "preset" not in keys or caps.window != timedelta(days=1):
        return 1
    return PRESETS[_one_of("preset", keys["preset"], PRESETS)].donations or 1


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


def _memoisation(
    mechanism: CatalogueMechanism, keys: dict[str, Any], caps: Caps
) -> tuple[Memoise, timedelta | None]:
    """Return what is memoised, and the length of an epoch."""
    memoise = keys.get("memoise", False)
    if memoise not in MEMOISE or (isinstance(memoise, int) and memoise is not False):
        raise RegistryError('memoise must be false, "epoch" or "per-value"')
    if memoise and not mechanism.is_memoisable:
        names = ", ".join(name for name, kind in METRIC_MECHANISMS.items() if kind.is_memoisable)
        raise RegistryError(f"mechanism {mechanism.name!r} memoises nothing; these do: {names}")
    if memoise and math.isinf(mechanism.cost.lifetime):
        raise RegistryError("a permanent response without noise (f = 0) must not be memoised")
    if (memoise == "epoch") != ("epoch" in keys):
        raise RegistryError('epoch, such as "90d", goes with memoise = "epoch", and only with it')
    if memoise != "epoch":
        return memoise, None
    epoch = duration(keys["epoch"])
    if not epoch or epoch % caps.window:
        raise RegistryError("epoch must be a multiple of the group's window")
    return memoise, epoch


def _presence(mechanism: CatalogueMechanism, keys: dict[str, Any], memoise: Memoise) -> Presence:
    presence: Presence = keys.get("presence", "public")
    if presence not in PRESENCE:
        raise RegistryError('presence must be "public" or "hidden"')
    if presence == "hidden" and memoise == "per-value":
        raise RegistryError(
            'presence = "hidden" does not go with memoise = "per-value": what is charged would '
            "depend on the values"
        )
    if presence == "hidden" and mechanism.placeholder is None:
        raise RegistryError(
            'presence = "hidden" needs a value that stands for none: a mechanism with categories '
            'lists one called "none"; sketches and Bloom filters have the empty text'
        )
    return presence


def _replacement(mechanism: CatalogueMechanism, keys: dict[str, Any]) -> tuple[bool, str | None]:
    """Return whether words are cleaned, and the category of what is not listed."""
    has_words = hasattr(mechanism, "spelling")
    words, other = keys.get("words", "clean"), keys.get("other")
    if words not in ("clean", "refuse") or ("words" in keys and not has_words):
        raise RegistryError('words = "clean" or "refuse" belongs to mechanisms of words only')
    if other is not None and other not in listed_in(mechanism):
        raise RegistryError("other must name one of the mechanism's categories")
    return has_words and words == "clean", other


def _control(mechanism: CatalogueMechanism, keys: dict[str, Any], depends: bool) -> str | None:
    """Return the control value; `depends`: reports share noise, or are not all about it."""
    if (value := keys.get("control")) is None:
        return None
    if depends or not isinstance(mechanism, Mechanism) or mechanism.at_most_answers > 1:
        raise RegistryError(
            "control belongs to metrics of one value with fresh noise and public presence"
        )
    try:
        addressing = mechanism.candidate_addressing
        cells = addressing.cells(addressing.point(value), 0)
    except (ParameterError, TypeError):
        raise RegistryError("control must be a value that the mechanism takes as text") from None
    if len(cells) != 1 and mechanism.kind.has_independent_bits:
        raise RegistryError("control needs a mechanism in which a value has one bit: hashes = 1")
    return str(value)


def _require_one_presence(metrics: Mapping[str, Metric]) -> None:
    """Raise RegistryError for a group in which some metrics are hidden and some are not."""
    for group in {metric.group for metric in metrics.values()}:
        names: dict[Presence, str] = {
            metric.presence: name for name, metric in metrics.items() if metric.group == group
        }
        if len(names) > 1:
            raise RegistryError(
                f"[group.{group}]: metric {names['hidden']!r} is hidden and {names['public']!r} is "
                "not: the reports of one would reveal what the other spent"
            )


def _require_budget(group: str, caps: Caps, life: float, metrics: Mapping[str, Metric]) -> None:
    """Raise RegistryError for a metric of the group that could never send a report."""
    members = {name: metric for name, metric in metrics.items() if metric.group == group}
    limit = min(caps.window_epsilon, caps.lifetime_epsilon, life)
    for name, metric in members.items():
        for description, cost, cap in (
            ("a report costs", metric.mechanism.cost.epsilon, caps.report_epsilon),
            (CHARGED_FOR[metric.memoise], metric.price, limit),
        ):
            if cap is not None and cost > cap:
                raise RegistryError(
                    f"[metric.{name}]: {description} {cost}, its group's cap is {cap}"
                )


def _mechanism(
    path: Path, keys: dict[str, Any], identity: tuple[str, ...], members: tuple[Metric, ...]
) -> CatalogueMechanism:
    """Return the mechanism of a metric, from its preset's parameters and its own keys. A missing
    seed is derived from product, metric and version; categories may be a file; a joint metric has
    the mechanisms of its members."""
    parameters: dict[str, Any] = {}
    if "preset" in keys:
        parameters.update(PRESETS[_one_of("preset", keys["preset"], PRESETS)].parameters)
    if "mechanism" in keys:
        parameters["mechanism"] = keys["mechanism"]
    if "mechanism" not in parameters:
        _require_known(keys, METRIC_KEYS | _parameter_names())
    kind = METRIC_MECHANISMS[_mechanism_name(parameters.get("mechanism"), "preset" in keys)]
    name = kind.name
    own_keys, needed = _keys_of(kind)
    if unknown := keys.keys() - own_keys - METRIC_KEYS:
        if others := sorted(unknown & _parameter_names()):
            own = ", ".join(own_keys)
            raise RegistryError(f"mechanism {name!r} takes {own}, not {others[0]!r}")
        _require_known(keys, METRIC_KEYS | own_keys.keys())
    parameters.update({key: value for key, value in keys.items() if key in own_keys})
    if kind.has_seed(parameters):
        parameters.setdefault("seed", derived_seed(*identity))
    for key in ("categories", "by"):
        if isinstance(parameters.get(key), str):
            parameters[key] = read_values(path.parent / parameters[key])
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
    """Return the parameters of all mechanisms, which are loaded for it: for a mistake only."""
    return {key for kind in METRIC_MECHANISMS.values() for key in kind.__dataclass_fields__}


def _mechanism_name(name: Any, has_preset: bool) -> str:
    """Return the name of a mechanism that can be a metric; raise RegistryError."""
    if name is None:
        note = " (the preset's was never published)" if has_preset else " or preset"
        raise RegistryError(f"needs mechanism{note}; docs/registry.md lists them")
    if isinstance(name, str) and name in METRIC_MECHANISMS and not METRIC_MECHANISMS[name].is_whole:
        raise RegistryError(f"mechanism {name!r} is a part of others and cannot be a metric")
    if not isinstance(name, str) or name not in METRIC_MECHANISMS:
        whole = [name for name, kind in METRIC_MECHANISMS.items() if kind.is_whole]
        raise RegistryError(f"there is no mechanism {name!r}{nearest(str(name), whole)}")
    return name


def _section(parent: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    section = parent.get(key)
    if not isinstance(section, dict):
        raise RegistryError(f"needs a section [{where}]")
    return section


def _one_of(key: str, name: Any, allowed: Mapping[str, Any]) -> str:
    if not isinstance(name, str) or name not in allowed:
        raise RegistryError(f"{key} must be one of {', '.join(allowed)}")
    return name


def _require_known(keys: Mapping[str, Any], allowed: set[str]) -> None:
    for key in keys:
        if key not in allowed:
            raise RegistryError(f"unknown key {key!r}{nearest(key, allowed)}")


def _require_keys(keys: Mapping[str, Any], needed: Iterable[str]) -> None:
    for key in needed:
        if key not in keys:
            raise RegistryError(f"needs {key}")


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest name, or all names."""
    from difflib import get_close_matches  # late: for a mistake only

    matches = get_close_matches(name, list(names), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else f"; known: {', '.join(sorted(names))}"


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RegistryError("a cap must be a number")
    try:
        return float(value)
    except OverflowError:
        raise RegistryError("a cap must be a number below 1e308") from None
