"""Remember: stored members, keys, parents, and refused values."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from bank_kit import filled, keep, owner, texts, types

from satchel.bank.banks import create_bank
from satchel.bank.changes import MemoryEdit, forget, remember, update
from satchel.bank.open_bank import OpenBank
from satchel.crypto.sealed_records import seal
from satchel.errors import (
    EmptyInputError,
    LimitError,
    RetiredMemoryError,
    RolledBackError,
    SatchelError,
    UnknownMemoryError,
    UsageError,
    ValueRefusedError,
)
from satchel.model.records import Status
from satchel.model.values import now
from satchel.stores.sqlite import SqliteStore


def record_of(bank: OpenBank, identity: str) -> dict[str, Any]:
    """Return the record of a memory without ID and nonce."""
    with bank.ledger.reading() as view:
        value = view.get([identity])[identity].record.value
    return {name: part for name, part in value.items() if name not in ("id", "nonce")}


def test_a_memory_is_stored_verbatim(bank: OpenBank) -> None:
    """Every member, also unknown ones; only the time of creation is added."""
    said = {
        "type": "procedural",
        "text": " as it is \n",
        "tags": ["b", "a", "b"],
        "metadata": {"x": [1, None, {"y": 0.5}]},
        "scope": {"user": "ada", "namespace": ["n"]},
        "name": "deploy",
        "steps_of_another_version": [1],
        "occurred_at": "2026-03-01",
        "salience": 1,
        "data": {"a": 1},
    }
    done = remember(bank, said)
    found = record_of(bank, done.id)
    made = found.pop("created_at")
    assert made <= now()
    assert found == said | {"tags": ["b", "a"], "occurred_at": "2026-03-01T00:00:00.000000Z"}
    assert (done.is_new, done.replaces, done.bank, done.position) == (True, None, bank.id, 2)


def test_attack_nothing_is_stored_in_a_rolled_back_store(bank: OpenBank, tmp_path: Path) -> None:
    """An older copy of the store is refused, also for unrelated memories."""
    store = bank.ledger._store
    assert isinstance(store, SqliteStore)
    store.copy_to(tmp_path / "older.db")
    keep(bank, "tea")
    store.close()
    (tmp_path / "older.db").replace(store.path)
    for more in ({}, {"key": "drink"}):
        with pytest.raises(RolledBackError), filled() as again:
            keep(again, "milk", **more)


def test_a_memory_is_semantic_by_default(bank: OpenBank) -> None:
    """A given time of creation is accepted."""
    made = remember(bank, {"text": "x", "created_at": "2020-01-01T00:00:00+02:00", "kind": None})
    assert record_of(bank, made.id) == {
        "type": "semantic",
        "text": "x",
        "created_at": "2019-12-31T22:00:00.000000Z",
    }


def test_times_are_accepted_as_text_dates_and_datetimes(bank: OpenBank) -> None:
    """A datetime needs a time zone."""
    values = [date(2026, 3, 1), datetime(2026, 3, 1, tzinfo=UTC), "2026-03-01", "2026-03-01T00:00Z"]
    for value in values:
        made = keep(bank, f"{value!r}", occurred_at=value)
        assert record_of(bank, made)["occurred_at"] == "2026-03-01T00:00:00.000000Z"


WRONG: list[tuple[dict[str, Any], type[SatchelError], str | None]] = [
    ({}, EmptyInputError, "text"),
    ({"text": ""}, EmptyInputError, "text"),
    ({"text": " \n"}, EmptyInputError, "text"),
    ({"scope": {"user": "ada"}, "tags": []}, EmptyInputError, "text"),
    ({"text": "x", "type": "dream"}, UsageError, "type"),
    ({"text": "x", "type": ["semantic"]}, UsageError, "type"),
    ({"text": "x", "id": "blake3:" + "0" * 64}, UsageError, "id"),
    ({"text": "x", "nonce": "0" * 32}, UsageError, "nonce"),
    ({"text": "x", "occurred_at": "yesterday"}, UsageError, "occurred_at"),
    ({"text": "x", "expires_at": "2026-02-30"}, UsageError, "expires_at"),
    ({"text": "x", "valid_until": 5}, UsageError, "valid_until"),
    ({"text": "x", "valid_from": datetime(2026, 1, 1)}, UsageError, "valid_from"),  # noqa: DTZ001
    ({"text": "x", "tags": [""]}, UsageError, "tags"),
    ({"text": "x", "tags": "tea"}, UsageError, "tags"),
    ({"text": "x", "tags": 5}, UsageError, "tags"),
    ({"text": "x", "tags": [5]}, UsageError, "tags"),
    ({"text": "x", "tags": [str(n) for n in range(300)]}, LimitError, "tags"),
    ({"text": "x", "tags": ["t" * 2**20]}, LimitError, None),
    ({"text": "x" * 2**20}, LimitError, None),
    ({"text": 5}, ValueRefusedError, "text"),
    ({"text": "x", "salience": 2}, ValueRefusedError, "salience"),
    ({"text": "x", "salience": float("nan")}, ValueRefusedError, "salience"),
    ({"text": "lone \ud800 surrogate"}, ValueRefusedError, "text"),
    ({"text": "x", "tags": ["\udfff"]}, ValueRefusedError, "tags"),
    ({"text": "x", "metadata": {"a": {"b": b"bytes"}}}, ValueRefusedError, "metadata/a/b"),
    ({"text": "x", "metadata": {"a": 2**60}}, ValueRefusedError, "metadata/a"),
    ({"text": "x", "metadata": {"a": float("inf")}}, ValueRefusedError, "metadata/a"),
    ({"text": "x", "scope": {"user": 5}}, ValueRefusedError, "scope.user"),
]


@pytest.mark.parametrize(("members", "error", "field"), WRONG, ids=range(len(WRONG)))
def test_an_invalid_member_is_refused_by_name(
    bank: OpenBank, members: dict[str, Any], error: type[SatchelError], field: str | None
) -> None:
    """Nothing is written."""
    with pytest.raises(error) as raised:
        remember(bank, members)
    assert type(raised.value) is error
    assert raised.value.field == field
    assert types(bank) == ["bank", "config"]


def test_attack_a_deeply_nested_memory_is_refused(bank: OpenBank) -> None:
    """As deep as the stack."""
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueRefusedError):
        remember(bank, {"text": "x", "metadata": {"a": deep}})
    while isinstance(deep, list):
        deep = deep.pop()


@pytest.mark.parametrize("text", ["a\0b", "\x1b[2J\x9b31m\u202e", "a\u2028b", "é vs e\u0301", "🫖"])
def test_attack_control_characters_are_stored_verbatim(bank: OpenBank, text: str) -> None:
    """Memory is data, so it is not changed."""
    made = keep(bank, text, tags=[text], metadata={text: text}, key=text)
    assert record_of(bank, made)["text"] == text
    assert texts(bank, key=text, tags=[text]) == [text]


def test_remember_with_an_existing_key_replaces_the_memory(bank: OpenBank) -> None:
    """It keeps the time of creation of the first version."""
    first = remember(bank, {"text": "slow"}, key="wifi")
    second = remember(bank, {"text": "fast", "tags": ["net"]}, key="wifi", actor="agent:a")
    assert (second.replaces, second.is_new) == (first.id, True)
    assert texts(bank) == ["fast"]
    one, other = record_of(bank, first.id), record_of(bank, second.id)
    assert other["created_at"] == one["created_at"]
    assert "updated_at" not in one
    assert other["updated_at"] > one["created_at"]
    assert types(bank)[2:] == ["semantic", "semantic", "status"]
    with bank.ledger.reading() as view:
        status = view.at([4])[0].model
    assert isinstance(status, Status)
    assert (status.target, status.by, status.actor) == (first.id, second.id, "agent:a")


def test_remember_with_a_key_is_idempotent(bank: OpenBank) -> None:
    """An agent can repeat what it knows at each start."""
    first = remember(bank, {"text": "slow", "tags": ["a"]}, key="wifi")
    again = remember(bank, {"text": "slow", "tags": ["a"]}, key="wifi")
    assert (again.id, again.is_new, again.position) == (first.id, False, first.position)
    assert remember(bank, {"text": "slow", "tags": ["b"]}, key="wifi").is_new
    assert types(bank).count("semantic") == 2


def test_a_key_is_unique_per_owner_and_kind(bank: OpenBank) -> None:
    """Other owners or kinds have other memories."""
    keep(bank, "1", key="k", scope={"user": "ada"})
    keep(bank, "2", key="k", scope={"user": "bob"})
    keep(bank, "3", key="k", kind="note")
    keep(bank, "4", key="k", type="episodic")
    keep(bank, "5", key="k", type="semantic")
    assert texts(bank, key="k") == ["5", "3", "2", "1"]


def test_the_key_of_a_forgotten_memory_is_free(bank: OpenBank) -> None:
    """The forgotten memory stays forgotten."""
    first = keep(bank, "old", key="k")
    forget(bank, [first])
    done = remember(bank, {"text": "new"}, key="k")
    assert (done.replaces, texts(bank)) == (None, ["new"])


@pytest.mark.parametrize("key", ["", " "])
def test_an_empty_key_is_refused(bank: OpenBank, key: str) -> None:
    """Most likely a variable was not set."""
    with pytest.raises(UsageError) as raised:
        keep(bank, "x", key=key)
    assert raised.value.field == "key"


def test_the_origin_of_a_memory_works_as_its_key(bank: OpenBank) -> None:
    """An origin and a key together are refused."""
    origin = {"provider": "mem0", "id": "7"}
    first = keep(bank, "1", origin=origin)
    assert remember(bank, {"text": "2", "origin": origin}).replaces == first
    with pytest.raises(UsageError):
        keep(bank, "3", origin=origin, key="k")


def test_a_derived_memory_lists_its_parents(bank: OpenBank) -> None:
    """By ID or prefix, each once; also parents that have been updated since."""
    one, two = keep(bank, "1"), keep(bank, "2")
    update(bank, two, MemoryEdit(members={"text": "two"}))
    made = keep(bank, "3", parents=[one[7:15], two, one])
    assert record_of(bank, made)["parent_ids"] == [one, two]


def test_invalid_parents_are_refused(bank: OpenBank) -> None:
    """A memory of another bank, another record, a missing one, and one in quarantine."""
    create_bank(bank.settings, "other", owner())
    with filled("other") as other:
        foreign = keep(other, "foreign")
    for wrong in (foreign, bank.id, "blake3:" + "0" * 64, "0" * 12):
        with pytest.raises(UnknownMemoryError) as raised:
            keep(bank, "x", parents=[wrong])
        assert raised.value.field == "parent_ids"
    held = keep(bank, "held")
    bank.ledger.append([seal(Status(target=held, state="quarantined", at=now()))])
    with pytest.raises(RetiredMemoryError):
        keep(bank, "x", parents=[held])
