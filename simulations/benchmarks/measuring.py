"""Measure time, memory, imports and installed size, and describe the machine.

Nothing here knows what is measured. The peers are measured by the same functions in an environment
of their own. So this file needs the standard library only, and numpy for the calibration.
"""

import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path
from typing import Any, NamedTuple

MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One measurement and its bar.

    `measure` gets an empty folder, which the benchmarks of one run share, and returns a figure in
    `unit`. `bar`: the largest figure that passes. `limit` measures, in the same unit, what the
    operating system or the disk takes of the work; no code can take less.
    """

    key: str
    name: str
    unit: str
    measure: Callable[[Path], float]
    bar: float | None = None
    limit: Callable[[Path], float] | None = None

    @property
    def is_timed(self) -> bool:
        """Whether the figure depends on how fast and how busy the machine is."""
        return self.unit in ("us", "ms", "s")

    def is_met(self, figure: float) -> bool:
        return self.bar is None or figure <= self.bar


def fastest(
    work: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the seconds of the quickest of some runs, because other processes only add time.

    `clock`: wall time by default, or `time.process_time`.
    """
    times = []
    for _ in range(repeats):
        started = clock()
        work()
        times.append(clock() - started)
    return min(times)


class Run(NamedTuple):
    """One command: wall time in seconds, peak of its largest process in MiB, processor seconds."""

    seconds: float
    peak_mib: float
    processor: float = 0.0


def run(
    command: Iterable[str | Path],
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Run:
    """Run a command to its end, without its output.

    `environment`: variables added to those of this process. `folder`: where the command runs.
    Raises RuntimeError with the command's error output when it fails.
    """
    launcher = [sys.executable, str(Path(__file__).with_name("launcher.py"))]
    done = subprocess.run(
        [*launcher, *map(str, command)],
        env={**os.environ, **(environment or {})},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    used = json.loads(done.stdout)
    return Run(used["seconds"], used["peak_mib"], used["processor"])


def each_us(work: Callable[[Any], object], values: Sequence[Any]) -> float:
    """Return microseconds of processor time of `work` for one value; the fastest of 7 rounds."""

    def all_of_them() -> None:
        for value in values:
            work(value)

    all_of_them()  # compiles, where something is compiled
    return 1e6 * fastest(all_of_them, 7, time.process_time) / len(values)


def print_figures(figures: Mapping[str, Callable[[], float]]) -> None:
    """Print figures of a peer's module as JSON: those of the keys in the arguments, else all."""
    asked = sys.argv[1:] or list(figures)
    print(json.dumps({key: measure() for key, measure in figures.items() if key in asked}))


def request_us(size: int) -> float:
    """Return microseconds of processor time of one request for `size` random bytes.

    It is the fastest of 7 rounds of 2,000 requests to the operating system.
    """

    def requests() -> None:
        for _ in range(2000):
            os.urandom(size)

    return 1e6 * fastest(requests, 7, time.process_time) / 2000


def sync_us(folder: Path) -> float:
    """Return microseconds until a page of 4 KiB is synced to the disk, the median of 50."""
    times = []
    with (folder / "synced").open("wb") as file:
        for _ in range(50):
            file.write(bytes(4096))
            file.flush()
            started = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - started)
    return 1e6 * statistics.median(times)


def copied_gib() -> float:
    """Return how many GiB a second are copied in memory, from an array of 256 MiB."""
    import numpy as np

    array = np.ones(32 * MIB)
    target = np.empty_like(array)
    return array.nbytes / 2**30 / fastest(lambda: np.copyto(target, array), 5)


def import_seconds(statement: str, repeats: int = 20) -> float:
    """Return the processor time that a fresh interpreter takes for an import.

    The modules are compiled beforehand. The time of an empty program is subtracted; both times are
    medians over alternating runs.
    """
    compiling = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    _run_silently(statement, compiling)
    times: dict[str, list[float]] = {"pass": [], statement: []}
    for _ in range(repeats):
        for code, taken in times.items():
            before = _children_seconds()
            _run_silently(code)
            taken.append(_children_seconds() - before)
    bare, loaded = (statistics.median(taken) for taken in times.values())
    return loaded - bare


def _run_silently(code: str, environment: Mapping[str, str] | None = None) -> None:
    command = [sys.executable, "-c", code]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def with_dependencies(requirements: Iterable[str]) -> set[str]:
    """Return the packages that the requirements install, with all dependencies, from metadata."""
    found: set[str] = set()
    wanted = list(requirements)
    while wanted:
        requirement = wanted.pop()
        match = re.match(r"[\w.-]+", requirement)
        name = re.sub(r"[-_.]+", "-", match[0].lower()) if match else ""
        if not name or "extra ==" in requirement or name in found:
            continue
        try:
            wanted.extend(requires(name) or [])
        except PackageNotFoundError:
            continue  # a requirement of another system or another Python
        found.add(name)
    return found


def installed_mib(packages: Iterable[str]) -> float:
    """Return the size in MiB of the files of installed packages, without bytecode."""
    paths = [
        Path(str(file.locate()))
        for package in packages
        for file in distribution(package).files or []
    ]
    return size_mib(paths)


def size_mib(paths: Iterable[Path]) -> float:
    """Return the size in MiB of the files among the paths, without bytecode and other caches."""
    return (
        sum(p.stat().st_size for p in paths if p.is_file() and "__pycache__" not in p.parts) / MIB
    )


def calibration() -> dict[str, float]:
    """Return milliseconds of two fixed tasks by which machines are compared.

    One is a loop of pure Python (2 million additions), the other a sort of 2 million doubles in
    numpy.
    """
    import numpy as np

    numbers = np.random.default_rng(1).random(2_000_000)

    def loop() -> int:
        total = 0
        for i in range(2_000_000):
            total += i & 7
        return total

    return {
        "python_loop_ms": 1e3 * fastest(loop, 5),
        "numpy_sort_ms": 1e3 * fastest(lambda: np.sort(numbers), 5),
    }


def machine() -> dict[str, Any]:
    """Return the processor, cores, memory and Python of this machine.

    Its name is added if LDP_BENCH_MACHINE gives one.
    """
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "name": os.environ.get("LDP_BENCH_MACHINE", ""),
        "cpu": models[0] if models else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "python": platform.python_version(),
    }
