"""Heads and leaves of a log: what is signed, and the proof that a record was recorded."""

from typing import Any

import msgspec
import pytest

from satchel.crypto.canonical import canonical
from satchel.crypto.keys import PayloadType, SigningKey, sign
from satchel.crypto.log import (
    Head,
    LeafProof,
    check_head,
    leaf_hash,
    parse_head,
    record_leaf,
    sign_head,
)
from satchel.errors import MalformedError

ID, ROOT = "blake3:" + "11" * 32, "blake3:" + "22" * 32
TIME = "2025-03-04T05:06:07.000000Z"


def head_of(key: SigningKey, **members: Any) -> Head:
    """Return a head that ``key`` may sign."""
    fields: dict[str, Any] = {
        "v": 1,
        "bank": ID,
        "epoch": 0,
        "size": 3,
        "root": ROOT,
        "counts": {"bank": 1, "semantic": 2},
        "at": TIME,
        "key": key.did,
    }
    return Head(**fields | members)


def test_a_leaf_covers_bank_position_type_id_and_time() -> None:
    """A record moved to another bank, position, type or time has another leaf."""
    row = [ID, 7, "semantic", ROOT, TIME]
    assert record_leaf(ID, 7, "semantic", ROOT, TIME) == leaf_hash(canonical(row))
    proof = LeafProof(id=ROOT, seq=7, type="semantic", at=TIME, path=["ab" * 32])
    assert proof.leaf(ID) == leaf_hash(canonical(row))
    assert proof.path_bytes() == [b"\xab" * 32]
    leaves = {
        record_leaf(ID, 7, "semantic", ROOT, TIME),
        record_leaf(ROOT, 7, "semantic", ROOT, TIME),
        record_leaf(ID, 8, "semantic", ROOT, TIME),
        record_leaf(ID, 7, "episodic", ROOT, TIME),
        record_leaf(ID, 7, "semantic", ID, TIME),
        record_leaf(ID, 7, "semantic", ROOT, TIME.replace("7.", "8.")),
    }
    assert len(leaves) == 6


def test_a_signed_head_is_read_back_and_verified(key: SigningKey) -> None:
    """The head in a statement is the JSON that was signed."""
    value = sign_head(head_of(key), key)
    found = parse_head(value)
    assert found.signed == head_of(key)
    assert check_head(value, found).valid


def test_a_head_is_signed_only_by_the_key_that_it_names(key: SigningKey) -> None:
    """A valid signature of another key is no evidence for this log."""
    other = SigningKey.generate()
    with pytest.raises(ValueError, match="key"):
        sign_head(head_of(other), key)
    payload = msgspec.to_builtins(head_of(key))
    value = {
        "signed": payload,
        "signatures": msgspec.to_builtins(sign(PayloadType.HEAD, payload, [other])),
    }
    assert not check_head(value, parse_head(value)).valid
    renamed = {**value, "signatures": [{**value["signatures"][0], "key": key.did}]}
    assert not check_head(renamed, parse_head(renamed)).valid
    none = {**value, "signatures": []}
    assert not check_head(none, parse_head(none)).valid


def test_a_signature_of_another_payload_type_is_not_a_head(key: SigningKey) -> None:
    """The type is part of what is signed."""
    payload = msgspec.to_builtins(head_of(key))
    signatures = msgspec.to_builtins(sign(PayloadType.ARTIFACT, payload, [key]))
    value = {"signed": payload, "signatures": signatures}
    assert not check_head(value, parse_head(value)).valid


@pytest.mark.parametrize("member", ["bank", "epoch", "size", "root", "counts", "at", "key"])
def test_every_changed_member_of_a_head_breaks_its_signature(key: SigningKey, member: str) -> None:
    """Every member of a head is signed."""
    value = sign_head(head_of(key), key)
    changed: dict[str, Any] = {
        "bank": {"bank": ROOT},
        "epoch": {"epoch": 1},
        "size": {"size": 4, "counts": {"bank": 1, "semantic": 3}},
        "root": {"root": ID},
        "counts": {"counts": {"bank": 2, "semantic": 1}},
        "at": {"at": TIME.replace("2025", "2026")},
        "key": {"key": SigningKey.generate().did},
    }
    value["signed"] = value["signed"] | changed[member]
    assert not check_head(value, parse_head(value)).valid


@pytest.mark.parametrize(
    "members",
    [
        {"v": 2},
        {"v": "1"},
        {"size": -1},
        {"size": 4},
        {"size": 3.0},
        {"epoch": "0"},
        {"counts": {"bank": 3.5}},
        {"counts": {"bank": -1, "semantic": 4}},
        {"counts": []},
        {"bank": "x"},
        {"root": ROOT + "\n"},
        {"at": "2025-02-30T00:00:00.000000Z"},
        {"note": "x"},
        {"key": None},
    ],
    ids=str,
)
def test_a_head_of_another_shape_is_malformed(key: SigningKey, members: dict[str, Any]) -> None:
    """Types are strict; an unsigned or unknown member is refused."""
    value = sign_head(head_of(key), key)
    value["signed"] = value["signed"] | members
    if members == {"size": 3.0}:
        value["signed"]["size"] = 3.5
    with pytest.raises(MalformedError):
        parse_head(value)


@pytest.mark.parametrize("value", [None, [], {}, "x", {"signed": {}}, {"signatures": []}], ids=str)
def test_an_invalid_envelope_is_malformed(value: Any) -> None:
    """Each fault raises a typed error."""
    with pytest.raises(MalformedError):
        parse_head(value)


def test_two_signatures_of_a_head_are_malformed(key: SigningKey) -> None:
    """A threshold does not apply to heads: there is one signature."""
    value = sign_head(head_of(key), key)
    value["signatures"] = [*value["signatures"], *value["signatures"]]
    with pytest.raises(MalformedError):
        parse_head(value)


@pytest.mark.parametrize(
    "members",
    [
        {"path": ["AB" * 32]},
        {"path": ["ab" * 31]},
        {"path": ["ab" * 32 + "\n"]},
        {"path": ["ab" * 32] * 65},
        {"path": "ab" * 32},
        {"seq": -1},
        {"seq": "1"},
        {"id": "x"},
        {"note": 1},
    ],
    ids=range(9),
)
def test_an_audit_path_of_another_shape_is_refused(members: dict[str, Any]) -> None:
    """A path has one spelling, and at most as many steps as a log can have levels."""
    good = {"id": ID, "seq": 1, "type": "semantic", "at": TIME, "path": ["ab" * 32] * 64}
    assert len(msgspec.convert(good, LeafProof).path_bytes()) == 64
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(good | members, LeafProof)
