"""Certificates: JSON files of audits and their results, which anybody can repeat.

An entry states a mechanism by its parameters, so that the mechanism can be made and audited again.
`differences` states where the results of a repetition differ. Noise comes from the operating
system, so that measurements (`MEASURED`) differ from run to run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from ldp.audit import messages
from ldp.audit.cheats import TRIALS, cheats_caught
from ldp.audit.tried_values import drawn_values, tried
from ldp.audit.verdict import ALPHA, Verdict, audited
from ldp.errors import ParameterError
from ldp.files import finite
from ldp.mechanisms import CatalogueMechanism, from_parameters
from ldp.mechanisms.dummies import Dummies
from ldp.mechanisms.joint_base import claimed_ratio, parts_of
from ldp.protocol.channel import exact_log
from ldp.protocol.hashing import Value
from ldp.protocol.strict_json import shortened
from ldp.registry.certificates import require_seen

MEASURED = ("at_least", "checks", "drawn_values")
"""Fields of an entry that depend on the noise of the run, or on all of a dictionary."""


class AuditSubject(NamedTuple):
    """Mechanism to audit, under a `name`. `dictionary`: values of the metric's dictionary, from
    which values are drawn."""

    name: str
    mechanism: CatalogueMechanism
    dictionary: Sequence[Value] = ()


def certified(
    subject: AuditSubject, trials: int, seed: int, *, with_cheats: bool = True
) -> tuple[Verdict, dict[str, Any]]:
    """Return the verdict of a subject's audit, and its entry in a certificate: the mechanism, the
    law in fractions, what was tried, the findings, and which cheats the audit caught."""
    name, mechanism, dictionary = subject
    verdict = audited(name, mechanism, trials, dictionary=dictionary, seed=seed)
    law: dict[str, Any] = {}
    # no epsilon is claimed before a relay shuffles: null
    if isinstance(mechanism, Dummies):
        values: Sequence[Value] = mechanism.categories[: messages.MOST_TRIED]
        many = values
    else:
        values, ratio = tried(mechanism), claimed_ratio(mechanism)
        many = drawn_values(mechanism, np.random.default_rng(seed), dictionary)
        law = {
            "channels": [
                {"touched": str(part.channel.touched), "untouched": str(part.channel.untouched)}
                for part in parts_of(mechanism)
            ],
            "worst_ratio": str(ratio),
            "exact_epsilon": str(exact_log(ratio)),
        }
    listed = {*dictionary}
    entry = {
        **finite(asdict(verdict)),
        "passed": verdict.passed,
        "parameters": mechanism.parameters(),
        "fingerprint": mechanism.fingerprint.hex(),
        **law,
        "tried": {
            "values": list(map(_readable, values)),
            "reports_of_each": trials,
            "dictionary": [_readable(value) for value in many if value in listed],
        },
        "drawn_values": len(many),
    }
    if with_cheats and isinstance(mechanism, Dummies):
        entry["cheats_caught"] = messages.caught(mechanism, min(trials, TRIALS), ALPHA)
    elif with_cheats:
        entry["cheats_caught"] = dict(cheats_caught(mechanism, values, trials, ALPHA))
    return verdict, entry


def subject_of(entry: Mapping[str, Any]) -> AuditSubject:
    """Return the subject of an entry that `read_certificate` read, made from its parameters. Raises
    ParameterError for an entry whose fingerprint does not fit its parameters, or that claims to
    have passed although the epsilon seen from outside is above the claimed one."""
    name, mechanism = entry["name"], from_parameters(entry["parameters"])
    if mechanism.fingerprint.hex() != entry["fingerprint"]:
        raise ParameterError(
            f"{name}: these parameters have the fingerprint {mechanism.fingerprint.hex()}, the "
            f"certificate says {shortened(entry['fingerprint'])}"
        )
    if entry["passed"]:
        require_seen(f"{name}: at_least", entry["at_least"], mechanism.cost.epsilon)
    return AuditSubject(name, mechanism, tuple(entry["tried"]["dictionary"]))


def differences(certificate: Mapping[str, Any], repetition: Mapping[str, Any]) -> list[str]:
    """Return the fields, apart from MEASURED, in which an entry of a mechanism or of the client
    differs from its repetition."""
    before, after = map(_unmeasured, (certificate, repetition))
    return [
        f"{key}: certified {before.get(key)}, repeated {after.get(key)}"
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]


def _unmeasured(entry: Mapping[str, Any]) -> dict[str, Any]:
    memoised = entry.get("memoised")
    return {key: value for key, value in entry.items() if key not in MEASURED} | (
        {"memoised": _unmeasured(memoised)} if isinstance(memoised, Mapping) else {}
    )


def _readable(value: Any) -> Any:
    """Return a value in the form for JSON: bytes as hexadecimal digits, a tuple as a list, a set as
    a sorted list."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, frozenset):
        return {"set": sorted(map(_readable, value))}
    return list(map(_readable, value)) if isinstance(value, tuple) else value
