"""Rows: a logged record and the columns that are derived from its bytes.

Columns only nominate: a reader evaluates the filter again on the row that it derives from the
verified bytes.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec
from blake3 import blake3
from msgspec.structs import replace

from satchel.crypto.canonical import canonical, encode_sorted
from satchel.model.records import Edge, Entry, FileVersion, Model, SessionEvent
from satchel.model.values import Component, Origin, Scope

DERIVES_FROM = "derives_from"
"""The kind of the link from an entry to each of its parents."""

RETIRING = frozenset({"superseded", "deleted", "expired", "rejected"})
"""States after which a record is no longer current."""

HOLDS = {"quarantined": True, "released": False}
"""States that put a record into quarantine, or out of it."""

SLOT_BYTES = 16
"""Length of a slot's name in bytes; written in hex."""

UNPLACED = -1
"""``Row.seq`` of a record that is not logged yet."""

PENDING = -1
"""``Row.retired`` of a row whose import is not complete yet."""


class RecordLink(NamedTuple):
    """A directed link that a record makes between two IDs."""

    source: str
    target: str
    kind: str


class RowState(NamedTuple):
    """The state of a record in its log."""

    retired: int | None
    """As in ``Row``."""

    hold: bool


VISIBLE = RowState(None, hold=False)
"""The state of most records."""


