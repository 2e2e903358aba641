"""Words are found from their fragments, and hardly ever one that nobody holds."""

import json
import math
import shlex
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from ldp import CountMeanSketch, SequenceFragmentPuzzle, cli
from ldp.arrays import Bools
from ldp.decoding import puzzle
from ldp.decoding.puzzle import assemble, fragments_of, join
from ldp.errors import DecodeError, ParameterError
from ldp.protocol.randomness import SeededBits
from ldp.protocol.spelling import PAD, Spelling
from ldp.server import discover
from ldp.simulation import draw_table, draw_tables
from ldp.tables.estimates import Estimates, Rule
from ldp.tables.joint_table import JointTable, JointTableBuilder
from tests.statistics import ALPHA, share_p

STRICT = Rule(alpha=0.001, control="bonferroni")
HEAVY = ("cab", "abba", "dada", "bead", "a", "faced", "decade")


def small(seed: int = 1, **changes: float) -> SequenceFragmentPuzzle:
    names = ("rows", "width", "fragment_rows", "fragment_width")
    settings = {
        **dict.fromkeys(names, 128),
        "epsilon": 8.0,
        "fragment_epsilon": 5.0,
        "length": 6,
        "tag_bits": 4,
        **changes,
    }
    return SequenceFragmentPuzzle(**settings, alphabet="abcdef", seed=f"{seed:08x}")  # type: ignore[arg-type]


def drawn(
    mechanism: SequenceFragmentPuzzle, words: Sequence[str], counts: Sequence[int], seed: int = 1
) -> JointTable:
    generator = np.random.default_rng(seed)
    table = draw_tables(mechanism, words, np.array(counts), generator)
    assert isinstance(table, JointTable)
    return table


def found(estimates: Estimates, rule: Rule | None = None) -> set[str]:
    passing = estimates.detected(rule)
    return {estimates.values[i] for i in np.flatnonzero(passing)}


def kept(mechanism: SequenceFragmentPuzzle, words: Sequence[str], tag: int) -> Bools:
    """Return which fragments are kept if only those of these words are, under this tag."""
    spelling = mechanism.fragments.spelling
    fragments, size = fragments_of(spelling), spelling.fragment
    marked = np.zeros((spelling.positions, 1 << spelling.tag_bits, len(fragments)), dtype=np.bool_)
    for word in words:
        padded = spelling.pad(word)
        for position in range(spelling.positions):
            part = padded[size * position : size * (position + 1)]
            marked[position, tag, fragments.index(part)] = True
    return marked


@pytest.mark.exact
def test_every_word_is_found_where_there_is_hardly_noise() -> None:
    """At epsilon 64 a bit is wrong with probability 1e-7, so counts are off only by collisions."""
    mechanism = small(epsilon=64.0, fragment_epsilon=32.0)
    table = drawn(mechanism, HEAVY, [2000] * len(HEAVY))
    estimates = discover(table)
    assert found(estimates) == set(HEAVY)
    assert np.abs(estimates.count - 2000 * estimates.detected()).max() < 5 * estimates.noise
    assert estimates.details["tags_left_out"] == []
    assert estimates.reports == 2000 * len(HEAVY)


@pytest.mark.exact
def test_reports_of_devices_make_the_same_words() -> None:
    mechanism = small(epsilon=16.0, fragment_epsilon=8.0)
    builder = JointTableBuilder(mechanism)
    encoder = mechanism.encoder(SeededBits(b"puzzle"))
    builder.add_all(encoder.encode(word) for word in HEAVY[:4] for _ in range(1000))
    assert found(discover(builder.build())) == set(HEAVY[:4])


@pytest.mark.exact
def test_a_fragment_of_letters_and_padding_stands_in_every_list_once() -> None:
    listed = fragments_of(Spelling(6, "abc", 2, 4))
    assert len(listed) == len(set(listed)) == 1 + 3 + 9
    assert PAD + "a" not in listed
    assert {"a" + PAD, PAD + PAD, "cc"} <= set(listed)


@pytest.mark.exact
def test_after_padding_there_is_only_padding() -> None:
    none, half = PAD + PAD, "c" + PAD
    assert join([["ab"], ["cd"], ["ef"]]) == ["abcdef"]
    assert join([["ab"], [half], ["ef"]]) == []
    assert join([["ab"], [none], ["ef"]]) == []
    assert join([["ab"], [half, "cd"], [none, "ef"]]) is not None
    assert set(join([["ab"], [half, "cd"], [none, "ef"]]) or ()) == {
        *("abc" + PAD + none, "abcd" + none, "abcdef"),
    }
    assert join([[none], [none], [none]]) == [none * 3]
    assert join([["ab"], [], ["ef"]]) == []


