"""Tables of data that people bring: CSV text as spreadsheets, statistics programs and databases of
several countries write it, Parquet and Arrow.

Nothing is guessed where two readings are possible: the header line determines the separator, the
cells of a column determine its decimal sign, and options determine what these leave open. In a
private file each line is a person: no line changes how others are read, no error tells of a line,
and cells that do not fit are read as empty.
"""

import codecs
import io
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from ldp.errors import ParameterError
from ldp.files import bytes_of, counted

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "|"}
BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""First bytes of text -> encoding. Those of UTF-32 begin as those of UTF-16."""
OTHERS = {
    b"PK\x03\x04": "a workbook or a zip file",
    b"\xd0\xcf\x11\xe0": "an old workbook",
    b"\x1f\x8b": "compressed by gzip",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"\xfd7zXZ": "compressed by xz",
    b"BZh91AY&SY": "compressed by bzip2",
    b"PAR1": "a Parquet file, whose name must end in .parquet",
    b"ARROW1": "an Arrow file, whose name must end in .arrow",
    b"$FL": "a file of SPSS",
    b"<stata": "a file of Stata",
    b"SQLite": "a database of SQLite",
    b"%PDF": "a PDF file",
    b"<html": "HTML",
    b"<!DOCTYPE": "HTML",
    b"<?xml": "XML",
}
"""First bytes of files that are no CSV -> what they are."""
NO_TEXT = "not {} text: name its encoding, as --encoding {}, or export it as CSV in UTF-8"
ARROW = {".parquet": "a Parquet", ".arrow": "an Arrow", ".feather": "an Arrow"}
ARROW_ERRORS = {
    "truncated|parse string|supported cast": "has files with other types of a column",
    "duplicate field": "has two columns of one name: rename one",
    "out of range|too large": "holds a date or time that Python has not: write it as text",
    "Nanosecond|lose data": "holds times with nanoseconds: round them to microseconds",
    "(?i)timezone|zoneinfo": "holds times of an unknown time zone",
}
"""Words of an error of pyarrow -> what is wrong."""
ERRORS = ArithmeticError, ImportError, LookupError, OSError, ValueError
KINDS = ("count", "frequency")
"""Names of the column that says how many people hold a value."""
COUNTS = r"n|num(ber)?|people|persons|users|total|share|freq(uency)?|(count|cnt)s?([ (_].*)?"
"""Pattern of the names that such a column has in tables of other programs."""
WORDS = (
    "count users people persons customers "
    "visitors devices sessions views "
    "pageviews hits visits clicks events "
    "installs downloads records responses "
    "households population percent pct % "
    "anzahl nombre effectif cantidad "
    "antal antall aantal 人数 件数"
)
"""Last words of its other names, beside a column of texts."""
SHOWN, MOST_NAMES = 40, 300
"""Number of letters of a value, and of the names of columns, that an error shows."""
_SIGNS = str.maketrans("\u2212\uff0d\u066b\uff0e\u066c\uff0c", "--..,,")
"""Minus, and the decimal and group marks of Arabic and of full width -> those of programs."""
_SPACES = " \u00a0\u2007\u2009\u202f"
_MARKS = {".": f",'\u2019{_SPACES}", ",": f".'\u2019{_SPACES}"}
_JSON = rb'[{[]\s*["{]'
_INFINITE = "(?ia) *[+-]?inf(inity)? *"
_SEPARATOR = r'(?i)"?sep=(.)"?[\r\n]*'
"""First line of a spreadsheet's file, which names the separator."""


class Reading(NamedTuple):
    """Way in which a file is written, where the file itself does not say. `is_private`: its lines
    are people, about whom only a release may tell anything. `takes_lists`: lists of texts, in
    Parquet and Arrow, are read with "|" between the texts. `has_options`: of a command."""

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    is_private: bool = False
    takes_lists: bool = False
    has_options: bool = True


AS_WRITTEN = Reading()