class Row(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A record at its position in a bank's log.

    A store indexes ``text`` and ``links``; the rows that it returns have neither.
    """

    seq: int
    """Log position, from 0."""

    id: str
    type: str
    at: str
    """When it arrived: 27 characters, UTC."""

    body: bytes | None
    """Canonical bytes; None when the record was erased."""

    batch: int = 0
    """Log position of the source record of its import; 0 for none."""

    retired: int | None = None
    """Log position of the record that retired it; None while it is current; ``PENDING`` before
    that."""

    hold: bool = False
    """Whether it is in quarantine."""

    slot: str | None = None
    """Identifies the subject of the record; a slot has at most one current row."""

    kind: str | None = None
    user: str | None = None
    agent: str | None = None
    run: str | None = None
    app: str | None = None
    session: str | None = None
    moment: str | None = None
    """When the event happened, or else when the record was created."""

    expires_at: str | None = None
    text: str | None = None
    """The words to index."""

    links: tuple[RecordLink, ...] = ()

    def columns(self) -> tuple[Any, ...]:
        """Return the row with what a store has in columns."""
        return _columns_of(self)

    def changed(self, standing: RowState) -> "Row":
        """Return the row with another state."""
        retired, hold = standing
        if retired == self.retired and hold == self.hold:
            return self
        return replace(self, retired=retired, hold=hold)

    def placed(self, seq: int, at: str, batch: int, standing: RowState) -> "Row":
        """Return the row as logged at a position."""
        retired, hold = standing
        return replace(self, seq=seq, at=at, batch=batch, retired=retired, hold=hold)

    def erased(self) -> "Row":
        """Return the row as after an erasure: the members of its leaf, and its state."""
        return Row(
            seq=self.seq,
            id=self.id,
            type=self.type,
            at=self.at,
            body=None,
            batch=self.batch,
            retired=self.retired,
            hold=self.hold,
        )


@runtime_checkable
class SessionLookup(Protocol):
    """A view of a store that finds the newest records of many sessions at once."""

    def newest_of_sessions(
        self, bank: str, sessions: Sequence[str], types: Collection[str]
    ) -> list[int]:
        """Return the log position of the newest current record of each session that has one.

        Args:
            bank: The bank.
            sessions: The names of the sessions.
            types: The types of records to consider.
        """
        ...


_columns_of = attrgetter(*(name for name in Row.__struct_fields__ if name not in ("text", "links")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A filter of rows; an absent member matches all."""

    types: frozenset[str] | None = None
    kinds: frozenset[str] | None = None
    user: str | None = None
    agent: str | None = None
    run: str | None = None
    app: str | None = None
    session: str | None = None
    slot: str | None = None
    since: str | None = None
    """The first moment, inclusive."""

    until: str | None = None
    """The last moment, exclusive."""

    as_of: int | None = None
    """The state of the bank when its log had this many records; None for now.

    A row has only its present state. So for an earlier moment a store nominates the rows that may
    have matched then, those in quarantine included; the caller decides.
    """

    retired: bool = False
    """Whether to include rows that are no longer current."""

    held: bool = False
    """Whether to include rows in quarantine."""

    def matches(self, row: Row) -> bool:
        """Return whether a row matches, by its state at the moment of the filter."""
        if self.as_of is not None and row.seq >= self.as_of:
            return False
        if row.retired is not None and not self.retired and not self._was_current(row.retired):
            return False
        if row.hold and not self.held:
            return False
        return self._speaks_of(row)

    def nominates(self, row: Row) -> bool:
        """Return whether a row may match, by its present state."""
        if self.as_of is not None:
            row = row.changed(RowState(row.retired, hold=False))
        return self.matches(row)

    def _was_current(self, retired: int) -> bool:
        return self.as_of is not None and retired >= self.as_of

    @property
    def is_plain(self) -> bool:
        """Whether it includes rows of every state."""
        whose = (self.user, self.agent, self.run, self.app, self.session)
        own = (self.types, self.kinds, *whose, self.slot, self.since, self.until)
        return all(one is None for one in own)

    def _speaks_of(self, row: Row) -> bool:
        if self.types is not None and row.type not in self.types:
            return False
        if self.kinds is not None and row.kind not in self.kinds:
            return False
        # Spelled out for speed: a query checks hundreds of rows.
        if not (
            (self.user is None or row.user == self.user)
            and (self.agent is None or row.agent == self.agent)
            and (self.run is None or row.run == self.run)
            and (self.app is None or row.app == self.app)
            and (self.session is None or row.session == self.session)
            and (self.slot is None or row.slot == self.slot)
        ):
            return False
        if self.since is not None and (row.moment is None or row.moment < self.since):
            return False
        return self.until is None or (row.moment is not None and row.moment < self.until)


ALL_RECORDS = Filter(retired=True, held=True)
"""Matches every row of a bank."""


def unplaced_row(model: Model, identity: str, body: bytes) -> Row:
    """Return the row of a record that is not logged yet.

    Args:
        model: Its typed value, with or without its id.
        identity: Its id.
        body: Its canonical bytes.
    """
    return _derived(model, UNPLACED, (identity, str(model.__struct_config__.tag), "", body, 0))


def derive_row(model: Model, *, seq: int, at: str, body: bytes, batch: int = 0) -> Row:
    """Return the row of a logged record.

    Args:
        model: Its typed value, with its id.
        seq: Its log position.
        at: When it arrived.
        body: Its canonical bytes.
        batch: Log position of the source record of its import.
    """
    return _derived(model, seq, (model.id or "", str(model.__struct_config__.tag), at, body, batch))


def _derived(model: Model, seq: int, stored: tuple[str, str, str, bytes, int]) -> Row:
    if isinstance(model, Entry):
        return _entry_row(model, seq, *stored)
    scope = getattr(model, "scope", None)
    return _row(
        *(seq, *stored, slot_of(model), getattr(model, "kind", None), scope),
        model.session if isinstance(model, SessionEvent) else None,
        getattr(model, "created_at", None),
        None,
        getattr(model, "text", None),
        (RecordLink(model.source, model.target, model.kind),) if isinstance(model, Edge) else (),
    )


def _entry_row(  # noqa: PLR0913 - spelled out for speed
    model: Entry, seq: int, identity: str, tag: str, at: str, body: bytes, batch: int
) -> Row:
    kind, scope, occurred, created, expires, origin, parents = _entry_members(model)
    owner = _NOBODY if scope is None else _owner_members(scope)
    user, agent, run, app, _ = owner
    slot = None
    if origin is not None and origin.id is not None:
        owner = () if scope is None else owner
        slot = _slot(("origin", kind, origin.provider, origin.source, owner, origin.id))
    return Row(
        seq=seq,
        id=identity,
        type=tag,
        at=at,
        body=body,
        batch=batch,
        slot=slot,
        kind=kind,
        user=user,
        agent=agent,
        run=run,
        app=app,
        moment=occurred or created,
        expires_at=expires,
        text=_words(model, tag),
        links=tuple(RecordLink(identity, parent, DERIVES_FROM) for parent in parents)
        if parents
        else (),
    )


_NOBODY = (None, None, None, None, ())
_entry_members = attrgetter(
    "kind", "scope", "occurred_at", "created_at", "expires_at", "origin", "parent_ids"
)


def _row(  # noqa: PLR0913 - the columns, in their order
    seq: int,
    identity: str,
    tag: str,
    at: str,
    body: bytes,
    batch: int,
    slot: str | None,
    kind: str | None,
    scope: Scope | None,
    session: str | None,
    moment: str | None,
    expires_at: str | None,
    text: str | None,
    links: tuple[RecordLink, ...],
) -> Row:
    user, agent, run, app = (None, None, None, None) if scope is None else _scope_members(scope)
    return Row(
        seq=seq,
        id=identity,
        type=tag,
        at=at,
        body=body,
        batch=batch,
        slot=slot,
        kind=kind,
        user=user,
        agent=agent,
        run=run,
        app=app,
        session=session,
        moment=moment,
        expires_at=expires_at,
        text=text,
        links=links,
    )


_scope_members = attrgetter("user", "agent", "run", "app")


def bank_name_bytes(name: str) -> bytes:
    """Return bytes that occur in every record that sets this name of a bank, and in few others.

    Records are canonical, so there is only one way to write a name.

    Raises:
        ValueRefusedError: If no record can have it: it has half of a surrogate pair.
    """
    return NAME + canonical(name)


NAME = b'"name":'
"""The prefix of ``bank_name_bytes``."""

CONFIG = "config"
"""The type of the records that may rename a bank."""


def slot_of(model: Model) -> str | None:
    """Return the slot of a record: the name of its subject, if it has one.

    It is made of the source's own ID, the provider, the account, the owner and the kind; or of a
    file's path. It is the first 32 hex digits of a BLAKE3 hash: as text, the parts would be a fifth
    of a small record, twice.
    """
    if isinstance(model, FileVersion):
        return _slot(("path", model.path))
    origin = getattr(model, "origin", None)
    if origin is None or origin.id is None:
        return None
    return origin_slot(getattr(model, "kind", None), getattr(model, "scope", None), origin)


def origin_slot(kind: str | None, scope: Scope | None, origin: Origin) -> str:
    """Return the slot of a record with these members; its origin must have an ID."""
    owner = () if scope is None else _owner_members(scope)
    return _slot(("origin", kind, origin.provider, origin.source, owner, origin.id))


_owner_members = attrgetter("user", "agent", "run", "app", "namespace")


def _slot(parts: tuple[Any, ...]) -> str:
    # Texts and lists of them: the sorted encoding is the canonical one.
    return blake3(encode_sorted(parts)).hexdigest(length=SLOT_BYTES)


_WORDS = {
    Component.EPISODIC: ("text", "observation", "tags", "entities"),
    Component.IDENTITY: ("text", "tags", "entities"),
    Component.PROCEDURAL: ("text", "name", "description", "tags", "entities"),
    Component.SEMANTIC: ("text", "subject", "predicate", "object", "tags", "entities"),
    Component.WORKING: ("text", "tags", "entities"),
}
_words_of = {str(component): attrgetter(*names) for component, names in _WORDS.items()}


def entry_texts(entry: Entry) -> str:
    """Return the text of an entry, without its labels and entities; may be empty."""
    *texts, _tags, _entities = _words_of[str(entry.__struct_config__.tag)](entry)
    return "\n".join(part for part in texts if part)


def words_in(entry: Entry) -> str:
    """Return the words by which an entry is searched, as in ``Row.text``; may be empty."""
    return _words(entry, str(entry.__struct_config__.tag)) or ""


def _words(entry: Entry, tag: str) -> str | None:
    *texts, tags, entities = _words_of[tag](entry)
    if tags or entities:
        texts += tags
        texts += [entity.name for entity in entities]
    elif texts[0] and not any(texts[1:]):
        return str(texts[0])
    return "\n".join(part for part in texts if part) or None
