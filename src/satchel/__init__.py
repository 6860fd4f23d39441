"""Carry the memory of an AI agent: seal it, prove it, move it.

``satchel.Satchel`` opens the store with its banks; ``satchel.aio`` has the same for programs that
await. ``satchel.verify``, ``convert``, ``inspect`` and ``migrate`` do what the commands of the same
names do, ``copy_store`` what ``store copy`` does, ``pipeline`` what ``rehydrate`` does. Everything
is loaded when first used, so importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from satchel.api import Conversion, Overview, Verification, convert, inspect, verify
    from satchel.api.bank import Bank
    from satchel.api.operating import copy_store, migrate
    from satchel.api.satchel import Satchel
    from satchel.api.sharing.tokens import attenuate
    from satchel.api.waking import pipeline
    from satchel.errors import SatchelError
    from satchel.seal.records import Sealed
    from satchel.seal.sealing import derive

_WHERE = {
    "Bank": "satchel.api.bank",
    "Conversion": "satchel.api",
    "Overview": "satchel.api",
    "Satchel": "satchel.api.satchel",
    "SatchelError": "satchel.errors",
    "Sealed": "satchel.seal.records",
    "Verification": "satchel.api",
    "attenuate": "satchel.api.sharing.tokens",
    "convert": "satchel.api",
    "copy_store": "satchel.api.operating",
    "derive": "satchel.seal.sealing",
    "inspect": "satchel.api",
    "migrate": "satchel.api.operating",
    "pipeline": "satchel.api.waking",
    "verify": "satchel.api",
}

__all__ = [
    "Bank",
    "Conversion",
    "Overview",
    "Satchel",
    "SatchelError",
    "Sealed",
    "Verification",
    "attenuate",
    "convert",
    "copy_store",
    "derive",
    "inspect",
    "migrate",
    "pipeline",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'satchel' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
