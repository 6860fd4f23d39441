"""What hangs on an open bank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from satchel.actions.opened import OpenBank
    from satchel.api.lifetime import Lifetime


class BankPart:
    """A part of an open bank, such as its quarantine; its methods are operations on the bank."""

    def __init__(self, opened: OpenBank, lifetime: Lifetime) -> None:
        self._opened = opened
        self._lifetime = lifetime

    @contextmanager
    def _context(self) -> Iterator[OpenBank]:
        with self._lifetime.use():
            yield self._opened
