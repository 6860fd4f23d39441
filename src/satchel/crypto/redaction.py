"""Redaction: forms of entries with replaced values, and sealed originals to recover them.

A redacted form has no nonce, and tokens in place of the chosen values. It has the ID of the entry,
which is not that of its bytes; a redaction record in the log contains its hash. The original can be
sealed for keys, each of which opens it: in a secret box under a random key, which is in a sealed
box for each recipient (the X25519 form of their Ed25519 key), and in an age file for recipients of
age. Source: docs/spec/7, 7.2 and SEAL-7.12.
"""

import base64
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from nacl import bindings, exceptions

from satchel.crypto.canonical import canonical_checked
from satchel.crypto.keys import PayloadType, SigningKey, public_key, sign, signed_part
from satchel.crypto.sealed_records import Sealed, digest, has_valid_id, open_shape, seal
from satchel.errors import MalformedError, SigningKeyError
from satchel.model.records import TIMES, Entry, KeyId, Model, Redaction
from satchel.model.values import resolved

_KEPT = ("parent_ids", *TIMES)


def open_redacted_form(body: bytes, result: str) -> tuple[Sealed, Model]:
    """Return the redacted form with a logged hash from its canonical bytes.

    If the log says that the entry is whole again, the form is the entry.

    Raises:
        MalformedError: If the bytes have another hash.
    """
    if digest(body) != result:
        raise MalformedError("it was redacted, and is not in its logged form")
    record, model = open_shape(body)
    if not isinstance(model, Entry) or (model.nonce is not None and not has_valid_id(record)):
        raise MalformedError("not a redacted form", field="nonce")
    return record, model


def signed_redaction(draft: Redaction, key: SigningKey) -> Sealed:
    """Return a redaction record signed by a key of the bank."""
    unsigned = seal(draft)
    signatures = sign(PayloadType.REDACTION, signed_part(unsigned.value), [key])
    whole = msgspec.structs.replace(
        draft,
        nonce=unsigned.value["nonce"],
        signatures=tuple(msgspec.to_builtins(signature) for signature in signatures),
    )
    return seal(whole)


def is_redacted_form(body: bytes) -> bool:
    """Return whether canonical bytes claim to be a redacted form: they have no nonce.

    Raises:
        MalformedError: If they are not a record.
    """
    _, model = open_shape(body)
    return isinstance(model, Entry) and model.nonce is None


def require_form_of(form: Model, entry: Model) -> None:
    """Require that a form preserves what a redaction may not change.

    Raises:
        MalformedError: If ID, type, parents or times differ; ``field`` names the member.
    """
    if type(form) is not type(entry) or form.id != entry.id:
        raise MalformedError("the redacted form of another entry", field="id")
    for name in _KEPT:
        if getattr(form, name) != getattr(entry, name):
            raise MalformedError("a redaction cannot change this member", field=name)


MOST_RECIPIENTS = 64


class _SealedOriginal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    v: Literal[1]
    box: bytes = b""
    keys: dict[KeyId, bytes] = {}
    """For each recipient, the key of the box in a sealed box; in base64, like the box."""

    age: bytes = b""
    """The original as an age file, in base64."""


def seal_original(body: bytes, recipients: Sequence[str], age: Sequence[str] = ()) -> bytes:
    """Return bytes sealed for keys.

    Args:
        body: The canonical bytes of a record.
        recipients: Keys, as did:key.
        age: Recipients of age, ``age1...``.

    Raises:
        SigningKeyError: If there is no recipient, there are too many, or one is not a key.
        MissingExtraError: If there is a recipient of age, and the encryption library is not
            installed.
    """
    if not 0 < len({*recipients, *age}) <= MOST_RECIPIENTS:
        raise SigningKeyError(f"1 to {MOST_RECIPIENTS} keys can recover an original")
    value: dict[str, Any] = {"v": 1}
    if recipients:
        value |= _seal_to_keys(body, recipients)
    if age:
        from satchel.crypto.encryption import encrypt_bytes

        value["age"] = _base64(encrypt_bytes(body, age))
    return canonical_checked(value)


def _seal_to_keys(body: bytes, recipients: Sequence[str]) -> dict[str, Any]:
    from nacl.public import PublicKey, SealedBox
    from nacl.secret import SecretBox

    secret = bindings.randombytes(SecretBox.KEY_SIZE)
    keys = {
        did: _base64(SealedBox(PublicKey(_curve_key(did))).encrypt(secret))
        for did in sorted(recipients)
    }
    return {"box": _base64(bytes(SecretBox(secret).encrypt(body))), "keys": keys}


def open_original(sealed: bytes, key: SigningKey) -> bytes:
    """Return bytes that were sealed for a key; the caller verifies which record they are.

    Raises:
        SigningKeyError: If it was not sealed for this key.
        MalformedError: If it was changed.
    """
    from nacl.public import PrivateKey, SealedBox
    from nacl.secret import SecretBox

    original = _decode(sealed)
    mine = original.keys.get(key.did)
    if mine is None:
        others = (
            f"These can open it: {', '.join(sorted(original.keys))}." if original.keys else None
        )
        raise SigningKeyError(
            f"the original was not sealed for {key.did}",
            hint=others or "It is an age file: satchel --identity FILE recover.",
        )
    pair = bindings.crypto_sign_seed_keypair(key.seed)[1]
    own = PrivateKey(bindings.crypto_sign_ed25519_sk_to_curve25519(pair))
    try:
        return bytes(SecretBox(SealedBox(own).decrypt(mine)).decrypt(original.box))
    except (exceptions.CryptoError, ValueError, TypeError):
        raise MalformedError("the sealed original was changed") from None


def age_file(sealed: bytes) -> bytes | None:
    """Return the age file in sealed bytes; None if there is none."""
    return _decode(sealed).age or None


def open_original_with(sealed: bytes, identities: Sequence[str]) -> bytes | None:
    """Return the sealed bytes, decrypted with an age identity; None if none decrypts them.

    Raises:
        EncryptionError: If the age file was changed.
        MissingExtraError: If the encryption library is not installed.
    """
    from satchel.crypto.encryption import decrypt_bytes

    found = age_file(sealed)
    return None if found is None else decrypt_bytes(found, identities)


def _decode(sealed: bytes) -> _SealedOriginal:
    try:
        return msgspec.json.decode(sealed, type=resolved(_SealedOriginal))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise MalformedError("not a sealed original") from None


def _curve_key(did: str) -> bytes:
    return bytes(bindings.crypto_sign_ed25519_pk_to_curve25519(public_key(did)))


def _base64(data: Any) -> str:
    return base64.b64encode(bytes(data)).decode()
