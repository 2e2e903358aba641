"""Sign-off: who agreed to a registry, when, and to which bytes of it, its lock and certificates.

It is a record and no cryptographic signature: whoever can write the file can write another. Kept in
version control, it lets a build fail when the registry is no longer the one that was agreed to.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from ldp.errors import ParameterError, RegistryError
from ldp.mechanisms import from_parameters
from ldp.mechanisms.joint_base import claimed_ratio
from ldp.protocol.channel import exact_log
from ldp.registry.definitions import is_plain, read_bytes
from ldp.registry.registry import Registry

FORMAT = 1
BESIDE = "metrics.signed.json"
"""Name of the record beside a registry, unless another is told."""
NOTE = "a record, and no cryptographic signature"
PASSED = {"passed": True, "findings": list[str]()}
"""What a certificate says of an audit that passed."""


class Certified(NamedTuple):
    """Entry of a certificate of `ldp audit --report` about one mechanism, which passed."""

    path: Path
    claimed: float
    at_least: float
    version: str
    commit: str | None
    day: str


def read_certificates(paths: Sequence[Path]) -> dict[str, Certified]:
    """Return what certificates say, by the fingerprint of the mechanism, as hexadecimal text. Raise
    RegistryError for a file that is none, says that something failed, or contradicts the mechanism
    that its parameters make."""
    certified = dict[str, Certified]()
    for path in paths:
        try:
            document = json.loads(read_bytes(path))
            origin = document["version"], document["commit"], document["made"][:10]
            for audit in document["audits"]:
                name = audit["name"]
                fingerprint, numbers = _numbers(audit)
                certified[fingerprint] = Certified(path, *numbers, *origin)
            name = "client"
            _require_equal(document.get(name, PASSED), PASSED)
            name = "the certificate"
            _require_equal(document, {"passed": True})
        except ParameterError as error:
            raise RegistryError(
                f"{path}: {name}: {error}; `ldp audit --report` writes another"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            raise RegistryError(f"{path}: not a certificate of `ldp audit --report`") from None
    return certified


def _numbers(audit: Mapping[str, Any]) -> tuple[str, tuple[float, float]]:
    """Return the fingerprint of an entry, the epsilon claimed, and that seen from outside; raise
    ParameterError unless they are those of a passed audit of its parameters."""
    mechanism = from_parameters(audit["parameters"])
    cost, fingerprint = mechanism.cost, mechanism.fingerprint.hex()
    right = PASSED | {"exact": [], "fingerprint": fingerprint, "claimed": _or_none(cost.epsilon)}
    if not mechanism.needs_shuffler:
        ratio = claimed_ratio(mechanism)
        right |= {"worst_ratio": str(ratio), "exact_epsilon": str(exact_log(ratio))}
    _require_equal(audit, right)
    require_seen("at_least", audit["at_least"], cost.epsilon)
    if memoised := audit["memoised"]:
        _require_equal(memoised, {"lifetime": _or_none(cost.lifetime)})
        require_seen("memoised at_least", memoised["at_least"], cost.lifetime)
    return fingerprint, (cost.epsilon, float(audit["at_least"]))


def _require_equal(entry: Mapping[str, Any], right: Mapping[str, Any]) -> None:
    for field, value in right.items():
        if entry[field] != value:
            raise ParameterError(f"{field} is {entry[field]!r}, must be {value!r}")


def require_seen(name: str, at_least: Any, claimed: float) -> None:
    """Raise ParameterError, with its `name`, unless `at_least`, the epsilon that was seen from
    outside, is a number that is not above the one `claimed`."""
    if not isinstance(at_least, int | float) or not at_least <= claimed:
        raise ParameterError(f"{name} is {at_least!r}, must be at most {claimed}")


def facts(registry: Registry) -> dict[str, Any]:
    """Return what is agreed to, as JSON-ready data: every metric and group, and the worst case."""
    metrics = {
        name: {
            **metric.pinned(),
            "group": metric.group,
            "description": metric.description,
            "owners": list(metric.owners),
            "expires": metric.expires.isoformat(),
            "epsilon": _or_none(metric.mechanism.cost.epsilon),
            "price": metric.price,
            "reports_per_window": metric.reports_per_window,
        }
        for name, metric in registry.metrics.items()
    }
    groups = {
        name: {
            "window_seconds": round(group.caps.window.total_seconds()),
            "window_epsilon": group.caps.window_epsilon,
            "lifetime_epsilon": group.caps.lifetime_epsilon,
            "report_epsilon": group.caps.report_epsilon,
            **_bounded(registry.worst_case(name)),
            **({"trust": group.trust, "consent": group.consent} if group.needs_shuffler else {}),
        }
        for name, group in registry.groups.items()
    }
    life = registry.lifetime_epsilon
    device = {"cap for life": _or_none(life), **_bounded(registry.worst_case_of_all())}
    return {"metrics": metrics, "groups": groups, "device": device}


def _or_none(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def _bounded(worst: Mapping[str, float]) -> dict[str, float | None]:
    return {span: _or_none(epsilon) for span, epsilon in worst.items()}


def missing_for_signing(
    registry: Registry, certified: Mapping[str, Certified], day: date
) -> Iterator[str]:
    """Yield a line for each thing that a signature on `day` lacks, with its remedy: a registry that
    asks people, a lock of every metric, and of each that has not expired a certificate of an audit
    that passed."""
    if registry.development:
        yield "development = true asks nobody: nothing to sign off"
        return
    if unlocked := registry.check(day):
        yield f"run `ldp registry lock {registry.path}` first: {', '.join(unlocked)}"
    for metric in registry.metrics.values():
        if metric.expires >= day and metric.mechanism.fingerprint.hex() not in certified:
            yield (
                f"metric {metric.name!r} has no certificate: `ldp audit {metric.name} "
                f"--registry {registry.path} --report FILE`, and name it with --certificate"
            )


def sign(registry: Registry, name: str, certificates: Sequence[Path], day: date) -> dict[str, Any]:
    """Return the record that `name` agreed on `day`. Raise RegistryError with a line for each thing
    that is missing (`missing_for_signing`)."""
    if not is_plain(name):
        raise ParameterError("the name of who signs must be a text of one line, not empty")
    certified = read_certificates(certificates)
    if missing := [*missing_for_signing(registry, certified, day)]:
        raise RegistryError("\n".join(f"{registry.path}: {line}" for line in missing))
    return {
        "sign_off": FORMAT,
        "note": NOTE,
        "name": name,
        "date": day.isoformat(),
        "registry": {"file": registry.path.name, "sha256": digest(registry.path)},
        "lock": {"file": registry.lock_path.name, "sha256": digest(registry.lock_path)},
        "certificates": [{"file": path.name, "sha256": digest(path)} for path in certificates],
        "facts": facts(registry),
    }


def digest(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal text; raise RegistryError."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def read_sign_off(path: Path) -> dict[str, Any]:
    """Return the record of a sign-off; raise RegistryError for another file."""
    try:
        record: dict[str, Any] = json.loads(read_bytes(path))
        is_whole = (
            record["sign_off"] == FORMAT
            and all(is_plain(record[key]) for key in ("name", "date"))
            and all(isinstance(record[key]["sha256"], str) for key in ("registry", "lock"))
            and all(
                isinstance(entry[key], str)
                for entry in record["certificates"]
                for key in ("file", "sha256")
            )
            and all(
                isinstance(record["facts"][key], dict) for key in ("metrics", "groups", "device")
            )
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_whole = False
    if not is_whole:
        raise RegistryError(f"{path}: not a record of `ldp registry sign`")
    return record


def state_of(registry: Registry, record: Mapping[str, Any] | None, folder: Path) -> str:
    """Return in words whether what is asked of people is what the `record`, if there is one, and
    its certificates in `folder` agreed to."""
    if record is None:
        return "not signed off"
    agreed = f"signed off by {record['name']} on {record['date']}"
    try:
        check_sign_off(registry, record, folder)
    except RegistryError:
        return f"{agreed}, changed since"
    return agreed


def changes(record: Mapping[str, Any], registry: Registry) -> list[str]:
    """Return what differs between what was agreed to and the registry, a line each."""
    before, after = record["facts"], facts(registry)
    lines = []
    for section, word in (("metrics", "metric "), ("groups", "group ")):
        old, new = before[section], after[section]
        lines += [f"{word}{name} is new" for name in new if name not in old]
        lines += [f"{word}{name} is gone" for name in old if name not in new]
        for name in new:
            if name in old:
                lines += _differences(f"{word}{name}", old[name], new[name])
    return lines + _differences("one device", before["device"], after["device"])


def check_sign_off(registry: Registry, record: Mapping[str, Any], folder: Path) -> None:
    """Raise RegistryError, with what differs, unless registry, lock and certificates (in `folder`)
    are those that were agreed to."""
    pairs = [(registry.path, record["registry"]), (registry.lock_path, record["lock"])]
    pairs += [(folder / entry["file"], entry) for entry in record["certificates"]]
    other = [path.name for path, entry in pairs if digest(path) != entry["sha256"]]
    if other:
        lines = changes(record, registry)
        if registry.path.name in other and not lines:
            lines = [
                f"{registry.path.name} differs only in what the record does not list, as comments"
            ]
        lines += [
            f"the content (SHA-256) of {name} is another than the one signed"
            for name in other
            if name != registry.path.name
        ]
        raise RegistryError(
            f"{', '.join(other)}: not as {record['name']} signed off on {record['date']}: "
            f"{'; '.join(lines)}; look at `ldp registry page`, and sign again"
        )


def _differences(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [
        f"{what}: {key.replace('_', ' ')} was {_text(old.get(key))}, is {_text(new.get(key))}"
        for key in new
        if old.get(key) != new.get(key)
    ]


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(value) if isinstance(value, list) else "none" if value is None else str(value)
