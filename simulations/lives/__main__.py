"""Check that the Python and the TypeScript client keep the same promises, in drawn lives.

`python -m simulations.lives` plays 10,000 lives through both clients. It checks every answer,
charge, batch and count against docs/device-protocol.md. It also plays 1,000 lives (200 in Node)
whose clock leaps between any two calls. In them caps must hold, and a device whose clock is right
again must report within two windows. It prints every bar, writes all as JSON and exits 1 when one
is missed.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from simulations import campaign
from simulations.campaign import Bar
from simulations.lives.clocks import clock_fault, make_clock_lives
from simulations.lives.making import Life, make_life
from simulations.lives.playing import play, play_in_node
from simulations.lives.protocol import Difference, Follower, Registry

LIVES, AT_ONCE = 10_000, 100
CLOCKS = {"Python": 1000, "TypeScript": 200}
"""Number of lives of each client whose clock leaps."""


def difference(life: Life, transcript: list[dict[str, object]]) -> str:
    """Return how a client differed from the protocol, "" if it did not."""
    texts = [registry["json"] for registry in life["registries"]]
    follower = Follower(Registry(texts[0]))
    for number, (call, step) in enumerate(zip(life["calls"], transcript, strict=True)):
        call = {**call, "json": texts[call.get("registry", 0)]}
        try:
            follower.follow(call, step)
        except Difference as error:
            return f"life {life['seed']}, call {number} ({call['call']}): {error}"
    return ""


def leaping(client: str, seeds: range, folder: Path) -> list[str]:
    """Return what is wrong in lives of a client whose clock leaps."""
    pairs = [make_clock_lives(seed, folder) for seed in seeds]
    lives = [life for pair in pairs for life in pair]
    if client == "Python":
        steps = [play(life, folder / f"clock {life['seed']}") for life in lives]
    else:
        steps = [*play_in_node(lives)]
    faults = (
        clock_fault(life, *both)
        for (life, _), both in zip(pairs, zip(steps[::2], steps[1::2], strict=True), strict=True)
    )
    return [
        f"{client}, clock {seed}: {line}" for seed, line in zip(seeds, faults, strict=True) if line
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--lives", type=int, default=LIVES)
    parser.add_argument("--seed", type=int, default=0, help="Number of the first life.")
    asked = parser.parse_args()
    made, found, calls = campaign.provenance(), list[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for first in range(asked.seed, asked.seed + asked.lives, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, asked.seed + asked.lives))
            lives = [make_life(number, folder) for number in numbers]
            for life, web in zip(lives, play_in_node(lives), strict=True):
                calls.update(call["call"] for call in life["calls"])
                python = play(life, folder / str(life["seed"]))
                for client, steps in (("Python", python), ("TypeScript", web)):
                    if line := difference(life, steps):
                        found.append(f"{client}: {line}")
                        print(found[-1], flush=True)
        leaps = list[str]()
        for client, number in CLOCKS.items():
            for first in range(asked.seed, asked.seed + number, AT_ONCE):
                leaps += leaping(client, range(first, first + AT_ONCE), folder)
    print(*leaps, sep="\n", flush=True)
    bars = [
        Bar(f"differences in {asked.lives} lives of each client", len(found), "0", not found),
        Bar(f"faults in lives whose clock leaps, {CLOCKS}", len(leaps), "0", not leaps),
    ]
    campaign.write(asked.out, made, {"bars": bars, "calls": calls, "found": found, "leaps": leaps})
    return campaign.shown(bars)


if __name__ == "__main__":
    sys.exit(main())
