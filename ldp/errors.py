"""The errors of the package, each one clear line for a user; no message ever holds a raw value.

Each also subclasses the builtin that a caller would expect, so `except ValueError` works too.
"""


class LdpError(Exception):
    """Base of every error this package raises on purpose."""


class ParameterError(LdpError, ValueError):
    """A parameter, or a value handed to an encoder, is outside its range."""


class ReportError(LdpError, ValueError):
    """Report bytes, or a file of reports, are damaged or belong to another mechanism."""


class MergeError(LdpError, ValueError):
    """Two tables of different mechanisms cannot be added."""


class DecodeError(LdpError, ValueError):
    """A table file is damaged, or the table cannot answer what was asked."""


class RegistryError(LdpError, ValueError):
    """metrics.toml, or a file it names, is wrong."""


class MissingPackage(LdpError, ImportError):
    """An optional package is needed for this."""

    @classmethod
    def of(cls, what: str, package: object, extra: str) -> "MissingPackage":
        """Return the error of what needs a package that one of our extras brings."""
        return cls(
            f"{what} needs the package {package}: install ldp with the extra {extra}, in its "
            f"checkout with: pip install '.[{extra}]'"
        )


class BudgetExceeded(LdpError, RuntimeError):
    """A charge would pass one of the caps; nothing was charged."""
