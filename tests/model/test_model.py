"""The model: immutable, strict on types, and described by the schemas made from it."""

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest

from satchel.crypto.sealed_records import as_model, known_members, seal
from satchel.errors import MalformedError
from satchel.model.records import (
    DIALECT,
    ENTRY_CLASSES,
    RECORD_CLASSES,
    AnyRecord,
    Edge,
    Episodic,
    Semantic,
    SessionEvent,
    record_schemas,
)
from satchel.model.values import Component

ID, OTHER = "blake3:" + "11" * 32, "blake3:" + "22" * 32
DID = "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"
TIME = "2025-03-04T05:06:07.000000Z"
EVERY = {"user": "u", "agent": "a", "run": "r", "app": "p", "namespace": ["n", "m"]}
COMMON: dict[str, Any] = {
    "parent_ids": [ID, OTHER],
    **dict.fromkeys(
        ("created_at", "updated_at", "occurred_at", "valid_from", "valid_until", "expires_at"), TIME
    ),
    "text": "t",
    "data": [None, {"a": 1}],
    "kind": "k",
    "tags": ["x"],
    "metadata": {"m": [1.5]},
    "salience": 0.5,
    "entities": [{"name": "n", "entity_type": "person", "aliases": ["a"]}],
    "scope": EVERY,
    "sources": [{"kind": "message", "id": "7"}],
    "origin": {
        "provider": "mem0",
        "source": "s",
        "id": "i",
        "revision": "r",
        "as_written": {"x": None},
        "trust": "user",
    },
}
FULL: dict[str, dict[str, Any]] = {
    "episodic": {
        **COMMON,
        "observation": "o",
        "actor": "user",
        "event_type": "outcome",
        "context": {"c": 1},
    },
    "semantic": {
        **COMMON,
        "subject": "s",
        "predicate": "p",
        "object": "o",
        "confidence": 1,
        "source_event_ids": [ID],
    },
    "procedural": {
        **COMMON,
        "name": "n",
        "description": "d",
        "parameters": ["a", {"b": 1}],
        "body": "b",
        "language": "python",
        "preconditions": ["p", {}],
    },
    "working": {
        **COMMON,
        "goals": ["g", {"h": 1}],
        "subgoals": [{}],
        "scratch": {"n": 1},
        "pending_actions": ["a"],
    },
    "identity": {
        **COMMON,
        "persona": "p",
        "preferences": {"u": 1},
        "communication_style": {"s": 1},
        "language": "ja",
        "policies": ["p", {"q": 1}],
        "custom_instructions": "c",
    },
    "bank": {"owner_keys": [DID], "created_at": TIME, "name": "b", "forked_from": {"bank": ID}},
    "status": {"target": ID, "state": "superseded", "by": OTHER, "reason": "r", "actor": "a"},
    "source": {"provider": "p", "format": "f", "digest": ID, "trust": "imported", "batch": 3},
    "edge": {"source": ID, "target": "x", "kind": "k", "weight": 1.5, "valid_from": TIME},
    "graph_node": {"name": "n", "labels": ["l"], "properties": {"p": 1}, "scope": EVERY},
    "session_event": {"event": "fork", "session": "s", "content": [1], "created_at": TIME},
    "file_version": {"path": "p", "text": "t", "action": "renamed", "previous": ID},
    "redaction": {"entry": ID, "result": OTHER, "fields": ["/text"], "by": DID},
    "erasure": {"entry": ID, "reason": "r", "by": DID},
    "receipt": {"action": "import", "result": {"read": 1}},
    "token": {"payload": {"audience": DID}, "signatures": [{"key": DID}]},
    "config": {"action": "writer_added", "payload": {"key": DID}},
    "embedding": {"target": ID, "model": "m", "dimensions": 2, "vector": [0.5, 1]},
    "blob": {"digest": ID, "data": "YQ==", "index": 0, "of": OTHER},
}


def sealed(kind: str, **members: Any) -> dict[str, Any]:
    """Return a sealed record of a type, as JSON."""
    return seal(as_model({"type": kind, **FULL[kind], **members})).value


def test_there_is_an_example_of_every_type() -> None:
    """The other tests therefore cover the whole model."""
    assert FULL.keys() == RECORD_CLASSES.keys()
    assert set(ENTRY_CLASSES) == set(Component)


@pytest.mark.parametrize("kind", FULL)
def test_every_member_of_every_type_survives_sealing(kind: str) -> None:
    """No member is lost or renamed between the value and the bytes."""
    value = sealed(kind)
    assert value.items() >= FULL[kind].items()
    assert not value.keys() - known_members(kind)
    if kind in set(Component):
        assert value.keys() == known_members(kind)


@pytest.mark.parametrize("kind", FULL)
def test_every_schema_is_valid_and_accepts_sealed_records(kind: str) -> None:
    """The published schema of a type matches what is written."""
    schema = record_schemas()[kind]
    assert schema["$schema"] == DIALECT
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(sealed(kind))
    validator.validate(sealed(kind) | {"member_of_the_future": None})
    for missing in ("id", "nonce", "type"):
        with pytest.raises(jsonschema.ValidationError):
            validator.validate({k: v for k, v in sealed(kind).items() if k != missing})
    wrongs: list[dict[str, Any]] = [
        {"id": "x"},
        {"nonce": "A" * 32},
        {"type": "entry"},
        {"metadata": []},
    ]
    for wrong in wrongs:
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(sealed(kind) | wrong)


