"""Showing one memory, its history, and the bank in numbers."""

import json

import pytest
from bank_kit import keep
from blake3 import blake3
from msgspec.structs import replace

from satchel.admin.statistics import stats
from satchel.bank.changes import MemoryEdit, correct, forget, remember, restore, update
from satchel.bank.details import History, history, raw, show
from satchel.bank.open_bank import OpenBank
from satchel.crypto.sealed_records import seal
from satchel.errors import UnknownMemoryError, UsageError
from satchel.model.records import Erasure, Source, Status
from satchel.model.values import now


def told(found: History) -> list[tuple[str | None, str, list[str], list[str]]]:
    """Return a history in short: text, state, what differs, what was said."""
    return [
        (
            each.text,
            each.state,
            sorted(each.differs),
            [event.state for event in each.events],
        )
        for each in found.versions
    ]


def test_a_memory_is_shown_with_its_place_and_proof(bank: OpenBank) -> None:
    """The record as it was sealed, what came of it, and the head that proves it."""
    parent = keep(bank, "parent", key="k")
    child = keep(bank, "child", parents=[parent])
    newer = update(bank, parent, MemoryEdit(members={"text": "newer"})).id
    found = show(bank, parent[:14])
    assert found.record["text"] == "parent"
    assert (found.state, found.position, found.versions) == ("superseded", 2, [parent, newer])
    assert found.children == [child]
    assert (found.key, found.state) == ("k", "superseded")
    with bank.ledger.reading() as view:
        assert (found.proof.size, found.proof.root) == (view.head.size, view.head.root)
    assert show(bank, child).versions == []


def test_records_of_any_type_can_be_shown(bank: OpenBank) -> None:
    """The bank's own, too; they are no memories."""
    found = show(bank, bank.id)
    assert (found.record["type"], found.type, found.text, found.position) == ("bank", "bank", "", 0)
    with pytest.raises(UnknownMemoryError):
        show(bank, "0" * 20)


def test_the_raw_bytes_hash_to_the_id(bank: OpenBank) -> None:
    """So anybody can check them with any BLAKE3."""
    made = keep(bank, "x")
    value = json.loads(raw(bank, made))
    assert value.pop("id") == made
    again = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert f"blake3:{blake3(again.encode()).hexdigest()}" == made


def test_history_lists_each_version_and_its_changes(bank: OpenBank) -> None:
    """From any of them: when, by whom, why, what is different, and what is current."""
    one = keep(bank, "one", tags=["a"])
    two = update(bank, one, MemoryEdit(members={"text": "two"}), reason="why", actor="who").id
    three = correct(bank, two, MemoryEdit(members={"tags": None}), reason="wrong").id
    found = history(bank, one)
    for start in (one, two, three):
        found = history(bank, start)
        assert [each.id for each in found.versions] == [one, two, three]
        assert told(found) == [
            ("one", "superseded", [], ["superseded"]),
            ("two", "superseded", ["text"], ["superseded"]),
            ("two", "current", ["tags"], []),
        ]
        assert [each.corrects for each in found.versions] == [False, False, True]
        assert found.left_out == 0
    said = found.versions[0].events[0]
    assert (said.reason, said.actor, said.by) == ("why", "who", two)
    assert found.versions[2].differs == {"tags": [["a"], None]}
    assert found.versions[1].events[0].reason == "correction: wrong"


def test_history_lists_forgetting_and_restoring(bank: OpenBank) -> None:
    """Each time, in order."""
    one = keep(bank, "x")
    forget(bank, [one], reason="1")
    restore(bank, [one], reason="2")
    forget(bank, [one], reason="3")
    (version,) = history(bank, one).versions
    assert [(each.state, each.reason) for each in version.events] == [
        ("deleted", "1"),
        ("restored", "2"),
        ("deleted", "3"),
    ]
    assert version.state == "deleted"


def test_history_of_a_key_has_what_was_forgotten_in_between(bank: OpenBank) -> None:
    """Though nothing says that the later one took its place."""
    one = keep(bank, "one", key="k")
    forget(bank, [one])
    two = keep(bank, "two", key="k")
    keep(bank, "other", key="l")
    for start in (one, two):
        assert [each.id for each in history(bank, start).versions] == [one, two]


def test_a_long_history_shows_the_newest_and_counts_the_rest(bank: OpenBank) -> None:
    """What is different is told of the first that is shown, too."""
    last = [remember(bank, {"text": str(number)}, key="k").id for number in range(7)][-1]
    found = history(bank, last, limit=3)
    assert [each.text for each in found.versions] == ["4", "5", "6"]
    assert found.versions[0].differs == {"text": ["3", "4"]}
    assert found.left_out == 4
    assert history(bank, last, limit=7).left_out == 0
    with pytest.raises(UsageError):
        history(bank, last, limit=0)


def test_versions_in_a_ring_end(bank: OpenBank) -> None:
    """Attack: two records that say they took each other's place, and one that took its own."""
    one, two = keep(bank, "one"), keep(bank, "two")
    for target, by in ((one, two), (two, one), (one, one), (one, "blake3:" + "0" * 64)):
        status = Status(target=target, by=by, state="superseded", at=now())
        bank.ledger.append([seal(status)])
    found = history(bank, one)
    assert [each.id for each in found.versions] == [one, two]
    assert found.left_out == 1


def test_a_version_that_was_erased_is_counted(bank: OpenBank) -> None:
    """Its text is gone; that there was one is not."""
    one = keep(bank, "one")
    two = update(bank, one, MemoryEdit(members={"text": "two"})).id
    bank.ledger.append([seal(Erasure(entry=one, at=now()))])
    with bank.store.writing() as writing:
        (row,) = writing.get(bank.id, [one])
        writing.rewrite(bank.id, [replace(row, body=None)])
    found = history(bank, two)
    assert ([each.id for each in found.versions], found.left_out) == ([two], 1)


def test_the_numbers_are_those_of_the_bank(bank: OpenBank) -> None:
    """Current memories by type, user, product and label; the past by state."""
    one = keep(bank, "1", scope={"user": "ada"}, tags=["a", "b"], occurred_at="2020-01-01")
    keep(bank, "2", scope={"user": "ada"}, tags=["a"], type="episodic", key="k")
    keep(bank, "3", scope={"user": "bob"}, occurred_at="2021-01-01")
    update(bank, one, MemoryEdit(members={"text": "one"}))
    forget(bank, [keep(bank, "4")])
    held = keep(bank, "5")
    bank.ledger.append([seal(Status(target=held, state="quarantined", at=now()))])
    bank.ledger.append([seal(Source(provider="mem0", format="mem0", at=now()))])
    keep(bank, "6", expires_at="2020-01-01")
    found = stats(bank)
    assert (found.name, found.memories, found.held, found.imports) == ("default", 3, 1, 1)
    assert found.types == {"semantic": 2, "episodic": 1}
    assert found.users == {"ada": 2, "bob": 1}
    assert found.providers == {"satchel": 1}
    assert found.tags == {"a": 2, "b": 1}
    assert found.states == {"current": 4, "deleted": 1, "expired": 1, "superseded": 1}
    assert found.logged["semantic"] == 6
    assert found.oldest == "2020-01-01T00:00:00.000000Z"
    assert found.newest is not None
    assert found.newest > "2026"
    assert found.store_bytes is not None
    assert found.store_bytes > found.bytes > 0


def test_the_numbers_of_an_empty_bank_are_none(bank: OpenBank) -> None:
    """It has its own two records."""
    found = stats(bank)
    assert (found.records, found.memories, found.oldest, found.newest) == (2, 0, None, None)
