"""Counts from a database or another system are the integers of `ldp aggregate`."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest

from ldp import BitFlip, CoinResponse, LocalHashing, RandomizedResponse
from ldp.collection import ReportWriter, aggregate, sql_intervals
from ldp.collection.sql import COLUMNS, counting_query, has_estimates, read_counts
from ldp.collection.sql_intervals import ends_of_intervals
from ldp.collection.store import read_reports, report_files
from ldp.decoding import binomials
from ldp.decoding.binomials import count_interval, share_interval
from ldp.errors import DecodeError, ParameterError
from ldp.mechanisms import Encoder, Mechanism
from ldp.mechanisms.sketch import MeanSketch
from ldp.protocol.channel import Channel
from ldp.protocol.randomness import SeededBits
from ldp.protocol.wire import pack_report
from ldp.server import Table, decode
from ldp.simulation import Population, draw_reports
from tests.examples import WHOLE, SignToy
from tests.publications import World, run

DAYS = (date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3))
COUNTABLE = [
    (example.mechanism, example.values)
    for example in (*WHOLE, *SignToy.examples())
    if isinstance(example.mechanism, Mechanism) and not isinstance(example.mechanism, MeanSketch)
]
COUNTABLE.append((RandomizedResponse(categories=("a", "b", "c"), epsilon=45.0), ("a", "b")))
"""Mechanisms of every kind of report, each with values, and one that hardly adds noise."""
NAMES = [mechanism.describe() for mechanism, _ in COUNTABLE]


def write(store: Path, mechanism: Mechanism, values: tuple[Any, ...]) -> None:
    for number, day in enumerate(DAYS):
        people = Population(values, counts=np.full(len(values), 40))
        with ReportWriter(store, "m", 1, mechanism, day, f"{number}") as writer:
            for rows, payloads in draw_reports(mechanism, people, np.random.default_rng(number)):
                writer.write(rows, payloads)


def counted(store: Path, mechanism: Mechanism, **days: Any) -> Table:
    table = aggregate([store], "m", 1, mechanism, **days)
    assert isinstance(table, Table)
    return table


@pytest.mark.exact
@pytest.mark.parametrize(("mechanism", "values"), COUNTABLE, ids=NAMES)
def test_duckdb_counts_what_aggregate_counts(
    tmp_path: Path, mechanism: Mechanism, values: tuple[Any, ...]
) -> None:
    duckdb = pytest.importorskip("duckdb")
    store, counts = tmp_path / "st'ore", tmp_path / "counts.csv"
    write(store, mechanism, values)
    since, until = DAYS[1], DAYS[2]
    query = counting_query("duckdb", "m", 1, mechanism, [store], since, until)
    with duckdb.connect() as database:
        database.execute(f"COPY ({query.rstrip().rstrip(';')}) TO '{counts}' (HEADER)")
    expected = counted(store, mechanism, since=since, until=until)
    found = read_counts(counts, mechanism, [str(since), str(until)])
    assert found == expected
    assert found.counts.dtype == expected.counts.dtype


MINUTES = BitFlip(bounds=(0.0, 8.0), buckets=4, bits=4, epsilon=2.0)
ESTIMATED = [
    (one, values) for one, values in (*COUNTABLE, (MINUTES, (0.5, 3.0, 7.0))) if has_estimates(one)
]


def require_estimates(rows: Iterable[Any], table: Table) -> None:
    """Assert that the rows of a query are what `ldp decode` prints, to the last of six digits.

    The ends of bit flips with fewer bits than buckets are exact there, and approximate in SQL.
    """
    found, mechanism = decode(table), table.mechanism
    places = {value: place for place, value in enumerate(found.values)}
    ends = [np.clip(end, 0, table.total) for end in found.interval()]
    expected = np.stack([found.count, found.std_error, *ends], axis=1)
    seen = {value: numbers for value, *numbers in rows}
    assert len(seen) == len(found.values)
    is_part = isinstance(mechanism, BitFlip) and mechanism.bits < mechanism.buckets
    for value, numbers in seen.items():
        estimate, error, *both = expected[places[value]]
        if is_part:
            assert numbers[2:] == pytest.approx(both, abs=1e-3 * error)
            numbers[2:] = both
        assert [f"{one:.6g}" for one in numbers] == [
            f"{one:.6g}" for one in (estimate, error, *both)
        ]


@pytest.mark.exact
@pytest.mark.parametrize(
    ("mechanism", "values"), ESTIMATED, ids=[one.describe() for one, _ in ESTIMATED]
)
def test_duckdb_estimates_what_decode_does(
    tmp_path: Path, mechanism: Mechanism, values: tuple[Any, ...]
) -> None:
    """Estimates and intervals are equal to the last printed digit."""
    duckdb = pytest.importorskip("duckdb")
    write(tmp_path, mechanism, values)
    query = counting_query("duckdb", "m", 1, mechanism, [tmp_path], estimates=True)
    with duckdb.connect() as database:
        rows = database.sql(query).fetchall()
    require_estimates(rows, counted(tmp_path, mechanism))
    assert [count for _, count, *_ in rows] == sorted((row[1] for row in rows), reverse=True)


@pytest.mark.exact
@pytest.mark.parametrize("seed", range(4))
def test_a_query_finds_the_ends_that_decode_finds(seed: int) -> None:
    """Channels from weak to nearly certain, 1 report to 1e9, from none named to all.

    The ends of one binomial are saddlepoints in SQL, and exact in `ldp decode`.
    """
    duckdb = pytest.importorskip("duckdb")
    assert (sql_intervals.STEPS, sql_intervals.EXACT) == (binomials.STEPS, binomials.EXACT)
    generator = np.random.default_rng(seed)
    for _ in range(15):
        untouched, touched = sorted(generator.random(2) ** generator.integers(1, 5))
        reports = int(10 ** generator.uniform(0, 9))
        channel = Channel(touched=Fraction(touched), untouched=Fraction(untouched))
        few = np.minimum(reports, 10 ** generator.uniform(0, 6, 6)).astype(np.int64)
        held = np.concatenate([few, generator.integers(0, reports, 6, endpoint=True)])
        seen = generator.binomial(held, touched) + generator.binomial(reports - held, untouched)
        seen[:2] = 0, reports
        rows = ", ".join(f"({i}, {named}::FLOAT8)" for i, named in enumerate(seen))
        two, one = (
            np.array(
                duckdb.sql(
                    f"WITH RECURSIVE estimates AS (SELECT *, {reports}::FLOAT8 AS about FROM "
                    f"(VALUES {rows}) AS t(place, named))"
                    f"{ends_of_intervals('FLOAT8', channel, is_one)}"
                    f"SELECT coalesce(least_held, 0), coalesce(most_held, {reports})"
                    " FROM estimates LEFT JOIN held USING (place) ORDER BY place"
                ).fetchall()
            ).T
            for is_one in (False, True)
        )
        deviation = np.sqrt(reports * max(map(channel.variance, (0, 1)))) + 1
        expected = count_interval(seen, reports, channel.chances, 0.025)
        assert np.abs(two - expected).max() <= 1e-6 * deviation
        middle = (seen >= 10) & (reports - seen >= 10)
        ends = np.clip(share_interval(seen, reports, channel, 0.025), 0, reports)
        assert np.abs(one - ends)[:, middle].max(initial=0) <= 5e-3 * deviation


@pytest.mark.exact
def test_duckdb_reads_categories_as_they_are(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    mechanism = RandomizedResponse(categories=("O'Hare", "a''b", "c\\d", "Åre, \n"), epsilon=2.0)
    write(tmp_path, mechanism, mechanism.categories)
    query = counting_query("duckdb", "m", 1, mechanism, [tmp_path], estimates=True)
    with duckdb.connect() as database:
        assert {value for value, *_ in database.sql(query).fetchall()} == {*mechanism.categories}


@pytest.mark.exact
def test_a_category_that_no_text_of_postgres_can_hold_is_refused() -> None:
    """The query ended within the category, in a syntax error of the database."""
    mechanism = RandomizedResponse(categories=("a\0b", "c"), epsilon=2.0)
    counting_query("postgres", "m", 1, mechanism)
    with pytest.raises(ParameterError, match="has a NUL"):
        counting_query("postgres", "m", 1, mechanism, estimates=True)


@pytest.mark.exact
def test_queries_end_in_estimates_of_six_mechanisms_and_more(tmp_path: Path) -> None:
    names = {mechanism.name for mechanism, _ in ESTIMATED}
    assert names >= {"coin", "rr", "unary", "subset", "privset", "hadamard", "pgr", "bit-flip"}
    sketch = LocalHashing(epsilon=1.0, rows=2, seed="00ff")
    others = [one for one, _ in COUNTABLE if not has_estimates(one)]
    for mechanism in (sketch, *others):
        with pytest.raises(ParameterError, match=r"leave --estimates out|use --out"):
            counting_query("postgres", "m", 1, mechanism, estimates=True)


@pytest.mark.exact
def test_each_file_is_counted_once_whatever_its_name(tmp_path: Path) -> None:
    """A store is named twice and has a link; one file has two names.

    Names have the signs of patterns, which would match files of another store.
    """
    duckdb = pytest.importorskip("duckdb")
    mechanism = RandomizedResponse(categories=("a", "b", "c"), epsilon=1.0)
    store, link = tmp_path / "row=1[*]?", tmp_path / "link"
    write(store, mechanism, ("a", "b"))
    write(tmp_path / "row=1*?", mechanism, ("a", "b"))
    link.symlink_to(store)
    path = next(store.rglob("0.parquet"))
    path.with_name("again.parquet").hardlink_to(path)
    query = counting_query("duckdb", "m", 1, mechanism, [store, store, link])
    duckdb.sql(query).write_csv(str(tmp_path / "counts.csv"))
    found = read_counts(tmp_path / "counts.csv", mechanism, map(str, DAYS))
    assert found == counted(store, mechanism)
    assert found.total == 240


@pytest.mark.exact
def test_files_of_another_mechanism_fail_the_query(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    kinds = [RandomizedResponse(categories=("a", "b", "c"), epsilon=e) for e in (1.0, 2.0)]
    for mechanism in kinds:
        write(tmp_path / str(mechanism.epsilon), mechanism, ("a", "b"))
    stores = [tmp_path / "1.0", tmp_path / "2.0"]
    query = counting_query("duckdb", "m", 1, kinds[0], stores)
    with duckdb.connect() as database, pytest.raises(duckdb.Error, match="another mechanism"):
        database.sql(query).fetchall()


def require_query(
    dialect: str, mechanism: Mechanism, expected: Table, folder: Path, rows_of: Callable[[str], Any]
) -> None:
    """Assert that the rows of a query are the integers of `ldp aggregate`.

    Its estimates must be those of `ldp decode`, to the last printed digit.
    """
    lines = [COLUMNS, *rows_of(counting_query(dialect, "m", 1, mechanism))]
    texts = [",".join("" if cell is None else str(cell) for cell in line) for line in lines]
    counts = folder / "counts.csv"
    counts.write_text("\n".join(texts))
    assert read_counts(counts, mechanism, map(str, DAYS)) == expected
    if has_estimates(mechanism):
        query = counting_query(dialect, "m", 1, mechanism, estimates=True)
        require_estimates(rows_of(query), expected)


@pytest.mark.slow
@pytest.mark.exact
def test_postgres_counts_what_aggregate_counts(tmp_path: Path, postgres: str) -> None:
    """One table holds whole reports of all examples, and each query counts its own."""
    import psycopg

    expected = {}
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE TABLE reports (report bytea)")
        query = counting_query("postgres", "m", 1, MINUTES, estimates=True)
        unknown = {(label, None, None, 0, 0) for label in MINUTES.labels}
        assert {*connection.execute(query.encode()).fetchall()} == unknown
        # without OFFSET 0 the plan has millions of characters, and 40 answers take a minute
        assert len(plan_of(connection, query)) < 40_000
        assert len(plan_of(connection, query.replace(" OFFSET 0", ""))) > 1_000_000
        for name, (mechanism, values) in zip(NAMES, COUNTABLE, strict=True):
            store = tmp_path / name
            write(store, mechanism, values)
            expected[name] = counted(store, mechanism)
            with connection.cursor().copy("COPY reports FROM STDIN") as copy:
                for report in stored_reports(store, mechanism):
                    copy.write_row([report])
        for name, (mechanism, _) in zip(NAMES, COUNTABLE, strict=True):
            require_query(
                *("postgres", mechanism, expected[name], tmp_path),
                lambda query: connection.execute(query.encode()).fetchall(),
            )


def plan_of(connection: Any, query: str) -> str:
    """Return the plan of a query that is one statement, with all expressions."""
    plan = connection.execute(f"EXPLAIN (VERBOSE) {query.split(chr(10), 1)[1]}".encode())
    return "\n".join(line for (line,) in plan.fetchall())


@pytest.mark.slow
@pytest.mark.exact
def test_postgres_reads_categories_as_they_are_at_any_setting(postgres: str) -> None:
    """With backslashes that escape, one category was another query, and no report was counted."""
    import psycopg

    odd = ("O'Hare", "a''b", "c\\d", "\\', 0), (9, 'x", "Åre, \n")
    mechanism = RandomizedResponse(categories=odd, epsilon=2.0)
    encoder = Encoder(mechanism, SeededBits(b"odd"))
    query = counting_query("postgres", "m", 1, mechanism, estimates=True).encode()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE TEMPORARY TABLE reports (report bytea)")
        for value in odd * 20:
            connection.execute("INSERT INTO reports VALUES (%s)", [encoder.encode(value)])
        rows = [
            connection.execute(f"SET standard_conforming_strings = {setting}".encode())
            and connection.execute(query).fetchall()
            for setting in ("on", "off")
        ]
    assert rows[0] == rows[1]
    assert {value for value, *_ in rows[1]} == {*odd}
    assert sum(estimate for _, estimate, *_ in rows[1]) == pytest.approx(100)


@pytest.mark.exact
def test_texts_of_spark_have_no_backslash() -> None:
    """Whether one escapes is a setting: spark.sql.parser.escapedStringLiterals."""
    odd = "\\U00000041"
    mechanism = RandomizedResponse(categories=("a b", "c'", odd), epsilon=1.0)
    query = counting_query("spark", "m", 1, mechanism, estimates=True)
    assert "\\" not in query
    assert "'a b'" in query
    assert f"CAST(X'{odd.encode().hex()}' AS STRING)" in query


STAND_INS = """
CREATE MACRO part(value, start, size) AS unhex(substr(hex(value), 2 * start - 1, 2 * size));
CREATE MACRO points(value) AS
    [('0x' || substr(hex(value), 2 * i + 1, 2))::BIGINT FOR i IN range(octet_length(value))];
