"""Events of a bank for listeners, and sinks that its rows are copied to."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

MOST_IDS = 1000
"""The most IDs of an event; ``counts`` has their number."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of a bank."""

    event: str
    """``on_remember``, ``on_import``, ..."""

    delivery: str
    """ID of the event; the same when it is sent again."""

    at: str
    """When it happened, UTC."""

    bank: str | None = None
    """ID of the bank."""

    name: str | None = None
    """Its name."""

    ids: list[str] = []
    """IDs of the records concerned, the first thousand."""

    counts: dict[str, int] = {}
    content: list[Any] = []
    """The records themselves; only for listeners with contents."""


SCHEMA_VERSION = 1
"""The version of the columns; a sink of another version is refused."""


class SinkRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One record of a log, as columns; a change of state is a row like any other."""

    bank: str
    """The bank's ID."""

    seq: int
    """Its log position."""

    id: str
    type: str
    component: str | None = None
    """For a memory: ``semantic``, ``episodic``, ..."""

    text: str | None = None
    kind: str | None = None
    tags: str | None = None
    """A JSON list."""

    metadata: str | None = None
    """A JSON object."""

    user: str | None = None
    agent: str | None = None
    run: str | None = None
    app: str | None = None
    session: str | None = None
    origin_provider: str | None = None
    origin_source: str | None = None
    origin_id: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    occurred_at: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None
    expires_at: str | None = None
    arrived_at: str
    """When it was logged."""

    batch: int | None = None
    """Log position of the source record of its import."""

    source: str | None = None
    """The source of an edge."""

    target: str | None = None
    """The target of a status, an edge or an erasure."""

    state: str | None = None
    """The new state of ``target``: ``superseded``, ``deleted``, ..."""

    by: str | None = None
    """ID of the record that replaces ``target``."""

    reason: str | None = None
    actor: str | None = None


COLUMNS = SinkRow.__struct_fields__
"""The names of the columns, in order."""

WORDS = ("text", "tags", "metadata", "kind")
"""The columns that are emptied when a record is erased."""


class Position(NamedTuple):
    """The last row of a bank in a sink."""

    seq: int
    id: str
    """The row's ID, or the prefix of it that the sink stores."""


class Sink(Protocol):
    """A target of rows."""

    name: str
    """Its name, without secrets."""

    def last(self, bank: str) -> Position | None:
        """Return the last row of a bank; None if there is none.

        Raises:
            TargetError: If it cannot be read, or is of another version.
        """
        ...

    def write(self, bank: str, rows: Sequence[SinkRow]) -> None:
        """Add rows, in log order; they are durable when this returns.

        Raises:
            TargetError: If they cannot be written; existing rows may be written again.
        """
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...
