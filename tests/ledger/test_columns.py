"""An edited column hides no memory: a read refuses it, or answers as before."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest
from bank_kit import filled, keep

from satchel.bank.changes import forget
from satchel.bank.connections import witness_of
from satchel.bank.details import show
from satchel.bank.links import links
from satchel.bank.listings import ListRequest, list_memories
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal
from satchel.errors import StoreError, VerificationError
from satchel.ledger import columns
from satchel.ledger.columns import VerifiedColumns
from satchel.ledger.view import View
from satchel.model.records import Edge, Semantic
from satchel.ports.rows import Row
from satchel.ports.store import BLOCK_BITS, MarkedRow
from satchel.recall.query import Query
from satchel.recall.search import recall_memories
from satchel.rehydrate.operations import rehydrate_memories
from satchel.rehydrate.quarantine import quarantine
from satchel.sessions.drafts import new_session
from satchel.sessions.queries import list_sessions
from satchel.stores.vectors import column_blocks

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
    "list": lambda bank: list_memories(bank, ListRequest()),
    "list of a user": lambda bank: list_memories(bank, ListRequest(user="u0")),
    "list of a type": lambda bank: list_memories(bank, ListRequest(types=("semantic",))),
    "list since": lambda bank: list_memories(bank, ListRequest(since="2020-01-01")),
    "recall": lambda bank: recall_memories(bank, Query(text="wombat")),
    "recall of a user": lambda bank: recall_memories(bank, Query(text="wombat", user="u0")),
    "rehydrate": lambda bank: rehydrate_memories(bank, task="wombat"),
}


@pytest.fixture(params=["all rows", "the rows that are met"])
def eager_verification(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verify all rows, as in a small bank, or only the rows that a query reads."""
    if request.param != "all rows":
        monkeypatch.setattr(columns, "_LARGE", 0)


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


@pytest.mark.in_check(42)
@pytest.mark.usefixtures("eager_verification")
@pytest.mark.parametrize("read", READING)
@pytest.mark.parametrize("edit", HIDING)
def test_one_edited_column_hides_no_memory(edit: str, read: str) -> None:
    """SEAL-5.33, SEAL-5.34: refused, or the answer is unchanged."""
    wanted = _fill()
    with open_bank(load_settings()) as bank:
        before = str(READING[read](bank))
    assert wanted in before or "wombat" in before
    _edit(HIDING[edit], wanted)
    with open_bank(load_settings()) as bank:
        try:
            after = str(READING[read](bank))
        except (VerificationError, StoreError):
            return
    assert wanted in after or "the wombat sleeps" in after


@pytest.mark.in_check(6)
@pytest.mark.usefixtures("eager_verification")
@pytest.mark.parametrize("edit", HIDING)
def test_a_program_that_has_already_read_the_store_detects_an_edit(edit: str) -> None:
    """The store's own change counter triggers a new comparison."""
    wanted = _fill()
    with open_bank(load_settings()) as bank:
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
    """A listing of links, or of the children of a memory, is refused."""
    wanted = _fill()
    with open_bank(load_settings()) as bank:
        assert len(links(bank, wanted).things) == 1
        assert len(show(bank, wanted).children) == 1
    _edit(edit, wanted)
    with open_bank(load_settings()) as bank:
        with pytest.raises(VerificationError, match="link"):
            links(bank, wanted)
        with pytest.raises(VerificationError, match="link"):
            show(bank, wanted)


def test_an_edited_id_is_not_reported_as_an_unknown_memory() -> None:
    """A row under another ID does not mean that the memory never existed."""
    wanted = _fill()
    _edit("UPDATE record SET id = zeroblob(32) WHERE {row}", wanted)
    with open_bank(load_settings()) as bank:
        for name in (wanted, wanted[7:19]):
            with pytest.raises(VerificationError):
                show(bank, name)


