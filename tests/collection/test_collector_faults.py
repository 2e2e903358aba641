"""Acknowledged reports count exactly once, whatever happens to process, disk and power.

These are small runs of `simulations.collector`, whose campaign is the large one.
"""

import os
import shutil
from pathlib import Path

import pytest

from simulations import collector as faults
from tests.tiers import tiered


@pytest.mark.slow
@pytest.mark.exact
def test_ten_kills_under_load(tmp_path: Path) -> None:
    found = faults.killed(tmp_path, kills=10, seed=1)
    assert found.is_none, found
    assert found.sent > 5000, "hardly anything was sent"


@pytest.mark.slow
@pytest.mark.exact
def test_half_written_files_are_cleared_away_or_written_again(tmp_path: Path) -> None:
    found, _ = faults.half_written(tmp_path, kills=4, seed=1)
    assert found.is_none, found
    assert found.sent > 2000


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("most_bytes", tiered([80_000, 300_000], 0, 1))
def test_a_full_disk_puts_senders_off_and_loses_nothing(tmp_path: Path, most_bytes: int) -> None:
    found, put_off = faults.full_disk(tmp_path, most_bytes, seed=1)
    assert found.is_none, found
    assert put_off > 0
    assert found.sent > 500


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("is_synced", tiered([True, False], 0, 1))
def test_only_what_was_synced_survives_a_power_cut(tmp_path: Path, is_synced: bool) -> None:
    """Power fails twice, and each start has what the disk held. Without syncing, the twin, reports
    are lost."""
    if not shutil.which("cc"):
        assert not os.environ.get("CI"), "a C compiler is missing"
        pytest.skip("no C compiler")
    found = faults.power_cut(tmp_path, cuts=2, seed=1, is_synced=is_synced)
    assert found.sent > 1000
    assert found.is_none is is_synced, found
    assert found.counted <= found.sent


@pytest.mark.slow
@pytest.mark.exact
def test_a_clock_that_jumps_counts_nothing_twice(tmp_path: Path) -> None:
    found, put_off = faults.jumping_clock(tmp_path, jumps=4, seed=1)
    assert found.is_none, found
    assert put_off > 0
    assert found.sent > 500


@pytest.mark.slow
@pytest.mark.exact
def test_a_clock_that_leaps_for_two_seconds_deletes_nothing(tmp_path: Path) -> None:
    found, files = faults.leaping_clock(tmp_path, leaps=2, seed=1)
    assert found.is_none, found
    assert files >= 2


@pytest.mark.slow
@pytest.mark.exact
def test_refused_batches_and_an_unwritable_metric_hold_nothing_up(tmp_path: Path) -> None:
    (tmp_path / "refused").mkdir()
    (tmp_path / "unwritable").mkdir()
    found, grown = faults.all_refused(tmp_path / "refused", batches=50)
    assert (found.is_none, grown) == (True, 0)
    found, held_up = faults.unwritable(tmp_path / "unwritable", batches=10)
    assert (found.is_none, held_up) == (True, 0)
