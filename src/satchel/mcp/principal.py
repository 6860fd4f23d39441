"""On whose behalf a tool acts: the store's owner, or the holder of a capability token."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import msgspec

from satchel.api.bank import Bank
from satchel.api.store import Satchel
from satchel.config.settings import Settings
from satchel.errors import PermissionRefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCaller:
    """Who asks, and what is open for them."""

    satchel: Satchel
    settings: Settings
    """The surroundings, with the token where one is presented."""

    bank: str | None = None
    """The bank that is meant when none is named; the configured one, or the token's, when None."""

    signs: bool = True
    """Whether what they are handed is signed: not for somebody whose key is elsewhere."""

    def bank_called(self, name: str | None) -> Bank:
        """Return the bank of a name, or the one that is meant."""
        return self.satchel.bank(name or self.bank)

    def presenting(self, token: str) -> Settings:
        """Return the surroundings with a token presented, whose key has to be on this machine.

        Raises:
            PermissionRefusedError: If who asks is a holder already.
        """
        if self.settings.token is not None:
            raise PermissionRefusedError("only one token at a time", field="capability_token")
        # As JSON, never as the name of a file: that would be a path from elsewhere.
        text = token if token.lstrip().startswith("{") else "{" + token
        return msgspec.structs.replace(self.settings, token=text, proven=False)


_ASKING: ContextVar[ToolCaller | None] = ContextVar("asking", default=None)


@contextmanager
def act_for(asker: ToolCaller) -> Iterator[None]:
    """Act for somebody, until the block ends."""
    before = _ASKING.set(asker)
    try:
        yield
    finally:
        _ASKING.reset(before)


def current_caller(usual: ToolCaller | None) -> ToolCaller:
    """Return who asks now.

    Raises:
        PermissionRefusedError: If nobody is known to.
    """
    found = _ASKING.get() or usual
    if found is None:
        raise PermissionRefusedError("the requester is unknown")
    return found
