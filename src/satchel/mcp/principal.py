"""The caller of a tool: the store's owner, or the holder of a capability token."""

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
    """A caller, with the open store."""

    satchel: Satchel
    settings: Settings
    """The settings, with the token if one is presented."""

    bank: str | None = None
    """The default bank of the caller; if None, the configured one, or the token's."""

    signs: bool = True
    """Whether results are signed; not for a caller whose key is on another machine."""

    def bank_called(self, name: str | None) -> Bank:
        """Return the bank of a name, or the default bank."""
        return self.satchel.bank(name or self.bank)

    def presenting(self, token: str) -> Settings:
        """Return the settings with a token, whose key must be on this machine.

        Raises:
            PermissionRefusedError: If the caller already holds a token.
        """
        if self.settings.token is not None:
            raise PermissionRefusedError("only one token at a time", field="capability_token")
        # As JSON, never as the name of a file, which would be an untrusted path.
        text = token if token.lstrip().startswith("{") else "{" + token
        return msgspec.structs.replace(self.settings, token=text, proven=False)


_ASKING: ContextVar[ToolCaller | None] = ContextVar("asking", default=None)


@contextmanager
def act_for(asker: ToolCaller) -> Iterator[None]:
    """Act for a caller during the block."""
    before = _ASKING.set(asker)
    try:
        yield
    finally:
        _ASKING.reset(before)


def current_caller(usual: ToolCaller | None) -> ToolCaller:
    """Return the caller of the present request.

    Raises:
        PermissionRefusedError: If the caller is unknown.
    """
    found = _ASKING.get() or usual
    if found is None:
        raise PermissionRefusedError("the requester is unknown")
    return found
