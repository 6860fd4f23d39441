"""A memory as interfaces accept and show it: fields, state, and retracted ancestors."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
from msgspec import structs

from satchel.bank.open_bank import OpenBank
from satchel.crypto.canonical import Limits
from satchel.crypto.sealed_records import Sealed, known_members, seal
from satchel.errors import (
    EmptyInputError,
    RetiredMemoryError,
    UnknownMemoryError,
    UsageError,
    ValueRefusedError,
)
from satchel.ledger.heads import BankStanding
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import ENTRY_CLASSES, TIMES, Entry, Redaction, Status
from satchel.model.text import memory_text
from satchel.model.values import (
    ID_LENGTH,
    ID_PREFIX,
    LEAST_DIGITS,
    Component,
    Json,
    JsonObject,
    Origin,
    Scope,
    id_digits,
    is_id,
    now,
    parse_as,
    parse_moment,
    require_one,
    to_datetime,
)
from satchel.ports.code_context import CodeContext
from satchel.ports.rows import PENDING, RETIRING, Filter

CURRENT, EXPIRED = "current", "expired"

PROVIDER = "satchel"
"""Provider in the origin of a memory that has a key."""

UNTRUSTED = "untrusted bank: its owners' keys are not trusted on this machine"
"""Note for readers of an untrusted bank."""

_TEXT = "text_of_"
"""Prefix of a field with the text of a time that a property returns as a datetime."""

_SHOWN = 72
_SHOWN_DIGITS = len(ID_PREFIX) + 8
_COMMON = frozenset(Entry.__struct_fields__)


class RedactionInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a memory was redacted, as recorded in the log."""

    by: str | None = None
    """Key of the person who redacted it; absent if the record does not name one."""

    at: str
    """When, by the clock of the person who redacted it, else when it was logged."""

    fields: list[str] = []
    """JSON pointers of the values that were replaced."""

    imported: bool = False
    """Whether it was redacted before it was imported; else it was redacted in this bank."""

    @property
    def summary(self) -> str:
        """A line for people."""
        author = f" by {self.by}" if self.by else ""
        where = ", as imported" if self.imported else ""
        return f"{self.at[:19].replace('T', ' ')}{author}: {', '.join(self.fields)}{where}"


def _member(name: str) -> str:
    return name.removeprefix(_TEXT)


