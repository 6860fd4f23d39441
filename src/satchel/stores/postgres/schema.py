"""The tables: one row a record, keyed by the number of its bank and its place in the log.

What people say is kept as bytes: PostgreSQL's texts have no room for a NUL, and bytes compare the
same in every locale. An index of such a column holds its first ``INDEXED`` bytes only, since a
B-tree takes no longer values; what is asked for is compared whole besides.

Everything but ``body``, ``node``, ``bank``, ``blob`` and ``piece`` can be built again from the log
(``doctor`` does and compares); for vectors their model is needed.
"""

from typing import Any

from satchel.errors import StoreVersionError
from satchel.ports.rows import CONFIG, NAME

APPLICATION = "satchel"
VERSION = 1
"""Of the tables; a newer schema is refused, an older one is migrated."""

INDEXED = 100
"""Bytes of a value that its index holds: an id has 71."""

BANK_SETTING = "satchel.bank"
"""The session's setting that names the one bank that a tenant sees."""

SLOT_INDEX = "record_slot"

NAMING = f"(seq = 0 OR type = '{CONFIG}')"
"""Says which rows may give a bank a name."""

_SAYS = f"position('\\x{NAME.hex()}'::bytea IN body)"
_SAYS_MORE = f"position('\\x{NAME.hex()}'::bytea IN substr(body, {_SAYS} + 1))"
NAME_SAID = (
    f"CASE WHEN {_SAYS} = 0 THEN NULL WHEN {_SAYS_MORE} > 0 THEN ''::bytea"
    f" ELSE substr(body, {_SAYS}, {INDEXED}) END"
)
"""Gives what such a row says from there on where it says a name; of one that does in several
places, and is looked through, no bytes."""

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
# The number of a new bank is known only after it was made, so it is asked anew in each statement.
_OWN = """
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON {table} USING (bank = (SELECT only_number()));
"""


def make(connection: Any, schema: str) -> None:
    """Make the tables in an empty schema, inside a transaction."""
    policies = "".join(_OWN.format(table=table) for table in _OF_BANK)
    connection.execute(_MAKE + _ONLY.format(schema=schema, setting=BANK_SETTING) + policies)
    connection.execute("INSERT INTO store VALUES (true, %s, %s)", (APPLICATION, VERSION))
    add_units(connection)


def add_units(connection: Any) -> None:
    """Have vectors compared on the server, where pgvector is installed in the database.

    The bytes stay what is believed: the extension has 32-bit numbers, and 16,000 of them at most.
    """
    found = connection.execute(_EXTENSION).fetchall()
    if found and extension_of(connection) is None:
        connection.execute(f"ALTER TABLE vector ADD COLUMN unit {found[0][0]}.vector")


def extension_of(connection: Any) -> str | None:
    """Return the schema of pgvector, quoted, where vectors are compared on the server."""
    found = connection.execute(_UNITS).fetchall()
    return str(found[0][0]) if found else None


_EXTENSION = """
SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
WHERE extname = 'vector'"""
_UNITS = """
SELECT quote_ident(nspname) FROM pg_attribute
JOIN pg_type ON pg_type.oid = atttypid JOIN pg_namespace ON pg_namespace.oid = typnamespace
WHERE attrelid = to_regclass('vector') AND attname = 'unit'"""


def found_version(connection: Any, schema: str, name: str) -> int | None:
    """Return the version of the tables in a schema; None where there is none of ours.

    Raises:
        StoreVersionError: If it is something else, or newer than this program.
    """
    sql = (
        "SELECT relname FROM pg_class"
        " WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r' AND relname = ANY (%s)"
    )
    there = {table for (table,) in connection.execute(sql, (schema, list(TABLES))).fetchall()}
    if not there:
        return None
    found = []
    if "store" in there:
        marks = "SELECT to_jsonb(store)->>'application', to_jsonb(store)->>'version' FROM store"
        found = connection.execute(marks).fetchall()
    if len(found) != 1 or found[0][0] != APPLICATION:
        raise StoreVersionError("the tables there are not Satchel's", file=name)
    version = int(found[0][1])
    if version > VERSION:
        raise StoreVersionError(
            f"the store has version {version}, this program reads up to {VERSION}",
            file=name,
            hint="Use a newer satchel.",
        )
    return version
