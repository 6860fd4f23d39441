"""A memory as people and programs are shown it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import structs

from satchel.bank.open_bank import OpenBank
from satchel.crypto.sealed_records import Sealed
from satchel.ledger.heads import BankStanding
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Entry, Redaction, Status
from satchel.model.text import memory_text
from satchel.model.values import Json, JsonObject, Origin, Scope, is_id, now, to_datetime
from satchel.ports.code_context import CodeContext
from satchel.ports.rows import PENDING, RETIRING

CURRENT, EXPIRED = "current", "expired"

PROVIDER = "satchel"
"""Stands in the origin of a memory that its caller gave a key."""

UNTRUSTED = "untrusted bank: its owners' keys are not trusted on this machine"
"""The note for readers of such a bank."""

_TEXT = "text_of_"
"""Begins the name of a field that holds as text what a property gives as a datetime."""

_SHOWN = 72
_SHOWN_DIGITS = len("blake3:") + 8
_COMMON = frozenset(Entry.__struct_fields__)


class RedactionInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
        where = ", as imported" if self.imported else ""
        return f"{self.at[:19].replace('T', ' ')}{who}: {', '.join(self.fields)}{where}"


def _member(name: str) -> str:
    return name.removeprefix(_TEXT)


class ScoreParts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a score is made of: each part between 0 and 1, before it is weighed."""

    words: float
    """How well its words go with the question, and those of the turns around it."""

    meaning: float
    """The same of what they mean."""

    thread: float
    """How much of the question its whole conversation speaks of."""

    speaker: float
    """Whether the question names who said it."""

    dated: float = 0.0
    """Whether it names a time, where the question asks for one."""

    time: float = 0.0
    """Whether it is of the time that the question names."""

    phrase: float = 0.0
    """Whether words that stand together in the question do so in it; of the best alone."""

    reranked: float = 0.0
    """How well a reranker finds that it answers; of the best alone."""

    linked: float
    """What it has from another memory, weighed."""

    cosine: float | None = None
    """How nearly it means the same; none without a vector."""

    linked_to: str | None = None
    """Id of the memory that an edge joins it with."""


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_member):
    """One memory: of a listing, an answer, a history, or one that was stored just now.

    Times are aware datetimes; as JSON they are text, as in the record. What is not known is None,
    empty, or absent from the JSON.
    """

    id: str
    type: str
    """``semantic``, ``episodic``, ``procedural``, ``working`` or ``identity``."""

    text: str
    """In words, whatever its type."""

    data: Json = None
    key: str | None = None
    """The name that the caller gave it."""

    kind: str | None = None
    tags: list[str] = []
    metadata: JsonObject = {}
    salience: float | None = None
    scope: Scope | None = None
    """Whose it is: ``user``, ``agent``, ``run`` and ``app``."""

    parents: list[str] = []
    text_of_created_at: str | None = None
    text_of_updated_at: str | None = None
    text_of_occurred_at: str | None = None
    text_of_valid_from: str | None = None
    text_of_valid_until: str | None = None
    text_of_expires_at: str | None = None
    members: JsonObject = {}
    """What else it says: the members of its type, entities, sources, and any other."""

    origin: Origin | None = None
    """Where it was before, unless that is only its key."""

    position: int
    """Its position in the log."""

    text_of_arrived_at: str | None = None
    state: str
    """``current``, or why it is not: ``superseded``, ``deleted``, ``expired``, ``rejected``."""

    held: bool = False
    """Whether it is in quarantine."""

    redacted: RedactionInfo | None = None
    """Who redacted it, and when; absent for one that is whole."""

    retracted: list[str] = []
    """IDs of memories it derives from that were corrected or deleted since."""

    score: float | None = None
    """How well it goes with the words of a search; the best is first."""

    trust: str | None = None
    """How far it is trusted, where it was searched for."""

    tokens: int = 0
    """About how many it takes in an answer; an overestimate."""

    terms: list[str] = []
    """Which of the words of a search it has, folded as they are searched."""

    code: list[CodeContext] = []
    """The code that it mentions, as the bank knows it now; nothing verifies that."""

    other_time: bool = False
    """Whether it is of another time than the words of a search name."""

    superseded_by: str | None = None
    """ID of its newer version, where the bank was searched as it was before."""

    earlier: list[str] = []
    """IDs of earlier versions of it, where it was searched for."""

    conflicts_with: list[str] = []
    """IDs of memories beside it in an answer that say something else of the same subject."""

    why: ScoreParts | None = None
    """What its score is made of; with ``explain``."""

    @property
    def created_at(self) -> datetime | None:
        """When it was made, as its record says."""
        return _moment(self.text_of_created_at)

    @property
    def updated_at(self) -> datetime | None:
        """When this version was made."""
        return _moment(self.text_of_updated_at)

    @property
    def occurred_at(self) -> datetime | None:
        """When it happened."""
        return _moment(self.text_of_occurred_at)

    @property
    def valid_from(self) -> datetime | None:
        """Since when it is true."""
        return _moment(self.text_of_valid_from)

    @property
    def valid_until(self) -> datetime | None:
        """Until when it is true."""
        return _moment(self.text_of_valid_until)

    @property
    def expires_at(self) -> datetime | None:
        """When it expires."""
        return _moment(self.text_of_expires_at)

    @property
    def arrived_at(self) -> datetime | None:
        """When it was added to the log."""
        return _moment(self.text_of_arrived_at)

    @property
    def text_of_date(self) -> str:
        """When it happened, else when it was made, else when it was added; as text."""
        return self.text_of_occurred_at or self.text_of_created_at or self.text_of_arrived_at or ""

    @property
    def user(self) -> str | None:
        """The user it belongs to."""
        return self.scope.user if self.scope else None

    @property
    def agent(self) -> str | None:
        """The agent it belongs to."""
        return self.scope.agent if self.scope else None

    @property
    def run(self) -> str | None:
        """The run or conversation it belongs to."""
        return self.scope.run if self.scope else None

    @property
    def app(self) -> str | None:
        """The application it belongs to."""
        return self.scope.app if self.scope else None

    @property
    def subject(self) -> str | None:
        """Who or what a fact is about."""
        return self.members.get("subject")

    @property
    def predicate(self) -> str | None:
        """What a fact says of its subject."""
        return self.members.get("predicate")

    @property
    def object(self) -> str | None:
        """The other end of a fact."""
        return self.members.get("object")

    def __repr__(self) -> str:
        text = " ".join(self.text.split())
        shown = {
            "text": text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…",
            "tags": self.tags,
            "score": self.score,
            "state": None if self.state == CURRENT else self.state,
        }
        more = "".join(f", {name}={value!r}" for name, value in shown.items() if value)
        return f"{type(self).__name__}(id={self.id[:_SHOWN_DIGITS]!r}{more})"


