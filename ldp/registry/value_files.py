"""Files of values: the categories or the dictionary of a metric, and candidates to decode."""

import re
from pathlib import Path

from ldp.data_files import ARROW, SHOWN, Reading, data_table, read_table, read_text
from ldp.errors import ParameterError, RegistryError

OF_REGISTRY = Reading(has_options=False)
_CELL = re.compile(r"""(['"]).*\1,?|.*[,;]|.*\t.*|\s.*|.*\s""")
"""Line of a table without a header, which would be a value with quotes, separators or blanks."""


def read_values(path: Path, reading: Reading = OF_REGISTRY) -> tuple[str, ...]:
    """Return the values of a candidates file: one a line, blank lines skipped; or the `value`
    column of a table, recognised by its name or first line. Raise RegistryError."""
    return tuple(value_lines(path, reading))


def value_lines(path: Path, reading: Reading = OF_REGISTRY) -> dict[str, int]:
    """Return the values of a candidates file with the line of each. Raise RegistryError."""
    lines = dict[str, int]()
    try:
        for line, value in _lines_of_values(path, reading):
            if value in lines:
                raise ParameterError(
                    f"{path}, line {line}: {value[:SHOWN]!r} is on line {lines[value]} too"
                )
            lines[value] = line
    except ParameterError as error:
        raise RegistryError(str(error)) from None
    if not lines:
        raise RegistryError(f"{path}: holds no values")
    return lines


def _lines_of_values(path: Path, reading: Reading) -> list[tuple[int, str]]:
    if path.suffix in ARROW:
        table = read_table(path, reading, ["value"])
    else:
        text = read_text(path, reading)
        lines = (text if "\n" in text else text.replace("\r", "\n")).split("\n")
        columns = re.split(r"[,;\t|]", next(filter(None, lines), ""))
        is_table = len(columns) > 1 and "value" in [
            column.strip(' \r"').lower() for column in columns
        ]
        if path.suffix != ".csv" and not is_table:
            texts = [text.removesuffix("\r") for text in lines]
            values = [(line, text) for line, text in enumerate(texts, 1) if text]
            if len(values) == 1 < len(values[0][1].splitlines()):
                what = "holds line ends of another system: end lines with newlines"
                raise ParameterError(f"{path}: {values[0][1][:SHOWN]!a} {what}")
            if len(values) > 1 and all(_CELL.fullmatch(text) for _, text in values):
                line, text = values[0]
                what = "is written as cells are: leave blanks out, or head a .csv with value"
                raise ParameterError(f"{path}, line {line}: {text[:SHOWN]!r} {what}")
            return values
        table = data_table(path, text, reading)
    rows = zip(table.rows, table.cells("value"), strict=True)
    return [(line, value) for (line, _), value in rows if value]