def place_of(path: Path, line: int) -> str:
    """Return the beginning of an error: a file and its line, or its row for Parquet and Arrow."""
    return f"{path}, {'row' if path.suffix in ARROW else 'line'} {line}"


class DataTable(NamedTuple):
    """Cells below a header: `rows` of (line of the file, as many cells as the header has)."""

    path: Path
    header: list[str]
    rows: list[tuple[int, list[str]]]
    delimiter: str
    reading: Reading
    typed: frozenset[str] = frozenset()
    """Columns that the file stores as numbers."""
    is_spaced: bool = False
    """True if blanks after a delimiter belong to no cell."""

    @property
    def names(self) -> str:
        """Names of the columns for an error, on one line; not those of a private file that may be
        the cells of a person."""
        is_doubtful = len(self.header) == 1 or any(map(number_forms, self.header))
        if self.reading.is_private and is_doubtful:
            return "a first line that may be a row"
        return repr(", ".join(self.header))[1:-1][:MOST_NAMES]

    def where(self, line: int) -> str:
        """Return the file and the line with which an error begins. The line is left out for a
        private file."""
        return f"{self.path}" if self.reading.is_private else place_of(self.path, line)

    def place(self, name: str) -> int:
        """Return the place of the column `name`. Raises ParameterError unless there is one."""
        if (times := self.header.count(name)) != 1:
            has = f"no column {name!r}, but {self.names}"
            has = f"{times} columns {name!r}: rename one" if times else has
            raise ParameterError(f"{self.path} has {has}")
        return self.header.index(name)

    def require_people(self, name: str) -> None:
        """Raise ParameterError where another column than `name` may count the people of each row:
        by the header, or, unless the file is private, because no row repeats another."""
        is_open = not self.reading.is_private
        are_texts = is_open and not all(map(number_forms, self.cells(name)))
        others = (head for head in self.header if head != name)
        counts = [head for head in others if _may_count(head, are_texts)]
        is_pair = [*map(str.lower, self.header)] in ([name.lower(), kind] for kind in KINDS)
        if counts and (is_pair or (is_open and self._may_hold(counts, name))):
            what = "may count people, and --column reads one a row: repeat rows, or rename it;"
            other = "`ldp compare --population` reads value,count"
            raise ParameterError(f"{self.path}: {counts[0]} {what} {other}")

    def _may_hold(self, counts: list[str], name: str) -> bool:
        """Return whether the columns `counts` hold numbers, and either the cells of `name` are all
        different, or the other columns have more than half of all combinations, each once."""
        rows = [cells for _, cells in self.rows]
        keys = [place for place, head in enumerate(self.header) if head not in counts]
        different = {tuple(row[place] for place in keys) for row in rows}
        possible = prod(len({row[place] for row in rows}) for place in keys)
        is_table = len(different) == len(rows) > max(1, possible / 2)
        numbers = (cell.rstrip("% ") for head in counts for cell in self.cells(head))
        is_list = len({*self.cells(name)}) == len(rows) > 1
        return (is_table or is_list) and all(map(number_forms, numbers))

    def cells(self, name: str) -> list[str]:
        """Return the cells of a column, as they are written."""
        place = self.place(name)
        return [cells[place] for _, cells in self.rows]

    def numbers(self, name: str) -> list[str]:
        """Return the cells of a column, numbers as programs write them and all others as they are.

        The decimal sign is that of `reading`. Without one it is the sign of all cells that can be
        read in one way only. Raise ParameterError, with line and value, for a cell that can be read
        in two ways, or in none with that decimal sign. Cells of a private file are read by the
        header and `reading` alone, and are empty where they do not fit. Without commas between them
        the decimal sign must be stated.
        """
        if name in self.typed:
            return self.cells(name)
        if self.reading.is_private:
            if self.delimiter != "," and not self.reading.decimal:
                raise ParameterError(
                    f"{self.path}: in a private file without commas between cells, "
                    "1.234 may be 1234: give --decimal . or --decimal ,"
                )
            return [*map(self._private_number, self.cells(name))]
        cells = self.cells(name)
        numbers = plain_numbers(
            cells,
            lambda cell: self.where(self.rows[cells.index(cell)][0]),
            "give --decimal . or --decimal ,",
            self.reading.decimal,
        )
        return [numbers[cell] for cell in cells]

    def _private_number(self, cell: str) -> str:
        """Return the number of a cell, "" for a text."""
        decimal = self.reading.decimal or "."
        return number_forms(cell).get(decimal, cell if re.fullmatch(_INFINITE, cell) else "")


