"""What listeners are told of: something happened to a bank, and is durable."""

from typing import Any

import msgspec

MOST_IDS = 1000
"""Ids that an event carries at most; ``counts`` says how many there are."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened."""

    event: str
    """``on_remember``, ``on_import``, ..."""

    delivery: str
    """Names this one; the same when it is sent again."""

    at: str
    """When it happened, UTC."""

    bank: str | None = None
    """Id of the bank."""

    name: str | None = None
    """Its name."""

    ids: list[str] = []
    """Of the records that it is about, the first thousand."""

    counts: dict[str, int] = {}
    content: list[Any] = []
    """The records themselves; only for listeners that asked for contents."""
