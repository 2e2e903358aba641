"""Under a short load nothing fails and nothing is lost; the benchmark measures the speed."""

from pathlib import Path

import pytest

from simulations.benchmarks import collector as load


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("one", load.LOADS, ids=lambda one: one.what)
def test_every_report_of_a_load_is_stored(tmp_path: Path, one: load.Load) -> None:
    found = load.run(one, 3.0, tmp_path, seed=1)
    assert found.errors == 0
    assert found.requests > 300
    assert found.stored == found.requests * one.reports
