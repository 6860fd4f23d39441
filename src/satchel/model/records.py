"""Everything a bank's log holds besides entries, and the two kinds kept beside the log.

The types exist so that files can carry them and ids can be checked; what a bank does with them
is said in docs/spec.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from satchel.model.entries import (
    ENTRY_CLASSES,
    Entry,
    Episodic,
    Identity,
    Procedural,
    Semantic,
    Working,
)
from satchel.model.values import (
    Evidence,
    Id,
    Json,
    JsonObject,
    Nonce,
    Origin,
    Scope,
    Time,
    TrustClass,
    check_times,
)

Count = Annotated[int, Meta(ge=0)]
"""A number of things."""

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
"""What a status record says about its target."""


class Record(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="record"
):
    """What all records that are not entries have in common."""

    id: Id | None = None
    nonce: Nonce | None = None
    at: Time | None = None
    """When it was made, by the clock of whoever made it."""

    metadata: JsonObject = {}

    def __post_init__(self) -> None:
        check_times(self, ("at",))


class Bank(Record, frozen=True, kw_only=True, omit_defaults=True, tag="bank"):
    """Leaf 0 of a log: who owns the memory. Its id is the bank's id."""

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
    """The record that takes the target's place, where there is one."""

    reason: str | None = None
    actor: str | None = None


class Source(Record, frozen=True, kw_only=True, omit_defaults=True, tag="source"):
    """One import: what was read, by which format, and how far it is trusted."""

    provider: str
    format: str
    digest: str | None = None
    """``blake3:`` and 64 hex digits of the bytes that were read."""

    container: JsonObject = {}
    """Fields of the file around the records, as found."""

    signer: str | None = None
    trust: TrustClass | None = None
    batch: Count | None = None
    receipt: Id | None = None


class Edge(Record, frozen=True, kw_only=True, omit_defaults=True, tag="edge"):
    """A typed link between two records of any kind."""

    source: str
    target: str
    kind: str
    """``derives_from``, ``similar_to``, ``supersedes``, ``transitioned_to``, or another's word."""

    weight: float | None = None
    properties: JsonObject = {}
    valid_from: Time | None = None
    valid_until: Time | None = None
    scope: Scope | None = None
    """Whose it is, where its source says so of links too."""

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
    """A conversation, one of its turns, a point to return to, or a branch from one."""

    event: Literal["session", "message", "checkpoint", "fork"]
    session: str | None = None
    """The id of the session record, or the source's own session id."""

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
    """Text at a path, at one moment."""

    path: str
    text: str | None = None
    blob: str | None = None
    """``blake3:`` digest of the content, where it is kept as a blob."""

    action: Literal["created", "modified", "deleted", "renamed"] | None = None
    previous: Id | None = None
    actor: str | None = None
    created_at: Time | None = None
    origin: Origin | None = None

    def __post_init__(self) -> None:
        check_times(self, ("at", "created_at"))


class Redaction(Record, frozen=True, kw_only=True, omit_defaults=True, tag="redaction"):
    """Permission for an entry's redacted form to stand in its place."""

    entry: Id
    result: Id
    """H(JCS(redacted form))."""

    fields: tuple[str, ...] = ()
    """JSON pointers of the values that were replaced; absent where the whole entry is back."""

    by: KeyId | None = None
    signatures: tuple[JsonObject, ...] = ()
    """Of a key of the bank; records of before have none."""


class Erasure(Record, frozen=True, kw_only=True, omit_defaults=True, tag="erasure"):
    """The tombstone of a record whose body is gone."""

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
    """A change to who may do what: writers, key successions, revocations, rollbacks, adoptions."""

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
    """Digest of the whole, where this is one chunk of several."""


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
"""Every kind of record; ``type`` tells which."""

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
