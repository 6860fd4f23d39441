"""Edits of single values at rest: T10 to T15, beyond the classes of ``agent-memory-integrity``.

The attacker has the tables of a store and nothing else. Each class is applied to each column of
each table of the store, by its schema, so a column or table that is added later is
attacked as well. After each edit, the usual questions are asked: listings with and without
filters, recall, rehydration, links, one memory, counts, and ``doctor``.

An edit gets through if an answer differs and is not refused. ``UNBELIEVED`` names the tables and
columns whose edits change no answer and need not be found, with the reason; ``NOMINATING``
those whose edits may change the ranking of recall (see the threat model in docs/spec/README.md).
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import apsw

from satchel.admin.bank_health import check_banks
from satchel.admin.statistics import stats
from satchel.bank.banks import list_banks
from satchel.bank.details import history, show
from satchel.bank.links import links
from satchel.bank.listings import ListRequest, list_memories
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.bank.token_operations import list_tokens
from satchel.config.settings import Settings
from satchel.errors import SatchelError, VerificationError
from satchel.model.values import Component
from satchel.ports.rows import Filter
from satchel.recall.query import Query
from satchel.recall.search import recall_memories
from satchel.rehydrate.operations import rehydrate_memories
from satchel.rehydrate.quarantine import list_quarantine
from satchel.sessions.queries import list_checkpoints, list_sessions, messages_of

CLASSES = {
    "T10": "a column of one row gets another value",
    "T11": "a column of one row gets no value",
    "T12": "a column of one row gets another row's value",
    "T13": "two rows swap the value of a column",
    "T14": "a row is deleted",
    "T15": "a row occurs twice, under another key",
}

UNBELIEVED = {
    "side": "kept outside the log; what is derived from it is verified or only affects ranking",
    "Side": "the same in the graph",
    "words_idx": "the first page of a segment, which is found without; other pages are looked for",
    "words_docsize.origin": "which page of the index SQLite wrote it into; only deleting asks",
    "generation.model": "vectors only nominate, and those that a model lacks are made again",
    "generation.generation": "the same",
    "Generation.model": "the same in the graph",
    "Generation.generation": "the same",
    "vector": "the same; only the model could verify its output",
    "Vector": "the same in the graph",
    "blob.bank": "a file that no record names; doctor notes those that one names and that are gone",
    "Blob.bank": "the same in the graph",
    "store": "which program made the tables, and their version",
    "Meta": "the same in the graph",
    "tenant": "which role sees which bank; it contains no bank data",
    "bank.changed": "time of the last write: makes a reader compare again",
    "bank.changed_by": "the same",
}
"""Tables, or columns of them, whose edits need not be found while they change no answer. The
same applies to a copy of a row under an unused key (T15)."""

NOMINATING = frozenset(
    {
        *("words_config", "words_data", "words_idx", "words_docsize", "word"),
        *("generation", "vector", "link", "Generation", "Vector"),
        *("DERIVES_FROM", "SIMILAR_TO", "SUPERSEDES", "TRANSITIONED_TO", "EDGE", "Thing"),
        *("Record.words", "Record.terms", "side", "Side"),
    }
)
"""Tables, or columns of them, by which recall ranks: an edit may move or hide a memory."""

RANKED = frozenset({"recall", "recall of a user", "rehydrate"})
"""The questions whose answers such an edit may change."""

Row = Mapping[str, Any]


class TableAccess(Protocol):
    """An attacker's access to the tables of a store that is not open."""

    def columns(self) -> Mapping[str, Sequence[str]]:
        """Return the tables with their columns."""
        ...

    def rows(self, table: str) -> list[Row]:
        """Return the rows of a table, in a stable order."""
        ...

    def change(self, table: str, row: Row, column: str, value: Any) -> bool:
        """Set a column of one row; return False if the engine refuses it."""
        ...

    def swap(self, table: str, rows: tuple[Row, Row], column: str) -> bool:
        """Swap the values of a column of two rows."""
        ...

    def remove(self, table: str, row: Row) -> bool:
        """Delete one row."""
        ...

    def add(self, table: str, row: Row) -> bool:
        """Add a row."""
        ...

    def save(self) -> None:
        """Save the state of the store."""
        ...

    def restore(self) -> None:
        """Restore the saved state."""
        ...


