"""A report is read in the words of its metric's answers, and a client keeps it as long as
stated."""

import json
import statistics
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ldp.audit.law import exact_law
from ldp.client import Client
from ldp.mechanisms import (
    CATALOGUE,
    CountMeanSketch,
    HadamardCountMeanSketch,
    LocalHashing,
    MemoisedHashing,
    Rappor,
)
from ldp.mechanisms.addressing import Identity
from ldp.mechanisms.joint_base import parts_of
from ldp.protocol.batch import Batch, Item
from ldp.protocol.randomness import SeededBits
from ldp.protocol.wire import pack_report
from ldp.registry import Registry
from ldp.registry.answers import (
    StatementReader,
    answers_of,
    listing,
    naming,
    report_names,
    true_naming,
    typed_value,
)
from ldp.registry.explaining import explanation, in_text
from tests.devices import DAY, App
from tests.registries import GROUP, METRIC
from tests.statistics import ALPHA, share_p

TELLS_ALL = {
    "rr": ('categories = ["Oslo", "Bergen", "Hell"]', "Bergen", ("Bergen",), 3),
    "unary": ('categories = ["Oslo", "Bergen", "Hell"]', "Bergen", ("Bergen",), 3),
    "subset": ('categories = ["Oslo", "Bergen", "Hell"]\nsize = 1', "Hell", ("Hell",), 3),
    "pgr": ('categories = ["Oslo", "Bergen", "Hell"]', "Hell", ("Hell",), 3),
    "cms": ('rows = 64\nwidth = 4096\ndictionary = "d.txt"', "b", ("b",), 3),
    "local-hashing": ('rows = 64\nbuckets = 4096\ndictionary = "d.txt"', "b", ("b",), 3),
    "bit-flip": ("bounds = [0, 9]\nbuckets = 3\nbits = 3", 4, ("[3, 6)",), 3),
    "one-bit-mean": ("bounds = [0, 9]", 9, ("9",), 0),
    "piecewise": ("bounds = [0, 9]\nbins = 10", 9, ("9",), 0),
    "hierarchical-histogram": ("bounds = [0, 9]\nbuckets = 3", 4, ("3 to 6",), 3),
    "moments": (
        "features = 1\nbounds = [[0, 1], [0, 1]]",
        (1, 1),
        (),
        0,
    ),
}
"""Parameters beside an epsilon of 64, at which a report hardly ever lies.

They come with a value, what a report of it names, and the number of answers. A report of moments is
about any product.
"""


def registry(folder: Path, metrics: dict[str, str], dictionary: str = "a\nb\nc\n") -> Registry:
    text = '[product]\nname = "weather"\n' + GROUP.format(name="places").replace("8.0", "640.0")
    text = text.replace("64.0", "6400.0")
    for name, rest in metrics.items():
        text += METRIC.format(name=name, group="places", rest=rest)
    (folder / "metrics.toml").write_text(text)
    (folder / "d.txt").write_text(dictionary)
    return Registry.load(folder / "metrics.toml")


def statement_of(loaded: Registry, name: str, value: Any) -> Any:
    metric = loaded.metric(name)
    report = metric.mechanism.encoder().encode(value)
    return StatementReader(loaded).read(Item(name, metric.version, report))


@pytest.mark.exact
@pytest.mark.parametrize("mechanism", TELLS_ALL)
def test_a_report_that_does_not_lie_names_the_answer(tmp_path: Path, mechanism: str) -> None:
    parameters, value, named, listed = TELLS_ALL[mechanism]
    made = registry(tmp_path, {"city": f'mechanism = "{mechanism}"\nepsilon = 64.0\n{parameters}'})
    said = statement_of(made, "city", value)
    assert said.total == listed
    if mechanism == "moments":
        assert said.answers[0].endswith("is at its largest")
    else:
        assert said.answers == named
    assert all(answer in said.text for answer in said.answers)