def _moment(text: str | None) -> datetime | None:
    return None if text is None else to_datetime(text)


def memory_of(
    view: View, logged: VerifiedRecord, *, moment: str, as_of: int | None = None
) -> Memory:
    """Return what is shown of a memory; of a record of another type, ID, type and state.

    Args:
        view: Where it was read.
        logged: The record.
        moment: When it is looked at, to tell whether it has expired.
        as_of: How long the log was then; None for now.
    """
    return Memory(
        **members_of(logged.record),
        position=logged.seq,
        text_of_arrived_at=logged.row.at,
        state=state_of(view, logged, moment=moment, as_of=as_of),
        held=logged.row.hold,
        redacted=redacted_of(view, logged),
    )


def members_of(record: Sealed) -> dict[str, Any]:
    """Return what a record says by itself, as members of ``Memory``; of any type of record."""
    entry, value = record.model, record.value
    made: dict[str, Any] = {"id": record.id, "type": record.type, "text": ""}
    if not isinstance(entry, Entry):
        return made
    key, origin = key_of(entry), entry.origin
    own = origin is not None and origin == Origin(provider=PROVIDER, id=key)
    made |= {
        "text": entry.text or memory_text(entry),
        "key": key,
        "tags": list(entry.tags),
        "parents": list(entry.parent_ids),
        "members": {name: part for name, part in value.items() if name not in _COMMON | {"type"}}
        | {name: value[name] for name in ("entities", "sources") if name in value},
        "origin": None if own else origin,
    }
    made |= {name: getattr(entry, name) for name in _SAME}
    return made | {f"{_TEXT}{name}": getattr(entry, name) for name in _TIMES}


def stored(bank: OpenBank, record: Sealed, position: int) -> dict[str, Any]:
    """Return the fields of a memory that is current now; its content for who may read it."""
    made = members_of(record)
    if not bank.shows("read"):
        made = {"id": record.id, "type": record.type, "text": ""}
    return {**made, "position": position, "state": CURRENT}


def shown(bank: OpenBank, view: View, logged: VerifiedRecord, *, moment: str) -> dict[str, Any]:
    """Return the fields of a memory as it is now; its content for who may read it."""
    memory = memory_of(view, logged, moment=moment)
    if bank.shows("read"):
        return fields_of(memory)
    state = {"position": memory.position, "state": memory.state, "held": memory.held}
    return {"id": memory.id, "type": memory.type, "text": "", **state}