class StoreEdit(NamedTuple):
    """One edit."""

    class_: str
    """A key of ``CLASSES``."""

    table: str
    column: str | None
    rows: tuple[Row, ...]
    value: Any = None

    @property
    def name(self) -> str:
        """The table, and the column if the edit is of one."""
        return self.table if self.column is None else f"{self.table}.{self.column}"

    def apply(self, tables: TableAccess) -> bool:
        """Apply the edit; return whether the engine accepted it."""
        if self.class_ == "T14":
            return tables.remove(self.table, self.rows[0])
        if self.class_ == "T15":
            return tables.add(self.table, {**self.rows[0], self.column or "": self.value})
        if self.class_ == "T13":
            return tables.swap(self.table, (self.rows[0], self.rows[1]), self.column or "")
        return tables.change(self.table, self.rows[0], self.column or "", self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditOutcome:
    """The answers after an edit."""

    edit: StoreEdit
    differing: frozenset[str]
    """The questions whose answers differ."""

    refused: frozenset[str]
    found: bool
    """Whether ``doctor`` found it."""

    @property
    def got_through(self) -> frozenset[str]:
        """The questions whose answers differ and may not."""
        names = {self.edit.table, self.edit.name}
        return self.differing - RANKED if names & NOMINATING else self.differing

    @property
    def is_missed(self) -> bool:
        """Whether ``doctor`` should have found it."""
        names = {self.edit.table, self.edit.name}
        is_harmless = self.edit.class_ == "T15" or names & UNBELIEVED.keys()
        return not self.found and (bool(self.got_through) or not is_harmless)


def questions(memory: str) -> dict[str, Callable[[OpenBank], object]]:
    """Return the questions, by name: one for each way in which commands read a bank.

    Args:
        memory: ID of a memory with owners, a kind, a key, a tag, children and a conversation.
    """
    return {
        "list": lambda opened: list_memories(opened, ListRequest()),
        "list from the first": lambda opened: list_memories(opened, ListRequest(oldest_first=True)),
        "list of all": lambda opened: list_memories(opened, ListRequest(everything=True)),
        "list of a user": lambda opened: list_memories(opened, ListRequest(user="u0")),
        "list of a run": lambda opened: list_memories(opened, ListRequest(run="r0")),
        "list of a type": lambda opened: list_memories(opened, ListRequest(types=("semantic",))),
        "list of a kind": lambda opened: list_memories(opened, ListRequest(kind="fact")),
        "list since": lambda opened: list_memories(opened, ListRequest(since="2020-01-01")),
        "list until": lambda opened: list_memories(opened, ListRequest(until="2100-01-01")),
        "list of an agent": lambda opened: list_memories(opened, ListRequest(agent="a0")),
        "list of an app": lambda opened: list_memories(opened, ListRequest(app="p0")),
        "list of a key": lambda opened: list_memories(opened, ListRequest(key="k0")),
        "list of a tag": lambda opened: list_memories(opened, ListRequest(tags=("t0",))),
        "list of before": lambda opened: list_memories(opened, ListRequest(as_of=5)),
        "list of the newest": lambda opened: list_memories(opened, ListRequest(limit=1)),
        "recall": lambda opened: _ids(recall_memories(opened, Query(text="wombat")).memories),
        "recall of a user": lambda opened: _ids(
            recall_memories(opened, Query(text="wombat", user="u0")).memories
        ),
        "rehydrate": lambda opened: _ids(rehydrate_memories(opened, task="wombat").entries),
        "links": lambda opened: links(opened, memory),
        "show": lambda opened: show(opened, memory),
        "history": lambda opened: history(opened, memory),
        "stats": lambda opened: _numbers(stats(opened)),
        "export": lambda opened: _scanned(opened, Filter()),
        "export of before": lambda opened: _scanned(opened, Filter(as_of=5)),
        "sessions": lambda opened: list_sessions(opened, include_archived=True),
        "messages": lambda opened: [
            list(messages_of(opened, one.id)) for one in list_sessions(opened).sessions
        ],
        "checkpoints": lambda opened: [
            list_checkpoints(opened, one.id) for one in list_sessions(opened).sessions
        ],
        "files": lambda opened: _scanned(opened, Filter(types=frozenset({"file_version"}))),
        "quarantine": list_quarantine,
        "tokens": lambda opened: list_tokens(opened, all=True),
        "receipts": lambda opened: _scanned(opened, Filter(types=frozenset({"receipt"}))),
        "banks": _banks,
        "statistics": lambda opened: _scanned(
            opened, Filter(types=frozenset(Component), retired=True, held=True)
        ),
    }


def _banks(opened: OpenBank) -> list[tuple[str, str | None]]:
    """Return the banks by name; a bank with a reported problem is refused."""
    found = list_banks(opened.settings)
    if any(one.problem is not None for one in found):
        raise VerificationError("a bank has a problem")
    return [(one.id, one.name) for one in found]


def _scanned(opened: OpenBank, wanted: Filter) -> list[tuple[str, int | None, bool]]:
    """Return the results of a filter, as exports, copies and files read them."""
    with opened.ledger.reading() as view:
        found = view.scan(wanted)
        return [(one.record.id, one.row.retired, one.row.hold) for one in found]


def _ids(records: Sequence[Any]) -> list[str]:
    return [record.id for record in records]


def _numbers(found: Any) -> object:
    return (found.memories, found.types, found.users, found.states, found.held, found.logged)


REFUSED = object()


def answers(settings: Settings, bank: str, memory: str) -> dict[str, object]:
    """Return the answer to each question from a store that was just opened."""
    answers_by_name: dict[str, object] = dict.fromkeys(questions(memory), REFUSED)
    try:
        with open_bank(settings, bank) as opened:
            for name, ask in questions(memory).items():
                with suppress(SatchelError):
                    answers_by_name[name] = repr(ask(opened))
    except SatchelError:
        pass  # then all are refused
    return answers_by_name


def is_found(settings: Settings) -> bool:
    """Return whether ``doctor`` reports a problem with the store."""
    try:
        return any(check.state == "problem" for check in check_banks(settings))
    except SatchelError:
        return True


def outcomes(
    settings: Settings, tables: TableAccess, bank: str, memory: str, some: Iterator[StoreEdit]
) -> Iterator[EditOutcome]:
    """Yield the outcome of each edit that the engine accepts; the store is restored after each.

    Args:
        settings: The settings of the store.
        tables: The attacker's access.
        bank: ID of the bank.
        memory: As for ``questions``.
        some: The edits.
    """
    before = answers(settings, bank, memory)
    assert REFUSED not in before.values()
    assert not is_found(settings)
    tables.save()
    for edit in some:
        if edit.apply(tables):
            after = answers(settings, bank, memory)
            yield EditOutcome(
                edit=edit,
                differing=frozenset(
                    name
                    for name, answer in after.items()
                    if answer is not REFUSED and answer != before[name]
                ),
                refused=frozenset(name for name, one in after.items() if one is REFUSED),
                found=is_found(settings),
            )
        tables.restore()


def edits(tables: TableAccess, *, rows: int = 3) -> Iterator[StoreEdit]:
    """Yield edits of all classes, of each column of each table.

    Args:
        tables: The tables.
        rows: Number of rows to attack in each table, spread over it.
    """
    for table, columns in tables.columns().items():
        every = tables.rows(table)
        if not every:
            continue
        step = max(1, -(-len(every) // rows))
        for at in range(0, len(every), step):
            row = every[at]
            yield StoreEdit("T14", table, None, (row,))
            for column in columns:
                other = next((one for one in every if one[column] != row[column]), None)
                changed = another(row[column])
                yield StoreEdit("T10", table, column, (row,), changed)
                if row[column] is not None:
                    yield StoreEdit("T11", table, column, (row,))
                if other is not None:
                    yield StoreEdit("T12", table, column, (row,), other[column])
                    yield StoreEdit("T13", table, column, (row, other))
                yield StoreEdit("T15", table, column, (row,), changed)


def another(value: Any) -> Any:
    """Return another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, bytes | memoryview):
        found = bytes(value)
        return found[:-1] + bytes([found[-1] ^ 1]) if found else b"x"
    return f"{value}x" if isinstance(value, str) else "u9"


class SqliteTables:
    """The tables in an SQLite file, including the shadow tables of the word index."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._saved = b""

    def columns(self) -> dict[str, list[str]]:
        """Return the tables with their columns."""
        named = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
        return {
            table: [column[1] for column in self._run(f"PRAGMA table_info({table})")]
            for (table,) in self._run(named)
        }

    def rows(self, table: str) -> list[Row]:
        """Return the rows of a table."""
        columns = self.columns()[table]
        found = self._run(f"SELECT * FROM {table}")  # noqa: S608 - of the schema
        return [dict(zip(columns, row, strict=True)) for row in found]

    def change(self, table: str, row: Row, column: str, value: Any) -> bool:
        """Set a column of one row."""
        return self._changes(
            f'UPDATE {table} SET "{column}" = ? WHERE {_same(row, "IS ?")}',  # noqa: S608 - idem
            *(value, *row.values()),
        )

    def swap(self, table: str, rows: tuple[Row, Row], column: str) -> bool:
        """Swap the values of a column of two rows."""
        first, second = rows
        condition = f"({_same(first, 'IS ?')}) OR ({_same(second, 'IS ?')})"
        key = _same(first, "IS ?")
        return self._changes(
            f'UPDATE {table} SET "{column}" = CASE WHEN {key} THEN ? ELSE ? END WHERE {condition}',  # noqa: S608 - idem
            *(*first.values(), second[column], first[column], *first.values(), *second.values()),
        )

    def remove(self, table: str, row: Row) -> bool:
        """Delete one row."""
        return self._changes(
            f"DELETE FROM {table} WHERE {_same(row, 'IS ?')}",  # noqa: S608 - idem
            *row.values(),
        )

    def add(self, table: str, row: Row) -> bool:
        """Add a row."""
        marks = ", ".join("?" * len(row))
        return self._changes(f"INSERT INTO {table} VALUES ({marks})", *row.values())  # noqa: S608 - idem

    def save(self) -> None:
        """Save the state of the store."""
        self._run("PRAGMA wal_checkpoint(TRUNCATE)")
        self._saved = self._path.read_bytes()

    def restore(self) -> None:
        """Restore the saved state."""
        for ending in ("-wal", "-shm"):
            self._path.with_name(self._path.name + ending).unlink(missing_ok=True)
        self._path.write_bytes(self._saved)

    def _changes(self, sql: str, *values: Any) -> bool:
        connection = apsw.Connection(str(self._path))
        try:
            connection.execute(sql, values)
            return connection.total_changes() > 0
        except apsw.Error:
            return False
        finally:
            connection.close()

    def _run(self, sql: str) -> list[Any]:
        connection = apsw.Connection(str(self._path))
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()


class PostgresTables:
    """The tables in a schema of PostgreSQL, accessed by the role that owns them.

    Args:
        address: The address of the database.
        schema: The schema of the tables.
    """

    def __init__(self, address: str, schema: str) -> None:
        import psycopg

        self._connection = psycopg.connect(address, autocommit=True)
        self._schema = schema
        self._types: dict[str, dict[str, str]] = {}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def columns(self) -> dict[str, list[str]]:
        """Return the tables with their columns."""
        sql = (
            "SELECT table_name, column_name, udt_name FROM information_schema.columns"
            " JOIN information_schema.tables USING (table_schema, table_name)"
            " WHERE table_schema = %s AND table_type = 'BASE TABLE'"
            " ORDER BY table_name, ordinal_position"
        )
        self._types = {}
        for table, column, kind in self._connection.execute(sql, (self._schema,)):
            self._types.setdefault(table, {})[column] = kind
        return {table: list(columns) for table, columns in self._types.items()}

    def rows(self, table: str) -> list[Row]:
        """Return the rows of a table."""
        found = self._connection.execute(f"SELECT * FROM {self._table(table)} ORDER BY 1, 2")  # noqa: S608 - of the schema
        names = [column.name for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found]

    def change(self, table: str, row: Row, column: str, value: Any) -> bool:
        """Set a column of one row."""
        kind = self._types[table][column]
        return self._changes(
            f'UPDATE {self._table(table)} SET "{column}" = %s::{kind} WHERE {self._is(table, row)}',  # noqa: S608 - idem
            *(value, *row.values()),
        )

    def swap(self, table: str, rows: tuple[Row, Row], column: str) -> bool:
        """Swap the values of a column of two rows."""
        first, second = rows
        kind = self._types[table][column]
        is_first, is_second = self._is(table, first), self._is(table, second)
        return self._changes(
            f'UPDATE {self._table(table)} SET "{column}" = CASE WHEN {is_first} THEN %s::{kind}'  # noqa: S608 - idem
            f" ELSE %s::{kind} END WHERE ({is_first}) OR ({is_second})",
            *(*first.values(), second[column], first[column], *first.values(), *second.values()),
        )

    def remove(self, table: str, row: Row) -> bool:
        """Delete one row."""
        return self._changes(
            f"DELETE FROM {self._table(table)} WHERE {self._is(table, row)}",  # noqa: S608 - idem
            *row.values(),
        )

    def add(self, table: str, row: Row) -> bool:
        """Add a row."""
        marks = ", ".join(f"%s::{self._types[table][name]}" for name in row)
        sql = f"INSERT INTO {self._table(table)} OVERRIDING SYSTEM VALUE VALUES ({marks})"  # noqa: S608 - idem
        return self._changes(sql, *row.values())

    def save(self) -> None:
        """Save the state of the store."""
        for table in self.columns():
            kept = f"{self._schema}_kept_{table}"
            self._run(f"DROP TABLE IF EXISTS {kept}")
            self._run(f"CREATE TABLE {kept} AS TABLE {self._table(table)}")

    def restore(self) -> None:
        """Restore the saved state."""
        for table in self._types:
            named = self._table(table)
            self._run(f"TRUNCATE {named}")
            kept = f"{self._schema}_kept_{table}"
            self._run(f"INSERT INTO {named} OVERRIDING SYSTEM VALUE SELECT * FROM {kept}")  # noqa: S608 - idem

    def _table(self, table: str) -> str:
        return f'{self._schema}."{table}"'

    def _is(self, table: str, row: Row) -> str:
        kinds = self._types[table]
        return " AND ".join(f'"{name}" IS NOT DISTINCT FROM %s::{kinds[name]}' for name in row)

    def _changes(self, sql: str, *values: Any) -> bool:
        import psycopg

        try:
            return int(self._connection.execute(sql, values).rowcount) > 0
        except psycopg.Error:
            return False

    def _run(self, sql: str) -> None:
        self._connection.execute(sql)


_ENDS = ("_from", "_to")
_OF_LINKS = ("place", "kind")


class LadybugTables:
    """The nodes and relations of a graph, accessed with its engine.

    Args:
        folder: The folder of the store.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._saved = folder.with_name(f"{folder.name}-saved")

    def columns(self) -> dict[str, list[str]]:
        """Return the tables with their columns; of relations, their properties."""
        from satchel.stores.ladybug.statements import EDGE, LINK_TABLES, NODES

        links = {
            table: list(_OF_LINKS if table == EDGE else _OF_LINKS[:1]) for table in LINK_TABLES
        }
        return {table: list(columns) for table, columns in NODES.items()} | links

    def rows(self, table: str) -> list[Row]:
        """Return the nodes or relations of a table."""
        if self._is_node(table):
            results = self._ask(f"MATCH (n:{table}) RETURN n")
            names = self.columns()[table]
            return [{name: node.get(name) for name in names} for (node,) in results]
        names = self.columns()[table]
        listed = ", ".join(f"l.`{name}`" for name in names)
        results = self._ask(f"MATCH (a:Thing)-[l:{table}]->(b:Thing) RETURN a.key, b.key, {listed}")
        return [dict(zip((*_ENDS, *names), row, strict=True)) for row in results]

    def change(self, table: str, row: Row, column: str, value: Any) -> bool:
        """Set a column of one node or relation."""
        pattern, values = self._match(table, row)
        return self._changes(f"{pattern} SET x.`{column}` = $value", value=value, **values)

    def swap(self, table: str, rows: tuple[Row, Row], column: str) -> bool:
        """Swap the values of a column of two nodes or relations."""
        one, other = rows
        after = {**one, column: other[column]}
        return self.change(table, one, column, other[column]) and (
            after != other and self.change(table, other, column, one[column])
        )

    def remove(self, table: str, row: Row) -> bool:
        """Delete one node, with its relations, or one relation."""
        pattern, values = self._match(table, row)
        how = "DETACH DELETE" if self._is_node(table) else "DELETE"
        return self._changes(f"{pattern} {how} x", **values)

    def add(self, table: str, row: Row) -> bool:
        """Add a node or a relation."""
        names = [name for name in row if name not in _ENDS and row[name] is not None]
        values = {f"v_{name}": row[name] for name in names}
        members = ", ".join(f"`{name}`: $v_{name}" for name in names)
        if self._is_node(table):
            return self._changes(f"CREATE (:{table} {{{members}}})", **values)
        ends = {"v_from": row["_from"], "v_to": row["_to"]}
        return self._changes(
            "MATCH (a:Thing {key: $v_from}) MATCH (b:Thing {key: $v_to})"
            f" CREATE (a)-[:{table} {{{members}}}]->(b)",
            **ends,
            **values,
        )

    def save(self) -> None:
        """Save the state of the store."""
        shutil.rmtree(self._saved, ignore_errors=True)
        shutil.copytree(self._folder, self._saved)

    def restore(self) -> None:
        """Restore the saved state."""
        shutil.rmtree(self._folder)
        shutil.copytree(self._saved, self._folder)

    def _is_node(self, table: str) -> bool:
        from satchel.stores.ladybug.statements import NODES

        return table in NODES

    def _match(self, table: str, row: Row) -> tuple[str, dict[str, Any]]:
        if self._is_node(table):
            key = self.columns()[table][0]
            return f"MATCH (x:{table} {{`{key}`: $key}})", {"key": row[key]}
        pattern = f"MATCH (a:Thing {{key: $v_from}})-[x:{table}]->(b:Thing {{key: $v_to}})"
        values = {"v_from": row["_from"], "v_to": row["_to"], "at": row["place"]}
        return f"{pattern} WHERE x.place = $at", values

    def _changes(self, cypher: str, **values: Any) -> bool:
        try:
            self._ask(cypher, **values)
        except RuntimeError:
            return False
        return True

    def _ask(self, cypher: str, **values: Any) -> list[Any]:
        from satchel.stores.ladybug.database import FILE, engine

        database = engine().Database(str(self._folder / FILE), max_db_size=1 << 40)
        connection = engine().Connection(database)
        try:
            found: list[Any] = connection.execute(cypher, values).get_all()
            return found
        finally:
            connection.close()
            database.close()


def _same(row: Row, how: str) -> str:
    return " AND ".join(f'"{name}" {how}' for name in row)