@pytest.mark.exact
def test_a_report_on_coarse_ranges_counts_those_that_there_are(tmp_path: Path) -> None:
    """The bits behind them are noise alone, and stand for no range."""
    rest = 'mechanism = "hierarchical-histogram"\nepsilon = 1.0\nbounds = [0, 64]\nbuckets = 64'
    made = registry(tmp_path, {"wait": rest})
    mechanism: Any = made.metric("wait").mechanism
    totals, encoder = dict[int, int](), mechanism.encoder()
    for _ in range(200):
        report = encoder.encode(5.0)
        said = StatementReader(made).read(Item("wait", 1, report))
        totals[mechanism.row_and_payload(report)[0]] = said.total
    assert totals == {row: mechanism.addressing.groups(row) for row in range(mechanism.shape.rows)}
    assert len({*totals.values()}) > 1


@pytest.mark.exact
def test_a_coin_says_yes_or_no(tmp_path: Path) -> None:
    made = registry(tmp_path, {"ill": 'mechanism = "coin"\nalpha = 0.999999999\nbeta = 0.5'})
    for answer in ("yes", "no"):
        assert statement_of(made, "ill", answer).answers == (answer,)


@pytest.mark.exact
def test_without_a_list_a_report_is_counted_in_cells(tmp_path: Path) -> None:
    for mechanism, text in (
        ('cms"\nrows = 8\nwidth = 64\n#', "names 1 of the 64 cells of row "),
        ('hcms"\nrows = 8\nwidth = 64\n#', "names half of the 64 cells of row "),
        ('local-hashing"\nrows = 8\nbuckets = 64\n#', "names 1 of the 64 cells of row "),
    ):
        made = registry(tmp_path, {"word": f'mechanism = "{mechanism}\nepsilon = 64.0'})
        said = statement_of(made, "word", "hello")
        assert (said.answers, said.total) == ((), 0)
        assert said.text.startswith(text)


@pytest.mark.exact
def test_words_are_named_by_all_parts_of_a_report(tmp_path: Path) -> None:
    parameters = 'mechanism = "sfp"\nepsilon = 64.0\nfragment_epsilon = 32.0\nrows = 16\n'
    parameters += "width = 1024\nfragment_rows = 16\nfragment_width = 1024\ndictionary = 'd.txt'"
    made = registry(tmp_path, {"word": parameters}, "hello\nhelp\nworld\nfar too long a word\n")
    assert statement_of(made, "word", "hello").answers == ("hello",)


@pytest.mark.exact
def test_sets_of_answers_are_named_one_by_one(tmp_path: Path) -> None:
    parameters = 'epsilon = 64.0\nat_most = 2\ncategories = ["a", "b", "c", "d"]'
    made = registry(tmp_path, {"apps": f'mechanism = "unary"\n{parameters}'})
    assert statement_of(made, "apps", {"a", "c"}).answers == ("a", "c")
    assert statement_of(made, "apps", set()).text == "names none of 4 answers"
    listed = listing(made.metric("apps"))
    assert (listed.kind, listed.pair) == ("sets", ("{a, b}", "{c, d}"))
    words = " ".join(in_text(explanation(made, "apps")).split())
    assert 'Answers: up to 2 of "a", "b", "c" and "d"; of more, 2 drawn' in words
    assert "if it is one of yours that counts" in words
    assert "somebody needs at least 1 of your reports; your device" in words


@pytest.mark.exact
def test_a_typed_text_is_the_value_that_devices_encode(tmp_path: Path) -> None:
    listed = 'epsilon = 2.0\ncategories = ["a", "b", "c"]'
    metrics = {
        "app": f'mechanism = "rr"\nother = "c"\n{listed}',
        "apps": f'mechanism = "unary"\nat_most = 2\n{listed}',
        "wait": 'mechanism = "hierarchical-histogram"\nepsilon = 2.0\nby = ["a", "b"]',
    }
    made = registry(tmp_path, metrics)
    for name, text, value in (
        ("app", " a ", "a"),
        ("app", "d", "c"),
        ("apps", "a | b", frozenset({"a", "b"})),
        ("wait", "b, 7.5", ("b", "7.5")),
    ):
        assert typed_value(made.metric(name), text) == value
        made.metric(name).mechanism.encoder().encode(value)


