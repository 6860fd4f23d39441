"""Keys and signatures: good ones, and ones that a lenient verifier would let through."""

import base64
from collections.abc import Iterator
from hashlib import sha512
from pathlib import Path
from typing import Any

from nacl import bindings

from makers.common import (
    TIME,
    did_key,
    hash_text,
    jcs,
    pae,
    payload_type,
    sign,
    signing_key,
    write_json,
)

ORDER = 2**252 + 27742317777372353535851937790883648493
FIELD = 2**255 - 19
# A point of order 8: added to a good key it gives one that an equation alone cannot tell apart.
TORSION = bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")


def statement() -> bytes:
    """Return the canonical bytes of a statement."""
    return jcs(
        {
            "format": "satchel/1",
            "created_at": TIME,
            "body_hash": hash_text(b""),
            "root_hash": hash_text(b"{}"),
            "counts": {"semantic": 2},
            "scope": {"kind": "full"},
            "metadata": {"title": "caf\u00e9 \U0001f600"},
        }
    )


def head(did: str) -> bytes:
    """Return the canonical bytes of a log head."""
    return jcs(
        {
            "v": 1,
            "bank": hash_text(b"bank"),
            "epoch": 0,
            "size": 3,
            "root": hash_text(b"root"),
            "counts": {"bank": 1, "semantic": 2},
            "at": TIME,
            "key": did,
        }
    )


def good() -> list[dict[str, Any]]:
    """Return signatures that hold."""
    cases = []
    for label in ("first", "second"):
        key = signing_key(label)
        did = did_key(bytes(key.verify_key))
        payloads = {"artifact": statement(), "head": head(did), "config": b"{}", "token": b""}
        for name, payload in payloads.items():
            cases.append(
                _case(f"{name} signed by {label}", name, payload, sign(key, name, payload))
            )
    return cases


def keys() -> list[dict[str, str]]:
    """Return fixed seeds with the keys they make."""
    cases = []
    for label in ("first", "second", "third"):
        key = signing_key(label)
        public = bytes(key.verify_key)
        cases.append(
            {
                "name": label,
                "seed": bytes(key).hex(),
                "public": public.hex(),
                "did": did_key(public),
            }
        )
    return cases


def bad_points() -> Iterator[tuple[str, bytes]]:
    """Yield public keys that must be refused before any signature is looked at."""

    def encode(y: int, sign_bit: int = 0) -> bytes:
        return (y | sign_bit << 255).to_bytes(32, "little")

    good_point = bytes(signing_key("first").verify_key)
    yield "the identity", encode(1)
    yield "the identity with a sign bit", encode(1, 1)
    yield "the point of order 2", encode(FIELD - 1)
    yield "the point of order 2 with a sign bit", encode(FIELD - 1, 1)
    yield "a point of order 4", encode(0)
    yield "the other point of order 4", encode(0, 1)
    yield "a point of order 8", TORSION
    yield "the point of order 8 with the other sign", TORSION[:31] + bytes([TORSION[31] ^ 0x80])
    yield "the identity written as p + 1", encode(FIELD + 1)
    yield "a point of order 4 written as p", encode(FIELD)
    yield "a coordinate beyond the field", encode(FIELD + 3)
    yield "every bit set", b"\xff" * 32
    yield "a point that is not on the curve", encode(2)
    yield "a good key plus a point of order 8", _mixed(good_point)


def bad_keys() -> list[dict[str, str]]:
    """Return did:key texts that must be refused."""
    public = bytes(signing_key("first").verify_key)
    did = did_key(public)
    cases = [(name, did_key(point)) for name, point in bad_points()]
    cases += [
        ("a leading 1 after the z", did.replace(":z", ":z1")),
        ("a space at the end", did + " "),
        ("a line end at the end", did + "\n"),
        ("a space in front", " " + did),
        ("a fragment", did + "#" + did[8:]),
        ("an upper case method", "DID:KEY:" + did[8:]),
        ("another multibase letter", did.replace(":z", ":Z")),
        ("no multibase letter", did.replace(":z", ":")),
        ("a letter outside base58", did[:-1] + "0"),
        ("one character less", did[:-1]),
        ("one character more", did + "1"),
        ("a key of another kind", did_key(public, b"\xe7\x01")),
        ("a prefix that is not the shortest", did_key(public, b"\xed\x81\x00")),
        ("a key of 31 bytes", did_key(public[:31])),
        ("a key of 33 bytes", did_key(public + b"\0")),
        ("no prefix", did_key(public, b"")),
        ("bare hex", public.hex()),
        ("nothing", ""),
    ]
    return [{"name": name, "did": text} for name, text in cases]


