"""What listeners are told of: something happened to a bank, and is durable."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

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


SCHEMA_VERSION = 1
"""Of the columns; a sink of another version is refused."""


class SinkRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One record of a log, as columns; a change of state is a row like any other."""

    bank: str
    """The bank's id."""

    seq: int
    """Its place in the log."""

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
    """When it came into the log."""

    batch: int | None = None
    """Place of the source record of the import that it came with."""

    source: str | None = None
    """Where an edge starts."""

    target: str | None = None
    """What a status, an edge or an erasure is about."""

    state: str | None = None
    """``superseded``, ``deleted``, ...: what ``target`` is from here on."""

    by: str | None = None
    """What takes the place of ``target``."""

    reason: str | None = None
    actor: str | None = None


COLUMNS = SinkRow.__struct_fields__
"""The names of the columns, in their order."""

WORDS = ("text", "tags", "metadata", "kind")
"""The columns that are emptied where a record was erased."""


class Position(NamedTuple):
    """The last row that a sink has of a bank."""

    seq: int
    id: str
    """The row's id, or as much of its beginning as the sink keeps."""


class Sink(Protocol):
    """Somewhere rows go."""

    name: str
    """What to call it, without secrets."""

    def last(self, bank: str) -> Position | None:
        """Return the last row that is there of a bank; None for none.

        Raises:
            TargetError: If it cannot be read, or is of another version.
        """
        ...

    def write(self, bank: str, rows: Sequence[SinkRow]) -> None:
        """Add rows, in the order of the log; they are durable when this returns.

        Raises:
            TargetError: If they cannot be written; those that are there may be written again.
        """
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...