def test_the_published_schemas_match_the_model() -> None:
    """The files in ``schemas/`` are generated, not written by hand."""
    folder = Path(__file__).parent.parent.parent / "schemas"
    if not folder.is_dir():
        pytest.skip("the schemas are not beside the tests (an installed package)")
    published = {path.name.split(".")[0]: path for path in folder.rglob("*.json")}
    for kind, schema in record_schemas().items():
        assert json.loads(published[kind].read_text()) == json.loads(json.dumps(schema))


WRONG = [
    ("semantic", {"salience": "1.0"}, "salience"),
    ("semantic", {"salience": True}, "salience"),
    ("semantic", {"salience": 1.1}, "salience"),
    ("semantic", {"salience": -0.1}, "salience"),
    ("semantic", {"confidence": "0.5"}, "confidence"),
    ("semantic", {"text": 5}, "text"),
    ("semantic", {"text": ["x"]}, "text"),
    ("semantic", {"tags": "x"}, "tags"),
    ("semantic", {"tags": [1]}, "tags"),
    ("semantic", {"tags": {"a": 1}}, "tags"),
    ("semantic", {"metadata": []}, "metadata"),
    ("semantic", {"parent_ids": ["x"]}, "parent_ids"),
    ("semantic", {"parent_ids": [ID.upper()]}, "parent_ids"),
    ("semantic", {"parent_ids": [ID + "\n"]}, "parent_ids"),
    ("semantic", {"parent_ids": [ID, OTHER, ID]}, "parent_ids"),
    ("semantic", {"nonce": "0" * 31}, "nonce"),
    ("semantic", {"nonce": "0" * 32 + "\n"}, "nonce"),
    ("semantic", {"scope": {"user": 5}}, "scope"),
    ("semantic", {"entities": [{"entity_type": "person"}]}, "entities"),
    ("semantic", {"origin": {"trust": "root"}}, "origin"),
    ("semantic", {"sources": [{"kind": "message"}]}, "sources"),
    ("episodic", {"event_type": "rumour"}, "event_type"),
    ("procedural", {"parameters": {"a": 1}}, "parameters"),
    ("procedural", {"parameters": [["a"]]}, "parameters"),
    ("working", {"scratch": ["x"]}, "scratch"),
    ("working", {"goals": [1]}, "goals"),
    ("identity", {"persona": 5}, "persona"),
    ("bank", {"owner_keys": ["x"]}, "owner_keys"),
    ("bank", {"owner_keys": [DID + "\n"]}, "owner_keys"),
    ("bank", {"owner_keys": [DID[:-1]]}, "owner_keys"),
    ("status", {"state": "gone"}, "state"),
    ("status", {"target": None}, "target"),
    ("source", {"batch": -1}, "batch"),
    ("source", {"batch": 1.5}, "batch"),
    ("session_event", {"event": "meeting"}, "event"),
    ("file_version", {"action": "moved"}, "action"),
    ("redaction", {"fields": "text"}, "fields"),
    ("embedding", {"vector": ["1"]}, "vector"),
    ("embedding", {"dimensions": "2"}, "dimensions"),
]


@pytest.mark.parametrize(("kind", "members", "field"), WRONG, ids=str)
def test_a_member_of_the_wrong_type_is_refused_not_coerced(
    kind: str, members: dict[str, Any], field: str
) -> None:
    """``"1.0"``, ``true`` and ``1`` made three byte forms of one signed entry elsewhere."""
    with pytest.raises(MalformedError) as caught:
        as_model({"type": kind, **FULL[kind], **members})
    assert field in str(caught.value)


@pytest.mark.parametrize("kind", FULL)
def test_a_noncanonical_time_is_refused_in_every_member(kind: str) -> None:
    """The right shape is not enough: the day must exist."""
    names = [name for name in known_members(kind) if name == "at" or name.startswith("valid_")]
    names += [name for name in known_members(kind) if name.endswith("_at")]
    assert names
    for name in names:
        for wrong in ("2025-03-04T05:06:07Z", "2025-02-29T00:00:00.000000Z", TIME + "\n", 5):
            with pytest.raises(MalformedError, match=name):
                as_model({"type": kind, **FULL[kind], name: wrong})


@pytest.mark.parametrize("value", [{}, {"type": "entry"}, {"type": "note"}, {"type": 5}], ids=str)
def test_a_record_of_an_unknown_type_is_refused(value: dict[str, Any]) -> None:
    """There is no generic record to fall back to."""
    with pytest.raises(MalformedError):
        as_model(value)


def test_values_are_immutable() -> None:
    """A memory is replaced, never edited."""
    entry = Semantic(text="x")
    with pytest.raises(AttributeError):
        entry.text = "y"  # type: ignore[misc]
    assert Semantic().metadata is not Semantic().metadata


def test_members_with_default_values_are_not_written() -> None:
    """New optional members never change the IDs of existing records."""
    assert msgspec.json.encode(Semantic(text="x")) == b'{"type":"semantic","text":"x"}'
    assert msgspec.json.encode(Episodic()) == b'{"type":"episodic"}'


def test_every_type_decodes_by_its_tag() -> None:
    """One decoder reads any record."""
    for kind, cls in RECORD_CLASSES.items():
        data = json.dumps({"type": kind, **FULL[kind]})
        found = msgspec.json.decode(data, type=AnyRecord)
        assert type(found) is cls


def test_times_of_edges_and_sessions_are_validated() -> None:
    """A subclass checks its own times and the inherited ones."""
    day = "2025-02-30T00:00:00.000000Z"
    with pytest.raises(ValueError, match="valid_until"):
        Edge(source=ID, target=OTHER, kind="k", valid_until=day)
    with pytest.raises(ValueError, match="`at`"):
        Edge(source=ID, target=OTHER, kind="k", at=day)
    with pytest.raises(ValueError, match="created_at"):
        SessionEvent(event="session", created_at=day)
