"""Certificates, records and locks that are garbage, or ambiguous, give one clear line."""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ldp import CoinResponse, CountMeanSketch, cli
from ldp.errors import DecodeError, RegistryError
from ldp.protocol import wire
from ldp.protocol.strict_json import read_json
from ldp.registry import Registry
from ldp.registry.sign_off import read_sign_off, sign
from ldp.tables.table import Table
from tests.command_line import run
from tests.signing import CAUGHT, SIGN, TODAY, folder, found_nothing
from tests.tiers import tiered

__all__ = ["folder"]
USES = {
    "audit.json": [
        "audit --verify audit.json",
        SIGN,
        "registry page metrics.toml --out page.html --certificate audit.json",
    ],
    "metrics.signed.json": [
        "registry check metrics.toml --against metrics.signed.json",
        "registry page metrics.toml --out page.html --against metrics.signed.json",
    ],
    "metrics.lock": ["registry check metrics.toml"],
}
"""Commands that read each file."""
NO = (
    *("audit.json: not a certificate", "signed.json: not a record of", "metrics.lock: not a whole"),
    "is a named pipe",
    "it has more than",
)
GARBAGE: dict[str, bytes] = {
    "nothing": b"",
    "a list": b"[]",
    "a number": b"5",
    "null": b"null",
    "a text": b'"audits"',
    "an empty object": b"{}",
    "deep": b"[" * 100_000,
    "deep and whole": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"audits":' * 100_000,
    "10 MB of brackets": b"[" * 10_000_000,
    "bytes": bytes(range(256)),
    "UTF-16": json.dumps({"audits": []}).encode("utf-16"),
    "not a number": b"NaN",
}


@pytest.fixture
def written(folder: Path) -> Path:
    """Return the folder with a record of its registry and certificate."""
    record = sign(Registry.load("metrics.toml"), "Officer", [folder / "audit.json"], TODAY)
    (folder / "metrics.signed.json").write_text(json.dumps(record))
    return folder


@pytest.fixture
def refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """Assert that every use of a file is refused in one line, and return the last line."""

    def refuse(file: str) -> str:
        error = ""
        for use in USES[file]:
            assert run(use, monkeypatch) == 2, use
            error = capsys.readouterr().err
            assert error.count("\n") == 1, error
            assert error.rstrip().isprintable()
            assert any(words in error for words in NO), error
            assert len(error) < 400
        return error

    return refuse


