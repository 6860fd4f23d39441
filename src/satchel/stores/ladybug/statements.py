"""Tables and statements of the graph.

``place = bank number << 40 | log position`` is the key of a record, as in SQLite's tables. A
``Thing`` is whatever a link can end at, by its name in its bank: a record (then it has the record's
place, and serves as the index of ids), or a placeholder of what is not in the bank. The four core
types of links have tables of their own, every other type is a row of ``EDGE``.

``words`` are the terms of a record and of the turn before it, with a space around each: any term,
phrase or prefix of a term is a part of that text.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Literal

from satchel.errors import (
    MissingExtraError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    UnknownBankError,
)
from satchel.stores.vectors import NODE_BITS, StoreTables, damaged_store

VERSION = 1
"""The version of the tables; a newer store is refused."""

EDGE = "EDGE"
"""The table of the types of links that have none of their own."""

LINKS = {
    "derives_from": "DERIVES_FROM",
    "similar_to": "SIMILAR_TO",
    "supersedes": "SUPERSEDES",
    "transitioned_to": "TRANSITIONED_TO",
}
"""The core types of links, and their tables."""

LINK_TABLES = (*LINKS.values(), EDGE)

Column = Literal["STRING", "INT64", "BLOB", "BOOL"]
"""The type of a column."""

Columns = Mapping[str, Column]
"""Types of columns, by name."""

NODES: dict[str, Columns] = {
    "Meta": {"name": "STRING", "value": "INT64"},
    "Bank": {"id": "STRING", "number": "INT64", "head": "BLOB", "peaks": "BLOB"},
    "Record": {
        "place": "INT64",
        "bank": "INT64",
        "id": "STRING",
        "type": "STRING",
        "at": "STRING",
        "body": "BLOB",
        "batch": "INT64",
        "retired": "INT64",
        "hold": "BOOL",
        "slot": "STRING",
        "kind": "STRING",
        "user": "STRING",
        "agent": "STRING",
        "run": "STRING",
        "app": "STRING",
        "session": "STRING",
        "moment": "STRING",
        "expires_at": "STRING",
        "size": "INT64",
        "words": "STRING",
        "terms": "INT64",
    },
    "Thing": {"key": "STRING", "bank": "INT64", "name": "STRING", "place": "INT64"},
    "Slot": {"key": "STRING", "bank": "INT64", "place": "INT64"},
    "TreeNode": {"place": "INT64", "hash": "BLOB"},
    "Side": {"key": "STRING", "bank": "STRING", "name": "STRING", "value": "BLOB"},
    "Generation": {
        "number": "INT64",
        "bank": "INT64",
        "model": "STRING",
        "dimensions": "INT64",
        "generation": "INT64",
    },
    "Vector": {"place": "INT64", "width": "INT64", "numbers": "BLOB"},
    "Blob": {"number": "INT64", "bank": "INT64", "digest": "STRING", "size": "INT64"},
    "Piece": {"place": "INT64", "data": "BLOB"},
}
"""The tables of nodes, with their columns; the first is the key."""

ENDS: Columns = {"source": "STRING", "target": "STRING", "place": "INT64", "kind": "STRING"}
"""The parameters of a link: the keys of its ends, and its columns."""


def key_of(table: str) -> str:
    """Return the name of a table's key."""
    return next(iter(NODES[table]))


def statements() -> list[str]:
    """Return the statements that create the tables."""
    creations = [
        f"CREATE NODE TABLE {table} ("
        + ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
        + f", PRIMARY KEY (`{key_of(table)}`))"
        for table, columns in NODES.items()
    ]
    for table in LINK_TABLES:
        kind = "kind STRING, " if table == EDGE else ""
        creations.append(f"CREATE REL TABLE {table} (FROM Thing TO Thing, {kind}place INT64)")
    creations.append(f"CREATE (:Meta {{name: 'version', value: {VERSION}}})")
    return creations


def thing_key(number: int, name: str) -> str:
    """Return the key of a thing: an end of a link."""
    return f"{number}:{name}"


def side_key(bank: str, name: str) -> str:
    """Return the unique key of an unlogged value."""
    return f"{len(bank)}:{bank}{name}"


def create_statement(table: str, source: str = "x") -> str:
    """Return the statement that creates a node of a table from the members of a value."""
    columns = ", ".join(f"`{name}`: {source}.`{name}`" for name in NODES[table])
    return f"CREATE (:{table} {{{columns}}})"


Values = dict[str, Any]
"""The columns of a row."""


_BUSY = ("Only one write transaction at a time", "Could not set lock on file")
_FULL = ("No space left on device", "Disk quota exceeded")
_DAMAGED = (
    *("Checksum verification failed", "Reading past the end of the file", "corrupt"),
    *("not a valid Lbug database file", "bad_alloc", "invalid WAL record"),
)


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Translate errors of the engine in a block.

    Args:
        name: The store's name.

    Raises:
        StoreError: With a hint.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        raise ours(error, name) from error
    except UnicodeDecodeError as error:
        raise damaged(name, "it contains invalid text") from error


def ours(error: Exception, name: str) -> StoreError:
    """Return the error for an error of the engine."""
    message = str(error)
    if any(part in message for part in _BUSY):
        return StoreBusyError(
            "another program is writing and did not finish in time",
            file=name,
            hint="Try again; if nothing else runs, see: satchel doctor.",
        )
    if any(part in message for part in _FULL):
        return StoreFullError("no space left", file=name, hint="Free disk space and run again.")
    if isinstance(error, MemoryError) or any(part in message for part in _DAMAGED):
        return damaged(name, message)
    return StoreError(f"the store failed: {message}", file=name)


