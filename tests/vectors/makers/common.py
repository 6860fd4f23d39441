"""What all makers share: canonical bytes, hashes, records, keys, files."""

import base64
import json
from pathlib import Path
from typing import Any

import cbor2
import rfc8785
from blake3 import blake3
from nacl.signing import SigningKey

MAX_INTEGER = 2**53 - 1
MAX_DEPTH = 64
TIME = "2025-03-04T05:06:07.000000Z"
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def plain_numbers(value: Any) -> Any:
    """Return the value with integral floats as integers, so that JSON and CBOR agree."""
    if isinstance(value, float) and value.is_integer():
        if abs(value) > MAX_INTEGER:
            raise ValueError(f"integral and beyond 2^53-1: {value!r}")
        return int(value)
    if isinstance(value, list):
        return [plain_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: plain_numbers(item) for key, item in value.items()}
    return value


def jcs(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a JSON value."""
    return rfc8785.dumps(plain_numbers(value))


def cbor(value: Any) -> bytes:
    """Return the deterministic CBOR of a JSON value."""
    return cbor2.dumps(plain_numbers(value), canonical=True)


def digest(data: bytes) -> bytes:
    """Return BLAKE3-256."""
    return blake3(data).digest()


def hash_text(data: bytes) -> str:
    """Return BLAKE3-256 as it is written in records and statements."""
    return "blake3:" + digest(data).hex()


def fixed_nonce(label: str) -> str:
    """Return the nonce a test record has; real ones are random."""
    return digest(b"satchel test nonce " + label.encode()).hex()[:32]


def record_id(record: dict[str, Any]) -> str:
    """Return the id: the hash of the canonical bytes without the top-level ``id``."""
    return hash_text(jcs({key: item for key, item in record.items() if key != "id"}))


def make_record(kind: str, label: str, /, **members: Any) -> dict[str, Any]:
    """Return a record with a fixed nonce and its id."""
    record = {"type": kind, "nonce": fixed_nonce(label), **members}
    record["id"] = record_id(record)
    return record


def signing_key(label: str) -> SigningKey:
    """Return the key pair that belongs to a label."""
    return SigningKey(digest(b"satchel test seed " + label.encode()))


def base58(data: bytes) -> str:
    """Return base58btc text, a leading zero byte as ``1``."""
    number = int.from_bytes(data, "big")
    digits = ""
    while number:
        number, rest = divmod(number, 58)
        digits = BASE58[rest] + digits
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + digits


def did_key(public: bytes, prefix: bytes = b"\xed\x01") -> str:
    """Return the did:key of a public key."""
    return "did:key:z" + base58(prefix + public)


def payload_type(name: str) -> str:
    """Return the full type text that is signed with a payload."""
    return f"application/vnd.satchel.{name}.v1+json"


def pae(kind: str, payload: bytes) -> bytes:
    """Return the DSSE pre-authentication encoding; lengths count bytes."""
    name = kind.encode()
    return b"DSSEv1 %d %s %d %s" % (len(name), name, len(payload), payload)


def sign(key: SigningKey, name: str, payload: bytes) -> dict[str, str]:
    """Return the signature object of a payload."""
    signature = key.sign(pae(payload_type(name), payload)).signature
    did = did_key(bytes(key.verify_key))
    return {"key": did, "sig": base64.b64encode(signature).decode()}


def write_json(path: Path, value: Any) -> Path:
    """Write a vector file: ASCII only, so that no editor or locale can change a case."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(json.dumps(value, indent=1, ensure_ascii=True).encode() + b"\n")
    return path
