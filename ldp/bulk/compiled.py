"""Compiled inner loops: by numba where it is installed, cached on the disk where possible, in
threads."""

import sys
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from os import cpu_count
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ldp.errors import MissingPackage

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

SlicePart = TypeVar("SlicePart")


FEW = 1 << 19
"""Additions below which starting a second thread takes longer."""
LARGE = 1 << 22
"""Numbers in the calls of a loop, in all, from which it says that numba is missing."""


def compiled(
    few: int = 0, plain: Callable[..., Any] | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function by `numba.njit`, with `options` and without the
    interpreter's lock, once numba is loaded, or its calls had more than `few` numbers in their
    largest arguments: numba takes half a second to import. Before, and always without numba, Python
    runs `plain`, or else the function itself, whose loops over `lanes` are numpy's. Results are the
    same, to the bit where no float is added.

    Compiled code goes to numba's cache: beside the module, in the user's cache folder, or in
    NUMBA_CACHE_DIR. Where none of them is writable (a read-only container without a home folder),
    every process compiles again, which takes seconds.
    """

    return lambda function: _Loop(function, few, plain or function, options)


def lanes(size: int) -> Iterable[Any]:
    """Return the numbers 0, ..., size - 1 in one array, so that what a loop does with a number
    numpy does with all of them. In machine code it is `range`."""
    return [np.arange(size)]


class _Loop:
    """A loop of Python that is compiled, with those that it calls, after `few` numbers."""

    def __init__(
        self,
        function: Callable[..., Any],
        few: int,
        plain: Callable[..., Any],
        options: dict[str, Any],
    ) -> None:
        self.function, self.options, self.__doc__ = function, options, function.__doc__
        self.few, self.plain = few, plain

    def __call__(self, *arguments: Any) -> Any:
        if self.few > 0:
            self.few -= _largest(arguments)
        is_early = self.few > 0 and "numba" not in sys.modules
        return (self._interpreted if is_early else self.machine_code)(*arguments)

    def _interpreted(self, *arguments: Any) -> Any:
        with np.errstate(over="ignore"):
            return self.plain(*arguments)

    def _without_numba(self, *arguments: Any) -> Any:
        self.few -= _largest(arguments)
        if self.few < -LARGE:
            self.few = 0
            missing = MissingPackage.of("a fast answer", "numba", "fast")
            warnings.warn(str(missing), stacklevel=2)
        return self._interpreted(*arguments)

    @cached_property
    def machine_code(self) -> Any:
        try:
            from numba import njit
        except ImportError:
            return self._without_numba
        names = {**self.function.__globals__, "lanes": range}
        for name in self.function.__code__.co_names:
            if isinstance(loop := names.get(name), _Loop):
                names[name] = loop.machine_code
        function = FunctionType(self.function.__code__, names, self.function.__name__)
        try:
            return njit(nogil=True, cache=True, **self.options)(function)
        except RuntimeError:
            # numba: "cannot cache function ..: no locator available for file"
            return njit(nogil=True, **self.options)(function)


def _largest(arguments: tuple[Any, ...]) -> int:
    return max([1, *(part.size for part in arguments if isinstance(part, np.ndarray))])


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


def by_rows(work: Callable[[slice], SlicePart], rows: int, size: int = FEW) -> list[SlicePart]:
    """Return the results of `work` for as many slices of the rows as there are cores, each in its
    own thread. `size`: additions in all rows; below FEW this thread does them, as one slice."""
    if size < FEW:
        return [work(slice(0, rows))]
    workers = max(1, min(rows, cpu_count() or 1))
    bounds = np.linspace(0, rows, workers + 1).astype(int)
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, map(slice, bounds[:-1], bounds[1:])))
