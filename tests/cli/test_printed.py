"""Commands still print every number that they printed."""

import json

import pytest

from tests.printed import CASES, EXPECTED, missing, numbers_in, run_case


@pytest.mark.exact
@pytest.mark.parametrize("case", CASES)
def test_every_expected_number_is_printed(case: str) -> None:
    expected = json.loads(EXPECTED.read_text("utf-8"))[case]
    printed = run_case(CASES[case])
    assert {
        kind: missing(numbers, printed.get(kind, [])) for kind, numbers in expected.items()
    } == {kind: [] for kind in expected}


@pytest.mark.exact
def test_numbers_are_read_from_words_and_a_lost_one_is_missed() -> None:
    text = "1,204 of 2,000 on 2026-01-05: 0.1234567891 (1e-05), -3.5 to −2; rr2 00ff\na b,192,256,"
    numbers = numbers_in(text)
    assert numbers == ["1204", "2000", "0.123456789", "1e-05", "-3.5", "-2", "192", "256"]
    assert missing(numbers, numbers) == []
    assert missing(["1204", "0.12", "2.0e-05"], ["1204.3", "0.1234", "1.96e-05"]) == []
    assert missing(["1204", "0.12", "1e-05"], ["1204.6", "0.126", "1.6e-05"]) == [
        "1204",
        "0.12",
        "1e-05",
    ]
