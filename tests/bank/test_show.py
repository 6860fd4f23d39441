"""Show a memory, its history, and statistics of the bank."""

import json

import pytest
from bank_kit import filled, keep, owner
from blake3 import blake3
from msgspec.structs import replace

from satchel.admin.statistics import stats
from satchel.bank.changes import MemoryEdit, correct, forget, remember, restore, update
from satchel.bank.connections import writer_key
from satchel.bank.details import History, history, raw, show
from satchel.bank.listings import ListRequest, list_memories
from satchel.bank.open_bank import OpenBank
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal
from satchel.erasure.redaction import redact
from satchel.erasure.selection import RedactOptions
from satchel.errors import UnknownMemoryError, UsageError
from satchel.model.records import Erasure, Source, Status
from satchel.model.values import now


def summary(found: History) -> list[tuple[str | None, str, list[str], list[str]]]:
    """Return text, state, changed members and events of each version."""
    return [
        (
            each.text,
            each.state,
            sorted(each.differs),
            [event.state for event in each.events],
        )
        for each in found.versions
    ]


def test_a_memory_is_shown_with_its_position_and_proof(bank: OpenBank) -> None:
    """With versions, children, and the head that proves it."""
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
    """Also the bank's own."""
    found = show(bank, bank.id)
    assert (found.record["type"], found.type, found.text, found.position) == ("bank", "bank", "", 0)
    with pytest.raises(UnknownMemoryError):
        show(bank, "0" * 20)


def test_the_raw_bytes_hash_to_the_id(bank: OpenBank) -> None:
    """With any implementation of BLAKE3."""
    made = keep(bank, "x")
    value = json.loads(raw(bank, made))
    assert value.pop("id") == made
    again = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert f"blake3:{blake3(again.encode()).hexdigest()}" == made


def test_history_lists_each_version_and_its_changes(bank: OpenBank) -> None:
    """From any version: when, by whom, why, and which one is current."""
    one = keep(bank, "one", tags=["a"])
    two = update(bank, one, MemoryEdit(members={"text": "two"}), reason="why", actor="who").id
    three = correct(bank, two, MemoryEdit(members={"tags": None}), reason="wrong").id
    found = history(bank, one)
    for start in (one, two, three):
        found = history(bank, start)
        assert [each.id for each in found.versions] == [one, two, three]
        assert summary(found) == [
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


def test_history_lists_forget_and_restore_events(bank: OpenBank) -> None:
    """In order."""
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


def test_history_of_a_key_includes_forgotten_memories(bank: OpenBank) -> None:
    """Even without a record that one superseded the other."""
    one = keep(bank, "one", key="k")
    forget(bank, [one])
    two = keep(bank, "two", key="k")
    keep(bank, "other", key="l")
    for start in (one, two):
        assert [each.id for each in history(bank, start).versions] == [one, two]


def test_a_long_history_has_the_newest_versions_and_counts_the_rest(bank: OpenBank) -> None:
    """The first version shown also has its changes."""
    last = [remember(bank, {"text": str(number)}, key="k").id for number in range(7)][-1]
    found = history(bank, last, limit=3)
    assert [each.text for each in found.versions] == ["4", "5", "6"]
    assert found.versions[0].differs == {"text": ["3", "4"]}
    assert found.left_out == 4
    assert history(bank, last, limit=7).left_out == 0
    with pytest.raises(UsageError):
        history(bank, last, limit=0)


def test_attack_a_cycle_of_versions_ends(bank: OpenBank) -> None:
    """Two records that supersede each other, and one that supersedes itself."""
    one, two = keep(bank, "one"), keep(bank, "two")
    for target, by in ((one, two), (two, one), (one, one), (one, "blake3:" + "0" * 64)):
        status = Status(target=target, by=by, state="superseded", at=now())
        bank.ledger.append([seal(status)])
    found = history(bank, one)
    assert [each.id for each in found.versions] == [one, two]
    assert found.left_out == 1


def test_an_erased_version_is_counted(bank: OpenBank) -> None:
    """Its text is gone."""
    one = keep(bank, "one")
    two = update(bank, one, MemoryEdit(members={"text": "two"})).id
    bank.ledger.append([seal(Erasure(entry=one, at=now()))])
    with bank.store.writing() as writing:
        (row,) = writing.get(bank.id, [one])
        writing.rewrite(bank.id, [replace(row, body=None)])
    found = history(bank, two)
    assert ([each.id for each in found.versions], found.left_out) == ([two], 1)


def test_stats_counts_current_memories_and_states(bank: OpenBank) -> None:
    """By type, user, provider and tag."""
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


def test_stats_of_an_empty_bank_are_zero(bank: OpenBank) -> None:
    """It has two records of its own."""
    found = stats(bank)
    assert (found.records, found.memories, found.oldest, found.newest) == (2, 0, None, None)


# -- redactions --------------------------------------------------------------------------


@pytest.fixture
def redacted_id() -> str:
    """The ID of a redacted memory, in a bank with another one."""
    with filled("b") as bank:
        keep(bank, "whole")
        redacted_id = keep(bank, "write to ada@example.com")
        assert redact.run(bank, RedactOptions(ids=(redacted_id,))).redacted
    owner()
    return redacted_id


def test_show_history_and_list_report_a_redaction(redacted_id: str) -> None:
    """By whom, when, and which fields."""
    by = writer_key(load_settings()).did
    with filled("b") as bank:
        shown = show(bank, redacted_id)
        (version,) = history(bank, redacted_id).versions
        listed = {one.id: one.redacted for one in list_memories(bank, ListRequest())}
    assert shown.redacted is not None
    assert (shown.redacted.by, shown.redacted.fields, shown.redacted.imported) == (
        by,
        ["/text"],
        False,
    )
    assert shown.redacted.at.startswith("20")
    assert version.redacted == shown.redacted
    assert [one for one in listed.values() if one is not None] == [shown.redacted]
