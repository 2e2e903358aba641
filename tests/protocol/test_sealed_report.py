"""Sealed reports follow RFC 9180's vectors, have one size, and are bound to key and queue.

Nothing else is opened.
"""

import stat
from datetime import date
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from ldp.errors import ParameterError, ReportError
from ldp.protocol.batch import Batch, Item
from ldp.protocol.sealed_report import OVERHEAD, Attestation, Content, is_sealed, sealed_bytes
from ldp.protocol.sealing_keys import (
    SUITE,
    PrivateKey,
    PublicKey,
    RelayKey,
    RelayPublicKey,
    open_with,
    verify_with,
)

DAY = date(2026, 11, 23)
CONTENT = Content(DAY, Item("word", 3, b"a report of a word"))
KEY = PrivateKey(X25519PrivateKey.from_private_bytes(bytes(range(32))))
ITEMS = st.builds(
    Item,
    metric=st.text(st.characters(codec="utf-8"), max_size=60),
    version=st.integers(0, 2**32 - 1),
    report=st.binary(max_size=300),
)

RFC_KEY = "4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8"
RFC_PUBLIC = "3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d"
RFC_ENC = "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431"
RFC_INFO = "4f6465206f6e2061204772656369616e2055726e"
RFC_AEAD_KEY, RFC_NONCE = "4531685d41d65f03dc48f6b8302c05b0", "56d890e5accaaf011cff4b7d"
RFC_TEXT = "4265617574792069732074727574682c20747275746820626561757479"
RFC_CIPHERTEXT = (
    "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a"
)


@pytest.mark.exact
def test_the_suite_is_that_of_the_rfcs_vectors() -> None:
    """The vectors are those of RFC 9180, A.1.1.

    Its ciphertexts have an `aad`, which the single-shot functions of `cryptography` do not take. So
    the published AEAD key and nonce give the published ciphertext, and the suite decrypts what they
    encrypt without `aad`.
    """
    (enc, info, text) = map(bytes.fromhex, (RFC_ENC, RFC_INFO, RFC_TEXT))
    aead, nonce = AESGCM(bytes.fromhex(RFC_AEAD_KEY)), bytes.fromhex(RFC_NONCE)
    assert aead.encrypt(nonce, text, b"Count-0").hex() == RFC_CIPHERTEXT
    private = X25519PrivateKey.from_private_bytes(bytes.fromhex(RFC_KEY))
    assert private.public_key().public_bytes_raw().hex() == RFC_PUBLIC
    assert SUITE.decrypt(enc + aead.encrypt(nonce, text, b""), private, info) == text


@pytest.mark.exact
@given(st.lists(ITEMS, min_size=1, max_size=5), st.dates(date(1970, 1, 1)))
def test_what_is_sealed_is_opened_and_has_one_size(items: list[Item], day: date) -> None:
    size, key = sealed_bytes(items), PublicKey(KEY.public)
    sealed = [key.seal("typing", size, Content(day, item)) for item in items]
    assert {len(item.report) for item in sealed} == {size}
    assert [KEY.open(item) for item in sealed] == [Content(day, item) for item in items]
    largest = max(len(item.metric.encode()) + len(item.report) for item in items) + 13 + OVERHEAD
    assert size == 128 or size / 2 < largest <= size


@pytest.mark.exact
def test_a_sealed_report_shows_nothing_and_is_never_the_same() -> None:
    sealed = [PublicKey(KEY.public).seal("typing", 128, CONTENT) for _ in range(3)]
    assert len({item.report for item in sealed}) == 3
    assert {(item.metric, item.version) for item in sealed} == {("queue:typing", 1)}
    assert not any(part in item.report for item in sealed for part in (b"word", b"a report"))


@pytest.mark.exact
def test_a_report_is_bound_to_its_key_and_its_queue() -> None:
    other = PrivateKey(X25519PrivateKey.from_private_bytes(bytes(32)))
    sealed = PublicKey(KEY.public).seal("typing", 128, CONTENT)
    assert open_with([other, KEY], sealed) == CONTENT
    for keys, item in (
        ([other], sealed),
        ([KEY], sealed._replace(metric="queue:places")),
        ([KEY], sealed._replace(metric="typing")),
        ([KEY], sealed._replace(version=2)),
        ([KEY], sealed._replace(report=sealed.report[:-1] + bytes([sealed.report[-1] ^ 1]))),
        ([KEY], sealed._replace(report=bytes(len(sealed.report)))),
        ([KEY], sealed._replace(report=b"short")),
    ):
        with pytest.raises(ReportError):
            open_with(keys, item)


@pytest.mark.exact
@given(st.binary(max_size=200))
def test_other_contents_are_refused_or_written_alike(data: bytes) -> None:
    try:
        content = Content.from_bytes(data)
    except ReportError:
        return
    assert content.to_bytes(len(data) + OVERHEAD) == data


@pytest.mark.exact
def test_a_report_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ParameterError, match="larger than its queue"):
        PublicKey(KEY.public).seal("typing", 64, CONTENT)


@pytest.mark.exact
@pytest.mark.parametrize("text", ["", "00", "x" * 64, "00" * 31, "00" * 32, "00" * 33])
def test_a_key_that_is_none_is_refused(text: str) -> None:
    """Among them are 32 zero bytes, of which nobody can have the private key."""
    with pytest.raises(ParameterError, match="64 hexadecimal digits"):
        PublicKey(text)


@pytest.mark.exact
def test_a_key_that_everybody_could_open_is_refused() -> None:
    with pytest.raises(ParameterError):
        PublicKey("00" * 32).seal("typing", 128, CONTENT)


@pytest.mark.exact
def test_a_key_is_written_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "collector.key"
    key = PrivateKey.make(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert PrivateKey.load(path).public == key.public
    with pytest.raises(ParameterError, match="File exists"):
        PrivateKey.make(path)
    (tmp_path / "other").write_text("no key")
    for name, problem in (("other", "not a private X25519 key"), ("none", "No such file")):
        with pytest.raises(ParameterError, match=problem):
            PrivateKey.load(tmp_path / name)


@pytest.mark.exact
def test_an_attestation_is_bound_to_relay_queue_batch_size_and_reports() -> None:
    (mine, other) = (RelayKey(Ed25519PrivateKey.generate()) for _ in range(2))
    statement = Attestation("typing", bytes(range(16)), 1234, bytes(32))
    item = mine.attest(statement)
    keys = [RelayPublicKey(other.public), RelayPublicKey(mine.public)]
    assert verify_with(keys, item, bytes(32)) == statement
    for number in range(len(item.report)):
        changed = bytearray(item.report)
        changed[number] ^= 1
        with pytest.raises(ReportError):
            verify_with(keys, item._replace(report=bytes(changed)), bytes(32))
    for wrong in (
        item._replace(metric="batch:places"),
        item._replace(metric="queue:typing"),
        item._replace(version=2),
        item._replace(report=item.report + b"x"),
    ):
        with pytest.raises(ReportError):
            verify_with(keys, wrong, bytes(32))
    for known, digest in ((keys[:1], bytes(32)), (keys, bytes(31) + b"1")):
        with pytest.raises(ReportError):
            verify_with(known, item, digest)
    with pytest.raises(ParameterError, match="64 hexadecimal digits"):
        RelayPublicKey("00")


@pytest.mark.exact
def test_a_batch_tells_whether_its_reports_are_sealed() -> None:
    sealed = PublicKey(KEY.public).seal("typing", 128, CONTENT)
    for item in (sealed, CONTENT.item):
        data = Batch(bytes(16), DAY, (item,)).to_bytes()
        assert is_sealed(data) == (item is sealed)