def fields_of(memory: Memory) -> dict[str, Any]:
    """Return the fields of a memory by name, for a result that is one and more."""
    return {name: getattr(memory, name) for name in Memory.__struct_fields__}


def redacted_of(view: View, logged: VerifiedRecord) -> RedactionInfo | None:
    """Return that an entry is redacted, as the log says; None for one that is whole."""
    if not isinstance(logged.model, Entry) or logged.model.nonce is not None:
        return None
    found = view.redaction(logged.record.id)
    if found is None or not isinstance(found.model, Redaction):
        return None
    return RedactionInfo(
        by=found.model.by,
        at=found.model.at or found.row.at,
        fields=list(found.model.fields),
        imported=bool(found.row.batch),
    )


_SAME = ("data", "kind", "metadata", "salience", "scope")
_TIMES = ("created_at", "updated_at", "occurred_at", "valid_from", "valid_until", "expires_at")


def key_of(entry: Entry) -> str | None:
    """Return the name that a caller gave a memory."""
    origin = entry.origin
    if origin is None or origin.provider != PROVIDER or origin.id is None:
        return None
    return None if is_id(origin.id) else origin.id  # that is the one it had in another bank


def state_of(view: View, logged: VerifiedRecord, *, moment: str, as_of: int | None = None) -> str:
    """Return ``current``, or the state that ended it, as ``Memory.state``."""
    retired = logged.row.retired
    if retired is None:
        return EXPIRED if has_expired(logged, moment) else CURRENT
    if retired == PENDING:
        return "pending"
    said = view.status_events(logged, as_of=as_of)
    ended = (each.state for each in said if each.place == retired and each.state in RETIRING)
    return next(ended, "deleted")


def has_expired(logged: VerifiedRecord, moment: str) -> bool:
    """Tell whether a record says itself that its time to be shown is over."""
    expires_at = logged.row.expires_at
    return expires_at is not None and expires_at <= moment


def moment_of(view: View, as_of: int | None) -> str:
    """Return when the log was as it is looked at: now, or when its last record then arrived."""
    if as_of is None or as_of >= view.head.size:
        return now()
    return view.arrival(as_of - 1) if as_of else now()


def notes_of(view: View) -> list[str]:
    """Return notes for readers of a bank: what was given up of it, and whether it is untrusted."""
    notes = list(view.notes)
    if view.standing is BankStanding.UNTRUSTED:
        notes.append(f"{UNTRUSTED}; see: satchel doctor")
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


CORRECTION = "correction"
"""What the reason of a correction starts with."""


_MOST_ANCESTORS = 2000
"""Ancestors that are read for one answer."""

_DEEPEST = 20


def with_retracted(view: View, memories: Sequence[Memory]) -> list[Memory]:
    """Return memories with the IDs of their ancestors that were corrected or deleted.

    A memory that was only updated was right in its time: what derives from it is not marked.

    Args:
        view: The bank.
        memories: As they are shown.
    """
    parents = {memory.id: list(memory.parents) for memory in memories}
    retracted = _among(view, parents)
    if not retracted:
        return list(memories)
    return [
        structs.replace(
            memory, retracted=[each for each in _ancestors(memory.id, parents) if each in retracted]
        )
        for memory in memories
    ]


def _among(view: View, parents: dict[str, list[str]]) -> set[str]:
    """Read ancestors, level by level, into ``parents``; return those that were retracted."""
    retracted, known, level = set[str](), set[str](), list(parents)
    for _ in range(_DEEPEST):
        ends = dict.fromkeys(end for name in level for end in parents.get(name, ()))
        level = [end for end in ends if end not in known][: _MOST_ANCESTORS - len(known)]
        if not level:
            break
        known.update(level)
        for name, logged in view.get(level).items():
            if isinstance(logged.model, Entry):
                parents.setdefault(name, list(logged.model.parent_ids))
                if _is_retracted(view, logged):
                    retracted.add(name)
    return retracted


def _ancestors(name: str, parents: dict[str, list[str]]) -> list[str]:
    seen, waiting = {name: None}, list(parents[name])
    while waiting:
        each = waiting.pop(0)
        if each not in seen:
            seen[each] = None
            waiting += parents.get(each, ())
    return list(seen)[1:]


def _is_retracted(view: View, logged: VerifiedRecord) -> bool:
    if logged.row.retired is None:
        return False
    ended = [said for said in view.status_events(logged) if said.place == logged.row.retired]
    if any(said.state in ("deleted", "rejected") for said in ended):
        return True
    return any(
        isinstance(status.model, Status)
        and (status.model.reason or "").partition(":")[0] == CORRECTION
        for status in view.at([said.seq for said in ended if said.state == "superseded"])
    )
