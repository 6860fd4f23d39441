"""Memory for AI agents that you can verify, move and back up.

``satchel.Satchel`` opens a store with its banks; ``satchel.aio`` has the same API for asyncio.
``verify``, ``convert``, ``inspect`` and ``migrate`` correspond to the commands of the same names,
``copy_store``, ``encrypt_store`` and ``decrypt_store`` to those of ``store``, ``Agents`` to
``agent``, ``Backups`` to ``backup``, ``pipeline`` to ``rehydrate``. Everything is loaded on first
use, so that importing the package is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from satchel.api.bank import Bank
    from satchel.api.functions import (
        attenuate,
        convert,
        copy_store,
        decrypt_store,
        encrypt_store,
        inspect,
        list_formats,
        migrate,
        verify,
    )
    from satchel.api.machine import Agents, Backups, Keys
    from satchel.api.pipeline import pipeline
    from satchel.api.store import Satchel
    from satchel.artifact.verification import Verification
    from satchel.bank.memory import Memory
    from satchel.crypto.sealed_records import Sealed, derive
    from satchel.errors import SatchelError
    from satchel.transfer.conversion import Conversion
    from satchel.transfer.verification import Overview

_WHERE = {
    "Agents": "satchel.api.machine",
    "Backups": "satchel.api.machine",
    "Bank": "satchel.api.bank",
    "Conversion": "satchel.transfer.conversion",
    "Keys": "satchel.api.machine",
    "Memory": "satchel.bank.memory",
    "Overview": "satchel.transfer.verification",
    "Satchel": "satchel.api.store",
    "SatchelError": "satchel.errors",
    "Sealed": "satchel.crypto.sealed_records",
    "Verification": "satchel.artifact.verification",
    "attenuate": "satchel.api.functions",
    "convert": "satchel.api.functions",
    "copy_store": "satchel.api.functions",
    "decrypt_store": "satchel.api.functions",
    "derive": "satchel.crypto.sealed_records",
    "encrypt_store": "satchel.api.functions",
    "inspect": "satchel.api.functions",
    "list_formats": "satchel.api.functions",
    "migrate": "satchel.api.functions",
    "pipeline": "satchel.api.pipeline",
    "verify": "satchel.api.functions",
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