class ScoreParts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parts of a score, each between 0 and 1 and before weighting."""

    words: float
    """How well its words, and those of the turns around it, match the query."""

    meaning: float
    """How well its meaning, and that of the turns around it, matches the query."""

    thread: float
    """How much of the query its whole conversation covers."""

    speaker: float
    """Whether the query names its speaker."""

    dated: float = 0.0
    """Whether it names a time, if the query asks for one."""

    time: float = 0.0
    """Whether it is of the time that the query names."""

    phrase: float = 0.0
    """Share of the query's phrases that it contains; only for the best memories."""

    reranked: float = 0.0
    """Score of the reranker; only for the best memories."""

    linked: float
    """The part it gets from a linked memory, weighted."""

    cosine: float | None = None
    """Cosine of its vector and the query's; none without a vector."""

    linked_to: str | None = None
    """ID of the linked memory."""


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_member):
    """A memory: in a listing, an answer or a history, or just stored.

    Times are aware datetimes; in JSON they are text, as in the record. What is not known is None or
    empty, and absent from the JSON.
    """

    id: str
    type: str
    """``semantic``, ``episodic``, ``procedural``, ``working`` or ``identity``."""

    text: str
    """The memory in words."""

    data: Json = None
    key: str | None = None
    """Its key: a name that the caller gave it."""

    kind: str | None = None
    tags: list[str] = []
    metadata: JsonObject = {}
    salience: float | None = None
    scope: Scope | None = None
    """Its owners: ``user``, ``agent``, ``run`` and ``app``."""

    parents: list[str] = []
    text_of_created_at: str | None = None
    text_of_updated_at: str | None = None
    text_of_occurred_at: str | None = None
    text_of_valid_from: str | None = None
    text_of_valid_until: str | None = None
    text_of_expires_at: str | None = None
    members: JsonObject = {}
    """Its other members: those of its type, entities, sources, and any further ones."""

    origin: Origin | None = None
    """Where it was imported from; None for one with only a key."""

    position: int
    """Its position in the log."""

    text_of_arrived_at: str | None = None
    state: str
    """``current``, or what ended it: ``superseded``, ``deleted``, ``expired``, ``rejected``."""

    held: bool = False
    """Whether it is in quarantine."""

    redacted: RedactionInfo | None = None
    """How it was redacted; absent if it was not."""

    retracted: list[str] = []
    """IDs of memories it derives from that have been corrected or deleted."""

    score: float | None = None
    """How well it matches the query, for comparison within one answer."""

    trust: str | None = None
    """Its trust class, in search results."""

    tokens: int = 0
    """Estimated number of tokens in an answer; an overestimate."""

    terms: list[str] = []
    """The terms of the query that it contains, normalized as for the search."""

    code: list[CodeContext] = []
    """The code that it mentions, from the bank's code graph. It is not verified."""

    other_time: bool = False
    """Whether it is of another time than the query names."""

    superseded_by: str | None = None
    """ID of its newer version, if an earlier state of the bank was searched."""

    earlier: list[str] = []
    """IDs of its earlier versions, in search results."""

    conflicts_with: list[str] = []
    """IDs of memories in the same answer that contradict it about the same subject."""

    why: ScoreParts | None = None
    """The parts of its score; with ``explain``."""

    @property
    def created_at(self) -> datetime | None:
        """When it was created, by its record."""
        return _moment(self.text_of_created_at)

    @property
    def updated_at(self) -> datetime | None:
        """When this version was created."""
        return _moment(self.text_of_updated_at)

    @property
    def occurred_at(self) -> datetime | None:
        """When it happened."""
        return _moment(self.text_of_occurred_at)

    @property
    def valid_from(self) -> datetime | None:
        """Start of the time for which it is true."""
        return _moment(self.text_of_valid_from)

    @property
    def valid_until(self) -> datetime | None:
        """End of the time for which it is true."""
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
        """When it happened, else when it was created, else when it was logged; as text."""
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
        """The relation between a fact's subject and object."""
        return self.members.get("predicate")

    @property
    def object(self) -> str | None:
        """The other end of a fact."""
        return self.members.get("object")

    def __repr__(self) -> str:
        text = " ".join(self.text.split())
        fields = {
            "text": text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…",
            "tags": self.tags,
            "score": self.score,
            "state": None if self.state == CURRENT else self.state,
        }
        more = "".join(f", {name}={value!r}" for name, value in fields.items() if value)
        return f"{type(self).__name__}(id={self.id[:_SHOWN_DIGITS]!r}{more})"


def _moment(text: str | None) -> datetime | None:
    return None if text is None else to_datetime(text)


