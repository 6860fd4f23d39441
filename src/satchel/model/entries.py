"""Entries: one immutable memory each, in five components.

A value without ``id`` and ``nonce`` is a draft; sealing gives it both. Members that this version
does not know stay with the sealed record, outside these classes.
"""

from operator import attrgetter
from typing import Literal

import msgspec

from satchel.model.times import is_canonical_time
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
    Origin,
    Scope,
    TextOrObject,
    Unit,
    check_times,
    is_hex,
    is_id,
)

TIMES = ("created_at", "updated_at", "occurred_at", "valid_from", "valid_until", "expires_at")
"""The members of an entry that are times."""

_times_of = attrgetter(*TIMES)

EventType = Literal["interaction", "observation", "outcome", "reflection"]
"""What kind of happening an episodic entry records."""


class Entry(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="entry"
):
    """What all five components have in common; use one of the five."""

    id: LeanId | None = None
    nonce: LeanNonce | None = None
    parent_ids: tuple[LeanId, ...] = ()
    """The entries this one was derived from; no duplicates."""

    created_at: LeanTime | None = None
    """When the memory was made; absent when unknown (arrival is in the log)."""

    updated_at: LeanTime | None = None
    occurred_at: LeanTime | None = None
    """When the thing remembered happened."""

    valid_from: LeanTime | None = None
    valid_until: LeanTime | None = None
    """When it stopped being true."""

    expires_at: LeanTime | None = None
    """When it must no longer be shown."""

    text: str | None = None
    """The memory in words, exactly as the source had it, never normalised."""

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
    """Who did it, as ``type:name`` or as the source says it."""

    event_type: EventType | None = None
    context: JsonObject = {}


class Semantic(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="semantic"):
    """A fact; plain ``text`` is enough, a triple is possible."""

    subject: str | None = None
    predicate: str | None = None
    object: str | None = None
    confidence: Unit | None = None
    source_event_ids: tuple[Id, ...] = ()
    """Episodic entries it was drawn from; one that is missing is reported, not fatal."""


class Procedural(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="procedural"):
    """A skill or routine."""

    name: str | None = None
    description: str | None = None
    parameters: tuple[TextOrObject, ...] = ()
    body: str | None = None
    language: str | None = None
    preconditions: tuple[TextOrObject, ...] = ()


class Working(Entry, frozen=True, kw_only=True, omit_defaults=True, tag="working"):
    """What the agent is in the middle of."""

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
    """A draft of a fact whose values need no more checks, since its reader did them.

    Each member has the exact type that it is declared with, times are canonical, and free JSON was
    decoded from JSON, with no number that canonical bytes write in another way.
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
