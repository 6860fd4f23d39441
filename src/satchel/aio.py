"""``Satchel`` and ``Bank`` for programs that await; see ``satchel.api.aio``."""

from satchel.api.aio import Bank, Satchel

__all__ = ["Bank", "Satchel"]