def _may_count(head: str, are_texts: bool) -> bool:
    """Return whether a column may count people, by its name and whether others hold texts."""
    last = re.split("[ _]", head.lower())[-1]
    is_word = are_texts and last in WORDS.split()
    return is_word or bool(re.fullmatch(COUNTS, head, re.I))


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    """Return the pattern of a number by decimal sign: digits, or groups of three with one mark
    between them all, or India's groups of two before the last. 1,234e5 has a decimal comma: no
    program groups digits before an exponent. A client, which imports this module, does not compile
    them."""
    return {
        decimal: re.compile(
            rf"(?![+-]?[0-9]+[{marks}][0-9]+e)"
            rf"([+-]?)([1-9][0-9]{{0,2}}([{marks}])(?:[0-9]{{3}}\3)*[0-9]{{3}}|[0-9]*"
            rf"|[1-9][0-9]?(?:[{marks}](?<=,)[0-9]{{2}})+,[0-9]{{3}})"
            rf"(?:\{decimal}([0-9]*))?(e[+-]?[0-9]+)?",
            re.IGNORECASE | re.ASCII,
        )
        for decimal, marks in _MARKS.items()
    }


def number_forms(text: str) -> dict[str, str]:
    """Return the number that `text` is, as programs write it, by each decimal sign it may have.
    Digits may be of any script.

    >>> number_forms("-1,234.50"), number_forms("1 234"), number_forms("5%")
    ({'.': '-1234.50'}, {'.': '1234', ',': '1234'}, {})
    >>> number_forms("1,234")
    {'.': '1234', ',': '1.234'}
    """
    forms, text = {}, text.strip().translate(_SIGNS)
    if not text.isascii():
        text = "".join(str(int(sign)) if sign.isdecimal() else sign for sign in text)
    for sign, pattern in _patterns().items():
        match = pattern.fullmatch(text)
        if match and (match[2] or match[4]):
            fraction = f".{match[4]}" if match[4] else ""
            forms[sign] = f"{match[1]}{re.sub('[^0-9]', '', match[2])}{fraction}{match[5] or ''}"
    return forms


def plain_numbers(
    cells: Iterable[str], where: Callable[[str], str], advice: str, decimal: str | None = None
) -> dict[str, str]:
    """Return the cells of a column: numbers as programs write them, all others as they are.

    Without `decimal` the sign is that of all cells that can be read in one way only. Raise
    ParameterError, which says `where`, for a cell that can be read in two ways, with `advice`, or
    in none with that sign."""
    forms, numbers = {cell: number_forms(cell) for cell in dict.fromkeys(cells)}, dict[str, str]()
    signs = "".join({sign for form in forms.values() if len(form) == 1 for sign in form})
    for cell, form in forms.items():
        sign = decimal or signs
        if not decimal and len({*form.values()}) == 1:
            sign = min(form)
        if form and sign not in form:
            what = f"may be {' or '.join(form.values())}: {advice}"
            if decimal:
                what = f"is not a number with the decimal sign {decimal}"
            raise ParameterError(f"{where(cell)}: {cell[:SHOWN]!r} {what}")
        numbers[cell] = form.get(sign, cell)
    return numbers


