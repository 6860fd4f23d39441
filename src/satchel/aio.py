"""``Satchel`` and ``Bank`` for programs that await; see ``satchel.api.asynchronous``.

Everything is loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from satchel.api.asynchronous import (
        Agents,
        Backups,
        Bank,
        HierarchicalMemory,
        HierarchicalTransfer,
        Keys,
        Satchel,
        convert,
        copy_store,
        decrypt_store,
        encrypt_store,
        inspect,
        list_formats,
        migrate,
        pipeline,
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
    "Keys",
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

if not TYPE_CHECKING:  # type checkers know the names above, and no others

    def __getattr__(name: str) -> Any:
        if name == "open":
            return __getattr__("Satchel").open
        if name not in __all__:
            raise AttributeError(f"module 'satchel.aio' has no attribute {name!r}")
        return getattr(import_module("satchel.api.asynchronous"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
