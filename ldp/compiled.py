"""Compilation of the inner loops by numba, kept on the disk where there is a place for it."""

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: `numba.njit` without the interpreter's lock, and with `options`.

    What is compiled is kept in numba's cache: beside the module, in the user's cache folder, or in
    NUMBA_CACHE_DIR. Where none of them is writable (a read-only container without a home), it is
    compiled again in every process, which takes seconds.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # numba: "cannot cache function ..: no locator available for file"
            return njit(nogil=True, **options)(function)

    return decorate
