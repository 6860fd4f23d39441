"""Stores that are deleted from outside, of each kind."""

import shutil
from pathlib import Path

from postgres_kit import run_sql


def delete_store(store: str) -> None:
    """Delete a store, but not the key of an encrypted one.

    Args:
        store: Its address, with its schema where it is PostgreSQL's.
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


def is_there(store: str) -> bool:
    """Tell whether a store is there in any form."""
    if store.startswith("postgres"):
        server, _, schema = store.rpartition("schema=")
        found = run_sql(server.rstrip("?&"), f"SELECT to_regnamespace('{schema}') IS NOT NULL")
        return bool(found[0][0])
    return Path(store.removeprefix("ladybug://")).exists()
