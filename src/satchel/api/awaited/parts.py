"""What hangs on a bank, awaited; see ``satchel.api.awaited.stores``."""

from collections.abc import (
    AsyncIterator,
)
from itertools import islice
from typing import TYPE_CHECKING

from satchel.api import code as plain_code
from satchel.api import sessions as plain_sessions
from satchel.api import waking as plain_waking
from satchel.api.away import awaited, away
from satchel.api.files import Filing
from satchel.api.sharing import owning as plain_owning
from satchel.api.sharing import tokens as plain_tokens
from satchel.continuity.shown import MessageShown

if TYPE_CHECKING:
    from satchel.files import MemoryStore

_TOGETHER = 256


class Tokens:
    """As ``satchel.Bank.tokens``, awaited."""

    def __init__(self, plain: plain_tokens.Tokens) -> None:
        self._plain = plain

    issue = awaited(plain_tokens.Tokens.issue)
    list = awaited(plain_tokens.Tokens.list)
    revoke = awaited(plain_tokens.Tokens.revoke)
    verify = awaited(plain_tokens.Tokens.verify)
    write_revocations = awaited(plain_tokens.Tokens.write_revocations)


class Owners:
    """As ``satchel.Bank.owners``, awaited."""

    def __init__(self, plain: plain_owning.Owners) -> None:
        self._plain = plain

    list = awaited(plain_owning.Owners.list)
    add = awaited(plain_owning.Owners.add)
    set_threshold = awaited(plain_owning.Owners.set_threshold)
    propose = awaited(plain_owning.Owners.propose)
    sign = awaited(plain_owning.Owners.sign)
    enact = awaited(plain_owning.Owners.enact)


class Quarantine:
    """As ``satchel.Bank.quarantine``, awaited."""

    def __init__(self, plain: plain_waking.Quarantine) -> None:
        self._plain = plain

    list = awaited(plain_waking.Quarantine.list)
    show = awaited(plain_waking.Quarantine.show)
    scan = awaited(plain_waking.Quarantine.scan)
    add = awaited(plain_waking.Quarantine.add)
    release = awaited(plain_waking.Quarantine.release)
    reject = awaited(plain_waking.Quarantine.reject)


class Code:
    """As ``satchel.Bank.code``, awaited."""

    def __init__(self, plain: plain_code.Code) -> None:
        self._plain = plain

    index = awaited(plain_code.Code.index)
    query = awaited(plain_code.Code.query)
    show = awaited(plain_code.Code.show)
    trees = awaited(plain_code.Code.trees)
    drop = awaited(plain_code.Code.drop)


class Files:
    """What opens ``satchel.Bank.files``."""

    def __init__(self, bank: Filing) -> None:
        self._bank = bank

    async def open(self) -> "MemoryStore":
        """Return the memory files of the bank; ``await files.read_text.aio(...)`` and so on."""
        return await away(lambda: self._bank.files)


class Sessions:
    """As ``satchel.Bank.sessions``, awaited."""

    def __init__(self, plain: plain_sessions.Sessions) -> None:
        self._plain = plain

    record = awaited(plain_sessions.Sessions.record)
    set = awaited(plain_sessions.Sessions.set)
    show = awaited(plain_sessions.Sessions.show)
    diff = awaited(plain_sessions.Sessions.diff)
    rename = awaited(plain_sessions.Sessions.rename)
    archive = awaited(plain_sessions.Sessions.archive)
    checkpoint = awaited(plain_sessions.Sessions.checkpoint)
    checkpoints = awaited(plain_sessions.Sessions.checkpoints)
    fork = awaited(plain_sessions.Sessions.fork)
    distill = awaited(plain_sessions.Sessions.distill)
    list = awaited(plain_sessions.Sessions.list)

    async def messages(self, session: str, *, at: str | None = None) -> AsyncIterator[MessageShown]:
        """As ``satchel.Bank.sessions.messages``: some at a time, each time in a thread."""
        found = self._plain.messages(session, at=at)
        try:
            while some := await away(lambda: tuple(islice(found, _TOGETHER))):
                for one in some:
                    yield one
        finally:
            found.close()
