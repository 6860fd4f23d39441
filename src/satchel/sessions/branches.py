"""Checkpoints of conversations, and forks that continue from a point in a new session."""

import msgspec

from satchel.bank.changes import MOST_TRIES
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import OpenBank
from satchel.config.options import FEW_FOR_MODELS
from satchel.errors import ChangedError, UsageError
from satchel.ledger.projection import Precondition
from satchel.ledger.view import View
from satchel.ports.operations import operation
from satchel.sessions import lookup
from satchel.sessions.drafts import LogHead, Recorder, about
from satchel.sessions.elements import key_of
from satchel.sessions.lookup import point_at
from satchel.sessions.options import (
    OWNER_ONLY,
    ArchiveOptions,
    CheckpointOptions,
    ForkOptions,
    RenameOptions,
)
from satchel.sessions.queries import memories_since
from satchel.sessions.views import CheckpointInfo, SessionInfo


class ForkResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A new session that continues from a point of another."""

    id: str
    """Its ID."""

    source: str
    """ID of the session that it was forked from."""

    messages: int
    """Number of messages from before the fork, which are not copied."""

    element: str
    """ID of the message or change of state that it continues from."""

    name: str | None = None
    checkpoint: str | None = None
    """ID of the checkpoint that it was forked from, if any."""

    memories: str = "all"
    """``all``, or ``as-of`` if memories added after the point are hidden from it."""

    memories_later: int = 0
    """Number of memories added after the point."""


@operation(
    CheckpointOptions,
    name="session checkpoint create",
    example='satchel session checkpoint create trip --name "before booking"',
    absent=OWNER_ONLY,
)
def create_checkpoint(bank: OpenBank, options: CheckpointOptions) -> CheckpointInfo:
    """Create a checkpoint: a point of a conversation to return to. Default: its end.

    Raises:
        UnknownSessionError: If there is no such conversation, or no such point in it.
        UsageError: If several match, or the name is empty.
    """
    require_owner(bank.settings, "sessions")
    _require_name(options.name)
    with bank.ledger.reading() as view:
        start = lookup.find(view, options.session)
        point = point_at(view, start, options.at)
        checkpoint = Recorder(point.tip).checkpoint(
            _head(view), name=options.name, as_of=None if options.at is None else point.log
        )
    bank.ledger.append([checkpoint])
    with bank.ledger.reading() as view:
        return lookup.checkpoint(view.get([checkpoint.id])[checkpoint.id])


@operation(
    ForkOptions,
    name="session fork",
    example='satchel session fork trip --at 50 --name "trip by train"',
    for_models=FEW_FOR_MODELS,
)
def fork(bank: OpenBank, options: ForkOptions) -> ForkResult:
    """Fork a conversation: start a new one that continues from a point of it.

    Nothing is copied, and the conversation stays as it is. Later messages are not in the fork, and
    the state beside the messages is that of the point. At a terminal, without a conversation, one
    can be chosen.

    Raises:
        UnknownSessionError: If there is no such conversation, or no such point in it.
        UsageError: If none is named or several match, or the name is empty.
    """
    require_owner(bank.settings, "sessions")
    _require_name(options.name)
    if options.session is None:
        raise UsageError(
            "no conversation given", field="session", hint="See: satchel session list."
        )
    with bank.ledger.reading() as view:
        start = lookup.find(view, options.session)
        point = point_at(view, start, options.at)
        checkpoint = None if point.checkpoint is None else point.checkpoint.record.id
        record = Recorder(point.tip).fork(
            _head(view),
            source=key_of(start),
            as_of=point.log,
            name=options.name,
            checkpoint=checkpoint,
            hides=options.memories == "as-of",
        )
        messages, element = point.tip.number, point.tip.element
        later = memories_since(view, point.log)
    bank.ledger.append([record])
    return ForkResult(
        id=record.id,
        source=start.record.id,
        messages=messages,
        element=element,
        name=options.name,
        checkpoint=checkpoint,
        memories=options.memories,
        memories_later=later,
    )


@operation(
    RenameOptions,
    name="session rename",
    example='satchel session rename 3f9a2c "trip to Oslo"',
    absent=OWNER_ONLY,
)
def rename_session(bank: OpenBank, options: RenameOptions) -> SessionInfo:
    """Rename a conversation.

    Raises:
        UnknownSessionError: If there is no such conversation.
        UsageError: If several match, or the name is empty.
    """
    require_owner(bank.settings, "sessions")
    _require_name(options.name)
    return _change_session(bank, options.session, name=options.name)


@operation(
    ArchiveOptions,
    name="session archive",
    example="satchel session archive trip",
    absent=OWNER_ONLY,
)
def archive_session(bank: OpenBank, options: ArchiveOptions) -> SessionInfo:
    """Archive a conversation: it is no longer listed, but nothing is deleted.

    Raises:
        UnknownSessionError: If there is no such conversation.
        UsageError: If several match.
    """
    require_owner(bank.settings, "sessions")
    return _change_session(bank, options.session, archived=not options.restore)


def _change_session(
    bank: OpenBank, session: str, *, name: str | None = None, archived: bool | None = None
) -> SessionInfo:
    for attempt in range(MOST_TRIES):
        with bank.ledger.reading() as view:
            start = lookup.find(view, session)
            current = lookup.session(view, start)
            if name in (None, current.name) and archived in (None, current.archived):
                return current
            unchanged, session = Precondition(view.head.size, [], (key_of(start),)), start.record.id
        record = about(key_of(start), start.record.id, name=name, archived=archived)
        try:
            bank.ledger.append([record], precondition=unchanged)
        except ChangedError:
            if attempt == MOST_TRIES - 1:
                raise
    raise AssertionError("unreachable")


def _require_name(name: str | None) -> None:
    if name is not None and not name.strip():
        raise UsageError("a name must not be empty", field="name")


def _head(view: View) -> LogHead:
    return LogHead(size=view.head.size, root=view.head.root)
