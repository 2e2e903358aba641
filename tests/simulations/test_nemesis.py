"""A single fault loses nothing, doubles nothing and stops nobody else.

These are small runs of `simulations.nemesis`, whose campaign is the large one.
"""

import os
import shutil
from pathlib import Path

import pytest

from simulations.nemesis import Nemesis, nginx_program, run, twice

HELD_BY_ONE = (Nemesis.damaged_file, Nemesis.restored_store, Nemesis.wrong_registry)


@pytest.fixture(autouse=True)
def programs() -> None:
    """Skip where nginx or a C compiler is not installed."""
    if not (nginx_program() and shutil.which("cc")):
        assert not os.environ.get("CI"), "nginx or a C compiler is missing"
        pytest.skip("needs nginx and a C compiler")


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("faults", [(Nemesis.kill, Nemesis.lost_answers), HELD_BY_ONE])
def test_a_fault_of_one_collector_is_over_at_once_for_others(
    tmp_path: Path, faults: tuple[object, ...]
) -> None:
    bars, result = run(0.2, 1, tmp_path, faults)  # type: ignore[arg-type]
    assert all(bar.met for bar in bars), (bars, result["wrong"])


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("ids", [(), ("0-7", "8-f")])
def test_only_collectors_that_divide_ids_bear_a_proxy_that_repeats(
    tmp_path: Path, ids: tuple[str, ...]
) -> None:
    """Nginx's defaults pass 12 batches on from a paused collector; some count twice if ids are not
    divided.

    That twin fails in fewer than one of a thousand runs.
    """
    assert (twice(tmp_path / "some", 12, *ids) == 0) is bool(ids)
