"""The tables: one row a record, keyed by bank number and place in the log together.

``place = number << 40 | seq`` is the integer key, so a bank is one stretch of the table, in log
order, and the full-text index needs no key of its own. Everything but ``body``, ``node``, ``bank``,
``blob`` and ``piece`` can be built again from the log (``doctor`` does and compares); for vectors
their model is needed.
"""

from typing import Any

import apsw

from satchel.errors import StoreDamagedError, StoreVersionError
from satchel.ports.rows import CONFIG, NAME

APPLICATION_ID = 0x53415443
"""Marks the file as ours (``SATC``)."""

VERSION = 1
"""Of the tables; a newer file is refused, an older one is migrated."""

SEQ_BITS = 40
"""Bits of ``place`` that hold the place in the log."""

SEQ_MASK = (1 << SEQ_BITS) - 1

PIECE_BITS = 24
"""Bits of a piece's place that hold its index: as many pieces as the largest database can hold."""

SLOT_INDEX = (
    "CREATE UNIQUE INDEX record_slot ON record (bank, slot)"
    " WHERE slot IS NOT NULL AND retired IS NULL"
)

NAMING = f"(place & {SEQ_MASK} = 0 OR type = '{CONFIG}')"
"""Says which rows may give a bank a name."""

NAME_BYTES = 100
"""Bytes of what such a row says from there on where it says a name."""

_SAYS = f"instr(body, X'{NAME.hex()}')"
NAME_SAID = (
    f"CASE WHEN {_SAYS} = 0 THEN NULL"
    f" WHEN instr(substr(body, {_SAYS} + 1), X'{NAME.hex()}') > 0 THEN X''"
    f" ELSE substr(body, {_SAYS}, {NAME_BYTES}) END"
)
"""Gives these bytes; none of a row that says names in several places, which is looked through."""

NAME_INDEX = f"CREATE INDEX record_name ON record ({NAME_SAID}) WHERE {NAMING}"
"""Of names as rows say them. Not every file has it: see ``index_names``."""

_TABLES = f"""
CREATE TABLE bank (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    head BLOB NOT NULL,
    peaks BLOB NOT NULL
) STRICT;
CREATE TABLE record (
    place INTEGER PRIMARY KEY,
    bank INTEGER NOT NULL,
    id BLOB NOT NULL,
    type TEXT NOT NULL,
    at TEXT NOT NULL,
    body BLOB,
    batch INTEGER NOT NULL,
    retired INTEGER,
    hold INTEGER NOT NULL,
    slot BLOB,
    kind TEXT,
    user TEXT,
    agent TEXT,
    run TEXT,
    app TEXT,
    session TEXT,
    moment TEXT,
    expires_at TEXT
) STRICT;
CREATE UNIQUE INDEX record_id ON record (id, bank);
CREATE INDEX record_type ON record (bank, type);
{SLOT_INDEX};
{NAME_INDEX};
CREATE INDEX record_user ON record (bank, user) WHERE user IS NOT NULL AND retired IS NULL;
CREATE INDEX record_run ON record (bank, run) WHERE run IS NOT NULL;
CREATE INDEX record_session ON record (bank, session) WHERE session IS NOT NULL;
CREATE TABLE link (
    bank INTEGER NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    kind TEXT NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (bank, source, kind, target, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_target ON link (bank, target);
CREATE TABLE node (place INTEGER PRIMARY KEY, hash BLOB NOT NULL) STRICT;
CREATE TABLE side (
    bank TEXT NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (bank, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE generation (
    number INTEGER PRIMARY KEY,
    bank INTEGER NOT NULL,
    model TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    UNIQUE (bank, model, dimensions, generation)
) STRICT;
CREATE TABLE vector (
    place INTEGER PRIMARY KEY, -- number of the generation << 40 | place in the log
    width INTEGER NOT NULL,
    numbers BLOB NOT NULL
) STRICT;
CREATE TABLE blob (
    number INTEGER PRIMARY KEY,
    bank INTEGER NOT NULL,
    digest BLOB, -- none while it is being put
    size INTEGER NOT NULL,
    UNIQUE (bank, digest)
) STRICT;
CREATE TABLE piece (
    place INTEGER PRIMARY KEY, -- number of the blob << 24 | index
    data BLOB NOT NULL
) STRICT;
CREATE VIRTUAL TABLE words USING fts5 (
    terms, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
"""


# One statement, one view: another process may be making the tables.
_MARKS = """
SELECT * FROM pragma_application_id, pragma_user_version, (SELECT count(*) FROM sqlite_schema)
"""
_FOREIGN = "SELECT 1 FROM sqlite_schema WHERE type NOT IN ('table', 'index') LIMIT 1"


def found_version(connection: apsw.Connection, name: str) -> int | None:
    """Return the version of the tables of a file that is ours; None for one that is empty.

    Raises:
        StoreVersionError: If it is something else, or newer than this program.
    """
    found: list[Any] = connection.execute(_MARKS).fetchall()
    ((application, version, tables),) = found
    if (application, version, tables) == (0, 0, 0):
        return None
    if application != APPLICATION_ID:
        raise StoreVersionError("this is not a Satchel database", file=name)
    if version > VERSION:
        raise StoreVersionError(
            f"the store has version {version}, this program reads up to {VERSION}",
            file=name,
            hint="Use a newer satchel.",
        )
    require_no_triggers(connection, name)
    return int(version)


def require_no_triggers(connection: apsw.Connection, name: str) -> None:
    """Refuse a file with triggers or views: they would act with the hands of whoever writes.

    Raises:
        StoreDamagedError: If it has some.
    """
    if connection.execute(_FOREIGN).fetchall():
        raise StoreDamagedError(
            "the store has triggers or views, which are not ours",
            file=name,
            hint="It was changed by another program. Restore it: satchel backup restore.",
        )


def make(connection: apsw.Connection) -> None:
    """Make the tables in an empty file, inside a transaction."""
    connection.execute(_TABLES)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def has_names(connection: apsw.Connection) -> bool:
    """Tell whether names have an index, and the very one that is meant here."""
    sql = "SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = 'record_name'"
    return connection.execute(sql).fetchall() == [(NAME_INDEX,)]


def index_names(connection: apsw.Connection) -> None:
    """Give names their index in a file that was made before there was one, inside a transaction.

    It is no new version: SQLite keeps it up by itself, whatever program writes.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchall()
    if version == (VERSION,) and lacks_names(connection):
        connection.execute(NAME_INDEX)


def lacks_names(connection: apsw.Connection) -> bool:
    """Tell whether names have no index, not even one that is not meant here."""
    return not connection.execute("SELECT 1 FROM pragma_index_info('record_name')").fetchall()
