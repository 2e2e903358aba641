"""The golden vectors are what the code does, and a reader of them refuses the bad reports."""

import json

import pytest

from ldp.errors import ReportError
from ldp.mechanisms import from_parameters
from ldp.tables.joint_table import empty_builder
from tests.folders import TESTS
from tests.vectors.make import FILES

FOLDER = TESTS / "vectors"


@pytest.mark.exact
@pytest.mark.parametrize("name", FILES)
def test_the_committed_vectors_are_what_the_code_makes(name: str) -> None:
    committed = json.loads((FOLDER / name).read_text("utf-8"))
    made = json.loads(json.dumps(FILES[name]()))
    assert committed == made


@pytest.mark.exact
@pytest.mark.parametrize("name", [name for name in FILES if name != "primitives.json"])
def test_bad_reports_are_refused(name: str) -> None:
    for example in json.loads((FOLDER / name).read_text("utf-8"))["examples"]:
        mechanism = from_parameters(example["parameters"])
        assert mechanism.fingerprint.hex() == example["fingerprint"]
        for data in example["bad_reports"].values():
            with pytest.raises(ReportError):
                empty_builder(mechanism).add(bytes.fromhex(data))


@pytest.mark.exact
def test_no_vector_file_is_left_over() -> None:
    assert {path.name for path in FOLDER.glob("*.json")} == set(FILES)