def bad_signatures() -> list[dict[str, Any]]:
    """Return signatures that must fail."""
    key = signing_key("first")
    payload = statement()
    good_one = sign(key, "artifact", payload)
    raw = base64.b64decode(good_one["sig"])
    cases = [
        ("signed as a head", sign(key, "head", payload)["sig"]),
        ("signed without its type", _text(key.sign(payload).signature)),
        ("signed with lengths in characters", _text(key.sign(_wrong_pae(payload)).signature)),
        ("signed by another key", sign(signing_key("second"), "artifact", payload)["sig"]),
        ("S is too large by the group order", _text(raw[:32] + _plus_order(raw[32:]))),
        ("R has one bit changed", _text(bytes([raw[0] ^ 1]) + raw[1:])),
        ("S has one bit changed", _text(raw[:32] + bytes([raw[32] ^ 1]) + raw[33:])),
        ("all zeros", _text(bytes(64))),
        ("R is the identity and S is zero", _text(b"\x01" + bytes(63))),
        ("one byte less", _text(raw[:-1])),
        ("one byte more", _text(raw + b"\0")),
        ("base64 without padding", good_one["sig"].rstrip("=")),
        ("base64 with bits after the end", _loose_base64(good_one["sig"])),
        ("base64 with a line end", good_one["sig"] + "\n"),
        ("base64 with a space inside", good_one["sig"][:40] + " " + good_one["sig"][40:]),
        ("base64 of the other alphabet", _url_base64(key, payload)),
        ("base64 with too much padding", good_one["sig"] + "="),
        ("hex in place of base64", raw.hex()),
        ("no signature", ""),
    ]
    failing = [
        _case(name, "artifact", payload, {"key": good_one["key"], "sig": text})
        for name, text in cases
    ]
    other = payload.replace(b'"semantic":2', b'"semantic":3')
    failing.append(_case("the payload was changed", "artifact", other, good_one))
    failing.append(_identity_nonce_case(payload))
    failing.append(_small_order_case(payload))
    failing.append(_mixed_order_case(payload))
    return failing


def _small_order_case(payload: bytes) -> dict[str, Any]:
    """Return a case with the identity as key.

    R = S * B then holds for every message, and no secret is needed to sign.
    """
    scalar = (5).to_bytes(32, "little")
    point = bindings.crypto_scalarmult_ed25519_base_noclamp(scalar)
    signature = {"key": did_key(b"\x01" + bytes(31)), "sig": _text(point + scalar)}
    return _case("the key is the identity and the equation holds", "artifact", payload, signature)


def _identity_nonce_case(payload: bytes) -> dict[str, Any]:
    """Return a case where R is the identity: who signs so gives the secret away."""
    public = bytes(signing_key("first").verify_key)
    point = b"\x01" + bytes(31)
    message = pae(payload_type("artifact"), payload)
    scalar = _challenge(point, public, message) * _secret("first") % ORDER
    signature = {"key": did_key(public), "sig": _text(point + scalar.to_bytes(32, "little"))}
    return _case("R is the identity and the equation holds", "artifact", payload, signature)


def _mixed_order_case(payload: bytes) -> dict[str, Any]:
    """Return a case with a key of mixed order.

    The equation holds when the challenge is a multiple of 8, so nonces are tried until it is.
    """
    public = _mixed(bytes(signing_key("first").verify_key))
    message = pae(payload_type("artifact"), payload)
    for nonce in range(1, 1000):
        point = bindings.crypto_scalarmult_ed25519_base_noclamp(nonce.to_bytes(32, "little"))
        challenge = _challenge(point, public, message)
        if challenge % 8 == 0:
            scalar = (nonce + challenge * _secret("first")) % ORDER
            raw = point + scalar.to_bytes(32, "little")
            # libsodium's verify alone takes it, which is the point of this case.
            bindings.crypto_sign_open(raw + message, public)
            signature = {"key": did_key(public), "sig": _text(raw)}
            name = "the key has mixed order and the equation holds"
            return _case(name, "artifact", payload, signature)
    raise AssertionError("one challenge in eight is a multiple of 8")


def _secret(label: str) -> int:
    hashed = bytearray(sha512(bytes(signing_key(label))).digest()[:32])
    hashed[0] &= 248
    hashed[31] = hashed[31] & 127 | 64
    return int.from_bytes(hashed, "little")


def _challenge(point: bytes, public: bytes, message: bytes) -> int:
    return int.from_bytes(sha512(point + public + message).digest(), "little") % ORDER


def _mixed(point: bytes) -> bytes:
    return bindings.crypto_core_ed25519_add(point, TORSION)


def _plus_order(scalar: bytes) -> bytes:
    return (int.from_bytes(scalar, "little") + ORDER).to_bytes(32, "little")


def _wrong_pae(payload: bytes) -> bytes:
    characters = len(payload.decode())
    return pae(payload_type("artifact"), payload).replace(
        b" %d {" % len(payload), b" %d {" % characters, 1
    )


def _loose_base64(text: str) -> str:
    """Return the text with one of the four bits set that 64 bytes leave unused."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = alphabet[alphabet.index(text[-3]) + 1]
    return text[:-3] + last + "=="


def _url_base64(key: Any, payload: bytes) -> str:
    raw = key.sign(pae(payload_type("artifact"), payload)).signature
    text = base64.urlsafe_b64encode(raw).decode()
    if text == _text(raw):
        raise AssertionError("choose another payload: this signature has neither + nor /")
    return text


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _case(name: str, kind: str, payload: bytes, signature: dict[str, str]) -> dict[str, Any]:
    full = payload_type(kind)
    return {
        "name": name,
        "type": full,
        "payload": payload.decode(),
        "pae_hex": pae(full, payload).hex(),
        **signature,
    }


def write(folder: Path) -> list[Path]:
    """Write ``signatures.json``."""
    value = {
        "keys": keys(),
        "signatures": good(),
        "bad_keys": bad_keys(),
        "bad_signatures": bad_signatures(),
    }
    return [write_json(folder / "signatures.json", value)]
