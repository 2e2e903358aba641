"""Compiled inner loops: by numba, cached on the disk where possible, in threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from os import cpu_count
from typing import Any, TypeVar

import numpy as np

SlicePart = TypeVar("SlicePart")


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: `numba.njit` without the interpreter's lock, and with `options`, at the
    first call, because numba takes a third of a second to import.

    Compiled code goes to numba's cache: beside the module, in the user's cache folder, or in
    NUMBA_CACHE_DIR. Where none of them is writable (a read-only container without a home folder),
    every process compiles again, which takes seconds.
    """

    return lambda function: _Loop(function, options)


class _Loop:
    """A loop of Python, which its first call compiles, with those that it calls."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.function, self.options, self.__doc__ = function, options, function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        return self.machine_code(*arguments)

    @cached_property
    def machine_code(self) -> Any:
        from numba import njit

        names = self.function.__globals__
        for name in self.function.__code__.co_names:
            if isinstance(loop := names.get(name), _Loop):
                names[name] = loop.machine_code
        try:
            return njit(nogil=True, cache=True, **self.options)(self.function)
        except RuntimeError:  # numba: "cannot cache function ..: no locator available for file"
            return njit(nogil=True, **self.options)(self.function)


def by_rows(work: Callable[[slice], SlicePart], rows: int) -> list[SlicePart]:
    """Return the results of `work` for as many slices of the rows as there are cores, each in its
    own thread."""
    workers = max(1, min(rows, cpu_count() or 1))
    bounds = np.linspace(0, rows, workers + 1).astype(int)
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, map(slice, bounds[:-1], bounds[1:])))