def memory_of(
    view: View, logged: VerifiedRecord, *, moment: str, as_of: int | None = None
) -> Memory:
    """Return a record as a memory; a record that is no memory has only ID, type and state.

    Args:
        view: A view of the bank.
        logged: The record.
        moment: The time at which expiry is judged.
        as_of: Number of log records to consider; None for all.
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
    """Return the fields of ``Memory`` that a record of any type has by itself."""
    entry, value = record.model, record.value
    fields: dict[str, Any] = {"id": record.id, "type": record.type, "text": ""}
    if not isinstance(entry, Entry):
        return fields
    key, origin = key_of(entry), entry.origin
    own = origin is not None and origin == Origin(provider=PROVIDER, id=key)
    fields |= {
        "text": entry.text or memory_text(entry),
        "key": key,
        "tags": list(entry.tags),
        "parents": list(entry.parent_ids),
        "members": {name: part for name, part in value.items() if name not in _COMMON | {"type"}}
        | {name: value[name] for name in ("entities", "sources") if name in value},
        "origin": None if own else origin,
    }
    fields |= {name: getattr(entry, name) for name in _SAME}
    return fields | {f"{_TEXT}{name}": getattr(entry, name) for name in _TIMES}


def stored(bank: OpenBank, record: Sealed, position: int) -> dict[str, Any]:
    """Return the fields of a memory that was just stored; its content only with permission."""
    fields = members_of(record)
    if not bank.shows("read"):
        fields = {"id": record.id, "type": record.type, "text": ""}
    return {**fields, "position": position, "state": CURRENT}


def shown(bank: OpenBank, view: View, logged: VerifiedRecord, *, moment: str) -> dict[str, Any]:
    """Return the fields of a memory as it is now; its content only with permission."""
    memory = memory_of(view, logged, moment=moment)
    if bank.shows("read"):
        return fields_of(memory)
    state = {"position": memory.position, "state": memory.state, "held": memory.held}
    return {"id": memory.id, "type": memory.type, "text": "", **state}


def fields_of(memory: Memory) -> dict[str, Any]:
    """Return the fields of a memory by name, for results that extend ``Memory``."""
    return {name: getattr(memory, name) for name in Memory.__struct_fields__}


def redacted_of(view: View, logged: VerifiedRecord) -> RedactionInfo | None:
    """Return how an entry was redacted, by the log; None if it was not."""
    if not isinstance(logged.model, Entry) or logged.model.nonce is not None:
        return None
    redaction = view.redaction(logged.record.id)
    if redaction is None or not isinstance(redaction.model, Redaction):
        return None
    return RedactionInfo(
        by=redaction.model.by,
        at=redaction.model.at or redaction.row.at,
        fields=list(redaction.model.fields),
        imported=bool(redaction.row.batch),
    )


_SAME = ("data", "kind", "metadata", "salience", "scope")
_TIMES = ("created_at", "updated_at", "occurred_at", "valid_from", "valid_until", "expires_at")


def key_of(entry: Entry) -> str | None:
    """Return the key that a caller gave a memory; None if it has none."""
    origin = entry.origin
    if origin is None or origin.provider != PROVIDER or origin.id is None:
        return None
    return None if is_id(origin.id) else origin.id  # the ID it has in another bank


def state_of(view: View, logged: VerifiedRecord, *, moment: str, as_of: int | None = None) -> str:
    """Return the state of a record; see ``Memory.state``."""
    retired = logged.row.retired
    if retired is None:
        return EXPIRED if has_expired(logged, moment) else CURRENT
    if retired == PENDING:
        return "pending"
    statuses = view.status_events(logged, as_of=as_of)
    ended = (each.state for each in statuses if each.place == retired and each.state in RETIRING)
    return next(ended, "deleted")


def has_expired(logged: VerifiedRecord, moment: str) -> bool:
    """Return whether a record has expired at a moment."""
    expires_at = logged.row.expires_at
    return expires_at is not None and expires_at <= moment


def moment_of(view: View, as_of: int | None) -> str:
    """Return the time of an earlier state of the log: when its last record was added; else now."""
    if as_of is None or as_of >= view.head.size:
        return now()
    return view.arrival(as_of - 1) if as_of else now()


def notes_of(view: View) -> list[str]:
    """Return notes for readers of a bank: accepted losses, and whether it is untrusted."""
    notes = list(view.notes)
    if view.standing is BankStanding.UNTRUSTED:
        notes.append(f"{UNTRUSTED}; see: satchel doctor")
    return notes


def gist_of(value: dict[str, Any]) -> str:
    """Return the members of an entry in words, or as JSON if they are not words."""
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
    content = rest.pop("data") if rest.keys() == {"data"} else rest
    return msgspec.json.encode(content).decode() if content else ""


CORRECTION = "correction"
"""Prefix of the reason of a correction."""


_MOST_ANCESTORS = 2000
"""Maximum ancestors that are read for one answer."""

_DEEPEST = 20


def with_retracted(view: View, memories: Sequence[Memory]) -> list[Memory]:
    """Return memories with the IDs of their ancestors that were corrected or deleted.

    A memory that was only updated was right in its time: memories derived from it are not marked.

    Args:
        view: A view of the bank.
        memories: The memories.
    """
    parents = {memory.id: list(memory.parents) for memory in memories}
    retracted = _retracted_ancestors(view, parents)
    if not retracted:
        return list(memories)
    return [
        structs.replace(
            memory, retracted=[each for each in _ancestors(memory.id, parents) if each in retracted]
        )
        for memory in memories
    ]


def _retracted_ancestors(view: View, parents: dict[str, list[str]]) -> set[str]:
    """Add ancestors to ``parents``, level by level, and return those that were retracted."""
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
    ended = [status for status in view.status_events(logged) if status.place == logged.row.retired]
    if any(status.state in ("deleted", "rejected") for status in ended):
        return True
    return any(
        isinstance(status.model, Status)
        and (status.model.reason or "").partition(":")[0] == CORRECTION
        for status in view.at([each.seq for each in ended if each.state == "superseded"])
    )


_MOST_SHOWN = 5
_LEAST_QUOTED = 3
_ID_SHOWN = len(ID_PREFIX) + 12
_ENTRIES = Filter(types=frozenset(component.value for component in Component))
_ALL_ENTRIES = replace(_ENTRIES, retired=True)
_QUOTATION_MARKS = frozenset(
    {
        '""',
        "''",
        "\u201c\u201d",
        "\u201e\u201c",
        "\u201e\u201d",
        "\u2018\u2019",
        "\u201a\u2018",
        "\u00ab\u00bb",
        "\u00bb\u00ab",
    }
)
"""Opening and closing marks that a model or a person may put around a text."""


def find_record(
    view: View, reference: str, field: str = "id", *, forgotten: bool = False
) -> VerifiedRecord:
    """Return a record of any type, by ID, ID prefix or text.

    Args:
        view: A view of the bank.
        reference: Its ID, or at least the first six digits of it; or the text of a current memory,
            or a part of the text that no other current memory has. Quotation marks around it are
            ignored, unless a memory contains them.
        field: Name of the argument in errors.
        forgotten: Whether a text names a forgotten memory instead of a current one.

    Raises:
        UnknownMemoryError: If there is no such record.
        UsageError: If several match, or it is neither an ID nor a text.
    """
    if not isinstance(reference, str):
        raise UsageError(
            f"an ID must be a string, not {type(reference).__name__}",
            field=field,
            hint="Pass several IDs as several arguments: forget(*ids).",
        )
    if is_id(reference):
        matches = list(view.get([reference]).values())
        if not matches:  # an index alone cannot prove absence
            view.require_columns("id")
    elif (quoted := _quoted(view, reference, field, forgotten=forgotten)) is not None:
        return quoted
    else:
        digits = id_digits(_between_marks(reference) or reference)
        if digits is None:
            raise UsageError(
                f"not a memory ID: {_shown(reference)!r}",
                field=field,
                hint=(
                    f"Pass its ID, a prefix of at least {LEAST_DIGITS} digits, or two or more "
                    "words of its text."
                ),
            )
        matches = view.with_prefix(digits, limit=_MOST_SHOWN)
    if not matches:
        raise UnknownMemoryError(
            f"there is no memory {_shown(reference)!r} in this bank",
            field=field,
            hint="See: satchel list. To use another bank: --bank NAME.",
        )
    require_one([logged.record.id for logged in matches], reference, field)
    return matches[0]


def _quoted(view: View, reference: str, field: str, *, forgotten: bool) -> VerifiedRecord | None:
    """Return the current or forgotten memory that contains a text; None if it is not words.

    Raises:
        UnknownMemoryError: If no such memory contains it.
        UsageError: If several do; the hint lists their IDs.
    """
    words = " ".join(reference.split()).casefold()
    if not _is_text(words):
        return None
    between = _between_marks(words)
    sought = between if between is not None and _is_text(between) else words
    containing = list[tuple[str, VerifiedRecord]]()
    for logged in view.newest(_ALL_ENTRIES if forgotten else _ENTRIES):
        text = " ".join((logged.row.text or "").split()).casefold()
        if sought in text and (not forgotten or _is_forgotten(view, logged)):
            containing.append((text, logged))
    with_marks = [(text, logged) for text, logged in containing if words in text]
    if with_marks:
        containing, sought = with_marks, words
    state, command = ("forgotten", "list --all") if forgotten else ("current", "list")
    if not containing:
        raise UnknownMemoryError(
            f"no {state} memory contains {_shown(reference)!r}",
            field=field,
            hint=f"See: satchel {command}.",
        )
    exact = [logged for text, logged in containing if text == sought]
    matches = exact or [logged for _, logged in containing]
    if len(matches) > 1:
        ids = ", ".join(each.record.id[:_ID_SHOWN] for each in matches[:_MOST_SHOWN])
        raise UsageError(
            f"{len(matches)} {state} memories contain {_shown(reference)!r}",
            field=field,
            hint=f"Choose one: {ids}",
        )
    return matches[0]


def _is_text(words: str) -> bool:
    return len(words) >= _LEAST_QUOTED and " " in words


def _between_marks(text: str) -> str | None:
    """Return the text between a pair of quotation marks around all of it; None without one."""
    is_quoted = len(text) > 1 and text[0] + text[-1] in _QUOTATION_MARKS
    return text[1:-1].strip() if is_quoted else None


def _is_forgotten(view: View, logged: VerifiedRecord) -> bool:
    if logged.row.retired is None:
        return False
    retirement = view.retirement(logged.row)
    is_deleted = retirement is not None and retirement.state == "deleted"
    return is_deleted and newest_of(view, logged) is None


def find_memory(
    view: View, reference: str, field: str = "id", *, forgotten: bool = False
) -> VerifiedRecord:
    """Return a memory; see ``find_record``.

    Raises:
        UnknownMemoryError: Also if it is a record of another type.
    """
    logged = find_record(view, reference, field, forgotten=forgotten)
    if not isinstance(logged.model, Entry):
        raise UnknownMemoryError(
            f"this is the ID of a {logged.record.type} record, not of a memory",
            field=field,
            hint=_TYPE_HINTS.get(logged.record.type, "See: satchel list."),
        )
    return logged


_TYPE_HINTS = {"bank": "See: satchel bank list."}


def current_memory(view: View, reference: str) -> VerifiedRecord:
    """Return a current memory; see ``find_record``.

    Raises:
        RetiredMemoryError: If it has a newer version, was forgotten, or is quarantined.
    """
    logged = find_memory(view, reference)
    if logged.row.retired is not None:
        raise not_current(view, logged)
    if logged.row.hold:
        raise RetiredMemoryError(
            "the memory is quarantined",
            field="id",
            hint="Release it first, or forget it.",
        )
    return logged


def not_current(view: View, logged: VerifiedRecord) -> RetiredMemoryError:
    """Return the error for a memory that is not current; it names the current version."""
    newer = newest_of(view, logged)
    if newer is not None:
        identity = newer.record.id
        return RetiredMemoryError(
            "the memory has a newer version",
            current=identity,
            field="id",
            hint=f"The current one is {identity}.",
        )
    return RetiredMemoryError(
        "the memory is no longer current",
        field="id",
        hint="Restore it first: satchel restore ID. See: satchel history ID.",
    )


def versions_of(view: View, logged: VerifiedRecord) -> list[VerifiedRecord]:
    """Return the versions of a memory that updates link, in log order."""
    versions = view.get(sorted(view.versions(logged.record.id)))
    return sorted(versions.values(), key=lambda each: each.seq)


def newest_of(view: View, logged: VerifiedRecord) -> VerifiedRecord | None:
    """Return the current version of a memory, if there is one."""
    current = [each for each in versions_of(view, logged) if each.row.retired is None]
    if not current and logged.row.slot is not None:
        return view.current(logged.row.slot)
    return current[-1] if current else None


def _shown(reference: str) -> str:
    return reference if len(reference) <= ID_LENGTH else reference[:32] + "…"


MemoryFields = Mapping[str, Any]
"""JSON members of an entry by name, including ``type``; times are text or ``datetime``."""

GIVEN = frozenset({"id", "nonce"})
"""Members that are set automatically."""

_NOT_CONTENT = frozenset({"type", "scope", "origin", "created_at", "updated_at", "parent_ids"})


def sealed_of(members: MemoryFields, limits: Limits) -> Sealed:
    """Return the sealed entry with members. Errors name the member.

    Args:
        members: Members by name, without those that are None; the type defaults to ``semantic``.
        limits: Limits of a record.

    Raises:
        EmptyInputError: If there is no content.
        UsageError: If a member is set automatically, or a time or the type is not valid.
        ValueRefusedError: If a member has the wrong shape, or no canonical form.
        LimitError: If the record is too large.
    """
    values = {name: part for name, part in members.items() if part is not None}
    for name in sorted(GIVEN & values.keys()):
        raise UsageError("this member is set automatically", field=name)
    component = values.pop("type", Component.SEMANTIC)
    if not isinstance(component, str) or component not in set(Component):
        raise UsageError(f"the type must be one of {', '.join(Component)}", field="type")
    if not any(_has_content(part) for name, part in values.items() if name not in _NOT_CONTENT):
        raise EmptyInputError("the memory is empty", field="text")
    for name in TIMES:
        if name in values:
            values[name] = parse_moment(values[name], name)
    if "tags" in values:
        values["tags"] = unique_tags(values["tags"])
    known = known_members(component)
    fields = {name: part for name, part in values.items() if name in known}
    unknown = {name: part for name, part in values.items() if name not in known}
    return seal(_entry(Component(component), fields), unknown=unknown, limits=limits)


def _entry(component: Component, fields: dict[str, Any]) -> Entry:
    try:
        return parse_as(ENTRY_CLASSES[component], fields, "not a memory", ValueRefusedError)
    except RecursionError:
        raise ValueRefusedError("not a memory: nested too deeply") from None


def _has_content(part: Any) -> bool:
    return bool(part.strip()) if isinstance(part, str) else part not in ([], {}, ())


def unique_tags(tags: Any) -> list[str]:
    """Return tags without duplicates, in order.

    Raises:
        UsageError: If a tag is empty or not a string.
    """
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise UsageError("tags must be a list of strings", field="tags")
    if not all(tag.strip() for tag in tags):
        raise UsageError("a tag must not be empty", field="tags")
    return list(dict.fromkeys(tags))