def require_pairs(bounds: object) -> None:
    """Raise ParameterError for a tuple of two lists, which others read as (lows, highs)."""
    parts = bounds if isinstance(bounds, tuple) else ()
    # devices do not load numpy
    kinds = {"list": list, "ndarray": lambda part: part.tolist()}
    lists = [kinds[type(part).__name__](part) for part in parts if type(part).__name__ in kinds]
    if len(parts) == len(lists) == 2:
        zipped, listed = [*zip(*lists, strict=False)], [*map(tuple, lists)]
        raise ParameterError(
            f"bounds of two lists may be {zipped} or {listed}: write one list of pairs (low, high)"
        )


def read_table(
    path: str | Path, reading: Reading = AS_WRITTEN, names: Collection[str] = ()
) -> DataTable:
    """Return the table of a file of CSV text, Parquet or Arrow. "-" is standard input. `names`:
    columns to read from Parquet and Arrow, by default all. Raise ParameterError for any other file,
    with the line unless the file is private."""
    path = Path(path)
    if path.suffix in ARROW:
        return _read_arrow(path, reading, names)
    if reading.is_private:
        return _table(path, _private_lines(path, reading), reading)
    return data_table(path, read_text(path, reading), reading)


def data_table(path: Path, text: str, reading: Reading = AS_WRITTEN) -> DataTable:
    """Return the table of CSV text, of the file `path`. Raises as `read_table`."""
    return _table(path, [*io.StringIO(text, newline="")], reading)


def _table(path: Path, lines: list[str], reading: Reading) -> DataTable:
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    if first is None:
        raise ParameterError(f"{path} is empty")
    stated = re.fullmatch(_SEPARATOR, lines[first])
    wanted = reading.delimiter or (stated and stated[1])
    first += 1 if stated else 0
    of_header = lines[first : first + 1] if reading.is_private else lines[first:]
    headers = {sign: _header(of_header, sign) for sign in ([wanted] if wanted else DELIMITERS)}
    wide = [sign for sign, (header, _) in headers.items() if len(header) > 1]
    if len(wide) > 1:
        possible = " or ".join(DELIMITERS[sign] for sign in wide)
        raise ParameterError(
            f"{path}, line {first + 1}: the separator may be {possible}: give --delimiter"
        )
    delimiter = wanted or (wide[0] if wide else ",")
    header, length = headers[delimiter]
    is_spaced = _is_spaced(lines[first], delimiter)
    if not header:
        raise ParameterError(f"{path}, line {first + 1}: not a CSV file: a quote is misplaced")
    if reading.is_private and {"\ufffd", "\0"} & {*"".join(header)}:
        raise ParameterError(f"{path}: the header is {_no_text(reading.encoding or 'utf-8')}")
    while len(header) > 1 and not header[-1]:
        header.pop()
    table = DataTable(path, header, [], delimiter, reading, is_spaced=is_spaced)
    read = _private_rows if reading.is_private else _rows
    table.rows.extend(read(table, lines, first + length))
    if len(header) == 1 and not wanted and table.rows and not reading.is_private:
        for sign in [sign for sign in DELIMITERS if all(sign in row[0] for _, row in table.rows)]:
            line, (cell,) = table.rows[0]
            raise ParameterError(
                f"{table.where(line)}: {cell[:SHOWN]!r} may be several cells, {DELIMITERS[sign]} "
                "between, but the header has one: give --delimiter"
            )
    return table


def _is_spaced(line: str, delimiter: str) -> bool:
    """Return whether a header line has a blank after each delimiter."""
    after = [*filter(None, line.strip(" \r\n").split(delimiter)[1:])]
    return bool(after) and all(text.startswith(" ") for text in after)


def _header(lines: list[str], delimiter: str) -> tuple[list[str], int]:
    """Return the names of columns and the number of lines that they stand on. There are no names
    where `delimiter` leaves a quote misplaced."""
    # late: devices read no tables
    import csv

    is_spaced = bool(lines) and _is_spaced(lines[0], delimiter)
    rows = csv.reader(lines, delimiter=delimiter, skipinitialspace=is_spaced, strict=True)
    try:
        return [cell.strip() for cell in _contents(next(rows))], rows.line_num
    except csv.Error:
        return [], 1


