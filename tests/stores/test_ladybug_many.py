"""Many rows in one statement of LadybugDB: what they hold, what is left of them, what fails."""

import gc
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from satchel.conformance.stores.oracle import ALL, AT, BANK, commit_of
from satchel.crypto.sealed_records import seal
from satchel.errors import MissingExtraError, StoreError
from satchel.model.records import Edge, Model, Semantic
from satchel.model.values import Scope
from satchel.ports.rows import Row, derive_row
from satchel.ports.store import ColumnChange
from satchel.stores.ladybug import LadybugStore
from satchel.stores.ladybug.statements import AT_ONCE, MANY
from satchel.stores.sqlite import SqliteStore

ODD = ("", "a\0b", "\x01", "🐝" * 9, "{'a': 1}", '{"a": 1}', "[]", "null", "1e5", "'", "\\", "`$x`")


def rows_of(drafts: list[Model], first: int = 0) -> list[Row]:
    """Return the rows of drafts, from a sequence number on."""
    records = [seal(draft) for draft in drafts]
    return [
        derive_row(record.model, seq=place, at=AT, body=record.body)
        for place, record in enumerate(records, first)
    ]


def facts(count: int, turn: int = 0) -> list[Model]:
    """Return facts, each of another user."""
    return [Semantic(text=f"fact {turn} {n}", scope=Scope(user=f"u{n}")) for n in range(count)]


@pytest.mark.parametrize("count", [MANY - 1, MANY, AT_ONCE, AT_ONCE + MANY])
def test_rows_are_the_same_for_any_number_of_rows_per_statement(count: int, tmp_path: Path) -> None:
    """Equal to SQLite's, including unusual texts and many changes at once."""
    drafts = facts(count)
    for number, odd in enumerate(ODD):
        drafts[number] = Semantic(text=f"odd {odd} text", scope=Scope(user=odd or None, agent="x"))
    drafts += [Edge(source=f"s{n}", target=f"t{n}", kind=f"k{n % 3}") for n in range(count)]
    rows = rows_of(drafts)
    changes = [ColumnChange(row.seq, retired=len(rows), hold=row.seq % 2 == 0) for row in rows[::2]]
    (last,) = rows_of([Semantic(text="the last")], len(rows))
    stores = LadybugStore(tmp_path / "graph"), SqliteStore(tmp_path / "store.db")
    found = []
    for store in stores:
        with store.writing() as writing:
            writing.append(BANK, commit_of(rows, 0))
        with store.writing() as writing:
            writing.append(BANK, commit_of([last], len(rows), changes=changes))
        with store.reading() as reader:
            found.append(list(reader.scan(BANK, ALL)))
            assert [row.hold for row in found[-1][:4]] == [True, False, True, False]
            assert reader.candidates(BANK, "odd", limit=99)
        store.close()
    assert found[0] == found[1]


def test_a_bulk_load_frees_its_tables(tmp_path: Path) -> None:
    """A cached statement would keep the table that it read in memory."""
    store = LadybugStore(tmp_path / "graph")
    gc.collect()
    before, size = pa.total_allocated_bytes(), 0
    for turn in range(5):
        rows = rows_of(facts(2 * MANY, turn), size)
        with store.writing() as writing:
            writing.append(BANK, commit_of(rows, size))
        size += len(rows)
    gc.collect()
    assert pa.total_allocated_bytes() == before
    store.close()


def test_rows_refused_by_the_engine_roll_back_the_transaction(tmp_path: Path) -> None:
    """Nothing of the block stays, and the store continues."""
    store = LadybugStore(tmp_path / "graph")
    first = rows_of(facts(MANY))
    with store.writing() as writing:
        writing.append(BANK, commit_of(first, 0))
    taken = rows_of(facts(MANY, turn=1))  # at places that are taken

    def fail() -> None:
        with store.writing() as writing:
            writing.put_side(BANK, {"note": b"lost"})
            writing.append(BANK, commit_of(taken, 0))

    with pytest.raises(StoreError):
        fail()
    more = rows_of(facts(MANY, turn=2), MANY)
    with store.writing() as writing:
        writing.append(BANK, commit_of(more, MANY))
    store.close()
    again = LadybugStore(tmp_path / "graph")
    with again.reading() as reader:
        assert [row.id for row in reader.scan(BANK, ALL)] == [row.id for row in first + more]
        assert reader.side(BANK) == {}
    again.close()


def test_a_bulk_load_without_arrow_names_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of the rows is written; a few rows still work."""
    store = LadybugStore(tmp_path / "graph")
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    def fail() -> None:
        with store.writing() as writing:
            writing.append(BANK, commit_of(rows_of(facts(MANY)), 0))

    with pytest.raises(MissingExtraError) as error:
        fail()
    assert "satchel[graph]" in (error.value.hint or "")
    with store.writing() as writing:
        writing.append(BANK, commit_of(rows_of(facts(2)), 0))
    with store.reading() as reader:
        assert len(list(reader.scan(BANK, ALL))) == 2
    store.close()
