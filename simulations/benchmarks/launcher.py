"""Run the command in the arguments and print its times and peak memory as JSON.

This is a process of its own: the peak that the system reports for a child starts at its parent's
memory, and this parent is small.
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
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, other systems KiB
    processor = used.ru_utime + used.ru_stime
    peak = used.ru_maxrss * unit / 2**20
    print(json.dumps({"seconds": seconds, "processor": processor, "peak_mib": peak}))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
