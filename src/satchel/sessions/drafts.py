"""Drafts of the records of a conversation, which the caller appends to the log."""

from collections.abc import Callable
from typing import Any

import msgspec

from satchel.crypto.canonical import DEFAULT_LIMITS, Limits
from satchel.crypto.sealed_records import Nonces, Sealed, random_nonce, seal
from satchel.errors import UsageError
from satchel.model.records import Model, SessionEvent
from satchel.model.text import Message, SessionChange
from satchel.model.values import JsonObject, Origin, Scope, now
from satchel.sessions.elements import KINDS, NOTE, SUMMARY, WORKING, Tip, latest_after

Screen = Callable[[Model], Model]
"""Returns a record with its secrets counted or replaced."""

ASKED, DISTILLED = "asked", "distilled"
"""Why a checkpoint was created."""


class LogHead(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a bank's log."""

    size: int
    """Number of records."""

    root: str


def new_session(
    name: str | None = None,
    *,
    created_at: str | None = None,
    scope: Scope | None = None,
    metadata: JsonObject | None = None,
    origin: Origin | None = None,
    nonces: Nonces = random_nonce,
) -> Sealed:
    """Return the first record of a conversation, whose ID is the session's.

    Args:
        name: Name of the conversation.
        created_at: Canonical time; None for now.
        scope: Its owner.
        metadata: Other data, such as ``{"type": "background"}``.
        origin: Its origin, if it is imported.
        nonces: Source of nonces.
    """
    return seal(
        SessionEvent(
            event="session",
            name=name,
            created_at=created_at or now(),
            scope=scope,
            metadata=metadata or {},
            origin=origin,
        ),
        nonces=nonces,
    )


class Recorder:
    """Makes consecutive elements of one session, each linked to the previous one.

    It logs nothing: the caller appends all of the records, in their order, without concurrent
    appends to the session.

    Args:
        tip: The last element; ``Tip(id, id)`` for a new session.
        screen: Screens each record.
        nonces: Source of nonces.
        limits: Limits of a record.
        origin: Origin of elements that name none.
    """

    def __init__(
        self,
        tip: Tip,
        *,
        screen: Screen | None = None,
        nonces: Nonces = random_nonce,
        limits: Limits = DEFAULT_LIMITS,
        origin: Origin | None = None,
    ) -> None:
        self.tip = tip
        """The last element."""

        self._screen = screen
        self._nonces = nonces
        self._limits = limits
        self._origin = origin

    def message(self, message: Message) -> Sealed:
        """Return the record of the next message.

        Raises:
            ValueRefusedError: If it cannot be JSON, or a time is not valid.
            LimitError: If it is too large.
        """
        state = self._numbering(number=self.tip.number + 1)
        if self.tip.state is not None:
            state["state"] = self.tip.state
        is_text = isinstance(message.content, str)
        record = self._sealed(
            SessionEvent(
                event="message",
                session=self.tip.session,
                parent=self.tip.element,
                role=message.role,
                name=message.name,
                text=message.content if is_text else None,
                content=None if is_text else message.content,
                state=state,
                created_at=message.created_at or now(),
                metadata=message.more,
                origin=message.origin or self._origin,
            )
        )
        self._advance(record, self.tip.number + 1, self.tip.state, self.tip.latest)
        return record

    def change(self, changed: SessionChange, *, created_at: str | None = None) -> Sealed:
        """Return the record of a change of the state beside the messages.

        Raises:
            UsageError: If nothing changes.
            ValueRefusedError: If it cannot be JSON, or a time is not valid.
            LimitError: If it is too large.
        """
        members = {
            WORKING: changed.working_state,
            SUMMARY: changed.thread_summary,
            NOTE: changed.note,
        }
        new = {kind: value for kind, value in members.items() if value is not None}
        if not new:
            hint = f"Give one of: {', '.join(KINDS)}."
            raise UsageError("no change given", field="state", hint=hint)
        state = {**self._numbering(number=self.tip.number), **msgspec.to_builtins(new)}
        if self.tip.latest:
            state["latest"] = self.tip.latest
        record = self._sealed(
            SessionEvent(
                event="session",
                session=self.tip.session,
                parent=self.tip.element,
                state=state,
                created_at=created_at or now(),
                origin=self._origin,
            )
        )
        latest = latest_after(record.model, record.id)
        self._advance(record, self.tip.number, record.id, latest)
        return record

    def checkpoint(
        self,
        log: LogHead,
        *,
        as_of: int | None = None,
        name: str | None = None,
        created_at: str | None = None,
        distillation: JsonObject | None = None,
    ) -> Sealed:
        """Return a pointer to the tip of a conversation: a checkpoint.

        Args:
            log: Head of the bank's log.
            as_of: Size of the bank's log at the tip; None for its size at the checkpoint itself.
            name: Name of the checkpoint.
            created_at: Canonical time; None for now.
            distillation: Result of a distillation, if that is the reason.
        """
        state = self._pointer(log, as_of)
        state["why"] = ASKED if distillation is None else DISTILLED
        if distillation is not None:
            state["distillation"] = distillation
        return seal(
            SessionEvent(
                event="checkpoint",
                session=self.tip.session,
                parent=self.tip.element,
                name=name,
                state=state,
                created_at=created_at or now(),
                origin=self._origin,
            ),
            nonces=self._nonces,
            limits=self._limits,
        )

    def fork(
        self,
        log: LogHead,
        *,
        source: str,
        as_of: int,
        name: str | None = None,
        checkpoint: str | None = None,
        hides: bool = False,
    ) -> Sealed:
        """Return the record of a new session that continues from the tip; nothing is copied.

        Args:
            log: Head of the bank's log.
            source: The session to fork.
            as_of: Size of the bank's log at the tip.
            name: Name of the new session.
            checkpoint: ID of the checkpoint to fork from.
            hides: Whether memories added after the tip are hidden from it.
        """
        state = self._pointer(log, as_of)
        # Not as its session: the records of a session are scanned for its end.
        state["source"] = source
        if checkpoint is not None:
            state["checkpoint"] = checkpoint
        if hides:
            state["memories"] = "as-of"
        return seal(
            SessionEvent(
                event="fork",
                parent=self.tip.element,
                name=name,
                state=state,
                created_at=now(),
                origin=self._origin,
            ),
            nonces=self._nonces,
            limits=self._limits,
        )

    def _numbering(self, *, number: int) -> dict[str, Any]:
        return {"number": number, "step": self.tip.step + 1}

    def _pointer(self, log: LogHead, as_of: int | None) -> dict[str, Any]:
        state: dict[str, Any] = {"number": self.tip.number, "step": self.tip.step}
        if self.tip.state is not None:
            state["state"] = self.tip.state
        if as_of is not None:
            state["as_of"] = as_of
        return {**state, "log": {"size": log.size, "root": log.root}}

    def _sealed(self, draft: SessionEvent) -> Sealed:
        screened = draft if self._screen is None else self._screen(draft)
        return seal(screened, nonces=self._nonces, limits=self._limits)

    def _advance(
        self, record: Sealed, number: int, state: str | None, latest: dict[str, str]
    ) -> None:
        self.tip = Tip(self.tip.session, record.id, number, self.tip.step + 1, state, latest)


def about(
    session: str,
    start: str,
    *,
    name: str | None = None,
    archived: bool | None = None,
    tip: str | None = None,
) -> Sealed:
    """Return the record that renames, archives or unarchives a session.

    Args:
        session: The name by which the session's messages refer to it.
        start: ID of its record.
        name: The new name; None for no change.
        archived: Whether it is archived; None for no change.
        tip: ID of its last element, as an index if many were imported.
    """
    members = {"archived": archived, "tip": tip}
    return seal(
        SessionEvent(
            event="session",
            session=session,
            parent=start,
            name=name,
            state={name: value for name, value in members.items() if value is not None} or None,
            created_at=now(),
        )
    )