@pytest.mark.exact
def test_joining_equals_filtering_all_products() -> None:
    """Every subset of four fragments at each of three positions is compared with the definition."""
    some = ["ab", "ba", "a" + PAD, PAD + PAD]
    subsets = [[f for i, f in enumerate(some) if bits >> i & 1] for bits in range(16)]
    for parts in product(subsets, repeat=3):
        words = ["".join(each) for each in product(*parts)]
        proper = {word for word in words if PAD not in word.rstrip(PAD)}
        joined = join(parts)
        assert joined is not None
        assert len(joined) == len(set(joined))
        assert set(joined) == proper


@pytest.mark.exact
def test_a_word_must_have_the_tag_that_its_fragments_carry() -> None:
    mechanism = small()
    addressing = mechanism.fragments.addressing
    tags = {word: addressing.tag(addressing.spelling.pad(word)) for word in ("cab", "abba")}
    for word, tag in tags.items():
        assert assemble(addressing, kept(mechanism, [word], tag)) == ([word], [])
        assert assemble(addressing, kept(mechanism, [word], tag ^ 1)) == ([], [])


@pytest.mark.exact
def test_what_a_tag_puts_together_is_what_has_that_tag() -> None:
    """Fragments of two words have one tag; their products with another tag are left out."""
    mechanism = small()
    addressing = mechanism.fragments.addressing
    tag = addressing.tag(addressing.spelling.pad("abcdef"))
    marked = kept(mechanism, ["abcdef", "fedcba"], tag)
    words = ["".join(parts) for parts in product(("ab", "fe"), ("cd", "dc"), ("ef", "ba"))]
    wanted = sorted(word for word in words if addressing.tag(word) == tag)
    assert 1 <= len(wanted) < 8
    assert sorted(assemble(addressing, marked)[0]) == wanted


@pytest.mark.exact
def test_a_tag_that_spells_too_much_is_left_out_and_said_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = drawn(small(epsilon=64.0, fragment_epsilon=32.0), HEAVY, [2000] * len(HEAVY))
    spelling = small().fragments.spelling
    monkeypatch.setattr(puzzle, "MOST_WORDS", 1000)
    everything = discover(table, top=16 * len(fragments_of(spelling)))
    assert everything.details["tags_left_out"] == list(range(16))
    assert everything.values == ()
    assert "16 of 16 tags left out" in everything.summary["warning"]
    assert json.dumps(everything.summary)


