"""google/rappor's files in every layout that it ships, and what its programs read.

The files are of our own making. Headings are quoted as R writes them, or have blanks after the
commas. Counts are as R writes large numbers, maps have merged positions, and reports are those of
its simulation.
"""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp import CoinResponse, Rappor
from ldp.data_files import Reading
from ldp.errors import DecodeError
from ldp.server import Table, decode
from ldp.tables.google_rappor import read_google_reports, read_google_table, read_map, read_params
from tests.command_line import run

PARAMS = "k,h,m,p,q,f\n8,2,2,0.25,0.75,0.5\n"
COUNTS = "1000,420,410,400,390,520,510,430,440\n900,400,380,390,370,450,460,410,420\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table_of(params: str, counts: str) -> tuple[Table, list[str]]:
    Path("params.csv").write_text(params)
    Path("counts.csv").write_text(counts)
    notes: list[str] = []
    return read_google_table("params.csv", "counts.csv", say=notes.append), notes


def map_of(text: str, table: Table) -> tuple[tuple[str, ...], list[list[list[int]]], list[str]]:
    Path("map.csv").write_text(text)
    notes: list[str] = []
    names, places = read_map("map.csv", table, notes.append)
    return names, places.tolist(), notes


@pytest.mark.exact
@pytest.mark.parametrize(
    "params",
    [
        PARAMS,
        '"k","h","m","p","q","f"\n8,2,2,0.25,0.75,0.5\n',
        "k, h, m, p, q, f\n8, 2, 2, 0.25, 0.75, 0.5\n",
        "f,q,p,m,h,k\r\n.5,.75,.25,2,2,8\r\n\r\n",
    ],
)
def test_headings_are_quoted_spaced_or_in_another_order(here: Path, params: str) -> None:
    table, notes = table_of(params, COUNTS)
    mechanism = table.mechanism
    assert isinstance(mechanism, Rappor)
    assert (mechanism.bits, mechanism.hashes, mechanism.cohorts) == (8, 2, 2)
    assert (mechanism.p, mechanism.q, mechanism.f) == (0.25, 0.75, 0.5)
    assert not notes


@pytest.mark.exact
def test_counts_are_whole_as_r_writes_them(here: Path) -> None:
    table, _ = table_of(PARAMS, COUNTS.replace("1000,", "1e+03,").replace("900,", "900.0 ,"))
    assert table.reports.tolist() == [1000, 900]
    with pytest.raises(DecodeError, match=r"counts.csv: line 2 holds '380.5': counts must be"):
        table_of(PARAMS, COUNTS.replace("380", "380.5"))


@pytest.mark.exact
def test_rows_beyond_the_cohorts_are_added_to_the_first_ones(here: Path) -> None:
    once, _ = table_of(PARAMS, COUNTS)
    twice, notes = table_of(PARAMS, COUNTS + "\n" + COUNTS)
    assert (twice.counts == 2 * once.counts).all()
    assert notes == ["counts.csv: 4 rows of 2 cohorts, every 2 of them added"]
    with pytest.raises(DecodeError, match=r"has 3 rows, params\.csv says 2 cohorts"):
        table_of(PARAMS, COUNTS + COUNTS.splitlines()[0])


@pytest.mark.exact
@pytest.mark.parametrize("text", ["total" + 8 * ",x" + "\n" + COUNTS, "n,b1,b2\n" + COUNTS])
def test_headings_of_counts_are_refused_by_line(here: Path, text: str) -> None:
    with pytest.raises(DecodeError, match=r"counts.csv: line 1 (holds 'total'.*no header|has 3)"):
        table_of(PARAMS, text)


@pytest.mark.exact
def test_files_that_a_spreadsheet_saved_are_read_as_the_others(here: Path) -> None:
    """With semicolons or tabs, in UTF-16, or in an encoding that is stated. A comma in the first
    line is the separator, whatever stands beside it."""
    want, _ = table_of(PARAMS, COUNTS)
    text = "\u00e5,3,9\nb;c,2,10\n"
    expected = map_of(text, want)
    for sign, encoding in ((";", "utf-8"), ("\t", "utf-16"), (",", "utf-16")):
        for name, data in (("params.csv", PARAMS), ("counts.csv", COUNTS)):
            Path(name).write_text(data.replace(",", sign), encoding=encoding)
        assert read_google_table("params.csv", "counts.csv").to_bytes() == want.to_bytes()
    Path("map.csv").write_bytes(text.encode("cp1252"))
    with pytest.raises(DecodeError, match=r"map.csv, line 1: byte 0 \(0xe5\) is not UTF-8 text"):
        read_map("map.csv", want)
    names, places = read_map("map.csv", want, reading=Reading(encoding="cp1252"))
    assert (names, places.tolist(), []) == expected
    Path("counts.csv").write_bytes(b"PK\x03\x04")
    with pytest.raises(DecodeError, match=r"counts.csv is a workbook or a zip file"):
        read_google_table("params.csv", "counts.csv")


