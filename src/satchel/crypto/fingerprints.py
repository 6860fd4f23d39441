"""What a record says, whatever its id and nonce are, as a hash (docs/spec/2-records.md, 2.7)."""

import msgspec
from blake3 import blake3

from satchel.crypto.canonical import canonical_checked

_NONCE = b'"nonce":"'
_NONCE_LENGTH = len(_NONCE) + 32 + len(b'",')


def fingerprint(identity: str, body: bytes) -> bytes:
    """Return the hash of a record without its id and nonce, 32 bytes.

    Args:
        identity: The record's id.
        body: Its canonical bytes.
    """
    member = f'"id":"{identity}",'.encode()
    start = body.find(member)
    after = start + len(member) if start >= 0 else 0
    nonce = body.find(_NONCE)
    if nonce < after or body.find(_NONCE, nonce + 1) >= 0:  # free JSON may have one of its own
        value = msgspec.json.decode(body)
        said = {name: part for name, part in value.items() if name not in ("id", "nonce")}
        return blake3(canonical_checked(said)).digest()
    before = body[:start] if start > 0 else b""
    return blake3(before + body[after:nonce] + body[nonce + _NONCE_LENGTH :]).digest()