@pytest.mark.exact
def test_the_cap_is_met_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are 3 x 3 x 3 words in all; only the end shows whether a part of them does not fit."""
    parts = [["ab", "ba", "aa"]] * 3
    monkeypatch.setattr(puzzle, "MOST_WORDS", 27)
    assert len(join(parts) or ()) == 27
    monkeypatch.setattr(puzzle, "MOST_WORDS", 26)
    assert join(parts) is None
    assert join([*parts[:2], []]) == []
    assert join([*parts[:2], [PAD + PAD]]) is not None


@pytest.mark.exact
def test_top_keeps_so_many_of_each_position() -> None:
    table = drawn(small(), HEAVY, [3000] * len(HEAVY))
    estimates = discover(table, top=40, rule=STRICT)
    assert estimates.details["fragments_kept"] == [40, 40, 40]
    assert estimates.details["screen"] == {"top": 40}
    assert set(HEAVY) <= found(estimates)
    assert len(estimates.values) > len(HEAVY)


@pytest.mark.exact
def test_thresholds_are_in_reports() -> None:
    table = drawn(small(), HEAVY, [4000, 3500, 3000, 2500, 2000, 1500, 1000])
    by_count = discover(table, rule=Rule(threshold=2250.0), screen=Rule(threshold=300.0))
    assert found(by_count) == set(HEAVY[:4])
    assert by_count.noise_floor() == 2250.0
    strict = discover(table, rule=STRICT, screen=Rule(threshold=4500 / 3))
    assert strict.values == ()
    assert strict.details["fragments_kept"][1] >= 0


@pytest.mark.exact
def test_few_rows_need_a_number_and_claim_nothing() -> None:
    table = drawn(small(rows=63, fragment_rows=32), HEAVY, [2000] * len(HEAVY))
    with pytest.raises(DecodeError, match="fewer than 64 rows a position"):
        discover(table)
    estimates = discover(table, top=30)
    assert not estimates.detected().any()
    assert "fewer than 64 rows" in estimates.summary["warning"]
    assert set(HEAVY[:1]) <= found(estimates, Rule(threshold=1000.0))


@pytest.mark.exact
def test_a_position_without_reports_makes_no_words() -> None:
    table = drawn(small(), HEAVY[:1], [1])
    assert discover(table, top=5).values == ()
    assert discover(table, top=np.int64(5)).values == ()  # type: ignore[arg-type]
    assert discover(table).values == ()


@pytest.mark.exact
def test_what_is_no_puzzle_is_refused() -> None:
    sketch = CountMeanSketch(epsilon=4.0, rows=64, width=64, seed="00ff")
    plain = draw_table(
        sketch, HEAVY, counts=np.full(len(HEAVY), 9), generator=np.random.default_rng(1)
    )
    with pytest.raises(DecodeError, match="not of mechanism sfp"):
        discover(plain)  # type: ignore[arg-type]
    with pytest.raises(DecodeError, match="no reports"):
        discover(JointTableBuilder(small()).build())
    table = drawn(small(), HEAVY, [9] * len(HEAVY))
    for top in (0, -1, True, 2.5, math.nan, math.inf, "5", np.timedelta64(5, "s")):
        with pytest.raises(ParameterError, match="top must be"):
            discover(table, top=top)  # type: ignore[arg-type]
    with pytest.raises(DecodeError, match="too many to test"):
        discover(drawn(small(fragment=6, tag_bits=16), HEAVY, [9] * len(HEAVY)))


LEVELS = {"strict": STRICT, "loose": Rule(alpha=0.2, control="bonferroni")}
WILD = Rule(alpha=0.001, control="none")


@pytest.mark.slow
@pytest.mark.statistical
def test_hardly_any_word_is_found_that_nobody_holds() -> None:
    """At family-wise 0.001, false words in two of 24 puzzles, which fail, have probability 3e-4.

    At 0.2, 17 puzzles or more have a false word with probability ALPHA; seeds are fixed. The twin,
    every word by itself, has false ones in two of three.
    """
    generator, false = np.random.default_rng(5), dict.fromkeys([*LEVELS, "wild"], 0)
    for seed in range(24):
        heavy = {"".join(generator.choice(list("abcdef"), size=6)) for _ in range(4)}
        rare = {"".join(generator.choice(list("abcdef"), size=5)) for _ in range(2000)}
        held = sorted(heavy | rare)
        counts = [6000 if word in heavy else 18 for word in held]
        estimates = discover(drawn(small(seed), held, counts, seed), rule=STRICT, top=200)
        assert heavy <= found(estimates)
        assert len(estimates.values) > 1000
        for name, rule in {**LEVELS, "wild": WILD}.items():
            false[name] += bool(found(estimates, rule) - set(held))
    assert false["strict"] <= 1
    assert share_p(false["loose"], 24, 0.0, 0.2) > ALPHA
    assert share_p(false["wild"], 24, 0.0, 0.001) < ALPHA  # the twin


@pytest.mark.slow
@pytest.mark.statistical
def test_heavy_words_are_found_and_words_of_one_report_each_are_not() -> None:
    """Heavy words have 10 or more standard errors of every position and of the words' table.

    Seeds are fixed; with others a false word is found with probability 0.001 a puzzle at most. Each
    half is the other's twin.
    """
    for seed in range(20):
        table = drawn(small(seed), HEAVY, [8000] * len(HEAVY), seed)
        assert found(discover(table, rule=STRICT, screen=STRICT)) == set(HEAVY)
        assert found(discover(table, rule=STRICT)) >= set(HEAVY)
    alone = ["".join(letters) for letters in product("abcdef", repeat=5)][::2]
    assert found(discover(drawn(small(), alone, [1] * len(alone)), rule=STRICT)) == set()


@pytest.mark.slow
@pytest.mark.statistical
def test_the_default_screen_lets_a_hundred_words_of_noise_through() -> None:
    """In 20 puzzles of one report each of 3,888 words, the mean number put together is 50 to 200.

    The mean is 162 with a standard error of 8, so free seeds would fail with probability 1e-6. The
    twin, a strict screen, lets fewer through.
    """
    alone = ["".join(letters) for letters in product("abcdef", repeat=5)][::2]
    made, twin = [], []
    for seed in range(20):
        mechanism = small(seed)
        table = drawn(mechanism, alone, [1] * len(alone), seed)
        estimates = discover(table, rule=STRICT)
        assert found(estimates) == set()
        made.append(len(estimates.values))
        twin.append(len(discover(table, rule=STRICT, screen=STRICT).values))
    assert np.mean(twin) < 50 < np.mean(made) < 200, made


@pytest.mark.slow
@pytest.mark.statistical
def test_the_default_screen_finds_words_that_bonferroni_does_not_let_pass() -> None:
    """In ten puzzles of 18,000 reports, it finds 59 more words; each puzzle has 16 words with 400
    reports each.

    The sum has a standard deviation of 6, so with free seeds 20 would be missed with probability
    1e-9. The twin, the strict screen, finds no more words.
    """
    generator = np.random.default_rng(2)
    words = sorted({"".join(generator.choice(list("abcdef"), size=6)) for _ in range(16)})
    rare = ["".join(letters) for letters in product("abcdef", repeat=5)][::2]
    gained = 0
    for seed in range(10):
        mechanism = small(seed)
        counts = [400] * len(words) + [3] * len(rare)
        table = drawn(mechanism, [*words, *rare], counts, seed)
        strict = found(discover(table, rule=STRICT, screen=STRICT))
        loose = found(discover(table, rule=STRICT))
        assert loose <= {*words, *rare}
        gained += len(loose) - len(strict)
    assert gained > 20


def run(words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["ldp", *shlex.split(words)])
    try:
        cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


REGISTRY = """\
[product]
name = "keyboard"

