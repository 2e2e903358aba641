"""Do the Python and the TypeScript client keep the same promises, in lives that a seed draws?

`python -m simulations.lives` plays 10,000 lives through both clients and holds every answer,
charge, batch and count to docs/device-protocol.md. Prints every bar, writes all as JSON and exits 1
when one is missed.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from simulations import campaign
from simulations.campaign import Bar
from simulations.lives.making import Life, make_life
from simulations.lives.playing import play, play_in_node
from simulations.lives.protocol import Difference, Follower, Registry

LIVES, AT_ONCE = 10_000, 100


def difference(life: Life, transcript: list[dict[str, object]]) -> str:
    """Return what a client did otherwise than the protocol says, "" for nothing."""
    texts = [registry["json"] for registry in life["registries"]]
    follower = Follower(Registry(texts[0]))
    for number, (call, step) in enumerate(zip(life["calls"], transcript, strict=True)):
        call = {**call, "json": texts[call.get("registry", 0)]}
        try:
            follower.follow(call, step)
        except Difference as error:
            return f"life {life['seed']}, call {number} ({call['call']}): {error}"
    return ""


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
    bars = [Bar(f"differences in {asked.lives} lives of each client", len(found), "0", not found)]
    campaign.write(asked.out, made, {"bars": bars, "calls": calls, "found": found})
    return campaign.shown(bars)


if __name__ == "__main__":
    sys.exit(main())
