"""Compiled inner loops: by numba, cached on the disk where possible, in threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from os import cpu_count
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

SlicePart = TypeVar("SlicePart")


def compiled(few: int = 0, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function by `numba.njit`, with `options` and without the
    interpreter's lock, once its calls had more than `few` numbers in their largest arguments.
    Before, Python runs it, because numba takes half a second to import. Results are the same, to
    the bit where no float is added.

    Compiled code goes to numba's cache: beside the module, in the user's cache folder, or in
    NUMBA_CACHE_DIR. Where none of them is writable (a read-only container without a home folder),
    every process compiles again, which takes seconds.
    """

    return lambda function: _Loop(function, few, options)


class _Loop:
    """A loop of Python that is compiled, with those that it calls, after `few` numbers."""

    def __init__(self, function: Callable[..., Any], few: int, options: dict[str, Any]) -> None:
        self.function, self.options, self.__doc__ = function, options, function.__doc__
        self.few = few

    def __call__(self, *arguments: Any) -> Any:
        if self.few > 0:
            self.few -= max(map(np.size, arguments))
        if self.few > 0:
            with np.errstate(over="ignore"):
                return self.function(*arguments)
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
        except RuntimeError:
            # numba: "cannot cache function ..: no locator available for file"
            return njit(nogil=True, **self.options)(self.function)


def blas_of_one_thread() -> Any:
    """Return a context in which products of matrices take one thread: several wait for each other
    where matrices are small, or many are multiplied at once."""
    return _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> "ThreadpoolController":
    # late: a thousandth of a second each time; scipy has a BLAS of its own
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def by_rows(work: Callable[[slice], SlicePart], rows: int) -> list[SlicePart]:
    """Return the results of `work` for as many slices of the rows as there are cores, each in its
    own thread."""
    workers = max(1, min(rows, cpu_count() or 1))
    bounds = np.linspace(0, rows, workers + 1).astype(int)
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, map(slice, bounds[:-1], bounds[1:])))
