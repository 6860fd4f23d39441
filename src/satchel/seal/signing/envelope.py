"""Signatures: Ed25519 over the DSSE pre-authentication encoding of (type, JCS(payload)).

The verifier always passes the type it expects; a type found in a file is never believed.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from nacl import bindings
from nacl.exceptions import BadSignatureError

from satchel.errors import MalformedError
from satchel.seal.encoding.jcs import canonical, canonical_checked
from satchel.seal.signing.did import public_key
from satchel.seal.signing.key import SigningKey
from satchel.type_info import resolved

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
