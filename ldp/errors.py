"""Errors of the package: one clear line for a user, never with a raw value.

Each also subclasses the builtin that a caller would expect. So `except ValueError` works too.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any, TypeGuard, TypeVar

T = TypeVar("T")


class LdpError(Exception):
    """Base of all errors that this package raises deliberately."""


class ParameterError(LdpError, ValueError):
    """Error of a parameter, or of a value passed to an encoder, that is outside its range."""


class ReportError(LdpError, ValueError):
    """Error of report bytes or a file of reports: damaged, or of another mechanism."""


class MergeError(LdpError, ValueError):
    """Error of adding two tables of different mechanisms."""


class DecodeError(LdpError, ValueError):
    """Error of a damaged table file, or of a query that a table cannot answer."""


class RegistryError(LdpError, ValueError):
    """Error of metrics.toml, or of a file it names."""


class MissingPackage(LdpError, ImportError):
    """Error of an optional package that is not installed."""

    @classmethod
    def of(cls, feature: str, package: str | None, extra: str) -> "MissingPackage":
        """Return the error that `feature` needs `package`, which our `extra` installs, or which
        Windows lacks."""
        if package in ("fcntl", "resource"):
            return cls(f"{feature} needs Linux or macOS", name=package)
        return cls(
            f"{feature} needs the package {package}: install ldp with the extra {extra}, in its "
            f"checkout with: pip install '.[{extra}]'",
            name=package,
        )


@contextmanager
def from_extra(feature: str, extra: str) -> Iterator[None]:
    """Raise MissingPackage where an import in the block fails for want of a package that `feature`
    needs and our `extra` installs."""
    try:
        yield
    except (ModuleNotFoundError, MissingPackage) as error:
        if error.name is None or error.name.split(".")[0] == "ldp":
            raise
        raise MissingPackage.of(feature, error.name, extra) from None


class errors_in:
    """Raise errors of the block as `error`, each line after the `place` unless that is ""."""

    # a class, because a device opens a registry, and a generator takes longer
    def __init__(self, place: object, error: type[LdpError] = ParameterError) -> None:
        self._place, self._error = place, error

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, reason: object, __: object) -> None:
        if isinstance(reason, LdpError):
            place = f"{self._place}: " if self._place else ""
            lines = (place + line for line in str(reason).splitlines())
            raise self._error("\n".join(lines)) from None


class BudgetExceeded(LdpError, RuntimeError):
    """Error of a charge that would pass one of the caps. Nothing was charged."""


class Unreachable(LdpError, OSError):
    """Error of a destination that did not take the batch. The same bytes are sent again later, not
    before `retry_after` seconds. `status`: HTTP status of the answer, 0 without one."""

    def __init__(self, message: str, retry_after: float = 0.0, status: int = 0) -> None:
        super().__init__(message)
        self.retry_after, self.status = retry_after, status


def is_real(value: object) -> TypeGuard[float]:
    """Return whether a value is of a type of real numbers, no bool, no Decimal and no time, which
    numpy calls a whole number."""
    is_other = isinstance(value, bool) or type(value).__name__ == "timedelta64"
    return isinstance(value, Real) and not is_other


def require_number(number: Any, name: str, where: str = "") -> None:
    """Raise ParameterError, with `name` and `where` it lies, unless `is_real` holds for it."""
    if not is_real(number):
        rule = f"{name} must be a float or fraction{where}"
        raise ParameterError(f"{rule}, got {number!r}")


def require_positive(number: Any, name: str) -> None:
    """Raise ParameterError, with `name`, unless the number is finite and above 0."""
    require_number(number, name)
    if not 0 < number < float("inf"):
        raise ParameterError(f"{name} must be finite and > 0, got {number!r}")


def require_share(share: Any, name: str) -> float:
    """Return `share` as a float. Raises ParameterError, with `name`, unless it is a number between
    0 and 1, and neither."""
    require_number(share, name, " strictly between 0 and 1")
    if not 0 < share < 1:
        raise ParameterError(f"{name} must lie strictly between 0 and 1")
    return float(share)


def require_shares(shares: Any, name: str) -> tuple[float, ...]:
    """Return one share or several as floats; raise as `require_share`."""
    try:
        several = [*shares]
    except TypeError:  # one
        several = [shares]
    return tuple(require_share(share, name) for share in several)


def require_probability(number: Any, name: str) -> float:
    """Return the `number` as a float. Raises ParameterError, with `name`, unless it is from 0 to
    1."""
    if not (is_real(number) and 0 <= number <= 1):
        raise ParameterError(f"{name} must be a number from 0 to 1")
    return float(number)


def require_one_of(value: Any, texts: Collection[str], name: str) -> None:
    """Raise ParameterError, with `name`, unless the value is one of the `texts`."""
    if not isinstance(value, str) or value not in texts:
        raise ParameterError(f"{name} must be one of {', '.join(texts)}")


def require_kind(value: Any, kind: type[T], name: str) -> T:
    """Return the value. Raises ParameterError, with `name`, unless it is of this class."""
    if not isinstance(value, kind):
        raise ParameterError(f"{name} must be {kind.__name__}, got {type(value).__name__}")
    return value
