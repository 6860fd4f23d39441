"""Points of a conversation that can be returned to, and going on from one in a new session."""

import msgspec

from satchel.actions.memories.remembering import MOST_TRIES
from satchel.actions.opened import OpenBank
from satchel.actions.permitted.owning import require_owner
from satchel.actions.sessions.looking import memories_since
from satchel.continuity import finding
from satchel.continuity.drafting import LogHead, Recorder, about
from satchel.continuity.elements import key_of
from satchel.continuity.points import point_at
from satchel.continuity.shown import CheckpointShown, SessionShown
from satchel.errors import ChangedError, UsageError
from satchel.ledger.logged import Unchanged
from satchel.ledger.view import View


class Forked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A new session that goes on from a point of another."""

    id: str
    """Its id."""

    source: str
    """Id of the session that it was forked from."""

    messages: int
    """How many it has from there; none of them was copied."""

    element: str
    """Id of the message, or change of state, that it goes on from."""

    name: str | None = None
    checkpoint: str | None = None
    """Id of the checkpoint that it goes back to, where it was one."""

    memories: str = "all"
    """``all``, or ``as-of`` where memories that came after the point are hidden from it."""

    memories_later: int = 0
    """Memories that came after the point; all of them are kept."""


def create_checkpoint(
    bank: OpenBank, session: str, *, name: str | None = None, at: str | None = None
) -> CheckpointShown:
    """Keep a point of a session to return to; it costs one small record.

    Args:
        bank: The bank.
        session: Its id, the start of that, or its name.
        name: What to call the point.
        at: A message, as for ``fork``; None for its end as it is.

    Raises:
        UnknownSessionError: If there is no such session, or no such point in it.
        UsageError: If several are meant, or the name is empty.
    """
    require_owner(bank.settings, "sessions")
    _require_name(name)
    with bank.ledger.reading() as view:
        start = finding.find(view, session)
        point = point_at(view, start, at)
        made = Recorder(point.tip).checkpoint(
            _head(view), name=name, as_of=None if at is None else point.log
        )
    bank.ledger.append([made])
    with bank.ledger.reading() as view:
        return finding.checkpoint(view.get([made.id])[made.id])


def fork(
    bank: OpenBank,
    session: str,
    *,
    at: str | None = None,
    name: str | None = None,
    as_of: bool = False,
) -> Forked:
    """Begin a session that goes on from a point of another one, which stays as it is.

    Nothing is copied: the fork is one record that names the point. What is kept beside the
    messages is as it was there. Memories that came later are kept.

    Args:
        bank: The bank.
        session: Its id, the start of that, or its name.
        at: The point: a message (its number, id or the start of that), a checkpoint (its id, the
            start of that, or its name), or a distillation (``distillation:2``, or the id of its
            receipt). None for its end as it is.
        name: What to call the fork.
        as_of: Whether memories that came after the point are hidden from it.

    Raises:
        UnknownSessionError: If there is no such session, or no such point in it.
        UsageError: If several are meant, or the name is empty.
    """
    require_owner(bank.settings, "sessions")
    _require_name(name)
    with bank.ledger.reading() as view:
        start = finding.find(view, session)
        point = point_at(view, start, at)
        checkpoint = None if point.checkpoint is None else point.checkpoint.record.id
        made = Recorder(point.tip).fork(
            _head(view),
            source=key_of(start),
            as_of=point.log,
            name=name,
            checkpoint=checkpoint,
            hides=as_of,
        )
        messages, element = point.tip.number, point.tip.element
        later = memories_since(view, point.log)
    bank.ledger.append([made])
    return Forked(
        id=made.id,
        source=start.record.id,
        messages=messages,
        element=element,
        name=name,
        checkpoint=checkpoint,
        memories="as-of" if as_of else "all",
        memories_later=later,
    )


def rename_session(bank: OpenBank, session: str, name: str) -> SessionShown:
    """Give a session another name; its messages stay as they are.

    Raises:
        UnknownSessionError: If there is no such session.
        UsageError: If several are meant, or the name is empty.
    """
    require_owner(bank.settings, "sessions")
    _require_name(name)
    return _said(bank, session, name=name)


def archive_session(bank: OpenBank, session: str, *, restore: bool = False) -> SessionShown:
    """Put a session away, or take it out again; nothing of it is lost.

    Raises:
        UnknownSessionError: If there is no such session.
        UsageError: If several are meant.
    """
    require_owner(bank.settings, "sessions")
    return _said(bank, session, archived=not restore)


def _said(
    bank: OpenBank, session: str, *, name: str | None = None, archived: bool | None = None
) -> SessionShown:
    for turn in range(MOST_TRIES):
        with bank.ledger.reading() as view:
            start = finding.find(view, session)
            shown = finding.session(view, start)
            if name in (None, shown.name) and archived in (None, shown.archived):
                return shown
            given, session = Unchanged(view.head.size, [], (key_of(start),)), start.record.id
        made = about(key_of(start), start.record.id, name=name, archived=archived)
        try:
            bank.ledger.append([made], given=given)
        except ChangedError:
            if turn == MOST_TRIES - 1:
                raise
    raise AssertionError("unreachable")


def _require_name(name: str | None) -> None:
    if name is not None and not name.strip():
        raise UsageError("a name cannot be empty", field="name")


def _head(view: View) -> LogHead:
    return LogHead(size=view.head.size, root=view.head.root)
