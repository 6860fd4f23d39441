"""Records and their ids, computed from the value as written by any writer."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from satchel.crypto import sealed_records
from satchel.crypto.canonical import Limits, canonical
from satchel.crypto.sealed_records import (
    Sealed,
    as_model,
    derive,
    digest,
    has_valid_id,
    known_members,
    open_record,
    open_shape,
    random_nonce,
    seal,
    seeded_nonces,
)
from satchel.errors import LimitError, MalformedError, SatchelError, UsageError, ValueRefusedError
from satchel.model.records import Episodic, Semantic, Status

ID, OTHER = "blake3:" + "11" * 32, "blake3:" + "22" * 32
TIME = "2025-03-04T05:06:07.000000Z"


def foreign(**members: Any) -> dict[str, Any]:
    """Return a record as another writer might make it, with its correct id."""
    value = {"type": "semantic", "nonce": "0" * 32, **members}
    return {**value, "id": digest(canonical(value))}


def test_an_id_is_the_hash_of_all_other_members() -> None:
    """Anyone can recompute it with a JCS writer and BLAKE3."""
    record = seal(Semantic(text="tea"))
    value = json.loads(record.body)
    identity = value.pop("id")
    assert identity == record.id == digest(canonical(value))
    assert record.value["nonce"] == value["nonce"]
    assert len(value["nonce"]) == 32


def test_the_same_memory_sealed_twice_has_two_ids() -> None:
    """The nonce keeps the text from being guessed from the id."""
    assert seal(Semantic(text="tea")).id != seal(Semantic(text="tea")).id


@pytest.mark.parametrize(
    "members",
    [
        {"text": "x", "mood": "calm", "a_first": {"id": ID}, "zz": [1, {"type": "x"}]},
        {"text": "x", "kind": None, "tags": [], "metadata": {}, "mood": None},
        {"text": "x", "scope": {"user": "u", "tenant": "t"}},
        {"text": "x", "origin": {"provider": "p", "seen": 1.5}},
        {"text": "x", "metadata": {"n": 1e-7, "m": 9.7e-06}},
        {"text": "x", "salience": 1, "confidence": 0},
        {"text": "x", "metadata": {"\U0001f600": 1, "\ufb33": 2}},
        {"data": None, "text": ""},
        {"text": "x", "": "the empty name", "\u0000": 1},
    ],
    ids=str,
)
def test_a_foreign_record_is_hashed_unchanged(members: dict[str, Any]) -> None:
    """Unknown, null and empty members are preserved, and the id is valid."""
    value = foreign(**members)
    line = canonical(value)
    record, model = open_record(line)
    assert record.body == line
    assert record.value == value
    assert model.id == record.id == value["id"]
    assert record.unknown == {
        k: v for k, v in members.items() if k not in known_members("semantic")
    }


def test_omitting_a_foreign_null_invalidates_the_id() -> None:
    """The id covers the value, not a model that drops nulls."""
    value = foreign(text="x", kind=None)
    del value["kind"]
    with pytest.raises(MalformedError, match="ID does not match"):
        open_record(canonical(value))


@pytest.mark.parametrize(
    "metadata",
    [
        {"id": ID},
        {"a": {"id": ID}, "b": [{"id": ID, "x": 1}, {"a": 1, "id": ID}]},
        {"id": "7", "text": '"id":"' + ID + '"'},
        {"a": f'{{"id":"{ID}"}}'},
    ],
    ids=str,
)
def test_a_nested_id_is_content(metadata: dict[str, Any]) -> None:
    """Only the top-level id is the record's own, even if a nested one has the same text."""
    record, _ = open_record(canonical(foreign(text="x", metadata=metadata)))
    assert has_valid_id(record)
    # The same text as the record's own id, in another member.
    value = foreign(text="x", metadata=json.loads(json.dumps(metadata).replace(ID, record.id)))
    record, _ = open_record(canonical(value))
    assert has_valid_id(record)
    moved = {**value, "data": {"id": value["id"]}}
    assert not has_valid_id(Sealed(value["id"], "semantic", canonical(moved)))
    moved["id"] = ID
    assert not has_valid_id(Sealed(ID, "semantic", canonical(moved)))


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.sampled_from(
    ["a", "id", "ie", "ic", "i", "zz", "text"]
)
parts = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([ID, "id", '"id":"x"', ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(names, parts, max_size=4))
@example({})
@example({"i": {"id": OTHER}, "ic": '"id":"x",'})
@example({"i": {"id": ID}})
def test_cutting_the_id_out_of_the_bytes_equals_encoding_without_it(value: dict[str, Any]) -> None:
    """For all records; a record with its own id in another member is invalid."""
    rest = {**value, "type": "x"}
    rest.pop("id", None)
    identity = digest(canonical(rest))
    assert (
        sealed_records.hash_without_id(canonical({**rest, "id": identity}), identity).hex()
        == identity[7:]
    )
    named = Sealed(identity, "x", canonical({**rest, "id": identity, "ia": {"id": identity}}))
    assert not has_valid_id(named)


@given(st.dictionaries(names, parts, max_size=4), st.text(max_size=8).filter(str.isascii))
def test_every_sealed_draft_is_opened_as_the_same_record(
    metadata: dict[str, Any], text: str
) -> None:
    """For all drafts: the sealed bytes are canonical, have their id, and are read back."""
    unknown = {"zz_unknown": metadata, "yy": text}
    record = seal(Semantic(text=text, metadata=metadata, tags=("a",)), unknown=unknown)
    opened, model = open_record(record.body)
    assert opened == record
    assert isinstance(model, Semantic)
    assert (model.text, model.metadata) == (text, metadata)
    assert record.model == model


@pytest.mark.parametrize(
    "members",
    [
        {"text": "x"},
        {"text": "x", "kind": None, "metadata": {"a": None}},
        {"text": "x", "later": [1], "data": {"n": 1e-7, "m": [0.5, 10**15]}},
        {"text": "x", "salience": 1, "confidence": 0.25},
        {"text": "x", "metadata": {"\U0001f600": 1, "\ufb01": 2}},
    ],
    ids=["plain", "nulls", "unknown and odd numbers", "whole number", "keys beyond the BMP"],
)
def test_the_typed_value_of_a_record_equals_its_json(members: dict[str, Any]) -> None:
    """Also where it is decoded directly from the bytes."""
    record, _ = open_record(canonical(foreign(**members)))
    assert record.model == as_model(record.value)


def test_a_record_of_any_type_is_sealed() -> None:
    """Ids are not limited to entries."""
    record = seal(Status(target=ID, state="deleted", at=TIME))
    opened, model = open_record(record.body)
    assert (opened.type, model) == ("status", record.model)


def test_a_draft_with_a_wrong_id_is_refused() -> None:
    """An id is computed, never an input, so nobody can seal a record with another record's id."""
    with pytest.raises(ValueRefusedError, match="id"):
        seal(Semantic(id=ID, text="x"))
    record = seal(Semantic(text="x"))
    model = record.model
    assert seal(model) == record


def test_empty_unknown_members_are_not_written() -> None:
    """The rule for empty members applies to known and unknown members."""
    record = seal(Semantic(text="x"), unknown={"a": None, "b": [], "c": {}, "d": "", "e": False})
    assert record.unknown == {"d": "", "e": False}


@pytest.mark.parametrize("name", ["text", "id", "nonce", "type", "parent_ids"])
def test_an_unknown_member_cannot_take_a_known_name(name: str) -> None:
    """An unknown member cannot bypass the checks of the model."""
    with pytest.raises(ValueRefusedError):
        seal(Semantic(), unknown={name: "x"})


@pytest.mark.parametrize(
    "draft",
    [
        Semantic(salience=7),
        Semantic(text=5),  # type: ignore[arg-type]
        Semantic(text=True),  # type: ignore[arg-type]
        Semantic(tags=(1,)),  # type: ignore[arg-type]
        Semantic(metadata=(1, 2)),  # type: ignore[arg-type]
        Episodic(event_type="rumour"),  # type: ignore[arg-type]
        Status(target="x", state="deleted"),
        Status(target=ID, state="gone"),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_an_invalid_draft_is_not_sealed(draft: Any) -> None:
    """Python does not check the types of a value; sealing does."""
    with pytest.raises(ValueRefusedError):
        seal(draft)


@pytest.mark.parametrize("member", [{"parent_ids": ("x",)}, {"nonce": "zz"}, {"id": "blake3:x"}])
def test_an_entry_with_a_malformed_id_or_nonce_cannot_be_created(member: dict[str, Any]) -> None:
    """The class itself checks ids and nonces."""
    with pytest.raises(ValueError, match=next(iter(member))):
        Semantic(**member)


def malformed_lines() -> list[bytes]:
    """Return lines that are not valid records."""
    good = foreign(text="x")
    line = canonical(good)
    return [
        b"",
        b"[]",
        b'"x"',
        b"null",
        line + b"\n",
        line.replace(b":", b": ", 1),
        line.replace(b'"text":"x"', b'"text":"\\u0078"'),
        line.replace(b'"text":"x"', b'"text":"x","text":"x"'),
        line.replace(b'"text":"x"', b'"text":"y"'),
        canonical({k: v for k, v in good.items() if k != "id"}),
        canonical({k: v for k, v in good.items() if k != "type"}),
        canonical({**good, "type": "note"}),
        canonical({**good, "id": "blake3:" + good["id"][7:].upper()}),
        canonical({**good, "id": None}),
        canonical({**good, "id": good["id"] + "\n"}),
        canonical({**good, "nonce": "0" * 31 + "g"}),
        b'{"type":"semantic","id":"' + ID.encode() + b'"}',
        b"\xff",
        b'{"a":' * 100_000,
    ]


@pytest.mark.parametrize("line", malformed_lines(), ids=range(len(malformed_lines())))
def test_a_malformed_record_line_is_refused(line: bytes) -> None:
    """Each fault raises a typed error."""
    with pytest.raises(MalformedError):
        open_record(line)


def test_the_shape_of_a_record_can_be_verified_without_its_id() -> None:
    """A redacted form has the id of the entry that it replaces."""
    form = canonical({"id": ID, "text": "[REDACTED:name:1]", "type": "semantic"})
    record, model = open_shape(form)
    assert (record.id, model.nonce) == (ID, None)
    with pytest.raises(MalformedError):
        open_record(form)


def test_records_are_limited_in_size_and_members() -> None:
    """At each limit and one over it, for writing and reading."""
    limits = Limits(entry_bytes=400, parents=1, tags=2, metadata_keys=2)
    size = len(seal(Semantic(text="")).body)
    bounds: list[tuple[Any, Any, str | None]] = [
        (Semantic(text="x" * (400 - size)), Semantic(text="x" * (401 - size)), None),
        (Semantic(parent_ids=(ID,)), Semantic(parent_ids=(ID, OTHER)), "parent_ids"),
        (Semantic(tags=("a", "b")), Semantic(tags=("a", "b", "c")), "tags"),
        (
            Semantic(metadata={"a": 1, "b": 1}),
            Semantic(metadata={"a": 1, "b": 1, "c": 1}),
            "metadata",
        ),
    ]
    for good, bad, field in bounds:
        open_record(seal(good, limits=limits).body, limits=limits)
        with pytest.raises(LimitError) as caught:
            seal(bad, limits=limits)
        assert caught.value.field == field
        with pytest.raises(LimitError):
            open_record(seal(bad).body, limits=limits)


def test_seeded_nonces_are_repeatable() -> None:
    """A resumed import gives the same ids; another seed, or no seed, gives others."""
    first, again, other = (seeded_nonces(seed) for seed in (b"s" * 32, b"s" * 32, b"t" * 32))
    row = [first() for _ in range(1000)]
    assert row == [again() for _ in range(1000)]
    assert len(set(row)) == 1000
    assert all(len(nonce) == 32 and int(nonce, 16) >= 0 for nonce in row)
    assert not set(row) & {other() for _ in range(1000)}
    assert random_nonce() != random_nonce()
    one, two = (seal(Semantic(text="x"), nonces=seeded_nonces(b"s" * 32)) for _ in range(2))
    assert one == two


def test_derive_makes_a_new_entry_with_all_its_parents() -> None:
    """Provenance is written with the memory, and parents do not change."""
    first, second = seal(Episodic(observation="a")), seal(Semantic(text="b"))
    fields = {"type": "semantic", "text": "c", "tags": ["t"], "mood": "calm", "created_at": TIME}
    child = derive([first, second], fields)
    opened, model = open_record(child.body)
    assert isinstance(model, Semantic)
    assert model.parent_ids == (first.id, second.id)
    assert (model.text, model.created_at, opened.unknown) == ("c", TIME, {"mood": "calm"})
    assert derive([first], {"type": "semantic", "text": "c"}).model.id != child.id


def test_a_derived_entry_has_the_current_time_by_default() -> None:
    """``created_at`` is set when it is not given."""
    made = derive([seal(Semantic(text="a"))], {"type": "working"})
    assert made.value["created_at"].endswith("Z")


def test_derive_refuses_invalid_parents_and_members() -> None:
    """No parent, a parent that is not a memory, no type, an invalid member."""
    parent, status = seal(Semantic(text="a")), seal(Status(target=ID, state="deleted"))
    cases: list[tuple[list[Sealed], dict[str, Any], type[SatchelError]]] = [
        ([], {"type": "semantic"}, UsageError),
        ([status], {"type": "semantic"}, UsageError),
        ([parent], {"type": "status"}, UsageError),
        ([parent], {}, UsageError),
        ([parent], {"type": ["semantic"]}, UsageError),
        ([parent, parent], {"type": "semantic"}, MalformedError),
        ([parent], {"type": "semantic", "text": 5}, MalformedError),
        ([parent], {"type": "semantic", "created_at": "today"}, MalformedError),
        ([parent], {"type": "semantic", "id": ID}, ValueRefusedError),
        ([parent], {"type": "semantic", "metadata": {"a": b"x"}}, ValueRefusedError),
    ]
    for parents, fields, error in cases:
        with pytest.raises(error):
            derive(parents, fields)
    forged = derive([parent], {"type": "semantic", "parent_ids": [ID]})
    assert forged.value["parent_ids"] == [parent.id]


def test_two_records_are_equal_when_their_bytes_are() -> None:
    """The repr of a record contains no content."""
    record = seal(Semantic(text="secret"))
    again, _ = open_record(record.body)
    assert record == again
    assert len({record, again}) == 1
    assert record != Sealed(record.id, record.type, record.body + b" ")
    assert record != record.body
    assert "secret" not in repr(record)


def test_a_null_counts_as_absent_only_at_the_top() -> None:
    """Inside a record null is data."""
    model = as_model({"type": "semantic", "kind": None, "metadata": {"a": None}, "data": [None]})
    assert isinstance(model, Semantic)
    assert (model.kind, model.metadata, model.data) == (None, {"a": None}, [None])
