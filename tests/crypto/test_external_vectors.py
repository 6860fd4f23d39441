"""Published vectors of others: trees, signatures, hashes, canonical JSON and CBOR."""

import base64
import hashlib
import io
import json
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from nacl import bindings
from nacl.exceptions import BadSignatureError

from satchel.crypto import keys, log
from satchel.crypto.canonical import canonical, canonical_checked, check_value, number_text
from satchel.crypto.cbor import CborReader, encode
from satchel.crypto.json_reader import JsonReader
from satchel.crypto.keys import PayloadType, Signature, SigningKey, check, check_point, did_key
from satchel.errors import InputError

FOLDER = Path(__file__).parent.parent / "data" / "vectors"


def load(name: str) -> Any:
    """Return a file of vectors."""
    found = json.loads((FOLDER / name).read_text())
    assert found["origin"]
    return found


# -- trees -----------------------------------------------------------------------------------------


@pytest.fixture
def tree_of_sha256(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same tree over the hash of the vectors."""
    monkeypatch.setattr(log, "blake3", hashlib.sha256)


@pytest.mark.usefixtures("tree_of_sha256")
def test_roots_equal_those_of_certificate_transparency() -> None:
    """RFC 6962 2.1, including the empty tree."""
    found = load("rfc6962_tree.json")
    leaves = [log.leaf_hash(bytes.fromhex(text)) for text in found["leaves"]]
    assert log.root_of([]).hex() == found["empty"]
    for size, root in enumerate(found["roots"], start=1):
        assert log.root_of(leaves[:size]).hex() == root


@pytest.mark.usefixtures("tree_of_sha256")
def test_proofs_equal_those_of_rfc_6962() -> None:
    """RFC 6962 2.1.3: the stated nodes in their order; no other proof is valid."""
    found = load("rfc6962_tree.json")
    leaves = [log.leaf_hash(bytes.fromhex(text)) for text in found["leaves"][:7]]
    nodes = {name: log.root_of(leaves[slice(*of)]) for name, of in found["nodes"].items()}
    root = log.root_of(leaves)
    for text, names in found["audit"].items():
        place, path = int(text), [nodes[name] for name in names]
        assert log.audit_path(leaves, place) == path
        assert log.verify_audit_path(leaves[place], place, 7, path, root)
        assert not log.verify_audit_path(leaves[place], place, 7, path[::-1], root)
        assert not log.verify_audit_path(leaves[place], place, 7, path[:-1], root)
    for text, names in found["consistency"].items():
        size, path = int(text), [nodes[name] for name in names]
        first = log.root_of(leaves[:size])
        assert log.consistency_path(leaves, size) == path
        assert log.verify_consistency_path(size, first, 7, root, path)
        assert not log.verify_consistency_path(size, root, 7, first, path)


# -- signatures ------------------------------------------------------------------------------------


def is_valid(key: str, message: str, signature: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether a signature of any bytes is valid, by the function that checks signatures."""
    try:
        signer = did_key(bytes.fromhex(key))
    except InputError:
        return False
    monkeypatch.setattr(keys, "pae", lambda *_: bytes.fromhex(message))
    sig = base64.b64encode(bytes.fromhex(signature)).decode()
    [found] = check(PayloadType.HEAD, {}, [Signature(key=signer, sig=sig)])
    return found.valid


def test_wycheproof_signatures_have_the_stated_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small and mixed order, which it leaves open, is refused."""
    cases, wrong, counts = load("wycheproof_ed25519.json")["cases"], [], Counter[str]()
    for case in cases:
        said = is_valid(case["key"], case["msg"], case["sig"], monkeypatch)
        counts[case["result"]] += 1
        if said is not (case["result"] == "valid"):
            wrong.append((case["id"], case["comment"], case["flags"], case["result"], said))
    assert wrong == []
    assert counts == {"valid": 117, "invalid": 64, "acceptable": 29}
    refused = {flag for case in cases if case["result"] == "acceptable" for flag in case["flags"]}
    assert {"SmallOrderPublicKey", "MixedOrderPublicKey"} <= refused


def test_signatures_of_the_ed25519_authors_are_reproduced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same key gives the same bytes; with one bit changed they are invalid."""
    for case in load("ed25519_sign.json")["cases"]:
        key = SigningKey.from_seed(bytes.fromhex(case["seed"]))
        assert key.did == did_key(bytes.fromhex(case["key"]))
        assert key.sign(bytes.fromhex(case["msg"])).hex() == case["sig"]
        assert is_valid(case["key"], case["msg"], case["sig"], monkeypatch)
        bent = case["sig"][:-2] + format(int(case["sig"][-2:], 16) ^ 1, "02x")
        assert not is_valid(case["key"], case["msg"], bent, monkeypatch)


_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P


def _even_x(y: int) -> int | None:
    """Return the even x of the point of the curve with this y, or None."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    root = pow(square, (_P + 3) // 8, _P)
    for found in (root, root * pow(2, (_P - 1) // 4, _P) % _P):
        if found * found % _P == square:
            return found if found % 2 == 0 else _P - found
    return None


def _small_order_encodings() -> list[bytes]:
    """Return every encoding of the points of order 1, 2, 4 and 8, canonical or not."""
    # x = 0 or y = 0 gives the orders up to 4; of order 8 is what doubles to y = 0.
    ys = {0, 1, _P - 1}
    for start in range(2, 60):
        x = _even_x(start)
        if x is not None:
            ys |= _multiples(x, start)
    found = set()
    for y in ys:
        for shown in (y, y + _P):
            if shown < 2**255:
                found |= {(shown | sign << 255).to_bytes(32, "little") for sign in (0, 1)}
    return sorted(found)


def _sum_of_points(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    (ax, ay), (bx, by) = one, other
    product = _D * ax * bx * ay * by
    x = (ax * by + bx * ay) * pow(1 + product, -1, _P)
    y = (ay * by + ax * bx) * pow(1 - product, -1, _P)
    return x % _P, y % _P


def _multiples(x: int, y: int) -> set[int]:
    """Return the y of the point times the order of the main group, and of its multiples."""
    point, sum_, left = (x, y), (0, 1), _L
    while left:
        if left & 1:
            sum_ = _sum_of_points(sum_, point)
        point, left = _sum_of_points(point, point), left >> 1
    found, step = set(), sum_
    for _ in range(8):
        found.add(step[1])
        step = _sum_of_points(step, sum_)
    return found


def test_points_of_small_order_are_refused_as_keys_in_any_encoding() -> None:
    """With such a key one signature is valid for many messages."""
    keys = _small_order_encodings()
    assert len({int.from_bytes(key, "little") % 2**255 % _P for key in keys}) == 5
    assert len(keys) > 12
    for key in keys:
        with pytest.raises(InputError):
            check_point(key)


def test_a_second_encoding_of_a_key_is_refused() -> None:
    """A y of p or more is another spelling of a smaller y."""
    for y in range(19):
        for sign in (0, 1):
            with pytest.raises(InputError):
                check_point((_P + y | sign << 255).to_bytes(32, "little"))


def test_a_second_form_of_a_signature_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    """S plus multiples of the order of the group, and an R of small order."""
    key, message = SigningKey.from_seed(b"k" * 32), b"memory"
    public = bindings.crypto_sign_seed_keypair(b"k" * 32)[0]
    made = key.sign(message)
    assert is_valid(public.hex(), message.hex(), made.hex(), monkeypatch)
    scalar = int.from_bytes(made[32:], "little")
    times = 1
    while (larger := scalar + times * _L) < 2**256:
        twin = made[:32] + larger.to_bytes(32, "little")
        assert not is_valid(public.hex(), message.hex(), twin.hex(), monkeypatch)
        times += 1
    assert times > 8
    for point in _small_order_encodings():
        with pytest.raises(BadSignatureError):
            bindings.crypto_sign_open(point + made[32:] + message, public)


# -- hashes and encodings --------------------------------------------------------------------------


def test_blake3_equals_the_vectors_of_its_authors() -> None:
    """Around the edges of its chunks; the published vectors of Satchel agree."""
    ours = json.loads((FOLDER.parent.parent / "vectors" / "blake3.json").read_text())["cases"]
    by_length = {case["length"]: case["hash"] for case in ours}
    for length, expected in load("blake3.json")["cases"]:
        data = (bytes(range(251)) * (length // 251 + 1))[:length]
        assert blake3(data).hexdigest() == expected
        assert by_length.get(length, expected) == expected


def _read_json(text: str) -> Any:
    reader = JsonReader(io.BytesIO(text.encode()), "vector")
    value = reader.value()
    reader.end()
    return check_value(value)


def test_canonical_json_equals_the_examples_of_rfc_8785() -> None:
    """Including the numbers of its appendix."""
    found = load("jcs.json")
    for text, expected in found["texts"]:
        assert canonical_checked(json.loads(text)).decode() == expected
    large, sorted_ = (text for text, _ in found["texts"])
    assert canonical(_read_json(sorted_)).decode() == found["texts"][1][1]
    with pytest.raises(InputError, match="integral"):
        _read_json(large)
    for bits, expected in found["numbers"]:
        (number,) = struct.unpack(">d", bytes.fromhex(bits))
        assert number_text(number) == expected
    for bits in found["not_numbers"]:
        (number,) = struct.unpack(">d", bytes.fromhex(bits))
        with pytest.raises(InputError):
            canonical(number)


def _read(data: bytes) -> Any:
    reader = CborReader(io.BytesIO(data), "vector", again=io.BytesIO(data))
    value = reader.value()
    reader.end()
    return value


def test_cbor_equals_the_examples_of_rfc_8949() -> None:
    """Written items have its encoding, and items that are read have its value."""
    for text, value in load("cbor.json")["held"]:
        assert encode(value).hex() == text, value
        assert _read(bytes.fromhex(text)) == value


def test_cbor_of_another_encoding_or_without_a_json_value_is_refused() -> None:
    """A value has one form; tags, bytes, undefined and indefinite items are refused."""
    accepted = []
    for text, what in load("cbor.json")["refused"]:
        try:
            accepted.append((text, what, _read(bytes.fromhex(text))))
        except InputError:
            continue
    assert accepted == []
