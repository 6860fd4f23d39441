"""Going on in new segments of the server's log, so that the old ones are written over."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from satchel.ports.store import Extent
from satchel.stores.postgres.statements import DRIVER

_ERRORS = DRIVER.errors

_MOST = 40
_SEGMENTS = "SELECT count(*) FROM pg_ls_waldir()"


def written_over(connection: Any) -> bool:
    """Write over the segments of the log that are not needed any more; tell whether that went.

    A segment that is not needed is used again under a new name, with its bytes until it is its
    turn. So there are as many rounds as there are segments, each of 16 MiB as a rule.
    """
    try:
        ((segments,),) = connection.execute(_SEGMENTS).fetchall()
        connection.execute("CHECKPOINT")
        for _ in range(min(int(segments) + 2, _MOST)):
            connection.execute("SELECT pg_switch_wal()")
            connection.execute("CHECKPOINT")
    except _ERRORS.InsufficientPrivilege:
        return False
    return int(segments) + 2 <= _MOST


Connecting = Callable[[], AbstractContextManager[Any]]
"""Gives a connection for as long as a block."""

_PIECE = 1 << 20
_MAY_READ = """
SELECT has_function_privilege('pg_read_binary_file(text,bigint,bigint,boolean)', 'EXECUTE')
AND has_function_privilege('pg_ls_waldir()', 'EXECUTE')"""
_MAY_SWITCH = "SELECT has_function_privilege('pg_switch_wal()', 'EXECUTE')"
# Tables and indexes of the schema, what is kept aside of long values, and sampled values.
_FILES = """
WITH own AS (
  SELECT oid, reltoastrelid FROM pg_class
  WHERE relnamespace = %s::regnamespace OR oid = 'pg_statistic'::regclass
), aside AS (SELECT reltoastrelid AS oid FROM own WHERE reltoastrelid <> 0)
SELECT pg_relation_filepath(oid) FROM own
UNION SELECT pg_relation_filepath(oid) FROM aside
UNION SELECT pg_relation_filepath(indexrelid) FROM pg_index JOIN aside ON indrelid = oid"""
_LOG = "SELECT 'pg_wal/' || name FROM pg_ls_waldir() ORDER BY name"
_READ = "SELECT pg_read_binary_file(%s, %s, %s, true)"


def laid_open(connecting: Connecting, schema: str) -> Iterator[Extent]:
    """Yield the files of a schema and of the server's log; none where the role may not read."""
    with connecting() as connection:
        if connection.execute(_MAY_READ).fetchall() != [(True,)]:
            return
        tables = [path for (path,) in connection.execute(_FILES, (schema,)).fetchall() if path]
        log = [path for (path,) in connection.execute(_LOG).fetchall()]
    # Bytes go from the log to the tables, and the log is written over then. Whoever looked at the
    # tables first could miss what goes there meanwhile, because of somebody else's checkpoint.
    for path in log:
        yield Extent(path, lambda path=path: _file(connecting, path))  # type: ignore[misc]
    for path in sorted(tables):
        yield Extent(path, lambda path=path: _table(connecting, path))  # type: ignore[misc]


def out_of_reach(connecting: Connecting) -> list[str]:
    """Return where the server may have bytes that nobody here can look at."""
    found = ["replicas, snapshots and base backups of the server"]
    with connecting() as connection:
        if connection.execute(_MAY_READ).fetchall() != [(True,)]:
            found.append("the server's files, which this role may not read")
        if connection.execute(_MAY_SWITCH).fetchall() != [(True,)]:
            found.append("the server's log (pg_wal), which this role may not overwrite")
        if connection.execute("SHOW archive_mode").fetchall() != [("off",)]:
            found.append("the archive of the server's log")
    return found


def _table(connecting: Connecting, path: str) -> Iterator[bytes]:
    """Yield the bytes of a table, which is in several files when it is large."""
    number = 0
    while True:
        name, there = path if not number else f"{path}.{number}", False
        for piece in _file(connecting, name):
            there = True
            yield piece
        if not there:
            return
        number += 1


def _file(connecting: Connecting, path: str) -> Iterator[bytes]:
    at = 0
    with connecting() as connection:
        while True:
            ((piece,),) = connection.execute(_READ, (path, at, _PIECE)).fetchall()
            if not piece:
                return
            yield bytes(piece)
            at += len(piece)
