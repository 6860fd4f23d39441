"""What waits to be appended, looked at before it waits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from satchel.errors import MalformedError, SatchelError, UsageError
from satchel.ledger.authority import DECISIONS
from satchel.memory.records import Config, Model
from satchel.seal.batches import open_many
from satchel.seal.records import Sealed

_NEVER_LOGGED = frozenset({"embedding", "blob"})

Logging = tuple[Sealed, Model]
"""A record on its way into the log, and its typed value."""


@dataclass(slots=True)
class Ticket:
    """One append that waits for its commit."""

    records: Sequence[Logging]
    batch: str | None = None
    side: Mapping[str, bytes | None] = field(default_factory=dict)
    places: list[int] = field(default_factory=list)
    emptied: list[int] = field(default_factory=list)
    """Places of the records that its commit erased."""

    error: SatchelError | None = None
    done: bool = False


def require_appendable(records: Sequence[Sealed], batch: str | None) -> None:
    """Require that records may be appended like any other, to a batch or to none.

    Raises:
        UsageError: If one is kept beside the log, decides about the whole bank, or is an erasure
            in a batch.
    """
    wrong = next((record for record in records if record.type in _NEVER_LOGGED), None)
    if wrong is not None:
        raise UsageError(f"a record of type {wrong.type} is kept beside the log")
    if batch is not None and any(record.type == "erasure" for record in records):
        raise UsageError("an erasure cannot be undone, so it is no part of an import")
    if any(_starts_epoch(record) for record in records):
        raise UsageError("a decision about the whole bank is not appended like a record")


def looked_at(records: Sequence[Sealed]) -> list[Logging]:
    """Return records as their own bytes have them: what is logged once cannot be taken back.

    Raises:
        MalformedError: If one is not what a reader would accept.
    """
    opened = open_many(records)
    for (found, _), record in zip(opened, records, strict=True):
        if found.id != record.id or found.type != record.type:
            raise MalformedError("the bytes are those of another record", field="id")
    return opened


def with_models(records: Sequence[Sealed]) -> list[Logging]:
    """Return records that were just made, with their values."""
    return [(record, record.model) for record in records]


def _starts_epoch(record: Sealed) -> bool:
    model = record.model if record.type == "config" else None
    return isinstance(model, Config) and model.action in DECISIONS