CREATE TABLE reports (report BLOB);
"""
"""Macros for BigQuery's SUBSTRING of bytes and TO_CODE_POINTS, which DuckDB lacks."""


@pytest.mark.exact
@pytest.mark.parametrize(("mechanism", "values"), COUNTABLE, ids=NAMES)
def test_bigquery_counts_what_aggregate_counts(
    tmp_path: Path, mechanism: Mechanism, values: tuple[Any, ...]
) -> None:
    """Its text is parsed as BigQuery's, and runs in DuckDB in sqlglot's translation."""
    duckdb, sqlglot = pytest.importorskip("duckdb"), pytest.importorskip("sqlglot")
    write(tmp_path, mechanism, values)

    def rows_of(query: str) -> Any:
        level = sqlglot.ErrorLevel.RAISE
        (text,) = sqlglot.transpile(query, read="bigquery", write="duckdb", error_level=level)
        for pattern, stand_in in (
            (r"SUBSTRING\(report, (\d+)\)", r"part(report, \1, 1000)"),
            (r"SUBSTRING\(report, 1, ", "part(report, 1, "),
            (r"TO_CODE_POINTS", "points"),
            (r"SELECT \* FROM UNNEST\((\[CAST.*?\])\)\)", r"SELECT UNNEST(\1, max_depth => 2))"),
        ):
            text = re.sub(pattern, stand_in, text)
        return database.sql(text).fetchall()

    with duckdb.connect() as database:
        database.execute(STAND_INS)
        table = pyarrow.table({"report": [*stored_reports(tmp_path, mechanism)]})
        database.register("reported", table)
        database.execute("INSERT INTO reports SELECT report FROM reported")
        require_query("bigquery", mechanism, counted(tmp_path, mechanism), tmp_path, rows_of)


