"""`ldp device`: the content of a device's file, in words."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from ldp.accounting.policy import length_in_words
from ldp.cli.options import FILE, JSON, say
from ldp.client import Client
from ldp.client.testing import Memory
from ldp.errors import ParameterError
from ldp.registry import Registry
from ldp.registry.definitions import BEHIND_RELAY
from ldp.registry.odds import caps_sentence

ALWAYS = timedelta(days=36_500)
CONSENT = {
    "unknown": "nobody was asked",
    "granted": "the owner agreed",
    "withdrawn": "the owner does not agree",
}

REASONS = {
    "value": "with a value that is not an answer of the metric",
    "unknown metric": "of a metric that the registry does not have",
    "consent": "of a metric or group that the owner was not asked for",
    "cap": "after the budget was spent",
    "expired": "of a metric that has expired",
    "relay": "of a metric that needs a relay",
}
"""Reasons for which records are declined, in words after their number."""


@click.command()
@click.argument("file", type=FILE)
@click.option("--registry", type=FILE, help="Registry to read, else metrics.toml beside FILE.")
@click.option("--witness", type=FILE, help="File of the witness, where the app names one.")
@JSON
def device_command(file: Path, registry: Path | None, witness: Path | None, as_json: bool) -> None:
    """Say what a device stores, what it sent and will send, and why it waits.

    FILE is the first argument of the app's Client. While the app keeps what was sent (keep_sent; a
    day in development) it is printed in words. The file holds no answer without noise.

    \b
    Example: ldp device device.ldp
    """
    if not file.is_file():
        raise ParameterError(f"{file} is not there: a device's file begins with consent")
    loaded = Registry.load(registry or file.with_name("metrics.toml"))
    needs_relay = any(metric.needs_shuffler for metric in loaded.metrics.values())
    # nothing is sent, but the app has a destination
    app = None if needs_relay else Memory()
    with Client(
        file,
        registry=loaded,
        destination=app,
        witness=witness,
        keep_sent=ALWAYS,
        strict=True,
    ) as client:
        status, batches = client.status(), client.sent()
        remaining = client.remaining()
    result: dict[str, Any] = {
        "product": loaded.product,
        **status._asdict(),
        "next_upload": status.next_upload and status.next_upload.isoformat(),
        "leap": status.leap and status.leap.isoformat(),
        "declined": dict(status.declined),
        "remaining": remaining,
        "batches": [
            {
                **batch._asdict(),
                "day": batch.day.isoformat(),
                "statements": [statement._asdict() for statement in batch.statements],
            }
            for batch in batches
        ],
    }
    say(result, _lines(file, loaded, result), as_json)


def _lines(file: Path, registry: Registry, result: dict[str, Any]) -> list[str]:
    lines = [f"{file}, a device of {registry.product}: {CONSENT[result['consent']]}"]
    if result["storage"]:
        lines.append(f"It sends nothing: {result['storage']}")
    for name, group in registry.groups.items():
        caps, span = group.caps, length_in_words(group.caps.window)
        memoise = "per-value" if "changing_per_value" in registry.worst_case(name) else ""
        sentence = caps_sentence(span, caps.window_epsilon, caps.lifetime_epsilon, memoise)
        left = result["remaining"]
        words = f"{left[name]:g}"
        if group.needs_shuffler and left[name]:
            words = f"{left[name + BEHIND_RELAY]:g}{BEHIND_RELAY}; without one there is no bound"
        lines.append(f"{name}: {sentence}; left now: {words}")
    why, moment = result["why"], result["next_upload"]
    lines.append(f"Now: {why}" + (f", at {moment} at the earliest" if moment else ""))
    lines.append(
        f"Randomised reports not sealed yet: {result['pooled']}; sealed batches waiting: "
        f"{result['waiting']}, taken: {result['acknowledged']}, dropped: {result['dropped']}; "
        f"reports refused: {result['refused']}"
    )
    if declined := result["declined"]:
        texts = [f"{count:,} {REASONS.get(reason, reason)}" for reason, count in declined.items()]
        lines.append(f"Records that were declined: {'; '.join(texts)}")
    if result["leap"]:
        lines.append(f"The clock went back: it once showed {result['leap']}")
    for state, head in (
        ("waiting", "Will be sent"),
        ("held", "Is held"),
        ("acknowledged", "Was sent"),
    ):
        batches = [batch for batch in result["batches"] if batch["state"] == state]
        lines += [f"{head}:"] if batches else []
        for batch in batches:
            texts = [f"{said['metric']}: {said['text']}" for said in batch["statements"]]
            counts = ", ".join(f"{metric}: {n}" for metric, n in batch["reports"].items())
            lines += [f"  {batch['day']} {text}" for text in texts or [f"{counts}, not kept"]]
    return lines
