"""What a person can hold."""

from typing import Any

Value = str | bytes | int | float | tuple[Any, ...]
"""Text or bytes; where a mechanism says so a number, or a tuple."""
