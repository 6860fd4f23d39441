"""The conversations of a bank, from Python."""

from collections.abc import Generator, Iterable, Mapping
from typing import Any

from satchel.actions.opened import OpenBank
from satchel.actions.sessions import branching, distilling, looking, recording
from satchel.actions.sessions.branching import Forked
from satchel.actions.sessions.distilling import Distilled
from satchel.actions.sessions.looking import MOST_SHOWN, Conversation, SessionsDiff
from satchel.actions.sessions.reading import spoken_from
from satchel.actions.sessions.recording import Beginning, Recorded
from satchel.api.lifetime import Lifetime
from satchel.continuity.shown import CheckpointShown, MessageShown, SessionShown
from satchel.memory.parts import Json
from satchel.ports.inference.distiller import Distiller

Messages = Iterable[Mapping[str, Any]]
"""As a program has them: ``{"role": "user", "content": "..."}``, with whatever else they hold."""


class Sessions:
    """The sessions of one bank; ``Bank.sessions`` gives it. Only its owner may use it.

    A session is named by its id, by six of its first digits or more, or by its name. A point of
    one is a message (its number or id), a checkpoint (its id or name), or a distillation
    (``distillation:2``, or the id of its receipt).
    """

    def __init__(self, opened: OpenBank, lifetime: Lifetime) -> None:
        self._opened = opened
        self._lifetime = lifetime

    def create(
        self,
        name: str | None = None,
        messages: Messages = (),
        *,
        agent: str | None = None,
        user: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Recorded:
        """Begin a session, with its first messages where there are some.

        Args:
            name: What people call it.
            messages: Its messages, and changes of state between them; see ``append``.
            agent: Whose conversation it is.
            user: With whom.
            metadata: Whatever else is known of it.

        Raises:
            MalformedError: If a message has no role, or a member has the wrong shape.
            ValueRefusedError, LimitError: If something cannot be kept; nothing is then.
        """
        beginning = Beginning(name=name, agent=agent, user=user, metadata=metadata or {})
        spoken = [spoken_from(dict(one)) for one in messages]
        with self._lifetime.use():
            return recording.begin(self._opened, beginning, spoken)

    def append(self, session: str, *messages: Mapping[str, Any]) -> Recorded:
        """Add messages to a session; when this returns they are durable.

        Args:
            session: Which.
            *messages: Each ``{"role": ..., "content": ...}`` with whatever else it holds, or a
                change of state as ``{"working_state": ...}``, ``{"thread_summary": ...}`` or
                ``{"note": ...}``.

        Raises:
            UnknownSessionError: If there is no such session.
            EmptyInputError: If nothing is to be added.
            MalformedError: If a message has no role, or a member has the wrong shape.
            ValueRefusedError, LimitError: If something cannot be kept; nothing is then.
        """
        spoken = [spoken_from(dict(one)) for one in messages]
        with self._lifetime.use():
            return recording.record(self._opened, session, spoken)

    def change(
        self,
        session: str,
        *,
        working_state: Json = None,
        thread_summary: str | None = None,
        note: str | None = None,
        category: str = "context",
    ) -> Recorded:
        """Change what is kept beside a session's messages; what is None stays.

        Args:
            session: Which.
            working_state: Whatever the agent keeps while it works; JSON.
            thread_summary: What the conversation was about so far.
            note: Something to keep in mind, beside the notes that there are.
            category: What kind of note: task, decision, preference, correction, context.

        Raises:
            UnknownSessionError: If there is no such session.
            UsageError: If nothing is to change.
        """
        with self._lifetime.use():
            return recording.change(
                self._opened,
                session,
                working_state=working_state,
                thread_summary=thread_summary,
                note=note,
                category=category,
            )

    def show(
        self, session: str, *, at: str | None = None, last: int | None = MOST_SHOWN
    ) -> Conversation:
        """Return a session at one of its points, with its last messages.

        Args:
            session: Which.
            at: The point; its end when None.
            last: How many messages; all when None.

        Raises:
            UnknownSessionError: If there is no such session, or no such point in it.
        """
        with self._lifetime.use():
            return looking.show_session(self._opened, session, at=at, last=last)

    def messages(self, session: str, *, at: str | None = None) -> Generator[MessageShown]:
        """Yield all messages of a session in their order, however many there are.

        Args and Raises: as ``show``.
        """
        with self._lifetime.use():
            yield from looking.messages_of(self._opened, session, at=at)

    def diff(self, one: str, other: str, *, limit: int = MOST_SHOWN) -> SessionsDiff:
        """Return where two sessions part, and what each has from there on.

        Args:
            one: A session.
            other: Another.
            limit: How many messages of each are given, at most.

        Raises:
            UnknownSessionError: If there is no such session.
        """
        with self._lifetime.use():
            return looking.diff_sessions(self._opened, one, other, limit=limit)

    def rename(self, session: str, name: str) -> SessionShown:
        """Give a session another name."""
        with self._lifetime.use():
            return branching.rename_session(self._opened, session, name)

    def archive(self, session: str, *, restore: bool = False) -> SessionShown:
        """Put a session away, or take it out again; nothing of it is lost."""
        with self._lifetime.use():
            return branching.archive_session(self._opened, session, restore=restore)

    def checkpoint(
        self, session: str, *, name: str | None = None, at: str | None = None
    ) -> CheckpointShown:
        """Keep a point of a session to return to.

        Args:
            session: Which.
            name: What to call the point.
            at: A message; the session's end when None.

        Raises:
            UnknownSessionError: If there is no such session, or no such point in it.
        """
        with self._lifetime.use():
            return branching.create_checkpoint(self._opened, session, name=name, at=at)

    def checkpoints(self, session: str) -> list[CheckpointShown]:
        """Return the points that a session can return to, those from before its fork included."""
        with self._lifetime.use():
            return looking.list_checkpoints(self._opened, session)

    def fork(
        self,
        session: str,
        *,
        at: str | None = None,
        name: str | None = None,
        as_of: bool = False,
    ) -> Forked:
        """Begin a session that goes on from a point of another one, which stays as it is.

        Args:
            session: Which.
            at: The point; the session's end when None.
            name: What to call the fork.
            as_of: Whether memories that came after the point are hidden from it.

        Raises:
            UnknownSessionError: If there is no such session, or no such point in it.
        """
        with self._lifetime.use():
            return branching.fork(self._opened, session, at=at, name=name, as_of=as_of)

    def distill(
        self,
        session: str,
        *,
        distiller: Distiller | None = None,
        name: str | None = None,
        dry_run: bool = False,
    ) -> Distilled:
        """Draw a summary and memories from the messages since the last distillation.

        Args:
            session: Which.
            distiller: What does it, such as one that asks a model; the one that is configured when
                None.
            name: What to call the checkpoint that is made.
            dry_run: Whether to leave everything as it is.

        Raises:
            UnknownSessionError: If there is no such session.
            EmptyInputError: If it has no messages that were not distilled.
            ValueRefusedError: If the distiller gave what cannot be kept.
        """
        with self._lifetime.use():
            return distilling.distill(
                self._opened, session, distiller=distiller, name=name, dry_run=dry_run
            )

    def list(self, *, archived: bool = False, limit: int | None = None) -> list[SessionShown]:
        """Return the sessions: each tree of forks together, a fork after what it is from.

        Args:
            archived: Whether archived sessions are listed too.
            limit: How many at most, the newest; None for all.

        Raises:
            UsageError: If the limit is less than 1.
        """
        with self._lifetime.use():
            return looking.list_sessions(self._opened, archived=archived, limit=limit)


class Conversing:
    """A bank as it keeps conversations."""

    _opened: OpenBank
    _lifetime: Lifetime

    @property
    def sessions(self) -> Sessions:
        """Its conversations: recording them, and going back to a point of one."""
        return Sessions(self._opened, self._lifetime)
