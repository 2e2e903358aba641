"""One reader reads the tables that people bring.

Tested are layouts of other makers, what is refused, private files, and odd tables by seed, which an
independent writer makes.
"""

import json
from itertools import product
from pathlib import Path

import pytest

from ldp.data_files import DataTable, Reading, number_forms, read_table, read_text
from ldp.errors import ParameterError, RegistryError
from ldp.registry.value_files import read_values
from ldp.simulation import Population
from tests.command_line import run
from tests.odd_tables import Odd, odd_table
from tests.tiers import tiered

PRIVATE = Reading(is_private=True)

LAYOUTS: dict[str, bytes] = {
    "spreadsheet, United States": b'City,Amount\r\nOslo,"1,234.50"\r\nBergen,"12,000.00"\r\n',
    "spreadsheet, Germany": "\ufeffCity;Amount\r\nOslo;1.234,50\r\nBergen;12.000,00\r\n".encode(),
    "spreadsheet, France": "City;Amount\r\nOslo;1\u202f234,50\r\nBergen;12\u202f000\r\n".encode(),
    "spreadsheet, Sweden": "City;Amount\r\nOslo;1\u00a0234,5\r\nBergen;12\u00a0000\r\n".encode(),
    "spreadsheet, Switzerland": "City;Amount\nOslo;1’234.50\nBergen;12’000.00\n".encode(),
    "spreadsheet, Egypt": "City;Amount\r\nOslo;١٬٢٣٤٫٥٠\r\nBergen;١٢٬٠٠٠٫٠\r\n".encode(),
    "spreadsheet that names its separator": b"sep=;\nCity;Amount\nOslo;1234,5\nBergen;12000\n",
    "spreadsheet's Unicode text": "City\tAmount\r\nOslo\t1.234,50\r\nBergen\t12.000,0\r\n".encode(
        "utf-16"
    ),
    "spreadsheet with empty columns": b"City,Amount,,\nOslo,1234.5,,\n,,,\nBergen,12000,,\n",
    "spreadsheets, joined": "\ufeff\ufeffCity,Amount\nOslo,1234.5\n\ufeffBergen,12000\n".encode(),
    "spreadsheet of an old Mac": b"City,Amount\rOslo,1234.5\rBergen,12000\r",
    "spreadsheet, texts kept": b'City,="Amount"\n="Oslo",="1234.5"\n"=""Bergen""",="12000"\n',
    "statistics office": "City;Amount\nOslo;\u22121 234,50\nBergen;12 000,00\n".encode(),
    "R, write.csv": b'"City","Amount"\n"Oslo",1234.5\n"Bergen",12000\n',
    "R, write.csv2": b'"City";"Amount"\n"Oslo";1234,5\n"Bergen";12000\n',
    "R, row names": b'"","City","Amount"\n"1","Oslo",1234.5\n"2","Bergen",12000\n',
    "pandas": b",City,Amount\n0,Oslo,1234.5\n1,Bergen,12000.0\n",
    "Stata, delimited": b"City\tAmount\nOslo\t1234.5\nBergen\t12000\n",
    "SPSS, comma": b"City;Amount\nOslo;1234,50\nBergen;12000,00\n",
    "SAS, blanks": b"City, Amount\nOslo, 1234.50\nBergen, 12000.00\n",
    "PostgreSQL, COPY": b"City|Amount\nOslo|1234.5\nBergen|12000\n",
    "BigQuery, quoted line": b'Note,City,Amount\n"two\nlines",Oslo,1234.5\nx,Bergen,1.2e4\n',
    "Snowflake, all quoted": b'"City","Amount"\n"Oslo","1234.500"\n"Bergen","12000.000"\n',
    "telemetry export": b"Amount\tCity\tsent\n1234.5\tOslo\t2026-01-01T00:00Z\n12000\tBergen\t\n",
}
"""Files of our own, as other programs write them."""


def written(folder: Path, data: bytes | str, name: str = "data.csv") -> Path:
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder / name


@pytest.mark.exact
@pytest.mark.parametrize("maker", LAYOUTS)
def test_a_layout_of_another_maker_is_read(maker: str, tmp_path: Path) -> None:
    table = read_table(written(tmp_path, LAYOUTS[maker]))
    assert [cell.strip() for cell in table.cells("City")] == ["Oslo", "Bergen"]
    sign = -1 if maker == "statistics office" else 1
    assert [*map(float, table.numbers("Amount"))] == [sign * 1234.5, 12000]


def refuse(value: object) -> None:
    raise ParameterError("...")


