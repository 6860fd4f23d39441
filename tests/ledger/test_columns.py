"""An edited column hides no memory: what reads says so, or answers as before."""

from collections.abc import Callable, Sequence
from typing import Any

import apsw
import pytest
from bank_kit import filled, keep

from satchel.actions.config import load_settings
from satchel.actions.memories.listing import Wanted, list_memories
from satchel.actions.memories.showing import show
from satchel.actions.memories.walking import links
from satchel.actions.opened import OpenBank, opened_bank
from satchel.actions.recalling import recall_memories
from satchel.actions.sessions.looking import list_sessions
from satchel.actions.waking.rehydrating import rehydrate_memories
from satchel.actions.wiring import witness_of
from satchel.continuity.drafting import new_session
from satchel.errors import StoreError, VerificationError
from satchel.ledger.view import View
from satchel.memory.entries import Semantic
from satchel.ports.rows import Row
from satchel.recall.query import Query
from satchel.seal.sealing import seal

_MANY = 300
"""More than a block of rows."""

HIDING = {
    "held": "UPDATE record SET hold = 1 WHERE {row}",
    "retired": "UPDATE record SET retired = 5 WHERE {row}",
    "pending": "UPDATE record SET retired = -1 WHERE {row}",
    "another user": "UPDATE record SET user = 'u9' WHERE {row}",
    "no user": "UPDATE record SET user = NULL WHERE {row}",
    "another kind": "UPDATE record SET kind = 'x' WHERE {row}",
    "another moment": "UPDATE record SET moment = '1999-01-01T00:00:00.000000Z' WHERE {row}",
    "another bank": "UPDATE record SET bank = bank + 1 WHERE {row}",
    "types swapped": "UPDATE record SET type = CASE type WHEN 'semantic' THEN 'episodic'"
    " ELSE 'semantic' END WHERE {row} OR type = 'episodic'",
}
READING: dict[str, Callable[[OpenBank], Any]] = {
    "list": lambda bank: list_memories(bank, Wanted()),
    "list of a user": lambda bank: list_memories(bank, Wanted(user="u0")),
    "list of a type": lambda bank: list_memories(bank, Wanted(types=("semantic",))),
    "list since": lambda bank: list_memories(bank, Wanted(since="2020-01-01")),
    "recall": lambda bank: recall_memories(bank, Query(text="wombat")),
    "recall of a user": lambda bank: recall_memories(bank, Query(text="wombat", user="u0")),
    "rehydrate": lambda bank: rehydrate_memories(bank, task="wombat"),
}


def _fill(count: int = 5) -> str:
    with filled() as bank:
        wanted = keep(bank, "the wombat sleeps", scope={"user": "u0"})
        keep(bank, "a child of it", scope={"user": "u0"}, parents=[wanted])
        keep(bank, "an episode", type="episodic")
        for number in range(count):
            keep(bank, f"other {number}", scope={"user": "u1"})
    return wanted


def _edit(sql: str, identity: str) -> None:
    connection = apsw.Connection(load_settings().store.removeprefix("sqlite:///"))
    try:
        row = f"id = x'{identity.removeprefix('blake3:')}'"
        connection.execute(sql.format(row=row, id=identity))
        assert connection.total_changes() > 0
    finally:
        connection.close()


@pytest.mark.parametrize("read", READING)
@pytest.mark.parametrize("edit", HIDING)
def test_one_edited_column_hides_no_memory(edit: str, read: str) -> None:
    """SEAL-5.33, SEAL-5.34: refused, or the answer is what it was."""
    wanted = _fill()
    with opened_bank(load_settings()) as bank:
        before = str(READING[read](bank))
    assert wanted in before or "wombat" in before
    _edit(HIDING[edit], wanted)
    with opened_bank(load_settings()) as bank:
        try:
            after = str(READING[read](bank))
        except (VerificationError, StoreError):
            return
    assert wanted in after or "the wombat sleeps" in after


@pytest.mark.parametrize("edit", HIDING)
def test_a_program_that_has_read_the_store_notices_an_edit_too(edit: str) -> None:
    """The store's own counter of changes has everything compared again."""
    wanted = _fill()
    with opened_bank(load_settings()) as bank:
        for read in READING.values():
            read(bank)
        _edit(HIDING[edit], wanted)
        for read in READING.values():
            try:
                answer = str(read(bank))
            except (VerificationError, StoreError):
                continue
            assert "the wombat sleeps" in answer


@pytest.mark.parametrize(
    "edit",
    [
        "DELETE FROM link WHERE target = '{id}'",
        "UPDATE link SET target = 'nobody' WHERE target = '{id}'",
        "UPDATE link SET kind = 'other' WHERE target = '{id}'",
        "UPDATE link SET place = place + 1 WHERE target = '{id}'",
        "INSERT INTO link SELECT bank, source, 'somebody', kind, place FROM link",
    ],
)
def test_an_edited_link_hides_no_relation(edit: str) -> None:
    """Whoever lists links, or the children of a memory, is refused."""
    wanted = _fill()
    with opened_bank(load_settings()) as bank:
        assert len(links(bank, wanted).things) == 1
        assert len(show(bank, wanted).children) == 1
    _edit(edit, wanted)
    with opened_bank(load_settings()) as bank:
        with pytest.raises(VerificationError, match="link"):
            links(bank, wanted)
        with pytest.raises(VerificationError, match="link"):
            show(bank, wanted)


