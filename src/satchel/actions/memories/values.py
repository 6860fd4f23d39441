"""A memory as people and programs are shown it."""

from typing import Any

import msgspec

from satchel.ledger.epochs import BankStanding
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.parts import Json, JsonObject, Origin, Scope, is_id
from satchel.memory.records import Redaction
from satchel.memory.times import now
from satchel.ports.rows import PENDING, RETIRING

CURRENT, EXPIRED = "current", "expired"

PROVIDER = "satchel"
"""Stands in the origin of a memory that its caller gave a key."""

_COMMON = frozenset(Entry.__struct_fields__)


class Redacted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """That a memory is redacted, and by the log, how."""

    by: str | None = None
    """The key of who did it; absent where the record does not say."""

    at: str
    """When, by the clock of who did it, or else when it arrived."""

    fields: list[str] = []
    """JSON pointers of what was replaced."""

    imported: bool = False
    """Whether it came redacted, with an import; otherwise it was redacted in this bank."""

    @property
    def told(self) -> str:
        """It in words."""
        who = f" by {self.by}" if self.by else ""
        where = ", and came so with an import" if self.imported else ""
        return f"{self.at[:19].replace('T', ' ')}{who}: {', '.join(self.fields)}{where}"


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One memory with all that is known of it; what is absent is left out."""

    id: str
    type: str
    text: str | None = None
    data: Json = None
    key: str | None = None
    """The name that the caller gave it."""

    kind: str | None = None
    tags: list[str] = []
    metadata: JsonObject = {}
    salience: float | None = None
    scope: Scope | None = None
    parents: list[str] = []
    created_at: str | None = None
    updated_at: str | None = None
    occurred_at: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None
    expires_at: str | None = None
    members: JsonObject = {}
    """What else it says: the members of its type, entities, sources, and any other."""

    origin: Origin | None = None
    """Where it was before, unless that is only its key."""

    place: int
    """Its place in the log."""

    arrived_at: str
    state: str
    """``current``, or why it is not: ``superseded``, ``deleted``, ``expired``, ``rejected``."""

    held: bool = False
    """Whether it is in quarantine."""

    redacted: Redacted | None = None
    """Who redacted it, and when; absent for one that is whole."""

    retracted: list[str] = []
    """Memories that it derives from, directly or not, which were corrected or deleted since."""

    @property
    def gist(self) -> str:
        """What it says in words, on one line or several; the JSON of one that says nothing."""
        return gist_of({"text": self.text, "data": self.data, **self.members})


def memory_of(view: View, logged: Logged, *, moment: str, as_of: int | None = None) -> Memory:
    """Return what is shown of an entry.

    Args:
        view: Where it was read.
        logged: The entry.
        moment: When it is looked at, to tell whether it has expired.
        as_of: How long the log was then; None for now.
    """
    entry = logged.model
    assert isinstance(entry, Entry)  # noqa: S101 - whoever calls has looked
    value, origin = logged.record.value, entry.origin
    key = key_of(entry)
    own = origin is not None and origin == Origin(provider=PROVIDER, id=key)
    return Memory(
        id=logged.record.id,
        type=logged.record.type,
        key=key,
        tags=list(entry.tags),
        parents=list(entry.parent_ids),
        members={name: part for name, part in value.items() if name not in _COMMON | {"type"}}
        | {name: value[name] for name in ("entities", "sources") if name in value},
        origin=None if own else origin,
        place=logged.seq,
        arrived_at=logged.row.at,
        state=state_of(view, logged, moment=moment, as_of=as_of),
        held=logged.row.hold,
        redacted=redacted_of(view, logged),
        **{name: getattr(entry, name) for name in _SAME},
    )


def redacted_of(view: View, logged: Logged) -> Redacted | None:
    """Return that an entry is redacted, as the log says; None for one that is whole."""
    if not isinstance(logged.model, Entry) or logged.model.nonce is not None:
        return None
    found = view.redaction(logged.record.id)
    if found is None or not isinstance(found.model, Redaction):
        return None
    return Redacted(
        by=found.model.by,
        at=found.model.at or found.row.at,
        fields=list(found.model.fields),
        imported=bool(found.row.batch),
    )


_SAME = (
    *("text", "data", "kind", "metadata", "salience", "scope"),
    *("created_at", "updated_at", "occurred_at", "valid_from", "valid_until", "expires_at"),
)


def key_of(entry: Entry) -> str | None:
    """Return the name that a caller gave a memory."""
    origin = entry.origin
    if origin is None or origin.provider != PROVIDER or origin.id is None:
        return None
    return None if is_id(origin.id) else origin.id  # that is the one it had in another bank


def state_of(view: View, logged: Logged, *, moment: str, as_of: int | None = None) -> str:
    """Return ``current``, or the state that ended it, as ``Memory.state``."""
    retired = logged.row.retired
    if retired is None:
        return EXPIRED if has_expired(logged, moment) else CURRENT
    if retired == PENDING:
        return "pending"
    said = view.said(logged, as_of=as_of)
    ended = (each.state for each in said if each.place == retired and each.state in RETIRING)
    return next(ended, "deleted")


def has_expired(logged: Logged, moment: str) -> bool:
    """Tell whether a record says itself that its time to be shown is over."""
    expires_at = logged.row.expires_at
    return expires_at is not None and expires_at <= moment


def moment_of(view: View, as_of: int | None) -> str:
    """Return when the log was as it is looked at: now, or when its last record then arrived."""
    if as_of is None or as_of >= view.head.size:
        return now()
    return view.arrival(as_of - 1) if as_of else now()


def notes_of(view: View) -> list[str]:
    """Return what whoever reads a bank has to be told: what was given up of it, and whose it is."""
    notes = list(view.notes)
    if view.standing is BankStanding.STRANGER:
        notes.append("a stranger's bank: no key that this machine trusts owns it")
    return notes


def gist_of(value: dict[str, Any]) -> str:
    """Return in words what the members of an entry say; JSON where there are none."""
    if value.get("text"):
        return str(value["text"])
    if value.get("observation"):
        return str(value["observation"])
    triple = [value[name] for name in ("subject", "predicate", "object") if value.get(name)]
    if triple:
        return " ".join(triple)
    named = [value[name] for name in ("name", "description") if isinstance(value.get(name), str)]
    if named:
        return ": ".join(named)
    rest = {name: part for name, part in value.items() if part not in (None, "", [], {})}
    said = rest.pop("data") if rest.keys() == {"data"} else rest
    return msgspec.json.encode(said).decode() if said else ""
