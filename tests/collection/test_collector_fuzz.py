"""Broken or hostile senders cause no crash and no 5xx, and nothing is stored."""

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks

from ldp.protocol.batch import MEDIA_TYPE
from simulations.collector import Served, fuzzed

CHECKED = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
"""Checks of schemathesis.

None requires that everything that fits the document is accepted, as the document cannot say which
bytes are a batch.
"""
NAMES = ("health", "metrics", "registry", "registry.json", "reports", "reports/{id}")


@schemathesis.serializer(MEDIA_TYPE)
def _bytes(_: Any, value: Any) -> Any:
    return value


@pytest.mark.slow
@pytest.mark.exact
def test_the_document_says_what_the_collector_answers(tmp_path: Path) -> None:
    """Schemathesis draws requests from the OpenAPI document, without its pytest plugin."""
    served = Served(tmp_path)
    served.start()
    paths = []
    try:
        document = schemathesis.openapi.from_url(f"{served.url}/v1/openapi.json")
        for found in document.get_all_operations():
            assert isinstance(found, Ok)
            operation = found.ok()
            paths.append(operation.path)

            @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy())
            def holds(case: Any) -> None:
                case.call_and_validate(checks=CHECKED)

            holds()
    finally:
        status = served.end()
    assert status == 0
    assert sorted(paths) == [f"/v1/{name}" for name in NAMES]


@pytest.mark.slow
@pytest.mark.exact
def test_bodies_that_are_no_batch_are_refused(tmp_path: Path) -> None:
    """There are 20,000: truncated, oversized, of another version, compressed, not UTF-8, and
    random."""
    found = fuzzed(tmp_path, 20_000, seed=1)
    assert found.is_harmless, found
    assert sum(found.answers.values()) == 20_000
    assert set(found.answers) == {400, 413, 415}
