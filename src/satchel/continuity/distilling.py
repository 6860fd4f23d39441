"""The messages of a conversation as a distiller takes them, and the records that come of it."""

from array import array
from collections.abc import Iterator

from satchel.continuity.chains import at_places, places
from satchel.continuity.elements import count_in, event_of, key_of
from satchel.continuity.finding import checkpoints
from satchel.continuity.points import Point
from satchel.continuity.shown import CheckpointShown
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.entries import Semantic
from satchel.memory.messages import words_of
from satchel.memory.parts import Evidence, Origin, Scope, TrustClass
from satchel.memory.records import Edge, SessionEvent
from satchel.ports.inference.distiller import Finding, Turn
from satchel.ports.rows import DERIVES_FROM

_MOST_NUMBER = 2**31


class Turns:
    """The messages of a conversation since it was last distilled; each iteration reads them again.

    Args:
        view: The bank; it has to stay open meanwhile.
        start: The session or the fork.
        point: How far.
    """

    def __init__(self, view: View, start: Logged, point: Point) -> None:
        before = [one for one in checkpoints(view, start) if one.distillation is not None]
        done = [one for one in before if one.number <= point.tip.number]
        self.number = 1 + max([len(done), *map(_number, done)])
        """Of the distillation that is about to be made."""

        self.after = done[-1].number if done else 0
        """Messages that were distilled before."""

        self._view = view
        self._places: array[int] = places(view, point.element, since=self.after)

    def __iter__(self) -> Iterator[Turn]:
        number = self.after
        for logged in at_places(self._view, self._places):
            model = logged.model
            if isinstance(model, SessionEvent) and event_of(model) == "message":
                counted = count_in(model, "number")
                number = counted if counted > 0 else number + 1
                text = words_of(model.content if model.text is None else model.text)
                yield Turn(logged.record.id, number, model.role or "", text)


def _number(done: CheckpointShown) -> int:
    """Return which distillation of its conversation one was: the first ones may not have come."""
    found = (done.distillation or {}).get("number")
    return found if type(found) is int and found < _MOST_NUMBER else 0


def memory_of(finding: Finding, start: Logged, at: str, provider: str) -> Semantic:
    """Return the memory of a finding, with the messages that it comes from.

    It claims no more trust than what an agent says: whoever spoke, it was not said to be kept.
    """
    model = start.model
    said = model.scope if isinstance(model, SessionEvent) else None
    whose = said or Scope()
    return Semantic(
        text=finding.text,
        kind=finding.kind,
        created_at=at,
        scope=Scope(user=whose.user, agent=whose.agent, app=whose.app, run=key_of(start)),
        sources=tuple(Evidence(kind="message", id=turn) for turn in finding.turns),
        origin=Origin(provider=provider, trust=TrustClass.AGENT),
    )


def edges_of(identity: str, finding: Finding) -> list[Edge]:
    """Return the links from a memory to the messages that it comes from."""
    return [Edge(source=identity, target=turn, kind=DERIVES_FROM) for turn in finding.turns]
