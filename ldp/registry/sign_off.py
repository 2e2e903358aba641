"""Sign-off: who agreed to a registry, when, and to which bytes of it, its lock and certificates.

It is a record and no cryptographic signature: whoever can write the file can write another. Kept in
version control, it lets a build fail when the registry is no longer the one that was agreed to.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from ldp.errors import ParameterError, RegistryError
from ldp.files import finite
from ldp.protocol.strict_json import Kinds, is_plain, read_json, require_fields, shortened
from ldp.registry.certificates import TRIALS, Certificates, read_certificates
from ldp.registry.definitions import digest
from ldp.registry.registry import Registry

FORMAT = 1
BESIDE = "metrics.signed.json"
"""Default name of the record, a file beside the registry."""
NOTE = "a record, and no cryptographic signature"


def facts(registry: Registry) -> dict[str, Any]:
    """Return what is agreed to, as JSON-ready data: every metric and group, and the worst case."""
    metrics = {
        name: {
            **metric.pinned(),
            "group": metric.group,
            "description": metric.description,
            "owners": list(metric.owners),
            "expires": metric.expires.isoformat(),
            "epsilon": metric.mechanism.cost.epsilon,
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
            **registry.worst_case(name),
            **({"trust": group.trust, "consent": group.consent} if group.needs_shuffler else {}),
        }
        for name, group in registry.groups.items()
    }
    life = registry.lifetime_epsilon
    device = {"cap for life": life, **registry.worst_case_of_all()}
    contents: dict[str, Any] = finite({"metrics": metrics, "groups": groups, "device": device})
    return contents


def missing_for_signing(registry: Registry, certificates: Certificates, day: date) -> Iterator[str]:
    """Yield a line for each thing that a signature on `day` lacks. A registry for development
    yields one line only. Any other needs a lock of every metric, and for each metric that has not
    expired a certificate of a passed audit with TRIALS trials or more and every cheat caught."""
    if registry.development:
        yield "development = true asks nobody: nothing to sign off"
        return
    if unlocked := registry.check(day):
        yield f"run `ldp registry lock {registry.path}` first: {', '.join(unlocked)}"
    for metric in registry.metrics.values():
        audit = certificates.audits.get(metric.mechanism.fingerprint.hex())
        if metric.expires >= day and (audit is None or audit.is_weak):
            what = "no certificate"
            if audit is not None:
                due = f"due: {TRIALS:,} trials or more, and every cheat caught"
                what = f"a weak certificate, {audit.path} ({audit}; {due})"
            path = registry.path.with_name(metric.name)
            yield (
                f"metric {metric.name!r} has {what}: `ldp audit {metric.name} "
                f"--registry {registry.path} --report {path}.json` for --certificate"
            )


def sign(registry: Registry, name: str, certificates: Sequence[Path], day: date) -> dict[str, Any]:
    """Return the record that `name` agreed on `day`. Raise RegistryError with a line for each thing
    that is missing (`missing_for_signing`)."""
    if not is_plain(name):
        raise ParameterError("the name of who signs must be a text of one line, not empty")
    missing = [*missing_for_signing(registry, read_certificates(certificates), day)]
    if missing:
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


def read_sign_off(path: Path) -> dict[str, Any]:
    """Return the record of a sign-off; raise RegistryError for another file."""
    return read_json(path, "a record of `ldp registry sign`", _require_record)


def _require_record(record: Any) -> None:
    """Raise ParameterError unless each field of a record has its type and form."""
    kinds: Kinds = {int: "sign_off", str: "name date", dict: "registry lock facts"}
    require_fields(record, {**kinds, list: "certificates"})
    for entry in (record["registry"], record["lock"], *record["certificates"]):
        require_fields(entry, {str: "file sha256"})
        if Path(entry["file"]).name != entry["file"]:
            raise ParameterError(f"{shortened(entry['file'])} is not the name of a file alone")
    agreed = record["facts"]
    require_fields(agreed, {dict: "metrics groups device"})
    for entry in (*agreed["metrics"].values(), *agreed["groups"].values()):
        require_fields(entry, {})
    date.fromisoformat(record["date"])
    if record["sign_off"] != FORMAT:
        raise ParameterError(f"its format must be {FORMAT}")


def state_of(registry: Registry, record: Mapping[str, Any] | None, folder: Path) -> str:
    """Return in words whether the registry was signed off, and whether it or a file changed since.
    `record`: the record of the sign-off, None without. `folder`: that of its certificates."""
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
        lines += [f"{word}{_text(name)} is gone" for name in old if name not in new]
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
    """Return a fact in words, escaped where it could not be shown as a text of one line."""
    if isinstance(value, float):
        return f"{value:g}"
    if value is None:
        return "none"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if is_plain(text) else ascii(text)
