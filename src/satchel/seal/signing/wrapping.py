"""A secret under a passphrase: Argon2id, XChaCha20-Poly1305."""

import base64
import binascii
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from nacl import bindings, pwhash
from nacl.exceptions import CryptoError

# libsodium's "moderate" level: about a second and 256 MiB.
_OPS, _MEMORY = pwhash.argon2id.OPSLIMIT_MODERATE, pwhash.argon2id.MEMLIMIT_MODERATE


class Wrapped(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file holds of a secret that is under a passphrase."""

    kdf: Literal["argon2id"]
    # A hostile file may not ask for more work than this.
    ops: Annotated[int, Meta(ge=1, le=16)]
    memory_bytes: Annotated[int, Meta(ge=8192, le=2**30, multiple_of=1024)]  # what is counted
    salt: str
    nonce: str
    box: str


def wrap(secret: bytes, bound: bytes, passphrase: str) -> dict[str, Any]:
    """Return a secret under a passphrase, as JSON.

    Args:
        secret: What is hidden.
        bound: What it belongs to, such as its public key; it opens beside nothing else.
        passphrase: The passphrase.
    """
    salt = bindings.randombytes(pwhash.argon2id.SALTBYTES)
    nonce = bindings.randombytes(bindings.crypto_aead_xchacha20poly1305_ietf_NPUBBYTES)
    under = pwhash.argon2id.kdf(32, passphrase.encode(), salt, _OPS, _MEMORY)
    box = bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(secret, bound, nonce, under)
    return {
        "kdf": "argon2id",
        "ops": _OPS,
        "memory_bytes": _MEMORY,
        "salt": base64.b64encode(salt).decode(),
        "nonce": base64.b64encode(nonce).decode(),
        "box": base64.b64encode(box).decode(),
    }


def unwrap(wrapped: Wrapped, bound: bytes, passphrase: str) -> bytes | None:
    """Return the secret; None where the passphrase is wrong, or the file is damaged."""
    try:
        salt, nonce, box = map(_bytes, (wrapped.salt, wrapped.nonce, wrapped.box))
        under = pwhash.argon2id.kdf(
            32, passphrase.encode(), salt, wrapped.ops, wrapped.memory_bytes
        )
        return bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(box, bound, nonce, under)
    except (binascii.Error, CryptoError, TypeError, ValueError):
        return None


def _bytes(text: str) -> bytes:
    found = base64.b64decode(text, validate=True)
    if base64.b64encode(found).decode() != text:  # bits that nobody reads
        raise ValueError("not canonical base64")
    return found
