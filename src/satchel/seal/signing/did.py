"""Ed25519 public keys as ``did:key`` text, in the one canonical form.

Source: the did:key method, multicodec 0xed01, base58btc. A key that libsodium's valid-point
check refuses (small order, mixed order, non-canonical) is refused when it is read.
"""

from functools import lru_cache

from nacl import bindings

from satchel.errors import MalformedError

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
