"""What waits to be appended to a log, and what it builds on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from satchel.errors import (
    ChangedError,
    MalformedError,
    ReadOnlyStoreError,
    SatchelError,
    UsageError,
)
from satchel.ledger.authority import Authority, starts_epoch
from satchel.ledger.heads import TrustedHead
from satchel.ledger.logged import Unchanged
from satchel.memory.parts import Component
from satchel.memory.records import Model, Redaction, SessionEvent, Status
from satchel.ports.rows import Filter, Row, unplaced_row
from satchel.ports.store import Reader
from satchel.seal.batches import open_many
from satchel.seal.records import Sealed, open_record
from satchel.seal.redacted_forms import opened_form
from satchel.seal.signing.key import SigningKey

_NEVER_LOGGED = frozenset({"embedding", "blob"})

ENTRY_TYPES = frozenset(map(str, Component))


class Logging(NamedTuple):
    """A record on its way into the log."""

    row: Row
    """Without its place and its moment, which the commit gives it."""

    record: Sealed | None
    model: Model | None
    """Its typed value. None, like the record, only for an entry: its row says all that counts."""


@dataclass(slots=True)
class Ticket:
    """One append that waits for its commit."""

    records: Sequence[Logging]
    batch: str | None = None
    """Id of the source record of the import that they belong to."""

    side: Mapping[str, bytes | None] = field(default_factory=dict)
    given: Unchanged | None = None
    forms: Mapping[str, bytes] = field(default_factory=dict)
    """Redacted forms by id, which its redaction records put in the place of entries."""

    visible: bool = False
    """Whether rows of an import are current at once, since it is closed in the same transaction."""

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
        raise UsageError(f"a record of type {wrong.type} is stored outside the log")
    if batch is not None and any(record.type == "erasure" for record in records):
        raise UsageError("an erasure cannot be part of an import")
    if any(map(starts_epoch, records)):
        raise UsageError("a decision about the whole bank cannot be appended like a record")


def require_given(found: TrustedHead, waiting: Sequence[Ticket], reader: Reader) -> None:
    """Refuse an append that builds on what changed, also by one that is committed with it.

    Raises:
        ChangedError: If there is one.
    """
    changing, growing = set[str](), set[str]()
    for ticket in waiting:
        given = ticket.given
        if given is not None and not (
            found.fold.is_same(given, found.head.size, changing)
            and growing.isdisjoint(given.sessions)
            and not any(_has_grown(reader, found, name, given.size) for name in given.sessions)
        ):
            raise ChangedError("it was changed by another process", hint="Read it again.")
        models = [one.model for one in ticket.records]
        changing.update(model.target for model in models if isinstance(model, Status))
        growing.update(each.session or "" for each in models if isinstance(each, SessionEvent))


def _has_grown(reader: Reader, found: TrustedHead, session: str, size: int) -> bool:
    """Tell whether the log has anything of a session beyond its first records."""
    wanted = Filter(session=session, retired=True, held=True)
    new = reader.scan(found.head.bank, wanted, after=size - 1)
    return found.head.size > size and next(iter(new), None) is not None


def looked_at(records: Sequence[Sealed], batch: str | None = None) -> list[Logging]:
    """Return records as their own bytes have them: what is logged once cannot be taken back.

    In a batch some may be redacted forms, whose redactions are with them.

    Raises:
        MalformedError: If a record is not what a reader would accept.
        LimitError: If one is too large.
    """
    results = _redacted(records) if batch is not None else {}
    forms = {one.id: opened_form(one.body, results[one.id]) for one in records if one.id in results}
    whole = iter(open_many([one for one in records if one.id not in forms]))
    opened = [forms.get(one.id) or next(whole) for one in records]
    for (found, _), record in zip(opened, records, strict=True):
        if found.id != record.id or found.type != record.type:
            raise MalformedError("the bytes belong to another record", field="id")
    return [_logging(*one) for one in opened]


def looked_at_before(rows: Sequence[Row]) -> list[Logging]:
    """Return records whose rows this process derived from what it sealed or opened.

    Raises:
        UsageError: If one may not be appended.
    """
    others = {place: row for place, row in enumerate(rows) if row.type not in ENTRY_TYPES}
    opened = {place: open_record(row.body or b"") for place, row in others.items()}
    require_appendable([record for record, _ in opened.values()], None)
    nothing = (None, None)
    return [Logging(row, *opened.get(place, nothing)) for place, row in enumerate(rows)]


def _redacted(records: Sequence[Sealed]) -> dict[str, str]:
    """Return the hashes of the forms in which some records say that others stand."""
    models = (one.model for one in records if one.type == "redaction")
    return {model.entry: model.result for model in models if isinstance(model, Redaction)}


def _logging(record: Sealed, model: Model) -> Logging:
    return Logging(unplaced_row(model, record.id, record.body), record, model)


def with_models(records: Sequence[Sealed]) -> list[Logging]:
    """Return records that were just made, with their values."""
    return [_logging(record, record.model) for record in records]


def may_not_add(authority: Authority, writer: SigningKey | None) -> ReadOnlyStoreError:
    """Return the error of a machine whose key does not sign the heads of a bank."""
    if writer is not None and authority.keys.ending(writer.did) is not None:
        return ReadOnlyStoreError(
            f"this machine's key may not add to the bank: {writer.did},"
            f" {authority.why_not(writer.did)}",
            hint="It cannot be reinstated. Create a new writer key: satchel key rotate writer.",
        )
    return ReadOnlyStoreError(
        "this machine's key may not add to the bank",
        hint="An owner must admit it: satchel bank admit.",
    )
