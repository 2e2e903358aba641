"""Processes of a publication, each of which counts one metric at a time: this one and others.

Another process is a program of its own (`ldp.publishing.worker`), not a fork, because this process
has threads. It inherits the descriptor of the folder's lock, so that the lock is held until the
last process has ended. It ends when its input ends, that is when this process ends or is killed.
"""

import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from subprocess import PIPE, Popen
from threading import Event, Lock
from typing import Any

from ldp.publishing.period import PeriodResult, PeriodTask

PATIENCE_SECONDS = 2.0
"""Seconds of work after which other processes are started, more than a process takes to load: a run
with little to do starts none."""
WORKER = "ldp.publishing.worker"
REMEDY = "the next run repeats it, and jobs = 1 takes the least memory"
Run = Callable[[PeriodTask], PeriodResult]
"""Function that runs a task and returns its result."""


def run_all(
    metrics: Sequence[Sequence[PeriodTask]],
    processes: int,
    lock: int,
    on_result: Callable[[PeriodResult], None],
) -> list[list[PeriodResult]]:
    """Run the tasks of each of the `metrics`, in their order, in this process and `processes` - 1
    others, and return their results. `lock`: descriptor of the lock of the folder, which the others
    hold, too. `on_result` is called after each task, by one thread at a time."""
    results: list[list[PeriodResult]] = [[] for _ in metrics]
    waiting = deque(zip(metrics, results, strict=True))
    is_taken, mutex = Event(), Lock()

    def take() -> tuple[Sequence[PeriodTask], list[PeriodResult]] | None:
        """Return a metric that waits, and its results; None without one."""
        with mutex:
            return waiting.popleft() if waiting else None

    def work(run: Run) -> None:
        """Take one metric after another, and run its tasks, until no metric waits."""
        for tasks, done in iter(take, None):
            for task in tasks:
                result = run(task)
                with mutex:
                    done.append(result)
                    on_result(result)

    def work_beside(process: _Process) -> None:
        """Start another process on the metrics that still wait after PATIENCE_SECONDS."""
        if not is_taken.wait(PATIENCE_SECONDS) and waiting and process.start():
            work(process.run)

    with ExitStack() as closing:
        count = min(processes, len(metrics)) - 1
        others = [_Process(lock) for _ in range(count)]
        for process in others:
            closing.callback(process.close)
        pool = closing.enter_context(ThreadPoolExecutor(max(1, count)))
        try:
            threads = [pool.submit(work_beside, process) for process in others]
            work(PeriodTask.run)
            is_taken.set()
            for thread in threads:
                thread.result()
        finally:
            is_taken.set()
            waiting.clear()
            for process in others:
                process.end()
    return results


class _Process:
    """Another process, which runs one task at a time, and is started again if it ended."""

    def __init__(self, lock: int) -> None:
        self._lock, self._mutex, self._is_over = lock, Lock(), False
        self._process: Popen[bytes] | None = None

    def start(self) -> bool:
        """Start the process, which inherits only standard error and the lock, and return whether it
        has loaded. Return False after `end`, or if the system cannot start a process."""
        with self._mutex, suppress(OSError):
            if not self._is_over:
                self._process = Popen(
                    [sys.executable, "-P", "-m", WORKER],
                    stdin=PIPE,
                    stdout=PIPE,
                    pass_fds=[self._lock],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                )
        return bool(self._process and self._process.stdout and self._process.stdout.read(1))

    def run(self, task: PeriodTask) -> PeriodResult:
        """Run a task in the process. If the process ends instead, that is a problem of the task."""
        if not self._process and not self.start():
            return PeriodResult(None, [task.problem("no process could be started to count it")])
        process: Any = self._process
        try:
            pickle.dump(task, process.stdin)
            process.stdin.flush()
            result: PeriodResult = pickle.load(process.stdout)  # noqa: S301 - our own
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            text = f"the process that counted it ended with status {self.close()}; {REMEDY}"
            return PeriodResult(None, [task.problem(text)])
        return result

    def end(self) -> None:
        """End the process at once; afterwards `start` does nothing."""
        with self._mutex:
            self._is_over = True
            if self._process:
                self._process.kill()

    def close(self) -> int | None:
        """Wait until the process has ended, and return its status."""
        process, self._process = self._process, None
        if process:
            with suppress(BrokenPipeError), process:
                pass
        return process.returncode if process else None
