"""Conversations as interfaces show them."""

from typing import Any

import msgspec

from satchel.model.values import Json


class Branch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a fork comes from."""

    session: str
    """Id of the session that was forked."""

    number: int
    """Messages that it has from there."""

    element: str
    """ID of the message or change of state that it continues from."""

    checkpoint: str | None = None
    """Id of the checkpoint that it goes back to, where it was one."""

    log: int = 0
    """Records that the bank's log had at that point."""


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One conversation."""

    id: str
    name: str | None = None
    messages: int = 0
    """Those that it has from where it was forked included."""

    created_at: str | None = None
    last_at: str | None = None
    """When its last message was made, or what is kept beside them was changed."""

    agent: str | None = None
    user: str | None = None
    archived: bool = False
    checkpoints: int = 0
    """Made in it; those before its fork are of the session that it was forked from."""

    distillations: int = 0
    origin: Branch | None = None
    """Of a fork, where it begins."""

    memories: str = "all"
    """``as-of`` for a fork to which memories from after its beginning are hidden."""

    depth: int = 0
    """How many forks it is away from the session at the root of its tree."""

    provider: str | None = None
    """The software that wrote it, where that was another."""

    metadata: dict[str, Any] = {}


class MessageInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message."""

    number: int
    """From 1, in its conversation."""

    id: str
    role: str | None = None
    name: str | None = None
    content: Json = None
    """What it says: a text, or parts as its source has them."""

    text: str | None = None
    """Its words, where its content is parts."""

    attachments: list[str] = []
    """What is attached to it, such as pictures, by name."""

    created_at: str | None = None
    session: str | None = None
    """The session that it was appended to; another one for what a fork has from before."""

    more: dict[str, Any] = {}
    """What else it holds, such as tool calls."""


class NoteInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that was to be kept in mind."""

    content: str
    category: str
    id: str
    created_at: str | None = None


class StateInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept beside the messages."""

    working_state: Json = None
    thread_summary: str | None = None
    notes: list[NoteInfo] = []
    """In the order in which they were made."""


class CheckpointInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A point that can be returned to."""

    id: str
    session: str
    number: int
    """Messages up to it."""

    element: str
    """Id of the message, or of the change of state, that it points to."""

    why: str
    """``asked`` or ``distilled``."""

    name: str | None = None
    created_at: str | None = None
    log: int = 0
    """Records that the bank's log had."""

    distillation: dict[str, Any] | None = None
    """What the distillation did: its number, and what it found."""
