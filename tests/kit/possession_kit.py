"""A client that proves the possession of a token, made from docs/spec alone."""

import base64
import json
from typing import Any

from blake3 import blake3
from nacl.signing import SigningKey as Ed25519

PAYLOAD_TYPE = b"application/vnd.satchel.request.v1+json"


def jcs(value: Any) -> bytes:
    """RFC 8785, for texts, small integers and ASCII keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def hash_text(data: bytes) -> str:
    """SEAL-1.25."""
    return f"blake3:{blake3(data).hexdigest()}"


def did_of(key: Ed25519) -> str:
    """SEAL-6.2: ``did:key:z`` and base58btc of ed 01 and the key."""
    alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    number, text = int.from_bytes(b"\xed\x01" + bytes(key.verify_key), "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = alphabet[digit] + text
    return f"did:key:z{text}"


def proof_of(key: Ed25519, nonce: str, **payload: Any) -> dict[str, Any]:
    """SEAL-6.27 and SEAL-3.17."""
    said = {"v": 1, "nonce": nonce, **payload}
    data = jcs(said)
    signed = b"DSSEv1 %d %b %d %b" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE, len(data), data)
    sig = base64.b64encode(key.sign(signed).signature).decode()
    return {"payload": said, "signatures": [{"key": did_of(key), "sig": sig}]}


def http_arguments(target: str, body: bytes) -> str:
    """SEAL-6.52."""
    return hash_text(jcs({"body": blake3(body).hexdigest(), "target": target}))
