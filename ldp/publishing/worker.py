"""Process that runs tasks of a publication: it reads tasks from its standard input, and writes
results to its standard output.

It ends at once when its input ends, which happens when the main process ends or is killed. It
ignores signals to the group of processes, which the main process handles.
"""

import os
import pickle
import signal
import sys
from queue import SimpleQueue
from threading import Thread

from ldp.publishing.period import PeriodTask


def main() -> None:
    """Run tasks until the input ends."""
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    results, main_process = os.fdopen(os.dup(1), "wb"), os.getppid()
    # nothing that a library prints is among the results
    os.dup2(2, 1)
    tasks = SimpleQueue[PeriodTask]()
    Thread(target=_read, args=(tasks,), daemon=True).start()
    try:
        results.write(b"\n")  # it is loaded
        while True:
            results.flush()
            pickle.dump(tasks.get().run(), results)
    except Exception as error:
        if isinstance(error, BrokenPipeError) or os.getppid() != main_process:
            # nobody reads: the main process was killed
            os._exit(0)
        raise


def _read(tasks: "SimpleQueue[PeriodTask]") -> None:
    try:
        while True:
            tasks.put(pickle.load(sys.stdin.buffer))  # noqa: S301 - our own
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
