"""Memory files: a transcript and texts at paths, safe for concurrent writers.

``MemoryStore`` has the API of ``flyte.ai.agents.memory``: existing code runs after a change of the
import. Everything is loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from satchel.errors import AccessDenied, ConcurrencyError, MemoryStoreError
    from satchel.files.manifest import MemoryMeta
    from satchel.files.memory_store import MemoryStore
    from satchel.files.storage import Dir

_WHERE = {
    "AccessDenied": "satchel.errors",
    "ConcurrencyError": "satchel.errors",
    "Dir": "satchel.files.storage",
    "MemoryMeta": "satchel.files.manifest",
    "MemoryStore": "satchel.files.memory_store",
    "MemoryStoreError": "satchel.errors",
}

__all__ = [
    "AccessDenied",
    "ConcurrencyError",
    "Dir",
    "MemoryMeta",
    "MemoryStore",
    "MemoryStoreError",
]

if not TYPE_CHECKING:  # type checkers know the names above, and no others

    def __getattr__(name: str) -> Any:
        if name not in _WHERE:
            raise AttributeError(f"module 'satchel.files' has no attribute {name!r}")
        return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
