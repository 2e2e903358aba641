"""metrics.toml: which metrics exist, what they may cost, and the lock that pins their meaning.

Read with the standard library and checked key by key; a mistake is one line that says where and
what would be right. metrics.lock, beside it, pins each metric's version, mechanism fingerprint and
dictionary, so that a change without a new version is caught.
"""

import csv
import hashlib
import io
import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import date, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ldp.accounting.composition import exact_sum
from ldp.accounting.policy import Caps
from ldp.errors import LdpError, RegistryError
from ldp.files import read_lines, write_whole
from ldp.hashing import derived_seed
from ldp.mechanisms import CATALOGUE, Catalogued, from_parameters
from ldp.mechanisms.presets import PRESETS

GROUP_KEYS = {"window", "window_epsilon", "lifetime_epsilon", "report_epsilon", "lateness"}
METRIC_KEYS = {
    *("version", "group", "description", "owners", "expires", "mechanism", "preset"),
    *("dictionary", "memoise", "reports_per_window", "presence"),
}
MOST_REPORTS_PER_WINDOW = 10_000
MOST_NAME, MOST_VERSION = 255, 2**32 - 1
"""What a sealed batch has room for."""
REQUIRED = ("version", "group", "description", "owners", "expires")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, kw_only=True)
class Group:
    """A privacy budget shared by metrics that tell about the same behaviour."""

    name: str
    caps: Caps
    lateness: timedelta


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One version of one metric. `dictionary` is the file of its candidates, if it names one."""

    name: str
    version: int
    group: str
    description: str
    owners: tuple[str, ...]
    expires: date
    mechanism: Catalogued
    dictionary: Path | None
    reports_per_window: int

    def candidates(self) -> tuple[str, ...] | None:
        """The values of the dictionary, or None when the metric names none."""
        return read_values(self.dictionary) if self.dictionary else None

    def pinned(self) -> dict[str, Any]:
        """What metrics.lock keeps of the metric."""
        dictionary = self.dictionary and hashlib.sha256(_read(self.dictionary)).hexdigest()
        return {
            "version": self.version,
            "fingerprint": self.mechanism.fingerprint.hex(),
            "dictionary_sha256": dictionary,
        }


@dataclass(frozen=True, kw_only=True)
class Registry:
    """All metrics of one product."""

    path: Path
    product: str
    groups: Mapping[str, Group]
    metrics: Mapping[str, Metric]

    @classmethod
    def load(cls, path: str | Path) -> "Registry":
        """Reads and checks metrics.toml; raises RegistryError with the place and the remedy."""
        path = Path(path)
        try:
            document = tomllib.loads(_read(path).decode())
        except ValueError as error:
            raise RegistryError(f"{path}: not valid TOML: {error}") from None
        except RecursionError:
            raise RegistryError(f"{path}: nested too deeply") from None
        try:
            return _registry(path, document)
        except LdpError as error:
            raise RegistryError(f"{path}: {error}") from None

    def metric(self, name: str) -> Metric:
        """The metric of that name; raises RegistryError that names the nearest."""
        if name not in self.metrics:
            raise RegistryError(f"{self.path}: no metric {name!r}{_nearest(name, self.metrics)}")
        return self.metrics[name]

    @property
    def lock_path(self) -> Path:
        return self.path.with_name("metrics.lock")

    def lock(self) -> None:
        """Writes metrics.lock beside the registry, after `check`; metrics that were removed stay in
        it, so that a name and version never come to mean something else."""
        self.check()
        pinned = self._locked() | {name: metric.pinned() for name, metric in self.metrics.items()}
        text = json.dumps({"metrics": dict(sorted(pinned.items()))}, indent=2)
        write_whole(self.lock_path, text + "\n")

    def check(self) -> list[str]:
        """Raises RegistryError when a dictionary cannot be read, or a metric changed since `lock`
        without a new version; returns the metrics that are not locked yet."""
        locked = self._locked()
        for name, metric in self.metrics.items():
            metric.candidates()
            self._compare(name, locked.get(name), metric.pinned(), str(self.lock_path))
        return [name for name in self.metrics if name not in locked]

    def _locked(self) -> dict[str, dict[str, Any]]:
        """What metrics.lock pins; nothing where there is none."""
        if not self.lock_path.exists():
            return {}
        try:
            pinned: dict[str, dict[str, Any]] = json.loads(_read(self.lock_path))["metrics"]
            whole = all(
                type(pins["version"]) is int
                and isinstance(pins["fingerprint"], str)
                and isinstance(pins["dictionary_sha256"], str | None)
                for pins in pinned.values()
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            whole = False
        if not whole:
            raise RegistryError(
                f"{self.lock_path}: damaged; restore it from version control, or delete it and run "
                "`ldp registry lock` again"
            )
        return pinned

    def expired(self, today: date) -> list[str]:
        """The metrics whose last day lies before `today`."""
        return [name for name, metric in self.metrics.items() if metric.expires < today]

    def check_against(self, older: "Registry") -> None:
        """Raises RegistryError when a metric differs from `older`'s without a new version."""
        for name, metric in older.metrics.items():
            if name in self.metrics:
                now = self.metrics[name].pinned()
                self._compare(name, metric.pinned(), now, str(older.path))

    def _compare(
        self, name: str, before: dict[str, Any] | None, now: dict[str, Any], where: str
    ) -> None:
        if before is None or before == now:
            return
        if now["version"] <= before["version"]:
            changed = "dictionary" if now["fingerprint"] == before["fingerprint"] else "mechanism"
            raise RegistryError(
                f"{self.path}: metric {name!r} changed its {changed} since {where}: "
                f"give it version {before['version'] + 1}"
            )

    def worst_case(self, group: str) -> dict[str, float]:
        """The most epsilon the group can spend in a day, a year (366 days) and a life.

        Windows slide, so a span of D holds reports of at most floor(D / window) + 1 windows.
        """
        caps = self.groups[group].caps
        per_window = min(
            caps.window_epsilon,
            exact_sum(
                metric.reports_per_window * metric.mechanism.cost.epsilon
                for metric in self.metrics.values()
                if metric.group == group
            ),
        )
        spans = {"day": timedelta(days=1), "year": timedelta(days=366)}
        worst = {
            name: min(caps.lifetime_epsilon, per_window * (span // caps.window + 1))
            for name, span in spans.items()
        }
        return worst | {"life": caps.lifetime_epsilon if per_window else 0.0}


def read_values(path: Path) -> tuple[str, ...]:
    """The values of a candidates file: one a line, UTF-8, blank lines skipped; or the `value`
    column of a CSV, which its name or its first line tells."""
    try:
        text = _read(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RegistryError(f"{path}: not UTF-8 (byte {error.start})") from None
    values = read_lines(text)
    columns = values[0].split(",") if values else []
    if path.suffix == ".csv" or (len(columns) > 1 and "value" in columns):
        if "value" not in columns:
            raise RegistryError(f"{path}: a CSV of candidates needs a column named value")
        try:
            rows = list(csv.DictReader(io.StringIO(text, newline="")))
        except csv.Error as error:
            raise RegistryError(f"{path}: not a CSV file: {error}") from None
        values = [row["value"] for row in rows if row["value"]]
    if not values:
        raise RegistryError(f"{path}: holds no values")
    repeated = len(values) - len(set(values))
    if repeated:
        raise RegistryError(f"{path}: names {repeated} values more than once")
    return tuple(values)


def duration(text: object) -> timedelta:
    """A length of time such as "1d", "12h" or "30m"."""
    found = re.fullmatch("([0-9]{1,5})([mhd])", text) if isinstance(text, str) else None
    if found:
        return timedelta(**{_UNITS[found[2]]: int(found[1])})
    raise RegistryError('a length of time must be text like "1d", "12h" or "30m"')


def _registry(path: Path, document: dict[str, Any]) -> Registry:
    _known("the top level", document, {"product", "group", "metric"})
    product = _section(document, "product", "product")
    _known("[product]", product, {"name"})
    if not isinstance(product.get("name"), str) or not product["name"]:
        raise RegistryError("[product] needs a name")
    groups = {
        name: _group(name, _section(document["group"], name, f"group.{name}"))
        for name in _section(document, "group", "group")
    }
    metrics = {
        name: _metric(path, product["name"], groups, name, document["metric"][name])
        for name in _section(document, "metric", "metric")
    }
    return Registry(path=path, product=product["name"], groups=groups, metrics=metrics)


def _group(name: str, keys: dict[str, Any]) -> Group:
    where = f"[group.{name}]"
    _known(where, keys, GROUP_KEYS)
    for key in ("window", "window_epsilon", "lifetime_epsilon"):
        if key not in keys:
            raise RegistryError(f"{where} needs {key}")
    try:
        caps = Caps(
            window=duration(keys["window"]),
            window_epsilon=_number(keys["window_epsilon"]),
            lifetime_epsilon=_number(keys["lifetime_epsilon"]),
            report_epsilon=_number(keys["report_epsilon"]) if "report_epsilon" in keys else None,
        )
        return Group(name=name, caps=caps, lateness=duration(keys.get("lateness", "7d")))
    except LdpError as error:
        raise RegistryError(f"{where}: {error}") from None


def _metric(
    path: Path, product: str, groups: Mapping[str, Group], name: str, keys: dict[str, Any]
) -> Metric:
    where = f"[metric.{name}]"
    if not isinstance(keys, dict):
        raise RegistryError(f"{where} must be a section")
    if not name.replace("-", "").replace("_", "").isalnum():
        raise RegistryError(f"{where}: a metric's name has letters, digits, - and _ only")
    for key in REQUIRED:
        if key not in keys:
            raise RegistryError(f"{where} needs {key}")
    if len(name.encode()) > MOST_NAME:
        raise RegistryError(f"{where}: a metric's name has {MOST_NAME} bytes at most")
    if type(keys["version"]) is not int or not 1 <= keys["version"] <= MOST_VERSION:
        raise RegistryError(f"{where}: version must be a whole number, 1 to {MOST_VERSION}")
    if "dictionary" in keys and not isinstance(keys["dictionary"], str):
        raise RegistryError(f"{where}: dictionary must be the name of a file")
    _one_of(f"{where}: group", keys["group"], groups)
    if type(keys["expires"]) is not date:
        raise RegistryError(f"{where}: expires must be a date such as 2027-12-31, without quotes")
    owners = keys["owners"]
    if not isinstance(owners, list) or not owners or not all(isinstance(o, str) for o in owners):
        raise RegistryError(f"{where}: owners must be a list of texts")
    if keys.get("memoise", False) is not False:
        raise RegistryError(f"{where}: memoise is not supported by this version, only false")
    if keys.get("presence", "public") != "public":
        raise RegistryError(f'{where}: presence is not supported by this version, only "public"')
    reports = keys.get("reports_per_window", 1)
    if type(reports) is not int or not 1 <= reports <= MOST_REPORTS_PER_WINDOW:
        most = MOST_REPORTS_PER_WINDOW
        raise RegistryError(f"{where}: reports_per_window must be a whole number, 1 to {most}")
    try:
        mechanism = _mechanism(path, where, keys, (product, name, str(keys["version"])))
    except LdpError as error:
        raise RegistryError(f"{where}: {error}") from None
    caps = groups[keys["group"]].caps
    limits = [caps.window_epsilon, caps.lifetime_epsilon, caps.report_epsilon or math.inf]
    if mechanism.cost.epsilon > min(limits):
        raise RegistryError(
            f"{where}: a report costs {mechanism.cost.epsilon}, its group's cap is {min(limits)}"
        )
    dictionary = path.parent / keys["dictionary"] if "dictionary" in keys else None
    return Metric(
        name=name,
        version=keys["version"],
        group=keys["group"],
        description=str(keys["description"]),
        owners=tuple(owners),
        expires=keys["expires"],
        mechanism=mechanism,
        dictionary=dictionary,
        reports_per_window=reports,
    )


def _mechanism(
    path: Path, where: str, keys: dict[str, Any], identity: tuple[str, ...]
) -> Catalogued:
    """The mechanism of a metric: its preset's parameters, then its own keys; a seed it lacks is
    derived from product, metric and version; categories may be a file."""
    parameters: dict[str, Any] = {}
    if "preset" in keys:
        parameters.update(PRESETS[_one_of("preset", keys["preset"], PRESETS)].parameters)
    if "mechanism" in keys:
        parameters["mechanism"] = keys["mechanism"]
    what = "mechanism (the preset's was never published)" if "preset" in keys else "mechanism"
    name = _one_of(what, parameters.get("mechanism"), CATALOGUE)
    if not CATALOGUE[name].is_whole:
        raise RegistryError(f"mechanism {name!r} is a part of another one, no metric")
    wanted = {field.name for field in fields(CATALOGUE[name])}
    for key in keys.keys() - wanted - METRIC_KEYS:
        if any(key in mechanism.__dataclass_fields__ for mechanism in CATALOGUE.values()):
            takes = ", ".join(field.name for field in fields(CATALOGUE[name]))
            raise RegistryError(f"mechanism {name!r} takes {takes}, not {key!r}")
    _known("", keys, METRIC_KEYS | wanted)
    parameters.update({key: value for key, value in keys.items() if key in wanted})
    if CATALOGUE[name].seeded(parameters):
        parameters.setdefault("seed", derived_seed(*identity))
    if isinstance(parameters.get("categories"), str):
        parameters["categories"] = read_values(path.parent / parameters["categories"])
    missing = {
        field.name
        for field in fields(CATALOGUE[name])
        if field.default is MISSING and field.name not in parameters
    }
    if missing:
        unpublished = " (never published)" if "preset" in keys else ""
        raise RegistryError(f"mechanism {name!r} needs {', '.join(sorted(missing))}{unpublished}")
    return from_parameters(parameters)


def _section(parent: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    section = parent.get(key)
    if not isinstance(section, dict):
        raise RegistryError(f"needs a section [{where}]")
    return section


def _one_of(what: str, name: Any, known: Mapping[str, Any]) -> str:
    if not isinstance(name, str) or name not in known:
        raise RegistryError(f"{what} must be one of {', '.join(known)}")
    return name


def _known(where: str, keys: Mapping[str, Any], known: set[str]) -> None:
    for key in keys:
        if key not in known:
            prefix = f"{where} has an" if where else "an"
            raise RegistryError(f"{prefix} unknown key {key!r}{_nearest(key, known)}")


def _nearest(name: str, known: Any) -> str:
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(known))}"


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RegistryError("a cap must be a number")
    return float(value)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RegistryError(f"cannot read {path}: {error.strerror}") from None