@pytest.mark.parametrize("stretch", [BLOCK_BITS, BLOCK_BITS + 4])
def test_the_cache_of_verified_columns_hides_no_edit(
    stretch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the cache, without it and with an invalid one, the same is refused."""
    monkeypatch.setattr(columns, "_STRETCH_BITS", stretch)
    wanted = _fill(_MANY)
    listing = READING["list of a user"]
    with open_bank(load_settings()) as bank:
        listing(bank)
        path = witness_of(load_settings()).columns_path(bank.id)
    assert path.stat().st_mode & 0o777 == 0o600
    remembered = path.read_bytes()
    _edit(HIDING["another user"], wanted)
    for cache in (remembered, b"", b"nonsense" * 9, remembered[:-1] + b"x"):
        path.write_bytes(cache)
        with open_bank(load_settings()) as bank, pytest.raises(VerificationError):
            listing(bank)
    path.unlink()
    with open_bank(load_settings()) as bank, pytest.raises(VerificationError):
        listing(bank)


@pytest.mark.parametrize("stretch", [BLOCK_BITS, BLOCK_BITS + 4])
def test_legitimate_changes_pass_verification(
    stretch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends, retirements and restarts: no valid row is refused."""
    monkeypatch.setattr(columns, "_STRETCH_BITS", stretch)
    wanted = _fill(_MANY)
    listing = READING["list of a user"]
    with filled() as bank:
        for number in range(5):
            keep(bank, f"more {number}", scope={"user": "u0"})
            assert len(listing(bank).memories) == 3 + number
            with open_bank(load_settings()) as other:
                assert len(listing(other).memories) == 3 + number
        assert len(links(bank, wanted).things) == 1


@pytest.mark.in_check(3)
@pytest.mark.parametrize("edit", HIDING)
def test_an_edit_beyond_the_first_page_is_refused_when_its_page_is_listed(
    edit: str,
) -> None:
    """A listing of the newest verifies only those; later pages are verified when listed."""
    wanted = _fill(2 * _MANY)
    with open_bank(load_settings()) as bank:
        before = str(list_memories(bank, ListRequest(limit=5)).memories)
    _edit(HIDING[edit], wanted)
    with open_bank(load_settings()) as bank:
        try:
            assert str(list_memories(bank, ListRequest(limit=5)).memories) == before
        except (VerificationError, StoreError):
            assert edit in ("types swapped", "another bank")  # which the head's counts show
    with open_bank(load_settings()) as bank:
        listed, after = list[str](), None
        try:
            while page := list_memories(bank, ListRequest(limit=100, after=after)):
                listed += [memory.id for memory in page]
                after = page.next
                if after is None:
                    break
        except (VerificationError, StoreError):
            return
        assert wanted in listed


def test_changed_bytes_hide_no_memory_from_queries_by_tag_key_or_conversation() -> None:
    """Rows that a query skips by their bytes must have the bytes of their ID."""
    with filled() as bank:
        keep(bank, "the wombat sleeps", key="k0", tags=["t0"])
        bank.ledger.append([new_session("of wombats")])
        bank.ledger.append([seal(Semantic(text=f"other {number}")) for number in range(_MANY)])
    listings: dict[str, Callable[[OpenBank], Any]] = {
        "tag": lambda bank: list_memories(bank, ListRequest(tags=("t0",))).memories,
        "key": lambda bank: list_memories(bank, ListRequest(key="k0", oldest_first=True)).memories,
        "conversations": list_sessions,
        "newest conversations": lambda bank: list_sessions(bank, limit=5),
    }
    for listing in listings.values():
        with open_bank(load_settings()) as bank:
            assert len(listing(bank)) == 1
    _edit(
        "UPDATE record SET body = CAST(replace(replace(replace(body, 't0', 't1'), 'k0', 'k1'),"
        ' \'"event":"session"\', \'"event":"other"\') AS BLOB)',
        "",
    )
    for name, listing in listings.items():
        with open_bank(load_settings()) as bank, pytest.raises(VerificationError):
            assert listing(bank) == name


def test_records_of_a_new_block_are_read_once_for_all_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another filter compares its columns with the digests cached then."""
    _fill(_MANY)
    blocks, verified = list[int](), View.verified_columns

    def counted(view: View, places: Sequence[int]) -> list[Row]:
        blocks.extend(place for place in places if place == 0)
        return verified(view, places)

    monkeypatch.setattr(View, "verified_columns", counted)
    for wanted in (
        ListRequest(user="u0"),
        ListRequest(since="2020-01-01"),
        ListRequest(agent="a0"),
    ):
        with open_bank(load_settings()) as bank:
            list_memories(bank, wanted)

    assert blocks == [0]


def test_the_rows_of_a_partial_block_are_read_once_until_it_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If it has enough rows; a later append makes another block of it."""
    _fill(columns._WORTH_KEEPING)
    read, verified = list[int](), View.verified_columns

    def counted(view: View, places: Sequence[int]) -> list[Row]:
        read.append(len(places))
        return verified(view, places)

    def listed() -> list[int]:
        read.clear()
        with open_bank(load_settings()) as bank:
            list_memories(bank, ListRequest(user="u0", oldest_first=True))
        return [*read]

    monkeypatch.setattr(View, "verified_columns", counted)
    (size,) = listed()
    assert size > columns._WORTH_KEEPING
    assert listed() == []
    with filled() as bank:
        keep(bank, "one more", scope={"user": "u0"})
    assert listed() == [size + 1]


class FakeBank:
    """A view of a bank whose columns may differ from its ``records``."""

    def __init__(self, size: int) -> None:
        self.records = [dict.fromkeys(sorted(columns._FILTERED), str(at)) for at in range(size)]
        self.rows = [dict(record) for record in self.records]
        self.head = SimpleNamespace(size=size, epoch=0, counts={})

    def column_blocks(
        self, names: Sequence[str], first: int, end: int | None, *, bits: int, marked: bool
    ) -> Any:
        """Return the stored columns."""
        del marked
        rows = enumerate(self.rows[: self.head.size])
        found = column_blocks(((at, *(row[name] for name in names)) for at, row in rows), (), bits)
        return (one for one in found if first <= one.number < (end or self.head.size))

    def verified_columns(self, places: Sequence[int]) -> list[Row]:
        """Refuse rows that differ from the records."""
        if any(self.rows[at] != self.records[at] for at in places):
            raise VerificationError("other columns")
        return []

    def require_standing(self, marked: Sequence[MarkedRow]) -> None:
        """Accept the status columns."""
        assert not marked


def test_a_column_not_verified_for_the_start_of_a_block_is_not_trusted_later(
    tmp_path: Path,
) -> None:
    """Only the digest of one column was cached; the records were not read for the others."""
    bank: Any = FakeBank(3 * _MANY)
    bank.head.size = columns._WORTH_KEEPING
    VerifiedColumns("b", tmp_path / "c").require(bank, frozenset({"user"}), 1)
    bank.rows[5]["kind"] = "x"
    known = VerifiedColumns("b", tmp_path / "c")
    known.require(bank, frozenset({"user"}), 1)
    bank.head.size = len(bank.rows)
    known.require(bank, frozenset({"user"}), 1)
    with pytest.raises(VerificationError):
        VerifiedColumns("b", tmp_path / "c").require(bank, frozenset({"kind"}), 1)


@pytest.mark.in_check(8)
@pytest.mark.parametrize("name", ["user", "kind"])
@pytest.mark.parametrize("at", [0, 255, 256, 4095, 4096, 8191, 8192, 9099])
def test_an_edit_is_detected_at_every_position_of_a_block(
    tmp_path: Path, at: int, name: str
) -> None:
    """In a column that was verified, and in one that was verified with it."""
    bank: Any = FakeBank(9100)
    VerifiedColumns("b", tmp_path / "c").require(bank, frozenset({"user"}), 1)
    VerifiedColumns("b", tmp_path / "c").require(bank, frozenset({"user", "kind"}), 1)
    bank.rows[at][name] = "x"
    with pytest.raises(VerificationError):
        VerifiedColumns("b", tmp_path / "c").require(bank, frozenset({name}), 1)
    bank.rows[at][name] = bank.records[at][name]
    bank.records[at]["user"] = "x"  # the records are not looked at where columns are as they were
    VerifiedColumns("b", tmp_path / "c").require(bank, frozenset({name}), 1)


def test_a_few_queries_do_not_verify_the_status_columns_of_a_large_bank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the rows that they read; after many queries all rows are verified, once."""
    _fill()
    monkeypatch.setattr(columns, "_LARGE", 0)
    passes, read = list[tuple[str, ...]](), View.column_blocks

    def counted(view: View, names: Sequence[str], *given: Any, **how: Any) -> Any:
        passes.append((*names, *(["standing"] if how.get("marked", True) else [])))
        return read(view, names, *given, **how)

    monkeypatch.setattr(View, "column_blocks", counted)
    with open_bank(load_settings()) as bank:
        assert recall_memories(bank, Query(text="other")).memories
        assert passes == []
        assert recall_memories(bank, Query(text="other", user="u1")).memories
        assert {name for names in passes for name in names} <= columns._FILTERED
        passes.clear()
        for _ in range(columns._MOST_MET):
            assert recall_memories(bank, Query(text="other")).memories
        assert passes == [("standing",)]


@pytest.mark.parametrize("user", [None, "u0"])
def test_retired_and_quarantined_memories_are_omitted_in_a_large_bank(
    user: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log marks the rows that are read; nothing is refused and nothing else is shown."""
    wanted = _fill()
    with filled() as bank:
        held, gone = (keep(bank, f"a wombat {at}", scope={"user": "u0"}) for at in range(2))
        quarantine(bank, [held])
        forget(bank, [gone])
    monkeypatch.setattr(columns, "_LARGE", 0)
    with open_bank(load_settings()) as bank:
        answer = recall_memories(bank, Query(text="wombat", user=user)).memories
    found = {one.id for one in answer}
    assert wanted in found
    assert not found & {held, gone}


def test_an_edited_edge_is_detected_by_a_query_of_a_large_bank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The status of the record that makes a link is verified."""
    wanted = _fill()
    with filled() as bank:
        far = keep(bank, "of something else")
        edge = seal(Edge(source=wanted, target=far, kind="like"))
        bank.ledger.append([edge])
    monkeypatch.setattr(columns, "_LARGE", 0)
    question = Query(text="wombat sleeps")
    with open_bank(load_settings()) as bank:
        assert far in [one.id for one in recall_memories(bank, question).memories]
    _edit(HIDING["retired"], edge.id)
    with open_bank(load_settings()) as bank, pytest.raises(VerificationError):
        recall_memories(bank, question)
