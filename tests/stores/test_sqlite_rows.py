"""The database file, read without the store: the logged bytes, and no second copy."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import apsw
import pytest
from ledger_kit import created, memories

from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import StoreDamagedError, StoreVersionError
from satchel.ledger.ledger import Ledger
from satchel.model.records import Edge, Model, Semantic, SessionEvent
from satchel.model.values import Origin, Scope
from satchel.ports.rows import Filter, derive_row
from satchel.stores.sqlite import SqliteStore
from satchel.stores.sqlite.reader import SqliteView
from satchel.stores.sqlite.statements import VERSION

_TEXTS = ("Zo\u00eb", "Zoe\u0308", "a\0b", "\ufeff", "\u202e", "e" * 70_000, "\U0001f600", "")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the store."""
    return tmp_path / "satchel.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    """A bank in a new store."""
    store = SqliteStore(path)
    yield created(store)
    store.close()


def _sql(path: Path, sql: str, *values: object) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path))
    try:
        return list(connection.execute(sql, values))
    finally:
        connection.close()


def _awkward() -> list[Sealed]:
    drafts: list[Model] = [
        Semantic(
            text=text,
            kind=text,
            scope=Scope(user=text, agent=text, run=text, app=text),
            origin=Origin(provider=text, source=text, id=f"{number}{text}"),
            metadata={"n": number, "text": text},
        )
        for number, text in enumerate(_TEXTS)
    ]
    others: list[Model] = [
        SessionEvent(event="message", session=text, text=text, content={"text": text})
        for text in _TEXTS
    ]
    edges: list[Model] = [Edge(source=text, target=text, kind=text) for text in _TEXTS]
    return [seal(draft) for draft in (*drafts, *others, *edges)]


def test_a_row_holds_the_canonical_bytes(path: Path, ledger: Ledger) -> None:
    """Byte for byte, as a blob; the ID is the 32 bytes of the record's."""
    records = _awkward()
    ledger.append(records)
    rows = _sql(path, "SELECT id, typeof(body), body FROM record ORDER BY place")[2:]
    assert rows == [
        (bytes.fromhex(record.id.removeprefix("blake3:")), "blob", record.body)
        for record in records
    ]


def test_text_columns_hold_exact_texts(path: Path, ledger: Ledger) -> None:
    """Every text in a column equals that of the record: not folded, truncated or composed."""
    records = _awkward()
    ledger.append(records)
    names = ("kind", "user", "agent", "run", "app", "session", "moment", "expires_at")
    columns = ", ".join(f"CAST({name} AS BLOB)" for name in names)
    found = _sql(path, f"SELECT {columns} FROM record ORDER BY place")[2:]  # noqa: S608 - our own names
    expected = []
    for record in records:
        row = derive_row(record.model, seq=0, at="", body=record.body)
        texts = [getattr(row, name) for name in names]
        expected.append(tuple(None if text is None else text.encode() for text in texts))
    assert found == expected
    links = _sql(path, "SELECT DISTINCT CAST(source AS BLOB), CAST(kind AS BLOB) FROM link")
    assert set(links) == {(text.encode(), text.encode()) for text in _TEXTS}


def test_the_text_of_a_memory_is_stored_only_in_its_bytes(path: Path, ledger: Ledger) -> None:
    """The full-text index has terms and positions, and no readable text."""
    ledger.append([seal(Semantic(text="The deployments run on Friday"))])
    assert _sql(path, "SELECT terms FROM words") == [(None,)]
    texts = [
        f"SELECT CAST({column} AS BLOB) FROM {table}"  # noqa: S608 - from the file's own list
        for (table,) in _sql(path, "SELECT name FROM sqlite_schema WHERE type = 'table'")
        for (column,) in _sql(path, f"SELECT name FROM pragma_table_info('{table}')")  # noqa: S608
    ]
    holding = [sql for sql in texts for row in _sql(path, sql) if b"Friday" in (row[0] or b"")]  # type: ignore[operator]
    assert holding == ["SELECT CAST(body AS BLOB) FROM record"]


