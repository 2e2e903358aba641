"""Reader of certificates of `ldp audit --report`, which checks their form and their parameters.

`ldp.audit.certificate` makes them. Whoever can write a file can make one up. What follows from the
parameters of the mechanism is checked here. The rest is checked by `ldp audit --verify` only.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ldp.errors import ParameterError, RegistryError
from ldp.files import finite
from ldp.mechanisms import from_parameters
from ldp.mechanisms.joint_base import claimed_ratio
from ldp.protocol.channel import exact_log
from ldp.protocol.strict_json import Kinds, are_texts, read_json, require_fields, shortened

FORMAT = 1
CLIENT = "client"
"""Key of the client's audit in a certificate. No other audit has this name."""
TRIALS = 5000
"""Reports of each value that an audit takes by default, and the fewest that can be signed."""
PASSED = {"passed": True, "findings": list[str]()}
"""Fields of an audit that passed."""
_HEAD: Kinds = {bool: "passed", int: "certificate trials seed", str: "made version python"}
_AUDIT: Kinds = {bool: "passed", int: "checks", list: "findings"}
_ENTRY: Kinds = {str: "name fingerprint", dict: "parameters tried cheats_caught", float: "at_least"}


class Certified(NamedTuple):
    """Entry of a certificate about one mechanism that passed its audit. `origin`: version, commit
    and day; `trials`: reports of each value."""

    path: Path
    origin: str
    trials: int
    entry: Mapping[str, Any]

    @property
    def is_weak(self) -> bool:
        """Return whether it cannot be signed: fewer than TRIALS trials, no cheat tried, or one of
        them not caught."""
        cheats = self.entry["cheats_caught"].values()
        return self.trials < TRIALS or not cheats or not all(cheats)

    def __str__(self) -> str:
        cheats = self.entry["cheats_caught"].values()
        return (
            f"{self.trials:,} trials: {self.entry['checks']:,} counts, 0 findings; "
            f"{sum(cheats)} of {len(cheats)} cheats caught"
        )


class Certificates(NamedTuple):
    """Contents of certificates. `audits`: by the fingerprint of the mechanism, as hexadecimal text.
    `client`: whether the client was audited."""

    paths: Sequence[Path] = ()
    audits: Mapping[str, Certified] = {}
    client: bool = False


def read_certificate(path: Path) -> dict[str, Any]:
    """Return a certificate, of a failed audit too. Raises RegistryError for another file."""
    return read_json(path, "a certificate of `ldp audit --report`", _require_certificate)


def _require_certificate(certificate: Any) -> None:
    """Raise ParameterError unless each field has its type, there is at least one audit, and each
    audit has a name of its own and the same number of trials."""
    require_fields(certificate, {**_HEAD, str | None: "commit", list: "audits"})
    trials, audits, names = certificate["trials"], certificate["audits"], {CLIENT}
    if certificate["certificate"] != FORMAT or trials < 1 or certificate["seed"] < 0:
        raise ParameterError(f"its format must be {FORMAT}, trials > 0 and seed >= 0")
    for number, entry in enumerate(audits, 1):
        where = f"audit {number}: "
        require_fields(entry, {**_AUDIT, **_ENTRY, dict | None: "memoised"}, where)
        require_fields(entry["tried"], {int: "reports_of_each", list: "dictionary"}, where)
        require_fields(_memoised(entry), {float: "at_least"}, where)
        words, cheats = entry["tried"]["dictionary"], entry["cheats_caught"]
        require_fields(cheats, {bool: " ".join(cheats)}, where)
        if entry["name"] in names or entry["tried"]["reports_of_each"] != trials:
            raise ParameterError(f"{where}its name is there twice, or its trials are not {trials}")
        if not are_texts(words):
            raise ParameterError(f"{where}the dictionary must be a list of texts")
        names.add(entry["name"])
    if CLIENT in certificate:
        require_fields(certificate[CLIENT], _AUDIT, f"{CLIENT}: ")
    elif not audits:
        raise ParameterError("it has no audit")


def read_certificates(paths: Sequence[Path]) -> Certificates:
    """Return the contents of certificates. For a mechanism with several audits, it is a weak one if
    there is one. Raise RegistryError for a file that is no certificate, says that something failed,
    or contradicts the mechanism that its parameters make."""
    audits, client = dict[str, Certified](), False
    for path in paths:
        document = read_certificate(path)
        commit, client = document["commit"] or "commit not known", client or CLIENT in document
        origin = f"ldp {document['version']} ({commit}), {document['made'][:10]}"
        name = CLIENT
        try:
            _require_equal(document.get(CLIENT, PASSED), PASSED)
            for entry in document["audits"]:
                name, fingerprint = entry["name"], entry["fingerprint"]
                _require_true(entry)
                if fingerprint not in audits or not audits[fingerprint].is_weak:
                    audits[fingerprint] = Certified(path, origin, document["trials"], entry)
            name = "the certificate"
            _require_equal(document, {"passed": True})
        except ParameterError as error:
            raise RegistryError(
                f"{path}: {name}: {error}; `ldp audit --report` writes another"
            ) from None
    return Certificates(tuple(paths), audits, client)


def _require_true(entry: Mapping[str, Any]) -> None:
    """Raise ParameterError unless an entry is of a passed audit of its parameters."""
    mechanism = from_parameters(entry["parameters"])
    cost, right = mechanism.cost, PASSED | {"exact": [], "fingerprint": mechanism.fingerprint.hex()}
    right |= {"claimed": finite(cost.epsilon)}
    if not mechanism.needs_shuffler:
        ratio = claimed_ratio(mechanism)
        right |= {"worst_ratio": str(ratio), "exact_epsilon": str(exact_log(ratio))}
    _require_equal(entry, right)
    require_seen("at_least", entry["at_least"], cost.epsilon)
    _require_equal(_memoised(entry), {"lifetime": finite(cost.lifetime)})
    require_seen("memoised at_least", _memoised(entry)["at_least"], cost.lifetime)


def _memoised(entry: Mapping[str, Any]) -> Any:
    """Return what an entry says of memoised reports. Without that, returns the entry of an infinite
    lifetime."""
    return {"lifetime": None, "at_least": 0.0} if entry["memoised"] is None else entry["memoised"]


def _require_equal(entry: Mapping[str, Any], right: Mapping[str, Any]) -> None:
    for field, value in right.items():
        if entry.get(field) != value:
            raise ParameterError(f"{field} is {shortened(entry.get(field))}, must be {value!r}")


def require_seen(name: str, at_least: float, claimed: float) -> None:
    """Raise ParameterError, with the `name` of the field, unless `at_least`, the epsilon that was
    seen from outside, is at most the `claimed` one."""
    if not at_least <= claimed:
        raise ParameterError(f"{name} is {at_least!r}, must be at most {claimed}")