@pytest.mark.exact
def test_a_long_dictionary_is_compared_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ldp.registry.answers.MOST_LISTED", 2)
    parameters = 'mechanism = "local-hashing"\nepsilon = 64.0\nrows = 64\nbuckets = 4096\n'
    made = registry(tmp_path, {"word": parameters + 'dictionary = "d.txt"'})
    assert statement_of(made, "word", "b").text == 'names "b" of the first 2 answers'
    assert statement_of(made, "word", "c").text == "names none of the first 2 answers"


@pytest.mark.exact
def test_a_joint_report_says_what_each_member_says(tmp_path: Path) -> None:
    member = 'mechanism = "unary"\nepsilon = 64.0\ncategories = ["no", "yes"]'
    joint = 'mechanism = "joint"\nof = ["shown", "dismissed"]'
    made = registry(tmp_path, {"shown": member, "dismissed": member, "both": joint})
    said = statement_of(made, "both", ("yes", "no"))
    assert said.answers == ("shown: yes", "dismissed: no")
    assert said.text == 'shown: names "yes" of 2 answers; dismissed: names "no" of 2 answers'
    assert listing(made.metric("both")).pair == ("(no, no)", "(yes, yes)")


@pytest.mark.exact
def test_a_report_of_a_version_that_is_gone_is_only_counted(tmp_path: Path) -> None:
    made = registry(tmp_path, {"ill": 'mechanism = "coin"\nalpha = 0.5\nbeta = 0.5'})
    for item in (Item("gone", 1, b"x"), Item("ill", 2, b"x"), Item("ill", 1, b"x")):
        said = StatementReader(made).read(item)
        assert said[:4] == (item.metric, item.version, (), 0)
        assert said.text == "1 bytes about a version of the question that is gone"


@pytest.mark.exact
@pytest.mark.parametrize("name", [n for n, kind in CATALOGUE.items() if kind.is_whole])
def test_answers_are_named_as_often_as_it_is_said(name: str, tmp_path: Path) -> None:
    """All reports of small mechanisms are enumerated, with the probabilities of the audit's exact
    law."""
    made = registry(tmp_path, {"city": 'mechanism = "coin"\nalpha = 0.5\nbeta = 0.5'})
    for example in CATALOGUE[name].examples():
        mechanism = example.mechanism
        if_held, if_not = naming(mechanism)
        assert 0 < if_not < if_held < 1
        part = parts_of(mechanism)[0]
        if not isinstance(part.candidate_addressing, Identity) or name == "joint":
            continue
        metric = made.metric("city")._replace(mechanism=mechanism)
        reader = StatementReader(made._replace(metrics={"city": metric}))
        answers, most = answers_of(metric), part.at_most_answers
        is_set = part.candidate_addressing is not part.addressing
        value: Any = frozenset(answers[:most]) if is_set else answers[0]
        shares = {answers[0]: Fraction(0), answers[most]: Fraction(0)}
        for (row, number), probability in exact_law(mechanism, value).items():
            report = pack_report(mechanism.header, mechanism.layout, row, number)
            for answer in shares.keys() & {*reader.read(Item("city", 1, report)).answers}:
                shares[answer] += probability
        if name == "coin":  # a "no" is what is not a "yes"
            assert shares == {"yes": Fraction(mechanism.channel.touched), "no": 1 - shares["yes"]}
        else:
            assert [float(share) for share in shares.values()] == [if_held, if_not]


@pytest.mark.exact
@pytest.mark.parametrize("bits", [1, 2, 5, 6])
@pytest.mark.parametrize("kind", ["bit-flip", "memoised-bit-flip"])
def test_a_bucket_is_named_only_by_reports_about_it(kind: str, bits: int, tmp_path: Path) -> None:
    """All reports are enumerated. With one bit of six 88 times in 100 were said for 15."""
    text = f'mechanism = "{kind}"\nbounds = [0, 6]\nbuckets = 6\nbits = {bits}\nepsilon = 2.0'
    text += "\nlifetime_epsilon = 3.0" * (kind != "bit-flip")
    made = registry(tmp_path, {"hour": text})
    mechanism, reader = made.metric("hour").mechanism, StatementReader(made)
    seen = []
    for value in (0.5, 5.5):
        seen.append(0.0)
        for (row, number), probability in exact_law(mechanism, value).items():
            report = pack_report(mechanism.header, mechanism.layout, row, number)
            is_named = "[0, 1)" in reader.read(Item("hour", 1, report)).answers
            seen[-1] += float(probability) * is_named
            assert report_names(mechanism, report, 0.5) == is_named
    assert naming(mechanism) == pytest.approx(seen)
    assert true_naming(mechanism, 0.5) == pytest.approx(seen[0])