def test_counts_are_computed_and_not_stored(path: Path, ledger: Ledger) -> None:
    """A deleted row is missing from them at once."""
    ledger.append(memories(3))
    store = SqliteStore(path)
    _sql(path, "DELETE FROM record WHERE place % 16 = 3")
    with store.reading() as reader:
        assert reader.counts(ledger.bank)["semantic"] == 2
    store.close()


def test_a_store_of_a_newer_version_is_refused_and_not_changed(path: Path) -> None:
    """The error names the version and the file, and what to do."""
    SqliteStore(path).close()
    _sql(path, f"PRAGMA user_version = {VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(StoreVersionError, match=f"version {VERSION + 1}") as refused:
        SqliteStore(path)
    assert refused.value.file == str(path)
    assert refused.value.hint
    assert path.read_bytes() == before


@pytest.mark.parametrize("sql", ["CREATE TABLE theirs (a)", "PRAGMA application_id = 7"])
def test_a_database_of_another_program_is_refused(path: Path, sql: str) -> None:
    """Nothing is created in it."""
    _sql(path, sql)
    path.chmod(0o600)
    before = _sql(path, "SELECT name FROM sqlite_schema")
    with pytest.raises(StoreVersionError, match="not a Satchel database"):
        SqliteStore(path)
    assert _sql(path, "SELECT name FROM sqlite_schema") == before


def test_an_invalid_column_value_is_reported_as_damage(path: Path, ledger: Ledger) -> None:
    """Whatever the file holds, a row is valid or the store reports damage."""
    ledger.append(memories(1))
    _sql(path, "PRAGMA writable_schema = 1")
    _sql(path, "UPDATE record SET user = CAST(x'ff' AS TEXT) WHERE user IS NOT NULL")
    store = SqliteStore(path)
    with pytest.raises(StoreDamagedError), store.reading() as reader:
        list(reader.scan(ledger.bank, Filter()))
    store.close()


def test_an_invalid_hold_flag_is_reported_as_damage(path: Path, ledger: Ledger) -> None:
    """The column is 0 or 1: 2 reads as true, but our programs never write it."""
    ledger.append(memories(1))
    _sql(path, "UPDATE record SET hold = 2 WHERE type = 'semantic'")
    store = SqliteStore(path)
    with pytest.raises(StoreDamagedError), store.reading() as reader:
        list(reader.scan(ledger.bank, Filter(held=True)))
    with pytest.raises(StoreDamagedError), store.reading() as reader:
        list(reader.column_blocks(ledger.bank, (), first=0))
    store.close()


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("name", ["session", "run", "slot"])
def test_rows_of_one_session_are_found_by_its_index(
    ledger: Ledger, path: Path, name: str, *, newest_first: bool
) -> None:
    """For any types: no query reads all rows of a bank for one session."""
    asked = list[tuple[str, tuple[Any, ...]]]()
    each = SqliteView._each

    def noted(view: SqliteView, sql: str, *values: Any, **more: Any) -> Iterator[Any]:
        asked.append((sql, values))
        return each(view, sql, *values, **more)

    value: dict[str, Any] = {name: "0" * 64 if name == "slot" else "s1"}
    store = SqliteStore(path)
    with closing(store), store.reading() as view, mock.patch.object(SqliteView, "_each", noted):
        for types in (frozenset({"session_event"}), frozenset({"semantic"}), None):
            wanted = Filter(types=types, **value)
            assert list(view.scan(ledger.bank, wanted, newest_first=newest_first)) == []
    explained = (_sql(path, f"EXPLAIN QUERY PLAN {sql}", *values) for sql, values in asked)
    plans = [str(plan[3]) for (plan,) in explained]
    assert len(plans) == 3
    assert all(f"USING INDEX record_{name} (bank=? AND" in plan for plan in plans)