@pytest.mark.exact
@pytest.mark.parametrize("file", USES)
def test_garbage_is_refused_in_one_line(
    file: str, written: Path, refused: Callable[[str], str]
) -> None:
    whole = (written / file).read_bytes()
    for name, data in {
        **GARBAGE,
        "truncated": whole[: len(whole) // 2],
        "followed": whole + b"{}",
        "a byte-order mark": b"\xef\xbb\xbf" + whole,
    }.items():
        (written / file).write_bytes(data)
        assert refused(file), name
    (written / file).unlink()
    os.mkfifo(written / file)
    assert "is a named pipe" in refused(file)
    for endless in ("/dev/zero", "/dev/tty"):
        (written / file).unlink()
        (written / file).symlink_to(endless)
        assert "is a named pipe or a device, which may never end" in refused(file)
    (written / file).unlink()
    with (written / file).open("wb") as sparse:
        sparse.truncate(1 << 40)
    assert "it has more than 268,435,456 bytes" in refused(file)


def objects(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of each object in JSON data."""
    if isinstance(data, dict):
        yield path
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from objects(value, (*path, key))


def text_with(data: Any, path: tuple[Any, ...], added: str) -> str:
    """Return data as JSON, in which the object at `path` has `added` before its last brace."""
    mark = "d41d8cd98f00b204"
    changed = json.loads(json.dumps(data))
    place = changed
    for key in path:
        place = place[key]
    place[mark] = 0
    return json.dumps(changed).replace(f'"{mark}": 0', added)


@pytest.mark.exact
@pytest.mark.parametrize("file", USES)
def test_no_object_at_any_depth_can_be_read_in_two_ways(
    file: str, written: Path, refused: Callable[[str], str]
) -> None:
    """An object has a key twice, a number that is not finite or too long, or half of a surrogate
    pair."""
    data = json.loads((written / file).read_text())
    places = [*objects(data)]
    assert len(places) >= 3
    for path in places:
        for added, said in (
            ('"x": 1, "x": 1', "a key is there twice"),
            ('"x": NaN', "not JSON compliant"),
            ('"x": -1e999', "not JSON compliant"),
            ('"x": ' + "9" * 5000, "too many digits"),
            ('"x": "\\ud800"', "surrogates not allowed"),
            ('"\\udfff": 1', "surrogates not allowed"),
        ):
            (written / file).write_text(text_with(data, path, added))
            assert said in refused(file)


WRONG: list[Any] = [None, True, -1, 1.5, "", "a\n\u202eb", [1], {}, {"a": 1}]
COMPARED = {"alpha", "values", "drawn_values", "channels", "touched", "untouched"}
"""Fields that only `audit --verify` compares, or that nothing reads."""


@pytest.mark.exact
@pytest.mark.parametrize("file", tiered(sorted(USES, key="metrics.signed.json".__eq__), 2))
def test_a_field_of_a_wrong_type_or_that_is_gone_is_refused_or_compared(
    file: str,
    written: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No value of any field is an internal error, or gives more than one line."""
    monkeypatch.setattr("ldp.audit.certificate.audited", found_nothing)
    monkeypatch.setattr("ldp.audit.certificate.cheats_caught", lambda *_: CAUGHT)
    monkeypatch.setattr("ldp.cli.audit._commit", lambda _: None)
    data = json.loads((written / file).read_text())
    del (data.get("facts") or data).get("metrics", {"city": 0})["city"]
    data.get("audits", [0]).pop(0)
    accepted = set()
    for path in objects(data):
        place = data
        for key in path:
            place = place[key]
        for field, value in list(place.items()):
            for wrong in (*WRONG, ...):
                place[field] = wrong
                if wrong is ...:
                    del place[field]
                (written / file).write_text(json.dumps(data))
                for use in (USES[file][0], USES[file][-1]):
                    status = run(use, monkeypatch)
                    error = capsys.readouterr().err
                    assert status in (0, 1, 2), (path, field, wrong)
                    assert "internal error" not in error, (path, field, wrong)
                    assert error.count("\n") == (status == 2), (path, field, wrong)
                if status == 0 and wrong is not ... and type(wrong) is not type(value):
                    accepted.add(field)
                place[field] = value
    if file == "audit.json":
        assert accepted <= COMPARED | {"commit"}, accepted - COMPARED


@pytest.mark.exact
@pytest.mark.parametrize("number", [0, 2, 99, 1.0, True, "1"])
def test_another_format_is_refused(
    number: object, written: Path, refused: Callable[[str], str]
) -> None:
    for file, key in (("audit.json", "certificate"), ("metrics.signed.json", "sign_off")):
        data = json.loads((written / file).read_text())
        (written / file).write_text(json.dumps(data | {key: number}))
        assert "format must be 1" in (error := refused(file)) or f"{key} is {number!r}" in error


@pytest.mark.exact
@pytest.mark.parametrize("name", ["../audit.json", "/etc/hostname", "", ".", "a/", "a\0b"])
def test_a_record_names_files_beside_it_only(name: str, written: Path) -> None:
    record = json.loads((written / "metrics.signed.json").read_text())
    record["certificates"][0]["file"] = name
    (written / "s.json").write_text(json.dumps(record))
    with pytest.raises(RegistryError, match="not a record of `ldp registry sign`"):
        read_sign_off(written / "s.json")


@pytest.mark.exact
@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="its file names are Unicode")
@pytest.mark.parametrize("name", ["\udcff.json", "a\nb.json", "\u202e.json"])
def test_a_file_whose_name_cannot_be_shown_is_refused(
    name: str, written: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (written / name).write_bytes((written / "audit.json").read_bytes())
    for words in (SIGN, USES["audit.json"][2]):
        *before, _ = words.split()
        monkeypatch.setattr(sys, "argv", ["ldp", *before, name])
        with pytest.raises(SystemExit, match="2"):
            cli.main()
        error = capsys.readouterr().err
        assert "the name of a file must be a text of one line" in error
        assert error.count("\n") == 1
        assert error.isascii()


@pytest.mark.exact
def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match=r"cannot read .*x\.json: No such file"):
        read_json(tmp_path / "x.json", "a certificate", lambda contents: None)


@pytest.mark.exact
def test_a_small_table_file_takes_no_memory_that_it_does_not_fill() -> None:
    """65 KB of zeros, packed, once took 2 GB."""
    mechanism = CountMeanSketch(epsilon=1.0, rows=16384, width=16384, seed="00")
    size = 8 * 16384 * 16384
    part = {
        "name": "cms",
        "mechanism": mechanism.parameters(),
        "windows": [],
        "dictionary": None,
        "fingerprint": mechanism.fingerprint.hex(),
        "types": ["u8", "u8"],
        "memoised": False,
    }
    packed = pa.compress(bytes(1 << 20), codec="zstd", asbytes=True)
    with pytest.raises(DecodeError, match=f"holds {size:,} bytes in {len(packed)}: no counts do"):
        Table.from_bytes(wire.pack_table({"tables": [part]}, [packed, packed]))


@pytest.mark.exact
@pytest.mark.parametrize("added", ['"windows": []', '"note": "\\ud800"', '"note": NaN'])
def test_a_table_file_cannot_be_read_in_two_ways(added: str) -> None:
    data = Table.empty(CoinResponse(alpha=0.5, beta=0.5)).to_bytes()
    start, end = 14, 14 + int.from_bytes(data[10:14], "little")
    text = data[start:end].replace(b'"windows": []', b'"windows": [], ' + added.encode())
    whole = data[:10] + len(text).to_bytes(4, "little") + text + data[end:-16]
    with pytest.raises(DecodeError):
        Table.from_bytes(whole + hashlib.blake2b(whole, digest_size=16).digest())
