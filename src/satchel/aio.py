"""``Satchel`` and ``Bank`` for programs that await; see ``satchel.api.awaited.stores``."""

from satchel.api.awaited.agents import Agents
from satchel.api.awaited.amplihack import HierarchicalMemory, HierarchicalTransfer
from satchel.api.awaited.backups import Backups
from satchel.api.awaited.stores import Bank, Satchel, pipeline
from satchel.api.awaited.transfer import (
    convert,
    copy_store,
    decrypt_store,
    encrypt_store,
    inspect,
    list_formats,
    migrate,
    verify,
)

open = Satchel.open  # noqa: A001 - satchel.aio.open() is how it is read
"""Open a store; see ``Satchel.open``. What it returns moves whole banks, awaited or not."""

__all__ = [
    "Agents",
    "Backups",
    "Bank",
    "HierarchicalMemory",
    "HierarchicalTransfer",
    "Satchel",
    "convert",
    "copy_store",
    "decrypt_store",
    "encrypt_store",
    "inspect",
    "list_formats",
    "migrate",
    "open",
    "pipeline",
    "verify",
]
