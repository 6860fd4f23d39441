"""Tables and statements: one row a record, keyed by the number of its bank and its log position.

User-provided text is stored as bytes: PostgreSQL's text type rejects NUL, and bytes compare the
same in every locale. An index of such a column holds its first ``INDEXED`` bytes only, since a
B-tree limits the size of its values; queries compare the whole value as well.

Everything but ``body``, ``node``, ``bank``, ``blob`` and ``piece`` can be rebuilt from the log
(``doctor`` does, and compares); vectors need their model as well.
"""

import os
import secrets
import threading
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from satchel.errors import (
    MissingExtraError,
    ReadOnlyStoreError,
    SatchelError,
    SlotTakenError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreVersionError,
    UnknownBankError,
)
from satchel.ports.rows import CONFIG, NAME
from satchel.stores.vectors import StoreTables, damaged_store

APPLICATION = "satchel"
VERSION = 1
"""The version of the tables; a newer schema is refused, an older one is migrated."""

INDEXED = 100
"""Bytes of a value in its index; an ID has 71."""

BANK_SETTING = "satchel.bank"
"""The setting of a session with the only bank that a tenant sees."""

SLOT_INDEX = "record_slot"

NAMING = f"(seq = 0 OR type = '{CONFIG}')"
"""The condition on the rows that may name a bank."""

_SAYS = f"position('\\x{NAME.hex()}'::bytea IN body)"
_SAYS_MORE = f"position('\\x{NAME.hex()}'::bytea IN substr(body, {_SAYS} + 1))"
NAME_SAID = (
    f"CASE WHEN {_SAYS} = 0 THEN NULL WHEN {_SAYS_MORE} > 0 THEN ''::bytea"
    f" ELSE substr(body, {_SAYS}, {INDEXED}) END"
)
"""The bytes of such a row from a name on; empty for a row with several names, which is scanned."""

_OF_BANK = ("record", "link", "node", "word", "generation", "vector", "blob", "piece")
TABLES = ("store", "tenant", "bank", "side", *_OF_BANK)

_MAKE = f"""
CREATE TABLE store (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    application text NOT NULL,
    version integer NOT NULL
);
CREATE SEQUENCE change;
CREATE TABLE tenant (
    role name PRIMARY KEY,
    bank text COLLATE "C" NOT NULL
);
CREATE TABLE bank (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    head bytea NOT NULL,
    peaks bytea NOT NULL,
    changed bigint NOT NULL,
    changed_by bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE record (
    bank bigint NOT NULL,
    seq bigint NOT NULL,
    id bytea NOT NULL,
    type text COLLATE "C" NOT NULL,
    at text COLLATE "C" NOT NULL,
    body bytea,
    batch bigint NOT NULL,
    retired bigint,
    hold boolean NOT NULL,
    slot bytea,
    kind bytea,
    "user" bytea,
    agent bytea,
    run bytea,
    app bytea,
    session bytea,
    moment bytea,
    expires_at bytea,
    CONSTRAINT record_place PRIMARY KEY (bank, seq)
);
CREATE UNIQUE INDEX record_id ON record (bank, id);
CREATE INDEX record_type ON record (bank, type, seq);
CREATE INDEX record_name ON record (({NAME_SAID})) WHERE {NAMING};
CREATE UNIQUE INDEX {SLOT_INDEX} ON record (bank, slot)
    WHERE slot IS NOT NULL AND retired IS NULL;
CREATE INDEX record_current ON record (bank, seq) WHERE retired IS NULL;
CREATE INDEX record_user ON record (bank, substr("user", 1, {INDEXED}), seq)
    WHERE "user" IS NOT NULL AND retired IS NULL;
CREATE INDEX record_run ON record (bank, substr(run, 1, {INDEXED}), seq) WHERE run IS NOT NULL;
CREATE INDEX record_session ON record (bank, substr(session, 1, {INDEXED}), seq)
    WHERE session IS NOT NULL;
CREATE TABLE link (
    bank bigint NOT NULL,
    seq bigint NOT NULL,
    source bytea NOT NULL,
    target bytea NOT NULL,
    kind bytea NOT NULL
);
CREATE INDEX link_place ON link (bank, seq);
CREATE INDEX link_source ON link (bank, substr(source, 1, {INDEXED}));
CREATE INDEX link_target ON link (bank, substr(target, 1, {INDEXED}));
CREATE TABLE node (
    bank bigint NOT NULL,
    place bigint NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (bank, place)
);
CREATE TABLE side (
    bank text COLLATE "C" NOT NULL,
    name bytea NOT NULL,
    value bytea NOT NULL
);
CREATE UNIQUE INDEX side_name ON side (bank, sha256(name));
CREATE TABLE word (
    bank bigint NOT NULL,
    seq bigint NOT NULL,
    size integer NOT NULL, -- words
    huge boolean NOT NULL, -- more different words than a tsvector takes: every query looks at it
    terms text COLLATE "C" NOT NULL, -- each word with a space before and after it
    lexemes tsvector NOT NULL, -- each with the bank's number before it
    PRIMARY KEY (bank, seq)
);
CREATE INDEX word_lexemes ON word USING gin (lexemes) WITH (fastupdate = off);
CREATE INDEX word_huge ON word (bank, seq) WHERE huge;
CREATE TABLE generation (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bank bigint NOT NULL,
    model bytea NOT NULL,
    dimensions integer NOT NULL,
    generation bigint NOT NULL
);
CREATE UNIQUE INDEX generation_key ON generation (bank, sha256(model), dimensions, generation);
CREATE TABLE vector (
    generation bigint NOT NULL,
    seq bigint NOT NULL,
    bank bigint NOT NULL,
    width integer NOT NULL,
    numbers bytea NOT NULL,
    PRIMARY KEY (generation, seq)
);
CREATE TABLE blob (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bank bigint NOT NULL,
    digest bytea, -- none while it is being put
    size bigint NOT NULL,
    UNIQUE (bank, digest)
);
CREATE TABLE piece (
    blob bigint NOT NULL,
    part bigint NOT NULL,
    bank bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (blob, part)
);
ALTER TABLE piece ALTER COLUMN data SET STORAGE EXTERNAL;
"""

