"""``Satchel`` and ``Bank`` for programs that await; see ``satchel.api.awaited.stores``.

Everything is loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from satchel.api.awaited.agents import Agents
    from satchel.api.awaited.amplihack import HierarchicalMemory, HierarchicalTransfer
    from satchel.api.awaited.backups import Backups
    from satchel.api.awaited.keys import Keys
    from satchel.api.awaited.pipeline import pipeline
    from satchel.api.awaited.stores import Bank, Satchel
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

_MODULES = {
    "agents": ("Agents",),
    "amplihack": ("HierarchicalMemory", "HierarchicalTransfer"),
    "backups": ("Backups",),
    "keys": ("Keys",),
    "pipeline": ("pipeline",),
    "stores": ("Bank", "Satchel"),
    "transfer": (
        *("convert", "copy_store", "decrypt_store", "encrypt_store", "inspect"),
        *("list_formats", "migrate", "verify"),
    ),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}

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
        if name not in _WHERE:
            raise AttributeError(f"module 'satchel.aio' has no attribute {name!r}")
        return getattr(import_module(f"satchel.api.awaited.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
