"""Originals of redacted entries, sealed for named keys: whoever has one of them can open it.

For signing keys the bytes are in a secret box under a key made for them; that key is in a sealed
box for each recipient, made for the X25519 form of their Ed25519 key. For recipients of age they
are an age file. Source: docs/spec/7, SEAL-7.12.
"""

import base64
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from nacl import bindings, exceptions
from nacl.public import PrivateKey, PublicKey, SealedBox
from nacl.secret import SecretBox
from nacl.utils import random

from satchel.crypto.age import decrypt_bytes, encrypt_bytes
from satchel.crypto.canonical import canonical_checked
from satchel.crypto.signatures import SigningKey, public_key
from satchel.errors import MalformedError, SigningKeyError
from satchel.model.records import KeyId
from satchel.model.values import resolved

MOST_RECIPIENTS = 64


class _SealedOriginal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    v: Literal[1]
    box: bytes = b""
    keys: dict[KeyId, bytes] = {}
    """For each recipient, the key of the box in a sealed box; in base64, like the box."""

    age: bytes = b""
    """The same as an age file, in base64."""


def seal_original(body: bytes, recipients: Sequence[str], age: Sequence[str] = ()) -> bytes:
    """Return bytes sealed for keys.

    Args:
        body: The canonical bytes of a record.
        recipients: Keys, as did:key.
        age: Recipients of age, ``age1...``.

    Raises:
        SigningKeyError: If there is none, there are too many, or one is no key.
        MissingExtraError: If there is one of age, and what encrypts is not installed.
    """
    if not 0 < len({*recipients, *age}) <= MOST_RECIPIENTS:
        raise SigningKeyError(f"1 to {MOST_RECIPIENTS} keys can recover an original")
    value: dict[str, Any] = {"v": 1}
    if recipients:
        value |= _boxed(body, recipients)
    if age:
        value["age"] = _text(encrypt_bytes(body, age))
    return canonical_checked(value)


def _boxed(body: bytes, recipients: Sequence[str]) -> dict[str, Any]:
    secret = random(SecretBox.KEY_SIZE)
    keys = {
        did: _text(SealedBox(PublicKey(_curve(did))).encrypt(secret)) for did in sorted(recipients)
    }
    return {"box": _text(bytes(SecretBox(secret).encrypt(body))), "keys": keys}


def recipients_of(sealed: bytes) -> list[str]:
    """Return the keys that can open what was sealed.

    Raises:
        MalformedError: If it is nothing that was sealed.
    """
    return sorted(_opened(sealed).keys)


def open_original(sealed: bytes, key: SigningKey) -> bytes:
    """Return the bytes that were sealed for a key; whose they are is left to the caller.

    Raises:
        SigningKeyError: If it was not sealed for this key.
        MalformedError: If it was changed.
    """
    found = _opened(sealed)
    mine = found.keys.get(key.did)
    if mine is None:
        others = f"These can open it: {', '.join(sorted(found.keys))}." if found.keys else None
        raise SigningKeyError(
            f"the original was not sealed for {key.did}",
            hint=others or "It is an age file: satchel --identity FILE recover.",
        )
    pair = bindings.crypto_sign_seed_keypair(key.seed)[1]
    own = PrivateKey(bindings.crypto_sign_ed25519_sk_to_curve25519(pair))
    try:
        return bytes(SecretBox(SealedBox(own).decrypt(mine)).decrypt(found.box))
    except (exceptions.CryptoError, ValueError, TypeError):
        raise MalformedError("the sealed original was changed") from None


def age_file(sealed: bytes) -> bytes | None:
    """Return what was sealed as an age file, for whom it is; None where it is for nobody of age."""
    return _opened(sealed).age or None


def open_original_with(sealed: bytes, identities: Sequence[str]) -> bytes | None:
    """Return the bytes that were sealed, by an age identity; None where none of them opens it.

    Raises:
        EncryptionError: If the age file was changed.
        MissingExtraError: If what decrypts is not installed.
    """
    found = age_file(sealed)
    return None if found is None else decrypt_bytes(found, identities)


def _opened(sealed: bytes) -> _SealedOriginal:
    try:
        return msgspec.json.decode(sealed, type=resolved(_SealedOriginal))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise MalformedError("not a sealed original") from None


def _curve(did: str) -> bytes:
    return bytes(bindings.crypto_sign_ed25519_pk_to_curve25519(public_key(did)))


def _text(data: Any) -> str:
    return base64.b64encode(bytes(data)).decode()
