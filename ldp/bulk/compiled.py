"""Compiled inner loops: by numba, cached on the disk where possible, in threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from typing import Any, TypeVar

import numpy as np
from numba import njit

Part = TypeVar("Part")


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: `numba.njit` without the interpreter's lock, and with `options`.

    Compiled code goes to numba's cache: beside the module, in the user's cache folder, or in
    NUMBA_CACHE_DIR. Where none of them is writable (a read-only container without a home folder),
    every process compiles again, which takes seconds.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # numba: "cannot cache function ..: no locator available for file"
            return njit(nogil=True, **options)(function)

    return decorate


def by_rows(work: Callable[[slice], Part], rows: int) -> list[Part]:
    """Return the results of `work` for as many slices of the rows as there are cores, each in its
    own thread."""
    workers = max(1, min(rows, cpu_count() or 1))
    bounds = np.linspace(0, rows, workers + 1).astype(int)
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, map(slice, bounds[:-1], bounds[1:])))