@pytest.mark.exact
@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather"])
def test_arrow_and_parquet_are_read_as_text_is(suffix: str, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    columns = {"City": ["Oslo", None], "Amount": [1.234, 1e-7], "n": [[1], [2]], "b": [True, None]}
    table = pyarrow.table(columns)
    path = tmp_path / f"data{suffix}"
    (parquet.write_table if suffix == ".parquet" else feather.write_feather)(table, path)
    read = read_table(path, names=["Amount", "City"])
    assert read.cells("City") == ["Oslo", ""]
    for decimal in (None, ".", ","):
        read = read_table(path, Reading(decimal=decimal), ["Amount"])
        assert [*map(float, read.numbers("Amount"))] == [1.234, 1e-7]
    for reading in (Reading(), PRIVATE):
        assert read_table(path, reading, ["b"]).cells("b") == ["True", ""]
    assert read_table(path, PRIVATE._replace(decimal="."), ["b"]).numbers("b") == ["", ""]
    with pytest.raises(ParameterError, match="may be 1234: give --decimal"):
        read_table(path, PRIVATE, ["City"]).numbers("City")
    short = pyarrow.array([0.1, None, float("nan"), 1e10], pyarrow.float32())
    for column in (short, short.dictionary_encode()):
        narrow = pyarrow.table({"n": column})
        (parquet.write_table if suffix == ".parquet" else feather.write_feather)(narrow, path)
        assert read_table(path).cells("n") == ["0.1", "", "", "1e+10"]
    (parquet.write_table if suffix == ".parquet" else feather.write_feather)(table, path)
    with pytest.raises(ParameterError, match="'n' holds list"):
        read_table(path)
    with pytest.raises(ParameterError, match="has no column 'x', but City, Amount, n, b"):
        read_table(path, names=["x"]).place("x")
    with pytest.raises(ParameterError, match=r"row 1: '1.234': \.\.\."):
        Population.from_csv(path, column="Amount").require(refuse)
    twice = pyarrow.table([pyarrow.array(["Oslo"])] * 2, names=["City", "City"])
    (parquet.write_table if suffix == ".parquet" else feather.write_feather)(twice, path)
    with pytest.raises(ParameterError, match="has two columns of one name: rename one"):
        read_table(path, names=["City"])
    times = pyarrow.table({"at": pyarrow.array([1], pyarrow.timestamp("ns"))})
    (parquet.write_table if suffix == ".parquet" else feather.write_feather)(times, path)
    with pytest.raises(ParameterError, match="holds times with nanoseconds: round them"):
        read_table(path)
    assert read_table(path, PRIVATE).cells("at") == ["1970-01-01 00:00:00.000000"], "of a person"
    spans = pyarrow.table({"for": pyarrow.array([5], pyarrow.duration("ms"))})
    (parquet.write_table if suffix == ".parquet" else feather.write_feather)(spans, path)
    for reading in (Reading(), PRIVATE):  # of which unit would the number be?
        with pytest.raises(ParameterError, match="'for' holds duration"):
            read_table(path, reading)
    days = pyarrow.table({"on": pyarrow.array([10**9], pyarrow.timestamp("ns"))})
    (parquet.write_table if suffix == ".parquet" else feather.write_feather)(days, path)
    assert read_table(path).cells("on") == ["1970-01-01 00:00:01"]
    days = pyarrow.table({"on": pyarrow.array([-800_000], pyarrow.int32()).cast("date32")})
    (parquet.write_table if suffix == ".parquet" else feather.write_feather)(days, path)
    with pytest.raises(ParameterError, match="holds a date or time that Python has not"):
        read_table(path)
    for reading in (Reading(), PRIVATE):
        empty = pyarrow.table({})
        (parquet.write_table if suffix == ".parquet" else feather.write_feather)(empty, path)
        with pytest.raises(ParameterError, match=r"data\.\w+ has no columns$"):
            Population.from_csv(path, reading)
    (parquet.write_table if suffix == ".parquet" else feather.write_feather)(days, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-60] + bytes([255] * 48) + whole[-12:])
    with pytest.raises(
        ParameterError, match=f"{path} is not an? (Parquet|Arrow) file of one table"
    ):
        read_table(path)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("text", "forms"),
    [
        *(("1234", "1234 1234"), ("+1", "+1 +1"), (" 7 ", "7 7"), ("-.5", "-.5 -"), ("5.", "5 -")),
        *(("1,234", "1234 1.234"), ("1.234", "1.234 1234"), ("12,345,678", "12345678 -")),
        *(("0,123", "- 0.123"), ("0.123", "0.123 -"), ("1234,567", "- 1234.567"), ("1,5", "- 1.5")),
        *(("1 234", "1234 1234"), ("1'234,5", "- 1234.5"), ("1,234.5", "1234.5 -")),
        *(("1,234e5", "- 1.234e5"), ("-1.234E-05", "-1.234E-05 -"), ("1 234e5", "- -")),
        *(("1.234.567,5e-3", "- 1234567.5e-3"), ("1,234 567", "- -"), ("12.34.567", "- -")),
        *(("12,34,567", "1234567 -"), ("1,00,000.5", "100000.5 -"), ("-9,99,999", "-999999 -")),
        *(("123,45,678", "- -"), ("1,00,00", "- -"), ("10.10.10.123", "- -"), ("0,10,000", "- -")),
        *(("\u0663\u0664", "34 34"), ("\u06f1\u066c\u06f2\u06f3\u06f4\u066b\u06f5", "1234.5 -")),
        *(
            ("5%", "- -"),
            ("$5", "- -"),
            ("", "- -"),
            (".", "- -"),
            ("nan", "- -"),
            ("1_000", "- -"),
        ),
        *(("\uff0d\uff11\uff0e\uff15", "-1.5 -"), ("\u00bd", "- -"), ("\u00b2", "- -")),
        *(("(5)", "- -"), ("5-", "- -"), ("1e", "- -"), ("1 2", "- -")),
    ],
)
def test_a_number_is_read_by_its_decimal_sign(text: str, forms: str) -> None:
    assert [number_forms(text).get(sign, "-") for sign in ".,"] == forms.split()


