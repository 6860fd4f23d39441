"""Deletion of stores of each kind from outside."""

import shutil
from pathlib import Path

from postgres_kit import run_sql


def delete_store(store: str) -> None:
    """Delete a store, but not the key of an encrypted one.

    Args:
        store: Its address, with the schema for PostgreSQL.
    """
    if store.startswith("postgres"):
        server, _, schema = store.rpartition("schema=")
        run_sql(server.rstrip("?&"), f"DROP SCHEMA {schema} CASCADE")
    elif store.startswith("ladybug"):
        shutil.rmtree(store.removeprefix("ladybug://"))
    else:
        path = Path(store)
        for file in path.parent.glob(f"{path.name}*"):
            if file.suffix != ".key":
                file.unlink()


def store_exists(store: str) -> bool:
    """Return whether a store exists in any form."""
    if store.startswith("postgres"):
        server, _, schema = store.rpartition("schema=")
        found = run_sql(server.rstrip("?&"), f"SELECT to_regnamespace('{schema}') IS NOT NULL")
        return bool(found[0][0])
    return Path(store.removeprefix("ladybug://")).exists()