# A role that owns the tables sees all banks, and so does a member of it. Any other role sees the
# one bank that it is bound to in ``tenant``, or else the one that its session names; without
# either, none.
_ONLY = """
CREATE FUNCTION {schema}.only_bank() RETURNS text LANGUAGE sql STABLE
    SET search_path = {schema}, pg_temp
    RETURN coalesce(
        (SELECT bank FROM {schema}.tenant WHERE role = session_user),
        current_setting('{setting}', true)
    );
CREATE FUNCTION {schema}.only_number() RETURNS bigint LANGUAGE sql STABLE
    SET search_path = {schema}, pg_temp
    RETURN (SELECT number FROM {schema}.bank WHERE id = {schema}.only_bank());
ALTER TABLE tenant ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON tenant FOR SELECT USING (role = session_user);
ALTER TABLE bank ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON bank USING (id = (SELECT only_bank()));
ALTER TABLE side ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON side USING (bank = (SELECT only_bank()));
"""
# The number of a new bank is known only after its creation, so each statement queries it.
_OWN = """
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON {table} USING (bank = (SELECT only_number()));
"""


def make(connection: Any, schema: str) -> None:
    """Create the tables in an empty schema, inside a transaction."""
    policies = "".join(_OWN.format(table=table) for table in _OF_BANK)
    connection.execute(_MAKE + _ONLY.format(schema=schema, setting=BANK_SETTING) + policies)
    connection.execute("INSERT INTO store VALUES (true, %s, %s)", (APPLICATION, VERSION))
    add_units(connection)


def add_units(connection: Any) -> None:
    """Add a column of vectors for pgvector, if the database has that extension.

    The exact numbers stay authoritative: the extension has 32-bit numbers, 16,000 at most.
    """
    rows = connection.execute(_EXTENSION).fetchall()
    if rows and extension_of(connection) is None:
        connection.execute(f"ALTER TABLE vector ADD COLUMN unit {rows[0][0]}.vector")


def extension_of(connection: Any) -> str | None:
    """Return the quoted schema of pgvector, if vectors are compared on the server."""
    rows = connection.execute(_UNITS).fetchall()
    return str(rows[0][0]) if rows else None


_EXTENSION = """
SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
WHERE extname = 'vector'"""
_UNITS = """
SELECT quote_ident(nspname) FROM pg_attribute
JOIN pg_type ON pg_type.oid = atttypid JOIN pg_namespace ON pg_namespace.oid = typnamespace
WHERE attrelid = to_regclass('vector') AND attname = 'unit'"""


