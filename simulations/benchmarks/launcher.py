"""Runs the command in its arguments and prints its time and peak memory as JSON.

A process of its own, because the peak that the system reports for a child starts at the memory of
the process that started it; this one is small.
"""

import json
import resource
import subprocess
import sys
import time


def main() -> int:
    started = time.perf_counter()
    done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=False)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
    print(json.dumps({"seconds": seconds, "peak_mib": peak * unit / 2**20}))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
