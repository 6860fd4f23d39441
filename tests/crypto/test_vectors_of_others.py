"""Published vectors: trees, signatures, hashes, canonical JSON and CBOR are what others say."""

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
def sha256(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same tree over the hash that the vectors are made with."""
    monkeypatch.setattr(log, "blake3", hashlib.sha256)


@pytest.mark.usefixtures("sha256")
def test_roots_are_those_of_certificate_transparency() -> None:
    """RFC 6962 2.1, of the empty tree as well."""
    found = load("rfc6962_tree.json")
    leaves = [log.leaf_hash(bytes.fromhex(text)) for text in found["leaves"]]
    assert log.root_of([]).hex() == found["empty"]
    for size, root in enumerate(found["roots"], start=1):
        assert log.root_of(leaves[:size]).hex() == root


@pytest.mark.usefixtures("sha256")
def test_proofs_are_those_of_the_rfc() -> None:
    """RFC 6962 2.1.3: the nodes that it names, in its order; each holds, and no other does."""
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


def holds(key: str, message: str, signature: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return our verdict on a signature of any bytes: through the one function that checks."""
    try:
        signer = did_key(bytes.fromhex(key))
    except InputError:
        return False
    monkeypatch.setattr(keys, "pae", lambda *_: bytes.fromhex(message))
    sig = base64.b64encode(bytes.fromhex(signature)).decode()
    [found] = check(PayloadType.HEAD, {}, [Signature(key=signer, sig=sig)])
    return found.valid


def test_wycheproofs_signatures_are_judged_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Valid ones hold, no others: what it leaves open, small and mixed order, is refused."""
    cases, wrong, counts = load("wycheproof_ed25519.json")["cases"], [], Counter[str]()
    for case in cases:
        said = holds(case["key"], case["msg"], case["sig"], monkeypatch)
        counts[case["result"]] += 1
        if said is not (case["result"] == "valid"):
            wrong.append((case["id"], case["comment"], case["flags"], case["result"], said))
    assert wrong == []
    assert counts == {"valid": 117, "invalid": 64, "acceptable": 29}
    refused = {flag for case in cases if case["result"] == "acceptable" for flag in case["flags"]}
    assert {"SmallOrderPublicKey", "MixedOrderPublicKey"} <= refused


def test_signatures_of_the_authors_are_made_and_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same key, the same bytes; one bit less, and it does not hold."""
    for case in load("ed25519_sign.json")["cases"]:
        key = SigningKey.from_seed(bytes.fromhex(case["seed"]))
        assert key.did == did_key(bytes.fromhex(case["key"]))
        assert key.sign(bytes.fromhex(case["msg"])).hex() == case["sig"]
        assert holds(case["key"], case["msg"], case["sig"], monkeypatch)
        bent = case["sig"][:-2] + format(int(case["sig"][-2:], 16) ^ 1, "02x")
        assert not holds(case["key"], case["msg"], bent, monkeypatch)


_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P


def _x(y: int) -> int | None:
    """Return the even x of a point of the curve with this y; None for none."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    root = pow(square, (_P + 3) // 8, _P)
    for found in (root, root * pow(2, (_P - 1) // 4, _P) % _P):
        if found * found % _P == square:
            return found if found % 2 == 0 else _P - found
    return None


def _small() -> list[bytes]:
    """Return every encoding of the points of order 1, 2, 4 and 8, canonical or not."""
    # x = 0 or y = 0 gives the orders up to 4; of order 8 is what doubles to y = 0.
    ys = {0, 1, _P - 1}
    for start in range(2, 60):
        x = _x(start)
        if x is not None:
            ys |= _multiples(x, start)
    found = set()
    for y in ys:
        for shown in (y, y + _P):
            if shown < 2**255:
                found |= {(shown | sign << 255).to_bytes(32, "little") for sign in (0, 1)}
    return sorted(found)


def _added(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    (ax, ay), (bx, by) = one, other
    product = _D * ax * bx * ay * by
    x = (ax * by + bx * ay) * pow(1 + product, -1, _P)
    y = (ay * by + ax * bx) * pow(1 - product, -1, _P)
    return x % _P, y % _P


def _multiples(x: int, y: int) -> set[int]:
    """Return the y of all that a point times the order of the main group is, and its multiples."""
    point, sum_, left = (x, y), (0, 1), _L
    while left:
        if left & 1:
            sum_ = _added(sum_, point)
        point, left = _added(point, point), left >> 1
    found, step = set(), sum_
    for _ in range(8):
        found.add(step[1])
        step = _added(step, sum_)
    return found


def test_no_point_of_small_order_is_a_key_in_any_encoding() -> None:
    """With such a key one signature fits many messages."""
    keys = _small()
    assert len({int.from_bytes(key, "little") % 2**255 % _P for key in keys}) == 5
    assert len(keys) > 12
    for key in keys:
        with pytest.raises(InputError):
            check_point(key)


def test_no_key_is_taken_in_a_second_encoding() -> None:
    """A y of p and more is the y of another spelling."""
    for y in range(19):
        for sign in (0, 1):
            with pytest.raises(InputError):
                check_point((_P + y | sign << 255).to_bytes(32, "little"))


def test_a_signature_has_no_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    """S plus the order of the group, once or more, and an R of small order: none holds."""
    key, message = SigningKey.from_seed(b"k" * 32), b"memory"
    public = bindings.crypto_sign_seed_keypair(b"k" * 32)[0]
    made = key.sign(message)
    assert holds(public.hex(), message.hex(), made.hex(), monkeypatch)
    scalar = int.from_bytes(made[32:], "little")
    times = 1
    while (larger := scalar + times * _L) < 2**256:
        twin = made[:32] + larger.to_bytes(32, "little")
        assert not holds(public.hex(), message.hex(), twin.hex(), monkeypatch)
        times += 1
    assert times > 8
    for point in _small():
        with pytest.raises(BadSignatureError):
            bindings.crypto_sign_open(point + made[32:] + message, public)


# -- hashes and encodings --------------------------------------------------------------------------


def test_blake3_is_what_its_authors_say() -> None:
    """Around the edges of its chunks; the published vectors of ours agree."""
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


def test_canonical_json_is_what_the_rfc_says() -> None:
    """Its examples, and the numbers of its appendix."""
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


def test_cbor_is_what_the_rfc_says() -> None:
    """What we write is its encoding, and what we read is its value."""
    for text, value in load("cbor.json")["held"]:
        assert encode(value).hex() == text, value
        assert _read(bytes.fromhex(text)) == value


def test_cbor_that_has_another_encoding_or_no_place_is_refused() -> None:
    """Each value has one form; tags, bytes, undefined and endless items have none."""
    accepted = []
    for text, what in load("cbor.json")["refused"]:
        try:
            accepted.append((text, what, _read(bytes.fromhex(text))))
        except InputError:
            continue
    assert accepted == []
