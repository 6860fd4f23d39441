"""Memory files: a transcript and text at paths, which many can write without losing anything.

``MemoryStore`` has the names of ``flyte.ai.agents.memory``; code written against that runs by
changing the import.
"""

from satchel.errors import AccessDenied, ConcurrencyError, MemoryStoreError
from satchel.files.manifest import MemoryMeta
from satchel.files.memory_store import MemoryStore
from satchel.files.places import Dir

__all__ = [
    "AccessDenied",
    "ConcurrencyError",
    "Dir",
    "MemoryMeta",
    "MemoryStore",
    "MemoryStoreError",
]
