"""Print every benchmark: our figure, its bar, the peer's figure, their ratio, and the machine.

A missed bar on size makes the exit status 1. A missed bar on time does so only with
LDP_BENCH_STRICT=1, which needs the machine's name in LDP_BENCH_MACHINE.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from simulations.benchmarks import peers
from simulations.benchmarks.measuring import (
    Benchmark,
    calibration,
    copied_gib,
    machine,
    request_us,
    sync_us,
)
from simulations.benchmarks.ours import BENCHMARKS

NAMES = ", ".join(peers.PEERS.values())
HEADER = ("benchmark", "ours", "bar", "limit", "ours / limit", "fastest peer", "peer / ours")


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulations.benchmarks", description=__doc__)
    parser.add_argument("--no-peers", action="store_true", help="leave the peers out")
    parser.add_argument("--only", nargs="+", metavar="KEY", help="measure these alone")
    parser.add_argument("--out", type=Path, help="also write the results there, as JSON")
    asked = parser.parse_args()
    strict = os.environ.get("LDP_BENCH_STRICT") == "1"
    if strict and not os.environ.get("LDP_BENCH_MACHINE"):
        print("LDP_BENCH_STRICT=1 needs the machine's name in LDP_BENCH_MACHINE", file=sys.stderr)
        return 2

    where, speed = machine(), calibration()
    theirs = {} if asked.no_peers else _peers(asked.only or ())  # first: see launcher.py
    ours, limits = dict[str, float](), dict[str, float]()
    chosen = [one for one in BENCHMARKS if asked.only is None or one.key in asked.only]
    with TemporaryDirectory() as folder:
        for benchmark in chosen:
            _progress(benchmark.name)
            ours[benchmark.key] = benchmark.measure(Path(folder))
            _progress(f"{_number(ours[benchmark.key])} {benchmark.unit}")
            if benchmark.limit:
                limits[benchmark.key] = benchmark.limit(Path(folder))
        speed |= {"sync_us": sync_us(Path(folder)), "copied_gib": copied_gib()}

    missed = [one for one in chosen if not one.is_met(ours[one.key])]
    _print_table(
        [
            HEADER,
            *(
                _line(one, ours[one.key], limits.get(one.key), theirs.get(one.key))
                for one in chosen
            ),
        ]
    )
    if theirs:
        print(f"\n{peers.MEASURED}")
    print(
        f"\n{where['name'] or 'Machine'}: {where['cpu']}, {where['cores']} cores, "
        f"{where['memory_gib']} GiB, Python {where['python']}. Calibration: Python loop "
        f"{speed['python_loop_ms']:.0f} ms, numpy sort {speed['numpy_sort_ms']:.0f} ms.\n"
        f"32 random bytes {request_us(32):.2f} us, 1 KiB {request_us(1024):.2f} us; "
        f"4 KiB on the disk {speed['sync_us']:.0f} us; "
        f"memory copied at {speed['copied_gib']:.1f} GiB a second."
    )
    if asked.out:
        results = [
            {
                "key": one.key,
                "name": one.name,
                "unit": one.unit,
                "ours": ours[one.key],
                "bar": one.bar,
                "met": one.is_met(ours[one.key]),
                "limit": limits.get(one.key),
                "peer": theirs[one.key]._asdict() if one.key in theirs else None,
            }
            for one in chosen
        ]
        written = {
            "machine": where,
            "calibration": speed,
            "peer": {"name": NAMES, "measured": peers.MEASURED} if theirs else None,
            "results": results,
        }
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps(written, indent=2) + "\n")
    for one in missed:
        fails = strict or not one.is_timed
        print(f"bar missed{'' if fails else ' (not strict)'}: {one.name}", file=sys.stderr)
    return int(any(strict or not one.is_timed for one in missed))


def _peers(keys: Sequence[str]) -> dict[str, peers.Figure]:
    """Return the peers' figures of `keys`, by default of all keys.

    When the peers cannot run, print why and return no figure.
    """
    _progress(f"{NAMES}, in {peers.ENVIRONMENT}")
    try:
        return peers.figures(keys)
    except peers.PeerMissing as reason:
        print(f"peer missing: {NAMES}: {reason}", file=sys.stderr)
        return {}


def _line(
    benchmark: Benchmark, ours: float, limit: float | None, peer: peers.Figure | None
) -> tuple[str, ...]:
    unit = benchmark.unit
    return (
        benchmark.name,
        f"{_number(ours)} {unit}",
        "" if benchmark.bar is None else f"<= {_number(benchmark.bar)} {unit}",
        "" if limit is None else f"{_number(limit)} {unit}",
        "" if limit is None else f"{_number(ours / limit)} x",
        "" if peer is None else f"{peer.name} {_number(peer.value)} {unit}",
        "" if peer is None else f"{_number(peer.value / ours)} x",
    )


def _number(figure: float) -> str:
    """Return a number in three digits, or a larger whole number in full."""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def _print_table(lines: list[tuple[str, ...]]) -> None:
    """Print a Markdown table with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ("-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:]))
    for line in (lines[0], rule, *lines[1:]):
        name, *cells = line
        padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        print("| " + " | ".join([name.ljust(widths[0]), *padded]) + " |")


def _progress(doing: str) -> None:
    print(f"... {doing}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
