"""Ed25519 public keys as ``did:key`` text, in the one canonical form.

Source: the did:key method, multicodec 0xed01, base58btc. A key that libsodium's valid-point
check refuses (small order, mixed order, non-canonical) is refused when it is read.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

import msgspec
from nacl import bindings
from nacl.exceptions import BadSignatureError

from satchel.crypto.canonical import canonical, canonical_checked
from satchel.errors import MalformedError
from satchel.model.values import resolved

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUES = {char: value for value, char in enumerate(_ALPHABET)}
_PREFIX = "did:key:z"
_CODEC = b"\xed\x01"
_KEY_BYTES = 32
_TEXT_LENGTH = 64


def did_of(public: bytes) -> str:
    """Return the did:key of 32 public key bytes.

    Raises:
        MalformedError: If they are not a point that may sign.
    """
    check_point(public)
    return _PREFIX + _base58(_CODEC + public)


def public_key(did: str) -> bytes:
    """Return the 32 bytes of a did:key.

    Raises:
        MalformedError: If the text is not the canonical did:key of a usable Ed25519 key.
    """
    if len(did) > _TEXT_LENGTH or not did.startswith(_PREFIX):
        raise MalformedError(f"not a did:key of an Ed25519 key: {did[:80]!r}", field="key")
    return _public_key(did)


@lru_cache(256)  # a program meets few keys, each many times
def _public_key(did: str) -> bytes:
    body = did.removeprefix(_PREFIX)
    if not set(body) <= _VALUES.keys():
        raise MalformedError(f"not a did:key of an Ed25519 key: {did!r}", field="key")
    number = 0
    for char in body:
        number = number * 58 + _VALUES[char]
    raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
    if len(raw) != len(_CODEC) + _KEY_BYTES or not raw.startswith(_CODEC):
        raise MalformedError("not a did:key of an Ed25519 key", field="key")
    public = raw[len(_CODEC) :]
    if did_of(public) != did:
        raise MalformedError("not the canonical did:key of this key", field="key")
    return public


def check_point(public: bytes) -> None:
    """Refuse bytes that are not a public key in the main subgroup.

    Raises:
        MalformedError: If they are not.
    """
    if len(public) != _KEY_BYTES:
        raise MalformedError(f"an Ed25519 key must have 32 bytes, not {len(public)}", field="key")
    if not bindings.crypto_core_ed25519_is_valid_point(public):
        raise MalformedError("the public key is not a valid signing point", field="key")


def _base58(data: bytes) -> str:
    number = int.from_bytes(data, "big")
    digits = []
    while number:
        number, digit = divmod(number, 58)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))  # the codec's first byte is never zero


SEED_BYTES = 32
"""Length of an Ed25519 seed."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """An Ed25519 key that can sign; its secret never shows in a repr, a log or an error."""

    did: str
    _secret: bytes = field(repr=False)

    @classmethod
    def from_seed(cls, seed: bytes) -> "SigningKey":
        """Return the key of a 32-byte seed.

        Raises:
            ValueError: If it has another length.
        """
        public, secret = bindings.crypto_sign_seed_keypair(seed)
        return cls(did_of(public), secret)

    @classmethod
    def generate(cls) -> "SigningKey":
        """Return a new random key."""
        return cls.from_seed(bindings.randombytes(SEED_BYTES))

    @property
    def seed(self) -> bytes:
        """The 32 secret bytes; only for writing the key file."""
        return self._secret[:SEED_BYTES]

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature of ``message``."""
        return bindings.crypto_sign(message, self._secret)[:64]


_SIGNATURE_BYTES = 64


class PayloadType(StrEnum):
    """What may be signed; one signature never counts as another kind."""

    ARTIFACT = "application/vnd.satchel.artifact.v1+json"
    HEAD = "application/vnd.satchel.head.v1+json"
    TOKEN = "application/vnd.satchel.token.v1+json"  # noqa: S105 - a media type
    REQUEST = "application/vnd.satchel.request.v1+json"
    RECEIPT = "application/vnd.satchel.receipt.v1+json"
    REDACTION = "application/vnd.satchel.redaction.v1+json"
    ERASURE = "application/vnd.satchel.erasure.v1+json"
    CONFIG = "application/vnd.satchel.config.v1+json"
    REVOCATIONS = "application/vnd.satchel.revocations.v1+json"
    BACKUP = "application/vnd.satchel.backup.v1+json"


class Signature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One signature beside a payload."""

    key: str
    """The signer, as did:key."""

    sig: str
    """64 bytes, base64, standard alphabet, padded."""


class SignatureCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one signature."""

    key: str
    valid: bool
    problem: str | None = None


def pae(payload_type: PayloadType, payload: bytes) -> bytes:
    """Return the bytes that are signed (DSSE v1)."""
    kind = payload_type.value.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign(
    payload_type: PayloadType, payload: Mapping[str, Any], keys: Iterable[SigningKey]
) -> list[Signature]:
    """Sign a payload with each of ``keys``."""
    data = canonical(dict(payload))
    return [signature_of(payload_type, data, key) for key in keys]


def signature_of(payload_type: PayloadType, payload: bytes, key: SigningKey) -> Signature:
    """Sign the canonical bytes of a payload."""
    raw = key.sign(pae(payload_type, payload))
    return Signature(key=key.did, sig=base64.b64encode(raw).decode())


def check(
    payload_type: PayloadType, payload: Mapping[str, Any], signatures: Sequence[Signature]
) -> list[SignatureCheck]:
    """Check every signature of a payload; nothing is raised for a bad one.

    Args:
        payload_type: The expected kind, a constant of the caller.
        payload: A value from a strict reader.
        signatures: As found beside it.
    """
    message = pae(payload_type, canonical_checked(dict(payload)))
    return [_check(message, signature) for signature in signatures]


def _check(message: bytes, signature: Signature) -> SignatureCheck:
    try:
        public = public_key(signature.key)
        raw = _signature_bytes(signature.sig)
        bindings.crypto_sign_open(raw + message, public)
    except MalformedError as error:
        return SignatureCheck(key=signature.key, valid=False, problem=error.message)
    except BadSignatureError:
        return SignatureCheck(
            key=signature.key, valid=False, problem="does not match the signed content"
        )
    return SignatureCheck(key=signature.key, valid=True)


def _signature_bytes(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedError("the signature is not base64", field="sig") from None
    if len(raw) != _SIGNATURE_BYTES or base64.b64encode(raw).decode() != text:
        raise MalformedError("the signature is not 64 bytes in canonical base64", field="sig")
    return raw


def signed_part(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the signatures inside a signed record cover: all but themselves and the id."""
    return {name: part for name, part in record.items() if name not in ("id", "signatures")}


def parse_signatures(value: Any, limit: int) -> list[Signature]:
    """Return the signatures of a file.

    Raises:
        MalformedError: If they are not a list of exactly ``key`` and ``sig``, or too many.
    """
    if isinstance(value, list) and len(value) > limit:
        raise MalformedError(f"more than {limit} signatures", field="signatures")
    try:
        found = msgspec.convert(value, resolved(list[Signature]))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not signatures: {error}", field="signatures") from None
    if len({signature.key for signature in found}) != len(found):
        raise MalformedError("a key signed twice", field="signatures")
    return found