def _rows(table: DataTable, lines: list[str], start: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows from line `start` on, without blank ones. Raises ParameterError for a line
    that does not fit."""
    width = len(table.header)
    rows = numbered_rows(lines[start:], table.where, start, table.delimiter, table.is_spaced)
    for line, cells in rows:
        text = "".join(cells)
        if not text.strip() and (width > 1 or not cells):
            continue
        if len(cells) < width or any(cells[width:]):
            raise ParameterError(
                f"{table.where(line)}: {counted(width, 'cell was', 'cells were')} expected, not "
                f"{len(cells)}: the header is {table.delimiter.join(table.header)!r:.60}, the row "
                f"{table.delimiter.join(cells)!r:.60}"
            )
        if '"' in text and any(re.match(r' \s*"', cell) for cell in cells):
            raise ParameterError(f"{table.where(line)}: a blank stands before a quote")
        cells = _contents(cells[:width])
        if (width > 1 or line == start + 1) and _is_heading(cells, table.header):
            what = f"{table.delimiter.join(cells)!r:.60} is a heading among rows: keep the first"
            what += ", or write one above" if cells == table.header else ""
            raise ParameterError(f"{table.where(line)}: {what}")
        yield line, cells


def numbered_rows(
    lines: Iterable[str],
    where: Callable[[int], str],
    start: int,
    delimiter: str,
    is_spaced: bool = False,
    strict: bool = True,
) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row of CSV text, with the number of its first line after `start`.
    Raise ParameterError, with `where` the line is, for other text. A misplaced quote is other text
    if `strict`. Blanks after delimiters are left out if `is_spaced`."""
    # late: devices read no tables
    import csv

    rows = csv.reader(lines, delimiter=delimiter, skipinitialspace=is_spaced, strict=strict)
    line = start + 1
    try:
        for cells in rows:
            yield line, cells
            line = start + rows.line_num + 1
    except csv.Error as error:
        raise ParameterError(f"{where(line)}: not a CSV file: {error}") from None


def _is_heading(cells: list[str], header: list[str]) -> bool:
    """Return whether cells are the header again, a rule of dashes below it, or the names by which
    Qualtrics imports columns."""
    text = "".join(cells)
    is_rule = "---" in text and not text.strip("-=+:| ")
    is_again = cells[0].strip() == header[0] and [*map(str.strip, cells)] == header
    return is_rule or is_again or text.startswith('{"ImportId":')


def _contents(cells: list[str]) -> list[str]:
    """Return the cells without the formula ="..", in which spreadsheets keep a text as it is."""
    return [cell[2:-1] if cell.startswith('="') and cell.endswith('"') else cell for cell in cells]


def _private_rows(
    table: DataTable, lines: list[str], start: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield a row for every line from line `start` on, blank ones too, since the number of rows is
    public: empty cells for a line that does not fit."""
    width = len(table.header)
    for line, text in enumerate(lines[start:], start + 1):
        try:
            rows = numbered_rows([text], table.where, 0, table.delimiter, table.is_spaced)
            ((_, cells),) = rows
        except ValueError:
            cells = []
        is_right = len(cells) >= width and not any(cells[width:])
        yield line, _contents(cells[:width]) if is_right else [""] * width


def _private_lines(path: Path, reading: Reading) -> list[str]:
    """Return the lines of a file, each decoded by itself, so that no byte of one changes another.
    Lines end as the header does."""
    data, encoding = _read_bytes(path, reading)
    if b"\n".decode(encoding, "replace") != "\n":
        raise ParameterError(
            f"{path}: in {encoding.upper()} a row could change how others are read: export it as "
            "UTF-8"
        )
    ending = re.search(b"\r\n|\n|\r", data)
    rows = data.split(b"\r" if ending and ending[0] == b"\r" else b"\n")
    rows = rows if rows[-1] else rows[:-1]
    lines = []
    for row in rows:
        try:
            lines.append(row.removesuffix(b"\r").decode(encoding, "replace").lstrip("\ufeff"))
        except UnicodeError:
            # of encodings that know no replacement
            lines.append("\ufffd")
    return lines


def _read_bytes(path: str | Path, reading: Reading) -> tuple[bytes, str]:
    """Return the bytes of a file, or for "-" of standard input, and their encoding. Raises
    ParameterError for one that cannot be read, and for one that is no text."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else bytes_of(Path(path))
    except IsADirectoryError:
        what = "a folder, read if its name ends in .parquet"
        raise ParameterError(f"{path} is {what}") from None
    except OSError as error:
        raise ParameterError(f"cannot read {path}: {error.strerror}") from None
    except AttributeError:  # sys.stdin is None
        raise ParameterError("cannot read -: it is closed") from None
    start = data[:999].lstrip(codecs.BOM_UTF8 + b" \t\r\n")
    known = [what for beginning, what in OTHERS.items() if start.startswith(beginning)]
    if known or re.match(_JSON, start):
        raise ParameterError(f"{path} is {(known or ['JSON'])[0]}: a CSV file was expected")
    marked = next((encoding for mark, encoding in BOMS.items() if data.startswith(mark)), "utf-8")
    return data, _encoding(reading, marked)


def _encoding(reading: Reading, default: str) -> str:
    """Return the encoding that is stated, or a default. Raises ParameterError where it decodes no
    text."""
    encoding = reading.encoding or default
    try:
        b"\n".decode(encoding, "replace")
    except (LookupError, UnicodeError):
        raise ParameterError(f"--encoding {encoding} is not an encoding of text") from None
    return encoding


def read_text(path: str | Path, reading: Reading = AS_WRITTEN) -> str:
    """Return the text of a file, or of standard input for "-". Its encoding is `reading.encoding`;
    without one UTF-8, or UTF-16 or UTF-32 if the file begins with their mark. Raise ParameterError
    for bytes that are no text, with their line."""
    data, encoding = _read_bytes(path, reading)
    try:
        text = data.decode(encoding).lstrip("\ufeff").replace("\n\ufeff", "\n")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode(encoding, "replace")
        line = len(before.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
        wrong = (
            f"byte {error.start} (0x{data[error.start]:02x}) is {_no_text(encoding, data, reading)}"
        )
        raise ParameterError(f"{path}, line {line}: {wrong}") from None
    except UnicodeError:
        raise ParameterError(f"{path} is {_no_text(encoding, data, reading)}") from None
    before, zero, _ = text.partition("\0")
    if zero:
        line, place = before.count("\n") + 1, len(before.encode(encoding))
        where = f"{path}, line {line}: byte {place} is 0"
        is_alone = 10 * data.count(0) < len(data)
        advice = "leave it out" if is_alone else _no_text("utf-8", data, reading)
        raise ParameterError(f"{where}: {advice}")
    return text


def _no_text(encoding: str, data: bytes = b"", reading: Reading = AS_WRITTEN) -> str:
    """Return what is wrong with bytes that are not of `encoding`, and another for the file."""
    if not reading.has_options:
        return f"not {encoding.upper()} text: save it in UTF-8"
    some = "cp1252" if encoding == "utf-8" else "cp850 or shift_jis"
    some = "utf-16-le" if 10 * data.count(0) > len(data) else some
    return NO_TEXT.format(encoding.upper(), some)


def _decoded(
    path: Path, name: str, cells: Iterable[bytes | None], encoding: str, is_private: bool
) -> list[str]:
    """Return the texts of a column of bytes, as some programs write texts. Raise ParameterError,
    with the row, for bytes that are no text unless the file is private."""
    texts, errors = list[str](), "replace" if is_private else "strict"
    for row, cell in enumerate(cells, 1):
        try:
            texts.append((cell or b"").decode(encoding, errors))
        except UnicodeError:
            wrong = f"the column {name!r} holds bytes that are {_no_text(encoding)}"
            raise ParameterError(f"{path}, row {row}: {wrong}") from None
    return texts


def _joined(texts: Iterable[str | None] | None, where: str, reading: Reading) -> str:
    """Return the texts of a list with "|" between them. Raises ParameterError where one holds
    it, which is no answer in a private file."""
    some = [text for text in texts or () if text]
    if any("|" in text for text in some) and not reading.is_private:
        raise ParameterError(f"{where}: an answer holds |, which stands between answers")
    return "|".join(text.replace("|", "\0") for text in some)


def _read_arrow(path: Path, reading: Reading, names: Collection[str]) -> DataTable:
    # late: tables of text need no such package
    import pyarrow
    from pyarrow import dataset
    from pyarrow import types as kinds

    def is_number(kind: Any) -> bool:
        return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))

    columns, typed = list[list[str]](), set[str]()
    try:
        source = dataset.dataset(path, format=path.suffix[1:].replace("arrow", "feather"))
        header = source.schema.names
        if not header:
            raise ParameterError(f"{path} has no columns")
        if not {*names} <= {*header}:
            return DataTable(path, header, [], "", reading)
        for part in source.get_fragments():
            known = part.physical_schema.names
            for name in [name for name in names or header if name not in known][:1]:
                raise ParameterError(f"{part.path} has no column {name!r}, unlike other files")
        # what may count people too
        if names and not reading.is_private:
            counts = (some for some in source.schema if _may_count(some.name, True))
            names = {*names, *(some.name for some in counts if is_number(some.type))}
        header = [name for name in header if not names or name in names]
        for name, column in zip(header, source.to_table(columns=header).columns, strict=True):
            text = str(column.type)
            if reading.takes_lists and re.fullmatch(r"(large_)?list<\w+: (large_)?string>", text):
                lists = enumerate(column.to_pylist(), 1)
                texts = [_joined(of, place_of(path, row), reading) for row, of in lists]
                column = pyarrow.chunked_array([texts], pyarrow.string())
                text = str(column.type)
            if kinds.is_nested(column.type) or kinds.is_duration(column.type):
                raise ParameterError(f"{path}: {name!r} holds {text}, no texts and no numbers")
            if kinds.is_dictionary(column.type):
                column = column.cast(column.type.value_type, safe=False)
            # else read by pandas if it is there
            zone = getattr(column.type, "tz", None)
            if str(column.type).startswith("timestamp[ns"):
                column = column.cast(pyarrow.timestamp("us", zone), safe=not reading.is_private)
            if column.type == pyarrow.time64("ns"):
                column = column.cast(pyarrow.time64("us"), safe=not reading.is_private)
            if is_number(column.type):
                typed.add(name)
            elif "binary" in text or (reading.is_private and not kinds.is_boolean(column.type)):
                encoding = _encoding(reading, "utf-8")
                # as bytes: times that Python has not, texts that are none
                if "binary" not in text:
                    column = column.cast(pyarrow.string(), safe=False).cast(pyarrow.binary())
                    encoding = "utf-8"
                cells = column.to_pylist()
                columns.append(_decoded(path, name, cells, encoding, reading.is_private))
                continue
            is_short = column.type in (pyarrow.float16(), pyarrow.float32())
            # as doubles they have other digits
            cells = column.to_numpy() if is_short else column.to_pylist()
            if name in typed:
                # no -0.0
                cells = [None if cell is None else cell or abs(cell) for cell in cells]
            columns.append(["" if cell is None or cell != cell else str(cell) for cell in cells])
    except FileNotFoundError:
        raise ParameterError(f"cannot read {path}: No such file or directory") from None
    except ParameterError:
        raise
    except (pyarrow.ArrowException, *ERRORS) as error:
        known = [what for words, what in ARROW_ERRORS.items() if re.search(words, repr(error))]
        what = known[0] if known else f"is not {ARROW[path.suffix]} file of one table"
        raise ParameterError(f"{path} {what}") from None
    rows = [(line, [*cells]) for line, cells in enumerate(zip(*columns, strict=True), 1)]
    return DataTable(path, header, rows, "", reading, frozenset(typed))
