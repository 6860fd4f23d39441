"""Whose memory something is."""

from typing import Literal

from satchel.memory.parts import Origin, Scope
from satchel.ports.rows import Row

Owner = tuple[Literal["user", "agent", "run", ""], str]
"""Whose memory something is: the most lasting id in its scope, and which sort it is."""


def owner_of(said: Row | Scope | None) -> Owner:
    """Return whose memory something is."""
    if said is not None and said.user is not None:
        return "user", said.user
    if said is not None and said.agent is not None:
        return "agent", said.agent
    if said is not None and said.run is not None:
        return "run", said.run
    return "", ""


def account_of(origin: Origin | None) -> tuple[str | None, str | None]:
    """Return the provider and the account that something comes from."""
    return (None, None) if origin is None else (origin.provider, origin.source)
