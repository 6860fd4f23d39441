"""What hangs on a bank, awaited; see ``satchel.api.awaited.stores``."""

from collections.abc import AsyncIterator
from itertools import islice
from typing import TYPE_CHECKING

from satchel.api import code, sessions, waking
from satchel.api.away import away
from satchel.api.files import Filing
from satchel.api.operations import Awaited
from satchel.api.sharing import owning, tokens

if TYPE_CHECKING:
    from satchel.continuity.shown import MessageShown
    from satchel.files import MemoryStore

_TOGETHER = 256


class Tokens(Awaited, tokens.Tokens):
    """As ``satchel.Bank.tokens``, awaited."""


class Owners(Awaited, owning.Owners):
    """As ``satchel.Bank.owners``, awaited."""


class Quarantine(Awaited, waking.Quarantine):
    """As ``satchel.Bank.quarantine``, awaited."""


class Code(Awaited, code.Code):
    """As ``satchel.Bank.code``, awaited."""


class Files:
    """What opens ``satchel.Bank.files``."""

    def __init__(self, bank: Filing) -> None:
        self._bank = bank

    async def open(self) -> "MemoryStore":
        """Return the memory files of the bank; ``await files.read_text.aio(...)`` and so on."""
        return await away(lambda: self._bank.files)


class Sessions(Awaited, sessions.SessionCalls):
    """As ``satchel.Bank.sessions``, awaited."""

    async def messages(
        self, session: str, *, at: str | None = None
    ) -> "AsyncIterator[MessageShown]":
        """As ``satchel.Bank.sessions.messages``: some at a time, each time in a thread."""
        found = self._plain.messages(session, at=at)
        try:
            while some := await away(lambda: tuple(islice(found, _TOGETHER))):
                for one in some:
                    yield one
        finally:
            found.close()
