"""The conversations of a bank, from Python."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from satchel.api.lazy import lazy
from satchel.api.operations import method
from satchel.api.parts import BankPart

if TYPE_CHECKING:
    from satchel.actions.opened import OpenBank
    from satchel.actions.sessions import branching, distilling, looking, operations
    from satchel.api.lifetime import Lifetime
    from satchel.continuity.shown import MessageShown
else:
    branching = lazy("satchel.actions.sessions.branching")
    distilling = lazy("satchel.actions.sessions.distilling")
    looking = lazy("satchel.actions.sessions.looking")
    operations = lazy("satchel.actions.sessions.operations")


class SessionCalls(BankPart):
    """The calls of ``Sessions``, awaited or not."""

    record = method(operations.record_session)
    set = method(operations.set_state)
    show = method(looking.show_session)
    diff = method(looking.diff_sessions)
    rename = method(branching.rename_session)
    archive = method(branching.archive_session)
    checkpoint = method(branching.create_checkpoint)
    checkpoints = method(looking.list_checkpoints)
    fork = method(branching.fork)
    distill = method(distilling.distill)

    list = method(looking.list_sessions)


class Sessions(SessionCalls):
    """The conversations of one bank; ``Bank.sessions`` gives it. Only its owner may use it.

    A conversation is named by its name, its ID or a prefix of that. A point of one is a message
    (its number or ID), a checkpoint (its name or ID), or a distillation (``distillation:2``, or the
    ID of its receipt).
    """

    def messages(self, session: str, *, at: str | None = None) -> Generator[MessageShown]:
        """Yield all messages of a conversation in their order, however many there are.

        Args and Raises: as ``show``.
        """
        from satchel.actions.sessions.looking import messages_of

        with self._lifetime.use():
            yield from messages_of(self._opened, session, at=at)


class Conversing:
    """A bank as it stores conversations."""

    _opened: OpenBank
    _lifetime: Lifetime

    @property
    def sessions(self) -> Sessions:
        """Its conversations: recorded, shown, forked and distilled."""
        return Sessions(self._opened, self._lifetime)
