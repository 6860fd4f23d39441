"""Records of a bank's log: entries (memories of five types), events, edges; and their schemas.

A value without ``id`` and ``nonce`` is a draft; sealing adds both. Members that this version does
not know stay with the sealed record, outside these classes. ``docs/spec`` defines what a bank does
with each type.
"""

from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from satchel.model.values import (
    Component,
    Entity,
    Evidence,
    Id,
    Json,
    JsonObject,
    LeanId,
    LeanNonce,
    LeanTime,
    Nonce,
    Origin,
    Scope,
    TextOrObject,
    Time,
    TrustClass,
    Unit,
    check_times,
    is_canonical_time,
    is_hex,
    is_id,
    resolved,
)

TIMES = ("created_at", "updated_at", "occurred_at", "valid_from", "valid_until", "expires_at")
"""The members of an entry that are times."""

_times_of = attrgetter(*TIMES)

EventType = Literal["interaction", "observation", "outcome", "reflection"]
"""The kind of event that an episodic entry records."""


class Entry(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="entry"
):
    """The members that all five types share; create one of the five."""

    id: LeanId | None = None
    nonce: LeanNonce | None = None
    parent_ids: tuple[LeanId, ...] = ()
    """IDs of the entries that this one was derived from; no duplicates."""

    created_at: LeanTime | None = None
    """When the memory was made; absent when unknown (arrival is in the log)."""

    updated_at: LeanTime | None = None
    occurred_at: LeanTime | None = None
    """When the remembered event happened."""

    valid_from: LeanTime | None = None
    valid_until: LeanTime | None = None
    """When it stopped being true."""

    expires_at: LeanTime | None = None
    """When it expires: it is not shown any more."""

    text: str | None = None
    """The memory in words, exactly as in the source, never normalized."""

    data: Json = None
    """The memory as JSON, when it is not text."""

    kind: str | None = None
    """The source's own word for what this is."""

    tags: tuple[str, ...] = ()
    metadata: JsonObject = {}
    salience: Unit | None = None
    entities: tuple[Entity, ...] = ()
    scope: Scope | None = None
    sources: tuple[Evidence, ...] = ()
    origin: Origin | None = None

    def __post_init__(self) -> None:
        if self.id is not None and not is_id(self.id):
            raise ValueError("`id` is not a content address")
        if self.nonce is not None and not is_hex(self.nonce):
            raise ValueError("`nonce` is not 32 lower-case hexadecimal digits")
        for text in _times_of(self):
            if text is not None and not is_canonical_time(text):
                check_times(self, TIMES)
        if self.parent_ids:
            self._check_parents()

    def _check_parents(self) -> None:
        if not all(map(is_id, self.parent_ids)):
            raise ValueError("`parent_ids` holds what is not a content address")
        if len(set(self.parent_ids)) != len(self.parent_ids):
            raise ValueError("`parent_ids` names a parent twice")


class Episodic(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="episodic"):
    """Something that happened."""

    observation: str | None = None
    actor: str | None = None
    """The actor, as ``type:name`` or as written in the source."""

    event_type: EventType | None = None
    context: JsonObject = {}


class Semantic(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="semantic"):
    """A fact; plain ``text`` is enough, a triple is possible."""

    subject: str | None = None
    predicate: str | None = None
    object: str | None = None
    confidence: Unit | None = None
    source_event_ids: tuple[Id, ...] = ()
    """IDs of the episodic entries it was extracted from; a missing one is reported, not fatal."""


class Procedural(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="procedural"):
    """A skill or routine."""

    name: str | None = None
    description: str | None = None
    parameters: tuple[TextOrObject, ...] = ()
    body: str | None = None
    language: str | None = None
    preconditions: tuple[TextOrObject, ...] = ()


class Working(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="working"):
    """The agent's current task."""

    goals: tuple[TextOrObject, ...] = ()
    subgoals: tuple[TextOrObject, ...] = ()
    scratch: TextOrObject | None = None
    pending_actions: tuple[TextOrObject, ...] = ()


class Identity(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="identity"):
    """Who the agent is and how it behaves."""

    persona: TextOrObject | None = None
    preferences: JsonObject = {}
    communication_style: TextOrObject | None = None
    language: str | None = None
    policies: tuple[TextOrObject, ...] = ()
    custom_instructions: str | None = None


class PlainSemantic(
    Semantic, frozen=True, kw_only=True, omit_defaults=True, tag="semantic", gc=False
):
    """A draft of a fact whose values its reader has checked already.

    Each member has exactly its declared type, times are canonical, and free JSON was decoded from
    JSON, without numbers that canonical bytes write differently.
    """

    def __post_init__(self) -> None:
        """Check nothing."""


