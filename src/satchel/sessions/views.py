"""Conversations as interfaces show them."""

from typing import Any

import msgspec

from satchel.model.values import Json


class Branch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The point of a fork."""

    session: str
    """ID of the session that was forked."""

    number: int
    """Number of messages from before the fork."""

    element: str
    """ID of the message or change of state that it continues from."""

    checkpoint: str | None = None
    """ID of the checkpoint that it was forked from, if any."""

    log: int = 0
    """Size of the bank's log at that point."""


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One conversation."""

    id: str
    name: str | None = None
    messages: int = 0
    """Number of messages, including those from before a fork."""

    created_at: str | None = None
    last_at: str | None = None
    """Time of its last message or change of state."""

    agent: str | None = None
    user: str | None = None
    archived: bool = False
    checkpoints: int = 0
    """Number of its checkpoints; those before a fork belong to the session that was forked."""

    distillations: int = 0
    origin: Branch | None = None
    """The point of the fork; None if it is not a fork."""

    memories: str = "all"
    """``as-of`` for a fork from which memories added after its point are hidden."""

    depth: int = 0
    """Number of forks between it and the root of its tree."""

    provider: str | None = None
    """The software that wrote it, if not Satchel."""

    metadata: dict[str, Any] = {}


class MessageInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message."""

    number: int
    """Number in its conversation, from 1."""

    id: str
    role: str | None = None
    name: str | None = None
    content: Json = None
    """A text, or parts in the form of the source."""

    text: str | None = None
    """Its text, if the content is parts."""

    attachments: list[str] = []
    """Names of its attachments, such as pictures."""

    created_at: str | None = None
    session: str | None = None
    """The session that it was appended to; another one for messages before a fork."""

    more: dict[str, Any] = {}
    """Other members, such as tool calls."""


class NoteInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A note of a conversation."""

    content: str
    category: str
    id: str
    created_at: str | None = None


class StateInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state beside the messages."""

    working_state: Json = None
    thread_summary: str | None = None
    notes: list[NoteInfo] = []
    """Oldest first."""


class CheckpointInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A checkpoint."""

    id: str
    session: str
    number: int
    """Number of messages up to it."""

    element: str
    """ID of the message or change of state that it points to."""

    why: str
    """``asked`` or ``distilled``."""

    name: str | None = None
    created_at: str | None = None
    log: int = 0
    """Size of the bank's log."""

    distillation: dict[str, Any] | None = None
    """The distillation: its number and results."""