def test_that_there_is_no_such_memory_is_not_for_an_edited_id_to_say() -> None:
    """A row under another id is not a memory that was never there."""
    wanted = _fill()
    _edit("UPDATE record SET id = zeroblob(32) WHERE {row}", wanted)
    with opened_bank(load_settings()) as bank:
        for name in (wanted, wanted[7:19]):
            with pytest.raises(VerificationError):
                show(bank, name)


def test_what_was_verified_is_remembered_outside_the_store_and_believed_no_further() -> None:
    """A cache: with it, without it and with nonsense in it, the same is refused."""
    wanted = _fill(_MANY)
    listing = READING["list of a user"]
    with opened_bank(load_settings()) as bank:
        listing(bank)
        path = witness_of(load_settings()).columns_path(bank.id)
    assert path.stat().st_mode & 0o777 == 0o600
    remembered = path.read_bytes()
    _edit(HIDING["another user"], wanted)
    for cache in (remembered, b"", b"nonsense" * 9, remembered[:-1] + b"x"):
        path.write_bytes(cache)
        with opened_bank(load_settings()) as bank, pytest.raises(VerificationError):
            listing(bank)
    path.unlink()
    with opened_bank(load_settings()) as bank, pytest.raises(VerificationError):
        listing(bank)


def test_a_row_is_verified_after_it_was_changed_on_purpose() -> None:
    """Appends, retirements and restarts in between: nothing is refused that is right."""
    wanted = _fill(_MANY)
    listing = READING["list of a user"]
    with filled() as bank:
        for number in range(5):
            keep(bank, f"more {number}", scope={"user": "u0"})
            assert len(listing(bank).memories) == 3 + number
            with opened_bank(load_settings()) as other:
                assert len(listing(other).memories) == 3 + number
        assert len(links(bank, wanted).things) == 1


@pytest.mark.parametrize("edit", HIDING)
def test_an_edit_before_the_last_that_was_read_changes_nothing_and_is_refused_when_reached(
    edit: str,
) -> None:
    """Who lists the newest verifies those; the next pages are verified when they are listed."""
    wanted = _fill(2 * _MANY)
    with opened_bank(load_settings()) as bank:
        before = str(list_memories(bank, Wanted(limit=5)).memories)
    _edit(HIDING[edit], wanted)
    with opened_bank(load_settings()) as bank:
        try:
            assert str(list_memories(bank, Wanted(limit=5)).memories) == before
        except (VerificationError, StoreError):
            assert edit in ("types swapped", "another bank")  # which the head's counts show
    with opened_bank(load_settings()) as bank:
        listed, after = list[str](), None
        try:
            while page := list_memories(bank, Wanted(limit=100, after=after)):
                listed += [memory.id for memory in page]
                after = page.next
                if after is None:
                    break
        except (VerificationError, StoreError):
            return
        assert wanted in listed


def test_changed_bytes_hide_no_memory_from_who_looks_for_a_tag_a_key_or_a_conversation() -> None:
    """What is skipped by its bytes has the bytes of its id, also where its columns are known."""
    with filled() as bank:
        keep(bank, "the wombat sleeps", key="k0", tags=["t0"])
        bank.ledger.append([new_session("of wombats")])
        bank.ledger.append([seal(Semantic(text=f"other {number}")) for number in range(_MANY)])
    listings: dict[str, Callable[[OpenBank], Any]] = {
        "tag": lambda bank: list_memories(bank, Wanted(tags=("t0",))).memories,
        "key": lambda bank: list_memories(bank, Wanted(key="k0", oldest_first=True)).memories,
        "conversations": list_sessions,
        "newest conversations": lambda bank: list_sessions(bank, limit=5),
    }
    for listing in listings.values():
        with opened_bank(load_settings()) as bank:
            assert len(listing(bank)) == 1
    _edit(
        "UPDATE record SET body = CAST(replace(replace(replace(body, 't0', 't1'), 'k0', 'k1'),"
        ' \'"event":"session"\', \'"event":"other"\') AS BLOB)',
        "",
    )
    for name, listing in listings.items():
        with opened_bank(load_settings()) as bank, pytest.raises(VerificationError):
            assert listing(bank) == name


def test_records_of_a_new_block_are_read_once_for_all_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another filter compares the columns with what was remembered of them then."""
    _fill(_MANY)
    blocks, verified = list[int](), View.verified_columns

    def counted(view: View, places: Sequence[int]) -> list[Row]:
        blocks.extend(place for place in places if place == 0)
        return verified(view, places)

    monkeypatch.setattr(View, "verified_columns", counted)
    for wanted in (Wanted(user="u0"), Wanted(since="2020-01-01"), Wanted(agent="a0")):
        with opened_bank(load_settings()) as bank:
            list_memories(bank, wanted)

    assert blocks == [0]