@pytest.mark.exact
def test_a_map_row_is_a_set_of_positions_in_any_column(here: Path) -> None:
    """`a` has one bit in cohort 0: written twice, or once with an empty last cell, with NA, or
    shorter.

    `b` is written from the last position on, in quotes.
    """
    table, _ = table_of(PARAMS, COUNTS)
    want: Any = (("a", "b"), [[[2, 2], [0, 5]], [[1, 7], [3, 4]]], [])
    for merged in ("3,3,9,14", "3,9,14,", "3,9,NA,14", "3,9,14", "14,9,,3"):
        assert map_of(f'a,{merged}\n"b",13,"12",8,2\n', table) == want
    full = decode(table, ["a", "b"], places=np.array(want[1], np.uint16))
    names, places = read_map("map.csv", table)
    assert decode(table, names, places=places).to_csv() == full.to_csv()


@pytest.mark.exact
def test_a_map_without_letters_or_twice_is_read_as_in_r_and_said(here: Path) -> None:
    table, _ = table_of(PARAMS, COUNTS)
    names, places, notes = map_of(",1,2,9,10\na,3,4,11,12\na,5,6,13,14\n", table)
    assert names == ("Empty", "a")
    assert places[1] == [[2, 3], [2, 3]]
    assert notes == ["map.csv: 1 repeated string: the first row of each counts"]


@pytest.mark.exact
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,1,2,9,10\nb,1,2,3,9\n", "line 2 has 3 positions of cohort 0, which are 1 to 8"),
        ("a,1,2\n", "line 1 has 0 positions of cohort 1, which are 9 to 16"),
        ("a,0,2,9,10\n", "line 1 holds position 0; 2 cohorts of 8 bits have 1 to 16"),
        ("a,1,2,9,17\n", "line 1 holds position 17"),
        ("string,h11,h12,h21,h22\n", r"line 1 holds 'h11': .*\(a map has no header\)"),
    ],
)
def test_a_wrong_position_is_named_with_its_line(here: Path, text: str, message: str) -> None:
    table, _ = table_of(PARAMS, COUNTS)
    with pytest.raises(DecodeError, match=f"map.csv: {message}"):
        map_of(text, table)


@pytest.mark.exact
def test_p_above_q_is_the_table_of_the_opposite_bits(here: Path) -> None:
    """The same reports have each bit inverted: p is 1 - p, q is 1 - q, counts are the other
    reports."""
    rows = [[*map(int, line.split(","))] for line in COUNTS.splitlines()]
    inverted = "".join(
        ",".join(map(str, [n, *(n - count for count in bits)])) + "\n" for n, *bits in rows
    )
    ours, _ = table_of("k,h,m,p,q,f\n8,2,2,0.1,0.65,0.2\n", COUNTS)
    theirs, notes = table_of("k,h,m,p,q,f\n8,2,2,0.9,0.35,0.2\n", inverted)
    assert ours.mechanism == theirs.mechanism
    assert (ours.counts == theirs.counts).all()
    assert notes == [
        "params.csv: p 0.9 is above q 0.35: all bits are inverted, which leaves epsilon as it is"
    ]
    touched, untouched = 0.35 * 0.9 + 0.9 * 0.1, 0.9 * 0.9 + 0.35 * 0.1
    odds = touched * (1 - untouched) / (untouched * (1 - touched))
    assert theirs.mechanism.cost.epsilon == pytest.approx(2 * abs(np.log(odds)))
    for same in ("0.5,0.5,0", "0.25,0.75,1"):
        with pytest.raises(DecodeError, match=r"params.csv: with .* reports tell nothing"):
            table_of(f"k,h,m,p,q,f\n8,2,2,{same}\n", COUNTS)