@pytest.mark.exact
def test_hashed_answers_are_named_by_collisions_too() -> None:
    """Local hashing of epsilon 4 was said to name another answer .9 times in 100; it is 1.8."""
    rows, seed = 1024, "00ff"
    bloom: Any = {"cohorts": rows, "p": 0.25, "q": 0.75, "seed": seed}
    for mechanism in (
        LocalHashing(epsilon=4.0, rows=rows, seed=seed),
        MemoisedHashing(epsilon=1.0, lifetime_epsilon=2.0, rows=rows, seed=seed),
        CountMeanSketch(epsilon=2.0, rows=rows, width=8, seed=seed),
        HadamardCountMeanSketch(epsilon=2.0, rows=rows, width=8, seed=seed),
        Rappor(bits=8, hashes=1, f=0.0, **bloom),
        Rappor(bits=64, hashes=3, f=0.25, **bloom),
    ):
        p, q = mechanism.channel.chances
        points = [*map(mechanism.addressing.point, map(str, range(20)))]
        held, seen = list[float](), list[float]()
        for row in range(rows):
            first, *others = [{*mechanism.addressing.cells(point, row)} for point in points]
            held.append(p ** len(first))
            both = [len(first & other) for other in others]
            seen += [p**n * q ** (len(first) - n) for n in both]
        for said, some in zip(naming(mechanism), (held, seen), strict=True):
            error = 10 * statistics.stdev(some) / len(some) ** 0.5
            assert statistics.mean(some) == pytest.approx(said, abs=error)
        assert abs(statistics.mean(seen) - q**mechanism.most_cells) > error, "the twin"


@pytest.mark.exact
def test_as_many_words_as_buckets_are_not_taken_for_categories(tmp_path: Path) -> None:
    """A bucket of no word stopped the page with an IndexError, one of two was read as the first."""
    text = 'mechanism = "local-hashing"\nepsilon = 1.0\nrows = 64\nbuckets = 3'
    made = registry(tmp_path, {"city": text + '\ndictionary = "d.txt"'})
    metric, reader = made.metric("city"), StatementReader(made)
    encoder = metric.mechanism.encoder()
    said = [reader.outcome(metric, "b", encoder.encode("b")) for _ in range(200)]
    assert any("names none of 3 answers. It does not name the value" in text for text in said)
    assert any('names "a" and "b" of 3 answers. It names the value' in text for text in said)


@pytest.mark.exact
def test_products_of_two_numbers_are_alike_at_both_ends(tmp_path: Path) -> None:
    text = 'mechanism = "moments"\nbounds = [[0, 4], [0, 5]]\nfeatures = 1\nepsilon = 2.0'
    mechanism = registry(tmp_path, {"flat": text}).metric("flat").mechanism
    least, largest = (exact_law(mechanism, value) for value in ((0, 0), (4, 5)))
    likelier = {report for report, mass in least.items() if mass > Fraction(1, 10)}
    seen = [float(sum(law.get(report, 0) for report in likelier)) for law in (least, largest)]
    assert naming(mechanism) == pytest.approx(seen)


@pytest.mark.statistical
@pytest.mark.parametrize("name", [n for n, kind in CATALOGUE.items() if not kind.needs_shuffler])
def test_a_value_is_named_as_often_as_a_developer_is_told(name: str) -> None:
    """This includes values whose hashes collide, and buckets that no report asks about.

    It also includes answers without a cell. This fails falsely with probability ALPHA.
    """
    examples = CATALOGUE[name].examples()
    for example in examples:
        mechanism = example.mechanism
        encoder = mechanism.encoder(SeededBits(name.encode()))
        for value in example.values:
            expected = true_naming(mechanism, value)
            if expected is None:
                assert any(part.has_roundings for part in parts_of(mechanism))
                continue
            reports = (encoder.encode(value) for _ in range(1000))
            named = sum(report_names(mechanism, report, value) for report in reports)
            p_value = share_p(named, 1000, expected, expected)
            assert p_value > ALPHA / len(examples) / len(example.values)
            too_large = min(1.0, expected + 0.15)
            assert share_p(named, 1000, too_large, too_large) < ALPHA, "the twin"


