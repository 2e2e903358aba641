"""Keys of sealed reports: devices seal with the public key of a collector, which opens them.

A relay has a key too, with which it signs the sizes of its batches.

The encryption is HPKE (RFC 9180) in base mode with X25519, HKDF-SHA256 and AES-128-GCM, by the
package `cryptography` (extra `sealed`), which is loaded with this module only.
"""

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Self

from ldp.errors import ParameterError, ReportError, from_extra
from ldp.files import bytes_of
from ldp.protocol.batch import MOST_BYTES, Item
from ldp.protocol.sealed_report import QUEUE, SEALED_VERSION, Attestation, Content

with from_extra("sealing reports", "sealed"):
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


class PublicKey:
    """Public key of a collector, to which devices seal reports. `text`: its 32 bytes as 64
    hexadecimal digits. `fingerprint`: their SHA-256, also in hexadecimal digits. Raises
    ParameterError for any other text."""

    def __init__(self, text: str) -> None:
        try:
            key = bytes.fromhex(text)
            self._key = X25519PublicKey.from_public_bytes(key)
            # fails where no private key exists, as for zeros
            SUITE.encrypt(b"", self._key)
        except (ValueError, TypeError):
            raise ParameterError(
                "a key must be the 64 hexadecimal digits that `ldp key` prints"
            ) from None
        self.fingerprint = hashlib.sha256(key).hexdigest()

    def seal(self, queue: str, size: int, content: Content) -> Item:
        """Return the item that carries a sealed report of `size` bytes to a queue. No two calls
        give the same bytes. Raise ParameterError where it does not fit."""
        info = _info(queue, self.fingerprint)
        sealed = SUITE.encrypt(content.to_bytes(size), self._key, info)
        return Item(QUEUE + queue, SEALED_VERSION, sealed)


class _KeyFile:
    """Private key in a PEM file. `public`: the text of its public key, as 64 hexadecimal digits.
    `fingerprint`: the SHA-256 of its bytes."""

    kind: ClassVar[type[X25519PrivateKey] | type[Ed25519PrivateKey]]

    def __init__(self, key: Any) -> None:
        self._key = key
        public: bytes = key.public_key().public_bytes_raw()
        self.public, self.fingerprint = public.hex(), hashlib.sha256(public).hexdigest()

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a key from a PEM file (PKCS #8, not encrypted). Raises ParameterError for any other
        file."""
        try:
            key = load_pem_private_key(bytes_of(path, MOST_BYTES), None)
        except OSError as error:
            raise ParameterError(f"cannot read the key {path}: {error.strerror}") from None
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, cls.kind):
            name = cls.kind.__name__.removesuffix("PrivateKey")
            way = " --relay" * (name == "Ed25519")
            raise ParameterError(f"{path} is not a private {name} key, as `ldp key{way}` makes it")
        return cls(key)

    @classmethod
    def make(cls, path: Path) -> Self:
        """Make a key and write it to a new file that only its owner may read. Raises ParameterError
        where the file exists or cannot be written."""
        key = cls.kind.generate()
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ParameterError(f"cannot write the key {path}: {error.strerror}") from None
        return cls(key)


class PrivateKey(_KeyFile):
    """Private key of a collector, which opens sealed reports."""

    kind = X25519PrivateKey

    def open(self, item: Item) -> Content:
        """Return the content of an item that carries a sealed report. Raises ReportError when it
        was not sealed to this key and queue, or is damaged."""
        queue = item.metric.removeprefix(QUEUE)
        if (item.metric, item.version) != (QUEUE + queue, SEALED_VERSION):
            raise ReportError("an item carries no sealed report of this version")
        info = _info(queue, self.fingerprint)
        try:
            data = SUITE.decrypt(item.report, self._key, info)
        except (InvalidTag, ValueError):
            raise ReportError("a report was not sealed to this key") from None
        return Content.from_bytes(data)


class RelayKey(_KeyFile):
    """Private key of a relay, which signs the sizes of its batches (Ed25519, RFC 8032)."""

    kind = Ed25519PrivateKey

    def attest(self, attestation: Attestation) -> Item:
        """Return the item that carries a signed attestation."""
        return attestation.to_item(self._key.sign(attestation.message))


class RelayPublicKey:
    """Public key of a relay, from text of 64 hexadecimal digits. Raises ParameterError for other
    text."""

    def __init__(self, text: str) -> None:
        try:
            self._key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
        except (ValueError, TypeError):
            raise ParameterError("a relay's key must be text of 64 hexadecimal digits") from None

    def verify(self, item: Item, digest: bytes) -> Attestation:
        """Return the attestation of an item that came with reports of this digest. Raises
        ReportError where this relay did not sign it."""
        attestation, signature = Attestation.from_item(item, digest)
        try:
            self._key.verify(signature, attestation.message)
        except InvalidSignature:
            raise ReportError("an attestation is not signed by this relay") from None
        return attestation


def open_with(keys: Iterable[PrivateKey], item: Item) -> Content:
    """Return the content of an item, by the first of several keys that opens it. Raises
    ReportError."""
    for key in keys:
        with suppress(ReportError):
            return key.open(item)
    raise ReportError("a report was sealed to none of these keys")


def verify_with(keys: Iterable[RelayPublicKey], item: Item, digest: bytes) -> Attestation:
    """Return the attestation of an item, by the first of several relays that signed it. Raises
    ReportError."""
    for key in keys:
        with suppress(ReportError):
            return key.verify(item, digest)
    raise ReportError("an attestation is signed by none of these relays")


def _info(queue: str, fingerprint: str) -> bytes:
    """Return the `info` of HPKE: the version, key and queue that a sealed report is bound to."""
    version = bytes([SEALED_VERSION])
    return b"ldp sealed report" + version + bytes.fromhex(fingerprint) + queue.encode()