def damaged(name: str, problem: str) -> StoreDamagedError:
    """Return the error for a folder whose files are invalid."""
    return damaged_store(name, problem, "the folder")


AT_ONCE = 1000
"""Rows of one statement."""

MANY = 32
"""Minimum number of rows that are passed as a table; for fewer, a table takes longer."""


class Block:
    """A transaction on a connection of a database.

    The engine has no savepoints, and a failed statement rolls back the whole transaction. So
    everything that can be refused is checked before the first write, and a block in which the
    engine failed is over.
    """

    def __init__(self, connection: Any, name: str) -> None:
        self.connection = connection
        self.name = name
        self.over: str | None = None
        """Why the transaction is over; None while it is open."""

    def run(self, cypher: str, values: Values | None = None) -> Any:
        """Run a statement and return its result.

        Raises:
            StoreError: If it fails; then the block is over.
        """
        with self._whole():
            return self.connection.execute(cypher, values or {})

    def run_table(self, cypher: str, values: Values) -> Any:
        """Run a statement that reads an Arrow table, and return its result.

        Raises:
            StoreError: If it fails; then the block is over.
        """
        with self._whole():
            return self.connection.execute(statement_for(self.connection, cypher, values), values)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        if self.over is not None:
            raise StoreError(
                f"the transaction was already rolled back: {self.over}", file=self.name
            )
        try:
            with translated(self.name):
                yield
        except StoreError as error:
            self.over = error.message
            raise


class LadybugStatements(StoreTables):
    """Running statements, in the transaction of a block."""

    _UNTOUCHED = "the folder"

    def __init__(self, block: Block) -> None:
        self._block = block
        self._name = block.name

    def _number(self, bank: str) -> int:
        rows = self._all("MATCH (b:Bank {id: $bank}) RETURN b.number", bank=bank)
        if not rows:
            raise UnknownBankError(f"there is no bank {bank} here", file=self._name)
        self._start(rows[0][0], NODE_BITS)
        return int(rows[0][0])

    def _each(self, cypher: str, **values: Any) -> Iterator[list[Any]]:
        result = self._block.run(cypher, values)
        with translated(self._name):
            try:
                while result.has_next():
                    yield result.get_next()
            finally:
                result.close()

    def _all(self, cypher: str, **values: Any) -> list[list[Any]]:
        return list(self._each(cypher, **values))

    def _in(self, cypher: str, wanted: Iterable[Any], **values: Any) -> Iterator[list[Any]]:
        """Run a query for batches of the wanted values, each of which it calls ``x``."""
        for part in parts(wanted):
            yield from self._each(f"UNWIND $part AS x {cypher}", part=part, **values)

    def _run(self, cypher: str, **values: Any) -> None:
        self._block.run(cypher, values).close()

    def _many(
        self, cypher: str, rows: Iterable[Any], columns: Columns | Column, **values: Any
    ) -> None:
        """Run a statement for batches of rows, each of which it calls ``x``.

        Args:
            cypher: The statement.
            rows: Values, or mappings of columns.
            columns: The type of the values, or the types of the columns by name.
            values: Other parameters of the statement.
        """
        for part in parts(rows):
            if len(part) < MANY:
                self._run(f"UNWIND $part AS x {cypher}", part=part, **values)
            else:
                given = {**values, "part": arrow_table(part, columns)}
                self._block.run_table(f"LOAD FROM $part {cypher}", given).close()

    def _make(self, table: str, rows: Iterable[Values]) -> None:
        """Create nodes of a table."""
        self._many(create_statement(table), rows, NODES[table])

    def _next(self, table: str) -> int:
        """Return an unused number for a new row of a table."""
        ((highest,),) = self._all(f"MATCH (n:{table}) RETURN max(n.number)")
        return 1 if highest is None else int(highest) + 1


def parts(values: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield batches of values."""
    rest = iter(values)
    while part := list(islice(rest, AT_ONCE)):
        yield part


def seqs(places: Sequence[int], most: int) -> list[int]:
    """Return the positions within bounds, each once."""
    return [place for place in dict.fromkeys(places) if 0 <= place <= most]


def arrow_table(rows: Sequence[Any], columns: Columns | Column) -> Any:
    """Return a table with one column, ``x``, that holds the rows.

    Args:
        rows: Values, or mappings of columns.
        columns: The type of the values, or the types of the columns by name.

    Raises:
        MissingExtraError: If Arrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError(
            "writing many rows to this store needs Arrow",
            hint='Install it: python -m pip install "satchel[graph]"',
        ) from error
    types = {
        "STRING": pa.string(),
        "INT64": pa.int64(),
        "BLOB": pa.binary(),
        "BOOL": pa.bool_(),
    }
    if isinstance(columns, str):
        kind = types[columns]
    else:
        kind = pa.struct([(name, types[column]) for name, column in columns.items()])
    return pa.table({"x": pa.array(rows, type=kind)})


def statement_for(connection: Any, cypher: str, values: Values) -> Any:
    """Return a prepared statement that its connection does not cache.

    A statement holds the table that it reads, so a cache of them would grow with all that is
    written.

    Raises:
        RuntimeError: If the engine rejects it.
    """
    from ladybug import PreparedStatement

    prepared = PreparedStatement(connection, cypher, values)
    if not prepared.is_success():
        raise RuntimeError(prepared.get_error_message())
    return prepared
