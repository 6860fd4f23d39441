"""Bringing older tables up to date, once, with a copy of how they were in a schema beside them.

The copy is made and the steps are taken in one transaction that nobody reads or writes beneath, so
a program that is killed leaves the old tables. The result is checked before it is committed.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from satchel.errors import StoreVersionError
from satchel.memory.times import now
from satchel.stores.postgres.errors import damaged
from satchel.stores.postgres.schema import TABLES, VERSION, found_version, make

Step = str | Callable[[Any], object]
"""SQL, or what works on a connection inside the transaction, that leads to the next version."""

STEPS: Mapping[int, Step] = MappingProxyType({})
"""By the version that each step leads away from. Nothing older than version 1 was released."""

_BANKS = """
SELECT id, head, peaks, (SELECT count(*) FROM record WHERE record.bank = bank.number),
    (SELECT count(*) FROM node WHERE node.bank = bank.number),
    (SELECT count(*) FROM piece WHERE piece.bank = bank.number)
FROM bank ORDER BY id"""
_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtextextended('satchel schema ' || %s, 0))"


def prepare(connection: Any, schema: str, name: str, steps: Mapping[int, Step]) -> str | None:
    """Make the tables where there are none, or bring older ones up to date.

    Several programs may try at once; one does it, the others wait for it.

    Args:
        connection: For writing, in no transaction.
        schema: Where the tables are, or are to be.
        name: The store's.
        steps: As ``STEPS``.

    Returns:
        The schema with the copy of how they were; None where nothing had to be brought up to date.

    Raises:
        StoreVersionError: If no step leads from their version, or they are not ours.
        StoreDamagedError: If the steps lost something; the tables are as they were.
    """
    if found_version(connection, schema, name) == VERSION:
        return None
    with connection.transaction():
        connection.execute(_ONE_AT_A_TIME, (schema,))
        version = found_version(connection, schema, name)
        if version is None:
            there = connection.execute("SELECT to_regnamespace(%s)", (schema,)).fetchall()
            if there == [(None,)]:
                connection.execute(f"CREATE SCHEMA {schema}")
            make(connection, schema)
        elif version < VERSION:
            return _migrate(connection, schema, name, version, steps)
    return None


def _migrate(
    connection: Any, schema: str, name: str, version: int, steps: Mapping[int, Step]
) -> str:
    versions = range(version, VERSION)
    if any(each not in steps for each in versions):
        raise StoreVersionError(f"cannot upgrade from version {version}", file=name)
    connection.execute("LOCK TABLE store IN ACCESS EXCLUSIVE MODE")  # which every writer reads
    digits = "".join(filter(str.isdigit, now()))
    kept = f"{schema[:30]}_v{version}_{digits}"
    connection.execute(f"CREATE SCHEMA {kept}")
    for table in TABLES:
        if connection.execute("SELECT to_regclass(%s)", (f"{schema}.{table}",)).fetchall()[0][0]:
            connection.execute(f"CREATE TABLE {kept}.{table} AS TABLE {schema}.{table}")
    before = connection.execute(_BANKS).fetchall()
    for each in versions:
        step = steps[each]
        if isinstance(step, str):
            connection.execute(step)
        else:
            step(connection)
    connection.execute("UPDATE store SET version = %s", (VERSION,))
    if connection.execute(_BANKS).fetchall() != before:
        raise damaged(name, "upgrading it would lose records")
    return kept