@pytest.mark.exact
@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ('x,y\n"1,234.50",1\n"1,234",1\n', "1234.50 1234"),
        ('x,y\n"1,5",1\n"1,234",1\n', "1.5 1.234"),
        ("x;y\n1,5;1\n1.234;1\n", "1.5 1234"),
        ("x;y\n1.5;1\n1.234;1\n", "1.5 1.234"),
        ("x,y\n1.234,1\n0.5,1\n", "1.234 0.5"),
        ("x,y\n1.234,1\n", "line 2: '1.234' may be 1.234 or 1234: give --decimal"),
        ('x,y\n1.5,1\n"1,234",1\n', "1.5 1234"),
        ('x,y\n1,1\n"1,234",1\n', "line 3: '1,234' may be 1234 or 1.234: give --decimal"),
        ("x;y\n1.234;1\n", "line 2: '1.234' may be 1.234 or 1234: give --decimal"),
        ('x,y\n1.5,1\n"1,5",1\n\n"1,234",1\n', "line 5: '1,234' may be"),
    ],
)
def test_cells_that_can_be_read_in_two_ways_are_told_by_the_others(
    text: str, numbers: str, tmp_path: Path
) -> None:
    table = read_table(written(tmp_path, text))
    if numbers.startswith("line"):
        with pytest.raises(ParameterError, match=numbers):
            table.numbers("x")
    else:
        assert table.numbers("x") == numbers.split()


@pytest.mark.exact
@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a,b;c\n1,2;3\n", "line 1: the separator may be comma or semicolon: give --delimiter"),
        ("a\tb|c\n", "line 1: the separator may be tab or |: give --delimiter"),
        ("a\n1,2\n", "line 2: 1 cell was expected, not 2: the header is 'a'"),
        ("a,b\n1,2\n3\n", "line 3: 2 cells were expected, not 1: the header is 'a,b'"),
        ('a,b\n"1\n2",3\n4,5,6\n', "line 4: 2 cells were expected, not 3"),
        ('a,b\n1,2\n3,"4\n5,6\n', "line 3: not a CSV file: unexpected end of data"),
        ('a,b\n"1"2,3\n', "line 2: not a CSV file: ',' expected after '\"'"),
        ('a,b\n1, "2"\n', "line 2: a blank stands before a quote"),
        ('"a,b\n1,2\n', "line 1: not a CSV file: a quote is misplaced"),
        ("a\nOslo;6\nBergen;2\n", "line 2: 'Oslo;6' may be several cells, semicolon between"),
        ("\n\n", "data.csv is empty"),
        ("a,b\r\n1,M\u00e5l\r\n".encode("cp1252"), "line 2: byte 8 (0xe5) is not UTF-8 text: name"),
        ("a,b\n1,2\n".encode("utf-16-le"), "byte 1 is 0: not UTF-8 text: name its encoding"),
        ("a,b\n1,2\n a,b\n", "line 3: ' a,b' is a heading among rows: keep the first"),
        ("| a | b |\n|---|:-:|\n| 1 | 2 |\n", "line 2: '|---|:-:' is a heading among rows"),
        ("a\n-----\nx\n", "line 2: '-----' is a heading among rows"),
        ("a\na\nx\n", "line 2: 'a' is a heading among rows"),
        ("a\na\nx\n", "keep the first, or write one above"),
        ("a,b\n1,2\n3,\0" + "4" * 20, "line 3: byte 10 is 0: leave it out"),
        (
            "a,M\u00e5l\n".encode("utf-16-le"),
            "line 1: byte 6 (0xe5) is not UTF-8 text: name its en",
        ),
        ("a,M\u00e5l\n".encode("utf-16-le"), "as --encoding utf-16-le, or"),
        ('q,r\nWhich?,How?\n"{""ImportId"":""Q1""}",x\n', 'line 3: \'{"ImportId":"Q1"},x\' is a h'),
        (
            "a,b\n1,2\nTotal\n",
            "line 3: 2 cells were expected, not 1: the header is 'a,b', the row 'To",
        ),
        (b'\xef\xbb\xbf\n{"x": 1}\n', "data.csv is JSON: a CSV file was expected"),
        (b"\xef\xbb\xbf<?xml version", "data.csv is XML: a CSV"),
        (
            b"\x72\x02\x01\0rest",
            "byte 3 is 0: not UTF-8 text: name its encoding, as --encoding utf-16-",
        ),
        (b"PK\x03\x04rest", "data.csv is a workbook or a zip file"),
        (b"\x28\xb5\x2f\xfdrest", "data.csv is compressed by zstd"),
        (b'{"x": 1}\n{"x": 2}\n', "data.csv is JSON: a CSV file was expected"),
        (b'[\n  {"x": 1},\n  {"x": 2}\n]', "data.csv is JSON: a CSV file was expected"),
        (b"<!DOCTYPE html><html>", "data.csv is HTML: a CSV"),
        (b"SQLite format 3\0\x10", "data.csv is a database of SQLite: a CSV"),
        (b"%PDF-1.7\n%\xe2\xe3", "data.csv is a PDF file: a CSV"),
        (b"<html><table><tr><td>x</td></tr></table></html>", "data.csv is HTML: a CSV"),
    ],
)
def test_what_cannot_be_read_in_one_way_is_refused_with_its_line(
    data: bytes | str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ParameterError) as caught:
        read_table(written(tmp_path, data))
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "data.csv"))
    assert "\n" not in str(caught.value)


