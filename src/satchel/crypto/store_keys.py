"""The key of a store that is encrypted at rest: a random one, which a file holds encrypted.

Whoever can open that file, with an identity or a passphrase, can open the store; nobody else.
"""

import io
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec
from blake3 import blake3
from msgspec import Meta
from nacl.bindings import randombytes

from satchel.crypto.age import Lock, Unlocker, decrypt, encrypt
from satchel.crypto.canonical import canonical, decode_canonical
from satchel.errors import EncryptionError, MalformedError
from satchel.model.values import resolved

FORMAT = "satchel-store-key/1"
KEY_BYTES = 32
MOST_BYTES = 65_536
"""Bytes of a file with a key, which may be for many recipients."""

_MOST_OPENED = 64
_NAME = "the key of the store"

_opened: dict[bytes, "StoreKey"] = {}
"""By the digest of what its file holds: nobody is asked for a passphrase twice, and Argon2id is
computed once, however often a program opens its store."""


class _StoredKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is encrypted in the file of a key."""

    format: Literal["satchel-store-key/1"]
    key: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True)
class StoreKey:
    """The key of a store, and what its file holds."""

    secret: bytes = field(repr=False)
    """32 random bytes."""

    held: bytes = field(repr=False)
    """The key as it is kept, encrypted."""


def new_store_key(lock: Lock) -> StoreKey:
    """Make a key that opens for a lock.

    Raises:
        MissingExtraError: If what encrypts is not installed.
    """
    secret, held = randombytes(KEY_BYTES), io.BytesIO()
    encrypt(io.BytesIO(canonical({"format": FORMAT, "key": secret.hex()})), held, lock)
    return _noted(StoreKey(secret, held.getvalue()))


def opened_store_key(held: bytes, unlocking: Unlocker) -> StoreKey:
    """Return the key in what a file holds.

    Raises:
        EncryptionError: If nothing here opens it, or it was cut or altered.
        MalformedError: If it holds no key.
        MissingExtraError: If what decrypts is not installed.
    """
    known = _opened.get(blake3(held).digest())
    if known is not None:
        return known
    opened = io.BytesIO()
    try:
        decrypt(io.BytesIO(held), opened, unlocking)
    except EncryptionError as error:
        raise EncryptionError(
            error.message.replace("the encrypted file", _NAME).replace("the file", _NAME),
            hint="Pass an identity it was encrypted to: satchel --identity FILE. For a passphrase:"
            " SATCHEL_FILE_PASSPHRASE, satchel --passphrase-file FILE, or a terminal.",
        ) from error
    try:
        found = msgspec.convert(decode_canonical(opened.getvalue()), resolved(_StoredKey))
    except (msgspec.ValidationError, MalformedError):
        raise MalformedError("not a store key") from None
    return _noted(StoreKey(bytes.fromhex(found.key), held))


def _noted(key: StoreKey) -> StoreKey:
    while len(_opened) >= _MOST_OPENED:
        _opened.pop(next(iter(_opened)), None)
    _opened[blake3(key.held).digest()] = key
    return key