@pytest.mark.exact
def test_a_report_names_what_its_cells_name(tmp_path: Path) -> None:
    made = registry(
        tmp_path, {"city": 'mechanism = "unary"\nepsilon = 1.0\ncategories = ["a", "b", "c"]'}
    )
    mechanism = made.metric("city").mechanism
    for number, named in ((0b000, ()), (0b101, ("a", "c")), (0b111, ("a", "b", "c"))):
        report = pack_report(mechanism.header, mechanism.layout, 0, number)
        said = StatementReader(made).read(Item("city", 1, report))
        assert said.answers == named
    assert said.text == 'names "a", "b" and "c" of 3 answers'


@pytest.mark.exact
def test_what_was_sent_is_said_as_long_as_it_is_kept(tmp_path: Path) -> None:
    """Without `keep_sent` it is not kept; with it, for as many days, until `forget` or a
    withdrawal."""
    app = App(tmp_path)
    app.client.close()
    app.client = app.open(keep_sent=2 * DAY)
    app.client.grant()
    for _ in range(3):
        app.client.record("city", "Oslo")
        app.now += DAY
        app.client.upload()
    sent = app.client.sent()
    assert [len(batch.statements) for batch in sent] == [1, 1, 1]
    items = [Batch.from_bytes(body).items[0] for _, body in app.server.got]
    reader = StatementReader(Registry.load(tmp_path / "metrics.toml"))
    assert [batch.statements[0] for batch in sent] == list(map(reader.read, items))
    app.now += DAY
    assert [len(batch.statements) for batch in app.client.sent()] == [0, 1, 1]
    app.client.upload()
    assert app.rows("SELECT count(body) FROM batches") == [(2,)], "not only hidden"
    assert app.client.forget()
    assert app.rows("SELECT count(body) FROM batches") == [(0,)]
    app.client.record("city", "Oslo")
    app.now += DAY
    app.client.upload()
    app.client.withdraw()
    assert app.rows("SELECT count(body) FROM batches") == [(0,)]
    assert [batch.statements for batch in app.client.sent()] == [()] * 4
    app.client.close()


@pytest.mark.exact
def test_a_client_that_keeps_less_deletes_what_another_kept(tmp_path: Path) -> None:
    app = App(tmp_path)
    keeping = app.open(keep_sent=timedelta.max)
    keeping.grant()
    keeping.record("city", "Oslo")
    app.now += DAY
    keeping.upload()
    assert len(keeping.sent()[0].statements) == 1
    assert app.client.sent()[0].statements == ()
    app.client.upload()
    assert keeping.sent()[0].statements == ()
    for client in (keeping, app.client):
        client.close()


@pytest.mark.exact
def test_what_waits_is_said_before_it_leaves(app: App) -> None:
    assert app.client.pending() == {}
    app.server.down = True
    app.client.record("city", "Oslo")
    app.now += DAY
    app.client.upload()
    ((name, (said,)),) = app.client.pending().items()
    assert (name, said.metric, said.total) == ("city", "city", 3)
    assert [batch.statements for batch in app.client.sent()] == [(said,)]
    app.server.down = False
    app.now += timedelta(hours=7)
    app.client.upload()
    assert app.client.pending() == {}
    assert app.client.sent()[0].statements == (), "nothing is kept by default"


@pytest.mark.exact
def test_the_data_of_an_explanation_is_ready_for_json_and_makes_the_text(app: App) -> None:
    data = app.client.explain(as_data=True)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert in_text(data) == app.client.explain()
    assert data["metrics"]["city"]["answers"]["pair"] == ["Oslo", "Bergen"]
    assert data["remaining"] == {"places": 8.0, "other": 4.0}
    app.client.record("city", "Oslo")
    app.now += DAY
    app.client.upload()
    later = app.client.explain(as_data=True)
    assert later["remaining"] == data["remaining"]
    assert later["remaining_for_life"]["places"] < data["remaining_for_life"]["places"]
    assert f"{later['remaining_for_life']['places']:g} for life" in app.client.explain()
    changed = app.client.explain(as_data=True, belief=0.1, certainty=0.95)
    linked, before = (one["metrics"]["city"]["linked"] for one in (changed, data))
    assert (linked["least"], before["least"]) == (1, 3)
    assert 'gave "Oslo" rather than "Bergen" 10 in 100' in " ".join(in_text(changed).split())