@pytest.mark.exact
@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_another_encoding_is_named_than_the_one_that_fails(encoding: str, tmp_path: Path) -> None:
    path = written(tmp_path, b"a\nM\x81nchen\n")
    with pytest.raises(ParameterError, match="as --encoding cp850 or shift_jis, or export it"):
        read_table(path, Reading(encoding=encoding))
    assert read_table(path, Reading(encoding="cp850")).cells("a") == ["M\u00fcnchen"]


@pytest.mark.exact
def test_an_option_says_what_the_file_does_not(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b;c\n1,2;3\n")
    assert read_table(path, Reading(delimiter=";")).rows == [(2, ["1,2", "3"])]
    assert read_table(path, Reading(delimiter=",")).rows == [(2, ["1", "2;3"])]
    path = written(tmp_path, "a;b\n1.234;M\u00e5l\n".encode("cp1252"))
    read = read_table(path, Reading(decimal=",", encoding="cp1252"))
    assert (read.numbers("a"), read.cells("b")) == (["1234"], ["Mål"])
    read = read_table(written(tmp_path, "a;b\n1.5;2\n"), Reading(decimal=","))
    with pytest.raises(
        ParameterError, match=r"line 2: '1\.5' is not a number with the decimal sign ,"
    ):
        read.numbers("a")
    for encoding, private in product(("hex", "idna", "undefined"), (False, True)):
        with pytest.raises(
            ParameterError, match=f"--encoding {encoding} is not an encoding of text"
        ):
            read_table(path, Reading(encoding=encoding, is_private=private))
    with pytest.raises(ParameterError, match="is not PUNYCODE text"):
        read_text(path, Reading(encoding="punycode"))
    hidden = read_table(written(tmp_path, 'a\u200b,"b\n",' + "c\u2028" * 500 + "\n"))
    with pytest.raises(ParameterError) as caught:
        hidden.place("a")
    assert r"no column 'a', but a\u200b, b, c\u2028c" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 1000
    two = read_table(written(tmp_path, "a,a\n1,2\n"))
    with pytest.raises(ParameterError, match="has 2 columns 'a'"):
        two.place("a")


# --- private files

GOOD = ["1.5,2", '"1,234.50",="3"', "4,5"]
SPOILS = ["", "x,y", "1,2,3", '"1', '1,"2', "1;2", "\u22121,5", '"1,5",2', '"1,234",2', "\x00,1"]


def private(folder: Path, lines: list[str]) -> DataTable:
    return read_table(written(folder, "\n".join(["x,y", *lines, ""])), PRIVATE)


@pytest.mark.exact
@pytest.mark.parametrize("spoilt", SPOILS)
def test_a_person_changes_nothing_about_how_others_are_read(spoilt: str, tmp_path: Path) -> None:
    """Wherever the person's line is, the numbers of all other lines stay.

    In a file that is not private, some of these lines change others, or are an error that names
    them.
    """
    expected = [*private(tmp_path, GOOD).numbers("x")]
    assert expected == ["1.5", "1234.50", "4"]
    for place in range(len(GOOD) + 1):
        table = private(tmp_path, [*GOOD[:place], spoilt, *GOOD[place:]])
        numbers = table.numbers("x")
        del numbers[place]  # a blank line is a person too
        assert numbers == expected


@pytest.mark.exact
@pytest.mark.parametrize("byte", [b"\xff", b"\xe5", b"\xf0\x9f", b"\x00"])
def test_a_byte_that_is_no_text_spoils_its_own_cell_alone(byte: bytes, tmp_path: Path) -> None:
    table = read_table(written(tmp_path, b"x,y\n1,2\n" + byte + b",4\n5,6\n"), PRIVATE)
    assert (table.numbers("x"), table.numbers("y")) == (["1", "", "5"], ["2", "4", "6"])
    with pytest.raises(ParameterError, match="the header is not UTF-8 text"):
        read_table(written(tmp_path, b"x" + byte + b",y\n1,2\n"), PRIVATE)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("encoding", "row"),
    [
        ("iso-2022-jp", b"\x1b$B1,2"),
        ("hz", b"~{1,2"),
        ("utf-7", b"+AGE1,2"),
        ("utf-8", b"1,2\r3,4"),
        ("utf-8", "\u0131nf,2".encode()),
        ("unicode_escape", b"1,2\\"),
    ],
)
def test_a_row_changes_no_other_in_any_encoding(encoding: str, row: bytes, tmp_path: Path) -> None:
    """Each line is one row, and the numbers of the others stay.

    Encodings have a state, or a line end of another system, or a letter that is i where case does
    not count. (A review found each of them.)
    """
    reading = PRIVATE._replace(encoding=encoding)
    table = read_table(written(tmp_path, b"x,y\n1.5,2\n" + row + b"\n4,5\n"), reading)
    numbers = table.numbers("x")
    assert [numbers[0], numbers[2]] == ["1.5", "4"]
    assert len(numbers) == 3
    [float(number or "nan") for number in numbers]


