"""Play lives through the Python client, and through the TypeScript client in Node."""

import json
import subprocess
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from sqlite3 import connect
from typing import Any

from ldp.client import Client
from ldp.errors import Unreachable
from ldp.protocol.randomness import SeededBits
from ldp.registry import Registry
from simulations.lives.making import Life

WEB = Path(__file__).parents[2] / "clients" / "typescript"


class _Bits(SeededBits):
    """Bits of a life, which decide only what no privacy depends on."""


class _Collector:
    """Destination that takes batches, fails, or refuses one report of each batch."""

    def __init__(self) -> None:
        self.manner, self.tries = "takes", 0

    def send(self, identity: bytes, body: bytes) -> int:
        self.tries += 1
        if self.manner == "fails":
            raise Unreachable("the collector cannot be reached")
        return int(self.manner == "refuses")


def play(life: Life, folder: Path) -> list[dict[str, Any]]:
    """Return the transcript of a life through the Python client, with a step for each call."""
    folder.mkdir()
    registries = []
    for number, registry in enumerate(life["registries"]):
        path = folder / f"metrics{number}.toml"
        path.write_text(registry["toml"], encoding="utf-8")
        registries.append(Registry.load(path))
    now, collector, bits = datetime.now(UTC), _Collector(), _Bits(str(life["seed"]).encode())
    number, steps = 0, list[dict[str, Any]]()
    charges, sealed, known = 0, set[bytes](), set[tuple[str, int]]()

    def made() -> Client:
        return Client(
            folder / "device.db",
            registry=registries[number],
            destination=collector,
            clock=lambda: now,
            bits=bits,
            jitter=timedelta(0),
            witness=False,
        )

    client = made()
    for call in life["calls"]:
        now, collector.tries = datetime.fromtimestamp(call["at"], UTC), 0
        collector.manner = call.get("collector", "takes")
        answer: Any = None
        match call["call"]:
            case "grant":
                answer = client.grant()
            case "withdraw":
                answer = client.withdraw()
            case "record":
                done = client.record(call["metric"], value_of(call["value"]))
                answer = "recorded" if done else done.reason  # type: ignore[union-attr]
            case "upload":
                answer = client.upload()._asdict()
            case _:
                number = call.get("registry", number)
                client.close()
                client = made()
        status = client.status()
        step = {
            "answer": answer,
            "tries": collector.tries,
            "charges": [],
            "sealed": [],
            "periods": [],
        }
        if (folder / "device.db").exists():
            with connect(folder / "device.db") as device:
                rows = device.execute(
                    "SELECT budget, metric, epsilon, times, at FROM charges ORDER BY rowid"
                ).fetchall()
                step["charges"], charges = [list(row) for row in rows[charges:]], len(rows)
                periods = device.execute("SELECT budget, ends FROM sealed").fetchall()
                batches = device.execute("SELECT id, day, contents FROM batches").fetchall()
            device.close()
            step["periods"] = [*map(list, {*periods} - known)]
            known |= {*periods}
            step["sealed"] = [
                [day, json.loads(reports)] for name, day, reports in batches if name not in sealed
            ]
            sealed |= {name for name, _, _ in batches}
        step["status"] = {
            **{name: getattr(status, name) for name in COUNTED},
            "unasked": sorted(status.unasked),
        }
        step["why"] = status.why
        step["remaining"] = client.remaining()
        steps.append(step)
    client.close()
    return steps


def value_of(value: Any) -> Any:
    """Return the value that JSON stands for.

    A list is a tuple. {"float": TEXT}, {"units": UTF-16}, {"set": LIST}, {"bytes": HEX}, {"whole":
    TEXT} and {"object": TEXT} (of a subclass of str) stand for values that JSON lacks.
    """
    match value:
        case [*values]:
            return tuple(map(value_of, values))
        case {"float": text}:
            return float(text)
        case {"units": units}:
            return "".join(map(chr, units))
        case {"set": values}:
            return frozenset(values)
        case {"bytes": digits}:
            return bytes.fromhex(digits)
        case {"whole": text}:
            return int(text)
        case {"object": text}:
            return type("Text", (str,), {})(text)
    return value


COUNTED = ("consent", "pooled", "waiting", "held", "acknowledged", "dropped", "refused")


def play_in_node(lives: Iterable[Life]) -> Iterator[list[dict[str, Any]]]:
    """Yield the transcripts of lives through the TypeScript client, in their order."""
    lines = "".join(f"{json.dumps(life)}\n" for life in lives)
    done = subprocess.run(
        ["node", "test/lives.mjs"], cwd=WEB, input=lines, capture_output=True, text=True, check=True
    )
    for line in done.stdout.splitlines():
        yield json.loads(line)
