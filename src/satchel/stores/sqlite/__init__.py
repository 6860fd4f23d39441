"""SQLite, the default store: one file, any number of banks."""

from satchel.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
