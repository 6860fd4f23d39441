"""PostgreSQL, the store for more than one machine: one schema of a database, any number of banks.

Needs the extra ``satchel[postgres]``.
"""

from satchel.stores.postgres.store import PostgresStore, store_is_created

__all__ = ["PostgresStore", "store_is_created"]
