"""Carry the memory of an AI agent: seal it, prove it, move it.

``satchel.Satchel`` opens the store with its banks; ``satchel.aio`` has the same for programs that
await. ``satchel.verify``, ``convert``, ``inspect`` and ``migrate`` do what the commands of the same
names do, ``copy_store``, ``encrypt_store`` and ``decrypt_store`` what those of ``store`` do,
``Agents`` what ``agent`` does, ``Backups`` what ``backup`` does, ``pipeline`` what ``rehydrate``
does. Everything is loaded when first
used, so importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from satchel.actions.converting import Conversion
    from satchel.actions.inspecting import Overview
    from satchel.actions.memories.values import Memory
    from satchel.api.agents import Agents
    from satchel.api.bank import Bank
    from satchel.api.operating import copy_store, decrypt_store, encrypt_store, migrate
    from satchel.api.pipeline import pipeline
    from satchel.api.satchel import Satchel
    from satchel.api.sharing.attenuation import attenuate
    from satchel.api.transfer import convert, inspect, list_formats, verify
    from satchel.api.upkeep.backups import Backups
    from satchel.api.upkeep.keys import Keys
    from satchel.errors import SatchelError
    from satchel.seal.records import Sealed
    from satchel.seal.sealing import derive
    from satchel.seal.verify.verification import Verification

_WHERE = {
    "Agents": "satchel.api.agents",
    "Backups": "satchel.api.upkeep.backups",
    "Bank": "satchel.api.bank",
    "Conversion": "satchel.actions.converting",
    "Keys": "satchel.api.upkeep.keys",
    "Memory": "satchel.actions.memories.values",
    "Overview": "satchel.actions.inspecting",
    "Satchel": "satchel.api.satchel",
    "SatchelError": "satchel.errors",
    "Sealed": "satchel.seal.records",
    "Verification": "satchel.seal.verify.verification",
    "attenuate": "satchel.api.sharing.attenuation",
    "convert": "satchel.api.transfer",
    "copy_store": "satchel.api.operating",
    "decrypt_store": "satchel.api.operating",
    "derive": "satchel.seal.sealing",
    "encrypt_store": "satchel.api.operating",
    "inspect": "satchel.api.transfer",
    "list_formats": "satchel.api.transfer",
    "migrate": "satchel.api.operating",
    "pipeline": "satchel.api.pipeline",
    "verify": "satchel.api.transfer",
}

__all__ = [
    "Agents",
    "Backups",
    "Bank",
    "Conversion",
    "Keys",
    "Memory",
    "Overview",
    "Satchel",
    "SatchelError",
    "Sealed",
    "Verification",
    "attenuate",
    "convert",
    "copy_store",
    "decrypt_store",
    "derive",
    "encrypt_store",
    "inspect",
    "list_formats",
    "migrate",
    "pipeline",
    "verify",
]


if not TYPE_CHECKING:  # type checkers know the names above, and no others

    def __getattr__(name: str) -> Any:
        if name not in _WHERE:
            raise AttributeError(f"module 'satchel' has no attribute {name!r}")
        return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