[group.typing]
window = "1d"
window_epsilon = 16.0
lifetime_epsilon = 64.0

[metric.words]
version = 1
group = "typing"
description = "Words that no dictionary has"
owners = ["team@example.org"]
expires = 2027-12-31
mechanism = "sfp"
epsilon = 12.0
fragment_epsilon = 6.0
rows = 128
width = 128
fragment_rows = 128
fragment_width = 128
length = 6
tag_bits = 4

[metric.city]
version = 1
group = "typing"
description = "Where"
owners = ["team@example.org"]
expires = 2027-12-31
mechanism = "rr"
epsilon = 4.0
categories = ["teh", "lol"]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("metrics.toml").write_text(REGISTRY)
    Path("words.csv").write_text("value,count\nteh,6000\nlol,4000\nbrb,3000\n")
    return tmp_path


@pytest.mark.exact
def test_the_command_finds_words_in_a_table_and_in_a_store(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = "--registry metrics.toml"
    simulate = f"simulate words {registry} --population words.csv --seed 1"
    assert run(f"{simulate} --table words.table", monkeypatch) == 0
    assert run(f"{simulate} --reports store", monkeypatch) == 0
    capsys.readouterr()
    assert run(f"aggregate words {registry} store --out stored.table", monkeypatch) == 0
    capsys.readouterr()
    for source in ("words.table", "stored.table"):
        assert (
            run(f"decode {source} --out found.csv --rule bonferroni=.01 --json", monkeypatch) == 0
        )
        said = json.loads(capsys.readouterr().out)
        assert said["written"] == "found.csv"
        assert said["detected"] == 3
        assert said["control"] == "bonferroni"
        rows = [line.split(",") for line in Path("found.csv").read_text().splitlines()]
        assert [row[0] for row in rows[1:4]] == ["teh", "lol", "brb"]
        assert json.loads(Path("found.json").read_text())["method"] == "puzzle"
    assert run("report found.csv --truth words.csv --out page.html", monkeypatch) == 0
    assert "teh" in Path("page.html").read_text()
    words = "decode words.table --out - --rule threshold=3500 --method 'puzzle, top = 100'"
    assert run(words, monkeypatch) == 0
    assert "teh" in capsys.readouterr().out
    assert run("decode words.table --out found.csv", monkeypatch) == 0
    assert json.loads(Path("found.json").read_text())["screen"]["control"] == "none"


@pytest.mark.exact
def test_mistakes_end_as_one_clear_line(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = "--registry metrics.toml"
    Path("cities.csv").write_text("value,count\nteh,60\nlol,40\n")
    run(f"simulate city {registry} --population cities.csv --table city.table", monkeypatch)
    run(f"simulate words {registry} --population words.csv --table words.table", monkeypatch)
    capsys.readouterr()
    for words, message in {
        "decode city.table --method 'puzzle, top = 3' --out e.csv": "method must be one of",
        "decode words.table --fakes 1% --out e.csv": "--fakes does not go with this table, which",
        "decode words.table --part else --out e.csv": "--part is one of fragments, words",
        "decode words.table --out words.table": "words.table is also an input",
        "decode words.table --out e.csv --level 2": "level must lie",
        "decode words.table --out e.csv --method 'puzzle, top = 0'": "top must be",
        "decode nothing.table --out e.csv": "nothing.table: No such file",
    }.items():
        assert run(words, monkeypatch) == 2, words
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    assert not Path("e.csv").exists()