def stored_version(connection: Any, schema: str, name: str) -> int | None:
    """Return the version of the tables in a schema; None if it has none.

    Raises:
        StoreVersionError: If the tables are not Satchel's, or newer than this program.
    """
    sql = (
        "SELECT relname FROM pg_class"
        " WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r' AND relname = ANY (%s)"
    )
    tables = {table for (table,) in connection.execute(sql, (schema, list(TABLES))).fetchall()}
    if not tables:
        return None
    marks = []
    if "store" in tables:
        marks_sql = "SELECT to_jsonb(store)->>'application', to_jsonb(store)->>'version' FROM store"
        marks = connection.execute(marks_sql).fetchall()
    if len(marks) != 1 or marks[0][0] != APPLICATION:
        raise StoreVersionError("the tables there are not Satchel's", file=name)
    version = int(marks[0][1])
    if version > VERSION:
        raise StoreVersionError(
            f"the store has version {version}, this program reads up to {VERSION}",
            file=name,
            hint="Use a newer satchel.",
        )
    return version


try:
    import psycopg
    import psycopg.conninfo
except ImportError as error:
    raise MissingExtraError(
        "a store in PostgreSQL needs its driver",
        hint='Install it: python -m pip install "satchel[postgres]"',
    ) from error

DRIVER: Any = psycopg
"""The driver; untyped here, since it is an extra."""

_PASSING = frozenset({"53300", "57P03", "40001", "40P01"})
"""Too many connections, starting, serialization failure, deadlock."""

_BUSY = frozenset({"55P03", "57014", "40001", "40P01", "53300"})
_DENIED = frozenset({"28000", "28P01"})
_MISSING = frozenset({"3F000", "42P01"})
_CHANGED = frozenset({"42703", "42883"})
_DAMAGED = frozenset({"XX001", "XX002"})