def stored_reports(store: Path, mechanism: Mechanism) -> Iterator[bytes]:
    for _, path in report_files([store], "m", 1):
        for rows, payloads in read_reports(path, mechanism):
            yield from whole(mechanism, rows, payloads)


def whole(mechanism: Mechanism, rows: Any, payloads: Any) -> Iterator[bytes]:
    for row, payload in zip(rows.tolist(), payloads, strict=True):
        number = int.from_bytes(payload.tobytes(), "little")
        yield pack_report(mechanism.header, mechanism.layout, row, number)


@pytest.mark.exact
def test_a_sketch_and_a_joint_metric_say_what_counts_them(tmp_path: Path) -> None:
    world = World(tmp_path)
    words = ("--registry", tmp_path / "metrics.toml", "--sql", "duckdb")
    for metric, reason in (("search", "sketch is too large for SQL"), ("network", "several parts")):
        done = run("aggregate", metric, world.store, *words)
        assert isinstance(done.exception, ParameterError)
        assert reason in str(done.exception)
        assert "use --out" in str(done.exception)


@pytest.mark.exact
def test_the_commands_make_the_table_of_aggregate(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    world, registry = World(tmp_path), tmp_path / "metrics.toml"
    world.write("theme")
    query = run("aggregate", "theme", world.store, "--registry", registry, "--sql", "duckdb").output
    duckdb.sql(query).write_csv(str(tmp_path / "counts.csv"))
    words = ("--registry", registry, "--day", "2026-01-01", "--out", tmp_path / "mine.table")
    done = run("table", "import", "theme", tmp_path / "counts.csv", *words)
    assert "400 reports of 'theme'" in done.output
    as_json = json.loads(
        run("table", "import", "theme", tmp_path / "counts.csv", *words, "--json").output
    )
    assert as_json["reports"] == 400
    by_hand = tmp_path / "theirs.table"
    run("aggregate", "theme", world.store, "--registry", registry, "--out", by_hand)
    assert (tmp_path / "mine.table").read_bytes() == by_hand.read_bytes()
    done = run("aggregate", "theme", world.store, "--registry", registry)
    assert "give one of --out, --sql" in done.output
    ending = ("aggregate", "theme", world.store, "--registry", registry, "--estimates")
    names = duckdb.sql(run(*ending, "--sql", "duckdb").output).columns
    assert names == ["value", "estimate", "std_error", "low", "high"]
    done = run(*ending, "--out", by_hand)
    assert "--estimates goes with --sql" in done.output
    done = run(*ending, "--sql", "postgres", "--since", "2026-01-01")
    assert "--sql postgres counts has no days" in str(done.exception)
    done = run(*ending, "--sql", "duckdb", "--whole", "--workers", "3")
    assert "--sql does not go with --workers, --whole" in done.output


@pytest.mark.exact
@pytest.mark.parametrize(
    ("counts", "reports", "reason"),
    [
        ([[1, 2]], [3, 4], "must have the shape"),
        ([[1.0, 2.0]], 3, "must be integers"),
        (np.ma.array([[1, 2]], mask=[[False, True]]), 3, "must be integers"),
        ([[1, 2]], np.ma.array([3], mask=[True]), "must be integers"),
        ([[-1, 4]], 3, "below 0"),
        ([[3, 3, 3]], 3, "must have the shape"),
        ([[4, 0]], 3, "larger than the reports"),
        ([[1, 1]], 3, "add to that"),
        ([[0, 0]], -1, "fewer than 0 reports"),
        ([[0, 0]], 2 * 10**18, "the table more than"),
    ],
)
def test_impossible_counts_are_refused(counts: Any, reports: Any, reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        Table.from_counts(RandomizedResponse(categories=("a", "b"), epsilon=1.0), counts, reports)


@pytest.mark.exact
@pytest.mark.parametrize("windows", [None, 5, "2026-01-31", [date(2026, 1, 31)], ["a", None]])
def test_windows_of_counts_are_a_list_of_texts(windows: Any) -> None:
    mechanism = RandomizedResponse(categories=("a", "b"), epsilon=1.0)
    with pytest.raises(ParameterError, match=r"windows must be a list of days, as \['2026-01-01'"):
        Table.from_counts(mechanism, [[1, 2]], 3, windows)


@pytest.mark.exact
def test_signs_add_to_what_their_reports_can() -> None:
    from ldp import HadamardCountMeanSketch

    sketch = HadamardCountMeanSketch(epsilon=1.0, rows=16, width=4, seed="00")
    counts, reports = np.zeros((16, 4), int), np.full(16, 3)
    counts[:, 0] = 2
    counts[:, 1] = -1
    assert Table.from_counts(sketch, counts, reports).total == 48
    for wrong in (0, 3):
        counts[0, 1] = wrong
        with pytest.raises(ParameterError, match="signs"):
            Table.from_counts(sketch, counts, reports)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        ("row,column\n0,0\n", "must start with"),
        ("row,column,count\n0,0\n", "line 2: 3 cells were expected"),
        ("row,column,count\n0,zero,1\n", "line 2: three whole"),
        ("row,column,count\n0,0_1,1\n0,,1\n", "line 2: three whole"),
        ("row,column,count\n0,\u00b9,1\n0,,1\n", "line 2: three whole"),
        ("row,column,count\n0,0,1\n0,,1" + "0" * 19, "line 3: three whole"),
        ("row,column,count\n0,,1\n0,2,1\n", "line 3: a cell that is not in"),
        ("row,column,count\n-1,,1\n", "line 2: a cell that is not in"),
        ("row,column,count\n0,0,1\n0,0,1\n", "line 3: .*second time"),
        ("row,column,count\n0,0,1\n", "no reports can make"),
    ],
)
def test_another_file_is_named_with_its_line(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "counts.csv").write_text(text)
    with pytest.raises(DecodeError, match=reason):
        read_counts(tmp_path / "counts.csv", CoinResponse(alpha=0.5, beta=0.5))


@pytest.mark.exact
def test_a_text_is_no_list_of_days_and_rows_of_counts_are_of_one_length() -> None:
    mechanism = RandomizedResponse(categories=("a", "b"), epsilon=1.0)
    with pytest.raises(ParameterError, match=r"a list of days, as \['2026-01-01'\]"):
        Table.from_counts(mechanism, [[1, 2]], 3, "2026-01-01")
    with pytest.raises(ParameterError, match="arrays of integers"):
        Table.from_counts(mechanism, [[1], [2, 3]], 3)
