"""``Satchel`` and ``Bank`` for programs that await, and whole stores; see ``satchel.api.aio``."""

from satchel.api.aio import (
    Bank,
    HierarchicalMemory,
    HierarchicalTransfer,
    Satchel,
    copy_store,
    migrate,
)

open = Satchel.open  # noqa: A001 - satchel.aio.open() is how it is read
"""Open a store; see ``Satchel.open``. What it returns moves whole banks, awaited or not."""

__all__ = [
    "Bank",
    "HierarchicalMemory",
    "HierarchicalTransfer",
    "Satchel",
    "copy_store",
    "migrate",
    "open",
]