class translated:  # noqa: N801 - used as a function
    """Translate errors of the driver in a block.

    Args:
        name: The store's name.

    Raises:
        StoreError: With a hint.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DRIVER.Error):
            # Without its cause: an unreachable server is named with its address there.
            raise _ours(error, self._name) from None
        if isinstance(error, UnicodeDecodeError):
            raise damaged(self._name, "it contains invalid text") from error


def is_passing(error: Any) -> bool:
    """Return whether an error is temporary."""
    return error.sqlstate in _PASSING or _is_starting(error)


def _is_starting(error: Any) -> bool:
    # During connecting, the driver does not expose the code of the server's refusal.
    message = str(error)
    return error.sqlstate is None and (
        "the database system is" in message
        or "too many clients" in message
        or "remaining conn" in message
    )


def _ours(error: Any, name: str) -> SatchelError:
    """Return the error for an error of PostgreSQL."""
    code = error.sqlstate
    message = (error.diag.message_primary or "").strip() if code else ""
    if code in _BUSY:
        return StoreBusyError(
            "other clients are writing and did not finish in time",
            file=name,
            hint="Try again; see pg_stat_activity for the blocking client.",
        )
    if code == "23505":
        if error.diag.constraint_name == SLOT_INDEX:
            return SlotTakenError("a current record for the same key or origin already exists")
        return StoreError(f"rejected by the store: {message}", file=name)
    if code == "53100":
        return StoreFullError("no space left", file=name, hint="Free disk space and run again.")
    if code in _DAMAGED:
        return damaged(name, message)
    return _refused(code, message, name) or _failed(error, code, message, name)


def _refused(code: str | None, message: str, name: str) -> SatchelError | None:
    if code == "25006":
        return ReadOnlyStoreError("the server is read-only", file=name)
    if code == "42501":
        return ReadOnlyStoreError(
            f"permission denied for the role: {message}",
            file=name,
            hint="Ask the owner of the tables to grant it.",
        )
    if code == "25P02":
        return StoreError(
            "an earlier statement of this transaction failed",
            file=name,
            hint="See: satchel doctor.",
        )
    if code in _MISSING:
        return StoreError(
            "the tables of the store are missing: its schema was dropped or renamed, or the "
            "address is wrong",
            file=name,
            hint=(
                "Check the schema and database of the address. To restore a backup: satchel backup "
                "restore. To create a new store: satchel init"
            ),
        )
    if code in _CHANGED:
        return StoreError(
            "the tables of the store are damaged: a column or a function is missing",
            file=name,
            hint="Undo the change of the schema, or restore a backup: satchel backup restore."
            " See: satchel doctor.",
        )
    return None


def _failed(error: Any, code: str | None, message: str, name: str) -> StoreError:
    if code in _DENIED or (code is None and "authentication failed" in str(error)):
        return StoreError("the server rejects the role or its password", file=name)
    if code == "3D000" or (code is None and "does not exist" in str(error)):
        return StoreError("no such database or role", file=name)
    if code is None or code.startswith(("08", "57P")):
        return unreachable(name)
    return StoreError(f"the store failed: {message}", file=name)


def unreachable(name: str) -> StoreError:
    """Return the error for a server that does not respond."""
    return StoreError(
        "the server does not respond",
        file=name,
        hint="Check that it runs and is reachable. Acknowledged writes are durable.",
    )


def damaged(name: str, problem: str) -> StoreDamagedError:
    """Return the error for tables whose contents are invalid."""
    return damaged_store(name, problem, "it")


MOST_AT_ONCE = 500
MOST_PLACE = (1 << 62) - 1
"""The largest position of a log or a tree."""

_COPIED = 32
"""Minimum number of rows that are copied in one stream instead of inserted one by one."""


def raw_text(text: str | None) -> bytes | None:
    """Return a text as in its column."""
    return None if text is None else text.encode()


def same(column: str) -> str:
    """Return the condition that a column equals a value, passed twice: for its index, and whole."""
    return f"(substr({column}, 1, {INDEXED}) = substr(%s, 1, {INDEXED}) AND {column} = %s)"


def among(column: str) -> str:
    """Return the condition that a column is one of some values, passed twice as in ``same``."""
    starts = f"SELECT substr(value, 1, {INDEXED}) FROM unnest(%s::bytea[]) AS given (value)"  # noqa: S608 - our own names
    return (
        f"(substr({column}, 1, {INDEXED}) = ANY (ARRAY({starts})) AND {column} = ANY (%s::bytea[]))"
    )


class PostgresSession:
    """A connection during a block, with the state of the block."""

    def __init__(self, connection: Any, name: str, extension: str | None) -> None:
        self.connection = connection
        self.name = name
        self.extension = extension
        """The schema of pgvector, where vectors are compared on the server."""
        self.numbers: dict[str, int] = {}
        """Numbers of the banks used; those of a writer are locked."""
        self.awaited: set[str] = set()
        """Banks that do not exist, and that no other client creates until the block ends."""
        self.locked: Callable[[str], int | None] | None = None
        """Locks a bank and returns its number; None where nothing is written."""
        self.cursors = count()
        self.stale: list[int] = []
        self.lost: list[range] = []
        self.is_over = False
        self._process = os.getpid()

    def require(self) -> None:
        """Refuse statements after the block, or in a child of its process."""
        if self.is_over or os.getpid() != self._process:
            raise StoreError("the view is over", file=self.name)


class PostgresStatements(StoreTables):
    """Running statements, on the connection of a session."""

    _UNTOUCHED = "it"

    def __init__(self, session: PostgresSession) -> None:
        self._session = session
        self._name = session.name

    def _known(self, bank: str) -> int | None:
        """Return the number of a bank, or None for an unknown bank."""
        if self._session.locked is not None:
            return self._session.locked(bank)
        known = self._session.numbers.get(bank)
        if known is None and "\0" not in bank:
            found = self._all("SELECT number FROM bank WHERE id = %s", bank)
            if found:
                known = self._session.numbers[bank] = int(found[0][0])
        return known

    def _number(self, bank: str) -> int:
        number = self._known(bank)
        if number is None:
            raise UnknownBankError(f"there is no bank {bank} here", file=self._name)
        return number

    def _all(self, sql: str, *values: Any) -> list[Any]:
        """Run a statement and return all of its rows."""
        self._session.require()
        with translated(self._name):
            self._tidy()
            cursor = self._session.connection.execute(sql, values, binary=True)
            return cursor.fetchall() if cursor.description else []

    def _in(self, sql: str, requested: Sequence[Any], *values: Any) -> list[Any]:
        """Run a statement for batches of the wanted values, which are its last parameter."""
        rows = list[Any]()
        for start in range(0, len(requested), MOST_AT_ONCE):
            rows += self._all(sql, *values, list(requested[start : start + MOST_AT_ONCE]))
        return rows

    def _each(self, sql: str, *values: Any, together: int = MOST_AT_ONCE) -> Iterator[Any]:
        """Yield the rows of a statement, fetched from the server in batches."""
        session = self._session
        session.require()
        number = next(session.cursors)
        name = f"each_{number}"
        with translated(self._name):
            self._tidy()
            sql = f"DECLARE {name} NO SCROLL CURSOR FOR {sql}"
            # On the client's side: a cursor cannot be declared with parameters.
            with DRIVER.ClientCursor(session.connection) as cursor:
                cursor.execute(sql, values)
        try:
            while found := self._all(f"FETCH {together} FROM {name}"):
                yield from found
                if len(found) < together:
                    break
        finally:
            # Iteration may stop anywhere, so the cursor is closed with the next statement.
            session.stale.append(number)

    def _tidy(self) -> None:
        stale, lost = self._session.stale, self._session.lost
        while stale:
            number = stale.pop()
            if not any(number in those for those in lost):
                self._session.connection.execute(f"CLOSE each_{number}")

    def _many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        self._session.require()
        with translated(self._name), self._session.connection.cursor() as cursor:
            self._tidy()
            cursor.executemany(sql, values)

    def _add_rows(self, table: str, types: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add rows to a table: many are copied, unless its policies forbid that.

        Args:
            table: Its name, and its columns unless all are passed.
            types: The type of each column.
            rows: The values, one for each column.
        """
        if len(rows) < _COPIED:
            marks = ", ".join(f"%s::{kind}" for kind in types)
            self._many(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608 - our own names
            return
        name = table.partition(" ")[0]
        if self._all("SELECT row_security_active(%s::text)", name)[0][0]:
            lists = ", ".join(f"%s::{kind}[]" for kind in types)
            sql = f"INSERT INTO {table} SELECT * FROM unnest({lists})"  # noqa: S608 - our own names
            for start in range(0, len(rows), MOST_AT_ONCE):
                part = rows[start : start + MOST_AT_ONCE]
                self._all(sql, *map(list, zip(*part, strict=True)))
            return
        with translated(self._name), self._session.connection.cursor() as cursor:
            self._tidy()
            binary = "tsvector" not in types  # which is written as text only
            form = "BINARY" if binary else "TEXT"
            with cursor.copy(f"COPY {table} FROM STDIN (FORMAT {form})") as copy:
                if binary:
                    copy.set_types(list(types))
                for row in rows:
                    copy.write_row(row)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Roll back a block that fails, and only that, whatever the transaction around it does."""
        session, connection = self._session, self._session.connection
        self._all("SAVEPOINT whole")
        first = next(session.cursors)
        before = dict(session.numbers), set(session.awaited)
        try:
            yield
        except BaseException:
            status = DRIVER.pq.TransactionStatus
            if connection.info.transaction_status in {status.INTRANS, status.INERROR}:
                session.numbers, session.awaited = before  # their locks are gone as well
                session.lost.append(range(first, next(session.cursors)))  # declared inside
                with translated(self._name):
                    connection.execute("ROLLBACK TO whole; RELEASE whole")
            raise
        self._all("RELEASE whole")


_MOST = 1_000
"""The number of ranges that are stored; transactions before them count as another client's."""


class OwnTransactions:
    """The transactions of one store object."""

    def __init__(self) -> None:
        self.number = secrets.randbits(62)
        """Identifies this object for older programs, which compare ``bank.changed_by``."""

        self._lock = threading.Lock()
        self._stretches: list[list[int]] = []

    def add(self, transaction: int) -> None:
        """Add a transaction, before it is committed."""
        with self._lock:
            position = bisect_right(self._stretches, [transaction]) - 1
            before = self._stretches[position] if position >= 0 else None
            if before is not None and before[1] + 1 == transaction:
                before[1] = transaction
                return
            insort(self._stretches, [transaction, transaction])
            del self._stretches[:-_MOST]

    def stamp(self, snapshot: str) -> int:
        """Return a number that changes when another client's transaction becomes visible.

        Args:
            snapshot: As ``pg_current_snapshot`` writes it: ``xmin:xmax:running,running``.
        """
        _, end, running = snapshot.split(":")
        with self._lock:
            last = int(end) - 1
            while (start := self._start_of(last)) is not None:
                last = start - 1
            numbers = sorted(map(int, filter(None, running.split(","))))
            others = [number for number in numbers if self._start_of(number) is None]
        return hash((last, *others))

    def _start_of(self, transaction: int) -> int | None:
        """Return the start of the range of a transaction."""
        position = bisect_right(self._stretches, [transaction, transaction + 1]) - 1
        if position < 0 or transaction > self._stretches[position][1]:
            return None
        return self._stretches[position][0]