@pytest.mark.exact
@pytest.mark.parametrize("reading", [Reading(), PRIVATE])
def test_blanks_after_delimiters_are_those_of_the_header(reading: Reading, tmp_path: Path) -> None:
    path = written(tmp_path, '"id", "city"\n1, Oslo\n2,  "a, b"\n3,Hell\n')
    assert read_table(path, reading).cells("city") == ["Oslo", "a, b", "Hell"]
    path = written(tmp_path, "id,city\n1, Oslo\n")
    assert read_table(path, reading).cells("city") == [" Oslo"]
    path = written(tmp_path, "\t city\n1\t Oslo\n")
    assert read_table(path, reading).cells("city") == ["Oslo"]


@pytest.mark.exact
@pytest.mark.parametrize("row", ["Oslo,5", "3.5,Tromso,7", "Secret"])
def test_a_private_file_without_a_header_shows_no_row(row: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"{row}\n")
    with pytest.raises(ParameterError, match=r"no column 'x', but a first line that may be a r"):
        read_table(path, PRIVATE).place("x")
    with pytest.raises(ParameterError, match=r"line 1 must be value, .* sets\); of another"):
        Population.from_csv(path, PRIVATE)


@pytest.mark.exact
def test_an_open_quote_in_a_private_header_shows_no_row(tmp_path: Path) -> None:
    path = written(tmp_path, b'x,y,"note\n1,2,3\n3,4,secret"\n')
    with pytest.raises(ParameterError, match="a quote is misplaced"):
        read_table(path, PRIVATE)


@pytest.mark.exact
@pytest.mark.parametrize("kind", ["binary", "large_binary", "dictionary"])
def test_bytes_of_parquet_are_texts_as_some_programs_write_them(kind: str, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    path, cells = tmp_path / "data.parquet", ["Malmö", None, "Oslo"]

    def write(encoding: str) -> None:
        data = [cell and cell.encode(encoding) for cell in cells]
        column = pa.array(data, pa.large_binary() if kind == "large_binary" else pa.binary())
        column = column.dictionary_encode() if kind == "dictionary" else column
        parquet.write_table(pa.table({"x": column}), path)

    write("utf-8")
    assert read_table(path).cells("x") == ["Malmö", "", "Oslo"]
    write("cp1252")
    with pytest.raises(ParameterError, match=r"row 1: the column 'x' .*--encoding"):
        read_table(path)
    assert read_table(path, Reading(encoding="cp1252")).cells("x") == ["Malmö", "", "Oslo"]
    assert read_table(path, PRIVATE).cells("x") == ["Malm\ufffd", "", "Oslo"]


@pytest.mark.exact
def test_a_text_of_parquet_that_is_none_spoils_its_own_cell_alone(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    texts = pa.array([b"3", b"\xff", b"4"]).view(pa.string())
    parquet.write_table(pa.table({"x": texts}), tmp_path / "data.parquet")
    reading = PRIVATE._replace(decimal=".")
    assert read_table(tmp_path / "data.parquet", reading).numbers("x") == ["3", "", "4"]


@pytest.mark.exact
def test_a_private_number_is_read_by_header_and_options(tmp_path: Path) -> None:
    """A comma is a mark of thousands in comma-separated files; elsewhere --decimal must be
    stated, because 12.500 is 12500 in half of Europe."""
    cells = ("1.5", "1,5", "1,234", "1,234.5", "1.234,5", "1,234E2", "inf", "nan", "few")
    for delimiter, decimal, expected in (
        (",", None, ("1.5", "", "1234", "1234.5", "", "", "inf", "", "")),
        (";", ".", ("1.5", "", "1234", "1234.5", "", "", "inf", "", "")),
        (";", ",", ("", "1.5", "1.234", "", "1234.5", "1.234E2", "inf", "", "")),
    ):
        rows = "".join(f'"{cell}"{delimiter}0\n' for cell in cells)
        path = written(tmp_path, f"x{delimiter}y\n{rows}")
        table = read_table(path, PRIVATE._replace(decimal=decimal))
        assert tuple(table.numbers("x")) == expected
    for delimiter in ";\t|":
        table = read_table(written(tmp_path, f"x{delimiter}y\n12.500{delimiter}0\n"), PRIVATE)
        with pytest.raises(ParameterError, match="may be 1234: give --decimal"):
            table.numbers("x")


# --- what is read


@pytest.mark.exact
def test_a_population_is_read_in_every_layout(tmp_path: Path) -> None:
    for maker, data in LAYOUTS.items():
        if maker.startswith(("R, row", "pandas", "BigQuery", "telemetry", "statistics", "SAS")):
            continue
        encoding = "utf-16" if data.startswith(b"\xff\xfe") else "utf-8"
        text = data.decode(encoding).replace("City", "value").replace("Amount", "frequency")
        people = Population.from_csv(written(tmp_path, text.encode(encoding)))
        assert people.values == ("Oslo", "Bergen")
        assert people.shares == pytest.approx([1234.5 / 13234.5, 12000 / 13234.5])


@pytest.mark.exact
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("value,count\nOslo,6\n\nOslo,5\n", "line 4 repeats a value, 'Oslo' of line 2"),
        (
            "value,count\nOslo,6.5\n",
            "line 2: count must be a whole number from 0 to 10+, not '6.5'",
        ),
        ('value,count\nOslo,"1,234"\n', "line 2: '1,234' may be 1234 or 1.234"),
        ("value,count\n,6\n", "line 2 must hold a value"),
        ("town,count\nOslo,6\n", "line 1 must be value, .*, not 'town,count'"),
        ("value,count\na,1e15\nb,1\n", "data.csv: a population has at most 10+ people"),
        ("value,frequency\na,33.3\nb,33.3\nc,33.3\nAll,100\n", "line 5: 'All' may be the total"),
    ],
)
def test_a_mistake_in_a_population_names_line_and_value(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ParameterError, match=message):
        Population.from_csv(written(tmp_path, text))