ENTRY_CLASSES: dict[Component, type[Entry]] = {
    Component.EPISODIC: Episodic,
    Component.IDENTITY: Identity,
    Component.PROCEDURAL: Procedural,
    Component.SEMANTIC: Semantic,
    Component.WORKING: Working,
}
"""The class of each component."""


Count = Annotated[int, Meta(ge=0)]
"""A count."""

KeyId = Annotated[str, Meta(pattern=r"^did:key:z6Mk[1-9A-HJ-NP-Za-km-z]{44}$", max_length=56)]
"""An Ed25519 public key as did:key."""

State = Literal[
    "superseded",
    "deleted",
    "expired",
    "restored",
    "quarantined",
    "released",
    "rejected",
    "promoted",
]
"""The state that a status record sets on its target."""


class Record(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="record"
):
    """The members that all records but entries share."""

    id: Id | None = None
    nonce: Nonce | None = None
    at: Time | None = None
    """When it was created, by the creator's clock."""

    metadata: JsonObject = {}

    def __post_init__(self) -> None:
        check_times(self, ("at",))


class Bank(Record, frozen=True, kw_only=True, omit_defaults=True, tag="bank"):
    """Leaf 0 of a log: the owners of the bank. Its ID is the bank's ID."""

    owner_keys: tuple[KeyId, ...]
    created_at: Time
    name: str | None = None
    forked_from: JsonObject = {}

    def __post_init__(self) -> None:
        check_times(self, ("at", "created_at"))


class Status(Record, frozen=True, kw_only=True, omit_defaults=True, tag="status"):
    """A change of state of another record; update and delete are made of these."""

    target: Id
    state: State
    by: Id | None = None
    """ID of the record that replaces the target, if any."""

    reason: str | None = None
    actor: str | None = None


class Source(Record, frozen=True, kw_only=True, omit_defaults=True, tag="source"):
    """One import: what was read, by which format, and its trust class."""

    provider: str
    format: str
    digest: str | None = None
    """``blake3:`` and 64 hex digits, of the bytes that were read."""

    container: JsonObject = {}
    """Fields of the file outside the records, unchanged."""

    signer: str | None = None
    trust: TrustClass | None = None
    batch: Count | None = None
    receipt: Id | None = None


class Edge(Record, frozen=True, kw_only=True, omit_defaults=True, tag="edge"):
    """A typed link between two records of any kind."""

    source: str
    target: str
    kind: str
    """``derives_from``, ``similar_to``, ``supersedes``, ``transitioned_to``, or another product's
    word."""

    weight: float | None = None
    properties: JsonObject = {}
    valid_from: Time | None = None
    valid_until: Time | None = None
    scope: Scope | None = None
    """Its owner, where the source scopes links as well."""

    origin: Origin | None = None

    def __post_init__(self) -> None:
        check_times(self, ("at", "valid_from", "valid_until"))


class GraphNode(Record, frozen=True, kw_only=True, omit_defaults=True, tag="graph_node"):
    """A node of a provider's graph that is not itself a memory."""

    name: str | None = None
    labels: tuple[str, ...] = ()
    summary: str | None = None
    properties: JsonObject = {}
    scope: Scope | None = None
    origin: Origin | None = None


class SessionEvent(Record, frozen=True, kw_only=True, omit_defaults=True, tag="session_event"):
    """A conversation, one of its turns, a checkpoint, or a branch from one."""

    event: Literal["session", "message", "checkpoint", "fork"]
    session: str | None = None
    """ID of the session record, or the source's own session ID."""

    parent: str | None = None
    role: str | None = None
    name: str | None = None
    text: str | None = None
    content: Json = None
    state: Json = None
    created_at: Time | None = None
    scope: Scope | None = None
    sources: tuple[Evidence, ...] = ()
    origin: Origin | None = None

    def __post_init__(self) -> None:
        check_times(self, ("at", "created_at"))


class FileVersion(Record, frozen=True, kw_only=True, omit_defaults=True, tag="file_version"):
    """A version of the text at a path."""

    path: str
    text: str | None = None
    blob: str | None = None
    """``blake3:`` digest of the content, where it is stored as a blob."""

    action: Literal["created", "modified", "deleted", "renamed"] | None = None
    previous: Id | None = None
    actor: str | None = None
    created_at: Time | None = None
    origin: Origin | None = None

    def __post_init__(self) -> None:
        check_times(self, ("at", "created_at"))