@pytest.mark.exact
def test_basic_rappor_in_its_files_is_the_debiased_bit(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one hash and one cohort, the estimate is (C - n untouched) / (touched - untouched).

    Everything else is as in the scheme "identity", whichever bits the map names and in whatever
    order.
    """
    bits = [4733, 4380, 3600, 3975, 3924, 3700, 3806, 3768]
    table, _ = table_of("k,h,m,p,q,f\n8,1,1,0.25,0.75,0.5\n", ",".join(map(str, [10_000, *bits])))
    table.save(Path("t.table"))
    ours = Rappor(scheme="identity", bits=8, p=0.25, q=0.75, f=0.5)
    same = Table.from_counts(ours, [bits], 10_000)
    for order in ([*range(8)], [6, 0, 3]):
        Path("map.csv").write_text("".join(f"{i},{i + 1}\n" for i in order))
        assert run("decode t.table --rappor-map map.csv --out e.csv", monkeypatch) == 0
        assert capsys.readouterr().err == ""
        text = Path("e.csv").read_text()
        assert text == decode(same, [*map(str, order)]).to_csv()
        estimates = {row["value"]: row for row in csv.DictReader(text.splitlines())}
        for place in order:
            count = (bits[place] - 3750) / 0.25
            assert float(estimates[str(place)]["estimate"]) == pytest.approx(count, abs=0.01)
    names, places = read_map("map.csv", table)
    assert decode(table, names, places=places).details["method"] == "direct"
    Path("map.csv").write_text("a,1\nb,1\n")
    names, places = read_map("map.csv", table)
    assert np.isinf(decode(table, names, places=places).std_error).all(), "one bit of two strings"


@pytest.mark.exact
def test_boolean_rappor_is_one_question_over_all_cohorts(here: Path) -> None:
    """With k = 1, cohorts are summed as google/rappor does; yes is (C - n untouched) / gain."""
    table, notes = table_of("k,h,m,p,q,f\n1,2,3,0.25,0.75,0.5\n", "100,50\n200,90\n300,160\n")
    assert isinstance(table.mechanism, CoinResponse)
    assert notes == ["params.csv: k = 1 is one question, answered yes where the bit is 1"]
    estimates = decode(table)
    assert estimates.values == ("yes",)
    assert estimates.count[0] == pytest.approx((300 - 600 * 0.375) / 0.25)
    opposite, _ = table_of("k,h,m,p,q,f\n1,1,1,0.75,0.25,0.5\n", "600,300\n")
    assert (opposite.counts == table.counts).all()


@pytest.mark.exact
@pytest.mark.parametrize(
    ("header", "is_said"),
    [
        ("client,cohort,bloom", False),
        ("client, cohort, irr", False),
        ("user_id,cohort,rappor", False),
        ("user,group,domain", True),
    ],
)
def test_three_columns_of_reports_are_client_cohort_bits(
    here: Path, header: str, is_said: bool
) -> None:
    Path("params.csv").write_text(PARAMS)
    Path("reports.csv").write_text(f"{header}\n7, 1,00000001\n8,0,10000001\n")
    notes: list[str] = []
    table = read_google_reports("params.csv", "reports.csv", say=notes.append)
    assert table.counts.tolist() == [[1, 0, 0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0, 0, 0]]
    assert bool(notes) == is_said


@pytest.mark.exact
def test_reports_without_headings_or_of_two_variables_are_refused(here: Path) -> None:
    Path("params.csv").write_text(PARAMS)
    for first in ("7,1,00000001", "client,cohort,domain,https"):
        Path("reports.csv").write_text(f"{first}\n8,0,10000001\n")
        with pytest.raises(DecodeError, match="first line must be client,cohort,bloom"):
            read_google_reports("params.csv", "reports.csv")


@pytest.mark.exact
def test_cohorts_from_1_are_refused_or_said(here: Path) -> None:
    """Cohorts 1 and 2 of 2 cannot exist; cohort 1 alone can, and is remarked on from 40 reports on.

    By chance, 2 of 2**40 files of 41 reports lack a cohort.
    """
    Path("params.csv").write_text(PARAMS)
    for cohorts, refused in (([1, 2], True), ([1] * 41, False), ([1] * 9, False)):
        rows = "".join(f"c,{cohort},00000000\n" for cohort in cohorts)
        Path("reports.csv").write_text(f"client,cohort,bloom\n{rows}")
        notes: list[str] = []
        if refused:
            with pytest.raises(DecodeError, match=r"line 3 names '2'.*if yours are from 1, take"):
                read_google_reports("params.csv", "reports.csv")
            continue
        read_google_reports("params.csv", "reports.csv", say=notes.append)
        assert len(notes) == (len(cohorts) > 40)


@pytest.mark.exact
def test_more_than_256_bits_have_the_hash_of_client_cpp(here: Path) -> None:
    table, notes = table_of(
        "k,h,m,p,q,f\n512,2,1,0.25,0.75,0.5\n", ",".join(["1000"] + 512 * ["400"])
    )
    assert table.mechanism.parameters()["scheme"] == "rappor-md5-le"
    assert notes == ["params.csv: k 512 is above 256: the hash is rappor-md5-le, as of client/cpp"]


@pytest.mark.exact
@pytest.mark.parametrize(
    "row", ["8,2,0,.25,.75,.5", "1,1,-1,.25,.75,.5", "8,0,4,.25,.75,.5", "8,2,4,nan,.75,.5"]
)
def test_parameters_that_cannot_be_are_named(row: str, here: Path) -> None:
    (here / "params.csv").write_text(f"k,h,m,p,q,f\n{row}\n")
    with pytest.raises(DecodeError, match="line 2 holds"):
        read_params(here / "params.csv")