@pytest.mark.exact
def test_numbers_of_a_population_become_as_programs_write_them(tmp_path: Path) -> None:
    text = "value;count\n1.234,50;1.000.000\n7;3\n"
    people = Population.numbers_from_csv(written(tmp_path, text))
    assert people.truth() == {"1234.50": 1_000_000, "7": 3}
    with pytest.raises(ParameterError, match=r"line 4: 'few': value is not a number"):
        Population.numbers_from_csv(written(tmp_path, "value\n1\n\nfew\n"))


@pytest.mark.exact
def test_a_population_may_be_one_column_of_a_table_of_people(tmp_path: Path) -> None:
    path = written(tmp_path, "id,city,minutes\n1,Oslo,7\n2,Bergen,8\n3,Oslo,9\n")
    assert Population.from_csv(path, column="city").truth() == {"Oslo": 2, "Bergen": 1}
    with pytest.raises(ParameterError, match="has no column 'town', but id, city, minutes"):
        Population.from_csv(path, column="town")
    with pytest.raises(ParameterError, match=r"line 1 .*of another table keep one column"):
        Population.from_csv(path)
    path.write_text("value,count\nOslo,200\n")  # of $COLUMN where that is not set
    with pytest.raises(ParameterError, match="has no column '', but value, count"):
        Population.from_csv(path, column="")


@pytest.mark.exact
def test_a_value_that_is_not_listed_is_named_with_what_looks_like_it(tmp_path: Path) -> None:
    def check(value: str) -> None:
        if value not in ("Oslo", "Malm\u00f6"):
            raise ParameterError("value is not listed")

    for value, note in (
        ("Malmo\u0308", "; 'Malm\u00f6' is, of other bytes: 'Malmo\\u0308', 'Malm\\xf6'"),
        ("Osl\u00f8", "; did you mean 'Oslo'?"),
        ("x", ""),
    ):
        people = Population.from_csv(written(tmp_path, f"value,count\nOslo,1\n\n{value},1\n"))
        with pytest.raises(ParameterError) as caught:
            people.require(check, ["Oslo", "Malm\u00f6"])
        expected = f"{tmp_path}/data.csv, line 4: {value!r}: value is not listed{note}"
        assert str(caught.value) == expected


@pytest.mark.exact
def test_counts_of_people_are_no_people(tmp_path: Path) -> None:
    path = written(tmp_path, "City,Count\nOslo,600\nBergen,200\n")
    with pytest.raises(ParameterError, match="Count may count people, and --column reads one a"):
        Population.from_csv(path, column="City")
    read_table(path).require_people("Count")  # a column of numbers
    twice = written(tmp_path, "count,count\n1,1\n")
    with pytest.raises(ParameterError, match="2 columns 'count': rename one"):
        Population.from_csv(twice, column="count")
    rows = "value,{}\nOslo,{}\nBergen,{}\nHell,{}\nAlle,{}\n"
    for kind, cells in (("count", (6, 3, 1, 10)), ("frequency", (60, 30.5, 9.5, 100))):
        path = written(tmp_path, rows.format(kind, *cells))
        with pytest.raises(ParameterError, match="line 5: 'Alle' may be the total of all others"):
            Population.from_csv(path)
        people = Population.from_csv(written(tmp_path, rows.format(kind, *cells[::-1])))
        assert len(people.values) == 4
    Population.from_csv(written(tmp_path, "value,count\na,1\nb,2\nc,3\n"))
    Population.from_csv(written(tmp_path, "value,count\n1,1\n2,2\n3,3\n4,6\n"))