class Redaction(Record, frozen=True, kw_only=True, omit_defaults=True, tag="redaction"):
    """Permission to replace an entry by its redacted form."""

    entry: Id
    result: Id
    """H(JCS(redacted form))."""

    fields: tuple[str, ...] = ()
    """JSON pointers of the replaced values; absent where the whole entry was restored."""

    by: KeyId | None = None
    signatures: tuple[JsonObject, ...] = ()
    """Signature by a key of the bank; records of older versions have none."""


class Erasure(Record, frozen=True, kw_only=True, omit_defaults=True, tag="erasure"):
    """The tombstone of an erased record."""

    entry: Id
    reason: str | None = None
    by: KeyId | None = None


class Receipt(Record, frozen=True, kw_only=True, omit_defaults=True, tag="receipt"):
    """The signed result of a transfer: read, written, read back, lost, refused."""

    action: str
    result: JsonObject = {}
    signatures: tuple[JsonObject, ...] = ()


class Token(Record, frozen=True, kw_only=True, omit_defaults=True, tag="token"):
    """A capability token that the bank issued."""

    payload: JsonObject
    signatures: tuple[JsonObject, ...] = ()


class Config(Record, frozen=True, kw_only=True, omit_defaults=True, tag="config"):
    """A change of authority: writers, key successions, revocations, rollbacks, adoptions."""

    action: str
    payload: JsonObject = {}
    signatures: tuple[JsonObject, ...] = ()


class Embedding(Record, frozen=True, kw_only=True, omit_defaults=True, tag="embedding"):
    """A vector for a record; rebuildable, beside the log."""

    target: Id
    model: str
    dimensions: Count
    vector: tuple[float, ...]
    generation: Count | None = None


class Blob(Record, frozen=True, kw_only=True, omit_defaults=True, tag="blob"):
    """A chunk of bytes, at most 8 MiB, beside the log."""

    digest: Id
    data: str
    """Base64, standard alphabet, padded."""

    index: Count | None = None
    of: Id | None = None
    """Digest of the whole blob, where it has several chunks."""


AnyRecord = (
    Episodic
    | Identity
    | Procedural
    | Semantic
    | Working
    | Bank
    | Status
    | Source
    | Edge
    | GraphNode
    | SessionEvent
    | FileVersion
    | Redaction
    | Erasure
    | Receipt
    | Token
    | Config
    | Embedding
    | Blob
)
"""Every type of record; ``type`` is the tag."""

Model = Entry | Record
"""A value of any record class."""

RECORD_CLASSES: dict[str, type[Entry] | type[Record]] = {
    **{component.value: cls for component, cls in ENTRY_CLASSES.items()},
    **{
        str(cls.__struct_config__.tag): cls
        for cls in (
            Bank,
            Status,
            Source,
            Edge,
            GraphNode,
            SessionEvent,
            FileVersion,
            Redaction,
            Erasure,
            Receipt,
            Token,
            Config,
            Embedding,
            Blob,
        )
    },
}
"""The class of each record type."""


DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""The JSON Schema version of all published schemas."""

_REF = "#/$defs/{name}"

_TOKEN = {"type": "string", "pattern": r"\[REDACTED:[a-z0-9-]{1,40}:[0-9]{1,9}\]"}
_REDACTED = {
    "title": "a value with a token of a redaction somewhere in it",
    "anyOf": [
        _TOKEN,
        {"type": "array", "contains": {"$ref": "#/$defs/redacted"}},
        {"type": "object", "not": {"propertyNames": {"not": _TOKEN}}},
        {
            "type": "object",
            "not": {"additionalProperties": {"not": {"$ref": "#/$defs/redacted"}}},
        },
    ],
}


def record_schemas() -> dict[str, dict[str, Any]]:
    """Return a self-contained schema for each record type, by type name."""
    return {name: _sealed(name, cls) for name, cls in RECORD_CLASSES.items()}


def _sealed(name: str, cls: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of a record in a file, where ``id`` and ``nonce`` are required.

    An entry may be a redacted form instead: without a nonce, and with a token in place of a value.
    No schema can check that it is permitted.
    """
    (top,), parts = msgspec.json.schema_components([resolved(cls)], ref_template=_REF)
    own = parts.pop(cls.__name__)
    is_entry = issubclass(cls, Entry)
    always = {"id"} if is_entry else {"id", "nonce"}
    own["required"] = sorted({*own.get("required", ()), *always})
    if is_entry:
        own["anyOf"] = [{"required": ["nonce"]}, {"$ref": _REF.format(name="redacted")}]
        parts["redacted"] = _REDACTED
    for member in ("id", "nonce"):
        own["properties"][member] = own["properties"][member]["anyOf"][0]
    return {
        "$schema": DIALECT,
        "title": name,
        **own,
        **({"$defs": parts} if parts else {}),
        "additionalProperties": True,
    } | ({} if "$ref" in top else top)