@pytest.mark.exact
def test_a_belief_out_of_range_is_an_answer_not_an_error(app: App) -> None:
    assert app.client.explain(belief=1.0) == "belief must lie strictly between 0 and 1"
    assert app.client.explain(as_data=True, certainty=0.0) == {
        "error": "certainty must lie strictly between 0 and 1"
    }
    with pytest.raises(ValueError, match="keep_sent must not be negative"):
        Client(app.path, registry=app.folder / "metrics.toml", keep_sent=-DAY)


@pytest.mark.exact
def test_linked_reports_are_counted_by_what_shares_noise(tmp_path: Path) -> None:
    memoised = 'mechanism = "memoised-rr"\ncategories = ["a", "b"]\nepsilon = 1.0\n'
    made = registry(
        tmp_path,
        {
            "fresh": 'mechanism = "rr"\ncategories = ["a", "b"]\nepsilon = 2.0',
            "epoch": f'{memoised}lifetime_epsilon = 2.0\nmemoise = "epoch"\nepoch = "30d"',
            "never": f'{memoised}lifetime_epsilon = 2.0\nmemoise = "per-value"',
            "enough": f'{memoised}lifetime_epsilon = 5.0\nmemoise = "per-value"',
            "faint": 'mechanism = "rr"\ncategories = ["a", "b"]\nepsilon = 0.0001',
        },
    )
    data = explanation(made)
    units = {name: metric["linked"]["unit"] for name, metric in data["metrics"].items()}
    least = {name: metric["linked"]["least"] for name, metric in data["metrics"].items()}
    assert list(units.values()) == ["reports", "epochs", "values", "values", "reports"]
    assert least["fresh"] == least["epoch"] == 7
    assert (least["never"], least["enough"]) == (None, 1)
    words = " ".join(in_text(data).split())
    assert (
        'To tell "a" from "b" and be right 99 times in 100 somebody needs at least 7 of your '
        "reports about the same answer, and has to know that all are yours" in words
    )
    assert "so many in 7 windows of 1 day or more, and at most 3,200 in its life, shared" in words
    assert "shared with the other questions. By chance fewer can" in words
    fresh = {"fresh": 'mechanism = "rr"\ncategories = ["a", "b"]\nepsilon = 2.0'}
    alone = in_text(explanation(registry(tmp_path, fresh)))
    assert "at most 3,200 in its life. By chance" in " ".join(alone.split())
    assert "needs at least 7 of your periods of 30 days about the same answer" in words
    assert "no number of reports about one answer tells as much" in words
    assert "needs all your reports about one answer, and has to know that they are yours" in words
    assert "more than the 64,000,000 that your device may ever send" in words
    assert "e+" not in words


@pytest.mark.exact
@pytest.mark.parametrize("name", [n for n, kind in CATALOGUE.items() if kind.is_whole])
@pytest.mark.parametrize("memoise", [False, "per-value"])
def test_every_mechanism_is_explained_and_its_reports_are_read(
    name: str, memoise: Any, tmp_path: Path
) -> None:
    made = registry(tmp_path, {"city": 'mechanism = "coin"\nalpha = 0.5\nbeta = 0.5'})
    for example in CATALOGUE[name].examples():
        if memoise and not example.mechanism.is_memoisable:
            continue
        metric = made.metric("city")._replace(mechanism=example.mechanism, memoise=memoise)
        loaded = made._replace(metrics={"city": metric})
        data = explanation(loaded, "city", belief=0.3)
        assert json.loads(json.dumps(data, allow_nan=False)) == data
        assert "city: About a banner" in in_text(data)
        assert data["metrics"]["city"]["linked"]["least"] != 0
        for value in example.values:
            said = statement_of(loaded, "city", value)
            assert said.text.startswith(("names ", "says "))
            assert len(said.answers) <= max(1, said.total)
