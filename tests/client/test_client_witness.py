"""A restored copy of a device's file sends nothing more, and a crash is not taken for one."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ldp.client import runtime
from ldp.client.device_file import StorageError
from ldp.client.sealing import Sealer
from ldp.client.witness import NoWitness, Witness
from tests.devices import DAY
from tests.memoising_devices import RR


def witnessed(home: Any, **changes: Any) -> Any:
    one = home(RR, **changes)
    one.witness = one.folder / "elsewhere" / "witness"
    one.restart(witness=one.witness)
    return one


def copied(path: Path, name: str) -> Path:
    return Path(shutil.copy(path, path.with_name(name)))


@pytest.mark.exact
def test_a_restored_copy_says_nothing_more(home: Any) -> None:
    one = witnessed(home)
    one.day("Oslo")
    one.client.close()
    old = copied(one.path, "old")
    one.restart(witness=one.witness)
    one.day("Oslo")
    sent = len(one.server.items)
    one.client.close()
    old.replace(one.path)
    one.restart(witness=one.witness)
    (answer,) = one.day("Oslo")
    assert (answer.reason, "restored copy" in answer.details) == ("storage", True)
    assert len(one.server.items) == sent
    assert one.client.withdraw()
    assert one.client.grant()
    assert one.day("Oslo")[0].reason == "storage", "a new consent does not mend it"


@pytest.mark.exact
def test_the_twin_without_a_witness_says_it_again(
    home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_witness", lambda *_: NoWitness())
    one = home(RR, lifetime=2)
    one.client.close()
    old = copied(one.path, "old")
    for _ in range(3):
        one.restart()
        one.day("Oslo")
        one.client.close()
        shutil.copy(old, one.path)
    assert len(one.server.items) == 3, "the lifetime allows for one"


@pytest.mark.exact
@pytest.mark.parametrize("harm", ["delete", "damage", "leave out", "delete the file"])
def test_without_its_witness_a_file_is_not_used(home: Any, harm: str) -> None:
    one = witnessed(home)
    one.day("Oslo")
    one.client.close()
    if harm == "delete":
        one.witness.unlink()
    elif harm == "damage":
        one.witness.write_text("ldp")
    elif harm == "delete the file":
        one.path.unlink()
    one.restart(**({} if harm == "leave out" else {"witness": one.witness}))
    one.client.grant()
    (answer,) = one.day("Oslo")
    assert answer.reason == "storage"
    assert len(one.server.items) == 1
    assert "witness" in one.client.upload().why


@pytest.mark.exact
def test_old_books_under_a_new_mark_are_a_restored_copy(home: Any) -> None:
    """A backup can put the file back beside a newer log, which holds the page of the mark."""
    one = witnessed(home)
    one.day("Oslo")
    one.day("Oslo")
    one.client.close()
    with closing(sqlite3.connect(one.path)) as connection:
        connection.execute("UPDATE totals SET times = 1")
        connection.commit()
    one.restart(witness=one.witness)
    assert one.day("Oslo")[0].reason == "storage"
    assert len(one.server.items) == 2


@pytest.mark.exact
def test_a_restored_copy_does_not_undo_a_withdrawal(home: Any) -> None:
    one = witnessed(home)
    one.server.down = True
    one.day("Oslo")
    one.client.close()
    old = copied(one.path, "old")
    one.restart(witness=one.witness)
    assert one.client.withdraw()
    one.client.close()
    old.replace(one.path)
    one.restart(witness=one.witness)
    one.server.down, before = False, len(one.server.got)
    one.now += DAY
    assert "restored copy" in one.client.upload().why
    assert len(one.server.got) == before


class PowerCut(BaseException):
    """Error that stands for a power cut: nothing happens after it."""


@pytest.mark.exact
@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_a_crash_around_a_commit_is_no_restored_copy(
    home: Any, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    one = witnessed(home)
    one.day("Oslo")
    one.client.record("city", "Oslo")
    one.now += DAY
    announce = Witness.announce

    def cut(self: Witness, connection: Any) -> None:
        if moment == "before the commit":
            announce(self, connection)
        raise PowerCut

    with monkeypatch.context() as patch:
        patch.setattr(Witness, "announce" if moment == "before the commit" else "confirm", cut)
        with pytest.raises(PowerCut):
            one.client.upload()
    assert len(one.server.items) == 1, "unconfirmed, nothing leaves"
    one.restart(witness=one.witness)
    assert all(one.day("Oslo"))
    assert len(one.server.items) == 3
    assert one.client.status().storage == ""


@pytest.mark.exact
def test_nothing_leaves_before_the_witness_confirms(home: Any, monkeypatch: Any) -> None:
    """A copy of any moment of a life is refused when it is put back, unless nothing was sent
    since."""
    one = witnessed(home)
    copies: list[tuple[bytes, int]] = []
    original = Sealer.seal

    def copying(self: Sealer, connection: Any, *rest: Any) -> None:
        copies.append((one.path.read_bytes(), len(one.server.items)))
        original(self, connection, *rest)

    monkeypatch.setattr(Sealer, "seal", copying)
    for _ in range(5):
        one.day("Oslo")
    one.client.close()
    assert len(copies) == 5
    for body, sent in copies:
        one.path.write_bytes(body)
        one.restart(witness=one.witness)
        one.client.record("city", "Oslo")
        one.now += DAY
        one.client.upload()
        one.client.close()
        assert len(one.server.items) == 5, sent


@pytest.mark.exact
def test_strict_names_what_is_wrong_with_a_copy(home: Any) -> None:
    one = witnessed(home)
    one.day("Oslo")
    one.witness.unlink()
    with pytest.raises(StorageError, match="witness"):
        one.open(witness=one.witness, strict=True).record("city", "Oslo")
