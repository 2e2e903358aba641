"""Plans still print every number that `ldp plan`, `compare`, `try` and `central` printed.

The inputs and the numbers are those of tests/data/printed/plans. `python -m
tests.planning.test_printed_plans` writes the numbers as they are printed now. Use it only for a
change that CHANGELOG names, with its reason.
"""

import contextlib
import io
import json
import os
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.lib import NumpyVersion

from ldp import cli
from ldp.cli import commands
from tests.folders import TESTS
from tests.tiers import tiered

DATA = TESTS / "data" / "printed" / "plans"
EXPECTED = DATA / "expected.json"
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
CENTRAL = "central {} --registry metrics.toml --data {}.csv --seed 1 --json"
FAST = (
    "plan list --domain 40 --users 200000 --epsilon 2 --frequency 0.01",
    "plan list --domain 2600 --epsilon 4 --frequency 0.001 --max-report-bytes 20 --fakes 0.1% "
    "--json",
    "plan list --domain 20 --users 100000 --epsilon 3 --answers 3 --json",
    "plan list --domain 500 --users 100000 --frequency 0.02",
    "plan product questions.toml --json",
    "compare --population cities.csv --epsilon 1 --users 2000 --seed 2 --mechanism unary --json",
    "try trips.csv --column place --seed 1 --json",
    "try trips.csv --column minutes --epsilon 1,4 --seed 1 --out page.html",
    *(CENTRAL.format(*pair) for pair in (("city", "cities"), ("sketch", "cities"))),
    *(CENTRAL.format(*pair) for pair in (("age", "minutes"), ("flips", "minutes"))),
    *(CENTRAL.format(*pair) for pair in (("wait", "minutes"), ("byplan", "byplan"))),
    CENTRAL.format("word", "words"),
)
DRAWN = ("compare", "plan number")
"""Commands that print numbers drawn with a seed."""
CASES = (
    *FAST,
    "plan number --users 200000 --epsilon 2 --quantile 0.95",
    "plan number --range 0 1440 --users 20000 --epsilon 2 --population minutes.csv --json",
    "plan number --users 10000 --epsilon 4 --by 5",
    "plan product questions.toml --out registry",
    "compare --population cities.csv --epsilon 2 --users 20000 --seed 1",
    "compare --population minutes.csv --bounds 0 1440 --epsilon 2 --users 10000 --seed 1 --json",
    "compare --population minutes.csv --quantile 0.9 --epsilon 2 --users 20000 --seed 1 --json",
)


def printed(command: str, folder: Path) -> list[str]:
    """Return the numbers that a command prints, and writes as text; pages are left out."""
    shutil.copytree(DATA, folder, dirs_exist_ok=True)
    before, here, words, out = set(folder.rglob("*")), Path.cwd(), sys.argv, io.StringIO()
    try:
        os.chdir(folder)
        sys.argv = ["ldp", *command.split()]
        with contextlib.redirect_stdout(out):
            cli.main()
    finally:
        os.chdir(here)
        sys.argv = words
    files = sorted({*folder.rglob("*")} - before)
    texts = [path.read_text("utf-8") for path in files if path.suffix in (".toml", ".txt", ".csv")]
    return NUMBER.findall("\n".join([out.getvalue(), *texts]))


def rounded(number: str) -> str:
    return f"{float(number.rstrip(',').replace(',', '')):.9g}"


@pytest.mark.exact
@pytest.mark.parametrize("command", tiered(CASES, len(FAST)))
def test_each_number_is_printed_still(command: str, tmp_path: Path) -> None:
    if command.startswith(DRAWN) and NumpyVersion(np.__version__) >= "2.5.0":
        pytest.skip("numpy draws other binomial numbers with a seed from 2.5 on")
    expected = Counter(map(rounded, json.loads(EXPECTED.read_text())[command]))
    assert expected - Counter(map(rounded, printed(command, tmp_path / "work"))) == Counter()


@pytest.mark.exact
def test_a_number_that_is_off_in_its_last_digit_is_missed() -> None:
    assert rounded("1,234.5") == rounded("1234.5") != rounded("1234.6")
    assert NUMBER.findall("p95 -0.25, 3e-05 of 1,000,") == ["95", "-0.25", "3e-05", "1,000,"]


@pytest.mark.exact
def test_an_end_that_says_nothing_is_open(tmp_path: Path) -> None:
    """It was the largest number of the bins: the end of p95 of 829 was 2.6e+08."""
    numbers = printed("plan number --users 2000 --epsilon 4", tmp_path / "work")
    assert not [number for number in numbers if 1e6 < float(rounded(number)) < 1e9]


@pytest.mark.exact
@pytest.mark.parametrize(
    ("values", "words", "said"),
    tiered(
        [
            ((20, 300), "--range 0 100", "p95 of the population is 300, beyond all bins"),
            ((20, 300), "--range 0 1000", ""),
            (
                (1e12, 3e12),
                "",
                "p95 of the population is 3e+12, beyond all bins: state another --range.",
            ),
            ((-5, -7), "", "p95 of the population is -5, beyond all bins"),
            ((0, 0.5), "--quantile 0.4", ""),
        ],
        2,
    ),
)
def test_a_percentile_beyond_all_bins_is_told(
    values: tuple[float, ...], words: str, said: str, tmp_path: Path
) -> None:
    """It was printed as 1.074e+09, the end of the bins."""
    path = tmp_path / "numbers.csv"
    path.write_text("\n".join(["value", *map(str, values * 50)]))
    question = ["plan", "number", "--users", "2000", "--epsilon", "4", "--population", str(path)]
    done = CliRunner().invoke(commands, [*question, *words.split()])
    assert done.exit_code == 0
    assert said in " ".join(done.stdout.split()) if said else "beyond" not in done.stdout


def main() -> None:
    with TemporaryDirectory() as name:
        numbers = {
            command: printed(command, Path(name) / str(place))
            for place, command in enumerate(CASES)
        }
    lines = (f"{json.dumps(command)}: {json.dumps(row)}" for command, row in numbers.items())
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