COUNTED = (
    "city,n\nOslo,60\nBergen,30\n",
    "n,city\n60,Oslo\n30,Bergen\n",
    "city,os,Total\nOslo,ios,60\nOslo,web,30\nBergen,ios,1\n",
    "city,COUNT(*)\nOslo,60\nBergen,30\n",
    "city,n,share\nOslo,60,66.7 %\nBergen,30,33.3 %\n",
    "city,Active users,Engaged_sessions\nOslo,60,9\nBergen,30,4\n",
    "city,Anzahl\nOslo,60\nBergen,30\n",
    "city,人数\nOslo,60\nBergen,30\n",
)
PEOPLE = (
    "id,city,n\n1,Oslo,3\n2,Bergen,4\n3,Oslo,4\n",
    "city,total\nOslo,3\nBergen,4\nOslo,4\n",
    "city,users\nOslo,Ann\nBergen,Bob\n",
    "city,os,n\nOslo,ios,60\nOslo,web,30\nBergen,ios,1\nOslo,ios,2\n",
    "city,country\nOslo,1\nBergen,2\n",
    "city,n\nOslo,60\n",
    "city,event\nOslo,60\nBergen,30\n",
    "city,clicks\n7.25,60\n8.5,30\n",
)


@pytest.mark.exact
@pytest.mark.parametrize("text", [*COUNTED, *PEOPLE])
def test_counts_by_other_names_are_no_people(text: str, tmp_path: Path) -> None:
    """Each row was one person. Rows that repeat, and columns of texts, are honest."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    path, place = written(tmp_path, text), tmp_path / "data.parquet"
    parquet.write_table(csv.read_csv(pa.BufferReader(text.encode())), place)
    for table in (read_table(path), read_table(place, names=["city"])):
        if text in PEOPLE:
            table.require_people("city")
        elif ",os," not in text or table.path == path:
            with pytest.raises(ParameterError, match=r"may count people, .*, or rename it; "):
                table.require_people("city")
    read_table(path, Reading(is_private=True)).require_people("city")


@pytest.mark.exact
def test_the_files_of_a_folder_have_the_columns_of_its_first(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder = tmp_path / "data.parquet"
    folder.mkdir()
    parquet.write_table(pa.table({"city": ["Oslo"], "n": [1], "total": [5]}), folder / "1.parquet")
    parquet.write_table(pa.table({"n": [2], "more": [3]}), folder / "2.parquet")
    assert read_table(folder, names=["n"]).cells("n") == ["1", "2"]  # not asked for: total
    with pytest.raises(ParameterError, match=r"2.parquet has no column 'city', unlike other files"):
        read_table(folder, names=["city"])
    parquet.write_table(pa.table({"n": [2.5], "city": ["Hell"]}), folder / "2.parquet")
    with pytest.raises(ParameterError, match="has files with other types of a column"):
        read_table(folder, names=["city", "n"])


@pytest.mark.exact
def test_numbers_and_times_of_parquet_are_those_that_are_written(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "data.parquet"
    zeros = {"a": [-0.0, 0.0, None], "b": pa.array([-0.0, 0.0, 0.5], pa.float32()), "c": [0, 1, 2]}
    parquet.write_table(pa.table(zeros), path)
    columns = [read_table(path).cells(name) for name in "abc"]
    assert columns == [["0.0", "0.0", ""], ["0.0", "0.0", "0.5"], ["0", "1", "2"]]
    parquet.write_table(pa.table({"a": pa.array([1000], pa.time64("ns"))}), path)
    assert read_table(path).cells("a") == ["00:00:00.000001"]
    parquet.write_table(pa.table({"a": pa.array([10**15], pa.timestamp("s"))}), path)
    with pytest.raises(ParameterError, match="holds a date or time that Python has not"):
        read_table(path)
    parquet.write_table(pa.table({"a": pa.array([1], pa.time64("ns"))}), path)
    with pytest.raises(ParameterError, match="times with nanoseconds: round them"):
        read_table(path)
    parquet.write_table(pa.table({"a": pa.array([1], pa.timestamp("s", "Mars/X"))}), path)
    for is_private in (False, True):
        with pytest.raises(ParameterError, match="holds times of an unknown time zone"):
            read_table(path, Reading(is_private=is_private))
    with pytest.raises(ParameterError, match=r"is a folder, read if its name ends in \.parquet"):
        read_table(tmp_path)


@pytest.mark.exact
@pytest.mark.parametrize(
    "cells", ['"a"\n"b"', "'a',\n'b'", "a,\nb,", "a\t6\nb\t3", " 6 a\n 3 b", "a \nb "]
)
def test_candidates_that_are_cells_of_a_table_are_refused(cells: str, tmp_path: Path) -> None:
    """Each would be looked for with its quotes and blanks, and found nowhere. One line that is
    written otherwise says that they are meant."""
    with pytest.raises(RegistryError, match=r"list.txt, line 1: .* is written as cells are: "):
        read_values(written(tmp_path, cells, "list.txt"))
    assert len(read_values(written(tmp_path, f"{cells}\nc", "list.txt"))) == 3
    assert read_values(written(tmp_path, "a,1\nb,2\n", "list.txt")) == ("a,1", "b,2")


@pytest.mark.exact
@pytest.mark.parametrize("encoding", ["cp1252", "utf-16-le"])
def test_no_option_is_named_where_there_is_none(encoding: str, tmp_path: Path) -> None:
    """The commands that read a registry have no --encoding."""
    path = written(tmp_path, "Zürich\nOslo\n".encode(encoding), "list.txt")
    with pytest.raises(RegistryError, match=r"not UTF-8 text: save it in UTF-8$"):
        read_values(path)
    with pytest.raises(RegistryError, match=f"as --encoding {encoding}"):
        read_values(path, Reading())
    assert read_values(path, Reading(encoding=encoding)) == ("Zürich", "Oslo")


@pytest.mark.exact
def test_candidates_are_read_as_tables_are(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="has no column 'value', but Value, n"):
        read_values(written(tmp_path, "Value,n\na,1\n", "list.txt"))
    for data in ("value;count\na, b;3\nc;2\n", "sep=;\nn;value\n1;a, b\n2;c\n", "a, b\rc\r"):
        name = "list.txt" if data.startswith("a") else "table.csv"
        assert read_values(written(tmp_path, data, name)) == ("a, b", "c")
    assert read_values(written(tmp_path, "å\nb\n".encode("utf-16"), "u.txt")) == ("å", "b")
    for ending in ("\x85", "\u2028", "\u2029", "\v", "\f", "\x1c"):
        text = f"b{ending}c{ending}"  # was one candidate, held by nobody
        with pytest.raises(RegistryError, match=r"list.txt: 'b.* holds line ends of another sys"):
            read_values(written(tmp_path, text, "list.txt"))
        assert read_values(written(tmp_path, f"{text}\nd", "list.txt")) == (text, "d")
    with pytest.raises(RegistryError, match=r"list.txt, line 4: 'a' is on line 1 too"):
        read_values(written(tmp_path, "a\nb\n\na\n", "list.txt"))


@pytest.mark.exact
@pytest.mark.parametrize("as_json", [True])
def test_a_command_reads_a_semicolon_and_takes_the_options(
    as_json: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i}.{100 + i};x\n" for i in range(1, 60))
    written(tmp_path, f"n;g\n{rows}")
    words = "try data.csv --column n --epsilon 2 --seed 1 --json"
    assert run(words, monkeypatch) == 2
    assert "data.csv, line 2: '1.101' may be 1.101 or 1101" in capsys.readouterr().err
    means = dict[str, float]()
    for decimal in ".,":
        assert run(f"{words} --decimal {decimal}", monkeypatch) == 0
        means[decimal] = json.loads(capsys.readouterr().out)["trials"][0]["true"]
    assert means == {".": 30.13, ",": 30130}


# --- odd tables


def judged(odd: Odd, folder: Path) -> bool:
    """Return whether an odd table was read without options.

    Raises AssertionError for a wrong result, for an error in spite of the options, and for an error
    that does not name the file and the place.
    """
    path, wanted = written(folder, odd.data), Reading(*odd.options)
    error = ""
    for reading in (Reading(), wanted):
        try:
            table = read_table(path, reading)
            texts, numbers = table.cells("name"), [*map(float, table.numbers("n"))]
        except ParameterError as refusal:
            error += str(refusal)
        else:
            assert not odd.damaged_line
            assert (texts, numbers) == (odd.texts, odd.numbers)
    if odd.damaged_line:
        assert f"{path}, line {odd.damaged_line}: 3 cells were expected, not " in error
        return False
    assert not error or error.startswith((f"{path}, line ", f"{path}: byte "))
    assert error.count(str(path)) <= 1, "in spite of the options"
    assert "\n" not in error
    is_private = wanted._replace(is_private=True)
    if odd.options[2] in ("utf-16", "utf-32"):
        with pytest.raises(ParameterError, match="a row could change how others are read"):
            read_table(path, is_private)
    elif not any({*"\r\n"} & {*text} for text in odd.texts):  # a line is a person
        cells = read_table(path, is_private).numbers("n")  # that of a blank line is empty
        assert [float(cell) for cell in cells if cell] == odd.numbers
    return not error


@pytest.mark.exact
@pytest.mark.parametrize("many", tiered([300, 20_000], slow=0))
def test_odd_tables_are_read_rightly_or_refused_in_a_line(many: int, tmp_path: Path) -> None:
    """A third of them or more are read without options; `odd_table` shares nothing with the
    reader."""
    assert sum(judged(odd_table(seed), tmp_path) for seed in range(many)) > many / 3
